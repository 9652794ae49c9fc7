//! Simulated GPU models: the register values of a model, and what a simulator of it has besides.

use crate::budget::Budget;
use trace_core::families::mali_jm::models::{self, GpuModel};

/// GPU model that this crate simulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Model {
    /// Mali-G71 with eight cores.
    G71,
    /// Mali-G52 with two cores.
    G52,
    /// Mali-G72 with three cores.
    G72,
    /// Mali-G51 with four cores.
    G51,
    /// Mali-G76 with sixteen cores.
    G76,
    /// Mali-G31 with one core.
    G31,
}

impl Model {
    /// All models, in the order in which a user sees them.
    pub const ALL: [Self; 6] = [Self::G71, Self::G52, Self::G72, Self::G51, Self::G76, Self::G31];

    /// Returns the model with this device name (`mali-g71`).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.data().name == name)
    }

    /// Returns the values of the model.
    #[must_use]
    pub fn data(self) -> &'static ModelData {
        match self {
            Self::G71 => &G71,
            Self::G52 => &G52,
            Self::G72 => &G72,
            Self::G51 => &G51,
            Self::G76 => &G76,
            Self::G31 => &G31,
        }
    }
}

/// Values of one model.
#[derive(Debug)]
pub struct ModelData {
    /// Device name: `mali-g71`.
    pub name: &'static str,
    /// Common name of the GPU.
    pub gpu_name: &'static str,
    /// Description in one line.
    pub description: &'static str,
    /// Value of the GPU id register.
    pub gpu_id: u32,
    /// Major version of the architecture: 6 or 7. It is also the upper four bits of the GPU id.
    pub architecture: u8,
    /// Number of threads that execute a clause together, which a shader sees as its subgroup.
    pub warp_width: u8,
    /// Number of bits of a GPU address. An access beyond them faults.
    pub va_bits: u32,
    /// Execution budget of a job.
    pub budget: Budget,
    /// Existing shader cores, one bit each.
    pub shader_present: u64,
    /// Existing tilers.
    pub tiler_present: u64,
    /// Existing level-2 cache slices.
    pub l2_present: u64,
    /// Existing core stacks.
    pub stack_present: u64,
    /// Existing address spaces, one bit each; at most 16.
    pub as_present: u32,
    /// Existing job slots, one bit each; at most 16.
    pub js_present: u32,
    /// Job types that each slot supports, bit `n` for type `n`.
    pub js_features: [u32; 16],
    /// Coherency protocols that are offered after power-on, before the first reset command.
    pub coherency_at_power_on: u32,
    /// Coherency protocols that are offered after a reset command.
    pub coherency_after_reset: u32,
    /// Initial value of the flush counter. Both recordings of a G71 read it as `0xffffe0` before any flush.
    pub latest_flush: u32,
    /// Core clock in MHz, for the cycle counter; guessed for every model.
    pub core_mhz: u64,
    /// Feature registers that never change: offset and value, sorted by offset.
    pub features: &'static [(u32, u32)],
    /// Values that no recording of this model and no public source shows, as text. The core clock, which is guessed for
    /// every model, is not listed.
    pub guessed: &'static str,
}

impl ModelData {
    /// Returns the data of a simulator of `gpu`.
    const fn new(gpu: &GpuModel, description: &'static str, latest_flush: u32, core_mhz: u64) -> Self {
        Self {
            name: gpu.device_name,
            gpu_name: gpu.name,
            description,
            gpu_id: gpu.gpu_id,
            architecture: gpu.architecture(),
            warp_width: gpu.warp_width,
            va_bits: feature_in(gpu.features, MMU_FEATURES) & 0xff,
            budget: BUDGET,
            shader_present: gpu.shader_present,
            tiler_present: gpu.tiler_present,
            l2_present: gpu.l2_present,
            stack_present: gpu.stack_present,
            as_present: gpu.as_present,
            js_present: gpu.js_present,
            js_features: gpu.js_features,
            coherency_at_power_on: gpu.coherency_at_power_on,
            coherency_after_reset: gpu.coherency_after_reset,
            latest_flush,
            core_mhz,
            features: gpu.features,
            guessed: gpu.guessed,
        }
    }

    /// Returns a feature register's value, or 0 if the register does not exist.
    #[must_use]
    pub fn feature(&self, offset: u32) -> u32 {
        let at = self.features.binary_search_by_key(&offset, |f| f.0);
        at.ok().and_then(|n| self.features.get(n)).map_or(0, |f| f.1)
    }

    /// Returns the maximum number of threads of a workgroup.
    #[must_use]
    pub fn threads_of_group(&self) -> u32 {
        self.feature(MAX_WORKGROUP_SIZE)
    }
}

/// Returns a feature register's value at compile time, or 0 if the register does not exist.
const fn feature_in(features: &[(u32, u32)], offset: u32) -> u32 {
    let mut rest = features;
    while let [(at, value), more @ ..] = rest {
        if *at == offset {
            return *value;
        }
        rest = more;
    }
    0
}

/// Offset of the register with the widths of addresses.
const MMU_FEATURES: u32 = 0x014;
/// Offset of the register with the maximum number of threads of a workgroup.
const MAX_WORKGROUP_SIZE: u32 = 0x0a4;

/// A real driver gives a job half a second to a few seconds. The work of one warp in that time, and of all warps on a
/// large GPU, is assumed to be an order of magnitude below this budget. A wave counts at most what its warps, eight of
/// four threads, would count one by one, and less if they take the same path. The number of clauses that may be read of
/// a chain's shaders is some thousand for each of the maximum number of jobs of a chain.
const BUDGET: Budget = Budget {
    wave: 1 << 25,
    job: 1 << 34,
    read: 1 << 26,
};

static G71: ModelData = ModelData::new(
    &models::G71,
    "Simulated Mali-G71 with eight cores that run compute shaders; draws complete without running",
    0x00ff_ffe0,
    900,
);
static G52: ModelData = ModelData::new(
    &models::G52,
    "Simulated Mali-G52 with two cores that run compute shaders; draws complete without running",
    0,
    850,
);
static G72: ModelData = ModelData::new(
    &models::G72,
    "Simulated Mali-G72 with three cores that run compute shaders; draws complete without running",
    0x00ff_ffe0,
    800,
);
static G51: ModelData = ModelData::new(
    &models::G51,
    "Simulated Mali-G51 with four cores that run compute shaders; draws complete without running",
    0,
    650,
);
static G76: ModelData = ModelData::new(
    &models::G76,
    "Simulated Mali-G76 with sixteen cores that run compute shaders; draws complete without running",
    0,
    600,
);
static G31: ModelData = ModelData::new(
    &models::G31,
    "Simulated Mali-G31 with one core that runs compute shaders; draws complete without running",
    0,
    650,
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_find_their_model() {
        for m in Model::ALL {
            assert_eq!(Model::from_name(m.data().name), Some(m));
            assert_eq!(u32::from(m.data().architecture), m.data().gpu_id >> 28);
            assert_eq!(m.data().threads_of_group(), 384);
            let va_bits = if m == Model::G31 { 33 } else { 48 };
            assert_eq!(m.data().va_bits, va_bits);
        }
        assert_eq!(Model::from_name("mali-t880"), None);
    }
}
