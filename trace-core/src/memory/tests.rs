//! Tests of views, searches and elements.

use super::*;
use crate::memory::GpuMemory;
use crate::mmu::{self, Rights};
use crate::progress::Progress;
use crate::recording::{
    AddressSpace, Buffer, BufferRole, ElementType, FrameRole, Memory, MemoryBuilder, MmuFormat, Page,
};
use crate::{GpuVa, PAGE_SIZE, PhysAddr};
use proptest::prelude::*;
use std::ops::Range;

/// Maps each page of `va` to the image, or to no content if there is none, through tables in frames 1 to 4.
fn memory(pages: &[(u64, Option<Page>)]) -> (Memory, AddressSpace) {
    let f = MmuFormat::Aarch64_4k;
    let mut tables = vec![[0u8; PAGE_SIZE]; 4];
    for (level, table) in tables.iter_mut().enumerate().take(3) {
        table[..8].copy_from_slice(&mmu::encode_table(f, PhysAddr::new((2 + level as u64) << 12)).to_le_bytes());
    }
    let mut b = MemoryBuilder::new();
    let mut frames = Vec::new();
    for (n, (va, image)) in pages.iter().enumerate() {
        // Pages that are neighbours by address are not neighbours in physical memory.
        let frame = 1000 - 2 * n as u64;
        let entry = mmu::encode_leaf(f, PhysAddr::new(frame << 12), Rights::RW, 0);
        let at = (va >> 12) as usize * 8;
        tables[3][at..at + 8].copy_from_slice(&entry.to_le_bytes());
        if let Some(image) = image {
            frames.push((frame, b.add_page(image), FrameRole::Data));
        }
    }
    for (n, table) in tables.iter().enumerate() {
        frames.push((1 + n as u64, b.add_page(table), FrameRole::Table));
    }
    b.add_snapshot(0, frames);
    let space = AddressSpace {
        number: 0,
        format: f,
        root: PhysAddr::new(0x1000),
        memattr: 0,
        transcfg: 6,
    };
    (b.finish(), space)
}

fn numbered(n: u8) -> Page {
    let mut p = [n; PAGE_SIZE];
    p[0] = 0xf0 | n;
    p
}

#[test]
fn holes_differ_from_zeros_and_unmapped_memory() {
    let (m, s) = memory(&[
        (0x1000, Some(numbered(1))),
        (0x2000, Some([0; PAGE_SIZE])),
        (0x3000, None),
    ]);
    let v = GpuMemoryView::new(m.last(), &s);
    let mut out = [0xaa; 8];
    let states = |va| v.read_partial(GpuVa::new(va), &mut [0; 8]);
    assert_eq!(v.read_partial(GpuVa::new(0x1ffc), &mut out), [ByteState::Content; 8]);
    assert_eq!(out, [1, 1, 1, 1, 0, 0, 0, 0]);
    assert_eq!(states(0x2ffc)[..4], [ByteState::Content; 4]);
    assert_eq!(states(0x2ffc)[4..], [ByteState::NoContent; 4]);
    assert_eq!(states(0x3ffc)[4..], [ByteState::Unmapped; 4]);
    assert_eq!(states(u64::MAX - 3), [ByteState::Unmapped; 8]);
    assert!(
        v.read(GpuVa::new(0x1ffc), &mut out)
            && !v.read(GpuVa::new(0x2ffc), &mut out)
            && !v.read(GpuVa::new(0xfff), &mut out)
    );
    assert!(v.read(GpuVa::new(0x9000), &mut []), "an empty read fails");
    let b = v.read_range(GpuVa::new(0x0), 0x5000);
    assert_eq!(b.bytes.len(), 0x5000);
    assert_eq!(
        (b.bytes[0x1000], b.bytes[0x1001], b.bytes[0x2000], b.bytes[0x3000]),
        (0xf1, 1, 0, 0)
    );
    let hole = |r: Range<u64>, s| (r, s);
    assert_eq!(
        b.holes,
        [
            hole(0..0x1000, ByteState::Unmapped),
            hole(0x3000..0x4000, ByteState::NoContent),
            hole(0x4000..0x5000, ByteState::Unmapped)
        ]
    );
    let buffer = Buffer {
        name: "b".to_owned(),
        role: BufferRole::Input,
        address_space: 0,
        va: GpuVa::new(0x1ffe),
        bytes: 6,
        element: ElementType::U8,
    };
    assert_eq!(
        v.read_buffer(&buffer),
        BufferBytes {
            bytes: vec![1, 1, 0, 0, 0, 0],
            holes: Vec::new()
        }
    );
}

