//! Jobs and interrupts of recordings that show them as events, without any register.

use super::work::{InferredInterrupt, JobSpan, JobTracker, Mark, MarkKind, TrackedWork};
use crate::GpuVa;

/// Finds one job per submit event and one interrupt per interrupt event. The jobs have no end.
#[derive(Default)]
pub(super) struct SubmitTracker {
    work: TrackedWork,
}

impl SubmitTracker {
    /// Adds a job that starts at a mark. Returns its position among the jobs.
    pub(super) fn submit(&mut self, mark: &Mark, slot: u8, head: GpuVa) -> usize {
        let at = self.work.jobs.len();
        self.work.jobs.push(JobSpan {
            index: u32::try_from(at).unwrap_or(u32::MAX),
            slot,
            submit_event: mark.event,
            done_event: None,
            head_va: head,
            submit_ns: mark.time,
            done_ns: None,
            failed: false,
        });
        at
    }

    /// Ends a job at a mark.
    pub(super) fn end(&mut self, at: usize, mark: &Mark) {
        if let Some(job) = self.work.jobs.get_mut(at) {
            (job.done_event, job.done_ns) = (Some(mark.event), Some(mark.time));
        }
    }

    /// Returns the results so far.
    pub(super) fn into_work(self) -> TrackedWork {
        self.work
    }
}

impl JobTracker for SubmitTracker {
    fn take(&mut self, mark: &Mark) {
        match mark.kind {
            MarkKind::Submit { head, slot } => {
                self.submit(mark, slot, head);
            }
            MarkKind::Interrupt { line, status } => self.work.interrupts.push(InferredInterrupt {
                event: mark.event,
                last: mark.event,
                line,
                status,
            }),
            MarkKind::Handler { .. } | MarkKind::Write { .. } => {}
        }
    }

    fn finish(self: Box<Self>) -> TrackedWork {
        self.into_work()
    }
}
