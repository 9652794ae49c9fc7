//! State of the Objects panel.

use crate::theme::rows::Rows;
use kinescope_session::driver_data::ObjectFilter;
use std::collections::HashSet;
use std::sync::Arc;
use trace_core::progress::Progress;

/// The inputs of the rows: the recording, the filter, and the number of changes of the folded objects.
pub(super) type RowsKey = (usize, ObjectFilter, u64);

/// State of the panel.
#[derive(Clone, Default)]
pub struct View {
    /// Words that an object must contain.
    pub filter: String,
    /// Whether only the objects are shown that exist after the current event.
    pub only_current: bool,
    /// The selected object.
    pub selected: Option<u32>,
    /// Rows of the tree that are shown.
    pub(super) rows: Arc<Vec<u32>>,
    pub(super) rows_key: Option<RowsKey>,
    pub(super) choosing: Option<Progress>,
    /// Objects whose children are hidden, and how often that changed.
    pub(super) folded: HashSet<u32>,
    pub(super) fold_changes: u64,
    pub(super) list: Rows,
    pub(super) seen_jump: u64,
    pub(super) reveal: bool,
}

impl View {
    /// Chooses the rows again: the recording has grown.
    pub fn forget_results(&mut self) {
        self.rows_key = None;
    }

    /// Selects an object and brings it into view. Shows the objects of all time if a filter could hide it.
    pub fn show_object(&mut self, object: u32) {
        self.selected = Some(object);
        self.reveal = true;
        self.filter.clear();
        self.only_current = false;
        if !self.folded.is_empty() {
            self.folded.clear();
            self.fold_changes += 1;
        }
    }

    /// Hides the children of an object, or shows them again.
    pub(super) fn toggle(&mut self, object: u32) {
        if !self.folded.remove(&object) {
            self.folded.insert(object);
        }
        self.fold_changes += 1;
    }
}
