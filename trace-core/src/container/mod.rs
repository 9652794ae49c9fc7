//! The `.kine` container: write, open by memory map, verify, recover. `docs/format.md` specifies it to the byte.
//!
//! A file only ever grows. Each commit appends sections (column chunks, page images, records) and a table of them,
//! and ends in a commit record that names the one before. What lies behind the last whole commit is ignored, so a
//! file whose writer died opens at its last commit.

mod blocks;
mod error;
mod layout;
mod map;
mod mapped_recordings;
mod reader;
mod recover;
mod save;
mod sections;
mod sink;
mod source;
mod verify;
mod verify_rows;
mod writer;

pub use error::ContainerError;
pub use layout::{Encoding, SectionKind, VERSION, VERSION_WITHOUT_BLOCKS};
pub use mapped_recordings::recording_at;
pub use reader::{Derived, KineFile, SectionInfo};
pub use save::{append, to_bytes, write, write_streamed, write_with};
pub use sink::{FileSink, MemorySink, Sink};
pub use verify::{MAX_VERIFY_FINDINGS, VerifyFinding, VerifyReport, verify, verify_bytes, verify_with};
pub use writer::{Commit, Writer};

use crate::Recording;
use crate::progress::Progress;
use std::path::Path;

#[cfg(target_endian = "big")]
compile_error!("columns are lent from the file as they lie there, little-endian: this machine's order is the other");

/// Opens a file at its last whole commit. Takes as long for a large file as for a small one: columns and page images
/// are lent from the mapped file, and only its metadata is read.
///
/// Bytes of the file are compared with their digests when they are first used. What is damaged is never used, the rest
/// is, and [`Recording::damage`] lists what was met.
///
/// # Errors
/// When the file cannot be read, is not a recording, is of a newer version, holds no whole commit, or its metadata
/// contradicts itself; the message names the file and the byte.
pub fn open(path: &Path) -> Result<Recording, ContainerError> {
    open_with(path, &Progress::new())
}

/// As [`open`], with progress and cancel: in a file that was not finished, or that ends in a long run of nothing, the
/// last whole commit has to be looked for.
///
/// # Errors
/// As [`open`], or when cancelled.
pub fn open_with(path: &Path, progress: &Progress) -> Result<Recording, ContainerError> {
    let file = KineFile::open_with(path, progress)?;
    progress.check()?;
    file.recording()
}

/// The recording in a file's bytes, such as an outcome that came over the wire. All of it is compared with its digests.
///
/// # Errors
/// As [`open`], and when something is damaged.
pub fn from_bytes(bytes: Vec<u8>) -> Result<Recording, ContainerError> {
    let file = KineFile::from_bytes(bytes)?;
    let recording = file.recording()?;
    match recording.find_damage(&Progress::new())? {
        None => Ok(recording),
        Some(block) => Err(file.source.damaged_error(block.bytes.start, block.to_string())),
    }
}

/// The sections that the last whole commit of a file lists, in the order in which they were written.
///
/// # Errors
/// As [`open`].
pub fn sections(path: &Path) -> Result<Vec<SectionInfo>, ContainerError> {
    Ok(KineFile::open(path)?.sections())
}
