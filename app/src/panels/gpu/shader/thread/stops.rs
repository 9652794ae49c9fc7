//! Stop conditions of a stepped thread: at clauses, at accesses to an address, where a lane diverges or joins.

use super::Run;
use std::collections::BTreeSet;
use trace_core::GpuVa;

/// The conditions at which a thread stops.
#[derive(Clone, Debug, Default)]
pub struct StopConditions {
    /// Clauses, by address.
    pub clauses: BTreeSet<GpuVa>,
    /// Text of the field for an address of memory.
    pub memory: String,
    /// A thread of the same wave: stops where it diverges from this one, and where it joins it again.
    pub lane: Option<u32>,
}

impl StopConditions {
    /// Returns the address of memory whose accesses stop the thread.
    #[must_use]
    pub fn address(&self) -> Option<GpuVa> {
        kinescope_session::text::parse_number(self.memory.trim()).map(GpuVa::new)
    }

    /// Returns whether there is no condition.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.clauses.is_empty() && self.lane.is_none() && self.address().is_none()
    }

    /// Sets or removes a breakpoint at a clause.
    pub fn toggle(&mut self, clause: GpuVa) {
        if !self.clauses.remove(&clause) {
            self.clauses.insert(clause);
        }
    }

    /// Returns why a step is a stop, or `None` if it is not.
    #[must_use]
    pub fn describe_stop(&self, run: &Run, step: usize) -> Option<String> {
        let steps = &run.followed.steps;
        let s = steps.get(step)?;
        if self.clauses.contains(&s.clause) {
            return Some("a breakpoint at this clause".into());
        }
        let covers = |a: &&device_mali::debug::MemoryAccess, at: GpuVa| a.va <= at && at - a.va < u64::from(a.bytes);
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
            (true, false) => Some(format!("thread {lane} diverges here")),
            (false, true) => Some(format!("thread {lane} rejoins here")),
            _ => None,
        }
    }

    /// Returns the next or previous stop.
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
