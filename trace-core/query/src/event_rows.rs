//! The rows of a batch of events, read from the stored columns.

use crate::tables::{EventCells, event_cells};
use std::ops::Range;
use trace_core::RegOffset;
use trace_core::recording::{Access, Column, EventKind, Recording};
use trace_core::registers::RecordedRegisters;

/// Number of stored rows that are copied for each row of a batch at most. Beyond, rows are read one by one.
const MAX_SPREAD: usize = 4;

/// The events of a batch.
#[derive(Clone, Debug)]
pub(crate) enum BatchRows {
    /// Consecutive events.
    Range(Range<usize>),
    /// Ascending events.
    List(Vec<usize>),
}

impl BatchRows {
    /// Returns the rows of ascending events.
    pub fn from_list(list: Vec<usize>) -> Self {
        match (list.first(), list.last()) {
            (Some(first), Some(last)) if last - first + 1 == list.len() => Self::Range(*first..*last + 1),
            _ => Self::List(list),
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Self::Range(range) => range.len(),
            Self::List(list) => list.len(),
        }
    }

    pub fn at(&self, row: usize) -> usize {
        match self {
            Self::Range(range) => range.start.saturating_add(row),
            Self::List(list) => list.get(row).copied().unwrap_or(usize::MAX),
        }
    }

    /// Returns the indices of the events.
    pub fn indices(&self) -> Vec<u64> {
        match self {
            Self::Range(range) => (range.start as u64..range.end as u64).collect(),
            Self::List(list) => list.iter().map(|at| *at as u64).collect(),
        }
    }

    /// Returns the values of a column at these events; the default value where the column is damaged or too short.
    pub fn values<T: bytemuck::Pod>(&self, column: &Column<T>) -> Vec<T> {
        match self {
            Self::Range(range) => {
                let mut values = copy(column, range.clone());
                values.resize(range.len(), T::zeroed());
                values
            }
            Self::List(list) => {
                let (first, last) = (list.first().copied().unwrap_or(0), list.last().copied().unwrap_or(0));
                if last.saturating_sub(first) > list.len().saturating_mul(MAX_SPREAD) {
                    return list
                        .iter()
                        .map(|at| column.get(*at).unwrap_or_else(T::zeroed))
                        .collect();
                }
                let near = copy(column, first..last.saturating_add(1));
                list.iter()
                    .map(|at| near.get(at - first).copied().unwrap_or_else(T::zeroed))
                    .collect()
            }
        }
    }
}

/// Copies rows of a column.
fn copy<T: bytemuck::Pod>(column: &Column<T>, range: Range<usize>) -> Vec<T> {
    let mut out = Vec::with_capacity(range.len());
    for slice in column.slices(range) {
        out.extend_from_slice(slice);
    }
    out
}

/// The cells of a batch that depend on the kinds of its events, before names and descriptions.
#[derive(Default)]
pub(crate) struct EventRows<'a> {
    /// Stored kinds.
    pub kinds: Vec<u8>,
    /// Numbers of spaces.
    pub spaces: Vec<u8>,
    /// Offsets of accesses, bytes.
    pub offsets: Vec<u32>,
    /// Widths of accesses, bytes.
    pub widths: Vec<u8>,
    /// Values of accesses.
    pub values: Vec<u64>,
    /// Rows that are no accesses, ascending. The columns above have a replacement there.
    pub others: Vec<(usize, EventCells<'a>)>,
}

/// Columns of accesses of a range of stored rows, copied.
struct AccessColumns {
    /// Stored row of the first element.
    first: usize,
    offsets: Vec<u32>,
    widths: Vec<u8>,
    values: Vec<u64>,
}

impl AccessColumns {
    fn copy(recording: &Recording, range: Range<usize>) -> Self {
        let events = &recording.events;
        Self {
            first: range.start,
            offsets: copy(&events.offset, range.clone()),
            widths: copy(&events.width, range.clone()),
            values: copy(&events.value, range),
        }
    }

    /// Returns offset, width and value of an access by its stored row.
    fn get(&self, row: u32) -> Option<(u32, u8, u64)> {
        let at = (row as usize).checked_sub(self.first)?;
        Some((*self.offsets.get(at)?, *self.widths.get(at)?, *self.values.get(at)?))
    }

