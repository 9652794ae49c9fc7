//! Tests of damage that is detected on use. After a change of any byte of a section, each value read is the original
//! value or missing, and the damage names the section. The tests cover both versions of the format, on generated
//! recordings and on samples.

use crate::container::generate::{Numbers, assert_same, recording, records};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use trace_core::Recording;
use trace_core::container::{self, ContainerError, KineFile, MemorySink, SectionInfo, Writer};
use trace_core::progress::Progress;
use trace_core::recording::{Column, Metadata, PageId, SectionKind};
use trace_core::timeline::{self, Pyramid, Timeline};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns a recording as a file of a version, with derived data.
fn to_bytes(version: u32, r: &Recording) -> Vec<u8> {
    let mut w = match version {
        1 => Writer::begin_without_blocks(MemorySink::default()).unwrap(),
        _ => Writer::begin(MemorySink::default()).unwrap(),
    };
    w.put(r).unwrap();
    let map = trace_core::registers::RegisterMap::built_in_for(r);
    let pyramid = Pyramid::build(r, map, &Progress::new()).unwrap();
    w.derived(
        timeline::PYRAMID_SECTION,
        timeline::PYRAMID_VERSION,
        &pyramid.to_bytes(),
    )
    .unwrap();
    if let Some(map) = map {
        let timeline = timeline::derive(r, map, &Progress::new()).unwrap();
        w.derived(timeline::SECTION, timeline::ANALYSIS_VERSION, &timeline.to_bytes())
            .unwrap();
    }
    w.commit().unwrap();
    w.into_sink().bytes
}

/// Checks that each value of `b` is the value of `a` or missing, and returns whether no value is missing.
fn column_agrees<T: bytemuck::Pod + PartialEq + std::fmt::Debug>(name: &str, a: &Column<T>, b: &Column<T>) -> bool {
    assert_eq!(a.len(), b.len(), "{name}");
    let mut complete = true;
    for (row, (original, opened)) in a.iter().zip(b.iter()).enumerate() {
        if opened != original {
            assert!(b.is_damaged(row), "row {row} of {name} is {opened:?}, not {original:?}");
        }
        if row % 7 == 0 || opened != original {
            match b.get(row) {
                Some(v) => assert_eq!(v, original, "row {row} of {name}"),
                None => assert!(b.is_damaged(row), "row {row} of {name}"),
            }
        }
        complete &= !b.has_damage() || !b.is_damaged(row);
    }
    let rows: usize = b.parts(0..b.len()).map(|p| p.rows()).sum();
    assert_eq!(rows, b.len(), "{name}");
    complete
}

/// Checks that all data of a damaged recording are the original data or missing, and returns whether no data are
/// missing.
fn agrees(original: &Recording, opened: &Recording) -> bool {
    let mut complete = true;
    macro_rules! columns {
        ($($name:ident),*) => {$(
            complete &= column_agrees(stringify!($name), &original.events.$name, &opened.events.$name);
        )*};
    }
    columns!(
        kind,
        space,
        time,
        thread,
        payload,
        offset,
        width,
        value,
        interrupts,
        submits,
        host_writes,
        undecoded,
        dma_maps,
        launches,
        copies,
        fills,
        orders,
        allocations,
        calls,
        objects,
        ring_entries,
        saved_memory,
        call_bytes,
        call_pages
    );
    for (event, access) in opened.events.accesses(0..opened.events.len()) {
        assert_eq!(original.events.access(event), Some(access), "event {event}");
    }
    for event in 0..opened.events.len() {
        let (a, b) = (original.events.access(event), opened.events.access(event));
        assert!(
            a == b || b.is_none() && opened.events.is_damaged(event),
            "event {event}: {b:?}"
        );
        let call = opened.events.call(event);
        assert!(call.is_none() || call == original.events.call(event), "event {event}");
    }
    for id in (0..=original.memory.pages.len() as u32).map(PageId) {
        match opened.memory.pages.page(id) {
            Some(page) => assert_eq!(Some(page), original.memory.pages.page(id), "{id:?}"),
            None => complete = false,
        }
    }
    let missing = |same: bool, empty: bool| {
        assert!(same || empty);
        same
    };
    let (a, b) = (&original.memory.snapshots, &opened.memory.snapshots);
    complete &= missing(a == b, b.is_empty());
    // The record `facts`, and each record besides it, is the original one or missing.
    let facts = |m: &Metadata| trace_core::encode::to_bytes(m).unwrap();
    let opened_facts = facts(&opened.metadata);
    complete &= missing(
        facts(&original.metadata) == opened_facts,
        opened_facts == facts(&Metadata::default()),
    );
    let (a, b) = (records(&original.metadata), records(&opened.metadata));
    assert!(b.iter().all(|record| a.contains(record)), "{b:?}");
    complete &= a.len() == b.len();
    complete &= missing(
        original.events.marks == opened.events.marks,
        opened.events.marks.is_empty(),
    );
    for (name, bytes) in &opened.extras {
        assert_eq!(original.extras.get(name), Some(bytes), "{name}");
    }
    complete && opened.extras.len() == original.extras.len()
}

