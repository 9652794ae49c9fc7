//! Queries on an API trace: buffers over time, launch arguments, device memory at an event, last writers, device
//! order and the code of functions.
//!
//! [`ApiTrace`] is built once, with one pass over all events. Later queries are searches in lists sorted by event and
//! in trees over addresses; their cost depends on the size of the answer.

mod annotations;
mod arguments;
mod buffers;
mod index;
mod kernel;
mod last_writer;
mod launch_changes;
mod launch_snapshots;
mod memory;
mod memory_trace;
mod memory_traces;
mod names;
mod order;
mod program_names;
mod ranges;
mod rows;
mod types;

pub use annotations::{Annotations, MAX_NAMED_BUFFERS, MAX_OPEN_RANGES, NamedBuffer, ProgramRange, buffer_shapes};
pub use arguments::{Argument, Value};
pub use buffers::{BufferKind, BufferLocation, Buffers, DeviceBuffer, MemoryRow};
pub use kernel::{CodeImage, KernelCode, Resources};
pub use last_writer::{ByteChange, CertainWriter, LastWriter, PossibleWriter};
pub use launch_changes::{BufferChange, LaunchChanges};
pub use memory::{ContentSource, ContentState, DeviceBytes, MAX_READ_BYTES, Piece, UnknownReason};
pub use memory_trace::{MemorySample, MemoryTrace, MemoryTraceError};
pub use memory_traces::MAX_MEMORY_TRACES;
pub use names::demangle;
pub use order::{Edge, Order};
pub use rows::has_succeeded;
pub use types::{Parameter, ParameterType, parameters};

use crate::recording::{ApiTraceMetadata, OrderRow};
use crate::values::Values;
use launch_changes::LaunchSnapshots;
use ranges::Ranges;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a launch references a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ReferenceKind {
    /// An argument is an address in the buffer.
    Argument = 0,
    /// A word of a multi-word argument is an address in the buffer.
    ArgumentWord = 1,
    /// The buffer is a variable of the function's module.
    Variable = 2,
}

impl ReferenceKind {
    /// Returns whether the launch certainly received the address. Otherwise a word may only look like one, or it is
    /// not known that the function uses the variable.
    #[must_use]
    pub fn is_certain(self) -> bool {
        self == Self::Argument
    }

    /// Returns a description.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Argument => "an argument points into it",
            Self::ArgumentWord => "a word in an argument may point into it",
            Self::Variable => "it is a variable of the function's module",
        }
    }
}

/// A launch that references a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferReference {
    /// The launch, an index into [`ApiTrace::launches`].
    pub launch: u32,
    /// How the launch references the buffer.
    pub kind: ReferenceKind,
}

/// A kernel launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelLaunch {
    /// The event of the launch.
    pub event: u64,
    /// The function, an index into [`ApiTraceMetadata::functions`].
    pub function: u32,
    /// The stream, an index into [`ApiTraceMetadata::streams`].
    pub stream: u32,
}

/// Launches that reference one buffer.
#[derive(Clone, Debug, Default)]
struct BufferReferences {
    /// Launches that may write the buffer, in order.
    write: Vec<BufferReference>,
    /// Launches that only read the buffer by their signature, in order.
    read: Vec<BufferReference>,
}

/// The index of the calls of an API trace.
#[derive(Clone, Debug, Default)]
pub struct ApiTrace {
    metadata: ApiTraceMetadata,
    annotations: Annotations,
    events: u64,
    /// Function names for display.
    shown: Vec<String>,
    parameters: Vec<Vec<Parameter>>,
    launches: Vec<KernelLaunch>,
    /// Launches of each function, as indices into the list.
    by_function: Vec<Vec<u32>>,
    /// Launches of the functions of each module, as indices into the list.
    by_module: Vec<Vec<u32>>,
    /// Events of each stream.
    by_stream: Vec<Vec<u64>>,
    buffers: Buffers,
    references: Vec<BufferReferences>,
    /// Copies to the device and fills, by the addresses that they write.
    writes: Ranges,
    /// Copies from device memory, to the host and on the device, by the addresses that they read.
    seen: Ranges,
    order: Order,
    failed: Vec<u64>,
    snapshots: Vec<(u64, String)>,
    taken: Values,
    /// Launches with snapshots around them, in order.
    launch_snapshots: Vec<LaunchSnapshots>,
    /// Pieces of the snapshots after those launches.
    behind: Ranges,
    /// Events of launches without snapshots around them, if other launches have them.
    open: Vec<u64>,
    /// Memory traces, in the order in which they were added.
    memory_traces: Vec<Arc<MemoryTrace>>,
    /// Changes of launches, from the recorder's snapshots or memory traces, by event.
    left: BTreeMap<u64, Arc<LaunchChanges>>,
    /// Number of launches whose changes are completely known.
    left_whole: usize,
    /// Number of memory traces that were added.
    revision: u64,
}

