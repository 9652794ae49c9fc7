//! What tells one GPU from another: identity and feature registers, and a few reset values.

use crate::compute::stop::Budget;

/// A GPU that this crate knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Model {
    /// Mali-G71, eight cores, as on a HiKey960. Every value was read from such a board by the published recordings.
    G71,
    /// Mali-G52. Only what a driver cannot do without; see [`ModelData::guessed`].
    G52,
    /// Mali-G72. Its product number and what it shares with the G71.
    G72,
    /// Mali-G51. Its product number and what it shares with the G52.
    G51,
    /// Mali-G76. Its product number and what it shares with the G52.
    G76,
    /// Mali-G31. Its product number and what it shares with the G52.
    G31,
}

impl Model {
    /// The models that recordings are known of, in the order in which a person is offered them.
    pub const ALL: [Self; 2] = [Self::G71, Self::G52];

    /// All models, those too of which next to everything is guessed: they are there for who asks by name.
    pub const KNOWN: [Self; 6] = [Self::G71, Self::G52, Self::G72, Self::G51, Self::G76, Self::G31];

    /// The model with this device name (`mali-g71`).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::KNOWN.into_iter().find(|m| m.data().name == name)
    }

    /// The model's values.
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

/// The values of one model.
#[derive(Debug)]
pub struct ModelData {
    /// Device name: `mali-g71`.
    pub name: &'static str,
    /// GPU in the field's words.
    pub gpu_name: &'static str,
    /// One line for a person.
    pub description: &'static str,
    /// The GPU id register.
    pub gpu_id: u32,
    /// Major version of the architecture: 6 or 7. It is also the upper four bits of the GPU id.
    pub architecture: u8,
    /// Threads that execute a clause together, which is what a shader sees as its subgroup.
    pub warp_width: u8,
    /// What a job may execute.
    pub budget: Budget,
    /// Shader cores there are, a bit each.
    pub shader_present: u64,
    /// Tilers there are.
    pub tiler_present: u64,
    /// Level-2 cache slices there are.
    pub l2_present: u64,
    /// Core stacks there are.
    pub stack_present: u64,
    /// Address spaces there are, a bit each; at most 16.
    pub as_present: u32,
    /// Job slots there are, a bit each; at most 16.
    pub js_present: u32,
    /// Job types that each slot takes, bit `n` for type `n`.
    pub js_features: [u32; 16],
    /// Coherency protocols offered after power-on, before the first reset command.
    ///
    /// Both recordings of a G71 read 3 (ACE-Lite and ACE) before the driver's reset and 2 (ACE) after it: the
    /// register shows what the interconnect offers until a reset has settled what the GPU was built to use.
    pub coherency_at_power_on: u32,
    /// Coherency protocols offered after a reset command.
    pub coherency_after_reset: u32,
    /// Where the flush counter starts. Both recordings read it as `0xffffe0` before any flush.
    pub latest_flush: u32,
    /// Core clock in MHz, for the cycle counter.
    pub core_mhz: u64,
    /// Feature registers that never change: offset and value, sorted by offset.
    pub features: &'static [(u32, u32)],
    /// What no recording of this model showed, in words; empty when there is nothing of that kind.
    pub guessed: &'static str,
}

impl ModelData {
    /// A feature register's value; 0 where there is none.
    #[must_use]
    pub fn feature(&self, offset: u32) -> u32 {
        let at = self.features.binary_search_by_key(&offset, |f| f.0);
        at.ok().and_then(|n| self.features.get(n)).map_or(0, |f| f.1)
    }

    /// Most threads of a workgroup.
    #[must_use]
    pub fn threads_of_group(&self) -> u32 {
        self.feature(MAX_WORKGROUP_SIZE)
    }
}

/// Offset of the register that tells the most threads of a workgroup.
const MAX_WORKGROUP_SIZE: u32 = 0x0a4;

/// A real driver gives a job half a second or a few. What one warp executes in that time, and what all of them do on a
/// large GPU, is taken to be less than this by an order of magnitude. A wave counts at most what its warps, eight of
/// four threads, would count one by one: less where they go the same way. What is read of a chain's shaders is some
/// thousand clauses for each of the most jobs that a chain may have.
const BUDGET: Budget = Budget {
    wave: 1 << 25,
    job: 1 << 34,
    read: 1 << 26,
};

const G71_DATA: ModelData = ModelData {
    name: "mali-g71",
    gpu_name: "Mali-G71",
    description: "Software Mali-G71 with eight cores that run compute shaders; draws complete without running",
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
    description: "Software Mali-G52 with two cores that run compute shaders; draws complete without running",
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

// Product numbers and the width of subgroups as Mesa's tables have them (src/panfrost/lib/pan_props.c, Copyright 2019
// Collabora, Ltd., MIT). The number of cores is that of a common chip.

static G72: ModelData = ModelData {
    name: "mali-g72",
    gpu_name: "Mali-G72",
    description: "Software Mali-G72 with twelve cores that run compute shaders; draws complete without running",
    gpu_id: 0x6221_0000,
    shader_present: 0xfff,
    guessed: OTHERS,
    ..G71_DATA
};

static G51: ModelData = ModelData {
    name: "mali-g51",
    gpu_name: "Mali-G51",
    description: "Software Mali-G51 with four cores that run compute shaders; draws complete without running",
    gpu_id: 0x7090_0000,
    shader_present: 0xf,
    guessed: OTHERS,
    ..G52_DATA
};

static G76: ModelData = ModelData {
    name: "mali-g76",
    gpu_name: "Mali-G76",
    description: "Software Mali-G76 with ten cores that run compute shaders; draws complete without running",
    gpu_id: 0x7211_0000,
    shader_present: 0x3ff,
    guessed: OTHERS,
    ..G52_DATA
};

static G31: ModelData = ModelData {
    name: "mali-g31",
    gpu_name: "Mali-G31",
    description: "Software Mali-G31 with two cores that run compute shaders; draws complete without running",
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
