//! A file reader that counts its bytes, for progress on compressed files.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A file that counts the bytes read from it.
pub(crate) struct CountingReader {
    file: File,
    read: Arc<AtomicU64>,
}

impl CountingReader {
    /// Adds to `read` the bytes that are read from here on.
    pub(crate) fn new(file: File, read: &Arc<AtomicU64>) -> Self {
        Self {
            file,
            read: Arc::clone(read),
        }
    }
}

impl Read for CountingReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read(out)?;
        self.read.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}
