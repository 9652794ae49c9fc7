//! Opening a recording from a path, either with an importer or by running job chains on a simulator.

use super::targets;
use driver_mali::DriverError;
use driver_mali::chains::{self as run, RecordedChains};
use std::path::Path;
use trace_core::import::{self, ImportError, OpenedRecording, chains};
use trace_core::progress::Progress;
use trace_core::registers;

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

/// Opens a path like [`open`], and applies the user's own register maps. The result contains errors in the maps; none
/// of them is fatal.
///
/// # Errors
/// The same as [`open`].
pub fn open_with_maps(
    path: &Path,
    progress: &Progress,
) -> Result<(OpenedRecording, register_maps::UserMaps), SourceError> {
    let mut opened = open(path, progress)?;
    let own = super::register_map_files::load_maps(path, &mut opened.recording);
    Ok((opened, own))
}

/// Opens or imports a path, and returns stored analyses of the file.
///
/// # Errors
/// Returns an error if the path cannot be read, its job chains cannot be run, or the operation was cancelled.
pub fn open(path: &Path, progress: &Progress) -> Result<OpenedRecording, SourceError> {
    if is_submission(path) {
        return Ok(OpenedRecording {
            recording: run_submission(path, progress)?.done.recording,
            timeline: None,
            pyramid: None,
        });
    }
    Ok(import::open_with_derived(path, progress)?)
}

/// Whether a path holds job chains that are not yet executed.
#[must_use]
pub fn is_submission(path: &Path) -> bool {
    let importer = import::IMPORTERS.iter().find(|i| (i.fits)(path));
    importer.is_some_and(|i| matches!(i.reads, import::ImportMethod::Chains))
}

/// Runs the job chains of a folder on the matching simulator.
///
/// # Errors
/// The same as [`open`].
pub fn run_submission(path: &Path, progress: &Progress) -> Result<SimulatedSubmission, SourceError> {
    let chains = chains::read(path)?;
    let fitting = targets::list_simulators().find(|(_, model)| run::is_for(&chains, model.gpu_id));
    let made = fitting.and_then(|(target, model)| Some((target, device_mali::factory(model.name)?)));
    let Some((target, mut device)) = made else {
        let id = chains.gpu_id;
        let all = targets::list_simulators().map(|(target, model)| format!("{target}: {}", model.gpu_name));
        return Err(SourceError::NoSimulator {
            place: path.display().to_string(),
            made_for: match registers::gpu_name(id) {
                Some(name) => format!("a {name} ({id:#010x})"),
                None => format!("a GPU of id {:#06x}", id >> 16),
            },
            targets: all.collect::<Vec<_>>().join(", "),
        });
    };
    Ok(SimulatedSubmission {
        done: run::record(&chains, &mut *device, progress)?,
        target,
    })
}
