//! Rows of recordings of a driver's calls (CUDA): launches, copies, fills, the order of streams, allocations, other calls.
//!
//! The order of events is the host's: a call stands where it returned. What the device does in which order is told by
//! streams and by the [`OrderRow`]s between them.

use super::events::{EventKind, Events};
use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// A launch of a function on the device. 72 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct LaunchRow {
    /// First byte of its arguments in [`Events::call_bytes`]: the function's parameter buffer as the driver laid it out.
    pub arguments_at: u64,
    /// Bytes of the arguments.
    pub arguments: u32,
    /// The function, an index into [`super::CallFacts::functions`].
    pub function: u32,
    /// The stream, an index into [`super::CallFacts::streams`].
    pub stream: u32,
    /// Blocks by dimension.
    pub grid: [u32; 3],
    /// Threads a block by dimension.
    pub block: [u32; 3],
    /// Blocks a cluster by dimension; zeros: none was asked for.
    pub cluster: [u32; 3],
    /// Bytes of shared memory that are asked for beside what the function has of its own.
    pub shared: u32,
    /// Bits of [`LaunchRow::COOPERATIVE`] and [`CALL_CAPTURED`].
    pub flags: u32,
    /// What the driver answered: 0 is success.
    pub result: u32,
    /// Nanoseconds that the call took on the host, `u32::MAX` for more.
    pub took: u32,
}

impl LaunchRow {
    /// Flag: all blocks run at once and may wait for each other.
    pub const COOPERATIVE: u32 = 1;

    /// Threads of the whole launch.
    #[must_use]
    pub fn threads(&self) -> u64 {
        let all = self.grid.iter().chain(&self.block);
        all.fold(1u64, |n, d| n.saturating_mul(u64::from(*d)))
    }
}

/// Flag of a row: the call went into a graph that was being captured, and the device did not do it then.
pub const CALL_CAPTURED: u32 = 1 << 8;
/// Flag of a row: a launch of a graph did this, not a call of its own. It stands behind the launch of the graph.
pub const CALL_OF_GRAPH: u32 = 1 << 9;
/// Flag of a row: the call returns before the work is done.
pub const CALL_ASYNC: u32 = 1 << 10;
/// Content of a copy that the recorder does not hold: see [`CopyRow::pages_at`].
pub const NO_CONTENT: u64 = u64::MAX;

/// Way of a copy. The numbers are part of the `.kine` format and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum CopyKind {
    /// The host's memory to the device's.
    HostToDevice = 1,
    /// The device's memory to the host's.
    DeviceToHost = 2,
    /// The device's memory to the device's.
    DeviceToDevice = 3,
    /// Between arrays, or another way whose addresses tell nothing.
    Other = 4,
}

impl CopyKind {
    /// The kind with this number in a file.
    #[must_use]
    pub fn from_raw(raw: u32) -> Option<Self> {
        Some(match raw {
            1 => Self::HostToDevice,
            2 => Self::DeviceToHost,
            3 => Self::DeviceToDevice,
            4 => Self::Other,
            _ => return None,
        })
    }

    /// Short name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::HostToDevice => "host to device",
            Self::DeviceToHost => "device to host",
            Self::DeviceToDevice => "device to device",
            Self::Other => "copy",
        }
    }
}

/// A copy, of rows of bytes. 80 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct CopyRow {
    /// First byte that is written: the device's address, or the host's where it is the host's memory.
    pub to: u64,
    /// First byte that is read, likewise.
    pub from: u64,
    /// Bytes of each row.
    pub bytes: u64,
    /// Rows: 1 when the bytes follow each other.
    pub rows: u64,
    /// Bytes from one row to the next where they are written.
    pub to_pitch: u64,
    /// Bytes from one row to the next where they are read.
    pub from_pitch: u64,
    /// First page of the content in [`Events::call_pages`]; [`NO_CONTENT`] when the recording does not hold it. The rows
    /// follow each other without gaps and begin in the first page where the device's address begins in its page; what
    /// the last page has beyond them is zero, and so is what the first has before.
    pub pages_at: u64,
    /// [`CopyKind`] as its number.
    pub kind: u32,
    /// The stream, an index into [`super::CallFacts::streams`].
    pub stream: u32,
    /// Bits of [`CALL_CAPTURED`], [`CALL_OF_GRAPH`], [`CALL_ASYNC`].
    pub flags: u32,
    /// What the driver answered: 0 is success.
    pub result: u32,
    /// Nanoseconds that the call took on the host, `u32::MAX` for more.
    pub took: u32,
    /// Not used: 0.
    pub reserved: u32,
}

