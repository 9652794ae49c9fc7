//! The embedded maps: their list, and lazy reading of each.
//!
//! Only the head of a map (its `[map]` table: name, devices, GPUs) is read to select one. Its registers are read when
//! it is selected, so that opening a recording costs nothing for other devices.

use super::RegisterMap;
use super::device::Id;
use crate::recording::{Hardware, Recording, SpaceKind};
use std::sync::{LazyLock, OnceLock};

macro_rules! embedded {
    ($($file:literal),* $(,)?) => {
        &[$(($file, include_str!(concat!("../../../assets/registers/", $file)))),*]
    };
}

/// The files of a map, name and text; the file with its `[map]` table is first.
pub(super) type Files = &'static [(&'static str, &'static str)];

/// Files of the map of Mali job-manager GPUs.
pub(super) const MALI_JM: Files = embedded![
    "mali-jm/map.toml",
    "mali-jm/exceptions.toml",
    "mali-jm/gpu_control.toml",
    "mali-jm/job_control.toml",
    "mali-jm/job_slot.toml",
    "mali-jm/mmu.toml",
    "mali-jm/address_space.toml",
    "mali-jm/aarch64-4k-entry.toml",
    "mali-jm/mali-lpae-entry.toml",
    "mali-jm/job-header.toml",
    "mali-jm/write-value.toml",
    "mali-jm/cache-flush.toml",
    "mali-jm/compute-invocation.toml",
    "mali-jm/draw.toml",
    "mali-jm/renderer-state.toml",
];

/// Files of every map. Files that two maps share are in a separate folder.
pub(super) const ALL: &[Files] = &[
    MALI_JM,
    embedded!["mali-csf/map.toml", "mali-csf/gpu_control.toml"],
    embedded![
        "bochs-display/map.toml",
        "bochs-display/edid.toml",
        "bochs-display/vga.toml",
        "bochs-display/dispi.toml",
        "bochs-display/qext.toml",
    ],
    embedded![
        "rage128/map.toml",
        "ati/bus.toml",
        "ati/clock.toml",
        "ati/crtc.toml",
        "ati/dac.toml",
        "ati/draw.toml",
        "ati/overlay.toml",
        "rage128/card.toml",
        "rage128/screen.toml",
        "rage128/draw.toml",
        "rage128/cce.toml",
    ],
    embedded![
        "rv100/map.toml",
        "ati/bus.toml",
        "ati/clock.toml",
        "ati/crtc.toml",
        "ati/dac.toml",
        "ati/draw.toml",
        "ati/overlay.toml",
        "rv100/card.toml",
        "rv100/gpio.toml",
        "rv100/screen.toml",
        "rv100/draw.toml",
        "rv100/cp.toml",
    ],
    embedded![
        "virtio-gpu/map.toml",
        "virtio-gpu/common.toml",
        "virtio-gpu/isr.toml",
        "virtio-gpu/device.toml",
        "virtio-gpu/notify.toml",
    ],
    embedded!["edu/map.toml", "edu/edu.toml", "edu/dma.toml"],
    embedded!["pl031/map.toml", "pl031/rtc.toml", "pl031/id.toml"],
    embedded!["v3d/map.toml", "v3d/core.toml"],
    embedded!["vivante/map.toml", "vivante/registers.toml"],
    embedded!["nvidia-usermode/map.toml", "nvidia-usermode/usermode.toml"],
    embedded!["pci-config/map.toml", "pci-config/header.toml"],
    embedded!["adreno-a2xx/map.toml", "adreno-a2xx/registers.toml"],
    embedded!["adreno-a3xx/map.toml", "adreno-a3xx/registers.toml"],
    embedded!["adreno-a4xx/map.toml", "adreno-a4xx/registers.toml"],
    embedded!["adreno-a5xx/map.toml", "adreno-a5xx/registers.toml"],
    embedded!["adreno-a6xx/map.toml", "adreno-a6xx/registers.toml"],
    embedded!["adreno-a7xx/map.toml", "adreno-a7xx/registers.toml"],
];

/// An embedded map, and its head, which is a map without registers.
struct Embedded {
    files: Files,
    head: RegisterMap,
    map: OnceLock<Option<RegisterMap>>,
}

