//! Importers of foreign formats, one file or folder each, and [`open`], which opens every format and `.kine` files.
//!
//! The table [`IMPORTERS`] lists the formats. A new importer needs one file, its `mod` line here, and one entry there;
//! `CONTRIBUTING.md` shows each step.

mod archive;
mod bytes;
mod candidates;
pub mod chains;
mod copied_memory;
mod core_dump_kind;
pub mod core_dumps;
mod counting_reader;
mod decompress;
pub mod driver_log;
mod error;
mod file_description;
mod file_part;
mod formats;
mod generated_tables;
pub mod gpureplay;
pub mod hrr;
pub mod iree;
mod json_head;
pub mod kernels;
mod mapped_files;
mod memory_dumps;
pub mod mmt;
pub mod nvidia_log;
mod open;
mod opened;
mod packed_folder;
mod packing;
pub mod panfrostdump;
pub mod processes;
pub mod raw_memory;
pub mod rd;
mod read_ahead;
mod source_files;
mod source_path;
#[cfg(test)]
mod test_recordings;
pub mod trace;
mod unknown_format;
mod unpack_limit;
mod unpacked_file;

pub use error::{FilePosition, ImportError};
pub use formats::{Confidence, IMPORTERS, Importer, list_formats};
pub use open::{OpenOptions, open};
pub use opened::{Opened, OpenedRecording};
pub use source_files::{fits, parts, recordings_in_archive};
pub use unknown_format::recordings_in;
pub use unpacked_file::open_unpacked;
