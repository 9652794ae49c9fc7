//! The size limit of unpacked files: set by the user, enforced while the file is read.

use super::error::ImportError;
use crate::progress::Progress;
use std::fmt;
use std::io::{self, Read};
use std::path::Path;

/// Default limit of the unpacked size of a file, and of the memory of a recording made from it: 4 GiB. It does not
/// depend on the packed size, since valid logs compress well too. A machine with 8 GB can hold it, and the `.kine` file
/// takes about as much disk space.
pub const MAX_UNPACKED_BYTES: u64 = 4 << 30;

/// A packed file exceeds the limit. An [`io::Error`] carries this error through readers that only handle bytes.
#[derive(Clone, Copy, Debug)]
struct OverLimit {
    limit: u64,
}

impl fmt::Display for OverLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it decompresses to more than {}", size(self.limit))
    }
}

impl std::error::Error for OverLimit {}

/// Returns the exceeded limit if an error is about a packed file over the limit.
fn limit_of(error: &io::Error) -> Option<u64> {
    let inner = error.get_ref()?.downcast_ref::<OverLimit>()?;
    Some(inner.limit)
}

/// Whether an error is about a packed file over the limit.
pub(super) fn is_over_limit(error: &io::Error) -> bool {
    limit_of(error).is_some()
}

/// Converts a read error to an import error.
pub(super) fn import_error(path: &Path, error: io::Error) -> ImportError {
    match limit_of(&error) {
        Some(limit) => ImportError::over_limit(path, "the file decompresses to", limit),
        None => ImportError::Io {
            path: path.to_owned(),
            source: error,
        },
    }
}

/// A reader of the unpacked bytes of a file, up to the limit.
pub(super) struct LimitedReader<R> {
    from: R,
    left: u64,
    limit: u64,
}

impl<R: Read> LimitedReader<R> {
    pub fn new(from: R, progress: &Progress) -> Self {
        let limit = progress.unpack_limit();
        Self {
            from,
            left: limit,
            limit,
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

/// Formats a size for users: `4 GiB`, `512 MiB`, `1000 bytes`.
pub(super) fn size(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let fits = |(_, shift): &&(&str, u32)| bytes >> shift > 0 && bytes.trailing_zeros() >= *shift;
    match units.iter().find(fits) {
        Some((unit, shift)) => format!("{} {unit}", bytes >> shift),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let error = import_error(Path::new("x.gz"), io::Error::other("no"));
        assert!(matches!(error, ImportError::Io { .. }));
    }

    #[test]
    fn sizes_are_written_in_the_largest_whole_unit() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1 << 10, "1 KiB"),
            (3 << 20, "3 MiB"),
            (4 << 30, "4 GiB"),
            ((4 << 30) + 1, "4294967297 bytes"),
            (2 << 40, "2 TiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}
