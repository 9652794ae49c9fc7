//! The bus devices that a map describes.

use super::map_error::{RegisterMapError, SourceLocation};
use super::raw::RawDevice;
use crate::recording::Hardware;

/// A device that a map describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Device {
    pub(super) id: Id,
    pub(super) name: String,
}

/// Bus identity of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Id {
    /// Vendor and device of PCI configuration space.
    Pci(u16, u16),
    /// Device-tree `compatible` string.
    Compatible(String),
}

impl Device {
    /// Whether this is the recorded device.
    pub(super) fn is(&self, hardware: &Hardware) -> bool {
        match (&self.id, hardware) {
            (Id::Pci(vendor, device), Hardware::Pci(f)) => (*vendor, *device) == (f.vendor, f.device),
            (Id::Compatible(name), Hardware::Platform(d)) => d.compatible.contains(name),
            _ => false,
        }
    }
}

/// Parses and checks a `[[map.device]]` table.
pub(super) fn device(at: &SourceLocation<'_>, raw: &RawDevice) -> Result<Device, RegisterMapError> {
    let id = match (raw.vendor, raw.device, &raw.compatible) {
        (Some(vendor), Some(device), None) => Id::Pci(vendor, device),
        (None, None, Some(c)) if !c.is_empty() => Id::Compatible(c.clone()),
        _ => {
            let reason = "needs either vendor and device, or compatible, but not both";
            return Err(at.err(format!("device {} {reason}", raw.name)));
        }
    };
    Ok(Device {
        id,
        name: raw.name.clone(),
    })
}
