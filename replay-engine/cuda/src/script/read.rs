//! Reading of a script: from the calls of a recording to steps, transfers and memory.

use super::{GRANULE, MAPPED_TWICE, MemoryAlias, Script, ScriptBuffer, Step, Transfer, cut};
use crate::error::CudaReplayError;
use std::collections::{BTreeMap, BTreeSet};
use trace_core::GpuVa;
use trace_core::api_trace::Annotations;
use trace_core::progress::Progress;
use trace_core::recording::{
    AllocationKind, AllocationRow, Api, ApiTraceMetadata, CALL_CAPTURED, CallEvent, CallRow, CopyKind, CopyRow,
    LaunchRow, NO_CONTENT, OrderKind, OrderRow, Recording, is_annotation,
};

/// Number of events between two checks for cancellation.
const STEP: usize = 4096;
/// Memory shorter than this has one row in a snapshot, bytes.
const MIN_CUT: u64 = 32 << 20;
/// Name prefix of inputs from a snapshot.
const MEMORY: &str = "memory";
/// Name prefix of outputs from a snapshot.
const AFTER: &str = "after";

/// Derives the steps of a recording; see [`Script::read`].
pub(super) fn read(recording: &Recording, progress: &Progress) -> Result<Script, CudaReplayError> {
    progress.set_total(recording.events.len() as u64);
    let metadata = recording.api().filter(|m| m.api == Api::Cuda).cloned();
    let mut reader = ScriptReader::new(recording, metadata.ok_or(CudaReplayError::NotApiTrace)?);
    for at in 0..recording.events.len() {
        if at % STEP == 0 {
            progress.advance(STEP as u64).map_err(|_| CudaReplayError::Cancelled)?;
        }
        if let Some(call) = recording.events.call(at).filter(|c| c.result() == 0) {
            reader.add_call(at as u64, call)?;
        }
    }
    reader.finish()
}

fn damaged(event: u64, what: &str) -> CudaReplayError {
    CudaReplayError::Damaged {
        event,
        what: what.to_owned(),
    }
}

/// A script while its events are read.
struct ScriptReader<'a> {
    recording: &'a Recording,
    script: Script,
    ranges: BTreeMap<u64, u64>,
    /// Memory shared by host and device.
    managed: BTreeMap<u64, u64>,
    /// Pinned memory, which is shared if the device accesses it.
    hosts: BTreeMap<u64, u64>,
    same: BTreeMap<u64, MemoryAlias>,
    names: TransferNames,
    buffers: LiveBuffers,
    /// Number of host-to-device copies whose content is not in the recording.
    unheld: u64,
    /// Number of copies to or from arrays.
    arrays: u64,
    /// Number of host functions.
    functions: u64,
    /// Whether copies without a stream belong to the snapshot at the start.
    at_begin: bool,
}

impl<'a> ScriptReader<'a> {
    fn new(recording: &'a Recording, metadata: ApiTraceMetadata) -> Self {
        Self {
            recording,
            script: Script {
                metadata,
                annotations: Annotations::from_recording(recording),
                ..Script::default()
            },
            ranges: BTreeMap::new(),
            managed: BTreeMap::new(),
            hosts: BTreeMap::new(),
            same: BTreeMap::new(),
            names: TransferNames::default(),
            buffers: LiveBuffers::default(),
            unheld: 0,
            arrays: 0,
            functions: 0,
            at_begin: false,
        }
    }

    fn add_call(&mut self, event: u64, call: CallEvent) -> Result<(), CudaReplayError> {
        let steps = &mut self.script.steps;
        match call {
            CallEvent::Allocation(a) => self.add_allocation(event, a),
            // A replay makes the program's calls, and the driver makes its own requests.
            CallEvent::Call(c) if c.is_request() => {}
            CallEvent::Call(c) => self.add_named_call(event, &c)?,
            CallEvent::Copy(c) if c.flags & CALL_CAPTURED == 0 => self.add_copy(event, c)?,
            CallEvent::Fill(f) if f.flags & CALL_CAPTURED == 0 => steps.push((event, Step::Fill(f))),
            CallEvent::Launch(l) if l.flags & CALL_CAPTURED == 0 => self.add_launch(event, l)?,
            CallEvent::Order(o) if o.flags & CALL_CAPTURED == 0 => {
                if OrderKind::from_raw(o.kind) == Some(OrderKind::HostFunction) {
                    self.functions += 1;
                } else {
                    steps.push((event, Step::Order(o)));
                }
            }
            CallEvent::Copy(_) | CallEvent::Fill(_) | CallEvent::Launch(_) | CallEvent::Order(_) => {}
        }
        Ok(())
    }