#[test]
fn memory_regex_sees_preceding_bytes_and_never_matches_empty() {
    // The memory is larger than a search window, so that a match starts at the start of the second window.
    let mut pages = vec![(0x1000, Some([b'x'; PAGE_SIZE])); 80];
    for (i, p) in pages.iter_mut().enumerate() {
        p.0 = 0x1000 + (i * PAGE_SIZE) as u64;
    }
    pages[64].1.as_mut().unwrap()[..2].copy_from_slice(b"ab");
    pages[70].1.as_mut().unwrap()[7..10].copy_from_slice(b" ab");
    let (m, s) = memory(&pages);
    let v = GpuMemoryView::new(m.last(), &s);
    let found = |e: &str| {
        let pattern = Pattern::Regex(regex::bytes::Regex::new(e).unwrap());
        v.search(&pattern, GpuVa::ZERO..GpuVa::MAX, &Progress::new()).unwrap()
    };
    let at = |page: u64, byte: u64, bytes| Hit {
        va: GpuVa::new(0x1000 + page * PAGE_SIZE as u64 + byte),
        bytes,
    };
    assert_eq!(
        found(r"\bab"),
        [at(70, 8, 2)],
        "the byte before the first match is ignored"
    );
    assert_eq!(found("ab"), [at(64, 0, 2), at(70, 8, 2)]);
    assert_eq!(found("y*"), []);
    assert_eq!(found("^x{3}"), [at(0, 0, 3)], "`^` matches at the start of a window");
}

#[test]
fn oversized_memory_read_is_limited_and_reported() {
    let (m, s) = memory(&[]);
    let v = GpuMemoryView::new(m.last(), &s);
    // The caller's limit bounds the size of the read, not the size that a file claims.
    let b = v.read_range_at_most(GpuVa::ZERO, u64::MAX, 0x3000);
    assert_eq!(b.bytes.len(), 0x3000);
    assert_eq!(b.holes.last(), Some(&(0x3000..u64::MAX, ByteState::NoContent)));
    assert_eq!(b.holes.first(), Some(&(0..0x3000, ByteState::Unmapped)));
}

#[test]
fn searches_find_exactly_the_matching_addresses() {
    let mut a = [0u8; PAGE_SIZE];
    a[100..104].copy_from_slice(b"find");
    a[PAGE_SIZE - 2..].copy_from_slice(b"fi");
    let mut b = [0u8; PAGE_SIZE];
    b[..2].copy_from_slice(b"nd");
    b[2000..2008].copy_from_slice(b"ffindind");
    let (m, s) = memory(&[(0x1000, Some(a)), (0x2000, Some(b)), (0x3000, None), (0x4000, Some(b))]);
    let v = GpuMemoryView::new(m.last(), &s);
    let all = GpuVa::ZERO..GpuVa::MAX;
    let find = |pattern: &[u8], range| {
        let found = v.search(&Pattern::Bytes(pattern.to_vec()), range, &Progress::new());
        found.unwrap().into_iter().map(|h| h.va.get()).collect::<Vec<u64>>()
    };
    assert_eq!(
        find(b"find", all.clone()),
        [0x1064, 0x1ffe, 0x2000 + 2001, 0x4000 + 2001]
    );
    assert_eq!(find(b"find", GpuVa::new(0x1065)..GpuVa::new(0x2002)), [0x1ffe]);
    assert_eq!(find(b"find", GpuVa::new(0x1065)..GpuVa::new(0x2001)), [] as [u64; 0]);
    let zeros = find(&[0u8; 3000], all.clone());
    assert_eq!((zeros.len(), zeros[0], zeros[990]), (991, 0x1000 + 104, 0x1000 + 1094));
    assert_eq!(find(b"nd", GpuVa::new(0x4000)..GpuVa::new(0x4002)), [0x4000]);
    assert_eq!(
        v.search(&Pattern::Bytes(Vec::new()), all.clone(), &Progress::new()),
        Err(SearchError::Empty)
    );
    let p = Progress::new();
    p.cancel();
    assert!(matches!(
        v.search(&Pattern::Bytes(b"find".to_vec()), all.clone(), &p),
        Err(SearchError::Cancelled(_))
    ));
    // A pattern longer than a page, across two.
    let long: Vec<u8> = a.iter().chain(&b).copied().skip(50).take(6000).collect();
    assert_eq!(find(&long, all), [0x1000 + 50]);
    let p = Progress::new();
    v.search(&Pattern::Bytes(b"x".to_vec()), GpuVa::ZERO..GpuVa::new(0x10000), &p)
        .unwrap();
    assert_eq!(p.fraction(), Some(1.0));
}

