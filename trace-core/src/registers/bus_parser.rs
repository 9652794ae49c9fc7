//! The parser of the `[bus-master]` table: finds the registers that it names.

use super::bus::{AddressRegister, BusCommand, BusEngine, BusEntries, BusMaster, CopyEngine, QueueEngine};
use super::map_error::{RegisterMapError, SourceLocation};
use super::raw::{RawBusCommand, RawBusMaster};
use super::{Register, RegisterMap, Role};
use crate::RegOffset;

/// Finds the registers that a map's engine names. An unknown register name is an error. A register without the bus
/// address type gives a map that refuses bus mastering.
pub(super) fn parse_bus_master(
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
        let other = |r: &&Register| r.replay.role != Some(Role::BusAddress) || !r.replay.write;
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
    let known = |offset: RegOffset| {
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

fn of_raw(raw: &RawBusCommand) -> BusCommand {
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
