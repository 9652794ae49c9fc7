//! Tables as Parquet, Arrow IPC and CSV files.

use crate::plain::{ArrowFile, parquet_metadata};
use crate::tables::{self, Table, TableError};
use polars::prelude::{AnyValue, DataFrame};
use polars_io::parquet::write::{BatchedWriter as ParquetBatches, ParquetWriter};
use std::io::{self, Write};
use std::path::Path;
use trace_core::Recording;
use trace_core::filter::Selection;
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
    /// Returns the format of a file name: `.parquet`, `.arrow`, `.ipc`, `.feather` or `.csv`.
    #[must_use]
    pub fn from_path(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "parquet" => Some(Self::Parquet),
            "arrow" | "ipc" | "feather" => Some(Self::Ipc),
            "csv" => Some(Self::Csv),
            _ => None,
        }
    }
}

/// The result of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportSummary {
    /// Number of rows written.
    pub rows: u64,
    /// Descriptions of data that could not be followed: page tables with a hole.
    pub problems: Vec<String>,
}

/// Writes a table, one batch of rows at a time. Addresses, offsets and values are numbers; missing cells are null, or
/// empty in CSV.
///
/// # Errors
///
/// When `to` cannot be written, the format cannot hold the table, or the work is cancelled.
pub fn export(
    table: Table,
    recording: &Recording,
    timeline: &Timeline,
    format: Format,
    to: &mut dyn Write,
    progress: &Progress,
) -> Result<ExportSummary, TableError> {
    let mut writer = Writer::new(format, to);
    let problems = tables::build_table(table, recording, timeline, progress, &mut |batch| writer.batch(batch))?;
    let rows = writer.finish()?;
    Ok(ExportSummary { rows, problems })
}

/// Writes selected rows of [`Table::Events`], in the form of [`export`].
///
/// # Errors
///
/// Same as [`export`].
pub fn export_events(
    recording: &Recording,
    chosen: &Selection,
    format: Format,
    to: &mut dyn Write,
    progress: &Progress,
) -> Result<ExportSummary, TableError> {
    let mut writer = Writer::new(format, to);
    tables::build_selected_events(recording, chosen, progress, &mut |batch| writer.batch(batch))?;
    let rows = writer.finish()?;
    Ok(ExportSummary {
        rows,
        problems: Vec::new(),
    })
}

/// A file that is being written.
pub(crate) struct Writer<'a> {
    format: Format,
    rows: u64,
    state: State<'a>,
}

enum State<'a> {
    /// Nothing is written yet: the first batch gives the columns.
    Begin(Option<&'a mut dyn Write>),
    Csv(&'a mut dyn Write),
    Parquet(Box<ParquetBatches<&'a mut dyn Write>>),
    Ipc(Box<ArrowFile<&'a mut dyn Write>>),
}

impl<'a> Writer<'a> {
    pub(crate) fn new(format: Format, to: &'a mut dyn Write) -> Self {
        Self {
            format,
            rows: 0,
            state: State::Begin(Some(to)),
        }
    }

    pub(crate) fn batch(&mut self, mut batch: DataFrame) -> Result<(), TableError> {
        if let State::Begin(to) = &mut self.state
            && let Some(to) = to.take()
        {
            self.state = match self.format {
                Format::Csv => {
                    csv_head(&batch, to)?;
                    State::Csv(to)
                }
                Format::Parquet => {
                    let plain = parquet_metadata(batch.schema());
                    let writer = ParquetWriter::new(to).with_key_value_metadata(Some(plain));
                    State::Parquet(Box::new(writer.batched(batch.schema())?))
                }
                Format::Ipc => State::Ipc(Box::new(ArrowFile::new(batch.schema(), to)?)),
            };
        }
        self.rows += batch.height() as u64;
        match &mut self.state {
            State::Begin(_) => {}
            State::Csv(to) => csv(&batch, to)?,
            State::Parquet(writer) => writer.write_batch(&batch)?,
            State::Ipc(file) => file.write(&mut batch)?,
        }
        Ok(())
    }

    /// Completes the file and returns its number of rows.
    pub(crate) fn finish(self) -> Result<u64, TableError> {
        match self.state {
            State::Parquet(writer) => {
                writer.finish()?;
            }
            State::Ipc(file) => file.finish()?,
            State::Begin(_) | State::Csv(_) => {}
        }
        Ok(self.rows)
    }
}

fn csv_head(table: &DataFrame, out: &mut dyn Write) -> Result<(), TableError> {
    let names: Vec<&str> = table.get_column_names().iter().map(|n| n.as_str()).collect();
    Ok(writeln!(out, "{}", names.join(","))?)
}

fn csv(table: &DataFrame, out: &mut dyn Write) -> Result<(), TableError> {
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
                AnyValue::Float64(x) => write!(out, "{x}")?,
                other => quoted(&other.str_value(), out)?,
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Writes a cell of text, quoted if it would otherwise be read as several cells or as none.
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
    use polars::prelude::{Column, IdxCa};
    use polars_io::SerReader;
    use std::io::Cursor;
    use trace_core::recording::{Access, EventsBuilder};

    /// Returns more events than a batch has, of every kind, with a mark that needs quotes.
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
    fn chosen_events_are_those_rows_of_the_whole_table() {
        let recording = recording();
        let all = polars_io::parquet::read::ParquetReader::new(Cursor::new(bytes(Table::Events, Format::Parquet)));
        let all = all.finish().unwrap();
        for every in [1u64, 3, 70_000, 1 << 40] {
            let chosen: Vec<u64> = (0..70_001).filter(|e| every < 1 << 40 && e % every == 0).collect();
            let selection: Selection = chosen.iter().copied().collect();
            let rows: Vec<u32> = chosen.iter().map(|e| *e as u32).collect();
            let wanted = all.take(&IdxCa::from_vec("".into(), rows)).unwrap();
            for format in [Format::Parquet, Format::Ipc] {
                let mut out = Vec::new();
                let done = export_events(&recording, &selection, format, &mut out, &Progress::new()).unwrap();
                assert_eq!(done.rows, chosen.len() as u64);
                let found = match format {
                    Format::Ipc => polars_io::ipc::IpcReader::new(Cursor::new(out)).finish(),
                    _ => polars_io::parquet::read::ParquetReader::new(Cursor::new(out)).finish(),
                };
                assert!(found.unwrap().equals_missing(&wanted), "every {every}, {format:?}");
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
        let cells = DataFrame::new(3, vec![cells]).unwrap();
        csv_head(&cells, &mut out).unwrap();
        csv(&cells, &mut out).unwrap();
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
        assert_eq!(Format::from_path(Path::new("t.txt")), None);
    }
}
