//! Where a thread that is stepped along stops: at clauses, where it touches an address, where a lane parts or joins.

use super::Run;
use std::collections::BTreeSet;

/// What it stops at.
#[derive(Clone, Debug, Default)]
pub struct StopConditions {
    /// Clauses, by address.
    pub clauses: BTreeSet<u64>,
    /// Text of the field for an address of memory.
    pub memory: String,
    /// A thread of the same wave: stops where it parts from this one, and where it joins it again.
    pub lane: Option<u32>,
}

impl StopConditions {
    /// The address of memory that is watched.
    #[must_use]
    pub fn address(&self) -> Option<u64> {
        crate::theme::text::parse_number(self.memory.trim())
    }

    /// Whether there is anything to stop at.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.clauses.is_empty() && self.lane.is_none() && self.address().is_none()
    }

    /// Sets or takes away a stop at a clause.
    pub fn toggle(&mut self, clause: u64) {
        if !self.clauses.remove(&clause) {
            self.clauses.insert(clause);
        }
    }

    /// Why a step is one to stop at; `None`: it is not.
    #[must_use]
    pub fn describe_stop(&self, run: &Run, step: usize) -> Option<String> {
        let steps = &run.followed.steps;
        let s = steps.get(step)?;
        if self.clauses.contains(&s.clause) {
            return Some("a break at this clause".into());
        }
        let covers = |a: &&device_mali::debug::MemoryAccess, at: u64| a.va <= at && at - a.va < u64::from(a.bytes);
        if let Some(at) = self.address()
            && let Some(a) = run.followed.accesses(step).iter().find(|a| covers(a, at))
        {
            let verb = if a.write { "writes" } else { "reads" };
            return Some(format!("{verb} {at:#x}"));
        }
        let lane = self.lane?;
        let before = steps.get(step.checked_sub(1)?)?;
        let with = |s: &device_mali::debug::Step| {
            let bit = lane.checked_sub(s.first).filter(|b| *b < 32)?;
            Some(s.lanes >> bit & 1 == 1)
        };
        match (with(before)?, with(s)?) {
            (true, false) => Some(format!("thread {lane} parts here")),
            (false, true) => Some(format!("thread {lane} joins here")),
            _ => None,
        }
    }

    /// The next step to stop at, or the one before.
    #[must_use]
    pub fn find_stop(&self, run: &Run, from: usize, forward: bool) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        let hit = |n: &usize| self.describe_stop(run, *n).is_some();
        if forward {
            (from + 1..run.followed.steps.len()).find(hit)
        } else {
            (0..from).rev().find(hit)
        }
    }
}
