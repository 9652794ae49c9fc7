//! What a person made on top of a recording: edits of buffers, notes, pinned registers, saved filters, plotted values.
//! Everything can be undone.

use crate::edited_buffer::{EditedBuffer, PAGE};
use crate::scene::{Scene, Selection};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use trace_core::recording::ElementType;

/// Bytes of a buffer from an offset on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// First byte changed.
    pub offset: u64,
    /// Bytes after the change.
    #[serde(with = "hex_bytes")]
    pub new: Arc<[u8]>,
}

/// A note at an event, with what the person looked at when they wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Stored")]
pub struct Note {
    /// What it says; paragraphs and lists as Markdown has them.
    pub text: String,
    /// What was selected.
    pub selection: Selection,
    /// Ids of the panels that were shown; empty: nobody kept that.
    pub panels: Vec<String>,
}

impl Note {
    /// What the person looked at at `event`, where the note stands.
    #[must_use]
    pub fn scene(&self, event: u64) -> Scene {
        Scene {
            event,
            selection: self.selection.clone(),
            panels: self.panels.clone(),
        }
    }
}

/// A note as journals hold it: earlier ones held the text alone.
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

/// A filter that the person saved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedFilter {
    /// What it is called; empty: by its text.
    pub name: String,
    /// Whether the events that pass are a lane of the timeline.
    pub lane: bool,
}

/// Maximum number of edits and pieces of them that switches go through in the life of a recording's changes: far more
/// than a person comes to, and the end of what a journal made to waste time can waste.
const MAX_SWITCH_COST: u64 = 1 << 26;

/// A register whose values are plotted, or a field of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PlotLine {
    /// The register's offset.
    pub register: u32,
    /// The field's name; `None`: the whole register.
    pub field: Option<String>,
}

/// What a person named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NamedItem {
    /// The register at this offset.
    Register(u32),
    /// The range of memory that begins here.
    Memory {
        /// Index of the address space.
        space: u32,
        /// GPU address of the first byte.
        address: u64,
    },
}

/// One thing that the person did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Bytes of a buffer became others.
    Bytes {
        /// The buffer's name.
        buffer: String,
        /// What was done, for the undo command: `paint 12 values of input`.
        title: String,
        /// The bytes, in rising order.
        pieces: Vec<Piece>,
    },
    /// The buffer is as recorded again.
    Revert {
        /// The buffer's name.
        buffer: String,
    },
    /// An edit that was made before is left out, or taken in again; those after it stay.
    Switch {
        /// Its place among the changes that hold, from 0.
        edit: u64,
        /// Whether it is taken in now.
        on: bool,
    },
    /// A note at an event came, changed or went.
    Note {
        /// The event.
        event: u64,
        /// The note before.
        old: Option<Note>,
        /// The note after.
        new: Option<Note>,
    },
    /// A register got a lane of its own in the timeline, or lost it.
    Pin {
        /// The register's offset.
        register: u32,
        /// Whether it has one now.
        on: bool,
    },
    /// A buffer is read as elements of another type.
    Element {
        /// The buffer's name.
        buffer: String,
        /// Type before, by name; `None`: as recorded.
        old: Option<String>,
        /// Type after, by name; `None`: as recorded.
        new: Option<String>,
    },
    /// A filter was saved, renamed, made a lane or removed.
    Filter {
        /// The filter.
        text: String,
        /// How it was saved before.
        old: Option<SavedFilter>,
        /// How it is saved now.
        new: Option<SavedFilter>,
    },
    /// A register or a field of it is plotted, or no more.
    Plot {
        /// Which.
        line: PlotLine,
        /// Its place among the colours, which it keeps when others go.
        slot: u8,
        /// Whether it is plotted now.
        on: bool,
    },
    /// A register or a range of memory was named in a register map of the person's. The map's file is what counts: it
    /// was written when this was done, and this is the way back. Read again, it changes no file.
    Name {
        /// The file.
        file: String,
        /// What was named.
        of: NamedItem,
        /// The name, for the undo command.
        name: String,
        /// The entry of the file before; `None`: there was none.
        old: Option<String>,
        /// The entry of the file after.
        new: Option<String>,
    },
}

