//! Launch descriptors (queue meta data): what a compute engine reads to run a grid.

mod builder;
mod layout;
mod shared_memory;

pub use builder::{CacheInvalidation, Prefetch, QmdBuildError, QmdBuilder, ReleaseFence};
pub use layout::{QmdLayout, QmdVersion};
pub use shared_memory::{MAX_SHARED_BYTES, RESERVED_SHARED_BYTES, SharedConfiguration};

use crate::GpuVa;
use crate::field::{Field, FieldValue};
use std::fmt;
use thiserror::Error;

/// Maximum number of bytes in a descriptor.
pub const MAX_QMD_BYTES: usize = 384;
/// Number of constant banks in a descriptor.
const CONSTANT_BANKS: u32 = 8;
/// Maximum number of release semaphores and of dependent descriptors in a descriptor.
const MAX_RELEASES: u32 = 3;

/// Bytes that are not a descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QmdError {
    /// The descriptor ends early.
    #[error("the descriptor has {bytes} bytes; {version} has {needed}", version = .version.map_or("each version".to_owned(), |v| v.to_string()))]
    Truncated {
        /// Version, if the bytes have it.
        version: Option<QmdVersion>,
        /// Number of bytes.
        bytes: usize,
        /// Minimum number of bytes of the version.
        needed: usize,
    },
    /// No layout has this version.
    #[error("byte {byte}: the descriptor's version {version} is unknown")]
    UnknownVersion {
        /// The version.
        version: QmdVersion,
        /// Offset of the version in bytes.
        byte: usize,
    },
}

/// What a descriptor starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QmdKind {
    /// A queue of work.
    Queue,
    /// A grid without blocks, which only orders others.
    NullGrid,
    /// A grid of blocks.
    Grid,
    /// A grid of clusters of blocks.
    ClusterGrid,
    /// A kind that no header names.
    Unknown(u32),
}

impl fmt::Display for QmdKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue => f.write_str("queue"),
            Self::NullGrid => f.write_str("null grid"),
            Self::Grid => f.write_str("grid"),
            Self::ClusterGrid => f.write_str("grid of clusters"),
            Self::Unknown(kind) => write!(f, "unknown kind {kind}"),
        }
    }
}

/// A constant bank that a descriptor binds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConstantBank {
    /// Number of the bank.
    pub index: u32,
    /// Address of its first byte.
    pub address: GpuVa,
    /// Size in bytes.
    pub bytes: u64,
    /// The GPU discards cached content of the bank before the launch.
    pub invalidate: bool,
}

/// A semaphore that the GPU writes when the grid is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    /// Number of the semaphore in the descriptor.
    pub index: u32,
    /// Its address.
    pub address: GpuVa,
    /// Value that is written, or operand of the reduction.
    pub payload: u64,
    /// Number of words that are written: 1, 2, or 4 with a time stamp.
    pub words: u32,
    /// Name of the reduction with the value in memory, such as `RED_ADD`.
    pub reduction: Option<&'static str>,
}

/// Another descriptor that this one acts on when it is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dependent {
    /// Number of the dependent in the descriptor.
    pub index: u32,
    /// Address of the dependent descriptor.
    pub address: GpuVa,
    /// Name of the action, such as `QMD_SCHEDULE`.
    pub action: Option<&'static str>,
}

/// A launch descriptor of a known version.
#[derive(Debug, Clone, Copy)]
pub struct Qmd<'a> {
    layout: &'static QmdLayout,
    bytes: &'a [u8],
}

impl<'a> Qmd<'a> {
    /// Reads a descriptor. `class` is the class of the compute engine, if it is known. Bytes after the descriptor are
    /// ignored.
    ///
    /// # Errors
    /// If the version is unknown or bytes are missing.
    pub fn parse(bytes: &'a [u8], class: Option<u16>) -> Result<Self, QmdError> {
        let Some(version) = QmdLayout::detect_version(bytes, class) else {
            return Err(QmdError::Truncated {
                version: None,
                bytes: bytes.len(),
                needed: 256,
            });
        };
        let unknown = QmdError::UnknownVersion { version, byte: 72 };
        let layout = QmdLayout::find(version, class).ok_or(unknown)?;
        let bytes = bytes.get(..layout.bytes()).ok_or(QmdError::Truncated {
            version: Some(version),
            bytes: bytes.len(),
            needed: layout.bytes(),
        })?;
        Ok(Self { layout, bytes })
    }

