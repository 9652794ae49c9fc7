//! Constant bank 0 of a launch: the part that a driver writes, and the parameters of the kernel.

use crate::GpuVa;
use thiserror::Error;

/// Offset of the parameters in constant bank 0 for compute capability 9.0.
pub const PARAMETER_OFFSET: u64 = 0x210;
/// Maximum number of parameter bytes of a kernel.
pub const MAX_PARAMETER_BYTES: usize = 32_764;
/// First value of the stack pointer of a thread: the end of the 16 MiB window of local memory, less a reserved part.
pub const STACK_POINTER: u32 = 0xff_fdc0;
/// Bytes at the top of a thread's local memory, above its first stack pointer.
pub const RESERVED_STACK_BYTES: u64 = 0x240;
/// The size of a bank is a multiple of this, in bytes.
const BANK_UNIT: usize = 256;

/// Ranges of the driver part that [`ConstantBank0`] writes, or that may be zero, as first and last byte.
///
/// The last range is the descriptor of global memory: a kernel that reads zero there runs.
const KNOWN_RANGES: [(u16, u16); 14] = [
    (0x00, 0x2f),
    (0x30, 0x33),
    (0x38, 0x3f),
    (0xc0, 0xc7),
    (0x10c, 0x10f),
    (0x114, 0x117),
    (0x118, 0x11f),
    (0x13c, 0x13f),
    (0x144, 0x167),
    (0x16c, 0x16f),
    (0x170, 0x177),
    (0x188, 0x18b),
    (0x198, 0x1a7),
    (0x208, 0x20f),
];

/// A constant bank that cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BankError {
    /// The kernel has its parameters at another offset.
    #[error("the parameters begin at offset {offset:#x} of constant bank 0: only {PARAMETER_OFFSET:#x} is supported")]
    ParameterOffset {
        /// The offset.
        offset: u64,
    },
    /// There are more parameters than a bank holds.
    #[error("{bytes} bytes of parameters exceed the maximum of {MAX_PARAMETER_BYTES}")]
    ParameterBytes {
        /// Number of bytes.
        bytes: usize,
    },
    /// A cluster does not divide the grid, or has no blocks.
    #[error("a cluster of {cluster:?} blocks does not divide a grid of {grid:?} blocks")]
    Cluster {
        /// Blocks of a cluster in x, y and z.
        cluster: [u32; 3],
        /// Blocks of the grid in x, y and z.
        grid: [u32; 3],
    },
    /// The addresses of the parameters exceed the address space.
    #[error("constant bank 0 at {address} reaches beyond the address space")]
    Address {
        /// Address of the bank.
        address: GpuVa,
    },
}

/// Content of constant bank 0 for compute capability 9.0, as CUDA's driver writes it.
///
/// Some fields of the driver have unknown meaning and stay zero: 0x40 to 0x6b, 0xc8 to 0xdf, 0x1a8 and 0x200.
/// [`is_known_offset`] tells which a kernel may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConstantBank0<'a> {
    /// Address of the bank.
    pub address: GpuVa,
    /// Number of threads in x, y and z of a block.
    pub block: [u32; 3],
    /// Number of blocks in x, y and z.
    pub grid: [u32; 3],
    /// Number of blocks in x, y and z of a cluster; 1 each without clusters.
    pub cluster: [u32; 3],
    /// Base of the window of shared memory.
    pub shared_window: GpuVa,
    /// Base of the window of local memory.
    pub local_window: GpuVa,
    /// Dynamic shared memory of a block in bytes.
    pub dynamic_shared_bytes: u32,
    /// Shared memory of a block in bytes: reserved, static and dynamic part.
    pub shared_bytes: u32,
    /// Shared memory of a block that the system reserves, in bytes.
    pub reserved_shared_bytes: u32,
    /// Number of the launch in its context.
    pub launch_number: u32,
    /// Address of the launch descriptor.
    pub descriptor: GpuVa,
    /// Number of SMs of the GPU; 0 if it is unknown.
    pub sm_count: u32,
    /// Address of the first instruction.
    pub program: GpuVa,
    /// Parameters of the kernel.
    pub parameters: &'a [u8],
}