impl Change {
    /// What it was, for the undo command.
    #[must_use]
    pub fn title(&self) -> String {
        match self {
            Self::Bytes { title, .. } => title.clone(),
            Self::Revert { buffer } => format!("revert {buffer}"),
            Self::Switch { on: true, .. } => "take an edit in again".to_owned(),
            Self::Switch { .. } => "leave an edit out".to_owned(),
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
                (true, false) => "take the lane of a filter away".to_owned(),
                _ => "rename a saved filter".to_owned(),
            },
            Self::Plot { on: true, .. } => "plot values".to_owned(),
            Self::Plot { .. } => "take values out of the plot".to_owned(),
            Self::Name { name, .. } => format!("name {name}"),
        }
    }
}

impl Change {
    /// What it is, with its place and its size.
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
            k => format!("{buffer}: {n} {bytes} in {k} places from offset {first} on"),
        }
    }
}

/// What an edit starts from.
pub trait RecordedContents {
    /// A buffer's first address and its size in bytes; `None`: there is no such buffer.
    fn extent(&self, buffer: &str) -> Option<(u64, u64)>;

    /// Fills `out` with the buffer's bytes as recorded, from `offset` on; what is not known is zero.
    fn read(&self, buffer: &str, offset: u64, out: &mut [u8]);
}

/// The way back from a change.
#[derive(Clone, Debug)]
enum UndoState {
    /// The change says it itself.
    InChange,
    /// Pages of a buffer as they were; `None`: as recorded.
    Pages {
        empty: EditedBuffer,
        pages: Vec<(u64, Option<Arc<[u8]>>)>,
    },
    /// All that was edited of a buffer.
    Whole(Option<EditedBuffer>),
}

#[derive(Clone, Debug)]
struct AppliedChange {
    change: Change,
    before: UndoState,
}

/// What the changes come to, and the way back.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    done: Vec<AppliedChange>,
    undone: Vec<Change>,
    inputs: BTreeMap<String, EditedBuffer>,
    stamps: BTreeMap<String, u64>,
    notes: BTreeMap<u64, Note>,
    pins: Vec<u32>,
    elements: BTreeMap<String, ElementType>,
    filters: Vec<(String, SavedFilter)>,
    /// Places among `done` of the edits that are left out.
    off: BTreeSet<u64>,
    /// What switching edits has cost so far, in edits and pieces of them gone through.
    gone_through: u64,
    plots: Vec<(u8, PlotLine)>,
    revision: u64,
}

impl Changes {
    /// Does a change. `false`: it does not fit the buffer, and nothing was done.
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
            Change::Pin { register, on } => self.set_pin(*register, *on),
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
        // Every page that is touched is copied once, however many pieces lie in it.
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
            // As recorded is not an edit.
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

    /// Leaves an edit out or takes it in; `None`: it is none, or is so already.
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

    /// The buffer of the edit at a place among the changes that hold; `None`: no edit stands there.
    fn edited_buffer(&self, edit: u64) -> Option<&str> {
        match &self.done.get(usize::try_from(edit).ok()?)?.change {
            Change::Bytes { buffer, .. } => Some(buffer),
            _ => None,
        }
    }

