//! Plan files, text or binary: they replace a recording as the input of a replay.

use replay_engine::plan::text::{self, Files, assemble};
use replay_engine::plan::{Compiled, PLAN_FILE_MAGIC, PLAN_MAGIC};
use std::fs::File;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

/// Start of the text of a plan.
const TEXT_MAGIC: &[u8] = b"kinescope plan ";
/// Maximum size of a plan file, bytes.
const MAX_PLAN_BYTES: u64 = 1 << 30;

/// Why a file of the user cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// Reason, in words.
    pub reason: String,
}

impl FileError {
    /// Creates an error about a file.
    pub fn new(path: &Path, reason: impl std::fmt::Display) -> Self {
        Self {
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }
}

/// Files in the folder of a plan's text.
struct PlanFolder<'a>(&'a Path);

impl Files for PlanFolder<'_> {
    fn read(&self, name: &str, max: u64) -> Result<Vec<u8>, String> {
        let plain = Path::new(name).components().all(|c| matches!(c, Component::Normal(_)));
        if !plain {
            return Err("only files in the folder of the plan text, or below it, are read".to_owned());
        }
        let folder = self.0.parent().unwrap_or(Path::new(""));
        read_limited(&folder.join(name), max).map_err(|e| e.to_string())
    }
}

fn read_limited(path: &Path, max: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads the plan in a file; `None` if the file contains something else.
///
/// # Errors
/// Returns an error if the file starts as a plan and cannot be read.
pub fn read(path: &Path) -> Result<Option<Compiled>, FileError> {
    // For an unreadable file, the recording readers give a better error.
    let start = read_limited(path, TEXT_MAGIC.len() as u64).unwrap_or_default();
    let text = start == TEXT_MAGIC;
    if !text && !start.starts_with(&PLAN_MAGIC) && !start.starts_with(&PLAN_FILE_MAGIC) {
        return Ok(None);
    }
    let bytes = read_limited(path, MAX_PLAN_BYTES).map_err(|e| FileError::new(path, e))?;
    if !text {
        return Compiled::from_bytes(&bytes)
            .map(Some)
            .map_err(|e| FileError::new(path, e));
    }
    let text = String::from_utf8(bytes).map_err(|_| FileError::new(path, "the text of the plan is not UTF-8"))?;
    assemble(&text, &PlanFolder(path))
        .map(Some)
        .map_err(|e| FileError::new(path, e))
}

/// Returns the content of a plan file with its page images: text if the name ends in `.txt`, binary otherwise.
///
/// # Errors
/// Returns an error if the plan has no binary form.
pub fn to_bytes(path: &Path, compiled: &Compiled) -> Result<Vec<u8>, FileError> {
    match path.extension().is_some_and(|e| e == "txt") {
        true => Ok(text::print_with_pages(&compiled.plan, &compiled.pages).into_bytes()),
        false => compiled.to_bytes().map_err(|e| FileError::new(path, e)),
    }
}