impl ApiTrace {
    /// Returns the metadata of the calls.
    #[must_use]
    pub fn metadata(&self) -> &ApiTraceMetadata {
        &self.metadata
    }

    /// Returns the launches that the device executed, in order. Launches that were only captured into a graph are
    /// excluded.
    #[must_use]
    pub fn launches(&self) -> &[KernelLaunch] {
        &self.launches
    }

    /// Returns the launch at an event, as an index into the list.
    #[must_use]
    pub fn launch_at(&self, event: u64) -> Option<u32> {
        let n = self.launches.binary_search_by_key(&event, |l| l.event).ok()?;
        u32::try_from(n).ok()
    }

    /// Returns the index of the first launch at or after an event.
    #[must_use]
    pub fn launches_before(&self, event: u64) -> usize {
        self.launches.partition_point(|l| l.event < event)
    }

    /// Returns the launches of a function, as indices into the list.
    #[must_use]
    pub fn launches_of(&self, function: u32) -> &[u32] {
        self.by_function.get(function as usize).map_or(&[], Vec::as_slice)
    }

    /// Returns the events of a stream, in order.
    #[must_use]
    pub fn events_of(&self, stream: u32) -> &[u64] {
        self.by_stream.get(stream as usize).map_or(&[], Vec::as_slice)
    }

    /// Returns the name of a function for display.
    #[must_use]
    pub fn function_name(&self, function: u32) -> &str {
        self.shown
            .get(function as usize)
            .map_or("unknown function", String::as_str)
    }

    /// Returns the name of a stream.
    #[must_use]
    pub fn stream_name(&self, stream: u32) -> String {
        match self.metadata.streams.get(stream as usize) {
            Some(s) if !s.name.is_empty() => s.name.clone(),
            _ if stream == OrderRow::NONE => "no stream".to_owned(),
            _ => format!("stream {stream}"),
        }
    }

    /// Finds a function by its name, mangled or not, or by a part of a name that is unique.
    #[must_use]
    pub fn find_function(&self, name: &str) -> Option<u32> {
        let all = || self.metadata.functions.iter().zip(&self.shown).zip(0u32..);
        let exact = all().find(|((f, shown), _)| f.name == name || *shown == name);
        if let Some((_, n)) = exact {
            return Some(n);
        }
        // People type a name without its arguments.
        let mut found = all().filter(|((f, shown), _)| f.name.contains(name) || shown.contains(name));
        let first = found.next()?.1;
        found.next().is_none().then_some(first)
    }

    /// Returns the parameters of a function; none if its layout is not known.
    #[must_use]
    pub fn parameters(&self, function: u32) -> &[Parameter] {
        self.parameters.get(function as usize).map_or(&[], Vec::as_slice)
    }

    /// Returns the buffers: device memory over time.
    #[must_use]
    pub fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    /// Returns the annotations that the program made: ranges, and names of memory.
    #[must_use]
    pub fn annotations(&self) -> &Annotations {
        &self.annotations
    }

    /// Returns the device order: which work waits for which.
    #[must_use]
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// Returns the calls that failed, in order.
    #[must_use]
    pub fn failed_calls(&self) -> &[u64] {
        &self.failed
    }

    /// Returns the snapshots that the recorder took of memory, each as its event and name.
    #[must_use]
    pub fn snapshots(&self) -> &[(u64, String)] {
        &self.snapshots
    }

    /// Returns the size of the allocated device memory after each event that changes it, bytes.
    #[must_use]
    pub fn allocated_bytes(&self) -> &Values {
        &self.taken
    }

    /// Returns the event of a launch by its index.
    fn launch_event(&self, index: u32) -> u64 {
        self.launches.get(index as usize).map_or(0, |l| l.event)
    }
}
