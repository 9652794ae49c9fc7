//! Reasons why a plan may not run.

use serde::{Deserialize, Serialize};
use trace_core::{GpuVa, PhysAddr, RegOffset};

/// The reason why a plan may not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("refused by rule {rule} at {place}: {reason}")]
pub struct Refusal {
    /// Number of the rule, 1 to 6; 0 if the plan has another device or format.
    pub rule: u8,
    /// Location in the plan.
    pub place: String,
    /// The reason.
    pub reason: Reason,
}

/// A violation by a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Reason {
    /// The plan's version is another one.
    #[error("the plan has version {found}")]
    Version {
        /// The version.
        found: u32,
    },
    /// The plan is classified by another register map than the device's.
    #[error("the plan is for the register map `{plan}`, the device has `{device}`")]
    OtherMap {
        /// Map of the plan.
        plan: String,
        /// Map of the device.
        device: String,
    },
    /// The plan was relocated into memory that the device does not grant.
    #[error("the plan was made for other memory than the device grants")]
    OtherArena,
    /// The body cannot be decoded.
    #[error("{message}")]
    Body {
        /// What is wrong with it.
        message: String,
    },
    /// A register that the map does not know and the user did not allow.
    #[error("the register at {offset:#x} is unknown and was not allowed")]
    UnknownRegister {
        /// Byte offset.
        offset: u64,
    },
    /// An allowed range covers most of the window.
    #[error("the allowed range {start:#x}..{end:#x} covers most of the MMIO region")]
    AllowedTooMuch {
        /// First offset.
        start: RegOffset,
        /// End, exclusive.
        end: RegOffset,
    },
    /// An access outside the window.
    #[error("offset {offset:#x} is outside the MMIO region of {window:#x} bytes")]
    OutsideWindow {
        /// Byte offset.
        offset: u64,
        /// Length of the window, bytes.
        window: u64,
    },
    /// An access with a width or an alignment that registers do not have.
    #[error("an access of {width} bytes at {offset:#x} is not one of a 32-bit register")]
    WidthOrAlignment {
        /// Byte offset.
        offset: u64,
        /// Width in bytes.
        width: u8,
    },
    /// A space number that plans do not have.
    #[error("space {space} is not one of a plan")]
    UnknownSpace {
        /// The space.
        space: u8,
    },
    /// A register, or a value of it, that the map does not classify as replayable.
    #[error("{register} = {value:#x} may not be replayed: {why}")]
    NotReplayable {
        /// Register name.
        register: String,
        /// The value.
        value: u64,
        /// The map's reason.
        why: String,
    },
    /// A register other than a flush id takes a live value.
    #[error("{register} takes a value that is only known during the run")]
    LiveValue {
        /// Register name.
        register: String,
    },
    /// A page image is missing.
    #[error("the page image with digest {digest} is missing")]
    PageMissing {
        /// The digest, hexadecimal.
        digest: String,
    },
    /// A page image does not have its digest.
    #[error("the page image named {digest} has another digest: it is damaged")]
    PageDamaged {
        /// The digest, hexadecimal.
        digest: String,
    },
    /// A page would be stored outside the pages that the plan uses.
    #[error("frame {frame:#x} is not among the pages that the plan uses")]
    PageOutside {
        /// The frame.
        frame: u64,
    },
    /// The list of pages is not sorted, or lists a frame twice.
    #[error("the list of pages is not sorted by frame")]
    PagesUnsorted,
    /// Page tables cannot be walked.
    #[error("the page tables cannot be walked: {message}")]
    Tables {
        /// The reason.
        message: String,
    },
    /// A page table is outside the pages that the plan uses.
    #[error("the level {level} table at {at:#x} is not among the pages that the plan uses")]
    TableOutside {
        /// Level.
        level: u8,
        /// Physical address.
        at: PhysAddr,
    },
    /// The GPU could access memory outside the pages that the plan uses.
    #[error("{va:#x} leads to {pa:#x}, which is not among the pages that the plan uses")]
    LeafOutside {
        /// GPU address.
        va: GpuVa,
        /// Physical address.
        pa: PhysAddr,
    },
    /// The GPU could write a page table.
    #[error("the GPU could write the page table at {at:#x} through {va:#x}")]
    TableWritable {
        /// GPU address.
        va: GpuVa,
        /// Physical address of the table.
        at: PhysAddr,
    },
    /// A root register's value does not match its tables.
    #[error("the root register of address space {number} would be {value:#x}, the plan's tables give {expected:#x}")]
    RootValue {
        /// Address space.
        number: u8,
        /// The value.
        value: u64,
        /// The value for the tables.
        expected: u64,
    },
    /// A root register would receive something other than the agent's tables or 0.
    #[error("{register} would receive {value:#x}, which is neither part of the agent's root nor 0")]
    ForeignRoot {
        /// Register, or pair.
        register: String,
        /// The value.
        value: u64,
    },
    /// A translation mode that bypasses the tables or does not match their format.
    #[error("{register} would receive translation mode {mode}, which is refused")]
    TranslationMode {
        /// Register name.
        register: String,
        /// The mode.
        mode: u64,
    },
    /// Translation would be on without a root.
    #[error("address space {number} would translate without the agent's tables")]
    NoTables {
        /// Address space.
        number: u8,
    },
    /// A job is submitted to an address space that is not set up.
    #[error("a job is submitted to address space {number}, which is not set up")]
    JobWithoutSpace {
        /// Address space.
        number: u8,
    },
    /// A job chain is not in mapped memory.
    #[error("the chain from {head:#x} is not in mapped memory at {va:#x}")]
    ChainUnmapped {
        /// Head of the chain.
        head: GpuVa,
        /// The unmapped address.
        va: GpuVa,
    },
    /// A job chain has no end.
    #[error("the chain from {head:#x} has no end: it comes back to {va:#x}")]
    ChainLoops {
        /// Head of the chain.
        head: GpuVa,
        /// The address that it returns to.
        va: GpuVa,
    },
    /// A job chain is too long.
    #[error("the chain from {head:#x} has more jobs than the check follows")]
    ChainTooLong {
        /// Head of the chain.
        head: GpuVa,
    },
    /// A write outside the pages that the plan uses.
    #[error("a write of {width} bytes at {offset:#x} of the arena is outside the pages that the plan uses")]
    WriteOutside {
        /// Byte offset in the arena.
        offset: u64,
        /// Width in bytes.
        width: u8,
    },
    /// A write into a page table.
    #[error("a write at {offset:#x} of the arena would change a page table")]
    WriteIntoTable {
        /// Byte offset in the arena.
        offset: u64,
    },
    /// A wait without a limit, or with a longer one than the budget.
    #[error("a wait of {limit_ns} ns; the plan's budget is {budget_ns} ns")]
    WaitLimit {
        /// The limit of the wait.
        limit_ns: u64,
        /// The budget.
        budget_ns: u64,
    },
    /// A wait for no existing line of the device.
    #[error("a wait for lines {lines:#x}, which the device does not have")]
    WaitLines {
        /// The lines.
        lines: u32,
    },
    /// The plan needs more than its budget.
    #[error("{what}: {needed} needed, {budget} allowed")]
    Budget {
        /// The resource.
        what: String,
        /// The required amount.
        needed: u64,
        /// The allowed amount.
        budget: u64,
    },
    /// The body differs from the plan's description.
    #[error("{what}: the plan says {said}, its body has {found}")]
    Unnamed {
        /// What differs.
        what: String,
        /// The value in the plan.
        said: u64,
        /// The value in the body.
        found: u64,
    },
    /// An output is not in mapped memory.
    #[error("output `{name}` is not in mapped memory at {va:#x}")]
    OutputUnmapped {
        /// Name of the buffer.
        name: String,
        /// The unmapped address.
        va: GpuVa,
    },
    /// The verification was cancelled: it says nothing about the plan.
    #[error("the check was cancelled")]
    GivenUp,
    /// The plan's recording was made on another GPU than the device's.
    #[error("the plan is for {plan_name} ({plan:#010x}), the device is {device_name} ({device:#010x})")]
    OtherGpu {
        /// Raw GPU id of the plan.
        plan: u32,
        /// Name of that GPU.
        plan_name: String,
        /// Raw GPU id of the device.
        device: u32,
        /// Name of that GPU.
        device_name: String,
    },
    /// The GPU could read a page table.
    #[error("the GPU could read the page table at {at:#x} through {va:#x}")]
    TableMapped {
        /// GPU address.
        va: GpuVa,
        /// Physical address of the table.
        at: PhysAddr,
    },
    /// A translation configuration has bits other than the mode that no known driver sets.
    #[error("{register} would receive {value:#x}: besides the mode, only {known:#x} or nothing is known to be safe")]
    TranslationConfig {
        /// Register name.
        register: String,
        /// The value.
        value: u64,
        /// The allowed bits other than the mode.
        known: u64,
    },
    /// A header of a chain is not aligned.
    #[error("the chain from {head:#x} has a header at {va:#x}, which is not a multiple of 64")]
    ChainMisaligned {
        /// Head of the chain.
        head: GpuVa,
        /// The header.
        va: GpuVa,
    },
    /// A write while a reset is under way, which the hardware may drop.
    #[error("{register} is written before the reset is known to be over")]
    Resetting {
        /// Register name.
        register: String,
    },
    /// A write to registers of a slot that is about to run.
    #[error("{register} is written while the chain in slot {slot} is not known to have ended")]
    SlotAtWork {
        /// Register name.
        register: String,
        /// The slot.
        slot: u8,
    },
    /// A command to an address space that may still be executing another.
    #[error("address space {number} gets a command before it was seen idle after the last one")]
    SpaceBusy {
        /// Address space.
        number: u8,
    },
    /// The tables of an address space would change under a chain.
    #[error("address space {number} would get other tables while the chain in slot {slot} is not known to have ended")]
    SpaceAtWork {
        /// Address space.
        number: u8,
        /// Slot of the chain.
        slot: u8,
    },
    /// A write to the arena that does not clear a status word.
    #[error("a write of {width} bytes, {value:#x}, at {offset:#x} of the arena clears no status word")]
    ArenaValue {
        /// Byte offset in the arena.
        offset: u64,
        /// Width in bytes.
        width: u8,
        /// The value.
        value: u64,
    },
    /// Status words were cleared, and no submit follows.
    #[error("status words are cleared, and no submit follows at once")]
    ClearedForNothing,
    /// A cleared word is not the status of a header in the chain that is submitted next.
    #[error("the word at {offset:#x} of the arena is cleared, but the chain from {head:#x} has no header there")]
    NotAStatus {
        /// Byte offset in the arena.
        offset: u64,
        /// Head of the chain.
        head: GpuVa,
    },
    /// A read is compared less strictly than its register's map requires.
    #[error("{register} is read as `{class}`; the register map says `{rule}`")]
    ReadWidened {
        /// Register name.
        register: String,
        /// The comparison in the plan.
        class: String,
        /// The comparison in the map.
        rule: String,
    },
    /// A job differs from the plan's list.
    #[error("job {index}: the plan says {said}, its body has {found}")]
    OtherJob {
        /// Index of the job.
        index: u64,
        /// The job in the plan.
        said: String,
        /// The job in the body.
        found: String,
    },
    /// A read is treated as state from before the recording, but the map or the plan says otherwise.
    #[error("{register} is not marked as showing what ran before the recording, or the plan has written it by then")]
    NotBefore {
        /// Register name.
        register: String,
    },
    /// A change of memory outside the pages that the plan uses, of no byte, or across two pages.
    #[error("a change of {bytes} bytes at {offset:#x} of the arena is not of one page that the plan uses")]
    ChangeOutside {
        /// Byte offset in the arena.
        offset: u64,
        /// Length, bytes.
        bytes: u32,
    },
    /// A change takes its bytes from an image that the plan does not list.
    #[error("a change takes bytes from image {image}; the plan names {images}")]
    NoImage {
        /// Its number.
        image: u32,
        /// Number of images of the plan.
        images: u64,
    },
    /// A change of a page table that does not consist of whole entries.
    #[error("a change of {bytes} bytes at {offset:#x} of the arena is not of whole entries of the page table there")]
    HalfEntry {
        /// Byte offset in the arena.
        offset: u64,
        /// Length, bytes.
        bytes: u32,
    },
    /// A change of page tables, or of the chain itself, while the chain is active.
    #[error(
        "a change at {offset:#x} of the arena, of {what}, comes while the chain in slot {slot} is not known to have ended"
    )]
    ChangeAtWork {
        /// Byte offset in the arena.
        offset: u64,
        /// `a page table` or `a page with its headers`.
        what: String,
        /// Slot of the chain.
        slot: u8,
    },
    /// A frame would become a page table although the GPU can, or could, access it.
    #[error("the frame at {at:#x} would become a page table; the GPU has been able to reach it")]
    TableReached {
        /// Physical address.
        at: PhysAddr,
    },
    /// A page table would get another level or another format.
    #[error("the page table at {at:#x} would become one of level {level} and was another")]
    TableKind {
        /// Physical address.
        at: PhysAddr,
        /// The new level.
        level: u8,
    },
    /// The plan is for another device on its bus.
    #[error("the plan is of {plan}, the device is {device}")]
    OtherHardware {
        /// Id in the plan.
        plan: String,
        /// Id of the device.
        device: String,
    },
    /// The plan's windows differ from the device's.
    #[error("the plan's MMIO regions are not those of the device")]
    OtherWindows,
    /// A plan of windows has memory, but nothing would contain the device's accesses.
    #[error("the plan of a device without page tables has {what} ({count})")]
    MemoryOfWindows {
        /// The kind of memory.
        what: String,
        /// The count.
        count: u64,
    },
    /// The device would use bus mastering, and not every address is proved.
    #[error("bus mastering refused: {why}")]
    BusMastering {
        /// What is not proved.
        why: String,
    },
    /// An expected effect covers memory that the plan does not use.
    #[error("{bytes} bytes at {offset:#x} of the arena are expected, and the plan does not use them")]
    MemoryOutside {
        /// First byte, as an offset from the start of the arena.
        offset: u64,
        /// Length, bytes.
        bytes: u64,
    },
    /// A check of an effect that the plan does not expect, or that is checked twice.
    #[error("expectation {expectation} is checked {times}; the plan has {expectations}, each of which is checked once")]
    Check {
        /// Its number.
        expectation: u32,
        /// `here`, or `a second time`.
        times: String,
        /// Number of expectations of the plan.
        expectations: u64,
    },
    /// An expected effect covers bytes that no framebuffer window has.
    #[error("{bytes} bytes at {offset:#x} of MMIO region {number} are expected, and no framebuffer has them")]
    EffectOutside {
        /// Number of the window.
        number: u8,
        /// First byte.
        offset: u64,
        /// Length, bytes.
        bytes: u64,
    },
    /// An expected effect that this kind of plan cannot have.
    #[error("the effect `{kind}` cannot be checked on this device")]
    NoEffect {
        /// Its kind.
        kind: String,
    },
    /// An API-trace plan is inconsistent, or is for another kind of device.
    #[error("{why}")]
    Calls {
        /// The reason.
        why: String,
    },
    /// A replay without a reset is not possible.
    #[error("the device needs a reset before this plan: {why}")]
    ResetNeeded {
        /// The reason.
        why: String,
    },
}

/// What a verification proved, and what it could not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerificationReport {
    /// Number of walked page-table leaves.
    pub leaves: u64,
    /// Number of walked page tables.
    pub tables: u64,
    /// Number of jobs whose chains were walked.
    pub jobs: u64,
    /// Properties that are not proved and only limited by time, one sentence each.
    pub unproved: Vec<String>,
}

/// Returns a refusal.
///
/// # Errors
/// Always.
pub fn refuse<T>(rule: u8, place: impl Into<String>, reason: Reason) -> Result<T, Refusal> {
    Err(Refusal {
        rule,
        place: place.into(),
        reason,
    })
}
