//! Memory changes along the body: writes of the recorded CPU, proved like the initial memory.

use super::Walker;
use crate::rules::{MAX_CHANGED, Reason, Refusal, budget_exceeded};
use replay_core::Action;
use trace_core::PAGE_SIZE;

/// Size of a page-table entry, bytes.
const ENTRY: u32 = 8;
/// Number of bytes that count as one step of the check.
const STEP_BYTES: u64 = 64;

impl Walker<'_> {
    /// Processes a change of `bytes` bytes at `offset` of the arena.
    pub(super) fn change(&mut self, action: &Action, offset: u64, bytes: u32) -> Result<(), Refusal> {
        let outside = Reason::ChangeOutside { offset, bytes };
        let Some(at) = self.plan.accesses.arena.base.checked_add(offset) else {
            return self.refuse(2, outside);
        };
        let end = at.in_page().saturating_add(bytes as usize);
        if bytes == 0 || end > PAGE_SIZE || self.memory.page(at.frame()).is_none() {
            return self.refuse(2, outside);
        }
        if let Action::Put { width, .. } = *action
            && !offset.is_multiple_of(u64::from(width.max(1)))
        {
            return self.refuse(2, outside);
        }
        if let Action::Copy { image, .. } = *action
            && self.images.get(image as usize).is_none()
        {
            let images = self.images.len() as u64;
            return self.refuse(2, Reason::NoImage { image, images });
        }
        self.work
            .spend(1 + u64::from(bytes) / STEP_BYTES)
            .or_else(|e| self.refuse(4, e))?;
        let table = self.reach.is_table(at.frame());
        self.at_rest(offset, at.frame(), table)?;
        if table && !(offset.is_multiple_of(u64::from(ENTRY)) && bytes.is_multiple_of(ENTRY)) {
            return self.refuse(2, Reason::HalfEntry { offset, bytes });
        }
        if !self.memory.apply(action, &self.images) {
            return self.refuse(2, outside);
        }
        let changed = self.memory.changed_frames() as u64;
        if changed > MAX_CHANGED {
            return self.refuse(
                4,
                budget_exceeded("frames that are changed in part", changed, MAX_CHANGED),
            );
        }
        if table {
            let entries = at.in_page() / ENTRY as usize..end / ENTRY as usize;
            self.reach
                .changed(self.plan, &self.memory, at.frame(), entries, self.work)
                .or_else(|e| self.refuse(2, e))?;
        }
        Ok(())
    }

    /// Checks that no active chain could be affected by the change. For a page table this means any chain; otherwise a
    /// chain with headers in the page.
    fn at_rest(&self, offset: u64, frame: u64, table: bool) -> Result<(), Refusal> {
        for slot in self.doing.busy_slots() {
            let headers = self.chains.get(&slot).is_some_and(|f| f.contains(&frame));
            let what = match (table, headers) {
                (true, _) => "a page table",
                (false, true) => "a page with its headers",
                (false, false) => continue,
            };
            let what = what.to_owned();
            return self.refuse(3, Reason::ChangeAtWork { offset, what, slot });
        }
        Ok(())
    }
}
