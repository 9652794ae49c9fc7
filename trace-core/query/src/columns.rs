//! Export of a caller's table in the formats of exports: named columns of cells, some of which are empty.

use crate::batch::{batch, column};
use crate::error::TableError;
use crate::export::{Format, Writer};
use std::io::Write;

/// The cells of a column; `None` is an empty cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cells {
    /// Integers.
    Whole(Vec<Option<u64>>),
    /// Floating-point numbers.
    Real(Vec<Option<f64>>),
    /// Texts.
    Text(Vec<Option<String>>),
}

impl Cells {
    /// Returns the number of cells.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Whole(c) => c.len(),
            Self::Real(c) => c.len(),
            Self::Text(c) => c.len(),
        }
    }

    /// Whether there are no cells.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A table that is written in batches of rows. All batches have the same columns.
pub struct ColumnWriter<'a> {
    writer: Writer<'a>,
}

impl<'a> ColumnWriter<'a> {
    /// Creates a table of a format. Nothing is written before the first batch.
    #[must_use]
    pub fn new(format: Format, to: &'a mut (dyn Write + Send)) -> Self {
        Self {
            writer: Writer::new(format, to),
        }
    }

    /// Writes columns of equal length under their names. A batch may have no rows.
    ///
    /// # Errors
    ///
    /// When the table cannot be written, the columns differ in length, or they are not those of the first batch.
    pub fn add(&mut self, columns: Vec<(&'static str, Cells)>) -> Result<(), TableError> {
        let columns = columns.into_iter().map(|(name, cells)| match cells {
            Cells::Whole(c) => column(name, c),
            Cells::Real(c) => column(name, c),
            Cells::Text(c) => column(name, c),
        });
        self.writer.batch(&batch(columns.collect())?)
    }

    /// Completes the table and returns its number of rows.
    ///
    /// # Errors
    ///
    /// When the table cannot be written.
    pub fn finish(self) -> Result<u64, TableError> {
        self.writer.finish()
    }
}

/// Writes columns of equal length under their names. Returns the number of rows.
///
/// # Errors
///
/// When `to` cannot be written, or the columns differ in length.
pub fn write_columns(
    columns: Vec<(&'static str, Cells)>,
    format: Format,
    to: &mut (dyn Write + Send),
) -> Result<u64, TableError> {
    let mut writer = ColumnWriter::new(format, to);
    writer.add(columns)?;
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray as _;
    use arrow_array::types::{Float64Type, UInt64Type};

    fn columns() -> Vec<(&'static str, Cells)> {
        vec![
            ("block", Cells::Whole(vec![Some(32), None])),
            ("mean", Cells::Real(vec![Some(0.1), Some(12_345.678_901_234)])),
            ("why", Cells::Text(vec![None, Some("a, b".into())])),
        ]
    }

    #[test]
    fn table_cells_round_trip() {
        let mut out = Vec::new();
        assert_eq!(write_columns(columns(), Format::Csv, &mut out).unwrap(), 2);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "block,mean,why\n32,0.1,\n,12345.678901234,\"a, b\"\n");
        let mut out = Vec::new();
        write_columns(columns(), Format::Parquet, &mut out).unwrap();
        let read = crate::export::tests::read_parquet(out);
        assert_eq!((read.num_rows(), read.num_columns()), (2, 3));
        let blocks = read.column_by_name("block").unwrap().as_primitive::<UInt64Type>();
        assert_eq!(blocks.iter().collect::<Vec<_>>(), [Some(32), None]);
        let means = read.column_by_name("mean").unwrap().as_primitive::<Float64Type>();
        assert_eq!(means.value(1), 12_345.678_901_234);
    }

    #[test]
    fn batches_become_one_table() {
        let mut out = Vec::new();
        let mut writer = ColumnWriter::new(Format::Parquet, &mut out);
        writer.add(columns()).unwrap();
        writer.add(columns()).unwrap();
        assert_eq!(writer.finish().unwrap(), 4);
        assert_eq!(crate::export::tests::read_parquet(out).num_rows(), 4);
        let mut out = Vec::new();
        let mut writer = ColumnWriter::new(Format::Parquet, &mut out);
        writer.add(columns()).unwrap();
        let other = writer.add(vec![("block", Cells::Text(vec![Some("x".into())]))]);
        assert!(other.is_err());
    }

    #[test]
    fn columns_of_several_lengths_are_refused() {
        let mut columns = columns();
        columns.push(("short", Cells::Whole(vec![Some(1)])));
        assert!(write_columns(columns, Format::Csv, &mut Vec::new()).is_err());
        let none = write_columns(vec![("a", Cells::Whole(Vec::new()))], Format::Csv, &mut Vec::new());
        assert_eq!(none.unwrap(), 0);
    }
}
