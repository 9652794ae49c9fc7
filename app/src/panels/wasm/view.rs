//! State of the WebAssembly panel.

use crate::panels::common::actions::CopyRequest;
use crate::panels::common::code_listing::{LineSearch, Listing};
use crate::theme::rows::Rows;
use kinescope_session::Document;
use kinescope_session::wasm_run::{CopyPart, CopyState, StreamForm, StreamRows, WasmRunData};
use std::sync::Arc;
use trace_core::progress::Progress;
use wasm_recording::CopyStream;

/// What the panel shows.
#[derive(Clone, Debug, Default)]
pub enum Content {
    /// The run is being read.
    #[default]
    Reading,
    /// The run cannot be read.
    Failed(String),
    /// The run.
    Read(Arc<WasmRunData>),
}

/// A line of the program that is brought into view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineTarget {
    /// The line of a trap.
    Trap(u32),
    /// Another line.
    Line(u32),
}

/// State of the panel.
#[derive(Clone, Default)]
pub struct View {
    /// What the panel shows.
    pub content: Content,
    /// The selected copy.
    pub copy: Option<u32>,
    /// The selected line of the program.
    pub line: Option<u32>,
    /// State of the copies that are listed; `None`: all.
    pub state: Option<CopyState>,
    /// Text that names of listed copies contain.
    pub filter: String,
    /// Part of the copy that the details show; `None`: the one that says most.
    pub part: Option<CopyPart>,
    /// Search of the program.
    pub search: LineSearch,
    /// What another panel asked for before the run was read.
    pub(super) request: Option<CopyRequest>,
    /// The recording that is shown or read.
    pub(super) key: Option<usize>,
    pub(super) reading: Option<Progress>,
    pub(super) seen_jump: u64,
    /// Listed copies, and the choice that they follow from; `None`: all copies.
    pub(super) chosen: (Option<CopyState>, String, Option<Arc<Vec<u32>>>),
    pub(super) copies: Rows,
    pub(super) program: Listing,
    pub(super) searching: Option<Progress>,
    pub(super) stream: StreamView,
    pub(super) calls: Rows,
}

/// The stream of a copy that the details show.
#[derive(Clone, Default)]
pub(super) struct StreamView {
    /// Copy and stream.
    pub key: Option<(u32, CopyStream)>,
    /// The bytes; `None` while they are read, or if they are damaged.
    pub rows: Option<Arc<StreamRows>>,
    pub damaged: bool,
    /// The form that the user chose; `None`: the one that suits the bytes.
    pub form: Option<StreamForm>,
    pub list: Listing,
}

impl View {
    /// Takes the run. The first trapped copy is selected, else the copy of the current event.
    pub(super) fn set_data(&mut self, doc: &Document, data: Arc<WasmRunData>) {
        self.reading = None;
        let copies = data.copies();
        let first = copies
            .next_trap(None)
            .or_else(|| copies.find_copy_at(doc.current_event()));
        if let Some(copy) = first.or_else(|| copies.copy(0).map(|_| 0)) {
            self.select_copy(copy);
            if let Some(line) = data.trap_line(copy) {
                self.go_line(LineTarget::Trap(line));
            }
        }
        self.seen_jump = doc.jumps;
        if self.line.is_none() {
            let first = data.text().functions().first().map_or(0, |f| f.first);
            self.program.rows.top = f64::from(first.saturating_sub(2));
        }
        if let Some(request) = self.request.take() {
            self.answer(&data, request);
        }
        self.content = Content::Read(data);
    }

    /// Returns the run, once it is read.
    #[must_use]
    pub fn data(&self) -> Option<&Arc<WasmRunData>> {
        match &self.content {
            Content::Read(data) => Some(data),
            _ => None,
        }
    }

    /// Updates the listed copies.
    pub(super) fn update_chosen(&mut self, data: &WasmRunData) {
        let filter = self.filter.trim();
        if (self.chosen.0, self.chosen.1.as_str()) != (self.state, filter) {
            let copies = data.copies().select(self.state, filter).map(Arc::new);
            self.chosen = (self.state, filter.to_owned(), copies);
            self.copies.top = 0.0;
            self.reveal_copy();
        }
    }

    /// Returns the number of listed copies.
    pub(super) fn listed(&self, data: &WasmRunData) -> u64 {
        let all = data.copies().run().copies().len();
        self.chosen.2.as_ref().map_or(all, |copies| copies.len()) as u64
    }

    /// Returns the copy in a row.
    #[must_use]
    pub fn copy_in_row(&self, row: u64) -> Option<u32> {
        match &self.chosen.2 {
            Some(copies) => copies.get(usize::try_from(row).ok()?).copied(),
            None => u32::try_from(row).ok(),
        }
    }

    /// Returns the row of a copy.
    pub(super) fn row_of(&self, copy: u32) -> Option<u64> {
        match &self.chosen.2 {
            Some(copies) => copies.binary_search(&copy).ok().map(|row| row as u64),
            None => Some(u64::from(copy)),
        }
    }

    /// Shows what another panel asks for, now or once the run is read.
    pub fn show(&mut self, request: CopyRequest) {
        match self.data().cloned() {
            Some(data) => self.answer(&data, request),
            None => self.request = Some(request),
        }
    }

    fn answer(&mut self, data: &Arc<WasmRunData>, request: CopyRequest) {
        match request {
            CopyRequest::Copy(copy, part) => {
                self.select_listed(data, copy);
                self.part = part.or(self.part);
            }
            CopyRequest::Trap(copy) => {
                self.select_listed(data, copy);
                self.go_trap(data, copy);
            }
            CopyRequest::State(state) => {
                (self.state, self.filter) = (state, String::new());
            }
        }
    }

    /// Selects a copy. If the list does not have it, lists all copies.
    fn select_listed(&mut self, data: &WasmRunData, copy: u32) {
        self.update_chosen(data);
        if self.row_of(copy).is_none() {
            (self.state, self.filter) = (None, String::new());
            self.update_chosen(data);
        }
        self.select_copy(copy);
    }

    /// Selects a copy, and brings it into view.
    pub(super) fn select_copy(&mut self, copy: u32) {
        self.copy = Some(copy);
        self.calls.top = 0.0;
        self.reveal_copy();
    }

    fn reveal_copy(&mut self) {
        if let Some(row) = self.copy.and_then(|copy| self.row_of(copy)) {
            self.copies.reveal(row);
        }
    }

    /// Selects a line of the program, and brings it into view.
    pub(super) fn go_line(&mut self, target: LineTarget) {
        let (LineTarget::Trap(line) | LineTarget::Line(line)) = target;
        self.line = Some(line);
        self.program.rows.reveal(u64::from(line));
        if let LineTarget::Trap(_) = target {
            self.program.scroll_to_left();
        }
    }
}
