//! Existing plans as input instead of a recording.

use super::Failure;
use super::source::SourceRecording;
use kinescope_session::plan_file;
use replay_engine::plan::{Compiled, Plan};
use std::path::Path;
use trace_core::Recording;

/// Reads the plan in a file; `None` if the file contains something else.
pub fn read(path: &Path) -> Result<Option<Compiled>, Failure> {
    plan_file::read(path).map_err(Failure::from)
}

/// Creates a recording without events as a placeholder: it identifies the device, and so the register map.
pub fn open_placeholder(path: &Path, plan: &Plan) -> SourceRecording {
    let mut recording = Recording::default();
    recording.metadata.identity.gpu_id = plan.accesses().map_or(0, |a| a.gpu_id);
    if let Some(mmio) = plan.mmio() {
        recording.set_hardware(&mmio.hardware);
    }
    SourceRecording::new(path, recording)
}
