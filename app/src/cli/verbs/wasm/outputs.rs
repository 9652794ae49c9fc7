//! The folder of a run: the output files of each input, and the report.

use crate::cli::Failure;
use kinescope_files::output;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use trace_core::progress::Progress;
use wasm_run::{Control, Input, ProgramRun, Report, RunReport};

/// Name of the report in the folder.
pub const REPORT: &str = "report.json";

/// The folder of a run.
pub struct OutputFolder {
    path: PathBuf,
    /// Also write the log of system calls of each input.
    with_calls: bool,
}

impl OutputFolder {
    /// Creates the folder if it does not exist.
    ///
    /// # Errors
    /// When it cannot be created, or when an input is in it: an output could replace an input.
    pub fn create(path: &Path, with_calls: bool, inputs: &[PathBuf]) -> Result<Self, Failure> {
        fs::create_dir_all(path).map_err(|e| Failure::file(path, e))?;
        for input in inputs {
            let folder = if input.is_dir() {
                Some(input.as_path())
            } else {
                input.parent()
            };
            let folder = folder.filter(|f| !f.as_os_str().is_empty()).unwrap_or(Path::new("."));
            if output::is_same_file(folder, path) {
                return Err(Failure::file(
                    path,
                    "this folder has inputs, which outputs could replace: give another folder with -o",
                ));
            }
        }
        // The report of an earlier run says nothing about the outputs of this one, which may be stopped.
        let report = path.join(REPORT);
        match fs::remove_file(&report) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(Failure::file(&report, e)),
            _ => {}
        }
        Ok(Self {
            path: path.to_owned(),
            with_calls,
        })
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn write(&self, name: &str, suffix: &str, bytes: &[u8]) -> Result<(), String> {
        let path = self.path.join(format!("{name}.{suffix}"));
        fs::write(&path, bytes).map_err(|e| format!("{}: {e}", path.display()))
    }

    fn write_run(&self, name: &str, run: &ProgramRun) -> Result<(), String> {
        self.write(name, "stdout", &run.standard_output)?;
        self.write(name, "stderr", &run.standard_error)?;
        if self.with_calls {
            let mut text: String = run.calls.iter().map(|c| format!("{} ns  {c}\n", c.time)).collect();
            if run.lost_calls > 0 {
                text.push_str(&format!("{} more calls\n", run.lost_calls));
            }
            self.write(name, "calls", text.as_bytes())?;
        }
        Ok(())
    }

    /// Writes the report.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_report(&self, report: &Report) -> Result<(), Failure> {
        let mut text = serde_json::to_vec_pretty(report).map_err(|e| Failure::usage(e.to_string()))?;
        text.push(b'\n');
        Ok(output::write(&self.path.join(REPORT), &text)?)
    }
}

/// The report of an input, and its result if results are kept.
type KeptRun = (RunReport, Option<ProgramRun>);

/// Takes the results of a run: writes the files, counts, and keeps what the report needs.
pub struct ResultWriter<'a> {
    folder: &'a OutputFolder,
    inputs: &'a [Input],
    progress: &'a Progress,
    runs: Mutex<Vec<Option<KeptRun>>>,
    /// Positions of inputs whose copies have started.
    started: Mutex<BTreeSet<usize>>,
    /// Keep the results themselves too.
    keep_results: bool,
}

impl<'a> ResultWriter<'a> {
    /// Creates a writer for the results of `inputs`. `keep_results` keeps the results themselves too.
    pub fn new(folder: &'a OutputFolder, inputs: &'a [Input], keep_results: bool, progress: &'a Progress) -> Self {
        progress.set_total(inputs.len() as u64);
        Self {
            folder,
            inputs,
            progress,
            runs: Mutex::new(vec![None; inputs.len()]),
            started: Mutex::default(),
            keep_results,
        }
    }

    /// Returns the positions of inputs without a result, and whether their copies had started.
    pub fn unfinished(&self) -> BTreeMap<usize, bool> {
        let started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let without = runs.iter().enumerate().filter(|(_, run)| run.is_none());
        without.map(|(number, _)| (number, started.contains(&number))).collect()
    }

    /// Returns the reports of all inputs in their order, without those that have no result; and the results, if they
    /// were kept.
    pub fn into_reports(self) -> (Vec<RunReport>, Vec<ProgramRun>) {
        let runs = self.runs.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (reports, results): (Vec<_>, Vec<_>) = runs.into_iter().flatten().unzip();
        (reports, results.into_iter().flatten().collect())
    }
}

impl Control for ResultWriter<'_> {
    fn is_cancelled(&self) -> bool {
        self.progress.check().is_err()
    }

    fn input_started(&self, index: usize) {
        self.started
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(index);
    }

    fn take_result(&self, index: usize, run: ProgramRun) -> Result<(), String> {
        let input = self.inputs.get(index).ok_or("a result of an unknown input")?;
        self.folder.write_run(&input.name, &run)?;
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = runs.get_mut(index) {
            let report = RunReport::new(&input.name, &run);
            *slot = Some((report, self.keep_results.then_some(run)));
        }
        drop(runs);
        // A cancellation is for the runner, which asks for it.
        let _ = self.progress.advance(1);
        Ok(())
    }
}
