//! What the Kernel panel shows.

use crate::document::Document;
use crate::theme::horizontal_scroll::HorizontalScroll;
use crate::theme::rows::Rows;
use std::sync::Arc;
use trace_core::calls::KernelCode;
use trace_core::progress::Progress;

/// What the panel shows.
#[derive(Clone, Default)]
pub struct View {
    /// The function, an index into the recording's list; `None`: none was meant yet.
    pub function: Option<u32>,
    /// Its code, once it was read.
    pub code: Option<Arc<KernelCode>>,
    /// Text that is searched for in the PTX.
    pub search: String,
    /// The search wants the keyboard.
    pub focus: bool,
    /// Lines that hold it, for which text.
    pub(super) hits: (String, Arc<Vec<u32>>),
    /// The line where the person is.
    pub(super) line: Option<u32>,
    /// The recording and the function that are read, or were.
    pub(super) code_key: Option<(usize, u32)>,
    pub(super) reading: Option<Progress>,
    pub(super) list: Rows,
    /// How far the code is moved sideways, and how wide its longest line is that was in view, points.
    pub(super) sideways: HorizontalScroll,
    pub(super) widest: f32,
    pub(super) launches: Rows,
    pub(in crate::panels) seen_jump: u64,
}

impl View {
    /// Shows a function, whatever launch is meant.
    pub fn show_function(&mut self, doc: &Document, function: u32) {
        self.function = Some(function);
        self.seen_jump = doc.jumps;
    }

    /// Brings a line of the PTX into view.
    pub(super) fn go_line(&mut self, line: u32) {
        self.line = Some(line);
        self.list.reveal(u64::from(line));
    }
}
