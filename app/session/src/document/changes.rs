//! The user's changes of a document: edits of buffers, notes, filters, pins and plots, and the journal that stores them.

use super::Document;
use kinescope_files::changes::{Change, Changes, Note, Piece, PlotLine, SavedFilter};
use kinescope_files::journal::{self, SaveState};
use kinescope_files::scene::Selection;
use std::path::PathBuf;
use trace_core::RegOffset;

/// Maximum number of lines in a plot: each has its own colour, solid or dashed.
pub const MAX_PLOTS: u8 = 12;

impl Document {
    /// Returns the user's changes.
    #[must_use]
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Applies a change and logs it in the journal. Returns `false` if it does not fit; nothing changes then.
    pub fn change(&mut self, change: Change) -> bool {
        if self.refuses(&change) || !self.changes.apply(change.clone(), &*self.buffers) {
            return false;
        }
        self.before_journal();
        self.journal.log_change(&change);
        true
    }

    /// Moves offered changes out of the way of new ones, until the user decides about them.
    fn before_journal(&mut self) {
        if self.journal.has_started() {
            return;
        }
        let Some(found) = &mut self.offered else { return };
        let beneath = found.base_path.take();
        if found.path != self.journal.path() && beneath.is_none() {
            return;
        }
        // This journal also contains the lines of the other one.
        if let Some(b) = beneath.filter(|b| b.is_file())
            && let Err(e) = journal::discard(&b)
        {
            tracing::error!("{}: {e}", b.display());
        }
        self.journal.discard_resumed();
        match journal::move_to_backup(&found.path) {
            Ok(to) => found.path = to,
            Err(e) => tracing::error!("{}: {e}", found.path.display()),
        }
    }

    /// Undoes the last change and returns it.
    pub fn undo(&mut self) -> Option<Change> {
        let c = self.changes.undo()?;
        self.before_journal();
        self.journal.log_undo();
        Some(c)
    }

    /// Applies the last undone change again and returns it.
    pub fn redo(&mut self) -> Option<Change> {
        let c = self.changes.redo(&*self.buffers)?;
        self.before_journal();
        self.journal.log_redo();
        Some(c)
    }

    /// Applies the offered changes on top of the current ones.
    pub fn accept_offered(&mut self) {
        let Some(found) = self.offered.take() else { return };
        if found.path == self.journal.path() || found.base_path.is_some() {
            // The changes are already in the journal, and nothing was added to it.
            self.changes = found.changes;
            self.journal.start();
            return;
        }
        let list: Vec<Change> = found.changes.applied().cloned().collect();
        let before = self.changes.places();
        for change in list {
            let change = match change {
                // The index refers to the other journal, whose changes now follow those of this one.
                Change::Switch { edit, on } => Change::Switch {
                    edit: edit.saturating_add(before),
                    on,
                },
                other => other,
            };
            self.change(change);
        }
        // The file is removed only after its changes are in the journal.
        if !matches!(self.journal.flush(), SaveState::InMemory(_)) {
            let _ = std::fs::remove_file(&found.path);
        }
    }

    /// Discards the offered changes. Renames their file and returns its new path.
    ///
    /// # Errors
    /// A description of the error if the file cannot be renamed; the changes then stay offered.
    pub fn discard_offered(&mut self) -> Result<Option<PathBuf>, String> {
        let Some(found) = &self.offered else { return Ok(None) };
        let describe = |e| format!("{}: {e}", found.path.display());
        let to = journal::discard(&found.path).map_err(describe)?;
        if let Some(b) = found.base_path.as_ref().filter(|b| b.is_file()) {
            journal::discard(b).map_err(|e| format!("{}: {e}", b.display()))?;
        }
        self.journal.discard_resumed();
        self.offered = None;
        Ok(Some(to))
    }

    /// Returns where the changes are stored, as far as known now.
    #[must_use]
    pub fn save_state(&self) -> SaveState {
        self.journal.save_state()
    }

    /// Tries to write every change, waits for completion, and returns where the changes are stored.
    #[must_use]
    pub fn flush_journal(&self) -> SaveState {
        self.journal.flush()
    }

    /// Returns the complete journal, including changes that could not be written.
    ///
    /// # Errors
    /// Returns an error if the lines already in the file cannot be read.
    pub fn journal_contents(&self) -> std::io::Result<Vec<u8>> {
        self.journal.read_all()
    }

