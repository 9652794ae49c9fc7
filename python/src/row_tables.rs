//! Tables made of JSON rows of a verb, with declared columns: an empty table has the same columns as a full one.

use crate::errors;
use crate::table::Table;
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_array::{ArrayRef, BooleanArray, Float64Array, ListArray, RecordBatch, StringArray, UInt64Array};
use pyo3::prelude::*;
use serde_json::Value;
use std::sync::Arc;
use trace_query::CollectedTable;

/// Type of a column. All columns may hold nulls.
#[derive(Clone, Copy)]
enum ColumnKind {
    /// `string`.
    Text,
    /// `uint64`, from a number.
    Count,
    /// `uint64`, from text with the prefix `0x`.
    Hex,
    /// `float64`.
    Fraction,
    /// `bool`.
    Flag,
    /// `list<uint32>`.
    Numbers,
    /// `list<uint64>`.
    Counts,
    /// `string` with JSON, for rows within rows.
    Json,
}

use ColumnKind::{Count, Counts, Flag, Fraction, Hex, Json, Numbers, Text};

/// Columns of a table.
type Columns = &'static [(&'static str, ColumnKind)];

/// Columns of each table, by its name.
const TABLES: [(&str, Columns); 9] = [
    (
        "findings",
        &[("kind", Text), ("severity", Text), ("place", Text), ("message", Text)],
    ),
    (
        "launches",
        &[
            ("launch", Count),
            ("event", Count),
            ("kernel", Text),
            ("function", Count),
            ("grid", Numbers),
            ("block", Numbers),
            ("cluster", Numbers),
            ("shared", Count),
            ("stream", Count),
            ("stream_name", Text),
            ("cooperative", Flag),
            ("of_graph", Flag),
            ("took_ns", Count),
            ("device_ns", Count),
            ("result", Count),
            ("arguments", Json),
            ("changed", Json),
        ],
    ),
    (
        "references",
        &[
            ("kind", Text),
            ("access", Text),
            ("event", Count),
            ("job", Count),
            ("launch", Count),
            ("page_only", Flag),
            ("description", Text),
            ("register", Text),
            ("value", Hex),
            ("buffer", Text),
            ("offset", Hex),
            ("address_space", Count),
            ("va", Hex),
            ("level", Count),
            ("part", Text),
            ("position", Count),
            ("word_va", Hex),
            ("through_va", Hex),
            ("arguments", Json),
            ("submit", Count),
            ("word", Count),
            ("parameter_offset", Count),
            ("bank", Count),
            ("method", Text),
            ("bytes", Count),
            ("other_va", Hex),
        ],
    ),
    ("rewrites", &[("kind", Text), ("event", Count), ("detail", Text)]),
    (
        "divergences",
        &[
            ("event", Count),
            ("register", Text),
            ("expected", Hex),
            ("got", Hex),
            ("class", Text),
            ("job", Count),
        ],
    ),
    (
        "job_outcomes",
        &[
            ("index", Count),
            ("submit_event", Count),
            ("head_va", Hex),
            ("done", Flag),
            ("status", Hex),
            ("computed", Flag),
            ("why_not", Text),
            ("duration_ns", Count),
        ],
    ),
    (
        "targets",
        &[
            ("board", Text),
            ("description", Text),
            ("state", Text),
            ("reason", Text),
            ("gpu", Json),
            ("virtual_time", Flag),
            ("computes", Flag),
            ("containment", Text),
            ("live", Json),
        ],
    ),
    (
        "ranges",
        &[
            ("name", Text),
            ("times", Count),
            ("first_event", Count),
            ("last_event", Count),
            ("total_ns", Count),
        ],
    ),
    (
        "tuning",
        &[
            ("rank", Count),
            ("verdict", Text),
            ("recorded", Flag),
            ("code", Text),
            ("grid", Numbers),
            ("block", Numbers),
            ("shared", Count),
            ("cache", Text),
            ("max_registers", Count),
            ("launch_bounds", Numbers),
            ("median_ns", Count),
            ("stdev_ns", Fraction),
            ("mad_ns", Count),
            ("speed_up", Fraction),
            ("times_ns", Counts),
            ("resources", Json),
            ("why", Text),
        ],
    ),
];

