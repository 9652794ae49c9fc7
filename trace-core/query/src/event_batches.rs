//! The table of events for programs that take Arrow batches: built from the stored columns, with each text once.

use crate::error::TableError;
use crate::event_columns::{EventColumn, EventColumns};
use crate::event_rows::{BatchRows, EventRows};
use crate::register_texts::RegisterTexts;
use crate::tables::EventCells;
use crate::text_pool::{NO_TEXT, TextPool};
use arrow_array::builder::NullBufferBuilder;
use arrow_array::{Array as _, ArrayRef, RecordBatch, UInt32Array, UInt64Array};
use arrow_schema::SchemaRef;
use std::sync::Arc;
use trace_core::recording::{EventKind, Recording};
use trace_core::registers::RecordedRegisters;

/// The columns whose cells depend on the kinds of events.
const DETAILS: [EventColumn; 7] = [
    EventColumn::Kind,
    EventColumn::Space,
    EventColumn::Offset,
    EventColumn::Register,
    EventColumn::Width,
    EventColumn::Value,
    EventColumn::Means,
];

/// Builds batches of events, one after another. Each thread has a builder of its own.
pub(crate) struct EventBatches<'a> {
    recording: &'a Recording,
    device: Option<RecordedRegisters>,
    columns: &'a EventColumns,
    schema: SchemaRef,
    kinds: TextPool,
    spaces: TextPool,
    /// Keys of the names of spaces, by index.
    space_keys: Vec<u32>,
    registers: RegisterTexts,
    repeated_kind: RepeatedColumn<u8>,
    repeated_space: RepeatedColumn<u8>,
    repeated_thread: RepeatedColumn<u32>,
    repeated_width: RepeatedColumn<u8>,
}

/// The last column whose rows were all alike: batches share it.
struct RepeatedColumn<V>(Option<(V, ArrayRef)>);

impl<V: Copy + PartialEq> RepeatedColumn<V> {
    /// Returns the column of these stored values, built by `build` if it is not the last one.
    fn get_or_build(
        &mut self,
        values: &[V],
        build: impl FnOnce() -> Result<ArrayRef, TableError>,
    ) -> Result<ArrayRef, TableError> {
        let first = values.first().copied();
        let Some(only) = first.filter(|first| values.iter().all(|v| v == first)) else {
            return build();
        };
        if let Some((value, array)) = &self.0
            && *value == only
            && array.len() >= values.len()
        {
            return Ok(array.slice(0, values.len()));
        }
        let array = build()?;
        self.0 = Some((only, Arc::clone(&array)));
        Ok(array)
    }
}

impl<'a> EventBatches<'a> {
    /// Creates a builder of batches with these columns.
    pub fn new(recording: &'a Recording, columns: &'a EventColumns) -> Self {
        let device = RecordedRegisters::new(recording);
        let mut spaces = TextPool::new();
        let names = recording.metadata.spaces.iter();
        Self {
            recording,
            device,
            columns,
            schema: columns.schema(recording),
            kinds: TextPool::new(),
            space_keys: names.map(|s| spaces.intern(&s.name)).collect(),
            spaces,
            registers: RegisterTexts::new(device),
            repeated_kind: RepeatedColumn(None),
            repeated_space: RepeatedColumn(None),
            repeated_thread: RepeatedColumn(None),
            repeated_width: RepeatedColumn(None),
        }
    }

