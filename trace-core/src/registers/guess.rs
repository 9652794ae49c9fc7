//! Heuristics about a register from its accesses: its values and bits, the effect of writes, its polls, what follows a
//! write. For registers that no map names, and for doubtful descriptions.

mod hints;

pub use hints::Hint;

use crate::memory::GpuMemoryView;
use crate::progress::{Cancelled, Progress};
use crate::recording::{Access, DmaMapRow, Recording};
use crate::{GpuVa, RegOffset};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Number of events between two checks for cancellation.
const STEP: usize = 1 << 16;
/// Maximum number of distinct values that are counted individually; further ones are counted together.
const MAX_VALUES: usize = 1 << 16;
/// Maximum number of values that are listed, the most frequent first.
const MAX_LISTED_VALUES: usize = 64;
/// Maximum number of addresses that are looked up.
const MAX_ADDRESSES: usize = 256;
/// Number of accesses after a write that are examined.
const FAR: u32 = 16;
/// Maximum number of kinds of accesses that follow a write, and of distances of each for the median.
const MAX_FOLLOWERS: usize = 512;
const MAX_DISTANCES: usize = 1024;
/// Maximum number of threads that are distinguished.
const MAX_THREADS: usize = 64;
/// Minimum number of consecutive reads of a poll.
const POLL: u64 = 3;

/// A thread that polls the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Poller {
    /// The thread.
    pub thread: u32,
    /// Number of its polling reads.
    pub reads: u64,
}

/// An access that follows writes of the register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Follower {
    /// Offset of the other access.
    pub offset: RegOffset,
    /// Whether it is a write.
    pub write: bool,
    /// Number of writes that it followed, within the next few accesses.
    pub count: u64,
    /// Median distance from the write, in accesses; of the first 1024.
    pub accesses: u32,
    /// Median time from the write, ns; of the first 1024.
    pub ns: i64,
}

/// The results for a register.
#[derive(Clone, Debug, Default)]
pub struct Guess {
    /// Offset in its space.
    pub offset: RegOffset,
    /// Width in bytes, 1 to 8.
    pub width: u8,
    /// Number of reads, partial ones included.
    pub reads: u64,
    /// Number of writes, partial ones included.
    pub writes: u64,
    /// Number of partial accesses: only the accessed bits are examined.
    pub partial: u64,
    /// Values with their counts, the most frequent first; at most 64.
    pub values: Vec<(u64, u64)>,
    /// Number of distinct values.
    pub different: u64,
    /// Number of accesses with values beyond those that were distinguished: then there are more distinct values.
    pub beyond: u64,
    /// Bits that were 0 at one access and 1 at another.
    pub changing: u64,
    /// Bits that were 1 at every access.
    pub ones: u64,
    /// Bits that were 0 at every access.
    pub zeros: u64,
    /// Number of first reads after a write that returned the written value.
    pub read_back: u64,
    /// Number of first reads after a write that returned another value.
    pub read_other: u64,
    /// Number of writes of ones to bits that read as 1, after which the bits read as 0.
    pub cleared: u64,
    /// Number of such writes after which the bits still read as 1.
    pub kept: u64,
    /// Number of reads above the previous read, without a write in between.
    pub rises: u64,
    /// Number of reads below the previous read, without a write in between.
    pub falls: u64,
    /// Number of distinct nonzero values that may be addresses, alone or with the neighbouring register as the other
    /// half.
    pub nonzero: u64,
    /// Number of these values in mapped GPU memory or in memory given to the device.
    pub addresses: u64,
    /// Number of these values that are floating-point numbers of a usual size.
    pub floats: u64,
    /// Number of runs of three or more reads with no other access of the same thread in between.
    pub polls: u64,
    /// Number of reads in these runs.
    pub polled: u64,
    /// Bits that changed with the last read of a run.
    pub awaited: u64,
    /// Those of these bits that became 1.
    pub awaited_ones: u64,
    /// Threads that poll it, the busiest first.
    pub pollers: Vec<Poller>,
    /// Accesses that follow its writes, the most frequent first.
    pub followers: Vec<Follower>,
}

/// A run of reads without another access of the same thread in between.
#[derive(Clone, Copy, Default)]
struct Run {
    thread: u32,
    reads: u64,
    /// Bits that the last read changed, and its value.
    changed: u64,
    last: u64,
}

