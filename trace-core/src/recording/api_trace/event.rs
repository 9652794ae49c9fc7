//! A call as one of its rows, and its description.

use super::annotation_calls::{describe_arguments, is_annotation};
use super::{
    AllocationKind, AllocationRow, Api, ApiTraceMetadata, CALL_CAPTURED, CALL_OF_GRAPH, CallRow, CopyKind, CopyRow,
    FillRow, LaunchRow, OrderKind, OrderRow,
};
use crate::recording::Recording;
use crate::recording::events::{EventKind, Events};
use crate::recording::events_builder::EventsBuilder;
use std::fmt::Write as _;

/// A row of one of the tables of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEvent {
    /// A launch.
    Launch(LaunchRow),
    /// A copy.
    Copy(CopyRow),
    /// Memory set to a value.
    Fill(FillRow),
    /// An order of streams, events and the host.
    Order(OrderRow),
    /// An allocation or a release of memory.
    Allocation(AllocationRow),
    /// Any other call.
    Call(CallRow),
}

impl CallEvent {
    /// Returns the result code of the driver: 0 is success.
    #[must_use]
    pub fn result(&self) -> u32 {
        match self {
            Self::Launch(r) => r.result,
            Self::Copy(r) => r.result,
            Self::Fill(r) => r.result,
            Self::Order(r) => r.result,
            Self::Allocation(r) => r.result,
            Self::Call(r) => r.result,
        }
    }

    /// Returns the duration of the call on the host in nanoseconds, `u32::MAX` for more.
    #[must_use]
    pub fn host_ns(&self) -> u32 {
        match self {
            Self::Launch(r) => r.took,
            Self::Copy(r) => r.took,
            Self::Fill(r) => r.took,
            Self::Order(r) => r.took,
            Self::Allocation(r) => r.took,
            Self::Call(r) => r.took,
        }
    }

    /// Returns its stream, an index into [`super::ApiTraceMetadata::streams`].
    #[must_use]
    pub fn stream(&self) -> Option<u32> {
        let stream = match self {
            Self::Launch(r) => r.stream,
            Self::Copy(r) => r.stream,
            Self::Fill(r) => r.stream,
            Self::Order(r) => r.stream,
            Self::Allocation(r) => r.stream,
            Self::Call(_) => OrderRow::NONE,
        };
        (stream != OrderRow::NONE).then_some(stream)
    }

    /// Describes the call, with names from the metadata if available.
    #[must_use]
    pub fn describe(&self, metadata: Option<&ApiTraceMetadata>) -> String {
        let stream = |n: u32| match metadata.and_then(|f| f.streams.get(n as usize)) {
            Some(s) => s.name.clone(),
            None if n == OrderRow::NONE => "no stream".to_owned(),
            None => format!("stream {n}"),
        };
        let mut text = match self {
            Self::Launch(l) => {
                let name = metadata.and_then(|f| f.functions.get(l.function as usize));
                let name = name.map_or_else(|| format!("function {}", l.function), |f| f.display_name().to_owned());
                let shared = if l.shared > 0 {
                    format!(", {} bytes of shared memory", l.shared)
                } else {
                    String::new()
                };
                let dims = |d: [u32; 3]| format!("{}×{}×{}", d[0], d[1], d[2]);
                let (grid, block) = (dims(l.grid), dims(l.block));
                format!("{name}, grid {grid}, block {block}{shared}, {}", stream(l.stream))
            }
            Self::Copy(c) => {
                let way = CopyKind::from_raw(c.kind).map_or("copy", CopyKind::name);
                let bytes = c
                    .total()
                    .map_or_else(|| "too many bytes".to_owned(), |n| format!("{n} bytes"));
                match metadata.map(|f| &f.api) {
                    // The streams of a WebAssembly program have no addresses.
                    Some(Api::Wasm) => format!("{bytes} of {}", stream(c.stream)),
                    _ => format!("{bytes} {way}, {:#x} → {:#x}, {}", c.from, c.to, stream(c.stream)),
                }
            }
            Self::Fill(f) => {
                let bytes = f.row_bytes().and_then(|b| b.checked_mul(f.rows)).unwrap_or(u64::MAX);
                format!(
                    "{bytes} bytes at {:#x} set to {:#x}, {}",
                    f.to,
                    f.value,
                    stream(f.stream)
                )
            }
            Self::Order(o) => match OrderKind::from_raw(o.kind) {
                Some(OrderKind::Record) => format!("event {} recorded in {}", o.event, stream(o.stream)),
                Some(OrderKind::StreamWaits) => format!("{} waits for event {}", stream(o.stream), o.event),
                Some(OrderKind::StreamDone) => format!("host waits for {}", stream(o.stream)),
                Some(OrderKind::EventDone) => format!("host waits for event {}", o.event),
                Some(OrderKind::ContextDone) => "host waits for all streams".to_owned(),
                Some(OrderKind::HostFunction) => format!("host function in {}", stream(o.stream)),
                None => "ordering call of an unknown kind".to_owned(),
            },
            Self::Allocation(a) => {
                let what = match AllocationKind::from_raw(a.kind) {
                    Some(AllocationKind::Take) => "allocated",
                    Some(AllocationKind::Give) => "freed",
                    Some(AllocationKind::TakeInOrder) => "allocated in order",
                    Some(AllocationKind::GiveInOrder) => "freed in order",
                    Some(AllocationKind::TakeManaged) => "allocated managed",
                    Some(AllocationKind::TakeHost) => "pinned on the host",
                    Some(AllocationKind::GiveHost) => "unpinned on the host",
                    Some(AllocationKind::Map) => "mapped",
                    Some(AllocationKind::Unmap) => "unmapped",
                    None => "changed",
                };
                format!("{what} {} bytes at {:#x}", a.bytes, a.at)
            }
            Self::Call(c) => match metadata.and_then(|f| f.names.get(c.name as usize)) {
                Some(name) => name.clone(),
                None => format!("call {}", c.name),
            },
        };
        let flags = match self {
            Self::Launch(r) => r.flags,
            Self::Copy(r) => r.flags,
            Self::Fill(r) => r.flags,
            Self::Order(r) => r.flags,
            Self::Allocation(_) | Self::Call(_) => 0,
        };
        if flags & CALL_CAPTURED != 0 {
            text.push_str(", captured");
        }
        if flags & CALL_OF_GRAPH != 0 {
            text.push_str(", in a graph");
        }
        if self.result() != 0 {
            text.push_str(&format!(", failed with {}", self.result()));
        }
        text
    }
}

