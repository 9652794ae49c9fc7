//! The steps of an API-trace replay, derived from a recording, independent of the device.

use super::error::CudaReplayError;
use std::collections::{BTreeMap, BTreeSet};
use trace_core::GpuVa;
use trace_core::progress::Progress;
use trace_core::recording::{
    AllocationKind, AllocationRow, Api, ApiTraceMetadata, CALL_ASYNC, CALL_CAPTURED, CallEvent, CopyKind, CopyRow,
    FillRow, LaunchRow, NO_CONTENT, OrderKind, OrderRow, Recording,
};

/// Number of events between two checks for cancellation.
const STEP: usize = 4096;
/// Granularity of memory mappings, bytes.
pub(super) const GRANULE: u64 = 2 << 20;
/// Memory shorter than this has one row in a snapshot, bytes.
const MIN_CUT: u64 = 32 << 20;
/// Name prefix of inputs from a snapshot.
const MEMORY: &str = "memory";
/// Name of the call that maps existing memory at a second address. Its values are the second address, the length in
/// bytes and the first address.
pub const MAPPED_TWICE: &str = "cuMemMap";
/// Name prefix of outputs from a snapshot.
const AFTER: &str = "after";

/// A copy between the host and the device.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// The event.
    pub event: u64,
    /// Display name: `in3`, `out0`.
    pub name: String,
    /// The recorded copy.
    pub row: CopyRow,
    /// Whether it comes from a snapshot of the recorder and not from the program.
    pub snapshot: bool,
}

/// A step.
#[derive(Clone, Debug)]
pub enum Step {
    /// A host-to-device copy: the index in [`Script::inputs`].
    Input(usize),
    /// A device-to-host copy: the index in [`Script::outputs`].
    Output(usize),
    /// A copy within device memory.
    Copy(CopyRow),
    /// A memory fill.
    Fill(FillRow),
    /// A kernel launch, with its arguments.
    Launch(LaunchRow, Vec<u8>),
    /// A stream or event operation.
    Order(OrderRow),
}

impl Step {
    /// Returns whether the step is a kernel launch.
    #[must_use]
    pub fn is_launch(&self) -> bool {
        matches!(self, Self::Launch(..))
    }
}

/// An address range that aliases the memory of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryAlias {
    /// First address.
    pub at: GpuVa,
    /// Number of bytes.
    pub bytes: u64,
    /// First address of the other range, which is one of [`Script::ranges`].
    pub of: GpuVa,
}

/// Device memory that the program allocated, or that existed when the range started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptBuffer {
    /// First address.
    pub at: GpuVa,
    /// Number of bytes.
    pub bytes: u64,
    /// The first event of its lifetime.
    pub from: u64,
    /// The event that ends its lifetime, or `None` if it exists at the end.
    pub to: Option<u64>,
}

/// Why a recording cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The event that cannot be replayed.
    pub event: u64,
    /// The reason.
    pub why: String,
}

/// The steps of an API trace.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// The metadata of the recorded calls.
    pub metadata: ApiTraceMetadata,
    /// The steps, each with its event.
    pub steps: Vec<(u64, Step)>,
    /// Number of first steps that write the initial memory contents. The same number of first inputs belong to them.
    pub first: usize,
    /// Number of steps before the final ones that only record memory.
    pub last: usize,
    /// Host-to-device copies, in event order.
    pub inputs: Vec<Transfer>,
    /// Device-to-host copies, in event order.
    pub outputs: Vec<Transfer>,
    /// Address ranges with memory: first byte and length in bytes, whole granules, disjoint.
    pub ranges: Vec<(GpuVa, u64)>,
    /// Ranges that alias the memory of others; disjoint from [`Script::ranges`].
    pub same: Vec<MemoryAlias>,
    /// Ranges of memory shared by host and device, as [`Script::ranges`]. They may have other addresses in a replay.
    pub shared: Vec<(GpuVa, u64)>,
    /// Contents of [`Script::shared`]: first byte and length in bytes of each part.
    pub shared_parts: Vec<(GpuVa, u64)>,
    /// Device memory, ordered by the first event of its lifetime.
    pub buffers: Vec<ScriptBuffer>,
    /// What was left out, as messages.
    pub left_out: Vec<String>,
}

