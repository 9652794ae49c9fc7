//! What the panel shows of memory, and how it follows what is selected elsewhere.

use super::device::view::DeviceMemoryView;
use super::structure::Structure;
use crate::document::debug::WriterReport;
use crate::document::moment::Selection;
use crate::document::writer_cache::EditKey;
use crate::document::xref::Xref;
use crate::document::{Document, page_runs};
use crate::theme::rows::Rows;
use std::sync::Arc;
use trace_core::memory::Hit;
use trace_core::progress::Progress;
use trace_core::recording::ElementType;

/// What touches a byte, found or being looked for.
#[derive(Clone, Debug, Default)]
pub struct ByteReferences {
    /// Index of the address space.
    pub space: u32,
    /// The byte.
    pub va: u64,
    /// What was found; `None` while it is looked for.
    pub list: Option<Arc<Vec<Xref>>>,
    /// The person stopped it.
    pub stopped: bool,
    /// Who wrote it last in a replay on the software GPU, once that was asked for.
    pub writer: Option<WriterLookup>,
    /// The inputs that this holds for.
    pub key: EditKey,
    /// Whether what concerns the page and not the byte is listed too.
    pub unfolded: bool,
}

/// Who wrote a byte last: being found out, or what was found.
#[derive(Clone, Debug)]
pub enum WriterLookup {
    /// A replay is under way.
    Pending(Progress),
    /// What it told; while the thread that wrote the byte is followed, how far that is.
    Ready(Arc<WriterReport>, Option<Progress>),
    /// Why it told nothing.
    Failed(String),
    /// The person stopped it.
    Stopped,
}

/// What a plot was made of: address space, first byte, bytes, type, moment, revision of the edits.
pub(super) type PlotKey = (u32, u64, u64, ElementType, u64, u64);

/// The values of a plot, kept until what it was made of changes.
#[derive(Clone)]
pub(super) struct PlotCache {
    pub(super) key: PlotKey,
    pub(super) points: Arc<Vec<[f64; 2]>>,
    pub(super) every: u64,
}

/// What the panel shows.
#[derive(Clone, Default)]
pub struct View {
    /// Index of the address space.
    pub space: u32,
    /// First byte in view, a multiple of the bytes of a line.
    pub top: u64,
    /// Whether `top` was chosen yet.
    pub placed: bool,
    /// Type of the elements; `None`: hex and ASCII.
    pub element: Option<ElementType>,
    /// Whether hexadecimal digits stand without their ASCII.
    pub without_ascii: bool,
    /// Whether a line has room for 8 bytes alone, not for 16.
    pub(super) narrow: bool,
    /// Text of the address field.
    pub go_to: String,
    /// Text of the search field.
    pub search: String,
    /// Places that hold what was searched for.
    pub hits: Option<Arc<Vec<Hit>>>,
    /// The search that is going on, and its number.
    pub searching: Option<(u64, Progress)>,
    pub(super) searches: u64,
    /// What is wrong with a field's text.
    pub wrong: Option<String>,
    /// The address field wants the keyboard.
    pub focus: bool,
    /// What touches the byte that was asked about.
    pub references: Option<ByteReferences>,
    /// The selected values are plotted.
    pub plot: bool,
    pub(super) plot_cache: Option<PlotCache>,
    /// A layout laid over memory.
    pub structure: Option<Structure>,
    /// What is shown of the device's memory in a recording of calls.
    pub device: DeviceMemoryView,
    pub(super) fields: Rows,
    pub(super) list: Rows,
    /// Bytes between which the pointer selects: where it began, where it is.
    pub(super) drag: Option<(u64, u64)>,
    pub(super) seen_jump: u64,
    pub(super) scroll: f32,
    pub(super) shown_rows: u64,
}

impl View {
    /// Shows an address and selects `bytes` bytes there.
    pub fn show(&mut self, doc: &mut Document, space: u32, va: u64, bytes: u64) {
        self.space = space;
        doc.select(Selection::Memory { space, va, bytes });
        self.reveal(va);
    }

    /// As [`View::show`], with the address in the first line.
    pub fn show_at_top(&mut self, doc: &mut Document, space: u32, va: u64, bytes: u64) {
        self.show(doc, space, va, bytes);
        self.top = self.line_of(va);
    }

    fn reveal(&mut self, va: u64) {
        self.placed = true;
        let (row, per_line) = (self.line_of(va), self.per_line());
        let fits = self.shown_rows.max(6);
        if row < self.top || row >= self.top.saturating_add(per_line * (fits - 1)) {
            self.top = row.saturating_sub(per_line * (fits / 4));
        }
    }

    /// Bytes of a line.
    pub(super) fn per_line(&self) -> u64 {
        if self.narrow { 8 } else { 16 }
    }

    /// The first byte of the line that holds a byte.
    pub(super) fn line_of(&self, va: u64) -> u64 {
        va - va % self.per_line()
    }

    /// Where the panel begins: at the input, else at the first page with data.
    pub(super) fn begin(&mut self, doc: &Document) {
        let input = doc
            .recording
            .facts
            .buffers
            .iter()
            .find(|b| b.role == trace_core::recording::BufferRole::Input)
            .map(|b| (b.address_space, b.va.0));
        let first = input.or_else(|| {
            let runs = &doc.facts.spaces.first()?.runs;
            let data = runs.iter().find(|r| r.content == page_runs::PageContent::Data);
            Some((0, data.or(runs.first())?.va))
        });
        let (space, va) = first.unwrap_or((0, 0));
        self.space = space;
        self.top = self.line_of(va);
        self.placed = true;
    }

    /// Shows what was selected elsewhere.
    pub(super) fn follow(&mut self, doc: &Document) {
        if self.seen_jump == doc.jumps {
            return;
        }
        self.seen_jump = doc.jumps;
        match doc.selection().clone() {
            Selection::Memory { space, va, .. } => {
                self.space = space;
                self.reveal(va);
            }
            Selection::Buffer(name) => {
                if let Some(b) = doc.recording.buffer(&name) {
                    let (space, va) = (b.address_space, b.va.0);
                    self.space = space;
                    self.reveal(va);
                }
            }
            Selection::Job(j) => {
                if let Some(va) = doc.facts.jobs.get(j as usize).map(|j| j.head_va) {
                    self.reveal(va);
                }
            }
            _ => {}
        }
    }

    /// Bytes that are selected, in the address space that is shown: first byte and how many.
    pub(super) fn selected(&self, doc: &Document) -> Option<(u64, u64)> {
        match doc.selection() {
            Selection::Memory { va, bytes, space } if *space == self.space => Some((*va, (*bytes).max(1))),
            Selection::Buffer(name) => doc.recording.buffer(name).map(|b| (b.va.0, b.bytes)),
            Selection::Job(j) => doc.facts.jobs.get(*j as usize).map(|j| (j.head_va, 32)),
            _ => None,
        }
    }
}