impl CopyRow {
    /// Bytes of all rows; `None` past what can be counted.
    #[must_use]
    pub fn total(&self) -> Option<u64> {
        self.bytes.checked_mul(self.rows)
    }

    /// The device's side of a copy from or to the host.
    #[must_use]
    pub fn device(&self) -> u64 {
        match CopyKind::from_raw(self.kind) {
            Some(CopyKind::DeviceToHost) => self.from,
            _ => self.to,
        }
    }

    /// Pages that the content takes; `None` past what can be counted.
    #[must_use]
    pub fn pages(&self) -> Option<u64> {
        let page = crate::PAGE_SIZE as u64;
        let bytes = (self.device() % page).checked_add(self.total()?)?;
        Some(bytes.div_ceil(page))
    }
}

/// Memory of the device set to one value. 64 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct FillRow {
    /// First byte.
    pub to: u64,
    /// Elements of each row.
    pub elements: u64,
    /// Rows: 1 when the elements follow each other.
    pub rows: u64,
    /// Bytes from one row to the next.
    pub pitch: u64,
    /// The value of each element.
    pub value: u32,
    /// Bytes of an element: 1, 2 or 4.
    pub element: u32,
    /// The stream, an index into [`super::CallFacts::streams`].
    pub stream: u32,
    /// Bits of [`CALL_CAPTURED`], [`CALL_OF_GRAPH`], [`CALL_ASYNC`].
    pub flags: u32,
    /// What the driver answered: 0 is success.
    pub result: u32,
    /// Nanoseconds that the call took on the host, `u32::MAX` for more.
    pub took: u32,
    /// Not used: 0.
    pub reserved: [u32; 2],
}

impl FillRow {
    /// Bytes of a row; `None` past what can be counted.
    #[must_use]
    pub fn row_bytes(&self) -> Option<u64> {
        self.elements.checked_mul(u64::from(self.element))
    }
}

/// What orders work. The numbers are part of the `.kine` format and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum OrderKind {
    /// An event is put behind what the stream has.
    Record = 1,
    /// What the stream gets from now on waits for the event.
    StreamWaits = 2,
    /// The host waits for all that the stream has.
    StreamDone = 3,
    /// The host waits for the event.
    EventDone = 4,
    /// The host waits for all that the context has.
    ContextDone = 5,
    /// A function of the host runs in the stream.
    HostFunction = 6,
}

impl OrderKind {
    /// The kind with this number in a file.
    #[must_use]
    pub fn from_raw(raw: u32) -> Option<Self> {
        Some(match raw {
            1 => Self::Record,
            2 => Self::StreamWaits,
            3 => Self::StreamDone,
            4 => Self::EventDone,
            5 => Self::ContextDone,
            6 => Self::HostFunction,
            _ => return None,
        })
    }
}

/// An order between streams, events and the host. 24 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct OrderRow {
    /// [`OrderKind`] as its number.
    pub kind: u32,
    /// The stream, an index into [`super::CallFacts::streams`]; `u32::MAX` for none.
    pub stream: u32,
    /// Number of the event, from 0 on in the order in which the program made them; `u32::MAX` for none.
    pub event: u32,
    /// Bits of [`CALL_CAPTURED`].
    pub flags: u32,
    /// What the driver answered: 0 is success.
    pub result: u32,
    /// Nanoseconds that the call took on the host, `u32::MAX` for more.
    pub took: u32,
}

impl OrderRow {
    /// No stream or no event.
    pub const NONE: u32 = u32::MAX;
}

/// What happened to memory. The numbers are part of the `.kine` format and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum AllocationKind {
    /// Memory of the device is taken.
    Take = 1,
    /// Memory of the device is given back.
    Give = 2,
    /// As [`AllocationKind::Take`], in the order of a stream.
    TakeInOrder = 3,
    /// As [`AllocationKind::Give`], in the order of a stream.
    GiveInOrder = 4,
    /// Memory that host and device share and that moves between them.
    TakeManaged = 5,
    /// Memory of the host that the device reaches.
    TakeHost = 6,
    /// Memory of the host that is no longer the device's to reach.
    GiveHost = 7,
}

