//! State of the Campaign panel.

use crate::panels::common::campaign_run::{CampaignRun, CheckedDescription, SharedReader};
use kinescope_campaign::{CellKey, Snapshot};
use kinescope_session::running_work::RunningWork;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// State of the panel.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Why nothing could be opened.
    pub error: Option<String>,
    /// The open folder: its reader, and the last reading.
    opened: Option<(SharedReader, Arc<Snapshot>)>,
    /// The description to run.
    pub description: Option<Arc<CheckedDescription>>,
    /// The typed folder for results.
    pub folder: String,
    /// Whether the user confirmed that targets may be hardware.
    pub accepts_hardware: bool,
    /// The selected cell.
    pub selected: Option<CellKey>,
    run: Option<(CampaignRun, RunningWork)>,
    /// How the last run ended, in one line, and whether it was good.
    pub(super) end: Option<(String, bool)>,
    /// When the folder was read last, and whether it is being read.
    read: Option<(Instant, bool)>,
}

impl View {
    /// Whether there is nothing to show.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.opened.is_none() && self.description.is_none()
    }

    /// Takes another reading of a folder, or why it cannot be read; then the last one stays. The reading of a folder that
    /// is not open any more is dropped.
    pub fn show(&mut self, reader: &SharedReader, read: Result<Arc<Snapshot>, String>) {
        let Some((_, shown)) = self.opened.as_mut().filter(|(open, _)| Arc::ptr_eq(open, reader)) else {
            return;
        };
        self.read = Some((Instant::now(), false));
        match read {
            Ok(snapshot) => {
                self.error = None;
                *shown = snapshot;
            }
            Err(error) => self.error = Some(error),
        }
    }

    /// Opens another folder: what belongs to the one before is dropped.
    pub fn open(&mut self, opened: Result<(SharedReader, Arc<Snapshot>), String>) {
        if self.running().is_none() {
            self.run = None;
        }
        self.opened = None;
        self.selected = None;
        self.description = None;
        self.end = None;
        self.read = Some((Instant::now(), false));
        match opened {
            Ok(opened) => {
                self.error = None;
                self.opened = Some(opened);
            }
            Err(error) => self.error = Some(error),
        }
    }

    /// Returns the reader of the open folder.
    #[must_use]
    pub fn reader(&self) -> Option<SharedReader> {
        self.opened.as_ref().map(|(reader, _)| Arc::clone(reader))
    }

    /// Takes a checked description, or why it cannot be run.
    pub fn describe(&mut self, checked: Result<CheckedDescription, String>) {
        match checked {
            Ok(description) => {
                self.folder = description.path.with_extension("campaign").display().to_string();
                self.description = Some(Arc::new(description));
                self.error = None;
                self.accepts_hardware = false;
            }
            Err(error) => self.error = Some(error),
        }
    }

    /// Returns what to show: the campaign that this process runs, or else the open folder.
    #[must_use]
    pub fn shown(&self) -> Option<Arc<Snapshot>> {
        let live = self.run.as_ref().and_then(|(run, _)| {
            let live = run.live.lock().unwrap_or_else(PoisonError::into_inner);
            live.clone()
        });
        live.or_else(|| self.opened.as_ref().map(|(_, snapshot)| Arc::clone(snapshot)))
    }

    /// Whether the open campaign is run by another process.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.run.is_none() && self.opened.as_ref().is_some_and(|(_, shown)| shown.is_elsewhere)
    }

    /// Whether the open campaign may change: another process runs it, or can go on with it.
    pub(super) fn may_change(&self) -> bool {
        let has_waiting = |shown: &Snapshot| shown.status.counts.done < shown.status.counts.total();
        let may_change = |shown: &Snapshot| shown.is_elsewhere || has_waiting(shown);
        self.run.is_none() && self.opened.as_ref().is_some_and(|(_, shown)| may_change(shown))
    }

    /// Whether to read the folder again now: its campaign may change, and the last reading is old.
    pub(super) fn is_reading_due(&self, interval: Duration) -> bool {
        let is_old = self
            .read
            .is_none_or(|(at, reading)| !reading && at.elapsed() >= interval);
        is_old && self.may_change()
    }

    pub(super) fn begin_reading(&mut self) {
        self.read = Some((Instant::now(), true));
    }

    /// Returns the work of the run, while it goes on.
    #[must_use]
    pub fn running(&self) -> Option<&RunningWork> {
        self.run.as_ref().map(|(_, work)| work).filter(|work| work.is_alive())
    }

    /// Takes a run that started.
    pub fn begin(&mut self, run: CampaignRun, work: RunningWork) {
        self.opened = None;
        self.selected = None;
        self.run = Some((run, work));
        self.end = None;
    }

    /// Takes the end of a run: in one line, and whether it was good.
    pub fn finish(&mut self, message: String, is_good: bool) {
        self.end = Some((message, is_good));
    }

    /// Returns how the last run ended, in one line.
    #[must_use]
    pub fn end(&self) -> Option<&str> {
        self.end.as_ref().map(|(message, _)| message.as_str())
    }
}