#[derive(Default)]
struct Wake {
    /// Event and time of the write; `None`: its window has passed.
    write: Option<(u64, u64)>,
    passed: u32,
    seen: Vec<(RegOffset, bool)>,
}

/// The number of times that an access followed, and its distances in accesses and ns.
type Distances = (u64, Vec<(u32, i64)>);

struct Gather {
    guess: Guess,
    values: HashMap<u64, u64>,
    candidates: BTreeMap<u64, Vec<u64>>,
    any_ones: u64,
    any_zeros: u64,
    /// Last values of the registers 4 bytes below and above.
    beside: (Option<u64>, Option<u64>),
    written: Option<u64>,
    /// Bits that read as 1 and were then written as 1.
    to_clear: Option<u64>,
    last_read: Option<u64>,
    run: Option<Run>,
    wake: Wake,
    followers: HashMap<(RegOffset, bool), Distances>,
    pollers: HashMap<u32, u64>,
    given: Vec<(u64, u64)>,
}

fn low(width: u8) -> u64 {
    match width {
        0 => 0,
        w if w >= 8 => u64::MAX,
        w => (1 << (u32::from(w) * 8)) - 1,
    }
}

impl Gather {
    fn other(&mut self, a: &Access, thread: u32, time: u64) {
        let g = &self.guess;
        if a.offset.checked_add(4) == Some(g.offset) && a.width == 4 {
            self.beside.0 = Some(a.value);
        } else if g.offset.checked_add(4) == Some(a.offset) && a.width == 4 {
            self.beside.1 = Some(a.value);
        }
        if self.run.is_some_and(|r| r.thread == thread) {
            self.end_run();
        }
        let Some((_, since)) = self.wake.write else { return };
        self.wake.passed += 1;
        if self.wake.passed > FAR {
            self.wake.write = None;
            return;
        }
        let key = (a.offset, a.write);
        if self.wake.seen.contains(&key) {
            return;
        }
        self.wake.seen.push(key);
        if self.followers.len() >= MAX_FOLLOWERS && !self.followers.contains_key(&key) {
            return;
        }
        let (count, distances) = self.followers.entry(key).or_default();
        *count += 1;
        if distances.len() < MAX_DISTANCES {
            distances.push((self.wake.passed, time.wrapping_sub(since) as i64));
        }
    }

    fn end_run(&mut self) {
        let Some(run) = self.run.take().filter(|r| r.reads >= POLL) else {
            return;
        };
        let g = &mut self.guess;
        g.polls += 1;
        g.polled += run.reads;
        g.awaited |= run.changed;
        g.awaited_ones |= run.changed & run.last;
        if self.pollers.len() < MAX_THREADS || self.pollers.contains_key(&run.thread) {
            *self.pollers.entry(run.thread).or_default() += run.reads;
        }
    }

    fn own(&mut self, event: u64, a: &Access, thread: u32, time: u64) {
        let (from, to) = (u64::from(self.guess.offset.get()), u64::from(a.offset.get()));
        let all = low(self.guess.width);
        // The access's bits at their position in the register.
        let (value, mask) = if to >= from {
            let by = ((to - from) * 8) as u32;
            let place = |n: u64| n.checked_shl(by).unwrap_or(0) & all;
            (place(a.value & low(a.width)), place(low(a.width)))
        } else {
            let by = ((from - to) * 8) as u32;
            let place = |n: u64| n.checked_shr(by).unwrap_or(0) & all;
            (place(a.value & low(a.width)), place(low(a.width)))
        };
        self.any_ones |= value;
        self.any_zeros |= !value & mask;
        if a.write {
            self.guess.writes += 1;
        } else {
            self.guess.reads += 1;
        }
        if mask != all {
            self.guess.partial += 1;
            (self.written, self.to_clear, self.last_read) = (None, None, None);
            self.end_run();
            return;
        }
        if self.values.len() < MAX_VALUES || self.values.contains_key(&value) {
            *self.values.entry(value).or_default() += 1;
        } else {
            self.guess.beyond += 1;
        }
        if value != 0 && self.candidates.len() < MAX_ADDRESSES && !self.candidates.contains_key(&value) {
            let mut list = vec![value];
            let pair = |low: u64, high: u64| high << 32 | low & 0xffff_ffff;
            if self.guess.width == 4 {
                list.extend(
                    self.beside
                        .1
                        .filter(|h| *h != 0 && *h < 1 << 16)
                        .map(|high| pair(value, high)),
                );
                list.extend(self.beside.0.filter(|_| value < 1 << 16).map(|low| pair(low, value)));
            }
            self.candidates.insert(value, list);
        }
        if a.write {
            self.end_run();
            self.to_clear = self.last_read.map(|r| r & value).filter(|b| *b != 0);
            (self.written, self.last_read) = (Some(value), None);
            self.wake.write = Some((event, time));
            self.wake.passed = 0;
            self.wake.seen.clear();
        } else {
            self.read(value, thread);
        }
    }

