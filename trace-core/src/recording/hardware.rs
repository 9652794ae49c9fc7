//! The recorded device as its bus identifies it: the PCI function or device-tree node, and its register windows.

use crate::{BusAddr, PhysAddr};
use serde::{Deserialize, Serialize};

/// The number of a [`Bar`] that is a PCI function's expansion ROM.
pub const EXPANSION_ROM: u8 = 6;

/// A device as its bus identifies it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "bus", rename_all = "kebab-case")]
pub enum Hardware {
    /// A function of a PCI device.
    Pci(PciFunction),
    /// A device of the firmware's device tree.
    Platform(PlatformDevice),
}

/// A PCI function. Values that the source lacks are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PciFunction {
    /// PCI address, `0000:00:03.0`; empty if unknown.
    pub address: String,
    /// Vendor id of configuration space.
    pub vendor: u16,
    /// Device id of configuration space.
    pub device: u16,
    /// Vendor id of the subsystem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subsystem_vendor: Option<u16>,
    /// Device id of the subsystem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subsystem_device: Option<u16>,
    /// Class code, 24 bits: base class, subclass, interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<u32>,
    /// Revision id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<u8>,
    /// Interrupt number in the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub irq: Option<u32>,
    /// Its BARs by ascending number; missing ones are not listed.
    pub bars: Vec<Bar>,
}

/// A base address register (BAR) of a PCI function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bar {
    /// 0 to 5, or [`EXPANSION_ROM`]. A 64-bit BAR has the number of its lower half.
    pub number: u8,
    /// Bus address of the first byte, flag bits cleared.
    pub base: BusAddr,
    /// Size in bytes.
    pub bytes: u64,
    /// Whether it is x86 port I/O instead of memory.
    pub ports: bool,
    /// Whether reads have no side effects, as the function declares.
    pub prefetchable: bool,
}

impl Bar {
    /// Returns the name of its space: `bar0`, `rom`.
    #[must_use]
    pub fn space_name(&self) -> String {
        match self.number {
            EXPANSION_ROM => "rom".to_owned(),
            n => format!("bar{n}"),
        }
    }

    /// Returns the bus address after its last byte.
    #[must_use]
    pub fn end(&self) -> BusAddr {
        self.base.saturating_add(self.bytes)
    }
}

/// A device of the device tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlatformDevice {
    /// Path of its node, `/pl031@9010000`; empty if unknown.
    pub node: String,
    /// Its `compatible` strings, the most specific first.
    pub compatible: Vec<String>,
    /// Its register windows in the order of `reg`.
    pub windows: Vec<PlatformWindow>,
    /// Interrupt numbers in the system.
    pub irqs: Vec<u32>,
}

/// A register window of a device-tree device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlatformWindow {
    /// Name of its space: that of `reg-names`, or `reg0`.
    pub name: String,
    /// Physical address of the first byte.
    pub base: PhysAddr,
    /// Size in bytes.
    pub bytes: u64,
}

impl Hardware {
    /// Returns the device id in common notation: `1002:5159`, `arm,pl031`.
    #[must_use]
    pub fn id(&self) -> String {
        match self {
            Self::Pci(f) => format!("{:04x}:{:04x}", f.vendor, f.device),
            Self::Platform(d) => d.compatible.first().cloned().unwrap_or_default(),
        }
    }

    /// Whether the recording identifies the device. A log without ids, or of a device-tree device without a name, does
    /// not: [`Hardware::id`] is then empty.
    #[must_use]
    pub fn is_named(&self) -> bool {
        match self {
            Self::Pci(f) => (f.vendor, f.device) != (0, 0),
            Self::Platform(d) => d.compatible.iter().any(|c| !c.is_empty()),
        }
    }

    /// Whether a recording of one may be replayed on the other: the same PCI vendor and device, or a common
    /// `compatible` string.
    #[must_use]
    pub fn is_same_device(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Pci(a), Self::Pci(b)) => (a.vendor, a.device) == (b.vendor, b.device),
            (Self::Platform(a), Self::Platform(b)) => a.compatible.iter().any(|c| b.compatible.contains(c)),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rv100() -> Hardware {
        Hardware::Pci(PciFunction {
            address: "0000:00:03.0".into(),
            vendor: 0x1002,
            device: 0x5159,
            irq: Some(11),
            bars: vec![Bar {
                number: 2,
                base: BusAddr::new(0xfebf_0000),
                bytes: 0x4000,
                ..Bar::default()
            }],
            ..PciFunction::default()
        })
    }

    #[test]
    fn hardware_description_round_trips() {
        let clock = Hardware::Platform(PlatformDevice {
            node: "/pl031@9010000".into(),
            compatible: vec!["arm,pl031".into(), "arm,primecell".into()],
            windows: vec![PlatformWindow {
                name: "reg0".into(),
                base: PhysAddr::new(0x901_0000),
                bytes: 0x1000,
            }],
            irqs: vec![2],
        });
        for h in [rv100(), clock] {
            let json = serde_json::to_vec(&h).unwrap();
            assert_eq!(serde_json::from_slice::<Hardware>(&json).unwrap(), h);
        }
        assert!(serde_json::from_slice::<Hardware>(b"{\"bus\":\"isa\"}").is_err());
    }

    #[test]
    fn absent_hardware_fields_are_optional_in_json() {
        let json = serde_json::to_string(&rv100()).unwrap();
        assert!(
            json.starts_with("{\"bus\":\"pci\",\"address\":\"0000:00:03.0\""),
            "{json}"
        );
        assert!(!json.contains("class"), "{json}");
        let short: Hardware = serde_json::from_str("{\"bus\":\"pci\",\"vendor\":4098,\"device\":20825}").unwrap();
        assert_eq!(short.id(), "1002:5159");
        assert!(short.is_same_device(&rv100()));
    }

    #[test]
    fn devices_are_compared_by_id_only() {
        let other: Hardware = serde_json::from_str("{\"bus\":\"pci\",\"vendor\":4098,\"device\":20550}").unwrap();
        assert!(!other.is_same_device(&rv100()));
        let platform = |names: &[&str]| {
            Hardware::Platform(PlatformDevice {
                compatible: names.iter().map(|n| (*n).to_owned()).collect(),
                ..PlatformDevice::default()
            })
        };
        assert!(platform(&["rockchip,rk3399-mali", "arm,mali-t860"]).is_same_device(&platform(&["arm,mali-t860"])));
        assert!(!platform(&[]).is_same_device(&platform(&[])));
        assert!(!platform(&["arm,pl031"]).is_same_device(&rv100()));
    }
}
