//! The conversion of calls to the events of an API trace.

use super::archive_files::{ArchiveFiles, Hash, code_name};
use super::launch_record::RecordedLaunch;
use super::names::name;
use super::records::Record;
use super::{PROCESS, SOURCE};
use crate::copied_memory::{store_code, store_content};
use crate::error::ImportError;
use std::collections::BTreeMap;
use std::path::Path;
use trace_core::GpuVa;
use trace_core::finding::{Finding, FindingKind};
use trace_core::recording::{
    AllocationKind, AllocationRow, Api, ApiTraceMetadata, CALL_ASYNC, CallFunction, CallModule, CallProcess, CallRow,
    CallStream, Clock, CodeKind, CopyKind, CopyRow, EventsBuilder, FillRow, Identity, LaunchRow, MemoryBuilder,
    Metadata, NO_CONTENT, OrderKind, OrderRow, Recording, TraceKind,
};

/// First byte of the arguments in a payload: the result precedes them.
const ARGUMENTS: usize = 4;
/// Maximum number of kernels, code objects, streams and events that are distinguished.
const MAX_LISTED: usize = 1 << 16;
/// Size of the two halves of a hash, bytes.
const HASH_BYTES: usize = 16;
/// Why code objects are not loaded.
const NOT_LOADED: &str = "the code is for AMD GPUs, and no replay target loads it";

/// A recording under construction.
pub(super) struct Import<'a> {
    files: ArchiveFiles<'a>,
    events: EventsBuilder,
    store: MemoryBuilder,
    metadata: ApiTraceMetadata,
    findings: Vec<Finding>,
    /// Indices of streams, events and names.
    streams: BTreeMap<u64, u32>,
    event_numbers: BTreeMap<u64, u32>,
    names: BTreeMap<u16, u32>,
    /// Indices of code objects and functions.
    modules: BTreeMap<Hash, u32>,
    functions: BTreeMap<(Vec<u8>, Hash), u32>,
    /// Size in bytes of each allocation.
    allocations: BTreeMap<u64, u64>,
    start: Option<u64>,
    /// Calls that are too short for their arguments, and copies without their content.
    short: Count,
    without_content: Count,
    unnamed: Count,
}

/// A number of calls, and the byte of the first.
#[derive(Default)]
struct Count {
    count: u64,
    first: u64,
}

impl Count {
    fn add(&mut self, at: u64) {
        if self.count == 0 {
            self.first = at;
        }
        self.count += 1;
    }
}

impl<'a> Import<'a> {
    pub(super) fn new(folder: &'a Path) -> Self {
        let stream = CallStream {
            name: "default stream".into(),
            ..CallStream::default()
        };
        Self {
            files: ArchiveFiles::new(folder),
            events: EventsBuilder::new(),
            store: MemoryBuilder::new(),
            metadata: ApiTraceMetadata {
                api: Api::Cuda,
                streams: vec![stream],
                range: "whole".into(),
                ..ApiTraceMetadata::default()
            },
            findings: Vec::new(),
            streams: BTreeMap::from([(0, 0)]),
            event_numbers: BTreeMap::new(),
            names: BTreeMap::new(),
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            allocations: BTreeMap::new(),
            start: None,
            short: Count::default(),
            without_content: Count::default(),
            unnamed: Count::default(),
        }
    }

    /// Adds a call.
    pub(super) fn take(&mut self, record: &Record<'_>) -> Result<(), ImportError> {
        let start = *self.start.get_or_insert(record.time);
        let time = record.time.saturating_sub(start);
        let thread = record.thread as u32;
        if self.take_known(record, time, thread)?.is_none() {
            self.other(record, time, thread);
        }
        Ok(())
    }

