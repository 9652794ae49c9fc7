//! Lookups in a recording at an address and event: registers, memory bytes, page table walks.

use trace_core::memory::{ByteState, GpuMemoryView};
use trace_core::mmu;
use trace_core::recording::{Access, Buffer, Recording};
use trace_core::registers::{Register, RegisterMap};
use trace_core::{GpuVa, RegOffset};

/// Returns the embedded register map of the recorded device, which the decoding of jobs and page tables requires.
#[must_use]
pub fn find_register_map(recording: &Recording) -> Option<&'static RegisterMap> {
    RegisterMap::built_in_for(recording)
}

/// Returns the register map that names the registers of the recorded device. The user's own map has precedence over the
/// embedded one.
#[must_use]
pub fn find_names_map(recording: &Recording) -> Option<&'static RegisterMap> {
    RegisterMap::for_recording(recording)
}

/// Returns the register at an offset of the register space, if the recorded device is known.
#[must_use]
pub fn find_register(recording: &Recording, offset: RegOffset) -> Option<&'static Register> {
    find_names_map(recording)?.at(offset)
}

/// Returns the width in bytes of the register at an offset, or that of the access if no map knows the register.
#[must_use]
pub fn register_width(recording: &Recording, register: RegOffset, access: &Access) -> u8 {
    find_register(recording, register).map_or(access.width, |r| r.width)
}

/// Returns the GPU memory of an address space at an event.
#[must_use]
pub fn memory_at(recording: &Recording, space: u32, event: u64) -> Option<GpuMemoryView<'_>> {
    GpuMemoryView::at(recording, space, event)
}

/// Reads a range of memory: for each byte its value, or why it is not known.
#[must_use]
pub fn read(recording: &Recording, space: u32, va: GpuVa, event: u64, len: usize) -> Vec<Result<u8, ByteState>> {
    let mut bytes = vec![0; len];
    let Some(view) = memory_at(recording, space, event) else {
        return vec![Err(ByteState::Unmapped); len];
    };
    let states = view.read_partial(va, &mut bytes);
    bytes
        .into_iter()
        .zip(states)
        .map(|(b, s)| if s == ByteState::Content { Ok(b) } else { Err(s) })
        .collect()
}

/// Walks an address level by level: level, index, address of the entry, kind of entry.
#[must_use]
pub fn walk(recording: &Recording, space: u32, va: GpuVa, event: u64) -> Option<mmu::Walk> {
    let s = recording.metadata.address_spaces.get(space as usize)?;
    Some(mmu::walk(s.format, s.root, va, &recording.memory.at(event)))
}

/// Returns whether the recording holds the first or the last byte of a buffer before an event. A buffer that only a job
/// fills may have no content.
#[must_use]
pub fn has_content(recording: &Recording, buffer: &Buffer, event: u64) -> bool {
    let Some(memory) = memory_at(recording, buffer.address_space, event) else {
        return true;
    };
    let last = buffer.va.get().saturating_add(buffer.bytes.saturating_sub(1));
    [buffer.va.get(), last].into_iter().any(|va| {
        let mut byte = [0; 1];
        memory.read_partial(GpuVa::new(va), &mut byte).first() == Some(&ByteState::Content)
    })
}
