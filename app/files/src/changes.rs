//! Changes that the user makes to a recording: buffer edits, notes, pinned registers, saved filters, plotted values.
//! Everything can be undone.

pub use crate::edited_buffer::Piece;

use crate::edited_buffer::{EditedBuffer, PAGE};
use crate::scene::{Scene, Selection};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use trace_core::recording::ElementType;
use trace_core::{GpuVa, RegOffset};

/// A note at an event, with the selection and panels at the time of writing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Stored")]
pub struct Note {
    /// Text of the note; paragraphs and lists in Markdown.
    pub text: String,
    /// Selection at the time of writing.
    pub selection: Selection,
    /// Ids of the panels that were shown; empty if they were not stored.
    pub panels: Vec<String>,
}

impl Note {
    /// Returns the scene that the user saw when writing the note at `event`.
    #[must_use]
    pub fn scene(&self, event: u64) -> Scene {
        Scene {
            event,
            selection: self.selection.clone(),
            panels: self.panels.clone(),
        }
    }
}

/// A note as stored in journals. Earlier journals stored only the text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Stored {
    Text(String),
    Whole {
        text: String,
        #[serde(default)]
        selection: Selection,
        #[serde(default)]
        panels: Vec<String>,
    },
}

impl From<&str> for Note {
    fn from(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            ..Self::default()
        }
    }
}

impl From<Stored> for Note {
    fn from(stored: Stored) -> Self {
        match stored {
            Stored::Text(text) => Self {
                text,
                ..Self::default()
            },
            Stored::Whole {
                text,
                selection,
                panels,
            } => Self {
                text,
                selection,
                panels,
            },
        }
    }
}

/// A filter that the user saved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedFilter {
    /// Name of the filter; empty if it is named by its text.
    pub name: String,
    /// Whether the matching events form a lane of the timeline.
    pub lane: bool,
}

/// Maximum number of edits and pieces that [`Change::Switch`] may process over the life of the changes of a recording.
/// This is far more than a user needs. It bounds the time that a malicious journal can waste.
const MAX_SWITCH_COST: u64 = 1 << 26;

/// A plotted register, or a field of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PlotLine {
    /// Offset of the register.
    pub register: RegOffset,
    /// Name of the field; `None` for the complete register.
    pub field: Option<String>,
}

/// An item that the user named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NamedItem {
    /// The register at this offset.
    Register(RegOffset),
    /// The memory range that starts here.
    Memory {
        /// Index of the address space.
        space: u32,
        /// GPU address of the first byte.
        address: GpuVa,
    },
}

/// One change that the user made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Bytes of a buffer changed.
    Bytes {
        /// Name of the buffer.
        buffer: String,
        /// Title for the undo command, for example `paint 12 values of input`.
        title: String,
        /// The new bytes, in ascending order of offset.
        pieces: Vec<Piece>,
    },
    /// The buffer was reverted to its recorded contents.
    Revert {
        /// Name of the buffer.
        buffer: String,
    },
    /// An earlier edit was disabled or enabled again. Later edits stay.
    Switch {
        /// Index of the edit among the applied changes, from 0.
        edit: u64,
        /// Whether the edit is enabled now.
        on: bool,
    },
    /// A note at an event was added, changed or removed.
    Note {
        /// The event.
        event: u64,
        /// The note before.
        old: Option<Note>,
        /// The note after.
        new: Option<Note>,
    },
    /// A register was given its own lane in the timeline, or lost it.
    Pin {
        /// Offset of the register.
        register: RegOffset,
        /// Whether it has a lane now.
        on: bool,
    },
    /// The element type of a buffer changed.
    Element {
        /// Name of the buffer.
        buffer: String,
        /// Type before, by name; `None`: as recorded.
        old: Option<String>,
        /// Type after, by name; `None`: as recorded.
        new: Option<String>,
    },
    /// A filter was saved, renamed, made a lane or removed.
    Filter {
        /// Text of the filter.
        text: String,
        /// The saved filter before.
        old: Option<SavedFilter>,
        /// The saved filter after.
        new: Option<SavedFilter>,
    },
    /// A register or field was added to the plot or removed from it.
    Plot {
        /// The register or field.
        line: PlotLine,
        /// Colour slot, which stays the same when other lines are removed.
        slot: u8,
        /// Whether it is plotted now.
        on: bool,
    },
    /// A register or memory range was named in a register map of the user. The map file is the authority: it is written
    /// when the change is made. This change only allows undo. Reading it back from a journal changes no file.
    Name {
        /// The file.
        file: String,
        /// The named item.
        of: NamedItem,
        /// The name, for the undo command.
        name: String,
        /// Entry of the file before; `None` if there was none.
        old: Option<String>,
        /// Entry of the file after.
        new: Option<String>,
    },
}

