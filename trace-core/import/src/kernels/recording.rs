//! The conversion of a database to an API trace: allocations, variables, and for each launch the memory before it, the
//! launch, and the memory after it.
//!
//! The memory of a launch is stored as copies without a call, as the recorder of CUDA programs stores it for single
//! launches: `snapshot before launch` and `snapshot after launch`. The same memory is in snapshots of the recording, by
//! device address, so that two databases can be compared and buffers can be shown.

use super::code::{self, KernelInfo, Loadable, ParameterBuffer};
use super::database::{Blob, Database, Form, Launch, State, Variable};
use super::snapshot_reader::{Content, Snapshot};
use crate::error::{FilePosition, ImportError};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use trace_core::finding::{Finding, FindingKind};
use trace_core::mmu::VA_BITS;
use trace_core::progress::Progress;
use trace_core::recording::{
    AddressSpace, AllocationKind, AllocationRow, Api, ApiTraceMetadata, Buffer, CALL_ASYNC, CallFunction, CallGlobal,
    CallRow, CallStream, CopyKind, CopyRow, EventsBuilder, Identity, LaunchRow, MemoryBuilder, Metadata, MmuFormat,
    OrderKind, OrderRow, PageId, Recording, Region, TraceKind,
};
use trace_core::{GpuVa, PAGE_SIZE};

/// Name of the extra with the database's data beyond calls, as JSON; see `docs/format.md`.
pub const DATABASE: &str = "kernel-database";
/// Maximum size of a copy, bytes: longer ranges become several copies.
const PIECE: u64 = 64 << 20;
/// Address of variables with an unknown location, if there is no room after the allocation range.
const SPARE: GpuVa = GpuVa::new(0x1000_0000);
/// Maximum number of characters of a kernel's name in notes.
const MAX_NAME_CHARS: usize = 240;
/// Names of the calls for copies of memory, in the order of the list of names.
const NAMES: [&str; 2] = ["snapshot before launch", "snapshot after launch"];

/// The data of a database beyond calls.
#[derive(Serialize)]
struct DatabaseDetails<'a> {
    tool: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    static_hash: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    argument_names: &'a [String],
    launches: Vec<LaunchDetails>,
    buffers: Vec<BufferDetails>,
}

#[derive(Serialize)]
pub(super) struct LaunchDetails {
    event: u64,
    function: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    dynamic_hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    occurrences: Option<u64>,
}

#[derive(Serialize)]
pub(super) struct BufferDetails {
    pub name: String,
    pub element: &'static str,
    pub threshold: f64,
    pub threshold_kind: &'static str,
    pub norm: &'static str,
}

/// Builds the recording.
pub(super) fn build_recording(
    database: Database,
    form: &Form<'_>,
    progress: &Progress,
) -> Result<Recording, ImportError> {
    let mut work = RecordingBuilder::new(&database);
    work.modules()?;
    let there = work.list_available_launches();
    let sizes = there
        .iter()
        .flat_map(|(_, before, after)| [Some(before), after.as_ref()]);
    let sizes = sizes.flatten().map(|p| p.metadata().map_or(0, |m| m.len()));
    progress.set_total(sizes.fold(1, u64::saturating_add));
    for (launch, before, after) in there {
        let before = {
            let mut file = Snapshot::open(&before, progress)?;
            (form.before)(&mut file, &mut work.store)?
        };
        let after = match after {
            Some(path) => {
                let mut file = Snapshot::open(&path, progress)?;
                Some((form.after)(&mut file, &before, &mut work.store)?)
            }
            None => None,
        };
        work.launch(launch, before, after)?;
    }
    work.finish()
}

