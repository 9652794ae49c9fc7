//! Tests of the formats, the walker and the analyses: by hand, by property, on the published recordings.

mod described;
mod property;
mod tally;

use super::*;
use crate::recording::{MmuFormat, Page};
use crate::test_recordings::recordings;
use crate::{GpuVa, PAGE_SIZE, PhysAddr};
use std::cell::Cell;
use std::collections::HashMap;
use std::ops::ControlFlow;

const FORMATS: [MmuFormat; 2] = [MmuFormat::Aarch64_4k, MmuFormat::MaliLpae];

/// Physical memory by word; words never written have no content.
#[derive(Default, Clone)]
struct Words(HashMap<u64, u64>);

impl PhysMemory for Words {
    fn read_u64(&self, at: PhysAddr) -> Option<u64> {
        self.0.get(&at.get()).copied()
    }
}

/// Physical memory by page.
#[derive(Default)]
struct Pages(HashMap<u64, Box<Page>>);

impl PhysMemory for Pages {
    fn read_u64(&self, at: PhysAddr) -> Option<u64> {
        let page = self.0.get(&at.frame())?;
        Some(u64::from_le_bytes(
            page.get(at.in_page()..at.in_page() + 8)?.try_into().unwrap(),
        ))
    }

    fn table(&self, frame: u64) -> Option<&Page> {
        self.0.get(&frame).map(|p| &**p)
    }
}

/// Memory that counts how often a table and how often a word was read.
struct CountedPages<'a> {
    pages: &'a Pages,
    tables: Cell<usize>,
    words: Cell<usize>,
}

impl<'a> CountedPages<'a> {
    fn new(pages: &'a Pages) -> Self {
        Self {
            pages,
            tables: Cell::new(0),
            words: Cell::new(0),
        }
    }
}

impl PhysMemory for CountedPages<'_> {
    fn read_u64(&self, at: PhysAddr) -> Option<u64> {
        self.words.set(self.words.get() + 1);
        self.pages.read_u64(at)
    }

    fn table(&self, frame: u64) -> Option<&Page> {
        self.tables.set(self.tables.get() + 1);
        self.pages.table(frame)
    }
}

impl Pages {
    fn set(&mut self, table: u64, index: usize, raw: u64) {
        let page = self.0.entry(table >> 12).or_insert_with(|| {
            let mut p = Box::new([0; PAGE_SIZE]);
            for w in p.as_chunks_mut::<8>().0 {
                *w = INVALID.to_le_bytes();
            }
            p
        });
        page[index * 8..index * 8 + 8].copy_from_slice(&raw.to_le_bytes());
    }
}

/// A builder that maps single pages, with tables from 0x10_0000 on.
struct Builder {
    format: MmuFormat,
    mem: Pages,
    next: u64,
    tables: HashMap<(u8, u64), u64>,
}

const ROOT: PhysAddr = PhysAddr::new(0x10_0000);

impl Builder {
    fn new(format: MmuFormat) -> Self {
        let mut b = Self {
            format,
            mem: Pages::default(),
            next: ROOT.get(),
            tables: HashMap::new(),
        };
        b.table(0, 0);
        b
    }

    fn table(&mut self, level: u8, va: u64) -> u64 {
        if level > 0 {
            let key = (level, va & !(span_bytes(level - 1) - 1));
            if let Some(t) = self.tables.get(&key) {
                return *t;
            }
            let above = self.table(level - 1, va);
            let at = self.next;
            self.next += 4096;
            self.tables.insert(key, at);
            self.mem.set(at, 0, INVALID);
            let entry = encode_table(self.format, PhysAddr::new(at));
            self.mem
                .set(above, usize::from(index_at(level - 1, GpuVa::new(va))), entry);
            return at;
        }
        if let Some(t) = self.tables.get(&(0, 0)) {
            return *t;
        }
        self.tables.insert((0, 0), self.next);
        self.mem.set(self.next, 0, INVALID);
        self.next += 4096;
        ROOT.get()
    }

    fn map(&mut self, va: u64, pa: u64, rights: Rights, attr: u8) {
        let table = self.table(3, va);
        let entry = encode_leaf(self.format, PhysAddr::new(pa), rights, attr);
        self.mem.set(table, usize::from(index_at(3, GpuVa::new(va))), entry);
    }

    fn leaves(&self) -> Vec<Leaf> {
        let mut v = Vec::new();
        for_each_leaf(self.format, ROOT, &self.mem, &mut |l| {
            v.push(l);
            ControlFlow::Continue(())
        })
        .unwrap();
        v
    }
}

