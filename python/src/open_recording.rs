//! An open recording for Python: counts, and tables built in memory.

use crate::errors;
use crate::event_batches::EventBatches;
use crate::register_state;
use crate::table::Table;
use crate::work;
use kinescope::cli::Failure;
use kinescope::cli::embedding::{EmbeddedRecording, run_step};
use pyo3::prelude::*;
use std::path::PathBuf;
use trace_query::{CollectedTable, Table as TableKind};

/// A recording that stays open. Reports of verbs open the file again; tables do not.
#[pyclass(frozen, module = "kinescope._kinescope")]
pub struct OpenRecording(EmbeddedRecording);

impl OpenRecording {
    /// Returns the recording.
    pub fn embedded(&self) -> &EmbeddedRecording {
        &self.0
    }

    fn build(
        &self,
        py: Python<'_>,
        progress: Option<Py<PyAny>>,
        build: impl FnOnce(&EmbeddedRecording) -> Result<CollectedTable, Failure> + Send,
    ) -> PyResult<Table> {
        let table = work::run(py, progress.as_ref(), Some(self.0.path()), || build(&self.0))?;
        Ok(Table::from(table))
    }
}

#[pymethods]
impl OpenRecording {
    /// Opens or imports a recording.
    #[new]
    #[pyo3(signature = (path, progress = None))]
    fn new(py: Python<'_>, path: PathBuf, progress: Option<Py<PyAny>>) -> PyResult<Self> {
        let open = || EmbeddedRecording::open(&path);
        work::run(py, progress.as_ref(), Some(&path), open).map(Self)
    }

    /// The number of events.
    #[getter]
    fn event_count(&self) -> usize {
        self.0.recording().events.len()
    }

    /// Returns columns of the events that pass a filter, or of all events.
    #[pyo3(signature = (filter = None, columns = None, progress = None))]
    fn events(
        &self,
        py: Python<'_>,
        filter: Option<String>,
        columns: Option<Vec<String>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Table> {
        self.build(py, progress, |recording| {
            recording.events(filter.as_deref(), columns.as_deref())
        })
    }

    /// Returns the rows of `events` in batches that are built when they are taken.
    #[pyo3(signature = (filter = None, columns = None, progress = None))]
    fn stream_events(
        &self,
        py: Python<'_>,
        filter: Option<String>,
        columns: Option<Vec<String>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<EventBatches> {
        let select = || self.0.stream_events(filter.as_deref(), columns.as_deref());
        work::run(py, progress.as_ref(), Some(self.0.path()), select).map(EventBatches::from)
    }

    /// Returns a table that `export` writes, by its name.
    #[pyo3(signature = (name, progress = None))]
    fn table(&self, py: Python<'_>, name: &str, progress: Option<Py<PyAny>>) -> PyResult<Table> {
        let found = TableKind::ALL.into_iter().find(|t| t.name() == name);
        let table = found.ok_or_else(|| {
            let names = TableKind::ALL.map(TableKind::name).join(", ");
            errors::argument(py, &format!("'{name}' is not a table (expected {names})"))
        })?;
        self.build(py, progress, |recording| recording.table(table))
    }

    /// Returns the last known value of each register before an event, or at the end.
    #[pyo3(signature = (event = None, progress = None))]
    fn registers(&self, py: Python<'_>, event: Option<u64>, progress: Option<Py<PyAny>>) -> PyResult<Table> {
        self.build(py, progress, |recording| {
            if let Some(event) = event {
                recording.check_event(event)?;
            }
            run_step("reading registers", |progress| {
                register_state::build(recording, event, progress)
            })
        })
    }
}
