//! Builder of launch descriptors.
//!
//! Fields are written by name with the layout tables, in each version's own form. A version needs no code of its own.
//! Descriptors of a class are built only after the class has run one.

use super::{ConstantBank, QmdKind, QmdLayout, QmdVersion, Release, SharedConfiguration, shared_memory};
use crate::GpuVa;
use thiserror::Error;

/// Classes with descriptors that ran on hardware, and the version of these.
const PROVEN: [(u16, QmdVersion); 1] = [(0xcbc0, QmdVersion { major: 4, minor: 0 })];
/// Group of the grids of a channel, as CUDA's driver sets it.
const GROUP: u64 = 0x3f;
/// Unit of program prefetches in bytes.
const PREFETCH_UNIT: u64 = 256;

/// A descriptor that cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QmdBuildError {
    /// No descriptor of the class ran on hardware.
    #[error("launch descriptors of class {class:#06x} are not supported: only class 0xcbc0 (Hopper) is proven")]
    UnprovenClass {
        /// The compute class.
        class: u16,
    },
    /// No layout has the version.
    #[error("no layout of launch descriptors has version {version}")]
    UnknownVersion {
        /// The version.
        version: QmdVersion,
    },
    /// The version has no such field.
    #[error("launch descriptors of version {version} have no field {name}")]
    MissingField {
        /// The version.
        version: QmdVersion,
        /// Name of the field, without the part for its unit.
        name: String,
    },
    /// Clusters do not divide a grid, or have no blocks.
    #[error("clusters of {cluster:?} blocks do not divide a grid of {grid:?} blocks")]
    Clusters {
        /// Blocks of the grid in x, y and z.
        grid: [u32; 3],
        /// Blocks of a cluster in x, y and z.
        cluster: [u32; 3],
    },
    /// A value has more bits than its field, or is not a multiple of the field's unit.
    #[error("{name}({element}) of the launch descriptor cannot hold {value:#x}")]
    Value {
        /// Name of the field, without the part for its unit.
        name: String,
        /// Number of the element; 0 for a field that is not an array.
        element: u32,
        /// The value.
        value: u64,
    },
    /// A name of a value or a kind has no number.
    #[error("the launch descriptor cannot express {0}")]
    Unnamed(String),
}

/// When the GPU loads a constant bank into the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefetch {
    /// When a shader reads it.
    None,
    /// Before the launch.
    Before,
    /// After the launch.
    After,
}

/// Whether memory is flushed before a release semaphore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseFence {
    /// No flush: other launches of the GPU see the writes of the grid.
    None,
    /// The CPU sees the writes of the grid too.
    System,
}

/// Caches whose content the launch discards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheInvalidation {
    /// Texture headers, samplers and texture data.
    pub textures: bool,
    /// Global memory.
    pub data: bool,
    /// Instructions.
    pub instruction: bool,
    /// Constant banks.
    pub constant: bool,
}

/// Builder of a launch descriptor. The first error is kept, and [`QmdBuilder::build`] returns it.
#[derive(Debug, Clone)]
pub struct QmdBuilder {
    layout: &'static QmdLayout,
    bytes: Vec<u8>,
    error: Option<QmdBuildError>,
}

impl QmdBuilder {
    /// Returns a builder for a compute class.
    ///
    /// # Errors
    /// [`QmdBuildError::UnprovenClass`] if no descriptor of the class ran on hardware.
    pub fn new(class: u16) -> Result<Self, QmdBuildError> {
        let proven = PROVEN.iter().find(|(c, _)| *c == class);
        let (_, version) = proven.ok_or(QmdBuildError::UnprovenClass { class })?;
        Self::for_version(*version, class)
    }

    /// Returns a builder for a version that may be unproven: the descriptors decode, but may not run.
    ///
    /// # Errors
    /// [`QmdBuildError::UnknownVersion`] if no table has the version.
    pub fn for_version(version: QmdVersion, class: u16) -> Result<Self, QmdBuildError> {
        let layout = QmdLayout::find(version, Some(class)).ok_or(QmdBuildError::UnknownVersion { version })?;
        let mut builder = Self {
            layout,
            bytes: vec![0; layout.bytes()],
            error: None,
        };
        for (name, value) in [
            ("QMD_MAJOR_VERSION", version.major.into()),
            ("QMD_MINOR_VERSION", version.minor.into()),
            ("QMD_VERSION", version.minor.into()),
            ("QMD_GROUP_ID", GROUP),
            ("API_VISIBLE_CALL_LIMIT", 1),
            ("SAMPLER_INDEX", 1),
            ("CWD_MEMBAR_TYPE", 1),
            ("SM_GLOBAL_CACHING_ENABLE", 1),
        ] {
            if layout.field(name).is_some() {
                builder.set(name, 0, value);
            }
        }
        Ok(builder)
    }