    fn read(&mut self, value: u64, thread: u32) {
        let g = &mut self.guess;
        if let Some(written) = self.written.take() {
            match written == value {
                true => g.read_back += 1,
                false => g.read_other += 1,
            }
        }
        if let Some(bits) = self.to_clear.take() {
            match value & bits {
                0 => g.cleared += 1,
                _ => g.kept += 1,
            }
        }
        match self.last_read {
            Some(before) if value > before => g.rises += 1,
            Some(before) if value < before => g.falls += 1,
            _ => {}
        }
        self.last_read = Some(value);
        match &mut self.run {
            Some(run) if run.thread == thread => {
                run.reads += 1;
                (run.changed, run.last) = (run.last ^ value, value);
            }
            _ => {
                self.end_run();
                self.run = Some(Run {
                    thread,
                    reads: 1,
                    changed: 0,
                    last: value,
                });
            }
        }
    }

    fn finish(mut self, recording: &Recording) -> Guess {
        self.end_run();
        let all = low(self.guess.width);
        let mut g = self.guess;
        g.changing = self.any_ones & self.any_zeros;
        g.ones = self.any_ones & !self.any_zeros;
        g.zeros = self.any_zeros & !self.any_ones & all;
        g.different = self.values.len() as u64;
        g.values = self.values.into_iter().collect();
        g.values.sort_unstable_by_key(|(v, n)| (std::cmp::Reverse(*n), *v));
        g.values.truncate(MAX_LISTED_VALUES);
        let events = recording.events.len() as u64;
        let memory = recording.memory.at(events.saturating_sub(1));
        let spaces = &recording.metadata.address_spaces;
        let views: Vec<_> = spaces.iter().map(|s| GpuMemoryView::new(memory, s)).collect();
        let is_memory = |va: u64| {
            let mapped = views.iter().any(|m| m.physical_address(GpuVa::new(va)).is_some());
            mapped || self.given.iter().any(|(at, bytes)| va >= *at && va - at < *bytes)
        };
        g.nonzero = self.candidates.len() as u64;
        let found = self
            .candidates
            .values()
            .filter(|list| list.iter().any(|va| is_memory(*va)));
        g.addresses = found.count() as u64;
        g.floats = match g.width {
            4 => self.candidates.keys().filter(|v| is_usual_float(**v)).count() as u64,
            _ => 0,
        };
        let pollers = self.pollers.into_iter();
        g.pollers = pollers.map(|(thread, reads)| Poller { thread, reads }).collect();
        g.pollers
            .sort_unstable_by_key(|p| (std::cmp::Reverse(p.reads), p.thread));
        g.followers = self
            .followers
            .into_iter()
            .map(|((offset, write), (count, mut distances))| {
                let middle = distances.len() / 2;
                distances.sort_unstable();
                let accesses = distances.get(middle).map_or(0, |d| d.0);
                distances.sort_unstable_by_key(|d| d.1);
                Follower {
                    offset,
                    write,
                    count,
                    accesses,
                    ns: distances.get(middle).map_or(0, |d| d.1),
                }
            })
            .collect();
        g.followers
            .sort_unstable_by_key(|f| (std::cmp::Reverse(f.count), f.accesses, f.offset, f.write));
        g
    }
}

/// Whether 32 bits are a floating-point number of a size that programs use: from a millionth to a million.
fn is_usual_float(bits: u64) -> bool {
    let Ok(bits) = u32::try_from(bits) else { return false };
    let size = f32::from_bits(bits).abs();
    (1e-6..=1e6).contains(&size)
}

