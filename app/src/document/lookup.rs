//! What a recording holds at a place and a moment: a register, bytes of memory, the walk of an address.

use super::facts::Facts;
use trace_core::GpuVa;
use trace_core::memory::{ByteState, GpuMemoryView};
use trace_core::mmu;
use trace_core::recording::{Access, Recording};
use trace_core::registers::{Part, Register, RegisterMap};

/// The embedded register map of a recording's device, which jobs and page tables follow from.
#[must_use]
pub fn map_of(recording: &Recording) -> Option<&'static RegisterMap> {
    RegisterMap::built_in_for(recording)
}

/// The register map that names the registers of a recording's device: the person's own before the embedded one.
#[must_use]
pub fn names_of(recording: &Recording) -> Option<&'static RegisterMap> {
    RegisterMap::for_recording(recording)
}

/// The register at an offset of the register space, when the recording's device is known.
#[must_use]
pub fn register_of(recording: &Recording, offset: u32) -> Option<&'static Register> {
    names_of(recording)?.at(offset)
}

/// What an access touches of the register at an offset.
fn part_of(facts: &Facts, register: u32, access: &Access) -> Option<Part<'static>> {
    let device = facts.device.filter(|d| d.space() == access.space)?;
    let mut parts = device.map().covering(access.offset, access.width);
    parts.find(|p| p.register.offset == register)
}

/// What a register holds after one of its accesses, `events[n]`: the value of the access, where it touches the whole
/// register; else with the other bytes as accesses before it told them, and 0 where none did.
#[must_use]
pub fn value_after(recording: &Recording, facts: &Facts, register: u32, events: &[u32], n: usize) -> Option<u64> {
    /// Accesses that are looked at for the bytes that are missing.
    const FAR: usize = 64;
    let last = recording.events.access(*events.get(n)? as usize)?;
    let Some(part) = part_of(facts, register, &last) else {
        return Some(last.value);
    };
    let (mut value, mut known) = (part.bits(last.value), part.mask());
    if part.whole() {
        return Some(value);
    }
    for e in events.get(n.saturating_sub(FAR)..n).unwrap_or_default().iter().rev() {
        let Some(before) = recording.events.access(*e as usize) else {
            continue;
        };
        if let Some(part) = part_of(facts, register, &before) {
            value |= part.bits(before.value) & !known;
            known |= part.mask();
            if part.whole() {
                break;
            }
        }
    }
    Some(value)
}

/// Bytes of the register at an offset; those of the access, where no map knows it.
#[must_use]
pub fn register_width(recording: &Recording, register: u32, access: &Access) -> u8 {
    register_of(recording, register).map_or(access.width, |r| r.width)
}

/// GPU memory of an address space at an event.
#[must_use]
pub fn memory_at(recording: &Recording, space: u32, event: u64) -> Option<GpuMemoryView<'_>> {
    let s = recording.facts.address_spaces.get(space as usize)?;
    Some(GpuMemoryView::new(recording.memory.at(event), s))
}

/// A line of memory: a byte, or what is known instead.
#[must_use]
pub fn read(recording: &Recording, space: u32, va: u64, event: u64, len: usize) -> Vec<Result<u8, ByteState>> {
    let mut bytes = vec![0; len];
    let Some(view) = memory_at(recording, space, event) else {
        return vec![Err(ByteState::Unmapped); len];
    };
    let states = view.read_partial(GpuVa(va), &mut bytes);
    bytes
        .into_iter()
        .zip(states)
        .map(|(b, s)| if s == ByteState::Content { Ok(b) } else { Err(s) })
        .collect()
}

/// The walk of an address level by level, for people: level, index, where the entry stands, what it is.
#[must_use]
pub fn walk(recording: &Recording, space: u32, va: u64, event: u64) -> Option<mmu::Walk> {
    let s = recording.facts.address_spaces.get(space as usize)?;
    Some(mmu::walk(s.format, s.root, GpuVa(va), &recording.memory.at(event)))
}
