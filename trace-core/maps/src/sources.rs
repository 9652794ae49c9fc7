//! Where the files are that a file imports.

use super::decode::MAX_FILE;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// A source of imported files.
pub trait Sources {
    /// Returns the content of an imported file by name, or `None` if there is none.
    fn bytes(&mut self, name: &str) -> Option<Vec<u8>>;

    /// Returns the identity of a file, whatever name it is imported by: a file is read once. By default the name
    /// without redundant parts.
    fn identity(&mut self, name: &str) -> String {
        plain(name)
    }

    /// Returns the identity of the importing file, in the form of [`Sources::identity`].
    fn own(&self) -> Option<String> {
        None
    }
}

/// Returns a path without `.` and doubled slashes.
fn plain(name: &str) -> String {
    Path::new(name).components().collect::<PathBuf>().display().to_string()
}

/// No files.
#[derive(Debug, Default)]
pub struct NoSources;

impl Sources for NoSources {
    fn bytes(&mut self, _name: &str) -> Option<Vec<u8>> {
        None
    }
}

/// The files around another one. Names are searched in its folder and, since databases name files from their root, in
/// the two folders above it. Names that lead out of these are not followed.
#[derive(Debug)]
pub struct Folder {
    folders: Vec<PathBuf>,
    own: Option<PathBuf>,
}

impl Folder {
    /// Creates the source for this file.
    #[must_use]
    pub fn new(file: &Path) -> Self {
        let full = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        Self {
            folders: full.ancestors().skip(1).take(3).map(Path::to_owned).collect(),
            own: full.canonicalize().ok(),
        }
    }

    fn find(&self, name: &str) -> Option<PathBuf> {
        let plain = |c: std::path::Component<'_>| matches!(c, std::path::Component::Normal(_));
        if name.is_empty() || !Path::new(name).components().all(plain) {
            return None;
        }
        let mut paths = self.folders.iter().map(|folder| folder.join(name));
        // Checked before the file is opened: opening a pipe would block until somebody writes into it.
        paths.find(|path| std::fs::metadata(path).is_ok_and(|m| m.is_file()))
    }
}

impl Sources for Folder {
    fn bytes(&mut self, name: &str) -> Option<Vec<u8>> {
        let file = std::fs::File::open(self.find(name)?).ok()?;
        let mut bytes = Vec::new();
        // One byte more than the limit, so that the excess is detected and the file is not cut silently.
        file.take(MAX_FILE + 1).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    fn identity(&mut self, name: &str) -> String {
        let real = self.find(name).and_then(|p| p.canonicalize().ok());
        real.map_or_else(|| plain(name), |p| p.display().to_string())
    }

    fn own(&self) -> Option<String> {
        self.own.as_ref().map(|p| p.display().to_string())
    }
}
