//! Verbs of the command line as one function, with their JSON or text.

use crate::work;
use kinescope::cli::embedding;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::OsString;
use std::path::PathBuf;

/// Runs a verb and returns what it prints, and its exit code: 0, or 1 for differences and findings.
///
/// # Errors
/// An exception of `kinescope.errors` if the verb cannot do its work; `KeyboardInterrupt`.
#[pyfunction]
#[pyo3(signature = (arguments, *, json = true, progress = None, path = None))]
pub fn run_verb(
    py: Python<'_>,
    arguments: Vec<OsString>,
    json: bool,
    progress: Option<Py<PyAny>>,
    path: Option<PathBuf>,
) -> PyResult<(Bound<'_, PyBytes>, u8)> {
    let run = || embedding::run_verb(&arguments, json);
    let output = work::run(py, progress.as_ref(), path.as_deref(), run)?;
    Ok((PyBytes::new(py, &output.bytes), output.code))
}
