//! From physical memory back to addresses: everywhere that a page is mapped, in every address space.

use super::MapRun;
use crate::recording::{GpuVa, PhysAddr};
use std::ops::Range;

/// A place that physical memory is mapped at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReverseMapping {
    /// Index of the address space in the recording's list.
    pub space: u32,
    /// The run, clipped to what was asked for.
    pub run: MapRun,
}

/// All mappings of all address spaces by physical address.
#[derive(Clone, Debug, Default)]
pub struct ReverseMap {
    by_pa: Vec<(u32, MapRun)>,
    /// The furthest physical end of the runs up to each.
    furthest: Vec<u64>,
}

/// Runs that one look-up passes at most.
const FAR: usize = 1 << 14;

impl ReverseMap {
    /// Sorts. `spaces`: the runs of each address space.
    #[must_use]
    pub fn new<'a>(spaces: impl IntoIterator<Item = &'a [MapRun]>) -> Self {
        let each = spaces.into_iter().zip(0u32..);
        let mut by_pa: Vec<(u32, MapRun)> = each.flat_map(|(runs, i)| runs.iter().map(move |r| (i, *r))).collect();
        by_pa.sort_unstable_by_key(|(space, r)| (r.pa, *space, r.va));
        let mut far = 0;
        let furthest = by_pa
            .iter()
            .map(|(_, r)| {
                far = far.max(r.pa.0.saturating_add(r.bytes()));
                far
            })
            .collect();
        Self { by_pa, furthest }
    }

    /// Where physical memory is mapped, at most `most` places: by address space and address, clipped to what was asked
    /// for. The flag says whether these are all.
    #[must_use]
    pub fn find_mappings(&self, memory: &Range<PhysAddr>, most: usize) -> (Vec<ReverseMapping>, bool) {
        let (from, to) = (memory.start.0, memory.end.0);
        let end = self.by_pa.partition_point(|(_, r)| r.pa.0 < to);
        let (mut out, mut all) = (Vec::new(), true);
        for (passed, i) in (0..end).rev().enumerate() {
            // No run up to here reaches so far.
            if self.furthest.get(i).is_none_or(|f| *f <= from) {
                break;
            }
            if passed >= FAR || out.len() >= most {
                all = false;
                break;
            }
            let Some((space, r)) = self.by_pa.get(i) else { break };
            let (start, stop) = (r.pa.0.max(from), r.pa.0.saturating_add(r.bytes()).min(to));
            if start >= stop {
                continue;
            }
            let run = MapRun {
                va: GpuVa(r.va.0.saturating_add(start - r.pa.0)),
                pa: PhysAddr(start),
                pages: (stop - start).div_ceil(4096),
                ..*r
            };
            out.push(ReverseMapping { space: *space, run });
        }
        out.sort_unstable_by_key(|p| (p.space, p.run.va));
        (out, all)
    }
}
