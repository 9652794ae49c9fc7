//! The panels, in groups, and the table that registers them.

pub mod api_trace;
pub mod common;
pub mod compare;
pub mod contents;
pub mod driver_trace;
pub mod gpu;
pub mod log;
pub mod recording;
pub mod runs;
pub mod sides;
mod table;
pub mod views;
pub mod wasm;

pub use table::{PANELS, Panel, apply_action, by_id, is_known};
