//! A CUDA device as a target: each replay runs in its own worker process, which this process starts, monitors and ends.

use super::worker::{DeviceEntry, ReplayReport, Request};
use super::worker_process::{WorkerOutcome, WorkerProcesses, run_worker};
use crate::device::{Arena, Containment, DeviceInfo, JobReport, ReplayDevice, ReplayDeviceError};
use crate::memory_trace::OUTPUT;
use crate::plan::{PageSource, Plan, write_plan_file};
use crate::run::calls::{CallsOutcome, StopLocation};
use crate::run::{FaultReport, Outcome, OutputBuffer, Verdict};
use crate::serve::Factory;
use crate::tune::{TuneEnd, TuneReport, TuneRequest, run_with_resume};
use replay_core::{DeviceError, WaitResult};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use trace_core::PhysAddr;
use trace_core::progress::Progress;
use trace_core::recording::{ElementType, Page};

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

/// The folder for replay files, if the system has it. A plan is as large as the data that it copies, so shared memory
/// is preferred.
const SHARED_MEMORY: &str = "/dev/shm";

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
                base: PhysAddr(0),
                pages: 0,
            },
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
    pub fn factory(number: u32, check: bool, workers: Arc<WorkerProcesses>) -> Result<Factory, ReplayDeviceError> {
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
            Ok(Box::new(Self::new(number, &name, Arc::clone(&workers))) as Box<dyn ReplayDevice>)
        }))
    }

    /// Replays or tunes. A failure becomes an outcome that failed.
    fn played(&self, plan: &Plan, pages: &dyn PageSource, repeat: u32, progress: &Progress) -> Result<Outcome, String> {
        let calls = plan.calls.as_ref().ok_or("it is not a plan of an API trace")?;
        let folder = folder().map_err(|e| format!("the folder for the replay cannot be created: {e}"))?;
        let file = folder.path().join("plan");
        write_plan_file(plan, pages, &file).map_err(|e| format!("{}: {e}", file.display()))?;
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
        let limit = Duration::from_nanos(plan.budgets.time_ns);
        let mut outcome = Outcome::unfinished(self.info.name.clone());
        for r in &plan.rewrites {
            *outcome.rewrites.entry(r.kind).or_insert(0) += 1;
        }
        let mut calls_outcome = CallsOutcome::default();
        if let Some(tune) = &calls.tune {
            let tuned = run_with_resume(tune, |next| self.tuned(&request, next, limit, progress))?;
            outcome.verdict = Verdict::Match;
            outcome.computed = true;
            outcome.device.clone_from(&tuned.device);
            calls_outcome.tuned = Some(tuned);
            outcome.calls = Some(calls_outcome);
            return Ok(outcome);
        }
        if let Some(watch) = &calls.watch {
            let request = Request {
                watch: Some(watch.clone()),
                ..request
            };
            return self.watched(plan, &request, limit, progress, outcome);
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
                outcome.fingerprint = fingerprint(&outcome.outputs);
                outcome.device = played.device;
                calls_outcome.launches = played.launches;
                calls_outcome.ready_ns = played.ready_ns;
                calls_outcome.parts = played.parts;
                calls_outcome.mapped = played.mapped;
                calls_outcome.graph = played.graph;
                calls_outcome.restored = played.restored;
                calls_outcome.left_out = played.left_out;
                calls_outcome.launch_ns = played.launch_ns;
                calls_outcome.guard = played.guard;
            }
            WorkerOutcome::Stopped { event, sure, why } => {
                calls_outcome.stopped = Some(stopped(plan, &mut outcome, event, sure, why));
            }
            WorkerOutcome::Failed(why) => outcome.failure = Some(why),
            WorkerOutcome::Cancelled => outcome.failure = Some("it was cancelled".to_owned()),
            WorkerOutcome::Devices(_) | WorkerOutcome::Tuned(_) | WorkerOutcome::Watched(..) => {
                outcome.failure = Some("the worker process for the replay sent an unexpected answer".to_owned());
            }
        }
        outcome.calls = Some(calls_outcome);
        Ok(outcome)
    }

    /// Runs a memory trace. Its only output is the trace.
    fn watched(
        &self,
        plan: &Plan,
        request: &Request,
        limit: Duration,
        progress: &Progress,
        mut outcome: Outcome,
    ) -> Result<Outcome, String> {
        let done = run_worker(&self.workers, request, limit, progress)
            .map_err(|e| format!("the worker process for the memory trace cannot be started: {e}"))?;
        let mut calls_outcome = CallsOutcome::default();
        match done {
            WorkerOutcome::Watched(mut watch, device) => {
                let path = request.outputs.iter().map(|folder| folder.join("0.bin")).next();
                let path = path.ok_or("there is no folder for the memory trace")?;
                let data = std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
                outcome.outputs = vec![OutputBuffer {
                    name: OUTPUT.to_owned(),
                    element: ElementType::U8,
                    blake3: *blake3::hash(&data).as_bytes(),
                    data,
                }];
                (outcome.verdict, outcome.computed, outcome.device) = (Verdict::Match, true, device);
                if let Some(s) = &mut watch.stopped {
                    s.function = s.event.and_then(|e| function_at(plan, e));
                }
                calls_outcome.watched = Some(watch);
            }
            WorkerOutcome::Stopped { event, sure, why } => {
                calls_outcome.stopped = Some(stopped(plan, &mut outcome, event, sure, why));
            }
            WorkerOutcome::Failed(why) => outcome.failure = Some(why),
            WorkerOutcome::Cancelled => outcome.failure = Some("it was cancelled".to_owned()),
            WorkerOutcome::Devices(_) | WorkerOutcome::Tuned(_) | WorkerOutcome::Played(_) => {
                outcome.failure = Some("the worker process for the memory trace sent an unexpected answer".to_owned());
            }
        }
        outcome.calls = Some(calls_outcome);
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

/// Marks an outcome as stopped by the device: a fault, with the launch that caused it if it is known.
fn stopped(plan: &Plan, outcome: &mut Outcome, event: Option<u64>, sure: bool, why: String) -> StopLocation {
    let function = event.and_then(|e| function_at(plan, e));
    let or_before = if sure { "" } else { " or before it" };
    let place = match (&function, event) {
        (Some(f), Some(e)) => format!("launch of {f}, event {e}{or_before}: "),
        (None, Some(e)) => format!("event {e}{or_before}: "),
        _ => String::new(),
    };
    outcome.failure = Some(format!("{place}{why}"));
    outcome.faults.push(FaultReport {
        job: None,
        event: event.unwrap_or(0),
        summary: format!("{place}{why}"),
        exception: why.clone(),
        address: None,
        registers: Vec::new(),
        walk: Vec::new(),
        nearest_buffer: None,
    });
    StopLocation {
        event,
        sure,
        function,
        why,
    }
}

fn folder() -> std::io::Result<tempfile::TempDir> {
    let mut made = tempfile::Builder::new();
    made.prefix("kinescope-calls-");
    match Path::new(SHARED_MEMORY).is_dir() {
        // If shared memory is full or not writable, the system's temporary folder is used.
        true => made.tempdir_in(SHARED_MEMORY).or_else(|_| made.tempdir()),
        false => made.tempdir(),
    }
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
            element: ElementType::U8,
            blake3: *blake3::hash(&data).as_bytes(),
            data,
        });
    }
    Ok(all)
}