impl AllocationKind {
    /// The kind with this number in a file.
    #[must_use]
    pub fn from_raw(raw: u32) -> Option<Self> {
        Some(match raw {
            1 => Self::Take,
            2 => Self::Give,
            3 => Self::TakeInOrder,
            4 => Self::GiveInOrder,
            5 => Self::TakeManaged,
            6 => Self::TakeHost,
            7 => Self::GiveHost,
            _ => return None,
        })
    }

    /// Whether memory of the device comes into being.
    #[must_use]
    pub fn takes_device(self) -> bool {
        matches!(self, Self::Take | Self::TakeInOrder | Self::TakeManaged)
    }

    /// Whether memory of the device ends.
    #[must_use]
    pub fn gives_device(self) -> bool {
        matches!(self, Self::Give | Self::GiveInOrder)
    }
}

/// Memory taken or given back. 32 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct AllocationRow {
    /// First byte.
    pub at: u64,
    /// Bytes that the program asked for; of memory given back what was asked for it.
    pub bytes: u64,
    /// [`AllocationKind`] as its number.
    pub kind: u32,
    /// The stream, an index into [`super::CallFacts::streams`]; [`OrderRow::NONE`] for none.
    pub stream: u32,
    /// What the driver answered: 0 is success.
    pub result: u32,
    /// Nanoseconds that the call took on the host, `u32::MAX` for more.
    pub took: u32,
}

/// Any other call. 32 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct CallRow {
    /// First byte of what is told of it in [`Events::call_bytes`]: its arguments, eight bytes each.
    pub arguments_at: u64,
    /// Bytes of that.
    pub arguments: u32,
    /// Its name, an index into [`super::CallFacts::names`].
    pub name: u32,
    /// What it is about, by its name: a module, function or stream as an index into the lists of the facts; `u32::MAX`.
    pub about: u32,
    /// What the driver answered: 0 is success.
    pub result: u32,
    /// Nanoseconds that the call took on the host, `u32::MAX` for more.
    pub took: u32,
    /// Not used: 0.
    pub reserved: u32,
}

/// A row of one of the tables of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEvent {
    /// A launch.
    Launch(LaunchRow),
    /// A copy.
    Copy(CopyRow),
    /// Memory set to a value.
    Fill(FillRow),
    /// An order.
    Order(OrderRow),
    /// Memory taken or given back.
    Allocation(AllocationRow),
    /// Any other.
    Call(CallRow),
}

impl CallEvent {
    /// What the driver answered: 0 is success.
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

    /// Nanoseconds that the call took on the host, `u32::MAX` for more.
    #[must_use]
    pub fn took(&self) -> u32 {
        match self {
            Self::Launch(r) => r.took,
            Self::Copy(r) => r.took,
            Self::Fill(r) => r.took,
            Self::Order(r) => r.took,
            Self::Allocation(r) => r.took,
            Self::Call(r) => r.took,
        }
    }

    /// The stream that it goes to, an index into [`super::CallFacts::streams`].
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

    /// What is known of it, in words, with names from the facts where they tell them.
    #[must_use]
    pub fn describe(&self, facts: Option<&CallFacts>) -> String {
        let stream = |n: u32| match facts.and_then(|f| f.streams.get(n as usize)) {
            Some(s) => s.name.clone(),
            None if n == OrderRow::NONE => "no stream".to_owned(),
            None => format!("stream {n}"),
        };
        let mut text = match self {
            Self::Launch(l) => {
                let name = facts.and_then(|f| f.functions.get(l.function as usize));
                let name = name.map_or_else(|| format!("function {}", l.function), |f| f.shown().to_owned());
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
                format!("{bytes} {way}, {:#x} → {:#x}, {}", c.from, c.to, stream(c.stream))
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
                Some(OrderKind::HostFunction) => format!("function of the host in {}", stream(o.stream)),
                None => "order of an unknown kind".to_owned(),
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
                    None => "changed",
                };
                format!("{what} {} bytes at {:#x}", a.bytes, a.at)
            }
            Self::Call(c) => match facts.and_then(|f| f.names.get(c.name as usize)) {
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
            text.push_str(", of a graph");
        }
        if self.result() != 0 {
            text.push_str(&format!(", failed with {}", self.result()));
        }
        text
    }
}

impl EventKind {
    /// The kinds that are calls of a driver, with their words.
    pub const CALLS: [(Self, &str); 6] = [
        (Self::Launch, "launch"),
        (Self::Copy, "copy"),
        (Self::Fill, "fill"),
        (Self::Order, "order"),
        (Self::Allocation, "allocation"),
        (Self::Call, "call"),
    ];

