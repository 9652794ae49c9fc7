//! Walks and traversals of the embedded formats, against encoders that are written from the bit numbers of the hardware.

use super::*;
use crate::page_table_format::{DescribedFormat, MemoryName, embedded_formats};

/// Memory that is written in numbers of 4 and 8 bytes; frames that were written are zero elsewhere.
#[derive(Default)]
struct Dump(Pages);

impl Dump {
    fn frame(&mut self, frame: u64) -> &mut Page {
        self.0.0.entry(frame).or_insert_with(|| Box::new([0; PAGE_SIZE]))
    }

    fn put8(&mut self, at: u64, raw: u64) {
        let from = (at & 4095) as usize;
        self.frame(at >> 12)[from..from + 8].copy_from_slice(&raw.to_le_bytes());
    }

    fn put4(&mut self, at: u64, raw: u32) {
        let from = (at & 4095) as usize;
        self.frame(at >> 12)[from..from + 4].copy_from_slice(&raw.to_le_bytes());
    }
}

fn format(name: &str) -> MmuFormat {
    MmuFormat::from_name(name).unwrap_or_else(|| panic!("{name}"))
}

fn rights(text: &str) -> Rights {
    Rights {
        read: text.contains('r'),
        write: text.contains('w'),
        execute: text.contains('x'),
    }
}

/// Checks that each page is found by a walk and by a scan, and nothing else.
fn check(format: MmuFormat, root: u64, dump: &Dump, expected: &[(u64, u64, u64, &str)]) {
    let root = PhysAddr::new(root);
    let scan = scan(format, root, &dump.0);
    assert_eq!(scan.problems, [], "{format:?}");
    let found: Vec<_> = scan
        .leaves
        .iter()
        .map(|l| (l.va.get(), l.pa.get(), l.bytes, l.rights))
        .collect();
    let expected: Vec<_> = expected
        .iter()
        .map(|(va, pa, bytes, r)| (*va, *pa, *bytes, rights(r)))
        .collect();
    assert_eq!(found, expected, "{format:?}");
    for leaf in &scan.leaves {
        for offset in [0, 0x123, leaf.bytes - 1] {
            let va = leaf.va.wrapping_add(offset);
            assert_eq!(translate(format, root, va, &dump.0), Ok(*leaf), "{format:?}");
            assert_eq!(walk(format, root, va, &dump.0).result, Ok(*leaf));
        }
    }
}

#[test]
fn embedded_descriptions_are_valid_and_have_their_names() {
    let mut names = Vec::new();
    for embedded in embedded_formats() {
        let described = DescribedFormat::parse(embedded.text).unwrap_or_else(|e| panic!("{}: {e}", embedded.name));
        assert_eq!(described.description().name(), embedded.name);
        assert!(!described.description().sources().is_empty(), "{}", embedded.name);
        assert_eq!(MmuFormat::from_name(embedded.name).unwrap().name(), embedded.name);
        names.push(embedded.name);
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), embedded_formats().count());
}

/// Returns a dump with NVIDIA's tables of either version, whose top is at 0x1000. `tables` is the level of PDE0.
fn nvidia_tables(version: u8) -> (Dump, u64) {
    let mut d = Dump::default();
    let video = |at: u64| match version {
        2 => 1 << 1 | (at >> 12) << 8,
        _ => 1 << 1 | at & 0x000f_ffff_ffff_f000,
    };
    // PDE4 of version 3 at 0x1000, PDE3 at 0x2000, PDE2 at 0x3000, PDE1 at 0x4000, PDE0 at 0x5000.
    if version == 3 {
        d.put8(0x1000, video(0x2000));
    }
    d.put8(0x2000 + 8, video(0x3000));
    d.put8(0x3000 + 8, video(0x4000));
    d.put8(0x4000 + 8, video(0x5000));
    (d, if version == 3 { 0x1000 } else { 0x2000 })
}

/// The address whose index is 1 in PDE3, PDE2 and PDE1.
const NVIDIA_BASE: u64 = 1 << 47 | 1 << 38 | 1 << 29;