    /// Adds a call with a row of its own kind. Returns `None` for another one, or one that is too short.
    fn take_known(&mut self, record: &Record<'_>, time: u64, thread: u32) -> Result<Option<()>, ImportError> {
        use AllocationKind as Kind;
        let argument = |at| record.field(ARGUMENTS + at, 8);
        let is_short = || record.payload.len() < ARGUMENTS + 8;
        let done = match record.call {
            224 | 95 => self.allocate(record, Kind::Take, None, time, thread),
            228 => self.allocate(record, Kind::TakeInOrder, argument(16), time, thread),
            229 => self.allocate(record, Kind::TakeInOrder, argument(24), time, thread),
            231 => self.allocate(record, Kind::TakeManaged, None, time, thread),
            202 | 206 | 230 | 238 => self.allocate(record, Kind::TakeHost, None, time, thread),
            99 => self.release(record, Kind::Give, None, time, thread),
            101 => self.release(record, Kind::GiveInOrder, argument(8), time, thread),
            102 | 203 => self.release(record, Kind::GiveHost, None, time, thread),
            271 | 280 | 299 => {
                let kind = record.field(ARGUMENTS + 24, 4);
                let stream = if record.call == 271 { None } else { argument(28) };
                let end = if record.call == 271 { 28 } else { 36 };
                let kind = match kind {
                    Some(1) => CopyKind::HostToDevice,
                    Some(2) => CopyKind::DeviceToHost,
                    Some(3) => CopyKind::DeviceToDevice,
                    _ => CopyKind::Other,
                };
                self.copy(record, kind, stream, end, time, thread)?
            }
            290 => self.copy(record, CopyKind::HostToDevice, None, 24, time, thread)?,
            291 => self.copy(record, CopyKind::HostToDevice, argument(24), 32, time, thread)?,
            284 => self.copy(record, CopyKind::DeviceToHost, None, 24, time, thread)?,
            285 => self.copy(record, CopyKind::DeviceToHost, argument(24), 32, time, thread)?,
            282 => self.copy(record, CopyKind::DeviceToDevice, None, 24, time, thread)?,
            283 => self.copy(record, CopyKind::DeviceToDevice, argument(24), 32, time, thread)?,
            300 | 310 => self.fill(record, 1, false, time, thread),
            305 | 311 => self.fill(record, 1, true, time, thread),
            306 => self.fill(record, 2, false, time, thread),
            307 => self.fill(record, 2, true, time, thread),
            308 => self.fill(record, 4, false, time, thread),
            309 => self.fill(record, 4, true, time, thread),
            219 | 223 | 321 | 449 => self.launch(record, time, thread)?,
            75 => self.order(record, OrderKind::ContextDone, None, None, time, thread),
            369 => self.order(record, OrderKind::StreamDone, argument(0), None, time, thread),
            90 => self.order(record, OrderKind::Record, argument(8), argument(0), time, thread),
            371 => self.order(record, OrderKind::StreamWaits, argument(0), argument(8), time, thread),
            91 => self.order(record, OrderKind::EventDone, None, argument(0), time, thread),
            2 | 322 | 323 | 324 => {
                self.load(record)?;
                return Ok(None);
            }
            _ => return Ok(None),
        };
        if done.is_none() && (is_short() || record.call != 75) {
            self.short.add(record.at);
        }
        Ok(done)
    }

    fn result(record: &Record<'_>) -> u32 {
        record.field(0, 4).unwrap_or_default() as u32
    }

    fn stream(&mut self, handle: Option<u64>) -> u32 {
        let handle = handle.unwrap_or_default();
        let next = self.metadata.streams.len();
        if let Some(index) = self.streams.get(&handle) {
            return *index;
        }
        if next >= MAX_LISTED {
            return 0;
        }
        self.metadata.streams.push(CallStream {
            name: format!("stream {next}"),
            ..CallStream::default()
        });
        self.streams.insert(handle, next as u32);
        next as u32
    }

    fn event_number(&mut self, handle: Option<u64>) -> u32 {
        let Some(handle) = handle else {
            return OrderRow::NONE;
        };
        let next = self.event_numbers.len();
        match self.event_numbers.get(&handle) {
            Some(number) => *number,
            None if next >= MAX_LISTED => OrderRow::NONE,
            None => {
                self.event_numbers.insert(handle, next as u32);
                next as u32
            }
        }
    }

    fn allocate(
        &mut self,
        record: &Record<'_>,
        kind: AllocationKind,
        stream: Option<u64>,
        time: u64,
        thread: u32,
    ) -> Option<()> {
        let (at, bytes) = (record.field(ARGUMENTS, 8)?, record.field(ARGUMENTS + 8, 8)?);
        self.allocations.insert(at, bytes);
        self.allocation(record, kind, (at, bytes), stream, time, thread);
        Some(())
    }

    fn release(
        &mut self,
        record: &Record<'_>,
        kind: AllocationKind,
        stream: Option<u64>,
        time: u64,
        thread: u32,
    ) -> Option<()> {
        let at = record.field(ARGUMENTS, 8)?;
        let bytes = self.allocations.remove(&at).unwrap_or_default();
        self.allocation(record, kind, (at, bytes), stream, time, thread);
        Some(())
    }