    /// The word of a kind that is a call of a driver.
    #[must_use]
    pub fn call_word(self) -> Option<&'static str> {
        Self::CALLS.iter().find(|(k, _)| *k == self).map(|(_, w)| *w)
    }

    /// Whether events of this kind are calls of a driver.
    #[must_use]
    pub fn is_call(self) -> bool {
        self.call_word().is_some()
    }
}

impl Events {
    /// The call that an event is, if it is one.
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

    /// Bytes that a launch or a call names; `None` where the recording does not hold them all.
    #[must_use]
    pub fn call_arguments(&self, at: u64, bytes: u32) -> Option<Vec<u8>> {
        let from = usize::try_from(at).ok()?;
        let to = from.checked_add(bytes as usize)?;
        (to <= self.call_bytes.len()).then(|| self.call_bytes.iter_range(from..to).collect())
    }
}

/// Name of the extra that holds [`CallFacts`], as JSON.
pub const CALL_FACTS: &str = "calls";

/// What a recording of calls tells beside its events. Stored as JSON: fields are added, never changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallFacts {
    /// The interface that the calls are of: `cuda`.
    pub api: String,
    /// Version of the driver's interface: 13000 for CUDA 13.0.
    pub version: u32,
    /// The device.
    pub device: CallDevice,
    /// The range of addresses that allocations were served from; 0 bytes: none.
    pub window: CallWindow,
    /// Names of calls.
    pub names: Vec<String>,
    /// Code that was loaded.
    pub modules: Vec<CallModule>,
    /// Functions that were launched or asked for.
    pub functions: Vec<CallFunction>,
    /// Streams, by the numbers that rows use.
    pub streams: Vec<CallStream>,
    /// What was recorded of the program: `whole`, `first 10 launches`, `marked`.
    pub range: String,
}

/// The device that calls went to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallDevice {
    /// Its name, as the driver tells it.
    pub name: String,
    /// Compute capability, major and minor.
    pub capability: [u32; 2],
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Whether the device's identity is known.
    pub uuid: String,
}

/// A range of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallWindow {
    /// First address.
    pub base: u64,
    /// Number of bytes.
    pub bytes: u64,
}

/// Form of code. Stored by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CodeKind {
    /// Machine code in an ELF file.
    Cubin,
    /// Text for the driver's compiler.
    Ptx,
    /// A container of both.
    Fatbin,
    /// Something else.
    #[default]
    #[serde(other)]
    Unknown,
}

/// Code that was loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallModule {
    /// Where it came from: a file's name, or `memory`.
    pub origin: String,
    /// Its form as it is stored here.
    pub kind: CodeKind,
    /// Bytes of it; 0 when it is not stored.
    pub bytes: u64,
    /// BLAKE3 of these bytes, in hexadecimal.
    pub digest: String,
    /// Pages that hold it, as runs of first page and number of pages; the last one is filled up with zeros.
    pub pages: Vec<[u32; 2]>,
    /// Variables of the device in it, as far as they were asked for or are known.
    pub globals: Vec<CallGlobal>,
    /// Why it is not stored, where it is not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub missing: String,
}

/// A variable in a module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallGlobal {
    /// Its mangled name.
    pub name: String,
    /// Where it lay.
    pub at: u64,
    /// Bytes of it.
    pub bytes: u64,
}

/// A function of the device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallFunction {
    /// Its mangled name.
    pub name: String,
    /// Its name as its author wrote it; empty when it is the same or not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub demangled: String,
    /// The module, an index into [`CallFacts::modules`].
    pub module: Option<u32>,
    /// Offset and size of each parameter in the parameter buffer, in bytes.
    pub parameters: Vec<[u32; 2]>,
    /// Registers a thread.
    pub registers: u32,
    /// Bytes of shared memory of its own.
    pub shared: u32,
    /// Bytes of local memory a thread.
    pub local: u32,
    /// Most threads a block.
    pub most_threads: u32,
    /// Attributes that the program set, by the driver's numbers, with their last values.
    pub attributes: Vec<[i32; 2]>,
}

impl CallFunction {
    /// The name for a person.
    #[must_use]
    pub fn shown(&self) -> &str {
        if self.demangled.is_empty() {
            &self.name
        } else {
            &self.demangled
        }
    }
}

