//! Runs the workgroups of a job: many at a time, with the result of running them one after another.
//!
//! Workgroups are taken in linear order (x fastest) in *chunks*, and chunks in *rounds*. The chunks of a round run at
//! the same time, each on memory as it was before the round and under an overlay of its own writes. Then they are
//! committed in order. A chunk that read a word which an earlier chunk of the round wrote saw something that it could
//! not have seen in turn: what it did is thrown away, and it runs again on what is committed. So neither the number of
//! threads nor the size of chunks shows in memory, in faults or in counts.
//!
//! The serial order also means that a workgroup never waits for a later one with success: a job that relies on that
//! spends its budget.

use super::overlay::RoundWrites;
use super::stop::{Budget, Meter, Stats, Stop};
use super::trace::Trace;
use super::view::{ChunkMode, View, ViewResult};
use crate::address_space::Translation;
use crate::memory::ArenaMemory;
use rayon::prelude::*;
use std::ops::Range;
use trace_core::progress::Progress;

/// Executes single workgroups. One is made for each chunk that runs at a time, and kept for the job.
pub(crate) trait WorkgroupRunner<T: Trace>: Send {
    /// Runs a workgroup to its end. It pays for each clause with [`Meter::clause`], makes every access through the
    /// view, and hands every stop of either on. What it does may depend on nothing else than its workgroup and memory.
    fn run(&mut self, group: [u32; 3], view: &mut View<'_, T>, meter: &mut Meter<'_>) -> Result<(), Stop>;
}

/// What a job runs with.
#[derive(Clone, Copy)]
pub(crate) struct DispatchParams<'a> {
    /// How its addresses are translated.
    pub translation: Translation,
    /// Workgroups along x, y, z.
    pub groups: [u32; 3],
    /// What it may execute.
    pub budget: Budget,
    /// Who may cancel it.
    pub progress: Option<&'a Progress>,
}

/// What became of a job.
#[derive(Debug)]
pub(crate) struct DispatchResult<T> {
    /// What its workgroups did, up to the end or the stop.
    pub stats: Stats,
    /// Where it stopped and why: the first stop in the order of workgroups. All stores before it were made.
    pub stop: Option<([u32; 3], Stop)>,
    /// What was told of accesses.
    pub trace: T,
    /// Accesses outside the device's memory.
    pub outside: u64,
    /// Writes refused because the device may keep no more memory.
    pub refused: u64,
    /// Workgroups that ran a second time, because what they read was written meanwhile. This depends on the number of
    /// threads; nothing else does.
    pub reruns: u64,
}

/// Pages that the chunks of a round that run ahead may touch together. With its copy a page takes some 4.8 KB.
const MAX_SPECULATIVE_PAGES: usize = 1 << 15;
/// Clauses that a chunk which runs ahead may always execute. One that needs more might loop on what it should not have
/// seen, so it runs in turn.
const MAX_SPECULATIVE_CLAUSES: u64 = 1 << 24;
/// Chunks of a round for each thread.
const CHUNKS_PER_THREAD: usize = 2;
/// Rounds that a job with no conflicts has at least: what runs ahead is bounded, and stops come soon.
const MIN_ROUNDS: u64 = 4;
/// Workgroups of a chunk in a job that runs in turn.
const SERIAL_CHUNK_GROUPS: u64 = 64;
/// Workgroups between two looks at whether the work was cancelled.
const CANCEL_CHECK_GROUPS: u64 = 1 << 10;

/// What a chunk did.
struct ChunkResult<T> {
    left: ViewResult<T>,
    stats: Stats,
    stop: Option<([u32; 3], Stop)>,
}

/// Runs all workgroups of a job, or those before the one that stops it.
pub(crate) fn dispatch<T: Trace, R: WorkgroupRunner<T>>(
    memory: &mut ArenaMemory,
    terms: DispatchParams<'_>,
    make: impl Fn() -> R,
) -> DispatchResult<T> {
    let threads = rayon::current_num_threads();
    let total = terms.groups.iter().fold(1u64, |n, g| n.saturating_mul(u64::from(*g)));
    let mut job = Job {
        memory,
        terms,
        done: DispatchResult {
            stats: Stats::default(),
            stop: None,
            trace: T::default(),
            outside: 0,
            refused: 0,
            reruns: 0,
        },
        heaviest: 0,
    };
    let most = if threads > 1 { threads * CHUNKS_PER_THREAD } else { 1 };
    let mut runners: Vec<R> = Vec::new();
    // A job of few workgroups shares them out at once; one of many finds out first whether they disturb each other.
    let cap = total.div_ceil(most as u64 * MIN_ROUNDS).max(1);
    let mut size = cap.div_ceil(16);
    let mut in_turn = most == 1;
    let mut strikes = 0;
    let mut next = 0;
    while next < total && job.done.stop.is_none() {
        let (count, groups) = if in_turn {
            (1, SERIAL_CHUNK_GROUPS)
        } else {
            (most, size)
        };
        let chunks: Vec<Range<u64>> = (0..count as u64)
            .map(|n| next.saturating_add(n.saturating_mul(groups)).min(total))
            .map(|first| first..first.saturating_add(groups).min(total))
            .filter(|c| !c.is_empty())
            .collect();
        while runners.len() < chunks.len() {
            runners.push(make());
        }
        next = chunks.last().map_or(total, |c| c.end);
        let conflicts = job.round(&chunks, &mut runners);
        if in_turn {
            continue;
        }
        match conflicts {
            0 => size = size.saturating_mul(4).min(cap),
            n if n + 1 >= chunks.len() => strikes += 2,
            n if n * 2 >= chunks.len() => strikes += 1,
            _ => size = (size / 2).max(1),
        }
        in_turn = strikes >= 2;
    }
    job.done
}

