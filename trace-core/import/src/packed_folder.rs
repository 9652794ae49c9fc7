//! Recordings of several files that are packed one by one: a temporary folder holds their unpacked content, and links to
//! the files that are not packed.

use super::archive::MAX_MEMBERS;
use super::error::ImportError;
use super::formats::{find_importer, importer_parts};
use super::packing::strip_ending;
use super::unpacked_file::{copy_to_file, is_packed_path, read_head, unpacked_here};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use trace_core::finding::{Finding, FindingKind};
use trace_core::progress::Progress;

/// Endings that a packed file of a recording may have.
const ENDINGS: [&str; 5] = ["gz", "xz", "bz2", "zst", "zstd"];
/// Maximum depth of folders.
const MAX_DEPTH: usize = 4;
/// Maximum number of files whose first bytes are unpacked to detect a format, and the number of these bytes.
const MAX_DETECTED: usize = 1000;
const DETECTED_BYTES: usize = 1 << 16;

/// Unpacked content of files, in a temporary folder.
pub(super) struct UnpackedFiles {
    pub(super) folder: TempDir,
    /// Files that could be unpacked in part.
    pub(super) findings: Vec<Finding>,
}

/// A file of a folder, by its path in it.
struct FolderFile {
    path: PathBuf,
    is_packed: bool,
}

impl FolderFile {
    /// Returns its path without the ending of the packing.
    fn unpacked_path(&self) -> PathBuf {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        match self.is_packed {
            true => self.path.with_file_name(strip_ending(&name)),
            false => self.path.clone(),
        }
    }
}

/// Whether a path is a folder that an importer knows once its packed files are unpacked.
pub(super) fn is_packed_recording(path: &Path) -> bool {
    let Some(files) = list_packed(path) else {
        return false;
    };
    let Ok(folder) = new_folder() else {
        return false;
    };
    let mut made = files.iter().take(MAX_DETECTED).map(|file| -> io::Result<()> {
        let (from, to) = (path.join(&file.path), folder.path().join(file.unpacked_path()));
        create_parent(&to)?;
        match file.is_packed {
            true => std::fs::write(to, read_head(&from, DETECTED_BYTES)?),
            false => link(&from, &to),
        }
    });
    made.all(|result| result.is_ok()) && find_importer(folder.path()).is_some()
}

/// Whether a path is a folder that an importer knows, and some of its files are packed: files that the importer names, or
/// files in folders below.
pub(super) fn has_packed_parts(path: &Path) -> bool {
    let Some(files) = list_packed(path) else {
        return false;
    };
    let parts = importer_parts(path);
    let is_read = |file: &FolderFile| {
        let unpacked = file.unpacked_path();
        unpacked.components().count() > 1 || parts.contains(&path.join(unpacked))
    };
    find_importer(path).is_some() && files.iter().any(|file| file.is_packed && is_read(file))
}

/// Unpacks the packed files of a folder into a temporary one, with links to the others.
///
/// # Errors
///
/// When a file cannot be read, the files exceed the limits of `progress`, or the work was cancelled.
pub(super) fn unpack_folder(path: &Path, progress: &Progress) -> Result<UnpackedFiles, ImportError> {
    let files = list_packed(path).unwrap_or_default();
    let mut unpacked = UnpackedFiles::new(path)?;
    for file in &files {
        unpacked.add(&path.join(&file.path), &file.unpacked_path(), file.is_packed, progress)?;
    }
    Ok(unpacked)
}

