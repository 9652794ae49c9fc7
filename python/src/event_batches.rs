//! Events for Python in batches: an Arrow stream or an iterator whose batches are built when they are taken.

use crate::errors;
use crate::table::{Table, column_names, schema_capsule, stream_capsule};
use arrow_array::RecordBatchReader as _;
use kinescope::cli::embedding::EmbeddedEvents;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::{Arc, Mutex, PoisonError};
use trace_query::{CollectedTable, EventStream};

/// Events of a recording in batches of at most 65,536 rows. Each consumer and each loop begins with the first event.
#[pyclass(frozen, module = "kinescope")]
pub struct EventBatches(Arc<EmbeddedEvents>);

impl From<EmbeddedEvents> for EventBatches {
    fn from(events: EmbeddedEvents) -> Self {
        Self(Arc::new(events))
    }
}

#[pymethods]
impl EventBatches {
    /// The number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.0.count()
    }

    /// The names of the columns, in order.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        column_names(&self.0.stream().schema())
    }

    /// Returns the rows as a capsule of an Arrow C stream. The schema that a consumer requests is not used.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        stream_capsule(py, Box::new(self.0.stream()))
    }

    /// Returns the types of the columns as a capsule of an Arrow C schema.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.0.stream().schema())
    }

    /// Returns an iterator of tables, one for each batch.
    fn __iter__(&self) -> EventBatchIterator {
        EventBatchIterator {
            events: Arc::clone(&self.0),
            stream: Mutex::new(self.0.stream()),
        }
    }

    fn __len__(&self) -> usize {
        self.num_rows()
    }

    fn __repr__(&self) -> String {
        let (rows, names) = (self.num_rows(), self.column_names().join(", "));
        format!("<kinescope.EventBatches of {rows} rows: {names}>")
    }
}

/// The batches of one loop.
#[pyclass(frozen, module = "kinescope._kinescope")]
pub struct EventBatchIterator {
    events: Arc<EmbeddedEvents>,
    stream: Mutex<EventStream>,
}

#[pymethods]
impl EventBatchIterator {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    /// Returns the next batch. Other threads of the interpreter run while it is built.
    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Table>> {
        let next = || {
            let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
            stream.next_batch()
        };
        let batch = py.detach(next).map_err(|e| {
            let failure = self.events.failure(e);
            errors::from_failure(py, &failure, Some(self.events.path()))
        })?;
        Ok(batch.map(|batch| {
            Table::from(CollectedTable {
                batches: vec![batch],
                problems: Vec::new(),
            })
        }))
    }
}
