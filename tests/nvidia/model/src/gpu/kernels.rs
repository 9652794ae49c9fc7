//! Kernels as host functions, found by the bytes of their code.

mod functions;

use super::address_space::{AddressSpace, UnmappedAccess};
use super::faults::{ChannelError, ErrorCode};
use nvidia_channel::GpuVa;
use nvidia_channel::qmd::ConstantBank;
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection};

/// The compiled kernels.
static CUBINS: [&[u8]; 2] = [
    include_bytes!("../../kernels/kernels.cubin"),
    include_bytes!("../../kernels/schedule.cubin"),
];

/// First instruction of code that never ends: a branch to itself.
pub const ENDLESS_KERNEL: [u8; 16] = [
    0x47, 0x79, 0xfc, 0x00, 0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0x83, 0x03, 0x00, 0xc0, 0x0f, 0x00,
];

/// Offset of the parameters in constant bank 0.
const PARAMETERS: u64 = 0x210;
/// Maximum number of threads of a grid: the model runs them one after the other.
const MAX_THREADS: u64 = 1 << 28;

/// Classes of a GH100, as its driver lists them.
pub const HOPPER_CLASSES: [u32; 103] = [
    0x0100, 0x0101, 0x0002, 0x0080, 0x0005, 0x0078, 0x007e, 0x0079, 0x0081, 0x003e, 0x0071, 0x0000, 0x0041, 0x0001,
    0x2080, 0xc639, 0xc638, 0xc640, 0xc637, 0x000f, 0x906f, 0x90cc, 0x83de, 0xc863, 0x0090, 0xb1cc, 0xb2cc, 0xc763,
    0x900e, 0x0020, 0x0092, 0x90ce, 0x00f3, 0x0076, 0x00b1, 0x0082, 0x0083, 0x00c2, 0x003f, 0x0004, 0x2081, 0x2082,
    0x208f, 0x30f1, 0x00db, 0x402c, 0x9010, 0xa0bc, 0xa0bd, 0x0050, 0xcbca, 0x90cd, 0x00f1, 0x00e0, 0x0042, 0x00f8,
    0x00fb, 0x00f9, 0x00fe, 0x00fd, 0x00da, 0xc574, 0xc365, 0xc56f, 0xc561, 0x9067, 0x902d, 0x90f1, 0x844c, 0x90e7,
    0x90e6, 0x9074, 0x9096, 0xc076, 0xcb97, 0xc86f, 0xcbc0, 0xc8b5, 0xcba2, 0xc661, 0xa06c, 0xa080, 0xa140, 0xc369,
    0x0060, 0x0040, 0x0070, 0x007d, 0x5080, 0x50a0, 0x503b, 0x503c, 0xa081, 0xa084, 0xb8b0, 0xb8d1, 0xb8fa, 0xcb33,
    0x00de, 0xc46f, 0xc461, 0xc36f, 0xc361,
];

/// Returns whether a GH100 has a class.
pub fn is_hopper_class(class: u32) -> bool {
    HOPPER_CLASSES.contains(&class)
}

/// Function of a kernel.
type Function = fn(&KernelRun<'_>) -> Result<(), ChannelError>;

/// Whether a kernel ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelOutcome {
    Complete,
    Endless,
}

/// The known kernels: code and function.
#[derive(Debug, Default)]
pub struct KernelTable {
    kernels: Vec<(Vec<u8>, Function)>,
}

/// A grid to run.
#[derive(Debug)]
pub struct KernelRun<'a> {
    pub space: &'a AddressSpace,
    /// Address of the first instruction.
    pub program: GpuVa,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub bank_0: ConstantBank,
    /// `__constant__` variables of the module.
    pub bank_3: Option<ConstantBank>,
    /// Addresses of the module's global variables.
    pub bank_4: Option<ConstantBank>,
    /// Shared memory of a block in bytes, with what the system reserves.
    pub shared_bytes: u64,
    /// Local memory of a thread in bytes.
    pub local_bytes: u64,
    /// Address of the local memory of all threads.
    pub local_memory: GpuVa,
}

impl KernelTable {
    /// Returns the kernels of the embedded cubins.
    pub fn embedded() -> Self {
        let function = |name: &str| functions::FUNCTIONS.iter().find(|(n, _)| *n == name);
        let mut kernels = Vec::new();
        for cubin in CUBINS {
            let Ok(cubin) = ElfFile64::<object::LittleEndian>::parse(cubin) else {
                continue;
            };
            kernels.extend(cubin.sections().filter_map(|section| {
                let name = section.name().ok()?.strip_prefix(".text.")?;
                let (_, function) = function(name)?;
                Some((section.data().ok()?.to_vec(), *function))
            }));
        }
        Self { kernels }
    }

