//! MMIO regions of a log: the BAR or mapped range of an address, and the offset in it. A region is a *window* here.

use std::collections::BTreeMap;

/// The window of an access whose address is in no known window yet.
pub(super) const STRAY: u16 = u16::MAX;
/// The window of an event without a window.
pub(super) const NOWHERE: u16 = u16::MAX - 1;
/// Maximum number of windows: far more than the possible number of spaces, and small enough for 16 bits.
const MAX_WINDOWS: usize = 4096;
/// Bytes that 32-bit offsets reach: a longer range is cut into windows of this length.
pub(super) const REACH: u64 = 1 << 32;
/// Maximum number of windows of one range: 64 GiB.
const MAX_PARTS: u64 = 16;

/// The owner of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A base address register: the function's index in the log's list, and its number.
    Bar { function: usize, bar: u8 },
    /// Configuration space of a function, by segment, bus, device and function.
    Config { place: u32 },
    /// Registers that the driver accesses by its own functions; offsets are known, addresses are not.
    Accessors,
    /// Legacy addresses of every PC display adapter, besides its own windows.
    Legacy,
    /// A mapped range of the log, or a range that only an access suggests.
    Memory,
}

/// A range of addresses, at most [`REACH`] bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct MmioRegion {
    pub(super) owner: Owner,
    /// First and last address.
    pub(super) first: u64,
    pub(super) last: u64,
    /// Number of accesses.
    pub(super) accesses: u64,
    /// Whether no mapping of the range is known: only an access suggests it.
    pub(super) guessed: bool,
}

/// Guessed windows with smaller gaps are joined: they are parts of one card's registers.
const JOINED: u64 = 16 << 20;

/// The windows of a log, which never overlap.
#[derive(Clone, Debug, Default)]
pub(super) struct MmioRegions {
    all: Vec<MmioRegion>,
    /// Memory windows: number by first address.
    by_first: BTreeMap<u64, u16>,
    /// The same as a list for fast search.
    sorted: Vec<(u64, u64, u16)>,
}

impl MmioRegions {
    /// Returns the windows by number.
    pub(super) fn all(&self) -> &[MmioRegion] {
        &self.all
    }

    /// Adds `accesses` to the counts of the windows, by number.
    pub(super) fn count(&mut self, windows: &[u16]) {
        let mut runs = windows.iter().copied().peekable();
        while let Some(window) = runs.next() {
            let mut n = 1;
            while runs.next_if_eq(&window).is_some() {
                n += 1;
            }
            if let Some(w) = self.all.get_mut(usize::from(window)) {
                w.accesses += n;
            }
        }
    }

    /// Adds a window that is not in the memory address space.
    pub(super) fn add_separate(&mut self, owner: Owner, bytes: u64) -> Option<u16> {
        let window = MmioRegion {
            owner,
            first: 0,
            last: bytes.saturating_sub(1),
            accesses: 0,
            guessed: false,
        };
        self.push(window)
    }

    /// Extends a window that is not in the memory address space to an offset.
    pub(super) fn extend(&mut self, number: u16, last: u64) {
        if let Some(w) = self.all.get_mut(usize::from(number)) {
            w.last = w.last.max(last);
        }
    }

    /// Adds a window of another log, with its contents. Returns `None` if it has no meaning here.
    pub(super) fn take_over(&mut self, other: &MmioRegion) -> Option<u16> {
        match other.owner {
            Owner::Config { .. } => {
                let there = self.all.iter().position(|w| w.owner == other.owner);
                let number = there
                    .and_then(|n| u16::try_from(n).ok())
                    .or_else(|| self.push(MmioRegion { accesses: 0, ..*other }))?;
                self.all.get_mut(usize::from(number))?.accesses += other.accesses;
                Some(number)
            }
            _ => None,
        }
    }

    fn push(&mut self, window: MmioRegion) -> Option<u16> {
        let number = u16::try_from(self.all.len())
            .ok()
            .filter(|_| self.all.len() < MAX_WINDOWS)?;
        self.all.push(window);
        Some(number)
    }

    /// Adds the range of `bytes` from `base` on as windows of at most [`REACH`] bytes each. Addresses of other windows
    /// stay theirs; if they leave nothing at the start, the range is left out.
    pub(super) fn add(&mut self, owner: Owner, base: u64, bytes: u64) {
        let mut at = Some(base);
        let mut left = bytes;
        for _ in 0..MAX_PARTS {
            let (Some(first), 1..) = (at, left) else {
                return;
            };
            let part = left.min(REACH);
            self.add_clipped(owner, first, first.saturating_add(part - 1), first);
            at = first.checked_add(part);
            left -= part;
        }
    }

