//! Tables of a TOML document with the lines of their keys, read key by key; what remains is unknown.

use crate::defect::{DefectKind, Defects};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Lines of a text, for byte offsets.
pub(crate) struct Lines {
    starts: Vec<usize>,
}

impl Lines {
    pub fn new(text: &str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, b)| *b == b'\n');
        Self {
            starts: std::iter::once(0)
                .chain(breaks.map(|(at, _)| at.saturating_add(1)))
                .collect(),
        }
    }

    /// Returns the line of a byte offset, from 1.
    pub fn line(&self, offset: usize) -> u32 {
        let line = self.starts.partition_point(|start| *start <= offset);
        u32::try_from(line.max(1)).unwrap_or(u32::MAX)
    }
}

/// A key with its value.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub key: &'a str,
    pub line: u32,
    pub value: &'a DeValue<'a>,
}

/// A table whose keys are taken one by one, in the order of the file.
pub(crate) struct Table<'a> {
    /// The table in words, for messages: `stage 'softmax'`.
    pub owner: String,
    /// Line of the table's key.
    pub line: u32,
    lines: &'a Lines,
    entries: Vec<Entry<'a>>,
}

impl<'a> Table<'a> {
    /// Creates the reader of a table.
    pub fn new(owner: impl Into<String>, line: u32, table: &'a DeTable<'a>, lines: &'a Lines) -> Self {
        let mut entries: Vec<(usize, Entry<'a>)> = table.iter().map(|(key, value)| entry(key, value, lines)).collect();
        entries.sort_by_key(|(at, _)| *at);
        Self {
            owner: owner.into(),
            line,
            lines,
            entries: entries.into_iter().map(|(_, entry)| entry).collect(),
        }
    }

    /// Returns the table in an entry, or adds a defect.
    pub fn open(&self, entry: Entry<'a>, owner: impl Into<String>, defects: &mut Defects) -> Option<Self> {
        match entry.value.as_table() {
            Some(table) => Some(Self::new(owner, entry.line, table, self.lines)),
            None => {
                self.reject(entry, "a table", defects);
                None
            }
        }
    }

    /// Adds the defect that an entry has another type, or is out of range.
    pub fn reject(&self, entry: Entry<'a>, expected: impl Into<String>, defects: &mut Defects) {
        self.reject_as(entry, describe(entry.value), expected, defects);
    }

    /// Adds the defect that a value is not valid, with the words for what it is.
    pub fn reject_as(&self, entry: Entry<'a>, got: String, expected: impl Into<String>, defects: &mut Defects) {
        let kind = DefectKind::Value {
            owner: self.owner.clone(),
            key: entry.key.to_owned(),
            got,
            expected: expected.into(),
        };
        defects.add(entry.line, kind);
    }

    /// Takes a key.
    pub fn take(&mut self, key: &str) -> Option<Entry<'a>> {
        let at = self.entries.iter().position(|e| e.key == key)?;
        Some(self.entries.remove(at))
    }

    /// Takes a key that must exist, or adds a defect.
    pub fn take_required(
        &mut self,
        key: &'static str,
        expected: &'static str,
        defects: &mut Defects,
    ) -> Option<Entry<'a>> {
        let entry = self.take(key);
        if entry.is_none() {
            let owner = self.owner.clone();
            defects.add(self.line, DefectKind::MissingKey { owner, key, expected });
        }
        entry
    }

    /// Takes all entries that are left.
    pub fn take_rest(&mut self) -> Vec<Entry<'a>> {
        std::mem::take(&mut self.entries)
    }

    /// Adds a defect for each entry that is left. `expected` lists the known keys.
    pub fn finish(self, expected: &'static str, defects: &mut Defects) {
        for entry in &self.entries {
            let kind = DefectKind::UnknownKey {
                key: entry.key.to_owned(),
                owner: self.owner.clone(),
                expected,
            };
            defects.add(entry.line, kind);
        }
    }

    /// Returns the text of an entry, or adds a defect.
    pub fn text(&self, entry: Entry<'a>, expected: &str, defects: &mut Defects) -> Option<&'a str> {
        let text = entry.value.as_str();
        if text.is_none_or(str::is_empty) {
            self.reject(entry, expected, defects);
        }
        text.filter(|t| !t.is_empty())
    }

    /// Returns the integer of an entry if it is in a range, or adds a defect.
    pub fn integer(
        &self,
        entry: Entry<'a>,
        range: std::ops::RangeInclusive<u64>,
        expected: &str,
        defects: &mut Defects,
    ) -> Option<u64> {
        let number = integer(entry.value).and_then(|n| u64::try_from(n).ok());
        let number = number.filter(|n| range.contains(n));
        if number.is_none() {
            self.reject(entry, expected, defects);
        }
        number
    }

    /// Returns the elements of an array, or adds a defect.
    pub fn array(&self, entry: Entry<'a>, expected: &str, defects: &mut Defects) -> Option<Vec<Entry<'a>>> {
        let Some(array) = entry.value.as_array() else {
            self.reject(entry, expected, defects);
            return None;
        };
        let element = |value: &'a Spanned<DeValue<'a>>| Entry {
            key: entry.key,
            line: self.lines.line(value.span().start),
            value: value.get_ref(),
        };
        Some(array.iter().map(element).collect())
    }
}

fn entry<'a>(
    key: &'a Spanned<std::borrow::Cow<'a, str>>,
    value: &'a Spanned<DeValue<'a>>,
    lines: &Lines,
) -> (usize, Entry<'a>) {
    let at = key.span().start;
    let entry = Entry {
        key: key.get_ref(),
        line: lines.line(at),
        value: value.get_ref(),
    };
    (at, entry)
}

/// Returns the integer of a value.
pub(crate) fn integer(value: &DeValue<'_>) -> Option<i128> {
    let number = value.as_integer()?;
    i128::from_str_radix(number.as_str(), number.radix()).ok()
}

/// Describes a value in a few words.
fn describe(value: &DeValue<'_>) -> String {
    const MAX_SHOWN: usize = 40;
    let shown = |text: &str| match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    };
    match value {
        DeValue::String(text) => format!("\"{}\"", shown(text)),
        DeValue::Integer(_) => integer(value).map_or_else(|| "a large integer".to_owned(), |n| n.to_string()),
        DeValue::Float(number) => shown(number.as_str()),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "an array".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_have_lines() {
        let lines = Lines::new("a\nb\n\nc");
        assert_eq!([0, 1, 2, 3, 4, 5, 99].map(|at| lines.line(at)), [1, 1, 2, 2, 3, 4, 4]);
        assert_eq!(Lines::new("").line(0), 1);
    }
}
