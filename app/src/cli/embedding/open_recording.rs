//! A recording that another program holds open, and the tables of it.

use crate::cli::source::{self, Source, SourceRecording};
use crate::cli::{Failure, FailureKind, event_filter};
use std::path::{Path, PathBuf};
use trace_core::Recording;
use trace_core::progress::Progress;
use trace_core::registers::RecordedRegisters;
use trace_core::timeline::Timeline;
use trace_query::{CollectedTable, EventColumns, EventSelection, EventStream, Table, TableError};

use super::run_step;

/// An open recording.
pub struct EmbeddedRecording(SourceRecording);

impl EmbeddedRecording {
    /// Opens or imports a recording.
    ///
    /// # Errors
    /// When it cannot be read, or the work was cancelled.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let opened = Source { file: path.to_owned() }.open();
        source::report_damage();
        opened.map(Self)
    }

    /// Returns the recording as verbs open it.
    pub(super) fn source(&self) -> &SourceRecording {
        &self.0
    }

    /// Returns its file or folder, as given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.file
    }

    /// Returns the recording.
    #[must_use]
    pub fn recording(&self) -> &Recording {
        &self.0.recording
    }

    /// Returns the names of its registers, if a register map knows them.
    #[must_use]
    pub fn register_names(&self) -> Option<RecordedRegisters> {
        self.0.device
    }

    /// Checks that `event` is at most the number of events.
    ///
    /// # Errors
    /// When it is larger.
    pub fn check_event(&self, event: u64) -> Result<u64, Failure> {
        self.0.check_event(Some(event))
    }

    /// Builds the table of the events that pass a filter, or of all events without one. `columns` are names of columns;
    /// without them, the table has all.
    ///
    /// # Errors
    /// When the filter or a column is not valid, the recording is damaged, or the work was cancelled.
    pub fn events(&self, filter: Option<&str>, columns: Option<&[String]>) -> Result<CollectedTable, Failure> {
        let columns = self.event_columns(columns)?;
        let selection = self.select_events(filter)?;
        self.collect(|progress| trace_query::collect_events(&self.0.recording, &selection, &columns, progress))
    }

    /// Returns the rows of [`Self::events`] in batches that are built when they are taken.
    ///
    /// # Errors
    /// When the filter or a column is not valid, or the filter reads a damaged part of the recording.
    pub fn stream_events(&self, filter: Option<&str>, columns: Option<&[String]>) -> Result<EmbeddedEvents, Failure> {
        Ok(EmbeddedEvents {
            columns: self.event_columns(columns)?,
            selection: self.select_events(filter)?,
            recording: self.0.recording.clone(),
            file: self.path().to_owned(),
        })
    }

    fn event_columns(&self, names: Option<&[String]>) -> Result<EventColumns, Failure> {
        let Some(names) = names else {
            return Ok(EventColumns::default());
        };
        let columns = EventColumns::from_names(names, &self.0.recording);
        columns.map_err(|e| Failure::usage(e.to_string()).with_kind(FailureKind::Arguments))
    }

    fn select_events(&self, filter: Option<&str>) -> Result<EventSelection, Failure> {
        Ok(match filter {
            Some(filter) => EventSelection::Selected(event_filter::select("where", filter, &self.0)?),
            None => EventSelection::All,
        })
    }

    /// Builds a table.
    ///
    /// # Errors
    /// When the recording is damaged, or the work was cancelled.
    pub fn table(&self, table: Table) -> Result<CollectedTable, Failure> {
        let timeline = match table {
            Table::Jobs | Table::Shaders => self.0.timeline()?,
            _ => Timeline::default(),
        };
        self.collect(|progress| trace_query::collect_table(table, &self.0.recording, &timeline, progress))
    }

    fn collect(
        &self,
        collect: impl FnOnce(&Progress) -> Result<CollectedTable, TableError>,
    ) -> Result<CollectedTable, Failure> {
        let table = run_step("building the table", |progress| {
            collect(progress).map_err(|e| Failure::file(self.path(), e).with_kind(FailureKind::Other))
        })?;
        // A damaged block would leave zeros in the table.
        self.0.check_used()?;
        Ok(table)
    }
}

/// Selected events of a recording, for any number of streams.
#[derive(Clone, Debug)]
pub struct EmbeddedEvents {
    recording: Recording,
    selection: EventSelection,
    columns: EventColumns,
    file: PathBuf,
}

impl EmbeddedEvents {
    /// Returns a stream from the first event on. Its threads start with the first batch.
    #[must_use]
    pub fn stream(&self) -> EventStream {
        EventStream::new(self.recording.clone(), self.selection.clone(), self.columns.clone())
    }

    /// Returns the number of events.
    #[must_use]
    pub fn count(&self) -> usize {
        self.selection.count(&self.recording)
    }

    /// Returns the file or folder of the recording.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.file
    }

    /// Returns the failure that an error of a stream is.
    #[must_use]
    pub fn failure(&self, error: TableError) -> Failure {
        let kind = match error {
            TableError::Damaged { .. } => FailureKind::Open,
            _ => FailureKind::Other,
        };
        Failure::file(&self.file, error).with_kind(kind)
    }
}
