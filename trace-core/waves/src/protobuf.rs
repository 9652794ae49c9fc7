//! The part of protobuf's wire format that a writer needs: numbers and bytes with their field numbers.

/// A message that is being written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Adds an unsigned integer or enumeration field.
    pub fn number(mut self, field: u32, value: u64) -> Self {
        self.varint(u64::from(field) << 3);
        self.varint(value);
        self
    }

    /// Adds a `double` field.
    pub fn double(mut self, field: u32, value: f64) -> Self {
        self.varint(u64::from(field) << 3 | 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Adds a text field.
    pub fn text(self, field: u32, text: &str) -> Self {
        self.raw(field, text.as_bytes())
    }

    /// Adds a nested message field.
    pub fn message(self, field: u32, inner: &Self) -> Self {
        self.raw(field, &inner.0)
    }

    fn raw(mut self, field: u32, bytes: &[u8]) -> Self {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}
