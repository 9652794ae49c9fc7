//! What tells one GPU from another: identity and feature registers, and a few reset values.

/// A GPU that this crate knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Model {
    /// Mali-G71, eight cores, as on a HiKey960. Every value was read from such a board by the published recordings.
    G71,
    /// Mali-G52. Only what a driver cannot do without; see [`ModelData::guessed`].
    G52,
}

impl Model {
    /// All models, in the order in which a person is offered them.
    pub const ALL: [Self; 2] = [Self::G71, Self::G52];

    /// The model with this device name (`mali-g71`).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.data().name == name)
    }

    /// The model's values.
    #[must_use]
    pub fn data(self) -> &'static ModelData {
        match self {
            Self::G71 => &G71,
            Self::G52 => &G52,
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

static G71: ModelData = ModelData {
    name: "mali-g71",
    gpu_name: "Mali-G71",
    description: "Software Mali-G71 with eight cores; jobs with shaders complete without running them",
    gpu_id: 0x60a0_0002,
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

static G52: ModelData = ModelData {
    name: "mali-g52",
    gpu_name: "Mali-G52",
    description: "Software Mali-G52 with two cores; jobs with shaders complete without running them",
    gpu_id: 0x7212_0000,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_find_their_model_and_features_are_sorted() {
        for m in Model::ALL {
            assert_eq!(Model::from_name(m.data().name), Some(m));
            assert!(m.data().features.windows(2).all(|w| w[0].0 < w[1].0));
            assert!(m.data().as_present < 1 << 16 && m.data().js_present < 1 << 16);
        }
        assert_eq!(Model::from_name("mali-t880"), None);
    }
}
