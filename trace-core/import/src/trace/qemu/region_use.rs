//! The comparison of the regions that a trace names with the windows that their accesses fall into.

use super::super::device::{Function, name_of};
use super::super::mmio_regions::{MmioRegions, Owner};
use super::super::names::Names;
use std::collections::BTreeMap;
use trace_core::finding::{Finding, FindingKind};

/// Maximum number of pairs of a region and a function that are kept.
const MAX_PAIRS: usize = 1 << 14;
/// Maximum number of regions that are reported.
const MAX_REPORTED: usize = 8;

/// A region of the machine by the number of its name and its pointer.
pub(super) type RegionKey = (u16, u64);

/// Number of accesses of each region to the BARs of each function.
#[derive(Clone, Debug, Default)]
pub(super) struct RegionUse {
    counts: BTreeMap<(RegionKey, usize), u64>,
    /// The last pair: most accesses are to the same as the one before.
    last: Option<((RegionKey, usize), u64)>,
}

impl RegionUse {
    /// Counts an access of a region to a window.
    pub(super) fn add(&mut self, region: RegionKey, window: u16, windows: &MmioRegions) {
        let Some(Owner::Bar { function, .. }) = windows.all().get(usize::from(window)).map(|w| w.owner) else {
            return;
        };
        let key = (region, function);
        match &mut self.last {
            Some((last, count)) if *last == key => *count += 1,
            other => {
                let before = other.replace((key, 1));
                self.keep(before);
            }
        }
    }

    fn keep(&mut self, pair: Option<((RegionKey, usize), u64)>) {
        if let Some((key, count)) = pair
            && (self.counts.len() < MAX_PAIRS || self.counts.contains_key(&key))
        {
            *self.counts.entry(key).or_insert(0) += count;
        }
    }

    /// Returns findings about regions whose accesses fall into windows of more than one function.
    pub(super) fn contradictions(&mut self, functions: &[Function], names: &Names) -> Vec<Finding> {
        let last = self.last.take();
        self.keep(last);
        let mut by_region: BTreeMap<RegionKey, Vec<(usize, u64)>> = BTreeMap::new();
        for ((region, function), count) in &self.counts {
            by_region.entry(*region).or_default().push((*function, *count));
        }
        let several = by_region.into_iter().filter(|(_, all)| all.len() > 1);
        let report = |((name, _), all): (RegionKey, Vec<(usize, u64)>)| {
            let of = |(function, count): &(usize, u64)| {
                let name = functions.get(*function).map(name_of).unwrap_or_default();
                format!("{count} in windows of {name}")
            };
            let text: Vec<String> = all.iter().map(of).collect();
            let message = format!(
                "the trace names one region, but its accesses are in windows of several devices: {}. The windows follow \
                 the accesses to configuration space; some of these may be missing in the trace",
                text.join(", ")
            );
            Finding::new(FindingKind::Assumed, format!("region {}", names.name(name)), message)
        };
        several.take(MAX_REPORTED).map(report).collect()
    }
}
