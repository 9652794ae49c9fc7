//! Following what a job reads and writes: a hook that costs nothing where it is off.

use super::overlay::FrameMap;
use crate::shader::lanes::{LANES, Vector};
use trace_core::PAGE_SIZE;

/// Who makes an access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Who {
    /// The workgroup.
    pub group: [u32; 3],
    /// The thread within it, counted along x, then y, then z.
    pub thread: u32,
    /// Address of the clause.
    pub pc: u64,
    /// Tuple of the clause.
    pub tuple: u8,
}

/// Bytes that an access touches. They lie in one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Touched {
    /// GPU address of the first.
    pub va: u64,
    /// Where it lies.
    pub pa: u64,
    /// How many.
    pub bytes: u32,
}

/// Bytes of an access as they were read or will be written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Words(&'a [u32]),
    Bytes(&'a [u8]),
}

impl Value<'_> {
    /// The first 16 bytes as a number, the first byte lowest.
    pub(crate) fn number(self) -> u128 {
        match self {
            Self::Words(w) => w.iter().take(4).rev().fold(0, |n, w| n << 32 | u128::from(*w)),
            Self::Bytes(b) => b.iter().take(16).rev().fold(0, |n, b| n << 8 | u128::from(*b)),
        }
    }
}

/// A clause that lanes of a wave execute.
#[derive(Clone, Copy)]
pub(crate) struct Executed<'a> {
    /// Its address.
    pub address: u64,
    /// Number of the wave's first thread within the workgroup.
    pub first: u32,
    /// Lanes that execute it, a bit each.
    pub lanes: u32,
    /// Registers of all lanes.
    pub registers: &'a [Vector],
}

impl Executed<'_> {
    /// The lane of a thread, when it is one of those that execute the clause.
    pub(crate) fn lane_of(&self, thread: u32) -> Option<usize> {
        let lane = thread.checked_sub(self.first).filter(|l| *l < LANES as u32)?;
        (self.lanes >> lane & 1 == 1).then_some(lane as usize)
    }

    /// The registers of a lane.
    pub(crate) fn registers_of(&self, lane: usize) -> [u32; 64] {
        std::array::from_fn(|r| self.registers.get(r).and_then(|v| v.get(lane)).copied().unwrap_or(0))
    }
}

