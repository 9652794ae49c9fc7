//! Following what a job reads and writes: a hook that costs nothing where it is off.

use std::collections::HashMap;
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

/// What follows accesses. Workgroups that run at the same time have one each; they are joined in the order of the
/// workgroups, and what a run that was thrown away told is thrown away too.
pub(crate) trait Trace: Default + Send {
    /// Whether anything is told at all. Where it is false the calls compile to nothing.
    const ON: bool;
    /// Bytes were read.
    fn read(&mut self, what: Touched, who: &Who);
    /// Bytes were written.
    fn wrote(&mut self, what: Touched, who: &Who);
    /// Takes what came after.
    fn absorb(&mut self, later: Self);
}

/// Follows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Untraced;

impl Trace for Untraced {
    const ON: bool = false;
    #[inline(always)]
    fn read(&mut self, _: Touched, _: &Who) {}
    #[inline(always)]
    fn wrote(&mut self, _: Touched, _: &Who) {}
    #[inline(always)]
    fn absorb(&mut self, _: Self) {}
}

const WORDS: usize = PAGE_SIZE / 4;
/// Nobody wrote the word.
const NOBODY: u32 = u32::MAX;

/// The last writer of every 32-bit word.
#[derive(Debug, Default)]
pub(crate) struct LastWriters {
    /// Writers by number; many words have the same one.
    writers: Vec<Who>,
    /// By frame, the number of each word's writer.
    frames: HashMap<u64, Box<[u32; WORDS]>>,
}

impl LastWriters {
    /// Who wrote the word that holds this physical address last.
    pub(crate) fn of(&self, pa: u64) -> Option<&Who> {
        let page = self.frames.get(&(pa / PAGE_SIZE as u64))?;
        let number = page.get(pa as usize % PAGE_SIZE / 4)?;
        self.writers.get(*number as usize)
    }
}

impl Trace for LastWriters {
    const ON: bool = true;

    #[inline(always)]
    fn read(&mut self, _: Touched, _: &Who) {}

    fn wrote(&mut self, what: Touched, who: &Who) {
        if self.writers.last() != Some(who) {
            // Numbers stay below the one that means nobody: a job's budget ends long before.
            self.writers.push(*who);
        }
        let number = u32::try_from(self.writers.len() - 1).unwrap_or(NOBODY);
        let page = self
            .frames
            .entry(what.pa / PAGE_SIZE as u64)
            .or_insert_with(|| Box::new([NOBODY; WORDS]));
        let first = what.pa as usize % PAGE_SIZE;
        let end = (first + what.bytes as usize).div_ceil(4);
        page.iter_mut().take(end).skip(first / 4).for_each(|w| *w = number);
    }

    fn absorb(&mut self, later: Self) {
        let base = u32::try_from(self.writers.len()).unwrap_or(NOBODY);
        self.writers.extend(later.writers);
        for (frame, page) in later.frames {
            let into = self.frames.entry(frame).or_insert_with(|| Box::new([NOBODY; WORDS]));
            for (to, from) in into.iter_mut().zip(page.iter()) {
                if *from != NOBODY {
                    *to = from.saturating_add(base);
                }
            }
        }
    }
}
