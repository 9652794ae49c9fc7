//! State of the Campaign panel.

use crate::panels::common::campaign_run::{CampaignRun, CheckedDescription};
use kinescope_campaign::{CellKey, Snapshot};
use kinescope_session::running_work::RunningWork;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// State of the panel.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Why nothing could be opened.
    pub error: Option<String>,
    /// The last reading of the open folder.
    opened: Option<Arc<Snapshot>>,
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

    /// Takes a reading of a folder, or why it cannot be read.
    pub fn show(&mut self, opened: Result<Snapshot, String>) {
        self.read = Some((Instant::now(), false));
        match opened {
            Ok(snapshot) => {
                self.error = None;
                self.opened = Some(Arc::new(snapshot));
            }
            Err(error) => self.error = Some(error),
        }
    }

    /// Opens another folder: what belongs to the one before is dropped.
    pub fn open(&mut self, opened: Result<Snapshot, String>) {
        if self.running().is_none() {
            self.run = None;
        }
        self.opened = None;
        self.selected = None;
        self.description = None;
        self.end = None;
        self.show(opened);
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
        live.or_else(|| self.opened.clone())
    }

    /// Whether the open campaign is run by another process.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.run.is_none() && self.opened.as_ref().is_some_and(|o| o.is_elsewhere)
    }

    /// Returns the folder to read again now: another process runs its campaign, and the last reading is old.
    pub(super) fn folder_to_read(&self, interval: Duration) -> Option<PathBuf> {
        let opened = self.opened.as_ref().filter(|_| self.is_live())?;
        let is_due = self
            .read
            .is_none_or(|(at, reading)| !reading && at.elapsed() >= interval);
        is_due.then(|| opened.folder.clone())
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
