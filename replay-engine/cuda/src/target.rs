//! A CUDA device as a target: each replay runs in its own worker process, which this process starts, monitors and ends.

use super::support::CudaSupport;
use super::tune::run_with_resume;
use super::worker_process::{WorkerOutcome, WorkerProcesses, run_worker};
use super::worker_protocol::{DeviceEntry, ReplayReport, Request};
use replay_engine::device::{Arena, Containment, DeviceInfo, DeviceInterface, ReplayDeviceError, Target};
use replay_engine::memory_trace::MemoryTraceRequest;
use replay_engine::plan::api_body::CallReader;
use replay_engine::plan::{PageSource, Plan, PlannedCalls, write_plan_file};
use replay_engine::run::{ApiOutcome, FaultReport, Outcome, OutcomeBody, OutputBuffer, StopLocation, Verdict};
use replay_engine::target::{ApiFactory, ApiSupport, ApiTarget, TracedMemory};
use replay_engine::tune::{TuneEnd, TuneReport, TuneRequest};
use replay_engine::worker;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use trace_core::PhysAddr;
use trace_core::progress::Progress;
use trace_core::recording::CallEvent;

/// Maximum time for the driver to list its devices.
const ASK_LIMIT: Duration = Duration::from_secs(30);

/// Returns which device numbers exist, in words.
fn numbers(count: usize) -> String {
    match count {
        0 => "there is none".to_owned(),
        1 => "there is one, cuda:0".to_owned(),
        n => format!("there are cuda:0 to cuda:{}", n - 1),
    }
}

/// Lists the devices of this machine's driver, in a separate process: an initialized driver stays in its process.
///
/// # Errors
/// If there is no driver, or it does not answer.
pub fn list_devices_in_worker(workers: &WorkerProcesses) -> Result<Vec<DeviceEntry>, ReplayDeviceError> {
    let failed = |why: String| ReplayDeviceError::Failed(why);
    let asked = run_worker(workers, &Request::default(), ASK_LIMIT, &Progress::new());
    match asked.map_err(|e| failed(format!("the worker process for the CUDA driver cannot be started: {e}")))? {
        WorkerOutcome::Devices(all) => Ok(all),
        WorkerOutcome::Failed(why) | WorkerOutcome::Stopped { why, .. } => Err(failed(why)),
        _ => Err(failed("the CUDA driver did not list its devices".to_owned())),
    }
}

/// A CUDA device.
pub struct CudaReplayDevice {
    number: u32,
    info: DeviceInfo,
    workers: Arc<WorkerProcesses>,
}

impl std::fmt::Debug for CudaReplayDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CudaReplayDevice({})", self.info.name)
    }
}

impl CudaReplayDevice {
    /// Creates the replay device for the CUDA device of this number. `name` is the driver's name for it, or empty if
    /// the driver was not queried.
    #[must_use]
    pub fn new(number: u32, name: &str, workers: Arc<WorkerProcesses>) -> Self {
        let description = match name {
            "" => format!("CUDA device {number} of this machine"),
            name => format!("{name}, by NVIDIA's driver"),
        };
        let info = DeviceInfo {
            name: format!("cuda{number}"),
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
            interface: DeviceInterface::Api,
            virtual_time: false,
            computes: true,
        };
        Self { number, info, workers }
    }

    /// Returns a factory of such devices. If `check` is set, the driver is first queried for the name, so that a
    /// missing device is reported at once.
    ///
    /// # Errors
    /// If the driver was queried and has no such device.
    pub fn factory(number: u32, check: bool, workers: Arc<WorkerProcesses>) -> Result<ApiFactory, ReplayDeviceError> {
        let name = if check {
            let all = list_devices_in_worker(&workers)?;
            let count = all.len();
            let found = all.into_iter().find(|d| d.number == number);
            let missing =
                || ReplayDeviceError::Failed(format!("there is no CUDA device {number} here: {}", numbers(count)));
            found.ok_or_else(missing)?.name
        } else {
            String::new()
        };
        Ok(Arc::new(move || {
            Ok(Box::new(Self::new(number, &name, Arc::clone(&workers))) as Box<dyn ApiTarget>)
        }))
    }

    /// Writes the plan for a worker process. Returns the request for a replay, and the folder, which has to stay.
    fn prepare(
        &self,
        plan: PlannedCalls<'_>,
        pages: &dyn PageSource,
        repeat: u32,
    ) -> Result<(Request, tempfile::TempDir), String> {
        let calls = plan.calls;
        let folder = worker::create_folder("kinescope-calls-")
            .map_err(|e| format!("the folder for the replay cannot be created: {e}"))?;
        let file = folder.path().join("plan");
        write_plan_file(plan.envelope, pages, &file).map_err(|e| format!("{}: {e}", file.display()))?;
        let request = Request {
            file,
            device: self.number,
            step: calls.step,
            graph: calls.graph,
            no_restore: calls.no_restore,
            times: calls.times,
            guard: calls.guard.clone(),
            repeat,
            outputs: Some(folder.path().to_owned()),
            ..Request::default()
        };
        Ok((request, folder))
    }

