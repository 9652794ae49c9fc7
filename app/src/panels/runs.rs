//! Panels that run a recording again: with other inputs, on a target, with other launch settings.

pub mod campaign;
pub mod inputs;
pub mod pipeline;
pub mod replay;
pub mod tune;