/// A recording under construction.
pub(super) struct RecordingBuilder<'a> {
    pub database: &'a Database,
    pub store: MemoryBuilder,
    pub events: EventsBuilder,
    pub metadata: ApiTraceMetadata,
    pub code: Vec<Option<Loadable>>,
    /// Module of a kernel, and its properties in the code.
    pub known: BTreeMap<Arc<str>, (u32, Option<KernelInfo>)>,
    pub findings: Vec<Finding>,
    /// Current allocations: address and size in bytes.
    pub taken: BTreeMap<GpuVa, u64>,
    /// Variables by name: address and size in bytes.
    pub variables: BTreeMap<String, (GpuVa, u64)>,
    /// Address of the next variable with an unknown location.
    pub next: GpuVa,
    /// Known contents of each frame.
    pub frames: BTreeMap<u64, PageId>,
    /// Changed frames, by the event before which they changed.
    pub changes: Vec<(u64, BTreeMap<u64, PageId>)>,
    pub buffers: Vec<Buffer>,
    /// Names of buffers, each with the number of the next buffer of that name.
    pub names: BTreeMap<String, u32>,
    /// Buffers: address and size in bytes.
    pub placed: BTreeSet<(GpuVa, u64)>,
    /// Number of copies of memory before a launch so far, by address and size: a replay uses these numbers.
    pub copies: BTreeMap<(GpuVa, u64), usize>,
    /// Variables that are listed with their module.
    pub globals: BTreeSet<(u32, String)>,
    pub labels: Vec<BufferDetails>,
    pub launches: Vec<LaunchDetails>,
    pub pages: u64,
    pub zero_pages: u64,
}

impl<'a> RecordingBuilder<'a> {
    fn new(database: &'a Database) -> Self {
        let window = database.window;
        let behind = window.base.checked_add(window.bytes);
        let next = behind.and_then(|e| e.align_up(PAGE_SIZE as u64));
        let metadata = ApiTraceMetadata {
            api: Api::Cuda,
            window,
            names: NAMES.map(str::to_owned).to_vec(),
            streams: vec![CallStream {
                name: "default stream".into(),
                ..CallStream::default()
            }],
            range: "launches with the memory before and after each".into(),
            ..ApiTraceMetadata::default()
        };
        Self {
            database,
            store: MemoryBuilder::new(),
            events: EventsBuilder::new(),
            metadata,
            code: Vec::new(),
            known: BTreeMap::new(),
            findings: Vec::new(),
            taken: BTreeMap::new(),
            variables: BTreeMap::new(),
            next: next.filter(|n| n.get() < 1 << (VA_BITS - 1)).unwrap_or(SPARE),
            frames: BTreeMap::new(),
            changes: Vec::new(),
            buffers: Vec::new(),
            names: BTreeMap::new(),
            globals: BTreeSet::new(),
            placed: BTreeSet::new(),
            copies: BTreeMap::new(),
            labels: Vec::new(),
            launches: Vec::new(),
            pages: 0,
            zero_pages: 0,
        }
    }

