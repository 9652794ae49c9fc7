//! The table of events for programs that take Arrow batches: built from the stored columns, with each text once.

use crate::error::TableError;
use crate::tables::{EventCells, event_cells};
use crate::text_pool::{KeyCache, NO_TEXT, TextPool, text_column};
use arrow_array::builder::NullBufferBuilder;
use arrow_array::{ArrayRef, RecordBatch, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::ops::Range;
use std::sync::Arc;
use trace_core::RegOffset;
use trace_core::recording::{Access, EventKind, Recording};
use trace_core::registers::RecordedRegisters;

/// Where an access goes: its space, offset and width.
type Place = (u8, u32, u8);
/// What is described: a place, whether it is a write, and the value.
type Described = (Place, bool, u64);

/// Number of rows of an access that are copied for each row of a batch at most. Beyond, cells are read one by one.
const MAX_SPREAD: usize = 4;

/// Builds batches of events, one after another. Each thread has a builder of its own.
pub(crate) struct EventBatches<'a> {
    recording: &'a Recording,
    device: Option<RecordedRegisters>,
    schema: SchemaRef,
    kinds: TextPool,
    spaces: TextPool,
    registers: TextPool,
    meanings: TextPool,
    /// Keys of the names of spaces, by index.
    space_keys: Vec<u32>,
    places: KeyCache<Place>,
    described: KeyCache<Described>,
}

/// Cells of a batch while its rows are read.
struct BatchCells {
    kinds: Vec<u32>,
    spaces: Vec<u32>,
    registers: Vec<u32>,
    meanings: Vec<u32>,
    offsets: Vec<u32>,
    widths: Vec<u32>,
    values: Vec<u64>,
    has_offset: NullBufferBuilder,
    has_width: NullBufferBuilder,
    has_value: NullBufferBuilder,
}

impl BatchCells {
    fn with_capacity(rows: usize) -> Self {
        Self {
            kinds: Vec::with_capacity(rows),
            spaces: Vec::with_capacity(rows),
            registers: Vec::with_capacity(rows),
            meanings: Vec::with_capacity(rows),
            offsets: Vec::with_capacity(rows),
            widths: Vec::with_capacity(rows),
            values: Vec::with_capacity(rows),
            has_offset: NullBufferBuilder::new(rows),
            has_width: NullBufferBuilder::new(rows),
            has_value: NullBufferBuilder::new(rows),
        }
    }
}

/// The columns of accesses of a range of events, copied.
struct AccessColumns {
    /// Row of the first element.
    first: usize,
    offsets: Vec<u32>,
    widths: Vec<u8>,
    values: Vec<u64>,
}

impl AccessColumns {
    /// Copies the rows of the accesses among these events, if they are close to each other.
    fn from_rows(recording: &Recording, kinds: &[u8], payloads: &[u32]) -> Option<Self> {
        let is_access = |kind: u8| kind == EventKind::Read as u8 || kind == EventKind::Write as u8;
        let rows = kinds.iter().zip(payloads).filter(|(kind, _)| is_access(**kind));
        let (mut first, mut last) = (u32::MAX, 0);
        for (_, row) in rows {
            first = first.min(*row);
            last = last.max(*row);
        }
        let (first, end) = (first as usize, (last as usize).checked_add(1)?);
        if first >= end || end - first > kinds.len().saturating_mul(MAX_SPREAD) {
            return None;
        }
        let events = &recording.events;
        Some(Self {
            first,
            offsets: copy(&events.offset, first..end),
            widths: copy(&events.width, first..end),
            values: copy(&events.value, first..end),
        })
    }

    /// Returns offset, width and value of an access by its row.
    fn get(&self, row: u32) -> Option<(u32, u8, u64)> {
        let at = (row as usize).checked_sub(self.first)?;
        Some((*self.offsets.get(at)?, *self.widths.get(at)?, *self.values.get(at)?))
    }
}

