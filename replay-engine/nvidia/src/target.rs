//! An NVIDIA GPU as a target: each replay runs in its own worker process, which this process starts, monitors and ends.

use crate::fault::{fault_report, stop_location};
use crate::image_file::create_image_file;
use crate::worker_process::{ChannelWorkers, WorkerEnd, WorkerJob};
use crate::worker_protocol::{PlayReport, Request};
use replay_engine::channel::VerifiedMemory;
use replay_engine::device::{Arena, Containment, DeviceInfo, DeviceInterface, ReplayDeviceError, Target};
use replay_engine::plan::{PageSource, Plan, PlannedSubmissions};
use replay_engine::run::{ApiOutcome, Outcome, OutcomeBody, OutputBuffer, PrepareTimes, Verdict};
use replay_engine::target::{ChannelTarget, ReplayPreparation};
use replay_engine::worker;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use trace_core::PhysAddr;
use trace_core::progress::Progress;

/// An NVIDIA GPU whose channels take submissions.
pub struct NvidiaReplayDevice {
    number: u32,
    info: DeviceInfo,
    workers: Arc<ChannelWorkers>,
}

impl std::fmt::Debug for NvidiaReplayDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NvidiaReplayDevice({})", self.info.name)
    }
}

impl NvidiaReplayDevice {
    /// Returns the description of the GPU of this number as a target, without asking the driver. `name` is the driver's
    /// name for it, or empty if it is unknown.
    #[must_use]
    pub fn describe(number: u32, name: &str) -> DeviceInfo {
        let description = match name {
            "" => format!("channels of NVIDIA GPU {number} of this machine"),
            name => format!("channels of {name}, by the kernel driver alone"),
        };
        DeviceInfo {
            name: format!("nvidia{number}"),
            description,
            gpu_id: 0,
            gpu_name: name.to_owned(),
            register_map: String::new(),
            containment: Containment::Driver,
            hardware: None,
            windows: Vec::new(),
            arena: Arena {
                base: PhysAddr::ZERO,
                pages: 0,
            },
            interface: DeviceInterface::Channel,
            virtual_time: false,
            computes: true,
        }
    }

    /// Creates the replay device for the GPU of this number. `name` is the driver's name for it, or empty if the driver
    /// was not asked.
    #[must_use]
    pub fn new(number: u32, name: &str, workers: Arc<ChannelWorkers>) -> Self {
        let info = Self::describe(number, name);
        Self { number, info, workers }
    }

    fn failed_outcome(&self) -> Outcome {
        Outcome::unfinished(self.info.name.clone(), OutcomeBody::Api(ApiOutcome::default()))
    }

    /// Replays. A failure becomes an outcome that failed.
    fn played(
        &self,
        planned: PlannedSubmissions<'_>,
        pages: &dyn PageSource,
        repeat: u32,
        progress: &Progress,
    ) -> Result<Outcome, String> {
        let plan = planned.envelope;
        let folder = worker::create_folder("kinescope-channel-")
            .map_err(|e| format!("the folder for the replay cannot be created: {e}"))?;
        let images = plan.change_images(pages);
        let images = images.map_err(|(number, _)| format!("page image {number} of the plan is missing"))?;
        let job = WorkerJob {
            request: Request {
                repeat,
                outputs: folder.path().to_owned(),
                compute_class: planned.channel.compute_class,
                control: planned.channel.control.get(),
                limit_ns: plan.budgets.interrupt_ns,
                ..Request::default()
            },
            body: &planned.channel.body,
            images: &plan.images,
            create_images: &|| create_image_file(&images, &plan.images),
            limit: Duration::from_nanos(plan.budgets.time_ns),
        };
        let mut outcome = self.failed_outcome();
        for r in &plan.rewrites {
            *outcome.rewrites.entry(r.kind).or_insert(0) += 1;
        }
        let done = self
            .workers
            .run(self.number, &job, progress)
            .map_err(|e| format!("the worker process for the replay cannot be started, or cannot get the plan: {e}"))?;
        match done {
            WorkerEnd::Played(report) => complete(&mut outcome, planned, report, folder.path())?,
            WorkerEnd::Stopped(fault) => {
                let report = fault_report(planned, &fault);
                outcome.failure = Some(report.summary.clone());
                outcome.faults.push(report);
                outcome.body = OutcomeBody::Api(ApiOutcome {
                    stopped: Some(stop_location(planned, &fault)),
                    ..ApiOutcome::default()
                });
            }
            WorkerEnd::Failed(why) => outcome.failure = Some(why),
            WorkerEnd::Cancelled => outcome.failure = Some("it was cancelled".to_owned()),
        }
        Ok(outcome)
    }
}

