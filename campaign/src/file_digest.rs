//! Digests of recordings and inputs: of a file, or of a folder with its files.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use trace_core::progress::{Cancelled, Progress};

/// Maximum number of files in a folder that is a recording.
const MAX_FILES: usize = 100_000;
/// Maximum depth of its folders.
const MAX_DEPTH: usize = 16;
/// Bytes that are read at once.
const PIECE: usize = 1 << 20;

/// Why a file has no digest.
#[derive(Debug, thiserror::Error)]
pub enum DigestError {
    /// A file or folder cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The work was cancelled.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// Returns the BLAKE3 digest of a file, or of the names and digests of the files of a folder, as 64 hex digits.
///
/// # Errors
/// If a file cannot be read, a folder has too many files, or the work is cancelled.
pub fn digest_path(path: &Path, progress: &Progress) -> Result<String, DigestError> {
    let failed = |source| DigestError::Io {
        path: path.to_owned(),
        source,
    };
    if !fs::metadata(path).map_err(failed)?.is_dir() {
        return Ok(digest_file(path, progress)?.to_hex().to_string());
    }
    Ok(FolderFiles::read(path, progress)?.digest())
}

/// The regular files of a folder, in order of their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderFiles(Vec<(PathBuf, blake3::Hash)>);

impl FolderFiles {
    /// Reads the files of a folder and of the folders in it. Links are not followed.
    ///
    /// # Errors
    /// If a file cannot be read, there are too many, or the work is cancelled.
    pub fn read(folder: &Path, progress: &Progress) -> Result<Self, DigestError> {
        let mut paths = Vec::new();
        list_files(folder, 0, &mut paths)?;
        paths.sort();
        let files = paths.into_iter().map(|path| {
            let digest = digest_file(&path, progress)?;
            let name = path.strip_prefix(folder).map(Path::to_owned).unwrap_or(path);
            Ok((name, digest))
        });
        Ok(Self(files.collect::<Result<_, DigestError>>()?))
    }

    /// Returns the digest of the folder, 64 hex digits.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"kinescope folder 1\0");
        for (name, digest) in &self.0 {
            let name = name.as_os_str().as_encoded_bytes();
            hasher.update(&(name.len() as u64).to_le_bytes());
            hasher.update(name);
            hasher.update(digest.as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }

    /// Lists the files: their names, relative to the folder, and their digests of 64 hex digits.
    pub fn iter(&self) -> impl Iterator<Item = (&Path, String)> {
        let files = self.0.iter();
        files.map(|(name, digest)| (name.as_path(), digest.to_hex().to_string()))
    }
}

fn digest_file(path: &Path, progress: &Progress) -> Result<blake3::Hash, DigestError> {
    let failed = |source| DigestError::Io {
        path: path.to_owned(),
        source,
    };
    // A device never ends, and a pipe blocks until somebody writes to it.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(failed(io::Error::other("this is no regular file")));
    }
    let mut file = File::open(path).map_err(failed)?;
    let mut hasher = blake3::Hasher::new();
    let mut piece = vec![0; PIECE];
    loop {
        progress.check()?;
        let n = match io::Read::read(&mut file, &mut piece) {
            Ok(0) => return Ok(hasher.finalize()),
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(failed(e)),
        };
        hasher.update(piece.get(..n).unwrap_or_default());
    }
}

/// Lists the regular files of a folder and of the folders in it. Links are not followed.
fn list_files(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), DigestError> {
    let failed = |source| DigestError::Io {
        path: folder.to_owned(),
        source,
    };
    if depth > MAX_DEPTH {
        return Err(failed(io::Error::other(format!(
            "more than {MAX_DEPTH} folders in one another"
        ))));
    }
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() {
            list_files(&entry.path(), depth + 1, files)?;
        } else if kind.is_file() {
            if files.len() >= MAX_FILES {
                return Err(failed(io::Error::other(format!("more than {MAX_FILES} files"))));
            }
            files.push(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_of_a_folder_depends_on_names_and_contents() {
        let folder = tempfile::tempdir().unwrap();
        let digest = || digest_path(folder.path(), &Progress::new()).unwrap();
        fs::create_dir(folder.path().join("d")).unwrap();
        fs::write(folder.path().join("d/a"), "1").unwrap();
        let first = digest();
        assert_eq!((first.len(), digest()), (64, first.clone()));
        fs::write(folder.path().join("d/a"), "2").unwrap();
        assert_ne!(digest(), first);
        fs::rename(folder.path().join("d/a"), folder.path().join("d/b")).unwrap();
        fs::write(folder.path().join("d/b"), "1").unwrap();
        assert_ne!(digest(), first);
        let file = digest_path(&folder.path().join("d/b"), &Progress::new()).unwrap();
        assert_eq!(file, blake3::hash(b"1").to_hex().to_string());
        assert!(digest_path(&folder.path().join("x"), &Progress::new()).is_err());
        // The digest of a device would never end.
        let device = digest_path(Path::new("/dev/zero"), &Progress::new());
        assert!(device.unwrap_err().to_string().contains("no regular file"));
    }
}
