//! The error of a packed file over the size limit, as it passes through readers that only handle bytes.

use std::fmt;
use std::io;

/// Maximum unpacked bytes of a packed one, once a file is large. A log compresses by less than 100, gzip by at most 1032.
pub(super) const MAX_RATIO: u64 = 5_000;

/// A packed file exceeds the limit. An [`io::Error`] carries this error through readers that only handle bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct OverLimit {
    /// The limit in bytes.
    pub(super) limit: u64,
}

impl fmt::Display for OverLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it decompresses to more than {}", size(self.limit))
    }
}

impl std::error::Error for OverLimit {}

/// A packed file becomes too many times larger. An [`io::Error`] carries this error through readers that only handle
/// bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct OverRatio;

impl fmt::Display for OverRatio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it decompresses to thousands of times its size")
    }
}

impl std::error::Error for OverRatio {}

/// Whether an error is about a packed file that becomes too many times larger.
pub(super) fn is_over_ratio(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<OverRatio>())
}

/// Returns the exceeded limit if an error is about a packed file over the limit.
pub(super) fn limit_of(error: &io::Error) -> Option<u64> {
    let inner = error.get_ref()?.downcast_ref::<OverLimit>()?;
    Some(inner.limit)
}

/// Whether an error is about a packed file over a limit.
pub(super) fn is_over_limit(error: &io::Error) -> bool {
    limit_of(error).is_some() || is_over_ratio(error)
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
