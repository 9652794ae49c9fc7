//! The types of cross references: target, access kind, item.

use super::submitted_part::SubmittedPart;
use crate::api_trace::{BufferLocation, ReferenceKind};
use crate::families::TableCommand;
use crate::mmu::WalkStep;
use crate::recording::{Access, ObjectAction, SaveReason};
use crate::{GpuVa, PhysAddr, RegOffset};

/// Maximum number of bytes that one search covers. Of a longer range, the first bytes are searched.
pub const MAX_BYTES: u64 = 1 << 20;
/// Usual maximum number of references that a search returns: more than a person reads.
pub const MAX_REFERENCES: usize = 10_000;

/// What the references refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XrefTarget {
    /// The accesses to a register.
    Register {
        /// Offset of the register. For a pair of halves, that of the low half.
        register: RegOffset,
        /// First and last bit, inclusive. Bits from 32 on are those of the high half. `None`: all of the register.
        bits: Option<(u32, u32)>,
    },
    /// The references of bytes of GPU memory.
    Bytes {
        /// Index of the address space.
        space: u32,
        /// The first byte.
        va: GpuVa,
        /// Number of bytes, at least 1.
        bytes: u64,
    },
    /// The references of bytes of physical memory, through every address that maps them.
    Physical {
        /// The first byte.
        at: PhysAddr,
        /// Number of bytes, at least 1.
        bytes: u64,
    },
    /// The writers of a page-table entry, and the jobs whose walk may have read it.
    Entry {
        /// Index of the address space.
        space: u32,
        /// An address that it translates.
        va: GpuVa,
        /// Its level, 0 (top) to 3.
        level: u8,
    },
    /// The submissions of a call, or the call of a submission, in a recording of both levels.
    Event {
        /// The event of a call, a ring entry or a doorbell.
        event: u64,
    },
    /// Stores to and loads from bytes of a framebuffer.
    Framebuffer {
        /// Number of the space.
        space: u8,
        /// Offset of the first byte.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
    },
}

/// The kind of access of a reference to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// The target is written: by the host, by a job whose result contains it, or its content differs from this event on.
    Write,
    /// The target is read.
    Read,
    /// A job or launch can access the target; read or write is not known.
    ReadOrWrite,
    /// The target is executed as shader code.
    Execute,
    /// The item holds or names the address of the target.
    AddressOf,
    /// The item contains the target.
    Resident,
    /// The item caused the target: a call, of a submission.
    Cause,
    /// The target caused the item: a submission, by a call.
    Effect,
}

impl AccessKind {
    /// Returns the name in JSON and arguments.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::ReadOrWrite => "read-or-write",
            Self::Execute => "execute",
            Self::AddressOf => "address-of",
            Self::Resident => "resident",
            Self::Cause => "cause",
            Self::Effect => "effect",
        }
    }

    /// Whether the target may have another value afterwards.
    #[must_use]
    pub fn may_write(self) -> bool {
        matches!(self, Self::Write | Self::ReadOrWrite)
    }

    /// Whether the access may depend on the value of the target.
    #[must_use]
    pub fn may_read(self) -> bool {
        matches!(self, Self::Read | Self::ReadOrWrite | Self::Execute)
    }
}

/// A reference to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The item that refers to the target.
    pub item: ReferenceItem,
    /// Kind of access to the target.
    pub access: AccessKind,
    /// Event of the reference, if it has one.
    pub event: Option<u64>,
    /// Whether it refers to the page of the target, not to the target itself.
    pub is_page_only: bool,
}

impl Reference {
    /// Creates a reference to the target itself.
    pub(super) fn new(item: ReferenceItem, access: AccessKind, event: Option<u64>) -> Self {
        Self {
            item,
            access,
            event,
            is_page_only: false,
        }
    }

    /// Returns the same reference, to only the page of the target.
    pub(super) fn page_only(self) -> Self {
        Self {
            is_page_only: true,
            ..self
        }
    }

    /// Returns the job through which the reference happens.
    #[must_use]
    pub fn job(&self) -> Option<u32> {
        match self.item {
            ReferenceItem::Job { job, .. } | ReferenceItem::EntryJob { job, .. } => Some(job),
            // A ring entry is a job.
            ReferenceItem::Submitted { submission, .. }
            | ReferenceItem::CallSubmission { submission, .. }
            | ReferenceItem::SubmissionCall { submission, .. } => Some(submission),
            _ => None,
        }
    }

    /// Returns the launch through which the reference happens, as an index into the launches of the API trace.
    #[must_use]
    pub fn launch(&self) -> Option<u32> {
        match self.item {
            ReferenceItem::Launch { launch, .. } => Some(launch),
            _ => None,
        }
    }
}

