//! The reverse map: from physical memory to all addresses in all address spaces that map it.

use super::MapRun;
use crate::PhysAddr;
use std::ops::Range;

/// A mapping of physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReverseMapping {
    /// Index of the address space in the recording's list.
    pub space: u32,
    /// The run, clipped to the requested range.
    pub run: MapRun,
}

/// All mappings of all address spaces by physical address.
#[derive(Clone, Debug, Default)]
pub struct ReverseMap {
    by_pa: Vec<(u32, MapRun)>,
    /// The highest physical end of all runs up to each run.
    furthest: Vec<u64>,
}

/// Maximum number of runs that one lookup visits.
const FAR: usize = 1 << 14;

impl ReverseMap {
    /// Builds the map. `spaces`: the runs of each address space.
    #[must_use]
    pub fn new<'a>(spaces: impl IntoIterator<Item = &'a [MapRun]>) -> Self {
        let each = spaces.into_iter().zip(0u32..);
        let mut by_pa: Vec<(u32, MapRun)> = each.flat_map(|(runs, i)| runs.iter().map(move |r| (i, *r))).collect();
        by_pa.sort_unstable_by_key(|(space, r)| (r.pa, *space, r.va));
        let mut far = 0;
        let furthest = by_pa
            .iter()
            .map(|(_, r)| {
                far = far.max(r.pa.get().saturating_add(r.bytes()));
                far
            })
            .collect();
        Self { by_pa, furthest }
    }

    /// Returns at most `max` mappings of physical memory, by address space and address, clipped to the requested
    /// range. The flag is `true` if these are all.
    #[must_use]
    pub fn find_mappings(&self, memory: &Range<PhysAddr>, max: usize) -> (Vec<ReverseMapping>, bool) {
        let (from, to) = (memory.start.get(), memory.end.get());
        let end = self.by_pa.partition_point(|(_, r)| r.pa.get() < to);
        let (mut out, mut all) = (Vec::new(), true);
        for (passed, i) in (0..end).rev().enumerate() {
            // No run up to here reaches that far.
            if self.furthest.get(i).is_none_or(|f| *f <= from) {
                break;
            }
            if passed >= FAR || out.len() >= max {
                all = false;
                break;
            }
            let Some((space, r)) = self.by_pa.get(i) else { break };
            let (start, stop) = (r.pa.get().max(from), r.pa.get().saturating_add(r.bytes()).min(to));
            if start >= stop {
                continue;
            }
            let run = MapRun {
                va: r.va.saturating_add(start - r.pa.get()),
                pa: PhysAddr::new(start),
                pages: (stop - start).div_ceil(4096),
                ..*r
            };
            out.push(ReverseMapping { space: *space, run });
        }
        out.sort_unstable_by_key(|p| (p.space, p.run.va));
        (out, all)
    }
}
