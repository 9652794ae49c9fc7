//! Blocks of a section: how a writer computes their digests, and how a reader of metadata verifies them.

use super::layout::{Entry, digest};
use crate::recording::{
    BLOCK_BYTES, BlockEntry, BlockPacker, CODEC_PLAIN, CODEC_ZSTD, PACKED_BLOCK_BYTES, PackedBlock, Preparation,
    check_block_entry, entry_of, unpack,
};
use rayon::prelude::{IndexedParallelIterator as _, ParallelIterator as _, ParallelSlice as _};
use std::io;

/// Bit of the plain codec in the codec set of a commit record.
pub(super) const PLAIN_CODECS: u64 = 1 << CODEC_PLAIN;
/// Bits of all known codecs there.
pub(super) const KNOWN_CODECS: u64 = PLAIN_CODECS | 1 << CODEC_ZSTD;
/// Minimum number of blocks that a processor packs at a time.
const MIN_BLOCKS_PER_TASK: usize = 4;
/// Size of the sample of a block of mixed values, bytes, and the alignment of its start.
const SAMPLE_BYTES: usize = 16 << 10;
const SAMPLE_ALIGNMENT: usize = 64;
/// Maximum size of the sample of rows, bytes. One processor packs it in every way while the others wait.
const ROW_SAMPLE_BYTES: usize = 64 << 10;
/// Alignment of the block table of a section, bytes.
pub(super) const BLOCK_TABLE_ALIGN: u64 = 8;

/// How the preparation of packed blocks is chosen.
#[derive(Clone, Copy)]
pub(super) enum Content {
    /// Rows of this size, bytes: all are prepared as a block in their middle becomes smallest.
    Rows(usize),
    /// Values of several sizes: each block is prepared as a sample of it becomes smallest.
    Mixed,
}

/// Stored blocks and the table of their digests.
pub(super) struct PackedBlocks {
    pub stored: Vec<u8>,
    pub table: Vec<u8>,
}

/// Packs a content with all processors.
pub(super) fn pack(bytes: &[u8], content: Content) -> io::Result<PackedBlocks> {
    let mut chosen = None;
    if let Content::Rows(row_bytes) = content {
        let row_bytes = row_bytes.max(1);
        let middle = bytes.len() / row_bytes / 2 * row_bytes;
        let sample = bytes.get(middle..).unwrap_or(bytes);
        let sample = sample.get(..ROW_SAMPLE_BYTES / row_bytes * row_bytes).unwrap_or(sample);
        chosen = Some(BlockPacker::new()?.choose(sample, &Preparation::candidates(row_bytes))?);
    }
    let pack = |packer: &mut io::Result<BlockPacker>, block: &[u8]| match packer {
        Ok(packer) => {
            let sample = || {
                let start = (block.len().saturating_sub(SAMPLE_BYTES) / 2).next_multiple_of(SAMPLE_ALIGNMENT);
                block
                    .get(start..)
                    .map_or(block, |rest| rest.get(..SAMPLE_BYTES).unwrap_or(rest))
            };
            let preparation = match chosen {
                Some(preparation) => preparation,
                None => packer.choose(sample(), &Preparation::MIXED)?,
            };
            packer.pack(block, preparation)
        }
        Err(e) => Err(io::Error::new(e.kind(), e.to_string())),
    };
    let blocks = bytes.par_chunks(PACKED_BLOCK_BYTES).with_min_len(MIN_BLOCKS_PER_TASK);
    let blocks: Vec<PackedBlock> = blocks.map_init(BlockPacker::new, pack).collect::<io::Result<_>>()?;
    let mut packed = PackedBlocks {
        stored: Vec::with_capacity(blocks.iter().map(|block| block.bytes.len()).sum()),
        table: Vec::new(),
    };
    for block in blocks {
        let entry = BlockEntry {
            digest: digest(&block.bytes),
            stored_bytes: block.bytes.len(),
            codec: block.codec,
            preparation: block.preparation.raw(),
        };
        packed.table.extend_from_slice(&entry.to_bytes());
        packed.stored.extend_from_slice(&block.bytes);
    }
    Ok(packed)
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
        let entry = BlockEntry {
            digest: *self.hasher.finalize().as_bytes(),
            stored_bytes: self.filled,
            codec: CODEC_PLAIN,
            preparation: Preparation::NONE.raw(),
        };
        self.table.extend_from_slice(&entry.to_bytes());
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

/// Verifies a plain block of a section against its digest.
pub(super) fn check_block(e: &Entry, table: &[u8], block: u64, data: &[u8]) -> Result<(), String> {
    let entry = find_entry(e, table, block)?;
    check_block_entry(entry, data).map_err(|reason| describe(e, block, reason))
}

/// Verifies a packed block of a section, at the start of `stored`, against its digest, and unpacks it. Returns its stored
/// size, bytes, and its content.
pub(super) fn unpack_block(e: &Entry, table: &[u8], block: u64, stored: &[u8]) -> Result<(usize, Vec<u8>), String> {
    let entry = find_entry(e, table, block)?;
    let entry = BlockEntry::read(entry).ok_or_else(|| describe(e, block, None))?;
    let size = entry.stored_bytes;
    let past_end = || {
        describe(
            e,
            block,
            Some("its stored bytes reach past the end of the section".to_owned()),
        )
    };
    let data = stored.get(..size).ok_or_else(past_end)?;
    if digest(data) != entry.digest {
        return Err(describe(e, block, None));
    }
    let start = block.saturating_mul(PACKED_BLOCK_BYTES as u64);
    let mut content = vec![0; e.bytes.saturating_sub(start).min(PACKED_BLOCK_BYTES as u64) as usize];
    match unpack(entry.codec, entry.preparation, data, &mut content) {
        Ok(()) => Ok((size, content)),
        Err(reason) => Err(describe(e, block, Some(reason.to_string()))),
    }
}

/// Returns the size of a stored block as a block table states it, bytes.
pub(super) fn stored_size(table: &[u8], block: u64) -> usize {
    let entry = usize::try_from(block).ok().and_then(|block| entry_of(table, block));
    entry.and_then(BlockEntry::read).map_or(0, |entry| entry.stored_bytes)
}

fn find_entry<'t>(e: &Entry, table: &'t [u8], block: u64) -> Result<&'t [u8], String> {
    let entry = usize::try_from(block).ok().and_then(|block| entry_of(table, block));
    entry.ok_or_else(|| format!("{e}, block {block} has no entry in a block table"))
}

fn describe(e: &Entry, block: u64, reason: Option<String>) -> String {
    match reason {
        Some(reason) => format!("{e}, block {block}: {reason}"),
        None => format!("{e}, block {block} does not agree with its digest"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::BLOCK_ENTRY_BYTES;

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
        assert_eq!(table.len(), data.len().div_ceil(BLOCK_BYTES) * BLOCK_ENTRY_BYTES);
        for (n, block) in data.chunks(BLOCK_BYTES).enumerate() {
            let entry = &table[n * BLOCK_ENTRY_BYTES..(n + 1) * BLOCK_ENTRY_BYTES];
            assert_eq!(check_block_entry(entry, block), Ok(()));
        }
        assert_eq!(section_digest(1, [&data[..5], &data[5..]]), digest(&data));
    }
}
