//! Reasons why a recording cannot be compiled into a plan.

use super::BodyError;
use super::MAX_ALLOWED;
use super::model_error::ModelError;
use std::error::Error;
use trace_core::mmu::{ConversionError, MmuError};
use trace_core::progress::Cancelled;
use trace_core::recording::DamagedBlock;
use trace_core::screen::PictureError;
use trace_core::{GpuVa, RegOffset};

/// The reason why a recording cannot be compiled into a plan.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The user cancelled.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// The recording holds no register accesses.
    #[error("the recording holds no register accesses to replay")]
    NothingToReplay,
    /// Memory in the file differs from the recorded memory.
    #[error("the recording is damaged: {block}; `kinescope verify` lists all damage")]
    Damaged {
        /// The first damaged block.
        block: Box<DamagedBlock>,
    },
    /// A page image of the recording is missing, or differs from its digest.
    #[error("page {page} of the recording is damaged; `kinescope verify` lists all damage")]
    DamagedPage {
        /// Its number.
        page: u32,
    },
    /// The device's register map is not known.
    #[error("the device's register map `{name}` is not known")]
    UnknownMap {
        /// Its name.
        name: String,
    },
    /// The recording is an API trace, and the device takes register accesses.
    #[error(
        "the recording is an API trace, and {device} cannot run calls: choose a target cuda:N, or the CUDA device of \
         an agent"
    )]
    TakesNoCalls {
        /// The device.
        device: String,
    },
    /// The recording has register accesses, and the device takes plans of another kind.
    #[error("{device} replays {takes}, and the recording has none")]
    TakesNoAccesses {
        /// The device.
        device: String,
        /// What the device takes.
        takes: &'static str,
    },
    /// The recording has no submissions to channels that can be replayed.
    #[error("the recording cannot be replayed on {device}: {why}")]
    Submissions {
        /// The device.
        device: String,
        /// Why.
        why: String,
    },
    /// The calls cannot be replayed, or an edit of them does not fit.
    #[error(transparent)]
    Calls(Box<dyn Error + Send + Sync>),
    /// Memory of an API trace other than its inputs was edited.
    #[error(
        "the bytes at {va} were changed: in an API trace, only the content of host-to-device copies can be changed, \
         as inputs"
    )]
    NoPatches {
        /// First byte.
        va: GpuVa,
    },
    /// There is no output of this name.
    #[error("there is no output '{name}' in the recording (there are {known})")]
    NoOutput {
        /// The name.
        name: String,
        /// The known names.
        known: String,
    },
    /// More events than a plan can number.
    #[error("the recording has {events} events; a plan numbers at most {}", u32::MAX)]
    TooManyEvents {
        /// Number of events.
        events: usize,
    },
    /// An event of this kind cannot be replayed.
    #[error("event {event} is of a kind that cannot be replayed on registers")]
    EventKind {
        /// The event.
        event: u64,
    },
    /// The data of a CPU write cannot be read.
    #[error("the host write at event {event} does not fit one page, or its page is missing")]
    HostWrite {
        /// The event.
        event: u64,
    },
    /// More images of changed pages than a plan can number.
    #[error("the recording changes more pages than a plan can number")]
    TooManyImages,
    /// The device would use bus mastering, and not every address is known.
    #[error("event {event}: bus mastering refused: {why}")]
    BusMastering {
        /// The event.
        event: u64,
        /// What is not known.
        why: String,
    },
    /// An access to a space other than the device's registers.
    #[error("event {event} accesses space {space}; only the first space (registers) can be replayed")]
    OtherSpace {
        /// The event.
        event: u64,
        /// The space.
        space: u8,
    },
    /// The recording was made of another device.
    #[error("the recording is of {recorded}; the target is {device}")]
    OtherHardware {
        /// The recorded device's id.
        recorded: String,
        /// Name and id of the target's device.
        device: String,
    },
    /// The device has no window for a space of the recording.
    #[error("event {event} accesses `{space}`, and {device} has no such MMIO region")]
    NoWindow {
        /// The event.
        event: u64,
        /// Name of the space.
        space: String,
        /// The device.
        device: String,
    },
    /// The recorded picture of the end is not valid.
    #[error("the recording's final picture cannot be read; name the expected picture")]
    Screen(#[from] PictureError),
    /// Inputs or patches for a plan without memory.
    #[error("{device} is replayed by its registers alone: there is no memory to change")]
    NoMemoryToEdit {
        /// The device.
        device: String,
    },
    /// An access does not fit the register window.
    #[error(
        "event {event}: an access of {width} bytes at {offset:#x} does not fit an MMIO region of {window:#x} bytes"
    )]
    BadAccess {
        /// The event.
        event: u64,
        /// Byte offset.
        offset: RegOffset,
        /// Width in bytes.
        width: u8,
        /// Length of the window, bytes.
        window: u64,
    },
    /// A register that the map does not know.
    #[error(
        "event {event}: the register map does not know the register at {offset:#x}; allow its range \
         {offset:#x}..{:#x} to replay it", offset.saturating_add(4)
    )]
    UnknownRegister {
        /// The event.
        event: u64,
        /// Byte offset.
        offset: RegOffset,
    },
    /// An allowed range is empty, or not a multiple of a register.
    #[error(
        "the allowed range {start:#x}..{end:#x} is not valid: both ends must be multiples of 4, and the second larger"
    )]
    AllowedUneven {
        /// First offset.
        start: RegOffset,
        /// End, exclusive.
        end: RegOffset,
    },
    /// An allowed range has a register that is known as not replayable.
    #[error("the allowed range {start:#x}..{end:#x} contains {register}, which is not replayed: {reason}")]
    AllowedKnown {
        /// First offset.
        start: RegOffset,
        /// End, exclusive.
        end: RegOffset,
        /// Name of the register.
        register: String,
        /// The map's reason.
        reason: String,
    },
    /// The allowed ranges cover too much of the window, or are too many.
    #[error(
        "with the range {start:#x}..{end:#x}, more than a quarter of the MMIO region or more than {} ranges are \
         allowed; allow only the registers that you need",
        MAX_ALLOWED
    )]
    AllowedTooMuch {
        /// First offset.
        start: RegOffset,
        /// End, exclusive.
        end: RegOffset,
    },
    /// A register, or a value of it, that the map does not classify as replayable.
    #[error("event {event}: {register} = {value:#x} is not replayed: {reason}")]
    NotReplayable {
        /// The event.
        event: u64,
        /// Register name.
        register: String,
        /// Value written.
        value: u64,
        /// The map's reason.
        reason: String,
    },
    /// A root register receives a table address that the recording has no tables for.
    #[error("event {event}: {register} receives the page tables at {value:#x}, which the recording does not hold")]
    UnknownRoot {
        /// The event.
        event: u64,
        /// Register name.
        register: String,
        /// The whole 64-bit value.
        value: u64,
    },
    /// The page tables have a format that no target has.
    #[error(
        "the page tables of address space {number} have the format {format}, which can be inspected but not replayed"
    )]
    TableFormat {
        /// Number of the address space.
        number: u8,
        /// Name of the format.
        format: &'static str,
    },
    /// The recording is of another GPU model, and does not fit the target.
    #[error("the recording of a {recorded} does not fit a {target}: {reason}")]
    OtherModel {
        /// Name of the recorded GPU.
        recorded: String,
        /// Name of the target's GPU.
        target: String,
        /// The reason.
        reason: Box<ModelError>,
    },
    /// An address is mapped that the target's GPU does not have.
    #[error("the page tables map {va}; an address of the target's GPU has {bits} bits")]
    AddressWidth {
        /// The address.
        va: GpuVa,
        /// Number of bits of an address.
        bits: u32,
    },
    /// An entry of the page tables has no equal in the format of the plan.
    #[error("the entry {raw:#x} for {va} cannot be written in the format {format}: {reason}")]
    EntryFormat {
        /// First address that the entry translates.
        va: GpuVa,
        /// The entry.
        raw: u64,
        /// Name of the plan's format.
        format: &'static str,
        /// The reason.
        reason: ConversionError,
    },
    /// The registers of an address space cannot be written for the format of the plan.
    #[error("event {event}: address space {number} cannot have page tables of the format {format}: {why}")]
    SpaceFormat {
        /// The event.
        event: u64,
        /// Number of the address space.
        number: u8,
        /// Name of the plan's format.
        format: &'static str,
        /// The reason.
        why: &'static str,
    },
    /// The page tables cannot be walked.
    #[error("the page tables of address space {number} cannot be moved")]
    Tables {
        /// Hardware number of the address space.
        number: u8,
        /// The reason.
        #[source]
        source: MmuError,
    },
    /// A page table is itself mapped for the GPU.
    #[error("a page table is mapped for the GPU at {va}")]
    TableMapped {
        /// GPU address of the mapping.
        va: GpuVa,
    },
    /// A block overlaps pages that are also mapped individually.
    #[error("the block at {va} overlaps other mappings and cannot be moved in one piece")]
    BlockOverlaps {
        /// GPU address of the block.
        va: GpuVa,
    },
    /// The device grants too little memory.
    #[error("the plan needs more than the {pages} pages of memory that the device grants")]
    ArenaTooSmall {
        /// Granted pages.
        pages: u64,
    },
    /// The page tables map more pages than a plan can check.
    #[error("the page tables map more than {limit} pages; memory that is mapped several times counts each time")]
    TooManyMapped {
        /// Maximum number of checked pages.
        limit: u64,
    },
    /// The device's memory has addresses that page tables cannot hold.
    #[error("the device's memory ends beyond 48 bits of physical address, or does not start at a page")]
    ArenaOutOfReach,
    /// No buffer of that name.
    #[error("there is no buffer `{name}`; there are: {known}")]
    UnknownBuffer {
        /// The requested name.
        name: String,
        /// The known names.
        known: String,
    },
    /// The given bytes have another length than the buffer.
    #[error("buffer `{name}` has {expected} bytes, {bytes} were given")]
    InputSize {
        /// Name of the buffer.
        name: String,
        /// Given length, bytes.
        bytes: u64,
        /// Expected length, bytes.
        expected: u64,
    },
    /// A buffer or edit refers to unmapped memory.
    #[error("{what}: nothing is mapped at {va}")]
    NotMapped {
        /// The buffer or edit.
        what: String,
        /// First unmapped address.
        va: GpuVa,
    },
    /// A buffer or edit refers to an address space that the recording does not have.
    #[error("{what} names address space {index}, which the recording does not have")]
    NoAddressSpace {
        /// The buffer or edit.
        what: String,
        /// The index.
        index: u32,
    },
    /// The body of a plan cannot be decoded.
    #[error("the plan's body cannot be read: {message}")]
    Undecodable {
        /// What is wrong with it.
        message: String,
    },
    /// An action cannot be encoded.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// A page image is missing from the recording.
    #[error("the recording lacks the page image of frame {frame:#x}")]
    PageMissing {
        /// The frame.
        frame: u64,
    },
}
