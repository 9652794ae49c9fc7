//! State of the Memory panel, and how it follows the selection.

use super::device::view::DeviceMemoryView;
use super::structure::Structure;
use crate::theme::rows::Rows;
use kinescope_files::scene::Selection;
use kinescope_session::debug::WriterReport;
use kinescope_session::writer_cache::EditKey;
use kinescope_session::{Document, page_runs};
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::memory::Hit;
use trace_core::progress::Progress;
use trace_core::recording::ElementType;
use trace_core::xref::Reference;

/// The references to a byte, known or being searched.
#[derive(Clone, Debug, Default)]
pub struct ByteReferences {
    /// Index of the address space.
    pub space: u32,
    /// The byte.
    pub va: GpuVa,
    /// The references; `None` while the search runs.
    pub list: Option<Arc<Vec<Reference>>>,
    /// The user stopped the search.
    pub stopped: bool,
    /// The last writer in a replay on the simulator, once it was requested.
    pub writer: Option<WriterLookup>,
    /// The inputs that this holds for.
    pub key: EditKey,
    /// Whether references to the page and not the byte are listed too.
    pub unfolded: bool,
}

/// The last writer of a byte: being searched, or the result.
#[derive(Clone, Debug)]
pub enum WriterLookup {
    /// A replay is running.
    Pending(Progress),
    /// The report; while the thread that wrote the byte is traced, its progress.
    Ready(Arc<WriterReport>, Option<Progress>),
    /// The reason why there is no report.
    Failed(String),
    /// The user stopped it.
    Stopped,
}

/// The inputs of a plot: address space, first byte, bytes, type, current event, revision of the edits.
pub(super) type PlotKey = (u32, GpuVa, u64, ElementType, u64, u64);

/// The values of a plot, kept until its inputs change.
#[derive(Clone)]
pub(super) struct PlotCache {
    pub(super) key: PlotKey,
    pub(super) points: Arc<Vec<[f64; 2]>>,
    pub(super) every: u64,
}

/// State of the panel.
#[derive(Clone, Default)]
pub struct View {
    /// Index of the address space.
    pub space: u32,
    /// First byte in view, a multiple of the bytes of a line.
    pub top: GpuVa,
    /// Whether `top` is set.
    pub placed: bool,
    /// Type of the elements; `None`: hex and ASCII.
    pub element: Option<ElementType>,
    /// Whether hexadecimal digits are shown without their ASCII.
    pub without_ascii: bool,
    /// Whether a line has room for only 8 bytes, not for 16.
    pub(super) narrow: bool,
    /// Text of the address field.
    pub go_to: String,
    /// Text of the search field.
    pub search: String,
    /// Locations that contain the search term.
    pub hits: Option<Arc<Vec<Hit>>>,
    /// The running search, and its number.
    pub searching: Option<(u64, Progress)>,
    pub(super) searches: u64,
    /// The error in a field's text.
    pub wrong: Option<String>,
    /// The address field requests the keyboard.
    pub focus: bool,
    /// The references to the requested byte.
    pub references: Option<ByteReferences>,
    /// The selected values are plotted.
    pub plot: bool,
    pub(super) plot_cache: Option<PlotCache>,
    /// A layout as an overlay on memory.
    pub structure: Option<Structure>,
    /// The view of device memory in an API trace.
    pub device: DeviceMemoryView,
    pub(super) fields: Rows,
    pub(super) list: Rows,
    /// Bytes between which the pointer selects: where it started, where it is.
    pub(super) drag: Option<(GpuVa, GpuVa)>,
    pub(super) seen_jump: u64,
    pub(super) scroll: f32,
    pub(super) shown_rows: u64,
}

impl View {
    /// Drops what was computed from a shorter reading of the recording. Places stay.
    pub fn forget_results(&mut self) {
        self.references = None;
        self.plot_cache = None;
        self.device.forget_results();
    }

    /// Shows an address and selects `bytes` bytes there.
    pub fn show(&mut self, doc: &mut Document, space: u32, va: GpuVa, bytes: u64) {
        self.space = space;
        doc.select(Selection::Memory { space, va, bytes });
        self.reveal(va);
    }

    /// Shows an address like [`View::show`], with the address in the first line.
    pub fn show_at_top(&mut self, doc: &mut Document, space: u32, va: GpuVa, bytes: u64) {
        self.show(doc, space, va, bytes);
        self.top = self.line_of(va);
    }

    fn reveal(&mut self, va: GpuVa) {
        self.placed = true;
        let (row, per_line) = (self.line_of(va), self.per_line());
        let fits = self.shown_rows.max(6);
        if row < self.top || row >= self.top.saturating_add(per_line * (fits - 1)) {
            self.top = row.saturating_sub(per_line * (fits / 4));
        }
    }

    /// Returns the number of bytes of a line.
    pub(super) fn per_line(&self) -> u64 {
        if self.narrow { 8 } else { 16 }
    }

    /// Returns the first byte of the line that holds a byte.
    pub(super) fn line_of(&self, va: GpuVa) -> GpuVa {
        va.align_down(self.per_line())
    }

    /// Sets the first view: at the input, else at the first page with data.
    pub(super) fn begin(&mut self, doc: &Document) {
        let input = doc
            .recording
            .metadata
            .buffers
            .iter()
            .find(|b| b.role == trace_core::recording::BufferRole::Input)
            .map(|b| (b.address_space, b.va));
        let first = input.or_else(|| {
            let runs = &doc.derived.spaces.first()?.runs;
            let data = runs.iter().find(|r| r.content == page_runs::PageContent::Data);
            Some((0, data.or(runs.first())?.va))
        });
        let (space, va) = first.unwrap_or_default();
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
                    let (space, va) = (b.address_space, b.va);
                    self.space = space;
                    self.reveal(va);
                }
            }
            Selection::Job(j) => {
                if let Some(va) = doc.derived.jobs.get(j as usize).map(|j| j.head_va) {
                    self.reveal(va);
                }
            }
            _ => {}
        }
    }

    /// Returns the selected bytes in the shown address space: the first byte and the number.
    pub(super) fn selected(&self, doc: &Document) -> Option<(GpuVa, u64)> {
        match doc.selection() {
            Selection::Memory { va, bytes, space } if *space == self.space => Some((*va, (*bytes).max(1))),
            Selection::Buffer(name) => doc.recording.buffer(name).map(|b| (b.va, b.bytes)),
            Selection::Job(j) => doc.derived.jobs.get(*j as usize).map(|j| (j.head_va, 32)),
            _ => None,
        }
    }
}
