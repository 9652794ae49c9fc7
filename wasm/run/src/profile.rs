//! The profile of a run on a GPU: how often warps execute each block, and how many of their lanes are active.

/// Lanes of a warp.
const LANES: u64 = 32;

/// Executions of a block: the instructions from one label, branch or function entry to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockProfile {
    /// Byte offset of the first instruction in the program's file.
    pub offset: u64,
    /// Number of times that a warp executed the block.
    pub executions: u64,
    /// Sum of the active lanes of all executions, at most 32 for each.
    pub active_lanes: u64,
}

impl BlockProfile {
    /// Returns the share of active lanes, from 0 to 1, or `None` if the block was never executed.
    #[must_use]
    pub fn active_share(&self) -> Option<f64> {
        let lanes = self.executions.checked_mul(LANES).filter(|lanes| *lanes > 0)?;
        Some((self.active_lanes as f64 / lanes as f64).min(1.0))
    }

    /// Returns blocks in the order of their offsets. Of blocks with the same offset the last is kept: before the
    /// instructions at a join, a path to it can have a block of its own.
    #[must_use]
    pub fn sort(mut blocks: Vec<Self>) -> Vec<Self> {
        blocks.reverse();
        blocks.sort_by_key(|block| block.offset);
        blocks.dedup_by_key(|block| block.offset);
        blocks
    }

    /// Returns the share of active lanes of all executions, or `None` if no block was executed.
    #[must_use]
    pub fn total_share(blocks: &[Self]) -> Option<f64> {
        let sum = |value: fn(&Self) -> u64| blocks.iter().map(value).fold(0, u64::saturating_add);
        let total = Self {
            offset: 0,
            executions: sum(|b| b.executions),
            active_lanes: sum(|b| b.active_lanes),
        };
        total.active_share()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(offset: u64, executions: u64, active_lanes: u64) -> BlockProfile {
        BlockProfile {
            offset,
            executions,
            active_lanes,
        }
    }

    #[test]
    fn shares_are_from_zero_to_one() {
        assert_eq!(block(0, 0, 0).active_share(), None);
        assert_eq!(block(0, 2, 64).active_share(), Some(1.0));
        assert_eq!(block(0, 2, 16).active_share(), Some(0.25));
        assert_eq!(block(0, 1, 99).active_share(), Some(1.0));
        assert_eq!(block(0, u64::MAX, 1).active_share(), None);
        assert_eq!(BlockProfile::total_share(&[]), None);
        let both = [block(0, 1, 32), block(9, 3, 32)];
        assert_eq!(BlockProfile::total_share(&both), Some(0.5));
    }

    #[test]
    fn the_last_block_of_an_offset_is_kept() {
        let sorted = BlockProfile::sort(vec![block(9, 1, 2), block(3, 1, 1), block(9, 4, 5)]);
        assert_eq!(sorted, [block(3, 1, 1), block(9, 4, 5)]);
    }
}