    fn allocation(
        &mut self,
        record: &Record<'_>,
        kind: AllocationKind,
        (at, bytes): (u64, u64),
        stream: Option<u64>,
        time: u64,
        thread: u32,
    ) {
        let stream = match stream {
            Some(handle) => self.stream(Some(handle)),
            None => OrderRow::NONE,
        };
        let row = AllocationRow {
            at: GpuVa::new(at),
            bytes,
            kind: kind as u32,
            stream,
            result: Self::result(record),
            ..AllocationRow::default()
        };
        self.events.allocation(time, thread, row);
    }

    /// Adds a copy. The hash of its content follows its arguments, which have `end` bytes.
    fn copy(
        &mut self,
        record: &Record<'_>,
        kind: CopyKind,
        stream: Option<u64>,
        end: usize,
        time: u64,
        thread: u32,
    ) -> Result<Option<()>, ImportError> {
        let field = |at| record.field(ARGUMENTS + at, 8);
        let (Some(to), Some(from), Some(bytes)) = (field(0), field(8), field(16)) else {
            return Ok(None);
        };
        let device = match kind {
            CopyKind::HostToDevice => Some(to),
            CopyKind::DeviceToHost => Some(from),
            _ => None,
        };
        let hash = field(end)
            .and_then(|low| Some([low, field(end + 8)?]))
            .filter(|h| *h != [0; 2]);
        let mut pages_at = NO_CONTENT;
        if let Some(device) = device.filter(|_| bytes > 0) {
            let content = match hash {
                Some(hash) => self.files.read_blob(hash, bytes)?,
                None => None,
            };
            match content {
                Some(content) => {
                    let at = GpuVa::new(device);
                    pages_at = store_content(&mut self.store, &mut self.events, at, &content);
                }
                None => self.without_content.add(record.at),
            }
        }
        let row = CopyRow {
            to,
            from,
            bytes,
            rows: 1,
            pages_at,
            kind: kind as u32,
            stream: self.stream(stream),
            flags: if stream.is_some() { CALL_ASYNC } else { 0 },
            result: Self::result(record),
            ..CopyRow::default()
        };
        self.events.copy(time, thread, row);
        Ok(Some(()))
    }

    /// Adds a fill. The width of the value is what the arguments leave for it.
    fn fill(&mut self, record: &Record<'_>, element: u32, is_async: bool, time: u64, thread: u32) -> Option<()> {
        let others = 16 + if is_async { 8 } else { 0 };
        let width = record.payload.len().checked_sub(ARGUMENTS + others)?.min(8);
        let to = record.field(ARGUMENTS, 8)?;
        let value = record.field(ARGUMENTS + 8, width)?;
        let elements = record.field(ARGUMENTS + 8 + width, 8)?;
        let stream = is_async.then(|| record.field(ARGUMENTS + 16 + width, 8)).flatten();
        let row = FillRow {
            to: GpuVa::new(to),
            elements,
            rows: 1,
            value: (value as u32) & (u32::MAX >> (32 - 8 * element)),
            element,
            stream: self.stream(stream),
            flags: if is_async { CALL_ASYNC } else { 0 },
            result: Self::result(record),
            ..FillRow::default()
        };
        self.events.fill(time, thread, row);
        Some(())
    }

    fn order(
        &mut self,
        record: &Record<'_>,
        kind: OrderKind,
        stream: Option<u64>,
        event: Option<u64>,
        time: u64,
        thread: u32,
    ) -> Option<()> {
        let row = OrderRow {
            kind: kind as u32,
            stream: stream.map_or(OrderRow::NONE, |handle| self.stream(Some(handle))),
            event: self.event_number(event),
            result: Self::result(record),
            ..OrderRow::default()
        };
        self.events.order(time, thread, row);
        Some(())
    }

    /// Adds a launch.
    fn launch(&mut self, record: &Record<'_>, time: u64, thread: u32) -> Result<Option<()>, ImportError> {
        let Some(launch) = RecordedLaunch::parse(record) else {
            return Ok(None);
        };
        let module = self.module(launch.code)?;
        let key = (launch.name.to_vec(), launch.code);
        let next = self.metadata.functions.len();
        let function = match self.functions.get(&key) {
            Some(index) => *index,
            None if next >= MAX_LISTED => return Ok(None),
            None => {
                self.metadata.functions.push(CallFunction {
                    name: String::from_utf8_lossy(launch.name).into_owned(),
                    module,
                    parameters: launch.parameters.clone(),
                    ..CallFunction::default()
                });
                self.functions.insert(key, next as u32);
                next as u32
            }
        };
        let row = LaunchRow {
            arguments_at: self.events.call_bytes(&launch.arguments),
            arguments: launch.arguments.len() as u32,
            function,
            stream: self.stream(Some(launch.stream)),
            grid: launch.grid,
            block: launch.block,
            shared: launch.shared,
            ..LaunchRow::default()
        };
        self.events.launch(time, thread, row);
        Ok(Some(()))
    }