#[test]
fn recorded_page_table_entries_decode() {
    let f = MmuFormat::Aarch64_4k;
    for (raw, rights, attr) in [
        (0x0040_0002_0d87_4743u64, Rights::RW, 0),
        (0x0040_0000_1234_5443, Rights::RW, 0),
        (0x4c3 | 0x5000, Rights::RX, 0),
        (0x0040_0000_0000_04c3 | 0x7000, Rights::RO, 0),
    ] {
        assert_eq!(entry_kind(f, 3, raw), EntryKind::Page(entry_address(raw)));
        assert_eq!((entry_rights(f, raw), entry_attr_index(raw)), (rights, attr));
        assert!(has_access_flag(f, raw));
    }
    assert_eq!(
        encode_leaf(f, PhysAddr::new(0x2_0d87_4000), Rights::RW, 0),
        0x0040_0002_0d87_4743
    );
    assert_eq!(encode_table(f, PhysAddr::new(0x5000)), 0x5403);
    assert_eq!(root_register(f, PhysAddr::new(0x2_0d87_4000)), 0x2_0d87_4000);
    let l = MmuFormat::MaliLpae;
    assert_eq!(
        encode_leaf(
            l,
            PhysAddr::new(0x5000),
            Rights {
                read: true,
                write: true,
                execute: true
            },
            2
        ),
        0x53c9
    );
    assert_eq!(root_register(l, PhysAddr::new(0x5000)), 0x5007);
    assert_eq!(root_from_register(l, 0x5007), PhysAddr::new(0x5000));
    for f in FORMATS {
        for level in 0..4 {
            assert_eq!(entry_kind(f, level, INVALID), EntryKind::Invalid);
            assert_eq!(entry_kind(f, level, 0), EntryKind::Invalid);
        }
        assert_eq!(
            entry_kind(f, 0, 0x1001),
            EntryKind::Reserved,
            "the top level has blocks"
        );
        assert_eq!(
            entry_kind(f, 1, 0xffff_ffff_f001),
            EntryKind::Block(PhysAddr::new(0xffff_c000_0000))
        );
        assert_eq!(entry_kind(f, 2, 0x60_0001), EntryKind::Block(PhysAddr::new(0x60_0000)));
    }
    assert_eq!(entry_kind(MmuFormat::Aarch64_4k, 3, 0x1001), EntryKind::Reserved);
    assert_eq!(entry_kind(MmuFormat::MaliLpae, 3, 0x1003), EntryKind::Reserved);
}

/// The data files and the code read entries in the same way.
#[test]
fn the_register_files_agree_with_the_walker() {
    let map = crate::registers::RegisterMap::by_name("mali-jm").unwrap();
    for (format, name) in [(FORMATS[0], "aarch64-4k-entry"), (FORMATS[1], "mali-lpae-entry")] {
        let layout = map.layout(name).unwrap();
        for rights in [Rights::RW, Rights::RO, Rights::RX] {
            let raw = encode_leaf(format, PhysAddr::new(0x1234_5000), rights, 5);
            let d = layout.decode(raw);
            assert_eq!(d.text("address"), Some("0x12345000"));
            assert_eq!(d.value("attr_index"), Some(5));
            assert_eq!(d.value("not_executable"), Some(u64::from(!rights.execute)));
            assert_eq!(d.unknown_value(), 0);
            let write = match format {
                MmuFormat::Aarch64_4k => d.text("access") == Some("read+write"),
                _ => d.text("write") == Some("yes"),
            };
            assert_eq!(write, rights.write);
        }
    }
}

