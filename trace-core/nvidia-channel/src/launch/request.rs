//! Builder of a launch: a kernel, a grid and arguments become memory contents and push buffer words.

use crate::GpuVa;
use crate::constant_bank::{BankError, ConstantBank0, PARAMETER_OFFSET, RESERVED_STACK_BYTES};
use crate::qmd::{
    CacheInvalidation, ConstantBank, Prefetch, QmdBuildError, QmdBuilder, QmdKind, Release, ReleaseFence,
    SharedConfiguration,
};
use crate::writer::{EncodeError, LaunchAction, MemoryWindows, PushBufferWriter, ShaderCaches, UploadFlush};
use thiserror::Error;

/// Maximum number of threads of a block.
const MAX_BLOCK_THREADS: u64 = 1024;
/// Maximum number of threads of a block in x, y and z.
const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];
/// Maximum number of blocks in x, y and z.
const MAX_GRID: [u32; 3] = [0x7fff_ffff, 0xffff, 0xffff];
/// Maximum number of blocks of a cluster.
const MAX_CLUSTER_BLOCKS: u64 = 16;
/// Minimum number of registers of a thread, as CUDA's driver sets it.
const MIN_REGISTERS: u32 = 16;
/// Bytes after the code that the GPU loads ahead, as CUDA's driver sets it. They must be readable.
pub const PREFETCH_TAIL_BYTES: u64 = 0x800;

/// What a launch needs to know of a kernel in GPU memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelDescription {
    /// Mangled name.
    pub name: String,
    /// Address of the first instruction.
    pub program: GpuVa,
    /// Size of the instructions in bytes.
    pub code_bytes: u64,
    /// Version of the instruction set, such as 0x90.
    pub sass_version: u8,
    /// Number of registers of a thread.
    pub registers: u32,
    /// Number of barriers of a block.
    pub barriers: u32,
    /// Static shared memory of a block in bytes, without the reserved part.
    pub static_shared_bytes: u64,
    /// Shared memory of a block that the system reserves, in bytes.
    pub reserved_shared_bytes: u64,
    /// Stack of a thread in bytes, with its callees.
    pub stack_bytes: u64,
    /// Offset of the parameters in constant bank 0.
    pub parameter_offset: u64,
    /// Size of the parameters in bytes.
    pub parameter_bytes: u64,
    /// Maximum number of threads of a block, in x, y and z.
    pub max_threads: Option<[u32; 3]>,
    /// Required number of threads of a block, in x, y and z.
    pub required_threads: Option<[u32; 3]>,
    /// Number of blocks of a cluster that the kernel requires, in x, y and z.
    pub cluster: Option<[u32; 3]>,
    /// Constant banks other than 0.
    pub banks: Vec<ConstantBank>,
}

/// How the launch descriptor and constant bank 0 reach memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// The caller writes both before it submits the words.
    Memory,
    /// The words upload both.
    Upload,
    /// The caller writes constant bank 0, and the words hold the descriptor.
    InlineDescriptor,
}

/// A launch to build.
#[derive(Debug, Clone)]
pub struct LaunchRequest<'a> {
    /// The kernel.
    pub kernel: &'a KernelDescription,
    /// Number of blocks in x, y and z.
    pub grid: [u32; 3],
    /// Number of threads in x, y and z of a block.
    pub block: [u32; 3],
    /// Number of blocks in x, y and z of a cluster. `None` uses what the kernel requires, or no clusters.
    pub cluster: Option<[u32; 3]>,
    /// Dynamic shared memory of a block in bytes.
    pub dynamic_shared_bytes: u32,
    /// Parameters in the layout of the kernel.
    pub parameters: &'a [u8],
    /// Address of constant bank 0, a multiple of 64. The bank has 256 bytes or a multiple.
    pub constant_bank_0: GpuVa,
    /// Address of the descriptor, a multiple of 256 below 2^40 (2^49 for [`Delivery::InlineDescriptor`]).
    pub descriptor: GpuVa,
    /// Windows of shared and local memory of the channel.
    pub windows: MemoryWindows,
    /// Local memory of a thread that the channel has, in bytes.
    pub local_bytes: u32,
    /// Number of SMs of the GPU; 0 if it is unknown.
    pub sm_count: u32,
    /// Number of the launch in its context.
    pub launch_number: u32,
    /// Semaphore that the GPU writes when the grid is complete.
    pub release: Option<Release>,
    /// How the descriptor and the bank reach memory.
    pub delivery: Delivery,
}

/// A built launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltLaunch {
    /// Content of constant bank 0.
    pub constant_bank_0: Vec<u8>,
    /// The descriptor.
    pub descriptor: Vec<u8>,
    /// Words of the push buffer.
    pub words: Vec<u32>,
}

