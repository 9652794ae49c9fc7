//! MMIO regions of a log: the BAR or mapped range of an address, and the offset in it. A region is a *window* here.

use std::ops::Range;

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
/// Windows without a known begin start at a page.
const PAGE: u64 = 0x1000;
/// Guessed windows with smaller gaps are joined: they are parts of one card's registers.
const JOINED: u64 = 16 << 20;
/// Maximum number of guessed windows after joining: larger gaps are joined too if there are more.
const MAX_GUESSED: usize = 128;

/// The owner of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A base address register: the function's index in the log's list, and its number.
    Bar { function: usize, bar: u8 },
    /// Configuration space of a function, by segment, bus, device and function.
    Config { place: u32 },
    /// Registers that the driver accesses by its own functions; offsets are known, addresses are not. The function is
    /// known if the log names the device.
    Accessors { function: Option<usize> },
    /// Legacy addresses of every PC display adapter, besides its own windows.
    Legacy,
    /// A region that the log names, by the index of its name in the log's list. It may belong to a function.
    Region { name: u16, function: Option<usize> },
    /// A window that the user placed, by the index of its name in the log's list.
    Placed { name: Option<u16> },
    /// A mapped range of the log, or a range that only an access suggests.
    Memory,
}

/// How the begin and the end of a window are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// Both are known.
    Fixed,
    /// The begin is known; the end is the power of two behind the last access.
    Growing,
    /// Neither is known: the window begins at the page of its lowest access, and ends with that of its highest.
    Fitted,
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
    /// Whether it is not in the memory address space.
    pub(super) separate: bool,
    pub(super) extent: Extent,
}

/// A range of addresses that belongs to a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    first: u64,
    last: u64,
    /// Address of the window's offset 0.
    base: u64,
    number: u16,
}

/// The windows of a log. At any time, an address belongs to one window at most.
#[derive(Clone, Debug, Default)]
pub(super) struct MmioRegions {
    all: Vec<MmioRegion>,
    /// Ranges of the memory windows, ascending; they never overlap.
    segments: Vec<Segment>,
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

    /// Adds a window that is not in the memory address space, from offset 0 or from the address `first` on. Returns
    /// `None` if there are too many windows.
    pub(super) fn add_separate(&mut self, owner: Owner, first: u64, bytes: u64, extent: Extent) -> Option<u16> {
        self.push(MmioRegion {
            owner,
            first,
            last: first.saturating_add(bytes.saturating_sub(1)),
            accesses: 0,
            guessed: false,
            separate: true,
            extent,
        })
    }