impl Embedded {
    /// Returns the map and reads it if needed, or `None` if it is damaged, which a test rules out.
    fn map(&self) -> Option<&RegisterMap> {
        let read = || {
            RegisterMap::parse(self.files)
                .inspect_err(|e| tracing::error!("an embedded register map is damaged, {e}"))
                .ok()
        };
        self.map.get_or_init(read).as_ref()
    }
}

static MAPS: LazyLock<Vec<Embedded>> = LazyLock::new(heads);

/// Reads the heads of all maps.
fn heads() -> Vec<Embedded> {
    let mut maps = Vec::with_capacity(ALL.len());
    for files in ALL.iter().copied() {
        match files.get(..1).map(RegisterMap::parse) {
            Some(Ok(head)) => maps.push(Embedded {
                files,
                head,
                map: OnceLock::new(),
            }),
            Some(Err(e)) => tracing::error!("an embedded register map is damaged, {e}"),
            None => {}
        }
    }
    maps
}

/// Returns the first map whose head satisfies `is`.
fn find(is: impl Fn(&RegisterMap) -> bool) -> Option<&'static RegisterMap> {
    MAPS.iter().find(|m| is(&m.head))?.map()
}

/// Returns the name of the GPU with a raw id register, `Mali-G71`, or `None` if no map knows it.
#[must_use]
pub fn gpu_name(gpu_id: u32) -> Option<&'static str> {
    MAPS.iter().find_map(|m| m.head.gpu_name(gpu_id))
}

/// Returns the name of the PCI device with these ids, `ATI Radeon 7000 (RV100)`, or `None` for one that no map knows.
#[must_use]
pub fn device_name(vendor: u16, device: u16) -> Option<&'static str> {
    let id = Id::Pci(vendor, device);
    let mut devices = MAPS.iter().flat_map(|m| &m.head.devices);
    devices.find(|d| d.id == id).map(|d| d.name.as_str())
}

/// Returns the name of a bus device in the maps.
pub(super) fn hardware_name(hardware: &Hardware) -> Option<&'static str> {
    MAPS.iter().find_map(|m| m.head.hardware_name(hardware))
}

impl RegisterMap {
    /// Returns the embedded map for the GPU with a raw id register. The product is compared, revisions are not.
    #[must_use]
    pub fn for_gpu(gpu_id: u32) -> Option<&'static Self> {
        find(|head| head.gpu_name(gpu_id).is_some())
    }

    /// Returns the embedded map for a bus device.
    #[must_use]
    pub fn for_hardware(hardware: &Hardware) -> Option<&'static Self> {
        find(|head| head.hardware_name(hardware).is_some())
    }

    /// Returns the embedded map that names no device, and whose registers are in a space of the recording.
    #[must_use]
    pub(super) fn for_space_of(recording: &Recording) -> Option<&'static Self> {
        let has_space = |name: &str| {
            let spaces = recording.metadata.spaces.iter();
            !name.is_empty()
                && spaces
                    .filter(|s| s.kind == SpaceKind::Registers)
                    .any(|s| s.name == name)
        };
        find(|head| head.devices.is_empty() && head.gpus.is_empty() && has_space(&head.space))
    }

    /// Returns the embedded maps. Reads all of them.
    pub fn embedded() -> impl Iterator<Item = &'static Self> {
        MAPS.iter().filter_map(Embedded::map)
    }

    /// Returns the embedded map of this name, `mali-jm`.
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Self> {
        find(|head| head.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_selected_embedded_map_is_parsed() {
        let maps = heads();
        assert_eq!(maps.len(), ALL.len());
        let count_parsed = |maps: &[Embedded]| maps.iter().filter(|m| m.map.get().is_some()).count();
        let chosen = maps.iter().find(|m| m.head.gpu_name(0x0603_0001).is_some()).unwrap();
        assert_eq!(count_parsed(&maps), 0, "a map is parsed before it is selected");
        let map = chosen.map().unwrap();
        assert_eq!((map.name(), count_parsed(&maps)), ("adreno-a6xx", 1));
        // Each head has the same name, space and devices as its map.
        for m in &maps {
            let map = m.map().unwrap();
            assert_eq!((&m.head.name, &m.head.space), (&map.name, &map.space));
            assert_eq!((&m.head.gpus, &m.head.devices), (&map.gpus, &map.devices));
            assert_eq!(m.head.register_count(), 0, "{}: the head has registers", m.head.name);
        }
    }
}
