//! The one place where a tuning goes to a board: as a plan that says what to tune.

use crate::document::cuda_board::{DeviceQueryError, missing_answer, run_query};
use replay_engine::client::Lease;
use replay_engine::plan::{CompileOptions, Edits};
use replay_engine::tune::{TuneReport, TuneRequest};
use trace_core::progress::Progress;
use trace_core::recording::Recording;

/// Tunes a launch of a recording on a board, with a person's inputs where there are some: then points are held against
/// what the recorded launch leaves on the device, not against what the recording holds.
///
/// # Errors
/// When the recording is no plan for the board, or the board cannot do it.
pub fn tune_on_target(
    lease: &mut Lease,
    recording: &Recording,
    edits: &Edits,
    tune: &TuneRequest,
    progress: &Progress,
) -> Result<TuneReport, DeviceQueryError> {
    let options = CompileOptions {
        // What the recording holds of memory behind the launch is what the recorded launch has to leave here, too.
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