    /// Builds the rows of ascending events.
    ///
    /// # Errors
    /// When the batch cannot be built.
    pub fn build(&mut self, rows: &BatchRows) -> Result<RecordBatch, TableError> {
        let wants = |column| self.columns.has_any(&[column]);
        let (wants_names, wants_meanings) = (wants(EventColumn::Register), wants(EventColumn::Means));
        let mut details = match self.columns.has_any(&DETAILS) {
            true => EventRows::read(self.recording, self.device, rows, wants_meanings),
            false => EventRows::default(),
        };
        let (names, meanings) = self.registers.columns(&details, wants_names, wants_meanings)?;
        let mut built: Vec<ArrayRef> = Vec::new();
        for column in self.columns.iter() {
            built.push(match column {
                EventColumn::Event => Arc::new(UInt64Array::from(rows.indices())),
                EventColumn::Time => Arc::new(UInt64Array::from(rows.values(&self.recording.events.time))),
                EventColumn::Thread => self.build_threads(rows)?,
                EventColumn::Register => Arc::clone(&names),
                EventColumn::Means => Arc::clone(&meanings),
                column => self.build_detail(column, &mut details)?,
            });
        }
        self.registers.end_batch();
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), built)?)
    }

    fn build_threads(&mut self, rows: &BatchRows) -> Result<ArrayRef, TableError> {
        let threads = rows.values(&self.recording.events.thread);
        let build = || Ok(Arc::new(UInt32Array::from(threads.clone())) as ArrayRef);
        self.repeated_thread.get_or_build(&threads, build)
    }

    /// Builds a column. Call it once for each: it takes the cells.
    fn build_detail(&mut self, column: EventColumn, rows: &mut EventRows<'a>) -> Result<ArrayRef, TableError> {
        let are_accesses = rows.others.is_empty();
        match column {
            EventColumn::Kind => {
                let (kinds, stored) = (&mut self.kinds, &rows.kinds);
                let mut build = || {
                    let (read, write) = (kinds.intern("read"), kinds.intern("write"));
                    let key = |kind: &u8| if *kind == EventKind::Write as u8 { write } else { read };
                    let mut keys: Vec<u32> = stored.iter().map(key).collect();
                    replace(&mut keys, &rows.others, |cells| kinds.intern(cells.kind));
                    kinds.column(keys)
                };
                match are_accesses {
                    true => self.repeated_kind.get_or_build(stored, build),
                    false => build(),
                }
            }
            EventColumn::Space => {
                let (names, space_keys, stored) = (&mut self.spaces, &self.space_keys, &rows.spaces);
                let mut build = || {
                    let key = |space: &u8| space_keys.get(usize::from(*space)).copied().unwrap_or(NO_TEXT);
                    let mut keys: Vec<u32> = stored.iter().map(key).collect();
                    replace(&mut keys, &rows.others, |cells| {
                        cells.space.map_or(NO_TEXT, |name| names.intern(name))
                    });
                    names.column(keys)
                };
                match are_accesses {
                    true => self.repeated_space.get_or_build(stored, build),
                    false => build(),
                }
            }
            EventColumn::Offset => {
                let nulls = nulls(rows, |cells| cells.offset.is_some()).finish();
                let offsets = std::mem::take(&mut rows.offsets);
                Ok(Arc::new(UInt32Array::try_new(offsets.into(), nulls)?))
            }
            EventColumn::Width => {
                let stored = &rows.widths;
                let build = || {
                    let mut widths: Vec<u32> = stored.iter().map(|w| u32::from(*w)).collect();
                    replace(&mut widths, &rows.others, |cells| cells.width.unwrap_or(0));
                    let nulls = nulls(rows, |cells| cells.width.is_some()).finish();
                    Ok(Arc::new(UInt32Array::try_new(widths.into(), nulls)?) as ArrayRef)
                };
                match are_accesses {
                    true => self.repeated_width.get_or_build(stored, build),
                    false => build(),
                }
            }
            _ => {
                let nulls = nulls(rows, |cells| cells.value.is_some()).finish();
                let values = std::mem::take(&mut rows.values);
                Ok(Arc::new(UInt64Array::try_new(values.into(), nulls)?))
            }
        }
    }
}

/// Sets the values of the rows that are no accesses.
fn replace(values: &mut [u32], others: &[(usize, EventCells<'_>)], mut value: impl FnMut(&EventCells<'_>) -> u32) {
    for (row, cells) in others {
        if let Some(to) = values.get_mut(*row) {
            *to = value(cells);
        }
    }
}

/// Returns which rows have a value: accesses, and other events with the cell.
fn nulls(rows: &EventRows<'_>, has_cell: impl Fn(&EventCells<'_>) -> bool) -> NullBufferBuilder {
    let mut nulls = NullBufferBuilder::new(rows.kinds.len());
    let mut next = 0;
    for (row, _) in rows.others.iter().filter(|(_, cells)| !has_cell(cells)) {
        nulls.append_n_non_nulls(row - next);
        nulls.append_null();
        next = row + 1;
    }
    nulls.append_n_non_nulls(rows.kinds.len().saturating_sub(next));
    nulls
}
