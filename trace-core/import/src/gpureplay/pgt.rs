//! `gr_pgt`: the page tables, one block per table, depth first, each before its children.

use super::tally::damage;
use crate::bytes::Reader;
use std::collections::HashMap;
use trace_core::finding::Finding;
use trace_core::recording::Page;
use trace_core::{GpuVa, PAGE_SIZE, PhysAddr};

const FILE: &str = "gr_pgt";
/// Marker after the last table.
const END_MARKER: u64 = 0xff_ffff_ffff;
/// Bits of an entry that hold an address: bits 47 to 12.
const ADDRESS_MASK: u64 = 0x0000_ffff_ffff_f000;
/// Levels 0 to 3.
const LEAF_LEVEL: u64 = 3;
/// Bits [1:0] of an entry that points to a table or, at the last level, to a page.
const VALID: u64 = 3;

/// One table.
pub(super) struct Table {
    pub(super) at: PhysAddr,
    pub(super) image: Box<Page>,
}

/// The tables and the data before them.
#[derive(Default)]
pub(super) struct Tables {
    pub(super) root: Option<PhysAddr>,
    pub(super) memattr: u64,
    pub(super) transcfg: u64,
    pub(super) tables: Vec<Table>,
    /// Number of bytes of the file that were used.
    pub(super) used: u64,
    by_address: HashMap<PhysAddr, usize>,
}

impl Tables {
    fn entry(&self, table: PhysAddr, index: u64) -> Option<u64> {
        let image = &self.tables.get(*self.by_address.get(&table)?)?.image;
        let at = usize::try_from(index).ok()?.checked_mul(8)?;
        Some(u64::from_le_bytes(*image.get(at..)?.first_chunk()?))
    }

    /// Returns the physical location of a page of GPU memory by the tables of this file, which has no blocks.
    pub(super) fn page(&self, va: GpuVa) -> Option<PhysAddr> {
        let mut table = self.root?;
        for level in 0..=LEAF_LEVEL {
            let entry = self.entry(table, (va.get() >> (39 - 9 * level)) & 511)?;
            if entry & 3 != VALID {
                return None;
            }
            table = PhysAddr::new(entry & ADDRESS_MASK);
        }
        Some(table)
    }
}

/// Parses the tables of the file. Stops at the first mismatch and reports it.
pub(super) fn parse(bytes: &[u8], findings: &mut Vec<Finding>) -> Tables {
    let mut r = Reader::new(bytes);
    let mut t = Tables::default();
    let (Some(size), Some(root), Some(memattr), Some(transcfg)) = (r.u64(), r.u64(), r.u64(), r.u64()) else {
        findings.push(damage(FILE, 0, "the file ends within its header of 32 bytes"));
        return t;
    };
    t.used = r.at();
    if size != bytes.len() as u64 {
        findings.push(damage(
            FILE,
            0,
            format!("the file states {size} bytes, but has {}", bytes.len()),
        ));
    }
    (t.root, t.memattr, t.transcfg) = (Some(PhysAddr::new(root & ADDRESS_MASK)), memattr, transcfg);

    // Tables that are still expected, the next one last.
    let mut expected = vec![(PhysAddr::new(root & ADDRESS_MASK), 0u64)];
    while let Some((address, level)) = expected.pop() {
        let at = r.at();
        let Some(header) = r.u64() else {
            findings.push(damage(
                FILE,
                at,
                format!("the file ends before the table at {address:#x}"),
            ));
            return t;
        };
        if header != address.get() | level {
            let found = if header == END_MARKER {
                "the end marker".to_owned()
            } else {
                format!("{header:#x}")
            };
            findings.push(damage(
                FILE,
                at,
                format!("expected the level {level} table at {address:#x}, found {found}; the rest was not used"),
            ));
            return t;
        }
        let Some(image) = r.page() else {
            findings.push(damage(
                FILE,
                at,
                format!("the file ends inside the table at {address:#x}"),
            ));
            return t;
        };
        t.used = r.at();
        if t.by_address.insert(address, t.tables.len()).is_some() {
            findings.push(damage(
                FILE,
                at,
                format!("the table at {address:#x} occurs twice; the rest was not used"),
            ));
            return t;
        }
        t.tables.push(Table {
            at: address,
            image: Box::new(*image),
        });
        if level < LEAF_LEVEL {
            let children = image
                .chunks_exact(8)
                .filter_map(|e| e.first_chunk().map(|b| u64::from_le_bytes(*b)));
            let first = expected.len();
            expected.extend(
                children
                    .filter(|e| e & 3 == VALID)
                    .map(|e| (PhysAddr::new(e & ADDRESS_MASK), level + 1)),
            );
            if let Some(new) = expected.get_mut(first..) {
                new.reverse();
            }
        }
    }
    let at = r.at();
    match r.u64() {
        Some(END_MARKER) => t.used = r.at(),
        Some(other) => {
            findings.push(damage(
                FILE,
                at,
                format!("expected the end marker {END_MARKER:#x}, found {other:#x}"),
            ));
            return t;
        }
        None => {
            findings.push(damage(FILE, at, "the file ends before the end marker"));
            return t;
        }
    }
    if r.left() > 0 {
        findings.push(damage(
            FILE,
            r.at(),
            format!("{} bytes follow the end marker", r.left()),
        ));
    }
    t
}

