//! Devices that QEMU passes through to a guest by VFIO, from the events of their regions. Offsets are those of the
//! regions, so that the addresses of the guest do not matter.

use super::super::device::Function;
use super::super::mmio_regions::{Extent, MmioRegions, Owner};
use super::super::names::Names;
use super::super::pci_config::Functions;
use super::line::CONFIG_REGION;
use std::collections::HashMap;
use trace_core::BusAddr;
use trace_core::recording::{Bar, EXPANSION_ROM, PciFunction};

/// Number that distinguishes the configuration spaces of such devices from those of the machine.
pub(super) const PLACE: u32 = 1 << 31;
/// Maximum number of devices.
const MAX_DEVICES: usize = 256;
/// Maximum size of a region, bytes: more than any device has.
const MAX_REGION_BYTES: u64 = 1 << 48;

/// A region of a device.
#[derive(Clone, Copy, Debug)]
struct Region {
    /// Its window; `None`: there are too many.
    window: Option<u16>,
    /// Its size in bytes, if the log gives it.
    bytes: Option<u64>,
}

/// A device.
#[derive(Clone, Debug)]
struct Device {
    /// Number of its function in the log's list.
    function: usize,
    regions: HashMap<u8, Region>,
    /// Vectors of its interrupts.
    vectors: Vec<u32>,
}

/// The devices of a log.
#[derive(Clone, Debug, Default)]
pub(super) struct VfioDevices {
    /// By number of the name.
    all: HashMap<u16, Device>,
}

impl VfioDevices {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the place of the configuration space of a device.
    pub(super) fn place(device: u16) -> u32 {
        PLACE | u32::from(device)
    }

    /// Adds a device if it is new. Returns `None` if there are too many. `number` returns the number of its function.
    fn device(&mut self, name: u16, number: impl FnOnce(u32) -> usize) -> Option<&mut Device> {
        if !self.all.contains_key(&name) && self.all.len() >= MAX_DEVICES {
            return None;
        }
        Some(self.all.entry(name).or_insert_with(|| Device {
            function: number(Self::place(name)),
            regions: HashMap::new(),
            vectors: Vec::new(),
        }))
    }

    /// Returns the window of a region, with the part of it that an offset lies in, and the offset there.
    pub(super) fn window(
        &mut self,
        (device, region): (u16, u8),
        offset: u64,
        windows: &mut MmioRegions,
        names: &mut Vec<String>,
        number: impl FnOnce(u32) -> usize,
    ) -> Option<(u16, u32)> {
        let offset = u32::try_from(offset).ok()?;
        let d = self.device(device, number)?;
        let function = d.function;
        let slot = d.regions.entry(region).or_insert(Region {
            window: None,
            bytes: None,
        });
        if slot.window.is_none() {
            let owner = match region {
                0..=EXPANSION_ROM => Owner::Bar { function, bar: region },
                CONFIG_REGION => Owner::Config {
                    place: Self::place(device),
                },
                _ => {
                    let name = u16::try_from(names.len()).ok()?;
                    names.push(if region == 8 {
                        "vga".to_owned()
                    } else {
                        format!("region{region}")
                    });
                    Owner::Region {
                        name,
                        function: Some(function),
                    }
                }
            };
            let (bytes, extent) = match slot.bytes {
                Some(bytes) => (bytes.min(1 << 32), Extent::Fixed),
                None => (1, Extent::Growing),
            };
            slot.window = windows.add_separate(owner, 0, bytes, extent);
        }
        Some((slot.window?, offset))
    }

    /// Sets the size of a region. A size of 0 means that the device does not have it.
    pub(super) fn set_size(
        &mut self,
        (device, region): (u16, u8),
        bytes: u64,
        windows: &mut MmioRegions,
        number: impl FnOnce(u32) -> usize,
    ) {
        let Some(d) = self
            .device(device, number)
            .filter(|_| (1..=MAX_REGION_BYTES).contains(&bytes))
        else {
            return;
        };
        let slot = d.regions.entry(region).or_insert(Region {
            window: None,
            bytes: None,
        });
        slot.bytes = Some(bytes);
        if let Some(window) = slot.window {
            windows.resize(window, bytes);
        }
    }

    /// Counts an interrupt. Returns the number of its line, with those of other devices apart.
    pub(super) fn interrupt(&mut self, device: u16, vector: u32, number: impl FnOnce(u32) -> usize) -> Option<u32> {
        let d = self.device(device, number)?;
        if !d.vectors.contains(&vector) && d.vectors.len() < 4096 {
            d.vectors.push(vector);
        }
        Some(u32::from(device) << 16 | vector & 0xffff)
    }

    /// Returns the interrupts of the only device, in order of their vectors.
    pub(super) fn lines(&self) -> Vec<u32> {
        let mut devices = self.all.iter();
        let (Some((name, device)), None) = (devices.next(), devices.next()) else {
            return Vec::new();
        };
        let mut lines: Vec<u32> = device
            .vectors
            .iter()
            .map(|v| u32::from(*name) << 16 | v & 0xffff)
            .collect();
        lines.sort_unstable();
        lines
    }

    /// Returns the windows of the BARs that were never accessed, so that each BAR of a known size is a window.
    pub(super) fn add_unused(&mut self, windows: &mut MmioRegions) {
        for d in self.all.values_mut() {
            let function = d.function;
            let mut unused: Vec<(u8, u64)> = d
                .regions
                .iter()
                .filter(|(n, r)| **n < EXPANSION_ROM && r.window.is_none())
                .filter_map(|(n, r)| Some((*n, r.bytes?)))
                .collect();
            unused.sort_unstable();
            for (bar, bytes) in unused {
                windows.add_separate(Owner::Bar { function, bar }, 0, bytes.min(1 << 32), Extent::Fixed);
            }
        }
    }

    /// Returns the function of a device with this configuration space, or `None` for other places.
    pub(super) fn function(&self, place: u32, config: &Functions, names: &Names) -> Option<Function> {
        let name = u16::try_from(place & !PLACE).ok().filter(|_| place & PLACE != 0)?;
        let device = self.all.get(&name)?;
        let seen = config.functions().into_iter().find(|f| f.place == place);
        let mut function = seen.unwrap_or_else(|| Function {
            pci: PciFunction::default(),
            place,
            ..Function::default()
        });
        function.pci.address = names.name(name);
        let described = std::mem::take(&mut function.pci.bars);
        let mut numbers: Vec<u8> = device.regions.keys().copied().filter(|n| *n <= EXPANSION_ROM).collect();
        numbers.sort_unstable();
        function.pci.bars = numbers
            .into_iter()
            .map(|number| {
                let guest = described.iter().find(|b| b.number == number);
                let bytes = device.regions.get(&number).and_then(|r| r.bytes);
                Bar {
                    number,
                    base: guest.map_or(BusAddr::ZERO, |b| b.base),
                    bytes: bytes.or_else(|| guest.map(|b| b.bytes)).unwrap_or(0),
                    ports: guest.is_some_and(|b| b.ports),
                    prefetchable: guest.is_some_and(|b| b.prefetchable),
                }
            })
            .collect();
        Some(function)
    }
}
