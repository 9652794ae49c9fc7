//! State of the Kernel panel.

use crate::panels::common::code_listing::{LineSearch, Listing};
use crate::theme::rows::Rows;
use kinescope_session::Document;
use std::sync::Arc;
use trace_core::api_trace::KernelCode;
use trace_core::progress::Progress;

/// State of the panel.
#[derive(Clone, Default)]
pub struct View {
    /// The function, an index into the recording's list; `None` before the first selection.
    pub function: Option<u32>,
    /// Its code, once it is read.
    pub code: Option<Arc<KernelCode>>,
    /// Search of the PTX.
    pub search: LineSearch,
    /// The current line.
    pub(super) line: Option<u32>,
    /// The recording and the function that are being read, or were read.
    pub(super) code_key: Option<(usize, u32)>,
    pub(super) reading: Option<Progress>,
    pub(super) listing: Listing,
    pub(super) launches: Rows,
    pub(super) seen_jump: u64,
}

impl View {
    /// Keeps the code of the function: the recording has grown, and functions do not change.
    pub fn keep_code(&mut self, doc: &Document) {
        let api_trace = doc.derived.api_trace.as_ref().map(|a| Arc::as_ptr(a) as usize);
        self.code_key = self
            .code_key
            .zip(api_trace)
            .filter(|_| self.code.is_some())
            .map(|((_, function), api_trace)| (api_trace, function));
    }

    /// Shows a function, whatever launch is selected.
    pub fn show_function(&mut self, doc: &Document, function: u32) {
        self.function = Some(function);
        self.seen_jump = doc.jumps;
    }

    /// Brings a line of the PTX into view.
    pub(super) fn go_line(&mut self, line: u32) {
        self.line = Some(line);
        self.listing.rows.reveal(u64::from(line));
    }
}