impl Script {
    /// Derives the steps of a recording.
    ///
    /// # Errors
    /// If it is not an API trace, or refers to data that it does not hold.
    pub fn new(recording: &Recording) -> Result<Self, CudaReplayError> {
        Self::read(recording, &Progress::new())
    }

    /// Derives the steps like [`Self::new`], with progress and cancellation.
    ///
    /// # Errors
    /// Same as [`Self::new`], and if it was cancelled.
    pub fn read(recording: &Recording, progress: &Progress) -> Result<Self, CudaReplayError> {
        progress.set_total(recording.events.len() as u64);
        let metadata = recording.api().filter(|m| m.api == Api::Cuda).cloned();
        let mut script = Self {
            metadata: metadata.ok_or(CudaReplayError::NotApiTrace)?,
            ..Default::default()
        };
        let mut ranges: BTreeMap<u64, u64> = BTreeMap::new();
        // Memory shared by host and device. Pinned memory counts if the device accesses it.
        let (mut managed, mut hosts) = (BTreeMap::new(), BTreeMap::new());
        let mut names = TransferNames::default();
        let mut buffers = LiveBuffers::default();
        let (mut unheld, mut arrays, mut functions) = (0u64, 0u64, 0u64);
        let mut at_begin = false;
        let mut same: BTreeMap<u64, MemoryAlias> = BTreeMap::new();
        for at in 0..recording.events.len() {
            if at % STEP == 0 {
                progress.advance(STEP as u64).map_err(|_| CudaReplayError::Cancelled)?;
            }
            let event = at as u64;
            let Some(call) = recording.events.call(at) else {
                continue;
            };
            let damaged = |what: &str| CudaReplayError::Damaged {
                event,
                what: what.to_owned(),
            };
            if call.result() != 0 {
                continue;
            }
            match call {
                CallEvent::Allocation(a) => {
                    buffers.row(event, a);
                    let of = match AllocationKind::from_raw(a.kind) {
                        Some(AllocationKind::TakeManaged) => Some(&mut managed),
                        Some(AllocationKind::TakeHost) => Some(&mut hosts),
                        Some(kind) if kind.takes_device() => Some(&mut ranges),
                        _ => None,
                    };
                    if let Some(of) = of.filter(|_| a.bytes > 0) {
                        of.insert(a.at.get(), a.bytes.max(of.get(&a.at.get()).copied().unwrap_or(0)));
                    }
                }
                CallEvent::Call(c) => {
                    let name = script.metadata.names.get(c.name as usize).map_or("", String::as_str);
                    if name == MAPPED_TWICE {
                        let report = recording.events.call_arguments(c.arguments_at, c.arguments);
                        let words = report.as_deref().and_then(|b| <&[u8; 24]>::try_from(b).ok());
                        let words = words.ok_or_else(|| damaged("a mapping without its address"))?;
                        let [at, bytes, of] = three(words);
                        same.insert(
                            at,
                            MemoryAlias {
                                at: GpuVa::new(at),
                                bytes,
                                of: GpuVa::new(of),
                            },
                        );
                        continue;
                    }
                    at_begin = matches!(name, "snapshot at the begin" | "snapshot before launch");
                }
                CallEvent::Copy(c) if c.flags & CALL_CAPTURED != 0 => {}
                CallEvent::Copy(c) => {
                    c.total().ok_or_else(|| damaged("a copy of too many bytes"))?;
                    let held = c.pages_at != NO_CONTENT;
                    // Copies of a snapshot have no stream. Those at the start are the initial memory contents.
                    let first = at_begin && c.stream == OrderRow::NONE;
                    // The addresses of variables depend on where their module is loaded.
                    let mut variables = script.metadata.modules.iter().flat_map(|m| &m.globals);
                    if first && !variables.any(|g| c.from.checked_sub(g.at.get()).is_some_and(|n| n < g.bytes)) {
                        ranges.insert(c.from, c.bytes.max(ranges.get(&c.from).copied().unwrap_or(0)));
                        buffers.begun_with(event, c.from, c.bytes);
                    }
                    match CopyKind::from_raw(c.kind) {
                        _ if c.bytes == 0 || c.rows == 0 => {}
                        Some(CopyKind::DeviceToHost) if first => {
                            let row = CopyRow {
                                to: c.from,
                                from: 0,
                                kind: CopyKind::HostToDevice as u32,
                                stream: 0,
                                ..c
                            };
                            script.input(event, MEMORY, row, held, &mut names, &mut unheld);
                        }
                        Some(CopyKind::HostToDevice) => script.input(event, "in", c, held, &mut names, &mut unheld),
                        Some(CopyKind::DeviceToHost) => {
                            let snapshot = c.stream == OrderRow::NONE;
                            let stream = if snapshot { 0 } else { c.stream };
                            let (row, n) = (CopyRow { stream, ..c }, script.outputs.len());
                            script.outputs.push(Transfer {
                                event,
                                name: names.each(if snapshot { AFTER } else { "out" }, c.from, c.total()),
                                row,
                                snapshot,
                            });
                            script.steps.push((event, Step::Output(n)));
                        }
                        Some(CopyKind::DeviceToDevice) => script.steps.push((event, Step::Copy(c))),
                        Some(CopyKind::Other) | None => arrays += 1,
                    }
                }
                CallEvent::Fill(f) if f.flags & CALL_CAPTURED == 0 => script.steps.push((event, Step::Fill(f))),
                CallEvent::Launch(l) if l.flags & CALL_CAPTURED == 0 => {
                    let arguments = recording.events.call_arguments(l.arguments_at, l.arguments);
                    let arguments = arguments.ok_or_else(|| damaged("a launch whose arguments are not in the file"))?;
                    if script.metadata.functions.get(l.function as usize).is_none() {
                        return Err(damaged("a launch of a function that the recording does not list"));
                    }
                    script.steps.push((event, Step::Launch(l, arguments)));
                }
                CallEvent::Order(o) if o.flags & CALL_CAPTURED == 0 => {
                    if OrderKind::from_raw(o.kind) == Some(OrderKind::HostFunction) {
                        functions += 1;
                    } else {
                        script.steps.push((event, Step::Order(o)));
                    }
                }
                CallEvent::Fill(_) | CallEvent::Launch(_) | CallEvent::Order(_) => {}
            }
        }
        let mut leave = |n: u64, what: &str| {
            if n > 0 {
                script.left_out.push(format!("{n} {what}"));
            }
        };
        leave(unheld, "host-to-device copies whose content is not in the recording");
        leave(arrays, "copies to or from arrays");
        leave(functions, "host functions");
        ranges.retain(|at, bytes| managed.get(at).is_none_or(|managed| managed < bytes));
        managed.extend(script.idle_variables());
        script.ranges = granules(&ranges);
        let reached = script.find_reached_ranges(&hosts);
        managed.extend(hosts.into_iter().filter(|(at, _)| reached.contains(at)));
        script.shared = granules(&managed);
        // Data in a granule that is mapped anyway keeps its address.
        for (at, bytes) in &script.ranges {
            cut(&mut script.shared, *at, at.saturating_add(*bytes), false);
        }
        script.buffers = buffers.finish();
        script.buffers.retain(|b| !managed.contains_key(&b.at.get()));
        script.shared_parts = managed.into_iter().map(|(at, bytes)| (GpuVa::new(at), bytes)).collect();
        script.share(same)?;
        // Aliased memory cannot be relocated: data written at one address is read at the other.
        let Self { buffers, same, .. } = &mut script;
        let overlaps = |b: &ScriptBuffer, at: u64, bytes: u64| {
            b.at.get() < at.saturating_add(bytes) && at < b.at.saturating_add(b.bytes).get()
        };
        buffers.retain(|b| {
            same.iter()
                .all(|s| !overlaps(b, s.at.get(), s.bytes) && !overlaps(b, s.of.get(), s.bytes))
        });
        script.hoist_variables();
        script.first = script.count_leading_inputs();
        script.last = script.steps.len() - script.trailing();
        Ok(script)
    }

