//! Names of registers and descriptions of values for many accesses: each is made once, and rows are keys.

use crate::error::TableError;
use crate::event_rows::EventRows;
use crate::text_pool::{KeyCache, NO_TEXT, TextPool};
use arrow_array::ArrayRef;
use arrow_array::builder::StringViewBuilder;
use std::sync::Arc;
use trace_core::recording::Access;
use trace_core::registers::{RecordedRegisters, ValueDescriber};

/// Where an access goes: its space, offset and width.
type Place = (u8, u32, u8);

/// Maximum number of prepared descriptions. Values of further registers are described one by one.
const MAX_DESCRIBERS: usize = 1 << 14;
/// Index of a place without descriptions.
const NO_DESCRIBER: u32 = u32::MAX;
/// Index of a place whose descriptions were not prepared yet.
const UNPREPARED: u32 = u32::MAX - 1;
/// Index of a place whose descriptions are not prepared.
const ONE_BY_ONE: u32 = u32::MAX - 2;
/// Number of sets of recent descriptions, as a power of two.
const SET_BITS: u32 = 14;
/// Values below this limit have a place of their own in [`RecentValues::small`].
const SMALL_VALUES: u64 = 32;
/// Key of a small value that was not described yet.
const UNKNOWN: u32 = u32::MAX;
/// If fewer than one description in this number is known from before, descriptions are not kept for some batches.
const MIN_REPEATS: usize = 8;
/// Number of batches whose descriptions are not kept, before it is tried again.
const UNKEPT_BATCHES: u32 = 15;

/// Texts of a place.
#[derive(Clone, Copy)]
struct PlaceTexts {
    /// Key of its name.
    name: u32,
    /// Index of the descriptions of values that are read.
    read: u32,
    /// Index of the descriptions of values that are written.
    written: u32,
}

impl PlaceTexts {
    fn describer(&mut self, is_write: bool) -> &mut u32 {
        if is_write { &mut self.written } else { &mut self.read }
    }
}

/// A value with the key of its description.
#[derive(Clone, Copy)]
struct DescribedValue {
    value: u64,
    describer: u32,
    key: u32,
}

const NO_VALUE: DescribedValue = DescribedValue {
    value: 0,
    describer: NO_DESCRIBER,
    key: NO_TEXT,
};

/// Recently described values: two for each set, the last one first.
struct RecentValues {
    sets: Vec<[DescribedValue; 2]>,
    /// Keys of small values, for each describer.
    small: Vec<[u32; SMALL_VALUES as usize]>,
    /// Number of values of this batch, and of those that were known.
    asked: usize,
    known: usize,
}

impl RecentValues {
    fn new() -> Self {
        Self {
            sets: vec![[NO_VALUE; 2]; 1 << SET_BITS],
            small: Vec::new(),
            asked: 0,
            known: 0,
        }
    }

    fn clear(&mut self) {
        self.sets.fill([NO_VALUE; 2]);
        self.small.clear();
    }

    /// Returns the key of a description, made by `make` if it is not known.
    fn get_or_make(&mut self, describer: u32, value: u64, make: impl FnOnce() -> u32) -> u32 {
        self.asked += 1;
        if value < SMALL_VALUES {
            let at = describer as usize;
            if self.small.len() <= at {
                self.small.resize(at + 1, [UNKNOWN; SMALL_VALUES as usize]);
            }
            let key = self.small.get_mut(at).and_then(|keys| keys.get_mut(value as usize));
            return match key {
                Some(key) if *key != UNKNOWN => {
                    self.known += 1;
                    *key
                }
                Some(key) => {
                    *key = make();
                    *key
                }
                None => make(),
            };
        }
        let mixed = (value ^ u64::from(describer) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SET_BITS);
        let Some([first, second]) = self.sets.get_mut(mixed as usize) else {
            return make();
        };
        if first.value == value && first.describer == describer {
            self.known += 1;
            return first.key;
        }
        if second.value == value && second.describer == describer {
            std::mem::swap(first, second);
            self.known += 1;
            return first.key;
        }
        let key = make();
        *second = std::mem::replace(first, DescribedValue { value, describer, key });
        key
    }

