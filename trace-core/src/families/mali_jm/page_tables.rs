//! Formats of the page tables.

use crate::mmu::{AARCH64_4K, PageTableFormat};
use crate::recording::MmuFormat;

/// The formats, the one of Arm's own driver first.
pub(super) const FORMATS: &[&PageTableFormat] = &[&AARCH64_4K, &MALI_LPAE];

/// The format that derives from LPAE, which mainline Linux uses.
pub const MALI_LPAE: PageTableFormat = PageTableFormat {
    format: MmuFormat::MaliLpae,
    name: "mali-lpae",
    title: "Mali LPAE",
    entry_layout: "mali-lpae-entry",
    page: 1,
    access_flag: false,
    shareable: 3 << 8,
    // Mode 3: translate by tables; bit 2: table reads may use the inner cache.
    root_bits: 3 | 1 << 2,
    rights: |raw| (raw & 1 << 6 != 0, raw & 1 << 7 != 0),
    encode_rights: |r| u64::from(r.read) << 6 | u64::from(r.write) << 7,
};
