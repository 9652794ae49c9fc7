//! Leaving the open recording: when edits of it stand in no file, the person is asked first. And telling them, as long
//! as that is so.

use super::app::App;
use super::links::AfterOpen;
use super::pick::Pick;
use crate::document::Document;
use crate::document::journal::{self, SaveState, UnsavedChanges};
use crate::log::{self, Level};
use egui::{Context, ViewportCommand};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What is told where edits are kept nowhere.
const NOT_SAVED: &str = "the changes could not be kept beside the recording";

/// How often the window looks where the edits are kept, while they are not where they belong.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// What was about to be done when edits stood in no file.
pub enum LeaveAction {
    /// Ending the program.
    Quit,
    /// Closing the recording.
    Close,
    /// Opening another one, or the same again, and what happens then.
    Open(PathBuf, AfterOpen),
    /// Showing one that was read already.
    Show(Box<Document>),
}

impl LeaveAction {
    /// It as a verb.
    #[must_use]
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Quit => "Quit",
            Self::Close => "Close",
            Self::Open(..) | Self::Show(_) => "Open",
        }
    }
}

/// Something that the person is asked, or told, before anything else.
pub enum Question {
    /// Whether to lose the edits that stand in no file.
    Leave(LeaveAction),
    /// Whether to forget the changes that were left behind.
    DiscardEdits,
    /// Where the forgotten changes are now.
    EditsDiscarded(PathBuf),
    /// Whether a copy of the recording holds the edits.
    SaveCopy,
    /// Which recording of a folder to open.
    Recordings {
        /// The folder, which is no recording itself.
        folder: PathBuf,
        /// The recordings that lie in it, by name.
        recordings: Vec<PathBuf>,
    },
}

impl App {
    /// The edits that would be lost if the recording were left now.
    #[must_use]
    pub fn find_unsaved_edits(&self) -> Option<Arc<UnsavedChanges>> {
        match self.doc.as_ref()?.save_state() {
            // A line that holds no edit may wait without anything being lost.
            SaveState::InMemory(u) if u.changes.is_empty() => None,
            SaveState::InMemory(u) => Some(u),
            SaveState::NextToRecording | SaveState::InFallback { .. } => None,
        }
    }

    /// Whether the recording may be left. `None`: edits of it stand in no file, and the person is asked.
    pub(super) fn check_leave(&mut self, then: LeaveAction) -> Option<LeaveAction> {
        // What it is now stands in the document afterwards.
        let _ = self.doc.as_ref().map(Document::flush_journal);
        if self.find_unsaved_edits().is_none() {
            return Some(then);
        }
        self.question = Some(Question::Leave(then));
        None
    }

    /// Leaves the recording, unless that would lose edits: then the person is asked.
    pub fn leave(&mut self, ctx: &Context, then: LeaveAction) {
        if let Some(then) = self.check_leave(then) {
            self.leave_now(ctx, then);
        }
    }

    /// Leaves the recording whatever is lost with it.
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
            LeaveAction::Show(doc) => {
                self.show_document(*doc);
                self.derive_next_stage(ctx);
            }
        }
    }

    /// Asks for a place, keeps the whole journal there, and then leaves.
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
                        "the journal of {} was saved as {}; beside the recording, as {}, it is taken up again",
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

    /// Forgets the changes that were left behind, once the person saw them and said so.
    pub(super) fn discard_left_edits(&mut self) {
        self.question = None;
        match self.doc.as_mut().map(Document::discard_offered) {
            Some(Ok(Some(to))) => {
                log::push(Level::Info, format!("discarded changes are in {}", to.display()));
                self.question = Some(Question::EditsDiscarded(to));
            }
            Some(Err(e)) => self.error("the changes left behind could not be put aside", &e),
            Some(Ok(None)) | None => {}
        }
    }

    /// Notices where the edits are kept, and tells when that changed.
    pub(super) fn poll_journal_state(&mut self, ctx: &Context) {
        let Some(doc) = &self.doc else {
            self.keeping = SaveState::NextToRecording;
            return;
        };
        let now = doc.save_state();
        let revision = doc.changes().revision();
        if now != SaveState::NextToRecording || self.seen_revision != revision {
            // What was changed just now is written by a thread that does not wake the window.
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
                format!("edits are kept in {}, not beside the recording ({why})", path.display()),
            ),
            (SaveState::NextToRecording, SaveState::NextToRecording) => {}
            (_, SaveState::NextToRecording) => log::push(Level::Info, "edits are kept beside the recording"),
        }
        if !matches!(now, SaveState::InMemory(_)) {
            if self.notice.as_ref().is_some_and(|n| n.0 == NOT_SAVED) {
                self.notice = None;
            }
            if matches!(self.question, Some(Question::Leave(_))) {
                // Nothing would be lost any more, so there is nothing to ask; leaving is up to the person again.
                self.question = None;
            }
        }
    }
}
