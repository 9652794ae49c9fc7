//! Runs of contiguous pages with the same rights and attributes.

use super::fault::MmuError;
use super::leaf::{Leaf, Rights};
use super::mali::PAGE_BYTES;
use super::visit::{TableItem, visit_all};
use super::walk::PhysMemory;
use crate::page_table_format::MemoryName;
use crate::recording::MmuFormat;
use crate::{GpuVa, PhysAddr};
use std::ops::ControlFlow;

/// A run of contiguous pages with the same rights and attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub va: GpuVa,
    /// Number of 4 KiB pages; a block counts as all pages that it covers.
    pub pages: u64,
    /// Access rights of the GPU.
    pub rights: Rights,
    /// Attribute number of the entries; for a Mali GPU the index into the memory attributes, 0 to 7.
    pub attr_index: u8,
    /// Physical address of the run, if its pages are physically contiguous too.
    pub contiguous_pa: Option<PhysAddr>,
    /// Memory of the pages, if it is another one than the recording holds.
    pub elsewhere: Option<MemoryName>,
}

impl Mapping {
    /// Returns the size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.pages.saturating_mul(PAGE_BYTES)
    }

    /// Returns the address after the last one.
    #[must_use]
    pub fn end(&self) -> GpuVa {
        self.va.saturating_add(self.bytes())
    }

    /// Whether an address lies in the run.
    #[must_use]
    pub fn contains(&self, va: GpuVa) -> bool {
        self.va <= va && va < self.end()
    }
}

/// Merges leaves, by ascending address, into mappings.
pub(super) fn fold(runs: &mut Vec<Mapping>, leaf: &Leaf) {
    let pages = leaf.bytes / PAGE_BYTES;
    if let Some(last) = runs.last_mut()
        && last.end() == leaf.va
        && last.rights == leaf.rights
        && last.attr_index == leaf.attr_index
        && last.elsewhere == leaf.elsewhere
    {
        let next = last.contiguous_pa.and_then(|p| p.checked_add(last.bytes()));
        if next != Some(leaf.pa) {
            last.contiguous_pa = None;
        }
        last.pages += pages;
        return;
    }
    runs.push(Mapping {
        va: leaf.va,
        pages,
        rights: leaf.rights,
        attr_index: leaf.attr_index,
        contiguous_pa: Some(leaf.pa),
        elsewhere: leaf.elsewhere,
    });
}

/// Returns all mappings by ascending address.
///
/// # Errors
///
/// At the first invalid table or entry; [`super::scan`] continues instead.
pub fn mappings(format: MmuFormat, root: PhysAddr, mem: &(impl PhysMemory + ?Sized)) -> Result<Vec<Mapping>, MmuError> {
    let mut runs = Vec::new();
    let mut result = Ok(());
    let _ = visit_all(format, root, mem, &mut |found| {
        match found {
            TableItem::Leaf(leaf) | TableItem::LeafElsewhere(leaf) => fold(&mut runs, &leaf),
            TableItem::Table(_) => {}
            TableItem::Problem(e) => {
                result = Err(e);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    });
    result.map(|()| runs)
}