/// A job under way.
struct Job<'a, T> {
    memory: &'a mut ArenaMemory,
    terms: DispatchParams<'a>,
    done: DispatchResult<T>,
    /// Most clauses that a workgroup executed.
    heaviest: u64,
}

impl<T: Trace> Job<'_, T> {
    /// Runs the chunks of a round and commits them; gives how many had to run a second time.
    fn round<R: WorkgroupRunner<T>>(&mut self, chunks: &[Range<u64>], runners: &mut [R]) -> usize {
        let (terms, left, memory) = (self.terms, self.clauses_left(), &*self.memory);
        let heaviest = self.heaviest;
        let pages = (MAX_SPECULATIVE_PAGES / chunks.len().max(1)).max(64);
        let ran: Vec<ChunkResult<T>> = if let ([chunk], [runner, ..]) = (chunks, &mut *runners) {
            vec![run_chunk(
                memory,
                terms,
                chunk.clone(),
                ChunkMode::InOrder,
                left,
                runner,
            )]
        } else {
            chunks
                .par_iter()
                .zip(runners.par_iter_mut())
                .enumerate()
                .with_max_len(1)
                .map(|(n, (chunk, runner))| {
                    // The first of a round is in its turn.
                    if n == 0 {
                        return run_chunk(memory, terms, chunk.clone(), ChunkMode::InOrder, left, runner);
                    }
                    let groups = chunk.end - chunk.start;
                    let enough = heaviest
                        .saturating_mul(groups)
                        .saturating_mul(8)
                        .max(MAX_SPECULATIVE_CLAUSES);
                    let turn = ChunkMode::Speculative { pages };
                    run_chunk(memory, terms, chunk.clone(), turn, left.min(enough), runner)
                })
                .collect()
        };
        let mut writes = RoundWrites::default();
        let mut conflicts = 0;
        for (n, (mut ran, chunk)) in ran.into_iter().zip(chunks).enumerate() {
            if n > 0 && (self.must_repeat(&ran, &writes) || !self.fits(&ran)) {
                conflicts += 1;
                self.done.reruns += chunk.end - chunk.start;
                // What it left is dropped before it runs again.
                drop(ran);
                let Some(runner) = runners.get_mut(n) else { break };
                let left = self.clauses_left();
                ran = run_chunk(self.memory, terms, chunk.clone(), ChunkMode::InOrder, left, runner);
            }
            let groups = chunk.end - chunk.start;
            self.heaviest = self.heaviest.max(ran.stats.clauses.div_ceil(groups.max(1)));
            self.commit(ran, &mut writes);
            if self.done.stop.is_some() {
                break;
            }
        }
        conflicts
    }

    fn clauses_left(&self) -> u64 {
        self.terms.budget.job.saturating_sub(self.done.stats.clauses)
    }

    /// Whether what a chunk did ahead of its turn is not what it does in turn.
    fn must_repeat(&self, ran: &ChunkResult<T>, writes: &RoundWrites) -> bool {
        matches!(ran.stop, Some((_, Stop::Retry)))
            || ran.stats.clauses > self.clauses_left()
            || writes.has_conflict(&ran.left.slots)
    }

    /// Whether memory has room for the pages that a chunk is the first to write.
    fn fits(&self, ran: &ChunkResult<T>) -> bool {
        let new = |s: &&super::overlay::Slot| s.copy.is_some() && !self.memory.is_backed(s.frame);
        ran.left.slots.iter().filter(new).count() <= self.memory.free_frames()
    }

    fn commit(&mut self, ran: ChunkResult<T>, writes: &mut RoundWrites) {
        self.done.stats += ran.stats;
        self.done.outside += ran.left.outside;
        self.done.refused += ran.left.refused;
        self.done.trace.absorb(ran.left.trace);
        if T::PAGES {
            self.done.trace.add_pages(&ran.left.slots);
        }
        self.done.stop = ran.stop;
        if writes.commit(ran.left.slots, self.memory).is_err() {
            // It was counted that they fit: a chunk in its turn counts what it takes, the others were asked.
            self.done.refused += 1;
        }
    }
}

/// Coordinates of a workgroup by its number in linear order.
fn workgroup_at(n: u64, groups: [u32; 3]) -> [u32; 3] {
    let [x, y, _] = groups.map(|g| u64::from(g).max(1));
    [(n % x) as u32, (n / x % y) as u32, (n / x / y) as u32]
}

fn run_chunk<T: Trace, R: WorkgroupRunner<T>>(
    memory: &ArenaMemory,
    terms: DispatchParams<'_>,
    chunk: Range<u64>,
    turn: ChunkMode,
    clauses: u64,
    runner: &mut R,
) -> ChunkResult<T> {
    let mut view = View::new(memory, terms.translation, turn);
    let mut meter = Meter::new(terms.budget.wave, clauses, turn != ChunkMode::InOrder, terms.progress);
    let mut stop = None;
    for n in chunk {
        let group = workgroup_at(n, terms.groups);
        let ran = if n % CANCEL_CHECK_GROUPS == 0 && terms.progress.is_some_and(|p| p.check().is_err()) {
            Err(Stop::Cancelled)
        } else {
            runner.run(group, &mut view, &mut meter)
        };
        if let Err(why) = ran {
            stop = Some((group, why));
            break;
        }
    }
    ChunkResult {
        left: view.finish(),
        stats: meter.stats(),
        stop,
    }
}