/// A stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallStream {
    /// Its name: `default stream`, `stream 3`.
    pub name: String,
    /// Flags that it was made with; 1: it does not wait for the default stream.
    pub flags: u32,
    /// Its priority, the lower the sooner.
    pub priority: i32,
}

impl super::Recording {
    /// What the recording tells of calls; `None` where it is no recording of calls, or tells what cannot be read.
    #[must_use]
    pub fn call_facts(&self) -> Option<CallFacts> {
        serde_json::from_slice(self.extras.get(CALL_FACTS)?).ok()
    }

    /// The bytes of a module, put together from its pages; `None` when they are not all there.
    #[must_use]
    pub fn module_code(&self, module: &CallModule) -> Option<Vec<u8>> {
        let pages: u64 = module.pages.iter().map(|[_, n]| u64::from(*n)).sum();
        let page = crate::PAGE_SIZE as u64;
        if module.bytes == 0 || module.bytes.div_ceil(page) != pages || pages > self.memory.pages.len() as u64 + 1 {
            return None;
        }
        let mut code = Vec::with_capacity(usize::try_from(pages.checked_mul(page)?).ok()?);
        for [first, count] in &module.pages {
            for id in *first..first.checked_add(*count)? {
                code.extend_from_slice(self.memory.pages.page(super::PageId(id))?);
            }
        }
        code.truncate(usize::try_from(module.bytes).ok()?);
        Some(code)
    }

    /// The bytes that a copy moved, its rows one after another; `None` when the recording does not hold them.
    #[must_use]
    pub fn copied(&self, row: &CopyRow) -> Option<Vec<u8>> {
        // No more is taken than the pages that the file holds can name.
        self.pages_of(row)?;
        let mut bytes = vec![0; usize::try_from(row.total()?).ok()?];
        self.copied_part(row, 0, &mut bytes).then_some(bytes)
    }

    /// Fills `out` with what a copy moved, its rows one after another, from byte `offset` of that on. Takes time by what is
    /// asked for, not by what was moved. `false`: the recording does not hold all of it, or it ends before; what `out`
    /// holds then is not told.
    #[must_use]
    pub fn copied_part(&self, row: &CopyRow, offset: u64, out: &mut [u8]) -> bool {
        const PAGE: u64 = crate::PAGE_SIZE as u64;
        let fill = || {
            let pages = self.pages_of(row)?;
            if offset.checked_add(out.len() as u64)? > row.total()? {
                return None;
            }
            let begin = (row.device() % PAGE).checked_add(offset)?;
            let first = pages.start.checked_add(usize::try_from(begin / PAGE).ok()?)?;
            let mut skip = (begin % PAGE) as usize;
            let mut left = out;
            for id in self.events.call_pages.iter_range(first..pages.end) {
                if left.is_empty() {
                    break;
                }
                let from = self.memory.pages.page(super::PageId(id))?.get(skip..)?;
                let (now, rest) = left.split_at_mut(from.len().min(left.len()));
                now.copy_from_slice(from.get(..now.len())?);
                (left, skip) = (rest, 0);
            }
            left.is_empty().then_some(())
        };
        fill().is_some()
    }

    /// Whether the recording names a page for each byte that a copy moved.
    #[must_use]
    pub fn holds_copy(&self, row: &CopyRow) -> bool {
        self.pages_of(row).is_some()
    }

