//! What of a device reads and writes memory by itself, and where it takes the addresses from.

use super::parse::{RegisterMapError, SourceLocation};
use super::raw::RawBusMaster;
use super::{RegisterMap, Role};
use std::ops::Range;

/// How a device comes to the addresses that it reads and writes by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusMaster {
    /// What reads the addresses.
    pub engine: BusEngine,
    /// Why these are all the addresses that the device can be given.
    pub why: String,
    /// Why bus mastering is refused nevertheless: a register that carries an address is not typed as one.
    pub refused: Option<String>,
}

/// What reads addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BusEngine {
    /// Copies between memory and a buffer of its own.
    Copy(CopyEngine),
    /// Follows virtio's split rings.
    Virtqueue(QueueEngine),
}

/// A register, or a pair of them, that carries an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressRegister {
    /// Name, of a pair without its halves.
    pub name: String,
    /// Offset of the register, or of bits 31 to 0.
    pub low: u32,
    /// Offset of bits 63 to 32, where it is a pair.
    pub high: Option<u32>,
    /// Values that are no address on the bus.
    pub local: Range<u64>,
}

/// An engine that copies between memory and a buffer of the device's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyEngine {
    /// Where it reads.
    pub source: AddressRegister,
    /// Where it writes.
    pub destination: AddressRegister,
    /// Offset of the register with the number of bytes.
    pub count: u32,
    /// Offset of the register that starts it, and reads as started until it is over.
    pub command: u32,
    /// The bit of the command that starts.
    pub start: u64,
    /// The bit of the command that says: from the buffer to memory.
    pub to_memory: u64,
}

/// An engine that follows virtio's split rings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueEngine {
    /// Offset of the register that resets the device when it is written 0, and reads 0 when that is over.
    pub status: u32,
    /// Offset of the register that chooses the features that the next one sets.
    pub feature_select: u32,
    /// Offset of the register that takes features.
    pub feature: u32,
    /// Features that may be taken: none of them changes where addresses stand.
    pub features: u64,
    /// The feature that has to be taken where an IOMMU stands in front of the device; 0 where there is none such.
    pub behind_iommu: u64,
    /// Offset of the register that chooses the queue that the registers below are of.
    pub select: u32,
    /// Offset of the register with the number of entries.
    pub size: u32,
    /// The largest number of entries that the device takes.
    pub most_entries: u16,
    /// Offset of the register that puts the queue to use.
    pub enable: u32,
    /// Table of descriptors.
    pub descriptors: AddressRegister,
    /// Ring that the driver fills.
    pub driver: AddressRegister,
    /// Ring that the device fills.
    pub device: AddressRegister,
    /// Offsets of registers that must not be written while the device masters the bus.
    pub never: Vec<u32>,
    /// Commands that buffers may begin with, by rising number.
    pub commands: Vec<BusCommand>,
}

/// A command in the buffers of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusCommand {
    /// Its first 32 bits.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// Where it carries addresses, where it does.
    pub entries: Option<BusEntries>,
}

/// A list of addresses in a command, in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusEntries {
    /// Where the 32-bit number of entries stands.
    pub count_at: u32,
    /// Where the first entry stands.
    pub first_at: u32,
    /// Bytes of an entry.
    pub bytes: u32,
    /// Where in an entry the 64-bit address stands.
    pub address_at: u32,
    /// Where in an entry the 32-bit number of bytes stands.
    pub length_at: u32,
}

impl BusMaster {
    /// The registers that carry addresses.
    #[must_use]
    pub fn addresses(&self) -> Vec<&AddressRegister> {
        match &self.engine {
            BusEngine::Copy(c) => vec![&c.source, &c.destination],
            BusEngine::Virtqueue(q) => vec![&q.descriptors, &q.driver, &q.device],
        }
    }
}

impl RegisterMap {
    /// What of the device reads and writes memory by itself; `None` where the map does not tell, and the device
    /// therefore masters no bus.
    #[must_use]
    pub fn bus_master(&self) -> Option<&BusMaster> {
        self.bus_master.as_ref()
    }
}

/// Finds the registers that a map's engine names. A name that no register has is an error; one that is not typed as an
/// address on the bus leaves a map of which bus mastering is refused.
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
            return Err(at.err(format!("{name} is neither of 8 bytes nor a pair of 4")));
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
                return Err(at.err(format!("feature {n} behind an IOMMU is none that may be taken")));
            }
            let features = features.iter().map(|n| bit(*n));
            let mut commands: Vec<BusCommand> = command.iter().map(of_raw).collect();
            commands.sort_by_key(|c| c.number);
            if commands.array_windows().any(|[a, b]| a.number == b.number) {
                return Err(at.err("two commands have one number"));
            }
            for e in commands.iter().filter_map(|c| c.entries) {
                let inside = |field: u32, bytes: u32| field.checked_add(bytes).is_some_and(|end| end <= e.bytes);
                if e.bytes > 4096 || !inside(e.address_at, 8) || !inside(e.length_at, 4) {
                    return Err(at.err("an entry's address or length lies outside the entry"));
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
        return Err(at.err("why says nothing: it must tell why these are all addresses that the device is given"));
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
            "{name} carries an address on the bus, and the map does not type it as one that may be replayed"
        )),
        (None, Some(r)) => Some(format!(
            "what the device does with the address in {} is not told",
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
