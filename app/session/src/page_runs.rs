//! Runs of mapped pages: address, rights, recorded content.

use trace_core::GpuVa;

/// The recorded content of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageContent {
    /// Mapped, but not in the recording.
    None,
    /// All zero.
    Zero,
    /// Data.
    Data,
    /// Mapped from a memory that the recording does not hold.
    Elsewhere,
}

impl PageContent {
    /// Whether the recording holds the page.
    #[must_use]
    pub fn is_recorded(self) -> bool {
        matches!(self, Self::Zero | Self::Data)
    }
}

/// A run of adjacent mapped pages with the same rights and kind of content.
#[derive(Clone, Copy, Debug)]
pub struct MappedRun {
    /// First byte.
    pub va: GpuVa,
    /// Number of 4 KiB pages.
    pub pages: u64,
    /// Rights: bit 0 read, bit 1 write, bit 2 execute.
    pub rights: u8,
    /// Recorded content of the pages.
    pub content: PageContent,
}

impl MappedRun {
    /// Returns the address one past the last byte.
    #[must_use]
    pub fn end(&self) -> GpuVa {
        self.va.saturating_add(self.pages.saturating_mul(4096))
    }
}

/// Formats rights as letters: `rwx`.
#[must_use]
pub fn format_rights(rights: u8) -> String {
    [(1, 'r'), (2, 'w'), (4, 'x')]
        .iter()
        .map(|(b, c)| if rights & b != 0 { *c } else { '-' })
        .collect()
}
