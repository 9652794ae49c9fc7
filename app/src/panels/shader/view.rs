//! What the Shader panel shows, and where in it the person is.

use crate::document::code::{ChainShader, Listing};
use crate::theme::rows::Rows;
use std::sync::Arc;
use trace_core::progress::Progress;

/// What a listing was made of: the recording, the job, which of its shaders.
pub(super) type ListingKey = (usize, u32, usize);

/// The shaders of a chain with what they were looked up in: the facts, the job.
pub(super) type ChainShaders = ((usize, u32), Arc<Vec<ChainShader>>);

/// What the panel shows.
#[derive(Default)]
pub struct View {
    /// The code that is shown.
    pub listing: Option<Arc<Listing>>,
    /// What it was made of, or is being made of.
    pub(super) listing_key: Option<ListingKey>,
    /// The work that reads it.
    pub(super) reading: Option<Progress>,
    /// The shaders of a job's chain: of which facts, of which job.
    pub(super) chain_shaders: Option<ChainShaders>,
    /// Which of the job's shaders is shown, and of which job.
    pub(super) chosen: (u32, usize),
    /// The shader that another panel wants to be shown: the job, and where it begins.
    pub(super) requested: Option<(u32, u64)>,
    /// The clause where the person is.
    pub clause: usize,
    /// Clauses from which branches were followed.
    pub branch_history: Vec<usize>,
    /// Text of the search field.
    pub search: String,
    /// The search field wants the keyboard.
    pub focus_search: bool,
    /// What was searched for last, and the lines that hold it.
    pub(super) hits: (String, Arc<Vec<usize>>),
    /// The line of the hit that was gone to last.
    pub(super) hit: Option<usize>,
    pub(super) list: Rows,
    /// A thread that is followed.
    pub thread: super::thread::ThreadView,
}

impl View {
    /// Shows a shader of a job once the job is the one that is meant.
    pub fn show_shader(&mut self, job: u32, entry: u64) {
        self.requested = Some((job, entry));
    }

    /// Opens or closes the part for a thread; `open`: opens it in any case. An open one takes the keyboard.
    pub fn toggle_thread(&mut self, open: bool) {
        self.thread.open = open || !self.thread.open;
        self.thread.focus = self.thread.open && self.thread.run.is_none();
    }

    /// Address of the clause where the person is.
    #[must_use]
    pub fn address(&self) -> Option<u64> {
        self.listing.as_ref()?.address(self.clause)
    }

    /// Whether there is a thread that goes along this code.
    #[must_use]
    pub fn is_stepping(&self) -> bool {
        let fits = |l: &Arc<Listing>| super::thread::is_same_code(self, l);
        self.thread.open && self.listing.as_ref().is_some_and(fits)
    }

    /// Lines that hold what was searched for.
    #[must_use]
    pub fn search_hits(&self) -> &[usize] {
        &self.hits.1
    }

    /// Goes to a clause; `remember`: the way back leads to the one before.
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
