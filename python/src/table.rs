//! A table for Python: Arrow batches that other libraries take through the PyCapsule interface, without a copy.

use crate::errors;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{Schema, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::Arc;
use trace_query::CollectedTable;

/// Rows of a recording as an Arrow stream. `polars.DataFrame(table)`, `pyarrow.table(table)` and DuckDB take it.
#[pyclass(frozen, name = "Table", module = "kinescope")]
pub struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    /// What the table lacks, in words.
    #[pyo3(get)]
    problems: Vec<String>,
}

impl From<CollectedTable> for Table {
    fn from(table: CollectedTable) -> Self {
        let schema = table.batches.first().map(RecordBatch::schema);
        Self {
            schema: schema.unwrap_or_else(|| Arc::new(Schema::empty())),
            batches: table.batches,
            problems: table.problems,
        }
    }
}

/// Returns batches as a capsule of an Arrow C stream.
pub fn stream_capsule<'py>(
    py: Python<'py>,
    batches: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(batches), c"arrow_array_stream")
}

/// Returns the names of the columns, in order.
pub fn column_names(schema: &Schema) -> Vec<String> {
    schema.fields().iter().map(|f| f.name().clone()).collect()
}

/// Returns a schema as a capsule of an Arrow C schema.
pub fn schema_capsule<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema).map_err(|e| errors::internal(py, &e.to_string()))?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}

#[pymethods]
impl Table {
    /// The number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The number of columns.
    #[getter]
    fn num_columns(&self) -> usize {
        self.schema.fields().len()
    }

    /// The names of the columns, in order.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        column_names(&self.schema)
    }

    /// Returns the rows as a capsule of an Arrow C stream. The schema that a consumer requests is not used.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface lets a producer answer with its own types.
        drop(requested_schema);
        let rows = self.batches.clone().into_iter().map(Ok);
        stream_capsule(py, Box::new(RecordBatchIterator::new(rows, self.schema.clone())))
    }

    /// Returns the types of the columns as a capsule of an Arrow C schema.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }

    fn __len__(&self) -> usize {
        self.num_rows()
    }

    fn __repr__(&self) -> String {
        let (rows, names) = (self.num_rows(), self.column_names().join(", "));
        format!("<kinescope.Table of {rows} rows: {names}>")
    }
}