    /// Replaces bytes of a buffer, starting at `offset`. Returns `false` if they do not fit.
    pub fn edit(&mut self, buffer: &str, offset: u64, new: Vec<u8>) -> bool {
        let title = format!("edit {} bytes of {buffer}", new.len());
        let new = new.into();
        self.edit_pieces(buffer, title, vec![Piece { offset, new }])
    }

    /// Replaces several parts of a buffer as one change. Returns `false` if a part does not fit; nothing changes then.
    pub fn edit_pieces(&mut self, buffer: &str, title: String, pieces: Vec<Piece>) -> bool {
        let Some(contents) = self.contents(buffer) else {
            return false;
        };
        let fits = |p: &Piece| {
            let end = p.offset.checked_add(p.new.len() as u64);
            end.is_some_and(|e| e <= contents.buffer().bytes)
        };
        if !pieces.iter().all(fits) {
            return false;
        }
        if pieces.iter().all(|p| *contents.part(p.offset, p.new.len()) == *p.new) {
            return true;
        }
        self.change(Change::Bytes {
            buffer: buffer.to_owned(),
            title,
            pieces,
        })
    }

    /// Disables an edit or enables it again, by its index among the applied changes.
    pub fn switch_edit(&mut self, edit: u64, on: bool) -> bool {
        self.change(Change::Switch { edit, on })
    }

    /// Reverts a buffer to its recorded contents.
    pub fn revert(&mut self, buffer: &str) -> bool {
        self.changes.inputs().contains_key(buffer)
            && self.change(Change::Revert {
                buffer: buffer.to_owned(),
            })
    }

    /// Adds, changes or removes the note at an event.
    pub fn note(&mut self, event: u64, new: Option<String>) -> bool {
        let old = self.changes.notes().get(&event).cloned();
        let new = new.map(|text| Note {
            text,
            ..old.clone().unwrap_or_default()
        });
        old != new && self.change(Change::Note { event, old, new })
    }

    /// Stores the current selection and the shown panels with the note at the current event. Creates the note with
    /// `text` if there is none.
    pub fn note_scene(&mut self, text: &str, panels: &[&str]) -> bool {
        let event = self.current_event;
        let old = self.changes.notes().get(&event).cloned();
        let selection = match (&self.selection, &old) {
            // If the note itself is selected, keep the selection that it was made with.
            (Selection::Note(_), Some(n)) => n.selection.clone(),
            (Selection::Note(_) | Selection::Divergence(_) | Selection::Fault(_), _) => Selection::Event,
            (s, _) => s.clone(),
        };
        let new = Some(Note {
            text: old.as_ref().map_or(text, |n| n.text.as_str()).to_owned(),
            selection,
            panels: panels.iter().map(|p| (*p).to_owned()).collect(),
        });
        old != new && self.change(Change::Note { event, old, new })
    }

    /// Saves a filter, changes its settings, or removes it.
    pub fn save_filter(&mut self, text: &str, new: Option<SavedFilter>) -> bool {
        let old = self.changes.filter(text).cloned();
        let text = text.to_owned();
        old != new && self.change(Change::Filter { text, old, new })
    }

    /// Gives a register its own lane, or removes the lane.
    pub fn pin(&mut self, register: RegOffset) -> bool {
        let on = !self.changes.pins().contains(&register);
        self.change(Change::Pin { register, on })
    }

    /// Adds a register or a field to the plot, or removes it. Returns `false` if the plot is full.
    pub fn plot(&mut self, line: &PlotLine) -> bool {
        let now = self.changes.plots();
        let known = now.iter().find(|(_, l)| l == line).map(|(slot, _)| *slot);
        let free = || (0..MAX_PLOTS).find(|s| now.iter().all(|(taken, _)| taken != s));
        let Some(slot) = known.or_else(free) else {
            return false;
        };
        self.change(Change::Plot {
            line: line.clone(),
            slot,
            on: known.is_none(),
        })
    }

    /// Whether a register or a field is plotted.
    #[must_use]
    pub fn is_plotted(&self, line: &PlotLine) -> bool {
        self.changes.plots().iter().any(|(_, l)| l == line)
    }
}