    fn add_allocation(&mut self, event: u64, a: AllocationRow) {
        self.buffers.add_row(event, a);
        let of = match AllocationKind::from_raw(a.kind) {
            Some(AllocationKind::TakeManaged) => &mut self.managed,
            Some(AllocationKind::TakeHost) => &mut self.hosts,
            Some(kind) if kind.takes_device() => &mut self.ranges,
            _ => return,
        };
        if a.bytes > 0 {
            of.insert(a.at.get(), a.bytes.max(of.get(&a.at.get()).copied().unwrap_or(0)));
        }
    }

    fn add_named_call(&mut self, event: u64, c: &CallRow) -> Result<(), CudaReplayError> {
        let names = &self.script.metadata.names;
        let name = names.get(c.name as usize).map_or("", String::as_str);
        if name == MAPPED_TWICE {
            let report = self.recording.events.call_arguments(c.arguments_at, c.arguments);
            let words = report.as_deref().and_then(|b| <&[u8; 24]>::try_from(b).ok());
            let words = words.ok_or_else(|| damaged(event, "a mapping without its address"))?;
            let [at, bytes, of] = read_words(words);
            self.same.insert(
                at,
                MemoryAlias {
                    at: GpuVa::new(at),
                    bytes,
                    of: GpuVa::new(of),
                },
            );
        } else if !is_annotation(name) {
            self.at_begin = matches!(name, "snapshot at the begin" | "snapshot before launch");
        }
        Ok(())
    }

    fn add_copy(&mut self, event: u64, c: CopyRow) -> Result<(), CudaReplayError> {
        c.total().ok_or_else(|| damaged(event, "a copy of too many bytes"))?;
        // Copies of a snapshot have no stream. Those at the start are the initial memory contents.
        let first = self.at_begin && c.stream == OrderRow::NONE;
        // The addresses of variables depend on where their module is loaded.
        let mut variables = self.script.metadata.modules.iter().flat_map(|m| &m.globals);
        if first && !variables.any(|g| c.from.checked_sub(g.at.get()).is_some_and(|n| n < g.bytes)) {
            let bytes = c.bytes.max(self.ranges.get(&c.from).copied().unwrap_or(0));
            self.ranges.insert(c.from, bytes);
            self.buffers.add_initial(event, c.from, c.bytes);
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
                self.add_input(event, MEMORY, row);
            }
            Some(CopyKind::HostToDevice) => self.add_input(event, "in", c),
            Some(CopyKind::DeviceToHost) => self.add_output(event, c),
            Some(CopyKind::DeviceToDevice) => self.script.steps.push((event, Step::Copy(c))),
            Some(CopyKind::Other) | None => self.arrays += 1,
        }
        Ok(())
    }

    fn add_input(&mut self, event: u64, word: &str, row: CopyRow) {
        if row.pages_at == NO_CONTENT {
            self.unheld += 1;
            return;
        }
        let n = self.script.inputs.len();
        let numbered = self.names.name_transfer(word, row.to, row.total());
        let given = self
            .given_name(GpuVa::new(row.to), row.total(), event)
            .filter(|_| word != MEMORY);
        self.script.inputs.push(Transfer {
            event,
            name: given.unwrap_or(numbered),
            snapshot: word == MEMORY,
            row,
        });
        self.script.steps.push((event, Step::Input(n)));
    }

    fn add_output(&mut self, event: u64, c: CopyRow) {
        let snapshot = c.stream == OrderRow::NONE;
        let stream = if snapshot { 0 } else { c.stream };
        let n = self.script.outputs.len();
        let numbered = self
            .names
            .name_output(if snapshot { AFTER } else { "out" }, c.from, c.total());
        let given = self
            .given_name(GpuVa::new(c.from), c.total(), event)
            .filter(|_| !snapshot);
        let given = given.map(|name| self.names.count_output(name));
        self.script.outputs.push(Transfer {
            event,
            name: given.unwrap_or(numbered),
            row: CopyRow { stream, ..c },
            snapshot,
        });
        self.script.steps.push((event, Step::Output(n)));
    }

    /// Returns the name that the program gave to exactly this memory.
    fn given_name(&self, at: GpuVa, bytes: Option<u64>, event: u64) -> Option<String> {
        let found = self.script.annotations.name_of(at, bytes?, event)?;
        Some(found.name.name.clone())
    }

    fn add_launch(&mut self, event: u64, l: LaunchRow) -> Result<(), CudaReplayError> {
        let arguments = self.recording.events.call_arguments(l.arguments_at, l.arguments);
        let arguments = arguments.ok_or_else(|| damaged(event, "a launch whose arguments are not in the file"))?;
        if self.script.metadata.functions.get(l.function as usize).is_none() {
            let what = "a launch of a function that the recording does not list";
            return Err(damaged(event, what));
        }
        self.script.steps.push((event, Step::Launch(l, arguments)));
        Ok(())
    }

    fn finish(self) -> Result<Script, CudaReplayError> {
        let Self {
            mut script,
            mut ranges,
            mut managed,
            hosts,
            ..
        } = self;
        for (n, what) in [
            (
                self.unheld,
                "host-to-device copies whose content is not in the recording",
            ),
            (self.arrays, "copies to or from arrays"),
            (self.functions, "host functions"),
        ] {
            if n > 0 {
                script.left_out.push(format!("{n} {what}"));
            }
        }
        ranges.retain(|at, bytes| managed.get(at).is_none_or(|managed| managed < bytes));
        managed.extend(script.idle_variables());
        script.ranges = join_granules(&ranges);
        let reached = script.find_reached_ranges(&hosts);
        managed.extend(hosts.into_iter().filter(|(at, _)| reached.contains(at)));
        script.shared = join_granules(&managed);
        // Data in a granule that is mapped anyway keeps its address.
        for (at, bytes) in &script.ranges {
            cut(&mut script.shared, *at, at.saturating_add(*bytes), false);
        }
        script.buffers = self.buffers.finish();
        script.buffers.retain(|b| !managed.contains_key(&b.at.get()));
        script.shared_parts = managed.into_iter().map(|(at, bytes)| (GpuVa::new(at), bytes)).collect();
        script.share(self.same)?;
        // Aliased memory cannot be relocated: data written at one address is read at the other.
        let Script { buffers, same, .. } = &mut script;
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
    fn add_row(&mut self, event: u64, row: AllocationRow) {
        let kind = AllocationKind::from_raw(row.kind);
        if kind.is_some_and(AllocationKind::gives_device) {
            let gone = self.live.remove(&row.at.get()).and_then(|n| self.all.get_mut(n));
            if let Some(buffer) = gone {
                buffer.to = Some(event);
            }
        } else if kind.is_some_and(|k| k.takes_device() && k != AllocationKind::TakeManaged) && row.bytes > 0 {
            self.add_buffer(event, row.at.get(), row.bytes);
            if kind == Some(AllocationKind::Map) {
                self.mapped.insert(row.at.get(), row.bytes);
            }
        }
    }

    /// Processes a snapshot row: memory that existed when the range started. Long memory has several rows.
    fn add_initial(&mut self, event: u64, at: u64, bytes: u64) {
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
        self.add_buffer(event, at, bytes);
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

    fn add_buffer(&mut self, event: u64, at: u64, bytes: u64) {
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
    fn name_output(&mut self, word: &str, at: u64, bytes: Option<u64>) -> String {
        let name = self.name_transfer(word, at, bytes);
        self.count_output(name)
    }

    /// Returns the name of an output with a suffix, if an earlier output has the name.
    fn count_output(&mut self, name: String) -> String {
        let times = self.times.entry(name.clone()).or_default();
        *times += 1;
        match *times - 1 {
            0 => name,
            n => format!("{name}.{n}"),
        }
    }
}

fn read_words(bytes: &[u8; 24]) -> [u64; 3] {
    let mut words = [0; 3];
    for (word, from) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*from);
    }
    words
}