#[test]
fn f16_conversion_is_exact_both_ways() {
    for bits in 0..=u16::MAX {
        let exponent = i32::from(bits >> 10 & 31);
        let fraction = f64::from(bits & 0x3ff);
        let sign = if bits & 0x8000 != 0 { -1.0 } else { 1.0 };
        let value = f16_to_f32(bits);
        if exponent == 31 {
            assert_eq!(
                (value.is_nan(), value.is_infinite()),
                (fraction != 0.0, fraction == 0.0)
            );
        } else {
            let expected = match exponent {
                0 => sign * fraction * 2f64.powi(-24),
                e => sign * (1.0 + fraction / 1024.0) * 2f64.powi(e - 15),
            };
            assert_eq!(f64::from(value).to_bits(), expected.to_bits());
        }
        assert_eq!(f32_to_f16(value), bits, "{bits:#x}");
        if !value.is_nan() {
            let text = element_text(ElementType::F16, &bits.to_le_bytes()).unwrap();
            assert_eq!(
                parse_element(ElementType::F16, &text).unwrap(),
                bits.to_le_bytes(),
                "{text}"
            );
        }
    }
}

#[test]
fn bf16_conversion_is_exact_and_rounds_to_nearest_even() {
    for bits in 0..=u16::MAX {
        let value = bf16_to_f32(bits);
        if value.is_nan() {
            assert!(bf16_to_f32(f64_to_bf16(f64::from(value))).is_nan());
            continue;
        }
        assert_eq!(f64_to_bf16(f64::from(value)), bits, "{bits:#x}");
        let text = element_text(ElementType::BF16, &bits.to_le_bytes()).unwrap();
        assert_eq!(
            parse_element(ElementType::BF16, &text).unwrap(),
            bits.to_le_bytes(),
            "{text}"
        );
    }
    for (value, bits) in [
        (1.0 + 2f64.powi(-8), 0x3f80),
        (1.0 + 3.0 * 2f64.powi(-8), 0x3f82),
        // Rounded twice, through a binary32, it would be the even one.
        (1.0 + 2f64.powi(-8) + 2f64.powi(-40), 0x3f81),
        (1.0 + 2f64.powi(-8) - 2f64.powi(-40), 0x3f80),
        (3.4e38, 0x7f80),
        (-1e300, 0xff80),
        (1e-300, 0),
        (-0.0, 0x8000),
    ] {
        assert_eq!(f64_to_bf16(value), bits, "{value}");
    }
    assert!(parse_element(ElementType::BF16, "1e39").is_err());
}

#[test]
fn halves_round_to_nearest_even() {
    for (value, bits) in [
        (65504.0, 0x7bff),
        (65519.9, 0x7bff),
        (65520.0, 0x7c00),
        (1e300, 0x7c00),
        (-1e300, 0xfc00),
        (2f64.powi(-24), 1),
        (2f64.powi(-25), 0),
        (2f64.powi(-25) * 1.000001, 1),
        (-(2f64.powi(-26)), 0x8000),
        (2f64.powi(-14) - 2f64.powi(-26), 0x400),
        (1.0 + 2f64.powi(-11), 0x3c00),
        (1.0 + 3.0 * 2f64.powi(-11), 0x3c02),
        (1.0 + 2f64.powi(-11) + 2f64.powi(-40), 0x3c01),
        (-0.0, 0x8000),
    ] {
        assert_eq!(f64_to_f16(value), bits, "{value}");
    }
    assert!(f16_to_f32(f64_to_f16(f64::NAN)).is_nan());
    // A NaN with a payload in the bits that a half lacks stays NaN.
    assert!(f16_to_f32(f32_to_f16(f32::from_bits(0x7f80_0001))).is_nan());
}