impl Change {
    /// Returns the title for the undo command.
    #[must_use]
    pub fn title(&self) -> String {
        match self {
            Self::Bytes { title, .. } => title.clone(),
            Self::Revert { buffer } => format!("revert {buffer}"),
            Self::Switch { on: true, .. } => "include an edit again".to_owned(),
            Self::Switch { .. } => "exclude an edit".to_owned(),
            Self::Note {
                event, new: Some(_), ..
            } => format!("note at event {event}"),
            Self::Note { event, .. } => format!("remove the note at event {event}"),
            Self::Pin { on: true, .. } => "pin a register".to_owned(),
            Self::Pin { .. } => "unpin a register".to_owned(),
            Self::Element { buffer, .. } => format!("type of {buffer}"),
            Self::Filter { old: None, .. } => "save a filter".to_owned(),
            Self::Filter { new: None, .. } => "remove a saved filter".to_owned(),
            Self::Filter {
                old: Some(a),
                new: Some(b),
                ..
            } => match (a.lane, b.lane) {
                (false, true) => "show a filter as a lane".to_owned(),
                (true, false) => "remove the lane of a filter".to_owned(),
                _ => "rename a saved filter".to_owned(),
            },
            Self::Plot { on: true, .. } => "plot values".to_owned(),
            Self::Plot { .. } => "remove values from the plot".to_owned(),
            Self::Name { name, .. } => format!("name {name}"),
        }
    }
}

impl Change {
    /// Returns the title with the position and size of the change.
    #[must_use]
    pub fn describe(&self) -> String {
        let Self::Bytes { buffer, pieces, .. } = self else {
            return self.title();
        };
        let n: usize = pieces.iter().map(|p| p.new.len()).sum();
        let bytes = if n == 1 { "byte" } else { "bytes" };
        let first = pieces.first().map_or(0, |p| p.offset);
        match pieces.len() {
            0 | 1 => format!("{buffer}: {n} {bytes} at offset {first}"),
            k => format!("{buffer}: {n} {bytes} in {k} pieces, first at offset {first}"),
        }
    }
}

/// The recorded contents that an edit is applied to.
pub trait RecordedContents {
    /// Returns the first address and size in bytes of a buffer, or `None` if there is no such buffer.
    fn extent(&self, buffer: &str) -> Option<(u64, u64)>;

    /// Fills `out` with the recorded bytes of a buffer, starting at `offset`. Unknown bytes are zero.
    fn read(&self, buffer: &str, offset: u64, out: &mut [u8]);
}

/// The state that undoes a change.
#[derive(Clone, Debug)]
enum UndoState {
    /// The change itself holds its previous state.
    InChange,
    /// Previous pages of a buffer; `None` for a page with its recorded contents.
    Pages {
        empty: EditedBuffer,
        pages: Vec<(u64, Option<Arc<[u8]>>)>,
    },
    /// All previous edits of a buffer.
    Whole(Option<EditedBuffer>),
}

#[derive(Clone, Debug)]
struct AppliedChange {
    change: Change,
    before: UndoState,
}

/// The applied changes, their result, and the state for undo.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    done: Vec<AppliedChange>,
    undone: Vec<Change>,
    inputs: BTreeMap<String, EditedBuffer>,
    stamps: BTreeMap<String, u64>,
    notes: BTreeMap<u64, Note>,
    pins: Vec<RegOffset>,
    elements: BTreeMap<String, ElementType>,
    filters: Vec<(String, SavedFilter)>,
    /// Indices among `done` of the disabled edits.
    off: BTreeSet<u64>,
    /// Cost of enabling and disabling edits so far: number of edits and pieces processed.
    gone_through: u64,
    plots: Vec<(u8, PlotLine)>,
    revision: u64,
}

