//! A recording written in other people's formats: its events as CSV, JSON lines, or GPUReplay's history.

mod text;

pub use text::{csv, io_history, json_lines};