/// Fills the outcome of a replay that ran to its end.
fn complete(
    outcome: &mut Outcome,
    planned: PlannedSubmissions<'_>,
    report: PlayReport,
    folder: &Path,
) -> Result<(), String> {
    outcome.outputs = outputs(planned.envelope, folder)?;
    outcome.verdict = Verdict::Match;
    outcome.computed = true;
    outcome.actions = planned.envelope.actions;
    outcome.device_ns = report.runs_ns.iter().copied().min().unwrap_or(0);
    outcome.fingerprint = worker::fingerprint_outputs(&outcome.outputs);
    outcome.device = report.gpu;
    outcome.body = OutcomeBody::Api(ApiOutcome {
        launches: planned.channel.launches.len() as u64,
        ready_ns: report.ready_ns,
        parts: PrepareTimes {
            read_ns: report.read_ns,
            driver_ns: report.ready_ns.saturating_sub(report.read_ns),
            memory_ns: report.memory_ns,
            ..PrepareTimes::default()
        },
        mapped: report.mapped,
        restored: report.restored,
        left_out: late_restore(report.late_pages).into_iter().collect(),
        ..ApiOutcome::default()
    });
    outcome.timing.runs_ns = report.runs_ns;
    Ok(())
}

/// Returns the message about pages that were restored only before the last run, or `None` without such pages.
fn late_restore(pages: u64) -> Option<String> {
    (pages > 0).then(|| {
        format!(
            "{pages} pages changed for the first time after the second run began, and were restored only before the last \
             run: its outputs are exact, and the times of the runs before it may not be"
        )
    })
}

fn outputs(plan: &Plan, folder: &Path) -> Result<Vec<OutputBuffer>, String> {
    let read = |(n, o): (usize, &replay_engine::plan::PlanBuffer)| {
        let path = folder.join(format!("{n}.bin"));
        let data = std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(OutputBuffer {
            name: o.name.clone(),
            element: o.element,
            blake3: *blake3::hash(&data).as_bytes(),
            data,
        })
    };
    plan.outputs.iter().enumerate().map(read).collect()
}

/// Preparations for a replay on a GPU: its worker maps memory, and this process reads the page images.
#[derive(Debug)]
pub(crate) struct NvidiaPreparation {
    pub number: u32,
    pub workers: Arc<ChannelWorkers>,
}

impl ReplayPreparation for NvidiaPreparation {
    fn map_memory(&self, memory: VerifiedMemory<'_>) {
        self.workers
            .map_early(self.number, memory.control().get(), memory.steps());
    }

    fn prepare(&self, plan: PlannedSubmissions<'_>, memory: VerifiedMemory<'_>, pages: &dyn PageSource) {
        self.map_memory(memory);
        if let Ok(images) = plan.envelope.change_images(pages) {
            let digests = &plan.envelope.images;
            let create = || create_image_file(&images, digests);
            self.workers.read_images_early(digests, create);
        }
    }

    fn discard(&self) {
        self.workers.end_waiting(self.number);
    }
}

impl Target for NvidiaReplayDevice {
    fn info(&self) -> DeviceInfo {
        self.info.clone()
    }

    fn reset(&mut self) -> Result<(), ReplayDeviceError> {
        // Every replay starts in its own process, without state of earlier ones.
        self.workers.end_waiting(self.number);
        Ok(())
    }
}

impl ChannelTarget for NvidiaReplayDevice {
    fn prestart(&mut self) {
        self.workers.prestart(self.number);
    }

    fn preparation(&self) -> Option<Arc<dyn ReplayPreparation>> {
        Some(Arc::new(NvidiaPreparation {
            number: self.number,
            workers: Arc::clone(&self.workers),
        }))
    }

    fn replay(
        &mut self,
        plan: PlannedSubmissions<'_>,
        pages: &dyn PageSource,
        repeat: u32,
        progress: &Progress,
    ) -> Outcome {
        self.played(plan, pages, repeat, progress)
            .unwrap_or_else(|why| Outcome {
                failure: Some(why),
                ..self.failed_outcome()
            })
    }
}