/// Largest value of a named argument in decimal form. Small values are descriptors, codes and counts.
const MAX_DECIMAL_ARGUMENT: u64 = 0x3ff;

impl Recording {
    /// Describes the call of an event with its named arguments, `fd_write(fd=1, iovs=0x1000, bytes=12)`. Returns `None`
    /// if the event is no call.
    #[must_use]
    pub fn describe_call(&self, event: usize) -> Option<String> {
        let call = self.events.call(event)?;
        let mut text = call.describe(self.api());
        let CallEvent::Call(row) = call else { return Some(text) };
        if let Some(name) = self.call_name(&row).filter(|n| is_annotation(n)) {
            let bytes = self.events.call_arguments(row.arguments_at, row.arguments);
            if let Some(arguments) = bytes.and_then(|b| describe_arguments(name, &b)) {
                let _ = write!(text, " {arguments}");
            }
            return Some(text);
        }
        let names = self.api().and_then(|m| m.argument_names.get(row.name as usize));
        let Some(names) = names.filter(|n| n.iter().any(|n| !n.is_empty())) else {
            return Some(text);
        };
        let bytes = self.events.call_arguments(row.arguments_at, row.arguments);
        let bytes = bytes.unwrap_or_default();
        let values = bytes.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b));
        let mut list = String::new();
        for (name, value) in names.iter().zip(values).filter(|(name, _)| !name.is_empty()) {
            let separator = if list.is_empty() { "" } else { ", " };
            // Writing to a string cannot fail.
            let _ = match value {
                0..=MAX_DECIMAL_ARGUMENT => write!(list, "{separator}{name}={value}"),
                _ => write!(list, "{separator}{name}={value:#x}"),
            };
        }
        let name = self.call_name(&row).map_or(0, str::len);
        text.insert_str(name.min(text.len()), &format!("({list})"));
        Some(text)
    }
}

impl EventKind {
    /// The event kinds of driver calls, with their names.
    pub const CALLS: [(Self, &str); 6] = [
        (Self::Launch, "launch"),
        (Self::Copy, "copy"),
        (Self::Fill, "fill"),
        (Self::Order, "order"),
        (Self::Allocation, "allocation"),
        (Self::Call, "call"),
    ];

    /// Returns the name of an event kind of a driver call.
    #[must_use]
    pub fn call_name(self) -> Option<&'static str> {
        Self::CALLS.iter().find(|(k, _)| *k == self).map(|(_, w)| *w)
    }

    /// Whether events of this kind are driver calls.
    #[must_use]
    pub fn is_call(self) -> bool {
        self.call_name().is_some()
    }
}

impl Events {
    /// Returns the call of an event, if it is one.
    #[must_use]
    pub fn call(&self, event: usize) -> Option<CallEvent> {
        let row = self.payload.get(event)? as usize;
        match self.kind(event)? {
            EventKind::Launch => self.launches.get(row).map(CallEvent::Launch),
            EventKind::Copy => self.copies.get(row).map(CallEvent::Copy),
            EventKind::Fill => self.fills.get(row).map(CallEvent::Fill),
            EventKind::Order => self.orders.get(row).map(CallEvent::Order),
            EventKind::Allocation => self.allocations.get(row).map(CallEvent::Allocation),
            EventKind::Call => self.calls.get(row).map(CallEvent::Call),
            _ => None,
        }
    }

    /// Returns the bytes of a launch or a call, or `None` if the recording does not hold them all, or they are damaged.
    #[must_use]
    pub fn call_arguments(&self, at: u64, bytes: u32) -> Option<Vec<u8>> {
        let from = usize::try_from(at).ok()?;
        let to = from.checked_add(bytes as usize)?;
        let bytes = (to <= self.call_bytes.len()).then(|| self.call_bytes.iter_range(from..to).collect())?;
        let damaged = self.call_bytes.has_damage() && (from..to).any(|row| self.call_bytes.is_damaged(row));
        (!damaged).then_some(bytes)
    }
}

impl EventsBuilder {
    /// Adds a call returned by [`Events::call`]; its references to bytes and pages stay the same.
    pub fn push_call(&mut self, time: u64, thread: u32, call: CallEvent) {
        use CallEvent as C;
        match call {
            C::Launch(row) => self.launch(time, thread, row),
            C::Copy(row) => self.copy(time, thread, row),
            C::Fill(row) => self.fill(time, thread, row),
            C::Order(row) => self.order(time, thread, row),
            C::Allocation(row) => self.allocation(time, thread, row),
            C::Call(row) => self.call(time, thread, row),
        }
    }
}
