//! Guarded buffers: buffers that end at an unmapped address, so that an access past the end faults.
//!
//! A guarded buffer has another address than the recorded one. Its addresses in arguments are relocated, but those in
//! memory are not. A buffer whose address appears in recorded memory therefore keeps its recorded address.
#![allow(unsafe_code, reason = "calls of the driver; why each is sound stands at it")]

use super::code::MovedVariable;
use super::error::CudaReplayError;
use super::memory::MappedMemory;
use super::script::{GRANULE, Script, ScriptBuffer};
use cuda_driver::Driver;
use replay_engine::run::GuardReport;
use std::collections::{BTreeMap, BTreeSet};
use trace_core::GpuVa;

/// Alignment of a guarded buffer, bytes: kernels load vectors of this size.
const ALIGN: u64 = 16;
/// The fraction of the device's free memory that is not used: one part in this many.
const SPARE: u64 = 8;

/// The guarded buffers and their addresses.
#[derive(Debug, Default)]
pub(super) struct Guard {
    /// Each buffer with its new address.
    buffers: Vec<(ScriptBuffer, GpuVa)>,
    /// All buffers, guarded or not.
    all: Vec<ScriptBuffer>,
    /// The new addresses of variables and shared memory, which are valid at any time.
    always: Vec<MovedVariable>,
    /// Index of the next event at which a buffer starts or ends.
    next: u64,
    pub report: GuardReport,
}

impl Guard {
    /// Maps memory for the buffers that start with these events (all buffers if the list is empty), as far as the
    /// device has room.
    pub fn map(
        driver: Driver,
        mapped: &mut MappedMemory,
        script: &Script,
        held: &[&[u8]],
        wanted: &[u64],
    ) -> Result<Self, CudaReplayError> {
        let mut guard = Self {
            all: script.buffers.clone(),
            ..Self::default()
        };
        let pointed_at = pointed_at(&script.buffers, script, held);
        let (mut free, mut total) = (0, 0);
        // SAFETY: valid output pointers.
        unsafe { driver.cuMemGetInfo_v2(&raw mut free, &raw mut total)? };
        let mut room = (free as u64) - (free as u64) / SPARE;
        for buffer in &script.buffers {
            if !wanted.is_empty() && !wanted.contains(&buffer.from) {
                continue;
            }
            if pointed_at.contains(&buffer.from) {
                guard.report.pointed_at.push(buffer.from);
                continue;
            }
            let Some(length) = buffer.bytes.checked_next_multiple_of(GRANULE).filter(|n| *n <= room) else {
                guard.report.left.push(buffer.from);
                continue;
            };
            let base = mapped.map_with_gap(length)?;
            room -= length;
            let end = base + length;
            let is = end.wrapping_sub(buffer.bytes.next_multiple_of(ALIGN));
            guard.report.guarded.push(buffer.from);
            guard.buffers.push((*buffer, is));
        }
        Ok(guard)
    }

    /// Adds the relocations that do not depend on guarded buffers.
    pub fn begin(&mut self, always: &[MovedVariable]) {
        self.always = always.to_vec();
        self.next = 0;
    }

    /// Returns to the first step.
    pub fn rewind(&mut self) {
        self.next = 0;
    }

    /// Returns the address map for a step of an event, or `None` if it has not changed since the last step.
    pub fn find_moves(&mut self, event: u64) -> Option<Vec<MovedVariable>> {
        if event < self.next {
            return None;
        }
        let live = |b: &ScriptBuffer| b.from <= event && b.to.is_none_or(|to| event < to);
        let mut moved = self.always.clone();
        let changes = self.all.iter().flat_map(|b| [Some(b.from), b.to]);
        self.next = changes.flatten().filter(|at| *at > event).min().unwrap_or(u64::MAX);
        let begins: BTreeSet<GpuVa> = self.all.iter().filter(|b| live(b)).map(|b| b.at).collect();
        for (b, is) in self.buffers.iter().filter(|(b, _)| live(b)) {
            // An address one past the end belongs to the buffer, unless another buffer starts there.
            let past = u64::from(!begins.contains(&b.at.saturating_add(b.bytes)));
            moved.push(MovedVariable {
                was: b.at,
                bytes: b.bytes.saturating_add(past),
                is: *is,
            });
        }
        moved.sort_unstable_by_key(|m| m.was);
        Some(moved)
    }
}

