//! State of the thread view: the chosen thread, its last run, and the current step.

use super::thread::StopConditions;
use device_mali::debug::ThreadTrace;
use kinescope_session::code::Listing;
use kinescope_session::writer_cache::EditKey;
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::progress::Progress;

/// A thread that was run.
pub struct Run {
    /// Index of the job.
    pub job: u32,
    /// The workgroup.
    pub workgroup: [u32; 3],
    /// The thread within it.
    pub thread: [u32; 3],
    /// The inputs that it ran with.
    pub key: EditKey,
    /// The trace of the thread.
    pub followed: ThreadTrace,
}

/// State of the thread view.
#[derive(Default)]
pub struct ThreadView {
    /// Whether it is open next to the code.
    pub open: bool,
    /// Text of the field for the workgroup.
    pub workgroup: String,
    /// Text of the field for the thread.
    pub thread: String,
    /// The error in a field, or of the run.
    pub wrong: Option<String>,
    /// The running replay, with its number.
    pub(super) running: Option<(u64, Progress)>,
    pub(super) runs: u64,
    /// The result of the last run.
    pub run: Option<Arc<Run>>,
    /// The current step.
    pub step: usize,
    /// The conditions at which "continue" stops.
    pub stops: StopConditions,
    /// Why the current step is a stop, if "continue" went there.
    pub stopped: Option<String>,
    /// The field for the workgroup requests the keyboard.
    pub(super) focus: bool,
    /// If set, a run starts in the next frame and ends at the step with this number.
    pub(super) begin: Option<u64>,
}

impl ThreadView {
    /// Returns the address of the clause of the current step.
    pub fn at(&self) -> Option<GpuVa> {
        let run = self.run.as_ref()?;
        run.followed.steps.get(self.step).map(|s| s.clause)
    }

    /// Chooses a thread, which is run at once and shown at the step with this number.
    pub fn choose(&mut self, workgroup: [u32; 3], thread: [u32; 3], step: u64) {
        let text = |[x, y, z]: [u32; 3]| format!("{x},{y},{z}");
        (self.workgroup, self.thread) = (text(workgroup), text(thread));
        self.open = true;
        self.begin = Some(step);
    }

    /// Returns whether this code is the code that the thread ran.
    pub fn ran(&self, listing: &Listing) -> bool {
        self.run
            .as_ref()
            .is_some_and(|r| r.followed.shader == listing.code.entry)
    }
}
