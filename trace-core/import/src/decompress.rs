//! The reader of unpacked files, which enforces the size limit that the user sets, and a limit of the ratio.

use super::error::ImportError;
use super::unpack_limit::{MAX_RATIO, OverLimit, OverRatio};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use trace_core::progress::Progress;

/// Unpacked size up to which the ratio does not matter, bytes.
const FREE_BYTES: u64 = 256 << 20;

/// A reader of the unpacked bytes of a file, up to the limit.
pub(super) struct LimitedReader<R> {
    from: R,
    left: u64,
    limit: u64,
    /// Number of packed bytes that were read.
    packed: Option<Arc<AtomicU64>>,
}

impl<R: Read> LimitedReader<R> {
    pub fn new(from: R, progress: &Progress) -> Self {
        let limit = progress.unpack_limit();
        Self {
            from,
            left: limit,
            limit,
            packed: None,
        }
    }

    /// Limits the ratio too: `packed` counts the packed bytes.
    pub fn with_ratio(mut self, packed: &Arc<AtomicU64>) -> Self {
        self.packed = Some(Arc::clone(packed));
        self
    }

    /// Refuses a file that is much larger unpacked than packed.
    fn check_ratio(&self) -> io::Result<()> {
        let unpacked = self.limit - self.left;
        if unpacked <= FREE_BYTES {
            return Ok(());
        }
        let packed = self.packed.as_ref().map(|n| n.load(Ordering::Relaxed).max(1));
        match packed.is_some_and(|packed| unpacked / packed > MAX_RATIO) {
            true => Err(io::Error::new(io::ErrorKind::FileTooLarge, OverRatio)),
            false => Ok(()),
        }
    }
}

impl<R: Read> Read for LimitedReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        if self.left == 0 {
            // A file that ends at the limit is within it.
            let mut one = [0];
            return match self.from.read(&mut one)? {
                0 => Ok(0),
                _ => Err(io::Error::new(
                    io::ErrorKind::FileTooLarge,
                    OverLimit { limit: self.limit },
                )),
            };
        }
        let max = usize::try_from(self.left).unwrap_or(usize::MAX).min(out.len());
        let read = self.from.read(out.get_mut(..max).unwrap_or_default())?;
        self.left -= read as u64;
        self.check_ratio()?;
        Ok(read)
    }
}

/// Refuses a recording made from a packed file if it takes more memory than the limit.
pub(super) fn check_memory(path: &Path, bytes: u64, progress: &Progress) -> Result<(), ImportError> {
    match progress.unpack_limit() {
        limit if bytes > limit => Err(ImportError::over_limit(path, "a recording of the file takes", limit)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::unpack_limit::is_over_limit;
    use super::*;
    use trace_core::progress::MAX_UNPACKED_BYTES;

    #[test]
    fn unpack_limit_is_inclusive() {
        let progress = Progress::new();
        assert_eq!(progress.unpack_limit(), MAX_UNPACKED_BYTES);
        progress.limit_unpacked(1000);
        let data = vec![7; 1001];
        let read = |bytes: &[u8]| {
            let mut out = Vec::new();
            let read = LimitedReader::new(bytes, &progress).read_to_end(&mut out);
            (out.len(), read.map_err(|e| (is_over_limit(&e), e.to_string())))
        };
        assert_eq!(read(&data[..1000]), (1000, Ok(1000)));
        let (len, over) = read(&data);
        assert_eq!(
            (len, over),
            (1000, Err((true, "it decompresses to more than 1000 bytes".into())))
        );
        let error = ImportError::io(Path::new("x.gz"), io::Error::other("no"));
        assert!(matches!(error, ImportError::Io { .. }));
    }
}
