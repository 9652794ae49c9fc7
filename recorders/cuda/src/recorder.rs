//! The recorder of this process: its session, what it knows of memory, streams and code, and how calls go into the file.

use crate::code::Code;
use crate::copies::Reads;
use crate::graphs::Graphs;
use crate::memory::Memory;
use crate::process::{Range, say};
use crate::progress::Progress;
use crate::resolve::{driver, thread};
use cuda_driver::{
    CuContext, CuDevice, CuResult, CuStream, DEVICE_CAPABILITY_MAJOR, DEVICE_CAPABILITY_MINOR, DEVICE_MULTIPROCESSORS,
    STREAM_LEGACY, STREAM_PER_THREAD, SUCCESS, Uuid,
};
use cuda_session::{Begun, Session, SessionError, Settings, With};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use trace_core::check::{Finding, FindingKind};
use trace_core::recording::{CALL_CAPTURED, CallDevice, CallEvent, CallRow, OrderRow};

/// Where a stream stands among default streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The function's usual form: stream 0 is the default stream of all threads.
    Legacy,
    /// Its other form: stream 0 is the calling thread's own.
    PerThread,
}

/// The recorder of this process.
pub(crate) struct Recorder {
    pub session: Session,
    pub memory: Mutex<Memory>,
    pub reads: Mutex<Reads>,
    pub progress: Mutex<Progress>,
    pub code: Mutex<Code>,
    pub graphs: Mutex<Graphs>,
    /// Streams that are captured into graphs now.
    pub captures: AtomicUsize,
    /// Whether what is done now is in the range that is recorded.
    inside: AtomicBool,
    range: Range,
    launches: AtomicU64,
    device_told: AtomicBool,
    fault_told: AtomicBool,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recorder {
    pub fn begin(to: &Path, limit: Option<u64>, range: Range, window: bool) -> Result<Self, SessionError> {
        let session = Session::begin(&Settings {
            to: to.to_owned(),
            limit,
        })?;
        {
            let mut tables = session.tables();
            tables.facts.api = "cuda".to_owned();
            tables.facts.range = range.words();
            tables.identity.source = "cuda".to_owned();
            tables.identity.tool = concat!("kinescope ", env!("CARGO_PKG_VERSION")).to_owned();
            tables.stream(STREAM_LEGACY, |_| "default stream".to_owned());
            tables.touch();
        }
        Ok(Self {
            session,
            memory: Mutex::new(Memory::new(window)),
            reads: Mutex::default(),
            progress: Mutex::default(),
            code: Mutex::default(),
            graphs: Mutex::default(),
            captures: AtomicUsize::new(0),
            inside: AtomicBool::new(range != Range::Marks),
            range,
            launches: AtomicU64::new(0),
            device_told: AtomicBool::new(false),
            fault_told: AtomicBool::new(false),
        })
    }

    /// Whether events and content are recorded now. What memory, streams and code there are is known at any time.
    pub fn is_inside(&self) -> bool {
        self.inside.load(Ordering::Relaxed) && self.session.is_going()
    }

    /// A program's mark.
    pub fn mark(&self, text: &str) {
        if self.range == Range::Marks {
            match text {
                "begin" if !self.inside.load(Ordering::Relaxed) => {
                    self.snapshot("begin");
                    self.inside.store(true, Ordering::Relaxed);
                }
                "end" if self.inside.load(Ordering::Relaxed) => {
                    self.complete_all();
                    self.snapshot("end");
                    self.inside.store(false, Ordering::Relaxed);
                }
                _ => {}
            }
        }
        self.note(text);
    }

    fn note(&self, text: &str) {
        if !self.is_inside() {
            return;
        }
        let begun = self.session.begun();
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
            With::Arguments(text.as_bytes().to_vec()),
        );
    }

    /// Counts a launch; behind the last one that is wanted the recording ends.
    pub fn launched(&self) {
        let n = self.launches.fetch_add(1, Ordering::Relaxed) + 1;
        if let Range::First(most) = self.range
            && n == most
        {
            self.complete_all();
            self.snapshot("end");
            self.inside.store(false, Ordering::Relaxed);
        }
    }

    /// Hands a call over.
    pub fn hand(&self, begun: Begun, call: CallEvent, with: With) {
        if self.is_inside() {
            self.session.record(begun, thread(), call, with);
        }
    }