#[test]
fn nvidia_pages_of_every_size_are_found_in_order() {
    for version in [2u8, 3] {
        let format = format(if version == 2 { "nvidia-v2" } else { "nvidia-v3" });
        let (mut d, root) = nvidia_tables(version);
        let page = |pa: u64, aperture: u64, read_only: bool| match version {
            2 => 1 | aperture << 1 | u64::from(read_only) << 6 | (pa >> 12) << 8 | 0x06 << 56,
            _ => 1 | aperture << 1 | u64::from(read_only) << 5 | 6 << 8 | pa,
        };
        // A page of 512 MiB at index 2 of PDE1.
        d.put8(0x4000 + 2 * 8, page(0x4000_0000, 0, false));
        // PDE0: index 0 is a page of 2 MiB; index 1 has both tables; index 2 only that of small pages.
        d.put8(0x5000, page(0x60_0000, 0, true));
        let big = |at: u64| match version {
            2 => 1 << 1 | (at >> 8) << 4,
            _ => 1 << 1 | at & !0xff,
        };
        let small = |at: u64| match version {
            2 => 1 << 1 | (at >> 12) << 8,
            _ => 1 << 1 | at,
        };
        d.put8(0x5010, big(0x6100));
        d.put8(0x5018, small(0x7000));
        d.put8(0x5028, small(0x8000));
        // 64 KiB pages 1 and 3; entry 2 hides small pages.
        d.put8(0x6100 + 8, page(0x9_0000, 0, false));
        d.put8(0x6100 + 3 * 8, page(0xa_0000, 0, false));
        let unmapped = if version == 2 { 1 << 5 } else { 3 << 3 };
        d.put8(0x6100 + 2 * 8, unmapped);
        // Small pages: in the first 64 KiB, under a large page, under the hidden entry, behind.
        for (index, pa) in [
            (2u64, 0x2_1000u64),
            (0x10, 0x2_2000),
            (0x25, 0x2_3000),
            (0x45, 0x2_4000),
        ] {
            d.put8(0x7000 + index * 8, page(pa, 0, false));
        }
        d.put8(0x8000, page(0x2_5000, 0, true));
        let at = |offset: u64| NVIDIA_BASE + offset;
        check(
            format,
            root,
            &d,
            &[
                (at(0), 0x60_0000, 2 << 20, "r"),
                (at(2 << 20 | 0x2000), 0x2_1000, 4096, "rw"),
                (at(2 << 20 | 0x1_0000), 0x9_0000, 65536, "rw"),
                (at(2 << 20 | 0x3_0000), 0xa_0000, 65536, "rw"),
                (at(2 << 20 | 0x4_5000), 0x2_4000, 4096, "rw"),
                (at(4 << 20), 0x2_5000, 4096, "r"),
                (at(512 << 20), 0x4000_0000, 512 << 20, "rw"),
            ],
        );
        let root = PhysAddr::new(root);
        // A page that a large entry hides is not mapped, and the walk shows both tables where the first maps nothing.
        let hidden = GpuVa::new(at(2 << 20 | 0x2_5000));
        assert!(matches!(
            translate(format, root, hidden, &d.0),
            Err(WalkFault::NotMapped { .. })
        ));
        let w = walk(format, root, GpuVa::new(at(2 << 20 | 0x2000)), &d.0);
        let tables: Vec<&str> = w.steps.iter().rev().take(4).map(|s| s.table).collect();
        assert_eq!(tables, ["PTE 4K", "PDE0", "PTE 64K", "PDE0"]);
        let kinds = entry_fields(format, w.steps.last().unwrap().table_kind, w.steps.last().unwrap().raw);
        assert!(kinds.0.contains(&("aperture", "video".to_owned())), "{kinds:?}");
        assert_eq!(kinds.1, 0);
    }
}

