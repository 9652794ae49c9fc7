//! Following what a job reads and writes: a hook that costs nothing where it is off.

use super::overlay::Slot;
use crate::shader::lanes::{LANES, Vector};

/// Who makes an access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct AccessSource {
    /// The workgroup.
    pub group: [u32; 3],
    /// The thread within it, counted along x, then y, then z.
    pub thread: u32,
    /// Address of the clause.
    pub pc: u64,
    /// Tuple of the clause.
    pub tuple: u8,
}

impl AccessSource {
    /// The same place in the shader, for a thread that is so many later.
    #[inline(always)]
    pub(crate) fn with_thread_offset(&self, threads: u32) -> Self {
        Self {
            thread: self.thread.wrapping_add(threads),
            ..*self
        }
    }
}

/// Bytes that an access touches. They lie in one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AccessRange {
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
pub(crate) struct ClauseExecution<'a> {
    /// Its address.
    pub address: u64,
    /// Number of the wave's first thread within the workgroup.
    pub first: u32,
    /// Lanes that execute it, a bit each.
    pub lanes: u32,
    /// Registers of all lanes.
    pub registers: &'a [Vector],
}

impl ClauseExecution<'_> {
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
    /// Whether what is read is told too.
    const READS: bool;
    /// Whether clauses are told too.
    const CLAUSES: bool = false;
    /// Whether it is told of the pages that were touched, all of them.
    const PAGES: bool = false;
    /// These pages were touched: by workgroups that are done, one after another, or to make a shader ready.
    #[inline(always)]
    fn add_pages(&mut self, _: &[Slot]) {}
    /// These were, before all that was told so far.
    #[inline(always)]
    fn add_earlier_reads(&mut self, _: &[Slot]) {}
    /// Bytes were read. Where [`Trace::READS`] is false it is not called, or with anybody as the reader.
    fn read(&mut self, what: AccessRange, value: Value<'_>, who: &AccessSource);
    /// Bytes were written.
    fn write(&mut self, what: AccessRange, value: Value<'_>, who: &AccessSource);
    /// Words that lie one behind another were written, the first by `who` and each of the others by the next thread.
    #[inline(always)]
    fn write_run(&mut self, what: AccessRange, words: &[u32], who: &AccessSource) {
        for (n, word) in (0..).zip(words) {
            let at = 4 * u64::from(n);
            let what = AccessRange {
                va: what.va + at,
                pa: what.pa + at,
                bytes: 4,
            };
            self.write(what, Value::Words(&[*word]), &who.with_thread_offset(n));
        }
    }
    /// Lanes are about to execute a clause.
    #[inline(always)]
    fn begin_clause(&mut self, _: &ClauseExecution<'_>) {}
    /// They executed it, and none of its accesses was stopped.
    #[inline(always)]
    fn end_clause(&mut self, _: &ClauseExecution<'_>) {}
    /// Takes what came after.
    fn absorb(&mut self, later: Self);
}

/// Follows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NoTrace;

impl Trace for NoTrace {
    const ON: bool = false;
    const READS: bool = false;
    #[inline(always)]
    fn read(&mut self, _: AccessRange, _: Value<'_>, _: &AccessSource) {}
    #[inline(always)]
    fn write(&mut self, _: AccessRange, _: Value<'_>, _: &AccessSource) {}
    #[inline(always)]
    fn absorb(&mut self, _: Self) {}
}
