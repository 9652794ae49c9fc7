//! Failures as exceptions of `kinescope.errors`, and messages as warnings.

use kinescope::cli::{Failure, FailureKind};
use pyo3::prelude::*;
use std::any::Any;
use std::path::Path;

/// Python module of the exceptions and warnings.
const MODULE: &str = "kinescope.errors";

/// Returns an exception of the package. `class` is its name.
fn create(py: Python<'_>, class: &str, message: &str, path: Option<&Path>) -> PyErr {
    let create = || -> PyResult<Bound<'_, PyAny>> {
        let class = py.import(MODULE)?.getattr(class)?;
        class.call1((message, path.map(|p| p.display().to_string())))
    };
    create().map_or_else(|e| e, PyErr::from_value)
}

/// Returns a failure of a verb as an exception. `path` is the recording that the work read.
pub fn from_failure(py: Python<'_>, failure: &Failure, path: Option<&Path>) -> PyErr {
    let class = match failure.kind() {
        FailureKind::Other => "Error",
        FailureKind::Arguments => "ArgumentError",
        FailureKind::Open => "OpenError",
        FailureKind::Filter => "FilterError",
        FailureKind::Plan => "PlanError",
        FailureKind::Target => "TargetError",
    };
    create(py, class, &failure.to_string(), path)
}

/// Returns an error of an argument.
pub fn argument(py: Python<'_>, message: &str) -> PyErr {
    create(py, "ArgumentError", message, None)
}

/// Returns an error of the package itself.
pub fn internal(py: Python<'_>, message: &str) -> PyErr {
    create(py, "InternalError", message, None)
}

/// Returns a panic as an exception.
pub fn from_panic(py: Python<'_>, panic: &(dyn Any + Send), path: Option<&Path>) -> PyErr {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("a program error without a message");
    let message = format!("an error in Kinescope itself, please report it: {text}");
    create(py, "InternalError", &message, path)
}

/// Warns of messages that are no errors, at the place of the caller outside the package.
///
/// # Errors
/// The exception, if the user made warnings errors.
pub fn warn(py: Python<'_>, messages: &[String]) -> PyResult<()> {
    if messages.is_empty() {
        return Ok(());
    }
    let warn = py.import(MODULE)?.getattr("warn_caller")?;
    for message in messages {
        warn.call1((message,))?;
    }
    Ok(())
}
