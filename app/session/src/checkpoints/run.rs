//! A run with checkpoints: its parts one after another, from the last checkpoint on. A preempted part ends early.

use super::folder::{Checkpoint, CheckpointFileError, CheckpointFolder};
use super::joined_outcome::{PartPlace, join};
use super::parts::{NoPartsError, RunParts};
use super::run_identity::RunIdentity;
use crate::replay::request::{ReplayRequest, RequestError};
use crate::targets::Targets;
use replay_engine::client::{ClientError, Lease, ReplayEnd};
use replay_engine::plan::PlacedPlan;
use replay_engine::run::{DeviceWrites, Outcome, Verdict, WrittenPage, WrittenPagesError};
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use trace_core::container::{self, ContainerError};
use trace_core::memory::GpuMemoryView;
use trace_core::progress::{Cancelled, Progress};
use trace_core::trim::{Part, SuppliedBytes, TrimError, TrimRequest, TrimResult, TrimSummary, trim};
use trace_core::{PAGE_SIZE, PhysAddr, Recording};

/// Why a run with checkpoints did not reach its end. The checkpoints of finished parts stay.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The recording has no parts.
    #[error(transparent)]
    Parts(#[from] NoPartsError),
    /// The checkpoint cannot be read or written.
    #[error(transparent)]
    File(#[from] CheckpointFileError),
    /// A part cannot be cut from the recording.
    #[error(transparent)]
    Trim(#[from] TrimError),
    /// A part has no plan or no outcome.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The request has options that only a single run has.
    #[error("{0}")]
    Options(&'static str),
    /// The checkpoint starts at a job that runs together with others.
    #[error("the checkpoint is before job {job}, where a run of this recording cannot start")]
    Boundary {
        /// The job.
        job: u32,
    },
    /// The recording of an outcome cannot be read.
    #[error("the outcome of jobs {} to {} cannot be read", jobs.start, jobs.end.saturating_sub(1))]
    Outcome {
        /// The jobs of the part.
        jobs: Range<u32>,
        /// Why.
        source: ContainerError,
    },
    /// The agent reports a stop that was not requested.
    #[error("the agent stopped the run after event {event}, where it was not asked to")]
    UnknownStop {
        /// The event of the part.
        event: u32,
    },
    /// The pages that the jobs changed are unknown.
    #[error("the memory after job {job} cannot be kept")]
    Pages {
        /// The last job.
        job: u32,
        /// Why.
        source: WrittenPagesError,
    },
    /// Jobs wrote to a buffer that the user replaced.
    #[error(
        "jobs up to job {job} wrote to the replaced input '{name}': a run with this input cannot be interrupted there; \
         choose more jobs between checkpoints, or none"
    )]
    InputOverwritten {
        /// The buffer.
        name: String,
        /// The last job.
        job: u32,
    },
    /// The work was cancelled.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// A part that ended.
#[derive(Clone, Copy, Debug)]
pub struct FinishedPart<'a> {
    /// Its jobs, by number.
    pub jobs: &'a Range<u32>,
    /// Number of jobs of the recording.
    pub all_jobs: u32,
    /// Whether a checkpoint after it was written.
    pub is_kept: bool,
    /// Data pages that the device changed up to its end, in the checkpoint.
    pub changed_pages: u64,
    /// Page images that were new in the folder.
    pub new_images: u64,
    /// The other model that its plan was compiled for, in words.
    pub model: Option<&'a str>,
    /// Its outcome, with events and jobs of the whole.
    pub outcome: &'a Outcome,
}

/// What happens in a run with checkpoints.
#[derive(Clone, Copy, Debug)]
pub enum CheckpointNotice<'a> {
    /// A part ended.
    Finished(FinishedPart<'a>),
    /// A request of higher priority has the device. The run waits for it.
    Preempted {
        /// The next job.
        next_job: u32,
        /// Number of jobs of the recording.
        all_jobs: u32,
    },
    /// The device was leased again, and the run goes on.
    Resumed {
        /// Time without the device.
        waited: Duration,
    },
}

/// A replay that keeps the device's memory every few jobs.
#[derive(Clone, Copy, Debug)]
pub struct CheckpointedReplay<'a> {
    /// The request, for one run.
    pub request: &'a ReplayRequest,
    /// The recording.
    pub recording: &'a Recording,
    /// Name of its file.
    pub source: &'a str,
    /// The targets.
    pub targets: &'a Targets,
    /// Number of jobs of a part. Jobs that run together are not separated.
    pub every: NonZeroU32,
}