#[test]
fn texts_are_read_or_refused_with_their_reason() {
    let ok = |e, t: &str| parse_element(e, t).unwrap();
    assert_eq!(ok(ElementType::U8, " 255 "), [255]);
    assert_eq!(ok(ElementType::I8, "-128"), [0x80]);
    assert_eq!(ok(ElementType::U16, "0xBEEF"), [0xef, 0xbe]);
    assert_eq!(ok(ElementType::F32, "0x3f80_0000"), 1f32.to_le_bytes());
    assert_eq!(ok(ElementType::F32, "0.1"), 0.1f32.to_le_bytes());
    assert_eq!(ok(ElementType::F64, "-inf"), f64::NEG_INFINITY.to_le_bytes());
    assert_eq!(ok(ElementType::U64, "18446744073709551615"), [255; 8]);
    assert_eq!(ok(ElementType::I64, "-9223372036854775808"), i64::MIN.to_le_bytes());
    for (e, t) in [
        (ElementType::U8, "256"),
        (ElementType::U8, "-1"),
        (ElementType::I16, "32768"),
        (ElementType::U16, "0x10000"),
        (ElementType::F16, "65520"),
        (ElementType::F32, "1e39"),
        (ElementType::F64, "1e999"),
        (ElementType::U64, "18446744073709551616"),
        (ElementType::U64, "0x10000000000000000"),
    ] {
        assert!(
            matches!(parse_element(e, t), Err(ElementError::OutOfRange { .. })),
            "{t}"
        );
    }
    for (e, t) in [
        (ElementType::U8, ""),
        (ElementType::U8, "1.5"),
        (ElementType::F32, "one"),
        (ElementType::U32, "0x"),
        (ElementType::U32, "0x-1"),
    ] {
        assert!(
            matches!(parse_element(e, t), Err(ElementError::NotANumber { .. })),
            "{t}"
        );
    }
    assert_eq!(
        parse_elements(ElementType::U16, "1, 2\n3;4").unwrap(),
        [1, 0, 2, 0, 3, 0, 4, 0]
    );
    assert!(parse_elements(ElementType::U16, "1, x").is_err());
    assert_eq!(
        parse_hex("de ad,BE:ef 0x01_02").unwrap(),
        [0xde, 0xad, 0xbe, 0xef, 1, 2]
    );
    assert_eq!(parse_hex("0x").unwrap(), [] as [u8; 0]);
    assert_eq!(parse_hex("abc"), Err(ElementError::Hex { at: 3 }));
    assert_eq!(parse_hex("a g"), Err(ElementError::Hex { at: 1 }));
    assert_eq!(element_text(ElementType::U32, &[1, 2, 3]), None);
    assert_eq!(element_text(ElementType::F32, &1e20f32.to_le_bytes()).unwrap(), "1e20");
    assert_eq!(element_text(ElementType::F16, &0x2e66u16.to_le_bytes()).unwrap(), "0.1");
    assert_eq!(
        elements_text(ElementType::I16, &[255, 255, 2, 0, 9]).collect::<Vec<_>>(),
        ["-1", "2"]
    );
}

