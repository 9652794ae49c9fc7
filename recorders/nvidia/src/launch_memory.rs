//! What the recorder knows of the memory that launches read: which of it commands wrote, and what was saved.
//!
//! The tables have a fixed size. A full table forgets old entries: then memory is saved once more.

use crate::copy_state::GpuRange;
use nvidia_channel::GpuVa;

/// Distance of the noted addresses of a written range, bytes: descriptors have this alignment.
const UNIT_BYTES: u64 = 256;
/// Number of addresses that share a set of a table.
const WAYS: usize = 4;
/// Number of sets of the written addresses.
const WRITTEN_SETS: usize = 2048;
/// Number of sets of the saved ranges.
const SAVED_SETS: usize = 512;
/// Number of large written ranges.
const MAX_RANGES: usize = 32;
/// Maximum size of a written range whose addresses are noted one by one, bytes.
const MAX_NOTED_BYTES: u64 = 32 << 10;
/// Maximum number of descriptors that are saved at a doorbell.
pub(crate) const MAX_DESCRIPTORS: usize = 64;

/// Memory that was saved.
#[derive(Clone, Copy, Debug, Default)]
struct SavedRange {
    va: u64,
    /// Hash of its content.
    hash: u64,
    /// Number of the doorbell that used it last.
    doorbell: u64,
}

/// The tables.
#[derive(Debug)]
pub(crate) struct LaunchMemory {
    /// Addresses in ranges that commands wrote: the start, and each that is aligned to a unit.
    written: [[u64; WAYS]; WRITTEN_SETS],
    ranges: [GpuRange; MAX_RANGES],
    next_range: usize,
    saved: [[SavedRange; WAYS]; SAVED_SETS],
    /// Number of the current doorbell, from 1.
    doorbell: u64,
    descriptors: [u64; MAX_DESCRIPTORS],
    descriptor_count: usize,
}

/// Answer to a request to save a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It was not seen at this doorbell.
    New,
    /// It was seen at this doorbell.
    Seen,
    /// The doorbell has too many.
    TooMany,
}

impl LaunchMemory {
    /// Makes empty tables.
    pub fn new() -> Box<Self> {
        Box::new(Self {
            written: [[0; WAYS]; WRITTEN_SETS],
            ranges: [GpuRange::default(); MAX_RANGES],
            next_range: 0,
            saved: [[SavedRange::default(); WAYS]; SAVED_SETS],
            doorbell: 1,
            descriptors: [0; MAX_DESCRIPTORS],
            descriptor_count: 0,
        })
    }

    /// Begins a doorbell.
    pub fn begin_doorbell(&mut self) {
        self.doorbell = self.doorbell.wrapping_add(1);
        self.descriptor_count = 0;
    }

    /// Notes that commands write a range.
    pub fn note_written(&mut self, range: GpuRange) {
        if range.bytes > MAX_NOTED_BYTES {
            if let Some(slot) = self.ranges.get_mut(self.next_range) {
                *slot = range;
            }
            self.next_range = (self.next_range + 1) % MAX_RANGES;
            return;
        }
        if range.bytes == 0 {
            return;
        }
        // Other content shares the units of small uploads: the start is exact.
        self.note_address(range.va.0);
        let end = range.va.0.saturating_add(range.bytes);
        let mut next = range.va.0.checked_next_multiple_of(UNIT_BYTES);
        while let Some(at) = next.filter(|at| *at < end) {
            self.note_address(at);
            next = at.checked_add(UNIT_BYTES);
        }
    }

    fn note_address(&mut self, at: u64) {
        if let Some(set) = self.written.get_mut(set_of(at, WRITTEN_SETS))
            && !set.contains(&at)
        {
            set.rotate_right(1);
            set[0] = at;
        }
    }

    /// Whether commands wrote the first bytes at an address. The program does not see what they wrote before they run.
    pub fn is_written(&self, va: GpuVa) -> bool {
        let is_noted = |set: &[u64; WAYS]| set.contains(&va.0);
        let holds = |r: &GpuRange| va.0.checked_sub(r.va.0).is_some_and(|within| within < r.bytes);
        self.written.get(set_of(va.0, WRITTEN_SETS)).is_some_and(is_noted) || self.ranges.iter().any(holds)
    }

