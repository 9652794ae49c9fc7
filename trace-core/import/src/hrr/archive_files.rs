//! The files of an archive besides its calls: copied memory and code objects, each named by the hash of its content.

use crate::error::ImportError;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use trace_core::PAGE_SIZE;

/// Maximum number of pages of copied memory and code together: 4 GiB.
const MAX_PAGES: u64 = 1 << 20;
/// Maximum size of a code object, bytes.
const MAX_CODE_BYTES: u64 = 256 << 20;

/// A hash of content: lower and upper half.
pub(super) type Hash = [u64; 2];

fn hash_name(hash: Hash) -> String {
    let [low, high] = hash;
    format!("{low:016x}{high:016x}")
}

/// Returns the file name of a code object.
pub(super) fn code_name(hash: Hash) -> String {
    format!("{}.hsaco", hash_name(hash))
}

/// The files, and how many pages were read of them.
pub(super) struct ArchiveFiles<'a> {
    folder: &'a Path,
    pages: u64,
}

impl<'a> ArchiveFiles<'a> {
    pub(super) fn new(folder: &'a Path) -> Self {
        Self { folder, pages: 0 }
    }

    /// Returns the folder of the archive.
    pub(super) fn folder(&self) -> &'a Path {
        self.folder
    }

    /// Returns the number of pages that were read.
    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    fn blob_path(&self, hash: Hash) -> PathBuf {
        let name = hash_name(hash);
        let group = name.get(..2).unwrap_or_default();
        self.folder.join("blobs").join(group).join(format!("{name}.blob"))
    }

    /// Reads copied memory. Returns `None` if it is missing, has another size, or there is too much of it.
    pub(super) fn read_blob(&mut self, hash: Hash, bytes: u64) -> Result<Option<Vec<u8>>, ImportError> {
        let pages = bytes.div_ceil(PAGE_SIZE as u64) + 1;
        if self.pages.saturating_add(pages) > MAX_PAGES {
            return Ok(None);
        }
        let content = read_file(&self.blob_path(hash), bytes)?.filter(|content| content.len() as u64 == bytes);
        if content.is_some() {
            self.pages += pages;
        }
        Ok(content)
    }

    /// Reads a code object: a file of its own, or copied memory. Returns `None` if it is missing or too large.
    pub(super) fn read_code(&mut self, hash: Hash) -> Result<Option<Vec<u8>>, ImportError> {
        let room = MAX_PAGES.saturating_sub(self.pages).saturating_mul(PAGE_SIZE as u64);
        let room = room.min(MAX_CODE_BYTES);
        let code = self.folder.join("code_objects").join(code_name(hash));
        let mut found = read_file(&code, room)?;
        if found.is_none() {
            found = read_file(&self.blob_path(hash), room)?;
        }
        if let Some(bytes) = &found {
            self.pages += (bytes.len() as u64).div_ceil(PAGE_SIZE as u64);
        }
        Ok(found)
    }
}

/// Reads a file of at most `max` bytes. Returns `None` if it is missing or larger.
fn read_file(path: &PathBuf, max: u64) -> Result<Option<Vec<u8>>, ImportError> {
    if !path.is_file() {
        return Ok(None);
    }
    let io = |e| ImportError::io(path, e);
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(io)?;
    file.take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(io)?;
    Ok((bytes.len() as u64 <= max).then_some(bytes))
}