/// Copies rows of a column.
fn copy<T: bytemuck::Pod>(column: &trace_core::recording::Column<T>, range: Range<usize>) -> Vec<T> {
    let mut out = Vec::with_capacity(range.len());
    for slice in column.slices(range) {
        out.extend_from_slice(slice);
    }
    out
}

/// The events of a batch.
pub(crate) enum BatchRows<'a> {
    /// Consecutive events.
    Range(Range<usize>),
    /// Ascending events.
    List(&'a [usize]),
}

impl BatchRows<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Range(range) => range.len(),
            Self::List(list) => list.len(),
        }
    }

    fn at(&self, row: usize) -> usize {
        match self {
            Self::Range(range) => range.start.saturating_add(row),
            Self::List(list) => list.get(row).copied().unwrap_or(usize::MAX),
        }
    }

    /// Returns the values of a column at these events; the default value where the column is damaged or too short.
    fn values<T: bytemuck::Pod>(&self, column: &trace_core::recording::Column<T>) -> Vec<T> {
        match self {
            Self::Range(range) => {
                let mut values = copy(column, range.clone());
                values.resize(range.len(), T::zeroed());
                values
            }
            Self::List(list) => list
                .iter()
                .map(|at| column.get(*at).unwrap_or_else(T::zeroed))
                .collect(),
        }
    }
}

impl<'a> EventBatches<'a> {
    /// Creates a builder.
    pub fn new(recording: &'a Recording) -> Self {
        let time = if recording.counts_ticks() {
            "time_ticks"
        } else {
            "time_ns"
        };
        let fields = [
            ("event", DataType::UInt64),
            ("kind", DataType::Utf8View),
            (time, DataType::UInt64),
            ("thread", DataType::UInt32),
            ("space", DataType::Utf8View),
            ("offset", DataType::UInt32),
            ("register", DataType::Utf8View),
            ("width", DataType::UInt32),
            ("value", DataType::UInt64),
            ("means", DataType::Utf8View),
        ];
        let fields: Vec<Field> = fields
            .into_iter()
            .map(|(name, data)| Field::new(name, data, true))
            .collect();
        let mut spaces = TextPool::new();
        let names = recording.metadata.spaces.iter();
        Self {
            recording,
            device: RecordedRegisters::new(recording),
            schema: Arc::new(Schema::new(fields)),
            kinds: TextPool::new(),
            space_keys: names.map(|s| spaces.intern(&s.name)).collect(),
            spaces,
            registers: TextPool::new(),
            meanings: TextPool::new(),
            places: KeyCache::new(),
            described: KeyCache::new(),
        }
    }

    /// Builds the rows of ascending events.
    ///
    /// # Errors
    /// When the batch cannot be built.
    pub fn build(&mut self, rows: &BatchRows<'_>) -> Result<RecordBatch, TableError> {
        if self.registers.trim() {
            self.places.clear();
        }
        if self.meanings.trim() {
            self.described.clear();
        }
        let events = &self.recording.events;
        let (kinds, spaces, payloads) = (
            rows.values(&events.kind),
            rows.values(&events.space),
            rows.values(&events.payload),
        );
        let accesses = AccessColumns::from_rows(self.recording, &kinds, &payloads);
        let (read, write) = (self.kinds.intern("read"), self.kinds.intern("write"));
        let mut cells = BatchCells::with_capacity(rows.len());
        for (row, ((kind, space), payload)) in kinds.iter().zip(&spaces).zip(&payloads).enumerate() {
            let is_write = *kind == EventKind::Write as u8;
            let known = match is_write || *kind == EventKind::Read as u8 {
                true => accesses.as_ref().and_then(|a| a.get(*payload)),
                false => None,
            };
            // Damaged rows have replacement values in a copy, and none one by one.
            match known.filter(|_| !self.is_damaged(*payload)) {
                Some((offset, width, value)) => {
                    let access = Access {
                        space: *space,
                        write: is_write,
                        offset: RegOffset::new(offset),
                        width,
                        value,
                    };
                    cells.kinds.push(if is_write { write } else { read });
                    self.add_access(&mut cells, &access);
                }
                None => self.add_event(&mut cells, rows.at(row)),
            }
        }
        self.finish(rows, cells)
    }