    /// Returns the first bytes of the ranges that steps access on the device: by copies, fills or addresses in
    /// arguments.
    fn find_reached_ranges(&self, ranges: &BTreeMap<u64, u64>) -> BTreeSet<u64> {
        let mut found = BTreeSet::new();
        let (Some((first, _)), Some((last, bytes))) = (ranges.first_key_value(), ranges.last_key_value()) else {
            return found;
        };
        let all = *first..last.saturating_add(*bytes);
        let mut meet = |at: u64| {
            if all.contains(&at)
                && let Some((from, bytes)) = ranges.range(..=at).next_back()
                && at - from < *bytes
            {
                found.insert(*from);
            }
        };
        for (_, step) in &self.steps {
            match step {
                Step::Launch(_, arguments) => {
                    for word in arguments.as_chunks::<8>().0 {
                        meet(u64::from_le_bytes(*word));
                    }
                }
                Step::Order(_) => {}
                other => self.list_touched_ranges(other).iter().for_each(|(at, _)| meet(*at)),
            }
        }
        found
    }

    /// Returns first byte and length in bytes of the device ranges that a copy or a fill accesses.
    pub(super) fn list_touched_ranges(&self, step: &Step) -> Vec<(u64, u64)> {
        let rows = |at: u64, row: u64, rows: u64, pitch: u64| {
            let bytes = rows.saturating_sub(1).saturating_mul(pitch).saturating_add(row);
            (at, if row == 0 || rows == 0 { 0 } else { bytes })
        };
        let of_fill = |row: &FillRow| {
            rows(
                row.to.get(),
                row.row_bytes().unwrap_or(u64::MAX),
                row.rows.max(1),
                row.pitch,
            )
        };
        let to = |row: &CopyRow| rows(row.to, row.bytes, row.rows, row.to_pitch);
        let from = |row: &CopyRow| rows(row.from, row.bytes, row.rows, row.from_pitch);
        match step {
            Step::Input(n) => self.inputs.get(*n).map(|t| to(&t.row)).into_iter().collect(),
            Step::Output(n) => self.outputs.get(*n).map(|t| from(&t.row)).into_iter().collect(),
            Step::Copy(row) => vec![to(row), from(row)],
            Step::Fill(row) => vec![of_fill(row)],
            Step::Launch(..) | Step::Order(_) => Vec::new(),
        }
    }

