//! Tables as Parquet, Arrow IPC and CSV files.

use crate::csv::CsvFile;
use crate::error::TableError;
use crate::tables::{self, Table};
use arrow_array::RecordBatch;
use arrow_ipc::writer::FileWriter;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use std::io::Write;
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
    to: &mut (dyn Write + Send),
    progress: &Progress,
) -> Result<ExportSummary, TableError> {
    let mut writer = Writer::new(format, to);
    let problems = tables::build_table(table, recording, timeline, progress, &mut |batch| writer.batch(&batch))?;
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
    to: &mut (dyn Write + Send),
    progress: &Progress,
) -> Result<ExportSummary, TableError> {
    let mut writer = Writer::new(format, to);
    tables::build_selected_events(recording, chosen, progress, &mut |batch| writer.batch(&batch))?;
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
    Begin(Option<&'a mut (dyn Write + Send)>),
    Csv(CsvFile<'a>),
    Parquet(Box<ArrowWriter<&'a mut (dyn Write + Send)>>),
    Ipc(Box<FileWriter<&'a mut (dyn Write + Send)>>),
}

impl<'a> Writer<'a> {
    pub(crate) fn new(format: Format, to: &'a mut (dyn Write + Send)) -> Self {
        Self {
            format,
            rows: 0,
            state: State::Begin(Some(to)),
        }
    }

    pub(crate) fn batch(&mut self, batch: &RecordBatch) -> Result<(), TableError> {
        if let State::Begin(to) = &mut self.state
            && let Some(to) = to.take()
        {
            self.state = match self.format {
                Format::Csv => State::Csv(CsvFile::new(&batch.schema(), to)?),
                Format::Parquet => {
                    // Every reader of Parquet knows Snappy.
                    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
                    State::Parquet(Box::new(ArrowWriter::try_new(to, batch.schema(), Some(properties))?))
                }
                Format::Ipc => State::Ipc(Box::new(FileWriter::try_new(to, &batch.schema())?)),
            };
        }
        match &mut self.state {
            State::Begin(_) => {}
            State::Csv(file) => file.write(batch)?,
            State::Parquet(writer) => writer.write(batch)?,
            State::Ipc(file) => file.write(batch)?,
        }
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// Completes the file and returns its number of rows.
    pub(crate) fn finish(self) -> Result<u64, TableError> {
        match self.state {
            State::Parquet(writer) => {
                writer.close()?;
            }
            State::Ipc(mut file) => file.finish()?,
            State::Begin(_) | State::Csv(_) => {}
        }
        Ok(self.rows)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use arrow_array::UInt32Array;
    use arrow_array::cast::AsArray as _;
    use arrow_ipc::reader::FileReader;
    use arrow_schema::DataType;
    use arrow_select::concat::concat_batches;
    use arrow_select::take::take_record_batch;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use std::io::Cursor;
    use trace_core::RegOffset;
    use trace_core::recording::{Access, EventsBuilder};

    /// Returns more events than a batch has, of every kind, with a mark that needs quotes.
    fn recording() -> Recording {
        let mut b = EventsBuilder::new();
        b.mark(1, "a \"mark\", with a comma");
        for i in 0..70_000u32 {
            let access = Access {
                space: 0,
                write: i % 3 == 0,
                offset: RegOffset::new(i % 64 * 4),
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

    /// Returns all rows of a Parquet file.
    pub(crate) fn read_parquet(bytes: Vec<u8>) -> RecordBatch {
        let builder = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(bytes)).unwrap();
        let schema = builder.schema().clone();
        let batches: Vec<_> = builder.build().unwrap().map(Result::unwrap).collect();
        concat_batches(&schema, &batches).unwrap()
    }

    fn read_ipc(bytes: Vec<u8>) -> RecordBatch {
        let reader = FileReader::try_new(Cursor::new(bytes), None).unwrap();
        let schema = reader.schema();
        let batches: Vec<_> = reader.map(Result::unwrap).collect();
        concat_batches(&schema, &batches).unwrap()
    }

    fn bytes(table: Table, format: Format) -> Vec<u8> {
        let mut out = Vec::new();
        let timeline = Timeline::default();
        export(table, &recording(), &timeline, format, &mut out, &Progress::new()).unwrap();
        out
    }

    #[test]
    fn parquet_and_arrow_exports_are_equal() {
        for table in Table::ALL {
            let parquet = read_parquet(bytes(table, Format::Parquet));
            let ipc = read_ipc(bytes(table, Format::Ipc));
            assert_eq!(parquet.columns(), ipc.columns(), "{}", table.name());
            let types = |b: &RecordBatch| {
                let fields = b.schema();
                let types = fields
                    .fields()
                    .iter()
                    .map(|f| (f.name().clone(), f.data_type().clone()));
                types.collect::<Vec<_>>()
            };
            assert_eq!(types(&parquet), types(&ipc), "{}", table.name());
            // pyarrow cannot filter, group or sort by `string_view`.
            assert!(!types(&ipc).iter().any(|t| t.1 == DataType::Utf8View));
            if table == Table::Events {
                assert_eq!((parquet.num_rows(), parquet.num_columns()), (70_001, 10));
                assert_eq!(
                    parquet.column_by_name("means").unwrap().as_string::<i32>().value(0),
                    "a \"mark\", with a comma"
                );
            }
        }
    }

    #[test]
    fn selected_events_export_their_rows_of_the_full_table() {
        let recording = recording();
        let all = read_parquet(bytes(Table::Events, Format::Parquet));
        for every in [1u64, 3, 70_000, 1 << 40] {
            let chosen: Vec<u64> = (0..70_001).filter(|e| every < 1 << 40 && e % every == 0).collect();
            let selection: Selection = chosen.iter().copied().collect();
            let rows: UInt32Array = chosen.iter().map(|e| *e as u32).collect::<Vec<_>>().into();
            let expected = take_record_batch(&all, &rows).unwrap();
            for format in [Format::Parquet, Format::Ipc] {
                let mut out = Vec::new();
                let done = export_events(&recording, &selection, format, &mut out, &Progress::new()).unwrap();
                assert_eq!(done.rows, chosen.len() as u64);
                let found = match format {
                    Format::Ipc => read_ipc(out),
                    _ => read_parquet(out),
                };
                assert_eq!(found.columns(), expected.columns(), "every {every}, {format:?}");
            }
        }
    }

    #[test]
    fn csv_quotes_text_and_leaves_missing_cells_empty() {
        let text = String::from_utf8(bytes(Table::Events, Format::Csv)).unwrap();
        let mut lines = text.lines();
        assert_eq!(
            lines.next(),
            Some("event,kind,time_ns,thread,space,offset,register,width,value,means")
        );
        assert_eq!(lines.next(), Some("0,mark,1,0,,,,,,\"a \"\"mark\"\", with a comma\""));
        assert_eq!(lines.next(), Some("1,write,0,0,,0,,4,0,"));
        assert_eq!(text.lines().count(), 70_002);
    }

    #[test]
    fn cancelled_table_export_ends() {
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

    /// A writer on a full disk.
    struct FullDisk;

    impl Write for FullDisk {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn full_disk_is_an_error_of_the_file_in_every_format() {
        let (recording, timeline) = (recording(), Timeline::default());
        for format in [Format::Parquet, Format::Ipc, Format::Csv] {
            let to = &mut FullDisk;
            let result = export(Table::Events, &recording, &timeline, format, to, &Progress::new());
            let Err(TableError::Write(e)) = result else {
                panic!("{format:?}: {result:?}");
            };
            assert_eq!(e.kind(), std::io::ErrorKind::StorageFull, "{format:?}");
        }
    }
}
