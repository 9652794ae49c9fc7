//! Moves in two recordings at once, and between cursors.

use super::Document;
use crate::cursors::{Cursor, CursorSpan};
use trace_core::diff::DiffSide;

impl Document {
    /// Sets a cursor to an event of the recording.
    pub fn set_cursor(&mut self, cursor: Cursor, event: u64) {
        if let Some(last) = self.len().checked_sub(1) {
            self.cursors.set(cursor, event.min(last));
        }
    }

    /// Returns the span between the cursors, or `None` unless both are set.
    #[must_use]
    pub fn cursor_span(&self) -> Option<CursorSpan> {
        let (a, b) = (self.cursors.a?, self.cursors.b?);
        let (first, last) = (a.min(b), a.max(b));
        let ns = self.ns(last).saturating_sub(self.ns(first));
        Some(CursorSpan {
            first,
            last,
            ns: self.has_times().then_some(ns),
            reversed: b < a,
        })
    }

    /// Returns the step of the comparison at the current event.
    #[must_use]
    pub fn step(&self) -> Option<u64> {
        let c = self.comparison.done.as_ref()?;
        let current_event = self.current_event();
        let aligned = || Some(c.steps.step_of(DiffSide::A, current_event)).filter(|_| !c.steps.is_empty());
        self.comparison.step_at(current_event).or_else(aligned)
    }

    /// Returns the current event of the second recording: the aligned event, or the one that follows its position.
    #[must_use]
    pub fn other_event(&self) -> Option<u64> {
        let c = self.comparison.done.as_ref()?;
        Some(self.step().and_then(|s| c.steps.at(s)).map_or(0, |s| s.at_b))
    }

    /// Whether the recordings differ at events in `first..end`, or the second one has additional events there.
    #[must_use]
    pub fn differs_within(&self, first: u64, end: u64) -> bool {
        let done = self.comparison.done.as_ref();
        done.is_some_and(|c| c.steps.differs_within(first, end))
    }

    /// Moves both recordings to the step of an event of one side.
    pub fn go_step_of(&mut self, which: DiffSide, event: u64) {
        if let Some(step) = self.comparison.done.as_ref().map(|c| c.steps.step_of(which, event)) {
            self.go_step(step);
        }
    }

    /// Moves both recordings to a step of the comparison.
    pub fn go_step(&mut self, step: u64) {
        let Some(at) = self.comparison.done.as_ref().and_then(|c| c.steps.at(step)) else {
            return;
        };
        self.go(at.at_a);
        self.comparison.set_step(self.current_event, step);
    }

    /// Moves to the next or previous difference. After the last one it wraps to the first and sets a message.
    pub fn go_difference(&mut self, forward: bool) {
        let Some(c) = self.comparison.done.clone() else { return };
        let n = c.steps.rows();
        let Some(last) = n.checked_sub(1) else {
            self.comparison.jump_message = "no event differs".into();
            return;
        };
        let here = self.step().unwrap_or(0);
        let (row, wrapped) = match (c.steps.neighbour(here, forward), forward) {
            (Some(row), _) => (row, ""),
            (None, true) => (0, "continued at the first difference"),
            (None, false) => (last, "continued at the last difference"),
        };
        self.go_row(row);
        wrapped.clone_into(&mut self.comparison.jump_message);
    }

    /// Moves to a difference, by its row in the list.
    pub fn go_row(&mut self, row: u64) {
        if let Some(r) = self.comparison.done.as_ref().and_then(|c| c.steps.row(row)) {
            self.go_step(r.step);
        }
    }
}