/// Flips a bit, reads all data, and checks the reported damage.
fn flip(bytes: &[u8], original: &Recording, at: usize, bit: u32, section: &SectionInfo) {
    let mut damaged = bytes.to_vec();
    damaged[at] ^= 1 << bit;
    let text = format!("bit {bit} of byte {at:#x} in {section:?}");
    let file = KineFile::from_bytes(damaged.clone()).unwrap();
    let opened = file.recording().unwrap();
    let complete = agrees(original, &opened);
    let derived = |file: &KineFile| {
        let map = trace_core::registers::RegisterMap::built_in_for(&opened);
        let pyramid = Pyramid::stored(file, &opened, map).unwrap().map(|p| p.to_bytes());
        (Timeline::read_from(file).unwrap().map(|t| t.to_bytes()), pyramid)
    };
    let (timeline, pyramid) = derived(&file);
    let kind = section.kind.unwrap();
    let is_expected = |b: &trace_core::recording::DamagedBlock| b.kind == kind || b.kind == SectionKind::PageImages;
    let blocks = opened.damage.blocks();
    if kind == SectionKind::Derived {
        // Damaged derived data read as missing, so that they are computed again, or as unchanged.
        let expected = derived(&KineFile::from_bytes(bytes.to_vec()).unwrap());
        assert!(timeline.is_none() || timeline == expected.0, "{text}");
        assert!(pyramid.is_none() || pyramid == expected.1, "{text}");
        assert!(complete && !opened.damage.has_damage(), "{text}: {blocks:?}");
    } else if complete {
        // Page images have their own digests, so a change in their block table is not used.
        assert!(blocks.is_empty(), "{text}: {blocks:?}");
        assert!(
            kind == SectionKind::PageImages && !(section.offset..section.offset + section.bytes).contains(&(at as u64)),
            "{text} is not reported"
        );
    } else {
        assert!(
            !blocks.is_empty() && blocks.iter().all(is_expected),
            "{text}: {blocks:?}"
        );
        // The damage names the block that contains the byte, or gives a reason.
        assert!(
            blocks
                .iter()
                .any(|b| b.bytes.contains(&(at as u64)) || b.reason.is_some()),
            "{text}: {blocks:?}"
        );
        assert!(
            matches!(container::to_bytes(&opened), Err(ContainerError::DamagedSource(_))),
            "{text}: a damaged recording is written"
        );
        assert!(container::from_bytes(damaged.clone()).is_err(), "{text}");
    }
    let report = container::verify_bytes(damaged).unwrap();
    assert!(!report.is_sound(), "{text}");
    assert!(
        report.findings.iter().any(|p| p.message.contains(kind.name())),
        "{text}: {report:?}"
    );
}

/// Returns offsets in each section: the first and last byte, the block table, and random offsets.
fn offsets_in_sections(file: &KineFile, count: usize, n: &mut Numbers) -> Vec<(usize, SectionInfo)> {
    let mut all = Vec::new();
    for s in file.sections().into_iter().filter(|s| s.bytes > 0) {
        let mut at: Vec<u64> = vec![s.offset, s.offset + s.bytes - 1];
        at.extend((0..count).map(|_| s.offset + n.below(s.bytes)));
        if s.blocks_at > 0 {
            let table = s.bytes.div_ceil(64 << 10) * 40;
            at.extend([s.blocks_at, s.blocks_at + 32, s.blocks_at + 36, s.blocks_at + table - 1]);
        }
        all.extend(at.into_iter().map(|at| (at as usize, s.clone())));
    }
    all
}

