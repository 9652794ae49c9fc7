//! Memory of the device over time: what was taken and given back, variables of modules, each with a name.

use super::ranges::{Entry, Ranges};
use super::{has_succeeded, is_snapshot};
use crate::recording::{AllocationKind, AllocationRow, CallEvent, CallFacts, CopyKind, CopyRow, EventKind, Recording};
use std::collections::{BTreeMap, HashMap};

/// Bytes of a piece of a snapshot: of a longer buffer several pieces follow each other.
const PIECE: u64 = 64 << 20;

/// What kind of memory a buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferKind {
    /// Memory of the device that the program took.
    Allocated,
    /// Memory that host and device share: what the host writes there is not in the recording.
    Managed,
    /// Memory of the host that the device reaches.
    Host,
    /// A variable of a module.
    Variable,
    /// Memory that was there before the recording began, as a snapshot tells it.
    Preexisting,
}

impl BufferKind {
    /// In a word or two.
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

    /// Whether a call took it.
    #[must_use]
    pub fn is_allocated(self) -> bool {
        matches!(self, Self::Allocated | Self::Managed | Self::Host)
    }

    /// Whether the host writes it without a call.
    #[must_use]
    pub fn is_shared(self) -> bool {
        matches!(self, Self::Managed | Self::Host)
    }
}

/// A range of memory while it was there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceBuffer {
    /// Its name: that of what is moved to it or from it as a whole (`in0`, `out3`), of a variable, or `alloc 7`.
    pub name: String,
    /// Another name of the same: of what is read from it where it was named by what is written to it.
    pub alias: Option<String>,
    /// First address.
    pub at: u64,
    /// Bytes.
    pub bytes: u64,
    /// The event that took it; 0 for what was there at the beginning.
    pub from: u64,
    /// The event that gave it back; `None`: it was there at the end.
    pub to: Option<u64>,
    /// What kind of memory it is.
    pub kind: BufferKind,
    /// The module of a variable, an index into [`CallFacts::modules`].
    pub module: Option<u32>,
}

impl DeviceBuffer {
    /// One past the last address.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.at.saturating_add(self.bytes)
    }

    /// Whether it is there before an event happens.
    #[must_use]
    pub fn is_live_at(&self, event: u64) -> bool {
        (self.from < event || !self.kind.is_allocated()) && self.to.is_none_or(|to| event <= to)
    }
}

/// A place in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BufferLocation {
    /// Index of the buffer.
    pub buffer: u32,
    /// Bytes from its beginning.
    pub offset: u64,
}

/// All buffers, in the order in which they came.
#[derive(Clone, Debug, Default)]
pub struct Buffers {
    list: Vec<DeviceBuffer>,
    tree: Ranges,
    names: HashMap<String, u32>,
}

impl Buffers {
    /// The buffers of a recording of calls, without what calls do with them: [`super::Calls::of`] knows both.
    #[must_use]
    pub fn from_recording(recording: &Recording, facts: &CallFacts) -> Self {
        let mut tracker = Tracker::new(facts);
        let events = &recording.events;
        let of_memory = |at: &usize| matches!(events.kind(*at), Some(EventKind::Allocation | EventKind::Copy));
        for at in (0..events.len()).filter(of_memory) {
            match events.call(at).filter(has_succeeded) {
                Some(CallEvent::Allocation(row)) => tracker.allocation(at as u64, &row),
                Some(CallEvent::Copy(row)) if is_snapshot(&row) => tracker.snapshot(&row, false),
                _ => {}
            }
        }
        tracker.finish()
    }

    /// The buffers, in the order in which they came.
    #[must_use]
    pub fn list(&self) -> &[DeviceBuffer] {
        &self.list
    }

    /// The buffer of an index.
    #[must_use]
    pub fn get(&self, index: u32) -> Option<&DeviceBuffer> {
        self.list.get(index as usize)
    }

    /// The buffer of a name, which none shares.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<u32> {
        self.names.get(name).copied()
    }

    /// The place of an address before an event happens.
    #[must_use]
    pub fn locate(&self, address: u64, event: u64) -> Option<BufferLocation> {
        let lives = |e: &Entry| self.get(e.tag).is_some_and(|b| b.is_live_at(event));
        let found = self.tree.last(address, 0..event.saturating_add(1), lives)?;
        Some(BufferLocation {
            buffer: found.tag,
            offset: address - found.from,
        })
    }

    /// The place of an address before an event happens; where nothing is there then, of what was there last before, or
    /// comes first after.
    #[must_use]
    pub fn locate_nearest(&self, address: u64, event: u64) -> Option<BufferLocation> {
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

    /// The events between which no buffer holds an address, around one before which none does: the first of them, and the
    /// one that takes memory there next.
    pub(super) fn unallocated_events(&self, address: u64, event: u64) -> std::ops::Range<u64> {
        let over = |e: &Entry| self.get(e.tag).and_then(|b| b.to);
        let mut from = 0;
        let _ = self.tree.last(address, 0..event, |e| {
            from = over(e).map_or(from, |to| from.max(to.saturating_add(1)));
            false
        });
        let next = self.tree.first(address, event..u64::MAX, |_| true);
        from..next.map_or(u64::MAX, |e| e.event)
    }

    /// The stretch around an address in which no buffer begins or ends, at any time.
    pub(super) fn stretch(&self, address: u64) -> std::ops::Range<u64> {
        self.tree.stretch(address)
    }

    /// An address in words: `in0 + 0x40`, or the address where it is in no buffer.
    #[must_use]
    pub fn format_address(&self, address: u64, event: u64) -> String {
        match self.locate(address, event) {
            Some(place) => self.format_location(place),
            None => format!("{address:#x}"),
        }
    }

    /// A place in words: `in0 + 0x40`.
    #[must_use]
    pub fn format_location(&self, place: BufferLocation) -> String {
        let name = self.get(place.buffer).map_or("", |b| b.name.as_str());
        match place.offset {
            0 => name.to_owned(),
            n => format!("{name} + {n:#x}"),
        }
    }
}

