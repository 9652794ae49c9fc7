//! The tuning request to a target: a plan that states what to tune.

use crate::document::cuda_board::{DeviceQueryError, missing_answer, run_query};
use replay_engine::client::Lease;
use replay_engine::plan::{CompileOptions, Edits};
use replay_engine::tune::{TuneReport, TuneRequest};
use trace_core::progress::Progress;
use trace_core::recording::Recording;

/// Tunes a launch of a recording on a target. If the user edited inputs, points are compared with the result of the
/// recorded launch on the device, not with the recording.
///
/// # Errors
/// Returns an error if the recording cannot be compiled for the target, or the target fails.
pub fn tune_on_target(
    lease: &mut Lease,
    recording: &Recording,
    edits: &Edits,
    tune: &TuneRequest,
    progress: &Progress,
) -> Result<TuneReport, DeviceQueryError> {
    let options = CompileOptions {
        // The recorded launch must also leave the memory here that the recording holds after the launch.
        memory: true,
        held: edits.inputs.is_empty(),
        ..CompileOptions::default()
    };
    let want = |calls: &mut replay_engine::plan::calls::Calls| calls.tune = Some(tune.clone());
    let outcome = run_query(
        lease,
        (recording, edits),
        &options,
        tune.limits.total_ns,
        want,
        progress,
    )?;
    let tuned = outcome.calls.and_then(|c| c.tuned);
    tuned.ok_or_else(|| missing_answer(outcome.failure))
}
