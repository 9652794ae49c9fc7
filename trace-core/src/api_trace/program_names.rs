//! Names that a program gave its memory, by address and event: of whole buffers, and of parts of them.

use super::annotations::Annotations;
use super::ranges::{Entry, Ranges};
use crate::GpuVa;
use std::collections::HashMap;

/// A name of memory, with the buffer that the memory is in.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ProgramName {
    name: String,
    at: GpuVa,
    bytes: u64,
    /// Index of the buffer. A name ends with its buffer.
    buffer: u32,
}

/// The names of a recording, for queries by address and event.
#[derive(Clone, Debug, Default)]
pub(super) struct ProgramNames {
    list: Vec<ProgramName>,
    tree: Ranges,
    by_name: HashMap<String, u32>,
}

impl ProgramNames {
    /// Collects the names. `locate` returns the buffer of an address at an event; memory without a buffer has no name.
    pub fn new(annotations: &Annotations, locate: impl Fn(GpuVa, u64) -> Option<u32>) -> Self {
        let mut names = Self::default();
        let mut entries = Vec::new();
        for (event, named) in annotations.namings() {
            let given = &named.name;
            let (Some(buffer), Ok(tag)) = (locate(given.at, event), u32::try_from(names.list.len())) else {
                continue;
            };
            entries.push(Entry {
                from: given.at,
                to: given.at.saturating_add(given.bytes),
                event,
                tag,
            });
            // Names are unique; a name that memory gets once more is the same one.
            names.by_name.entry(given.name.clone()).or_insert(tag);
            names.list.push(ProgramName {
                name: given.name.clone(),
                at: given.at,
                bytes: given.bytes,
                buffer,
            });
        }
        names.tree = Ranges::new(entries);
        names
    }

    /// Returns the name of an address in a buffer at an event, and the offset of the address in the named memory: the name
    /// that it got last up to the event, or else the first one that it gets. Programs name results after they compute them.
    pub fn find(&self, address: GpuVa, buffer: u32, event: u64) -> Option<(&str, u64)> {
        self.find_name(address, event, |n| n.buffer == buffer)
    }

    /// Returns the name of exactly this memory at an event, as [`Self::find`] does.
    pub fn find_whole(&self, memory: (GpuVa, u64), buffer: u32, event: u64) -> Option<&str> {
        let is_whole = |n: &ProgramName| n.buffer == buffer && (n.at, n.bytes) == memory;
        self.find_name(memory.0, event, is_whole).map(|(name, _)| name)
    }

    fn find_name(&self, address: GpuVa, event: u64, is_match: impl Fn(&ProgramName) -> bool) -> Option<(&str, u64)> {
        let of = |e: &Entry| self.list.get(e.tag as usize);
        let is_match = |e: &Entry| of(e).is_some_and(&is_match);
        let later = event.saturating_add(1);
        let before = self.tree.last(address, 0..later, is_match);
        let found = before.or_else(|| self.tree.first(address, later..u64::MAX, is_match))?;
        Some((of(&found)?.name.as_str(), address - found.from))
    }

    /// Returns each name once, by its number, with the buffer of its memory. They are in the order of addresses.
    pub fn list(&self) -> impl Iterator<Item = (u32, u32)> {
        let all = self.list.iter().zip(0u32..);
        let first = all.filter(|(n, number)| self.by_name.get(&n.name) == Some(number));
        first.map(|(n, number)| (number, n.buffer))
    }

    /// Returns a name by its number, with the first address and the size in bytes of its memory.
    pub fn get(&self, number: u32) -> Option<(&str, GpuVa, u64)> {
        let named = self.list.get(number as usize)?;
        Some((named.name.as_str(), named.at, named.bytes))
    }