    /// A buffer's content anew, from all edits of it that are taken in.
    fn rebuild(&mut self, buffer: &str, recorded: &dyn RecordedContents) {
        self.inputs.remove(buffer);
        let done = std::mem::take(&mut self.done);
        for (place, d) in (0u64..).zip(&done) {
            self.gone_through += 1;
            match &d.change {
                Change::Bytes { buffer: b, pieces, .. } if b == buffer && !self.off.contains(&place) => {
                    self.gone_through += pieces.len() as u64;
                    // It fitted when it was made.
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
        self.pins.retain(|r| *r != register);
        if on {
            self.pins.push(register);
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

    /// Takes the last change back.
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
            (Change::Pin { register, on }, _) => self.set_pin(*register, !on),
            (Change::Element { buffer, old, .. }, _) => self.set_element(buffer, old.as_deref()),
            (Change::Filter { text, old, .. }, _) => self.set_filter(text, old.as_ref()),
            (Change::Plot { line, slot, on }, _) => self.set_plot(line, *slot, !on),
            (Change::Name { .. }, _) => {}
            // A change and its way back are made together, so no other pair exists.
            (Change::Bytes { .. } | Change::Revert { .. } | Change::Switch { .. }, _) => {}
        }
        self.revision += 1;
        self.undone.push(change.clone());
        Some(change)
    }

    /// Does the change again that was taken back last.
    pub fn redo(&mut self, recorded: &dyn RecordedContents) -> Option<Change> {
        let change = self.undone.pop()?;
        let before = self.act(&change, recorded)?;
        self.done.push(AppliedChange {
            change: change.clone(),
            before,
        });
        Some(change)
    }

    /// The changes that hold, in order.
    pub fn applied(&self) -> impl Iterator<Item = &Change> {
        self.done.iter().map(|d| &d.change)
    }

    /// The edits of buffers among the changes that hold, latest first: the place of each, the change, and whether it is
    /// taken in.
    pub fn edits(&self) -> impl Iterator<Item = (u64, &Change, bool)> {
        let places = (0..self.places()).rev();
        let all = places.zip(self.done.iter().rev());
        let edits = all.filter(|(_, d)| matches!(d.change, Change::Bytes { .. }));
        edits.map(|(place, d)| (place, &d.change, !self.off.contains(&place)))
    }

    /// How many changes come before one that is made now: what a [`Change::Switch`] that is brought from elsewhere
    /// adds.
    #[must_use]
    pub fn places(&self) -> u64 {
        self.done.len() as u64
    }

    /// The change that undo would take back.
    #[must_use]
    pub fn last(&self) -> Option<&Change> {
        self.done.last().map(|d| &d.change)
    }

    /// The change that redo would do again.
    #[must_use]
    pub fn next(&self) -> Option<&Change> {
        self.undone.last()
    }

    /// Number of changes that hold.
    #[must_use]
    pub fn len(&self) -> usize {
        self.done.len()
    }

    /// Whether nothing was changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.done.is_empty()
    }

    /// Grows with every change, undo and redo.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The revision at which a buffer's content changed last, 0 when it never did.
    #[must_use]
    pub fn stamp(&self, buffer: &str) -> u64 {
        self.stamps.get(buffer).copied().unwrap_or(0)
    }

    /// The buffers that differ from the recording, by name.
    #[must_use]
    pub fn inputs(&self) -> &BTreeMap<String, EditedBuffer> {
        &self.inputs
    }

    /// Notes by event.
    #[must_use]
    pub fn notes(&self) -> &BTreeMap<u64, Note> {
        &self.notes
    }

    /// Registers with lanes of their own.
    #[must_use]
    pub fn pins(&self) -> &[u32] {
        &self.pins
    }

    /// Saved filters by their texts, in the order in which they were saved.
    #[must_use]
    pub fn filters(&self) -> &[(String, SavedFilter)] {
        &self.filters
    }

    /// How a filter is saved; `None`: it is not.
    #[must_use]
    pub fn filter(&self, text: &str) -> Option<&SavedFilter> {
        self.filters.iter().find(|(t, _)| t == text).map(|(_, s)| s)
    }

    /// What is plotted, each with its place among the colours, by that place.
    #[must_use]
    pub fn plots(&self) -> &[(u8, PlotLine)] {
        &self.plots
    }

    /// Type that the person gave to a buffer's elements.
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

mod hex_bytes {
    //! Bytes as a string of hex digits.
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};
    use std::sync::Arc;

    pub fn serialize<S: Serializer>(bytes: &Arc<[u8]>, s: S) -> Result<S::Ok, S::Error> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = String::with_capacity(bytes.len() * 2);
        for b in bytes.iter() {
            text.push(DIGITS[usize::from(b >> 4)] as char);
            text.push(DIGITS[usize::from(b & 15)] as char);
        }
        s.serialize_str(&text)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Arc<[u8]>, D::Error> {
        let text = String::deserialize(d)?;
        let bytes = crate::values::parse_hex(&text);
        bytes
            .map(Into::into)
            .ok_or_else(|| D::Error::custom("not a string of hex digits"))
    }
}

#[cfg(test)]
pub(crate) mod tests;