impl ConstantBank0<'_> {
    /// Returns the bytes of the bank, a multiple of 256.
    ///
    /// # Errors
    /// If the parameters are too long, or a cluster does not divide the grid.
    pub fn to_bytes(&self) -> Result<Vec<u8>, BankError> {
        let parameters = self.parameters.len();
        if parameters > MAX_PARAMETER_BYTES {
            return Err(BankError::ParameterBytes { bytes: parameters });
        }
        let start = self.address.checked_add(PARAMETER_OFFSET);
        let end = start.and_then(|s| s.checked_add(parameters as u64));
        let address_error = BankError::Address { address: self.address };
        let (start, end) = start.zip(end).ok_or(address_error)?;
        let clusters = self.clusters()?;

        // Offsets are constants below the parameters, and the parameters are limited, so that all writes fit.
        let offset = PARAMETER_OFFSET as usize;
        let mut bank = BankBytes(vec![0; (offset + parameters).next_multiple_of(BANK_UNIT)]);
        bank.words(0x000, self.block);
        bank.words(0x00c, self.grid);
        bank.address(0x018, self.shared_window);
        bank.address(0x020, self.local_window);
        bank.words(0x028, [STACK_POINTER, self.dynamic_shared_bytes, self.launch_number]);
        bank.address(0x038, self.descriptor);
        bank.address(0x0c0, self.address);
        bank.words(0x10c, [self.sm_count]);
        bank.words(0x114, [self.reserved_shared_bytes]);
        bank.address(0x118, self.program);
        bank.words(0x13c, [self.shared_bytes]);
        bank.words(0x144, self.cluster);
        // The reciprocals were recorded for 1 only.
        bank.words(0x150, self.cluster.map(|n| (1.0 / n as f32).to_bits()));
        bank.words(0x15c, clusters);
        bank.words(0x16c, [0x0100_0000]);
        bank.address(0x170, self.shared_window);
        let [x, y, z] = self.cluster;
        bank.words(0x188, [x.saturating_mul(y).saturating_mul(z)]);
        bank.address(0x198, start);
        bank.address(0x1a0, end);
        bank.bytes(offset, self.parameters);
        Ok(bank.0)
    }

    /// Returns the number of clusters in x, y and z.
    fn clusters(&self) -> Result<[u32; 3], BankError> {
        let mut clusters = [0; 3];
        for (number, (grid, cluster)) in clusters.iter_mut().zip(self.grid.iter().zip(self.cluster)) {
            let whole = grid.checked_rem(cluster) == Some(0);
            let error = BankError::Cluster {
                cluster: self.cluster,
                grid: self.grid,
            };
            *number = grid.checked_div(cluster).filter(|_| whole).ok_or(error)?;
        }
        Ok(clusters)
    }
}

/// Returns whether a kernel of compute capability 9.0 may read bytes of constant bank 0: a field that
/// [`ConstantBank0`] writes, or a parameter.
#[must_use]
pub fn is_known_offset(offset: u16, bytes: u16) -> bool {
    let last = u32::from(offset) + u32::from(bytes.max(1)) - 1;
    if u64::from(offset) >= PARAMETER_OFFSET {
        return true;
    }
    // A read may cross fields that follow each other.
    (u32::from(offset)..=last).all(|at| {
        let mut ranges = KNOWN_RANGES.iter();
        u64::from(at) >= PARAMETER_OFFSET || ranges.any(|(from, to)| (u32::from(*from)..=(*to).into()).contains(&at))
    })
}

/// Bytes of the bank.
struct BankBytes(Vec<u8>);

impl BankBytes {
    fn bytes(&mut self, at: usize, bytes: &[u8]) {
        let target = self.0.iter_mut().skip(at);
        for (to, from) in target.zip(bytes) {
            *to = *from;
        }
    }

    fn words<const N: usize>(&mut self, at: usize, words: [u32; N]) {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.bytes(at, &bytes);
    }

    fn address(&mut self, at: usize, address: GpuVa) {
        self.bytes(at, &address.0.to_le_bytes());
    }
}

#[cfg(test)]
mod tests;