    /// Returns the numbers of the modules whose variables are accessed by copies or fills, if their code is available.
    /// They are loaded even if no function of them is launched.
    pub(super) fn touched_modules(&self) -> BTreeSet<usize> {
        let has_code = |n: &usize| self.metadata.modules.get(*n).is_some_and(|m| !m.pages.is_empty());
        let touched = self.touched_variables();
        touched.iter().map(|(module, ..)| *module).filter(has_code).collect()
    }

    /// Returns first byte and length in bytes of variables that copies or fills access, in modules without recorded
    /// code because no function of them is launched. They are treated as ordinary memory.
    fn idle_variables(&self) -> Vec<(u64, u64)> {
        let is_idle = |n: usize| self.metadata.modules.get(n).is_some_and(|m| m.pages.is_empty());
        let touched = self.touched_variables();
        let idle = touched.iter().filter(|(module, ..)| is_idle(*module));
        idle.map(|(_, at, bytes)| (*at, *bytes)).collect()
    }

    /// Returns module, first byte and length in bytes of the variables that copies or fills access.
    fn touched_variables(&self) -> BTreeSet<(usize, u64, u64)> {
        let globals = self.metadata.modules.iter().enumerate();
        let globals = globals.flat_map(|(n, m)| m.globals.iter().map(move |g| (g.at.get(), (g.bytes, n))));
        let by_address: BTreeMap<u64, (u64, usize)> = globals.collect();
        let mut found = BTreeSet::new();
        if by_address.is_empty() {
            return found;
        }
        for (_, step) in &self.steps {
            for (at, _) in self.list_touched_ranges(step) {
                if let Some((from, (bytes, module))) = by_address.range(..=at).next_back()
                    && at - from < *bytes
                {
                    found.insert((*module, *from, *bytes));
                }
            }
        }
        found
    }

