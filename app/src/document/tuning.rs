//! Tuning of a recorded launch: launches, parameters, and results as a table and as a map.

pub mod board;
pub mod clocks;
pub mod code;
pub mod form;
pub mod launches;
pub mod lists;
pub mod map;
pub mod state;
pub mod table;
pub mod tolerance;