impl CheckpointedReplay<'_> {
    /// Runs what has not run yet. Calls `notice` after each part, and when the lease is preempted. Returns the outcome of
    /// the whole, also of the parts of earlier runs; its recording is that of the last part.
    ///
    /// # Errors
    /// If a part cannot be cut, compiled or run, or a checkpoint cannot be read or written. A part that diverges is not
    /// an error; one that fails ends the run.
    pub fn run(
        &self,
        lease: &mut Lease,
        folder: &mut CheckpointFolder,
        progress: &Progress,
        notice: &mut dyn FnMut(&CheckpointNotice<'_>),
    ) -> Result<Outcome, CheckpointError> {
        self.check_request()?;
        let parts = RunParts::new(self.recording, progress)?;
        let identity = RunIdentity::new(self.recording, self.request, progress)?;
        let last = folder.read(&identity)?;
        let (mut first, mut pages, mut whole) = match last {
            Some(last) => (last.next_job, last.pages, Some(last.outcome)),
            None => (0, Vec::new(), None),
        };
        if !parts.is_boundary(first) || first >= parts.jobs() {
            return Err(CheckpointError::Boundary { job: first });
        }
        let mut has_stops = true;
        loop {
            let wanted = parts.next_part(first, self.every);
            let part = self.cut(&wanted, &parts, &pages, progress)?;
            let stops = match has_stops {
                true => list_stops(&part, &wanted, &parts),
                false => Vec::new(),
            };
            let is_whole_end = wanted.end >= parts.jobs();
            let Some(run) = RanPart::run(self, &part, is_whole_end, &stops, lease, progress)? else {
                self.wait_for_device(first, &parts, lease, progress, notice)?;
                continue;
            };
            let jobs = wanted.start..run.next_job.unwrap_or(wanted.end);
            let is_last = jobs.end >= parts.jobs();
            let mut outcome = run.outcome;
            let place = PartPlace {
                first_job: jobs.start,
                events: &part.events,
            };
            place.renumber(&mut outcome);
            let has_failed = outcome.verdict == Verdict::Failed;
            if !is_last && !has_failed {
                pages = match self.changed_pages(&run.placed, &outcome, &jobs, &pages) {
                    // The part runs again from its start, and then to its end.
                    Err(CheckpointError::InputOverwritten { .. }) if run.next_job.is_some() => {
                        has_stops = false;
                        self.wait_for_device(first, &parts, lease, progress, notice)?;
                        continue;
                    }
                    pages => pages?,
                };
            }
            has_stops = true;
            let of_part = outcome.clone();
            let model = run.placed.compiled.plan.describe_model();
            let joined = match whole.take() {
                Some(whole) => join(whole, outcome),
                None => outcome,
            };
            let mut finished = FinishedPart {
                jobs: &jobs,
                all_jobs: parts.jobs(),
                is_kept: false,
                changed_pages: 0,
                new_images: 0,
                model: model.as_deref(),
                outcome: &of_part,
            };
            if is_last || has_failed {
                if !has_failed {
                    folder.clear()?;
                }
                notice(&CheckpointNotice::Finished(finished));
                return Ok(joined);
            }
            let checkpoint = Checkpoint {
                next_job: jobs.end,
                pages: std::mem::take(&mut pages),
                outcome: Outcome {
                    outputs: Vec::new(),
                    recording: Vec::new(),
                    ..joined
                },
            };
            finished.new_images = folder.write(&identity, &checkpoint)?;
            finished.changed_pages = checkpoint.pages.len() as u64;
            finished.is_kept = true;
            notice(&CheckpointNotice::Finished(finished));
            progress.check()?;
            (first, pages, whole) = (jobs.end, checkpoint.pages, Some(checkpoint.outcome));
            if run.next_job.is_some() {
                self.wait_for_device(first, &parts, lease, progress, notice)?;
            }
        }
    }

    /// Waits for the device after the lease was preempted.
    fn wait_for_device(
        &self,
        next_job: u32,
        parts: &RunParts,
        lease: &mut Lease,
        progress: &Progress,
        notice: &mut dyn FnMut(&CheckpointNotice<'_>),
    ) -> Result<(), CheckpointError> {
        let all_jobs = parts.jobs();
        notice(&CheckpointNotice::Preempted { next_job, all_jobs });
        let since = Instant::now();
        lease.retake(progress).map_err(|e| match e {
            ClientError::Cancelled => CheckpointError::Cancelled(Cancelled),
            e => CheckpointError::Request(e.into()),
        })?;
        let waited = since.elapsed();
        notice(&CheckpointNotice::Resumed { waited });
        Ok(())
    }

    /// Checks that the request is for one run of the recording as it is.
    fn check_request(&self) -> Result<(), CheckpointError> {
        let unfit = [
            (
                self.request.repeat > 1,
                "checkpoints are for one run: leave out the repetitions",
            ),
            (
                self.request.learn.is_some(),
                "checkpoints are for a run that learns nothing",
            ),
            (
                !self.request.edits.patches.is_empty(),
                "a run with patches of memory cannot be interrupted: replace inputs instead",
            ),
        ];
        match unfit.iter().find(|(is_unfit, _)| *is_unfit) {
            Some((_, why)) => Err(CheckpointError::Options(why)),
            None => Ok(()),
        }
    }

    /// Cuts a part from the recording, with the pages of the checkpoint before it.
    fn cut(
        &self,
        jobs: &Range<u32>,
        parts: &RunParts,
        pages: &[WrittenPage],
        progress: &Progress,
    ) -> Result<TrimResult, CheckpointError> {
        if *jobs == (0..parts.jobs()) {
            let events = self.recording.events.len() as u64;
            return Ok(TrimResult {
                recording: self.recording.clone(),
                events: (0..events).collect(),
                summary: TrimSummary::default(),
            });
        }
        let mut request = TrimRequest::new(Part::Jobs(jobs.clone().collect()), self.source);
        if let Some(before) = jobs.start.checked_sub(1) {
            let supplied = pages.iter().map(|written| SuppliedBytes {
                job: before,
                at: PhysAddr::new(written.frame.saturating_mul(PAGE_SIZE as u64)),
                bytes: PAGE_SIZE as u32,
                page: Arc::clone(&written.page),
            });
            request.supplied = supplied.collect();
        }
        Ok(trim(self.recording, &request, progress)?)
    }

    /// Returns the data pages that the device changed up to the end of a part. `before`: those up to its start.
    fn changed_pages(
        &self,
        placed: &PlacedPlan,
        outcome: &Outcome,
        jobs: &Range<u32>,
        before: &[WrittenPage],
    ) -> Result<Vec<WrittenPage>, CheckpointError> {
        let recorded = container::from_bytes(outcome.recording.clone()).map_err(|source| CheckpointError::Outcome {
            jobs: jobs.clone(),
            source,
        })?;
        let job = jobs.end.saturating_sub(1);
        self.check_inputs(&recorded, job)?;
        let writes = DeviceWrites {
            plan: placed,
            actions: outcome.actions,
            memory: &recorded.memory,
        };
        let also: BTreeSet<u64> = before.iter().map(|p| p.frame).collect();
        let pages = writes.pages(&also);
        pages.map_err(|source| CheckpointError::Pages { job, source })
    }

    /// Checks that replaced inputs are as the user gave them at the end of a part: each part puts them in place anew.
    fn check_inputs(&self, recorded: &Recording, job: u32) -> Result<(), CheckpointError> {
        for (name, bytes) in &self.request.edits.inputs {
            let buffer = recorded.metadata.buffers.iter().find(|b| b.name == *name);
            let now = buffer.and_then(|buffer| {
                let view = GpuMemoryView::at(recorded, buffer.address_space, u64::MAX)?;
                Some(view.read_buffer(buffer))
            });
            if now.is_some_and(|now| now.bytes != *bytes) {
                return Err(CheckpointError::InputOverwritten {
                    name: name.clone(),
                    job,
                });
            }
        }
        Ok(())
    }
}

/// A place where a part can stop before its end.
#[derive(Clone, Copy, Debug)]
struct PartStop {
    /// The last event before it, of the part.
    event: u32,
    /// The next job, of the whole.
    next_job: u32,
}

/// Returns where a part can stop before its end.
fn list_stops(part: &TrimResult, jobs: &Range<u32>, parts: &RunParts) -> Vec<PartStop> {
    let stops = parts.stops(jobs).filter_map(|(next_job, end)| {
        let before = part.events.partition_point(|event| *event < end);
        let event = before.checked_sub(1).and_then(|event| u32::try_from(event).ok())?;
        Some(PartStop { event, next_job })
    });
    stops.collect()
}

/// A part with its plan and its outcome.
struct RanPart {
    placed: PlacedPlan,
    outcome: Outcome,
    /// The next job of the whole, if the part stopped before its end.
    next_job: Option<u32>,
}

impl RanPart {
    /// Runs a part. Returns `None` if the lease was preempted before.
    fn run(
        replay: &CheckpointedReplay<'_>,
        part: &TrimResult,
        is_last: bool,
        stops: &[PartStop],
        lease: &mut Lease,
        progress: &Progress,
    ) -> Result<Option<Self>, CheckpointError> {
        // Outputs have their contents after the last job.
        let expected = if is_last {
            replay.request.expected.clone()
        } else {
            Vec::new()
        };
        let request = &ReplayRequest {
            expected,
            ..replay.request.clone()
        };
        let device = lease.info().clone();
        let (prepared, frames) = request.compile_placed(&part.recording, replay.targets, &device, progress)?;
        let events = stops.iter().map(|stop| stop.event).collect();
        let (outcome, stopped_at) = match request.run_with_stops(&prepared, lease, events, progress)? {
            ReplayEnd::Complete(outcome) => (*outcome, None),
            ReplayEnd::Stopped { event, outcome } => (*outcome, Some(event)),
            ReplayEnd::NotStarted => return Ok(None),
        };
        let next_job = match stopped_at {
            None => None,
            Some(event) => match stops.iter().find(|stop| stop.event == event) {
                Some(stop) => Some(stop.next_job),
                None => return Err(CheckpointError::UnknownStop { event }),
            },
        };
        let outcome = request.report(&part.recording, &prepared, outcome).outcome;
        let placed = PlacedPlan {
            compiled: prepared.compiled,
            frames,
        };
        Ok(Some(Self {
            placed,
            outcome,
            next_job,
        }))
    }
}
