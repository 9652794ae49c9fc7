//! Relocation: addresses that differ only by where memory was allocated.
//!
//! Two addresses match if they have the same offset in ranges of the same size and kind, and if these two ranges
//! match everywhere. The ranges are memory that the driver allocated, and memory that it mapped for the device.
//! Without such ranges on both sides, an address that differs is a difference.

use super::recorded_ranges::{RecordedAddresses, is_same_address};
use crate::recording::Recording;
use crate::registers::Half;
use std::collections::HashMap;

/// Maximum number of ranges with the same low address half that are examined.
const MIN_MATCHES: usize = 8;

/// A range of addresses that the device may access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct DeviceRange {
    /// The low 32 bits of its first address: halves of an address are compared separately.
    low: u32,
    start: u64,
    bytes: u64,
    /// The kind of range: the driver's flags, or how the memory was mapped.
    kind: u64,
}

/// Returns the ranges of a recording, sorted by the low half of their first address.
fn list_device_ranges(recording: &Recording) -> Vec<DeviceRange> {
    let of = |start: u64, bytes: u64, kind: u64| DeviceRange {
        low: start as u32,
        start,
        bytes,
        kind,
    };
    let regions = recording.metadata.regions.iter();
    let regions = regions.map(|r| of(r.start.get(), r.end.get().saturating_sub(r.start.get()), r.flags));
    let maps = recording.events.dma_maps.iter();
    let maps = maps.filter(|m| m.bus != crate::recording::DmaMapRow::UNKNOWN);
    let mut all: Vec<DeviceRange> = regions
        .chain(maps.map(|m| of(m.bus.get(), m.bytes, u64::from(m.kind))))
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The matching ranges of two recordings, as found so far.
#[derive(Debug, Default)]
pub(super) struct Relocations {
    a: Vec<DeviceRange>,
    b: Vec<DeviceRange>,
    /// Index into `b` by index into `a`, and the reverse map.
    there: HashMap<usize, usize>,
    back: HashMap<usize, usize>,
    /// Translation of the addresses of each side to those of the recording that was replayed.
    recorded: (RecordedAddresses, RecordedAddresses),
}

impl Relocations {
    pub fn from_recordings(a: &Recording, b: &Recording) -> Self {
        Self {
            a: list_device_ranges(a),
            b: list_device_ranges(b),
            recorded: (RecordedAddresses::new(a), RecordedAddresses::new(b)),
            ..Self::default()
        }
    }

    /// Returns whether two values of an address register differ only by relocation. `half` says which half of an
    /// address the register holds, if it holds one.
    pub fn is_relocated(&mut self, half: Option<Half>, values: (u64, u64)) -> bool {
        if is_same_address((&self.recorded.0, &self.recorded.1), half, values) {
            return true;
        }
        if let Some(Half::High { .. }) = half {
            // The low half identifies the ranges; a high half must belong to a pair that already matched.
            let mut pairs = self.there.iter();
            return pairs.any(|(i, j)| {
                let high = |of: &[DeviceRange], n: usize| of.get(n).map(|g| g.start >> 32);
                high(&self.a, *i) == Some(values.0) && high(&self.b, *j) == Some(values.1)
            }) || self.are_high_halves(values);
        }
        let whole = half.is_none();
        let found = ranges_holding(&self.a, values.0, whole).find_map(|i| {
            let j = ranges_holding(&self.b, values.1, whole).find(|j| self.is_consistent(i, *j, values))?;
            Some((i, j))
        });
        if let Some((i, j)) = found {
            self.there.insert(i, j);
            self.back.insert(j, i);
        }
        found.is_some()
    }

    /// Returns whether both are high halves of ranges, before any low half was seen: drivers write either half first.
    fn are_high_halves(&self, values: (u64, u64)) -> bool {
        let has = |of: &[DeviceRange], high: u64| of.iter().any(|g| g.start >> 32 == high);
        self.there.is_empty() && has(&self.a, values.0) && has(&self.b, values.1)
    }

    fn is_consistent(&self, i: usize, j: usize, values: (u64, u64)) -> bool {
        let (Some(x), Some(y)) = (self.a.get(i), self.b.get(j)) else {
            return false;
        };
        let at = |value: u64, g: &DeviceRange| (value as u32).wrapping_sub(g.low);
        (x.bytes, x.kind) == (y.bytes, y.kind)
            && at(values.0, x) == at(values.1, y)
            && self.there.get(&i).is_none_or(|n| *n == j)
            && self.back.get(&j).is_none_or(|n| *n == i)
    }
}

/// Returns the indices of the ranges that contain an address, or may contain it if only its low half is known.
fn ranges_holding(of: &[DeviceRange], value: u64, whole: bool) -> impl Iterator<Item = usize> + '_ {
    let low = value as u32;
    let end = of.partition_point(|g| g.low <= low);
    let here = of
        .get(..end)
        .unwrap_or_default()
        .iter()
        .enumerate()
        .rev()
        .take(MIN_MATCHES);
    here.filter(move |(_, g)| {
        let inside = u64::from(low.wrapping_sub(g.low)) < g.bytes;
        inside && (!whole || g.start <= value && value - g.start < g.bytes)
    })
    .map(|(i, _)| i)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Metadata, Region};
    use crate::{GpuVa, RegOffset};

    fn with(regions: &[(u64, u64)]) -> Recording {
        let region = |(start, bytes): &(u64, u64)| Region {
            address_space: 0,
            start: GpuVa::new(*start),
            end: GpuVa::new(start + bytes),
            committed_pages: bytes >> 12,
            flags: 0,
            has_content: true,
        };
        Recording {
            metadata: Metadata {
                regions: regions.iter().map(region).collect(),
                ..Metadata::default()
            },
            ..Recording::default()
        }
    }

    #[test]
    fn addresses_are_matched_by_their_ranges() {
        let a = with(&[(0x1000, 0x2000), (0x8000, 0x1000)]);
        let b = with(&[(0x4_0000, 0x2000), (0x9_0000, 0x1000), (0xa_0000, 0x2000)]);
        let mut r = Relocations::from_recordings(&a, &b);
        assert!(r.is_relocated(None, (0x1040, 0x4_0040)));
        // These addresses have another offset, a range of another size, or no range.
        assert!(!r.is_relocated(None, (0x1040, 0x4_0080)));
        assert!(!r.is_relocated(None, (0x1040, 0x9_0040)));
        assert!(!r.is_relocated(None, (0x1040, 0x7_0040)));
        // The first range already matches another range.
        assert!(!r.is_relocated(None, (0x1040, 0xa_0040)));
        assert!(r.is_relocated(None, (0x8000, 0x9_0000)));
    }

    #[test]
    fn address_halves_are_relocated_together() {
        let a = with(&[(0x7_1000_0000, 0x1000)]);
        let b = with(&[(0x9_2000_0000, 0x1000)]);
        let mut r = Relocations::from_recordings(&a, &b);
        let (low, high) = (
            Some(Half::Low {
                high_offset: RegOffset::new(4),
            }),
            Some(Half::High {
                low_offset: RegOffset::ZERO,
            }),
        );
        assert!(r.is_relocated(low, (0x1000_0008, 0x2000_0008)));
        assert!(r.is_relocated(high, (7, 9)));
        assert!(!r.is_relocated(high, (7, 8)));
    }

    #[test]
    fn without_ranges_an_address_that_differs_is_a_difference() {
        let mut r = Relocations::from_recordings(&with(&[]), &with(&[(0, 0x1000)]));
        assert!(!r.is_relocated(None, (0, 0)));
    }
}
