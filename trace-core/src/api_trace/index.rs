//! One pass over all events of an API trace.

use super::annotations::Annotations;
use super::arguments::little_endian;
use super::buffers::Tracker;
use super::order::OrderBuilder;
use super::ranges::{Entry, Ranges};
use super::rows::{GAPS, NOT_RECORDED, has_succeeded, is_snapshot};
use super::types::{Parameter, ParameterType, parameters};
use super::{ApiTrace, BufferReference, BufferReferences, KernelLaunch, ReferenceKind, names};
use crate::GpuVa;
use crate::progress::{Cancelled, Progress};
use crate::recording::{
    AllocationKind, ApiTraceMetadata, CallEvent, CodeKind, CopyKind, CopyRow, FillRow, LaunchRow, NO_CONTENT,
    Recording, is_annotation,
};
use crate::values::Values;
use cuda_code::ptx::Ptx;
use std::collections::BTreeMap;

/// Number of events between two checks for cancellation.
const STEP: usize = 4096;
/// Maximum size of the PTX of one module that is parsed for types, bytes.
const MAX_PTX: u64 = 64 << 20;
/// Maximum number of words of one argument that are searched for addresses.
const MAX_WORDS: usize = 512;

impl ApiTrace {
    /// Indexes the calls of a recording; returns `None` if it is not an API trace. Time is proportional to the number
    /// of events.
    ///
    /// # Errors
    /// [`Cancelled`] if the work was cancelled.
    pub fn from_recording(recording: &Recording, progress: &Progress) -> Result<Option<Self>, Cancelled> {
        let Some(metadata) = recording.api() else {
            return Ok(None);
        };
        let events = &recording.events;
        progress.set_total(events.len() as u64);
        let shown: Vec<String> = metadata.functions.iter().map(names::display_name).collect();
        let parameters = typed_parameters(recording, metadata, &shown, progress)?;
        let mut index = IndexBuilder {
            recording,
            tracker: Tracker::new(metadata),
            order: OrderBuilder::default(),
            in_snapshot: None,
            api_trace: Self {
                by_function: vec![Vec::new(); metadata.functions.len()],
                by_module: vec![Vec::new(); metadata.modules.len()],
                by_stream: vec![Vec::new(); metadata.streams.len()],
                events: events.len() as u64,
                shown,
                parameters,
                metadata: metadata.clone(),
                annotations: Annotations::from_recording(recording),
                ..Self::default()
            },
            references: Vec::new(),
            writes: Vec::new(),
            seen: Vec::new(),
            taken: (Vec::new(), Vec::new()),
        };
        for at in 0..events.len() {
            if at % STEP == 0 {
                progress.advance(STEP as u64)?;
            }
            if let Some(call) = events.call(at) {
                index.take(at as u64, &call);
            }
        }
        progress.check()?;
        let mut api_trace = index.finish();
        api_trace.find_launch_snapshots(recording);
        api_trace.compare_launch_snapshots(recording, progress)?;
        Ok(Some(api_trace))
    }
}

/// Returns the parameters of every function, with types from its signature, or else from its PTX.
fn typed_parameters(
    recording: &Recording,
    metadata: &ApiTraceMetadata,
    shown: &[String],
    progress: &Progress,
) -> Result<Vec<Vec<Parameter>>, Cancelled> {
    let mut by_module: BTreeMap<Option<u32>, Vec<usize>> = BTreeMap::new();
    for (n, f) in metadata.functions.iter().enumerate() {
        by_module.entry(f.module).or_default().push(n);
    }
    let mut all = vec![Vec::new(); metadata.functions.len()];
    for (module, functions) in by_module {
        progress.check()?;
        let module = module.and_then(|m| metadata.modules.get(m as usize));
        let text = module
            .filter(|m| m.kind == CodeKind::Ptx && m.bytes <= MAX_PTX)
            .and_then(|m| recording.module_code(m));
        let ptx = text.as_deref().and_then(|t| Ptx::parse(t).ok());
        for n in functions {
            let (Some(f), Some(name)) = (metadata.functions.get(n), shown.get(n)) else {
                continue;
            };
            let entry = ptx.as_ref().and_then(|p| p.entry(&f.name));
            if let Some(to) = all.get_mut(n) {
                *to = parameters(f, name, entry);
            }
        }
    }
    Ok(all)
}

