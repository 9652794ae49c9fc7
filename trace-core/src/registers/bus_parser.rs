//! The parser of the `[bus-master]` table: finds the registers that it names.

use super::bus::{AddressRegister, BusCommand, BusEngine, BusEntries, BusMaster, CopyEngine, QueueEngine};
use super::map_error::{RegisterMapError, SourceLocation};
use super::raw::{RawBusCommand, RawBusMaster, RawCopyEngine, RawQueueEngine};
use super::{Register, RegisterMap, Role};
use crate::RegOffset;

/// Finds the registers that a map's engine names. An unknown register name is an error. A register without the bus
/// address type gives a map that refuses bus mastering.
pub(super) fn parse_bus_master(
    map: &RegisterMap,
    at: &SourceLocation<'_>,
    raw: &RawBusMaster,
) -> Result<BusMaster, RegisterMapError> {
    let mut registers = RegisterFinder {
        map,
        at,
        untyped: Vec::new(),
    };
    let (engine, why) = match raw {
        RawBusMaster::Copy(raw) => (BusEngine::Copy(parse_copy_engine(&mut registers, raw)?), &raw.why),
        RawBusMaster::Virtqueue(raw) => (BusEngine::Virtqueue(parse_queue_engine(&mut registers, raw)?), &raw.why),
    };
    if why.trim().is_empty() {
        return Err(at.err("why is empty: it must explain why these are all addresses that the device gets"));
    }
    let mut master = BusMaster {
        engine,
        why: why.clone(),
        refused: None,
    };
    master.refused = registers.describe_refusal(&master);
    Ok(master)
}

/// Finds registers by the names in the table.
struct RegisterFinder<'a> {
    map: &'a RegisterMap,
    at: &'a SourceLocation<'a>,
    /// Names of address registers that the map does not type as bus addresses that may be replayed.
    untyped: Vec<String>,
}

impl RegisterFinder<'_> {
    /// Returns the offset of a register.
    fn find_offset(&self, name: &str) -> Result<RegOffset, RegisterMapError> {
        let found = self.map.find_by_name(name).map(|r| r.offset);
        found.ok_or_else(|| self.at.err(format!("there is no register {name}")))
    }

    /// Returns the register, or the pair of registers, that holds an address.
    fn find_address(&mut self, name: &str) -> Result<AddressRegister, RegisterMapError> {
        let (map, at) = (self.map, self.at);
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
        self.untyped
            .extend(halves.into_iter().flatten().filter(other).map(|r| r.name.clone()));
        Ok(AddressRegister {
            name: name.to_owned(),
            low: low.offset,
            high: high.map(|r| r.offset),
            local: low.local.clone().unwrap_or(0..0),
        })
    }

    /// Returns the number in which only bit `n` is set.
    fn bit(&self, n: u8) -> Result<u64, RegisterMapError> {
        1u64.checked_shl(n.into())
            .ok_or_else(|| self.at.err(format!("bit {n}")))
    }

    /// Returns why the map refuses bus mastering, or `None` if it does not.
    fn describe_refusal(&self, master: &BusMaster) -> Option<String> {
        if let Some(name) = self.untyped.first() {
            return Some(format!(
                "{name} holds a bus address, but the map does not type it as one that may be replayed"
            ));
        }
        let addresses = master.addresses();
        let is_known = |offset: RegOffset| addresses.iter().any(|a| a.low == offset || a.high == Some(offset));
        let is_unknown_address =
            |r: &Register| r.replay.role == Some(Role::BusAddress) && r.replay.write && !is_known(r.offset);
        let other = self.map.find_register(is_unknown_address)?;
        Some(format!(
            "the map does not state what the device does with the address in {}",
            other.name
        ))
    }
}

fn parse_copy_engine(registers: &mut RegisterFinder<'_>, raw: &RawCopyEngine) -> Result<CopyEngine, RegisterMapError> {
    let source = registers.find_address(&raw.source)?;
    let destination = registers.find_address(&raw.destination)?;
    if source.local != destination.local || source.local.is_empty() {
        return Err(registers
            .at
            .err("source and destination need the same `local`, the device's own buffer"));
    }
    Ok(CopyEngine {
        source,
        destination,
        count: registers.find_offset(&raw.count)?,
        command: registers.find_offset(&raw.command)?,
        start: registers.bit(raw.start)?,
        to_memory: registers.bit(raw.to_memory)?,
    })
}

fn parse_queue_engine(
    registers: &mut RegisterFinder<'_>,
    raw: &RawQueueEngine,
) -> Result<QueueEngine, RegisterMapError> {
    let is_refused = |n: &u8| registers.bit(*n).is_ok() && !raw.features.contains(n);
    if let Some(n) = raw.behind_iommu.filter(is_refused) {
        return Err(registers.at.err(format!(
            "feature {n} behind an IOMMU is not in the list of allowed features"
        )));
    }
    let commands = parse_commands(registers.at, &raw.command)?;
    Ok(QueueEngine {
        status: registers.find_offset(&raw.status)?,
        feature_select: registers.find_offset(&raw.feature_select)?,
        feature: registers.find_offset(&raw.feature)?,
        features: raw.features.iter().map(|n| registers.bit(*n)).sum::<Result<u64, _>>()?,
        behind_iommu: raw.behind_iommu.map_or(Ok(0), |n| registers.bit(n))?,
        select: registers.find_offset(&raw.select)?,
        size: registers.find_offset(&raw.size)?,
        most_entries: raw.most_entries,
        enable: registers.find_offset(&raw.enable)?,
        descriptors: registers.find_address(&raw.descriptors)?,
        driver: registers.find_address(&raw.driver)?,
        device: registers.find_address(&raw.device)?,
        never: raw
            .never
            .iter()
            .map(|n| registers.find_offset(n))
            .collect::<Result<_, _>>()?,
        commands,
    })
}

/// Parses the commands of a queue, sorted by number.
fn parse_commands(at: &SourceLocation<'_>, raw: &[RawBusCommand]) -> Result<Vec<BusCommand>, RegisterMapError> {
    let mut commands: Vec<BusCommand> = raw.iter().map(convert_command).collect();
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
    Ok(commands)
}

fn convert_command(raw: &RawBusCommand) -> BusCommand {
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
