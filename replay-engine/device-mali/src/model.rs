//! Differences between GPU models: identity and feature registers, and some reset values.

use crate::budget::Budget;

/// GPU model that this crate simulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Model {
    /// Mali-G71, eight cores, as on a HiKey960. All values are from the published recordings of such a board.
    G71,
    /// Mali-G52, with only the values that a driver needs; see [`ModelData::guessed`].
    G52,
    /// Mali-G72, with its own product number and the values that it shares with the G71.
    G72,
    /// Mali-G51, with its own product number and the values that it shares with the G52.
    G51,
    /// Mali-G76, with its own product number and the values that it shares with the G52.
    G76,
    /// Mali-G31, with its own product number and the values that it shares with the G52.
    G31,
}

impl Model {
    /// Models for which recordings are known, in the order in which a user sees them.
    pub const ALL: [Self; 2] = [Self::G71, Self::G52];

    /// All models, including those whose values are nearly all guessed. These are available by name only.
    pub const KNOWN: [Self; 6] = [Self::G71, Self::G52, Self::G72, Self::G51, Self::G76, Self::G31];

    /// Returns the model with this device name (`mali-g71`).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::KNOWN.into_iter().find(|m| m.data().name == name)
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
    ///
    /// Both recordings of a G71 read 3 (ACE-Lite and ACE) before the driver's reset and 2 (ACE) after it. The register
    /// shows the interconnect's protocols until a reset selects the protocol that the GPU was built to use.
    pub coherency_at_power_on: u32,
    /// Coherency protocols that are offered after a reset command.
    pub coherency_after_reset: u32,
    /// Initial value of the flush counter. Both recordings read it as `0xffffe0` before any flush.
    pub latest_flush: u32,
    /// Core clock in MHz, for the cycle counter.
    pub core_mhz: u64,
    /// Feature registers that never change: offset and value, sorted by offset.
    pub features: &'static [(u32, u32)],
    /// Values that no recording of this model shows, as text; empty if there are none.
    pub guessed: &'static str,
}

impl ModelData {
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

const G71_DATA: ModelData = ModelData {
    name: "mali-g71",
    gpu_name: "Mali-G71",
    description: "Simulated Mali-G71 with eight cores that run compute shaders; draws complete without running",
    gpu_id: 0x60a0_0002,
    architecture: 6,
    warp_width: 4,
    budget: BUDGET,
    shader_present: 0xff,
    tiler_present: 1,
    l2_present: 1,
    stack_present: 0,
    as_present: 0xff,
    js_present: 7,
    js_features: [0x20e, 0x4fe, 0x7e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    coherency_at_power_on: 3,
    coherency_after_reset: 2,
    latest_flush: 0x00ff_ffe0,
    core_mhz: 900,
    features: &[
        (0x004, 0x0713_0206),
        (0x008, 0),
        (0x00c, 0x809),
        (0x010, 0x101),
        (0x014, 0x2830),
        (0x0a0, 0x180),
        (0x0a4, 0x180),
        (0x0a8, 0x180),
        (0x0ac, 0x0a04_6000),
        (0x0b0, 0xffff_ffff),
        (0x0b4, 0x00ff_0fff),
        (0x0b8, 0xfe3f_ffff),
        (0x0bc, 0),
        (0x310, 0),
    ],
    guessed: "core clock",
};

const G52_DATA: ModelData = ModelData {
    name: "mali-g52",
    gpu_name: "Mali-G52",
    description: "Simulated Mali-G52 with two cores that run compute shaders; draws complete without running",
    gpu_id: 0x7212_0000,
    architecture: 7,
    warp_width: 8,
    budget: BUDGET,
    shader_present: 0x3,
    tiler_present: 1,
    l2_present: 1,
    stack_present: 0,
    as_present: 0xff,
    js_present: 7,
    js_features: [0x20e, 0x4fe, 0x7e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    coherency_at_power_on: 1,
    coherency_after_reset: 1,
    latest_flush: 0,
    core_mhz: 850,
    features: &[
        (0x004, 0x0711_0206),
        (0x008, 0),
        (0x00c, 0x809),
        (0x010, 0x1),
        (0x014, 0x2830),
        (0x0a0, 0x300),
        (0x0a4, 0x180),
        (0x0a8, 0x180),
        (0x0ac, 0x0a04_6000),
        (0x0b0, 0xffff_ffff),
        (0x0b4, 0x00ff_0fff),
        (0x0b8, 0xfe3f_ffff),
        (0x0bc, 0),
        (0x310, 0),
    ],
    guessed: "everything but the product number, the tiler features and the width of addresses",
};

static G71: ModelData = G71_DATA;
static G52: ModelData = G52_DATA;

// Product numbers and subgroup widths are from Mesa's tables (src/panfrost/lib/pan_props.c, Copyright 2019 Collabora,
// Ltd., MIT). The number of cores is that of a common chip.

static G72: ModelData = ModelData {
    name: "mali-g72",
    gpu_name: "Mali-G72",
    description: "Simulated Mali-G72 with twelve cores that run compute shaders; draws complete without running",
    gpu_id: 0x6221_0000,
    shader_present: 0xfff,
    guessed: OTHERS,
    ..G71_DATA
};

static G51: ModelData = ModelData {
    name: "mali-g51",
    gpu_name: "Mali-G51",
    description: "Simulated Mali-G51 with four cores that run compute shaders; draws complete without running",
    gpu_id: 0x7090_0000,
    shader_present: 0xf,
    guessed: OTHERS,
    ..G52_DATA
};

static G76: ModelData = ModelData {
    name: "mali-g76",
    gpu_name: "Mali-G76",
    description: "Simulated Mali-G76 with ten cores that run compute shaders; draws complete without running",
    gpu_id: 0x7211_0000,
    shader_present: 0x3ff,
    guessed: OTHERS,
    ..G52_DATA
};

static G31: ModelData = ModelData {
    name: "mali-g31",
    gpu_name: "Mali-G31",
    description: "Simulated Mali-G31 with two cores that run compute shaders; draws complete without running",
    gpu_id: 0x7093_0000,
    guessed: OTHERS,
    ..G52_DATA
};

const OTHERS: &str = "everything but the product number and the width of subgroups";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_find_their_model_and_features_are_sorted() {
        for m in Model::KNOWN {
            assert_eq!(Model::from_name(m.data().name), Some(m));
            assert!(m.data().features.windows(2).all(|w| w[0].0 < w[1].0));
            assert_eq!(u32::from(m.data().architecture), m.data().gpu_id >> 28);
            assert_eq!(m.data().threads_of_group(), 384);
            assert!(m.data().as_present < 1 << 16 && m.data().js_present < 1 << 16);
        }
        assert_eq!(Model::from_name("mali-t880"), None);
    }
}