    fn is_damaged(&self, row: u32) -> bool {
        let (events, row) = (&self.recording.events, row as usize);
        self.recording.damage.has_damage()
            && (events.offset.is_damaged(row) || events.width.is_damaged(row) || events.value.is_damaged(row))
    }

    fn add_access(&mut self, cells: &mut BatchCells, access: &Access) {
        let (offset, width) = (access.offset.get(), access.width);
        let place = (access.space, offset, width);
        let mixed = u64::from(offset) << 16 | u64::from(width) << 8 | u64::from(access.space);
        let (device, registers) = (self.device, &mut self.registers);
        let register = self.places.get_or_make(place, mixed, || {
            let name = device.and_then(|d| d.name_of(access));
            name.map_or(NO_TEXT, |n| registers.intern(&n))
        });
        let mixed = (mixed << 1 | u64::from(access.write)) ^ access.value.rotate_left(23);
        let meanings = &mut self.meanings;
        // Without a name there is no description.
        let meaning = match device {
            Some(device) => self
                .described
                .get_or_make((place, access.write, access.value), mixed, || {
                    let text = device.describe(access).filter(|m| !m.is_empty());
                    text.map_or(NO_TEXT, |t| meanings.add(&t))
                }),
            None => NO_TEXT,
        };
        cells.spaces.push(
            self.space_keys
                .get(usize::from(access.space))
                .copied()
                .unwrap_or(NO_TEXT),
        );
        cells.registers.push(register);
        cells.meanings.push(meaning);
        cells.offsets.push(offset);
        cells.widths.push(u32::from(width));
        cells.values.push(access.value);
        cells.has_offset.append_non_null();
        cells.has_width.append_non_null();
        cells.has_value.append_non_null();
    }

    fn add_event(&mut self, cells: &mut BatchCells, at: usize) {
        let EventCells {
            kind,
            space,
            offset,
            register,
            width,
            value,
            meaning,
        } = event_cells(self.recording, self.device, at);
        cells.kinds.push(self.kinds.intern(kind));
        cells.spaces.push(space.map_or(NO_TEXT, |s| self.spaces.intern(s)));
        cells
            .registers
            .push(register.map_or(NO_TEXT, |r| self.registers.intern(&r)));
        cells.meanings.push(meaning.map_or(NO_TEXT, |m| self.meanings.add(&m)));
        cells.offsets.push(offset.unwrap_or(0));
        cells.widths.push(width.unwrap_or(0));
        cells.values.push(value.unwrap_or(0));
        cells.has_offset.append(offset.is_some());
        cells.has_width.append(width.is_some());
        cells.has_value.append(value.is_some());
    }

    fn finish(&mut self, rows: &BatchRows<'_>, mut cells: BatchCells) -> Result<RecordBatch, TableError> {
        let events = &self.recording.events;
        let index: Vec<u64> = (0..rows.len()).map(|row| rows.at(row) as u64).collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from(index)),
            text_column(&self.kinds.values(), cells.kinds)?,
            Arc::new(UInt64Array::from(rows.values(&events.time))),
            Arc::new(UInt32Array::from(rows.values(&events.thread))),
            text_column(&self.spaces.values(), cells.spaces)?,
            Arc::new(UInt32Array::try_new(cells.offsets.into(), cells.has_offset.finish())?),
            text_column(&self.registers.values(), cells.registers)?,
            Arc::new(UInt32Array::try_new(cells.widths.into(), cells.has_width.finish())?),
            Arc::new(UInt64Array::try_new(cells.values.into(), cells.has_value.finish())?),
            text_column(&self.meanings.values(), cells.meanings)?,
        ];
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}