    /// Returns the memory with a name: its first address and its size, bytes.
    pub fn memory(&self, name: &str) -> Option<(GpuVa, u64)> {
        let (_, at, bytes) = self.get(*self.by_name.get(name)?)?;
        Some((at, bytes))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests fail in this way")]
mod tests {
    use crate::GpuVa;
    use crate::api_trace::Buffers;
    use crate::recording::{
        AllocationKind, AllocationRow, ApiTraceMetadata, BufferName, CallRow, EventsBuilder, NAME_BUFFER_CALL,
        Recording, TraceKind,
    };

    const AT: u64 = 0x10_0000;

    /// An event of a recording.
    enum Step {
        Allocate(u64, u64),
        Free(u64),
        Name(&'static str, u64, u64),
    }
    use Step::{Allocate, Free, Name};

    fn buffers(steps: &[Step]) -> Buffers {
        let mut events = EventsBuilder::new();
        let allocation = |kind: AllocationKind, at, bytes| AllocationRow {
            at: GpuVa::new(at),
            bytes,
            kind: kind as u32,
            ..AllocationRow::default()
        };
        for (n, step) in (0u64..).zip(steps) {
            match *step {
                Allocate(at, bytes) => events.allocation(n, 0, allocation(AllocationKind::Take, at, bytes)),
                Free(at) => events.allocation(n, 0, allocation(AllocationKind::Give, at, 0)),
                Name(name, at, bytes) => {
                    let given = BufferName {
                        name: name.to_owned(),
                        at: GpuVa::new(at),
                        bytes,
                        form: None,
                    };
                    let arguments = given.encode();
                    let row = CallRow {
                        arguments_at: events.call_bytes(&arguments),
                        arguments: u32::try_from(arguments.len()).unwrap(),
                        name: 0,
                        about: u32::MAX,
                        ..CallRow::default()
                    };
                    events.call(n, 0, row);
                }
            }
        }
        let metadata = ApiTraceMetadata {
            names: vec![NAME_BUFFER_CALL.to_owned()],
            ..ApiTraceMetadata::default()
        };
        let mut recording = Recording {
            events: events.finish(),
            ..Recording::default()
        };
        recording.metadata.kind = TraceKind::Api(metadata.clone());
        Buffers::from_recording(&recording, &metadata)
    }

    #[test]
    fn address_has_the_name_of_its_memory_at_the_event() {
        let b = buffers(&[
            Allocate(AT, 0x1000),
            Name("x", AT, 0x100),
            Name("y", AT + 0x100, 0x100),
            // The allocator of a framework gives the memory to another tensor.
            Name("z", AT + 0x80, 0x100),
            Free(AT),
            Allocate(AT, 0x1000),
            Name("whole", AT, 0x1000),
            Name("again", AT, 0x1000),
        ]);
        let name = |offset, event| b.format_address(GpuVa::new(AT + offset), event);
        for (offset, event, expected) in [
            (0, 2, "x"),
            (0x40, 2, "x + 0x40"),
            (0x120, 2, "y + 0x20"),
            // A name that comes later counts until the memory has another one.
            (0x120, 1, "y + 0x20"),
            (0x90, 2, "x + 0x90"),
            (0x90, 3, "z + 0x10"),
            (0x190, 3, "y + 0x90"),
            (0x400, 3, "alloc 0 + 0x400"),
            (0x40, 6, "whole + 0x40"),
            (0, 7, "again"),
        ] {
            assert_eq!(name(offset, event), expected, "{offset:#x} at {event}");
        }
        assert_eq!(name(0, 5), format!("{AT:#x}"), "nothing is allocated there");
        assert_eq!((b.name_at(1, 6), b.name_at(1, 7)), ("whole", "again"));
        let rows: Vec<_> = b.rows().iter().map(|row| b.name_row(*row, 7)).collect();
        assert_eq!(rows, ["alloc 0", "x", "z", "y", "again"]);
        assert_eq!((b.find_row(0), b.find_row(1)), (0, 4));
        assert_eq!(b.row_memory(b.rows()[3]), Some((GpuVa::new(AT + 0x100), 0x100)));
        assert_eq!(b.find_memory("y"), Some((GpuVa::new(AT + 0x100), 0x100)));
        assert_eq!(b.find_memory("whole"), Some((GpuVa::new(AT), 0x1000)));
        let span = |from, to| b.name_span(0, &(GpuVa::new(AT + from)..GpuVa::new(AT + to)), 2);
        assert_eq!((span(0x10, 0x20), span(0x10, 0x120)), ("x", "alloc 0"));
    }
}
