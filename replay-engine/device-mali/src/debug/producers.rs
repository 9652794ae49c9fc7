//! Dependencies between the jobs of a recording, for trimming a recording to a part that still replays.

use super::{DebugError, FlowReport, model_for_recording, trace_flows};
use crate::device::SoftwareMali;
use crate::model::Model;
use replay_engine::compile::compile_placed;
use replay_engine::device::Target as _;
use replay_engine::plan::{CompileOptions, Edits, PlacedPlan};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use trace_core::progress::{Cancelled, Progress};
use trace_core::trim::{JobParts, SuppliedBytes, TrimError};
use trace_core::{PAGE_SIZE, PhysAddr, Recording};

/// Maximum number of pages that are supplied in place of jobs.
const MAX_SUPPLIED: usize = 1 << 17;

/// Reason why a job is kept although it was not selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepReason {
    /// A kept job reads what this job wrote.
    Reads {
        /// The reading job.
        reader: u32,
        /// Number of bytes that it reads, in words of 4.
        bytes: u64,
    },
    /// The job runs at the same time as a kept job.
    Together,
    /// A shader of this job does not run on the simulator, so its reads and writes are unknown.
    Unknown {
        /// The job: this job itself, or a kept job after it.
        job: u32,
    },
}

/// Replacement for the output of jobs that were not selected, if a kept job reads it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DependencyPolicy {
    /// The job that wrote the output is kept too.
    #[default]
    Jobs,
    /// The bytes of the output, computed by the simulator: see [`Producers::compute_supplied`].
    Bytes,
    /// No replacement: kept jobs read the earlier contents.
    Nothing,
}

/// Selected jobs together with the jobs that they depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closure {
    /// All kept jobs.
    pub jobs: BTreeSet<u32>,
    /// Kept jobs that were not selected, with the first reason for each.
    pub added: BTreeMap<u32, KeepReason>,
}

/// Data dependencies between the jobs of a recording, as a replay on the simulator shows them.
pub struct Producers {
    parts: JobParts,
    /// Number of words that each job reads of each other job.
    reads: BTreeMap<u32, BTreeMap<u32, u64>>,
    /// Jobs whose reads and writes are unknown.
    unknown: BTreeSet<u32>,
    /// Reason why the dependencies of all jobs are unknown.
    blind: Option<String>,
    run: Option<ReplayRun>,
}

struct ReplayRun {
    model: Model,
    placed: PlacedPlan,
    flowed: FlowReport,
    /// Job of the recording by the number of the chain.
    jobs: Vec<Option<u32>>,
}

