//! Tables as Parquet, Arrow IPC and CSV files.

use crate::tables::{self, Table, TableError};
use polars::prelude::{AnyValue, DataFrame};
use polars_io::SerWriter;
use polars_io::ipc::IpcWriter;
use polars_io::parquet::write::{BatchedWriter, ParquetWriter};
use std::io::{self, Write};
use std::path::Path;
use trace_core::Recording;
use trace_core::progress::Progress;
use trace_core::timeline::Timeline;

/// A columnar or text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Apache Parquet.
    Parquet,
    /// Arrow IPC file.
    Ipc,
    /// Comma-separated text with a header line.
    Csv,
}

impl Format {
    /// The format that a file's name asks for: `.parquet`, `.arrow`, `.ipc`, `.feather` or `.csv`.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "parquet" => Some(Self::Parquet),
            "arrow" | "ipc" | "feather" => Some(Self::Ipc),
            "csv" => Some(Self::Csv),
            _ => None,
        }
    }
}

/// What became of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Rows that were written.
    pub rows: u64,
    /// What could not be followed, in words: page tables with a hole.
    pub problems: Vec<String>,
}

/// Writes a table from its first byte to its last. Addresses, offsets and values are numbers; what a row has not is
/// null, in CSV nothing. Parquet and CSV are written a batch of rows at a time; Arrow is gathered first.
///
/// # Errors
/// When `to` cannot be written, the format cannot hold the table, or the work is cancelled.
pub fn export(
    table: Table,
    recording: &Recording,
    timeline: &Timeline,
    format: Format,
    to: &mut dyn Write,
    progress: &Progress,
) -> Result<Exported, TableError> {
    let mut rows = 0;
    let mut parquet: Option<BatchedWriter<&mut dyn Write>> = None;
    let mut whole: Option<DataFrame> = None;
    let mut to = Some(to);
    let mut head = true;
    let problems = tables::make(table, recording, timeline, progress, &mut |batch| {
        rows += batch.height() as u64;
        match format {
            Format::Csv => {
                if let Some(to) = to.as_mut() {
                    csv(&batch, head, to)?;
                }
                head = false;
            }
            Format::Ipc => match &mut whole {
                Some(whole) => {
                    whole.vstack_mut(&batch)?;
                }
                None => whole = Some(batch),
            },
            Format::Parquet => {
                if let Some(to) = to.take() {
                    parquet = Some(ParquetWriter::new(to).batched(batch.schema())?);
                }
                if let Some(writer) = &mut parquet {
                    writer.write_batch(&batch)?;
                }
            }
        }
        Ok(())
    })?;
    if let Some(writer) = &parquet {
        writer.finish()?;
    }
    if let (Some(mut whole), Some(to)) = (whole, to) {
        IpcWriter::new(to).finish(&mut whole)?;
    }
    Ok(Exported { rows, problems })
}

fn csv(table: &DataFrame, head: bool, out: &mut dyn Write) -> Result<(), TableError> {
    if head {
        let names: Vec<&str> = table.get_column_names().iter().map(|n| n.as_str()).collect();
        writeln!(out, "{}", names.join(","))?;
    }
    let columns: Vec<_> = table.columns().iter().map(|c| c.as_materialized_series()).collect();
    for row in 0..table.height() {
        for (i, column) in columns.iter().enumerate() {
            if i > 0 {
                out.write_all(b",")?;
            }
            match column.get(row)? {
                AnyValue::Null => {}
                AnyValue::String(text) => quoted(text, out)?,
                AnyValue::UInt64(n) => write!(out, "{n}")?,
                AnyValue::UInt32(n) => write!(out, "{n}")?,
                other => quoted(&other.str_value(), out)?,
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

/// A cell of text; quoted where it would be read as more than one, or as nothing.
fn quoted(text: &str, out: &mut dyn Write) -> io::Result<()> {
    if text.is_empty() || text.contains([',', '"', '\n', '\r']) {
        write!(out, "\"{}\"", text.replace('"', "\"\""))
    } else {
        out.write_all(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polars::prelude::Column;
    use polars_io::SerReader;
    use std::io::Cursor;
    use trace_core::recording::{Access, EventsBuilder};

    /// More events than a batch has, of every kind, with a mark that needs quotes.
    fn recording() -> Recording {
        let mut b = EventsBuilder::new();
        b.mark(1, "a \"mark\", with a comma");
        for i in 0..70_000u32 {
            let access = Access {
                space: 0,
                write: i % 3 == 0,
                offset: i % 64 * 4,
                width: 4,
                value: u64::from(i),
            };
            b.access(u64::from(i) * 7, i % 5, access);
        }
        Recording {
            events: b.finish(),
            ..Recording::default()
        }
    }

    fn bytes(table: Table, format: Format) -> Vec<u8> {
        let mut out = Vec::new();
        let timeline = Timeline::default();
        export(table, &recording(), &timeline, format, &mut out, &Progress::new()).unwrap();
        out
    }

    #[test]
    fn both_columnar_formats_give_the_same_table_back() {
        for table in Table::ALL {
            let parquet = polars_io::parquet::read::ParquetReader::new(Cursor::new(bytes(table, Format::Parquet)));
            let ipc = polars_io::ipc::IpcReader::new(Cursor::new(bytes(table, Format::Ipc)));
            let (parquet, ipc) = (parquet.finish().unwrap(), ipc.finish().unwrap());
            assert!(parquet.equals_missing(&ipc), "{}", table.name());
            if table == Table::Events {
                assert_eq!(parquet.shape(), (70_001, 10));
            }
        }
    }

    #[test]
    fn csv_quotes_what_needs_it_and_leaves_out_what_is_not_there() {
        let text = String::from_utf8(bytes(Table::Events, Format::Csv)).unwrap();
        let mut lines = text.lines();
        assert_eq!(
            lines.next(),
            Some("event,kind,time_ns,thread,space,offset,register,width,value,means")
        );
        assert_eq!(lines.next(), Some("0,mark,1,0,,,,,,\"a \"\"mark\"\", with a comma\""));
        assert_eq!(lines.next(), Some("1,write,0,0,,0,,4,0,"));
        assert_eq!(text.lines().count(), 70_002);
        let mut out = Vec::new();
        let cells = Column::new("a".into(), vec![Some(""), None, Some("x\ny")]);
        csv(&DataFrame::new(3, vec![cells]).unwrap(), true, &mut out).unwrap();
        assert_eq!(out, b"a\n\"\"\n\n\"x\ny\"\n");
    }

    #[test]
    fn an_export_that_nobody_wants_any_more_ends() {
        let progress = Progress::new();
        progress.cancel();
        let mut out = Vec::new();
        let ended = export(
            Table::Events,
            &recording(),
            &Timeline::default(),
            Format::Csv,
            &mut out,
            &progress,
        );
        assert!(matches!(ended, Err(TableError::Cancelled(_))));
        assert_eq!(Format::of(Path::new("t.txt")), None);
    }
}
