//! The API trace of this process as it grows: its session, what is recorded now, and how rows and findings go into it.

use crate::driver::{driver, thread};
use crate::message::say;
use crate::settings::{RecordedRange, Settings};
use crate::signals::without_signals;
use cuda_driver::{CuResult, CuStream, STREAM_LEGACY, STREAM_PER_THREAD};
use cuda_session::{CallStart, EntryPayload, Session, SessionError};
use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use trace_core::GpuVa;
use trace_core::finding::{Finding, FindingKind};
use trace_core::recording::{
    AllocationKind, AllocationRow, Api, CALL_CAPTURED, CallEvent, CallProcess, CallRow, OrderRow,
};

/// Form of a function, which selects the default stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The function's usual form: stream 0 is the default stream of all threads.
    Legacy,
    /// The per-thread form: stream 0 is the calling thread's own default stream.
    PerThread,
}

impl Form {
    /// Returns the unique key of a stream: its handle, or the thread's own default stream.
    pub fn stream_key(self, stream: CuStream) -> u64 {
        match (stream as usize, self) {
            (0, Self::Legacy) | (STREAM_LEGACY, _) => STREAM_LEGACY as u64,
            (0, Self::PerThread) | (STREAM_PER_THREAD, _) => u64::from(thread()) << 32 | STREAM_PER_THREAD as u64,
            (handle, _) => handle as u64,
        }
    }

    /// Returns a stream for the recorder's own calls, which have the usual form.
    pub fn real_stream(self, stream: CuStream) -> CuStream {
        match (stream as usize, self) {
            (0, Self::PerThread) => STREAM_PER_THREAD as CuStream,
            _ => stream,
        }
    }
}

/// When a function is recorded. At other times its call passes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// Always: the recorder must free window memory itself.
    Always,
    /// As long as anything can still be recorded: existing memory, code, streams and graphs must be known.
    Known,
    /// When launches are recorded.
    Launch,
    /// When everything is recorded.
    Work,
}

/// The current scope of the recording. Each phase includes the phases before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
enum Phase {
    /// Nothing is recorded any more.
    Over,
    /// Nothing is recorded yet: existing objects are tracked.
    Outside,
    /// Selected launches are recorded.
    Launches,
    /// Everything is recorded.
    All,
}

/// The API trace of this process.
pub(crate) struct Trace {
    pub session: Session,
    /// Number of streams that are being captured into graphs.
    pub captures: AtomicUsize,
    /// Increases when handles of functions or streams can have been reused.
    pub changes: AtomicU64,
    /// The device is recorded.
    pub has_device: AtomicBool,
    phase: AtomicU8,
    range: RecordedRange,
    /// Launches are recorded one by one.
    by_launch: bool,
    fault_reported: AtomicBool,
}

/// Locks a table, also after a panic of another thread.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the time of the monotonic clock in nanoseconds: other recorders of the process use it too.
fn monotonic_time() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let (seconds, rest) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    seconds
        .unwrap_or(0)
        .saturating_mul(1_000_000_000)
        .saturating_add(rest.unwrap_or(0))
}

impl Trace {
    /// Starts the trace: creates the file and the writer thread.
    pub fn begin(to: &Path, settings: &Settings) -> Result<Self, SessionError> {
        let own = cuda_session::Settings {
            to: to.to_owned(),
            limit: settings.limit,
        };
        let session = without_signals(|| Session::begin(&own))?;
        {
            let mut tables = session.tables();
            tables.metadata.api = Api::Cuda;
            tables.metadata.range = settings.describe();
            let age = u64::try_from(session.age().as_nanos()).unwrap_or(u64::MAX);
            tables.metadata.clock_start = monotonic_time().checked_sub(age);
            tables.metadata.process = CallProcess {
                number: std::process::id(),
                parent: std::os::unix::process::parent_id(),
                command: command_line(),
                ended: false,
            };
            tables.identity.source = "cuda".to_owned();
            tables.identity.tool = concat!("kinescope ", env!("CARGO_PKG_VERSION")).to_owned();
            tables.stream(STREAM_LEGACY, |_| "default stream".to_owned());
            tables.mark_changed();
        }
        let trace = Self {
            session,
            captures: AtomicUsize::new(0),
            changes: AtomicU64::new(0),
            has_device: AtomicBool::new(false),
            phase: AtomicU8::new(Phase::Outside as u8),
            range: settings.range,
            by_launch: settings.kernels.is_some(),
            fault_reported: AtomicBool::new(false),
        };
        if settings.range != RecordedRange::Marks {
            trace.enter();
        }
        Ok(trace)
    }

    /// Starts the recorded range.
    pub fn enter(&self) {
        self.set_phase(if self.by_launch { Phase::Launches } else { Phase::All });
    }

    /// Leaves the range between two marks: another one can follow.
    pub fn leave(&self) {
        self.set_phase(Phase::Outside);
    }

    /// Ends the recording: no range follows.
    pub fn finish(&self) {
        self.set_phase(Phase::Over);
    }

    fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// Returns whether a function is recorded now.
    #[inline]
    pub fn is_recorded(&self, when: When) -> bool {
        let min = match when {
            When::Always => return true,
            When::Known => Phase::Outside,
            When::Launch => Phase::Launches,
            When::Work => Phase::All,
        };
        self.phase.load(Ordering::Relaxed) >= min as u8 && self.session.is_going()
    }

