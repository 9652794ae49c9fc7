//! Times of the launches of an API trace on a target: the measurement, and the state of a document.

use crate::cuda_target::{DeviceQueryError, TargetQueryError, compile_query, missing_answer, query_target};
use crate::running_work::{RunningSlot, RunningWork};
use crate::targets::Targets;
use replay_cuda::ApiOptions;
use replay_engine::client::Lease;
use replay_engine::plan::Edits;
use std::collections::BTreeMap;
use trace_core::progress::Progress;
use trace_core::recording::Recording;

/// Default number of replays of a measurement.
pub const DEFAULT_REPEATS: u32 = 3;
/// Maximum number of replays of a measurement.
pub const MAX_REPEATS: u32 = 1000;

/// Returns the shortest time of each launch on a target, in nanoseconds, by event. The recording is replayed `repeat`
/// times with its recorded inputs, with device events around each launch.
///
/// # Errors
/// Returns an error if the recording cannot be compiled for the target, or the target fails.
pub fn measure_launches(
    lease: &mut Lease,
    recording: &Recording,
    repeat: u32,
    time_ns: u64,
    progress: &Progress,
) -> Result<BTreeMap<u64, u64>, DeviceQueryError> {
    let (edits, options) = (Edits::default(), ApiOptions::default());
    let mut compiled = compile_query(lease, (recording, &edits), &options, time_ns, progress)?;
    if let Some(calls) = compiled.plan.api_mut() {
        calls.times = true;
    }
    let outcome = lease.replay(&compiled, repeat, progress, false)?;
    match outcome.api() {
        Some(api) if outcome.failure.is_none() => Ok(api.launch_ns.iter().map(|[event, ns]| (*event, *ns)).collect()),
        _ => Err(missing_answer(outcome.failure)),
    }
}

/// Opens a target and measures the launches of a recording there, as [`measure_launches`] does.
///
/// This is slow: call it off the interface thread. The time grows with the number of launches.
///
/// # Errors
/// Returns an error if the target cannot be opened or fails, or the recording cannot be compiled for it.
pub fn measure_on_target(
    targets: &Targets,
    target: &str,
    recording: &Recording,
    repeat: u32,
    time_ns: u64,
    progress: &Progress,
) -> Result<LaunchTimes, TargetQueryError> {
    let by_event = query_target(targets, target, |lease| {
        measure_launches(lease, recording, repeat, time_ns, progress)
    })?;
    Ok(LaunchTimes {
        by_event,
        target: target.to_owned(),
    })
}

/// The measured times of launches.
#[derive(Clone, Debug, Default)]
pub struct LaunchTimes {
    /// Shortest time of each launch by its event, nanoseconds.
    pub by_event: BTreeMap<u64, u64>,
    /// The target.
    pub target: String,
}

/// The measurement state of a document: running work and last result.
#[derive(Clone, Debug, Default)]
pub struct State {
    running: RunningSlot,
    /// Last result.
    pub done: Option<LaunchTimes>,
    /// Why the last measurement failed.
    pub failure: Option<String>,
}

impl State {
    /// Returns the running measurement.
    #[must_use]
    pub fn running(&self) -> Option<&RunningWork> {
        self.running.current()
    }

    /// Starts a measurement.
    pub fn begin(&mut self, work: RunningWork) {
        self.failure = None;
        self.running.begin(work);
    }

    /// Ends the measurement. An error keeps the last result.
    pub fn end(&mut self, ended: Result<LaunchTimes, Option<String>>) {
        self.running.end();
        match ended {
            Ok(times) => self.done = Some(times),
            Err(why) => self.failure = why,
        }
    }

    /// Returns the measured time of a launch, nanoseconds.
    #[must_use]
    pub fn find_duration_ns(&self, event: u64) -> Option<u64> {
        self.done.as_ref()?.by_event.get(&event).copied()
    }
}
