//! The table of QEMU device models, by PCI ids and register map.

use trace_core::recording::Hardware;

/// A QEMU device model, with the properties that select one particular PCI device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QemuModel {
    /// PCI vendor id of the model.
    pub vendor: u16,
    /// PCI device id of the model.
    pub device: u16,
    /// The argument for QEMU's `-device`: `ati-vga,model=rv100`.
    pub argument: &'static str,
    /// Name of the register map that describes the device.
    pub register_map: &'static str,
}

/// The models that a recording can be replayed on. Each has a register map, so that its accesses compile into a plan.
/// QEMU emulates many more devices, but without a register map they cannot be used.
///
/// The ids are those on QEMU's own bus (`info pci`, QEMU 7.2). Where several models have the same ids (`VGA`,
/// `secondary-vga` and `bochs-display`), the list has the one whose windows the map describes.
pub const QEMU_MODELS: [QemuModel; 5] = [
    QemuModel {
        vendor: 0x1002,
        device: 0x5159,
        argument: "ati-vga,model=rv100",
        register_map: "rv100",
    },
    QemuModel {
        vendor: 0x1002,
        device: 0x5046,
        argument: "ati-vga,model=rage128p",
        register_map: "rage128",
    },
    QemuModel {
        vendor: 0x1234,
        device: 0x1111,
        argument: "bochs-display",
        register_map: "bochs-display",
    },
    QemuModel {
        vendor: 0x1234,
        device: 0x11e8,
        argument: "edu",
        register_map: "edu",
    },
    QemuModel {
        vendor: 0x1af4,
        device: 0x1050,
        // Without message-signalled interrupts: the target sees only the pin.
        argument: "virtio-gpu-pci,vectors=0",
        register_map: "virtio-gpu",
    },
];

impl QemuModel {
    /// Returns the model with the ids of `hardware`, or `None` if no listed model has them.
    #[must_use]
    pub fn for_hardware(hardware: &Hardware) -> Option<&'static Self> {
        let Hardware::Pci(function) = hardware else {
            return None;
        };
        QEMU_MODELS
            .iter()
            .find(|m| (m.vendor, m.device) == (function.vendor, function.device))
    }

    /// Returns the listed model that a target name requests. Other properties in the name are ignored.
    ///
    /// `text` is the part after `qemu:`. A property that selects the model (`model=rv100`) must match.
    #[must_use]
    pub fn for_argument(text: &str) -> Option<&'static Self> {
        let (device, _) = split(text);
        QEMU_MODELS.iter().find(|m| {
            let (listed, properties) = split(m.argument);
            let selects = |p: &&str| p.starts_with("model=");
            listed == device
                && properties
                    .split(',')
                    .filter(selects)
                    .all(|p| split(text).1.split(',').any(|given| given == p))
        })
    }

    /// Returns the target's name, `qemu:ati-vga,model=rv100`.
    #[must_use]
    pub fn target(&self) -> String {
        format!("qemu:{}", self.argument)
    }

    /// Returns whether the model has the ids of `hardware`.
    #[must_use]
    pub fn matches(&self, hardware: &Hardware) -> bool {
        matches!(hardware, Hardware::Pci(f) if (f.vendor, f.device) == (self.vendor, self.device))
    }
}

/// Splits the text into the device and its properties.
fn split(text: &str) -> (&str, &str) {
    text.split_once(',').unwrap_or((text, ""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::qemu::Name;
    use trace_core::recording::PciFunction;
    use trace_core::registers::RegisterMap;

    fn pci(vendor: u16, device: u16) -> Hardware {
        Hardware::Pci(PciFunction {
            vendor,
            device,
            ..PciFunction::default()
        })
    }

    #[test]
    fn every_qemu_model_has_a_valid_name_and_register_map() {
        for model in QEMU_MODELS {
            assert_eq!(Name::parse(model.argument).unwrap().text(), model.argument);
            let hardware = pci(model.vendor, model.device);
            let map = RegisterMap::for_hardware(&hardware).expect(model.argument);
            assert_eq!(map.name(), model.register_map);
            assert_eq!(QemuModel::for_hardware(&hardware), Some(&model));
            assert_eq!(QemuModel::for_argument(model.argument), Some(&model));
        }
    }

    #[test]
    fn qemu_model_ignores_unrelated_properties() {
        let find_ids = |text| QemuModel::for_argument(text).map(|m| (m.vendor, m.device));
        assert_eq!(find_ids("ati-vga,vgamem_mb=64,model=rv100"), Some((0x1002, 0x5159)));
        assert_eq!(find_ids("edu,dma_mask=0xffff"), Some((0x1234, 0x11e8)));
        assert_eq!(find_ids("virtio-gpu-pci"), Some((0x1af4, 0x1050)));
        // QEMU decides which of the two cards this is.
        assert_eq!(find_ids("ati-vga"), None);
        assert_eq!(find_ids("igb"), None);
    }
}
