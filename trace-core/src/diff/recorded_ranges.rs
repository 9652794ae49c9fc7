//! Translation between the addresses of a replay and those of the recording that was replayed.
//!
//! A replay has other memory than the recorded machine. If devices access memory by bus addresses without page
//! tables, the replay's recording stores the correspondence of the ranges: [`Recording::recorded_ranges`].

use crate::PhysAddr;
use crate::recording::{Page, RecordedRange, Recording};
use crate::registers::Half;

/// The ranges of one recording, by its own addresses.
#[derive(Clone, Debug, Default)]
pub(super) struct RecordedAddresses {
    ranges: Vec<RecordedRange>,
}

impl RecordedAddresses {
    pub fn new(recording: &Recording) -> Self {
        Self {
            ranges: recording.recorded_ranges().to_vec(),
        }
    }

    /// Returns whether no ranges are known.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the address in the recording that was replayed; the same address if no range contains it.
    pub fn to_recorded(&self, at: PhysAddr) -> PhysAddr {
        let n = self.ranges.partition_point(|r| r.at <= at);
        let range = n.checked_sub(1).and_then(|n| self.ranges.get(n));
        range
            .filter(|r| at - r.at < r.bytes)
            .map_or(at, |r| r.recorded_at.wrapping_add(at - r.at))
    }

    /// Returns the local address for a recorded one.
    pub fn to_local(&self, recorded: PhysAddr) -> PhysAddr {
        let by = |r: &RecordedRange| recorded.offset_from(r.recorded_at).filter(|by| *by < r.bytes);
        let found = self.ranges.iter().find_map(|r| Some(r.at.wrapping_add(by(r)?)));
        found.unwrap_or(recorded)
    }

    /// Returns the possible recorded addresses for the value of a half register: whole addresses for low halves, high
    /// halves for high ones.
    fn candidates(&self, half: Half, value: u64) -> Vec<u64> {
        let of = |r: &RecordedRange| match half {
            Half::Low { .. } => {
                let by = u64::from((value as u32).wrapping_sub(r.at.get() as u32));
                (by < r.bytes).then(|| r.recorded_at.wrapping_add(by).get())
            }
            Half::High { .. } => (r.at.get() >> 32 == value).then_some(r.recorded_at.get() >> 32),
        };
        self.ranges.iter().filter_map(of).collect()
    }
}

/// Returns whether two values of an address register are the same address of the recorded machine. `half` says which
/// half of an address the register holds, if it holds one.
pub(super) fn is_same_address(
    (a, b): (&RecordedAddresses, &RecordedAddresses),
    half: Option<Half>,
    (x, y): (u64, u64),
) -> bool {
    let Some(half) = half else {
        return (!a.ranges.is_empty() || !b.ranges.is_empty())
            && a.to_recorded(PhysAddr::new(x)) == b.to_recorded(PhysAddr::new(y));
    };
    let low = matches!(half, Half::Low { .. });
    // For a recording that is not a replay, only the half itself is known.
    let is = |candidate: u64, value: u64| match low {
        true => candidate as u32 == value as u32,
        false => candidate == value,
    };
    match (a.ranges.is_empty(), b.ranges.is_empty()) {
        (true, true) => false,
        (true, false) => b.candidates(half, y).into_iter().any(|c| is(c, x)),
        (false, true) => a.candidates(half, x).into_iter().any(|c| is(c, y)),
        (false, false) => {
            let of_b = b.candidates(half, y);
            a.candidates(half, x).iter().any(|c| of_b.contains(c))
        }
    }
}

/// Returns whether two words of memory differ but are the same address of the recorded machine.
pub(super) fn is_same_word(both: (&RecordedAddresses, &RecordedAddresses), x: u64, y: u64) -> bool {
    x != y && is_same_address(both, None, (x, y))
}

/// Returns the word of a page with this index.
pub(super) fn word(page: &Page, index: usize) -> Option<u64> {
    page.as_chunks::<8>().0.get(index).map(|w| u64::from_le_bytes(*w))
}

/// Sets the words of the second page that are the same addresses as in the first page equal to those.
pub(super) fn align_words(both: (&RecordedAddresses, &RecordedAddresses), x: &Page, y: &mut Page) {
    for (of_x, of_y) in x.as_chunks::<8>().0.iter().zip(y.as_chunks_mut::<8>().0) {
        if is_same_word(both, u64::from_le_bytes(*of_x), u64::from_le_bytes(*of_y)) {
            *of_y = *of_x;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RegOffset;

    fn addresses(ranges: &[(u64, u64, u64)]) -> RecordedAddresses {
        let range = |(at, bytes, recorded_at): &(u64, u64, u64)| RecordedRange {
            at: PhysAddr::new(*at),
            bytes: *bytes,
            recorded_at: PhysAddr::new(*recorded_at),
        };
        RecordedAddresses {
            ranges: ranges.iter().map(range).collect(),
        }
    }

    #[test]
    fn addresses_are_shown_as_recorded() {
        let none = addresses(&[]);
        let replay = addresses(&[(0x200_0000, 0x1000, 0x1_0210_3000), (0x200_1000, 0x2000, 0x210_5000)]);
        assert_eq!(
            (
                replay.to_recorded(PhysAddr::new(0x200_0010)),
                replay.to_recorded(PhysAddr::new(0x200_2ff8))
            ),
            (PhysAddr::new(0x1_0210_3010), PhysAddr::new(0x210_6ff8))
        );
        assert_eq!(
            (
                replay.to_recorded(PhysAddr::new(0x200_3000)),
                replay.to_recorded(PhysAddr::new(7))
            ),
            (PhysAddr::new(0x200_3000), PhysAddr::new(7))
        );
        assert_eq!(
            (
                replay.to_local(PhysAddr::new(0x210_5008)),
                replay.to_local(PhysAddr::new(0x300_0000))
            ),
            (PhysAddr::new(0x200_1008), PhysAddr::new(0x300_0000))
        );
        let (low, high) = (
            Some(Half::Low {
                high_offset: RegOffset::new(4),
            }),
            Some(Half::High {
                low_offset: RegOffset::ZERO,
            }),
        );
        let same = |half, values| is_same_address((&none, &replay), half, values);
        assert!(same(None, (0x1_0210_3010, 0x200_0010)) && !same(None, (0x1_0210_3010, 0x200_0018)));
        assert!(same(low, (0x0210_3010, 0x200_0010)) && !same(low, (0x0210_3018, 0x200_0010)));
        assert!(same(high, (1, 0)) && !same(high, (2, 0)));
        assert!(
            !is_same_address((&none, &none), None, (1, 1)),
            "addresses without ranges are equal"
        );
        assert!(is_same_address((&replay, &replay), low, (0x200_0010, 0x200_0010)));
        let (mut x, mut y) = ([0; 4096], [0; 4096]);
        x[8..16].copy_from_slice(&0x1_0210_3010u64.to_le_bytes());
        y[8..16].copy_from_slice(&0x200_0010u64.to_le_bytes());
        y[24] = 1;
        align_words((&none, &replay), &x, &mut y);
        assert_eq!((x[8..16] == y[8..16], y[24]), (true, 1));
    }
}
