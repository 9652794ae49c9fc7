//! The recording: events, memory, address spaces and identity. It is immutable; clones share the data.

mod api_trace;
mod block_codec;
mod block_facts;
mod capture;
mod column;
mod damage;
mod damaged_events;
mod driver_trace;
mod events;
mod events_builder;
mod hardware;
mod identity;
mod memory;
mod metadata;
mod origin;
mod page_runs;
mod processes;
mod register_trace;
mod section_check;
mod section_kind;
mod shared_bytes;
mod shared_page;
mod stored_content;
mod unpacked_memory;

pub use api_trace::{
    AllocationKind, AllocationRow, Api, ApiTraceMetadata, BufferName, BufferShape, CALL_ASYNC, CALL_CAPTURED,
    CALL_OF_GRAPH, CallDevice, CallEvent, CallFunction, CallGlobal, CallModule, CallProcess, CallRow, CallStream,
    CallWindow, CodeKind, CopyKind, CopyRow, FillRow, LaunchRow, MAX_NAME_BYTES, NAME_BUFFER_CALL, NO_CONTENT,
    NOTE_CALL, NameError, OrderKind, OrderRow, RANGE_BEGIN_CALL, RANGE_END_CALL, check_buffer_name, check_range_name,
    is_annotation,
};
pub(crate) use block_codec::{
    BlockPacker, CODEC_PLAIN, CODEC_ZSTD, PACKED_BLOCK_BYTES, PackedBlock, Preparation, unpack,
};
pub(crate) use block_facts::{BLOCK_ROWS, BlockFact};
pub use capture::{Capture, rfc3339};
pub use column::{Column, ColumnBuilder, ColumnError, Part};
pub use damage::{Damage, DamagedBlock, MAX_DAMAGED_BLOCKS};
pub use driver_trace::{
    DriverTraceMetadata, ObjectAction, ObjectKind, ObjectRow, RingEntryRow, SaveReason, SavedMemoryRow,
};
pub use events::{Access, DmaKind, DmaMapRow, EventKind, Events, HostWriteRow, InterruptRow, SubmitRow, UndecodedRow};
pub use events_builder::EventsBuilder;
pub use hardware::{Bar, EXPANSION_ROM, Hardware, PciFunction, PlatformDevice, PlatformWindow};
pub use identity::{
    AddressSpace, Buffer, BufferRole, Clock, ElementType, Identity, InterruptLine, LostEvents, MmuFormat, Region,
    Space, SpaceKind,
};
pub use memory::{
    DamagedPage, Digest, ImageRun, MAX_PARENTS, Memory, MemoryBuilder, MemoryView, Page, PageStore, Snapshot,
    ZERO_PAGE, zero_digest,
};
pub use metadata::{Metadata, TraceKind, UnknownRecord};
pub use origin::{AppliedEdit, Cut};
pub(crate) use page_runs::overlay;
pub use page_runs::{FrameRole, PageId, PageRun, RunsBuilder};
pub use processes::{ProcessEntry, ProcessIndex};
pub use register_trace::{ChainReport, RecordedRange, RegisterTraceMetadata};
pub(crate) use section_check::{
    BLOCK_BYTES, BLOCK_ENTRY_BYTES, BlockEntry, Digests, PackedSection, SectionCheck, check_block_entry, entry_of,
};
pub use section_kind::SectionKind;
pub use shared_bytes::SharedBytes;
pub use shared_page::SharedPage;
pub use stored_content::StoredContent;
pub(crate) use unpacked_memory::UnpackedMemory;

use crate::finding::FindingKind;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Location of the finding of kind [`FindingKind::Assumed`] which tells that the importer generated the page tables.
pub const GENERATED_TABLES: &str = "page tables";

/// Events, memory, address spaces and identity.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Metadata besides events and memory.
    pub metadata: Metadata,
    /// Events in order.
    pub events: Events,
    /// Page images and snapshots.
    pub memory: Memory,
    /// Named bytes that only their owners understand. Stored with the recording. What the program itself knows about a
    /// recording is in [`Recording::metadata`].
    pub extras: BTreeMap<String, Vec<u8>>,
    /// The absolute path that it was opened from, if the caller sets it: a user map next to it applies to it alone. Not
    /// stored; edits and parts keep it.
    pub opened_from: Option<Arc<Path>>,
    /// Damage found so far in its file. A recording built from parts of another one has the damage of that one. Not
    /// stored: damaged data is never written.
    pub damage: Damage,
}

impl Recording {
    /// Returns the metadata of the calls, or `None` if it is no API trace.
    #[must_use]
    pub fn api(&self) -> Option<&ApiTraceMetadata> {
        match &self.metadata.kind {
            TraceKind::Api(metadata) => Some(metadata),
            TraceKind::Register(_) | TraceKind::Driver(_) => None,
        }
    }

    /// Returns the metadata of the requests to the kernel driver, or `None` if they were not recorded. An API trace may
    /// have them too.
    #[must_use]
    pub fn driver_trace(&self) -> Option<&DriverTraceMetadata> {
        match &self.metadata.kind {
            TraceKind::Driver(metadata) => Some(metadata),
            TraceKind::Api(metadata) => metadata.driver.as_deref(),
            TraceKind::Register(_) => None,
        }
    }

