//! Protection of unsaved edits: a question before the recording is left, and a notice while edits are in no file.

use super::app::App;
use super::pick::Pick;
use super::requests::{LeaveAction, Question};
use crate::log::{self, Level};
use egui::{Context, ViewportCommand};
use kinescope_files::journal::{self, SaveState, UnsavedChanges};
use kinescope_session::Document;
use std::sync::Arc;
use std::time::Duration;

/// Notice when edits are not saved anywhere.
const NOT_SAVED: &str = "the changes could not be saved next to the recording";

/// Interval of the checks of where edits are saved, while they are not in their normal location.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

impl App {
    /// Returns the edits that would be lost if the recording were left now.
    #[must_use]
    pub fn find_unsaved_edits(&self) -> Option<Arc<UnsavedChanges>> {
        let doc = self.doc.as_ref()?;
        let changes = doc.changes_in_memory();
        if !changes.is_empty() {
            let error = "The recording has no file of its own before its recorder finishes it.".to_owned();
            return Some(Arc::new(UnsavedChanges { error, changes }));
        }
        match doc.save_state() {
            // A line without an edit can wait, because nothing is lost.
            SaveState::InMemory(u) if u.changes.is_empty() => None,
            SaveState::InMemory(u) => Some(u),
            SaveState::NextToRecording | SaveState::InFallback { .. } => None,
        }
    }

    /// Returns `then` if the recording can be left. Otherwise returns `None` and asks the user, because edits are in no
    /// file.
    pub(super) fn check_leave(&mut self, then: LeaveAction) -> Option<LeaveAction> {
        // The document holds the state after the flush.
        let _ = self.doc.as_ref().map(Document::flush_journal);
        if self.find_unsaved_edits().is_none() {
            return Some(then);
        }
        self.question = Some(Question::Leave(then));
        None
    }

    /// Leaves the recording. If that would lose edits, asks the user first.
    pub fn leave(&mut self, ctx: &Context, then: LeaveAction) {
        if let Some(then) = self.check_leave(then) {
            self.leave_now(ctx, then);
        }
    }

    /// Leaves the recording, even if edits are lost.
    pub(super) fn leave_now(&mut self, ctx: &Context, then: LeaveAction) {
        self.question = None;
        self.close();
        match then {
            LeaveAction::Quit => ctx.send_viewport_cmd(ViewportCommand::Close),
            LeaveAction::Close => {}
            LeaveAction::Open(path, afterwards) => {
                self.after_open = afterwards;
                self.open(ctx, path);
            }
            LeaveAction::Follow(path) => self.follow_file(ctx, path),
            LeaveAction::Run(request) => self.run_program(ctx, *request),
            LeaveAction::Show(doc) => {
                self.show_document(*doc);
                self.derive_next_stage(ctx);
            }
        }
    }

    /// Asks for a path, saves the whole journal there, then leaves.
    pub(super) fn save_journal(&mut self, ctx: &Context) {
        let Some(doc) = &self.doc else { return };
        let file = journal::path_for(&doc.path);
        let name = file.file_name().map(|n| n.to_string_lossy().into_owned());
        self.pick(ctx, Pick::Save(name.unwrap_or_default()), |app, ctx, path| {
            let Some(doc) = &app.doc else { return };
            let done = doc.journal_contents().and_then(|text| {
                std::fs::write(&path, text)?;
                std::fs::File::open(&path)?.sync_all()
            });
            match done {
                Ok(()) => {
                    let message = format!(
                        "the journal of {} was saved as {}; to restore the edits, copy it next to the recording, as \
                         {}",
                        doc.title,
                        path.display(),
                        journal::path_for(&doc.path).display()
                    );
                    app.info(message);
                    if let Some(Question::Leave(then)) = app.question.take() {
                        app.leave_now(ctx, then);
                    }
                }
                Err(e) => app.error("the journal was not saved", &format!("{}: {e}", path.display())),
            }
        });
    }

    /// Discards the changes of an earlier run, after the user saw and confirmed them.
    pub(super) fn discard_left_edits(&mut self) {
        self.question = None;
        match self.doc.as_mut().map(Document::discard_offered) {
            Some(Ok(Some(to))) => {
                log::push(Level::Info, format!("discarded changes are in {}", to.display()));
                self.question = Some(Question::EditsDiscarded(to));
            }
            Some(Err(e)) => self.error("the file of the unsaved changes could not be renamed", &e),
            Some(Ok(None)) | None => {}
        }
    }

    /// Checks where the edits are saved, and reports a change.
    pub(super) fn poll_journal_state(&mut self, ctx: &Context) {
        let Some(doc) = &self.doc else {
            self.keeping = SaveState::NextToRecording;
            return;
        };
        let now = doc.save_state();
        let revision = doc.changes().revision();
        if now != SaveState::NextToRecording || self.seen_revision != revision {
            // The thread that writes the latest change does not wake the window.
            ctx.request_repaint_after(POLL_INTERVAL);
        }
        self.seen_revision = revision;
        let before = std::mem::replace(&mut self.keeping, now.clone());
        match (&before, &now) {
            (SaveState::InMemory(_), SaveState::InMemory(_))
            | (SaveState::InFallback { .. }, SaveState::InFallback { .. }) => {}
            (_, SaveState::InMemory(u)) => self.error(NOT_SAVED, &u.error),
            (_, SaveState::InFallback { path, why }) => log::push(
                Level::Warning,
                format!(
                    "edits are saved in {}, not next to the recording ({why})",
                    path.display()
                ),
            ),
            (SaveState::NextToRecording, SaveState::NextToRecording) => {}
            (_, SaveState::NextToRecording) => log::push(Level::Info, "edits are saved next to the recording"),
        }
        if !matches!(now, SaveState::InMemory(_)) {
            if self.notice.as_ref().is_some_and(|n| n.0 == NOT_SAVED) {
                self.notice = None;
            }
            if matches!(self.question, Some(Question::Leave(_))) && self.find_unsaved_edits().is_none() {
                // Nothing would be lost any more, so the question is obsolete. The user can request the action again.
                self.question = None;
            }
        }
    }
}
