//! Hardware identity as a part of binary records. The JSON form leaves fields out, which a record cannot.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use trace_core::recording::{Bar, Hardware, PciFunction, PlatformDevice};

/// All fields of [`Hardware`], in order.
#[derive(Serialize, Deserialize)]
enum HardwareRecord {
    Pci {
        address: String,
        vendor: u16,
        device: u16,
        subsystem_vendor: Option<u16>,
        subsystem_device: Option<u16>,
        class: Option<u32>,
        revision: Option<u8>,
        irq: Option<u32>,
        bars: Vec<Bar>,
    },
    Platform(PlatformDevice),
}

impl From<Hardware> for HardwareRecord {
    fn from(hardware: Hardware) -> Self {
        match hardware {
            Hardware::Pci(p) => Self::Pci {
                address: p.address,
                vendor: p.vendor,
                device: p.device,
                subsystem_vendor: p.subsystem_vendor,
                subsystem_device: p.subsystem_device,
                class: p.class,
                revision: p.revision,
                irq: p.irq,
                bars: p.bars,
            },
            Hardware::Platform(p) => Self::Platform(p),
        }
    }
}

impl From<HardwareRecord> for Hardware {
    fn from(record: HardwareRecord) -> Self {
        match record {
            HardwareRecord::Pci {
                address,
                vendor,
                device,
                subsystem_vendor,
                subsystem_device,
                class,
                revision,
                irq,
                bars,
            } => Self::Pci(PciFunction {
                address,
                vendor,
                device,
                subsystem_vendor,
                subsystem_device,
                class,
                revision,
                irq,
                bars,
            }),
            HardwareRecord::Platform(p) => Self::Platform(p),
        }
    }
}

pub fn serialize<S: Serializer>(hardware: &Hardware, to: S) -> Result<S::Ok, S::Error> {
    HardwareRecord::from(hardware.clone()).serialize(to)
}

pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Hardware, D::Error> {
    HardwareRecord::deserialize(from).map(Hardware::from)
}

/// The same for a device that may have no identity on a bus.
pub mod optional {
    use super::{Deserialize as _, Deserializer, Hardware, HardwareRecord, Serialize as _, Serializer};

    pub fn serialize<S: Serializer>(hardware: &Option<Hardware>, to: S) -> Result<S::Ok, S::Error> {
        hardware.clone().map(HardwareRecord::from).serialize(to)
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Option<Hardware>, D::Error> {
        Ok(Option::<HardwareRecord>::deserialize(from)?.map(Hardware::from))
    }
}
