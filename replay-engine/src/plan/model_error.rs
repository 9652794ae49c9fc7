//! Reasons why a recording of one GPU model does not fit another model.

use trace_core::GpuVa;
use trace_core::families::ModelMismatch;
use trace_core::shader_code::CodeEnd;

/// The reason why a recording of one GPU model does not fit another model of its group.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The models are not of one group.
    #[error(transparent)]
    Mismatch(#[from] ModelMismatch),
    /// The values of the target's registers are known only for simulators.
    #[error(
        "{device} does not report its feature registers; a recording of another model can be replayed on simulators only"
    )]
    NotReported {
        /// The device.
        device: String,
    },
    /// The device's memory has addresses that the target's page tables cannot hold.
    #[error("the device's memory ends beyond the {bits} bits of a physical address")]
    PhysicalWidth {
        /// Number of bits of a physical address.
        bits: u32,
    },
    /// Cores are selected, powered up or powered down of which the target has none.
    #[error("event {event}: {register} names the cores {recorded:#x}, and the target has the cores {present:#x}")]
    Cores {
        /// The event.
        event: u64,
        /// Name of the register.
        register: String,
        /// The recorded mask.
        recorded: u64,
        /// The target's cores.
        present: u64,
    },
    /// A power change that would change nothing on the target.
    #[error(
        "event {event}: {register} changes the power of the cores {recorded:#x}, which changes nothing on the target with \
         the cores {present:#x}: the interrupt that the recording waits for would not come"
    )]
    PowerStep {
        /// The event.
        event: u64,
        /// Name of the register.
        register: String,
        /// The recorded mask.
        recorded: u64,
        /// The target's cores.
        present: u64,
    },
    /// A job slot that the target does not have.
    #[error("event {event}: the chain is for slot {slot}, which the target does not have")]
    Slot {
        /// The event.
        event: u64,
        /// The slot.
        slot: u8,
    },
    /// An address space that the target does not have.
    #[error("event {event}: the chain is for address space {number}, which the target does not have")]
    Space {
        /// The event.
        event: u64,
        /// The address space.
        number: u8,
    },
    /// A job type that the slot of the target does not run.
    #[error("the job at {job} is a {kind} job, which slot {slot} of the target does not run")]
    JobKind {
        /// The job.
        job: GpuVa,
        /// Name of its type.
        kind: &'static str,
        /// The slot.
        slot: u8,
    },
    /// A job whose needs cannot be found out.
    #[error("the job at {job} cannot be checked for the target: {why}")]
    Unchecked {
        /// The job.
        job: GpuVa,
        /// What cannot be read, in words.
        why: String,
    },
    /// Storage of threads or workgroups is too small for the target's cores.
    #[error(
        "the job at {job} has {found} bytes of {storage} storage at {va}; the target needs {needed}: {each} bytes for \
         each of {instances} {storage}s on {cores} cores"
    )]
    Storage {
        /// The job.
        job: GpuVa,
        /// `thread` or `workgroup`.
        storage: &'static str,
        /// Start of the storage.
        va: GpuVa,
        /// Size that the recording has there, bytes.
        found: u64,
        /// Size that the target needs, bytes.
        needed: u64,
        /// Size for each thread or workgroup, bytes.
        each: u64,
        /// Threads or workgroups of a core.
        instances: u64,
        /// Core numbers of the target.
        cores: u64,
    },
    /// A shader uses an instruction that the target does not have.
    #[error("the shader at {shader} uses {instruction} in the clause at {clause}, which the target lacks: {why}")]
    Instruction {
        /// First clause of the shader.
        shader: GpuVa,
        /// Address of the clause.
        clause: GpuVa,
        /// Name of the instruction.
        instruction: &'static str,
        /// Why it does not exist.
        why: &'static str,
    },
    /// A shader uses an instruction that is not known.
    #[error(
        "the shader at {shader} has an unknown instruction in the clause at {clause} ({unit} bits {bits:#x}): whether the \
         target has it is not known"
    )]
    UnknownInstruction {
        /// First clause of the shader.
        shader: GpuVa,
        /// Address of the clause.
        clause: GpuVa,
        /// `FMA` or `ADD`.
        unit: &'static str,
        /// The bits.
        bits: u32,
    },
    /// The code of a shader cannot be followed to its end.
    #[error("the shader at {shader} cannot be followed: {}", end.describe())]
    Code {
        /// First clause of the shader.
        shader: GpuVa,
        /// Where the code ends.
        end: CodeEnd,
    },
    /// The shaders of the recording are too long to check.
    #[error("the shaders of the recording have more than {limit} bytes, which is the maximum that is checked")]
    TooMuchCode {
        /// Maximum number of bytes.
        limit: u64,
    },
    /// Fragment jobs may use more tile buffer than a core of the target has.
    #[error(
        "the fragment job at {job} may use {recorded} bytes of a core's {buffer} tile buffer; the target has {target}"
    )]
    TileBuffer {
        /// The job.
        job: GpuVa,
        /// `color` or `depth`.
        buffer: &'static str,
        /// Size on the recorded model, bytes.
        recorded: u32,
        /// Size on the target, bytes.
        target: u32,
    },
    /// Tiler jobs may use more levels than the tiler of the target has.
    #[error("the tiler job at {job} may use {recorded} levels of the tiler's hierarchy; the target has {target}")]
    TilerLevels {
        /// The job.
        job: GpuVa,
        /// Levels on the recorded model.
        recorded: u32,
        /// Levels on the target.
        target: u32,
    },
    /// A shader reads textures, and the target lacks formats of the recorded model.
    #[error(
        "the job at {job} reads textures, and the target lacks the formats {missing:#010x} of TEXTURE_FEATURES_{word}"
    )]
    TextureFormats {
        /// The job.
        job: GpuVa,
        /// Bits of the missing formats.
        missing: u32,
        /// Number of the register.
        word: usize,
    },
}
