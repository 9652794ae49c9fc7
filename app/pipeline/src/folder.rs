//! The folder of a run: outputs, outcomes of replays as recordings, and the report.

use crate::document::{InputSource, StageWork};
use crate::parse::REPORT_FILE;
use crate::pipeline::Pipeline;
use crate::run::{OutcomeSink, OutputReport, RunReport, RunResult};
use kinescope_files::buffers::{self, BufferFileError};
use kinescope_files::output::{self, OutputError};
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
    /// An output cannot be written.
    #[error(transparent)]
    Buffer(#[from] BufferFileError),
    /// The report cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// The folder of a run.
#[derive(Debug)]
pub struct OutputFolder {
    path: PathBuf,
}

impl OutputFolder {
    /// Creates the folder if it does not exist, and removes the report of an earlier run in it. `inputs` are files of
    /// the user for this run.
    ///
    /// # Errors
    /// If it cannot be created, or holds a file that the run reads.
    pub fn create(path: &Path, pipeline: &Pipeline, inputs: &[PathBuf]) -> Result<Self, FolderError> {
        let folder = pipeline.path.parent().map(Path::to_owned).unwrap_or_default();
        let stages = pipeline.document.stages.iter().map(|s| match &s.work {
            StageWork::Replay(replay) => folder.join(&replay.recording),
            StageWork::Module(module) => folder.join(&module.module),
        });
        let files = pipeline.document.inputs.iter().filter_map(|i| match &i.source {
            InputSource::File(file) => Some(folder.join(file)),
            _ => None,
        });
        let read: Vec<PathBuf> = stages
            .chain(files)
            .chain(inputs.iter().cloned())
            .chain([pipeline.path.clone()])
            .collect();
        std::fs::create_dir_all(path).map_err(|source| FolderError::File {
            path: path.to_owned(),
            source,
        })?;
        let holds = |file: &&PathBuf| {
            let parent = file
                .parent()
                .filter(|p| !p.as_os_str().is_empty())
                .unwrap_or(Path::new("."));
            output::is_same_file(parent, path)
        };
        if let Some(file) = read.iter().find(holds) {
            return Err(FolderError::HoldsInput {
                path: path.to_owned(),
                file: file.clone(),
            });
        }
        // The report of an earlier run says nothing about this one, which may be stopped.
        let report = path.join(REPORT_FILE);
        match std::fs::remove_file(&report) {
            Err(source) if source.kind() != ErrorKind::NotFound => Err(FolderError::File { path: report, source }),
            _ => Ok(Self { path: path.to_owned() }),
        }
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
}

impl OutcomeSink for OutputFolder {
    /// Writes `STAGE.kine`, or `STAGE.round-N.kine` for a stage of a loop.
    fn store(&mut self, stage: &str, round: Option<u32>, recording: &[u8]) -> Result<Option<String>, OutputError> {
        // Names of stages have no dots, so that no two files have the same name.
        let name = match round {
            Some(round) => format!("{stage}.round-{round}.kine"),
            None => format!("{stage}.kine"),
        };
        output::write(&self.path.join(&name), recording)?;
        Ok(Some(name))
    }
}