    /// Returns the number of bytes that a replay maps.
    #[must_use]
    pub fn mapped_bytes(&self) -> Option<u64> {
        let all = self.ranges.iter().chain(&self.shared);
        all.map(|(_, bytes)| *bytes).try_fold(0u64, u64::checked_add)
    }

    /// Returns the first step that cannot be replayed, with the reason, or `None`. Such a step accesses memory that the
    /// recording does not describe, or launches a function without code or arguments.
    #[must_use]
    pub fn obstacle(&self) -> Option<Obstacle> {
        let mapped = self.ranges.iter().chain(&self.shared);
        let mut known: Vec<(u64, u64)> = mapped.map(|(at, bytes)| (at.get(), *bytes)).collect();
        known.extend(self.same.iter().map(|s| (s.at.get(), s.bytes)));
        known.extend(
            self.metadata
                .modules
                .iter()
                .flat_map(|m| &m.globals)
                .map(|g| (g.at.get(), g.bytes)),
        );
        known.sort_unstable();
        let is_known = |at: u64, bytes: u64| {
            let end = at.saturating_add(bytes);
            let mut reached = at;
            while reached < end {
                let n = known.partition_point(|k| k.0 <= reached);
                match n.checked_sub(1).and_then(|n| known.get(n)) {
                    Some((from, length)) if reached - from < *length => reached = from.saturating_add(*length),
                    _ => return false,
                }
            }
            true
        };
        self.steps.iter().find_map(|(event, step)| {
            let why = match step {
                Step::Launch(row, arguments) => self.cannot_launch(row, arguments)?,
                Step::Order(_) => return None,
                _ => {
                    let all = self.list_touched_ranges(step);
                    let (at, bytes) = all.iter().find(|(at, bytes)| !is_known(*at, *bytes))?;
                    format!("it accesses {bytes} bytes at {at:#x}, in memory that the recording does not contain")
                }
            };
            Some(Obstacle { event: *event, why })
        })
    }

    fn cannot_launch(&self, row: &LaunchRow, arguments: &[u8]) -> Option<String> {
        let function = self.metadata.functions.get(row.function as usize)?;
        let name = function.display_name();
        if arguments.is_empty() && !function.parameters.is_empty() {
            return Some(format!("the arguments of {name} are not in the recording"));
        }
        let module = match function.module {
            Some(n) => self.metadata.modules.get(n as usize),
            None => return Some(format!("the recording does not name the module of {name}")),
        };
        match module {
            Some(module) if !module.missing.is_empty() => Some(format!(
                "the code of {name} is not in the recording: {}",
                module.missing
            )),
            Some(module) if module.pages.is_empty() => {
                Some(format!("the code of {name} is incomplete in the recording"))
            }
            Some(_) => None,
            None => Some(format!("the module of {name} is not in the recording's list")),
        }
    }

    /// Splits off ranges whose memory is mapped twice, and the ranges that are mapped to it.
    fn share(&mut self, same: BTreeMap<u64, MemoryAlias>) -> Result<(), CudaReplayError> {
        for s in same.values() {
            let is_whole = s.bytes > 0
                && [s.at.get(), s.bytes, s.of.get()]
                    .iter()
                    .all(|n| n.is_multiple_of(GRANULE));
            let ends = s.at.checked_add(s.bytes).zip(s.of.checked_add(s.bytes));
            let Some((end, of_end)) = ends.filter(|_| is_whole && !same.contains_key(&s.of.get())) else {
                return Err(CudaReplayError::Damaged {
                    event: 0,
                    what: format!("the memory at {:#x} cannot also be the memory at {:#x}", s.at, s.of),
                });
            };
            cut(&mut self.ranges, s.at, end, false);
            cut(&mut self.ranges, s.of, of_end, true);
            self.same.push(*s);
        }
        Ok(())
    }

    /// Returns the number of snapshot inputs before all other steps.
    pub(super) fn count_leading_inputs(&self) -> usize {
        let is_memory = |n: usize| self.inputs.get(n).is_some_and(|t| t.snapshot);
        let first = |(_, s): &&(u64, Step)| matches!(s, Step::Input(n) if is_memory(*n));
        self.steps.iter().take_while(first).count()
    }

