//! Small dumps of each form, made by hand from their definitions.

use super::*;
use crate::{OpenOptions, Opened, open};
use std::path::PathBuf;
use tempfile::TempDir;
use trace_core::progress::Progress;
use trace_core::recording::Recording;
use trace_core::{PAGE_SIZE, PhysAddr};

const PAGE: u64 = PAGE_SIZE as u64;

fn in_file(bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory");
    std::fs::write(&path, bytes).unwrap();
    (folder, path)
}

fn import(bytes: &[u8]) -> Result<Recording, ImportError> {
    let (_folder, path) = in_file(bytes);
    open(&path, &OpenOptions::default(), &Progress::new()).and_then(Opened::into_recording)
}

/// First byte of each page, by address.
fn pages(recording: &Recording) -> Vec<(u64, u8)> {
    let view = recording.memory.last();
    let frames = view.runs().into_iter().flat_map(|r| r.first_frame..r.end_frame());
    frames.map(|f| (f * PAGE, view.frame(f).unwrap()[0])).collect()
}

/// An ELF core with pages at addresses; the content of a page is its number, from 1 on.
fn core(is_wide: bool, is_big: bool, segments: &[(u64, u64)]) -> Vec<u8> {
    let number = |n: u64, bytes: usize| {
        let all = n.to_le_bytes();
        let mut part = all[..bytes].to_vec();
        if is_big {
            part.reverse();
        }
        part
    };
    let (class, order) = (1 + u8::from(is_wide), 1 + u8::from(is_big));
    let mut out = vec![0x7f, b'E', b'L', b'F', class, order, 1];
    out.resize(16, 0);
    let (header, entry) = if is_wide { (64, 56) } else { (52, 32) };
    let word = if is_wide { 8 } else { 4 };
    let machine = if is_wide { 62 } else { 40 };
    for (n, bytes) in [
        (4, 2),
        (machine, 2),
        (1, 4),
        (0, word),
        (header, word),
        (0, word),
        (0, 4),
    ] {
        out.extend(number(n, bytes));
    }
    for n in [header, entry, segments.len() as u64, 0, 0, 0] {
        out.extend(number(n, 2));
    }
    let mut at = header + entry * segments.len() as u64;
    let mut content = Vec::new();
    for (address, count) in segments {
        let bytes = count * PAGE;
        let fields: &[(u64, usize)] = match is_wide {
            true => &[
                (1, 4),
                (7, 4),
                (at, 8),
                (0, 8),
                (*address, 8),
                (bytes, 8),
                (bytes, 8),
                (0, 8),
            ],
            false => &[
                (1, 4),
                (at, 4),
                (0, 4),
                (*address, 4),
                (bytes, 4),
                (bytes, 4),
                (7, 4),
                (0, 4),
            ],
        };
        for (n, bytes) in fields {
            out.extend(number(*n, *bytes));
        }
        for _ in 0..*count {
            content.extend([(content.len() as u64 / PAGE + 1) as u8; PAGE_SIZE]);
        }
        at += bytes;
    }
    out.extend(content);
    out
}

