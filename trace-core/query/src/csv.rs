//! Comma-separated text: a header line, then a line for each row.

use crate::error::TableError;
use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Schema};
use std::io::{self, Write};

/// A CSV file that is being written. Empty cells have no text; empty texts are quoted.
pub(crate) struct CsvFile<'a> {
    to: &'a mut (dyn Write + Send),
}

impl<'a> CsvFile<'a> {
    /// Writes the header line.
    pub(crate) fn new(schema: &Schema, to: &'a mut (dyn Write + Send)) -> io::Result<Self> {
        let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
        writeln!(to, "{}", names.join(","))?;
        Ok(Self { to })
    }

    /// Writes rows.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), TableError> {
        for row in 0..batch.num_rows() {
            for (i, column) in batch.columns().iter().enumerate() {
                if i > 0 {
                    self.to.write_all(b",")?;
                }
                if !column.is_null(row) {
                    write_cell(column, row, self.to)?;
                }
            }
            writeln!(self.to)?;
        }
        Ok(())
    }
}

fn write_cell(column: &ArrayRef, row: usize, to: &mut dyn Write) -> Result<(), TableError> {
    match column.data_type() {
        DataType::Utf8 => write_text(column.as_string::<i32>().value(row), to)?,
        DataType::UInt64 => write!(to, "{}", column.as_primitive::<UInt64Type>().value(row))?,
        DataType::UInt32 => write!(to, "{}", column.as_primitive::<UInt32Type>().value(row))?,
        DataType::Int64 => write!(to, "{}", column.as_primitive::<Int64Type>().value(row))?,
        DataType::Float64 => write!(to, "{}", column.as_primitive::<Float64Type>().value(row))?,
        DataType::Boolean => write!(to, "{}", column.as_boolean().value(row))?,
        other => return Err(ArrowError::CsvError(format!("CSV has no form for {other}")).into()),
    }
    Ok(())
}

/// Writes a text, quoted if it would otherwise be read as several cells or as none.
fn write_text(text: &str, to: &mut dyn Write) -> io::Result<()> {
    if text.is_empty() || text.contains([',', '"', '\n', '\r']) {
        write!(to, "\"{}\"", text.replace('"', "\"\""))
    } else {
        to.write_all(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{batch, column};

    #[test]
    fn empty_texts_differ_from_empty_cells() {
        let mut out = Vec::new();
        let rows = batch(vec![
            column("a", vec![Some(""), None, Some("x\ny")]),
            column("b", vec![true, false, true]),
            column("c", vec![Some(-1i64), None, Some(0)]),
        ]);
        let rows = rows.unwrap();
        CsvFile::new(&rows.schema(), &mut out).unwrap().write(&rows).unwrap();
        assert_eq!(out, b"a,b,c\n\"\",true,-1\n,false,\n\"x\ny\",true,0\n");
    }
}
