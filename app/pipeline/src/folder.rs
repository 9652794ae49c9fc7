//! The folder of a run: outputs, outcomes of replays as recordings, and the report.

use crate::document::{InputSource, StageWork};
use crate::parse::REPORT_FILE;
use crate::pipeline::Pipeline;
use crate::run::{OutcomeSink, OutputReport, RunReport, RunResult};
use kinescope_files::buffers::{self, BufferFileError};
use kinescope_files::output::{self, OutputError};
use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Why the folder of a run cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It cannot be created, or a file in it cannot be removed.
    #[error("{}: {source}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The system error.
        source: std::io::Error,
    },
    /// It holds files that the run reads.
    #[error("{}: this folder holds '{}', which outputs could replace; give another folder", path.display(), file.display())]
    HoldsInput {
        /// The folder.
        path: PathBuf,
        /// The file.
        file: PathBuf,
    },
    /// Another run writes to it.
    #[error("{}: another run writes to this folder; wait for its end, or give another folder", .0.display())]
    InUse(PathBuf),
    /// An output cannot be written.
    #[error(transparent)]
    Buffer(#[from] BufferFileError),
    /// A result cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// The folder of a run. No other run uses it until this is dropped.
#[derive(Debug)]
pub struct OutputFolder {
    path: PathBuf,
    /// The report of a run that was stopped or given up.
    early_end: Option<RunReport>,
    /// The folder, locked. The system frees the lock of a process that is killed.
    _lock: File,
}

impl OutputFolder {
    /// Creates the folder if it does not exist, and removes what an earlier run of the pipeline left in it: outputs,
    /// outcomes and report. `inputs` are files of the user for this run.
    ///
    /// # Errors
    /// If it cannot be created, holds a file that the run reads, or another run uses it. If a result cannot be written
    /// there, for example because a folder has its name; then nothing is removed.
    pub fn create(path: &Path, pipeline: &Pipeline, inputs: &[PathBuf]) -> Result<Self, FolderError> {
        let failed = |source| FolderError::File {
            path: path.to_owned(),
            source,
        };
        std::fs::create_dir_all(path).map_err(failed)?;
        let read = list_read_files(pipeline, inputs);
        let holds_input = |file: &PathBuf| FolderError::HoldsInput {
            path: path.to_owned(),
            file: file.clone(),
        };
        let holds = |file: &&PathBuf| {
            let parent = file
                .parent()
                .filter(|p| !p.as_os_str().is_empty())
                .unwrap_or(Path::new("."));
            output::is_same_file(parent, path)
        };
        if let Some(file) = read.iter().find(holds) {
            return Err(holds_input(file));
        }
        let lock = File::open(path).map_err(failed)?;
        // File systems without locks have no other runs to find.
        if matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) {
            return Err(FolderError::InUse(path.to_owned()));
        }
        let written = list_written_files(path, pipeline).map_err(failed)?;
        for file in &written {
            output::check_writable(file)?;
            if let Some(input) = read.iter().find(|input| output::is_same_file(input, file)) {
                return Err(holds_input(input));
            }
        }
        for file in written {
            remove_regular_file(&file).map_err(|source| FolderError::File { path: file, source })?;
        }
        Ok(Self {
            path: path.to_owned(),
            early_end: None,
            _lock: lock,
        })
    }

    /// Returns the path of a file of the folder.
    #[must_use]
    pub fn join(&self, file: &str) -> PathBuf {
        self.path.join(file)
    }

    /// Writes the outputs and the report of a run. Returns the report with the written files. `to_json` formats it.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(
        &self,
        pipeline: &Pipeline,
        result: &RunResult,
        to_json: impl FnOnce(&RunReport) -> Vec<u8>,
    ) -> Result<RunReport, FolderError> {
        let mut report = result.report.clone();
        let sources = pipeline.document.outputs.iter().zip(&pipeline.graph.outputs);
        for ((definition, source), data) in sources.zip(&result.outputs) {
            // Each output has the type of its source.
            let Some(tensor) = pipeline.type_of(*source) else {
                continue;
            };
            let file = self.path.join(&definition.file);
            buffers::write_file(&file, tensor.element(), tensor.shape(), data)?;
            report.outputs.push(OutputReport {
                name: definition.name.clone(),
                file: definition.file.clone(),
                element: tensor.element().name(),
                shape: tensor.shape().to_vec(),
                bytes: data.len() as u64,
                blake3: blake3::hash(data).to_hex().to_string(),
            });
        }
        output::write(&self.path.join(REPORT_FILE), &to_json(&report))?;
        Ok(report)
    }

    /// Writes the report of a run that was stopped or given up, if there is one. `to_json` formats it.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_early_end(&self, to_json: impl FnOnce(&RunReport) -> Vec<u8>) -> Result<(), FolderError> {
        if let Some(report) = &self.early_end {
            output::write(&self.path.join(REPORT_FILE), &to_json(report))?;
        }
        Ok(())
    }
}