    /// Returns the layout.
    #[must_use]
    pub fn layout(&self) -> &'static QmdLayout {
        self.layout
    }

    /// Returns the version.
    #[must_use]
    pub fn version(&self) -> QmdVersion {
        self.layout.version()
    }

    /// Returns the bytes of the descriptor.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the value of a field that is not an array.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<u64> {
        self.element(name, 0)
    }

    /// Returns the value of an element of a field.
    #[must_use]
    pub fn element(&self, name: &str, element: u32) -> Option<u64> {
        self.layout.field(name)?.read(self.bytes, element)
    }

    /// Returns all fields, zero or not, in the order of their bits.
    pub fn fields(&self) -> impl Iterator<Item = FieldValue> + 'a {
        let bytes = self.bytes;
        self.layout.fields().iter().flat_map(move |f| f.values_in(bytes))
    }

    /// Returns the first of several fields that the version has.
    fn first(&self, names: &[&str]) -> Option<u64> {
        names.iter().find_map(|name| self.field(name))
    }

    /// Returns a field, or its form without the lowest bits: `NAME_SHIFTED4` has 4 bits less.
    fn unshifted(&self, name: &str, shift: u32) -> Option<u64> {
        let shifted = || Some(self.field(&format!("{name}_SHIFTED{shift}"))? << shift);
        self.field(name).or_else(shifted)
    }

    /// Returns what the descriptor starts.
    #[must_use]
    pub fn kind(&self) -> QmdKind {
        match (self.field("QMD_TYPE"), self.field("IS_QUEUE")) {
            (Some(0), _) | (None, Some(1)) => QmdKind::Queue,
            (Some(1), _) => QmdKind::NullGrid,
            (Some(2), _) | (None, _) => QmdKind::Grid,
            (Some(3..=5), _) => QmdKind::ClusterGrid,
            (Some(other), _) => QmdKind::Unknown(other as u32),
        }
    }

    /// Returns three fields as numbers of 32 bits.
    fn three(&self, names: [[&str; 2]; 3]) -> Option<[u32; 3]> {
        let [x, y, z] = names.map(|names| self.first(&names)?.try_into().ok());
        Some([x?, y?, z?])
    }

    /// Returns the number of blocks in x, y and z; for a grid of clusters too.
    ///
    /// The descriptor of a grid of clusters counts clusters: CUDA's driver stores 1x8x1 with clusters of 8x1x1 for a grid
    /// of 8x8x1.
    #[must_use]
    pub fn grid(&self) -> Option<[u32; 3]> {
        let grid = self.three([
            ["GRID_WIDTH", "CTA_RASTER_WIDTH"],
            ["GRID_HEIGHT", "CTA_RASTER_HEIGHT"],
            ["GRID_DEPTH", "CTA_RASTER_DEPTH"],
        ])?;
        let [x, y, z] = self.cluster().unwrap_or([1; 3]).map(|n| n.max(1));
        let [width, height, depth] = grid;
        Some([width.checked_mul(x)?, height.checked_mul(y)?, depth.checked_mul(z)?])
    }

    /// Returns the number of threads in x, y and z of a block.
    #[must_use]
    pub fn block(&self) -> Option<[u32; 3]> {
        let name = [
            "CTA_THREAD_DIMENSION0",
            "CTA_THREAD_DIMENSION1",
            "CTA_THREAD_DIMENSION2",
        ];
        self.three(name.map(|n| [n, n]))
    }

    /// Returns the number of blocks in x, y and z of a cluster, or `None` for a grid without clusters.
    #[must_use]
    pub fn cluster(&self) -> Option<[u32; 3]> {
        let name = ["GPC_CGA_WIDTH", "GPC_CGA_HEIGHT", "GPC_CGA_DEPTH"];
        self.three(name.map(|n| [n, n]))
            .filter(|_| self.kind() == QmdKind::ClusterGrid)
    }

    /// Returns the shared memory of a block in bytes.
    #[must_use]
    pub fn shared_bytes(&self) -> Option<u64> {
        self.unshifted("SHARED_MEMORY_SIZE", 7)
    }

    /// Returns the local memory of a thread in bytes: low and high part.
    #[must_use]
    pub fn local_bytes(&self) -> Option<[u64; 2]> {
        Some([
            self.unshifted("SHADER_LOCAL_MEMORY_LOW_SIZE", 4)?,
            self.unshifted("SHADER_LOCAL_MEMORY_HIGH_SIZE", 4)?,
        ])
    }

    /// Returns the number of registers of a thread.
    #[must_use]
    pub fn registers(&self) -> Option<u64> {
        // Version 2 has the old field of 8 bits too.
        self.first(&["REGISTER_COUNT_V", "REGISTER_COUNT"])
    }

    /// Returns the number of barriers of a block.
    #[must_use]
    pub fn barriers(&self) -> Option<u64> {
        self.field("BARRIER_COUNT")
    }

    /// Returns the address of the first instruction.
    #[must_use]
    pub fn program_address(&self) -> Option<GpuVa> {
        let parts = |suffix: &str| {
            let lower = self.field(&format!("PROGRAM_ADDRESS_LOWER{suffix}"))?;
            Some(self.field(&format!("PROGRAM_ADDRESS_UPPER{suffix}"))? << 32 | lower)
        };
        parts("").or_else(|| Some(parts("_SHIFTED4")? << 4)).map(GpuVa)
    }

    /// Returns the constant banks that are valid.
    pub fn constant_banks(&self) -> impl Iterator<Item = ConstantBank> + '_ {
        // The names are looked up once for all banks: a recording has thousands of descriptors.
        let field = |name: &str| self.layout.field(name);
        let pair = |lower: &str, upper: &str, shift: u32| Some((field(lower)?, field(upper)?, shift));
        let address = pair("CONSTANT_BUFFER_ADDR_LOWER", "CONSTANT_BUFFER_ADDR_UPPER", 0).or_else(|| {
            pair(
                "CONSTANT_BUFFER_ADDR_LOWER_SHIFTED6",
                "CONSTANT_BUFFER_ADDR_UPPER_SHIFTED6",
                6,
            )
        });
        let valid = field("CONSTANT_BUFFER_VALID");
        let size = field("CONSTANT_BUFFER_SIZE_SHIFTED4");
        let invalidate = field("CONSTANT_BUFFER_INVALIDATE");
        (0..CONSTANT_BANKS).filter_map(move |index| {
            let read = |field: &Field| field.read(self.bytes, index);
            let is_valid = read(valid?)? == 1;
            let (lower, upper, shift) = address.filter(|_| is_valid)?;
            Some(ConstantBank {
                index,
                address: GpuVa((read(upper)? << 32 | read(lower)?) << shift),
                bytes: read(size?)? << 4,
                invalidate: invalidate.and_then(read) == Some(1),
            })
        })
    }

    /// Returns the semaphores that are released at the end.
    pub fn releases(&self) -> impl Iterator<Item = Release> + '_ {
        (0..MAX_RELEASES).filter_map(|index| self.release(index))
    }

    /// Returns an enabled release semaphore.
    fn release(&self, index: u32) -> Option<Release> {
        // The flags are arrays since version 4; the names of addresses have the number since version 2.
        let flag = |name: &str| {
            let array = self.layout.field(&format!("RELEASE_{name}")).filter(|f| f.is_array());
            let field = array.map(|f| (f, index));
            let (field, element) =
                field.or_else(|| Some((self.layout.field(&format!("RELEASE{index}_{name}"))?, 0)))?;
            Some((field, field.read(self.bytes, element)?))
        };
        let enabled = match flag("ENABLE") {
            Some((_, enabled)) => enabled,
            None => self.field(&format!("SEMAPHORE_RELEASE_ENABLE{index}"))?,
        };
        let number = |name: &str| {
            self.first(&[
                &format!("RELEASE_SEMAPHORE{index}_{}", name.replace("ADDRESS", "ADDR")),
                &format!("RELEASE{index}_{name}"),
            ])
        };
        if enabled != 1 {
            return None;
        }
        let payload = match number("PAYLOAD_LOWER") {
            Some(lower) => number("PAYLOAD_UPPER")? << 32 | lower,
            None => number("PAYLOAD")?,
        };
        let reduces = flag("REDUCTION_ENABLE").is_some_and(|(_, value)| value == 1);
        Some(Release {
            index,
            address: GpuVa(number("ADDRESS_UPPER")? << 32 | number("ADDRESS_LOWER")?),
            payload,
            words: match flag("STRUCTURE_SIZE")?.1 {
                1 => 1,
                2 => 2,
                _ => 4,
            },
            reduction: flag("REDUCTION_OP").filter(|_| reduces).and_then(|(f, v)| f.text_of(v)),
        })
    }

    /// Returns the descriptors that this one acts on at the end.
    pub fn dependents(&self) -> impl Iterator<Item = Dependent> + '_ {
        (0..MAX_RELEASES).filter_map(|index| self.dependent(index))
    }

    /// Returns an enabled dependent.
    fn dependent(&self, index: u32) -> Option<Dependent> {
        // Versions 2.2 and 2.3 have one, which is always scheduled.
        if let (0, Some(enabled)) = (index, self.field("DEPENDENT_QMD_SCHEDULE_ENABLE")) {
            let pointer = self.field("DEPENDENT_QMD_POINTER")?;
            return (enabled == 1).then_some(Dependent {
                index,
                address: GpuVa(pointer << 8),
                action: Some("QMD_SCHEDULE"),
            });
        }
        let array = self.layout.field("DEPENDENT_QMD_ENABLE").is_some();
        let field = |name: &str| match array {
            true => Some((self.layout.field(&format!("DEPENDENT_QMD_{name}"))?, index)),
            false => Some((self.layout.field(&format!("DEPENDENT_QMD{index}_{name}"))?, 0)),
        };
        let (enable, element) = field("ENABLE")?;
        if enable.read(self.bytes, element)? != 1 {
            return None;
        }
        let pointer = self.field(&format!("DEPENDENT_QMD{index}_POINTER"))?;
        Some(Dependent {
            index,
            address: GpuVa(pointer << 8),
            action: field("ACTION").and_then(|(f, e)| f.text_of(f.read(self.bytes, e)?)),
        })
    }
}

#[cfg(test)]
mod tests;
