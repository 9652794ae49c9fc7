//! Which devices on a bus a map is for, and the map of a recording's device.

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
pub(super) fn device(at: &SourceLocation<'_>, raw: &RawDevice) -> Result<Device, RegisterMapError> {
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
    embedded::devices().find(|d| d.id == id).map(|d| d.name.as_str())
}

/// What a recording is of, as people call it: the GPU's name that the recording tells, else the name that a map has for
/// the device on the bus, else the device's ids; empty where the recording tells nothing.
#[must_use]
pub fn recorded_name(recording: &Recording) -> String {
    let message = &recording.facts.identity.gpu_name;
    if !message.is_empty() {
        return message.clone();
    }
    let Some(hardware) = recording.hardware() else {
        return String::new();
    };
    embedded::hardware_name(&hardware).map_or_else(|| hardware.id(), str::to_owned)
}

impl RegisterMap {
    /// The map that names the registers of a recording's device: the person's ([`choose`](super::choose)) laid over the
    /// embedded one.
    #[must_use]
    pub fn for_recording(recording: &Recording) -> Option<&'static Self> {
        super::map_selection::map_for(recording)
    }

    /// The maps that [`RegisterMap::for_recording`] is made of, the one whose names win first.
    #[must_use]
    pub fn list_for_recording(recording: &Recording) -> Vec<&'static Self> {
        super::map_selection::layers(recording)
    }

    /// The embedded map for the device of a recording: the one on the bus that it tells, else the GPU whose id register
    /// it tells. Jobs, page tables and whatever is stored beside a recording follow from it alone, never from a
    /// person's map, which gives names. `None` also where the recording has other windows of the device alone than the
    /// one that its map describes.
    #[must_use]
    pub fn built_in_for(recording: &Recording) -> Option<&'static Self> {
        Self::for_device_of(recording).filter(|map| is_map_for(map, recording))
    }

    /// The embedded map for the device of a recording, whichever windows of it were recorded.
    pub(crate) fn for_device_of(recording: &Recording) -> Option<&'static Self> {
        let on_bus = recording.hardware().and_then(|h| Self::for_hardware(&h));
        on_bus.or_else(|| Self::for_gpu(recording.facts.identity.gpu_id))
    }

    /// The map that the jobs of a recording follow from: the embedded one for its device, or, where the recording holds
    /// its submits as events and no map knows the device, one without registers.
    #[must_use]
    pub fn for_jobs_of(recording: &Recording) -> Option<&'static Self> {
        static NAMELESS: LazyLock<RegisterMap> = LazyLock::new(RegisterMap::default);
        let built_in = Self::built_in_for(recording);
        built_in.or_else(|| (!recording.events.submits.is_empty()).then(|| &*NAMELESS))
    }

    /// The name of a device on a bus, where this map describes it.
    #[must_use]
    pub fn hardware_name(&self, hardware: &Hardware) -> Option<&str> {
        let found = self.devices.iter().find(|d| d.is(hardware));
        found.map(|d| d.name.as_str())
    }

    /// The registers of a recording's device; `None` where no map knows it.
    #[must_use]
    pub fn recorded_registers(recording: &Recording) -> Option<RecordedRegisters> {
        RecordedRegisters::new(recording)
    }
}
