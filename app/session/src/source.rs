//! The execution of job chains that were opened, on the matching simulator.

use crate::targets;
use driver_mali::DriverError;
use driver_mali::chains::{self as run, RecordedChains};
use trace_core::progress::Progress;
use trace_core::registers;
use trace_import::chains::Chains;
use trace_import::{ImportError, Opened, OpenedRecording};

/// Why a path cannot be opened as a recording.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The path cannot be read.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The job chains cannot be run.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// No simulator exists for the GPU of the job chains.
    #[error("{place}: its job chains are for {made_for}, and no simulator models it ({targets})")]
    NoSimulator {
        /// The folder.
        place: String,
        /// The GPU.
        made_for: String,
        /// The available simulators, each with its GPU.
        targets: String,
    },
}

/// Job chains that a simulator ran.
pub struct SimulatedSubmission {
    /// The recording and the results of its jobs.
    pub done: RecordedChains,
    /// Name of the simulator: `software:mali-g71`.
    pub target: String,
}

/// Returns the recording of a path that was opened. Runs job chains on the matching simulator.
///
/// # Errors
/// The same as [`run_submission`].
pub fn into_recording(opened: Opened, progress: &Progress) -> Result<OpenedRecording, SourceError> {
    match opened {
        Opened::Recording(opened) => Ok(*opened),
        Opened::Submission(chains) => Ok(run_submission(&chains, progress)?.done.recording.into()),
    }
}

/// Runs job chains on the matching simulator.
///
/// # Errors
/// Returns an error if no simulator models the GPU, the chains cannot be run, or the operation was cancelled.
pub fn run_submission(chains: &Chains, progress: &Progress) -> Result<SimulatedSubmission, SourceError> {
    let fitting = targets::list_simulators().find(|(_, model)| run::is_for(chains, model.gpu_id));
    let made = fitting.and_then(|(target, model)| Some((target, device_mali::factory(model.name)?)));
    let Some((target, mut device)) = made else {
        let id = chains.gpu_id;
        let all = targets::list_simulators().map(|(target, model)| format!("{target}: {}", model.gpu_name));
        return Err(SourceError::NoSimulator {
            place: chains.path.display().to_string(),
            made_for: match registers::gpu_name(id) {
                Some(name) => format!("a {name} ({id:#010x})"),
                None => format!("a GPU of id {:#06x}", id >> 16),
            },
            targets: all.collect::<Vec<_>>().join(", "),
        });
    };
    Ok(SimulatedSubmission {
        done: run::record(chains, &mut *device, progress)?,
        target,
    })
}
