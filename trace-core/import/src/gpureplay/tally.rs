//! How much of a source file an import used, and the finding about damage to its structure.

use crate::error::FilePosition;
use trace_core::finding::{Finding, FindingKind};

/// Number of bytes of a source file that an import used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileTally {
    /// Name in the folder.
    pub name: String,
    /// Size of the file, bytes.
    pub bytes: u64,
    /// Number of bytes that were used.
    pub used: u64,
}

/// Returns a finding about damage to a file's structure.
pub(super) fn damage(file: &str, byte: u64, message: impl Into<String>) -> Finding {
    Finding::new(
        FindingKind::TruncatedSection,
        format!("{file}{}", FilePosition::Byte(byte)),
        message,
    )
}