impl Changes {
    /// Applies a change. Returns `false` if it does not fit the buffer; nothing changes then.
    pub fn apply(&mut self, change: Change, recorded: &dyn RecordedContents) -> bool {
        let Some(before) = self.act(&change, recorded) else {
            return false;
        };
        self.done.push(AppliedChange { change, before });
        self.undone.clear();
        true
    }

    fn act(&mut self, change: &Change, recorded: &dyn RecordedContents) -> Option<UndoState> {
        let mut before = UndoState::InChange;
        match change {
            Change::Bytes { buffer, pieces, .. } => before = self.put(buffer, pieces, recorded)?,
            Change::Revert { buffer } => {
                before = UndoState::Whole(self.inputs.remove(buffer));
                self.stamp_now(buffer);
            }
            Change::Switch { edit, on } => before = self.switch(*edit, *on, recorded)?,
            Change::Note { event, new, .. } => self.set_note(*event, new.as_ref()),
            Change::Pin { register, on } => self.set_pin(register.get(), *on),
            Change::Element { buffer, new, .. } => self.set_element(buffer, new.as_deref()),
            Change::Filter { text, new, .. } => self.set_filter(text, new.as_ref()),
            Change::Plot { line, slot, on } => self.set_plot(line, *slot, *on),
            Change::Name { .. } => {}
        }
        self.revision += 1;
        Some(before)
    }

    fn put(&mut self, buffer: &str, pieces: &[Piece], recorded: &dyn RecordedContents) -> Option<UndoState> {
        let (va, bytes) = recorded.extent(buffer)?;
        for p in pieces {
            p.offset.checked_add(p.new.len() as u64).filter(|e| *e <= bytes)?;
        }
        let empty = EditedBuffer {
            lead: va % PAGE,
            bytes,
            pages: BTreeMap::new(),
        };
        let mut now = self.inputs.remove(buffer).unwrap_or_else(|| empty.clone());
        let mut old: BTreeMap<u64, Option<Arc<[u8]>>> = BTreeMap::new();
        // Every affected page is copied once, independent of the number of pieces in it.
        let mut fresh: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        for piece in pieces {
            let mut done = 0;
            while let Some(rest) = piece.new.get(done..).filter(|r| !r.is_empty()) {
                let at = piece.offset + done as u64;
                let page = now.page_of(at);
                let span = now.span(page);
                let take = rest.len().min((span.end - at) as usize).max(1);
                let content = fresh.entry(page).or_insert_with(|| match now.pages.get(&page) {
                    Some(c) => c.to_vec(),
                    None => read_span(recorded, buffer, &span),
                });
                old.entry(page).or_insert_with(|| now.pages.get(&page).cloned());
                let start = (at - span.start) as usize;
                if let (Some(to), Some(from)) = (content.get_mut(start..start + take), rest.get(..take)) {
                    to.copy_from_slice(from);
                }
                done += take;
            }
        }
        for (page, content) in fresh {
            // A page with its recorded contents is not an edit.
            if content == read_span(recorded, buffer, &now.span(page)) {
                now.pages.remove(&page);
            } else {
                now.pages.insert(page, content.into());
            }
        }
        self.keep(buffer, now);
        Some(UndoState::Pages {
            empty,
            pages: old.into_iter().collect(),
        })
    }

    /// Disables or enables an edit. Returns `None` if `edit` is not an edit or is already in this state.
    fn switch(&mut self, edit: u64, on: bool, recorded: &dyn RecordedContents) -> Option<UndoState> {
        let buffer = self.edited_buffer(edit)?.to_owned();
        if self.gone_through > MAX_SWITCH_COST {
            return None;
        }
        let changed = if on {
            self.off.remove(&edit)
        } else {
            self.off.insert(edit)
        };
        if !changed {
            return None;
        }
        let was = self.inputs.get(&buffer).cloned();
        self.rebuild(&buffer, recorded);
        Some(UndoState::Whole(was))
    }

