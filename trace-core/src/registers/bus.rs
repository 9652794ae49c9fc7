//! The bus-mastering engine of a device: what reads and writes memory by itself, and which registers carry its
//! addresses.

use super::parse::{RegisterMapError, SourceLocation};
use super::raw::RawBusMaster;
use super::{RegisterMap, Role};
use std::ops::Range;

/// How a device gets the addresses that it reads and writes by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusMaster {
    /// The engine that reads the addresses.
    pub engine: BusEngine,
    /// Why these are all the addresses that the device can get.
    pub why: String,
    /// Why bus mastering is refused nevertheless: a register that carries an address does not have the address type.
    pub refused: Option<String>,
}

/// The engine that reads addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BusEngine {
    /// Copies between memory and an internal buffer.
    Copy(CopyEngine),
    /// Follows virtio's split rings.
    Virtqueue(QueueEngine),
}

/// A register, or a pair of registers, that carries an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressRegister {
    /// Name, without the suffix of the halves for a pair.
    pub name: String,
    /// Offset of the register, or of bits 31 to 0.
    pub low: u32,
    /// Offset of bits 63 to 32, if it is a pair.
    pub high: Option<u32>,
    /// Values that are not bus addresses.
    pub local: Range<u64>,
}

/// An engine that copies between memory and an internal buffer of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyEngine {
    /// Source address.
    pub source: AddressRegister,
    /// Destination address.
    pub destination: AddressRegister,
    /// Offset of the register with the number of bytes.
    pub count: u32,
    /// Offset of the register that starts the engine, and reads as started until the copy is done.
    pub command: u32,
    /// The start bit of the command.
    pub start: u64,
    /// The direction bit of the command: from the buffer to memory.
    pub to_memory: u64,
}

/// An engine that follows virtio's split rings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueEngine {
    /// Offset of the register that resets the device on a write of 0, and reads 0 when the reset is done.
    pub status: u32,
    /// Offset of the register that selects the feature word for `feature`.
    pub feature_select: u32,
    /// Offset of the register that accepts features.
    pub feature: u32,
    /// Features that may be accepted: none of them changes the location of addresses.
    pub features: u64,
    /// The feature that must be accepted if the device is behind an IOMMU; 0 if there is no such feature.
    pub behind_iommu: u64,
    /// Offset of the register that selects the queue of the registers below.
    pub select: u32,
    /// Offset of the register with the number of entries.
    pub size: u32,
    /// Maximum number of entries that the device supports.
    pub most_entries: u16,
    /// Offset of the register that enables the queue.
    pub enable: u32,
    /// Descriptor table.
    pub descriptors: AddressRegister,
    /// Ring that the driver fills.
    pub driver: AddressRegister,
    /// Ring that the device fills.
    pub device: AddressRegister,
    /// Offsets of registers that must not be written while the device is a bus master.
    pub never: Vec<u32>,
    /// Commands that buffers may start with, by ascending number.
    pub commands: Vec<BusCommand>,
}

/// A command in the buffers of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusCommand {
    /// Its first 32 bits.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// Position of its addresses, if it carries any.
    pub entries: Option<BusEntries>,
}

/// A list of addresses in a command, in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusEntries {
    /// Position of the 32-bit number of entries.
    pub count_at: u32,
    /// Position of the first entry.
    pub first_at: u32,
    /// Size of an entry, bytes.
    pub bytes: u32,
    /// Position of the 64-bit address in an entry.
    pub address_at: u32,
    /// Position of the 32-bit size in an entry.
    pub length_at: u32,
}

impl BusMaster {
    /// Returns the registers that carry addresses.
    #[must_use]
    pub fn addresses(&self) -> Vec<&AddressRegister> {
        match &self.engine {
            BusEngine::Copy(c) => vec![&c.source, &c.destination],
            BusEngine::Virtqueue(q) => vec![&q.descriptors, &q.driver, &q.device],
        }
    }
}

impl RegisterMap {
    /// Returns the bus-mastering engine of the device, or `None` if the map has none; the device then cannot become a
    /// bus master.
    #[must_use]
    pub fn bus_master(&self) -> Option<&BusMaster> {
        self.bus_master.as_ref()
    }
}

