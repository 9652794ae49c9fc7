//! Bytes that columns and page images are lent from.

use std::ops::Range;

/// Bytes that outlive the chunk built on them, such as a mapped file.
pub trait SharedBytes: Send + Sync {
    /// Returns the number of bytes: the same at every call.
    fn len(&self) -> usize;

    /// Returns a range. Returns `None` if it reaches past the end, or if its bytes are not there: those of a packed block
    /// are there once it was verified. A range that was lent stays the same.
    fn slice(&self, range: Range<usize>) -> Option<&[u8]>;

    /// Returns whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