#[test]
fn pages_and_tables_of_another_memory_are_named_and_never_read() {
    for version in [2u8, 3] {
        let name = if version == 2 { "nvidia-v2" } else { "nvidia-v3" };
        let (mut d, root) = nvidia_tables(version);
        let address = |pa: u64| if version == 2 { (pa >> 12) << 8 } else { pa };
        // A page of 2 MiB in system memory, one in a peer, and a table in system memory.
        d.put8(0x5000, 1 | 2 << 1 | address(0x1_2340_0000));
        d.put8(0x5010, 1 | 1 << 1 | address(0x20_0000));
        d.put8(0x5028, 2 << 1 | address(0x7000));
        let (format, root) = (format(name), PhysAddr::new(root));
        let s = scan(format, root, &d.0);
        assert_eq!(s.leaves, []);
        let found: Vec<_> = s.mappings.iter().map(|m| (m.va.get(), m.elsewhere)).collect();
        let expected = [
            (NVIDIA_BASE, Some(MemoryName::System)),
            (NVIDIA_BASE + (2 << 20), Some(MemoryName::Peer)),
        ];
        assert_eq!(found, expected);
        assert_eq!(s.mappings[0].contiguous_pa, Some(PhysAddr::new(0x1_2340_0000)));
        let table = MmuError::TableElsewhere {
            level: if version == 2 { 4 } else { 5 },
            at: PhysAddr::new(0x7000),
            va: GpuVa::new(NVIDIA_BASE + (4 << 20)),
            memory: MemoryName::System,
        };
        assert_eq!(s.problems, [table]);
        let fault = translate(format, root, GpuVa::new(NVIDIA_BASE), &d.0).unwrap_err();
        assert!(fault.to_string().contains("is in system memory"), "{fault}");
        let fault = translate(format, root, GpuVa::new(NVIDIA_BASE + (4 << 20)), &d.0).unwrap_err();
        assert!(matches!(fault, WalkFault::TableElsewhere { .. }), "{fault}");
        // In a dump of system memory, tables of video memory are elsewhere.
        let MmuFormat::Described(described) = format else {
            panic!()
        };
        let system = MmuFormat::Described(described.with_memory(MemoryName::System).unwrap());
        assert_eq!(system.name(), name);
        assert!(matches!(
            scan(system, root, &d.0).problems[..],
            [MmuError::TableElsewhere { level: 1, .. }]
        ));
    }
}

#[test]
fn amd_pages_of_every_size_are_found() {
    for (name, pte_bit) in [("amd-gfx9", 54), ("amd-gfx10", 54), ("amd-gfx12", 63)] {
        let f = format(name);
        let mut d = Dump::default();
        d.put8(0x1000 + 8, 0x2000 | 1);
        d.put8(0x2000, 0x3000 | 1);
        d.put8(0x2000 + 8, 0x8000_0000 | 1 << pte_bit | 1 << 5 | 1);
        // A table that is not aligned to a page: addresses of tables have bits from 6 on.
        d.put8(0x3000, 0x4040 | 1);
        d.put8(0x3000 + 8, 0x60_0000 | 1 << pte_bit | 1 << 6 | 1 << 5 | 1);
        d.frame(5);
        d.put8(0x4040 + 3 * 8, 0x9000 | 1 << 4 | 1 << 5 | 1 | 9 << 7);
        let base = 1u64 << 39;
        check(
            f,
            0x1000,
            &d,
            &[
                (base + 0x3000, 0x9000, 4096, "rx"),
                (base + (2 << 20), 0x60_0000, 2 << 20, "rw"),
                (base + (1 << 30), 0x8000_0000, 1 << 30, "r"),
            ],
        );
        // System memory is another one.
        d.put8(0x4040 + 4 * 8, 0x9000 | 1 << 1 | 1 << 5 | 1);
        let s = scan(f, PhysAddr::new(0x1000), &d.0);
        assert!(s.mappings.iter().any(|m| m.elsewhere == Some(MemoryName::System)));
    }
    // Entries that translate further: pages of 2 MiB without the bit of a page.
    let f = format("amd-gfx9");
    let mut d = Dump::default();
    d.put8(0x1000, 0x2000 | 1);
    d.put8(0x2000, 9 << 59 | 0x3000 | 1);
    d.put8(0x3000, 0x60_0000 | 1 << 5 | 1);
    d.put8(0x3008, 1 << 56 | 0x4000 | 1);
    d.put8(0x4000, 0x9000 | 1 << 5 | 1);
    check(
        f,
        0x1000,
        &d,
        &[(0, 0x60_0000, 2 << 20, "r"), (2 << 20, 0x9000, 4096, "r")],
    );
}