/// The references of a target.
#[derive(Clone, Debug, Default)]
pub struct References {
    /// The references: those with events in order, those without events, those of only the page.
    pub list: Vec<Reference>,
    /// Whether the list has all references, fewer than the requested maximum.
    pub is_complete: bool,
}

/// An item that refers to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceItem {
    /// An access to the register.
    RegisterAccess(Access),
    /// An access to a register that holds an address.
    AddressRegister {
        /// Offset of the accessed half.
        accessed: RegOffset,
        /// Offset of the low half.
        register: RegOffset,
        /// Whether the access writes.
        is_write: bool,
        /// The address in both halves.
        value: u64,
        /// How the address refers to the target.
        matches: AddressMatch,
    },
    /// A named buffer of the recording that contains the target.
    Buffer {
        /// Index into the list of buffers.
        buffer: u32,
        /// Offset of the target, bytes.
        offset: u64,
    },
    /// A CPU write.
    HostWrite {
        /// Number of bytes written.
        bytes: u32,
    },
    /// A page-table entry on the walk of the target.
    WalkStep {
        /// Index of the address space.
        space: u32,
        /// The address that is walked.
        va: GpuVa,
        /// The entry.
        step: WalkStep,
    },
    /// Another address of the same memory.
    Mapping {
        /// Index of the address space.
        space: u32,
        /// The address.
        va: GpuVa,
    },
    /// The page of the target is a page table.
    PageTable(TableLocation),
    /// A snapshot of memory.
    Snapshot(ContentChange),
    /// A job of a chain.
    Job {
        /// Index of the job.
        job: u32,
        /// Position in its chain, from 0.
        position: u32,
        /// Number of jobs of the chain.
        chain: u32,
        /// The part of the job that refers to the target.
        part: JobPart,
    },
    /// A finding of `check`, as an index into the list of findings.
    Finding(u32),
    /// A CPU write to the page-table entry.
    EntryWrite {
        /// The new entry, if the write covers all of it.
        raw: Option<u64>,
    },
    /// The first snapshot, and the entry in it.
    FirstEntry(Option<EntryValue>),
    /// A snapshot that holds another entry than the one before.
    EntryChange {
        /// The entry before; `None` if an entry above it was invalid.
        before: Option<EntryValue>,
        /// The entry from this snapshot on.
        after: Option<EntryValue>,
        /// The writer of the entry.
        writer: EntryWriter,
    },
    /// A command to the address space of the entry.
    TableCommand {
        /// Offset of the command register.
        register: RegOffset,
        /// The command.
        command: TableCommand,
        /// Whether a recorded range covers the entry; `false` if no range is recorded.
        has_range: bool,
    },
    /// A job whose page walks may read the entry.
    EntryJob {
        /// Index of the job.
        job: u32,
        /// Why the job accesses an address that the entry translates.
        reason: EntryReason,
        /// The entry at the submit; `None` if the walk ends above it.
        raw: Option<u64>,
    },
    /// Jobs of the address space that may or may not access an address that the entry translates.
    OtherJobs {
        /// Number of jobs.
        jobs: u64,
        /// Whether other jobs of the address space are known to access such an address.
        has_known: bool,
    },
    /// A load or store of framebuffer bytes.
    Pixel(Access),
    /// A copy, fill or allocation of an API trace; the event tells which one.
    Call(CallReference),
    /// A launch of an API trace.
    Launch {
        /// Index of the launch.
        launch: u32,
        /// How the launch refers to the target.
        how: LaunchReference,
    },
    /// A buffer of an API trace that contains the target.
    DeviceBuffer {
        /// The location.
        location: BufferLocation,
        /// Event whose names of memory hold.
        event: u64,
    },
    /// A method, or work, of a submission of a driver trace.
    Submitted {
        /// Number of the submission.
        submission: u32,
        /// Offset of the method in words; for a launch, that of the method that starts it.
        word: u32,
        /// The part of the submission that refers to the target.
        part: SubmittedPart,
    },
    /// A submission that the call made.
    CallSubmission {
        /// Number of the submission.
        submission: u32,
        /// Offset of the launch in words, if the target is the launch of one in this submission.
        word: Option<u32>,
    },
    /// The call that made the submission, or a launch of a graph that is in it; the event tells which one.
    SubmissionCall {
        /// Number of the submission.
        submission: u32,
        /// Offset of the launch in words, for a launch of a graph.
        word: Option<u32>,
    },
    /// A buffer of a driver trace that contains the target was created, freed, mapped or unmapped.
    DriverBuffer {
        /// What happened.
        action: ObjectAction,
        /// Index of the buffer in the objects of the trace.
        object: u32,
        /// Handle of the buffer, if the source states handles.
        handle: Option<u32>,
        /// First address, of the mapping or the buffer.
        va: GpuVa,
        /// Number of bytes, of the mapping or the buffer.
        bytes: u64,
        /// Offset of the first byte of the target in the buffer.
        offset: u64,
    },
    /// Memory that the recorder saved contains the target.
    SavedMemory {
        /// First byte.
        va: GpuVa,
        /// Number of bytes.
        bytes: u64,
        /// Why it was saved; `None` for a reason that this version does not know.
        reason: Option<SaveReason>,
    },
}

