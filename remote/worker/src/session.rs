//! State of a session: one program, its handles, its streams by thread, its copies in progress.

use crate::call_error::{CallError, CallResult};
use crate::copy_tickets::CopyTickets;
use crate::device_budget::DeviceBudget;
use crate::handles::Handles;
use crate::host_copies::HostCopies;
use crate::host_function_lane::HostFunctionLane;
use crate::libraries::Libraries;
use crate::link_table::Links;
use crate::lock;
use crate::report::{Counters, WorkerReport};
use crate::staging::Staging;
use crate::texture_objects::TextureObjects;
use cuda_driver::{CuResult, CuStream, Driver};
use remote_calls::message::{BeginSession, DeviceSnapshot, MAX_ATTRIBUTE, Snapshot};
use remote_calls::{Decoder, Encoder, HandleKind, HandleNumber, MessageError, TABLE_DIGEST};
use remote_ring::{HostWindow, Region};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// Maximum number of bytes of images that are being collected.
const MAX_COLLECTED_BYTES: u64 = 4 << 30;

/// A session.
pub struct Session {
    /// The driver.
    pub driver: Driver,
    /// Handles of the program.
    pub handles: Handles,
    /// Copies from the staging area.
    pub copies: CopyTickets,
    /// Copies to the window that a relay waits for.
    pub host_copies: HostCopies,
    /// The staging area, known to the driver.
    pub staging: Staging,
    /// Host memory that the program maps too.
    pub window: HostWindow,
    /// Host functions of the program.
    pub host_functions: Arc<HostFunctionLane>,
    /// Device memory of the program.
    pub device_budget: DeviceBudget,
    /// Links in progress.
    pub links: Links,
    /// Texture and surface objects.
    pub texture_objects: TextureObjects,
    /// NVIDIA's libraries above the driver, and their objects.
    pub libraries: Libraries,
    /// Default streams of threads that have their own, by thread and context.
    thread_streams: Mutex<HashMap<(u32, HandleNumber), u64>>,
    /// Primary contexts by their devices.
    primary_contexts: Mutex<HashMap<i32, HandleNumber>>,
    /// Images of code in pieces, by the handles that they are for.
    images: Mutex<HashMap<HandleNumber, Vec<u8>>>,
    /// First failure of a call without an answer since the last answer, or 0.
    deferred: AtomicU32,
    /// Counters for the report.
    pub counters: Counters,
    /// Name and process of the program.
    program: Mutex<(String, u32)>,
    /// Streams whose capture was begun and not ended; default streams of threads with their thread.
    captures: Mutex<HashSet<(u32, HandleNumber)>>,
    /// Graphs of such streams that the program knows and that end with a capture that fails.
    captured_graphs: Mutex<HashMap<(u32, HandleNumber), HandleNumber>>,
    /// Contexts in which ranges of the window were registered, by their offsets.
    registrations: Mutex<HashMap<u64, HandleNumber>>,
}

/// The caller of a request.
pub struct Scope<'s> {
    /// Its session.
    pub session: &'s Session,
    /// Its thread, from 1.
    pub thread: u32,
    /// Its current context.
    pub context: HandleNumber,
    /// Sequence number of the request.
    pub sequence: u64,
    /// Whether it waits for the answer.
    pub is_answered: bool,
}

impl Session {
    /// Creates the state of a session. `device_bytes` is the maximum device memory of the program.
    pub fn new(
        driver: Driver,
        region: Arc<Region>,
        window: HostWindow,
        host_functions: HostFunctionLane,
        device_bytes: Option<u64>,
    ) -> Self {
        Self {
            driver,
            staging: Staging::new(region),
            window,
            host_functions: Arc::new(host_functions),
            handles: Handles::default(),
            device_budget: DeviceBudget::new(device_bytes),
            links: Links::default(),
            texture_objects: TextureObjects::default(),
            libraries: Libraries::default(),
            copies: CopyTickets::default(),
            host_copies: HostCopies::default(),
            thread_streams: Mutex::default(),
            primary_contexts: Mutex::default(),
            images: Mutex::default(),
            deferred: AtomicU32::new(0),
            counters: Counters::default(),
            program: Mutex::default(),
            captures: Mutex::default(),
            captured_graphs: Mutex::default(),
            registrations: Mutex::default(),
        }
    }