    /// Whether there is an access for each of `rows` rows.
    fn are_complete(&self, rows: usize) -> bool {
        [self.offsets.len(), self.widths.len(), self.values.len()] == [rows; 3]
    }
}

fn is_access(kind: u8) -> bool {
    kind == EventKind::Read as u8 || kind == EventKind::Write as u8
}

impl<'a> EventRows<'a> {
    /// Reads the rows of a batch. Descriptions of events that are no accesses are made if `wants_meaning`.
    pub fn read(
        recording: &'a Recording,
        device: Option<RecordedRegisters>,
        rows: &BatchRows,
        wants_meaning: bool,
    ) -> Self {
        let events = &recording.events;
        let kinds = rows.values(&events.kind);
        let spaces = rows.values(&events.space);
        let payloads = rows.values(&events.payload);
        let (mut first, mut last) = (u32::MAX, 0);
        for (_, row) in kinds.iter().zip(&payloads).filter(|(kind, _)| is_access(**kind)) {
            first = first.min(*row);
            last = last.max(*row);
        }
        let (start, end) = (first as usize, (last as usize).saturating_add(1));
        let is_near = start < end && end - start <= kinds.len().saturating_mul(MAX_SPREAD);
        let near = is_near.then(|| AccessColumns::copy(recording, start..end));
        // The first copy of a block finds its damage.
        let has_damage = recording.damage.has_damage();
        let near = match near {
            // Most batches have accesses alone, stored one after another.
            Some(all)
                if !has_damage
                    && all.are_complete(kinds.len())
                    && kinds.iter().all(|kind| is_access(*kind))
                    && payloads.iter().zip(first..).all(|(row, expected)| *row == expected) =>
            {
                return Self {
                    kinds,
                    spaces,
                    offsets: all.offsets,
                    widths: all.widths,
                    values: all.values,
                    others: Vec::new(),
                };
            }
            near => near,
        };
        let mut read = Self {
            kinds,
            spaces,
            offsets: Vec::with_capacity(rows.len()),
            widths: Vec::with_capacity(rows.len()),
            values: Vec::with_capacity(rows.len()),
            others: Vec::new(),
        };
        let is_damaged = |row: u32| {
            let row = row as usize;
            has_damage
                && (events.offset.is_damaged(row) || events.width.is_damaged(row) || events.value.is_damaged(row))
        };
        for (row, (kind, payload)) in read.kinds.iter().zip(&payloads).enumerate() {
            // Damaged rows have replacement values in a copy, and none one by one.
            let known = match (is_access(*kind), &near) {
                (true, Some(near)) => near.get(*payload).filter(|_| !is_damaged(*payload)),
                (true, None) => events.access(rows.at(row)).map(|a| (a.offset.get(), a.width, a.value)),
                (false, _) => None,
            };
            let (offset, width, value) = known.unwrap_or_else(|| {
                let cells = event_cells(recording, device, rows.at(row), wants_meaning);
                let numbers = (cells.offset.unwrap_or(0), 0, cells.value.unwrap_or(0));
                read.others.push((row, cells));
                numbers
            });
            read.offsets.push(offset);
            read.widths.push(width);
            read.values.push(value);
        }
        read
    }

    /// Returns the accesses with their rows, ascending.
    pub fn accesses(&self) -> impl Iterator<Item = (usize, Access)> + '_ {
        let mut others = self.others.iter().map(|(row, _)| *row).peekable();
        let places = self.kinds.iter().zip(&self.spaces);
        let numbers = self.offsets.iter().zip(&self.widths).zip(&self.values);
        let rows = places.zip(numbers).enumerate();
        rows.filter_map(move |(row, ((kind, space), ((offset, width), value)))| {
            if others.next_if_eq(&row).is_some() {
                return None;
            }
            let access = Access {
                space: *space,
                write: *kind == EventKind::Write as u8,
                offset: RegOffset::new(*offset),
                width: *width,
                value: *value,
            };
            Some((row, access))
        })
    }
}
