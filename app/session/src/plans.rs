//! Plans of all kinds of recordings: the compiler, the check and the edits of API traces, of submissions to channels, or of
//! register accesses.

use replay_cuda::ApiOptions;
use replay_engine::device::DeviceInfo;
use replay_engine::plan::{self, ApplyError, CompileError, CompileOptions, Compiled, Edits};
use replay_engine::target::ReplayPreparation;
use replay_engine::verify::{Refusal, Verified, Work, verify_compiled};
use replay_nvidia::ChannelOptions;
use std::sync::Arc;
use trace_core::Recording;
use trace_core::progress::Progress;

/// Compiles a recording and its edits into a plan for `device`, with the options for its kind. `preparation` starts what takes
/// long on the device meanwhile; without it, the device is not touched.
///
/// # Errors
/// If the recording cannot be replayed on the device.
pub fn compile(
    recording: &Recording,
    edits: &Edits,
    device: &DeviceInfo,
    options: &CompileOptions,
    api_options: &ApiOptions,
    preparation: Option<Arc<dyn ReplayPreparation>>,
    progress: &Progress,
) -> Result<Compiled, CompileError> {
    if device.takes_submissions() {
        let options = ChannelOptions {
            outputs: options.outputs.clone(),
            budgets: options.budgets,
            rebuild: api_options.rebuild,
            preparation,
        };
        return replay_nvidia::compile(recording, edits, device, &options, progress);
    }
    match recording.api().is_some() || device.takes_api_traces() {
        true => replay_cuda::compile(recording, edits, device, api_options, progress),
        false => replay_engine::compile::compile(recording, edits, device, options, progress),
    }
}

/// Checks a plan for a device.
///
/// # Errors
/// The first rule that the plan breaks.
pub fn verify(compiled: &Compiled, device: &DeviceInfo, work: &Work<'_>) -> Result<Verified, Refusal> {
    match compiled.plan.api().is_some() || device.takes_api_traces() {
        true => replay_cuda::verify(&compiled.plan, device),
        false => verify_compiled(compiled, device, work),
    }
}

/// Returns a recording with edits applied. `source` is the name of its file, for messages.
///
/// # Errors
/// If an edit does not fit, or a file cannot hold it.
pub fn apply(recording: &Recording, edits: &Edits, source: &str, progress: &Progress) -> Result<Recording, ApplyError> {
    match recording.api().is_some() {
        true => replay_cuda::apply(recording, edits, source, progress),
        false => plan::apply(recording, edits, source, progress),
    }
}