/// Returns the buffers whose addresses appear in recorded memory, by their first event.
fn pointed_at(buffers: &[ScriptBuffer], script: &Script, held: &[&[u8]]) -> BTreeSet<u64> {
    let mut by_address: BTreeMap<u64, Vec<&ScriptBuffer>> = BTreeMap::new();
    for b in buffers {
        by_address.entry(b.at.get()).or_default().push(b);
    }
    let longest = buffers.iter().map(|b| b.bytes).max().unwrap_or(0);
    let (first, last) = match (by_address.keys().next(), by_address.keys().next_back()) {
        (Some(first), Some(last)) => (*first, last.saturating_add(longest)),
        _ => return BTreeSet::new(),
    };
    let mut found = BTreeSet::new();
    for (t, bytes) in script.inputs.iter().zip(held) {
        // Words at device addresses that are multiples of eight.
        let skip = (t.row.to.next_multiple_of(8) - t.row.to) as usize;
        for word in bytes.get(skip..).unwrap_or_default().as_chunks::<8>().0 {
            let to = u64::from_le_bytes(*word);
            if !(first..=last).contains(&to) {
                continue;
            }
            for (at, list) in by_address.range(to.saturating_sub(longest)..=to) {
                found.extend(list.iter().filter(|b| to - at <= b.bytes).map(|b| b.from));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Transfer;
    use trace_core::GpuVa;
    use trace_core::recording::CopyRow;

    fn buffer(at: u64, bytes: u64, from: u64, to: Option<u64>) -> ScriptBuffer {
        ScriptBuffer {
            at: GpuVa::new(at),
            bytes,
            from,
            to,
        }
    }

    #[test]
    fn guard_does_not_move_a_buffer_referenced_from_memory() {
        let buffers = [
            buffer(0x1000, 64, 1, None),
            buffer(0x2000, 64, 2, None),
            buffer(0x3000, 64, 3, None),
        ];
        let transfer = |to| Transfer {
            event: 0,
            name: String::new(),
            row: CopyRow {
                to,
                ..CopyRow::default()
            },
            snapshot: false,
        };
        let script = Script {
            inputs: vec![transfer(0x3000), transfer(0x3004)],
            ..Script::default()
        };
        let words: Vec<u8> = [7u64, 0x2010].iter().flat_map(|w| w.to_le_bytes()).collect();
        // The value is at a device address that is not a multiple of eight, so it is not treated as an address.
        let odd: Vec<u8> = [0x1000u64, 0].iter().flat_map(|w| w.to_le_bytes()).collect();
        assert_eq!(pointed_at(&buffers, &script, &[&words, &odd]), BTreeSet::from([2]));
    }

    #[test]
    fn address_belongs_to_the_buffer_live_at_that_event() {
        let buffers = vec![
            (buffer(0x1000, 64, 1, Some(5)), GpuVa::new(0xa000)),
            (buffer(0x1000, 128, 7, None), GpuVa::new(0xb000)),
            (buffer(0x1080, 16, 8, None), GpuVa::new(0xc000)),
        ];
        // The last buffer is not guarded and starts at the end of the previous one.
        let mut all: Vec<ScriptBuffer> = buffers.iter().map(|(b, _)| *b).collect();
        all.push(buffer(0x1090, 16, 8, None));
        let mut guard = Guard {
            buffers,
            all,
            ..Guard::default()
        };
        guard.begin(&[]);
        let at = |guard: &mut Guard, event| {
            let moved = guard.find_moves(event);
            moved.map(|all| {
                all.iter()
                    .map(|m| (m.was.get(), m.bytes, m.is.get()))
                    .collect::<Vec<_>>()
            })
        };
        assert_eq!(at(&mut guard, 2), Some(vec![(0x1000, 65, 0xa000)]));
        assert_eq!(at(&mut guard, 4), None, "no buffer was allocated or freed");
        assert_eq!(at(&mut guard, 6), Some(vec![]));
        // The range does not include the address one past its end, because another buffer starts there.
        assert_eq!(
            at(&mut guard, 9),
            Some(vec![(0x1000, 128, 0xb000), (0x1080, 16, 0xc000)])
        );
    }
}