impl ReferenceItem {
    /// Returns the name of the kind of item in JSON.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::RegisterAccess(_) | Self::AddressRegister { .. } => "register",
            Self::Buffer { .. } | Self::DeviceBuffer { .. } => "buffer",
            Self::HostWrite { .. } | Self::EntryWrite { .. } => "cpu-write",
            Self::WalkStep { .. } | Self::Mapping { .. } | Self::PageTable(_) => "page-table",
            Self::Snapshot(_) | Self::FirstEntry(_) | Self::EntryChange { .. } => "snapshot",
            Self::Job { .. } | Self::EntryJob { .. } | Self::OtherJobs { .. } => "job",
            Self::Finding(_) => "finding",
            Self::TableCommand { .. } => "command",
            Self::Pixel(a) if a.write => "store",
            Self::Pixel(_) => "load",
            Self::Call(CallReference::Copy) => "copy",
            Self::Call(CallReference::Fill) => "fill",
            Self::Call(CallReference::Allocation) => "memory",
            Self::Launch { .. } => "launch",
            Self::DriverBuffer { .. } => "object",
            Self::SavedMemory { .. } => "saved-memory",
            Self::Submitted { part, .. } => part.item_name(),
            Self::CallSubmission { .. } => "submission",
            Self::SubmissionCall { .. } => "call",
        }
    }
}

/// How an address in a register refers to the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressMatch {
    /// It is the address of the target.
    Exact,
    /// It starts a range that covers the target.
    Range,
    /// It is on the page of the target.
    Page,
}

/// The location of a page table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableLocation {
    /// Index of the address space.
    pub space: u32,
    /// Level, 0 to 3.
    pub level: u8,
    /// First address that the table translates.
    pub va: GpuVa,
}

/// What a snapshot shows of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentChange {
    /// From this snapshot on, the recording holds the bytes.
    Held,
    /// From this snapshot on, the recording does not hold the bytes.
    NotHeld,
    /// The bytes differ from this snapshot on.
    Differs,
    /// Other bytes of the page changed before this snapshot.
    OtherBytes,
}

/// The part of a job that refers to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobPart {
    /// The header contains the target, or is on its page.
    Header(GpuVa),
    /// The command stream, control list or dispatch starts at the target, or on its page.
    Start(GpuVa),
    /// The shader starts at the target, or on its page.
    Shader(GpuVa),
    /// A word of the descriptors, or of memory that they point to, is an address in the target.
    Pointer {
        /// Address of the word.
        word: GpuVa,
        /// The address in the word.
        to: GpuVa,
        /// The pointer of the descriptors that leads to the word; `None` if the descriptors contain it.
        through: Option<GpuVa>,
    },
}

/// A page-table entry and its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryValue {
    /// Physical address of the entry.
    pub at: PhysAddr,
    /// The entry.
    pub raw: u64,
}

/// The writer of a page-table entry that a snapshot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryWriter {
    /// A recorded CPU write.
    Cpu,
    /// Not recorded, between two events.
    Between(u64, u64),
}

/// Why a job accesses an address that a page-table entry translates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryReason {
    /// Its header is there.
    Header(GpuVa),
    /// Its shader is there.
    Shader(GpuVa),
    /// A pointer of its descriptors leads there.
    Pointer(GpuVa),
    /// A pointer of its descriptors leads into a buffer that reaches there.
    Buffer {
        /// The pointer.
        pointer: GpuVa,
        /// Index into the list of buffers.
        buffer: u32,
    },
}

/// The kind of call that refers to device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallReference {
    /// A copy.
    Copy,
    /// A fill.
    Fill,
    /// An allocation, or the end of one.
    Allocation,
}

/// How a launch refers to bytes of device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchReference {
    /// The launch changed the byte.
    Changed {
        /// The byte before.
        before: u8,
        /// The byte after.
        after: u8,
    },
    /// The launch changed some of several bytes.
    ChangedSome,
    /// The launch has the address of the buffer and did not change the bytes.
    Unchanged(ReferenceKind),
    /// The launch has the address of the buffer and may write it.
    Possible(ReferenceKind),
    /// The launch reads the buffer only, by its signature.
    ReadOnly,
}
