//! Importers of foreign formats, one file or folder each, and [`open`], which opens every format and `.kine` files.
//!
//! The table [`IMPORTERS`] lists the formats. A new importer needs one file, its `mod` line here, and one entry there;
//! `CONTRIBUTING.md` shows each step.

mod bytes;
pub mod chains;
mod counting_reader;
mod decompress;
pub mod driver_log;
mod error;
mod file_description;
mod formats;
mod generated_tables;
pub mod gpureplay;
mod json_head;
pub mod kernels;
mod mapped_files;
pub mod mmt;
pub mod nvidia_log;
mod open;
mod opened;
pub mod panfrostdump;
pub mod processes;
pub mod raw_memory;
pub mod rd;
#[cfg(test)]
mod test_recordings;
pub mod trace;
mod unknown_format;
mod unpack_limit;
mod unpacked_file;

pub use error::{FilePosition, ImportError};
pub use formats::{IMPORTERS, Importer, fits, list_formats, parts};
pub use open::{OpenOptions, open};
pub use opened::{Opened, OpenedRecording};
pub use unknown_format::recordings_in;
