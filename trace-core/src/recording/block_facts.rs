//! Cached properties of blocks of a column's rows: a column never changes.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// Number of rows of a block, which starts at a multiple of it.
pub(crate) const BLOCK_ROWS: usize = 4096;

/// A property of all rows of a block. Each takes two bits of a block's byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockFact {
    /// For the column of kinds: only reads and writes.
    OnlyAccesses = 0,
    /// For the column of rows: each is one more than the previous.
    FollowOneAnother = 2,
}

/// One byte per block, allocated when the first property is stored.
#[derive(Debug, Default)]
pub(super) struct BlockFacts(OnceLock<Box<[AtomicU8]>>);

impl BlockFacts {
    /// Returns a property of a block, or `None` if it was not computed.
    pub fn get(&self, block: usize, fact: BlockFact) -> Option<bool> {
        // No other memory depends on these bits, and all threads compute the same values.
        let byte = self.0.get()?.get(block)?.load(Ordering::Relaxed) >> fact as u8;
        (byte & 1 != 0).then_some(byte & 2 != 0)
    }

    /// Stores a property of a block of a column of `rows` rows.
    pub fn keep(&self, rows: usize, block: usize, fact: BlockFact, holds: bool) {
        let blocks = || (0..rows.div_ceil(BLOCK_ROWS)).map(|_| AtomicU8::new(0)).collect();
        if let Some(byte) = self.0.get_or_init(blocks).get(block) {
            byte.fetch_or((1 | u8::from(holds) << 1) << fact as u8, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_facts_are_stored_per_block() {
        let all = BlockFacts::default();
        let rows = 2 * BLOCK_ROWS + 1;
        assert_eq!(all.get(0, BlockFact::OnlyAccesses), None);
        all.keep(rows, 0, BlockFact::OnlyAccesses, true);
        all.keep(rows, 2, BlockFact::OnlyAccesses, false);
        all.keep(rows, 2, BlockFact::FollowOneAnother, true);
        all.keep(rows, 3, BlockFact::FollowOneAnother, true);
        let describe = |fact| (0..4).map(|b| all.get(b, fact)).collect::<Vec<_>>();
        assert_eq!(describe(BlockFact::OnlyAccesses), [Some(true), None, Some(false), None]);
        assert_eq!(describe(BlockFact::FollowOneAnother), [None, None, Some(true), None]);
    }
}