    /// Returns whether enough values of the batch were known from before, and begins the next batch.
    fn end_batch(&mut self) -> bool {
        let are_repeated = self.known * MIN_REPEATS >= self.asked;
        (self.asked, self.known) = (0, 0);
        are_repeated
    }
}

/// Names and descriptions of the events of a recording.
pub(crate) struct RegisterTexts {
    device: Option<RecordedRegisters>,
    /// Names of registers and of interrupt lines.
    pub names: TextPool,
    /// Descriptions of all events.
    pub meanings: TextPool,
    places: Vec<PlaceTexts>,
    place_of: KeyCache<Place>,
    describers: Vec<ValueDescriber<'static>>,
    recent: RecentValues,
    /// Number of batches whose descriptions are not kept.
    unkept: u32,
    line: String,
}

impl RegisterTexts {
    pub fn new(device: Option<RecordedRegisters>) -> Self {
        Self {
            device,
            names: TextPool::new(),
            meanings: TextPool::new(),
            places: Vec::new(),
            place_of: KeyCache::new(),
            describers: Vec::new(),
            recent: RecentValues::new(),
            unkept: 0,
            line: String::new(),
        }
    }

    /// Ends a batch whose columns are built: forgets texts, if there are very many.
    pub fn end_batch(&mut self) {
        if self.unkept > 0 {
            self.unkept -= 1;
        } else if !self.recent.end_batch() {
            self.unkept = UNKEPT_BATCHES;
        }
        if self.names.trim() || self.describers.len() >= MAX_DESCRIBERS {
            self.names.clear();
            self.places.clear();
            self.place_of.clear();
            self.describers.clear();
            self.recent.clear();
        }
        if self.meanings.trim() {
            self.recent.clear();
        }
    }

    /// Returns the columns of the names and the descriptions of a batch. A column that is not wanted has no rows.
    ///
    /// # Errors
    /// When a column cannot be built.
    pub fn columns(
        &mut self,
        rows: &EventRows<'_>,
        wants_names: bool,
        wants_meanings: bool,
    ) -> Result<(ArrayRef, ArrayRef), TableError> {
        let mut names = vec![NO_TEXT; if wants_names { rows.kinds.len() } else { 0 }];
        let meanings = if !wants_meanings {
            if wants_names {
                self.for_each_place(rows, |texts, row, place, _| set(&mut names, row, texts.name_at(place)));
            }
            self.meanings.column(Vec::new())?
        } else if self.unkept > 0 {
            self.write_meanings(rows, &mut names)
        } else {
            let keys = self.find_meanings(rows, &mut names);
            self.meanings.column(keys)?
        };
        for (row, cells) in rows.others.iter().filter(|_| wants_names) {
            if let Some(name) = &cells.register {
                set(&mut names, *row, self.names.intern(name));
            }
        }
        Ok((self.names.column(names)?, meanings))
    }

    /// Sets the names of accesses, and returns the keys of all descriptions.
    fn find_meanings(&mut self, rows: &EventRows<'_>, names: &mut [u32]) -> Vec<u32> {
        let mut keys = vec![NO_TEXT; rows.kinds.len()];
        self.for_each_place(rows, |texts, row, place, access| {
            set(names, row, texts.name_at(place));
            set(&mut keys, row, texts.find_meaning(place, access));
        });
        for (row, cells) in &rows.others {
            if let Some(meaning) = &cells.meaning {
                set(&mut keys, *row, add_text(&mut self.meanings, meaning));
            }
        }
        keys
    }