#[test]
fn bit_flip_in_either_version_is_reported_or_unused() {
    for version in [1, 2] {
        let r = recording(3, 400);
        let bytes = to_bytes(version, &r);
        let file = KineFile::from_bytes(bytes.clone()).unwrap();
        assert_eq!(file.version(), version);
        let kinds: std::collections::BTreeSet<u32> = file.sections().iter().map(|s| s.number).collect();
        assert!(kinds.len() >= 24, "{kinds:?}");
        let mut n = Numbers::new(41);
        for (at, section) in offsets_in_sections(&file, 12, &mut n) {
            flip(&bytes, &r, at, n.below(8) as u32, &section);
        }
    }
}

#[test]
fn bit_flip_in_a_small_file_is_reported_or_unused() {
    assert!(flip_small_file(11) > 100);
}

#[test]
#[ignore = "make test-full: flips a bit of every byte of the small sections"]
fn bit_flip_at_any_byte_is_reported_or_unused() {
    assert!(flip_small_file(1) > 1000);
}

/// Flips a bit in every `stride`-th byte of the small sections, which all have one block. Returns the number of flips.
fn flip_small_file(stride: usize) -> usize {
    let mut flips = 0;
    for version in [1, 2] {
        let r = recording(3, 12);
        let bytes = to_bytes(version, &r);
        let file = KineFile::from_bytes(bytes.clone()).unwrap();
        for s in file.sections().into_iter().filter(|s| s.bytes > 0) {
            let step = if s.bytes > 600 { 37 } else { 1 };
            for at in (s.offset..s.offset + s.bytes).step_by(step * stride) {
                flip(&bytes, &r, at as usize, (at % 8) as u32, &s);
                flips += 1;
            }
            if s.blocks_at > 0 {
                for at in (s.blocks_at..s.blocks_at + 40).step_by(stride) {
                    flip(&bytes, &r, at as usize, (at % 8) as u32, &s);
                    flips += 1;
                }
            }
        }
    }
    flips
}