    /// Returns the buffer of the edit at an index among the applied changes, or `None` if there is no edit at this
    /// index.
    fn edited_buffer(&self, edit: u64) -> Option<&str> {
        match &self.done.get(usize::try_from(edit).ok()?)?.change {
            Change::Bytes { buffer, .. } => Some(buffer),
            _ => None,
        }
    }

    /// Rebuilds the contents of a buffer from all its enabled edits.
    fn rebuild(&mut self, buffer: &str, recorded: &dyn RecordedContents) {
        self.inputs.remove(buffer);
        let done = std::mem::take(&mut self.done);
        for (place, d) in (0u64..).zip(&done) {
            self.gone_through += 1;
            match &d.change {
                Change::Bytes { buffer: b, pieces, .. } if b == buffer && !self.off.contains(&place) => {
                    self.gone_through += pieces.len() as u64;
                    // The edit was valid when it was made.
                    let _ = self.put(buffer, pieces, recorded);
                }
                Change::Revert { buffer: b } if b == buffer => drop(self.inputs.remove(buffer)),
                _ => {}
            }
        }
        self.done = done;
        self.stamp_now(buffer);
    }

    fn keep(&mut self, buffer: &str, now: EditedBuffer) {
        if now.pages.is_empty() {
            self.inputs.remove(buffer);
        } else {
            self.inputs.insert(buffer.to_owned(), now);
        }
        self.stamp_now(buffer);
    }

    fn stamp_now(&mut self, buffer: &str) {
        self.stamps.insert(buffer.to_owned(), self.revision + 1);
    }

    fn set_note(&mut self, event: u64, note: Option<&Note>) {
        match note {
            Some(n) => self.notes.insert(event, n.clone()),
            None => self.notes.remove(&event),
        };
    }

    fn set_pin(&mut self, register: u32, on: bool) {
        self.pins.retain(|r| *r != RegOffset::new(register));
        if on {
            self.pins.push(RegOffset::new(register));
        }
    }

    fn set_element(&mut self, buffer: &str, name: Option<&str>) {
        match name.and_then(|n| ElementType::ALL.into_iter().find(|e| e.name() == n)) {
            Some(e) => self.elements.insert(buffer.to_owned(), e),
            None => self.elements.remove(buffer),
        };
    }

    fn set_filter(&mut self, text: &str, saved: Option<&SavedFilter>) {
        let at = self.filters.iter().position(|(t, _)| t == text);
        match (at, saved) {
            (Some(n), Some(s)) => {
                if let Some(f) = self.filters.get_mut(n) {
                    f.1 = s.clone();
                }
            }
            (Some(n), None) => {
                self.filters.remove(n);
            }
            (None, Some(s)) => self.filters.push((text.to_owned(), s.clone())),
            (None, None) => {}
        }
    }

    fn set_plot(&mut self, line: &PlotLine, slot: u8, on: bool) {
        self.plots.retain(|(_, l)| l != line);
        if on {
            let at = self.plots.partition_point(|(s, _)| *s <= slot);
            self.plots.insert(at, (slot, line.clone()));
        }
    }

    /// Undoes the last change and returns it.
    pub fn undo(&mut self) -> Option<Change> {
        let AppliedChange { change, before } = self.done.pop()?;
        match (&change, before) {
            (Change::Bytes { buffer, .. }, UndoState::Pages { empty, pages }) => {
                let mut now = self.inputs.remove(buffer).unwrap_or(empty);
                for (page, was) in pages {
                    match was {
                        Some(w) => now.pages.insert(page, w),
                        None => now.pages.remove(&page),
                    };
                }
                self.keep(buffer, now);
            }
            (Change::Revert { buffer }, UndoState::Whole(was)) => self.keep(buffer, was.unwrap_or_default()),
            (Change::Switch { edit, on }, UndoState::Whole(was)) => {
                if *on {
                    self.off.insert(*edit);
                } else {
                    self.off.remove(edit);
                }
                if let Some(buffer) = self.edited_buffer(*edit).map(str::to_owned) {
                    self.keep(&buffer, was.unwrap_or_default());
                }
            }
            (Change::Note { event, old, .. }, _) => self.set_note(*event, old.as_ref()),
            (Change::Pin { register, on }, _) => self.set_pin(register.get(), !on),
            (Change::Element { buffer, old, .. }, _) => self.set_element(buffer, old.as_deref()),
            (Change::Filter { text, old, .. }, _) => self.set_filter(text, old.as_ref()),
            (Change::Plot { line, slot, on }, _) => self.set_plot(line, *slot, !on),
            (Change::Name { .. }, _) => {}
            // A change and its undo state are created together, so no other pair exists.
            (Change::Bytes { .. } | Change::Revert { .. } | Change::Switch { .. }, _) => {}
        }
        self.revision += 1;
        self.undone.push(change.clone());
        Some(change)
    }