struct IndexBuilder<'a> {
    recording: &'a Recording,
    api_trace: ApiTrace,
    tracker: Tracker,
    order: OrderBuilder,
    /// The snapshot whose pieces follow: whether it is the one at the start.
    in_snapshot: Option<bool>,
    references: Vec<BufferReferences>,
    writes: Vec<Entry>,
    seen: Vec<Entry>,
    taken: (Vec<u32>, Vec<u64>),
}

impl IndexBuilder<'_> {
    fn take(&mut self, event: u64, call: &CallEvent) {
        // Requests to the kernel driver are below the calls: they are no calls of the program, and end no snapshot.
        if matches!(call, CallEvent::Call(row) if row.is_request()) {
            return;
        }
        if call.result() != 0 {
            self.api_trace.failed.push(event);
        }
        let of_stream = call.stream().filter(|_| !is_piece(call));
        if let Some(list) = of_stream.and_then(|s| self.api_trace.by_stream.get_mut(s as usize)) {
            list.push(event);
        }
        if let CallEvent::Call(row) = call {
            let name = self
                .api_trace
                .metadata
                .names
                .get(row.name as usize)
                .map_or("", String::as_str);
            if is_annotation(name) {
                return;
            }
            self.in_snapshot = name.starts_with("snapshot").then(|| name == "snapshot at the begin");
            if self.in_snapshot.is_some() {
                self.api_trace.snapshots.push((event, name.to_owned()));
            }
        }
        if !has_succeeded(call) {
            return;
        }
        match call {
            CallEvent::Launch(row) => self.launch(event, row),
            CallEvent::Copy(row) => self.copy(event, row),
            CallEvent::Fill(row) => self.fill(event, row),
            CallEvent::Order(row) => self.order.take(event, row),
            CallEvent::Allocation(row) => {
                self.tracker.allocation(event, row);
                let kind = AllocationKind::from_raw(row.kind);
                if kind.is_some_and(|k| k.takes_device() || k.gives_device())
                    && let Ok(event) = u32::try_from(event)
                {
                    self.taken.0.push(event);
                    self.taken.1.push(self.tracker.allocated_bytes());
                }
            }
            CallEvent::Call(_) => {}
        }
    }

    fn launch(&mut self, event: u64, row: &LaunchRow) {
        let Ok(launch) = u32::try_from(self.api_trace.launches.len()) else {
            return;
        };
        self.api_trace.launches.push(KernelLaunch {
            event,
            function: row.function,
            stream: row.stream,
        });
        if let Some(list) = self.api_trace.by_function.get_mut(row.function as usize) {
            list.push(launch);
        }
        // For each buffer, the most direct reference to it and whether any reference may write.
        let mut found: BTreeMap<u32, (ReferenceKind, bool)> = BTreeMap::new();
        let mut meet = |buffer: u32, reach: ReferenceKind, writes: bool| {
            let at = found.entry(buffer).or_insert((reach, writes));
            at.0 = at.0.min(reach);
            at.1 |= writes;
        };
        let raw = self.recording.events.call_arguments(row.arguments_at, row.arguments);
        let raw = raw.unwrap_or_default();
        let parameters = self.api_trace.parameters(row.function);
        for p in parameters {
            let from = p.offset as usize;
            let Some(own) = raw.get(from..from.saturating_add(p.bytes as usize)) else {
                continue;
            };
            match p.data_type {
                ParameterType::Pointer { constant } => {
                    if let Some(b) = self.tracker.find_buffer(GpuVa::new(little_endian(own))) {
                        meet(b, ReferenceKind::Argument, !constant);
                    }
                }
                ParameterType::Bits if own.len() == 8 => {
                    if let Some(b) = self.tracker.find_buffer(GpuVa::new(little_endian(own))) {
                        meet(b, ReferenceKind::Argument, true);
                    }
                }
                ParameterType::Bytes => words(own, |to| {
                    if let Some(b) = self.tracker.find_buffer(GpuVa::new(to)) {
                        meet(b, ReferenceKind::ArgumentWord, true);
                    }
                }),
                _ => {}
            }
        }
        if parameters.is_empty() {
            words(&raw, |to| {
                if let Some(b) = self.tracker.find_buffer(GpuVa::new(to)) {
                    meet(b, ReferenceKind::ArgumentWord, true);
                }
            });
        }
        let module = self
            .api_trace
            .metadata
            .functions
            .get(row.function as usize)
            .and_then(|f| f.module);
        if let Some(list) = module.and_then(|m| self.api_trace.by_module.get_mut(m as usize)) {
            list.push(launch);
        }
        for (buffer, (reach, writes)) in found {
            let at = buffer as usize;
            if self.references.len() <= at {
                self.references.resize_with(at + 1, BufferReferences::default);
            }
            if let Some(t) = self.references.get_mut(at) {
                let list = if writes { &mut t.write } else { &mut t.read };
                list.push(BufferReference { launch, kind: reach });
            }
        }
    }

    fn copy(&mut self, event: u64, row: &CopyRow) {
        let piece = is_snapshot(row);
        if piece {
            self.tracker.snapshot(row, self.in_snapshot == Some(true));
        } else {
            self.tracker.transfer(row);
        }
        let kind = CopyKind::from_raw(row.kind);
        if matches!(kind, Some(CopyKind::HostToDevice | CopyKind::DeviceToDevice)) {
            self.writes
                .extend(entry(event, GpuVa::new(row.to), row.bytes, row.rows, row.to_pitch));
        }
        if matches!(kind, Some(CopyKind::DeviceToHost | CopyKind::DeviceToDevice)) {
            let is_reported = kind == Some(CopyKind::DeviceToHost) && row.pages_at != NO_CONTENT;
            self.seen.extend(
                entry(event, GpuVa::new(row.from), row.bytes, row.rows, row.from_pitch).map(|mut e| {
                    e.tag |= if is_reported { 0 } else { NOT_RECORDED };
                    e
                }),
            );
        }
    }

    fn fill(&mut self, event: u64, row: &FillRow) {
        let Some(bytes) = row.row_bytes() else { return };
        self.writes.extend(entry(event, row.to, bytes, row.rows, row.pitch));
    }

    fn finish(self) -> ApiTrace {
        let mut api_trace = self.api_trace;
        api_trace.buffers = self.tracker.finish(&api_trace.annotations);
        api_trace.references = self.references;
        api_trace.writes = Ranges::new(self.writes);
        api_trace.seen = Ranges::new(self.seen);
        api_trace.order = self.order.finish();
        api_trace.taken = Values::new(self.taken.0, self.taken.1);
        api_trace
    }
}

/// Returns whether a call is a piece of a snapshot, which belongs to no stream.
fn is_piece(call: &CallEvent) -> bool {
    matches!(call, CallEvent::Copy(row) if is_snapshot(row))
}

/// Returns the range from the first byte of the first row to the last byte of the last row. The tag says whether the
/// range has gaps.
fn entry(event: u64, at: GpuVa, bytes: u64, rows: u64, pitch: u64) -> Option<Entry> {
    let length = rows
        .checked_sub(1)?
        .checked_mul(pitch)
        .and_then(|n| n.checked_add(bytes));
    // A range past the end of the address space is damage.
    let to = at.checked_add(if rows == 1 { bytes } else { length? })?;
    Some(Entry {
        from: at,
        to,
        event,
        tag: if rows > 1 && pitch != bytes { GAPS } else { 0 },
    })
}

/// Calls `call` with each aligned word of `bytes`.
fn words(bytes: &[u8], mut call: impl FnMut(u64)) {
    for word in bytes.as_chunks::<8>().0.iter().take(MAX_WORDS) {
        call(u64::from_le_bytes(*word));
    }
}
