//! The agent's machine as its kernel exposes it in files: `/sys`, `/proc`, `/dev`.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Maximum size of an information file, bytes.
const MAX_BYTES: u64 = 1 << 20;
/// Maximum number of entries of a folder.
const MAX_ENTRIES: usize = 1 << 16;

/// A machine, given by the root folder of its files.
#[derive(Clone, Debug)]
pub struct Host {
    root: PathBuf,
}

/// A kernel file could not be used.
#[derive(Debug, thiserror::Error)]
#[error("{doing} {}: {source}{}", path.display(), hint(.source))]
pub struct HostError {
    /// The operation: `reading`.
    pub doing: &'static str,
    /// The file.
    pub path: PathBuf,
    /// The error of the operating system.
    pub source: io::Error,
}

fn hint(e: &io::Error) -> &'static str {
    match e.kind() {
        io::ErrorKind::PermissionDenied => "; run the agent as root, which it needs to own hardware",
        _ => "",
    }
}

impl Default for Host {
    fn default() -> Self {
        Self::local()
    }
}

impl Host {
    /// Returns the machine that this program runs on.
    #[must_use]
    pub fn local() -> Self {
        Self::with_root("/")
    }

    /// Returns a machine whose files are below `root`.
    #[must_use]
    pub fn with_root(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Returns the path of a file such as `sys/bus/pci/devices`.
    #[must_use]
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }

    /// Returns the bytes of an information file.
    pub(super) fn bytes(&self, path: impl AsRef<Path>) -> Result<Vec<u8>, HostError> {
        let path = self.path(path);
        let mut bytes = Vec::new();
        let read = File::open(&path).and_then(|f| f.take(MAX_BYTES).read_to_end(&mut bytes));
        match read {
            Ok(_) => Ok(bytes),
            Err(source) => Err(HostError {
                doing: "reading",
                path,
                source,
            }),
        }
    }

    /// Returns the text of a file, trimmed.
    pub(super) fn text(&self, path: impl AsRef<Path>) -> Result<String, HostError> {
        let bytes = self.bytes(path)?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// Returns the number in a file, `0x1002` or `11`.
    pub(super) fn number(&self, path: impl AsRef<Path>) -> Result<u64, HostError> {
        let path = path.as_ref();
        let text = self.text(path)?;
        let odd = || HostError {
            doing: "reading a number from",
            path: self.path(path),
            source: io::Error::new(
                io::ErrorKind::InvalidData,
                format!("it holds `{}`", text.chars().take(40).collect::<String>()),
            ),
        };
        number(&text).ok_or_else(odd)
    }

    /// Writes a word to a kernel file.
    pub(super) fn write(&self, path: impl AsRef<Path>, word: &str) -> Result<(), HostError> {
        let path = self.path(path);
        let opened = OpenOptions::new().write(true).open(&path);
        opened
            .and_then(|mut f| f.write_all(word.as_bytes()))
            .map_err(|source| HostError {
                doing: "writing to",
                path,
                source,
            })
    }

    /// Opens a file for accesses, with `write` also for writing.
    pub(super) fn open(&self, path: impl AsRef<Path>, write: bool) -> Result<File, HostError> {
        let path = self.path(path);
        let opened = OpenOptions::new().read(true).write(write).open(&path);
        opened.map_err(|source| HostError {
            doing: "opening",
            path,
            source,
        })
    }

    /// Opens a file for uncached accesses.
    pub(super) fn open_sync(&self, path: impl AsRef<Path>) -> Result<File, HostError> {
        let path = self.path(path);
        let sync = rustix::fs::OFlags::SYNC.bits() as i32;
        let opened = OpenOptions::new().read(true).write(true).custom_flags(sync).open(&path);
        opened.map_err(|source| HostError {
            doing: "opening",
            path,
            source,
        })
    }

    /// Returns the last component of a link's target, or `None` if there is no link.
    pub(super) fn link(&self, path: impl AsRef<Path>) -> Option<String> {
        let to = std::fs::read_link(self.path(path)).ok()?;
        Some(to.file_name()?.to_str()?.to_owned())
    }

    /// Returns the sorted names in a folder, or none if the folder does not exist.
    pub(super) fn list(&self, path: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(path)) else {
            return Vec::new();
        };
        let names = entries.filter_map(|e| e.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.take(MAX_ENTRIES).collect();
        names.sort();
        names
    }

    /// Returns whether a file exists.
    pub(super) fn has(&self, path: impl AsRef<Path>) -> bool {
        self.path(path).exists()
    }
}

/// Parses a number as the kernel writes it.
pub(super) fn number(text: &str) -> Option<u64> {
    let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |d| (d, 16));
    // Signs are not allowed, but the standard library accepts them.
    let first = digits.chars().next()?;
    first
        .is_ascii_hexdigit()
        .then(|| u64::from_str_radix(digits, radix).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_files_are_parsed_and_errors_name_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::with_root(folder.path());
        for (text, value) in [
            ("0x1002\n", Some(0x1002)),
            ("11", Some(11)),
            ("+1", None),
            ("x", None),
            ("", None),
        ] {
            std::fs::write(folder.path().join("f"), text).unwrap();
            match (host.number("f"), value) {
                (Ok(n), Some(v)) => assert_eq!(n, v),
                (Err(e), None) => assert!(e.to_string().contains("reading a number from"), "{e}"),
                (other, _) => panic!("{text}: {other:?}"),
            }
        }
        assert!(host.number("absent").unwrap_err().to_string().contains("absent"));
        assert!(host.write("absent", "1").is_err());
        assert_eq!(host.list("."), ["f"]);
        assert!(host.list("absent").is_empty());
    }
}