    /// Which of [`super::Events::call_pages`] hold what a copy moved; `None` where there are not as many.
    fn pages_of(&self, row: &CopyRow) -> Option<Range<usize>> {
        let pages = usize::try_from(row.pages()?).ok()?;
        let first = usize::try_from(row.pages_at).ok()?;
        let end = first.checked_add(pages)?;
        (end <= self.events.call_pages.len()).then_some(first..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PAGE_SIZE;
    use crate::recording::{EventsBuilder, MemoryBuilder, Recording};

    #[test]
    fn rows_are_as_long_as_the_format_says() {
        assert_eq!(size_of::<LaunchRow>(), 72);
        assert_eq!(size_of::<CopyRow>(), 80);
        assert_eq!(size_of::<FillRow>(), 64);
        assert_eq!(size_of::<OrderRow>(), 24);
        assert_eq!(size_of::<AllocationRow>(), 32);
        assert_eq!(size_of::<CallRow>(), 32);
    }

    #[test]
    fn what_a_copy_moved_is_put_together_from_its_pages() {
        let mut pages = MemoryBuilder::new();
        let mut events = EventsBuilder::new();
        // 5000 bytes that begin 100 bytes before the end of a page: three pages.
        let bytes: Vec<u8> = (0..5000u32).map(|n| (n * 7) as u8).collect();
        let phase = PAGE_SIZE - 100;
        let mut laid = vec![0; phase];
        laid.extend_from_slice(&bytes);
        laid.resize(3 * PAGE_SIZE, 0);
        let ids: Vec<u32> = laid
            .chunks_exact(PAGE_SIZE)
            .map(|p| pages.add_page(p.try_into().unwrap()).0)
            .collect();
        let pages_at = events.call_pages(&ids);
        let row = CopyRow {
            to: 0x1539_4000_0000 + phase as u64,
            bytes: 2500,
            rows: 2,
            kind: CopyKind::HostToDevice as u32,
            pages_at,
            ..Default::default()
        };
        events.copy(5, 1, row);
        let mut r = Recording {
            events: events.finish(),
            memory: pages.finish(),
            ..Default::default()
        };
        assert_eq!(row.pages(), Some(3));
        assert_eq!(r.copied(&row).unwrap(), bytes);
        // Parts are as the whole: within a page, over the end of one, at both ends, nothing at all.
        for (from, to) in [
            (0, 1),
            (99, 101),
            (100, 4196),
            (4195, 5000),
            (0, 5000),
            (17, 17),
            (5000, 5000),
        ] {
            let mut part = vec![0xee; to - from];
            assert!(r.copied_part(&row, from as u64, &mut part), "{from}..{to}");
            assert_eq!(part, bytes[from..to], "{from}..{to}");
        }
        assert!(r.holds_copy(&row));
        let mut two = [0; 2];
        assert!(!r.copied_part(&row, 4999, &mut two), "past its end");
        assert!(!r.copied_part(&row, u64::MAX, &mut two), "past all that can be counted");
        assert_eq!(r.events.call(0), Some(CallEvent::Copy(row)));
        // What names more than the file holds is not there.
        for wrong in [
            CopyRow { bytes: 1 << 40, ..row },
            CopyRow { rows: u64::MAX, ..row },
            CopyRow { pages_at: 1, ..row },
            CopyRow {
                pages_at: NO_CONTENT,
                ..row
            },
        ] {
            assert_eq!(r.copied(&wrong), None, "{wrong:?}");
            assert!(
                !r.holds_copy(&wrong) && !r.copied_part(&wrong, 0, &mut two),
                "{wrong:?}"
            );
        }
        let module = CallModule {
            bytes: 5000,
            pages: vec![[ids[1], 1], [ids[2], 1]],
            ..Default::default()
        };
        assert_eq!(r.module_code(&module).unwrap(), laid[PAGE_SIZE..PAGE_SIZE + 5000]);
        for pages in [
            vec![],
            vec![[1, 1]],
            vec![[1, u32::MAX]],
            vec![[u32::MAX, 2]],
            vec![[77, 2]],
        ] {
            let wrong = CallModule {
                pages,
                ..module.clone()
            };
            assert_eq!(r.module_code(&wrong), None);
        }
        assert_eq!(r.call_facts(), None);
        r.extras
            .insert(CALL_FACTS.into(), br#"{"api":"cuda","future":1}"#.to_vec());
        assert_eq!(r.call_facts().unwrap().api, "cuda");
    }

    #[test]
    fn a_call_is_told_in_words() {
        let facts = CallFacts {
            functions: vec![CallFunction {
                name: "_Z3addPf".into(),
                demangled: "add(float*)".into(),
                ..Default::default()
            }],
            streams: vec![CallStream {
                name: "default stream".into(),
                ..Default::default()
            }],
            ..Default::default()
        };
        let launch = CallEvent::Launch(LaunchRow {
            grid: [4, 1, 1],
            block: [256, 1, 1],
            shared: 64,
            flags: CALL_OF_GRAPH,
            result: 700,
            ..Default::default()
        });
        assert_eq!(
            launch.describe(Some(&facts)),
            "add(float*), grid 4×1×1, block 256×1×1, 64 bytes of shared memory, default stream, of a graph, failed with 700"
        );
        assert!(launch.describe(None).starts_with("function 0, grid 4×1×1"));
        let fill = CallEvent::Fill(FillRow {
            to: 0x1000,
            elements: 3,
            rows: 2,
            element: 4,
            ..Default::default()
        });
        assert_eq!(fill.describe(None), "24 bytes at 0x1000 set to 0x0, stream 0");
    }
}