/// Follows allocations through the events of a recording.
#[derive(Debug, Default)]
pub(super) struct Tracker {
    list: Vec<DeviceBuffer>,
    /// What is there now, by its first address.
    live: BTreeMap<u64, u32>,
    /// Bytes of the device's memory that are taken.
    bytes: u64,
    /// Names of transfers by word, address and bytes, as a replay gives them.
    moved: HashMap<(&'static str, u64, u64), usize>,
    counts: HashMap<&'static str, usize>,
}

impl Tracker {
    /// Begins with the variables of the modules.
    pub fn new(facts: &CallFacts) -> Self {
        let mut tracker = Self::default();
        for (n, module) in facts.modules.iter().enumerate() {
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
        // What is taken twice was given back in between, seen or not.
        let mut over: Vec<u64> = self.live.range(buffer.at..buffer.end()).map(|(at, _)| *at).collect();
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

    fn end(&mut self, at: u64, event: u64) {
        let Some(b) = self.live.remove(&at).and_then(|i| self.list.get_mut(i as usize)) else {
            return;
        };
        b.to = Some(event);
        if matches!(b.kind, BufferKind::Allocated | BufferKind::Managed) {
            self.bytes = self.bytes.saturating_sub(b.bytes);
        }
    }

    /// Bytes of the device's memory that are taken now.
    pub fn allocated_bytes(&self) -> u64 {
        self.bytes
    }

    /// The buffer that holds an address now.
    pub fn find_buffer(&self, address: u64) -> Option<u32> {
        let (_, index) = self.live.range(..=address).next_back()?;
        let b = self.list.get(*index as usize)?;
        (address < b.end()).then_some(*index)
    }

    /// Memory is taken or given back.
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

    /// A piece of a snapshot that was there before any call told of it.
    pub fn snapshot(&mut self, row: &CopyRow, at_begin: bool) {
        if at_begin && let Some(bytes) = row.total() {
            self.number("memory", row.from, bytes);
        }
        if self.find_buffer(row.from).is_some() || row.bytes == 0 {
            return;
        }
        // A long buffer is told in pieces.
        if let Some((_, index)) = self.live.range(..row.from).next_back()
            && let Some(b) = self.list.get_mut(*index as usize)
            && b.kind == BufferKind::Preexisting
            && b.end() == row.from
            && b.bytes.is_multiple_of(PIECE)
        {
            b.bytes = b.bytes.saturating_add(row.bytes);
            return;
        }
        self.add(DeviceBuffer {
            name: String::new(),
            alias: None,
            at: row.from,
            bytes: row.bytes,
            from: 0,
            to: None,
            kind: BufferKind::Preexisting,
            module: None,
        });
    }

    /// Bytes go to the device or come from it: what is moved gets its number.
    pub fn transfer(&mut self, row: &CopyRow) {
        let Some(bytes) = row.total() else { return };
        match CopyKind::from_raw(row.kind) {
            Some(CopyKind::HostToDevice) => self.number("in", row.to, bytes),
            Some(CopyKind::DeviceToHost) => self.number("out", row.from, bytes),
            _ => {}
        }
    }

    fn number(&mut self, word: &'static str, at: u64, bytes: u64) {
        let counts = &mut self.counts;
        self.moved.entry((word, at, bytes)).or_insert_with(|| {
            let count = counts.entry(word).or_default();
            *count += 1;
            *count - 1
        });
    }

    /// All buffers, with their names.
    pub fn finish(mut self) -> Buffers {
        let mut names: HashMap<String, u32> = HashMap::new();
        let mut plain = 0usize;
        for (index, b) in self.list.iter_mut().enumerate() {
            let index = index as u32;
            let called = |word: &'static str| {
                let n = self.moved.get(&(word, b.at, b.bytes))?;
                Some(format!("{word}{n}"))
            };
            let (input, output) = (called("in"), called("out"));
            let wanted = match (b.kind, &input, &output) {
                (BufferKind::Variable, ..) => b.name.clone(),
                (_, Some(name), _) | (_, None, Some(name)) => name.clone(),
                _ => called("memory").unwrap_or_else(|| {
                    plain += 1;
                    let word = if b.kind == BufferKind::Host { "host" } else { "alloc" };
                    format!("{word} {}", plain - 1)
                }),
            };
            // The same place is taken again and again: each time it is another buffer.
            let mut name = wanted.clone();
            let mut again = 2;
            while names.contains_key(&name) {
                name = format!("{wanted} #{again}");
                again += 1;
                // A place that is taken thousands of times is not counted from 2 on each time.
                if again > 64 {
                    name = format!("{wanted} #{}", index + 2);
                    break;
                }
            }
            b.alias = output.filter(|o| *o != wanted && input.is_some());
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
        Buffers {
            tree: Ranges::new(entries.collect()),
            list: self.list,
            names,
        }
    }
}