/// A launch that cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LaunchBuildError {
    /// A size of the launch is out of range.
    #[error("{kernel}: {what} {value:?} is not possible: {reason}")]
    Dimensions {
        /// Name of the kernel.
        kernel: String,
        /// What it is.
        what: &'static str,
        /// The value in x, y and z.
        value: [u32; 3],
        /// Why it is not possible.
        reason: &'static str,
    },
    /// The number of parameter bytes differs from the kernel's.
    #[error("{kernel}: {given} bytes of parameters are given; the kernel has {expected}")]
    Parameters {
        /// Name of the kernel.
        kernel: String,
        /// Number of bytes.
        given: u64,
        /// Number of bytes of the kernel.
        expected: u64,
    },
    /// A block needs more shared memory than an SM has.
    #[error("{kernel}: a block needs {bytes} bytes of shared memory, more than an SM has")]
    SharedMemory {
        /// Name of the kernel.
        kernel: String,
        /// Number of bytes, with the reserved part.
        bytes: u64,
    },
    /// A thread needs more local memory than the channel has.
    #[error("{kernel}: a thread needs {needed} bytes of local memory; the channel has {available}")]
    LocalMemory {
        /// Name of the kernel.
        kernel: String,
        /// Number of bytes that the kernel needs.
        needed: u64,
        /// Number of bytes that the channel has.
        available: u64,
    },
    /// Constant bank 0 cannot be built.
    #[error(transparent)]
    Bank(#[from] BankError),
    /// The descriptor cannot be built.
    #[error(transparent)]
    Descriptor(#[from] QmdBuildError),
    /// The words cannot be written.
    #[error(transparent)]
    Words(#[from] EncodeError),
}

impl LaunchRequest<'_> {
    /// Builds the launch for the compute class that the writer's channel has. The writer holds nothing of it afterwards.
    ///
    /// # Errors
    /// If the kernel cannot run with these sizes, or a part does not fit its field.
    pub fn build(&self, writer: &PushBufferWriter) -> Result<BuiltLaunch, LaunchBuildError> {
        let class = writer.compute_class()?;
        let cluster = self.check_sizes()?;
        let shared = self.shared_bytes()?;
        let threads = product(self.block);
        let configuration = SharedConfiguration::for_grid(shared, threads).ok_or_else(|| self.shared_error(shared))?;
        let constant_bank_0 = self.bank(cluster, shared)?.to_bytes()?;
        let descriptor = self.descriptor(class, cluster, shared, configuration, constant_bank_0.len() as u64)?;

        let mut words = PushBufferWriter::new(*writer.bindings());
        match self.delivery {
            Delivery::Memory => {
                words.invalidate_shader_caches(ShaderCaches::ALL, false)?;
                words.launch_descriptor(self.descriptor, LaunchAction::PrefetchSchedule)?;
            }
            Delivery::Upload => {
                words.upload(self.constant_bank_0, &constant_bank_0, UploadFlush::Channel)?;
                words.upload(self.descriptor, &descriptor, UploadFlush::Channel)?;
                words.launch_descriptor(self.descriptor, LaunchAction::InvalidateCopySchedule)?;
            }
            Delivery::InlineDescriptor => {
                words.invalidate_shader_caches(ShaderCaches::ALL, false)?;
                words.launch_inline_descriptor(self.descriptor, &descriptor)?;
            }
        }
        Ok(BuiltLaunch {
            constant_bank_0,
            descriptor,
            words: words.take_words(),
        })
    }

    /// Checks sizes, and returns the number of blocks of a cluster, or `None` without clusters.
    fn check_sizes(&self) -> Result<Option<[u32; 3]>, LaunchBuildError> {
        let kernel = self.kernel;
        let error = |what, value, reason| LaunchBuildError::Dimensions {
            kernel: kernel.name.clone(),
            what,
            value,
            reason,
        };
        let exceeds = |value: [u32; 3], max: [u32; 3]| value.iter().zip(max).any(|(v, max)| *v == 0 || *v > max);
        if exceeds(self.grid, MAX_GRID) {
            return Err(error(
                "a grid of",
                self.grid,
                "each number must be 1 to the maximum of the GPU",
            ));
        }
        if exceeds(self.block, MAX_BLOCK) || product(self.block) > MAX_BLOCK_THREADS {
            return Err(error("a block of", self.block, "it must have 1 to 1024 threads"));
        }
        if kernel.max_threads.is_some_and(|max| product(self.block) > product(max)) {
            return Err(error(
                "a block of",
                self.block,
                "the kernel was compiled for less threads",
            ));
        }
        if kernel.required_threads.is_some_and(|required| required != self.block) {
            return Err(error("a block of", self.block, "the kernel requires another block"));
        }
        let cluster = self.cluster.or(kernel.cluster);
        if let Some(cluster) = cluster {
            if product(cluster) == 0 || product(cluster) > MAX_CLUSTER_BLOCKS {
                return Err(error("a cluster of", cluster, "it must have 1 to 16 blocks"));
            }
            if kernel.cluster.is_some_and(|required| required != cluster) {
                return Err(error("a cluster of", cluster, "the kernel requires another cluster"));
            }
        }
        // The cubin of a kernel without parameters does not state their offset.
        if kernel.parameter_bytes > 0 && kernel.parameter_offset != PARAMETER_OFFSET {
            let offset = kernel.parameter_offset;
            return Err(BankError::ParameterOffset { offset }.into());
        }
        let given = self.parameters.len() as u64;
        if given != kernel.parameter_bytes {
            return Err(LaunchBuildError::Parameters {
                kernel: kernel.name.clone(),
                given,
                expected: kernel.parameter_bytes,
            });
        }
        let needed = kernel.stack_bytes.saturating_add(RESERVED_STACK_BYTES);
        if kernel.stack_bytes > 0 && needed > self.local_bytes.into() {
            return Err(LaunchBuildError::LocalMemory {
                kernel: kernel.name.clone(),
                needed,
                available: self.local_bytes.into(),
            });
        }
        Ok(cluster)
    }

    /// Returns the shared memory of a block in bytes, with the reserved part.
    fn shared_bytes(&self) -> Result<u64, LaunchBuildError> {
        let kernel = self.kernel;
        let fixed = kernel.static_shared_bytes.checked_add(kernel.reserved_shared_bytes);
        let bytes = fixed.and_then(|n| n.checked_add(self.dynamic_shared_bytes.into()));
        bytes.ok_or_else(|| self.shared_error(u64::MAX))
    }

    fn shared_error(&self, bytes: u64) -> LaunchBuildError {
        let kernel = self.kernel.name.clone();
        LaunchBuildError::SharedMemory { kernel, bytes }
    }

    fn bank(&self, cluster: Option<[u32; 3]>, shared: u64) -> Result<ConstantBank0<'_>, LaunchBuildError> {
        let narrow = |bytes: u64| u32::try_from(bytes).map_err(|_| self.shared_error(bytes));
        Ok(ConstantBank0 {
            address: self.constant_bank_0,
            block: self.block,
            grid: self.grid,
            cluster: cluster.unwrap_or([1; 3]),
            shared_window: self.windows.shared,
            local_window: self.windows.local,
            dynamic_shared_bytes: self.dynamic_shared_bytes,
            shared_bytes: narrow(shared)?,
            reserved_shared_bytes: narrow(self.kernel.reserved_shared_bytes)?,
            launch_number: self.launch_number,
            descriptor: self.descriptor,
            sm_count: self.sm_count,
            program: self.kernel.program,
            parameters: self.parameters,
        })
    }

    fn descriptor(
        &self,
        class: u16,
        cluster: Option<[u32; 3]>,
        shared: u64,
        configuration: SharedConfiguration,
        bank_bytes: u64,
    ) -> Result<Vec<u8>, LaunchBuildError> {
        let kernel = self.kernel;
        let prefetch = kernel.code_bytes.saturating_add(PREFETCH_TAIL_BYTES);
        let mut builder = QmdBuilder::new(class)?
            .with_kind(if cluster.is_some() {
                QmdKind::ClusterGrid
            } else {
                QmdKind::Grid
            })
            .with_block(self.block)
            .with_shared_memory(shared, configuration)
            .with_local_memory(u64::from(self.local_bytes).next_multiple_of(16))
            .with_registers(kernel.registers.max(MIN_REGISTERS))
            // The GPU needs one barrier even if the kernel has none.
            .with_barriers(kernel.barriers.max(1))
            .with_sass_version(kernel.sass_version)
            .with_program(kernel.program)
            .with_program_prefetch(kernel.program, prefetch)
            .with_cache_invalidation(CacheInvalidation {
                textures: true,
                data: true,
                instruction: true,
                constant: true,
            });
        builder = match cluster {
            Some(cluster) => builder.with_grid_of_clusters(self.grid, cluster),
            None => builder.with_grid(self.grid),
        };
        let bank_0 = ConstantBank {
            index: 0,
            address: self.constant_bank_0,
            bytes: bank_bytes,
            invalidate: true,
        };
        for bank in std::iter::once(&bank_0).chain(&kernel.banks) {
            builder = builder.with_constant_bank(*bank, Prefetch::None);
        }
        if let Some(release) = self.release {
            builder = builder.with_release(release, ReleaseFence::System);
        }
        Ok(builder.build()?)
    }
}

/// Returns the product of three numbers, or the maximum if it does not fit.
fn product(numbers: [u32; 3]) -> u64 {
    numbers.into_iter().fold(1, |all, n| all.saturating_mul(n.into()))
}
