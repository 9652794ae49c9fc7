//! What a replay of calls does, step by step, as it follows from a recording; nothing of the device yet.

use super::error::CudaReplayError;
use std::collections::{BTreeMap, BTreeSet};
use trace_core::progress::Progress;
use trace_core::recording::{
    AllocationKind, AllocationRow, CALL_ASYNC, CALL_CAPTURED, CallEvent, CallFacts, CopyKind, CopyRow, FillRow,
    LaunchRow, NO_CONTENT, OrderKind, OrderRow, Recording,
};

/// Events between two looks at whether to stop.
const STEP: usize = 4096;
/// Bytes that memory is mapped in.
pub(super) const GRANULE: u64 = 2 << 20;
/// Memory that is shorter than this has one row in a snapshot.
const MIN_CUT: u64 = 32 << 20;
/// How inputs are called that a snapshot took down.
const MEMORY: &str = "memory";
/// Name of the call that tells of memory which is mapped in a second place: that, its bytes, and the first place.
pub const MAPPED_TWICE: &str = "cuMemMap";
/// How outputs are called that a snapshot took down.
const AFTER: &str = "after";

/// What a copy moves between the host and the device.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// The event.
    pub event: u64,
    /// Name for a person: `in3`, `out0`.
    pub name: String,
    /// The copy as it was recorded.
    pub row: CopyRow,
    /// Whether it is what a snapshot took down, and no copy of the program's.
    pub snapshot: bool,
}

/// A step.
#[derive(Clone, Debug)]
pub enum Step {
    /// Bytes go to the device: the transfer of this number among [`Script::inputs`].
    Input(usize),
    /// Bytes come from the device: the transfer of this number among [`Script::outputs`].
    Output(usize),
    /// Memory of the device is copied on it.
    Copy(CopyRow),
    /// Memory is set.
    Fill(FillRow),
    /// A function is launched, with its arguments.
    Launch(LaunchRow, Vec<u8>),
    /// An order.
    Order(OrderRow),
}

impl Step {
    /// Whether a function is launched.
    #[must_use]
    pub fn is_launch(&self) -> bool {
        matches!(self, Self::Launch(..))
    }
}

/// A range of addresses that has the memory of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryAlias {
    /// First address.
    pub at: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// First address of the other range, which is one of [`Script::ranges`] by itself.
    pub of: u64,
}

/// Memory of the device that the program took, or that was there when the range began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptBuffer {
    /// First address.
    pub at: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// The event that it begins with.
    pub from: u64,
    /// The event that it ends with; `None`: it is there at the end.
    pub to: Option<u64>,
}

/// Why a recording cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The event that no replay can do.
    pub event: u64,
    /// Why, in words.
    pub why: String,
}

/// The steps of a recording of calls.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// What the recording tells of its calls.
    pub facts: CallFacts,
    /// The steps, each with its event.
    pub steps: Vec<(u64, Step)>,
    /// How many of the first steps put in place what memory holds at first; as many of the first inputs are theirs.
    pub first: usize,
    /// How many steps there are before those at the end that take memory down alone.
    pub last: usize,
    /// Bytes that go to the device, in the order of their events.
    pub inputs: Vec<Transfer>,
    /// Bytes that come from the device, likewise.
    pub outputs: Vec<Transfer>,
    /// Ranges of addresses that have memory: first byte and bytes, whole granules, apart from each other.
    pub ranges: Vec<(u64, u64)>,
    /// Ranges that are the memory of others, apart from [`Script::ranges`].
    pub same: Vec<MemoryAlias>,
    /// Ranges of memory that host and device shared, as [`Script::ranges`]: they may lie elsewhere in a replay.
    pub shared: Vec<(u64, u64)>,
    /// What lies in [`Script::shared`]: first byte and bytes of each.
    pub shared_parts: Vec<(u64, u64)>,
    /// Memory of the device, in the order of the events that it begins with.
    pub buffers: Vec<ScriptBuffer>,
    /// What is left out, in words.
    pub left_out: Vec<String>,
}

