//! Property tests of encoding, mapping and analysis.

use super::*;
use proptest::prelude::*;
use std::collections::HashSet;

fn any_rights() -> impl Strategy<Value = Rights> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(read, write, execute)| Rights { read, write, execute })
}

fn any_format() -> impl Strategy<Value = MmuFormat> {
    prop::sample::select(FORMATS.to_vec())
}

proptest! {
    #[test]
    fn leaves_encode_and_decode(format in any_format(), pa in any::<u64>(), rights in any_rights(), attr in 0u8..8) {
        let raw = encode_leaf(format, PhysAddr::new(pa), rights, attr);
        prop_assert_eq!(entry_kind(format, 3, raw), EntryKind::Page(PhysAddr::new(pa & 0xffff_ffff_f000)));
        let expected = match format {
            MmuFormat::Aarch64_4k => Rights { read: rights.read || rights.write, ..rights },
            MmuFormat::MaliLpae | MmuFormat::Described(_) => rights,
        };
        prop_assert_eq!(entry_rights(format, raw), expected);
        prop_assert_eq!(entry_attr_index(raw), attr);
        prop_assert!(has_access_flag(format, raw));
    }

    #[test]
    fn tables_and_roots_encode_and_decode(format in any_format(), frame in 0u64..1 << 36, level in 0u8..3) {
        let at = PhysAddr::new(frame << 12);
        prop_assert_eq!(entry_kind(format, level, encode_table(format, at)), EntryKind::Table(at));
        prop_assert_eq!(root_from_register(format, root_register(format, at)), at);
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Translation, traversal and runs find exactly what is mapped.
    #[test]
    fn walks_find_exactly_the_mapped_pages(
        format in any_format(),
        pages in prop::collection::btree_map(0u64..1 << 36, (0u64..1 << 36, any_rights(), 0u8..8), 0..60),
        near in prop::collection::btree_map(0u64..2000, (0u64..1 << 20, any_rights(), 0u8..2), 0..60),
    ) {
        let mut b = Builder::new(format);
        let mut all = pages;
        all.extend(near);
        for (page, (frame, rights, attr)) in &all {
            b.map(page << 12, frame << 12, *rights, *attr);
        }
        let leaves = b.leaves();
        prop_assert_eq!(leaves.len(), all.len());
        for (leaf, (page, (frame, _, attr))) in leaves.iter().zip(&all) {
            prop_assert_eq!((leaf.va.page(), leaf.pa.frame(), leaf.attr_index), (*page, *frame, *attr));
            prop_assert_eq!(translate(format, ROOT, GpuVa::new((page << 12) + 0xabc), &b.mem), Ok(*leaf));
            let after = page + 1;
            if after < 1 << 36 && !all.contains_key(&after) {
                prop_assert!(translate(format, ROOT, GpuVa::new(after << 12), &b.mem).is_err());
            }
        }
        let runs = mappings(format, ROOT, &b.mem).unwrap();
        prop_assert_eq!(runs.iter().map(|r| r.pages).sum::<u64>(), all.len() as u64);
        for pair in runs.windows(2) {
            prop_assert!(pair[0].end() <= pair[1].va);
        }
        // Word-by-word and page-by-page reads give the same result.
        let words = Words(b.mem.0.iter().flat_map(|(f, p)| {
            p.as_chunks::<8>().0.iter().enumerate().map(move |(i, w)| (f << 12 | (i as u64) << 3, u64::from_le_bytes(*w)))
        }).collect());
        let mut slow = Vec::new();
        for_each_leaf(format, ROOT, &words, &mut |l| { slow.push(l); ControlFlow::Continue(()) }).unwrap();
        prop_assert_eq!(slow, leaves);
    }

}

proptest! {
    /// Random words as tables: every query ends with an answer or an error.
    #[test]
    fn random_tables_are_answered_or_refused(
        format in any_format(),
        words in prop::collection::vec((0u64..8, 0usize..512, any::<u64>(), 0u64..8), 0..200),
        va in any::<u64>(),
    ) {
        let mut mem = Pages::default();
        for (table, index, raw, to) in words {
            // Half of the entries point to one of the eight tables, whatever else they hold.
            let raw = if raw >> 63 == 1 { raw & !0xffff_ffff_f000 | to << 12 } else { raw };
            mem.set(table << 12, index, raw);
        }
        let w = walk(format, PhysAddr::ZERO, GpuVa::new(va), &mem);
        prop_assert!(w.steps.len() <= 4);
        prop_assert_eq!(w.result, translate(format, PhysAddr::ZERO, GpuVa::new(va), &mem));
        let s = scan(format, PhysAddr::ZERO, &mem);
        prop_assert!(s.tables.len() <= 8);
        let mut at = HashSet::new();
        prop_assert!(s.tables.iter().all(|t| at.insert(t.at)));
        match mappings(format, PhysAddr::ZERO, &mem) {
            Ok(m) => { prop_assert!(s.problems.is_empty()); prop_assert_eq!(m, s.mappings.clone()); }
            Err(e) => prop_assert_eq!(Some(&e), s.problems.first()),
        }
        let _ = find_double_mappings(&s.leaves);
        let holes: u64 = find_pages_without_content(&s.leaves, &[], usize::MAX).spans.iter().map(|r| r.pages).sum();
        prop_assert_eq!(holes, s.mappings.iter().map(|m| m.pages).sum::<u64>());
    }

    /// The sweep agrees with counting page by page.
    #[test]
    fn double_mappings_agree_with_counting(frames in prop::collection::vec(0u64..12, 0..30)) {
        let leaves: Vec<Leaf> = frames.iter().enumerate().map(|(i, f)| Leaf {
            va: GpuVa::new(0x10_0000 + i as u64 * 4096), pa: PhysAddr::new(f << 12), bytes: 4096,
            rights: Rights::RW, attr_index: 0, raw: 0, level: 3,
            table: 3,
            elsewhere: None,
        }).collect();
        let pairs: u64 = find_double_mappings(&leaves).iter().map(|d| d.pages).sum();
        let distinct: HashSet<u64> = frames.iter().copied().collect();
        prop_assert_eq!(pairs, frames.len() as u64 - distinct.len() as u64);
    }

    /// The number of pages without content equals a count page by page, for any ranges of content.
    #[test]
    fn holes_agree_with_counting(
        leaves in prop::collection::vec((0u64..64, prop::sample::select(vec![1u64, 4])), 0..10),
        content in prop::collection::btree_set(0u64..80, 0..40),
    ) {
        let mut ranges: Vec<std::ops::Range<u64>> = Vec::new();
        for f in &content {
            match ranges.last_mut() {
                Some(r) if r.end == *f => r.end += 1,
                _ => ranges.push(*f..*f + 1),
            }
        }
        let leaves: Vec<Leaf> = leaves.iter().enumerate().map(|(i, (f, n))| Leaf {
            va: GpuVa::new(i as u64 * 0x10_0000), pa: PhysAddr::new(f << 12), bytes: n * 4096,
            rights: Rights::RW, attr_index: 0, raw: 0, level: 3,
            table: 3,
            elsewhere: None,
        }).collect();
        let counted: u64 = leaves.iter().map(|l| {
            (l.pa.frame()..l.pa.frame() + l.bytes / 4096).filter(|f| !content.contains(f)).count() as u64
        }).sum();
        let all = find_pages_without_content(&leaves, &ranges, usize::MAX);
        prop_assert_eq!(all.spans.iter().map(|r| r.pages).sum::<u64>(), counted);
        // A limit changes the list, not the counts.
        for max in 0..4 {
            let few = find_pages_without_content(&leaves, &ranges, max);
            prop_assert_eq!(&few.spans[..], &all.spans[..max.min(all.spans.len())]);
            prop_assert_eq!(few.spans.iter().map(|r| r.pages).sum::<u64>() + few.more_pages, counted);
        }
    }
}