proptest! {
    /// Formatted text parses back to the same bits.
    #[test]
    fn text_reads_back(element in prop::sample::select(ElementType::ALL.to_vec()), bytes in any::<[u8; 8]>()) {
        let bytes = &bytes[..element.bytes()];
        let text = element_text(element, bytes).unwrap();
        let back = parse_element(element, &text).unwrap();
        if text.to_lowercase().contains("nan") {
            prop_assert_eq!(element_text(element, &back).unwrap(), text);
        } else {
            prop_assert_eq!(back, bytes);
        }
    }

    #[test]
    fn arbitrary_text_parses_as_an_element_or_is_refused(element in prop::sample::select(ElementType::ALL.to_vec()), text in "\\PC{0,30}") {
        if let Ok(bytes) = parse_element(element, &text) {
            prop_assert_eq!(bytes.len(), element.bytes());
        }
        let _ = parse_hex(&text);
    }

    /// The nearest half is nearer than its neighbours.
    #[test]
    fn the_nearest_half_is_chosen(value in -70000.0f64..70000.0) {
        let h = f64_to_f16(value);
        let nearest = f64::from(f16_to_f32(h));
        prop_assume!(nearest.is_finite());
        for other in [h.wrapping_add(1), h.wrapping_sub(1)] {
            let neighbor = f64::from(f16_to_f32(other));
            if neighbor.is_finite() {
                prop_assert!((nearest - value).abs() <= (neighbor - value).abs());
            }
        }
    }

    /// A search finds what a plain scan of the same bytes finds.
    #[test]
    fn searches_agree_with_a_plain_scan(
        content in prop::collection::vec(0u8..2, 3 * PAGE_SIZE),
        hole in 0usize..4,
        pattern in prop::collection::vec(0u8..2, 9..14),
    ) {
        let pages: Vec<(u64, Option<Page>)> = (0..3).map(|i| {
            let image: Page = content[i * PAGE_SIZE..(i + 1) * PAGE_SIZE].try_into().unwrap();
            ((1 + i as u64) << 12, (i != hole).then_some(image))
        }).collect();
        let (m, s) = memory(&pages);
        let v = GpuMemoryView::new(m.last(), &s);
        let found: Vec<u64> = v.search(&Pattern::Bytes(pattern.clone()), GpuVa::ZERO..GpuVa::MAX, &Progress::new()).unwrap().iter().map(|h| h.va.get()).collect();
        let clear = |at: usize| hole > 2 || (at + pattern.len() <= hole * PAGE_SIZE) || at >= (hole + 1) * PAGE_SIZE;
        let plain: Vec<u64> = content.windows(pattern.len()).enumerate()
            .filter(|(at, w)| *w == pattern && clear(*at)).map(|(at, _)| 0x1000 + at as u64).collect();
        prop_assert_eq!(found, plain);
    }

    /// A regular expression and a pointer search find what plain scans of each run of pages with content find, wherever
    /// the search windows end.
    #[test]
    fn expressions_and_pointers_agree_with_a_plain_scan(
        pages in 60usize..150,
        patches in prop::collection::vec((any::<prop::sample::Index>(), 0u8..3), 0..60),
        holes in prop::collection::btree_set(0usize..150, 0..4),
    ) {
        let mut content = vec![b'.'; pages * PAGE_SIZE];
        for (at, kind) in patches {
            let at = at.index(content.len() - 40);
            match kind {
                0 => content[at..at + 7].copy_from_slice(b"a12345b"),
                1 => content[at..at + 3].copy_from_slice(b"a9b"),
                _ => {
                    let at = at & !7;
                    content[at..at + 8].copy_from_slice(&(0x7_0000_0000u64 + at as u64 % 32).to_le_bytes());
                }
            }
        }
        let contents: Vec<(u64, Option<Page>)> = (0..pages).map(|i| {
            let image: Page = content[i * PAGE_SIZE..(i + 1) * PAGE_SIZE].try_into().unwrap();
            ((1 + i as u64) << 12, (!holes.contains(&i)).then_some(image))
        }).collect();
        let (m, s) = memory(&contents);
        let v = GpuMemoryView::new(m.last(), &s);
        let run = |p: &Pattern| v.search(p, GpuVa::ZERO..GpuVa::MAX, &Progress::new()).unwrap();
        let regex = regex::bytes::Regex::new(r"a\d+b").unwrap();
        let mut plain = Vec::new();
        let mut words = Vec::new();
        let mut first = 0;
        while first < pages {
            let end = (first..pages).find(|i| holes.contains(i)).unwrap_or(pages);
            let part = &content[first * PAGE_SIZE..end * PAGE_SIZE];
            let base = 0x1000 + (first * PAGE_SIZE) as u64;
            plain.extend(regex.find_iter(part).map(|f| Hit { va: GpuVa::new(base + f.start() as u64), bytes: f.len() as u64 }));
            for (i, w) in part.chunks_exact(8).enumerate() {
                if (0x7_0000_0008..0x7_0000_0010).contains(&u64::from_le_bytes(w.try_into().unwrap())) {
                    words.push(Hit { va: GpuVa::new(base + i as u64 * 8), bytes: 8 });
                }
            }
            first = end + 1;
        }
        prop_assert_eq!(run(&Pattern::Regex(regex)), plain);
        prop_assert_eq!(run(&Pattern::Pointer { to: 0x7_0000_0008..0x7_0000_0010, width: 8 }), words);
    }

    /// Reads of any range agree with each other.
    #[test]
    fn reads_agree(va in 0u64..0x6000, len in 0usize..0x3000) {
        let (m, s) = memory(&[(0x1000, Some(numbered(1))), (0x2000, Some(numbered(2))), (0x4000, None)]);
        let v = GpuMemoryView::new(m.last(), &s);
        let mut part = vec![9; len];
        let states = v.read_partial(GpuVa::new(va), &mut part);
        prop_assert_eq!(states.len(), len);
        let read = v.read_range(GpuVa::new(va), len as u64);
        prop_assert_eq!(&read.bytes, &part);
        let holes: u64 = read.holes.iter().map(|(r, _)| r.end - r.start).sum();
        prop_assert_eq!(holes as usize, states.iter().filter(|s| **s != ByteState::Content).count());
        let mut out = vec![0; len];
        prop_assert_eq!(v.read(GpuVa::new(va), &mut out), holes == 0);
    }
}