    /// Runs a grid.
    ///
    /// # Errors
    /// An MMU fault for unknown code and for accesses without memory, an exception for misaligned accesses.
    pub fn run(&self, run: &KernelRun<'_>) -> Result<KernelOutcome, ChannelError> {
        let first: [u8; 16] = run.space.read_array(run.program)?;
        if first == ENDLESS_KERNEL {
            return Ok(KernelOutcome::Endless);
        }
        let threads = run.grid.iter().chain(&run.block);
        let threads = threads.fold(1u64, |n, dimension| n.saturating_mul(u64::from(*dimension)));
        if threads > MAX_THREADS || run.block.iter().product::<u32>() > 1024 {
            return Err(ChannelError::new(ErrorCode::GraphicsException));
        }
        let kernel = self.kernels.iter().find(|(code, _)| {
            let memory = run.space.read_vec(run.program, code.len());
            memory.is_ok_and(|memory| memory == *code)
        });
        let (_, function) = kernel.ok_or(UnmappedAccess {
            address: run.program,
            write: false,
        })?;
        function(run)?;
        Ok(KernelOutcome::Complete)
    }
}

/// An invocation of a kernel.
#[derive(Debug, Clone, Copy)]
pub struct Thread {
    /// Position of the block.
    pub block: [u32; 3],
    /// Position in the block.
    pub thread: [u32; 3],
}

impl KernelRun<'_> {
    /// Returns the positions of all blocks.
    fn blocks(&self) -> impl Iterator<Item = [u32; 3]> + use<> {
        positions(self.grid)
    }

    /// Returns the threads of all blocks.
    fn threads(&self) -> impl Iterator<Item = Thread> + use<> {
        let size = self.block;
        self.blocks()
            .flat_map(move |block| positions(size).map(move |thread| Thread { block, thread }))
    }

    /// Returns the number of a thread in a grid of one dimension.
    fn index(&self, thread: &Thread) -> u32 {
        let start = thread.block[0].wrapping_mul(self.block[0]);
        start.wrapping_add(thread.thread[0])
    }

    /// Reads bytes of a constant bank.
    fn constant<const N: usize>(&self, bank: Option<ConstantBank>, offset: u64) -> Result<[u8; N], ChannelError> {
        let exception = ChannelError::new(ErrorCode::GraphicsException);
        let bank = bank.ok_or(exception)?;
        let end = offset.checked_add(N as u64).ok_or(exception)?;
        if end > bank.bytes {
            return Err(exception);
        }
        Ok(self
            .space
            .read_array(bank.address.checked_add(offset).ok_or(exception)?)?)
    }

    /// Reads bytes of a parameter.
    fn parameter<const N: usize>(&self, offset: u64) -> Result<[u8; N], ChannelError> {
        self.constant(Some(self.bank_0), PARAMETERS.saturating_add(offset))
    }

    /// Reads a parameter that is an address.
    fn pointer(&self, offset: u64) -> Result<GpuVa, ChannelError> {
        Ok(GpuVa(u64::from_le_bytes(self.parameter(offset)?)))
    }

    /// Reads a parameter of 32 bits.
    fn word(&self, offset: u64) -> Result<u32, ChannelError> {
        Ok(u32::from_le_bytes(self.parameter(offset)?))
    }

    /// Returns the address of a word of an array.
    fn element(&self, array: GpuVa, index: u64) -> Result<GpuVa, ChannelError> {
        let address = index.checked_mul(4).and_then(|offset| array.checked_add(offset));
        let address = address.ok_or(ChannelError::new(ErrorCode::MmuFault))?;
        match address.0.is_multiple_of(4) {
            true => Ok(address),
            false => Err(ChannelError::misaligned(address, self.program)),
        }
    }

    /// Loads a word of an array.
    fn load(&self, array: GpuVa, index: u64) -> Result<u32, ChannelError> {
        let address = self.element(array, index)?;
        Ok(u32::from_le_bytes(self.space.read_array(address)?))
    }

    /// Stores a word of an array.
    fn store(&self, array: GpuVa, index: u64, value: u32) -> Result<(), ChannelError> {
        let address = self.element(array, index)?;
        Ok(self.space.write(address, &value.to_le_bytes())?)
    }
}

/// Returns all positions in a box, x first.
fn positions(size: [u32; 3]) -> impl Iterator<Item = [u32; 3]> {
    let [width, height, depth] = size;
    (0..depth).flat_map(move |z| (0..height).flat_map(move |y| (0..width).map(move |x| [x, y, z])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_has_code() {
        assert_eq!(KernelTable::embedded().kernels.len(), functions::FUNCTIONS.len());
        let last = KernelTable::embedded();
        let ends = last
            .kernels
            .iter()
            .all(|(code, _)| code.windows(16).any(|w| w == ENDLESS_KERNEL));
        assert!(ends, "each kernel has a branch to itself after its end");
    }

    #[test]
    fn classes_of_a_hopper() {
        for class in [
            0xc86f, 0xcbc0, 0xc8b5, 0xc661, 0x90f1, 0xa06c, 0x9067, 0x83de, 0x50a0, 0x71,
        ] {
            assert!(is_hopper_class(class), "{class:#06x}");
        }
        assert!(!is_hopper_class(0xc7c0));
    }
}
