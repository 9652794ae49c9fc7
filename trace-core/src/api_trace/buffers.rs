//! Device memory over time: allocations, frees and module variables, each with a name.

use super::annotations::Annotations;
use super::program_names::ProgramNames;
use super::ranges::{Entry, Ranges};
use super::rows::{has_succeeded, is_snapshot};
use crate::GpuVa;
use crate::recording::{
    AllocationKind, AllocationRow, ApiTraceMetadata, CallEvent, CopyKind, CopyRow, EventKind, Recording,
};
use std::collections::{BTreeMap, HashMap};

/// Size of one piece of a snapshot, bytes. A longer buffer is stored as several consecutive pieces.
const PIECE: u64 = 64 << 20;

/// The kind of memory that a buffer is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferKind {
    /// Device memory that the program allocated.
    Allocated,
    /// Memory shared by host and device. The recording does not hold the host's writes to it.
    Managed,
    /// Host memory that the device can access.
    Host,
    /// A variable of a module.
    Variable,
    /// Memory that existed before the recording began, known from a snapshot.
    Preexisting,
}

impl BufferKind {
    /// Returns the name of the kind, one or two words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Allocated => "allocation",
            Self::Managed => "managed memory",
            Self::Host => "memory of the host",
            Self::Variable => "variable",
            Self::Preexisting => "from before",
        }
    }

    /// Returns whether a call allocated the buffer.
    #[must_use]
    pub fn is_allocated(self) -> bool {
        matches!(self, Self::Allocated | Self::Managed | Self::Host)
    }

    /// Returns whether the host can write the buffer without a call.
    #[must_use]
    pub fn is_shared(self) -> bool {
        matches!(self, Self::Managed | Self::Host)
    }
}

/// A range of device memory and its lifetime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceBuffer {
    /// Name: that the program gave, that of a transfer that covers the whole buffer (`in0`, `out3`), of a variable, or
    /// `alloc 7`.
    pub name: String,
    /// Second name: that of the transfer from the buffer, if `name` comes from a transfer to it; that of the first
    /// transfer, if the program gave `name`.
    pub alias: Option<String>,
    /// First address.
    pub at: GpuVa,
    /// Size, bytes.
    pub bytes: u64,
    /// The event that allocated the buffer; 0 if it existed at the start.
    pub from: u64,
    /// The event that freed the buffer; `None` if it existed at the end.
    pub to: Option<u64>,
    /// The kind of memory.
    pub kind: BufferKind,
    /// The module of a variable, an index into [`ApiTraceMetadata::modules`].
    pub module: Option<u32>,
}

impl DeviceBuffer {
    /// Returns the address one past the last byte.
    #[must_use]
    pub fn end(&self) -> GpuVa {
        self.at.saturating_add(self.bytes)
    }

    /// Returns whether the buffer exists just before an event.
    #[must_use]
    pub fn is_live_at(&self, event: u64) -> bool {
        (self.from < event || !self.kind.is_allocated()) && self.to.is_none_or(|to| event <= to)
    }
}

/// A location in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BufferLocation {
    /// Index of the buffer.
    pub buffer: u32,
    /// Offset from the start of the buffer, bytes.
    pub offset: u64,
}

/// A row of a list of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRow {
    /// Index of the buffer.
    pub buffer: u32,
    /// Number of the name of a part of it; `None` for the buffer itself.
    part: Option<u32>,
}

impl MemoryRow {
    /// Whether this is a part of a buffer.
    #[must_use]
    pub fn is_part(self) -> bool {
        self.part.is_some()
    }
}

/// All buffers, in the order of their allocation.
#[derive(Clone, Debug, Default)]
pub struct Buffers {
    list: Vec<DeviceBuffer>,
    tree: Ranges,
    names: HashMap<String, u32>,
    given: ProgramNames,
    rows: Vec<MemoryRow>,
}

