//! Mapped address ranges without the large gaps between them.

use super::MapRun;
use std::ops::Range;

/// A group of mappings with only small gaps between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Island {
    /// From the first mapped byte to the end of the last one.
    pub range: Range<u64>,
    /// Number of unmapped bytes since the previous island, or since address 0.
    pub gap: u64,
}

/// Gaps smaller than this are drawn, bytes.
const SMALL: u64 = 1 << 16;

/// Cuts an address space at its largest gaps into at most `most` islands. `runs` are in ascending order.
#[must_use]
pub fn find_islands(runs: &[MapRun], most: usize) -> Vec<Island> {
    let gap = |pair: &[MapRun]| match pair {
        [a, b] => b.va.0.saturating_sub(a.end().0),
        _ => 0,
    };
    let mut gaps: Vec<u64> = runs.windows(2).map(gap).filter(|g| *g >= SMALL).collect();
    let cuts = most.saturating_sub(1);
    // The smallest gap to cut at. If several gaps have this size, there would be too many cuts, so it must be larger.
    let least = if gaps.len() > cuts {
        let (_, next, _) = gaps.select_nth_unstable_by(cuts, |a, b| b.cmp(a));
        next.saturating_add(1)
    } else {
        SMALL
    };
    let mut out: Vec<Island> = Vec::new();
    for run in runs {
        let (start, end) = (run.va.0, run.end().0);
        let before = out.last().map_or(0, |i| i.range.end);
        let gap = start.saturating_sub(before);
        match out.last_mut() {
            Some(last) if gap < least => last.range.end = end,
            _ => out.push(Island { range: start..end, gap }),
        }
    }
    out
}