    /// Returns the number of snapshot outputs after all other steps.
    fn trailing(&self) -> usize {
        let is_memory = |n: usize| self.outputs.get(n).is_some_and(|t| t.snapshot);
        let last = |(_, s): &&(u64, Step)| matches!(s, Step::Output(n) if is_memory(*n));
        let behind = self.steps.get(self.first..).unwrap_or_default();
        behind.iter().rev().take_while(last).count()
    }

    /// Removes the final steps that only record memory, with their outputs.
    pub fn forget_memory_behind(&mut self) {
        let outputs = self.steps.iter().skip(self.last).filter_map(|(_, s)| match s {
            Step::Output(n) => Some(*n),
            _ => None,
        });
        // Outputs are numbered in the order of their steps, so those at the end are the last ones.
        if let Some(min) = outputs.min() {
            self.outputs.truncate(min);
        }
        self.steps.truncate(self.last);
    }

    /// Returns whether the program itself copied data to the host.
    #[must_use]
    pub fn has_own_outputs(&self) -> bool {
        self.outputs.iter().any(|t| !t.snapshot)
    }

    /// Returns the names of inputs, each once, in the order of first use, without the initial memory contents.
    #[must_use]
    pub fn input_names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let mut seen = BTreeSet::new();
        for t in self.inputs.iter().filter(|t| !t.snapshot) {
            if seen.insert(t.name.as_str()) {
                names.push(t.name.clone());
            }
        }
        names
    }

    /// Returns the numbers of the launched functions.
    pub fn list_launched_functions(&self) -> impl Iterator<Item = u32> + '_ {
        self.steps.iter().filter_map(|(_, s)| match s {
            Step::Launch(l, _) => Some(l.function),
            _ => None,
        })
    }

    fn input(&mut self, event: u64, word: &str, row: CopyRow, held: bool, names: &mut TransferNames, unheld: &mut u64) {
        if !held {
            *unheld += 1;
            return;
        }
        let n = self.inputs.len();
        self.inputs.push(Transfer {
            event,
            name: names.name_transfer(word, row.to, row.total()),
            snapshot: word == MEMORY,
            row,
        });
        self.steps.push((event, Step::Input(n)));
    }

    /// Returns the number of launches among the steps.
    #[must_use]
    pub fn launches(&self) -> u64 {
        self.steps.iter().filter(|(_, s)| matches!(s, Step::Launch(..))).count() as u64
    }

    /// Returns the stream of a copy between host and device that the program's call waited for, or `None` for all other
    /// steps.
    #[must_use]
    pub fn waited_stream(&self, step: &Step) -> Option<u32> {
        let transfer = match step {
            Step::Input(n) => self.inputs.get(*n),
            Step::Output(n) => self.outputs.get(*n),
            _ => None,
        };
        transfer.filter(|t| t.row.flags & CALL_ASYNC == 0).map(|t| t.row.stream)
    }
}

/// The device memory that exists at the current event, while events are read.
#[derive(Default)]
struct LiveBuffers {
    all: Vec<ScriptBuffer>,
    /// Index in the list, by first address.
    live: BTreeMap<u64, usize>,
    /// Mappings of the program: first address and length in bytes.
    mapped: BTreeMap<u64, u64>,
}

impl LiveBuffers {
    /// Processes an allocation or a release.
    fn row(&mut self, event: u64, row: AllocationRow) {
        let kind = AllocationKind::from_raw(row.kind);
        if kind.is_some_and(AllocationKind::gives_device) {
            let gone = self.live.remove(&row.at.get()).and_then(|n| self.all.get_mut(n));
            if let Some(buffer) = gone {
                buffer.to = Some(event);
            }
        } else if kind.is_some_and(|k| k.takes_device() && k != AllocationKind::TakeManaged) && row.bytes > 0 {
            self.add(event, row.at.get(), row.bytes);
            if kind == Some(AllocationKind::Map) {
                self.mapped.insert(row.at.get(), row.bytes);
            }
        }
    }