    /// Applies the last undone change again and returns it.
    pub fn redo(&mut self, recorded: &dyn RecordedContents) -> Option<Change> {
        let change = self.undone.pop()?;
        let before = self.act(&change, recorded)?;
        self.done.push(AppliedChange {
            change: change.clone(),
            before,
        });
        Some(change)
    }

    /// Returns the applied changes, in order.
    pub fn applied(&self) -> impl Iterator<Item = &Change> {
        self.done.iter().map(|d| &d.change)
    }

    /// Returns the buffer edits among the applied changes, latest first: index, change, and whether it is enabled.
    pub fn edits(&self) -> impl Iterator<Item = (u64, &Change, bool)> {
        let places = (0..self.places()).rev();
        let all = places.zip(self.done.iter().rev());
        let edits = all.filter(|(_, d)| matches!(d.change, Change::Bytes { .. }));
        edits.map(|(place, d)| (place, &d.change, !self.off.contains(&place)))
    }

    /// Returns the number of applied changes. An imported [`Change::Switch`] adds it to its index.
    #[must_use]
    pub fn places(&self) -> u64 {
        self.done.len() as u64
    }

    /// Returns the change that undo would revert.
    #[must_use]
    pub fn last(&self) -> Option<&Change> {
        self.done.last().map(|d| &d.change)
    }

    /// Returns the change that redo would apply.
    #[must_use]
    pub fn next(&self) -> Option<&Change> {
        self.undone.last()
    }

    /// Returns the number of applied changes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.done.len()
    }

    /// Whether there are no applied changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.done.is_empty()
    }

    /// Returns the revision, which increases with every change, undo and redo.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the revision of the last change of a buffer's contents, or 0 if they never changed.
    #[must_use]
    pub fn stamp(&self, buffer: &str) -> u64 {
        self.stamps.get(buffer).copied().unwrap_or(0)
    }

    /// Returns the buffers that differ from the recording, by name.
    #[must_use]
    pub fn inputs(&self) -> &BTreeMap<String, EditedBuffer> {
        &self.inputs
    }

    /// Returns the notes by event.
    #[must_use]
    pub fn notes(&self) -> &BTreeMap<u64, Note> {
        &self.notes
    }

    /// Returns the registers with their own lanes.
    #[must_use]
    pub fn pins(&self) -> &[RegOffset] {
        &self.pins
    }

    /// Returns the saved filters with their texts, in the order of saving.
    #[must_use]
    pub fn filters(&self) -> &[(String, SavedFilter)] {
        &self.filters
    }

    /// Returns the saved filter with this text, or `None` if it is not saved.
    #[must_use]
    pub fn filter(&self, text: &str) -> Option<&SavedFilter> {
        self.filters.iter().find(|(t, _)| t == text).map(|(_, s)| s)
    }

    /// Returns the plotted lines with their colour slots, sorted by slot.
    #[must_use]
    pub fn plots(&self) -> &[(u8, PlotLine)] {
        &self.plots
    }

    /// Returns the element type that the user set for a buffer.
    #[must_use]
    pub fn element(&self, buffer: &str) -> Option<ElementType> {
        self.elements.get(buffer).copied()
    }
}

fn read_span(recorded: &dyn RecordedContents, buffer: &str, span: &Range<u64>) -> Vec<u8> {
    let mut out = vec![0; (span.end - span.start) as usize];
    recorded.read(buffer, span.start, &mut out);
    out
}

#[cfg(test)]
pub(crate) mod tests;