/// What follows accesses. Workgroups that run at the same time have one each; they are joined in the order of the
/// workgroups, and what a run that was thrown away told is thrown away too.
pub(crate) trait Trace: Default + Send {
    /// Whether anything is told at all. Where it is false the calls compile to nothing.
    const ON: bool;
    /// Whether clauses are told too.
    const CLAUSES: bool = false;
    /// Bytes were read.
    fn read(&mut self, what: Touched, value: Value<'_>, who: &Who);
    /// Bytes were written.
    fn wrote(&mut self, what: Touched, value: Value<'_>, who: &Who);
    /// Lanes are about to execute a clause.
    #[inline(always)]
    fn begins(&mut self, _: &Executed<'_>) {}
    /// They executed it, and none of its accesses was stopped.
    #[inline(always)]
    fn ended(&mut self, _: &Executed<'_>) {}
    /// Takes what came after.
    fn absorb(&mut self, later: Self);
}

/// Follows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Untraced;

impl Trace for Untraced {
    const ON: bool = false;
    #[inline(always)]
    fn read(&mut self, _: Touched, _: Value<'_>, _: &Who) {}
    #[inline(always)]
    fn wrote(&mut self, _: Touched, _: Value<'_>, _: &Who) {}
    #[inline(always)]
    fn absorb(&mut self, _: Self) {}
}

const WORDS: usize = PAGE_SIZE / 4;
/// Nobody wrote the word.
const NOBODY: u32 = u32::MAX;

/// Numbers of the last writers of a page's bytes.
#[derive(Debug)]
struct Numbers {
    words: Box<[u32; WORDS]>,
    /// There once less than a word was written.
    bytes: Option<Box<[u32; PAGE_SIZE]>>,
}

impl Numbers {
    fn new() -> Self {
        Self {
            words: Box::new([NOBODY; WORDS]),
            bytes: None,
        }
    }

    fn by_byte(&mut self) -> &mut [u32; PAGE_SIZE] {
        let words = &self.words;
        self.bytes
            .get_or_insert_with(|| Box::new(std::array::from_fn(|i| words.get(i / 4).copied().unwrap_or(NOBODY))))
    }

    #[inline(always)]
    fn put(&mut self, first: usize, bytes: usize, number: u32) {
        if self.bytes.is_none() && first.is_multiple_of(4) && bytes.is_multiple_of(4) {
            let words = self.words.iter_mut().skip(first / 4).take(bytes / 4);
            words.for_each(|w| *w = number);
        } else {
            let all = self.by_byte().iter_mut().skip(first).take(bytes);
            all.for_each(|b| *b = number);
        }
    }

    fn at(&self, byte: usize) -> u32 {
        let found = match &self.bytes {
            Some(b) => b.get(byte),
            None => self.words.get(byte / 4),
        };
        found.copied().unwrap_or(NOBODY)
    }

    /// Takes the later numbers, each raised.
    fn absorb(&mut self, later: &Self, by: u32) {
        let take = |(to, from): (&mut u32, &u32)| {
            if *from != NOBODY {
                *to = from.saturating_add(by);
            }
        };
        match (&later.bytes, &self.bytes) {
            (None, None) => self.words.iter_mut().zip(later.words.iter()).for_each(take),
            (Some(from), _) => self.by_byte().iter_mut().zip(from.iter()).for_each(take),
            (None, Some(_)) => {
                let wide = later.words.iter().flat_map(|w| [w; 4]);
                self.by_byte().iter_mut().zip(wide).for_each(take);
            }
        }
    }
}

/// The last writer of every byte.
#[derive(Debug, Default)]
pub(crate) struct LastWriters {
    /// Writers by number; many bytes have the same one.
    writers: Vec<Who>,
    pages: Vec<Numbers>,
    /// By frame, the place among the pages.
    frames: FrameMap<u32>,
    /// The frame that was written last, and its place.
    last: Option<(u64, u32)>,
}

impl LastWriters {
    /// Who wrote the byte at this physical address last, and the writer's number.
    pub(crate) fn found(&self, pa: u64) -> Option<(u32, &Who)> {
        let place = self.frames.get(&(pa / PAGE_SIZE as u64))?;
        let number = self.pages.get(*place as usize)?.at(pa as usize % PAGE_SIZE);
        Some((number, self.writers.get(number as usize)?))
    }

    /// Writers that have a number; later ones have greater ones.
    pub(crate) fn numbers(&self) -> u32 {
        u32::try_from(self.writers.len()).unwrap_or(NOBODY)
    }

    /// Remembers a write within a page; `fresh`: by a writer with a number of its own.
    #[inline(always)]
    pub(crate) fn put(&mut self, pa: u64, bytes: usize, who: &Who, fresh: bool) {
        if fresh || self.writers.last() != Some(who) {
            // Numbers stay below the one that means nobody: a job's budget ends long before.
            self.writers.push(*who);
        }
        let number = self.numbers().saturating_sub(1);
        let frame = pa / PAGE_SIZE as u64;
        let place = match self.last {
            Some((f, place)) if f == frame => place,
            _ => self.place_of(frame),
        };
        if let Some(page) = self.pages.get_mut(place as usize) {
            page.put(pa as usize % PAGE_SIZE, bytes, number);
        }
    }

    fn place_of(&mut self, frame: u64) -> u32 {
        let pages = &mut self.pages;
        let place = *self.frames.entry(frame).or_insert_with(|| {
            pages.push(Numbers::new());
            u32::try_from(pages.len() - 1).unwrap_or(NOBODY)
        });
        self.last = Some((frame, place));
        place
    }
}

impl Trace for LastWriters {
    const ON: bool = true;

    #[inline(always)]
    fn read(&mut self, _: Touched, _: Value<'_>, _: &Who) {}

    #[inline(always)]
    fn wrote(&mut self, what: Touched, _: Value<'_>, who: &Who) {
        self.put(what.pa, what.bytes as usize, who, false);
    }

    fn absorb(&mut self, later: Self) {
        let by = self.numbers();
        if self.pages.is_empty() {
            self.pages = later.pages;
            self.frames = later.frames;
            self.writers.extend(later.writers);
            // Numbers of what was empty may not begin at 0.
            if by > 0 {
                for p in &mut self.pages {
                    let raised = std::mem::replace(p, Numbers::new());
                    p.absorb(&raised, by);
                }
            }
            return;
        }
        self.writers.extend(later.writers);
        for (frame, place) in later.frames {
            let Some(from) = later.pages.get(place as usize) else {
                continue;
            };
            let to = self.place_of(frame);
            if let Some(page) = self.pages.get_mut(to as usize) {
                page.absorb(from, by);
            }
        }
    }
}