    pub(super) fn note(&mut self, kind: FindingKind, place: impl Into<String>, message: impl Into<String>) {
        let finding = Finding::new(kind, place, message);
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

    /// Adds a launch: its mark, the memory before it, the launch, and the memory after it.
    fn launch(&mut self, launch: &Launch, mut before: State, after: Option<State>) -> Result<(), ImportError> {
        self.mark_launch(launch);
        self.allocate(&before.blobs);
        for (name, v) in &mut before.variables {
            self.place_variable(name, v)?;
        }
        let name = kernel(launch);
        let (module, info) = self.code_of(&launch.name);
        let lacking = self.find_missing_variables(module, &before);
        if !lacking.is_empty() {
            let names: Vec<&str> = lacking.iter().take(8).map(String::as_str).collect();
            let more = if lacking.len() > 8 { " and others" } else { "" };
            let message = format!(
                "the module used as its code does not have the variables {}{more}, or not with their size; a replay \
                 ignores them",
                names.join(", ")
            );
            self.note(FindingKind::NotUsed, &*name, message);
        }
        let laid = code::lay_out(&before.arguments, info.as_ref());
        if let Some(note) = laid.note {
            self.note(FindingKind::Assumed, &*name, note);
        }
        let function = self.function(launch, module, info, &laid);
        let launches = self.launches.len() as u64 + 1;
        let own = self.launches.iter().filter(|l| l.function == function).count() as u64 + 1;
        // The number of the launch in the recording, and among those of its function.
        let counts = [launches, own];
        self.snapshot(0, function, counts);
        for (at, blob) in &before.blobs {
            self.buffer(*at, blob);
        }
        self.copies_of_state(&before, &lacking);
        self.waited();
        self.remember(&before);
        for (name, v) in before.variables.iter().filter(|(n, _)| !lacking.contains(*n)) {
            self.global(module, name, v);
        }
        let event = self.events.len() as u64;
        let arguments_at = self.events.call_bytes(&laid.bytes);
        let row = LaunchRow {
            arguments_at,
            arguments: laid.bytes.len() as u32,
            function,
            grid: launch.grid,
            block: launch.block,
            shared: launch.shared,
            ..LaunchRow::default()
        };
        self.events.launch(0, 0, row);
        self.launches.push(LaunchDetails {
            event,
            function,
            dynamic_hash: launch.dynamic_hash.clone(),
            occurrences: launch.occurrences,
        });
        let Some(mut after) = after else { return Ok(()) };
        for (name, v) in &mut after.variables {
            self.place_variable(name, v)?;
        }
        self.keep_writable(&name, &before, &mut after);
        self.waited();
        self.snapshot(1, function, counts);
        self.copies_of_state(&after, &lacking);
        self.remember(&after);
        Ok(())
    }

    /// Adds a mark with the name of the kernel and what the database tells of the launch.
    fn mark_launch(&mut self, launch: &Launch) {
        let mut text = kernel(launch);
        let hashes = [
            ("static", &self.database.static_hash),
            ("dynamic", &launch.dynamic_hash),
        ];
        for (what, hash) in hashes {
            if let Some(hash) = hash {
                text.push_str(&format!(", {what} hash {hash}"));
            }
        }
        if let Some(n) = launch.occurrences {
            let times = if n == 1 { "launch" } else { "launches" };
            text.push_str(&format!(", {n} {times} like it"));
        }
        self.events.mark(0, text);
    }

    /// Adds the call that stands for a snapshot: `name` is the index of its name, 0 before the launch and 1 after it.
    fn snapshot(&mut self, name: u32, function: u32, counts: [u64; 2]) {
        let arguments = counts.map(u64::to_le_bytes).concat();
        let row = CallRow {
            arguments_at: self.events.call_bytes(&arguments),
            arguments: arguments.len() as u32,
            name,
            about: function,
            ..CallRow::default()
        };
        self.events.call(0, 0, row);
    }

    /// Adds the copies of all memory of a state, without the variables that the code lacks.
    fn copies_of_state(&mut self, state: &State, lacking: &BTreeSet<String>) {
        for (at, blob) in &state.blobs {
            self.copies_of(*at, &blob.content);
        }
        for (_, v) in state.variables.iter().filter(|(n, _)| !lacking.contains(*n)) {
            self.copies_of(v.at.unwrap_or_default(), &v.content);
        }
    }

    /// Removes the memory of the state after a launch that the launch cannot have written: it is not output.
    fn keep_writable(&mut self, name: &str, before: &State, after: &mut State) {
        let all = after.blobs.len() + after.variables.len();
        let is_same = |at: &GpuVa, bytes: u64| before.blobs.get(at).is_some_and(|b| b.content.bytes == bytes);
        after.blobs.retain(|at, b| is_same(at, b.content.bytes));
        after.variables.retain(|name, _| before.variables.contains_key(name));
        let other = all - after.blobs.len() - after.variables.len();
        if other > 0 {
            let message = format!("{other} allocations or variables after the launch did not exist before it");
            self.note(FindingKind::NotUsed, name, message);
        }
    }

    /// Updates allocations to their state before a launch: frees the missing ones, allocates the new ones.
    fn allocate(&mut self, blobs: &BTreeMap<GpuVa, Blob>) {
        let stays = |at: GpuVa, bytes: u64| blobs.get(&at).is_some_and(|b| b.content.bytes == bytes);
        let gone = self.taken.iter().filter(|(at, bytes)| !stays(**at, **bytes));
        let gone: Vec<(GpuVa, u64)> = gone.map(|(at, bytes)| (*at, *bytes)).collect();
        for (at, bytes) in gone {
            self.taken.remove(&at);
            self.allocation(AllocationKind::Give, at, bytes);
        }
        for (at, blob) in blobs {
            if self.taken.insert(*at, blob.content.bytes).is_none() {
                self.allocation(AllocationKind::Take, *at, blob.content.bytes);
            }
        }
    }

    fn allocation(&mut self, kind: AllocationKind, at: GpuVa, bytes: u64) {
        let row = AllocationRow {
            at,
            bytes,
            kind: kind as u32,
            stream: OrderRow::NONE,
            ..AllocationRow::default()
        };
        self.events.allocation(0, 0, row);
    }

    /// Adds the tool's wait for the device.
    fn waited(&mut self) {
        let row = OrderRow {
            kind: OrderKind::ContextDone as u32,
            stream: OrderRow::NONE,
            event: OrderRow::NONE,
            ..OrderRow::default()
        };
        self.events.order(0, 0, row);
    }

    /// Adds the contents at a device address as pieces of a snapshot: copies without a call.
    fn copies_of(&mut self, at: GpuVa, content: &Content) {
        for (done, bytes) in pieces(content) {
            let from = content.phase as u64 + done;
            let (first, end) = (from / PAGE_SIZE as u64, (from + bytes).div_ceil(PAGE_SIZE as u64));
            let pages = content.pages.get(first as usize..end as usize).unwrap_or_default();
            let ids: Vec<u32> = pages.iter().map(|id| id.0).collect();
            let row = CopyRow {
                from: (at + done).get(),
                bytes,
                rows: 1,
                pages_at: self.events.call_pages(&ids),
                kind: CopyKind::DeviceToHost as u32,
                stream: OrderRow::NONE,
                flags: CALL_ASYNC,
                ..CopyRow::default()
            };
            self.events.copy(0, 0, row);
        }
    }

    /// Assigns a variable its address, the same in every launch.
    fn place_variable(&mut self, name: &str, v: &mut Variable) -> Result<(), ImportError> {
        let bytes = v.content.bytes;
        let known = self.variables.get(name).copied();
        let wrong = |what: String| Err(ImportError::malformed(&self.database.path, FilePosition::Whole, what));
        let at = match (known, v.at) {
            (Some((at, size)), reported) if size == bytes && reported.is_none_or(|t| t == at) => at,
            (Some((at, size)), reported) => {
                let now = reported.map_or_else(String::new, |t| format!(" at {t:#x}"));
                return wrong(format!(
                    "the variable {name} is {size} bytes at {at:#x} in one snapshot and {bytes} bytes{now} in another"
                ));
            }
            (None, Some(at)) => at,
            (None, None) => {
                let (at, pages) = (self.next, v.content.pages.len() as u64);
                let end = at.checked_add(pages.max(1) * PAGE_SIZE as u64);
                let Some(end) = end.filter(|e| e.get() <= 1 << VA_BITS) else {
                    return wrong(format!(
                        "the variable {name} of {bytes} bytes does not fit into the address range"
                    ));
                };
                self.next = end;
                let message = "the database does not state the addresses of variables; they were put after the address \
                               window";
                self.note(FindingKind::Assumed, "variables", message);
                at
            }
        };
        self.variables.insert(name.to_owned(), (at, bytes));
        v.at = Some(at);
        Ok(())
    }

    /// Returns the number of a launch's function.
    fn function(
        &mut self,
        launch: &Launch,
        module: u32,
        kernel_info: Option<KernelInfo>,
        laid: &ParameterBuffer,
    ) -> u32 {
        let info = kernel_info.unwrap_or_default();
        let name = Some(info.name)
            .filter(|n| !n.is_empty())
            .unwrap_or_else(|| launch.name.to_string());
        let list = &mut self.metadata.functions;
        let n = list.iter().position(|f| f.name == name).unwrap_or_else(|| {
            list.push(CallFunction {
                name,
                demangled: launch.demangled.to_string(),
                module: Some(module),
                parameters: laid.parameters.clone(),
                registers: info.registers,
                shared: info.shared,
                local: info.local,
                ..CallFunction::default()
            });
            list.len() - 1
        });
        u32::try_from(n).unwrap_or(u32::MAX)
    }

    /// Lists a variable with a module.
    fn global(&mut self, module: u32, name: &str, v: &Variable) {
        let Some(m) = self.metadata.modules.get_mut(module as usize) else {
            return;
        };
        if self.globals.insert((module, name.to_owned())) {
            m.globals.push(CallGlobal {
                name: name.to_owned(),
                at: v.at.unwrap_or_default(),
                bytes: v.content.bytes,
            });
        }
    }

    fn finish(mut self) -> Result<Recording, ImportError> {
        let path = &self.database.path;
        if self.launches.is_empty() {
            let why = self.findings.iter().find(|f| f.message.contains("was not imported"));
            let why = why.map_or_else(
                || "it has no launch".to_owned(),
                |f| format!("{}, {}", f.place, f.message),
            );
            let message = format!("no launch of the database can be read: {why}");
            return Err(ImportError::malformed(path, FilePosition::Whole, message));
        }
        let place = format_path(path);
        if self.launches.len() > 1 {
            let message = "the database does not state the order of the launches; they have the order of its keys";
            self.note(FindingKind::Assumed, &*place, message);
        }
        let message = "the database does not state whether the device was a CUDA or a HIP device; CUDA is assumed";
        self.note(FindingKind::Assumed, place, message);
        let root = self.tables();
        self.name_variables();
        let region = |b: &Buffer| Region {
            address_space: 0,
            start: b.va,
            end: b.va.saturating_add(b.bytes),
            committed_pages: b.bytes.div_ceil(PAGE_SIZE as u64),
            flags: 0,
            has_content: true,
        };
        let metadata = Metadata {
            identity: Identity {
                driver: "CUDA".into(),
                tool: self.database.tool.into(),
                source: self.database.source.into(),
                ..Identity::default()
            },
            address_spaces: vec![AddressSpace {
                number: 0,
                format: MmuFormat::Aarch64_4k,
                root,
                memattr: 0,
                transcfg: 0,
            }],
            regions: self.buffers.iter().map(region).collect(),
            buffers: self.buffers,
            findings: self.findings,
            source_pages: self.pages,
            source_zero_pages: self.zero_pages,
            kind: TraceKind::Api(self.metadata),
            ..Metadata::default()
        };
        let beyond = DatabaseDetails {
            tool: self.database.tool,
            static_hash: self.database.static_hash.as_deref(),
            argument_names: &self.database.argument_names,
            launches: self.launches,
            buffers: self.labels,
        };
        let json = |e: serde_json::Error| ImportError::malformed(path, FilePosition::Whole, e.to_string());
        let beyond = serde_json::to_vec(&beyond).map_err(json)?;
        Ok(Recording {
            metadata,
            events: self.events.finish(),
            memory: self.store.finish(),
            extras: BTreeMap::from([(DATABASE.to_owned(), beyond)]),
            ..Recording::default()
        })
    }
}

/// Returns the pieces that content is copied in: first byte and size of each. They end at page ends, so that no two
/// share a page.
pub(super) fn pieces(content: &Content) -> impl Iterator<Item = (u64, u64)> + use<> {
    let (phase, all) = (content.phase as u64, content.bytes);
    let mut done = 0;
    std::iter::from_fn(move || {
        let bytes = (PIECE - (phase + done) % PAGE_SIZE as u64).min(all - done);
        done += bytes;
        (bytes > 0).then_some((done - bytes, bytes))
    })
}

/// Returns a launch's kernel name for display.
pub(super) fn kernel(launch: &Launch) -> String {
    let name = if launch.demangled.is_empty() {
        &launch.name
    } else {
        &launch.demangled
    };
    match name.char_indices().nth(MAX_NAME_CHARS) {
        Some((end, _)) => format!("{}…", name.get(..end).unwrap_or_default()),
        None => name.to_string(),
    }
}

/// Returns a file name for display.
pub(super) fn format_path(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}
