//! State of the Shader panel, and the user's position in it.

use super::thread_view::ThreadView;
use crate::theme::rows::Rows;
use kinescope_session::code::{ChainShader, Listing};
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::progress::Progress;

/// The inputs of a listing: the recording, the job, the index of its shader.
pub(super) type ListingKey = (usize, u32, usize);

/// The shaders of a chain with the key of their lookup: the metadata, the job.
pub(super) type ChainShaders = ((usize, u32), Arc<Vec<ChainShader>>);

/// State of the panel.
#[derive(Default)]
pub struct View {
    /// The shown code.
    pub listing: Option<Arc<Listing>>,
    /// Its inputs, also while it is being read.
    pub(super) listing_key: Option<ListingKey>,
    /// The work that reads it.
    pub(super) reading: Option<Progress>,
    /// The shaders of a job's chain, with their metadata and job.
    pub(super) chain_shaders: Option<ChainShaders>,
    /// The job, and the index of its shown shader.
    pub(super) chosen: (u32, usize),
    /// The shader that another panel requested: the job, and the start address.
    pub(super) requested: Option<(u32, GpuVa)>,
    /// The current clause.
    pub clause: usize,
    /// Clauses from which branches were followed.
    pub branch_history: Vec<usize>,
    /// Text of the search field.
    pub search: String,
    /// The search field requests the keyboard.
    pub focus_search: bool,
    /// The last search text, and the lines that contain it.
    pub(super) hits: (String, Arc<Vec<usize>>),
    /// The line of the current match.
    pub(super) hit: Option<usize>,
    pub(super) list: Rows,
    /// The thread view.
    pub thread: ThreadView,
}

impl View {
    /// Shows a shader of a job once that job is current.
    pub fn show_shader(&mut self, job: u32, entry: GpuVa) {
        self.requested = Some((job, entry));
    }

    /// Opens or closes the thread view; `open`: opens it in any case. When it opens, it takes the keyboard.
    pub fn toggle_thread(&mut self, open: bool) {
        self.thread.open = open || !self.thread.open;
        self.thread.focus = self.thread.open && self.thread.run.is_none();
    }

    /// Returns the address of the current clause.
    #[must_use]
    pub fn address(&self) -> Option<GpuVa> {
        self.listing.as_ref()?.address(self.clause)
    }

    /// Returns whether a thread steps along this code.
    #[must_use]
    pub fn is_stepping(&self) -> bool {
        self.thread.open && self.listing.as_ref().is_some_and(|l| self.thread.ran(l))
    }

    /// Returns the lines that contain the search text.
    #[must_use]
    pub fn search_hits(&self) -> &[usize] {
        &self.hits.1
    }

    /// Goes to a clause; `remember`: the user can go back to the previous one.
    pub(super) fn go_to_clause(&mut self, clause: usize, remember: bool) {
        let Some(listing) = &self.listing else { return };
        let Some(line) = listing.begins.get(clause) else { return };
        if remember && clause != self.clause {
            self.branch_history.push(self.clause);
        }
        self.clause = clause;
        self.list.reveal(*line as u64);
    }

    /// Goes to a line.
    pub(super) fn go_line(&mut self, line: usize) {
        let Some(listing) = &self.listing else { return };
        if let Some(l) = listing.lines.get(line) {
            self.clause = l.clause();
            self.list.reveal(line as u64);
        }
    }
}
