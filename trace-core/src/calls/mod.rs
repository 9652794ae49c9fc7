//! What can be asked of a recording of calls: buffers over time, arguments of launches, memory of the device at an
//! event, who wrote a byte, in which order the device works, code of functions.
//!
//! [`Calls`] is made once, with a look at every event. Questions then cost by their answers: searches in lists that
//! rise by event, and in trees over addresses.

mod arguments;
mod buffers;
mod index;
mod kernel;
mod last_writer;
mod launch_snapshots;
mod memory;
mod memory_trace;
mod memory_traces;
mod names;
mod order;
mod ranges;
mod rows;
mod types;

pub use arguments::{Argument, Value};
pub use buffers::{BufferKind, BufferLocation, Buffers, DeviceBuffer};
pub use kernel::{CodeImage, KernelCode, Resources};
pub use last_writer::{ByteChange, CertainWriter, LastWriter, PossibleWriter};
pub use memory::{ContentSource, ContentState, DeviceBytes, MAX_READ_BYTES, Piece, UnknownReason};
pub use memory_trace::{MemorySample, MemoryTrace, MemoryTraceError};
pub use memory_traces::{BufferChange, LaunchChanges, MAX_MEMORY_TRACES};
pub use names::demangle;
pub use order::{Edge, Order};
pub use types::{Parameter, ParameterType, parameters};

use crate::recording::{CallEvent, CallFacts, CopyRow, Events, FillRow, LaunchRow};
use crate::values::Values;
use ranges::Ranges;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a launch has the address of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ReferenceKind {
    /// An argument is an address in it.
    Argument = 0,
    /// A word in an argument of several words is an address in it.
    ArgumentWord = 1,
    /// It is a variable of the module that the function is of.
    Variable = 2,
}

impl ReferenceKind {
    /// Whether the launch was given the address for certain; otherwise a word may only look like one, or nothing says
    /// that the function names the variable.
    #[must_use]
    pub fn is_certain(self) -> bool {
        self == Self::Argument
    }

    /// In words.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Argument => "an argument points into it",
            Self::ArgumentWord => "a word in an argument may point into it",
            Self::Variable => "it is a variable of the function's module",
        }
    }
}

/// A launch that has the address of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferReference {
    /// The launch, an index into [`Calls::launches`].
    pub launch: u32,
    /// How.
    pub kind: ReferenceKind,
}

/// A launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelLaunch {
    /// The event.
    pub event: u64,
    /// The function, an index into [`CallFacts::functions`].
    pub function: u32,
    /// The stream, an index into [`CallFacts::streams`].
    pub stream: u32,
}

/// Launches with the address of one buffer.
#[derive(Clone, Debug, Default)]
struct BufferReferences {
    /// Those that may write it, in order.
    write: Vec<BufferReference>,
    /// Those whose signature says that they read it alone, in order.
    read: Vec<BufferReference>,
}

/// What is known of the calls of a recording.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    facts: CallFacts,
    events: u64,
    /// Names of functions for a person.
    shown: Vec<String>,
    parameters: Vec<Vec<Parameter>>,
    launches: Vec<KernelLaunch>,
    /// Launches of each function, as indices into the list.
    by_function: Vec<Vec<u32>>,
    /// Launches of the functions of each module, likewise.
    by_module: Vec<Vec<u32>>,
    /// Events of each stream.
    by_stream: Vec<Vec<u64>>,
    buffers: Buffers,
    touching: Vec<BufferReferences>,
    /// Copies to the device and fills, by where they write.
    writes: Ranges,
    /// Copies from the device's memory, to the host and on the device, by where they read.
    seen: Ranges,
    order: Order,
    failed: Vec<u64>,
    snapshots: Vec<(u64, String)>,
    taken: Values,
    /// Launches that memory was taken down around, in order.
    around: Vec<launch_snapshots::LaunchSnapshots>,
    /// Pieces of the snapshots behind them.
    behind: Ranges,
    /// Events of launches that memory was not taken down around, where it was around others.
    open: Vec<u64>,
    /// What boards told of memory, in the order in which they were asked.
    watched: Vec<Arc<MemoryTrace>>,
    /// What launches changed, as the recorder took it down or boards saw it, by event.
    left: BTreeMap<u64, Arc<LaunchChanges>>,
    /// Of how many launches all is known that they changed.
    left_whole: usize,
    /// How many answers of boards were taken in.
    revision: u64,
}

impl Calls {
    /// What the recording tells beside its events.
    #[must_use]
    pub fn facts(&self) -> &CallFacts {
        &self.facts
    }

    /// The launches that the device did, in order: not those that went into a graph that was being captured.
    #[must_use]
    pub fn launches(&self) -> &[KernelLaunch] {
        &self.launches
    }

