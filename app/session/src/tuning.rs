//! Tuning of a recorded launch: launches, parameters, and results as a table and as a map.

pub mod clocks;
pub mod code;
pub mod form;
pub mod launches;
pub mod lists;
pub mod map;
pub mod options;
pub mod table;
pub mod tolerance;

use crate::cuda_target::{DeviceQueryError, TargetQueryError, compile_query, query_target};
use crate::running_work::{RunningSlot, RunningWork};
use crate::targets::Targets;
use replay_cuda::ApiOptions;
use replay_engine::client::Lease;
use replay_engine::plan::Edits;
use replay_engine::tune::{Limits, TuneReport, TuneRequest};
use std::sync::Arc;
use std::time::Duration;
use trace_core::progress::Progress;
use trace_core::recording::Recording;

/// The tuning state of a document: running work and last result.
#[derive(Clone, Debug, Default)]
pub struct State {
    running: RunningSlot,
    /// Last result, with its target.
    pub done: Option<(Arc<TuneReport>, String)>,
    /// Why the last tuning failed.
    pub failure: Option<String>,
}

impl State {
    /// Returns the running work.
    #[must_use]
    pub fn running(&self) -> Option<&RunningWork> {
        self.running.current()
    }

    /// Starts a tuning.
    pub fn begin(&mut self, work: RunningWork) {
        self.failure = None;
        self.running.begin(work);
    }

    /// Ends the tuning and stores its result.
    pub fn end(&mut self, target: &str, ended: Result<TuneReport, String>) {
        self.running.end();
        match ended {
            Ok(tuned) => self.done = Some((Arc::new(tuned), target.to_owned())),
            Err(why) => self.failure = Some(why),
        }
    }
}

/// Default time limit of one launch.
pub const LAUNCH_LIMIT: Duration = Duration::from_secs(1);
/// Default time limit of a whole tuning.
pub const TIME_LIMIT: Duration = Duration::from_mins(10);

/// Returns the limits of a tuning from those of one launch and of the whole run. A launch counts as stuck after ten
/// times its limit, and not before the default.
#[must_use]
pub fn limit_tuning(launch: Duration, total: Duration) -> Limits {
    let nanos = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
    Limits {
        launch_ns: nanos(launch),
        stuck_ns: nanos(launch.saturating_mul(10)).max(Limits::default().stuck_ns),
        total_ns: nanos(total),
    }
}

/// Opens a target and tunes a launch of a recording there, as [`tune_on_lease`] does.
///
/// # Errors
/// Returns an error if the target cannot be opened or fails, or if the recording cannot be compiled for it.
pub fn tune_on_target(
    targets: &Targets,
    target: &str,
    changed: (&Recording, &Edits),
    tune: &TuneRequest,
    progress: &Progress,
) -> Result<TuneReport, TargetQueryError> {
    query_target(targets, target, |lease| tune_on_lease(lease, changed, tune, progress))
}

/// Tunes a launch of a recording on a leased target. If the user edited inputs, points are compared with the result of
/// the recorded launch on the device, not with the recording.
///
/// # Errors
/// Returns an error if the target fails, or if the recording cannot be compiled for it.
pub fn tune_on_lease(
    lease: &mut Lease,
    (recording, edits): (&Recording, &Edits),
    tune: &TuneRequest,
    progress: &Progress,
) -> Result<TuneReport, DeviceQueryError> {
    let options = ApiOptions {
        // The recorded launch must also leave the memory here that the recording holds after the launch.
        memory: true,
        held: edits.inputs.is_empty(),
        ..ApiOptions::default()
    };
    let compiled = compile_query(lease, (recording, edits), &options, tune.limits.total_ns, progress)?;
    Ok(lease.tune(&compiled, tune, progress)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuning_state_keeps_its_last_result() {
        let mut state = State::default();
        let alive = RunningWork::new_token();
        state.begin(RunningWork::new("cuda:0", Progress::new(), &alive));
        assert!(state.running().is_some());
        drop(alive);
        assert!(state.running().is_none());
        state.end("cuda:0", Err("no device".into()));
        assert_eq!(state.failure.as_deref(), Some("no device"));
        state.end("cuda:0", Ok(TuneReport::default()));
        assert!(state.done.is_some());
    }
}