    fn failed_outcome(&self) -> Outcome {
        Outcome::unfinished(self.info.name.clone(), OutcomeBody::Api(ApiOutcome::default()))
    }

    /// Replays. A failure becomes an outcome that failed.
    fn played(
        &self,
        planned: PlannedCalls<'_>,
        pages: &dyn PageSource,
        repeat: u32,
        progress: &Progress,
    ) -> Result<Outcome, String> {
        let plan = planned.envelope;
        let (request, folder) = self.prepare(planned, pages, repeat)?;
        let limit = Duration::from_nanos(plan.budgets.time_ns);
        let mut outcome = self.failed_outcome();
        for r in &plan.rewrites {
            *outcome.rewrites.entry(r.kind).or_insert(0) += 1;
        }
        let done = run_worker(&self.workers, &request, limit, progress)
            .map_err(|e| format!("the worker process for the replay cannot be started: {e}"))?;
        match done {
            WorkerOutcome::Played(played) => {
                outcome.outputs = outputs(plan, &played, folder.path())?;
                outcome.verdict = Verdict::Match;
                outcome.computed = true;
                outcome.actions = plan.actions;
                outcome.timing.runs_ns.clone_from(&played.runs_ns);
                outcome.device_ns = played.runs_ns.iter().copied().min().unwrap_or(0);
                outcome.fingerprint = worker::fingerprint_outputs(&outcome.outputs);
                outcome.device = played.device;
                outcome.body = OutcomeBody::Api(ApiOutcome {
                    launches: played.launches,
                    ready_ns: played.ready_ns,
                    parts: played.parts,
                    mapped: played.mapped,
                    graph: played.graph,
                    restored: played.restored,
                    left_out: played.left_out,
                    launch_ns: played.launch_ns,
                    guard: played.guard,
                    ..ApiOutcome::default()
                });
            }
            WorkerOutcome::Stopped { event, sure, why } => {
                let stopped = stop_location(planned, event, sure, why);
                let summary = describe_stop(&stopped);
                outcome.failure = Some(summary.clone());
                outcome.faults.push(FaultReport {
                    job: None,
                    event: event.unwrap_or(0),
                    summary,
                    exception: stopped.why.clone(),
                    address: None,
                    registers: Vec::new(),
                    walk: Vec::new(),
                    nearest_buffer: None,
                });
                outcome.body = OutcomeBody::Api(ApiOutcome {
                    stopped: Some(stopped),
                    ..ApiOutcome::default()
                });
            }
            WorkerOutcome::Failed(why) => outcome.failure = Some(why),
            WorkerOutcome::Cancelled => outcome.failure = Some("it was cancelled".to_owned()),
            WorkerOutcome::Devices(_) | WorkerOutcome::Tuned(_) | WorkerOutcome::Watched(..) => {
                outcome.failure = Some("the worker process for the replay sent an unexpected answer".to_owned());
            }
        }
        Ok(outcome)
    }

    fn tuned(
        &self,
        request: &Request,
        tune: &TuneRequest,
        limit: Duration,
        progress: &Progress,
    ) -> Result<TuneReport, String> {
        let request = Request {
            tune: Some(tune.clone()),
            stop: request.outputs.as_ref().map(|folder| folder.join("stop")),
            outputs: None,
            ..request.clone()
        };
        let done = run_worker(&self.workers, &request, limit, progress);
        match done.map_err(|e| format!("the worker process for tuning cannot be started: {e}"))? {
            WorkerOutcome::Tuned(tuned) => Ok(*tuned),
            WorkerOutcome::Cancelled => Ok(TuneReport {
                ended: TuneEnd::Cancelled,
                ..TuneReport::default()
            }),
            WorkerOutcome::Failed(why) => Err(why),
            WorkerOutcome::Stopped {
                event: Some(e), why, ..
            } => Err(format!("event {e}: {why}")),
            WorkerOutcome::Stopped { why, .. } => Err(why),
            WorkerOutcome::Played(_) | WorkerOutcome::Devices(_) | WorkerOutcome::Watched(..) => {
                Err("the worker process for tuning sent an unexpected answer".to_owned())
            }
        }
    }
}

