//! What the Launches panel shows.

use crate::document::api_trace::LaunchSort;
use crate::theme::rows::Rows;
use std::sync::Arc;
use trace_core::progress::Progress;

/// What rows were chosen by: the facts, and the text, the order and its way.
pub(super) type RowsKey = (usize, (String, LaunchSort, bool));

/// What the panel shows.
#[derive(Clone, Default)]
pub struct View {
    /// Text that names of kernels hold.
    pub filter: String,
    /// What launches are sorted by.
    pub sort: LaunchSort,
    /// Whether the largest comes first.
    pub falling: bool,
    /// The launches that are shown; `None`: all, in their order.
    pub rows: Option<Arc<Vec<u32>>>,
    /// The filter wants the keyboard.
    pub focus: bool,
    pub(super) rows_key: Option<RowsKey>,
    pub(super) choosing: Option<Progress>,
    pub(super) list: Rows,
    pub(super) seen_jump: u64,
}

impl View {
    /// Rows were chosen.
    pub(super) fn set_rows(&mut self, rows: Option<Vec<u32>>) {
        self.rows = rows.map(Arc::new);
        self.list.top = 0.0;
        // The launch that is meant is brought into view.
        self.seen_jump = u64::MAX;
    }

    /// The launch in a row.
    #[must_use]
    pub fn launch(&self, row: u64) -> Option<u32> {
        let row = usize::try_from(row).ok()?;
        match &self.rows {
            Some(rows) => rows.get(row).copied(),
            None => u32::try_from(row).ok(),
        }
    }

    /// The row of a launch. Of a sorted list it is looked for in all of it.
    pub(super) fn row_of(&self, launch: u32) -> Option<u64> {
        match &self.rows {
            Some(rows) => rows.iter().position(|l| *l == launch).map(|n| n as u64),
            None => Some(u64::from(launch)),
        }
    }

    /// Sorts by something, or the other way round where it is sorted so already.
    pub fn sort_by(&mut self, sort: LaunchSort) {
        if self.sort == sort {
            self.falling ^= true;
        } else {
            // Of sizes and times the largest are looked for, of names the first.
            self.falling = matches!(
                sort,
                LaunchSort::Grid | LaunchSort::Block | LaunchSort::Shared | LaunchSort::Duration
            );
            self.sort = sort;
        }
    }
}
