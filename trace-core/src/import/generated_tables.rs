//! Page tables for a source that tells where memory is mapped and not by which tables: made by the import, so that
//! everything that asks for translations works on such a recording as on any other.

use crate::PAGE_SIZE;
use crate::check::FindingKind;
use crate::mmu::{self, LEVELS, MAX_LEAVES, MAX_TABLES, Rights, VA_BITS};
use crate::recording::{MmuFormat, Page, PhysAddr, Recording};
use std::collections::{BTreeMap, BTreeSet};

/// Number of the first frame that tables are put in where the source does not tell one.
const FIRST_FRAME: u64 = 1;
/// Frames that an entry can name.
const FRAMES: u64 = 1 << (VA_BITS - 12);

/// All rights: what a source that tells none leaves possible.
pub(super) const EVERY_RIGHT: Rights = Rights {
    read: true,
    write: true,
    execute: true,
};

/// The place of the finding which tells that the import made the tables.
pub(super) const PLACE: &str = "page tables";

/// Whether the page tables of a recording were made by its import: what they allow says nothing about a driver.
pub(crate) fn has_generated_tables(recording: &Recording) -> bool {
    let findings = &recording.facts.findings;
    findings
        .iter()
        .any(|f| f.kind == FindingKind::Assumed && f.place == PLACE)
}

/// Where a page of GPU memory lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PagePlacement {
    /// Number of the physical frame.
    pub frame: u64,
    /// What the GPU may do there.
    pub rights: Rights,
}

/// Tables that were made.
pub(super) struct GeneratedTables {
    /// Physical address of the top one.
    pub root: PhysAddr,
    /// Each table: its frame and its image.
    pub tables: Vec<(u64, Box<Page>)>,
    /// Mapped pages for which there was no more room in tables.
    pub left_out: u64,
}

/// Makes the tables that map `pages`, by number of the GPU page, in frames that `pages` does not use. The top one lies
/// at `root` where that is free.
pub(super) fn generate(
    format: MmuFormat,
    root: Option<PhysAddr>,
    pages: &BTreeMap<u64, PagePlacement>,
) -> GeneratedTables {
    let used: BTreeSet<u64> = pages.values().map(|p| p.frame).collect();
    let root = root
        .map(PhysAddr::frame)
        .filter(|f| *f > 0 && *f < FRAMES && !used.contains(f));
    let mut next = FIRST_FRAME;
    let mut free = move || {
        while used.contains(&next) || Some(next) == root {
            next += 1;
        }
        next += 1;
        next - 1
    };
    let root = root.unwrap_or_else(&mut free);
    let mut tables: BTreeMap<u64, Box<[u64; 512]>> = BTreeMap::from([(root, empty())]);
    let mut left_out = 0;
    for (count, (page, placed)) in pages.iter().enumerate() {
        let va = page << 12;
        if count as u64 >= MAX_LEAVES || tables.len() + usize::from(LEVELS) > MAX_TABLES || *page >= FRAMES {
            left_out += 1;
            continue;
        }
        let mut at = root;
        for level in 0..LEVELS {
            let index = usize::from(mmu::index_at(level, va));
            let Some(entry) = tables.get_mut(&at).and_then(|t| t.get_mut(index)) else {
                break;
            };
            if level + 1 == LEVELS {
                *entry = mmu::encode_leaf(format, PhysAddr(placed.frame << 12), placed.rights, 0);
            } else if *entry == mmu::INVALID {
                let below = free();
                *entry = mmu::encode_table(format, PhysAddr(below << 12));
                tables.insert(below, empty());
                at = below;
            } else {
                at = mmu::entry_address(*entry).frame();
            }
        }
    }
    GeneratedTables {
        root: PhysAddr(root << 12),
        tables: tables.into_iter().map(|(frame, t)| (frame, image(&t))).collect(),
        left_out,
    }
}

fn empty() -> Box<[u64; 512]> {
    Box::new([mmu::INVALID; 512])
}

fn image(table: &[u64; 512]) -> Box<Page> {
    let mut page = Box::new([0; PAGE_SIZE]);
    for (to, entry) in page.chunks_exact_mut(8).zip(table) {
        to.copy_from_slice(&entry.to_le_bytes());
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{FrameRole, GpuVa, MemoryBuilder};

    #[test]
    fn made_tables_translate_what_they_were_made_of_and_lie_beside_it() {
        // Frames 1 and 2 are taken, so that tables go round them.
        let report = [
            (0x5, 1),
            (0x1ff, 2),
            (0x200, 9),
            (0xf_ffff_ffff, 0x20_0000),
            (1 << 34, 77),
        ];
        for format in [MmuFormat::Aarch64_4k, MmuFormat::MaliLpae] {
            for root in [None, Some(PhysAddr(0x1_0000_0000)), Some(PhysAddr(0x2000))] {
                let rights = EVERY_RIGHT;
                let pages: BTreeMap<u64, PagePlacement> = report
                    .iter()
                    .map(|(p, frame)| (*p, PagePlacement { frame: *frame, rights }))
                    .collect();
                let made = generate(format, root, &pages);
                assert_eq!(made.left_out, 0);
                assert_eq!(
                    made.root == PhysAddr(0x1_0000_0000),
                    root == Some(PhysAddr(0x1_0000_0000))
                );
                assert!(made.tables.iter().all(|(f, _)| !report.iter().any(|t| t.1 == *f)));
                let mut b = MemoryBuilder::new();
                let frames: Vec<_> = made
                    .tables
                    .iter()
                    .map(|(f, t)| (*f, b.add_page(t), FrameRole::Table))
                    .collect();
                b.add_snapshot(0, frames);
                let memory = b.finish();
                for (page, frame) in report {
                    let leaf = mmu::translate(format, made.root, GpuVa(page << 12), &memory.at(0)).unwrap();
                    assert_eq!((leaf.pa.frame(), leaf.rights), (frame, rights));
                }
                assert!(mmu::translate(format, made.root, GpuVa(0x6000), &memory.at(0)).is_err());
            }
        }
    }

    #[test]
    fn an_address_that_no_table_can_map_is_counted() {
        let placed = PagePlacement {
            frame: 1,
            rights: EVERY_RIGHT,
        };
        let made = generate(
            MmuFormat::MaliLpae,
            None,
            &BTreeMap::from([(1 << 36, placed), (3, placed)]),
        );
        assert_eq!((made.left_out, made.tables.len()), (1, 4));
    }
}