#[test]
fn tables_of_32_bit_entries_are_walked() {
    let f = format("v3d");
    let mut d = Dump::default();
    for frame in 0x100..0x500 {
        d.frame(frame);
    }
    d.put4(0x10_0000 + 5 * 4, 1 << 28 | 1 << 29 | 0x12_3456);
    d.put4(0x10_0000 + 0xf_ffff * 4, 1 << 28 | 0x7);
    check(
        f,
        0x10_0000,
        &d,
        &[(0x5000, 0x1_2345_6000, 4096, "rw"), (0xffff_f000, 0x7000, 4096, "r")],
    );
    // A table in part: one problem for the frames without content.
    d.0.0.remove(&0x101);
    d.0.0.remove(&0x102);
    let s = scan(f, PhysAddr::new(0x10_0000), &d.0);
    assert_eq!((s.leaves.len(), s.problems.len()), (2, 1));

    let f = format("etnaviv-v2");
    let mut d = Dump::default();
    d.put4(0x1000, 2);
    d.put4(0x1000 + 4 * 3, 0x2000 | 1);
    d.put4(0x2000, 2);
    d.put4(0x2000 + 4 * 7, 0x8000_0000 | 0x12 << 4 | 1 << 2 | 1);
    check(f, 0x1000, &d, &[(3 << 22 | 0x7000, 0x12_8000_0000, 4096, "rw")]);
}

#[test]
fn intel_pages_of_every_size_are_found() {
    for (name, is_discrete) in [("intel-gen8", false), ("intel-gen12", true)] {
        let lm = if is_discrete { 1 << 11 } else { 0 };
        let mut d = Dump::default();
        d.put8(0x1000, 0x2000 | 3);
        d.put8(0x2000, 0x3000 | 3);
        d.put8(0x2008, 0x4000_0000 | 1 << 7 | lm | 3);
        d.put8(0x3000, 0x4000 | 3);
        d.put8(0x3008, 0x60_0000 | 1 << 7 | lm | 1);
        d.put8(0x3010, 0x5000 | if is_discrete { 1 << 6 } else { 1 << 11 } | 3);
        d.put8(0x4000 + 9 * 8, 0xc000 | lm | 3);
        // Page 2 of 64 KiB: the third entry of a compact table, or entry 32.
        d.put8(0x5000 + if is_discrete { 2 } else { 32 } * 8, 0x7_0000 | lm | 3);
        check(
            format(name),
            0x1000,
            &d,
            &[
                (0x9000, 0xc000, 4096, "rw"),
                (2 << 20, 0x60_0000, 2 << 20, "r"),
                (4 << 20 | 0x2_0000, 0x7_0000, 65536, "rw"),
                (1 << 30, 0x4000_0000, 1 << 30, "rw"),
            ],
        );
    }
    for name in ["intel-ggtt", "intel-ggtt-gen12"] {
        let mut d = Dump::default();
        for frame in 0x100..0x900 {
            d.frame(frame);
        }
        d.put8(0x10_0000 + 0x800 * 8, 0x1_2345_6000 | 1);
        check(format(name), 0x10_0000, &d, &[(0x80_0000, 0x1_2345_6000, 4096, "rw")]);
    }
}