/// Returns whole granules that cover all ranges, joined if they are adjacent.
fn join_granules(ranges: &BTreeMap<u64, u64>) -> Vec<(GpuVa, u64)> {
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
mod tests {
    use super::*;

    #[test]
    fn ranges_become_disjoint_granules() {
        let g = GRANULE;
        let ranges = BTreeMap::from([(g + 5, 10), (g + 600, g), (5 * g, 1), (9 * g - 1, 2), (u64::MAX - 3, 2)]);
        let expected = [(g, 2 * g), (5 * g, g), (8 * g, 2 * g)].map(|(at, bytes)| (GpuVa::new(at), bytes));
        assert_eq!(join_granules(&ranges), expected);
    }

    #[test]
    fn transfer_name_is_stable_per_address() {
        let mut n = TransferNames::default();
        assert_eq!(n.name_transfer("in", 0x1000, Some(4)), "in0");
        assert_eq!(n.name_transfer("in", 0x2000, Some(4)), "in1");
        assert_eq!(n.name_transfer("out", 0x1000, Some(4)), "out0");
        assert_eq!(n.name_transfer("in", 0x1000, Some(4)), "in0");
        assert_eq!(n.name_transfer("in", 0x1000, Some(8)), "in2");
        assert_eq!(n.name_output("out", 0x3000, Some(4)), "out1");
        assert_eq!(n.name_output("out", 0x3000, Some(4)), "out1.1");
        assert_eq!(n.name_output("out", 0x3000, Some(4)), "out1.2");
    }
}
