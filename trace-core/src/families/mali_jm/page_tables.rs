//! Formats of the page tables.

use crate::recording::MmuFormat;

/// The formats, the one of Arm's own driver first.
pub(super) const FORMATS: &[MmuFormat] = &MmuFormat::WRITTEN;
