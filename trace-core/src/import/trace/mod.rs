//! Text logs of drivers' accesses to real devices: one file a format, and what they share. Plain or packed by gzip; known
//! by their first lines.
//!
//! Blocks of whole lines are read by one thread, parsed by several, each block by itself, and taken in order
//! ([`log`]): memory is taken for the recording's columns and the blocks under way, whatever the file's length.

mod device;
mod log;
mod mmiotrace;
mod rows;
mod screen;
mod source;
mod text;
mod windows;

pub use device::DeviceName;

use super::error::ImportError;
use crate::Recording;
use crate::progress::Progress;
use std::path::{Path, PathBuf};

/// Bytes of a log that are looked at to know its format.
const HEAD: usize = 1 << 14;
/// Lines of it that may be of something else before the first that counts.
const HEAD_LINES: usize = 32;

/// What a log does not tell of itself, or what a person wants of it.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The device to import; where none is named, the one whose registers are accessed most.
    pub device: Option<DeviceName>,
}

/// A file beside a log: what the log is called without `.txt` and `.gz`, with another ending.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let name = path
        .file_name()
        .map(|n| n.to_string_lossy().into_owned())
        .unwrap_or_default();
    let stem = name.strip_suffix(".gz").unwrap_or(&name);
    let stem = stem
        .strip_suffix(".txt")
        .or_else(|| stem.strip_suffix(".log"))
        .unwrap_or(stem);
    path.with_file_name(format!("{stem}{ending}"))
}

/// A format of logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The kernel's mmiotrace.
    Mmiotrace,
}

/// The format of a log, by its first lines; `None` when it is none, or cannot be read.
#[must_use]
pub fn form(path: &Path) -> Option<Form> {
    if !path.is_file() {
        return None;
    }
    let head = source::head(path, HEAD).ok()?;
    text::lines(&head)
        .take(HEAD_LINES)
        .find_map(|line| mmiotrace::is_line(line).then_some(Form::Mmiotrace))
}

/// Whether a path is a log of a known format.
#[must_use]
pub fn fits(path: &Path) -> bool {
    form(path).is_some()
}

/// The files beside a log that are read with it.
#[must_use]
pub fn parts(path: &Path) -> Vec<PathBuf> {
    screen::names(path).into()
}

/// Imports a log.
///
/// # Errors
/// When it is none of a known format, cannot be read, holds no access, does not tell of a device that was named, or the
/// work was cancelled. Lines that are of no use are findings.
pub fn import(path: &Path, options: &Options, progress: &Progress) -> Result<Recording, ImportError> {
    match form(path) {
        Some(Form::Mmiotrace) => log::import(mmiotrace::Mmiotrace::default(), path, options, progress),
        None => Err(ImportError::Unknown {
            path: path.to_owned(),
            known: super::known(),
        }),
    }
}
