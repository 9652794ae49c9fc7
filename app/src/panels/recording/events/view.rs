//! State of the Events panel.

use super::completion::Completion;
use crate::theme::rows::Rows;
use std::ops::Range;
use std::sync::Arc;
use trace_core::filter::Selection;
use trace_core::progress::Progress;

/// State of the panel.
#[derive(Clone, Default)]
pub struct View {
    /// Text of the filter.
    pub filter: String,
    /// Events that pass the filter, once known; `None`: all.
    pub rows: Option<Arc<Selection>>,
    /// Text that `rows` were found for.
    pub found_for: String,
    /// The error in the filter.
    pub wrong: Option<String>,
    /// The wrong bytes of the filter.
    pub(super) wrong_at: Range<usize>,
    pub(super) asked_for: String,
    /// The running search; a new one replaces it.
    pub(super) searching: Option<Progress>,
    pub(super) completion: Completion,
    /// Name that the user is writing for a saved filter, by the filter's text.
    pub(super) naming: Option<(String, String)>,
    pub(super) list: Rows,
    pub(super) seen_jump: u64,
    /// The filter field wants the keyboard.
    pub focus_filter: bool,
}

impl View {
    /// Searches the events that pass the filter again: the recording has grown. The old ones are shown until then.
    pub fn forget_results(&mut self) {
        self.asked_for.clear();
    }

    /// Returns whether the last event is in view.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.list.is_at_end()
    }

    /// Shows the last event, also when the recording grows.
    pub fn stick_to_end(&mut self) {
        self.list.stick_to_end();
    }
}
