//! Virtio features that a driver must accept behind an IOMMU.

use crate::device::{Containment, DeviceInfo};
use trace_core::RegOffset;
use trace_core::registers::{BusEngine, QueueEngine, RegisterMap};

/// The feature selection of a virtio device behind an IOMMU, as it is written. Other devices are not changed.
pub(super) struct FeatureSelect<'a> {
    engine: Option<&'a QueueEngine>,
    /// The feature word that is written next.
    word: u64,
}

impl<'a> FeatureSelect<'a> {
    /// Creates the state for a device.
    pub fn new(map: &'a RegisterMap, target: &DeviceInfo) -> Self {
        let behind = target.containment == Containment::Iommu;
        let engine = match map.bus_master().filter(|_| behind).map(|m| &m.engine) {
            Some(BusEngine::Virtqueue(q)) => Some(q),
            _ => None,
        };
        // A reset leaves 0.
        Self { engine, word: 0 }
    }

    /// Returns a replacement for a written value, with the reason for the user, or `None` if it stays.
    pub fn write(&mut self, offset: RegOffset, value: u64) -> Option<(u64, String)> {
        let engine = self.engine?;
        if offset == engine.feature_select {
            self.word = value;
        }
        if offset != engine.feature {
            return None;
        }
        let shift = u32::try_from(self.word.checked_mul(32)?).ok()?;
        let wanted = engine.behind_iommu.checked_shr(shift)? & u64::from(u32::MAX);
        (value & wanted != wanted).then(|| {
            let now = value | wanted;
            let number = engine.behind_iommu.trailing_zeros();
            (
                now,
                format!(
                    "features {value:#x} become {now:#x}: feature {number} has to be taken behind an IOMMU, or the \
                     device does not work"
                ),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtio_feature_is_set_only_in_its_word() {
        let map = RegisterMap::by_name("virtio-gpu").unwrap();
        let mut front = FeatureSelect {
            engine: match &map.bus_master().unwrap().engine {
                BusEngine::Virtqueue(q) => Some(q),
                BusEngine::Copy(_) => None,
            },
            word: 0,
        };
        let (select, feature) = (RegOffset::new(0x8), RegOffset::new(0xc));
        assert_eq!(front.write(feature, 0x2), None, "word 0 has no feature to set");
        assert_eq!(front.write(select, 1), None);
        assert_eq!(
            front.write(RegOffset::new(0x14), 1),
            None,
            "the feature is in another register"
        );
        let (value, why) = front.write(feature, 1).unwrap();
        assert_eq!(value, 3);
        assert!(why.contains("0x1 become 0x3") && why.contains("feature 33"), "{why}");
        assert_eq!(front.write(feature, 3), None, "the driver already accepts the feature");
        for word in [2, u64::MAX] {
            assert_eq!(front.write(select, word), None);
            assert_eq!(front.write(feature, 1), None, "{word:#x}");
        }
        front.engine = None;
        front.word = 1;
        assert_eq!(front.write(feature, 1), None);
    }
}