    /// Sets the size of a window that is not in the memory address space.
    pub(super) fn resize(&mut self, number: u16, bytes: u64) {
        if let (Some(w), Some(more)) = (self.all.get_mut(usize::from(number)), bytes.checked_sub(1)) {
            w.last = w.first.saturating_add(more.min(REACH - 1));
            w.extent = Extent::Fixed;
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
    pub(super) fn add(&mut self, owner: Owner, base: u64, bytes: u64, extent: Extent) {
        for (first, last) in parts(base, bytes) {
            self.add_clipped(owner, (first, last), first, extent);
        }
    }

    /// Moves the windows of an owner to `bytes` from `base` on, or creates them. Older windows end where the new ones
    /// lie.
    pub(super) fn place(&mut self, owner: Owner, base: u64, bytes: u64) {
        let old = self.remove(owner);
        let mut numbers = old.into_iter();
        for (first, last) in parts(base, bytes) {
            let window = MmioRegion {
                owner,
                first,
                last,
                accesses: 0,
                guessed: false,
                separate: false,
                extent: Extent::Fixed,
            };
            let number = match numbers.next() {
                Some(number) => {
                    if let Some(w) = self.all.get_mut(usize::from(number)) {
                        (w.first, w.last) = (first, last);
                    }
                    number
                }
                None => match self.push(window) {
                    Some(number) => number,
                    None => return,
                },
            };
            self.cut(first, last);
            self.insert(Segment {
                first,
                last,
                base: first,
                number,
            });
        }
    }

    /// Ends the windows of an owner: their addresses belong to no window until they are placed again. Returns their
    /// numbers.
    pub(super) fn remove(&mut self, owner: Owner) -> Vec<u16> {
        let of_owner = |(n, w): (usize, &MmioRegion)| (w.owner == owner).then(|| u16::try_from(n).ok()).flatten();
        let numbers: Vec<u16> = self.all.iter().enumerate().filter_map(of_owner).collect();
        if !numbers.is_empty() {
            self.segments.retain(|s| !numbers.contains(&s.number));
        }
        numbers
    }

    /// Frees a range of addresses.
    fn cut(&mut self, first: u64, last: u64) {
        let from = self.segments.partition_point(|s| s.last < first);
        let to = self.segments.partition_point(|s| s.first <= last);
        let over: Range<usize> = from..to.max(from);
        let mut kept = Vec::with_capacity(2);
        for s in self.segments.get(over.clone()).unwrap_or_default() {
            if let Some(end) = first.checked_sub(1).filter(|end| s.first <= *end) {
                kept.push(Segment { last: end, ..*s });
            }
            if let Some(begin) = last.checked_add(1).filter(|begin| *begin <= s.last) {
                kept.push(Segment { first: begin, ..*s });
            }
        }
        self.segments.splice(over, kept);
    }

    fn insert(&mut self, segment: Segment) {
        let at = self.segments.partition_point(|s| s.first < segment.first);
        self.segments.insert(at, segment);
    }

    /// Adds the free part of a range around the address `keep`.
    fn add_clipped(&mut self, owner: Owner, (first, last): (u64, u64), keep: u64, extent: Extent) -> Option<u16> {
        let next = self.segments.partition_point(|s| s.first <= keep);
        let before = next.checked_sub(1).and_then(|n| self.segments.get(n));
        let first = match before {
            Some(s) if s.last >= keep => return None,
            Some(s) => first.max(s.last + 1),
            None => first,
        };
        let last = self
            .segments
            .get(next)
            .map_or(last, |s| last.min(s.first.saturating_sub(1)));
        let number = self.push(MmioRegion {
            owner,
            first,
            last,
            accesses: 0,
            guessed: false,
            separate: false,
            extent,
        })?;
        self.insert(Segment {
            first,
            last,
            base: first,
            number,
        });
        Some(number)
    }

    /// Returns the segment of an address.
    fn segment(&self, address: u64) -> Option<Segment> {
        let at = self.segments.partition_point(|s| s.first <= address).checked_sub(1)?;
        self.segments.get(at).filter(|s| address <= s.last).copied()
    }

    /// Returns the window of an address, and the offset in it.
    pub(super) fn find(&self, address: u64) -> Option<(u16, u32)> {
        let s = self.segment(address)?;
        Some((s.number, u32::try_from(address - s.base).ok()?))
    }

    /// Returns the window of an address. If there is none, creates one from the free part of `range` (first address,
    /// last address, whether it is guessed), which contains the address. Returns `None` if there are too many windows.
    pub(super) fn find_or_add(&mut self, address: u64, range: (u64, u64, bool)) -> Option<(u16, u32)> {
        if self.segment(address).is_none() {
            let (first, last, guessed) = range;
            if !guessed || self.extend_guessed(address, last).is_none() {
                // No further from the address than an offset reaches.
                let first = first.max(address & !(REACH - 1));
                let last = last.min(first.saturating_add(REACH - 1));
                let extent = if guessed { Extent::Fitted } else { Extent::Fixed };
                let number = self.add_clipped(Owner::Memory, (first, last), address, extent)?;
                if let Some(w) = self.all.get_mut(usize::from(number)) {
                    w.guessed = guessed;
                }
            }
        }
        self.find(address)
    }

    /// Extends the guessed window below an address up to `last`, if it is close, or if no window can be added.
    fn extend_guessed(&mut self, address: u64, last: u64) -> Option<()> {
        let next = self.segments.partition_point(|s| s.first <= address);
        let limit = self.segments.get(next).map_or(u64::MAX, |s| s.first - 1);
        let is_full = self.all.len() >= MAX_WINDOWS;
        let below = self.segments.get_mut(next.checked_sub(1)?)?;
        let window = self.all.get_mut(usize::from(below.number)).filter(|w| w.guessed)?;
        let is_near = address - below.last <= JOINED || is_full;
        if !is_near || address - below.base >= REACH || below.last != window.last {
            return None;
        }
        let last = last.min(limit).min(below.base.saturating_add(REACH - 1));
        (below.last, window.last) = (last, last);
        Some(())
    }

    /// Joins guessed windows that are close together, once no more are added. Returns the new window of each window and
    /// its offset in it, by number, or `None` if none is joined.
    pub(super) fn join(&mut self) -> Option<Vec<(u16, u32)>> {
        let segments = std::mem::take(&mut self.segments);
        let mut gap = JOINED;
        while gap < REACH && self.heads(&segments, gap) > MAX_GUESSED {
            gap *= 4;
        }
        let mut moved: Vec<(u16, u32)> = (0..self.all.len()).map(|n| (n as u16, 0)).collect();
        let mut any = false;
        // The window that the previous ones were joined into, if the last one was guessed.
        let mut head: Option<(u16, u64, u64)> = None;
        for s in segments {
            head = match head.filter(|_| self.is_guessed(s.number)) {
                Some((to, begin, end)) if s.first - end <= gap && s.last - begin < REACH => {
                    if s.number != to {
                        let from = self
                            .all
                            .get_mut(usize::from(s.number))
                            .map(|w| std::mem::take(&mut w.accesses));
                        if let Some(w) = self.all.get_mut(usize::from(to)) {
                            w.last = s.last;
                            w.accesses += from.unwrap_or(0);
                        }
                        if let Some(m) = moved.get_mut(usize::from(s.number)) {
                            *m = (to, s.base.wrapping_sub(begin) as u32);
                        }
                        any = true;
                    }
                    Some((to, begin, s.last))
                }
                _ => self.is_guessed(s.number).then_some((s.number, s.base, s.last)),
            };
        }
        any.then_some(moved)
    }

    fn is_guessed(&self, number: u16) -> bool {
        self.all.get(usize::from(number)).is_some_and(|w| w.guessed)
    }

    /// Returns the number of guessed windows after joining over gaps of this size.
    fn heads(&self, segments: &[Segment], gap: u64) -> usize {
        let mut end: Option<u64> = None;
        let mut heads = 0;
        for s in segments {
            let guessed = self.is_guessed(s.number);
            heads += usize::from(guessed && end.is_none_or(|end| s.first - end > gap));
            end = guessed.then_some(s.last);
        }
        heads
    }

    /// Sets begin and end of the windows that do not know theirs. `accessed` holds the first and the last accessed
    /// offset of each window, by number. Returns the change of the offsets in each window, modulo 2^32, or `None` if no
    /// window begins elsewhere.
    pub(super) fn fit(&mut self, accessed: &[Option<(u32, u32)>]) -> Option<Vec<(u16, u32)>> {
        let mut moved: Vec<(u16, u32)> = (0..self.all.len()).map(|n| (n as u16, 0)).collect();
        let mut any = false;
        for ((w, accessed), moved) in self.all.iter_mut().zip(accessed).zip(&mut moved) {
            let Some((low, high)) = *accessed else { continue };
            match w.extent {
                Extent::Fixed => {}
                Extent::Growing => {
                    let bytes = (u64::from(high) + 1).next_power_of_two().max(PAGE);
                    w.last = w.first.saturating_add(bytes - 1);
                }
                Extent::Fitted => {
                    let first = w.first.saturating_add(u64::from(low));
                    let begin = (first & !(PAGE - 1)).max(w.first);
                    let shift = (begin - w.first) as u32;
                    w.last = w.first.saturating_add(u64::from(high) | (PAGE - 1));
                    w.first = begin;
                    moved.1 = shift.wrapping_neg();
                    any |= shift != 0;
                }
            }
        }
        any.then_some(moved)
    }
}

/// Returns the parts of a range of `bytes` from `base` on, each of at most [`REACH`] bytes: first and last address.
fn parts(base: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut at = Some(base);
    let mut left = bytes;
    (0..MAX_PARTS).map_while(move |_| {
        let first = at.filter(|_| left > 0)?;
        let part = left.min(REACH);
        at = first.checked_add(part);
        left -= part;
        Some((first, first.saturating_add(part - 1)))
    })
}

/// A window lookup with a cache of the last result: most accesses go to the same window as the previous one.
pub(super) struct Finder<'a> {
    windows: &'a MmioRegions,
    last: Segment,
}

impl<'a> Finder<'a> {
    pub(super) fn new(windows: &'a MmioRegions) -> Self {
        Self {
            windows,
            last: Segment {
                first: 1,
                last: 0,
                base: 0,
                number: STRAY,
            },
        }
    }

    /// Same as [`MmioRegions::find`].
    pub(super) fn find(&mut self, address: u64) -> Option<(u16, u32)> {
        if !(self.last.first..=self.last.last).contains(&address) {
            self.last = self.windows.segment(address)?;
        }
        Some((self.last.number, u32::try_from(address - self.last.base).ok()?))
    }
}

/// Returns the mapped range of an address, or the 64 KiB around it if there is none, and whether it is guessed: the one
/// range of an access whose address is in no window, for every format.
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
mod tests;