impl Buffers {
    /// Finds the buffers of an API trace, without their use by calls. [`super::ApiTrace::from_recording`] computes
    /// both.
    #[must_use]
    pub fn from_recording(recording: &Recording, metadata: &ApiTraceMetadata) -> Self {
        let mut tracker = Tracker::new(metadata);
        let events = &recording.events;
        let of_memory = |at: &usize| matches!(events.kind(*at), Some(EventKind::Allocation | EventKind::Copy));
        for at in (0..events.len()).filter(of_memory) {
            match events.call(at).filter(has_succeeded) {
                Some(CallEvent::Allocation(row)) => tracker.allocation(at as u64, &row),
                Some(CallEvent::Copy(row)) if is_snapshot(&row) => tracker.snapshot(&row, false),
                _ => {}
            }
        }
        tracker.finish(&Annotations::from_recording(recording))
    }

    /// Returns the buffers in the order of their allocation.
    #[must_use]
    pub fn list(&self) -> &[DeviceBuffer] {
        &self.list
    }

    /// Returns the buffer with this index.
    #[must_use]
    pub fn get(&self, index: u32) -> Option<&DeviceBuffer> {
        self.list.get(index as usize)
    }

    /// Finds a buffer by its name. Names are unique.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<u32> {
        self.names.get(name).copied()
    }

    /// Returns the location of an address just before an event.
    #[must_use]
    pub fn locate(&self, address: GpuVa, event: u64) -> Option<BufferLocation> {
        let lives = |e: &Entry| self.get(e.tag).is_some_and(|b| b.is_live_at(event));
        let found = self.tree.last(address, 0..event.saturating_add(1), lives)?;
        Some(BufferLocation {
            buffer: found.tag,
            offset: address - found.from,
        })
    }

    /// Returns the location of an address just before an event. If no buffer is there at that event, uses the last
    /// buffer before it, or the first one after it.
    #[must_use]
    pub fn locate_nearest(&self, address: GpuVa, event: u64) -> Option<BufferLocation> {
        self.locate(address, event).or_else(|| {
            let any = |_: &Entry| true;
            let before = self.tree.last(address, 0..event.saturating_add(1), any);
            let found = before.or_else(|| self.tree.first(address, event..u64::MAX, any))?;
            Some(BufferLocation {
                buffer: found.tag,
                offset: address - found.from,
            })
        })
    }

    /// Returns the range of events, around one before which no buffer contains an address, in which none does. The
    /// range starts at the first such event and ends at the one that next allocates memory there.
    pub(super) fn unallocated_events(&self, address: GpuVa, event: u64) -> std::ops::Range<u64> {
        let over = |e: &Entry| self.get(e.tag).and_then(|b| b.to);
        let mut from = 0;
        let _ = self.tree.last(address, 0..event, |e| {
            from = over(e).map_or(from, |to| from.max(to.saturating_add(1)));
            false
        });
        let next = self.tree.first(address, event..u64::MAX, |_| true);
        from..next.map_or(u64::MAX, |e| e.event)
    }

    /// Returns the address range around an address in which no buffer ever starts or ends.
    pub(super) fn stretch(&self, address: GpuVa) -> std::ops::Range<GpuVa> {
        self.tree.stretch(address)
    }

    /// Formats an address at an event as [`Self::format_location`] does, or as a plain address if it is in no buffer.
    #[must_use]
    pub fn format_address(&self, address: GpuVa, event: u64) -> String {
        match self.locate(address, event) {
            Some(place) => self.format_location(place, event),
            None => format!("{address:#x}"),
        }
    }

    /// Formats a location at an event as `logits + 0x40`: with the name that the program gave this memory last up to the
    /// event, or else the first one after it, or else with the name of the buffer.
    #[must_use]
    pub fn format_location(&self, place: BufferLocation, event: u64) -> String {
        let (name, offset) = self.name_location(place, event);
        match offset {
            0 => name.to_owned(),
            n => format!("{name} + {n:#x}"),
        }
    }

    /// Returns the name of a location at an event, as [`Self::format_location`] shows it, and the offset from there.
    fn name_location(&self, place: BufferLocation, event: u64) -> (&str, u64) {
        let Some(b) = self.get(place.buffer) else {
            return ("", place.offset);
        };
        let given = || self.given.find(b.at.saturating_add(place.offset), place.buffer, event);
        match b.kind {
            BufferKind::Variable => None,
            _ => given(),
        }
        .unwrap_or((&b.name, place.offset))
    }

    /// Returns the name of a buffer at an event: the one that the program gave it last up to the event, or else
    /// the first one after it, or else [`DeviceBuffer::name`].
    #[must_use]
    pub fn name_at(&self, index: u32, event: u64) -> &str {
        let Some(b) = self.get(index) else { return "" };
        let given = || self.given.find_whole((b.at, b.bytes), index, event);
        match b.kind {
            BufferKind::Variable => None,
            _ => given(),
        }
        .unwrap_or(&b.name)
    }

    /// Returns the name of a span of a buffer at an event: the one that the program gave to memory that contains the span,
    /// or else that of the buffer.
    #[must_use]
    pub fn name_span(&self, index: u32, span: &std::ops::Range<GpuVa>, event: u64) -> &str {
        let given = |at| self.given.find(at, index, event).map(|(name, _)| name);
        let last = GpuVa::new(span.end.get().saturating_sub(1));
        match (given(span.start), given(last.max(span.start))) {
            (Some(first), Some(last)) if first == last => first,
            _ => self.name_at(index, event),
        }
    }

    /// Returns the rows of a list of memory: each buffer, and then the parts of it that the program named.
    #[must_use]
    pub fn rows(&self) -> &[MemoryRow] {
        &self.rows
    }

    /// Returns the number of the row of a buffer.
    #[must_use]
    pub fn find_row(&self, buffer: u32) -> usize {
        self.rows.partition_point(|row| row.buffer < buffer)
    }

    /// Returns the name of a row at an event: that of the part, or [`Self::name_at`].
    #[must_use]
    pub fn name_row(&self, row: MemoryRow, event: u64) -> &str {
        match row.part {
            Some(part) => self.given.get(part).map_or("", |(name, ..)| name),
            None => self.name_at(row.buffer, event),
        }
    }

    /// Returns the first address and the size in bytes of a row.
    #[must_use]
    pub fn row_memory(&self, row: MemoryRow) -> Option<(GpuVa, u64)> {
        match row.part {
            Some(part) => self.given.get(part).map(|(_, at, bytes)| (at, bytes)),
            None => self.get(row.buffer).map(|b| (b.at, b.bytes)),
        }
    }

    /// Collects the rows of a list of memory.
    fn list_rows(&self) -> Vec<MemoryRow> {
        let is_part = |(number, buffer): &(u32, u32)| {
            let whole = self.get(*buffer).map(|b| (b.at, b.bytes));
            let named = self.given.get(*number);
            named.is_some_and(|(name, at, bytes)| whole != Some((at, bytes)) && !self.names.contains_key(name))
        };
        let parts = self.given.list().filter(is_part).map(|(number, buffer)| MemoryRow {
            buffer,
            part: Some(number),
        });
        let buffers = (0u32..)
            .zip(&self.list)
            .map(|(buffer, _)| MemoryRow { buffer, part: None });
        let mut rows: Vec<MemoryRow> = buffers.chain(parts).collect();
        // Parts of a buffer stay in the order of addresses.
        rows.sort_by_key(|row| row.buffer);
        rows
    }

    /// Returns the first address and the size in bytes of the memory with this name: a buffer, or a part of one that the
    /// program named.
    #[must_use]
    pub fn find_memory(&self, name: &str) -> Option<(GpuVa, u64)> {
        let buffer = self.find(name).and_then(|index| self.get(index));
        buffer.map(|b| (b.at, b.bytes)).or_else(|| self.given.memory(name))
    }
}