fn fingerprint(outputs: &[OutputBuffer]) -> [u8; 32] {
    let mut hash = blake3::Hasher::new();
    for o in outputs {
        hash.update(&(o.name.len() as u64).to_le_bytes());
        hash.update(o.name.as_bytes());
        hash.update(&o.blake3);
    }
    *hash.finalize().as_bytes()
}

/// Returns the name of the function that is launched at an event of the recording.
fn function_at(plan: &Plan, event: u64) -> Option<String> {
    let calls = plan.calls.as_ref()?;
    let all = crate::plan::calls::body::CallReader::new(&plan.body, plan.images.len());
    let found = all.map_while(Result::ok).find(|c| c.event == event)?;
    match found.call {
        trace_core::recording::CallEvent::Launch(l) => Some(
            calls
                .metadata
                .functions
                .get(l.function as usize)?
                .display_name()
                .to_owned(),
        ),
        _ => None,
    }
}

impl replay_core::Device for CudaReplayDevice {
    fn read(&mut self, _space: u8, _offset: u64, _width: u8) -> Result<u64, DeviceError> {
        Err(DeviceError::Gone)
    }

    fn write(&mut self, _space: u8, _offset: u64, _width: u8, _value: u64) -> Result<(), DeviceError> {
        Err(DeviceError::Gone)
    }

    fn wait_interrupt(&mut self, _lines: u32, _limit_ns: u64) -> Result<WaitResult, DeviceError> {
        Err(DeviceError::Gone)
    }

    fn pause(&mut self, _ns: u64) -> Result<(), DeviceError> {
        Err(DeviceError::Gone)
    }

    fn now_ns(&mut self) -> u64 {
        0
    }
}

impl ReplayDevice for CudaReplayDevice {
    fn info(&self) -> DeviceInfo {
        self.info.clone()
    }

    fn reset(&mut self) -> Result<(), ReplayDeviceError> {
        // Every replay starts in its own process, without state of earlier ones.
        Ok(())
    }

    fn store_page(&mut self, frame: u64, _page: &Page) -> Result<(), ReplayDeviceError> {
        Err(ReplayDeviceError::OutsideArena { frame })
    }

    fn load_page(&mut self, frame: u64, _page: &mut Page) -> Result<(), ReplayDeviceError> {
        Err(ReplayDeviceError::OutsideArena { frame })
    }

    fn trouble(&self) -> Option<String> {
        Some("a CUDA device runs driver calls, not register accesses".to_owned())
    }

    fn take_job_reports(&mut self) -> Vec<JobReport> {
        Vec::new()
    }

    fn play_calls(&mut self, plan: &Plan, pages: &dyn PageSource, repeat: u32, progress: &Progress) -> Option<Outcome> {
        Some(
            self.played(plan, pages, repeat, progress)
                .unwrap_or_else(|why| Outcome {
                    failure: Some(why),
                    rewrites: BTreeMap::new(),
                    ..Outcome::unfinished(self.info.name.clone())
                }),
        )
    }
}