    /// Answers the first request: checks the client's table, and describes the devices.
    ///
    /// # Errors
    /// If the client has another table, or the driver fails.
    pub fn begin(&self, decoder: &mut Decoder<'_>, answer: &mut Encoder) -> CallResult {
        let at = decoder.offset();
        let begin = BeginSession::read(decoder)?;
        decoder.finish()?;
        if begin.table != TABLE_DIGEST {
            return Err(CallError::Message(MessageError::Unknown {
                what: "the client's table of calls",
                value: begin.table,
                at,
            }));
        }
        *lock(&self.program) = (begin.program.to_owned(), begin.process);
        self.snapshot()?.write(answer);
        Ok(())
    }

    /// Returns what the session did so far.
    pub fn report(&self) -> WorkerReport {
        let (program, process) = lock(&self.program).clone();
        self.counters.report(program, process)
    }

    #[allow(unsafe_code, reason = "calls of the driver")]
    fn snapshot(&self) -> CallResult<Snapshot> {
        let driver = &self.driver;
        let (mut driver_version, mut count) = (0, 0);
        // SAFETY: the pointers are valid for the results.
        unsafe {
            driver.cuInit(0)?;
            driver.cuDriverGetVersion(&raw mut driver_version)?;
            driver.cuDeviceGetCount(&raw mut count)?;
        }
        let mut devices = Vec::new();
        for ordinal in 0..count {
            let mut name = [0u8; 256];
            let (mut device, mut total_bytes, mut uuid) = (0, 0, cuda_driver::Uuid::default());
            // SAFETY: the pointers are valid for the results, and the buffer has the size that is given.
            unsafe {
                driver.cuDeviceGet(&raw mut device, ordinal)?;
                driver.cuDeviceGetName(name.as_mut_ptr().cast(), 256, device)?;
                driver.cuDeviceTotalMem_v2(&raw mut total_bytes, device)?;
                driver.cuDeviceGetUuid_v2(&raw mut uuid, device)?;
            }
            let attribute = |number: u32| {
                let mut value = 0;
                // SAFETY: the pointer is valid for the result.
                let known = unsafe { driver.cuDeviceGetAttribute(&raw mut value, number as i32, device) };
                known.is_ok().then_some(value)
            };
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            devices.push(DeviceSnapshot {
                name: String::from_utf8_lossy(name).into_owned(),
                total_bytes: (total_bytes as u64).min(self.device_budget.limit().unwrap_or(u64::MAX)),
                uuid: uuid.bytes,
                attributes: (0..=MAX_ATTRIBUTE).map(attribute).collect(),
            });
        }
        Ok(Snapshot {
            driver_version,
            is_relayed: self.host_copies.is_relayed(),
            devices,
        })
    }