    /// Returns whether events and content are recorded now. Memory, streams and code are tracked at any time.
    pub fn is_inside(&self) -> bool {
        self.is_recorded(When::Work)
    }

    /// Returns whether this records a part of a program that started before it.
    pub fn is_partial(&self) -> bool {
        self.range == RecordedRange::Marks
    }

    /// Returns whether the last launch to record is among the launches of these numbers.
    pub fn is_last_launch(&self, first: u64, last: u64) -> bool {
        matches!(self.range, RecordedRange::First(end) if (first..=last).contains(&end))
    }

    /// Returns whether any stream is being captured into a graph. The recorder's own waits are not allowed meanwhile.
    pub fn is_capturing(&self) -> bool {
        self.captures.load(Ordering::Relaxed) > 0
    }

    /// Hands over an annotation of the program, if launches are recorded. Returns whether they are.
    pub fn annotate(&self, call: &'static str, arguments: Vec<u8>) -> bool {
        if !self.is_recorded(When::Launch) {
            return false;
        }
        let begun = self.session.start_call();
        let name = self.session.tables().name(call);
        let row = CallRow {
            name,
            about: u32::MAX,
            ..Default::default()
        };
        self.record_always(begun, CallEvent::Call(row), EntryPayload::Arguments(arguments));
        true
    }

    /// Hands over a row, whatever part of the program is recorded.
    pub fn record_always(&self, begun: CallStart, call: CallEvent, with: EntryPayload) {
        self.session.record(begun, thread(), call, with);
    }

    /// Hands a call over to the session, if everything is recorded.
    pub fn record(&self, begun: CallStart, call: CallEvent, with: EntryPayload) {
        if self.is_inside() {
            self.record_always(begun, call, with);
        }
    }

    /// Hands over an allocation or a free.
    pub fn record_allocation(
        &self,
        begun: CallStart,
        kind: AllocationKind,
        at: GpuVa,
        bytes: u64,
        stream: u32,
        result: CuResult,
    ) {
        let row = AllocationRow {
            at,
            bytes,
            kind: kind as u32,
            stream,
            result,
            took: begun.elapsed_ns(),
        };
        self.record(begun, CallEvent::Allocation(row), EntryPayload::Nothing);
    }

    /// Hands over a call that has no table of its own.
    pub fn record_call(
        &self,
        begun: CallStart,
        name: &'static str,
        about: Option<u32>,
        arguments: &[u64],
        result: CuResult,
    ) {
        if !self.is_inside() {
            return;
        }
        let name = self.session.tables().name(name);
        let row = CallRow {
            name,
            about: about.unwrap_or(OrderRow::NONE),
            result,
            took: begun.elapsed_ns(),
            ..Default::default()
        };
        let bytes = arguments.iter().flat_map(|a| a.to_le_bytes()).collect();
        self.record(begun, CallEvent::Call(row), EntryPayload::Arguments(bytes));
    }

    /// Notes once, with the first event, that the program uses something that the recording does not hold.
    pub fn note_not_recorded(&self, what: &str, why: impl Into<String>) {
        let finding = Finding::new(FindingKind::NotRecorded, what, why).at_event(self.session.next_event());
        self.session.tables().add_finding(finding);
    }

    /// Ends the recording after an error in the recorder; the program continues.
    pub fn fail(&self) {
        if !self.fault_reported.swap(true, Ordering::Relaxed) {
            say("the recorder failed: the recording ends here, and the program continues");
        }
        self.session.stop("the recorder failed");
    }

    /// Returns the number of a stream in the recording.
    pub fn stream_number(&self, stream: CuStream, form: Form) -> u32 {
        thread_local! {
            /// The stream of this thread's last query: the value of [`Trace::changes`], its key, its number.
            static LAST: Cell<(u64, u64, u32)> = const { Cell::new((u64::MAX, 0, 0)) };
        }
        let key = form.stream_key(stream);
        let changes = self.changes.load(Ordering::Acquire);
        if let Ok((then, last, number)) = LAST.try_with(Cell::get)
            && then == changes
            && last == key
        {
            return number;
        }
        let number = self.session.tables().stream(key as usize, |n| {
            if key as u32 as usize == STREAM_PER_THREAD && key > u64::from(u32::MAX) {
                format!("default stream of thread {}", key >> 32)
            } else {
                format!("stream {n}")
            }
        });
        let _ = LAST.try_with(|last| last.set((changes, key, number)));
        number
    }

    /// Invalidates caches, because handles of functions or streams can be reused from now on.
    pub fn invalidate_caches(&self) {
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Returns [`CALL_CAPTURED`] if a call on this stream goes into a graph.
    pub fn capture_flag(&self, stream: CuStream, form: Form) -> u32 {
        if !self.is_capturing() {
            return 0;
        }
        let real = form.real_stream(stream);
        let mut status = 0;
        // SAFETY: the query is about a stream that the program has just used.
        let asked = unsafe { driver().cuStreamIsCapturing(real, &raw mut status) };
        if asked.is_ok() && status != 0 { CALL_CAPTURED } else { 0 }
    }
}

/// Maximum size of the recorded command line, bytes, and maximum number of its words.
const MAX_COMMAND: usize = 64 << 10;
const MAX_WORDS: usize = 256;

/// Returns the command line of this process.
fn command_line() -> Vec<String> {
    let mut bytes = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    bytes.truncate(MAX_COMMAND);
    let words = bytes.split(|b| *b == 0).filter(|word| !word.is_empty());
    words
        .take(MAX_WORDS)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}