    /// Sets the names of accesses, and returns the column of all descriptions, each text written for itself.
    fn write_meanings(&mut self, rows: &EventRows<'_>, names: &mut [u32]) -> ArrayRef {
        let count = rows.kinds.len();
        let mut column = StringViewBuilder::with_capacity(count);
        let mut others = rows.others.iter().peekable();
        let mut next = 0;
        // Appends the rows before `row`, none of which is an access to a register.
        let mut fill = |column: &mut StringViewBuilder, row: usize| {
            while next < row {
                let other = others.next_if(|(other, _)| *other == next);
                column.append_option(other.and_then(|(_, cells)| cells.meaning.as_deref()));
                next += 1;
            }
            next = row + 1;
        };
        let mut line = std::mem::take(&mut self.line);
        self.for_each_place(rows, |texts, row, place, access| {
            set(names, row, texts.name_at(place));
            fill(&mut column, row);
            line.clear();
            match texts.describer_of(place, access) {
                NO_DESCRIBER => {}
                ONE_BY_ONE => line.push_str(&texts.describe_alone(access)),
                number => {
                    if let Some(describer) = texts.describers.get(number as usize) {
                        describer.write(access.value, &mut line);
                    }
                }
            }
            column.append_option(Some(line.as_str()).filter(|line| !line.is_empty()));
        });
        fill(&mut column, count);
        self.line = line;
        Arc::new(column.finish())
    }

    fn for_each_place(&mut self, rows: &EventRows<'_>, mut set: impl FnMut(&mut Self, usize, u32, &Access)) {
        // Without a register map, no access has a name or a description.
        let Some(device) = self.device else { return };
        for (row, access) in rows.accesses() {
            if device.names_space(access.space) {
                let place = self.find_place(device, &access);
                set(self, row, place, &access);
            }
        }
    }

    /// Returns the index of the texts of the place of an access.
    fn find_place(&mut self, device: RecordedRegisters, access: &Access) -> u32 {
        let (offset, width) = (access.offset.get(), access.width);
        let mixed = u64::from(offset) << 16 | u64::from(width) << 8 | u64::from(access.space);
        let (names, places) = (&mut self.names, &mut self.places);
        self.place_of.get_or_make((access.space, offset, width), mixed, || {
            let name = device.name_of(access);
            places.push(PlaceTexts {
                name: name.map_or(NO_TEXT, |n| names.intern(&n)),
                read: UNPREPARED,
                written: UNPREPARED,
            });
            (places.len() - 1) as u32
        })
    }

    fn name_at(&self, place: u32) -> u32 {
        self.places.get(place as usize).map_or(NO_TEXT, |p| p.name)
    }

    /// Returns the index of the descriptions of an access.
    fn describer_of(&mut self, place: u32, access: &Access) -> u32 {
        let texts = self.places.get_mut(place as usize);
        match texts.map_or(NO_DESCRIBER, |p| *p.describer(access.write)) {
            UNPREPARED => self.prepare(place, access),
            prepared => prepared,
        }
    }

    /// Returns the description of an access whose place has none that is prepared.
    fn describe_alone(&self, access: &Access) -> String {
        self.device.and_then(|d| d.describe(access)).unwrap_or_default()
    }

    /// Returns the key of the description of an access.
    fn find_meaning(&mut self, place: u32, access: &Access) -> u32 {
        match self.describer_of(place, access) {
            NO_DESCRIBER => NO_TEXT,
            ONE_BY_ONE => {
                let text = self.describe_alone(access);
                add_text(&mut self.meanings, &text)
            }
            number => {
                let (meanings, line) = (&mut self.meanings, &mut self.line);
                let Some(describer) = self.describers.get(number as usize) else {
                    return NO_TEXT;
                };
                self.recent.get_or_make(number, access.value, || {
                    line.clear();
                    describer.write(access.value, line);
                    add_text(meanings, line)
                })
            }
        }
    }

    /// Prepares the descriptions of a place and of the direction of an access.
    fn prepare(&mut self, place: u32, access: &Access) -> u32 {
        let number = if self.describers.len() >= MAX_DESCRIBERS {
            ONE_BY_ONE
        } else {
            match self.device.and_then(|d| d.describer(access)) {
                Some(describer) => {
                    self.describers.push(describer);
                    (self.describers.len() - 1) as u32
                }
                None => NO_DESCRIBER,
            }
        };
        if let Some(texts) = self.places.get_mut(place as usize) {
            *texts.describer(access.write) = number;
        }
        number
    }
}

/// Adds a description. An empty one is an empty cell.
fn add_text(pool: &mut TextPool, text: &str) -> u32 {
    if text.is_empty() { NO_TEXT } else { pool.add(text) }
}

fn set(keys: &mut [u32], row: usize, key: u32) {
    if let Some(to) = keys.get_mut(row) {
        *to = key;
    }
}
