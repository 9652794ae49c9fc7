//! The columns of a recording from the pieces of a log.

use super::rows::{Rows, TABLES};
use bytemuck::Pod;
use rayon::prelude::*;
use trace_core::recording::{
    Column, ColumnBuilder, DmaMapRow, EventKind, Events, InterruptRow, SubmitRow, UndecodedRow,
};

/// Joins pieces of a column; a single value throughout costs nothing per row.
fn column<T: Pod + PartialEq>(pieces: Vec<Vec<T>>) -> Column<T> {
    let mut b = ColumnBuilder::new();
    let rows = pieces.iter().map(Vec::len).sum();
    match pieces.iter().flatten().next().copied() {
        Some(first) if pieces.par_iter_same(&first) => b.push_constant(first, rows),
        _ => pieces.into_iter().for_each(|p| b.push_owned(p)),
    }
    b.finish()
}

trait AllSame<T> {
    fn par_iter_same(&self, value: &T) -> bool;
}

impl<T: PartialEq> AllSame<T> for Vec<Vec<T>> {
    fn par_iter_same(&self, value: &T) -> bool {
        self.iter().all(|p| p.iter().all(|v| v == value))
    }
}

/// Converts the pieces to the columns of a recording. Every event goes to a window that is a space, or to none.
pub(super) fn columns(pieces: Vec<Rows>, of_window: &[Option<u8>]) -> Events {
    // Rows of each side table before each piece.
    let mut bases = Vec::with_capacity(pieces.len());
    let mut next = [0u32; TABLES];
    for p in &pieces {
        bases.push(next);
        for (n, rows) in next.iter_mut().zip(p.tables()) {
            // All events together fit 32 bits.
            *n += rows as u32;
        }
    }
    let made: Vec<(Vec<u8>, Vec<u32>)> = pieces
        .par_iter()
        .zip(bases)
        .map(|(p, mut next)| {
            let space = |w: &u16| of_window.get(usize::from(*w)).copied().flatten().unwrap_or(0);
            let payload = p.kind.iter().map(|kind| {
                let table = EventKind::from_raw(*kind).map_or(0, Rows::table_of);
                let Some(slot) = next.get_mut(table) else { return 0 };
                let row = *slot;
                *slot += 1;
                row
            });
            (p.window.iter().map(space).collect(), payload.collect())
        })
        .collect();
    let (space, payload) = made.into_iter().unzip();
    let mut events = Events {
        space: column(space),
        payload: column(payload),
        ..Events::default()
    };
    let mut parts = Parts::default();
    for p in pieces {
        let rows = p.len();
        parts.kind.push(p.kind);
        parts.time.push(p.time);
        let mut thread = p.thread;
        thread.resize(rows, 0);
        parts.thread.push(thread);
        parts.offset.push(p.offset);
        parts.width.push(p.width);
        parts.value.push(p.value);
        parts.interrupts.push(p.interrupts);
        parts.undecoded.push(p.undecoded);
        parts.dma_maps.push(p.dma_maps);
        parts.submits.push(p.submits);
        events.marks.extend(p.marks);
    }
    events.kind = column(parts.kind);
    events.time = column(parts.time);
    events.thread = column(parts.thread);
    events.offset = column(parts.offset);
    events.width = column(parts.width);
    events.value = column(parts.value);
    events.interrupts = column(parts.interrupts);
    events.undecoded = column(parts.undecoded);
    events.dma_maps = column(parts.dma_maps);
    events.submits = column(parts.submits);
    events
}

/// Columns in pieces.
#[derive(Default)]
struct Parts {
    kind: Vec<Vec<u8>>,
    time: Vec<Vec<u64>>,
    thread: Vec<Vec<u32>>,
    offset: Vec<Vec<u32>>,
    width: Vec<Vec<u8>>,
    value: Vec<Vec<u64>>,
    interrupts: Vec<Vec<InterruptRow>>,
    undecoded: Vec<Vec<UndecodedRow>>,
    dma_maps: Vec<Vec<DmaMapRow>>,
    submits: Vec<Vec<SubmitRow>>,
}