/// Makes a temporary folder with the files of a recording, if some of them are packed. `path` is the file that the
/// importer reads, and `origin` the folder with its other files. Returns `None` if nothing is to be unpacked, and the path
/// in the temporary folder otherwise.
///
/// # Errors
///
/// When a file cannot be read, the files exceed the limits of `progress`, or the work was cancelled.
pub(super) fn unpack_parts(
    path: &Path,
    origin: &Path,
    progress: &Progress,
) -> Result<Option<(UnpackedFiles, PathBuf)>, ImportError> {
    let is_streamed = find_importer(path).is_none_or(|importer| importer.reads_packed);
    let (Some(name), Some(folder)) = (path.file_name(), path.parent()) else {
        return Ok(None);
    };
    if is_streamed {
        return Ok(None);
    }
    let parts: BTreeSet<PathBuf> = importer_parts(path)
        .iter()
        .filter_map(|part| part.strip_prefix(folder).ok())
        .filter(|part| part.components().all(|c| matches!(c, std::path::Component::Normal(_))))
        .map(Path::to_owned)
        .take(MAX_MEMBERS)
        .collect();
    let found: Vec<(PathBuf, &PathBuf, bool)> = parts
        .iter()
        .filter_map(|part| {
            let plain = origin.join(part);
            if plain.exists() {
                return Some((plain, part, false));
            }
            let packed = ENDINGS.iter().map(|ending| with_ending(&plain, ending));
            let packed = packed.into_iter().find(|p| is_packed_path(p))?;
            Some((packed, part, true))
        })
        .collect();
    // Files next to a packed description are not next to its unpacked content.
    let is_moved = origin != folder;
    if !found.iter().any(|(_, _, is_packed)| *is_packed || is_moved) {
        return Ok(None);
    }
    let mut unpacked = UnpackedFiles::new(path)?;
    unpacked.add(path, Path::new(name), false, progress)?;
    for (from, part, is_packed) in found {
        unpacked.add(&from, part, is_packed, progress)?;
    }
    let path = unpacked.folder.path().join(name);
    Ok(Some((unpacked, path)))
}

impl UnpackedFiles {
    fn new(path: &Path) -> Result<Self, ImportError> {
        Ok(Self {
            folder: new_folder().map_err(|e| ImportError::io(path, e))?,
            findings: Vec::new(),
        })
    }

    /// Adds a file as `to`, a path in the folder: unpacked, or as a link. Nothing is added twice.
    fn add(&mut self, from: &Path, to: &Path, is_packed: bool, progress: &Progress) -> Result<(), ImportError> {
        let io = |e| ImportError::io(from, e);
        let to = self.folder.path().join(to);
        if to.symlink_metadata().is_ok() {
            return Ok(());
        }
        create_parent(&to).map_err(io)?;
        if !is_packed {
            return link(from, &to).map_err(io);
        }
        let bytes = unpacked_here(File::open(from).map_err(io)?, &Arc::default(), progress);
        let damage = copy_to_file(bytes, &to, |_| Ok(()), progress)
            .map_err(|e| e.with_paths(|_| from.to_owned(), str::to_owned))?;
        if let Some(damage) = damage {
            let place = from.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let message =
                format!("the packed file cannot be decompressed further ({damage}); the part before it was used");
            self.findings
                .push(Finding::new(FindingKind::TruncatedSection, place, message));
        }
        Ok(())
    }
}

fn new_folder() -> io::Result<TempDir> {
    tempfile::Builder::new().prefix("kinescope-").tempdir()
}

fn create_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), std::fs::create_dir_all)
}

fn link(from: &Path, to: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(std::path::absolute(from)?, to)
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

/// Returns the files of a folder, each with a different name once it is unpacked: a file that is not packed comes before
/// one that is. Returns `None` if the path is no folder, has too many files, or none of them is packed.
fn list_packed(path: &Path) -> Option<Vec<FolderFile>> {
    if !path.is_dir() {
        return None;
    }
    let mut files = Vec::new();
    collect(path, Path::new(""), 0, &mut files)?;
    files.sort_by(|a, b| (a.is_packed, &a.path).cmp(&(b.is_packed, &b.path)));
    let mut names = BTreeSet::new();
    files.retain(|file| names.insert(file.unpacked_path()));
    files.iter().any(|file| file.is_packed).then_some(files)
}

fn collect(root: &Path, inside: &Path, depth: usize, files: &mut Vec<FolderFile>) -> Option<()> {
    for entry in std::fs::read_dir(root.join(inside)).ok()?.flatten() {
        let path = inside.join(entry.file_name());
        // Links to folders are not followed.
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            if depth < MAX_DEPTH {
                collect(root, &path, depth + 1, files)?;
            }
            continue;
        }
        let own = root.join(&path);
        if files.len() >= MAX_MEMBERS {
            return None;
        }
        if own.is_file() {
            let is_packed =
                strip_ending(&path.to_string_lossy()).len() < path.as_os_str().len() && is_packed_path(&own);
            files.push(FolderFile { path, is_packed });
        }
    }
    Some(())
}
