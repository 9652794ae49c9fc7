//! The builder of an event table from single events.

use super::api_trace::{AllocationRow, CallRow, CopyRow, FillRow, LaunchRow, OrderRow};
use super::column::{Column, ColumnBuilder};
use super::driver_trace::{ObjectRow, RingEntryRow, SavedMemoryRow};
use super::events::{Access, DmaMapRow, EventKind, Events, HostWriteRow, InterruptRow, SubmitRow, UndecodedRow};
use bytemuck::Pod;

/// A builder that collects single events in memory. For millions of events pass whole columns to [`Events`] instead.
#[derive(Debug, Default)]
pub struct EventsBuilder {
    pub(crate) kind: Vec<u8>,
    pub(crate) space: Vec<u8>,
    pub(crate) time: Vec<u64>,
    pub(crate) thread: Vec<u32>,
    pub(crate) payload: Vec<u32>,
    pub(crate) offset: Vec<u32>,
    pub(crate) width: Vec<u8>,
    pub(crate) value: Vec<u64>,
    pub(crate) interrupts: Vec<InterruptRow>,
    pub(crate) submits: Vec<SubmitRow>,
    pub(crate) host_writes: Vec<HostWriteRow>,
    pub(crate) undecoded: Vec<UndecodedRow>,
    pub(crate) dma_maps: Vec<DmaMapRow>,
    pub(crate) launches: Vec<LaunchRow>,
    pub(crate) copies: Vec<CopyRow>,
    pub(crate) fills: Vec<FillRow>,
    pub(crate) orders: Vec<OrderRow>,
    pub(crate) allocations: Vec<AllocationRow>,
    pub(crate) calls: Vec<CallRow>,
    pub(crate) objects: Vec<ObjectRow>,
    pub(crate) ring_entries: Vec<RingEntryRow>,
    pub(crate) saved_memory: Vec<SavedMemoryRow>,
    pub(crate) call_bytes: Vec<u8>,
    pub(crate) call_pages: Vec<u32>,
    pub(crate) marks: Vec<String>,
}