impl Producers {
    /// Replays a recording on the simulator of its GPU and finds the dependencies between jobs. Without a simulator or
    /// a plan, every job is assumed to depend on all earlier jobs.
    ///
    /// # Errors
    /// Returns [`Cancelled`] when the work was cancelled.
    pub fn from_recording(recording: &Recording, parts: JobParts, progress: &Progress) -> Result<Self, Cancelled> {
        let mut this = Self {
            reads: BTreeMap::new(),
            unknown: BTreeSet::new(),
            blind: None,
            run: None,
            parts,
        };
        let Some(model) = model_for_recording(recording) else {
            let gpu = recording.metadata.identity.gpu_id;
            return Ok(this.with_all_unknown(format!("no simulator behaves like the recording's GPU ({gpu:#x})")));
        };
        let info = SoftwareMali::new(model).info();
        let options = CompileOptions::default();
        let placed = compile_placed(recording, &Edits::default(), &info, &options, progress);
        progress.check()?;
        let placed = match placed {
            Ok(placed) => placed,
            Err(e) => return Ok(this.with_all_unknown(format!("the whole recording has no plan: {e}"))),
        };
        let flowed = match trace_flows(&placed.compiled, model, BTreeSet::new(), progress) {
            Ok(flowed) => flowed,
            Err(DebugError::Cancelled(e)) => return Err(e),
            Err(e) => return Ok(this.with_all_unknown(e.to_string())),
        };
        if flowed.truncated {
            return Ok(this.with_all_unknown("jobs read each other's words at too many addresses to store".to_owned()));
        }
        let by_submit: HashMap<u64, u32> = this.parts.submits().iter().copied().zip(0..).collect();
        let planned = placed.compiled.plan.jobs().iter();
        // A chain that is not a job of the recording keeps its index, because later chains are counted after it.
        let jobs: Vec<Option<u32>> = planned.map(|j| by_submit.get(&j.submit_event).copied()).collect();
        let all = u32::try_from(this.parts.len()).unwrap_or(u32::MAX);
        let mut outcomes: HashMap<u64, bool> = HashMap::new();
        for o in flowed.outcome.jobs() {
            outcomes.entry(o.submit_event).or_insert_with(|| o.has_computed());
        }
        let computed = |j: &u32| {
            let submit = this.parts.submits().get(*j as usize);
            submit.and_then(|s| outcomes.get(s)) == Some(&true)
        };
        this.unknown = (0..all).filter(|j| !computed(j)).collect();
        for f in &flowed.flows {
            let of = |chain: u32| jobs.get(chain as usize).copied().flatten();
            if let (Some(reader), Some(writer)) = (of(f.reader), of(f.writer)) {
                let words: u32 = f.words.iter().map(|w| w.count_ones()).sum();
                *this.reads.entry(reader).or_default().entry(writer).or_default() += u64::from(words);
            }
        }
        this.run = Some(ReplayRun {
            model,
            placed,
            flowed,
            jobs,
        });
        Ok(this)
    }

    fn with_all_unknown(mut self, why: String) -> Self {
        self.unknown = (0..u32::try_from(self.parts.len()).unwrap_or(u32::MAX)).collect();
        self.blind = Some(why);
        self
    }

    /// Returns why the dependencies of all jobs are unknown, or `None` if they are known.
    #[must_use]
    pub fn unknown_reason(&self) -> Option<&str> {
        self.blind.as_deref()
    }

    /// Returns the parts of the recording that are jobs.
    #[must_use]
    pub fn parts(&self) -> &JobParts {
        &self.parts
    }

    /// Returns the selected jobs with their dependencies: jobs that run at the same time, and, depending on `needs`,
    /// jobs whose output they read or may read.
    #[must_use]
    pub fn closure(&self, chosen: &BTreeSet<u32>, needs: DependencyPolicy) -> Closure {
        let mut out = Closure {
            jobs: chosen.clone(),
            added: BTreeMap::new(),
        };
        let groups = self.parts.groups();
        let group_of: HashMap<u32, usize> = groups
            .iter()
            .enumerate()
            .flat_map(|(n, g)| g.iter().map(move |j| (*j, n)))
            .collect();
        // Each round only examines the jobs that the previous round added, so a long chain of jobs is not traversed
        // again for each job.
        let mut new = chosen.clone();
        let mut seen_groups: HashSet<usize> = HashSet::new();
        let (mut unknown_below, mut all_below) = (0, 0);
        while !new.is_empty() {
            let mut more: BTreeMap<u32, KeepReason> = BTreeMap::new();
            for n in new.iter().filter_map(|j| group_of.get(j)) {
                if seen_groups.insert(*n) {
                    let group = groups.get(*n).into_iter().flatten();
                    more.extend(group.map(|j| (*j, KeepReason::Together)));
                }
            }
            if needs != DependencyPolicy::Nothing {
                let last = out.jobs.last().copied().unwrap_or(0);
                for job in self.unknown.range(unknown_below.min(last)..last) {
                    more.entry(*job).or_insert(KeepReason::Unknown { job: *job });
                }
                unknown_below = unknown_below.max(last);
                if let Some(reader) = new.iter().rev().find(|j| self.unknown.contains(j)) {
                    for job in all_below..*reader {
                        more.entry(job).or_insert(KeepReason::Unknown { job: *reader });
                    }
                    all_below = all_below.max(*reader);
                }
            }
            for reader in new.iter().filter(|_| needs == DependencyPolicy::Jobs) {
                for (writer, words) in self.reads.get(reader).into_iter().flatten() {
                    let bytes = words.saturating_mul(4);
                    more.entry(*writer)
                        .or_insert(KeepReason::Reads { reader: *reader, bytes });
                }
            }
            more.retain(|j, _| !out.jobs.contains(j));
            new = more.keys().copied().collect();
            out.jobs.extend(&new);
            out.added.extend(more);
        }
        out
    }

