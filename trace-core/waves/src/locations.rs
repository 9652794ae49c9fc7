//! The values of locations of register spaces. A location shows its bytes, whichever access changed them last.

use crate::value::Value;
use std::collections::BTreeMap;

/// Maximum size of a location, bytes.
const MAX_BYTES: u8 = 8;

/// A register of the map, or a location that the map does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Location {
    pub space: u8,
    pub offset: u32,
    /// Whether the map names it.
    pub known: bool,
}

/// The bytes of an access, with their value if it is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccessedBytes {
    pub offset: u32,
    /// 1 to 8.
    pub bytes: u8,
    pub value: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct State {
    bytes: u8,
    value: Value,
}

impl State {
    /// Sets the bytes that an access shares with the location at `offset`. Returns `false` if it shares none.
    fn set(&mut self, offset: u32, access: AccessedBytes) -> bool {
        let begin = offset.max(access.offset);
        let end_of = |offset: u32, bytes: u8| u64::from(offset) + u64::from(bytes);
        let end = end_of(offset, self.bytes).min(end_of(access.offset, access.bytes));
        let Some(shared) = end.checked_sub(u64::from(begin)).filter(|bytes| *bytes > 0) else {
            return false;
        };
        // Both differences are below 8 bytes, because the ranges overlap.
        let own = (begin - offset) * 8;
        let theirs = (begin - access.offset) * 8;
        let low = u64::MAX >> (64 - (shared.min(8) as u32) * 8);
        let mask = low << own;
        match access.value {
            Some(value) => {
                self.value.bits = self.value.bits & !mask | (value >> theirs & low) << own;
                self.value.known |= mask;
            }
            None => self.value.known &= !mask,
        }
        true
    }
}

/// The values of all locations with a signal.
#[derive(Debug, Default)]
pub(crate) struct Locations {
    states: BTreeMap<Location, State>,
}

impl Locations {
    /// Adds a location of `bytes` bytes with an unknown value, or widens it.
    pub fn add(&mut self, location: Location, bytes: u8) {
        let bytes = bytes.clamp(1, MAX_BYTES);
        let state = self.states.entry(location).or_insert(State {
            bytes,
            value: Value::default(),
        });
        state.bytes = state.bytes.max(bytes);
    }

    /// Sets the bytes of an access in every location that shares one with it. Appends the locations to `changed`, each
    /// with its number of bits and its value.
    pub fn set(&mut self, space: u8, access: AccessedBytes, changed: &mut Vec<(Location, u32, Value)>) {
        let location = |offset, known| Location { space, offset, known };
        let first = access.offset.saturating_sub(u32::from(MAX_BYTES) - 1);
        let last = access.offset.saturating_add(u32::from(access.bytes.max(1)) - 1);
        for (at, state) in self.states.range_mut(location(first, false)..=location(last, true)) {
            if state.set(at.offset, access) {
                changed.push((*at, u32::from(state.bytes) * 8, state.value));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const fn unnamed(offset: u32) -> Location {
        Location {
            space: 0,
            offset,
            known: false,
        }
    }

    #[test]
    fn locations_show_the_bytes_of_overlapping_accesses() {
        // A small generator of numbers, so that widths and offsets mix in every way.
        let mut state = 7u32;
        let mut next = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % below
        };
        let mut locations = Locations::default();
        let sizes = [(0, 4u8), (4, 4), (2, 8), (9, 1), (10, 2), (11, 3), (16, 8)];
        for (offset, bytes) in sizes {
            locations.add(unnamed(offset), bytes);
        }
        let mut memory: HashMap<u32, u8> = HashMap::new();
        for _ in 0..20_000 {
            let (offset, bytes) = (next(26), next(8) as u8 + 1);
            let value = u64::from(next(1 << 16)) << 48 | u64::from(next(1 << 16)) << 20 | u64::from(next(1 << 16));
            let value = (next(5) > 0).then_some(value);
            for n in 0..bytes {
                let at = offset + u32::from(n);
                match value {
                    Some(v) => memory.insert(at, (v >> (n * 8)) as u8),
                    None => memory.remove(&at),
                };
            }
            let mut changed = Vec::new();
            let access = AccessedBytes { offset, bytes, value };
            locations.set(0, access, &mut changed);
            let overlap = |at: u32, size: u8| at < offset + u32::from(bytes) && offset < at + u32::from(size);
            assert_eq!(changed.len(), sizes.iter().filter(|(at, n)| overlap(*at, *n)).count());
            for (location, bits, shown) in changed {
                for n in 0..bits / 8 {
                    let known = memory.get(&(location.offset + n)).copied();
                    let is_known = shown.known >> (n * 8) & 0xff == 0xff;
                    let byte = (shown.bits >> (n * 8)) as u8;
                    assert_eq!(is_known.then_some(byte), known, "{location:?} byte {n}");
                }
            }
        }
    }

    #[test]
    fn locations_at_the_end_of_a_space_do_not_wrap() {
        let mut locations = Locations::default();
        locations.add(unnamed(u32::MAX), 8);
        locations.add(unnamed(0), 8);
        let mut changed = Vec::new();
        let access = AccessedBytes {
            offset: u32::MAX - 3,
            bytes: 8,
            value: Some(0x1122_3344_5566_7788),
        };
        locations.set(0, access, &mut changed);
        let shown: Vec<_> = changed.iter().map(|(l, _, v)| (l.offset, v.low(40))).collect();
        assert_eq!(shown, [(u32::MAX, 0x11_2233_4455)]);
    }
}