/// Analyses the accesses of a register: `width` bytes at `offset` of a space. Reads every access once, and takes a few
/// megabytes for any number of accesses.
///
/// # Errors
///
/// [`Cancelled`] if the work was cancelled.
pub fn guess(
    recording: &Recording,
    space: u8,
    offset: RegOffset,
    width: u8,
    progress: &Progress,
) -> Result<Guess, Cancelled> {
    let width = width.clamp(1, 8);
    let events = &recording.events;
    let n = events.len();
    progress.set_total(n as u64);
    let mut gather = Gather {
        guess: Guess {
            offset,
            width,
            ..Guess::default()
        },
        values: HashMap::new(),
        candidates: BTreeMap::new(),
        any_ones: 0,
        any_zeros: 0,
        beside: (None, None),
        written: None,
        to_clear: None,
        last_read: None,
        run: None,
        wake: Wake::default(),
        followers: HashMap::new(),
        pollers: HashMap::new(),
        given: Vec::new(),
    };
    let rows = (0..events.dma_maps.len()).filter_map(|i| events.dma_maps.get(i));
    let known = rows
        .filter(|r| r.bus != DmaMapRow::UNKNOWN)
        .map(|r| (r.bus.get(), r.bytes));
    gather.given = known.take(1 << 12).collect();
    let (first, end) = (u64::from(offset.get()), u64::from(offset.get()) + u64::from(width));
    for from in (0..n).step_by(STEP) {
        for (e, a) in events.accesses(from..(from + STEP).min(n)) {
            if a.space != space {
                continue;
            }
            let at = u64::from(a.offset.get());
            let thread = events.thread.get(e).unwrap_or(0);
            let time = events.time.get(e).unwrap_or(0);
            if at < end && first < at + u64::from(a.width) {
                gather.own(e as u64, &a, thread, time);
            } else {
                gather.other(&a, thread, time);
            }
        }
        progress.advance(STEP as u64)?;
    }
    Ok(gather.finish(recording))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::EventsBuilder;
    use crate::{BusAddr, RegOffset};

    /// Returns a recording of accesses: thread, offset, access type, value.
    fn recording(list: &[(u32, u32, char, u64)]) -> Recording {
        let mut events = EventsBuilder::new();
        for (i, (thread, offset, kind, value)) in list.iter().enumerate() {
            let access = Access {
                space: 0,
                write: *kind == 'w',
                offset: RegOffset::new(*offset),
                width: 4,
                value: *value,
            };
            events.access(100 * i as u64, *thread, access);
        }
        Recording {
            events: events.finish(),
            ..Recording::default()
        }
    }

    fn guess_of(list: &[(u32, u32, char, u64)]) -> Guess {
        guess(&recording(list), 0, RegOffset::new(0x10), 4, &Progress::new()).unwrap()
    }

    #[test]
    fn status_register_guess_detects_polling_by_one_thread() {
        let mut list = vec![(1, 0x20, 'w', 1)];
        for _ in 0..2 {
            list.extend([
                (1, 0x10, 'r', 4),
                (2, 0x20, 'r', 0),
                (1, 0x10, 'r', 4),
                (1, 0x10, 'r', 5),
                (1, 0x20, 'w', 1),
            ]);
        }
        let g = guess_of(&list);
        assert_eq!((g.polls, g.polled, g.awaited, g.awaited_ones), (2, 6, 1, 1));
        assert_eq!(g.pollers, [Poller { thread: 1, reads: 6 }]);
        assert_eq!((g.changing, g.ones, g.zeros), (1, 4, 0xffff_fffa));
        assert_eq!(g.values, [(4, 4), (5, 2)]);
        assert_eq!(
            g.hints()[0].to_string(),
            "a status: polled 2 times, until bit 0 became 1"
        );
    }

    #[test]
    fn writing_ones_clears_and_reading_back_stores() {
        let clears: Vec<_> = (0..3)
            .flat_map(|_| {
                [
                    (1, 0x10, 'r', 3),
                    (1, 0x10, 'w', 1),
                    (1, 0x10, 'r', 2),
                    (1, 0x10, 'w', 2),
                    (1, 0x10, 'r', 0),
                ]
            })
            .collect();
        let g = guess_of(&clears);
        assert_eq!((g.cleared, g.kept), (6, 0));
        assert!(g.hints().contains(&Hint::ClearsByOnes { times: 6, of: 6 }));
        let stores: Vec<_> = (1..5).flat_map(|n| [(1, 0x10, 'w', n), (1, 0x10, 'r', n)]).collect();
        let g = guess_of(&stores);
        assert_eq!((g.read_back, g.read_other), (4, 0));
        assert_eq!(g.hints(), [Hint::Stores { times: 4, of: 4 }]);
    }

    #[test]
    fn register_guess_detects_counters_and_floats() {
        let rising: Vec<_> = (0..6u64)
            .flat_map(|n| [(1, 0x10, 'r', n * 1000), (1, 0x20, 'r', 0)])
            .collect();
        assert_eq!(guess_of(&rising).hints(), [Hint::CountsUp { rises: 5, of: 5 }]);
        let floats = [0.5f32, 1.0, 2.5].map(|f| (1, 0x10, 'w', u64::from(f.to_bits())));
        assert!(guess_of(&floats).hints().contains(&Hint::Float { values: 3, of: 3 }));
    }

    #[test]
    fn followers_of_a_write_are_counted_with_their_distance() {
        let mut list = Vec::new();
        for _ in 0..3 {
            list.extend([
                (1, 0x10, 'w', 1),
                (1, 0x30, 'r', 0),
                (1, 0x30, 'r', 0),
                (1, 0x14, 'w', 7),
            ]);
        }
        let g = guess_of(&list);
        let entries: Vec<_> = g
            .followers
            .iter()
            .map(|f| (f.offset.get(), f.write, f.count, f.accesses, f.ns))
            .collect();
        assert_eq!(entries, [(0x30, false, 3, 1, 100), (0x14, true, 3, 3, 300)]);
        assert!(g.hints().contains(&Hint::Constant(1)));
    }

    #[test]
    fn split_address_guess_uses_dma_mappings() {
        let mut events = EventsBuilder::new();
        let row = DmaMapRow {
            bus: BusAddr::new(0x1_2345_0000),
            bytes: 0x2000,
            kind: 0,
            reserved: 0,
        };
        events.dma_map(0, 1, row);
        for i in 0..3u64 {
            for (offset, value) in [(0x14, 1), (0x10, 0x2345_0000 + i * 0x800)] {
                let access = Access {
                    space: 0,
                    write: true,
                    offset: RegOffset::new(offset),
                    width: 4,
                    value,
                };
                events.access(0, 1, access);
            }
        }
        let r = Recording {
            events: events.finish(),
            ..Recording::default()
        };
        let g = guess(&r, 0, RegOffset::new(0x10), 4, &Progress::new()).unwrap();
        assert_eq!((g.addresses, g.nonzero), (3, 3));
        assert_eq!(g.hints()[0], Hint::Address { values: 3, of: 3 });
    }

    #[test]
    fn partial_accesses_count_their_bits_and_values_are_bounded() {
        let mut events = EventsBuilder::new();
        for value in 0..(MAX_VALUES as u64 + 10) {
            let access = Access {
                space: 0,
                write: false,
                offset: RegOffset::new(0x10),
                width: 4,
                value,
            };
            events.access(0, 1, access);
        }
        let byte = Access {
            space: 0,
            write: false,
            offset: RegOffset::new(0x13),
            width: 1,
            value: 0x80,
        };
        events.access(0, 1, byte);
        let r = Recording {
            events: events.finish(),
            ..Recording::default()
        };
        let g = guess(&r, 0, RegOffset::new(0x10), 4, &Progress::new()).unwrap();
        assert_eq!((g.different, g.beyond, g.partial), (MAX_VALUES as u64, 10, 1));
        assert_eq!(g.values.len(), MAX_LISTED_VALUES);
        assert_eq!(g.changing >> 31, 1);
    }

    #[test]
    fn cancelled_register_guess_ends() {
        let progress = Progress::new();
        progress.cancel();
        assert!(guess(&recording(&[(1, 0x10, 'r', 0)]), 0, RegOffset::new(0x10), 4, &progress).is_err());
    }
}