const _: () = assert!(PAGE_SIZE == 512 * 8, "a table is a page of 512 entries");

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn table(entries: &[(usize, u64)]) -> Page {
        let mut p = [0u8; PAGE_SIZE];
        for e in p.chunks_exact_mut(8) {
            e.copy_from_slice(&2u64.to_le_bytes());
        }
        for (i, v) in entries {
            p[i * 8..i * 8 + 8].copy_from_slice(&v.to_le_bytes());
        }
        p
    }

    /// Returns four levels that map 0x0000_0040_2000 to 0x9000 and the page after it to 0xa000.
    pub(crate) fn file() -> Vec<u8> {
        let blocks = [
            (0x1000u64, table(&[(0, 0x2003)])),
            (0x2001, table(&[(0, 0x3003)])),
            (0x3002, table(&[(2, 0x4003)])),
            (0x4003, table(&[(2, 0x9743), (3, 0xa743)])),
        ];
        let size = 40 + blocks.len() * (8 + PAGE_SIZE);
        let mut b = Vec::new();
        for v in [size as u64, 0x1000, 0x4c8d_888d_8f88, 6] {
            b.extend(v.to_le_bytes());
        }
        for (header, image) in blocks {
            b.extend(header.to_le_bytes());
            b.extend(image);
        }
        b.extend(END_MARKER.to_le_bytes());
        b
    }

    #[test]
    fn parsed_page_tables_translate_addresses() {
        let mut f = Vec::new();
        let bytes = file();
        let t = parse(&bytes, &mut f);
        assert!(f.is_empty(), "{f:?}");
        assert_eq!(t.used, bytes.len() as u64);
        assert_eq!(t.tables.len(), 4);
        assert_eq!(t.page(GpuVa::new(0x40_2000)), Some(PhysAddr::new(0x9000)));
        assert_eq!(t.page(GpuVa::new(0x40_3000)), Some(PhysAddr::new(0xa000)));
        assert_eq!(t.page(GpuVa::new(0x40_4000)), None);
        assert_eq!((t.memattr, t.transcfg), (0x4c8d_888d_8f88, 6));
    }

    #[test]
    fn page_table_file_damage_is_always_reported() {
        let valid = file();
        for cut in (0..valid.len()).step_by(97) {
            let mut f = Vec::new();
            let t = parse(&valid[..cut], &mut f);
            assert!(
                !f.is_empty() && f.iter().all(|f| f.severity == trace_core::finding::Severity::Error),
                "cut at {cut}"
            );
            assert!(t.used <= cut as u64);
        }
        let mut bad = valid.clone();
        let n = bad.len();
        bad[n - 8] = 0;
        let mut f = Vec::new();
        assert_eq!(parse(&bad, &mut f).used, n as u64 - 8);
        assert_eq!(f[0].place, format!("gr_pgt, byte {:#x}", n - 8));
        let mut f = Vec::new();
        parse(&[valid.clone(), vec![7]].concat(), &mut f);
        assert_eq!(f.len(), 2, "the header has a wrong size, and a byte follows the end");
        // A table entry points back to the root.
        let mut cyclic = valid;
        let at = 32 + 3 * (8 + PAGE_SIZE) - PAGE_SIZE + 16;
        cyclic[at..at + 8].copy_from_slice(&0x1003u64.to_le_bytes());
        let mut f = Vec::new();
        parse(&cyclic, &mut f);
        assert_eq!(f.len(), 1);
    }
}
