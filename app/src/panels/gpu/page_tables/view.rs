//! State of the Page tables panel: the visible part of an address space, and its moves.

use super::atlas::Atlas;
use crate::theme::rows::Rows;
use kinescope_files::scene::Selection;
use kinescope_session::Document;
use kinescope_session::page_table_marks::Mark;
use trace_core::GpuVa;

/// Cells of the map across.
pub(super) const ACROSS: u64 = 64;
/// Minimum and maximum number of rows of cells.
pub(super) const ROWS: std::ops::RangeInclusive<u64> = 16..=64;
/// Smallest number of address bits of a map.
const MIN_BITS: u32 = 48;
/// Address bits within a page.
const PAGE_BITS: u32 = 12;

/// Meaning of the colours in the map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColourBy {
    /// Read, write, execute.
    #[default]
    Rights,
    /// What the recording holds.
    Content,
}

/// State of the panel.
#[derive(Clone, Default)]
pub struct View {
    /// Index of the address space.
    pub space: u32,
    /// Base-2 logarithm of a cell's pages.
    pub cell: Option<u32>,
    /// First page of the map.
    pub first_page: u64,
    /// Meaning of the colours.
    pub colour_by: ColourBy,
    /// Address whose walk is shown.
    pub at: Option<GpuVa>,
    /// If set, only pages with this mark are listed, and the map dims the others.
    pub mark: Option<Mark>,
    /// Whether the map is shown, and not the list.
    pub as_map: bool,
    /// The map.
    pub atlas: Atlas,
    /// Number of address bits of the shown address space; 0 before the first frame.
    pub(super) address_bits: u32,
    /// Number of rows of cells that fitted in the last frame.
    pub(super) rows: u64,
    pub(super) list: Rows,
    pub(super) seen_jump: u64,
    pub(super) reveal: bool,
}

impl View {
    /// Returns the number of cells of the map.
    pub(super) fn cells(&self) -> u64 {
        ACROSS * self.rows.clamp(*ROWS.start(), *ROWS.end())
    }

    /// Returns the number of address bits of the map.
    pub(super) fn map_bits(&self) -> u32 {
        self.address_bits.clamp(MIN_BITS, 64)
    }

    /// Returns the number of pages of the map, as a base-2 logarithm.
    fn pages_log(&self) -> u32 {
        self.map_bits() - PAGE_BITS
    }

    /// Returns the cell size at which the map holds all address bits.
    pub(super) fn max_cell(&self) -> u32 {
        let mut cell = 0;
        while self.cells() << cell < 1 << self.pages_log() {
            cell += 1;
        }
        cell
    }

    /// Shows a mapping in the map, as large as it fits.
    pub fn frame(&mut self, va: GpuVa, pages: u64) {
        let first = va.page();
        let (mut cell, max) = (0, self.max_cell());
        while cell < max && self.cells() << cell < pages.saturating_add(first & ((1 << cell) - 1)) {
            cell += 1;
        }
        self.cell = Some(cell);
        self.first_page = first >> cell << cell;
        self.at = Some(va);
    }

    /// Shows what another panel requested: an address space, a first address with a number of pages that fill the map,
    /// an address with its walk. `None` leaves the value as it is.
    pub fn show(&mut self, space: Option<u32>, frame: Option<(GpuVa, u64)>, at: Option<GpuVa>) {
        self.space = space.unwrap_or(self.space);
        if let Some((va, pages)) = frame {
            self.frame(va, pages);
        }
        self.at = at.or(self.at);
    }

    /// Shows all address bits.
    pub(super) fn show_all(&mut self) {
        self.cell = Some(self.max_cell());
        self.first_page = 0;
    }

    pub(super) fn zoom(&mut self, closer: bool, about: u64) {
        let now = self.cell.unwrap_or_else(|| self.max_cell());
        let next = if closer {
            now.saturating_sub(1)
        } else {
            (now + 1).min(self.max_cell())
        };
        if next == now {
            return;
        }
        self.cell = Some(next);
        let offset = about.saturating_sub(self.first_page) >> now;
        self.set_first_page(about.saturating_sub(offset << next));
    }

    /// Moves the map by cells.
    pub(super) fn pan(&mut self, cells: i64) {
        let cell = self.cell.unwrap_or(0);
        let by = cells.unsigned_abs() << cell;
        let first = if cells < 0 {
            self.first_page.saturating_sub(by)
        } else {
            self.first_page.saturating_add(by)
        };
        self.set_first_page(first);
    }

    pub(super) fn set_first_page(&mut self, first: u64) {
        let cell = self.cell.unwrap_or(0);
        let max = (1u64 << self.pages_log()).saturating_sub(self.cells() << cell);
        self.first_page = (first >> cell << cell).min(max >> cell << cell);
    }

    /// Selects pages everywhere, without moving the map.
    pub(super) fn pick(&mut self, doc: &mut Document, va: GpuVa, bytes: u64) {
        let space = self.space;
        self.at = Some(va);
        doc.select(Selection::Memory { space, va, bytes });
        self.seen_jump = doc.jumps;
    }

    /// Follows the selection of other panels.
    pub(super) fn follow(&mut self, doc: &Document) {
        if self.seen_jump == doc.jumps {
            return;
        }
        self.seen_jump = doc.jumps;
        let place = match doc.selection() {
            Selection::Memory { va, space, .. } | Selection::Entry { va, space, .. } => Some((*space, *va)),
            Selection::Buffer(name) => doc.recording.buffer(name).map(|b| (b.address_space, b.va)),
            Selection::Job(j) => doc.derived.jobs.get(*j as usize).map(|j| (self.space, j.head_va)),
            _ => None,
        };
        let Some((space, va)) = place else { return };
        let mapping = doc
            .derived
            .spaces
            .get(space as usize)
            .and_then(|s| s.mapping_at(va))
            .copied();
        if let Some(m) = mapping
            && (self.at != Some(va) || self.space != space)
        {
            self.space = space;
            self.frame(m.va, m.pages);
            self.at = Some(va);
            self.reveal = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_map_zooms_about_the_pointer_to_one_page() {
        for rows in [16, 33, 64] {
            let mut v = View {
                rows,
                ..Default::default()
            };
            let page = 0xf_fffb_005c;
            for _ in 0..40 {
                v.zoom(true, page);
            }
            assert_eq!(v.cell, Some(0));
            assert!((v.first_page..v.first_page + v.cells()).contains(&page));
            for _ in 0..40 {
                v.zoom(false, page);
            }
            assert_eq!((v.cell, v.first_page), (Some(v.max_cell()), 0));
            assert!(v.cells() << v.max_cell() >= 1 << 36);
            v.frame(GpuVa::new(0xffff_b000_f000), 1000);
            assert_eq!((v.cell, v.first_page), (Some(0), 0xf_fffb_000f));
            v.pan(-16);
            assert_eq!(v.first_page, 0xf_fffa_ffff);
            v.pan(i64::MIN);
            assert_eq!(v.first_page, 0);
        }
    }
}