#[test]
fn x86_rights_are_those_of_all_levels_and_addresses_are_canonical() {
    for (name, levels, top) in [
        ("x86-64", 4, 0xffff_8000_0000_0000u64),
        ("x86-64-la57", 5, 0xff00_0000_0000_0000),
    ] {
        let f = format(name);
        let mut d = Dump::default();
        let mut root = 0x2000;
        if levels == 5 {
            d.put8(0x1000 + 256 * 8, 0x2000 | 7);
            root = 0x1000;
        }
        let first = if levels == 5 { 0 } else { 256 };
        d.put8(0x2000 + first * 8, 0x3000 | 7);
        d.put8(0x3000, 0x4000 | 7);
        d.put8(0x3008, 0x4000_0000 | 1 << 12 | 1 << 7 | 7);
        d.put8(0x4000, 0x5000 | 1 << 63 | 7);
        d.put8(0x4008, 0x60_0000 | 1 << 7 | 5);
        d.put8(0x4010, 0x6000 | 5);
        d.put8(0x5000, 0x9000 | 7);
        d.put8(0x6000, 0xa000 | 7);
        check(
            f,
            root,
            &d,
            &[
                (top, 0x9000, 4096, "rw"),
                (top + (2 << 20), 0x60_0000, 2 << 20, "rx"),
                (top + (4 << 20), 0xa000, 4096, "rx"),
                (top + (1 << 30), 0x4000_0000, 1 << 30, "rwx"),
            ],
        );
        // The same bits without the sign are no address.
        let low = GpuVa::new(top & ((1 << (levels * 9 + 12)) - 1));
        assert!(matches!(
            translate(f, PhysAddr::new(root), low, &d.0),
            Err(WalkFault::AddressTooWide { .. })
        ));
    }
}

#[test]
fn arm_granules_are_walked() {
    let af = 1u64 << 10;
    // 4 KiB with four and with three levels, lower and upper half.
    for (name, root, top) in [
        ("arm-4k", 0x1000, 0),
        ("arm-4k-39", 0x2000, 0),
        ("arm-4k-upper", 0x1000, 0xffff_0000_0000_0000u64),
        ("arm-4k-39-upper", 0x2000, 0xffff_ff80_0000_0000),
    ] {
        let mut d = Dump::default();
        d.put8(0x1000, 0x2000 | 3);
        d.put8(0x2000, 0x3000 | 3);
        d.put8(0x2008, 0x4000_0000 | af | 1 << 54 | 1 << 53 | 1);
        d.put8(0x3000, 0x4000 | 3);
        d.put8(0x3008, 0x60_0000 | af | 1 << 7 | 1);
        d.put8(0x4008, 0x9000 | af | 1 << 54 | 3);
        check(
            format(name),
            root,
            &d,
            &[
                (top + 0x1000, 0x9000, 4096, "rwx"),
                (top + (2 << 20), 0x60_0000, 2 << 20, "rx"),
                (top + (1 << 30), 0x4000_0000, 1 << 30, "rw"),
            ],
        );
        // A block at the top of four levels, and a page without the access flag.
        d.put8(0x4010, 0x9000 | 3);
        let fault = translate(format(name), PhysAddr::new(root), GpuVa::new(top + 0x2000), &d.0);
        assert!(matches!(fault, Err(WalkFault::NoAccessFlag { .. })));
    }
    let mut d = Dump::default();
    for frame in 4..20 {
        d.frame(frame);
    }
    d.put8(0x4000 + 8, 0x8000 | 3);
    d.put8(0x8000 + 5 * 8, 0xc000 | 3);
    d.put8(0xc000 + 8, 32 << 20 | af | 1);
    d.put8(0xc000 + 2 * 8, 0x1_0000 | 3);
    d.put8(0x1_0000 + 2047 * 8, 0x5_c000 | af | 3);
    let base = 1u64 << 47 | 5 << 36;
    check(
        format("arm-16k"),
        0x4000,
        &d,
        &[
            (base + (32 << 20), 32 << 20, 32 << 20, "rwx"),
            (base + (2 << 25) + (2047 << 14), 0x5_c000, 16384, "rwx"),
        ],
    );
    let mut d = Dump::default();
    for frame in (0x20..0x30).chain(0x40..0x50) {
        d.frame(frame);
    }
    d.put8(0x1000 + 63 * 8, 0x2_0000 | 3);
    d.put8(0x2_0000 + 8191 * 8, 0x4_0000 | 3);
    d.put8(0x2_0000, 512 << 20 | af | 1);
    // Bits 51 to 48 of the address are bits 15 to 12 of the entry.
    d.put8(0x4_0000 + 8191 * 8, 0x7_0000 | 9 << 12 | af | 3);
    let base = 63u64 << 42;
    check(
        format("arm-64k"),
        0x1000,
        &d,
        &[
            (base, 512 << 20, 512 << 20, "rwx"),
            (0xffff_ffff_0000, 9 << 48 | 0x7_0000, 65536, "rwx"),
        ],
    );
}

