//! The file next to a growing recording that says how many bytes its program exchanges with a device elsewhere.
//!
//! It holds one line, `sent N received M`, and exists only while the program runs.

use std::fs::{File, remove_file, rename, write};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// Extension of the file, in place of that of the recording.
const EXTENSION: &str = "transfer";
/// Maximum size of the file, bytes.
const MAX_FILE_BYTES: u64 = 128;

/// Bytes between a program and the machine of its device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferBytes {
    /// Bytes from the program's machine.
    pub sent: u64,
    /// Bytes to the program's machine.
    pub received: u64,
}

fn path_of(recording: &Path) -> PathBuf {
    recording.with_extension(EXTENSION)
}

impl TransferBytes {
    /// Reads the numbers of a growing recording. Returns `None` if there are none, or if they cannot be read.
    #[must_use]
    pub fn read_next_to(recording: &Path) -> Option<Self> {
        let file = File::open(path_of(recording)).ok()?;
        let mut text = String::new();
        file.take(MAX_FILE_BYTES).read_to_string(&mut text).ok()?;
        let ["sent", sent, "received", received] = *text.split_whitespace().collect::<Vec<_>>() else {
            return None;
        };
        Some(Self {
            sent: sent.parse().ok()?,
            received: received.parse().ok()?,
        })
    }

    /// Writes the numbers of a growing recording. A reader sees the old ones or the new ones.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_next_to(self, recording: &Path) -> io::Result<()> {
        let path = path_of(recording);
        let new = path.with_extension("transfer-new");
        write(&new, format!("sent {} received {}\n", self.sent, self.received))?;
        rename(new, path)
    }

    /// Removes the numbers of a recording that does not grow any more.
    pub fn remove_next_to(recording: &Path) {
        // Without a file there is nothing to remove.
        let _ = remove_file(path_of(recording));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let recording = folder.path().join("run-1.unfinished.kine");
        assert_eq!(TransferBytes::read_next_to(&recording), None);
        for (sent, received) in [(0, 0), (12, u64::MAX)] {
            let bytes = TransferBytes { sent, received };
            bytes.write_next_to(&recording).unwrap();
            assert_eq!(TransferBytes::read_next_to(&recording), Some(bytes));
        }
        for text in [
            "",
            "sent 1",
            "sent x received 2",
            "sent 1 received 2 3",
            "sent -1 received 2",
        ] {
            write(path_of(&recording), text).unwrap();
            assert_eq!(TransferBytes::read_next_to(&recording), None, "{text}");
        }
        TransferBytes::remove_next_to(&recording);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