    /// Adds the free part of a range around the address `keep`.
    fn add_clipped(&mut self, owner: Owner, first: u64, last: u64, keep: u64) -> Option<u16> {
        let end_before = self
            .by_first
            .range(..=keep)
            .next_back()
            .and_then(|(_, n)| self.last_of(*n));
        let first = match end_before {
            Some(end) if end >= keep => return None,
            Some(end) => first.max(end + 1),
            None => first,
        };
        let next = self.by_first.range(keep..).next().map(|(f, _)| *f);
        let last = next.map_or(last, |n| last.min(n.saturating_sub(1)));
        let number = self.push(MmioRegion {
            owner,
            first,
            last,
            accesses: 0,
            guessed: false,
        })?;
        self.by_first.insert(first, number);
        let at = self.sorted.partition_point(|w| w.0 < first);
        self.sorted.insert(at, (first, last, number));
        Some(number)
    }

    fn last_of(&self, number: u16) -> Option<u64> {
        self.all.get(usize::from(number)).map(|w| w.last)
    }

    /// Returns the window of an address, and the offset in it.
    pub(super) fn find(&self, address: u64) -> Option<(u16, u32)> {
        let at = self.sorted.partition_point(|w| w.0 <= address).checked_sub(1)?;
        let (first, last, number) = *self.sorted.get(at)?;
        let offset = u32::try_from(address - first).ok()?;
        (address <= last).then_some((number, offset))
    }

    /// Returns the window of an address. If there is none, creates one from the free part of `range` (first address,
    /// last address, whether it is guessed), which contains the address. Returns `None` if there are too many windows.
    pub(super) fn find_or_add(&mut self, address: u64, range: (u64, u64, bool)) -> Option<(u16, u32)> {
        if self.find(address).is_none() {
            let (first, last, guessed) = range;
            // No further from the address than an offset reaches.
            let first = first.max(address & !(REACH - 1));
            let last = last.min(first.saturating_add(REACH - 1));
            let number = self.add_clipped(Owner::Memory, first, last, address)?;
            if let Some(w) = self.all.get_mut(usize::from(number)) {
                w.guessed = guessed;
            }
        }
        self.find(address)
    }

    /// Joins guessed windows that are close together, once no more are added. Returns the new window of each window and
    /// its offset in it, by number, or `None` if none is joined.
    pub(super) fn join(&mut self) -> Option<Vec<(u16, u32)>> {
        let mut moved: Vec<(u16, u32)> = (0..self.all.len()).map(|n| (n as u16, 0)).collect();
        let mut any = false;
        // The window that the previous ones were joined into, if the last one was guessed.
        let mut head: Option<(u16, u64, u64)> = None;
        for (first, last, number) in std::mem::take(&mut self.sorted) {
            let guessed = self.all.get(usize::from(number)).is_some_and(|w| w.guessed);
            head = match head.filter(|_| guessed) {
                Some((to, begin, end)) if first - end <= JOINED && last - begin < REACH => {
                    let from = self
                        .all
                        .get_mut(usize::from(number))
                        .map(|w| std::mem::take(&mut w.accesses));
                    if let Some(w) = self.all.get_mut(usize::from(to)) {
                        w.last = last;
                        w.accesses += from.unwrap_or(0);
                    }
                    if let Some(m) = moved.get_mut(usize::from(number)) {
                        *m = (to, (first - begin) as u32);
                    }
                    any = true;
                    Some((to, begin, last))
                }
                _ => guessed.then_some((number, first, last)),
            };
        }
        any.then_some(moved)
    }
}

/// A window lookup with a cache of the last result: most accesses go to the same window as the previous one.
pub(super) struct Finder<'a> {
    windows: &'a MmioRegions,
    last: (u64, u64, u16),
}

impl<'a> Finder<'a> {
    pub(super) fn new(windows: &'a MmioRegions) -> Self {
        Self {
            windows,
            last: (1, 0, STRAY),
        }
    }

    /// Same as [`MmioRegions::find`].
    pub(super) fn find(&mut self, address: u64) -> Option<(u16, u32)> {
        let (first, last, number) = self.last;
        if (first..=last).contains(&address) {
            return Some((number, (address - first) as u32));
        }
        let (number, offset) = self.windows.find(address)?;
        let window = self.windows.all.get(usize::from(number))?;
        self.last = (window.first, window.last, number);
        Some((number, offset))
    }
}

