//! Formats of the page tables.

use crate::mmu::{AARCH64_4K, MALI_LPAE, PageTableFormat};

/// The formats, the one of Arm's own driver first.
pub(super) const FORMATS: &[&PageTableFormat] = &[&AARCH64_4K, &MALI_LPAE];