    /// Admits a descriptor, once at a doorbell.
    pub fn admit(&mut self, va: GpuVa) -> Admission {
        let seen = self.descriptors.get(..self.descriptor_count).unwrap_or_default();
        if seen.contains(&va.0) {
            return Admission::Seen;
        }
        let Some(slot) = self.descriptors.get_mut(self.descriptor_count) else {
            return Admission::TooMany;
        };
        *slot = va.0;
        self.descriptor_count += 1;
        Admission::New
    }

    /// Whether a range was looked at during this doorbell.
    pub fn is_seen(&self, va: GpuVa) -> bool {
        let set = self.saved.get(set_of(va.0, SAVED_SETS));
        set.is_some_and(|set| set.iter().any(|s| s.va == va.0 && s.doorbell == self.doorbell))
    }

    /// Notes the content of a range by its hash. Returns `false` if the same content was noted before.
    pub fn note_saved(&mut self, va: GpuVa, hash: u64) -> bool {
        let doorbell = self.doorbell;
        let Some(set) = self.saved.get_mut(set_of(va.0, SAVED_SETS)) else {
            return true;
        };
        let known = set.iter_mut().find(|s| s.va == va.0 && s.doorbell != 0);
        if let Some(known) = known {
            let is_new = known.hash != hash;
            (known.hash, known.doorbell) = (hash, doorbell);
            return is_new;
        }
        set.rotate_right(1);
        set[0] = SavedRange {
            va: va.0,
            hash,
            doorbell,
        };
        true
    }
}

/// Returns the set of a number.
fn set_of(number: u64, sets: usize) -> usize {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % sets
}

/// Continues a hash with bytes. It begins with 0.
pub(crate) fn hash(before: u64, bytes: &[u8]) -> u64 {
    let mut hash = before ^ bytes.len() as u64;
    for word in bytes.chunks(8) {
        let number = word.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b));
        hash = (hash.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    hash ^ hash >> 29
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(va: u64, bytes: u64) -> GpuRange {
        GpuRange { va: GpuVa(va), bytes }
    }

    #[test]
    fn written_ranges_are_known_by_their_start_and_by_units() {
        let mut memory = LaunchMemory::new();
        memory.note_written(range(0x1_0000, 0x180));
        memory.note_written(range(0x2_0010, 1));
        memory.note_written(range(0x100_0000, 1 << 20));
        memory.note_written(range(0x5_0000, 0));
        for (va, expected) in [
            (0x1_0000, true),
            (0x1_0100, true),
            (0x1_0200, false),
            (0x2_0000, false),
            (0x2_0010, true),
            (0x2_0100, false),
            (0x10f_ff00, true),
            (0x110_0000, false),
            (0x5_0000, false),
        ] {
            assert_eq!(memory.is_written(GpuVa(va)), expected, "{va:#x}");
        }
        // The tables forget: they do not grow.
        for n in 0..1 << 16 {
            memory.note_written(range(0x1000_0000 + n * 256, 256));
        }
        assert!(memory.is_written(GpuVa(0x1000_0000 + 0xffff * 256)));
    }

    #[test]
    fn a_descriptor_is_admitted_once_at_a_doorbell() {
        let mut memory = LaunchMemory::new();
        for n in 0..MAX_DESCRIPTORS as u64 {
            assert_eq!(memory.admit(GpuVa(n << 8)), Admission::New);
        }
        assert_eq!(memory.admit(GpuVa(0x100)), Admission::Seen);
        assert_eq!(memory.admit(GpuVa(0x10_0000)), Admission::TooMany);
        memory.begin_doorbell();
        assert_eq!(memory.admit(GpuVa(0x100)), Admission::New);
    }

    #[test]
    fn equal_content_is_noted_once() {
        let mut memory = LaunchMemory::new();
        let (a, b) = (hash(0, &[1; 64]), hash(0, &[2; 64]));
        assert_ne!(a, b);
        assert!(!memory.is_seen(GpuVa(0x1000)));
        assert!(memory.note_saved(GpuVa(0x1000), a));
        assert!(memory.is_seen(GpuVa(0x1000)));
        memory.begin_doorbell();
        assert!(!memory.is_seen(GpuVa(0x1000)));
        assert!(!memory.note_saved(GpuVa(0x1000), a));
        assert!(memory.note_saved(GpuVa(0x1000), b));
        assert!(memory.note_saved(GpuVa(0), a));
    }
}