#[test]
fn page_walk_reports_every_step_and_fault() {
    for f in FORMATS {
        let mut b = Builder::new(f);
        b.map(0xffff_b8f5_b000, 0x8_0000_1000, Rights::RW, 1);
        let w = walk(f, ROOT, GpuVa::new(0xffff_b8f5_b040), &b.mem);
        assert_eq!(w.steps.iter().map(|s| s.level).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(w.steps[3].index, 0x15b);
        let leaf = w.result.unwrap();
        assert_eq!(
            (leaf.va, leaf.pa, leaf.level),
            (GpuVa::new(0xffff_b8f5_b000), PhysAddr::new(0x8_0000_1000), 3)
        );
        assert_eq!(
            leaf.target(GpuVa::new(0xffff_b8f5_b040)),
            Some(PhysAddr::new(0x8_0000_1040))
        );
        assert_eq!(leaf.target(GpuVa::new(0xffff_b8f5_c000)), None);
        let t = |va| translate(f, ROOT, GpuVa::new(va), &b.mem);
        assert_eq!(t(0xffff_b8f5_b040), Ok(leaf));
        assert_eq!(t(0xffff_b8f5_c000), Err(WalkFault::NotMapped { level: 3 }));
        assert_eq!(t(0xffff_b900_0000), Err(WalkFault::NotMapped { level: 2 }));
        assert_eq!(t(0), Err(WalkFault::NotMapped { level: 0 }));
        assert_eq!(t(1 << 48), Err(WalkFault::AddressTooWide { bits: 48 }));
        let missing = PhysAddr::new(0xdead_0000);
        b.mem.set(ROOT.get(), 0, encode_table(f, missing));
        b.mem.set(ROOT.get(), 1, 0x1001);
        let t = |va| translate(f, ROOT, GpuVa::new(va), &b.mem);
        assert_eq!(t(0), Err(WalkFault::TableMissing { level: 1, at: missing }));
        assert_eq!(t(1 << 39), Err(WalkFault::BadEntry { level: 0, raw: 0x1001 }));
    }
    let mut b = Builder::new(MmuFormat::Aarch64_4k);
    b.map(0, 0x5000, Rights::RW, 0);
    let table = b.table(3, 0);
    b.mem.set(table, 0, 0x5043);
    let fault = translate(MmuFormat::Aarch64_4k, ROOT, GpuVa::ZERO, &b.mem);
    assert_eq!(fault, Err(WalkFault::NoAccessFlag { level: 3, raw: 0x5043 }));
}

#[test]
fn block_mappings_translate_and_count_like_pages() {
    for f in FORMATS {
        let mut b = Builder::new(f);
        let table = b.table(2, 0x4000_0000);
        let leaf_bits = encode_leaf(f, PhysAddr::ZERO, Rights::RW, 0) & !3;
        b.mem.set(table, 1, 0x8060_0000 | leaf_bits | 1);
        b.map(0x4040_0000, 0x8080_0000, Rights::RW, 0);
        let leaf = translate(f, ROOT, GpuVa::new(0x4020_0000 + 0x12345), &b.mem).unwrap();
        assert_eq!((leaf.va, leaf.bytes, leaf.level), (GpuVa::new(0x4020_0000), 2 << 20, 2));
        assert_eq!(leaf.target(GpuVa::new(0x4021_2345)), Some(PhysAddr::new(0x8061_2345)));
        let runs = mappings(f, ROOT, &b.mem).unwrap();
        assert_eq!(runs.len(), 1);
        assert_eq!((runs[0].va, runs[0].pages), (GpuVa::new(0x4020_0000), 513));
        assert_eq!(runs[0].contiguous_pa, Some(PhysAddr::new(0x8060_0000)));
        assert!(runs[0].contains(GpuVa::new(0x4040_0fff)) && !runs[0].contains(GpuVa::new(0x4040_1000)));
    }
}

#[test]
fn hostile_tables_end_with_an_error() {
    for f in FORMATS {
        let stop = |mem: &Pages| for_each_leaf(f, ROOT, mem, &mut |_| ControlFlow::Continue(()));
        // The root points at itself.
        let mut mem = Pages::default();
        mem.set(ROOT.get(), 0, encode_table(f, ROOT));
        assert_eq!(
            stop(&mem),
            Err(MmuError::Shared {
                level: 1,
                at: ROOT,
                va: GpuVa::ZERO
            })
        );
        // A walk ends at the fourth level, in an error or in a page that is the table itself.
        let w = walk(f, ROOT, GpuVa::ZERO, &mem);
        assert_eq!(w.steps.len(), 4);
        match f {
            MmuFormat::Aarch64_4k => assert_eq!(w.result.map(|l| l.pa), Ok(ROOT)),
            _ => {
                assert_eq!(
                    w.result,
                    Err(WalkFault::BadEntry {
                        level: 3,
                        raw: encode_table(f, ROOT)
                    })
                );
            }
        }
        // Two entries share a table.
        let mut b = Builder::new(f);
        b.map(0, 0x5000, Rights::RW, 0);
        let shared = b.table(3, 0);
        let above = b.table(2, 0);
        b.mem.set(above, 9, encode_table(f, PhysAddr::new(shared)));
        let error = MmuError::Shared {
            level: 3,
            at: PhysAddr::new(shared),
            va: GpuVa::new(9 << 21),
        };
        assert_eq!(stop(&b.mem), Err(error));
        let s = scan(f, ROOT, &b.mem);
        let reached = count_mapped_pages(f, ROOT, &b.mem);
        assert_eq!((reached.pages, reached.problems, reached.first), (1, 1, Some(error)));
        assert_eq!((s.leaves.len(), s.problems), (1, vec![error]));
        // Every entry has a reserved type.
        let mut mem = Pages::default();
        for i in 0..512 {
            mem.set(ROOT.get(), i, 1);
        }
        assert_eq!(
            stop(&mem),
            Err(MmuError::BadEntry {
                level: 0,
                va: GpuVa::ZERO,
                raw: 1
            })
        );
        assert_eq!(scan(f, ROOT, &mem).problems.len(), 512);
        // The root table is missing.
        let error = MmuError::TableMissing {
            level: 0,
            at: ROOT,
            va: GpuVa::ZERO,
        };
        assert_eq!(stop(&Pages::default()), Err(error));
        assert_eq!(for_each_table(f, ROOT, &Pages::default(), &mut |_| {}), Err(error));
    }
}

/// Memory in which every entry of every table points to another table.
struct Everywhere;

impl PhysMemory for Everywhere {
    fn read_u64(&self, at: PhysAddr) -> Option<u64> {
        let index = at.get() >> 3 & 511;
        let level_bits = at.frame();
        Some(encode_table(
            MmuFormat::MaliLpae,
            PhysAddr::new((level_bits << 9 | index) << 12),
        ))
    }
}

struct EverywhereLeaves;

impl PhysMemory for EverywhereLeaves {
    fn read_u64(&self, at: PhysAddr) -> Option<u64> {
        let index = at.get() >> 3 & 511;
        // Frame numbers of up to 3 digits of 9 bits are tables of levels 0 to 2. Tables of level 3 map pages.
        let next = PhysAddr::new((at.frame() << 9 | index) << 12);
        Some(if at.frame() < 1 << 27 {
            encode_table(MmuFormat::Aarch64_4k, next)
        } else {
            encode_leaf(MmuFormat::Aarch64_4k, next, Rights::RW, 0)
        })
    }
}

#[test]
fn number_of_walked_tables_and_leaves_is_bounded() {
    let mut visited = 0u64;
    let r = for_each_leaf(
        MmuFormat::Aarch64_4k,
        PhysAddr::new(0x1000),
        &EverywhereLeaves,
        &mut |_| {
            visited += 1;
            ControlFlow::Continue(())
        },
    );
    assert_eq!(r, Err(MmuError::TooManyLeaves));
    assert_eq!(visited, MAX_LEAVES);
    // The last level has no tables, so its entries of type table are problems. A scan limits their number.
    assert_eq!(
        scan(MmuFormat::MaliLpae, PhysAddr::new(0x1000), &Everywhere)
            .problems
            .len(),
        Scan::MAX_PROBLEMS
    );
}

#[test]
fn visits_can_stop_early() {
    let mut b = Builder::new(MmuFormat::Aarch64_4k);
    for i in 0..10 {
        b.map(i * 4096, 0x5000_0000 + i * 4096, Rights::RW, 0);
    }
    let mut seen = 0;
    for_each_leaf(MmuFormat::Aarch64_4k, ROOT, &b.mem, &mut |_| {
        seen += 1;
        if seen == 3 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })
    .unwrap();
    assert_eq!(seen, 3);
}

#[test]
fn page_table_analyses_find_anomalies() {
    let mut b = Builder::new(MmuFormat::MaliLpae);
    for i in 0..4u64 {
        b.map(0x10_0000 + i * 4096, 0x8000_0000 + i * 4096, Rights::RW, 0);
        b.map(0x20_0000 + i * 4096, 0x8000_0000 + i * 4096, Rights::RO, 0);
    }
    b.map(
        0x30_0000,
        0x8000_2000,
        Rights {
            read: true,
            write: true,
            execute: true,
        },
        0,
    );
    b.map(0x31_0000, 0x9000_0000, Rights::RX, 0);
    let leaves = b.leaves();
    let twice = find_double_mappings(&leaves);
    let pair = |pa, pages, first, second| DoubleMapping {
        pa: PhysAddr::new(pa),
        pages,
        first: GpuVa::new(first),
        second: GpuVa::new(second),
    };
    assert_eq!(
        twice,
        [
            pair(0x8000_0000, 1, 0x10_0000, 0x20_0000),
            pair(0x8000_1000, 1, 0x10_1000, 0x20_1000),
            pair(0x8000_2000, 1, 0x10_2000, 0x20_2000),
            pair(0x8000_2000, 1, 0x20_2000, 0x30_0000),
            pair(0x8000_3000, 1, 0x10_3000, 0x20_3000),
        ]
        .into_iter()
        .fold(Vec::<DoubleMapping>::new(), |mut v, d| {
            match v.last_mut() {
                Some(l)
                    if l.pa.get() + l.pages * 4096 == d.pa.get()
                        && l.first.get() + l.pages * 4096 == d.first.get()
                        && l.second.get() + l.pages * 4096 == d.second.get() =>
                {
                    l.pages += 1;
                }
                _ => v.push(d),
            }
            v
        })
    );
    let all = mappings(MmuFormat::MaliLpae, ROOT, &b.mem).unwrap();
    let wx = all.iter().filter(|m| m.rights.execute && m.rights.write);
    assert_eq!(wx.map(|m| (m.va.get(), m.pages)).collect::<Vec<_>>(), [(0x30_0000, 1)]);
    let content = [0x8_0001..0x8_0002, 0x8_0003..0x8_0004, 0x9_0000..0x9_0001];
    let without = find_pages_without_content(&leaves, &content, usize::MAX).spans;
    let spans: Vec<(u64, u64)> = without.iter().map(|s| (s.va.get(), s.pages)).collect();
    assert_eq!(
        spans,
        [
            (0x10_0000, 1),
            (0x10_2000, 1),
            (0x20_0000, 1),
            (0x20_2000, 1),
            (0x30_0000, 1)
        ]
    );
    assert_eq!(
        find_pages_without_content(&leaves, &[], usize::MAX)
            .spans
            .iter()
            .map(|s| s.pages)
            .sum::<u64>(),
        10
    );
}

#[test]
fn a_block_and_a_page_that_overlap_are_mapped_twice() {
    let leaf = |va, pa, bytes| Leaf {
        va: GpuVa::new(va),
        pa: PhysAddr::new(pa),
        bytes,
        rights: Rights::RW,
        attr_index: 0,
        raw: 0,
        level: 0,
        table: 0,
        elsewhere: None,
    };
    let found = find_double_mappings(&[leaf(0x4000_0000, 0x8000_0000, 2 << 20), leaf(0x1000, 0x8000_5000, 4096)]);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].pa.get(), found[0].pages), (0x8000_5000, 1));
    assert_eq!((found[0].first.get(), found[0].second.get()), (0x1000, 0x4000_5000));
}

