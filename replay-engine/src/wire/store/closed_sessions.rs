//! The report of a running agent after a key was removed: the number of its closed connections.

use super::{KeyStore, KeyStoreError, io};
use crate::wire::PublicKey;
use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// Name of the file next to the key file.
const CLOSED_FILE: &str = "keys.closed";
/// Polling interval for the file.
const TICK: Duration = Duration::from_millis(20);
/// Maximum size of the file, bytes.
const MAX_BYTES: u64 = 1 << 16;

impl KeyStore {
    fn closed_file(&self) -> PathBuf {
        self.path().with_file_name(CLOSED_FILE)
    }

    /// Discards reports about keys that were removed earlier.
    pub(super) fn clear_closed(&self) {
        // The file may already be missing.
        let _ = fs::remove_file(self.closed_file());
    }

    /// Reports how many connections of each removed key are closed.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_closed(&self, closed: &[(PublicKey, usize)]) -> Result<(), KeyStoreError> {
        let (path, mut text) = (self.closed_file(), String::new());
        for (key, count) in closed {
            // Writing to a String does not fail.
            let _ = writeln!(text, "{} {count}", key.to_hex());
        }
        let temporary = path.with_extension(format!("closed-{}", std::process::id()));
        let written = fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, &path));
        written.map_err(|e| io(&path, &e))
    }

    /// Returns how many connections of a removed key the running agent closed, or `None` if it does not report within
    /// `limit`.
    #[must_use]
    pub fn wait_for_closed(&self, key: &PublicKey, limit: Duration) -> Option<usize> {
        let (path, by) = (self.closed_file(), Instant::now() + limit);
        loop {
            let mut text = String::new();
            let read = fs::File::open(&path).and_then(|f| f.take(MAX_BYTES).read_to_string(&mut text));
            let count = text.lines().find_map(|line| {
                let (hex, count) = line.split_once(' ')?;
                (PublicKey::from_hex(hex)? == *key).then(|| count.parse().ok())?
            });
            if read.is_ok() && count.is_some() {
                return count;
            }
            if Instant::now() >= by {
                return None;
            }
            thread::sleep(TICK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::KeyPair;

    #[test]
    fn closed_sessions_are_reported_once_per_removed_key() {
        let dir = tempfile::tempdir().unwrap();
        let store = KeyStore::open(dir.path()).unwrap();
        let keys = [(); 3].map(|()| KeyPair::generate().unwrap().public());
        let at_once = Duration::ZERO;
        assert_eq!(store.wait_for_closed(&keys[0], at_once), None);
        store.write_closed(&[(keys[0], 2), (keys[1], 0)]).unwrap();
        let options = keys.map(|k| store.wait_for_closed(&k, at_once));
        assert_eq!(options, [Some(2), Some(0), None]);
        // A later removal does not return the report of an earlier one.
        store.pin("x", keys[2], "").unwrap();
        store.forget("x").unwrap();
        assert_eq!(store.wait_for_closed(&keys[0], at_once), None);
    }
}