/// Lists the files that a run reads.
fn list_read_files(pipeline: &Pipeline, inputs: &[PathBuf]) -> Vec<PathBuf> {
    let folder = pipeline.path.parent().map(Path::to_owned).unwrap_or_default();
    let stages = pipeline.document.stages.iter().map(|s| match &s.work {
        StageWork::Replay(replay) => folder.join(&replay.recording),
        StageWork::Module(module) => folder.join(&module.module),
    });
    let files = pipeline.document.inputs.iter().filter_map(|i| match &i.source {
        InputSource::File(file) => Some(folder.join(file)),
        _ => None,
    });
    stages
        .chain(files)
        .chain(inputs.iter().cloned())
        .chain([pipeline.path.clone()])
        .collect()
}

/// Lists the files that a run writes: outputs, report and outcomes. Outcomes in rounds of a loop are those that are there.
fn list_written_files(folder: &Path, pipeline: &Pipeline) -> std::io::Result<Vec<PathBuf>> {
    let outputs = pipeline.document.outputs.iter().map(|output| output.file.clone());
    let mut names: Vec<String> = outputs.chain([REPORT_FILE.to_owned()]).collect();
    let mut rounds: HashMap<&str, u32> = HashMap::new();
    for (number, stage) in pipeline.document.stages.iter().enumerate() {
        let of_loop = pipeline.graph.loop_of(number);
        match (&stage.work, of_loop.and_then(|l| pipeline.document.loops.get(l))) {
            (StageWork::Module(_), _) => {}
            (StageWork::Replay(_), None) => names.push(outcome_name(&stage.name, None)),
            (StageWork::Replay(_), Some(definition)) => {
                rounds.insert(&stage.name, definition.rounds);
            }
        }
    }
    if !rounds.is_empty() {
        for entry in std::fs::read_dir(folder)? {
            let name = entry?.file_name();
            let Some(name) = name.to_str() else { continue };
            let is_round = |(stage, round): (&str, u32)| {
                let max = rounds.get(stage).copied().unwrap_or_default();
                (1..=max).contains(&round) && name == outcome_name(stage, Some(round))
            };
            if split_outcome_name(name).is_some_and(is_round) {
                names.push(name.to_owned());
            }
        }
    }
    Ok(names.into_iter().map(|name| folder.join(name)).collect())
}

/// Returns the name of the outcome of a stage. Names of stages have no dots, so that no two files have the same name.
fn outcome_name(stage: &str, round: Option<u32>) -> String {
    match round {
        Some(round) => format!("{stage}.round-{round}.kine"),
        None => format!("{stage}.kine"),
    }
}

/// Returns the stage and the round of the outcome in a loop that may have this name.
fn split_outcome_name(name: &str) -> Option<(&str, u32)> {
    let (stage, round) = name.strip_suffix(".kine")?.split_once(".round-")?;
    Some((stage, round.parse().ok()?))
}

/// Removes a file, unless it does not exist or is a link, a device or a pipe: those are written in place.
fn remove_regular_file(path: &Path) -> std::io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() => std::fs::remove_file(path),
        Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
        Ok(_) | Err(_) => Ok(()),
    }
}

impl OutcomeSink for OutputFolder {
    /// Writes `STAGE.kine`, or `STAGE.round-N.kine` for a stage of a loop.
    fn store(&mut self, stage: &str, round: Option<u32>, recording: &[u8]) -> Result<Option<String>, OutputError> {
        let name = outcome_name(stage, round);
        output::write(&self.path.join(&name), recording)?;
        Ok(Some(name))
    }

    fn end_early(&mut self, report: &RunReport) {
        self.early_end = Some(report.clone());
    }
}