/// Tracks allocations through the events of a recording.
#[derive(Debug, Default)]
pub(super) struct Tracker {
    list: Vec<DeviceBuffer>,
    /// The live buffers by their first address.
    live: BTreeMap<GpuVa, u32>,
    /// Allocated device memory, bytes.
    bytes: u64,
    /// Numbers of transfers by direction word, address and size, as a replay assigns them.
    moved: HashMap<(&'static str, GpuVa, u64), usize>,
    counts: HashMap<&'static str, usize>,
}

impl Tracker {
    /// Creates a tracker that holds the variables of the modules.
    pub fn new(metadata: &ApiTraceMetadata) -> Self {
        let mut tracker = Self::default();
        for (n, module) in metadata.modules.iter().enumerate() {
            for g in module.globals.iter().filter(|g| g.bytes > 0) {
                tracker.add(DeviceBuffer {
                    name: g.name.clone(),
                    alias: None,
                    at: g.at,
                    bytes: g.bytes,
                    from: 0,
                    to: None,
                    kind: BufferKind::Variable,
                    module: u32::try_from(n).ok(),
                });
            }
        }
        tracker
    }

    fn add(&mut self, buffer: DeviceBuffer) {
        let Ok(index) = u32::try_from(self.list.len()) else {
            return;
        };
        // A range that is allocated twice was freed in between, recorded or not.
        let mut over: Vec<GpuVa> = self.live.range(buffer.at..buffer.end()).map(|(at, _)| *at).collect();
        over.extend(
            self.find_buffer(buffer.at)
                .and_then(|i| Some(self.list.get(i as usize)?.at)),
        );
        for at in over {
            self.end(at, buffer.from);
        }
        self.live.insert(buffer.at, index);
        if matches!(buffer.kind, BufferKind::Allocated | BufferKind::Managed) {
            self.bytes = self.bytes.saturating_add(buffer.bytes);
        }
        self.list.push(buffer);
    }