    /// Lists the code object that a call loads; its hash stands before the end of the record.
    fn load(&mut self, record: &Record<'_>) -> Result<(), ImportError> {
        let after = if record.call == 2 { 8 } else { 4 };
        let at = record.payload.len().checked_sub(HASH_BYTES + after);
        let hash = at.and_then(|at| Some([record.field(at, 8)?, record.field(at + 8, 8)?]));
        if let Some(hash) = hash {
            self.module(hash)?;
        }
        Ok(())
    }

    /// Returns the index of a code object.
    fn module(&mut self, hash: Hash) -> Result<Option<u32>, ImportError> {
        if hash == [0; 2] || self.modules.len() >= MAX_LISTED {
            return Ok(None);
        }
        if let Some(index) = self.modules.get(&hash) {
            return Ok(Some(*index));
        }
        let mut module = CallModule {
            origin: code_name(hash),
            kind: CodeKind::Unknown,
            missing: NOT_LOADED.to_owned(),
            ..CallModule::default()
        };
        match self.files.read_code(hash)? {
            Some(bytes) => {
                module.bytes = bytes.len() as u64;
                module.digest = blake3::hash(&bytes).to_hex().to_string();
                module.pages = store_code(&mut self.store, &bytes);
            }
            None => module.missing = "the archive does not hold the code, or it is too large".to_owned(),
        }
        let index = self.metadata.modules.len() as u32;
        self.metadata.modules.push(module);
        self.modules.insert(hash, index);
        Ok(Some(index))
    }

    /// Adds a call as it is.
    fn other(&mut self, record: &Record<'_>, time: u64, thread: u32) {
        let name = name(record.call);
        if name.starts_with("HIP call") {
            self.unnamed.add(record.at);
        }
        let next = self.metadata.names.len() as u32;
        let index = *self.names.entry(record.call).or_insert_with(|| {
            self.metadata.names.push(name);
            next
        });
        // Arguments of other widths than eight bytes cannot be distinguished.
        let words = record.payload.get(ARGUMENTS..).unwrap_or_default();
        let words = if words.len() % 8 == 0 { words } else { &[] };
        let row = CallRow {
            arguments_at: self.events.call_bytes(words),
            arguments: words.len() as u32,
            name: index,
            about: u32::MAX,
            result: Self::result(record),
            ..CallRow::default()
        };
        self.events.call(time, thread, row);
    }

    /// Returns the recording.
    pub(super) fn finish(mut self, version: u16, findings: Vec<Finding>) -> Recording {
        let assumed = "the calls of HIP are shown as the calls of CUDA with the same meaning; the code is for AMD GPUs";
        let mut add = |kind, place: String, message: String| self.findings.push(Finding::new(kind, place, message));
        add(FindingKind::Assumed, "API".into(), assumed.into());
        for (count, kind, what) in [
            (
                &self.short,
                FindingKind::NotUsed,
                "calls have fewer arguments than their kind, and are shown without them",
            ),
            (
                &self.without_content,
                FindingKind::NotRecorded,
                "copies from or to the host have no content in the archive",
            ),
            (
                &self.unnamed,
                FindingKind::NotUsed,
                "calls are shown by their number, because their name is not known",
            ),
        ] {
            if count.count > 0 {
                add(
                    kind,
                    format!("byte {:#x}", count.first),
                    format!("{} {what}", count.count),
                );
            }
        }
        self.findings.extend(findings);
        let process = self
            .files
            .folder()
            .file_name()
            .and_then(|n| n.to_str()?.strip_prefix(PROCESS)?.parse().ok());
        self.metadata.process = CallProcess {
            number: process.unwrap_or_default(),
            ..CallProcess::default()
        };
        self.metadata.clock_start = self.start;
        Recording {
            metadata: Metadata {
                identity: Identity {
                    driver: "HIP".into(),
                    tool: format!("HIP record and replay, archive version {version}"),
                    source: SOURCE.into(),
                    clock: Clock::SinceStart,
                    ..Identity::default()
                },
                source_pages: self.files.pages(),
                findings: self.findings,
                kind: TraceKind::Api(self.metadata),
                ..Metadata::default()
            },
            events: self.events.finish(),
            memory: self.store.finish(),
            ..Recording::default()
        }
    }
}