    /// Returns the name of a call or of a request to the kernel driver, or `None` if the recording has no such name.
    #[must_use]
    pub fn call_name(&self, row: &CallRow) -> Option<&str> {
        match &self.metadata.kind {
            TraceKind::Api(metadata) => metadata.names.get(row.name as usize).map(String::as_str),
            TraceKind::Driver(metadata) => metadata.name(row.name),
            TraceKind::Register(_) => None,
        }
    }

    /// Returns the metadata that only register traces have, or `None` if it is a trace of another kind.
    #[must_use]
    pub fn register_trace(&self) -> Option<&RegisterTraceMetadata> {
        match &self.metadata.kind {
            TraceKind::Register(metadata) => Some(metadata),
            TraceKind::Api(_) | TraceKind::Driver(_) => None,
        }
    }

    /// Does the same as [`Recording::register_trace`], for changes.
    #[must_use]
    pub fn register_trace_mut(&mut self) -> Option<&mut RegisterTraceMetadata> {
        match &mut self.metadata.kind {
            TraceKind::Register(metadata) => Some(metadata),
            TraceKind::Api(_) | TraceKind::Driver(_) => None,
        }
    }

    /// Returns the recorded device, if the recording has it.
    #[must_use]
    pub fn hardware(&self) -> Option<&Hardware> {
        self.register_trace()?.hardware.as_ref()
    }

    /// Sets the recorded device. An API trace has none and stays unchanged.
    pub fn set_hardware(&mut self, hardware: &Hardware) {
        if let Some(trace) = self.register_trace_mut() {
            trace.hardware = Some(hardware.clone());
        }
    }

    /// Returns the results of chains on the recorded device, in the order of their submits. Empty if the recorder did
    /// not store them.
    #[must_use]
    pub fn chain_reports(&self) -> &[ChainReport] {
        self.register_trace()
            .map_or(&[][..], |trace| trace.chain_reports.as_slice())
    }

    /// Whether the times of events are ticks of a counter, not nanoseconds.
    #[must_use]
    pub fn counts_ticks(&self) -> bool {
        self.metadata.identity.clock.counts_ticks()
    }

    /// Returns the name of the queue of a job slot, or `None` if the recording does not name it.
    #[must_use]
    pub fn job_queue(&self, slot: u8) -> Option<&str> {
        let queues = &self.register_trace()?.job_queues;
        queues
            .get(usize::from(slot))
            .map(String::as_str)
            .filter(|q| !q.is_empty())
    }

    /// Returns the memory locations in the replayed recording, by ascending address. Empty if this is no replay, or if
    /// page tables give the locations.
    #[must_use]
    pub fn recorded_ranges(&self) -> &[RecordedRange] {
        self.register_trace()
            .map_or(&[][..], |trace| trace.recorded_ranges.as_slice())
    }

    /// Whether the importer generated the page tables: their rights then say nothing about a driver.
    #[must_use]
    pub fn has_generated_tables(&self) -> bool {
        let findings = &self.metadata.findings;
        findings
            .iter()
            .any(|f| f.kind == FindingKind::Assumed && f.place == GENERATED_TABLES)
    }

    /// Returns the buffer of this name.
    #[must_use]
    pub fn buffer(&self, name: &str) -> Option<&Buffer> {
        self.metadata.buffers.iter().find(|b| b.name == name)
    }

    /// Returns the number of distinct contents among the page images that [`Metadata::source_pages`] counts, the page
    /// of zeros included; never more than these in a valid recording.
    ///
    /// They are the pages of the first snapshot. Later snapshots and page tables are not counted: only a raw dump has
    /// page tables among its pages.
    #[must_use]
    pub fn source_distinct_pages(&self) -> u64 {
        let Some(first) = self.memory.snapshots.first().filter(|_| self.metadata.source_pages > 0) else {
            return 0;
        };
        let all = self.metadata.identity.source == Identity::RAW_MEMORY;
        let runs = first.runs.iter().filter(|r| all || r.role == FrameRole::Data).map(|r| {
            let id = u64::from(r.first_page.0);
            id..id + if r.repeat { 1 } else { u64::from(r.count) }
        });
        let mut ids: Vec<std::ops::Range<u64>> = runs.collect();
        ids.sort_unstable_by_key(|r| r.start);
        // Runs that repeat the same pages are counted once, and no run is iterated page by page.
        let (mut sum, mut counted) = (0, 0);
        for r in ids {
            sum += r.end.saturating_sub(r.start.max(counted));
            counted = counted.max(r.end);
        }
        sum
    }

    /// Returns the nanoseconds between the earliest and the latest event.
    #[must_use]
    pub fn span_ns(&self) -> u64 {
        let mut ends = (u64::MAX, 0);
        for s in self.events.time.slices(0..self.events.len()) {
            for t in s {
                ends = (ends.0.min(*t), ends.1.max(*t));
            }
        }
        ends.1.saturating_sub(ends.0)
    }
}
