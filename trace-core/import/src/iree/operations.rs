//! The conversion of operations to the events of an API trace.

use super::SOURCE;
use super::commands::{BufferReference, Command};
use super::executables::Executable;
use super::files::{FILE, ReadFiles};
use super::operation_names::operation_name;
use super::placed_buffers::{PlacedBuffer, PlacedBuffers};
use super::records::{FileHeader, Record};
use crate::copied_memory::{store_code, store_content};
use std::collections::BTreeMap;
use trace_core::finding::{Finding, FindingKind};
use trace_core::recording::{
    AllocationKind, AllocationRow, Api, ApiTraceMetadata, CALL_ASYNC, CallFunction, CallModule, CallRow, CallStream,
    CodeKind, CopyKind, CopyRow, EventsBuilder, FillRow, Identity, LaunchRow, MemoryBuilder, Metadata, NO_CONTENT,
    OrderRow, Recording, TraceKind,
};
use trace_core::{GpuVa, PAGE_SIZE};

/// Maximum number of events, of objects, and of commands in command buffers.
const MAX_EVENTS: usize = 1 << 28;
const MAX_OBJECTS: usize = 1 << 18;
const MAX_COMMANDS: usize = 1 << 18;
/// Maximum size of all data in command buffers, and of copied memory and code, bytes.
const MAX_COMMAND_BYTES: usize = 1 << 30;
const MAX_STORED_BYTES: u64 = 4 << 30;
/// Number of the kind of buffers, and of the payload with the data of a mapped range.
const BUFFER: u64 = 4;
const MAPPED_DATA: u64 = 4;
/// Numbers of operations that need more than their name.
const QUEUE_ALLOCA: u64 = 13;
const QUEUE_DEALLOCA: u64 = 14;
const QUEUE_READ: u64 = 18;
const QUEUE_EXECUTE: u64 = 22;
const ALLOCATE: u64 = 102;
const IMPORT: u64 = 103;
const BEGIN: u64 = 300;
const COMMANDS: std::ops::Range<u64> = 309..314;
const PREPARE: u64 = 402;

/// A recording under construction.
pub(super) struct Import {
    events: EventsBuilder,
    store: MemoryBuilder,
    metadata: ApiTraceMetadata,
    buffers: PlacedBuffers,
    modules: BTreeMap<u64, u32>,
    functions: BTreeMap<(u64, u32), u32>,
    /// Names of functions by the number of their executable.
    function_names: BTreeMap<u64, Vec<String>>,
    files: ReadFiles,
    command_buffers: BTreeMap<u64, Vec<Command>>,
    commands: usize,
    command_bytes: usize,
    stored: u64,
    names: BTreeMap<u64, u32>,
    unsupported: u64,
    /// Numbers of unknown records, of work without its buffer, and of work that is too much or too short.
    unknown: BTreeMap<u64, u64>,
    without_buffer: u64,
    left_out: u64,
}