/// Finds the registers that a map's engine names. An unknown register name is an error. A register without the bus
/// address type gives a map that refuses bus mastering.
pub(super) fn bus_master(
    map: &RegisterMap,
    at: &SourceLocation<'_>,
    raw: &RawBusMaster,
) -> Result<BusMaster, RegisterMapError> {
    let plain = |name: &String| {
        let found = map.find_by_name(name).map(|r| r.offset);
        found.ok_or_else(|| at.err(format!("there is no register {name}")))
    };
    let mut untyped = Vec::new();
    let mut address = |name: &String| {
        let low = map
            .find_by_name(name)
            .or_else(|| map.find_by_name(&format!("{name}_LO")));
        let low = low.ok_or_else(|| at.err(format!("there is no register {name}")))?;
        let high = map.find_by_name(&format!("{name}_HI")).filter(|_| low.pair.is_some());
        if low.width != 8 && high.is_none() {
            return Err(at.err(format!(
                "{name} is neither an 8-byte register nor a pair of 4-byte registers"
            )));
        }
        let halves = [Some(low), high];
        let other = |r: &&super::Register| r.replay.role != Some(Role::BusAddress) || !r.replay.write;
        untyped.extend(halves.into_iter().flatten().filter(other).map(|r| r.name.clone()));
        Ok(AddressRegister {
            name: name.clone(),
            low: low.offset,
            high: high.map(|r| r.offset),
            local: low.local.clone().unwrap_or(0..0),
        })
    };
    let bit = |n: u8| 1u64.checked_shl(n.into()).ok_or_else(|| at.err(format!("bit {n}")));
    let (engine, why) = match raw {
        RawBusMaster::Copy {
            why,
            source,
            destination,
            count,
            command,
            start,
            to_memory,
        } => {
            let (source, destination) = (address(source)?, address(destination)?);
            if source.local != destination.local || source.local.is_empty() {
                return Err(at.err("source and destination need the same `local`, the device's own buffer"));
            }
            let engine = CopyEngine {
                source,
                destination,
                count: plain(count)?,
                command: plain(command)?,
                start: bit(*start)?,
                to_memory: bit(*to_memory)?,
            };
            (BusEngine::Copy(engine), why)
        }
        RawBusMaster::Virtqueue {
            why,
            status,
            feature_select,
            feature,
            features,
            behind_iommu,
            select,
            size,
            most_entries,
            enable,
            descriptors,
            driver,
            device,
            never,
            command,
        } => {
            if let Some(n) = behind_iommu.filter(|n| bit(*n).is_ok() && !features.contains(n)) {
                return Err(at.err(format!(
                    "feature {n} behind an IOMMU is not in the list of allowed features"
                )));
            }
            let features = features.iter().map(|n| bit(*n));
            let mut commands: Vec<BusCommand> = command.iter().map(of_raw).collect();
            commands.sort_by_key(|c| c.number);
            if commands.array_windows().any(|[a, b]| a.number == b.number) {
                return Err(at.err("two commands have the same number"));
            }
            for e in commands.iter().filter_map(|c| c.entries) {
                let inside = |field: u32, bytes: u32| field.checked_add(bytes).is_some_and(|end| end <= e.bytes);
                if e.bytes > 4096 || !inside(e.address_at, 8) || !inside(e.length_at, 4) {
                    return Err(at.err("the address or length of an entry is outside the entry"));
                }
            }
            let engine = QueueEngine {
                status: plain(status)?,
                feature_select: plain(feature_select)?,
                feature: plain(feature)?,
                features: features.sum::<Result<u64, _>>()?,
                behind_iommu: behind_iommu.map_or(Ok(0), bit)?,
                select: plain(select)?,
                size: plain(size)?,
                most_entries: *most_entries,
                enable: plain(enable)?,
                descriptors: address(descriptors)?,
                driver: address(driver)?,
                device: address(device)?,
                never: never.iter().map(plain).collect::<Result<_, _>>()?,
                commands,
            };
            (BusEngine::Virtqueue(engine), why)
        }
    };
    if why.trim().is_empty() {
        return Err(at.err("why is empty: it must explain why these are all addresses that the device gets"));
    }
    let mut master = BusMaster {
        engine,
        why: why.clone(),
        refused: None,
    };
    let known = |offset: u32| {
        let all = master.addresses();
        all.iter().any(|a| a.low == offset || a.high == Some(offset))
    };
    let other = map
        .registers()
        .find(|r| r.replay.role == Some(Role::BusAddress) && r.replay.write && !known(r.offset));
    let refused = match (untyped.first(), other) {
        (Some(name), _) => Some(format!(
            "{name} holds a bus address, but the map does not type it as one that may be replayed"
        )),
        (None, Some(r)) => Some(format!(
            "the map does not state what the device does with the address in {}",
            r.name
        )),
        (None, None) => None,
    };
    master.refused = refused;
    Ok(master)
}

fn of_raw(raw: &super::raw::RawBusCommand) -> BusCommand {
    BusCommand {
        number: raw.number,
        name: raw.name.clone(),
        entries: raw.entries.as_ref().map(|e| BusEntries {
            count_at: e.count_at,
            first_at: e.first_at,
            bytes: e.bytes,
            address_at: e.address_at,
            length_at: e.length_at,
        }),
    }
}