/// Returns the tables of a published recording: blocks of an address with its level in the low bits and 512 entries.
fn recorded_tables(file: &std::path::Path) -> (PhysAddr, Pages) {
    let data = std::fs::read(file).unwrap();
    let word = |at: usize| u64::from_le_bytes(data[at..at + 8].try_into().unwrap());
    assert_eq!(word(0), data.len() as u64);
    let root = root_from_register(MmuFormat::Aarch64_4k, word(8));
    let mut mem = Pages::default();
    let mut at = 32;
    while word(at) != 0xff_ffff_ffff {
        let table = word(at) & !0xfff;
        mem.0.insert(
            table >> 12,
            Box::new(data[at + 8..at + 8 + PAGE_SIZE].try_into().unwrap()),
        );
        at += 8 + PAGE_SIZE;
    }
    (root, mem)
}

#[test]
fn published_page_tables_map_the_expected_pages() {
    let Some(folder) = recordings("gpureplay") else { return };
    for (name, tables, pages) in [("mnist", 9, 1185), ("alexnet", 323, 137_698)] {
        let (root, mem) = recorded_tables(&folder.join(name).join("gr_pgt"));
        let f = MmuFormat::Aarch64_4k;
        let counted = CountedPages::new(&mem);
        let runs = mappings(f, root, &counted).unwrap();
        assert_eq!(runs.iter().map(|m| m.pages).sum::<u64>(), pages);
        assert_eq!(
            (counted.tables.get(), counted.words.get()),
            (tables, 0),
            "{name}: tables are read more than once, or word by word"
        );
        let s = scan(f, root, &mem);
        assert_eq!(
            (s.tables.len(), s.leaves.len() as u64, s.problems.len()),
            (tables, pages, 0)
        );
        assert_eq!(s.mappings, runs);
        assert!(!runs.iter().any(|m| m.rights.execute && m.rights.write));
        assert_eq!(
            find_pages_without_content(&s.leaves, &[], usize::MAX)
                .spans
                .iter()
                .map(|r| r.pages)
                .sum::<u64>(),
            pages
        );
        assert!(find_double_mappings(&s.leaves).is_empty());
        for leaf in s.leaves.iter().step_by(97) {
            assert_eq!(translate(f, root, leaf.va, &mem), Ok(*leaf));
        }
    }
}