    /// Returns the frames of the recording that the jobs touch, or `None` if they are unknown for a job.
    #[must_use]
    pub fn used_frames(&self, jobs: &BTreeSet<u32>) -> Option<BTreeSet<u64>> {
        let run = self.run.as_ref()?;
        if !self.unknown.is_disjoint(jobs) {
            return None;
        }
        let mut out = BTreeSet::new();
        for (job, frames) in run.jobs.iter().zip(&run.flowed.page_usage) {
            if job.is_some_and(|j| jobs.contains(&j)) {
                out.extend(frames.iter().filter_map(|t| run.placed.frames.get(&t.frame)));
            }
        }
        Some(out)
    }

    /// Computes on the simulator what discarded jobs wrote and kept jobs read. This needs one more replay.
    ///
    /// # Errors
    /// When the data lies in too many pages, or the work was cancelled.
    pub fn compute_supplied(&self, kept: &BTreeSet<u32>, progress: &Progress) -> Result<Vec<SuppliedBytes>, TrimError> {
        let Some(run) = &self.run else { return Ok(Vec::new()) };
        let is_kept = |chain: u32| {
            run.jobs
                .get(chain as usize)
                .copied()
                .flatten()
                .is_some_and(|j| kept.contains(&j))
        };
        let mut words: BTreeMap<(u32, u64), [u64; 16]> = BTreeMap::new();
        for f in run
            .flowed
            .flows
            .iter()
            .filter(|f| is_kept(f.reader) && !is_kept(f.writer))
        {
            let to = words.entry((f.writer, f.frame)).or_insert([0; 16]);
            for (to, from) in to.iter_mut().zip(f.words) {
                *to |= from;
            }
        }
        if words.is_empty() {
            return Ok(Vec::new());
        }
        if words.len() > MAX_SUPPLIED {
            return Err(TrimError::TooMuchSupplied {
                pages: words.len() as u64,
                max: MAX_SUPPLIED as u64,
            });
        }
        let keep = words.keys().copied().collect();
        let again = match trace_flows(&run.placed.compiled, run.model, keep, progress) {
            Ok(again) => again,
            Err(DebugError::Cancelled(e)) => return Err(e.into()),
            Err(_) => return Ok(Vec::new()),
        };
        let mut out = Vec::new();
        for held in again.saved_pages {
            let (Some(words), Some(Some(job)), Some(frame)) = (
                words.get(&(held.chain, held.frame)),
                run.jobs.get(held.chain as usize),
                run.placed.frames.get(&held.frame),
            ) else {
                continue;
            };
            let is = |word: u64| {
                words
                    .get((word / 64) as usize)
                    .is_some_and(|w| w >> (word % 64) & 1 == 1)
            };
            let mut word = 0;
            while word < (PAGE_SIZE / 4) as u64 {
                if !is(word) {
                    word += 1;
                    continue;
                }
                let first = word;
                while word < (PAGE_SIZE / 4) as u64 && is(word) {
                    word += 1;
                }
                out.push(SuppliedBytes {
                    job: *job,
                    at: PhysAddr::new((frame << 12) + first * 4),
                    bytes: ((word - first) * 4) as u32,
                    page: Arc::clone(&held.page),
                });
            }
        }
        Ok(out)
    }
}
