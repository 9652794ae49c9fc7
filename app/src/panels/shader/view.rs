//! What the Shader panel shows, and where in it the person is.

use crate::document::code::Listing;
use crate::theme::rows::Rows;
use std::sync::Arc;
use trace_core::progress::Progress;

/// What a listing was made of: the recording, the job, which of its shaders.
pub(super) type Of = (usize, u32, usize);

/// What the panel shows.
#[derive(Default)]
pub struct View {
    /// The code that is shown.
    pub listing: Option<Arc<Listing>>,
    /// What it was made of, or is being made of.
    pub(super) of: Option<Of>,
    /// The work that reads it.
    pub(super) reading: Option<Progress>,
    /// Which of the job's shaders is shown, and of which job.
    pub(super) chosen: (u32, usize),
    /// The shader that another panel wants to be shown: the job, and where it begins.
    pub(super) wanted: Option<(u32, u64)>,
    /// The clause where the person is.
    pub clause: usize,
    /// Clauses from which branches were followed.
    pub trail: Vec<usize>,
    /// Text of the search field.
    pub search: String,
    /// What was searched for last, and the lines that hold it.
    pub(super) hits: (String, Vec<usize>),
    /// The line of the hit that was gone to last.
    pub(super) hit: Option<usize>,
    pub(super) list: Rows,
    /// A thread that is followed.
    pub thread: super::thread::Look,
}

impl View {
    /// Shows a shader of a job once the job is the one that is meant.
    pub fn want(&mut self, job: u32, entry: u64) {
        self.wanted = Some((job, entry));
    }

    /// Lines that hold what was searched for.
    #[must_use]
    pub fn found(&self) -> &[usize] {
        &self.hits.1
    }

    /// Goes to a clause; `remember`: the way back leads to the one before.
    pub(super) fn go(&mut self, clause: usize, remember: bool) {
        let Some(listing) = &self.listing else { return };
        let Some(line) = listing.begins.get(clause) else { return };
        if remember && clause != self.clause {
            self.trail.push(self.clause);
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
