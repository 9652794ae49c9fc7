//! One side of a comparison of calls: a recording, the index of its calls, and the pieces of its snapshots.

use super::call_index::{CallIndex, is_piece};
use crate::GpuVa;
use crate::api_trace::{ApiTrace, BufferLocation};
use crate::recording::{CallEvent, Recording};
use std::collections::BTreeMap;

/// A field that differs: its name, and its value on each side.
pub(super) type Field = (String, String, String);

/// One side: a recording and the index of its calls.
#[derive(Clone, Copy)]
pub(super) struct CallSide<'r> {
    pub recording: &'r Recording,
    pub known: &'r CallIndex,
}

impl<'r> CallSide<'r> {
    pub fn call(&self, event: u64) -> Option<CallEvent> {
        self.recording.events.call(usize::try_from(event).ok()?)
    }

    pub fn calls(&self) -> &'r ApiTrace {
        &self.known.api_trace
    }

    /// Returns the location of an address at an event.
    pub fn place(&self, address: GpuVa, event: u64) -> Option<BufferLocation> {
        self.calls().buffers().locate(address, event)
    }

    /// Formats an address.
    pub fn format_address(&self, address: GpuVa, event: u64) -> String {
        self.calls().buffers().format_address(address, event)
    }
}

/// The pieces of all snapshots of one side by the memory that they hold: a snapshot has them in address order, which
/// differs between runs.
#[derive(Debug, Default)]
pub(super) struct SnapshotPieces {
    /// The event by snapshot number and location.
    by_place: BTreeMap<(usize, BufferLocation), u64>,
}

/// Returns the number of the snapshot that an event belongs to.
fn snapshot_number(of: &CallSide<'_>, event: u64) -> usize {
    of.calls().snapshots().partition_point(|s| s.0 < event)
}

impl SnapshotPieces {
    /// Collects the pieces of one side.
    pub fn from_side(of: &CallSide<'_>) -> Self {
        let mut by_place = BTreeMap::new();
        let events = &of.recording.events;
        // Without a snapshot there are no pieces to search for.
        let all = if of.calls().snapshots().is_empty() {
            0
        } else {
            events.len()
        };
        for at in 0..all {
            let Some(CallEvent::Copy(row)) = events
                .call(at)
                .filter(|c| matches!(c, CallEvent::Copy(r) if is_piece(r)))
            else {
                continue;
            };
            let event = at as u64;
            if let Some(place) = of.place(GpuVa::new(row.from), event) {
                by_place.entry((snapshot_number(of, event), place)).or_insert(event);
            }
        }
        Self { by_place }
    }

    /// Returns the piece that holds a location, in the snapshot that an event belongs to.
    pub fn at(&self, of: &CallSide<'_>, event: u64, place: BufferLocation) -> Option<u64> {
        self.by_place.get(&(snapshot_number(of, event), place)).copied()
    }
}
