//! A recording that another program holds open, and the tables of it.

use crate::cli::source::{self, Source, SourceRecording};
use crate::cli::{Failure, FailureKind, event_filter};
use std::path::Path;
use trace_core::Recording;
use trace_core::progress::Progress;
use trace_core::registers::RecordedRegisters;
use trace_core::timeline::Timeline;
use trace_query::{CollectedTable, Table};

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

    /// Builds the table of the events that pass a filter, or of all events without one.
    ///
    /// # Errors
    /// When the filter is not valid, the recording is damaged, or the work was cancelled.
    pub fn events(&self, filter: Option<&str>) -> Result<CollectedTable, Failure> {
        let Some(filter) = filter else {
            return self.table(Table::Events);
        };
        let chosen = event_filter::select("where", filter, &self.0)?;
        self.collect(|progress| trace_query::collect_events(&self.0.recording, &chosen, progress))
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
        collect: impl FnOnce(&Progress) -> Result<CollectedTable, trace_query::TableError>,
    ) -> Result<CollectedTable, Failure> {
        let table = run_step("building the table", |progress| {
            collect(progress).map_err(|e| Failure::file(self.path(), e).with_kind(FailureKind::Other))
        })?;
        // A damaged block would leave zeros in the table.
        self.0.check_used()?;
        Ok(table)
    }
}