impl EventsBuilder {
    /// Creates an empty builder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of events so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kind.len()
    }

    /// Whether there are no events yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kind.is_empty()
    }

    fn row(&mut self, kind: EventKind, space: u8, time: u64, thread: u32, payload: usize) {
        self.kind.push(kind as u8);
        self.space.push(space);
        self.time.push(time);
        self.thread.push(thread);
        self.payload.push(payload as u32);
    }

    /// Adds a read or a write.
    pub fn access(&mut self, time: u64, thread: u32, access: Access) {
        let kind = if access.write {
            EventKind::Write
        } else {
            EventKind::Read
        };
        self.row(kind, access.space, time, thread, self.offset.len());
        self.offset.push(access.offset.get());
        self.width.push(access.width);
        self.value.push(access.value);
    }

    /// Adds an interrupt.
    pub fn interrupt(&mut self, time: u64, row: InterruptRow) {
        self.row(EventKind::Interrupt, 0, time, 0, self.interrupts.len());
        self.interrupts.push(row);
    }

    /// Adds a submit.
    pub fn submit(&mut self, time: u64, row: SubmitRow) {
        self.row(EventKind::Submit, 0, time, 0, self.submits.len());
        self.submits.push(row);
    }

    /// Adds a CPU write to memory.
    pub fn host_write(&mut self, time: u64, thread: u32, row: HostWriteRow) {
        self.row(EventKind::HostWrite, 0, time, thread, self.host_writes.len());
        self.host_writes.push(row);
    }

    /// Adds an access with an unknown value.
    pub fn undecoded(&mut self, time: u64, thread: u32, space: u8, row: UndecodedRow) {
        self.row(EventKind::Undecoded, space, time, thread, self.undecoded.len());
        self.undecoded.push(row);
    }

    /// Adds a DMA mapping.
    pub fn dma_map(&mut self, time: u64, thread: u32, row: DmaMapRow) {
        self.row(EventKind::DmaMap, 0, time, thread, self.dma_maps.len());
        self.dma_maps.push(row);
    }

    /// Stores bytes for a launch or a call; returns the index of the first.
    pub fn call_bytes(&mut self, bytes: &[u8]) -> u64 {
        let at = self.call_bytes.len() as u64;
        self.call_bytes.extend_from_slice(bytes);
        at
    }

    /// Stores pages for a copy; returns the index of the first.
    pub fn call_pages(&mut self, pages: &[u32]) -> u64 {
        let at = self.call_pages.len() as u64;
        self.call_pages.extend_from_slice(pages);
        at
    }

    /// Adds a launch.
    pub fn launch(&mut self, time: u64, thread: u32, row: LaunchRow) {
        self.row(EventKind::Launch, 0, time, thread, self.launches.len());
        self.launches.push(row);
    }

    /// Adds a copy.
    pub fn copy(&mut self, time: u64, thread: u32, row: CopyRow) {
        self.row(EventKind::Copy, 0, time, thread, self.copies.len());
        self.copies.push(row);
    }

    /// Adds memory set to a value.
    pub fn fill(&mut self, time: u64, thread: u32, row: FillRow) {
        self.row(EventKind::Fill, 0, time, thread, self.fills.len());
        self.fills.push(row);
    }

    /// Adds an order.
    pub fn order(&mut self, time: u64, thread: u32, row: OrderRow) {
        self.row(EventKind::Order, 0, time, thread, self.orders.len());
        self.orders.push(row);
    }

    /// Adds an allocation or a release of memory.
    pub fn allocation(&mut self, time: u64, thread: u32, row: AllocationRow) {
        self.row(EventKind::Allocation, 0, time, thread, self.allocations.len());
        self.allocations.push(row);
    }

    /// Adds any other call.
    pub fn call(&mut self, time: u64, thread: u32, row: CallRow) {
        self.row(EventKind::Call, 0, time, thread, self.calls.len());
        self.calls.push(row);
    }

    /// Adds an object that was created, freed, mapped or unmapped.
    pub fn object(&mut self, time: u64, thread: u32, row: ObjectRow) {
        self.row(EventKind::Object, 0, time, thread, self.objects.len());
        self.objects.push(row);
    }

    /// Adds an entry of a channel's ring.
    pub fn ring_entry(&mut self, time: u64, thread: u32, row: RingEntryRow) {
        self.row(EventKind::RingEntry, 0, time, thread, self.ring_entries.len());
        self.ring_entries.push(row);
    }

    /// Adds memory that the recorder saved.
    pub fn saved_memory(&mut self, time: u64, thread: u32, row: SavedMemoryRow) {
        self.row(EventKind::SavedMemory, 0, time, thread, self.saved_memory.len());
        self.saved_memory.push(row);
    }

    /// Adds a note.
    pub fn mark(&mut self, time: u64, text: impl Into<String>) {
        self.row(EventKind::Mark, 0, time, 0, self.marks.len());
        self.marks.push(text.into());
    }

    /// Returns the events as columns.
    #[must_use]
    pub fn finish(self) -> Events {
        fn column<T: Pod + PartialEq>(values: Vec<T>) -> Column<T> {
            match values.first() {
                Some(first) if values.iter().all(|v| v == first) => {
                    let mut b = ColumnBuilder::new();
                    b.push_constant(*first, values.len());
                    b.finish()
                }
                _ => values.into(),
            }
        }
        Events {
            kind: self.kind.into(),
            space: column(self.space),
            time: self.time.into(),
            thread: column(self.thread),
            payload: self.payload.into(),
            offset: self.offset.into(),
            width: column(self.width),
            value: self.value.into(),
            interrupts: self.interrupts.into(),
            submits: self.submits.into(),
            host_writes: self.host_writes.into(),
            undecoded: self.undecoded.into(),
            dma_maps: self.dma_maps.into(),
            launches: self.launches.into(),
            copies: self.copies.into(),
            fills: self.fills.into(),
            orders: self.orders.into(),
            allocations: self.allocations.into(),
            calls: self.calls.into(),
            objects: self.objects.into(),
            ring_entries: self.ring_entries.into(),
            saved_memory: self.saved_memory.into(),
            call_bytes: self.call_bytes.into(),
            call_pages: self.call_pages.into(),
            marks: self.marks,
        }
    }
}
