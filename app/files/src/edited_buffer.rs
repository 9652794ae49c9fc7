//! A buffer's edits as pages that differ from the recording, and the comparison of two byte ranges.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Page size, bytes.
pub(crate) const PAGE: u64 = 4096;

/// A run of new bytes at an offset of a buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// First byte changed.
    pub offset: u64,
    /// Bytes after the change.
    #[serde(with = "hex_bytes")]
    pub new: Arc<[u8]>,
}

/// The pages of an edited buffer that differ from the recording. It is cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EditedBuffer {
    /// Number of bytes of the first page before the buffer.
    pub(crate) lead: u64,
    /// Size of the buffer, bytes.
    pub(crate) bytes: u64,
    /// The part of each edited page that the buffer covers, by page index.
    pub(crate) pages: BTreeMap<u64, Arc<[u8]>>,
}

impl EditedBuffer {
    /// Returns the size of the buffer in bytes, edited or not.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Whether the buffer has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Returns the number of pages that differ from the recording.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Returns the ranges of the buffer in pages that differ, in ascending order.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        self.pages.keys().map(|p| self.span(*p))
    }

    /// Returns the range of the buffer in a page.
    pub(crate) fn span(&self, page: u64) -> Range<u64> {
        let from = page.saturating_mul(PAGE).saturating_sub(self.lead);
        let to = page
            .saturating_add(1)
            .saturating_mul(PAGE)
            .saturating_sub(self.lead)
            .min(self.bytes);
        from.min(to)..to
    }

    pub(crate) fn page_of(&self, offset: u64) -> u64 {
        offset.saturating_add(self.lead) / PAGE
    }

    /// Overwrites `out`, which starts at `offset`, with the edited bytes. Takes time proportional to the length of
    /// `out`.
    pub fn overlay(&self, offset: u64, out: &mut [u8]) {
        let end = offset.saturating_add(out.len() as u64).min(self.bytes);
        if offset >= end {
            return;
        }
        for (page, content) in self.pages.range(self.page_of(offset)..=self.page_of(end - 1)) {
            let span = self.span(*page);
            let (a, b) = (span.start.max(offset), span.end.min(end));
            if a >= b {
                continue;
            }
            let from = content.get((a - span.start) as usize..(b - span.start) as usize);
            let to = out.get_mut((a - offset) as usize..(b - offset) as usize);
            if let (Some(from), Some(to)) = (from, to) {
                to.copy_from_slice(from);
            }
        }
    }

    /// Whether a byte is in a page that differs from the recording.
    #[must_use]
    pub fn is_edited_at(&self, offset: u64) -> bool {
        self.pages.contains_key(&self.page_of(offset))
    }
}

/// Maximum distance of two differences that are joined into one piece, bytes. A piece costs more than the bytes
/// between.
const JOIN: usize = 64;

/// Appends to `pieces` the differences between `old` and `new`. Both have the same length and start at `offset`.
pub fn differences(offset: u64, old: &[u8], new: &[u8], pieces: &mut Vec<Piece>) {
    let mut run: Option<(usize, usize)> = None;
    let mut push = |r: (usize, usize)| {
        if let Some(part) = new.get(r.0..r.1) {
            pieces.push(Piece {
                offset: offset.saturating_add(r.0 as u64),
                new: part.into(),
            });
        }
    };
    // Equal parts are skipped in blocks. Only blocks that differ are compared byte by byte.
    for (n, (a, b)) in old.chunks(256).zip(new.chunks(256)).enumerate() {
        if a == b {
            continue;
        }
        for (i, _) in a.iter().zip(b).enumerate().filter(|(_, (x, y))| x != y) {
            let at = n * 256 + i;
            match &mut run {
                Some(r) if at <= r.1 + JOIN => r.1 = at + 1,
                _ => {
                    if let Some(r) = run.replace((at, at + 1)) {
                        push(r);
                    }
                }
            }
        }
    }
    if let Some(r) = run {
        push(r);
    }
}

mod hex_bytes {
    //! Serialization of bytes as a string of hex digits.
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};
    use std::sync::Arc;

    pub fn serialize<S: Serializer>(bytes: &Arc<[u8]>, s: S) -> Result<S::Ok, S::Error> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = String::with_capacity(bytes.len() * 2);
        for b in bytes.iter() {
            text.push(DIGITS[usize::from(b >> 4)] as char);
            text.push(DIGITS[usize::from(b & 15)] as char);
        }
        s.serialize_str(&text)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Arc<[u8]>, D::Error> {
        let text = String::deserialize(d)?;
        let bytes = crate::values::parse_hex(&text);
        bytes
            .map(Into::into)
            .ok_or_else(|| D::Error::custom("not a string of hex digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_found_and_near_ones_joined() {
        let old = vec![0u8; 2000];
        let mut new = old.clone();
        for i in [3, 10, 300, 1999] {
            new[i] = 1;
        }
        let mut pieces = Vec::new();
        differences(100, &old, &new, &mut pieces);
        let entries: Vec<(u64, usize)> = pieces.iter().map(|p| (p.offset, p.new.len())).collect();
        assert_eq!(entries, [(103, 8), (400, 1), (2099, 1)]);
        differences(0, &old, &old, &mut pieces);
        assert_eq!(pieces.len(), 3);
    }
}