    /// Returns the layout of the descriptor.
    #[must_use]
    pub fn layout(&self) -> &'static QmdLayout {
        self.layout
    }

    /// Returns the bytes of the descriptor.
    ///
    /// # Errors
    /// The first error of the parts.
    pub fn build(self) -> Result<Vec<u8>, QmdBuildError> {
        self.error.map_or(Ok(self.bytes), Err)
    }

    /// Sets an element of a field by its name. Use it for fields that have no function of their own.
    #[must_use]
    pub fn with_field(mut self, name: &str, element: u32, value: u64) -> Self {
        self.set(name, element, value);
        self
    }

    /// Sets what the descriptor starts.
    #[must_use]
    pub fn with_kind(mut self, kind: QmdKind) -> Self {
        let typed = self.layout.field("QMD_TYPE").is_some();
        match (kind, typed) {
            (QmdKind::Queue, true) => self.set("QMD_TYPE", 0, 0),
            (QmdKind::NullGrid, true) => self.set("QMD_TYPE", 0, 1),
            (QmdKind::Grid, true) => self.set("QMD_TYPE", 0, 2),
            (QmdKind::ClusterGrid, true) => self.set("QMD_TYPE", 0, 3),
            (QmdKind::Queue, false) => self.set("IS_QUEUE", 0, 1),
            (QmdKind::Grid, false) => self.set("IS_QUEUE", 0, 0),
            _ => self.fail(QmdBuildError::Unnamed(format!("the kind {kind}"))),
        }
        self
    }

    /// Sets the number of blocks in x, y and z of a grid without clusters.
    #[must_use]
    pub fn with_grid(mut self, grid: [u32; 3]) -> Self {
        let names = [
            ["GRID_WIDTH", "CTA_RASTER_WIDTH"],
            ["GRID_HEIGHT", "CTA_RASTER_HEIGHT"],
            ["GRID_DEPTH", "CTA_RASTER_DEPTH"],
        ];
        for (names, value) in names.iter().zip(grid) {
            self.set_first(names, value.into());
        }
        self
    }

    /// Sets the number of threads in x, y and z of a block.
    #[must_use]
    pub fn with_block(mut self, block: [u32; 3]) -> Self {
        for (n, value) in (0..).zip(block) {
            self.set(&format!("CTA_THREAD_DIMENSION{n}"), 0, value.into());
        }
        self
    }

    /// Sets the number of blocks in x, y and z of a grid, and of its clusters. The descriptor counts clusters.
    ///
    /// Clusters that do not divide the grid are an error of [`Self::build`].
    #[must_use]
    pub fn with_grid_of_clusters(mut self, grid: [u32; 3], cluster: [u32; 3]) -> Self {
        let mut clusters = [0; 3];
        for (count, (blocks, of)) in clusters.iter_mut().zip(grid.into_iter().zip(cluster)) {
            match blocks.checked_div(of).filter(|n| n.checked_mul(of) == Some(blocks)) {
                Some(whole) => *count = whole,
                None => self.fail(QmdBuildError::Clusters { grid, cluster }),
            }
        }
        for (name, value) in ["WIDTH", "HEIGHT", "DEPTH"].iter().zip(cluster) {
            self.set(&format!("GPC_CGA_{name}"), 0, value.into());
        }
        self.with_grid(clusters)
    }

    /// Sets the shared memory of a block in bytes, with the part that the system reserves. It is rounded up to 128.
    #[must_use]
    pub fn with_shared_memory(mut self, bytes: u64, configuration: SharedConfiguration) -> Self {
        match shared_memory::round_shared_bytes(bytes) {
            Some(rounded) => self.set_unshifted("SHARED_MEMORY_SIZE", rounded, 7),
            None => self.fail_value("SHARED_MEMORY_SIZE", 0, bytes),
        }
        for (name, value) in [
            ("MIN", configuration.min),
            ("MAX", configuration.max),
            ("TARGET", configuration.target),
        ] {
            self.set(&format!("{name}_SM_CONFIG_SHARED_MEM_SIZE"), 0, value.into());
        }
        self
    }

    /// Sets the local memory of a thread in bytes, a multiple of 16.
    #[must_use]
    pub fn with_local_memory(mut self, bytes: u64) -> Self {
        self.set_unshifted("SHADER_LOCAL_MEMORY_HIGH_SIZE", bytes, 4);
        self
    }

    /// Sets the number of registers of a thread.
    #[must_use]
    pub fn with_registers(mut self, registers: u32) -> Self {
        self.set_first(&["REGISTER_COUNT_V", "REGISTER_COUNT"], registers.into());
        self
    }

    /// Sets the number of barriers of a block.
    #[must_use]
    pub fn with_barriers(mut self, barriers: u32) -> Self {
        self.set("BARRIER_COUNT", 0, barriers.into());
        self
    }

    /// Sets the version of the instruction set, such as 0x90 for compute capability 9.0.
    #[must_use]
    pub fn with_sass_version(mut self, version: u8) -> Self {
        self.set("SASS_VERSION", 0, version.into());
        self
    }

    /// Sets the address of the first instruction.
    #[must_use]
    pub fn with_program(mut self, address: GpuVa) -> Self {
        self.set_address("PROGRAM_ADDRESS", 0, address, 4);
        self
    }

    /// Sets which instructions the GPU loads before the launch. The address is rounded down to 256 bytes, the size up;
    /// sizes beyond the field are cut to its maximum.
    #[must_use]
    pub fn with_program_prefetch(mut self, address: GpuVa, bytes: u64) -> Self {
        let units = address.0 / PREFETCH_UNIT;
        self.set("PROGRAM_PREFETCH_ADDR_LOWER_SHIFTED", 0, units & 0xffff_ffff);
        self.set("PROGRAM_PREFETCH_ADDR_UPPER_SHIFTED", 0, units >> 32);
        let bits = self.layout.field("PROGRAM_PREFETCH_SIZE").map_or(0, crate::Field::bits);
        let max = 1u64.checked_shl(bits).map_or(u64::MAX, |n| n - 1);
        self.set("PROGRAM_PREFETCH_SIZE", 0, bytes.div_ceil(PREFETCH_UNIT).min(max));
        self
    }

    /// Binds a constant bank. Its address is a multiple of 64, its size is rounded up to 16 bytes.
    #[must_use]
    pub fn with_constant_bank(mut self, bank: ConstantBank, prefetch: Prefetch) -> Self {
        let n = bank.index;
        self.set_address("CONSTANT_BUFFER_ADDR", n, bank.address, 6);
        match bank.bytes.checked_next_multiple_of(16) {
            Some(bytes) => self.set("CONSTANT_BUFFER_SIZE_SHIFTED4", n, bytes >> 4),
            None => self.fail_value("CONSTANT_BUFFER_SIZE", n, bank.bytes),
        }
        self.set("CONSTANT_BUFFER_VALID", n, 1);
        self.set("CONSTANT_BUFFER_INVALIDATE", n, bank.invalidate.into());
        let prefetch = match prefetch {
            Prefetch::None => return self,
            Prefetch::Before => 1,
            Prefetch::After => 2,
        };
        self.set("CONSTANT_BUFFER_PREFETCH", n, prefetch);
        self
    }

    /// Adds a semaphore that the GPU writes when the grid is complete. Its words are 1, 2 (a value of 64 bits) or 4 (with
    /// a time stamp).
    #[must_use]
    pub fn with_release(mut self, release: Release, fence: ReleaseFence) -> Self {
        let index = release.index;
        let size = match release.words {
            1 => 1,
            2 => 2,
            4 => 0,
            other => {
                self.fail(QmdBuildError::Unnamed(format!("a semaphore of {other} words")));
                return self;
            }
        };
        let fence = u64::from(fence == ReleaseFence::System);
        for (name, value) in [("ENABLE", 1), ("STRUCTURE_SIZE", size), ("MEMBAR_TYPE", fence)] {
            self.set_release_flag(index, name, value);
        }
        if release.words == 2 {
            self.set_release_flag(index, "PAYLOAD64B", 1);
        }
        if let Some(reduction) = release.reduction {
            let name = self.release_flag(index, "REDUCTION_OP").0;
            match self.layout.field(&name).and_then(|f| f.value_of(reduction)) {
                Some(value) => {
                    self.set_release_flag(index, "REDUCTION_ENABLE", 1);
                    self.set_release_flag(index, "REDUCTION_OP", value.into());
                }
                None => self.fail(QmdBuildError::Unnamed(format!("the reduction {reduction}"))),
            }
        }
        let (address, payload) = (release.address.0, release.payload);
        for (newer, older, value) in [
            ("ADDR_LOWER", "ADDRESS_LOWER", address & 0xffff_ffff),
            ("ADDR_UPPER", "ADDRESS_UPPER", address >> 32),
            ("PAYLOAD_LOWER", "PAYLOAD_LOWER", payload & 0xffff_ffff),
            ("PAYLOAD_UPPER", "PAYLOAD_UPPER", payload >> 32),
        ] {
            let names = [
                format!("RELEASE_SEMAPHORE{index}_{newer}"),
                format!("RELEASE{index}_{older}"),
                format!("RELEASE{index}_{}", older.trim_end_matches("_LOWER")),
            ];
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let known = names.iter().any(|n| self.layout.field(n).is_some());
            if known || value != 0 {
                self.set_first(&names, value);
            }
        }
        self
    }

    /// Sets which caches discard their content before the launch.
    #[must_use]
    pub fn with_cache_invalidation(mut self, caches: CacheInvalidation) -> Self {
        for (name, value) in [
            ("TEXTURE_HEADER", caches.textures),
            ("TEXTURE_SAMPLER", caches.textures),
            ("TEXTURE_DATA", caches.textures),
            ("SHADER_DATA", caches.data),
            ("INSTRUCTION", caches.instruction),
            ("SHADER_CONSTANT", caches.constant),
        ] {
            self.set(&format!("INVALIDATE_{name}_CACHE"), 0, value.into());
        }
        self
    }

    fn fail(&mut self, error: QmdBuildError) {
        self.error.get_or_insert(error);
    }

    fn fail_value(&mut self, name: &str, element: u32, value: u64) {
        let name = name.to_owned();
        self.fail(QmdBuildError::Value { name, element, value });
    }

    fn fail_missing(&mut self, name: &str) {
        self.fail(QmdBuildError::MissingField {
            version: self.layout.version(),
            name: name.to_owned(),
        });
    }

    /// Sets an element of a field.
    fn set(&mut self, name: &str, element: u32, value: u64) {
        let Some(field) = self.layout.field(name) else {
            return self.fail_missing(name);
        };
        if field.write(&mut self.bytes, element, value).is_none() {
            self.fail_value(name, element, value);
        }
    }

    /// Sets the first of several fields that the version has.
    fn set_first(&mut self, names: &[&str], value: u64) {
        let known = names.iter().find(|n| self.layout.field(n).is_some());
        match known.or(names.first()) {
            Some(name) => self.set(name, 0, value),
            None => self.fail_missing(""),
        }
    }

    /// Sets a field, or its form without the lowest bits: `NAME_SHIFTED4` has 4 bits less.
    fn set_unshifted(&mut self, name: &str, value: u64, shift: u32) {
        let shifted = format!("{name}_SHIFTED{shift}");
        if self.layout.field(&shifted).is_none() {
            return self.set(name, 0, value);
        }
        if value.trailing_zeros() < shift {
            return self.fail_value(name, 0, value);
        }
        self.set(&shifted, 0, value.checked_shr(shift).unwrap_or(0));
    }

    /// Sets the lower and the upper field of an address, or their forms without the lowest bits.
    fn set_address(&mut self, name: &str, element: u32, address: GpuVa, shift: u32) {
        let shifted = format!("_SHIFTED{shift}");
        let is_shifted = self.layout.field(&format!("{name}_LOWER{shifted}")).is_some();
        let (suffix, shift) = if is_shifted { (shifted.as_str(), shift) } else { ("", 0) };
        let value = address.0.checked_shr(shift).unwrap_or(0);
        if value.checked_shl(shift) != Some(address.0) {
            return self.fail_value(name, element, address.0);
        }
        self.set(&format!("{name}_LOWER{suffix}"), element, value & 0xffff_ffff);
        self.set(&format!("{name}_UPPER{suffix}"), element, value >> 32);
    }

    /// Returns the field of a flag of a release semaphore, and its element: the flags are arrays since version 4.
    fn release_flag(&self, index: u32, name: &str) -> (String, u32) {
        let array = format!("RELEASE_{name}");
        if self.layout.field(&array).is_some_and(crate::Field::is_array) {
            return (array, index);
        }
        let single = format!("RELEASE{index}_{name}");
        if self.layout.field(&single).is_none() && name == "ENABLE" {
            return (format!("SEMAPHORE_RELEASE_ENABLE{index}"), 0);
        }
        (single, 0)
    }

    fn set_release_flag(&mut self, index: u32, name: &str, value: u64) {
        let (field, element) = self.release_flag(index, name);
        // Older versions do not have every flag.
        if value != 0 || self.layout.field(&field).is_some() {
            self.set(&field, element, value);
        }
    }
}
