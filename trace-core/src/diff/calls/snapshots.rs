//! Snapshot pieces by the memory that they hold: a snapshot has them in address order, which differs between runs.

use super::CallSide;
use crate::calls::BufferLocation;
use crate::recording::{CallEvent, CopyKind, CopyRow, OrderRow};
use std::collections::BTreeMap;

/// Returns whether a copy is a piece of a snapshot: it belongs to no stream.
pub(in crate::diff) fn is_piece(row: &CopyRow) -> bool {
    row.stream == OrderRow::NONE && row.kind == CopyKind::DeviceToHost as u32
}

/// The pieces of all snapshots of one side.
#[derive(Debug, Default)]
pub(super) struct SnapshotPieces {
    /// The event by snapshot number and location.
    by_place: BTreeMap<(usize, BufferLocation), u64>,
}

/// Returns the number of the snapshot that an event belongs to.
fn number(of: &CallSide<'_>, event: u64) -> usize {
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
            if let Some(place) = of.place(row.from, event) {
                by_place.entry((number(of, event), place)).or_insert(event);
            }
        }
        Self { by_place }
    }

    /// Returns the piece that holds a location, in the snapshot that an event belongs to.
    pub fn at(&self, of: &CallSide<'_>, event: u64, place: BufferLocation) -> Option<u64> {
        self.by_place.get(&(number(of, event), place)).copied()
    }
}