#[test]
fn bit_flip_in_a_sample_is_reported_or_unused() {
    let mut samples: Vec<PathBuf> = std::fs::read_dir(root().join("sample-traces"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "kine"))
        .collect();
    samples.sort();
    assert!(samples.len() >= 15, "{samples:?}");
    for path in samples {
        let original = container::open(&path).unwrap();
        for version in [1, 2] {
            let bytes = to_bytes(version, &original);
            let file = KineFile::from_bytes(bytes.clone()).unwrap();
            let mut n = Numbers::new(bytes.len() as u64);
            for (at, section) in offsets_in_sections(&file, 2, &mut n) {
                flip(&bytes, &original, at, n.below(8) as u32, &section);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// In a section of several blocks, a flipped bit loses only the rows of its block.
    #[test]
    fn bit_flip_loses_only_its_block(seed in 0u64..50, position in 0.0f64..1.0, bit in 0u32..8) {
        let r = recording(seed, 9_000);
        let bytes = to_bytes(2, &r);
        let file = KineFile::from_bytes(bytes.clone()).unwrap();
        let times = file.sections().into_iter().find(|s| s.kind == Some(SectionKind::EventTime)).unwrap();
        prop_assert!(times.bytes > 64 << 10);
        let at = times.offset + (position * (times.bytes - 1) as f64) as u64;
        flip(&bytes, &r, at as usize, bit, &times);
        let mut damaged = bytes;
        damaged[at as usize] ^= 1 << bit;
        let opened = KineFile::from_bytes(damaged).unwrap().recording().unwrap();
        let block = (at - times.offset) >> 16;
        for row in 0..r.events.len() {
            prop_assert_eq!(opened.events.time.get(row).is_none(), (row as u64 * 8) >> 16 == block);
        }
        let damaged_block = opened.damage.first().unwrap();
        let rows = block * 8192..((block + 1) * 8192).min(r.events.len() as u64);
        prop_assert_eq!(opened.damaged_events(&damaged_block), Some(rows));
    }
}

/// Opening reads only the metadata: unused sections are not read.
#[test]
fn unused_sections_are_not_verified() {
    let r = recording(5, 9_000);
    let mut bytes = to_bytes(2, &r);
    let file = KineFile::from_bytes(bytes.clone()).unwrap();
    let values = file
        .sections()
        .into_iter()
        .find(|s| s.kind == Some(SectionKind::AccessValue));
    bytes[values.unwrap().offset as usize] ^= 1;
    let opened = KineFile::from_bytes(bytes).unwrap().recording().unwrap();
    assert_eq!(opened.events.kind.iter().count(), r.events.len());
    assert_eq!(opened.damage.count(), 0);
    assert_eq!(opened.events.value.get(0), None);
    assert_eq!(opened.damage.count(), 1);
    let damaged_block = opened.find_damage(&Progress::new()).unwrap().unwrap();
    assert_eq!(
        (damaged_block.kind, damaged_block.block),
        (SectionKind::AccessValue, Some(0))
    );
    let events = opened.damaged_events(&damaged_block).unwrap();
    let first = (0..r.events.len()).find(|e| r.events.access(*e).is_some()).unwrap();
    assert_eq!(events.start, first as u64);
}

/// A replaced file keeps its old contents for open recordings. If a file is overwritten in place, blocks that were not
/// read before are damaged.
#[test]
fn file_changed_while_open_reads_old_or_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("open.kine");
    let r = recording(5, 9_000);
    let bytes = to_bytes(2, &r);
    std::fs::write(&path, &bytes).unwrap();
    let opened = container::open(&path).unwrap();
    assert_eq!(opened.events.time.get(0), r.events.time.get(0));
    // A rename replaces the file. Changes in the new file do not affect the open file.
    let other = folder.path().join("other.kine");
    let mut flipped = bytes.clone();
    for b in flipped.iter_mut().skip(4096).step_by(11) {
        *b ^= 0x11;
    }
    std::fs::write(&other, &flipped).unwrap();
    std::fs::rename(&other, &path).unwrap();
    assert_same(&r, &opened);
    assert_eq!(opened.damage.count(), 0);
    // The file is overwritten in place after the first block of times was read.
    std::fs::write(&path, &bytes).unwrap();
    let opened = container::open(&path).unwrap();
    assert_eq!(opened.events.time.get(0), r.events.time.get(0));
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &flipped[4096..], 4096).unwrap();
    assert_eq!(opened.events.time.get(r.events.len() - 1), None);
    assert_eq!(opened.events.kind.get(5), None);
    assert!(opened.damage.has_damage());
    assert!(opened.memory.pages.page(PageId(1)).is_none());
}

#[test]
fn writing_damaged_data_to_a_new_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from.kine"), folder.path().join("to.kine"));
    let r = recording(5, 9_000);
    for version in [1, 2] {
        let bytes = to_bytes(version, &r);
        let file = KineFile::from_bytes(bytes.clone()).unwrap();
        for s in file.sections().into_iter().filter(|s| s.bytes > 0) {
            if s.kind == Some(SectionKind::Derived) {
                continue;
            }
            let mut damaged = bytes.clone();
            damaged[(s.offset + s.bytes / 2) as usize] ^= 4;
            std::fs::write(&from, &damaged).unwrap();
            let opened = container::open(&from).unwrap();
            for error in [
                container::write(&opened, &to, &Progress::new()).unwrap_err(),
                timeline::write(&opened, &to, &Progress::new()).unwrap_err(),
            ] {
                let text = error.to_string();
                // Page images with damaged digests count as damaged, too.
                let images = s.kind == Some(SectionKind::PageDigests) && text.contains("page-images");
                assert!(images || text.contains(s.kind.unwrap().name()), "{text}");
                assert!(text.contains("kinescope verify"), "{text}");
                assert!(!to.exists() && error.is_damage());
            }
        }
    }
}
