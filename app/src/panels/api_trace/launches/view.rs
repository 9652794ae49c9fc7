//! State of the Launches panel.

use crate::theme::rows::Rows;
use kinescope_session::api_trace::LaunchSort;
use std::sync::Arc;
use trace_core::progress::Progress;

/// The inputs of the rows: the metadata; the filter text, the sort key and the direction.
pub(super) type RowsKey = (usize, (String, LaunchSort, bool));

/// State of the panel.
#[derive(Clone, Default)]
pub struct View {
    /// Text that kernel names contain.
    pub filter: String,
    /// The sort key.
    pub sort: LaunchSort,
    /// Whether the order is descending.
    pub falling: bool,
    /// The launches that are shown; `None`: all, in their order.
    pub rows: Option<Arc<Vec<u32>>>,
    /// The filter field requests the keyboard.
    pub focus: bool,
    pub(super) rows_key: Option<RowsKey>,
    pub(super) choosing: Option<Progress>,
    pub(super) list: Rows,
    pub(super) seen_jump: u64,
    /// The next rows are those of a recording that has grown.
    keeps_place: bool,
}

impl View {
    /// Chooses the rows again: the recording has grown. The place in the list stays.
    pub fn forget_results(&mut self) {
        self.rows_key = None;
        self.keeps_place = true;
    }

    /// Returns whether the last launch is in view.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.list.is_at_end()
    }

    /// Shows the last launch, also when the recording grows.
    pub fn stick_to_end(&mut self) {
        self.list.stick_to_end();
    }

    /// Sets the rows.
    pub(super) fn set_rows(&mut self, rows: Option<Vec<u32>>) {
        self.rows = rows.map(Arc::new);
        if std::mem::take(&mut self.keeps_place) {
            return;
        }
        self.list.top = 0.0;
        // The selected launch is brought into view.
        self.seen_jump = u64::MAX;
    }

    /// Returns the launch in a row.
    #[must_use]
    pub fn launch(&self, row: u64) -> Option<u32> {
        let row = usize::try_from(row).ok()?;
        match &self.rows {
            Some(rows) => rows.get(row).copied(),
            None => u32::try_from(row).ok(),
        }
    }

    /// Returns the row of a launch. A sorted list is searched linearly.
    pub(super) fn row_of(&self, launch: u32) -> Option<u64> {
        match &self.rows {
            Some(rows) => rows.iter().position(|l| *l == launch).map(|n| n as u64),
            None => Some(u64::from(launch)),
        }
    }

    /// Sorts by a key, or reverses the order if the list is already sorted by it.
    pub fn sort_by(&mut self, sort: LaunchSort) {
        if self.sort == sort {
            self.falling ^= true;
        } else {
            // Users look for the largest sizes and times, and for the first names.
            self.falling = matches!(
                sort,
                LaunchSort::Grid | LaunchSort::Block | LaunchSort::Shared | LaunchSort::Duration
            );
            self.sort = sort;
        }
    }
}
