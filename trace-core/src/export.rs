//! Export of a recording to other formats: its events as CSV, JSON Lines, or GPUReplay's history.

mod text;

pub use text::{write_csv, write_io_history, write_json_lines};
