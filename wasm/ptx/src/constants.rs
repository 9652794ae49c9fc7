//! The constants of a program: data segments, element segments and shared tables in one block.

use crate::error::TranslateError;
use crate::limits::{MAX_CONSTANT_BYTES, MAX_TABLE_ELEMENTS};
use crate::link::Linked;
use crate::values::TableId;

/// Offset and length of a part of the constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Part {
    /// Offset in bytes, a multiple of 16.
    pub offset: u64,
    /// Bytes of a data segment, or elements of an element segment or table.
    pub count: u32,
}

/// Where everything is in the constants.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConstantMap {
    pub bytes: Vec<u8>,
    /// By instance and data segment.
    pub datas: Vec<Vec<Part>>,
    /// By instance and element segment: an item is 0 for null, or the number of a function plus 1.
    pub elements: Vec<Vec<Part>>,
    /// By table: its contents after instantiation.
    pub tables: Vec<Part>,
}

impl ConstantMap {
    /// Collects the constants of a program.
    pub fn new(linked: &Linked) -> Result<Self, TranslateError> {
        let elements = linked
            .tables
            .iter()
            .fold(0, |sum: u64, table| sum.saturating_add(table.limits.min));
        if elements > MAX_TABLE_ELEMENTS {
            return Err(TranslateError::Limit {
                what: "elements of all tables",
                count: elements,
                limit: MAX_TABLE_ELEMENTS,
            });
        }
        let mut map = Self::default();
        let mut tables: Vec<Vec<u32>> = linked
            .tables
            .iter()
            .map(|table| vec![0; usize::try_from(table.limits.min).unwrap_or(0)])
            .collect();
        for instance in &linked.instances {
            let mut datas = Vec::new();
            for data in &instance.module.datas {
                datas.push(map.add(instance.module.bytes.get(data.bytes.clone()).unwrap_or(&[]))?);
            }
            map.datas.push(datas);
            let mut elements = Vec::new();
            let mut applied = true;
            for element in &instance.module.elements {
                let items: Vec<u32> = element
                    .items
                    .iter()
                    .map(|item| item.map_or(0, |index| instance.functions[index as usize].0 + 1))
                    .collect();
                elements.push(map.add_words(&items)?);
                // Segments after one that is out of bounds are not applied: instantiation traps there.
                if let (Some((table, offset)), true) = (element.active, applied) {
                    let start = linked.evaluate(&instance.globals, offset) as u32 as usize;
                    let table: TableId = instance.tables[table as usize];
                    let target = start
                        .checked_add(items.len())
                        .and_then(|end| tables[table.0 as usize].get_mut(start..end));
                    match target {
                        Some(target) => target.copy_from_slice(&items),
                        None => applied = false,
                    }
                }
            }
            map.elements.push(elements);
        }
        for table in &tables {
            let part = map.add_words(table)?;
            map.tables.push(part);
        }
        Ok(map)
    }

    fn add_words(&mut self, words: &[u32]) -> Result<Part, TranslateError> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let part = self.add(&bytes)?;
        Ok(Part {
            count: part.count / 4,
            ..part
        })
    }

    fn add(&mut self, bytes: &[u8]) -> Result<Part, TranslateError> {
        let offset = self.bytes.len().next_multiple_of(16);
        let total = offset.saturating_add(bytes.len());
        if total > MAX_CONSTANT_BYTES {
            return Err(TranslateError::Limit {
                what: "bytes of constants",
                count: total as u64,
                limit: MAX_CONSTANT_BYTES as u64,
            });
        }
        self.bytes.resize(offset, 0);
        self.bytes.extend_from_slice(bytes);
        Ok(Part {
            offset: offset as u64,
            count: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
        })
    }
}
