//! Verbs of the command line as one function, with their JSON or text.

use crate::open_recording::OpenRecording;
use crate::work;
use kinescope::cli::embedding;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::OsString;
use std::path::PathBuf;

/// Runs a verb without opening the files of `held` recordings again, and returns what it prints, and its exit code: 0, or 1 for differences and findings.
///
/// # Errors
/// An exception of `kinescope.errors` if the verb cannot do its work; `KeyboardInterrupt`.
#[pyfunction]
#[pyo3(signature = (arguments, *, json = true, progress = None, path = None, held = Vec::new()))]
pub fn run_verb(
    py: Python<'_>,
    arguments: Vec<OsString>,
    json: bool,
    progress: Option<Py<PyAny>>,
    path: Option<PathBuf>,
    held: Vec<Py<OpenRecording>>,
) -> PyResult<(Bound<'_, PyBytes>, u8)> {
    let held: Vec<_> = held.iter().map(|h| h.get().embedded()).collect();
    let run = || embedding::run_verb(&arguments, json, &held);
    let output = work::run(py, progress.as_ref(), path.as_deref(), run)?;
    Ok((PyBytes::new(py, &output.bytes), output.code))
}

/// Runs the command line as a process of its own does, and returns its exit code.
#[pyfunction]
pub fn run_command_line(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| kinescope::cli::run_arguments(arguments))
}

/// Sets the words that start the command line in a process of its own: a program and its first arguments.
#[pyfunction]
pub fn set_program_words(words: Vec<OsString>) -> bool {
    embedding::set_program_words(words)
}

/// Sets the folder of the libraries that are loaded into recorded programs.
#[pyfunction]
pub fn set_library_folder(folder: PathBuf) -> bool {
    embedding::set_library_folder(folder)
}
