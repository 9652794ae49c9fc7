//! The recorded device: found by its name, described by its bus.

use crate::device_tree;
use crate::error::RecordError;
use crate::kernel::{Kernel, link_name, list_names, read_trimmed};
use std::fmt;
use std::str::FromStr;
use trace_core::BusAddr;
use trace_core::recording::{Bar, EXPANSION_ROM, Hardware, PciFunction};
use trace_import::trace::DeviceName;

/// Flags of a region in a `resource` file: x86 ports, and memory whose reads have no side effects.
const PORTS: u64 = 0x100;
const PREFETCHABLE: u64 = 0x2000;
/// Buses of device tree devices.
const TREE_BUSES: [&str; 2] = ["platform", "amba"];

/// A device as the user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceSelector {
    /// `pci:0000:00:03.0`, `pci:1002:5159`.
    Pci(DeviceName),
    /// `platform:NODE`: a path in the device tree, or a name on the bus.
    Platform(String),
}

impl FromStr for DeviceSelector {
    type Err = RecordError;

    fn from_str(name: &str) -> Result<Self, RecordError> {
        let bad = || RecordError::BadName(name.to_owned());
        if let Some(rest) = name.strip_prefix("pci:") {
            return match rest.parse() {
                Ok(name @ (DeviceName::Id(..) | DeviceName::Address(_))) => Ok(Self::Pci(name)),
                _ => Err(bad()),
            };
        }
        let node = name
            .strip_prefix("platform:")
            .filter(|n| !n.is_empty() && !n.contains(".."));
        node.map(|n| Self::Platform(n.to_owned())).ok_or_else(bad)
    }
}

impl fmt::Display for DeviceSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pci(DeviceName::Id(vendor, device)) => write!(f, "pci:{vendor:04x}:{device:04x}"),
            Self::Pci(DeviceName::Address(name) | DeviceName::Compatible(name)) => write!(f, "pci:{name}"),
            Self::Platform(node) => write!(f, "platform:{node}"),
        }
    }
}

/// A device of the machine.
#[derive(Clone, Debug)]
pub struct Device {
    /// The folder of its bus, `/sys/bus/pci`.
    pub bus: String,
    /// Its name on the bus, `0000:00:03.0`.
    pub name: String,
    /// Description of the device for a recording.
    pub hardware: Hardware,
}

impl Device {
    /// Returns its folder in `/sys`.
    #[must_use]
    pub fn folder(&self) -> String {
        format!("{}/devices/{}", self.bus, self.name)
    }

    /// Returns the alias by which the kernel finds a driver for it; empty if the kernel does not report it.
    #[must_use]
    pub fn modalias(&self, kernel: &dyn Kernel) -> String {
        read_trimmed(kernel, &format!("{}/modalias", self.folder())).unwrap_or_default()
    }

    /// Finds the device.
    ///
    /// # Errors
    /// Returns an error if no device has that name, or several have.
    pub fn find(kernel: &dyn Kernel, target: &DeviceSelector) -> Result<Self, RecordError> {
        match target {
            DeviceSelector::Pci(name) => pci(kernel, target, name),
            DeviceSelector::Platform(node) => platform(kernel, target, node),
        }
    }
}

fn device_error(target: &DeviceSelector, why: impl Into<String>) -> RecordError {
    RecordError::Device {
        name: target.to_string(),
        why: why.into(),
    }
}

