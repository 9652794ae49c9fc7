//! Blocks of a section: how a writer computes their digests, and how a reader of metadata verifies them.

use super::layout::{Entry, digest};
use crate::recording::{BLOCK_BYTES, BLOCK_ENTRY_BYTES, CODEC_PLAIN, check_block_entry};

/// Bit of the plain codec in the codec set of a commit record.
pub(super) const KNOWN_CODECS: u64 = 1 << CODEC_PLAIN;
/// Alignment of the block table of a section, bytes.
pub(super) const BLOCK_TABLE_ALIGN: u64 = 8;

/// Returns the number of blocks of a section of `bytes` bytes.
pub(super) fn count(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_BYTES as u64)
}

/// Returns the size of the block table of a section of `bytes` bytes; `None` on overflow.
pub(super) fn table_bytes(bytes: u64) -> Option<u64> {
    count(bytes).checked_mul(BLOCK_ENTRY_BYTES as u64)
}

/// Computes the digests of blocks while the bytes of a section are written.
pub(super) struct BlockHasher {
    hasher: blake3::Hasher,
    /// Number of bytes in the partial block.
    filled: usize,
    table: Vec<u8>,
}

impl BlockHasher {
    pub fn new() -> Self {
        Self {
            hasher: blake3::Hasher::new(),
            filled: 0,
            table: Vec::new(),
        }
    }

    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, rest) = bytes.split_at(bytes.len().min(BLOCK_BYTES - self.filled));
            self.hasher.update(now);
            self.filled += now.len();
            if self.filled == BLOCK_BYTES {
                self.close();
            }
            bytes = rest;
        }
    }

    fn close(&mut self) {
        self.table.extend_from_slice(self.hasher.finalize().as_bytes());
        self.table.extend_from_slice(&(self.filled as u32).to_le_bytes());
        self.table.extend_from_slice(&[CODEC_PLAIN, 0, 0, 0]);
        self.hasher.reset();
        self.filled = 0;
    }

    /// Returns the block table.
    pub fn finish(&mut self) -> &[u8] {
        if self.filled > 0 {
            self.close();
        }
        &self.table
    }
}

/// Returns the digest that a section of these bytes has in its table entry, in a file of this version.
pub(super) fn section_digest<'a>(version: u32, parts: impl IntoIterator<Item = &'a [u8]>) -> [u8; 32] {
    if version == 1 {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(part);
        }
        return *hasher.finalize().as_bytes();
    }
    let mut hasher = BlockHasher::new();
    for part in parts {
        hasher.update(part);
    }
    digest(hasher.finish())
}

/// Verifies a section's block table against the digest in its entry.
pub(super) fn check_table(e: &Entry, table: &[u8]) -> Result<(), String> {
    if digest(table) == e.digest {
        return Ok(());
    }
    Err(format!(
        "{e}: the table of its blocks at byte {:#x} does not agree with its digest",
        e.blocks_at
    ))
}

/// Verifies a block of a section against its digest.
pub(super) fn check_block(e: &Entry, table: &[u8], block: u64, data: &[u8]) -> Result<(), String> {
    let entry = usize::try_from(block)
        .ok()
        .and_then(|b| b.checked_mul(BLOCK_ENTRY_BYTES))
        .and_then(|at| table.get(at..at.checked_add(BLOCK_ENTRY_BYTES)?));
    let entry = entry.ok_or_else(|| format!("{e}, block {block} has no entry in a block table"))?;
    check_block_entry(entry, data).map_err(|reason| match reason {
        Some(reason) => format!("{e}, block {block}: {reason}"),
        None => format!("{e}, block {block} does not agree with its digest"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_table_does_not_depend_on_chunking() {
        let data: Vec<u8> = (0..3 * BLOCK_BYTES + 17).map(|i| (i / 251) as u8).collect();
        let expected = section_digest(2, [&data[..]]);
        for size in [1000, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES * 2 + 5] {
            assert_eq!(section_digest(2, data.chunks(size)), expected, "{size}");
        }
        let mut hasher = BlockHasher::new();
        hasher.update(&data);
        let table = hasher.finish().to_vec();
        assert_eq!(table.len() as u64, table_bytes(data.len() as u64).unwrap());
        for (n, block) in data.chunks(BLOCK_BYTES).enumerate() {
            let entry = &table[n * BLOCK_ENTRY_BYTES..(n + 1) * BLOCK_ENTRY_BYTES];
            assert_eq!(check_block_entry(entry, block), Ok(()));
        }
        assert_eq!(section_digest(1, [&data[..5], &data[5..]]), digest(&data));
        assert_eq!(table_bytes(0), Some(0));
    }
}
