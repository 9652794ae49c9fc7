//! The options of the compilers, and the error of a recording that they refuse.

use replay_engine::device::DeviceInfo;
use replay_engine::plan::{Budgets, CompileError};
use replay_engine::target::ReplayPreparation;
use std::sync::Arc;

/// The options of the compilers.
#[derive(Clone, Debug, Default)]
pub struct ChannelOptions {
    /// Names of the outputs to read. If empty, all outputs.
    pub outputs: Vec<String>,
    /// Limits that the plan must keep.
    pub budgets: Budgets,
    /// Build the launches of an API trace anew, even if the recording holds what its driver submitted.
    pub rebuild: bool,
    /// Starts to map the memory of the plan as soon as it is known; `None` if the target must not be touched.
    pub preparation: Option<Arc<dyn ReplayPreparation>>,
}

/// Returns the error of a recording that cannot be replayed on channels.
pub(crate) fn refuse(target: &DeviceInfo, why: impl Into<String>) -> CompileError {
    CompileError::Submissions {
        device: target.name.clone(),
        why: why.into(),
    }
}
