//! Hook that traces a job's reads and writes and costs nothing when it is disabled.

use super::overlay::Slot;
use trace_core::{GpuVa, PhysAddr};

/// Number of lanes of a wave. The threads of a workgroup fill waves in order. The warps of the hardware, with 4 or 8
/// lanes, lie within a wave.
pub(crate) const LANES: usize = 32;
/// One word of each lane.
pub(crate) type Vector = [u32; LANES];

/// Source of an access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct AccessSource {
    /// The workgroup.
    pub group: [u32; 3],
    /// The thread in the workgroup, counted along x, then y, then z.
    pub thread: u32,
    /// Address of the clause.
    pub pc: GpuVa,
    /// Tuple of the clause.
    pub tuple: u8,
}

impl AccessSource {
    /// Returns the same location in the shader for the thread that is this many threads later.
    #[inline(always)]
    pub(crate) fn with_thread_offset(&self, threads: u32) -> Self {
        Self {
            thread: self.thread.wrapping_add(threads),
            ..*self
        }
    }
}

/// Bytes of an access. They lie in one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AccessRange {
    /// GPU address of the first byte.
    pub va: GpuVa,
    /// Physical address of the first byte.
    pub pa: PhysAddr,
    /// Number of bytes.
    pub bytes: u32,
}

/// Bytes of an access, as they were read or will be written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Words(&'a [u32]),
    Bytes(&'a [u8]),
}

impl Value<'_> {
    /// Returns the first 16 bytes as a number, with the first byte lowest.
    pub(crate) fn number(self) -> u128 {
        match self {
            Self::Words(w) => w.iter().take(4).rev().fold(0, |n, w| n << 32 | u128::from(*w)),
            Self::Bytes(b) => b.iter().take(16).rev().fold(0, |n, b| n << 8 | u128::from(*b)),
        }
    }
}

/// Clause that lanes of a wave execute.
#[derive(Clone, Copy)]
pub(crate) struct ClauseExecution<'a> {
    /// Address of the clause.
    pub address: GpuVa,
    /// Number of the wave's first thread in the workgroup.
    pub first: u32,
    /// Lanes that execute the clause, one bit each.
    pub lanes: u32,
    /// Registers of all lanes.
    pub registers: &'a [Vector],
}

impl ClauseExecution<'_> {
    /// Returns the lane of a thread, if the thread executes the clause.
    pub(crate) fn lane_of(&self, thread: u32) -> Option<usize> {
        let lane = thread.checked_sub(self.first).filter(|l| *l < LANES as u32)?;
        (self.lanes >> lane & 1 == 1).then_some(lane as usize)
    }

    /// Returns the registers of a lane.
    pub(crate) fn registers_of(&self, lane: usize) -> [u32; 64] {
        std::array::from_fn(|r| self.registers.get(r).and_then(|v| v.get(lane)).copied().unwrap_or(0))
    }
}

/// Observer of accesses. Workgroups that run in parallel have one each. They are merged in the order of the workgroups.
/// The trace of a discarded run is discarded too.
pub(crate) trait Trace: Default + Send {
    /// Whether anything is traced. If it is false, the calls compile to nothing.
    const ON: bool;
    /// Whether reads are traced.
    const READS: bool;
    /// Whether clauses are traced.
    const CLAUSES: bool = false;
    /// Whether all touched pages are traced.
    const PAGES: bool = false;
    /// Called with the pages that were touched: by completed workgroups, one after another, or while preparing a
    /// shader.
    #[inline(always)]
    fn add_pages(&mut self, _: &[Slot]) {}
    /// Called with pages that were touched before everything traced so far.
    #[inline(always)]
    fn add_earlier_reads(&mut self, _: &[Slot]) {}
    /// Called after bytes were read. If [`Trace::READS`] is false, it is not called, or is called with an arbitrary
    /// source.
    fn read(&mut self, what: AccessRange, value: Value<'_>, who: &AccessSource);
    /// Called for bytes that are written.
    fn write(&mut self, what: AccessRange, value: Value<'_>, who: &AccessSource);
    /// Called for consecutive words that are written: the first by `who`, and each next word by the next thread.
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
    /// Called before lanes execute a clause.
    #[inline(always)]
    fn begin_clause(&mut self, _: &ClauseExecution<'_>) {}
    /// Called after lanes executed a clause without a stopped access.
    #[inline(always)]
    fn end_clause(&mut self, _: &ClauseExecution<'_>) {}
    /// Merges the trace of what came later.
    fn absorb(&mut self, later: Self);
}

/// Trace that records nothing.
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