/// Returns a table of JSON rows. `name` is one of the tables above, `rows` the text of a JSON array of objects.
///
/// # Errors
/// `InternalError` if the table is not known, or the rows do not have its form.
#[pyfunction]
pub fn table_of_rows(py: Python<'_>, name: &str, rows: &[u8]) -> PyResult<Table> {
    let table = build(name, rows).map_err(|message| errors::internal(py, &format!("table '{name}': {message}")))?;
    Ok(Table::from(table))
}

fn build(name: &str, rows: &[u8]) -> Result<CollectedTable, String> {
    let found = TABLES.iter().find(|t| t.0 == name);
    let (_, columns) = found.ok_or("there is no such table")?;
    let rows: Vec<Value> = serde_json::from_slice(rows).map_err(|e| e.to_string())?;
    let built: Result<Vec<_>, String> = columns
        .iter()
        .map(|(name, kind)| Ok((*name, build_column(name, *kind, &rows)?, true)))
        .collect();
    let batch = RecordBatch::try_from_iter_with_nullable(built?).map_err(|e| e.to_string())?;
    Ok(CollectedTable {
        batches: vec![batch],
        problems: Vec::new(),
    })
}

fn build_column(name: &str, kind: ColumnKind, rows: &[Value]) -> Result<ArrayRef, String> {
    Ok(match kind {
        Text => Arc::new(
            collect(name, rows, |v| v.as_str().map(str::to_owned))?
                .into_iter()
                .collect::<StringArray>(),
        ),
        Json => Arc::new(
            collect(name, rows, |v| Some(v.to_string()))?
                .into_iter()
                .collect::<StringArray>(),
        ),
        Count => Arc::new(collect(name, rows, Value::as_u64)?.into_iter().collect::<UInt64Array>()),
        Hex => Arc::new(collect(name, rows, parse_hex)?.into_iter().collect::<UInt64Array>()),
        Fraction => Arc::new(
            collect(name, rows, Value::as_f64)?
                .into_iter()
                .collect::<Float64Array>(),
        ),
        Flag => Arc::new(
            collect(name, rows, Value::as_bool)?
                .into_iter()
                .collect::<BooleanArray>(),
        ),
        Numbers => {
            let lists = collect(name, rows, parse_numbers)?;
            Arc::new(ListArray::from_iter_primitive::<UInt32Type, _, _>(lists))
        }
        Counts => {
            let lists = collect(name, rows, parse_counts)?;
            Arc::new(ListArray::from_iter_primitive::<UInt64Type, _, _>(lists))
        }
    })
}

/// Returns the cells of a column. A key that is absent or `null` is an empty cell.
fn collect<T>(name: &str, rows: &[Value], parse: impl Fn(&Value) -> Option<T>) -> Result<Vec<Option<T>>, String> {
    let cell = |row: &Value| match row.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match parse(value) {
            Some(cell) => Ok(Some(cell)),
            None => Err(format!("'{name}' has the value {value}, which is of another type")),
        },
    };
    rows.iter().map(cell).collect()
}

fn parse_hex(value: &Value) -> Option<u64> {
    u64::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok()
}

fn parse_counts(value: &Value) -> Option<Vec<Option<u64>>> {
    value.as_array()?.iter().map(|v| v.as_u64().map(Some)).collect()
}

fn parse_numbers(value: &Value) -> Option<Vec<Option<u32>>> {
    let number = |v: &Value| u32::try_from(v.as_u64()?).ok().map(Some);
    value.as_array()?.iter().map(number).collect()
}
