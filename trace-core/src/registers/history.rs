//! The values of a recording's registers at any event: accesses sorted by register once, then one search per query.

use super::accesses::{AccessList, Accesses};
use super::{CoveredRegisters, Part, RecordedRegisters, RegisterMap};
use crate::RegOffset;
use crate::progress::{Cancelled, Progress};
use crate::recording::{Access, Recording};
use std::collections::BTreeMap;

/// Number of events that are sorted between two checks for cancellation.
const STEP: usize = 1 << 16;
/// Registers below this offset are found by index.
const NEAR: usize = 0x1_0000;
/// Maximum number of accesses that are examined for the bytes that a narrow one leaves out.
const FAR: usize = 64;

/// The value of a register at an event, with the access that shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldValue {
    /// The value.
    pub value: u64,
    /// The last access at the event or before it.
    pub event: u64,
    /// Whether that access is a write.
    pub write: bool,
    /// Its index in the list of all accesses to the register.
    pub place: usize,
}

/// Sorts the accesses of a recording's space of this number by register. Returns the offset of each accessed register,
/// and its accesses. A location that `map` does not know is a register of its own; an access that touches several
/// registers is listed for each. Events beyond 32 bits are left out. Time depends on the number of events; memory is a
/// little more than a byte per access.
///
/// # Errors
///
/// [`Cancelled`].
pub fn by_register(
    recording: &Recording,
    map: Option<&RegisterMap>,
    space: u8,
    progress: &Progress,
) -> Result<BTreeMap<RegOffset, Accesses>, Cancelled> {
    let mut near: Vec<Accesses> = Vec::new();
    near.resize_with(NEAR, Accesses::default);
    let mut far: BTreeMap<RegOffset, Accesses> = BTreeMap::new();
    let n = recording.events.len();
    progress.set_total(n as u64);
    for from in (0..n).step_by(STEP) {
        for (e, a) in recording.events.accesses(from..(from + STEP).min(n)) {
            if a.space != space {
                continue;
            }
            // Nearly every access touches one register, or one location that the map does not know.
            let mut parts = map.map_or_else(CoveredRegisters::default, |m| m.covered_registers(a.offset, a.width));
            let mut offset = Some(parts.next().map_or(a.offset, |p| p.register.offset));
            while let Some(at) = offset {
                let of = match near.get_mut(at.get() as usize) {
                    Some(of) => of,
                    None => far.entry(at).or_default(),
                };
                of.push(e as u64, a.write);
                offset = parts.next().map(|p| p.register.offset);
            }
        }
        progress.advance(STEP as u64)?;
    }
    let near = (0..).map(RegOffset::new).zip(near).filter(|r| !r.1.is_empty());
    let mut all: BTreeMap<RegOffset, Accesses> = near.chain(far).collect();
    all.values_mut().for_each(Accesses::shrink);
    Ok(all)
}

/// Returns the part of the register at an offset that an access touches.
fn part_of(device: Option<RecordedRegisters>, register: RegOffset, access: &Access) -> Option<Part<'static>> {
    let device = device.filter(|d| d.space() == access.space)?;
    let mut parts = device.map().covered_registers(access.offset, access.width);
    parts.find(|p| p.register.offset == register)
}

/// Returns the value of a register after an access, given as its index of all accesses and its event. If the access
/// touches only a part, up to 64 earlier accesses give the other bytes; bytes that none gives are 0.
#[must_use]
pub fn value_of(
    recording: &Recording,
    device: Option<RecordedRegisters>,
    register: RegOffset,
    accesses: &Accesses,
    (place, event): (usize, u64),
) -> Option<u64> {
    let last = recording.events.access(usize::try_from(event).ok()?)?;
    let Some(part) = part_of(device, register, &last) else {
        return Some(last.value);
    };
    let (mut value, mut known) = (part.bits(last.value), part.mask());
    if part.is_whole() {
        return Some(value);
    }
    let from = place.saturating_sub(FAR);
    let earlier: Vec<u64> = accesses.iter_from(from).take(place - from).map(|a| a.event).collect();
    for e in earlier.into_iter().rev() {
        let Some(before) = usize::try_from(e).ok().and_then(|e| recording.events.access(e)) else {
            continue;
        };
        if let Some(part) = part_of(device, register, &before) {
            value |= part.bits(before.value) & !known;
            known |= part.mask();
            if part.is_whole() {
                break;
            }
        }
    }
    Some(value)
}

/// Returns the value of a register at an event: after its last access at or before the event. Returns `None` if nothing
/// has accessed it yet.
#[must_use]
pub fn value_at(
    recording: &Recording,
    device: Option<RecordedRegisters>,
    register: RegOffset,
    accesses: &Accesses,
    event: u64,
) -> Option<HeldValue> {
    let list: AccessList<'_> = accesses.all();
    let place = list.count_until(event).checked_sub(1)?;
    let access = accesses.iter_from(place).next()?;
    Some(HeldValue {
        value: value_of(recording, device, register, accesses, (place, access.event))?,
        event: access.event,
        write: access.write,
        place,
    })
}
