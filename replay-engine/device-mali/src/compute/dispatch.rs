//! Parallel runner of a job's workgroups, with the same result as running them one after another.
//!
//! Workgroups are taken in linear order (x fastest) in *chunks*, and chunks in *rounds*. The chunks of a round run in
//! parallel. Each chunk sees memory as it was before the round, under an overlay of its own writes. The chunks are then
//! committed in order. A chunk conflicts if it read a word that an earlier chunk of the round wrote. Its result is
//! discarded, and it runs again on the committed memory. So neither the number of threads nor the size of chunks
//! affects memory, faults or counts.
//!
//! The serial order also means that a workgroup cannot successfully wait for a later one. A job that relies on that
//! exhausts its budget.

use super::overlay::RoundWrites;
use super::stop::{Meter, Stats, Stop};
use super::trace::Trace;
use super::view::{ChunkMode, View, ViewResult};
use crate::address_space::Translation;
use crate::budget::Budget;
use crate::memory::ArenaMemory;
use rayon::prelude::*;
use std::ops::Range;
use trace_core::progress::Progress;

/// Executor of single workgroups. One is created for each chunk that runs in parallel, and is kept for the job.
pub(crate) trait WorkgroupRunner<T: Trace>: Send {
    /// Runs a workgroup to completion. It pays for each clause with [`Meter::clause`], makes every access through the
    /// view, and returns every stop of either. Its behaviour may depend only on the workgroup and memory.
    fn run(&mut self, group: [u32; 3], view: &mut View<'_, T>, meter: &mut Meter<'_>) -> Result<(), Stop>;
}

/// Parameters of a job.
#[derive(Clone, Copy)]
pub(crate) struct DispatchParams<'a> {
    /// Translation of the job's addresses.
    pub translation: Translation,
    /// Number of workgroups along x, y, z.
    pub groups: [u32; 3],
    /// Execution budget of the job.
    pub budget: Budget,
    /// Progress through which the job can be cancelled.
    pub progress: Option<&'a Progress>,
}

/// Result of a job.
#[derive(Debug)]
pub(crate) struct DispatchResult<T> {
    /// Statistics of the workgroups, up to the end or the stop.
    pub stats: Stats,
    /// Workgroup and reason of the stop: the first stop in the order of workgroups. All stores before it were made.
    pub stop: Option<([u32; 3], Stop)>,
    /// Trace of the accesses.
    pub trace: T,
    /// Number of accesses outside the device's memory.
    pub outside: u64,
    /// Number of writes refused because the device's memory limit was reached.
    pub refused: u64,
    /// Number of workgroups that ran a second time because of a conflict. Only this value depends on the number of
    /// threads.
    pub reruns: u64,
}

/// Maximum number of pages that the speculative chunks of a round may touch together. A page with its copy takes about
/// 4.8 KB.
const MAX_SPECULATIVE_PAGES: usize = 1 << 15;
/// Number of clauses that a speculative chunk may always execute. A chunk that exceeds its limit might loop on memory
/// that it should not have seen, so it runs in order.
const MAX_SPECULATIVE_CLAUSES: u64 = 1 << 24;
/// Number of chunks of a round for each thread.
const CHUNKS_PER_THREAD: usize = 2;
/// Minimum number of rounds of a job without conflicts. This bounds speculative work and detects stops early.
const MIN_ROUNDS: u64 = 4;
/// Number of workgroups of a chunk in a job that runs in order.
const SERIAL_CHUNK_GROUPS: u64 = 64;
/// Number of workgroups between two checks for cancellation.
const CANCEL_CHECK_GROUPS: u64 = 1 << 10;

/// Result of a chunk.
struct ChunkResult<T> {
    left: ViewResult<T>,
    stats: Stats,
    stop: Option<([u32; 3], Stop)>,
}

/// Runs all workgroups of a job, or those before the workgroup that stops it.
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
    let max = if threads > 1 { threads * CHUNKS_PER_THREAD } else { 1 };
    let mut runners: Vec<R> = Vec::new();
    // A job with few workgroups is divided at once. A job with many first finds out whether its workgroups conflict.
    let cap = total.div_ceil(max as u64 * MIN_ROUNDS).max(1);
    let mut size = cap.div_ceil(16);
    let mut in_turn = max == 1;
    let mut strikes = 0;
    let mut next = 0;
    while next < total && job.done.stop.is_none() {
        let (count, groups) = if in_turn { (1, SERIAL_CHUNK_GROUPS) } else { (max, size) };
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

/// Running job.
struct Job<'a, T> {
    memory: &'a mut ArenaMemory,
    terms: DispatchParams<'a>,
    done: DispatchResult<T>,
    /// Maximum number of clauses that one workgroup executed.
    heaviest: u64,
}

impl<T: Trace> Job<'_, T> {
    /// Runs the chunks of a round and commits them. Returns how many chunks had to run a second time.
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
                    // The first chunk of a round runs in order.
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
                // The old result is dropped before the chunk runs again.
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

    /// Returns whether the speculative result of a chunk differs from its in-order result.
    fn must_repeat(&self, ran: &ChunkResult<T>, writes: &RoundWrites) -> bool {
        matches!(ran.stop, Some((_, Stop::Retry)))
            || ran.stats.clauses > self.clauses_left()
            || writes.has_conflict(&ran.left.slots)
    }

    /// Returns whether memory has room for the frames that a chunk is the first to write.
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
            // The room was checked before: an in-order chunk counts its pages, and the other chunks passed `fits`.
            self.done.refused += 1;
        }
    }
}

/// Returns the coordinates of a workgroup from its number in linear order.
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
