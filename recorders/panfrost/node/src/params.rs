//! GPU parameters for a program, read from the device's registers.

use crate::error::NodeError;
use replay_engine::device::{RegisterTarget, space};
use std::collections::BTreeMap;

/// Numbers of parameters that are not one register.
const PROD_ID: u32 = 0;
const REVISION: u32 = 1;
const CORE_GROUPS: u32 = 38;

/// Parameters that are registers: number, offset of the register, and whether the next register holds the upper half.
const REGISTERS: &[(u32, u32, bool)] = &[
    (2, 0x100, true),
    (3, 0x110, true),
    (4, 0x120, true),
    (5, 0xe00, true),
    (6, 0x018, false),
    (7, 0x01c, false),
    (8, 0x004, false),
    (9, 0x008, false),
    (10, 0x00c, false),
    (11, 0x010, false),
    (12, 0x014, false),
    (13, 0x0ac, false),
    (14, 0x0a0, false),
    (15, 0x0a4, false),
    (16, 0x0a8, false),
    (17, 0x300, false),
    (18, 0x0b0, false),
    (19, 0x0b4, false),
    (20, 0x0b8, false),
    (21, 0x0bc, false),
    (22, 0x0c0, false),
    (23, 0x0c4, false),
    (24, 0x0c8, false),
    (25, 0x0cc, false),
    (26, 0x0d0, false),
    (27, 0x0d4, false),
    (28, 0x0d8, false),
    (29, 0x0dc, false),
    (30, 0x0e0, false),
    (31, 0x0e4, false),
    (32, 0x0e8, false),
    (33, 0x0ec, false),
    (34, 0x0f0, false),
    (35, 0x0f4, false),
    (36, 0x0f8, false),
    (37, 0x0fc, false),
    (39, 0x310, false),
];
/// Parameter for missing compressed framebuffers (AFBC): not 0 if the GPU lacks them. The simulator has none, whatever
/// the register of the real GPU says. A driver that reads this uses a layout for large textures that the simulator
/// supports.
const AFBC_FEATURES: u32 = 40;
const GPU_ID: u32 = 0;
const L2_PRESENT: u32 = 4;

/// Parameters by number.
#[derive(Debug, Default)]
pub(crate) struct Params(BTreeMap<u32, u64>);

/// Returns the product id that the driver's users compare. The G71's register holds 0x60a0, whose middle digits are a
/// revision of the architecture; Mesa's list of GPUs has it as 0x6000. Other GPUs are in that list with their
/// register's value.
fn product(gpu_id: u32) -> u32 {
    let product = gpu_id >> 16;
    if product & 0xf00f == 0x6000 { 0x6000 } else { product }
}

impl Params {
    /// Reads the parameters, without changing the device.
    pub(crate) fn read(device: &mut dyn RegisterTarget) -> Result<Self, NodeError> {
        let name = device.info().name;
        let mut register = |offset: u32| {
            let read = device.read(space::REGISTERS, u64::from(offset), 4);
            read.map_err(|_| NodeError::Features {
                name: name.clone(),
                offset,
            })
        };
        let gpu_id = register(GPU_ID)? as u32;
        let mut values = BTreeMap::from([
            (PROD_ID, u64::from(product(gpu_id))),
            (REVISION, u64::from(gpu_id & 0xffff)),
            (AFBC_FEATURES, 1),
        ]);
        for &(param, offset, wide) in REGISTERS {
            let low = register(offset)?;
            let high = if wide { register(offset + 4)? } else { 0 };
            values.insert(param, low | high << 32);
        }
        let slices = values.get(&L2_PRESENT).copied().unwrap_or(0);
        values.insert(CORE_GROUPS, u64::from(slices.count_ones()));
        Ok(Self(values))
    }

    pub(crate) fn get(&self, param: u32) -> Option<u64> {
        self.0.get(&param).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpu_product_matches_mesa() {
        assert_eq!(product(0x60a0_0002), 0x6000);
        assert_eq!(product(0x7212_0000), 0x7212);
        assert_eq!(product(0x6221_0010), 0x6221);
    }

    #[test]
    fn every_parameter_of_version_1_2_is_known() {
        let mut device = device_mali::factory("mali-g71").unwrap();
        let p = Params::read(&mut *device).unwrap();
        assert!((0..=40).all(|n| p.get(n).is_some()));
        assert_eq!(p.get(41), None);
        assert_eq!((p.get(0), p.get(2), p.get(38)), (Some(0x6000), Some(0xff), Some(1)));
        assert_eq!(p.get(15), Some(0x180), "threads of a workgroup");
        assert_eq!(p.get(AFBC_FEATURES), Some(1), "there are no compressed framebuffers");
    }
}
