//! A compute launch: its descriptor, and what constant bank 0 says.

mod request;

pub use request::{BuiltLaunch, Delivery, KernelDescription, LaunchBuildError, LaunchRequest, PREFETCH_TAIL_BYTES};

use crate::GpuVa;
use crate::memory::{MemoryReader, PartialBytes, UploadedMemory};
use crate::qmd::{ConstantBank, Dependent, MAX_QMD_BYTES, Qmd, QmdError, QmdKind, QmdVersion, Release};
use thiserror::Error;

/// Maximum number of bytes of constant bank 0 that are read: no bank can be larger.
pub const MAX_CONSTANT_BANK_BYTES: u64 = 64 << 10;
/// Offset in constant bank 0 of the address of the first parameter, as CUDA's driver writes it on Hopper.
const PARAMETERS_START: usize = 0x198;
/// Offset in constant bank 0 of the address after the last parameter.
const PARAMETERS_END: usize = 0x1a0;

/// A launch whose descriptor cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LaunchError {
    /// The memory of the descriptor is unknown.
    #[error("word {word}: the memory of the launch descriptor at {address} is unknown")]
    UnknownMemory {
        /// Offset in words of the method that launches.
        word: usize,
        /// Address of the descriptor.
        address: GpuVa,
    },
    /// The memory is no descriptor.
    #[error("word {word}: the launch descriptor at {address} is damaged: {source}")]
    Damaged {
        /// Offset in words of the method that launches.
        word: usize,
        /// Address of the descriptor.
        address: GpuVa,
        /// What is wrong.
        source: QmdError,
    },
}

impl LaunchError {
    /// Returns the offset in words of the method that launches.
    #[must_use]
    pub fn word(&self) -> usize {
        match self {
            Self::UnknownMemory { word, .. } | Self::Damaged { word, .. } => *word,
        }
    }
}

/// A compute launch.
#[derive(Debug, Clone, PartialEq)]
pub struct Launch {
    /// Offset in words of the method that launches.
    pub word: usize,
    /// Class of the compute engine.
    pub class: u16,
    /// Address of the descriptor.
    pub descriptor_address: GpuVa,
    /// The descriptor; [`Qmd::parse`] reads its other fields.
    pub descriptor: Vec<u8>,
    /// Version of the descriptor.
    pub version: QmdVersion,
    /// What is started.
    pub kind: QmdKind,
    /// Number of blocks in x, y and z.
    pub grid: [u32; 3],
    /// Number of threads in x, y and z of a block.
    pub block: [u32; 3],
    /// Number of blocks in x, y and z of a cluster, for a grid of clusters.
    pub cluster: Option<[u32; 3]>,
    /// Shared memory of a block in bytes, with the part that the system reserves.
    pub shared_bytes: u64,
    /// Local memory of a thread in bytes.
    pub local_bytes: u64,
    /// Number of registers of a thread.
    pub registers: u32,
    /// Number of barriers of a block.
    pub barriers: u32,
    /// Address of the first instruction.
    pub program_address: GpuVa,
    /// Constant banks.
    pub constant_banks: Vec<ConstantBank>,
    /// Content of constant bank 0. Bytes that neither push buffers nor memory have are unknown.
    pub bank_0: PartialBytes,
    /// Parameters of the kernel, if they are known.
    pub parameters: Option<Vec<u8>>,
    /// Semaphores that are released at the end.
    pub releases: Vec<Release>,
    /// Other descriptors that the end acts on.
    pub dependents: Vec<Dependent>,
}

/// Returns the offset of the parameters in constant bank 0, or `None` for an unknown compute class.
#[must_use]
pub fn parameter_offset(class: u16) -> Option<usize> {
    match class {
        // Compute capability 7.0 to 8.9, 9.0, and 10.0 to 12.1, as in the attribute PARAM_CBANK of cubins.
        0xc3c0 | 0xc4c0 | 0xc5c0 | 0xc6c0 | 0xc7c0 | 0xc9c0 => Some(0x160),
        0xcbc0 => Some(0x210),
        0xcdc0 | 0xcec0 => Some(0x380),
        _ => None,
    }
}

impl Launch {
    /// Reads the descriptor at an address, and constant bank 0.
    ///
    /// # Errors
    /// If the memory of the descriptor is unknown or no descriptor.
    pub fn read(
        word: usize,
        class: u16,
        address: GpuVa,
        uploads: &UploadedMemory,
        memory: &dyn MemoryReader,
    ) -> Result<Self, LaunchError> {
        // Descriptors of 256 bytes may be followed by unknown memory.
        let read = uploads.read(address, MAX_QMD_BYTES, memory);
        let read = match read.is_complete() {
            true => read,
            false => {
                let end = read.known_after(0).unwrap_or(0);
                let end = if end < 256 { 256 } else { end };
                uploads.read(address, end, memory)
            }
        };
        let bytes = read.get(0..read.len());
        let bytes = bytes.ok_or(LaunchError::UnknownMemory { word, address })?;
        let damaged = |source| LaunchError::Damaged { word, address, source };
        let qmd = Qmd::parse(bytes, Some(class)).map_err(damaged)?;
        Ok(Self::from_qmd(word, class, address, &qmd, uploads, memory))
    }

    fn from_qmd(
        word: usize,
        class: u16,
        address: GpuVa,
        qmd: &Qmd<'_>,
        uploads: &UploadedMemory,
        memory: &dyn MemoryReader,
    ) -> Self {
        let constant_banks: Vec<ConstantBank> = qmd.constant_banks().collect();
        let bank = constant_banks.iter().find(|b| b.index == 0);
        let bank_0 = bank.map(|bank| {
            let bytes = bank.bytes.min(MAX_CONSTANT_BANK_BYTES) as usize;
            uploads.read(bank.address, bytes, memory)
        });
        let bank_0 = bank_0.unwrap_or_default();
        let parameters = bank.and_then(|bank| find_parameters(class, bank.address, &bank_0));
        Self {
            word,
            class,
            descriptor_address: address,
            descriptor: qmd.bytes().to_vec(),
            version: qmd.version(),
            kind: qmd.kind(),
            grid: qmd.grid().unwrap_or_default(),
            block: qmd.block().unwrap_or_default(),
            cluster: qmd.cluster(),
            shared_bytes: qmd.shared_bytes().unwrap_or_default(),
            local_bytes: qmd.local_bytes().map_or(0, |[low, high]| low + high),
            registers: qmd.registers().unwrap_or_default() as u32,
            barriers: qmd.barriers().unwrap_or_default() as u32,
            program_address: qmd.program_address().unwrap_or_default(),
            constant_banks,
            bank_0,
            parameters,
            releases: qmd.releases().collect(),
            dependents: qmd.dependents().collect(),
        }
    }
}

/// Returns the parameters in constant bank 0. CUDA's driver writes their addresses into the bank on Hopper. Without
/// these, all known bytes from the first parameter on are returned.
fn find_parameters(class: u16, address: GpuVa, bank: &PartialBytes) -> Option<Vec<u8>> {
    let offset = parameter_offset(class)?;
    let start = address.checked_add(offset as u64)?;
    let end = bank.known_after(offset)?;
    let written = match (bank.u64(PARAMETERS_START), bank.u64(PARAMETERS_END)) {
        (Some(from), Some(to)) if class == 0xcbc0 && from == start.0 => to.checked_sub(from),
        _ => None,
    };
    let written = written.and_then(|bytes| offset.checked_add(usize::try_from(bytes).ok()?));
    let end = written.filter(|e| *e <= bank.len()).unwrap_or(end);
    bank.get(offset..end).map(<[u8]>::to_vec)
}