impl Import {
    pub(super) fn new() -> Self {
        let queue = CallStream {
            name: "queue".into(),
            ..CallStream::default()
        };
        Self {
            events: EventsBuilder::new(),
            store: MemoryBuilder::new(),
            metadata: ApiTraceMetadata {
                api: Api::Cuda,
                streams: vec![queue],
                range: "whole".into(),
                ..ApiTraceMetadata::default()
            },
            buffers: PlacedBuffers::new(),
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            function_names: BTreeMap::new(),
            files: ReadFiles::default(),
            command_buffers: BTreeMap::new(),
            commands: 0,
            command_bytes: 0,
            stored: 0,
            names: BTreeMap::new(),
            unsupported: 0,
            unknown: BTreeMap::new(),
            without_buffer: 0,
            left_out: 0,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.events.len() > MAX_EVENTS
    }

    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Counts a record that the recorder could not write completely.
    pub(super) fn unsupported(&mut self, record: &Record) {
        self.unsupported += 1;
        self.call(record);
    }

    /// Counts a record of an unknown kind.
    pub(super) fn unknown(&mut self, number: u64) {
        *self.unknown.entry(number).or_default() += 1;
    }

    /// Handles a new object: a buffer gets an address, and the content of a file is kept for its reads.
    pub(super) fn object(&mut self, record: &Record) {
        if record.object_kind == BUFFER
            && let Some(bytes) = record.field(0, 8)
        {
            self.buffers.place(record.object, bytes);
        }
        if record.object_kind == FILE {
            self.files.add(record);
        }
    }

    /// Handles an operation.
    pub(super) fn operation(&mut self, record: &Record) {
        let thread = record.thread as u32;
        match record.operation {
            ALLOCATE | IMPORT | QUEUE_ALLOCA => self.allocate(record, thread),
            QUEUE_DEALLOCA => self.release(record, thread),
            PREPARE => self.prepare(record),
            BEGIN => {
                let earlier = self.command_buffers.remove(&record.object).unwrap_or_default();
                self.commands -= earlier.len();
                self.call(record);
            }
            QUEUE_EXECUTE => self.execute(record, thread),
            QUEUE_READ => match self.files.read(record) {
                Some(read) => self.update(read.target, &read.data, record.status, thread),
                None => self.call(record),
            },
            operation => match Command::parse(record) {
                Some(command) if COMMANDS.contains(&operation) => self.keep(record.object, command),
                Some(command) => self.emit(&command, &[], record.status, thread),
                None if record.payload_kind == MAPPED_DATA => self.mapped(record, thread),
                None => self.call(record),
            },
        }
    }

    /// Adds a call by its name, with the numbers of its objects as arguments.
    fn call(&mut self, record: &Record) {
        let next = self.metadata.names.len() as u32;
        let index = *self.names.entry(record.operation).or_insert_with(|| {
            self.metadata.names.push(operation_name(record.operation));
            next
        });
        let objects = [record.object, record.related_object].map(u64::to_le_bytes).concat();
        let row = CallRow {
            arguments_at: self.events.call_bytes(&objects),
            arguments: objects.len() as u32,
            name: index,
            about: u32::MAX,
            result: record.status,
            ..CallRow::default()
        };
        self.events.call(0, record.thread as u32, row);
    }

    fn allocate(&mut self, record: &Record, thread: u32) {
        let placed = record
            .field(0, 8)
            .and_then(|bytes| self.buffers.place(record.related_object, bytes));
        let Some(buffer) = placed else {
            return self.call(record);
        };
        let kind = match record.operation {
            QUEUE_ALLOCA => AllocationKind::TakeInOrder,
            _ => AllocationKind::Take,
        };
        self.allocation(kind, buffer, record.status, thread);
        // The host's bytes of an imported buffer follow their number.
        let data = record.field(48, 8).filter(|_| record.operation == IMPORT);
        let data = data.and_then(|bytes| record.payload.get(56..)?.get(..usize::try_from(bytes).ok()?));
        if let Some(data) = data.filter(|data| !data.is_empty()) {
            let target = BufferReference {
                buffer: record.related_object,
                bytes: data.len() as u64,
                ..BufferReference::default()
            };
            self.update(target, data, record.status, thread);
        }
    }

    fn release(&mut self, record: &Record, thread: u32) {
        let buffer = BufferReference::parse(record, 0).and_then(|r| self.buffers.get(r.buffer));
        match buffer {
            Some(buffer) => self.allocation(AllocationKind::GiveInOrder, buffer, record.status, thread),
            None => self.call(record),
        }
    }

    fn allocation(&mut self, kind: AllocationKind, buffer: PlacedBuffer, result: u32, thread: u32) {
        let in_order = matches!(kind, AllocationKind::TakeInOrder | AllocationKind::GiveInOrder);
        let row = AllocationRow {
            at: GpuVa::new(buffer.at),
            bytes: buffer.bytes,
            kind: kind as u32,
            stream: if in_order { 0 } else { OrderRow::NONE },
            result,
            ..AllocationRow::default()
        };
        self.events.allocation(0, thread, row);
    }

    /// Lists the code of an executable.
    fn prepare(&mut self, record: &Record) {
        self.call(record);
        let Some(Executable {
            format,
            code,
            functions,
        }) = Executable::parse(record)
        else {
            self.left_out += 1;
            return;
        };
        if self.modules.len() >= MAX_OBJECTS || !self.has_room(code.len()) {
            self.left_out += 1;
            return;
        }
        let index = self.metadata.modules.len() as u32;
        self.modules.insert(record.related_object, index);
        if !functions.is_empty() && self.function_names.len() < MAX_OBJECTS {
            self.function_names.insert(record.related_object, functions);
        }
        self.metadata.modules.push(CallModule {
            origin: format!("executable {} ({format})", record.related_object),
            kind: CodeKind::Unknown,
            bytes: code.len() as u64,
            digest: blake3::hash(code).to_hex().to_string(),
            pages: store_code(&mut self.store, code),
            missing: "no replay target loads executables of IREE".to_owned(),
            ..CallModule::default()
        });
    }

    fn has_room(&mut self, bytes: usize) -> bool {
        let needed = (bytes as u64).next_multiple_of(PAGE_SIZE as u64) + PAGE_SIZE as u64;
        let fits = self.stored.saturating_add(needed) <= MAX_STORED_BYTES;
        self.stored += if fits { needed } else { 0 };
        fits
    }

    /// Keeps a command until its command buffer is executed.
    fn keep(&mut self, buffer: u64, command: Command) {
        let bytes = match &command {
            Command::Update { data, .. } => data.len(),
            Command::Fill { pattern, .. } => pattern.len(),
            _ => 0,
        };
        let fits = self.commands < MAX_COMMANDS && self.command_bytes.saturating_add(bytes) <= MAX_COMMAND_BYTES;
        if !fits {
            self.left_out += 1;
            return;
        }
        self.commands += 1;
        self.command_bytes += bytes;
        self.command_buffers.entry(buffer).or_default().push(command);
    }

    fn execute(&mut self, record: &Record, thread: u32) {
        self.call(record);
        let bindings = || {
            let semaphores = record.field(24, 8)?.checked_add(record.field(32, 8)?)?;
            let at = usize::try_from(semaphores.checked_mul(16)?).ok()?.checked_add(48)?;
            BufferReference::parse_all(record, at, record.field(40, 8)?)
        };
        let bindings = bindings().unwrap_or_default();
        let buffer = record.field(0, 8).unwrap_or_default();
        let Some(commands) = self.command_buffers.remove(&buffer) else {
            return;
        };
        for command in &commands {
            if self.is_full() {
                self.left_out += 1;
                continue;
            }
            self.emit(command, &bindings, record.status, thread);
        }
        self.command_buffers.insert(buffer, commands);
    }

    /// Returns the address of a range, or `None` if its buffer is not known.
    fn address(&mut self, reference: BufferReference) -> Option<(GpuVa, u64)> {
        let range = self.buffers.range(reference);
        self.without_buffer += u64::from(range.is_none());
        range
    }

    /// Adds the event of a command.
    fn emit(&mut self, command: &Command, bindings: &[BufferReference], result: u32, thread: u32) {
        match command {
            Command::Update { target, data } => self.update(target.bound(bindings), data, result, thread),
            Command::Fill { target, pattern } => {
                let (element @ (1 | 2 | 4), Some((to, bytes))) = (pattern.len(), self.address(target.bound(bindings)))
                else {
                    self.left_out += 1;
                    return;
                };
                let value = pattern.iter().rev().fold(0, |n, b| n << 8 | u32::from(*b));
                let row = FillRow {
                    to,
                    elements: bytes / element as u64,
                    rows: 1,
                    value,
                    element: element as u32,
                    flags: CALL_ASYNC,
                    result,
                    ..FillRow::default()
                };
                self.events.fill(0, thread, row);
            }
            Command::Copy { source, target } => {
                let ranges = (
                    self.address(source.bound(bindings)),
                    self.address(target.bound(bindings)),
                );
                let (Some((from, bytes)), Some((to, room))) = ranges else {
                    return;
                };
                let row = CopyRow {
                    to: to.get(),
                    from: from.get(),
                    bytes: bytes.min(room),
                    rows: 1,
                    pages_at: NO_CONTENT,
                    kind: CopyKind::DeviceToDevice as u32,
                    flags: CALL_ASYNC,
                    result,
                    ..CopyRow::default()
                };
                self.events.copy(0, thread, row);
            }
            Command::Dispatch {
                executable,
                entry,
                size,
                count,
                shared,
                constants,
                bindings: used,
            } => {
                let Some(function) = self.function(*executable, *entry, constants.len(), used.len()) else {
                    self.left_out += 1;
                    return;
                };
                let mut arguments = constants.clone();
                arguments.resize(arguments.len().next_multiple_of(8), 0);
                for reference in used {
                    let address = self.address(reference.bound(bindings)).map_or(0, |(at, _)| at.get());
                    arguments.extend(address.to_le_bytes());
                }
                let row = LaunchRow {
                    arguments_at: self.events.call_bytes(&arguments),
                    arguments: arguments.len() as u32,
                    function,
                    grid: *count,
                    block: size.map(|n| n.max(1)),
                    shared: *shared,
                    result,
                    ..LaunchRow::default()
                };
                self.events.launch(0, thread, row);
            }
        }
    }

    /// Adds bytes of the host that reach a buffer.
    fn update(&mut self, target: BufferReference, data: &[u8], result: u32, thread: u32) {
        let Some((to, bytes)) = self.address(target) else {
            return;
        };
        let data = usize::try_from(bytes).ok().and_then(|n| data.get(..n)).unwrap_or(data);
        if data.len() as u64 > bytes || data.is_empty() {
            self.left_out += 1;
            return;
        }
        let pages_at = match self.has_room(data.len()) {
            true => store_content(&mut self.store, &mut self.events, to, data),
            false => NO_CONTENT,
        };
        let row = CopyRow {
            to: to.get(),
            bytes: data.len() as u64,
            rows: 1,
            pages_at,
            kind: CopyKind::HostToDevice as u32,
            result,
            ..CopyRow::default()
        };
        self.events.copy(0, thread, row);
    }

    /// Adds the bytes that the host wrote to a mapped range.
    fn mapped(&mut self, record: &Record, thread: u32) {
        let fields = (record.field(0, 8), record.field(16, 8));
        let data = fields
            .1
            .and_then(|bytes| record.payload.get(40..)?.get(..usize::try_from(bytes).ok()?));
        match (fields.0, data) {
            (Some(offset), Some(data)) if !data.is_empty() => {
                let target = BufferReference {
                    buffer: record.object,
                    offset,
                    bytes: data.len() as u64,
                    slot: 0,
                };
                self.update(target, data, record.status, thread);
            }
            _ => self.call(record),
        }
    }

    /// Returns the index of an entry of an executable. Its parameters are words of four bytes and addresses.
    fn function(&mut self, executable: u64, entry: u32, constant_bytes: usize, bindings: usize) -> Option<u32> {
        if let Some(index) = self.functions.get(&(executable, entry)) {
            return Some(*index);
        }
        if self.functions.len() >= MAX_OBJECTS {
            return None;
        }
        let words = (0..constant_bytes as u32 / 4).map(|n| [n * 4, 4]);
        let first = constant_bytes.next_multiple_of(8) as u32;
        let addresses = (0..bindings as u32).map(|n| [first + n * 8, 8]);
        let index = self.metadata.functions.len() as u32;
        let names = self.function_names.get(&executable);
        let name = names.and_then(|names| names.get(entry as usize)).cloned();
        self.metadata.functions.push(CallFunction {
            name: name.unwrap_or_else(|| format!("executable {executable}, entry {entry}")),
            module: self.modules.get(&executable).copied(),
            parameters: words.chain(addresses).collect(),
            ..CallFunction::default()
        });
        self.functions.insert((executable, entry), index);
        Some(index)
    }

    /// Returns the recording.
    pub(super) fn finish(mut self, header: &FileHeader, findings: Vec<Finding>) -> Recording {
        let mut all = Vec::new();
        let mut add = |kind, place: &str, message: String| all.push(Finding::new(kind, place, message));
        add(
            FindingKind::Assumed,
            "buffers",
            "the file has numbers of buffers and no addresses; each buffer got an address of its own".to_owned(),
        );
        add(
            FindingKind::Assumed,
            "API",
            "operations of IREE's HAL are shown as the CUDA calls with the same meaning; the file has no times"
                .to_owned(),
        );
        for (count, kind, what) in [
            (
                self.unsupported,
                FindingKind::NotRecorded,
                "operations could not be recorded completely",
            ),
            (
                self.without_buffer,
                FindingKind::NotUsed,
                "ranges of buffers are not in a known buffer, and are left out",
            ),
            (
                self.left_out,
                FindingKind::NotUsed,
                "commands or executables are too short, too many or of a width that a fill does not have, and are left out",
            ),
        ] {
            if count > 0 {
                add(kind, "operations", format!("{count} {what}"));
            }
        }
        if let Some(message) = self.files.describe_missing() {
            add(FindingKind::NotRecorded, "files", message);
        }
        for (number, count) in self.unknown.iter().take(16) {
            add(
                FindingKind::NotUsed,
                "records",
                format!("{count} records of the unknown kind {number} are not used"),
            );
        }
        all.extend(findings);
        self.metadata.window = self.buffers.window();
        Recording {
            metadata: Metadata {
                identity: Identity {
                    driver: "IREE HAL".into(),
                    tool: format!("IREE HAL replay {}.{}", header.major, header.minor),
                    source: SOURCE.into(),
                    ..Identity::default()
                },
                findings: all,
                kind: TraceKind::Api(self.metadata),
                ..Metadata::default()
            },
            events: self.events.finish(),
            memory: self.store.finish(),
            ..Recording::default()
        }
    }
}
