//! The digest of a work item: its fields, each with its length, so that no two items have the same bytes.

use super::InputFile;
use std::collections::BTreeMap;

/// Adds fields to a hasher.
pub(crate) struct FieldHasher<'a> {
    hasher: &'a mut blake3::Hasher,
}

impl<'a> FieldHasher<'a> {
    /// Creates a writer to `hasher`.
    pub fn new(hasher: &'a mut blake3::Hasher) -> Self {
        Self { hasher }
    }

    /// Adds a text.
    pub fn add(&mut self, text: &str) {
        self.add_number(text.len() as u64);
        self.hasher.update(text.as_bytes());
    }

    /// Adds a number.
    pub fn add_number(&mut self, number: u64) {
        self.hasher.update(&number.to_le_bytes());
    }

    /// Adds a text or number that may be missing.
    pub fn add_option(&mut self, value: Option<impl ToString>) {
        match value {
            Some(value) => {
                self.add("some");
                self.add(&value.to_string());
            }
            None => self.add("none"),
        }
    }

    /// Adds the time limit of each replay, and whether a target without containment is accepted.
    pub fn add_limits(&mut self, time_limit_s: Option<u64>, without_containment: bool) {
        self.add_option(time_limit_s);
        self.add(if without_containment { "uncontained" } else { "" });
    }

    /// Adds a list of texts, with its length.
    pub fn add_list<T: AsRef<str>>(&mut self, texts: &[T]) {
        self.add_number(texts.len() as u64);
        texts.iter().for_each(|text| self.add(text.as_ref()));
    }

    /// Adds named texts, with their number.
    pub fn add_map(&mut self, texts: &BTreeMap<String, String>) {
        self.add_number(texts.len() as u64);
        for (name, text) in texts {
            self.add(name);
            self.add(text);
        }
    }

    /// Adds the names and digests of files, with their number.
    pub fn add_files(&mut self, files: &BTreeMap<String, InputFile>) {
        self.add_number(files.len() as u64);
        for (name, file) in files {
            self.add(name);
            self.add(&file.digest);
        }
    }
}
