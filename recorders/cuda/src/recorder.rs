//! The recorder of this process: its session, its state of memory, streams and code, and how calls go into the file.

use crate::code::Code;
use crate::graphs::Graphs;
use crate::kernels::SelectedKernels;
use crate::memory::Memory;
use crate::pools::Pools;
use crate::process::{say, without_signals};
use crate::readbacks::Readbacks;
use crate::resolve::{driver, thread};
use crate::settings::{RecordedRange, Settings};
use crate::shared_memory::SharedContent;
use crate::snapshot::{SnapshotPoint, Snapshots};
use crate::stream_progress::Progress;
use cuda_driver::{
    CuContext, CuDevice, CuResult, CuStream, DEVICE_CAPABILITY_MAJOR, DEVICE_CAPABILITY_MINOR, DEVICE_MULTIPROCESSORS,
    STREAM_LEGACY, STREAM_PER_THREAD, SUCCESS, Uuid,
};
use cuda_session::{CallStart, EntryPayload, Session, SessionError};
use std::cell::Cell;
use std::hash::{BuildHasherDefault, Hasher};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use trace_core::check::{Finding, FindingKind};
use trace_core::recording::{CALL_CAPTURED, CallDevice, CallEvent, CallProcess, CallRow, OrderRow};

/// A fast hash for handles and numbers, of which there are few and which no attacker chooses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HandleHash(u64);

/// Hasher for fast maps of handles.
pub(crate) type ByHandle = BuildHasherDefault<HandleHash>;

