//! The opening of a path as a recording: job chains run on the matching simulator, and the user's register maps apply.

use crate::{register_map_files, targets};
use driver_mali::DriverError;
use driver_mali::chains::{self as run, RecordedChains};
use register_maps::UserMaps;
use std::path::Path;
use trace_core::progress::Progress;
use trace_core::registers;
use trace_import::chains::Chains;
use trace_import::{ImportError, OpenOptions, Opened, OpenedRecording};

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

/// A recording with the user's register maps.
pub struct MappedRecording {
    /// The recording, with the stored data of its file. Its registers have the names of the matching map.
    pub opened: OpenedRecording,
    /// The user's maps, and the errors in them.
    pub maps: UserMaps,
}

/// Opens a path as a recording, and applies the user's register maps. Runs job chains on the matching simulator, and
/// calls `on_chains` before that.
///
/// # Errors
/// Returns an error if the path cannot be read, its job chains cannot be run, or the operation was cancelled.
pub fn open(path: &Path, progress: &Progress, on_chains: impl FnOnce()) -> Result<MappedRecording, SourceError> {
    let mut opened = match trace_import::open(path, &OpenOptions::default(), progress)? {
        Opened::Recording(opened) => *opened,
        Opened::Submission(chains) => {
            on_chains();
            run_submission(&chains, progress)?.done.recording.into()
        }
    };
    let maps = register_map_files::load_maps(path, &mut opened.recording);
    Ok(MappedRecording { opened, maps })
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
