//! A tuning request: the launch, the values to try, the search method, and the tolerances of outputs.

use super::measurement::Measurement;
use super::point::{Bounds, Cache};
use super::report::PointResult;
use serde::{Deserialize, Serialize};
use trace_core::GpuVa;
use trace_core::recording::ElementType;

/// Values to try, by parameter. An empty list keeps the recorded value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Axes {
    /// Block dimensions, threads.
    pub block: [Vec<u32>; 3],
    /// Grid dimensions, blocks.
    pub grid: [Vec<u32>; 3],
    /// Grid dimensions without a list follow the block: the smallest number of blocks with at least the recorded
    /// threads.
    pub cover: bool,
    /// Dynamic shared memory, bytes.
    pub shared: Vec<u32>,
    /// Cache preferences.
    pub cache: Vec<Cache>,
    /// Maximum registers per thread, 1 to 255. 0 means the code's own.
    pub max_registers: Vec<u32>,
    /// Launch bounds.
    pub bounds: Vec<Bounds>,
}

impl Axes {
    /// Returns whether no list has values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.block.iter().chain(&self.grid).all(Vec::is_empty)
            && self.shared.is_empty()
            && self.cache.is_empty()
            && self.max_registers.is_empty()
            && self.bounds.is_empty()
    }
}

/// The form of replacement code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReplacementKind {
    /// PTX text for the driver's compiler.
    #[default]
    Ptx,
    /// Machine code in an ELF file.
    Cubin,
    /// A container of both.
    Fatbin,
    /// CUDA C++, compiled by NVRTC on the device's machine.
    Source,
}

impl ReplacementKind {
    /// Returns the short name.
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

/// Code that replaces the recorded code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplacementCode {
    /// Display name: the name of the file.
    pub name: String,
    /// Its form.
    pub kind: ReplacementKind,
    /// The code.
    pub bytes: Vec<u8>,
    /// The function in it: mangled, or for CUDA C++ an expression (`scale<float, 4>`). If empty, the name of the
    /// recorded function.
    pub function: String,
    /// Compiler options, for CUDA C++.
    pub options: Vec<String>,
}

/// The search method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Search {
    /// Every point, in order.
    #[default]
    Grid,
    /// A number of randomly drawn points.
    Random {
        /// Number of points; all if there are fewer.
        points: u32,
        /// The same seed draws the same points.
        seed: u64,
    },
    /// Successive halving: all points with few repeats, then the best of them with more, until few are left, which get
    /// all repeats.
    Halving {
        /// Number of randomly drawn points that take part. 0 means all.
        points: u32,
        /// The same seed draws the same points.
        seed: u64,
        /// One in this many stays, at least 2.
        factor: u32,
    },
}

/// Time limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Limit for one launch on the device, nanoseconds. A slower point is abandoned after its first launch.
    pub launch_ns: u64,
    /// Time after which a launch counts as stuck, nanoseconds.
    pub stuck_ns: u64,
    /// Total limit, nanoseconds. Measurements up to then are the result.
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

/// The tolerance for comparing two outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutputTolerance {
    /// Bit for bit.
    #[default]
    Exact,
    /// Elements of a type, each within an absolute or a relative tolerance.
    Near {
        /// Type of the elements.
        element: ElementType,
        /// Absolute tolerance.
        absolute: f64,
        /// Relative tolerance, as a fraction of the recorded value.
        relative: f64,
    },
    /// Floating-point elements, each within a number of ULPs (steps to the next representable number).
    Steps {
        /// Type of the elements, a floating-point one.
        element: ElementType,
        /// Maximum number of steps.
        most: u64,
    },
}

/// An address range whose elements have their own comparison rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryArea {
    /// First byte.
    pub at: GpuVa,
    /// Bytes.
    pub bytes: u64,
    /// The tolerance of its elements.
    pub rule: OutputTolerance,
}

/// A launch, and the values to try with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TuneRequest {
    /// Event of the launch.
    pub event: u64,
    /// Values to try.
    pub axes: Axes,
    /// Code to try instead of the recorded code. If empty, the recorded code is tried.
    pub modules: Vec<ReplacementCode>,
    /// The search method.
    pub search: Search,
    /// Number of timed launches per point.
    pub repeats: u32,
    /// Number of untimed launches per point, before the others.
    pub warm_ups: u32,
    /// Tolerances of memory in some ranges, which are disjoint.
    pub areas: Vec<MemoryArea>,
    /// The tolerance of all other memory.
    pub rule: OutputTolerance,
    /// Time limits.
    pub limits: Limits,
    /// Results from a process that ended early. These points are not measured again.
    pub known: Vec<PointResult>,
    /// The measurement of the recorded launch by that process.
    pub known_baseline: Option<Measurement>,
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