    /// Hands over a call that has no table of its own.
    pub fn hand_call(&self, begun: Begun, name: &'static str, about: Option<u32>, arguments: &[u64], result: CuResult) {
        if !self.is_inside() {
            return;
        }
        let name = self.session.tables().name(name);
        let row = CallRow {
            name,
            about: about.unwrap_or(OrderRow::NONE),
            result,
            took: begun.took(),
            ..Default::default()
        };
        let bytes = arguments.iter().flat_map(|a| a.to_le_bytes()).collect();
        self.hand(begun, CallEvent::Call(row), With::Arguments(bytes));
    }

    /// Tells once that the program uses something that the recording does not hold.
    pub fn not_recorded(&self, what: &str, why: impl Into<String>) {
        let finding = Finding::new(FindingKind::NotRecorded, what, why);
        self.session.tables().find(finding);
    }

    /// The recorder has a fault: the recording ends, and the program goes on.
    pub fn fault(&self) {
        if !self.fault_told.swap(true, Ordering::Relaxed) {
            say("the recorder has a fault: the recording ends here, and the program goes on");
        }
        self.session.stop("the recorder had a fault");
    }

    /// A stream as it is told apart from all others: its handle, or the thread's own default stream.
    pub fn stream_key(stream: CuStream, form: Form) -> u64 {
        match (stream as usize, form) {
            (0, Form::Legacy) | (STREAM_LEGACY, _) => STREAM_LEGACY as u64,
            (0, Form::PerThread) | (STREAM_PER_THREAD, _) => u64::from(thread()) << 32 | STREAM_PER_THREAD as u64,
            (handle, _) => handle as u64,
        }
    }

    /// Number of a stream in the recording.
    pub fn stream(&self, stream: CuStream, form: Form) -> u32 {
        let key = Self::stream_key(stream, form);
        self.session.tables().stream(key as usize, |n| {
            if key as u32 as usize == STREAM_PER_THREAD && key > u64::from(u32::MAX) {
                format!("default stream of thread {}", key >> 32)
            } else {
                format!("stream {n}")
            }
        })
    }

    /// [`CALL_CAPTURED`] where a call on this stream goes into a graph.
    pub fn captured(&self, stream: CuStream, form: Form) -> u32 {
        if self.captures.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let real = match (stream as usize, form) {
            (0, Form::PerThread) => STREAM_PER_THREAD as CuStream,
            _ => stream,
        };
        let mut status = 0;
        // SAFETY: a question about a stream that the program has just used.
        let asked = unsafe { driver().cuStreamIsCapturing(real, &raw mut status) };
        if asked.is_ok() && status != 0 { CALL_CAPTURED } else { 0 }
    }

    /// Tells the device that the program uses, once there is a context.
    pub fn tell_device(&self) {
        if self.device_told.load(Ordering::Relaxed) {
            return;
        }
        let d = driver();
        let mut device: CuDevice = 0;
        let mut context: CuContext = std::ptr::null_mut();
        // SAFETY: questions, with places for the answers.
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
        // SAFETY: as above; the name's place is as long as is said. What is not answered stays as it is.
        unsafe {
            let _ = d.cuDeviceGetName(name.as_mut_ptr().cast(), 255, device);
            let _ = d.cuDeviceTotalMem_v2(&raw mut memory, device);
            let _ = d.cuDeviceGetUuid_v2(&raw mut uuid, device);
            let _ = d.cuDriverGetVersion(&raw mut version);
        }
        let end = name.iter().position(|b| *b == 0).unwrap_or(0);
        let name = String::from_utf8_lossy(name.get(..end).unwrap_or_default()).into_owned();
        let told = CallDevice {
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
        tables.facts.device = told;
        tables.facts.version = u32::try_from(version).unwrap_or(0);
        tables.identity.gpu_name = name;
        let cuda = format!("CUDA {}.{}", version / 1000, version % 1000 / 10);
        tables.identity.driver = match kernel {
            Some(k) => format!("NVIDIA {k}, {cuda}"),
            None => cuda,
        };
        tables.touch();
    }

    /// Ends the recording and writes it.
    pub fn finish(&self) {
        if self.session.is_going() {
            self.complete_all();
        }
        let why = self.session.why();
        self.session.end();
        if let Some(why) = why.or_else(|| self.session.why()) {
            say(format_args!("the recording ends before the program: {why}"));
        }
    }
}

/// Whether a call succeeded.
pub(crate) fn is_ok(result: CuResult) -> bool {
    result == SUCCESS
}
