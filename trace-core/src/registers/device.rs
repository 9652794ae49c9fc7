//! Which devices on a bus a map is for, and the map of a recording's device.

use super::parse::{At, RegisterMapError};
use super::raw::RawDevice;
use super::{RecordedRegisters, RegisterMap};
use crate::recording::{Hardware, Recording};

/// A device that a map describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Device {
    pub(super) id: Id,
    name: String,
}

/// How its bus tells the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Id {
    /// Vendor and device of PCI configuration space.
    Pci(u16, u16),
    /// What the device tree says that it is compatible with.
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

/// A `[[map.device]]` table, checked.
pub(super) fn device(at: &At<'_>, raw: &RawDevice) -> Result<Device, RegisterMapError> {
    let id = match (raw.vendor, raw.device, &raw.compatible) {
        (Some(vendor), Some(device), None) => Id::Pci(vendor, device),
        (None, None, Some(c)) if !c.is_empty() => Id::Compatible(c.clone()),
        _ => {
            let reason = "is told either by vendor and device or by what it is compatible with";
            return Err(at.err(format!("device {} {reason}", raw.name)));
        }
    };
    Ok(Device {
        id,
        name: raw.name.clone(),
    })
}

/// The name of the PCI device with these ids, `ATI Radeon 7000 (RV100)`; `None` for one that no map knows.
#[must_use]
pub fn device_name(vendor: u16, device: u16) -> Option<&'static str> {
    let id = Id::Pci(vendor, device);
    let mut all = RegisterMap::embedded().flat_map(|m| &m.devices);
    all.find(|d| d.id == id).map(|d| d.name.as_str())
}

/// What a recording is of, as people call it: the GPU's name that the recording tells, else the name that a map has for
/// the device on the bus, else the device's ids; empty where the recording tells nothing.
#[must_use]
pub fn recorded_name(recording: &Recording) -> String {
    let told = &recording.facts.identity.gpu_name;
    if !told.is_empty() {
        return told.clone();
    }
    let Some(hardware) = recording.hardware() else {
        return String::new();
    };
    let mut names = RegisterMap::embedded().filter_map(|m| m.hardware_name(&hardware));
    names.next().map_or_else(|| hardware.id(), str::to_owned)
}

impl RegisterMap {
    /// The embedded map for a device on a bus.
    #[must_use]
    pub fn for_hardware(hardware: &Hardware) -> Option<&'static Self> {
        Self::embedded().find(|m| m.hardware_name(hardware).is_some())
    }

    /// The map that names the registers of a recording's device: the person's ([`choose`](super::choose)) laid over the
    /// embedded one.
    #[must_use]
    pub fn for_recording(recording: &Recording) -> Option<&'static Self> {
        super::chosen::of(recording)
    }

    /// The maps that [`RegisterMap::for_recording`] is made of, the one whose names win first.
    #[must_use]
    pub fn naming(recording: &Recording) -> Vec<&'static Self> {
        super::chosen::layers(recording)
    }

    /// The embedded map for the device of a recording: the one on the bus that it tells, else the GPU whose id register
    /// it tells. Jobs, page tables and whatever is stored beside a recording follow from it alone, never from a
    /// person's map, which gives names.
    #[must_use]
    pub fn built_in_for(recording: &Recording) -> Option<&'static Self> {
        let on_bus = recording.hardware().and_then(|h| Self::for_hardware(&h));
        on_bus.or_else(|| Self::for_gpu(recording.facts.identity.gpu_id))
    }

    /// The name of a device on a bus, where this map describes it.
    #[must_use]
    pub fn hardware_name(&self, hardware: &Hardware) -> Option<&str> {
        let found = self.devices.iter().find(|d| d.is(hardware));
        found.map(|d| d.name.as_str())
    }

    /// The registers of a recording's device; `None` where no map knows it.
    #[must_use]
    pub fn of_recording(recording: &Recording) -> Option<RecordedRegisters> {
        RecordedRegisters::new(recording)
    }
}
