//! Whether a virtio device keeps to the IOMMU in front of it.
//!
//! Virtio 1.2, section 6.1 and 4.1.4: a device that does not offer `VIRTIO_F_ACCESS_PLATFORM` takes addresses of memory
//! as they are, whatever stands in front of it. Emulated machines have such devices.

use super::config::Config;
use super::error::PciError;
use super::function::Function;
use super::region_access::RegionAccess;
use crate::device::Window;

/// Vendor of virtio devices.
const VENDOR: u16 = 0x1af4;
/// Capability of a vendor's own, and which of virtio's it is: the common configuration.
const VENDOR_SPECIFIC: u8 = 0x09;
const COMMON: u8 = 1;
/// Registers of the common configuration: which 32 features are shown, and these.
const FEATURE_SELECT: u64 = 0;
const FEATURES: u64 = 4;
/// `VIRTIO_F_ACCESS_PLATFORM` is feature 33.
const SECOND_WORD: u64 = 1;
const ACCESS_PLATFORM: u64 = 1 << 1;

/// Whether a function reaches memory past the IOMMU in front of it. A virtio device that does not tell its features
/// where the specification has them is taken for one.
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
        // As it was after a reset.
        let _ = window.write(base + FEATURE_SELECT, 4, 0);
        return Ok(features.is_none_or(|f| f & ACCESS_PLATFORM == 0));
    }
    Ok(true)
}