    /// Notes the failure of a call without an answer.
    pub fn defer(&self, result: CuResult) {
        // Only the first one is reported.
        let _ = self
            .deferred
            .compare_exchange(0, result, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns the first failure of a call without an answer, and forgets it.
    pub fn take_deferred(&self) -> CuResult {
        self.deferred.swap(0, Ordering::Relaxed)
    }

    /// Collects a piece of an image.
    ///
    /// # Errors
    /// If the client sends more than it announced, or too much.
    pub fn add_piece(&self, decoder: &mut Decoder<'_>) -> CallResult {
        let handle: HandleNumber = decoder.read()?;
        let at = decoder.offset();
        let total: u64 = decoder.read()?;
        let piece = decoder.read_bytes()?;
        decoder.finish()?;
        let mut images = lock(&self.images);
        let collected: u64 = images.values().map(|image| image.len() as u64).sum();
        let image = images.entry(handle).or_default();
        let is_over = (image.len() + piece.len()) as u64 > total;
        if is_over || collected + piece.len() as u64 > MAX_COLLECTED_BYTES {
            return Err(CallError::Message(MessageError::TooLong {
                what: "the image",
                count: total,
                limit: MAX_COLLECTED_BYTES,
                at,
            }));
        }
        image.extend_from_slice(piece);
        Ok(())
    }

    /// Returns a collected image of this size, and forgets it.
    ///
    /// # Errors
    /// If another number of bytes was collected.
    pub fn take_image(&self, handle: HandleNumber, bytes: u64) -> CallResult<Vec<u8>> {
        let image = lock(&self.images).remove(&handle).unwrap_or_default();
        match image.len() as u64 == bytes {
            true => Ok(image),
            false => Err(CallError::Message(MessageError::Unknown {
                what: "the size of the image",
                value: bytes,
                at: 0,
            })),
        }
    }

    /// Notes the context in which a range of the window was registered.
    pub fn note_registration(&self, offset: u64, context: HandleNumber) {
        lock(&self.registrations).insert(offset, context);
    }

    /// Returns the context in which a range of the window was registered, and forgets it.
    pub fn take_registration(&self, offset: u64) -> Option<HandleNumber> {
        lock(&self.registrations).remove(&offset)
    }

    /// Returns whether a stream is being captured.
    pub fn is_capturing(&self) -> bool {
        !lock(&self.captures).is_empty()
    }

    /// Notes the primary context of a device.
    pub fn note_primary_context(&self, device: i32, context: HandleNumber) {
        lock(&self.primary_contexts).insert(device, context);
    }

    /// Returns the primary context of a device, if the program uses it.
    pub fn primary_context(&self, device: i32) -> Option<HandleNumber> {
        lock(&self.primary_contexts).get(&device).copied()
    }

    /// Forgets the streams of a context that is gone.
    pub fn forget_thread_streams(&self, context: HandleNumber) {
        lock(&self.thread_streams).retain(|(_, of), _| *of != context);
    }
}

impl Scope<'_> {
    fn capture_key(&self, stream: HandleNumber) -> (u32, HandleNumber) {
        match stream == HandleNumber::STREAM_PER_THREAD {
            true => (self.thread, stream),
            false => (0, stream),
        }
    }

    /// Notes that the capture of a stream was begun.
    pub fn note_capture(&self, stream: HandleNumber) {
        lock(&self.session.captures).insert(self.capture_key(stream));
    }

    /// Returns the handle of the graph that a stream is captured into.
    ///
    /// # Errors
    /// `OUT_OF_MEMORY` if the session has too many handles.
    pub fn note_captured_graph(&self, stream: HandleNumber, graph: u64) -> CallResult<HandleNumber> {
        let handles = &self.session.handles;
        if let Some(known) = handles.find_number(HandleKind::Graph, graph) {
            return Ok(known);
        }
        let number = handles.resolve(HandleKind::Graph, graph, self.owner(HandleKind::Graph))?;
        lock(&self.session.captured_graphs).insert(self.capture_key(stream), number);
        Ok(number)
    }

    /// Notes that the capture of a stream has ended, if there was one. A capture that failed has destroyed its graph.
    pub fn end_capture(&self, stream: HandleNumber, has_failed: bool) {
        let key = self.capture_key(stream);
        let was_captured = lock(&self.session.captures).remove(&key);
        let graph = lock(&self.session.captured_graphs).remove(&key);
        if let Some(graph) = graph.filter(|_| was_captured && has_failed) {
            self.session.handles.remove(graph);
        }
    }

    /// Notes a copy to the window that was just submitted to a stream, for a relay.
    pub fn note_host_copy(&self, stream: CuStream) {
        let session = self.session;
        session
            .host_copies
            .note(&session.driver, self.sequence, stream, session.is_capturing());
    }

    /// Returns what a new object of a kind ends with: the current context. Contexts, libraries, graphs and physical memory
    /// belong to none.
    pub fn owner(&self, kind: HandleKind) -> HandleNumber {
        match kind {
            HandleKind::Context
            | HandleKind::Library
            | HandleKind::Graph
            | HandleKind::Memory
            | HandleKind::MemPool => HandleNumber::NULL,
            _ => self.context,
        }
    }

    /// Returns the default stream of the calling thread, which is created at its first use. The driver's own is that of
    /// the worker's thread, and a thread of the worker plays calls of many threads.
    ///
    /// # Errors
    /// If the driver cannot create it.
    #[allow(unsafe_code, reason = "a call of the driver")]
    pub fn thread_stream(&self) -> CallResult<u64> {
        let mut streams = lock(&self.session.thread_streams);
        let key = (self.thread, self.context);
        if let Some(stream) = streams.get(&key) {
            return Ok(*stream);
        }
        let mut stream = std::ptr::null_mut();
        // SAFETY: the pointer is valid for the result.
        unsafe { self.session.driver.cuStreamCreate(&raw mut stream, 0)? };
        let object = stream.expose_provenance() as u64;
        streams.insert(key, object);
        Ok(object)
    }
}
