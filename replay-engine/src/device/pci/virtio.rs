//! Detection of virtio devices that bypass the IOMMU.
//!
//! Virtio 1.2, section 6.1 and 4.1.4: a device that does not offer `VIRTIO_F_ACCESS_PLATFORM` uses physical addresses,
//! even behind an IOMMU. Emulated machines have such devices.

use super::config::Config;
use super::error::PciError;
use super::function::Function;
use super::region_access::RegionAccess;
use crate::device::Window;

/// Vendor of virtio devices.
const VENDOR: u16 = 0x1af4;
/// Vendor-specific capability, and its virtio type: the common configuration.
const VENDOR_SPECIFIC: u8 = 0x09;
const COMMON: u8 = 1;
/// Registers of the common configuration: the feature word selector, and the selected word.
const FEATURE_SELECT: u64 = 0;
const FEATURES: u64 = 4;
/// `VIRTIO_F_ACCESS_PLATFORM` is feature 33.
const SECOND_WORD: u64 = 1;
const ACCESS_PLATFORM: u64 = 1 << 1;

/// Returns whether a function accesses memory past its IOMMU. A virtio device without features at the specified
/// location is assumed to.
pub(super) fn can_bypass_iommu(
    function: &Function,
    config: &Config,
    windows: &[Window],
    ways: &[Option<RegionAccess>],
) -> Result<bool, PciError> {
    if function.pci.vendor != VENDOR {
        return Ok(false);
    }
    for at in config.capabilities(VENDOR_SPECIFIC)? {
        let Some([_, _, _, kind, bar, _, _, _, a, b, c, d]) = config.bytes::<12>(at)? else {
            continue;
        };
        if kind != COMMON {
            continue;
        }
        let name = format!("bar{bar}");
        let number = windows.iter().find(|w| w.name == name).map(|w| usize::from(w.number));
        let Some(Some(RegionAccess::Memory(window))) = number.and_then(|n| ways.get(n)) else {
            continue;
        };
        let base = u64::from(u32::from_le_bytes([a, b, c, d]));
        let features = window
            .write(base + FEATURE_SELECT, 4, SECOND_WORD)
            .and_then(|()| window.read(base + FEATURES, 4));
        // The value after a reset.
        let _ = window.write(base + FEATURE_SELECT, 4, 0);
        return Ok(features.is_none_or(|f| f & ACCESS_PLATFORM == 0));
    }
    Ok(true)
}