    fn end(&mut self, at: GpuVa, event: u64) {
        let Some(b) = self.live.remove(&at).and_then(|i| self.list.get_mut(i as usize)) else {
            return;
        };
        b.to = Some(event);
        if matches!(b.kind, BufferKind::Allocated | BufferKind::Managed) {
            self.bytes = self.bytes.saturating_sub(b.bytes);
        }
    }

    /// Returns the size of the device memory allocated now, bytes.
    pub fn allocated_bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the buffer that contains an address now.
    pub fn find_buffer(&self, address: GpuVa) -> Option<u32> {
        let (_, index) = self.live.range(..=address).next_back()?;
        let b = self.list.get(*index as usize)?;
        (address < b.end()).then_some(*index)
    }

    /// Applies an allocation or a free.
    pub fn allocation(&mut self, event: u64, row: &AllocationRow) {
        let take = match AllocationKind::from_raw(row.kind) {
            Some(AllocationKind::Take | AllocationKind::TakeInOrder | AllocationKind::Map) => BufferKind::Allocated,
            Some(AllocationKind::TakeManaged) => BufferKind::Managed,
            Some(AllocationKind::TakeHost) => BufferKind::Host,
            Some(
                AllocationKind::Give | AllocationKind::GiveInOrder | AllocationKind::GiveHost | AllocationKind::Unmap,
            ) => {
                return self.end(row.at, event);
            }
            None => return,
        };
        if row.bytes == 0 {
            return;
        }
        self.add(DeviceBuffer {
            name: String::new(),
            alias: None,
            at: row.at,
            bytes: row.bytes,
            from: event,
            to: None,
            kind: take,
            module: None,
        });
    }

