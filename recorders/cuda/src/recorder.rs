//! The recorder of this process: its trace, and its state of memory, streams, code, graphs and kernels.

use crate::annotations::Annotations;
use crate::code::{Code, FunctionInfo};
use crate::driver::driver;
use crate::graphs::Graphs;
use crate::handles::ByHandle;
use crate::kernels::SelectedKernels;
use crate::memory::{Memory, Pools};
use crate::settings::{RecordedRange, Settings};
use crate::shared_memory::{SharedContent, record_final_writes};
use crate::snapshots::{SnapshotPoint, Snapshots};
use crate::streams::Streams;
use crate::trace::{Trace, When, lock};
use cuda_driver::CuFunction;
use cuda_session::SessionError;
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use trace_core::GpuVa;
use trace_core::recording::NOTE_CALL;

/// The recorder of this process. Each state has a lock of its own; a thread that locks snapshots and another state locks
/// snapshots first.
pub(crate) struct Recorder {
    pub trace: Trace,
    pub memory: Mutex<Memory>,
    pub pools: Mutex<Pools>,
    pub streams: Streams,
    pub code: Mutex<Code>,
    pub graphs: Mutex<Graphs>,
    pub snapshots: Mutex<Snapshots>,
    /// Content of memory shared by host and device at the last check.
    pub shared: Mutex<SharedContent>,
    /// Names that the program gave to memory.
    pub annotations: Annotations,
    /// Launches that are recorded one by one, if not everything is.
    pub kernels: Option<SelectedKernels>,
    launches: AtomicU64,
}

impl Recorder {
    pub fn begin(to: &Path, settings: Settings) -> Result<Self, SessionError> {
        let trace = Trace::begin(to, &settings)?;
        let keeps = settings.kernels.is_some() || settings.range == RecordedRange::Marks;
        Ok(Self {
            trace,
            memory: Mutex::new(Memory::new(settings.window)),
            pools: Mutex::default(),
            streams: Streams::default(),
            code: Mutex::default(),
            graphs: Mutex::default(),
            snapshots: Mutex::new(Snapshots::new(settings.hashing, keeps, settings.stats)),
            shared: Mutex::default(),
            annotations: Annotations::default(),
            kernels: settings.kernels.map(SelectedKernels::new),
            launches: AtomicU64::new(0),
        })
    }

    /// Handles a program's mark.
    pub fn mark(&self, text: &str) {
        if self.trace.is_partial() {
            let is_in = self.trace.is_recorded(When::Launch);
            match text {
                "begin" if !is_in => {
                    self.snapshot_range(SnapshotPoint::Begin);
                    self.trace.enter();
                    self.annotations.enter_range(&self.trace);
                }
                "end" if is_in => {
                    self.complete_range();
                    self.trace.leave();
                }
                _ => {}
            }
        }
        self.trace.annotate(NOTE_CALL, text.as_bytes().to_vec());
    }

    /// Records what is known only at the end of the recorded range.
    fn complete_range(&self) {
        if self.kernels.is_none() {
            self.streams.wait_for_awaited(&self.trace, None);
            self.streams.forget_awaited(&self.trace);
            record_final_writes(&self.trace, &self.shared, &self.memory);
        }
        self.snapshot_range(SnapshotPoint::End);
    }

    /// Records the content of memory at an end of the recorded range, if everything is recorded.
    fn snapshot_range(&self, point: SnapshotPoint) {
        if self.kernels.is_none() {
            self.snapshot(&mut lock(&self.snapshots), point);
        }
    }

    /// Records the content of memory. Returns `false` if it cannot be read; then nothing is recorded.
    pub fn snapshot(&self, snapshots: &mut Snapshots, point: SnapshotPoint) -> bool {
        snapshots.take(&self.trace, &self.code, &self.memory, point)
    }

    /// Records the initial content of variables of code that is first used after the start of the range.
    fn snapshot_variables(&self, variables: Vec<(GpuVa, u64)>) {
        if variables.is_empty() || self.trace.is_capturing() {
            return;
        }
        let begun = self.trace.session.start_call();
        // SAFETY: the call waits for the device.
        if unsafe { driver().cuCtxSynchronize() }.is_ok() {
            lock(&self.snapshots).record_variables(&self.trace, begun, &self.memory, variables);
        }
    }

    /// Counts launches of one call. The recording ends after the last launch to record.
    pub fn count_launches(&self, count: u64) {
        let before = self.launches.fetch_add(count, Ordering::Relaxed);
        if self.trace.is_last_launch(before + 1, before + count) {
            self.complete_range();
            self.trace.finish();
        }
    }

    /// Returns the number of launches so far.
    pub fn launch_count(&self) -> u64 {
        self.launches.load(Ordering::Relaxed)
    }

    /// Returns the properties of a function, and queries them if it is new.
    pub fn find_function(&self, handle: CuFunction) -> FunctionInfo {
        thread_local! {
            /// Functions that this thread launched, as of a value of [`Trace::changes`].
            static SEEN: RefCell<(u64, HashMap<usize, FunctionInfo, ByHandle>)> = RefCell::default();
        }
        let changes = self.trace.changes.load(Ordering::Acquire);
        let seen = SEEN.try_with(|seen| {
            let seen = seen.borrow();
            (seen.0 == changes)
                .then(|| seen.1.get(&(handle as usize)).cloned())
                .flatten()
        });
        if let Ok(Some(known)) = seen {
            return known;
        }
        let mut code = lock(&self.code);
        let known = code.function(&self.trace, self.kernels.as_ref(), handle);
        let waits = code.has_pending_query(handle);
        let fresh = code.take_fresh_variables();
        drop(code);
        // No recorded call holds the content of variables at the start of a part of a program.
        if self.trace.is_partial() && self.trace.is_inside() {
            self.snapshot_variables(fresh);
        }
        if !waits {
            let _ = SEEN.try_with(|seen| {
                let mut seen = seen.borrow_mut();
                if seen.0 != changes {
                    *seen = (changes, HashMap::default());
                }
                seen.1.insert(handle as usize, known.clone());
            });
        }
        known
    }

    /// Reads some of the awaited content when the program ends. Returns whether there is more. Runs on the writer
    /// thread.
    pub fn drain_at_exit(&self) -> bool {
        if self.trace.session.is_going() && self.streams.complete_last(&self.trace) {
            return true;
        }
        // A thread inside a snapshot does not end the process.
        if let Ok(snapshots) = self.snapshots.try_lock() {
            snapshots.print_stats();
        }
        false
    }
}