#[test]
fn entries_without_meaning_and_loops_are_problems() {
    // x86-64: a page at the top; NVIDIA: a top entry that is a page.
    for (name, root, raw) in [
        ("x86-64", 0x1000, 0x80 | 1),
        ("nvidia-v2", 0x1000, 1),
        ("arm-16k", 0x4000, 1),
    ] {
        let mut d = Dump::default();
        d.put8(root, raw);
        let s = scan(format(name), PhysAddr::new(root), &d.0);
        assert_eq!(
            s.problems,
            [MmuError::BadEntry {
                level: 0,
                va: GpuVa::ZERO,
                raw
            }],
            "{name}"
        );
    }
    // A table that points to itself.
    for (name, raw) in [
        ("x86-64", 0x1000 | 7),
        ("nvidia-v3", 2 | 0x1000),
        ("amd-gfx9", 0x1000 | 1),
        ("arm-4k", 0x1003),
    ] {
        let mut d = Dump::default();
        d.put8(0x1000, raw);
        let f = format(name);
        let s = scan(f, PhysAddr::new(0x1000), &d.0);
        assert!(
            matches!(s.problems[..], [MmuError::Shared { .. }]),
            "{name}: {:?}",
            s.problems
        );
        assert!(walk(f, PhysAddr::new(0x1000), GpuVa::ZERO, &d.0).steps.len() <= 8);
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    /// Random words as tables of any embedded format: a scan and walks agree.
    #[test]
    fn walks_agree_with_scans_of_random_tables(
        which in 0..embedded_formats().count(),
        words in proptest::collection::vec((0u64..8, 0u64..512, proptest::prelude::any::<u64>(), 0u64..8), 0..200),
    ) {
        let f = MmuFormat::from_name(embedded_formats().nth(which).unwrap().name).unwrap();
        let mut d = Dump::default();
        for (table, index, raw, to) in words {
            // Most entries point to one of the eight frames, in the forms of the formats.
            let raw = match raw & 7 {
                0 | 1 => raw,
                2 => raw & 0xff | to << 12,
                3 => raw & 0xff | to << 8,
                _ => (raw & 0xfff) | to << 12,
            };
            d.put8(table << 12 | index << 3, raw);
        }
        let s = scan(f, PhysAddr::ZERO, &d.0);
        proptest::prop_assert!(s.leaves.windows(2).all(|w| w[0].va < w[1].va));
        for leaf in s.leaves.iter().take(200) {
            match translate(f, PhysAddr::ZERO, leaf.va.wrapping_add(leaf.bytes - 1), &d.0) {
                Ok(found) => proptest::prop_assert_eq!(found, *leaf),
                Err(e) => proptest::prop_assert!(matches!(e, WalkFault::NoAccessFlag { .. }), "{}", e),
            }
        }
        for m in s.mappings.iter().filter(|m| m.elsewhere.is_some()).take(50) {
            let fault = translate(f, PhysAddr::ZERO, m.va, &d.0);
            proptest::prop_assert!(
                matches!(fault, Err(WalkFault::PageElsewhere { .. } | WalkFault::NoAccessFlag { .. })),
                "{:?}", fault
            );
        }
    }
}
