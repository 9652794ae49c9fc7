//! Pictures of a recording as PNG bytes.

use crate::work;
use kinescope::cli::embedding::{Picture, render_picture};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;

/// Renders the window with a recording, or one of its panels, as PNG.
///
/// # Errors
/// An exception of `kinescope.errors` if an option is not valid, or this machine cannot render; `KeyboardInterrupt`.
#[pyfunction]
#[pyo3(signature = (path, panel, event, size, scale, light))]
pub fn render(
    py: Python<'_>,
    path: PathBuf,
    panel: Option<String>,
    event: Option<u64>,
    size: [f32; 2],
    scale: f32,
    light: bool,
) -> PyResult<Bound<'_, PyBytes>> {
    let picture = Picture {
        panel,
        event,
        size,
        scale,
        is_light: light,
    };
    let png = work::run(py, None, Some(&path), || render_picture(&path, &picture))?;
    Ok(PyBytes::new(py, &png))
}
