//! The bus devices of a map, and the map of a recording's device.

use super::parse::{RegisterMapError, SourceLocation};
use super::raw::RawDevice;
use super::recorded::is_map_for;
use super::{RecordedRegisters, RegisterMap, embedded};
use crate::recording::{Hardware, Recording};
use std::sync::LazyLock;

/// A device that a map describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Device {
    pub(super) id: Id,
    name: String,
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
    fn is(&self, hardware: &Hardware) -> bool {
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

/// Returns the name of the PCI device with these ids, `ATI Radeon 7000 (RV100)`, or `None` for one that no map knows.
#[must_use]
pub fn device_name(vendor: u16, device: u16) -> Option<&'static str> {
    let id = Id::Pci(vendor, device);
    embedded::devices().find(|d| d.id == id).map(|d| d.name.as_str())
}

/// Returns the common name of the recorded device. This is the GPU's name in the recording, else the name of the bus
/// device in a map, else the device's ids. Empty if the recording has none.
#[must_use]
pub fn recorded_name(recording: &Recording) -> String {
    let message = &recording.metadata.identity.gpu_name;
    if !message.is_empty() {
        return message.clone();
    }
    let Some(hardware) = recording.hardware() else {
        return String::new();
    };
    embedded::hardware_name(&hardware).map_or_else(|| hardware.id(), str::to_owned)
}

impl RegisterMap {
    /// Returns the map that names the registers of a recording's device: the user's maps ([`choose`](super::choose))
    /// over the embedded one.
    #[must_use]
    pub fn for_recording(recording: &Recording) -> Option<&'static Self> {
        super::map_selection::map_for(recording)
    }

    /// Returns the maps that [`RegisterMap::for_recording`] combines, highest precedence first.
    #[must_use]
    pub fn list_for_recording(recording: &Recording) -> Vec<&'static Self> {
        super::map_selection::layers(recording)
    }

    /// Returns the embedded map for the device of a recording: for its bus device, else for the GPU of its id register.
    /// Jobs, page tables and data stored with a recording depend on this map only, never on a user map, which only
    /// gives names. Returns `None` also if the recording has only other windows of the device than the window of the
    /// map.
    #[must_use]
    pub fn built_in_for(recording: &Recording) -> Option<&'static Self> {
        Self::for_device_of(recording).filter(|map| is_map_for(map, recording))
    }

    /// Returns the embedded map for the device of a recording, whichever windows of it were recorded.
    pub(crate) fn for_device_of(recording: &Recording) -> Option<&'static Self> {
        let on_bus = recording.hardware().and_then(|h| Self::for_hardware(&h));
        on_bus.or_else(|| Self::for_gpu(recording.metadata.identity.gpu_id))
    }

    /// Returns the map that the jobs of a recording depend on: the embedded map for its device. If the recording has
    /// submit events and no map knows the device, it is a map without registers.
    #[must_use]
    pub fn for_jobs_of(recording: &Recording) -> Option<&'static Self> {
        static NAMELESS: LazyLock<RegisterMap> = LazyLock::new(RegisterMap::default);
        let built_in = Self::built_in_for(recording);
        built_in.or_else(|| (!recording.events.submits.is_empty()).then(|| &*NAMELESS))
    }

    /// Returns the name of a bus device in this map, if it has the device.
    #[must_use]
    pub fn hardware_name(&self, hardware: &Hardware) -> Option<&str> {
        let found = self.devices.iter().find(|d| d.is(hardware));
        found.map(|d| d.name.as_str())
    }

    /// Returns the registers of a recording's device, or `None` if no map knows it.
    #[must_use]
    pub fn recorded_registers(recording: &Recording) -> Option<RecordedRegisters> {
        RecordedRegisters::new(recording)
    }
}