    /// Processes a snapshot row: memory that existed when the range started. Long memory has several rows.
    fn begun_with(&mut self, event: u64, at: u64, bytes: u64) {
        let Some(end) = at.checked_add(bytes) else { return };
        let before = self.live.range(..=at).next_back().map(|(_, n)| *n);
        if let Some(buffer) = before.and_then(|n| self.all.get_mut(n)) {
            let buffer_end = buffer.at.saturating_add(buffer.bytes);
            if end <= buffer_end.get() {
                return;
            }
            if buffer_end == GpuVa::new(at) && at.is_multiple_of(4096) && buffer.bytes >= MIN_CUT {
                buffer.bytes = end - buffer.at.get();
                return;
            }
        }
        self.add(event, at, bytes);
    }

    /// Returns all buffers. Adjacent mappings may belong to one growing allocation of the program, so mappings are not
    /// buffers.
    fn finish(self) -> Vec<ScriptBuffer> {
        let ends: BTreeSet<u64> = self.mapped.iter().map(|(at, n)| at.saturating_add(*n)).collect();
        let is_alone = |b: &ScriptBuffer| {
            let is_mapped = self.mapped.contains_key(&b.at.get());
            !is_mapped || !ends.contains(&b.at.get()) && !self.mapped.contains_key(&b.at.saturating_add(b.bytes).get())
        };
        let mut all = self.all;
        all.retain(is_alone);
        all
    }

    fn add(&mut self, event: u64, at: u64, bytes: u64) {
        self.live.insert(at, self.all.len());
        self.all.push(ScriptBuffer {
            at: GpuVa::new(at),
            bytes,
            from: event,
            to: None,
        });
    }
}

/// Names of transfers. Each device address is one buffer, numbered in the order of first use. Later copies to it go to
/// the same input. Later copies from it are separate outputs.
#[derive(Default)]
struct TransferNames {
    known: BTreeMap<(String, u64, Option<u64>), usize>,
    counts: BTreeMap<String, usize>,
    times: BTreeMap<String, usize>,
}

impl TransferNames {
    fn name_transfer(&mut self, word: &str, at: u64, bytes: Option<u64>) -> String {
        let key = (word.to_owned(), at, bytes);
        let n = match self.known.get(&key) {
            Some(n) => *n,
            None => {
                let count = self.counts.entry(word.to_owned()).or_default();
                *count += 1;
                self.known.insert(key, *count - 1);
                *count - 1
            }
        };
        format!("{word}{n}")
    }

    /// Returns a name like [`Self::name_transfer`], with a suffix for later copies from the same address: `out0`,
    /// `out0.1`, `out0.2`.
    fn each(&mut self, word: &str, at: u64, bytes: Option<u64>) -> String {
        let name = self.name_transfer(word, at, bytes);
        let times = self.times.entry(name.clone()).or_default();
        *times += 1;
        match *times - 1 {
            0 => name,
            n => format!("{name}.{n}"),
        }
    }
}

/// Cuts a range out of others. With `stays`, it becomes a range of its own.
fn cut(ranges: &mut Vec<(GpuVa, u64)>, at: GpuVa, end: GpuVa, stays: bool) {
    let mut left = Vec::with_capacity(ranges.len() + 2);
    for (from, bytes) in ranges.drain(..) {
        let to = from + bytes;
        if to <= at || from >= end {
            left.push((from, bytes));
            continue;
        }
        if from < at {
            left.push((from, at - from));
        }
        if to > end {
            left.push((end, to - end));
        }
    }
    if stays {
        left.push((at, end - at));
    }
    left.sort_unstable();
    *ranges = left;
}

fn three(bytes: &[u8; 24]) -> [u64; 3] {
    let mut words = [0; 3];
    for (word, from) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*from);
    }
    words
}

