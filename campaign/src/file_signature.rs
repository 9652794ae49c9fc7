//! What tells a file, or a folder with its files, from one that somebody changed or replaced, without reading its content.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::SystemTime;

/// The signature of a file, or of a folder with its files. Equal signatures of one path are nearly always equal contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSignature {
    /// Inode of the path.
    inode: u64,
    files: u64,
    bytes: u64,
    /// Last change of any file.
    modified: Option<SystemTime>,
}

impl FileSignature {
    /// Reads the signature of a path. It is that of the file or folder that the path leads to. Links within a folder are
    /// not followed.
    #[must_use]
    pub fn read(path: &Path) -> Self {
        let Ok(meta) = fs::metadata(path) else {
            return Self::default();
        };
        let mut signature = Self {
            inode: meta.ino(),
            ..Self::default()
        };
        signature.add_content(path, &meta);
        signature
    }

    /// Returns the size of all files, bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn add(&mut self, path: &Path) {
        if let Ok(meta) = fs::symlink_metadata(path) {
            self.add_content(path, &meta);
        }
    }

    fn add_content(&mut self, path: &Path, meta: &Metadata) {
        if meta.is_dir() {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            entries.for_each(|entry| self.add(&entry.path()));
            return;
        }
        self.files = self.files.saturating_add(1);
        self.bytes = self.bytes.saturating_add(meta.len());
        self.modified = self.modified.max(meta.modified().ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_of_links_change_with_their_files() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("d")).unwrap();
        fs::write(at("d/x"), "1234").unwrap();
        std::os::unix::fs::symlink(at("d/x"), at("file")).unwrap();
        std::os::unix::fs::symlink(at("d"), at("folder")).unwrap();
        let read = || [at("file"), at("folder")].map(|path| FileSignature::read(&path));
        let before = read();
        assert_eq!(before[0], FileSignature::read(&at("d/x")));
        assert_eq!(before[0].bytes(), 4);
        fs::write(at("d/x"), "12345").unwrap();
        let after = read();
        assert!(before[0] != after[0] && before[1] != after[1], "{before:?} {after:?}");
    }

    #[test]
    fn signatures_change_with_files() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("d/x");
        fs::create_dir(folder.path().join("d")).unwrap();
        fs::write(&file, "1234").unwrap();
        let (of_file, of_folder) = (FileSignature::read(&file), FileSignature::read(folder.path()));
        assert_eq!((of_file.bytes(), of_folder.bytes()), (4, 4));
        assert_eq!(FileSignature::read(&file), of_file);
        // Another file with the same content and time.
        let other = folder.path().join("other");
        fs::copy(&file, &other).unwrap();
        let time = fs::metadata(&file).unwrap().modified().unwrap();
        fs::File::options()
            .write(true)
            .open(&other)
            .unwrap()
            .set_modified(time)
            .unwrap();
        fs::rename(&other, &file).unwrap();
        assert_ne!(FileSignature::read(&file), of_file);
        let of_file = FileSignature::read(&file);
        fs::write(&file, "12345").unwrap();
        assert_ne!(FileSignature::read(&file), of_file);
        assert_ne!(FileSignature::read(folder.path()), of_folder);
        assert_eq!(
            FileSignature::read(&folder.path().join("none")),
            FileSignature::default()
        );
    }
}
