//! A recording written in other people's formats: its events as CSV, JSON lines, or GPUReplay's history.

mod text;

pub use text::{write_csv, write_io_history, write_json_lines};
