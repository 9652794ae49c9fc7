//! What is asked for: the launch, the values to try, how they are searched, how alike outputs have to be.

use super::point::{Bounds, Cache};
use crate::device::cuda::OutputTolerance;
use serde::{Deserialize, Serialize};

/// Values to try, by what they are of. A list without values leaves what was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Axes {
    /// Threads a block by dimension.
    pub block: [Vec<u32>; 3],
    /// Blocks by dimension.
    pub grid: [Vec<u32>; 3],
    /// Dimensions of the grid without a list follow the block: as few blocks as have at least the recorded threads.
    pub cover: bool,
    /// Bytes of shared memory beside what the function has of its own.
    pub shared: Vec<u32>,
    /// Shares of cache and shared memory.
    pub cache: Vec<Cache>,
    /// Most registers a thread, 1 to 255; 0: as the code has it.
    pub max_registers: Vec<u32>,
    /// Launch bounds.
    pub bounds: Vec<Bounds>,
}

impl Axes {
    /// Whether no list has values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.block.iter().chain(&self.grid).all(Vec::is_empty)
            && self.shared.is_empty()
            && self.cache.is_empty()
            && self.max_registers.is_empty()
            && self.bounds.is_empty()
    }
}

/// Form of code that replaces what was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReplacementKind {
    /// Text for the driver's compiler.
    #[default]
    Ptx,
    /// Machine code in an ELF file.
    Cubin,
    /// A container of both.
    Fatbin,
    /// CUDA C++, compiled by NVRTC where the device is.
    Source,
}

impl ReplacementKind {
    /// Short name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ptx => "PTX",
            Self::Cubin => "cubin",
            Self::Fatbin => "fatbin",
            Self::Source => "CUDA C++",
        }
    }
}

/// Code that replaces what was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplacementCode {
    /// Name for a person: the file's.
    pub name: String,
    /// Its form.
    pub kind: ReplacementKind,
    /// The code.
    pub bytes: Vec<u8>,
    /// The function in it, mangled, or for CUDA C++ as an expression (`scale<float, 4>`); empty: named as the recorded one.
    pub function: String,
    /// Options of the compiler, for CUDA C++.
    pub options: Vec<String>,
}

/// How points are searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Search {
    /// Every point, in order.
    #[default]
    Grid,
    /// So many points, drawn at random.
    Random {
        /// How many; more than there are: all.
        points: u32,
        /// The same seed draws the same points.
        seed: u64,
    },
    /// Successive halving: all points with few repeats, then the best part of them with more, until few are left, which
    /// get all repeats.
    Halving {
        /// How many points take part, drawn at random; 0: all.
        points: u32,
        /// The same seed draws the same points.
        seed: u64,
        /// One in so many stays, at least 2.
        factor: u32,
    },
}

/// Most time that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Nanoseconds of one launch on the device: a point that takes longer is given up after its first.
    pub launch_ns: u64,
    /// Nanoseconds after which a launch is taken for one that does not end.
    pub stuck_ns: u64,
    /// Nanoseconds of the whole; what was measured until then is the answer.
    pub total_ns: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            launch_ns: 1_000_000_000,
            stuck_ns: 10_000_000_000,
            total_ns: 600_000_000_000,
        }
    }
}

/// Addresses whose elements are compared by a rule of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryArea {
    /// First byte.
    pub at: u64,
    /// Bytes.
    pub bytes: u64,
    /// How alike its elements have to be.
    pub rule: OutputTolerance,
}

/// A launch, and what to try with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TuneRequest {
    /// Event of the launch.
    pub event: u64,
    /// Values to try.
    pub axes: Axes,
    /// Code to try in the place of what was recorded; with none, the recorded code is tried.
    pub modules: Vec<ReplacementCode>,
    /// How points are searched.
    pub search: Search,
    /// Timed launches of each point.
    pub repeats: u32,
    /// Launches of each point that are not timed, before the others.
    pub warm_ups: u32,
    /// How alike memory has to be in some ranges. They lie apart.
    pub areas: Vec<MemoryArea>,
    /// How alike all other memory has to be.
    pub rule: OutputTolerance,
    /// Most time that is taken.
    pub limits: Limits,
    /// What is known already, from a process that ended before it was through: it is not measured again.
    pub known: Vec<super::PointResult>,
    /// The recorded launch as it was measured by that process.
    pub known_baseline: Option<super::Measurement>,
}

impl Default for TuneRequest {
    fn default() -> Self {
        Self {
            event: 0,
            axes: Axes::default(),
            modules: Vec::new(),
            search: Search::Grid,
            repeats: 5,
            warm_ups: 1,
            areas: Vec::new(),
            rule: OutputTolerance::Exact,
            limits: Limits::default(),
            known: Vec::new(),
            known_baseline: None,
        }
    }
}
