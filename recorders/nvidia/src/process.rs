//! The recorder of this process: the phase of the recording, and the lock.

use crate::identity;
use crate::lock::{OwnedGuard, OwnedLock};
use crate::log::{LogError, Part};
use crate::message::print_line;
use crate::recorder::Recorder;
use crate::records::kind;
use crate::trap_pages;
use libc::c_int;
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};

/// Nothing was recorded yet.
const WAITING: u8 = 0;
/// A thread creates the recorder.
const STARTING: u8 = 1;
/// Calls are recorded.
const RECORDING: u8 = 2;
/// Nothing is recorded any more, or nothing was requested.
const OFF: u8 = 3;

static PHASE: AtomicU8 = AtomicU8::new(WAITING);
static RECORDER: OwnedLock<Option<Recorder>> = OwnedLock::new(None);
/// Descriptor of the log, -1 for none.
static LOG_DESCRIPTOR: AtomicI32 = AtomicI32::new(-1);

/// The locked recorder.
pub(crate) struct RecorderGuard(OwnedGuard<'static, Option<Recorder>>);

impl RecorderGuard {
    /// Returns the id of this thread.
    pub fn thread(&self) -> u32 {
        self.0.thread
    }

    /// Runs work of the recorder. An error ends the recording.
    pub fn run(&mut self, work: impl FnOnce(&mut Recorder, u32) -> Result<(), LogError>) {
        let thread = self.thread();
        let Some(recorder) = self.0.as_mut().filter(|_| is_recording()) else {
            return;
        };
        if let Err(error) = work(recorder, thread) {
            let reason = match error {
                LogError::Unreadable => "memory of the program is not readable",
                LogError::TooLarge => "a record is too large",
                LogError::Limit => "the log reached its limit",
                LogError::Full => "the log cannot grow: the disk is full, or the program closed the file",
            };
            stop(recorder, thread, reason);
        }
    }
}

/// Ends the recording and makes the pages of doorbells accessible. It allocates nothing.
pub(crate) fn stop(recorder: &mut Recorder, thread: u32, reason: &str) {
    PHASE.store(OFF, Ordering::Release);
    trap_pages::open_all();
    // A full log has no room for the reason.
    let _ = recorder.append(kind::STOP, thread, &[Part::Bytes(reason.as_bytes())]);
    print_line(&[
        "the recording of NVIDIA's driver ends before the program ends: ",
        reason,
    ]);
}

/// Whether calls are recorded.
#[inline]
pub(crate) fn is_recording() -> bool {
    PHASE.load(Ordering::Acquire) == RECORDING
}

/// Returns the recorder, if it records this process and this thread is not in it.
pub(crate) fn lock() -> Option<RecorderGuard> {
    if !is_recording() || !identity::is_recorded_process() {
        return None;
    }
    RECORDER.lock().map(RecorderGuard)
}

/// Returns the recorder like [`lock`], without a system call. A child that shares the memory of its parent has it too:
/// its doorbells submit work of the program.
pub(crate) fn lock_at_doorbell() -> Option<RecorderGuard> {
    if !is_recording() || !identity::has_recorded_memory() {
        return None;
    }
    RECORDER.lock().map(RecorderGuard)
}

/// Returns whether a descriptor is the log of this process.
pub(crate) fn is_log_descriptor(fd: c_int) -> bool {
    fd >= 0 && fd == LOG_DESCRIPTOR.load(Ordering::Relaxed) && identity::is_recorded_process()
}

/// Claims the start of the recording. Returns `false` if it was claimed before.
pub(crate) fn claim_start() -> bool {
    let claim = PHASE.compare_exchange(WAITING, STARTING, Ordering::AcqRel, Ordering::Acquire);
    claim.is_ok()
}

/// Makes a recorder that of this process. Calls are recorded after [`begin`].
pub(crate) fn install(recorder: Recorder) {
    identity::mark_process();
    LOG_DESCRIPTOR.store(recorder.log.descriptor(), Ordering::Relaxed);
    if let Some(mut state) = RECORDER.lock() {
        *state = Some(recorder);
    }
}

/// Records the calls from now on.
pub(crate) fn begin() {
    PHASE.store(RECORDING, Ordering::Release);
}

/// Records nothing in this process.
pub(crate) fn decline() {
    PHASE.store(OFF, Ordering::Release);
}

/// Continues in the child of a recorded process, which is not recorded.
pub(crate) fn leave_child() {
    PHASE.store(OFF, Ordering::Release);
    LOG_DESCRIPTOR.store(-1, Ordering::Relaxed);
    identity::leave_child();
    trap_pages::open_all();
    // SAFETY: a child has one thread, which returns from a fork and is not in the recorder.
    #[allow(unsafe_code, reason = "the lock of a thread that does not exist in the child")]
    unsafe {
        RECORDER.release_in_child();
    }
}