    /// Applies a piece of a snapshot of memory that no earlier call allocated.
    pub fn snapshot(&mut self, row: &CopyRow, at_begin: bool) {
        let from = GpuVa::new(row.from);
        if at_begin && let Some(bytes) = row.total() {
            self.number("memory", from, bytes);
        }
        if self.find_buffer(from).is_some() || row.bytes == 0 {
            return;
        }
        // A snapshot stores a long buffer in pieces.
        if let Some((_, index)) = self.live.range(..from).next_back()
            && let Some(b) = self.list.get_mut(*index as usize)
            && b.kind == BufferKind::Preexisting
            && b.end() == from
            && b.bytes.is_multiple_of(PIECE)
        {
            b.bytes = b.bytes.saturating_add(row.bytes);
            return;
        }
        self.add(DeviceBuffer {
            name: String::new(),
            alias: None,
            at: from,
            bytes: row.bytes,
            from: 0,
            to: None,
            kind: BufferKind::Preexisting,
            module: None,
        });
    }

    /// Applies a transfer to or from the device, and numbers it.
    pub fn transfer(&mut self, row: &CopyRow) {
        let Some(bytes) = row.total() else { return };
        match CopyKind::from_raw(row.kind) {
            Some(CopyKind::HostToDevice) => self.number("in", row.device(), bytes),
            Some(CopyKind::DeviceToHost) => self.number("out", row.device(), bytes),
            _ => {}
        }
    }

    fn number(&mut self, word: &'static str, at: GpuVa, bytes: u64) {
        let counts = &mut self.counts;
        self.moved.entry((word, at, bytes)).or_insert_with(|| {
            let count = counts.entry(word).or_default();
            *count += 1;
            *count - 1
        });
    }

    /// Returns all buffers with their names. A name that the program gave comes first.
    pub fn finish(mut self, annotations: &Annotations) -> Buffers {
        let mut names: HashMap<String, u32> = HashMap::new();
        let mut plain = 0usize;
        for (index, b) in self.list.iter_mut().enumerate() {
            let index = index as u32;
            let called = |word: &'static str| {
                let n = self.moved.get(&(word, b.at, b.bytes))?;
                Some(format!("{word}{n}"))
            };
            let (input, output) = (called("in"), called("out"));
            let lifetime = b.from..=b.to.unwrap_or(u64::MAX);
            let given = annotations.name_within(b.at, b.bytes, lifetime).map(|n| &n.name.name);
            let wanted = match (b.kind, &input, &output) {
                (BufferKind::Variable, ..) => b.name.clone(),
                _ if given.is_some() => given.cloned().unwrap_or_default(),
                (_, Some(name), _) | (_, None, Some(name)) => name.clone(),
                _ => called("memory").unwrap_or_else(|| {
                    plain += 1;
                    let word = if b.kind == BufferKind::Host { "host" } else { "alloc" };
                    format!("{word} {}", plain - 1)
                }),
            };
            // The same address is allocated again and again: each time it is another buffer.
            let mut name = wanted.clone();
            let mut again = 2;
            while names.contains_key(&name) {
                name = format!("{wanted} #{again}");
                again += 1;
                // Avoid counting from 2 each time for an address that is allocated thousands of times.
                if again > 64 {
                    name = format!("{wanted} #{}", index + 2);
                    break;
                }
            }
            let first = if given.is_some() { input.clone() } else { None };
            b.alias = first
                .or(output)
                .filter(|o| *o != wanted && (input.is_some() || given.is_some()));
            if let Some(also) = &b.alias {
                names.entry(also.clone()).or_insert(index);
            }
            names.insert(name.clone(), index);
            b.name = name;
        }
        let entries = self.list.iter().zip(0u32..).map(|(b, tag)| Entry {
            from: b.at,
            to: b.end(),
            event: b.from,
            tag,
        });
        let mut buffers = Buffers {
            tree: Ranges::new(entries.collect()),
            list: self.list,
            names,
            given: ProgramNames::default(),
            rows: Vec::new(),
        };
        buffers.given = ProgramNames::new(annotations, |at, event| Some(buffers.locate(at, event)?.buffer));
        buffers.rows = buffers.list_rows();
        buffers
    }
}