fn lime(ranges: &[(u64, u64)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (n, (first, bytes)) in (1..).zip(ranges) {
        out.extend(LIME.to_le_bytes());
        out.extend(1u32.to_le_bytes());
        for word in [*first, first + bytes - 1, 0] {
            out.extend(word.to_le_bytes());
        }
        out.resize(out.len() + *bytes as usize, n);
    }
    out
}

#[test]
fn segments_of_cores_lie_at_their_physical_addresses() {
    for is_wide in [false, true] {
        for is_big in [false, true] {
            let bytes = core(is_wide, is_big, &[(0x4000_0000, 2), (0x1000, 1)]);
            let recording = import(&bytes).unwrap();
            let expected = [(0x1000, 3), (0x4000_0000, 1), (0x4000_1000, 2)];
            assert_eq!(pages(&recording), expected, "{is_wide} {is_big}");
            assert_eq!(recording.metadata.source_pages, 3);
        }
    }
}

#[test]
fn ranges_of_lime_images_lie_at_their_addresses() {
    let bytes = lime(&[(0x1000, PAGE), (0x10_0000, 2 * PAGE)]);
    let recording = import(&bytes).unwrap();
    assert_eq!(pages(&recording), [(0x1000, 1), (0x10_0000, 2), (0x10_1000, 2)]);
    // A range that ends within a page, as a firmware leaves it.
    let recording = import(&lime(&[(0x0, 0x1c00), (0x2000, PAGE)])).unwrap();
    assert_eq!(pages(&recording), [(0, 1), (0x1000, 1), (0x2000, 2)]);
    assert_eq!(recording.memory.last().frame(1).unwrap()[0xc00], 0);
}

#[test]
fn cut_dumps_are_read_as_far_as_they_go() {
    let is_cut = |r: &Recording| {
        let mut findings = r.metadata.findings.iter();
        findings.any(|f| f.kind == FindingKind::TruncatedSection)
    };
    let bytes = core(true, false, &[(0x1000, 2)]);
    let recording = import(&bytes[..bytes.len() - PAGE_SIZE]).unwrap();
    assert_eq!(pages(&recording), [(0x1000, 1)]);
    assert!(is_cut(&recording));
    let mut bytes = lime(&[(0x1000, PAGE), (0x8000, PAGE)]);
    bytes.truncate(bytes.len() - 100);
    let recording = import(&bytes).unwrap();
    assert_eq!(pages(&recording).len(), 2);
    assert!(is_cut(&recording));
    bytes[PAGE_SIZE + 32] = 0;
    assert!(is_cut(&import(&bytes).unwrap()));
}

#[test]
fn pages_that_occur_twice_are_told() {
    let recording = import(&core(true, false, &[(0x1000, 2), (0x2000, 1)])).unwrap();
    assert_eq!(pages(&recording), [(0x1000, 1), (0x2000, 2)]);
    let mut findings = recording.metadata.findings.iter();
    assert!(findings.any(|f| f.kind == FindingKind::OverlappingRegions));
}

#[test]
fn impossible_headers_are_refused() {
    let mut reversed = lime(&[(0x1000, PAGE)]);
    reversed[16..24].copy_from_slice(&0u64.to_le_bytes());
    assert!(import(&reversed).is_err());
    let mut many = core(true, false, &[(0x1000, 1)]);
    many[56..58].copy_from_slice(&0xffffu16.to_le_bytes());
    assert!(import(&many).is_err());
    let none = core(true, false, &[]);
    let error = import(&none).unwrap_err().to_string();
    assert!(error.contains("no segment with memory"), "{error}");
}

#[test]
fn close_files_say_what_they_are() {
    let mut program = core(true, false, &[(0x1000, 1)]);
    program[16] = 2;
    for (bytes, expected) in [
        (
            program.as_slice(),
            "an ELF file that is a program (kind 2 at byte 0x10)",
        ),
        (b"KDUMP   \x06\0\0\0", "makedumpfile compressed"),
        (b"EMiL\x02\0\0\0 and more", "a LiME image of version 2"),
    ] {
        let error = import(bytes).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn page_tables_of_a_dump_are_followed_from_a_root() {
    let bytes = core(true, false, &[(0x1000, 2)]);
    let (_folder, path) = in_file(&bytes);
    let options = |root| OpenOptions {
        raw_memory: Some(crate::raw_memory::Options {
            base: None,
            root: PhysAddr::new(root),
            format: trace_core::recording::MmuFormat::Aarch64_4k,
            memattr: 0,
            gpu_id: 0,
        }),
        ..OpenOptions::default()
    };
    let recording = open(&path, &options(0x1000), &Progress::new()).and_then(Opened::into_recording);
    assert_eq!(recording.unwrap().metadata.address_spaces.len(), 1);
    let (_folder, raw) = in_file(&[1; PAGE_SIZE]);
    let error = open(&raw, &options(0x1000), &Progress::new()).and_then(Opened::into_recording);
    assert!(error.unwrap_err().to_string().contains("--base"));
}
