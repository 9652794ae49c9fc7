//! Runs of mapped pages: where they lie, what may be done with them, what the recording holds of them.

/// What a recording holds of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageContent {
    /// Mapped, and the recording does not hold it.
    None,
    /// All zero.
    Zero,
    /// Data.
    Data,
}

/// Mapped pages one after another with the same rights and kind of content.
#[derive(Clone, Copy, Debug)]
pub struct MappedRun {
    /// First byte.
    pub va: u64,
    /// Number of 4 KiB pages.
    pub pages: u64,
    /// Rights: bit 0 read, bit 1 write, bit 2 execute.
    pub rights: u8,
    /// What the recording holds of them.
    pub content: PageContent,
}

impl MappedRun {
    /// One past the last byte.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.va.saturating_add(self.pages.saturating_mul(4096))
    }
}

/// `rwx` as letters.
#[must_use]
pub fn format_rights(rights: u8) -> String {
    [(1, 'r'), (2, 'w'), (4, 'x')]
        .iter()
        .map(|(b, c)| if rights & b != 0 { *c } else { '-' })
        .collect()
}
