//! Compilers of plans for channels: recorded push buffers word for word, or launches built anew from an API trace.

use crate::options::ChannelOptions;
use crate::{rebuild, verbatim};
use replay_engine::device::DeviceInfo;
use replay_engine::plan::{CompileError, Compiled, Edits};
use trace_core::progress::Progress;
use trace_core::recording::Recording;

/// Compiles a recording and its edits into a plan for `target`: what the driver submitted, word for word; or, for an API
/// trace alone or on request, launches built anew.
///
/// # Errors
/// If the recording cannot be replayed on channels, or an edit does not fit.
pub fn compile(
    recording: &Recording,
    edits: &Edits,
    target: &DeviceInfo,
    options: &ChannelOptions,
    progress: &Progress,
) -> Result<Compiled, CompileError> {
    if let Some(block) = recording.find_damage(progress)? {
        return Err(CompileError::Damaged { block: Box::new(block) });
    }
    let has_submissions = recording.driver_trace().is_some() && !recording.events.ring_entries.is_empty();
    let compiled = match recording.api().is_some() && (options.rebuild || !has_submissions) {
        true => rebuild::compile(recording, edits, target, options, progress),
        false => verbatim::compile(recording, edits, target, options, progress),
    };
    if let (Err(_), Some(preparation)) = (&compiled, &options.preparation) {
        preparation.discard();
    }
    compiled
}