impl Hasher for HandleHash {
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.write_u64(u64::from(*b));
        }
    }

    fn write_u64(&mut self, n: u64) {
        // The upper bits distinguish handles that are multiples of large numbers.
        let mixed = (self.0 ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Form of a function, which selects the default stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The function's usual form: stream 0 is the default stream of all threads.
    Legacy,
    /// The per-thread form: stream 0 is the calling thread's own default stream.
    PerThread,
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

/// The recorder of this process.
pub(crate) struct Recorder {
    pub session: Session,
    pub memory: Mutex<Memory>,
    pub pools: Mutex<Pools>,
    pub reads: Mutex<Readbacks>,
    pub progress: Mutex<Progress>,
    pub code: Mutex<Code>,
    pub graphs: Mutex<Graphs>,
    pub snapshots: Mutex<Snapshots>,
    /// Content of memory shared by host and device at the last check.
    pub shared: Mutex<SharedContent>,
    /// Launches that are recorded one by one, if not everything is.
    pub kernels: Option<SelectedKernels>,
    /// Number of streams that are being captured into graphs.
    pub captures: AtomicUsize,
    /// Increases when handles of functions or streams can have been reused.
    pub changes: AtomicU64,
    phase: AtomicU8,
    range: RecordedRange,
    launches: AtomicU64,
    device_told: AtomicBool,
    fault_told: AtomicBool,
    said: AtomicBool,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recorder {
    pub fn begin(to: &Path, settings: Settings) -> Result<Self, SessionError> {
        let own = cuda_session::Settings {
            to: to.to_owned(),
            limit: settings.limit,
        };
        let session = without_signals(|| Session::begin(&own))?;
        {
            let mut tables = session.tables();
            tables.metadata.api = "cuda".to_owned();
            tables.metadata.range = settings.describe();
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
        let recorder = Self {
            session,
            memory: Mutex::new(Memory::new(settings.window)),
            pools: Mutex::default(),
            reads: Mutex::default(),
            progress: Mutex::default(),
            code: Mutex::default(),
            graphs: Mutex::default(),
            snapshots: Mutex::new(Snapshots::new(settings.hashing, settings.stats)),
            shared: Mutex::default(),
            range: settings.range,
            kernels: settings.kernels.map(SelectedKernels::new),
            captures: AtomicUsize::new(0),
            changes: AtomicU64::new(0),
            phase: AtomicU8::new(Phase::Outside as u8),
            launches: AtomicU64::new(0),
            device_told: AtomicBool::new(false),
            fault_told: AtomicBool::new(false),
            said: AtomicBool::new(false),
        };
        if settings.range != RecordedRange::Marks {
            recorder.enter();
        }
        Ok(recorder)
    }

    /// Starts the recorded range.
    fn enter(&self) {
        let phase = match self.kernels {
            Some(_) => Phase::Launches,
            None => Phase::All,
        };
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

    /// Handles a program's mark.
    pub fn mark(&self, text: &str) {
        if self.range == RecordedRange::Marks {
            let is_in = self.is_recorded(When::Launch);
            match text {
                "begin" if !is_in => {
                    if self.kernels.is_none() {
                        self.snapshot(SnapshotPoint::Begin);
                    }
                    self.enter();
                }
                "end" if is_in => {
                    self.leave();
                    self.phase.store(Phase::Outside as u8, Ordering::Relaxed);
                }
                _ => {}
            }
        }
        self.note(text);
    }

    /// Ends the recorded range.
    fn leave(&self) {
        if self.kernels.is_none() {
            self.wait_for_awaited(None);
            self.forget_awaited();
            crate::shared_memory::record_final_writes(self);
            self.snapshot(SnapshotPoint::End);
        }
    }

    fn note(&self, text: &str) {
        if !self.is_recorded(When::Launch) {
            return;
        }
        let begun = self.session.start_call();
        let name = self.session.tables().name("mark");
        let row = CallRow {
            name,
            about: u32::MAX,
            ..Default::default()
        };
        self.session.record(
            begun,
            thread(),
            CallEvent::Call(row),
            EntryPayload::Arguments(text.as_bytes().to_vec()),
        );
    }

    /// Counts a launch and returns its number, from 1 on. The recording ends after the last launch to record.
    pub fn count_launch(&self) -> u64 {
        self.count_launches(1)
    }

    /// Does the same as [`Recorder::count_launch`] for the launches of one call.
    pub fn count_launches(&self, count: u64) -> u64 {
        let n = self.launches.fetch_add(count, Ordering::Relaxed) + count;
        if let RecordedRange::First(last) = self.range
            && (last..last.saturating_add(count)).contains(&n)
        {
            self.leave();
            self.phase.store(Phase::Over as u8, Ordering::Relaxed);
        }
        n
    }

    /// Returns the number of launches so far.
    pub fn launch_count(&self) -> u64 {
        self.launches.load(Ordering::Relaxed)
    }

    /// Hands a call over to the session.
    pub fn record(&self, begun: CallStart, call: CallEvent, with: EntryPayload) {
        if self.is_inside() {
            self.session.record(begun, thread(), call, with);
        }
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

    /// Returns whether this is the first call, so that a message appears once.
    pub fn is_first_time(&self) -> bool {
        !self.said.swap(true, Ordering::Relaxed)
    }

    /// Ends the recording after an error in the recorder; the program continues.
    pub fn fail(&self) {
        if !self.fault_told.swap(true, Ordering::Relaxed) {
            say("the recorder failed: the recording ends here, and the program continues");
        }
        self.session.stop("the recorder failed");
    }

    /// Returns the unique key of a stream: its handle, or the thread's own default stream.
    pub fn stream_key(stream: CuStream, form: Form) -> u64 {
        match (stream as usize, form) {
            (0, Form::Legacy) | (STREAM_LEGACY, _) => STREAM_LEGACY as u64,
            (0, Form::PerThread) | (STREAM_PER_THREAD, _) => u64::from(thread()) << 32 | STREAM_PER_THREAD as u64,
            (handle, _) => handle as u64,
        }
    }

    /// Returns a stream for the recorder's own calls, which have the usual form.
    pub fn real_stream(stream: CuStream, form: Form) -> CuStream {
        match (stream as usize, form) {
            (0, Form::PerThread) => STREAM_PER_THREAD as CuStream,
            _ => stream,
        }
    }

    /// Returns the number of a stream in the recording.
    pub fn stream_number(&self, stream: CuStream, form: Form) -> u32 {
        thread_local! {
            /// The stream of this thread's last query: the value of [`Recorder::changes`], its key, its number.
            static LAST: Cell<(u64, u64, u32)> = const { Cell::new((u64::MAX, 0, 0)) };
        }
        let key = Self::stream_key(stream, form);
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
        if self.captures.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let real = Self::real_stream(stream, form);
        let mut status = 0;
        // SAFETY: the query is about a stream that the program has just used.
        let asked = unsafe { driver().cuStreamIsCapturing(real, &raw mut status) };
        if asked.is_ok() && status != 0 { CALL_CAPTURED } else { 0 }
    }

    /// Records the device that the program uses, once there is a context.
    pub fn record_device(&self) {
        if self.device_told.load(Ordering::Relaxed) {
            return;
        }
        let d = driver();
        let mut device: CuDevice = 0;
        let mut context: CuContext = std::ptr::null_mut();
        // SAFETY: the queries have valid pointers for the answers.
        let there = unsafe {
            d.cuCtxGetCurrent(&raw mut context).is_ok()
                && !context.is_null()
                && d.cuCtxGetDevice(&raw mut device).is_ok()
        };
        if !there || self.device_told.swap(true, Ordering::Relaxed) {
            return;
        }
        let attribute = |which| {
            let mut value = 0;
            // SAFETY: as above.
            let asked = unsafe { d.cuDeviceGetAttribute(&raw mut value, which, device) };
            asked.map_or(0, |()| u32::try_from(value).unwrap_or(0))
        };
        let mut name = [0u8; 256];
        let (mut memory, mut uuid, mut version) = (0, Uuid::default(), 0);
        // SAFETY: as above; the name's buffer has the stated length. Values without an answer stay as they are.
        unsafe {
            let _ = d.cuDeviceGetName(name.as_mut_ptr().cast(), 255, device);
            let _ = d.cuDeviceTotalMem_v2(&raw mut memory, device);
            let _ = d.cuDeviceGetUuid_v2(&raw mut uuid, device);
            let _ = d.cuDriverGetVersion(&raw mut version);
        }
        let end = name.iter().position(|b| *b == 0).unwrap_or(0);
        let name = String::from_utf8_lossy(name.get(..end).unwrap_or_default()).into_owned();
        let call_device = CallDevice {
            capability: [attribute(DEVICE_CAPABILITY_MAJOR), attribute(DEVICE_CAPABILITY_MINOR)],
            multiprocessors: attribute(DEVICE_MULTIPROCESSORS),
            memory: memory as u64,
            uuid: uuid.bytes.iter().map(|b| format!("{b:02x}")).collect(),
            name: name.clone(),
        };
        let kernel = std::fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
        let kernel = kernel.lines().next().and_then(|l| {
            l.split_whitespace()
                .find(|w| w.contains('.') && w.starts_with(|c: char| c.is_ascii_digit()))
        });
        let mut tables = self.session.tables();
        tables.metadata.device = call_device;
        tables.metadata.version = u32::try_from(version).unwrap_or(0);
        tables.identity.gpu_name = name;
        let cuda = format!("CUDA {}.{}", version / 1000, version % 1000 / 10);
        tables.identity.driver = match kernel {
            Some(k) => format!("NVIDIA {k}, {cuda}"),
            None => cuda,
        };
        tables.mark_changed();
    }

    /// Reads some of the awaited content when the program ends. Returns whether there is more. Runs on the writer
    /// thread.
    pub fn drain_at_exit(&self) -> bool {
        if self.session.is_going() && self.complete_last() {
            return true;
        }
        // A thread inside a snapshot does not end the process.
        if let Ok(snapshots) = self.snapshots.try_lock() {
            snapshots.print_stats();
        }
        false
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

/// Returns whether a call succeeded.
pub(crate) fn is_ok(result: CuResult) -> bool {
    result == SUCCESS
}