fn pci(kernel: &dyn Kernel, target: &DeviceSelector, name: &DeviceName) -> Result<Device, RecordError> {
    const BUS: &str = "/sys/bus/pci";
    let all: Vec<(String, PciFunction)> = list_names(kernel, &format!("{BUS}/devices"))
        .into_iter()
        .map(|address| {
            (
                address.clone(),
                function(kernel, &format!("{BUS}/devices/{address}"), address),
            )
        })
        .collect();
    let fits = |(address, f): &&(String, PciFunction)| match name {
        DeviceName::Id(vendor, device) => (f.vendor, f.device) == (*vendor, *device),
        DeviceName::Address(named) | DeviceName::Compatible(named) => address == named,
    };
    let mut found = all.iter().filter(fits);
    let describe = |all: &mut dyn Iterator<Item = &(String, PciFunction)>| {
        let all: Vec<String> = all
            .map(|(a, f)| format!("{a} ({:04x}:{:04x})", f.vendor, f.device))
            .collect();
        all.join(", ")
    };
    match (found.next(), found.next()) {
        (Some((address, f)), None) => Ok(Device {
            bus: BUS.into(),
            name: address.clone(),
            hardware: Hardware::Pci(f.clone()),
        }),
        (Some(_), Some(_)) => {
            let why = format!(
                "there are several: {}; name one by its address",
                describe(&mut all.iter().filter(fits))
            );
            Err(device_error(target, why))
        }
        (None, _) if all.is_empty() => Err(device_error(
            target,
            "this machine has no PCI bus (expected /sys/bus/pci/devices)",
        )),
        (None, _) => Err(device_error(
            target,
            format!("no such device; there are {}", describe(&mut all.iter())),
        )),
    }
}

fn hex(kernel: &dyn Kernel, path: &str) -> Option<u32> {
    let text = read_trimmed(kernel, path)?;
    u32::from_str_radix(text.strip_prefix("0x").unwrap_or(&text), 16).ok()
}

fn function(kernel: &dyn Kernel, folder: &str, address: String) -> PciFunction {
    let id = |name: &str| hex(kernel, &format!("{folder}/{name}"));
    let short = |name: &str| id(name).and_then(|v| u16::try_from(v).ok());
    PciFunction {
        address,
        vendor: short("vendor").unwrap_or(0),
        device: short("device").unwrap_or(0),
        subsystem_vendor: short("subsystem_vendor"),
        subsystem_device: short("subsystem_device"),
        class: id("class"),
        revision: id("revision").and_then(|v| u8::try_from(v).ok()),
        irq: read_trimmed(kernel, &format!("{folder}/irq"))
            .and_then(|t| t.parse().ok())
            .filter(|n| *n != 0),
        bars: parse_bars(&kernel.read(&format!("{folder}/resource")).unwrap_or_default()),
    }
}

/// Parses the BARs in a `resource` file: a line each, with first and last address and flags. Unreadable lines are
/// skipped.
fn parse_bars(text: &str) -> Vec<Bar> {
    let number = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
    let all = (0u8..=EXPANSION_ROM).zip(text.lines()).filter_map(|(at, line)| {
        let mut words = line.split_whitespace().map(number);
        let (first, last, flags) = (words.next()??, words.next()??, words.next()??);
        let bytes = last.checked_sub(first)?.checked_add(1).filter(|_| flags != 0)?;
        Some(Bar {
            number: at,
            base: BusAddr::new(first),
            bytes,
            ports: flags & PORTS != 0,
            prefetchable: flags & PREFETCHABLE != 0 && at != EXPANSION_ROM,
        })
    });
    all.collect()
}

/// Returns a device's node in the device tree, as a path below its root.
fn find_tree_node(kernel: &dyn Kernel, folder: &str) -> Option<String> {
    let target = kernel.read_link(&format!("{folder}/of_node")).ok()?;
    let (_, node) = target.split_once("firmware/devicetree/base")?;
    Some(node.to_owned())
}

