//! Registers that hold the address of a target.

use super::data::XrefData;
use super::reference::{AccessKind, AddressMatch, Reference, ReferenceItem};
use crate::families::{Family, find_family};
use crate::progress::{Cancelled, Progress};
use crate::recording::Recording;
use crate::registers::{FieldKind, Half, Register, RegisterMap, Role};
use crate::{GpuVa, PhysAddr, RegOffset};

/// The addresses of a target, as registers may hold them.
#[derive(Clone, Copy, Debug)]
pub(super) struct TargetAddress {
    pub va: Option<GpuVa>,
    pub pa: Option<PhysAddr>,
}

/// Adds the accesses that set a register to an address of the target, or read such an address from it.
pub(super) fn find_address_registers(
    recording: &Recording,
    data: &impl XrefData,
    target: TargetAddress,
    progress: &Progress,
    out: &mut Vec<Reference>,
) -> Result<(), Cancelled> {
    let map = RegisterMap::for_recording(recording);
    let family = find_family(recording);
    for offset in data.accessed_registers() {
        if let Some(r) = map.and_then(|m| m.at(offset)) {
            find_values(recording, data, r, target, out);
            if let Some(va) = target.va {
                find_job_addresses(recording, data, family, (r, va), out);
            }
        }
        progress.advance(1)?;
    }
    Ok(())
}

/// Returns whether a register holds an address of GPU memory: `true` for physical, `false` for virtual.
fn is_physical(r: &Register) -> Option<bool> {
    let physical = match r.replay.role? {
        Role::Root | Role::GpuFaultAddress => true,
        Role::JobHead | Role::JobCurrent | Role::JobTail | Role::FaultAddress | Role::LockAddr | Role::PerfBase => {
            false
        }
        _ => return None,
    };
    let layout = r.wide.as_ref()?;
    let addresses = layout
        .fields
        .iter()
        .any(|f| matches!(f.kind, FieldKind::Address { .. }));
    addresses.then_some(physical)
}

fn find_values(
    recording: &Recording,
    data: &impl XrefData,
    r: &Register,
    target: TargetAddress,
    out: &mut Vec<Reference>,
) {
    let Some(Half::Low { high_offset }) = r.pair else {
        return;
    };
    let target = match is_physical(r) {
        Some(true) => target.pa.map(|p| p.get()),
        Some(false) => target.va.map(|v| v.get()),
        None => None,
    };
    let Some(target) = target else { return };
    let of = |offset: u32, is_high: bool| {
        let accesses = data.accesses(RegOffset::new(offset)).map(|a| a.all().iter());
        accesses.into_iter().flatten().map(move |e| (e, is_high))
    };
    // Both halves in event order.
    let mut events: Vec<(u64, bool)> = of(r.offset.get(), false).chain(of(high_offset.get(), true)).collect();
    events.sort_unstable();
    let (mut low, mut high) = (0, 0);
    let mut reported: Option<u64> = None;
    for (event, is_high) in events {
        let Some(a) = usize::try_from(event).ok().and_then(|e| recording.events.access(e)) else {
            continue;
        };
        let half = match is_high && a.width == 8 {
            // The access covers both halves.
            true => a.value >> 32,
            false => a.value & 0xffff_ffff,
        };
        if is_high {
            high = half;
        } else {
            low = half;
        }
        let value = high << 32 | low;
        let Some(matches) = match_address(r, value, target) else {
            reported = None;
            continue;
        };
        // The two halves of one value are one reference.
        if reported.replace(value) == Some(value) && is_high {
            continue;
        }
        let item = ReferenceItem::AddressRegister {
            accessed: a.offset,
            register: r.offset,
            is_write: a.write,
            value,
            matches,
        };
        let reference = Reference::new(item, AccessKind::AddressOf, Some(event));
        out.push(match matches {
            AddressMatch::Page => reference.page_only(),
            AddressMatch::Exact | AddressMatch::Range => reference,
        });
    }
}

/// Adds the accesses of a 32-bit register that name a job at the target.
fn find_job_addresses(
    recording: &Recording,
    data: &impl XrefData,
    family: &dyn Family,
    (r, target): (&Register, GpuVa),
    out: &mut Vec<Reference>,
) {
    let events = data.accesses(r.offset).map(|a| a.all().iter());
    let accesses = events.into_iter().flatten().filter_map(|event| {
        let access = recording.events.access(usize::try_from(event).ok()?)?;
        Some((event, access, family.read_job_address(r, access.value)?))
    });
    for (event, access, va) in accesses {
        let item = |matches| ReferenceItem::AddressRegister {
            accessed: access.offset,
            register: r.offset,
            is_write: access.write,
            value: access.value,
            matches,
        };
        let new = |matches| Reference::new(item(matches), AccessKind::AddressOf, Some(event));
        if va == target {
            out.push(new(AddressMatch::Exact));
        } else if va.page() == target.page() {
            out.push(new(AddressMatch::Page).page_only());
        }
    }
}

/// Returns how the value of a register refers to the target.
fn match_address(r: &Register, value: u64, target: u64) -> Option<AddressMatch> {
    if value == 0 {
        return None;
    }
    match r.replay.role {
        Some(Role::LockAddr) => {
            let layout = r.wide.as_ref()?;
            let decoded = layout.decode(value);
            let size = 1u64.checked_shl(decoded.text("size_log2")?.parse().ok()?)?;
            let base = decoded.value("base")? << 12;
            (base <= target && target - base < size).then_some(AddressMatch::Range)
        }
        _ if value == target => Some(AddressMatch::Exact),
        _ if value >> 12 == target >> 12 => Some(AddressMatch::Page),
        _ => None,
    }
}
