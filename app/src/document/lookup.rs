//! What a recording holds at a place and a moment: a register, bytes of memory, the walk of an address.

use trace_core::GpuVa;
use trace_core::memory::{ByteState, GpuMemoryView};
use trace_core::mmu;
use trace_core::recording::Recording;
use trace_core::registers::{Register, RegisterMap};

/// The register map of a recording's GPU.
#[must_use]
pub fn map_of(recording: &Recording) -> Option<&'static RegisterMap> {
    RegisterMap::for_gpu(recording.facts.identity.gpu_id)
}

/// The register at an offset, when the recording's GPU is known.
#[must_use]
pub fn register_of(recording: &Recording, offset: u32) -> Option<&'static Register> {
    map_of(recording)?.at(offset)
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
