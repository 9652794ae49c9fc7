//! The digest of a work item: its fields, each with its length, so that no two items have the same bytes.

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
        self.hasher.update(&(text.len() as u64).to_le_bytes());
        self.hasher.update(text.as_bytes());
    }
}