    /// The launch at an event, as an index into the list.
    #[must_use]
    pub fn launch_at(&self, event: u64) -> Option<u32> {
        let n = self.launches.binary_search_by_key(&event, |l| l.event).ok()?;
        u32::try_from(n).ok()
    }

    /// The first launch at or behind an event, as an index into the list.
    #[must_use]
    pub fn launches_before(&self, event: u64) -> usize {
        self.launches.partition_point(|l| l.event < event)
    }

    /// Launches of a function, as indices into the list.
    #[must_use]
    pub fn launches_of(&self, function: u32) -> &[u32] {
        self.by_function.get(function as usize).map_or(&[], Vec::as_slice)
    }

    /// Events that go to a stream, in order.
    #[must_use]
    pub fn events_of(&self, stream: u32) -> &[u64] {
        self.by_stream.get(stream as usize).map_or(&[], Vec::as_slice)
    }

    /// The name of a function for a person.
    #[must_use]
    pub fn function_name(&self, function: u32) -> &str {
        self.shown
            .get(function as usize)
            .map_or("unknown function", String::as_str)
    }

    /// The name of a stream.
    #[must_use]
    pub fn stream_name(&self, stream: u32) -> String {
        match self.facts.streams.get(stream as usize) {
            Some(s) if !s.name.is_empty() => s.name.clone(),
            _ if stream == crate::recording::OrderRow::NONE => "no stream".to_owned(),
            _ => format!("stream {stream}"),
        }
    }

    /// The function of a name, mangled or not, or of a part of one that no other has.
    #[must_use]
    pub fn find_function(&self, name: &str) -> Option<u32> {
        let all = || self.facts.functions.iter().zip(&self.shown).zip(0u32..);
        let exact = all().find(|((f, shown), _)| f.name == name || *shown == name);
        if let Some((_, n)) = exact {
            return Some(n);
        }
        // Without its arguments a name is what a person types.
        let mut found = all().filter(|((f, shown), _)| f.name.contains(name) || shown.contains(name));
        let first = found.next()?.1;
        found.next().is_none().then_some(first)
    }

    /// The parameters of a function; none where its layout is not known.
    #[must_use]
    pub fn parameters(&self, function: u32) -> &[Parameter] {
        self.parameters.get(function as usize).map_or(&[], Vec::as_slice)
    }

    /// Memory of the device over time.
    #[must_use]
    pub fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    /// Which work waits for which.
    #[must_use]
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// Calls that failed, in order.
    #[must_use]
    pub fn failed_calls(&self) -> &[u64] {
        &self.failed
    }

    /// Snapshots that the recorder took of memory: the event, and its name.
    #[must_use]
    pub fn snapshots(&self) -> &[(u64, String)] {
        &self.snapshots
    }

    /// Bytes of the device's memory that are taken, behind each event that changes it.
    #[must_use]
    pub fn allocated_bytes(&self) -> &Values {
        &self.taken
    }

    /// The event of a launch by its index.
    fn launch_event(&self, index: u32) -> u64 {
        self.launches.get(index as usize).map_or(0, |l| l.event)
    }
}

/// Whether the device does a call when it stands among the events: it did not fail, and did not go into a graph alone.
#[must_use]
pub fn has_succeeded(call: &CallEvent) -> bool {
    let flags = match call {
        CallEvent::Launch(LaunchRow { flags, .. })
        | CallEvent::Copy(CopyRow { flags, .. })
        | CallEvent::Fill(FillRow { flags, .. }) => *flags,
        CallEvent::Order(row) => row.flags,
        CallEvent::Allocation(_) | CallEvent::Call(_) => 0,
    };
    call.result() == 0 && flags & crate::recording::CALL_CAPTURED == 0
}

/// Tag of a range of rows that have gaps between them.
const GAPS: u32 = 1;
/// Tag of a range that is read by what tells nothing of it: a copy on the device, or one whose content is not held.
const NOT_RECORDED: u32 = 2;

/// Whether a copy is a piece of a snapshot: it went to no stream.
fn is_snapshot(row: &CopyRow) -> bool {
    row.stream == crate::recording::OrderRow::NONE
}

/// The copy that an event is.
fn copy_at(events: &Events, event: u64) -> Option<CopyRow> {
    match events.call(usize::try_from(event).ok()?)? {
        CallEvent::Copy(row) => Some(row),
        _ => None,
    }
}

/// The fill that an event is.
fn fill_at(events: &Events, event: u64) -> Option<FillRow> {
    match events.call(usize::try_from(event).ok()?)? {
        CallEvent::Fill(row) => Some(row),
        _ => None,
    }
}