/// Returns where the device stopped, with the launch that caused it if it is known.
fn stop_location(plan: PlannedCalls<'_>, event: Option<u64>, sure: bool, why: String) -> StopLocation {
    StopLocation {
        event,
        sure,
        function: event.and_then(|e| function_at(plan, e)),
        why,
    }
}

fn describe_stop(stopped: &StopLocation) -> String {
    let or_before = if stopped.sure { "" } else { " or before it" };
    let place = match (&stopped.function, stopped.event) {
        (Some(f), Some(e)) => format!("launch of {f}, event {e}{or_before}: "),
        (None, Some(e)) => format!("event {e}{or_before}: "),
        _ => String::new(),
    };
    format!("{place}{}", stopped.why)
}

/// Returns the outputs that the plan requests, in its order.
fn outputs(plan: &Plan, played: &ReplayReport, folder: &Path) -> Result<Vec<OutputBuffer>, String> {
    let numbers: HashMap<&str, usize> = played
        .outputs
        .iter()
        .enumerate()
        .map(|(n, o)| (o.name.as_str(), n))
        .collect();
    let mut all = Vec::new();
    for o in &plan.outputs {
        let n = numbers
            .get(o.name.as_str())
            .ok_or_else(|| format!("the replay returned no '{}'", o.name))?;
        let path = folder.join(format!("{n}.bin"));
        let data = std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        all.push(OutputBuffer {
            name: o.name.clone(),
            element: o.element,
            blake3: *blake3::hash(&data).as_bytes(),
            data,
        });
    }
    Ok(all)
}

/// Returns the name of the function that is launched at an event of the recording.
fn function_at(plan: PlannedCalls<'_>, event: u64) -> Option<String> {
    let calls = plan.calls;
    let all = CallReader::new(&calls.body, plan.envelope.images.len());
    let found = all.map_while(Result::ok).find(|c| c.event == event)?;
    let CallEvent::Launch(launch) = found.call else {
        return None;
    };
    let function = calls.metadata.functions.get(launch.function as usize)?;
    Some(function.display_name().to_owned())
}

impl Target for CudaReplayDevice {
    fn info(&self) -> DeviceInfo {
        self.info.clone()
    }

    fn reset(&mut self) -> Result<(), ReplayDeviceError> {
        // Every replay starts in its own process, without state of earlier ones.
        Ok(())
    }
}

impl ApiTarget for CudaReplayDevice {
    fn api(&self) -> Arc<dyn ApiSupport> {
        Arc::new(CudaSupport)
    }

    fn replay(&mut self, plan: PlannedCalls<'_>, pages: &dyn PageSource, repeat: u32, progress: &Progress) -> Outcome {
        self.played(plan, pages, repeat, progress)
            .unwrap_or_else(|why| Outcome {
                failure: Some(why),
                ..self.failed_outcome()
            })
    }

    fn tune(
        &mut self,
        plan: PlannedCalls<'_>,
        pages: &dyn PageSource,
        request: &TuneRequest,
        progress: &Progress,
    ) -> Result<TuneReport, String> {
        let (replay, _folder) = self.prepare(plan, pages, 1)?;
        let limit = Duration::from_nanos(plan.envelope.budgets.time_ns);
        run_with_resume(request, |next| self.tuned(&replay, next, limit, progress))
    }

    fn trace_memory(
        &mut self,
        plan: PlannedCalls<'_>,
        pages: &dyn PageSource,
        request: &MemoryTraceRequest,
        progress: &Progress,
    ) -> Result<TracedMemory, String> {
        let (replay, folder) = self.prepare(plan, pages, 1)?;
        let request = Request {
            watch: Some(request.clone()),
            ..replay
        };
        let limit = Duration::from_nanos(plan.envelope.budgets.time_ns);
        let done = run_worker(&self.workers, &request, limit, progress)
            .map_err(|e| format!("the worker process for the memory trace cannot be started: {e}"))?;
        match done {
            WorkerOutcome::Watched(mut report, _) => {
                let path = folder.path().join("0.bin");
                let trace = std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
                if let Some(s) = &mut report.stopped {
                    s.function = s.event.and_then(|e| function_at(plan, e));
                }
                Ok(TracedMemory { report, trace })
            }
            WorkerOutcome::Stopped { event, sure, why } => Err(describe_stop(&stop_location(plan, event, sure, why))),
            WorkerOutcome::Failed(why) => Err(why),
            WorkerOutcome::Cancelled => Err("it was cancelled".to_owned()),
            WorkerOutcome::Devices(_) | WorkerOutcome::Tuned(_) | WorkerOutcome::Played(_) => {
                Err("the worker process for the memory trace sent an unexpected answer".to_owned())
            }
        }
    }
}