impl Script {
    /// The steps of a recording.
    ///
    /// # Errors
    /// When it is no recording of calls, or names what it does not hold.
    pub fn new(recording: &Recording) -> Result<Self, CudaReplayError> {
        Self::read(recording, &Progress::new())
    }

    /// As [`Self::of`], with progress and cancel.
    ///
    /// # Errors
    /// As [`Self::of`], and when it was stopped.
    pub fn read(recording: &Recording, progress: &Progress) -> Result<Self, CudaReplayError> {
        progress.set_total(recording.events.len() as u64);
        let facts = recording.call_facts().filter(|f| f.api == "cuda");
        let mut script = Self {
            facts: facts.ok_or(CudaReplayError::NotCalls)?,
            ..Default::default()
        };
        let mut ranges: BTreeMap<u64, u64> = BTreeMap::new();
        // Memory that host and device share; what is pinned counts where the device reaches it.
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
                        of.insert(a.at, a.bytes.max(of.get(&a.at).copied().unwrap_or(0)));
                    }
                }
                CallEvent::Call(c) => {
                    let name = script.facts.names.get(c.name as usize).map_or("", String::as_str);
                    if name == MAPPED_TWICE {
                        let report = recording.events.call_arguments(c.arguments_at, c.arguments);
                        let words = report.as_deref().and_then(|b| <&[u8; 24]>::try_from(b).ok());
                        let words = words.ok_or_else(|| damaged("a mapping that does not tell its place"))?;
                        let [at, bytes, of] = three(words);
                        same.insert(at, MemoryAlias { at, bytes, of });
                        continue;
                    }
                    at_begin = matches!(name, "snapshot at the begin" | "snapshot before launch");
                }
                CallEvent::Copy(c) if c.flags & CALL_CAPTURED != 0 => {}
                CallEvent::Copy(c) => {
                    c.total().ok_or_else(|| damaged("a copy of too many bytes"))?;
                    let held = c.pages_at != NO_CONTENT;
                    // A snapshot's copies are of no stream: those at the begin are what memory holds at first.
                    let first = at_begin && c.stream == OrderRow::NONE;
                    // Variables lie where their module is loaded.
                    let mut variables = script.facts.modules.iter().flat_map(|m| &m.globals);
                    if first && !variables.any(|g| c.from.checked_sub(g.at).is_some_and(|n| n < g.bytes)) {
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
                    if script.facts.functions.get(l.function as usize).is_none() {
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
        leave(unheld, "copies to the device whose content the recording does not hold");
        leave(arrays, "copies to or from arrays");
        leave(functions, "functions of the host");
        ranges.retain(|at, bytes| managed.get(at).is_none_or(|managed| managed < bytes));
        managed.extend(script.idle_variables());
        script.ranges = granules(&ranges);
        let reached = script.find_reached_ranges(&hosts);
        managed.extend(hosts.into_iter().filter(|(at, _)| reached.contains(at)));
        script.shared = granules(&managed);
        // What lies in a granule that is mapped in any case stays there.
        for (at, bytes) in &script.ranges {
            cut(&mut script.shared, *at, at.saturating_add(*bytes), false);
        }
        script.buffers = buffers.finish();
        script.buffers.retain(|b| !managed.contains_key(&b.at));
        script.shared_parts = managed.into_iter().collect();
        script.share(same)?;
        // Memory that is mapped twice has no other place: what is written at one address is read at the other.
        let Self { buffers, same, .. } = &mut script;
        let overlaps = |b: &ScriptBuffer, at: u64, bytes: u64| {
            b.at < at.saturating_add(bytes) && at < b.at.saturating_add(b.bytes)
        };
        buffers.retain(|b| {
            same.iter()
                .all(|s| !overlaps(b, s.at, s.bytes) && !overlaps(b, s.of, s.bytes))
        });
        script.hoist_variables();
        script.first = script.count_leading_inputs();
        script.last = script.steps.len() - script.trailing();
        Ok(script)
    }

    /// First bytes of the ranges that steps reach on the device: by copies, fills or addresses among arguments.
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

    /// First byte and bytes of what a copy or a fill touches on the device.
    pub(super) fn list_touched_ranges(&self, step: &Step) -> Vec<(u64, u64)> {
        let rows = |at: u64, row: u64, rows: u64, pitch: u64| {
            let bytes = rows.saturating_sub(1).saturating_mul(pitch).saturating_add(row);
            (at, if row == 0 || rows == 0 { 0 } else { bytes })
        };
        let of_fill = |row: &FillRow| rows(row.to, row.row_bytes().unwrap_or(u64::MAX), row.rows.max(1), row.pitch);
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

    /// Numbers of the modules with variables that copies or fills touch, where their code is there: they are loaded whether a
    /// function of them is launched or not.
    pub(super) fn touched_modules(&self) -> BTreeSet<usize> {
        let has_code = |n: &usize| self.facts.modules.get(*n).is_some_and(|m| !m.pages.is_empty());
        let touched = self.touched_variables();
        touched.iter().map(|(module, ..)| *module).filter(has_code).collect()
    }

    /// First byte and bytes of variables that copies or fills touch, of modules whose code is not in the recording because
    /// no function of them is launched. They are memory as any other.
    fn idle_variables(&self) -> Vec<(u64, u64)> {
        let is_idle = |n: usize| self.facts.modules.get(n).is_some_and(|m| m.pages.is_empty());
        let touched = self.touched_variables();
        let idle = touched.iter().filter(|(module, ..)| is_idle(*module));
        idle.map(|(_, at, bytes)| (*at, *bytes)).collect()
    }

    /// Module, first byte and bytes of the variables that copies or fills touch.
    fn touched_variables(&self) -> BTreeSet<(usize, u64, u64)> {
        let globals = self.facts.modules.iter().enumerate();
        let globals = globals.flat_map(|(n, m)| m.globals.iter().map(move |g| (g.at, (g.bytes, n))));
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

    /// Bytes of memory that a replay maps.
    #[must_use]
    pub fn mapped_bytes(&self) -> Option<u64> {
        let all = self.ranges.iter().chain(&self.shared);
        all.map(|(_, bytes)| *bytes).try_fold(0u64, u64::checked_add)
    }

    /// Returns the first step that no replay can do, and why: it touches memory of which the recording does not tell, or
    /// launches a function whose code or arguments are not there. `None` if there is none.
    #[must_use]
    pub fn obstacle(&self) -> Option<Obstacle> {
        let mut known: Vec<(u64, u64)> = self.ranges.iter().chain(&self.shared).copied().collect();
        known.extend(self.same.iter().map(|s| (s.at, s.bytes)));
        known.extend(
            self.facts
                .modules
                .iter()
                .flat_map(|m| &m.globals)
                .map(|g| (g.at, g.bytes)),
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
                    format!("it touches {bytes} bytes at {at:#x}, in memory of which the recording does not tell")
                }
            };
            Some(Obstacle { event: *event, why })
        })
    }

    fn cannot_launch(&self, row: &LaunchRow, arguments: &[u8]) -> Option<String> {
        let function = self.facts.functions.get(row.function as usize)?;
        let name = function.display_name();
        if arguments.is_empty() && !function.parameters.is_empty() {
            return Some(format!("the arguments of {name} are not in the recording"));
        }
        let module = match function.module {
            Some(n) => self.facts.modules.get(n as usize),
            None => return Some(format!("the recording does not tell the code of {name}")),
        };
        match module {
            Some(module) if !module.missing.is_empty() => Some(format!(
                "the code of {name} is not in the recording: {}",
                module.missing
            )),
            Some(module) if module.pages.is_empty() => {
                Some(format!("the code of {name} is not whole in the recording"))
            }
            Some(_) => None,
            None => Some(format!("the module of {name} is not in the recording's list")),
        }
    }

    /// Takes apart ranges whose memory is mapped twice, and those that are mapped to it.
    fn share(&mut self, same: BTreeMap<u64, MemoryAlias>) -> Result<(), CudaReplayError> {
        for s in same.values() {
            let is_whole = s.bytes > 0 && [s.at, s.bytes, s.of].iter().all(|n| n.is_multiple_of(GRANULE));
            let ends = s.at.checked_add(s.bytes).zip(s.of.checked_add(s.bytes));
            let Some((end, of_end)) = ends.filter(|_| is_whole && !same.contains_key(&s.of)) else {
                return Err(CudaReplayError::Damaged {
                    event: 0,
                    what: format!("the memory at {:#x} cannot be that at {:#x} too", s.at, s.of),
                });
            };
            cut(&mut self.ranges, s.at, end, false);
            cut(&mut self.ranges, s.of, of_end, true);
            self.same.push(*s);
        }
        Ok(())
    }

    /// Inputs in front of everything else that a snapshot took down.
    pub(super) fn count_leading_inputs(&self) -> usize {
        let is_memory = |n: usize| self.inputs.get(n).is_some_and(|t| t.snapshot);
        let first = |(_, s): &&(u64, Step)| matches!(s, Step::Input(n) if is_memory(*n));
        self.steps.iter().take_while(first).count()
    }

    /// Outputs behind everything else that a snapshot took down.
    fn trailing(&self) -> usize {
        let is_memory = |n: usize| self.outputs.get(n).is_some_and(|t| t.snapshot);
        let last = |(_, s): &&(u64, Step)| matches!(s, Step::Output(n) if is_memory(*n));
        let behind = self.steps.get(self.first..).unwrap_or_default();
        behind.iter().rev().take_while(last).count()
    }

    /// Takes away the steps at the end that take memory down alone, with their outputs.
    pub fn forget_memory_behind(&mut self) {
        let outputs = self.steps.iter().skip(self.last).filter_map(|(_, s)| match s {
            Step::Output(n) => Some(*n),
            _ => None,
        });
        // Outputs are numbered in the order of their steps: those at the end are the last ones.
        if let Some(least) = outputs.min() {
            self.outputs.truncate(least);
        }
        self.steps.truncate(self.last);
    }

    /// Whether the program itself brought something back.
    #[must_use]
    pub fn has_own_outputs(&self) -> bool {
        self.outputs.iter().any(|t| !t.snapshot)
    }

    /// Names of inputs, each once, in the order of their first use; what memory holds at first is not among them.
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

    /// Numbers of the functions that are launched.
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

    /// Launches among the steps.
    #[must_use]
    pub fn launches(&self) -> u64 {
        self.steps.iter().filter(|(_, s)| matches!(s, Step::Launch(..))).count() as u64
    }

    /// The stream of a copy between host and device that the program's call waited for; `None` for all other steps.
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

/// Memory of the device while events are read: which of it is there now.
#[derive(Default)]
struct LiveBuffers {
    all: Vec<ScriptBuffer>,
    /// Places in the list by first address.
    live: BTreeMap<u64, usize>,
    /// What the program mapped itself: first address and bytes.
    mapped: BTreeMap<u64, u64>,
}

impl LiveBuffers {
    /// Memory was taken or given back.
    fn row(&mut self, event: u64, row: AllocationRow) {
        let kind = AllocationKind::from_raw(row.kind);
        if kind.is_some_and(AllocationKind::gives_device) {
            let gone = self.live.remove(&row.at).and_then(|n| self.all.get_mut(n));
            if let Some(buffer) = gone {
                buffer.to = Some(event);
            }
        } else if kind.is_some_and(|k| k.takes_device() && k != AllocationKind::TakeManaged) && row.bytes > 0 {
            self.add(event, row.at, row.bytes);
            if kind == Some(AllocationKind::Map) {
                self.mapped.insert(row.at, row.bytes);
            }
        }
    }

    /// A row of a snapshot tells memory that was there when the range began. Long memory has several rows.
    fn begun_with(&mut self, event: u64, at: u64, bytes: u64) {
        let Some(end) = at.checked_add(bytes) else { return };
        let before = self.live.range(..=at).next_back().map(|(_, n)| *n);
        if let Some(buffer) = before.and_then(|n| self.all.get_mut(n)) {
            let buffer_end = buffer.at.saturating_add(buffer.bytes);
            if end <= buffer_end {
                return;
            }
            if buffer_end == at && at.is_multiple_of(4096) && buffer.bytes >= MIN_CUT {
                buffer.bytes = end - buffer.at;
                return;
            }
        }
        self.add(event, at, bytes);
    }

    /// All buffers. Mappings that lie next to each other are one to the program, which may let it grow: they are none.
    fn finish(self) -> Vec<ScriptBuffer> {
        let ends: BTreeSet<u64> = self.mapped.iter().map(|(at, n)| at.saturating_add(*n)).collect();
        let is_alone = |b: &ScriptBuffer| {
            let is_mapped = self.mapped.contains_key(&b.at);
            !is_mapped || !ends.contains(&b.at) && !self.mapped.contains_key(&b.at.saturating_add(b.bytes))
        };
        let mut all = self.all;
        all.retain(is_alone);
        all
    }

    fn add(&mut self, event: u64, at: u64, bytes: u64) {
        self.live.insert(at, self.all.len());
        self.all.push(ScriptBuffer {
            at,
            bytes,
            from: event,
            to: None,
        });
    }
}

/// Names of transfers: each place on the device is one buffer, numbered in the order of its first use. What goes there
/// again goes into the same input; what comes from there again is another output.
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

    /// As [`Names::of`], and told apart from what came from the same place before: `out0`, `out0.1`, `out0.2`.
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

/// Cuts a range out of others; `stays`: it is one by itself then.
fn cut(ranges: &mut Vec<(u64, u64)>, at: u64, end: u64, stays: bool) {
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

/// Whole granules that cover all of the ranges, joined where they meet.
fn granules(ranges: &BTreeMap<u64, u64>) -> Vec<(u64, u64)> {
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
    joined
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests fail in this way")]
mod tests {
    use super::*;

    #[test]
    fn ranges_become_whole_granules_apart_from_each_other() {
        let g = GRANULE;
        let ranges = BTreeMap::from([(g + 5, 10), (g + 600, g), (5 * g, 1), (9 * g - 1, 2), (u64::MAX - 3, 2)]);
        assert_eq!(granules(&ranges), [(g, 2 * g), (5 * g, g), (8 * g, 2 * g)]);
    }

    #[test]
    fn memory_that_is_mapped_twice_is_a_range_by_itself() {
        let g = GRANULE;
        let mut script = Script {
            ranges: vec![(g, 4 * g), (8 * g, 2 * g)],
            ..Script::default()
        };
        let one = MemoryAlias {
            at: 8 * g,
            bytes: g,
            of: 2 * g,
        };
        script.share(BTreeMap::from([(one.at, one)])).unwrap();
        assert_eq!(script.ranges, [(g, g), (2 * g, g), (3 * g, 2 * g), (9 * g, g)]);
        assert_eq!(script.same, [one]);
        let of_itself = MemoryAlias {
            at: 2 * g,
            bytes: g,
            of: 2 * g,
        };
        assert!(script.share(BTreeMap::from([(of_itself.at, of_itself)])).is_err());
    }

    #[test]
    fn the_first_step_in_memory_that_nobody_told_of_is_the_obstacle() {
        let fill = |to: u64, elements: u64| {
            Step::Fill(FillRow {
                to,
                elements,
                element: 4,
                ..FillRow::default()
            })
        };
        let g = GRANULE;
        let mut script = Script {
            ranges: vec![(g, g), (2 * g, g)],
            shared: vec![(8 * g, g)],
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
        // A launch whose function takes arguments, of which the recording has none.
        script.facts.functions = vec![trace_core::recording::CallFunction {
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
    fn a_place_keeps_its_name() {
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
