//! Texts that repeat in a column: each is kept once, and rows are keys.

use crate::error::TableError;
use arrow_array::builder::StringViewBuilder;
use arrow_array::{Array, ArrayRef, BooleanArray, StringViewArray, UInt32Array};
use arrow_select::nullif::nullif;
use arrow_select::take::{TakeOptions, take};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

/// Key of an empty cell.
pub(crate) const NO_TEXT: u32 = 0;
/// Maximum number of texts that are kept from one batch to the next.
const MAX_KEPT: usize = 1 << 16;
/// Maximum length of the texts that are kept from one batch to the next, bytes.
const MAX_KEPT_BYTES: usize = 8 << 20;
/// Number of entries of the table in front of a map: a power of two.
const FRONT: usize = 1 << 12;

/// Texts by number. Number 0 is no text.
#[derive(Debug, Default)]
pub(crate) struct TextPool {
    texts: StringViewBuilder,
    count: u32,
    bytes: usize,
    by_text: HashMap<Box<str>, u32>,
}

impl TextPool {
    /// Creates a pool without texts.
    pub fn new() -> Self {
        let mut pool = Self::default();
        pool.clear();
        pool
    }

    /// Forgets the texts.
    pub fn clear(&mut self) {
        self.texts = StringViewBuilder::new();
        self.texts.append_value("");
        self.by_text.clear();
        self.count = 1;
        self.bytes = 0;
    }

    /// Forgets the texts if there are very many. Returns whether it did: keys from before are no longer valid.
    pub fn trim(&mut self) -> bool {
        let is_full = self.count as usize > MAX_KEPT || self.bytes > MAX_KEPT_BYTES;
        if is_full {
            self.clear();
        }
        is_full
    }

    /// Adds a text that the caller knows to be new, or does not look up again.
    pub fn add(&mut self, text: &str) -> u32 {
        self.texts.append_value(text);
        self.bytes = self.bytes.saturating_add(text.len());
        self.count += 1;
        self.count - 1
    }

    /// Returns the key of a text, and adds it if it is new.
    pub fn intern(&mut self, text: &str) -> u32 {
        if let Some(key) = self.by_text.get(text) {
            return *key;
        }
        let key = self.add(text);
        self.by_text.insert(text.into(), key);
        key
    }

    /// Returns a column of the texts with these keys. The texts are not copied.
    ///
    /// # Errors
    /// When a key is not one of the texts.
    pub fn column(&self, keys: Vec<u32>) -> Result<ArrayRef, TableError> {
        let empty = keys.iter().filter(|key| **key == NO_TEXT).count();
        if empty == keys.len() {
            return Ok(Arc::new(StringViewArray::new_null(keys.len())));
        }
        let (values, keys) = (self.texts.finish_cloned(), UInt32Array::from(keys));
        // Without the option, a key that is too large is a panic.
        let options = TakeOptions { check_bounds: true };
        let texts = take(&values as &dyn Array, &keys, Some(options))?;
        match empty {
            0 => Ok(texts),
            _ => Ok(nullif(&texts, &BooleanArray::from_unary(&keys, |key| key == NO_TEXT))?),
        }
    }
}

/// A map to keys, with a small table in front of it: most rows repeat recent ones.
#[derive(Debug)]
pub(crate) struct KeyCache<K> {
    front: Vec<Option<(K, u32)>>,
    all: HashMap<K, u32>,
}

impl<K: Copy + Eq + Hash> KeyCache<K> {
    /// Creates an empty cache.
    pub fn new() -> Self {
        Self {
            front: vec![None; FRONT],
            all: HashMap::new(),
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.front.fill(None);
        self.all.clear();
    }

    /// Returns the value of a key, made by `make` if it is not known. `mixed` is any number that differs for most keys.
    pub fn get_or_make(&mut self, key: K, mixed: u64, make: impl FnOnce() -> u32) -> u32 {
        let slot = (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize % FRONT;
        if let Some(Some((known, value))) = self.front.get(slot)
            && *known == key
        {
            return *value;
        }
        let value = *self.all.entry(key).or_insert_with(make);
        if let Some(slot) = self.front.get_mut(slot) {
            *slot = Some((key, value));
        }
        value
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests fail in this way")]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_by_their_keys() {
        let mut pool = TextPool::new();
        let long = "a text that is longer than twelve bytes";
        let keys = vec![
            pool.intern("read"),
            NO_TEXT,
            pool.intern(long),
            pool.intern("read"),
            pool.add(long),
        ];
        assert_eq!(keys, [1, 0, 2, 1, 3]);
        let column = pool.column(keys).unwrap();
        let column = column.as_any().downcast_ref::<StringViewArray>().unwrap();
        let cells: Vec<_> = column.iter().collect();
        assert_eq!(cells, [Some("read"), None, Some(long), Some("read"), Some(long)]);
        assert!(!pool.trim());
        (0..MAX_KEPT).for_each(|_| assert!(pool.add("x") > 3));
        assert!(pool.trim());
        assert_eq!(pool.intern("write"), 1);
        assert!(pool.column(vec![2]).is_err());
    }

    #[test]
    fn cache_makes_each_value_once() {
        let mut cache = KeyCache::new();
        let mut made = 0;
        for round in 0..3u32 {
            // Many keys share a slot of the table in front.
            for key in 0..20_000u64 {
                let value = cache.get_or_make(key, key % 7, || {
                    made += 1;
                    key as u32
                });
                assert_eq!(u64::from(value), key, "{round}");
            }
        }
        assert_eq!(made, 20_000);
        cache.clear();
        assert_eq!(cache.get_or_make(5, 0, || 9), 9);
    }
}