fn platform(kernel: &dyn Kernel, target: &DeviceSelector, name: &str) -> Result<Device, RecordError> {
    let path = format!("/{}", name.trim_matches('/'));
    for bus in TREE_BUSES {
        let bus = format!("/sys/bus/{bus}");
        for device in list_names(kernel, &format!("{bus}/devices")) {
            let folder = format!("{bus}/devices/{device}");
            let node = find_tree_node(kernel, &folder);
            if device != name && node.as_deref() != Some(path.as_str()) {
                continue;
            }
            let Some(node) = node else {
                return Err(device_error(
                    target,
                    "it is not a device of the device tree, so its MMIO regions are not known",
                ));
            };
            let mut platform_device = device_tree::read_device(kernel, &node);
            platform_device.irqs = device_tree::find_irqs(kernel, &device, None);
            return Ok(Device {
                bus,
                name: device,
                hardware: Hardware::Platform(platform_device),
            });
        }
    }
    let why = match link_name(kernel, "/proc/device-tree") {
        None if !kernel.exists("/proc/device-tree") => "this machine has no device tree",
        _ if kernel.exists(&format!("/proc/device-tree{path}")) => {
            "the kernel did not create a device for this node; check that its status is `okay`"
        }
        _ => "no such device; `ls /sys/bus/platform/devices` lists them",
    };
    Err(device_error(target, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_kernel::FakeKernel;
    use trace_core::PhysAddr;

    #[test]
    fn devices_are_named_by_address_and_id_and_node() {
        for text in [
            "pci:0000:00:03.0",
            "pci:1002:5159",
            "platform:/pl031@9010000",
            "platform:9010000.pl031",
        ] {
            assert_eq!(text.parse::<DeviceSelector>().unwrap().to_string(), text);
        }
        assert_eq!(
            "pci:00:03.0".parse::<DeviceSelector>().unwrap().to_string(),
            "pci:0000:00:03.0"
        );
        for invalid in [
            "",
            "pci:",
            "pci:arm,mali",
            "00:03.0",
            "platform:",
            "platform:../x",
            "usb:1",
        ] {
            assert!(
                matches!(invalid.parse::<DeviceSelector>(), Err(RecordError::BadName(_))),
                "{invalid}"
            );
        }
    }

    #[test]
    fn pci_function_is_described_from_sysfs() {
        let kernel = FakeKernel::pc();
        let device = Device::find(&kernel, &"pci:1002:5159".parse().unwrap()).unwrap();
        assert_eq!(
            (device.name.as_str(), device.bus.as_str()),
            ("0000:00:03.0", "/sys/bus/pci")
        );
        let Hardware::Pci(f) = &device.hardware else { panic!() };
        assert_eq!((f.class, f.revision, f.irq), (Some(0x03_0000), Some(0), Some(11)));
        let entries: Vec<_> = f
            .bars
            .iter()
            .map(|b| (b.number, b.base.get(), b.bytes, b.ports, b.prefetchable))
            .collect();
        assert_eq!(
            entries,
            [
                (0, 0xfd00_0000, 0x100_0000, false, true),
                (1, 0xc000, 0x100, true, false),
                (2, 0xfebf_0000, 0x4000, false, false)
            ]
        );
        let none = Device::find(&kernel, &"pci:1002:5160".parse().unwrap())
            .unwrap_err()
            .to_string();
        assert!(none.contains("0000:00:03.0 (1002:5159)"), "{none}");
        let two = Device::find(&kernel, &"pci:8086:10c9".parse().unwrap())
            .unwrap_err()
            .to_string();
        assert!(two.contains("several: 0000:00:04.0 (8086:10c9), 0000:00:05.0"), "{two}");
    }

    #[test]
    fn platform_device_is_found_by_node_or_name() {
        let kernel = FakeKernel::board();
        for name in [
            "platform:/pl031@9010000",
            "platform:pl031@9010000",
            "platform:9010000.pl031",
        ] {
            let device = Device::find(&kernel, &name.parse().unwrap()).unwrap();
            assert_eq!(
                (device.name.as_str(), device.bus.as_str()),
                ("9010000.pl031", "/sys/bus/amba")
            );
            let Hardware::Platform(d) = &device.hardware else {
                panic!()
            };
            assert_eq!(d.compatible, ["arm,pl031", "arm,primecell"]);
            assert_eq!(
                (d.windows[0].name.as_str(), d.windows[0].base, d.windows[0].bytes),
                ("reg0", PhysAddr::new(0x901_0000), 0x1000)
            );
            assert_eq!(d.irqs, [48]);
        }
        let none = Device::find(&kernel, &"platform:/gpu".parse().unwrap())
            .unwrap_err()
            .to_string();
        assert!(none.contains("ls /sys/bus/platform/devices"), "{none}");
        let pci = Device::find(&kernel, &"pci:1002:5159".parse().unwrap())
            .unwrap_err()
            .to_string();
        assert!(pci.contains("no PCI bus"), "{pci}");
    }
}
