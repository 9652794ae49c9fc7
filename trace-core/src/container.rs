//! The `.kine` container: write, open by memory map, verify, recover. `docs/format.md` specifies every byte.
//!
//! A file only ever grows. Each commit appends sections (column chunks, page images, records) and a table of them. It
//! ends with a commit record that links to the previous one. Bytes after the last complete commit are ignored, so a
//! file whose writer died opens at its last commit.

mod blocks;
mod error;
mod layout;
mod map;
mod mapped_recordings;
mod metadata_records;
mod reader;
mod recover;
mod save;
mod sections;
mod sink;
mod source;
mod transfer;
mod verify;
mod verify_rows;
mod writer;

pub use error::{ContainerError, MetadataDefect, MetadataError};
pub use layout::{Encoding, VERSION, VERSION_WITHOUT_BLOCKS};
pub use mapped_recordings::recording_at;
pub use metadata_records::{MetadataTag, decode_metadata, encode_metadata};
pub use reader::{Derived, KineFile, SectionInfo};
pub use save::{append, to_bytes, write, write_streamed, write_with};
pub use sink::{FileSink, MemorySink, Sink};
pub use transfer::TransferBytes;
pub use verify::{MAX_VERIFY_FINDINGS, VerifyFinding, VerifyReport, verify, verify_bytes, verify_with};
pub use writer::{Commit, Writer};

use crate::Recording;
use crate::progress::Progress;
use std::path::Path;

#[cfg(target_endian = "big")]
compile_error!("columns are borrowed from the file in little-endian order, but this machine is big-endian");

/// Opens a file at its last complete commit. The time does not depend on the size of the file: columns and page
/// images are lent from the mapped file, and only metadata is read.
///
/// Bytes of the file are verified against their digests at first use. Damaged data is never used, the rest is, and
/// [`Recording::damage`] lists the damage found so far.
///
/// # Errors
/// If the file cannot be read, is not a recording, has a newer version, holds no complete commit, or its metadata
/// contradicts itself. The message names the file and the byte.
pub fn open(path: &Path) -> Result<Recording, ContainerError> {
    open_with(path, &Progress::new())
}

/// Does the same as [`open`], with progress and cancellation. In a file that was not finished, or that ends in a long
/// run of unused bytes, the last complete commit must be searched for.
///
/// # Errors
/// The same as [`open`], or if cancelled.
pub fn open_with(path: &Path, progress: &Progress) -> Result<Recording, ContainerError> {
    let file = KineFile::open_with(path, progress)?;
    progress.check()?;
    file.recording()
}

/// Opens a recording from the bytes of a file, such as an outcome received over the network. Verifies all digests.
///
/// # Errors
/// The same as [`open`], and if something is damaged.
pub fn from_bytes(bytes: Vec<u8>) -> Result<Recording, ContainerError> {
    let file = KineFile::from_bytes(bytes)?;
    let recording = file.recording()?;
    match recording.find_damage(&Progress::new())? {
        None => Ok(recording),
        Some(block) => Err(file.source.damaged_error(block.bytes.start, block.to_string())),
    }
}

/// Returns the sections that the last complete commit of a file lists, in the order in which they were written.
///
/// # Errors
/// The same as [`open`].
pub fn sections(path: &Path) -> Result<Vec<SectionInfo>, ContainerError> {
    Ok(KineFile::open(path)?.sections())
}