/// Returns the mapped range of an address, or the 64 KiB around it if there is none, and whether it is guessed.
pub(super) fn find_mapped_range(maps: &[(u64, u64)], address: u64) -> (u64, u64, bool) {
    let of = maps
        .iter()
        .rev()
        .find(|(first, last)| (*first..=*last).contains(&address));
    match of {
        Some((first, last)) => (*first, *last, false),
        None => (address & !0xffff, address | 0xffff, true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_map_to_non_overlapping_mmio_regions() {
        let mut w = MmioRegions::default();
        let bar = |bar| Owner::Bar { function: 0, bar };
        w.add(bar(0), 0xfd00_0000, 0x100_0000);
        w.add(bar(2), 0xfebf_0000, 0x4000);
        w.add(bar(3), 0xfebf_1000, 0x4000);
        w.add(bar(4), 0xfebe_f000, 0x4000);
        assert_eq!(w.find(0xfd00_0000), Some((0, 0)));
        assert_eq!(w.find(0xfdff_ffff), Some((0, 0xff_ffff)));
        assert_eq!(w.find(0xfebf_3fff), Some((1, 0x3fff)));
        assert_eq!(w.find(0xfebe_ffff), Some((2, 0xfff)));
        assert_eq!((w.find(0xfe00_0000), w.find(0), w.find(u64::MAX)), (None, None, None));
        assert_eq!(
            w.find_or_add(0xfebf_4010, (0xfebf_0000, 0xfebf_ffff, false)),
            Some((3, 0x10))
        );
        assert_eq!(w.find_or_add(u64::MAX, (u64::MAX - 9, u64::MAX, false)), Some((4, 9)));
        let mut finder = Finder::new(&w);
        for address in [0xfebf_4010, 0xfebf_4011, 0xfd00_0001, 0xfebf_0000, 3, u64::MAX] {
            assert_eq!(finder.find(address), w.find(address), "{address:#x}");
        }
    }

    #[test]
    fn adjacent_mmio_regions_are_joined() {
        let mut w = MmioRegions::default();
        w.add(Owner::Memory, 0xfb00_0000, 0x1000);
        for address in [
            0xfa0f_0008u64,
            0xfa00_0000,
            0x18_003c_0010,
            0xfa9e_0004,
            0xfb10_0000,
            0xfb20_0000,
        ] {
            let first = address & !0xffff;
            w.find_or_add(address, (first, first + 0xffff, true)).unwrap();
        }
        let before: Vec<u16> = (1..=6).collect();
        w.count(&before);
        let moved = w.join().unwrap();
        // The region at 0xfa00_0000 is the third one. A mapped region stays separate, and separates its neighbours.
        assert_eq!(
            moved,
            [
                (0, 0),
                (2, 0xf_0000),
                (2, 0),
                (3, 0),
                (2, 0x9e_0000),
                (5, 0),
                (5, 0x10_0000)
            ]
        );
        let all: Vec<(u64, u64, u64)> = w.all().iter().map(|w| (w.first, w.last, w.accesses)).collect();
        assert_eq!((all[2], all[1].2), ((0xfa00_0000, 0xfa9e_ffff, 3), 0));
        assert_eq!(all[5], (0xfb10_0000, 0xfb20_ffff, 2));
        assert!(MmioRegions::default().join().is_none());
    }

    #[test]
    fn a_range_beyond_32_bits_is_cut() {
        let mut w = MmioRegions::default();
        w.add(Owner::Bar { function: 0, bar: 0 }, 0x80_0000_0000, 3 * REACH);
        assert_eq!(w.find(0x80_ffff_ffff), Some((0, u32::MAX)));
        assert_eq!(w.find(0x82_0000_0004), Some((2, 4)));
        w.add(Owner::Memory, u64::MAX - 15, 64);
        assert_eq!(w.find(u64::MAX), Some((3, 15)));
        w.add(Owner::Memory, 0, u64::MAX);
        assert_eq!(
            w.all().iter().filter(|w| w.owner == Owner::Memory).count() as u64,
            1 + MAX_PARTS
        );
        for n in 0..10_000 {
            let at = 0x90_0000_0000 + n * 0x1_0000;
            w.find_or_add(at, (at, at, false));
        }
        assert!(w.all().len() <= MAX_WINDOWS);
    }
}