/// Returns whole granules that cover all ranges, joined if they are adjacent.
fn granules(ranges: &BTreeMap<u64, u64>) -> Vec<(GpuVa, u64)> {
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (at, bytes) in ranges {
        let first = at - at % GRANULE;
        let Some(end) = at.checked_add(*bytes).and_then(|e| e.checked_next_multiple_of(GRANULE)) else {
            continue;
        };
        match joined.last_mut() {
            Some((from, length)) if first <= *from + *length => *length = (*length).max(end - *from),
            _ => joined.push((first, end - first)),
        }
    }
    joined.into_iter().map(|(at, bytes)| (GpuVa::new(at), bytes)).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests fail in this way")]
mod tests {
    use super::*;

    #[test]
    fn ranges_become_disjoint_granules() {
        let g = GRANULE;
        let ranges = BTreeMap::from([(g + 5, 10), (g + 600, g), (5 * g, 1), (9 * g - 1, 2), (u64::MAX - 3, 2)]);
        let expected = [(g, 2 * g), (5 * g, g), (8 * g, 2 * g)].map(|(at, bytes)| (GpuVa::new(at), bytes));
        assert_eq!(granules(&ranges), expected);
    }

    #[test]
    fn doubly_mapped_memory_is_a_separate_range() {
        let g = GRANULE;
        let mut script = Script {
            ranges: vec![(GpuVa::new(g), 4 * g), (GpuVa::new(8 * g), 2 * g)],
            ..Script::default()
        };
        let one = MemoryAlias {
            at: GpuVa::new(8 * g),
            bytes: g,
            of: GpuVa::new(2 * g),
        };
        script.share(BTreeMap::from([(one.at.get(), one)])).unwrap();
        let expected = [(g, g), (2 * g, g), (3 * g, 2 * g), (9 * g, g)].map(|(at, bytes)| (GpuVa::new(at), bytes));
        assert_eq!(script.ranges, expected);
        assert_eq!(script.same, [one]);
        let of_itself = MemoryAlias {
            at: GpuVa::new(2 * g),
            bytes: g,
            of: GpuVa::new(2 * g),
        };
        assert!(script.share(BTreeMap::from([(of_itself.at.get(), of_itself)])).is_err());
    }

    #[test]
    fn first_step_in_unrecorded_memory_is_the_obstacle() {
        let fill = |to: u64, elements: u64| {
            Step::Fill(FillRow {
                to: GpuVa::new(to),
                elements,
                element: 4,
                ..FillRow::default()
            })
        };
        let g = GRANULE;
        let mut script = Script {
            ranges: vec![(GpuVa::new(g), g), (GpuVa::new(2 * g), g)],
            shared: vec![(GpuVa::new(8 * g), g)],
            steps: vec![
                (3, fill(2 * g - 4, 2)),
                (5, fill(8 * g, 1)),
                (7, fill(3 * g - 4, 2)),
                (9, fill(0, 1)),
            ],
            ..Script::default()
        };
        let obstacle = script.obstacle().unwrap();
        assert_eq!(obstacle.event, 7);
        assert!(obstacle.why.contains("8 bytes at 0x5ffffc"), "{}", obstacle.why);
        script.steps.truncate(2);
        assert_eq!(script.obstacle(), None);
        // A launch has a function with arguments, but the recording has no argument values.
        script.metadata.functions = vec![trace_core::recording::CallFunction {
            name: "k".to_owned(),
            parameters: vec![[0, 8]],
            ..Default::default()
        }];
        script.steps.push((11, Step::Launch(LaunchRow::default(), Vec::new())));
        let obstacle = script.obstacle().unwrap();
        assert!(
            obstacle.event == 11 && obstacle.why.contains("arguments of k"),
            "{}",
            obstacle.why
        );
    }

    #[test]
    fn transfer_name_is_stable_per_address() {
        let mut n = TransferNames::default();
        assert_eq!(n.name_transfer("in", 0x1000, Some(4)), "in0");
        assert_eq!(n.name_transfer("in", 0x2000, Some(4)), "in1");
        assert_eq!(n.name_transfer("out", 0x1000, Some(4)), "out0");
        assert_eq!(n.name_transfer("in", 0x1000, Some(4)), "in0");
        assert_eq!(n.name_transfer("in", 0x1000, Some(8)), "in2");
        assert_eq!(n.each("out", 0x3000, Some(4)), "out1");
        assert_eq!(n.each("out", 0x3000, Some(4)), "out1.1");
        assert_eq!(n.each("out", 0x3000, Some(4)), "out1.2");
    }
}
