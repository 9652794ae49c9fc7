//! Compares imported logs of valgrind's tool mmt with the output of envytools' own reader.
//!
//! The log `mmt/accesses.mmt` is from `mmt/accesses.c` under mmt, in envytools' branch of valgrind 3.16.1.
//! `mmt/accesses.dedma.txt` is the output of envytools' `mmt_bin2dedma` for this log: one line for every four bytes of
//! an access. `grep -c '^--0000-- [rw] '` counts 188 lines, and `grep -c 'got new mmap'` counts 3.
#![allow(clippy::unwrap_used, clippy::panic)]

use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use trace_core::container;
use trace_core::finding::FindingKind;
use trace_core::progress::Progress;
use trace_core::recording::{Access, EventKind, Recording, SpaceKind};
use trace_import::ImportError;
use trace_import::mmt::{self, Kind, Tally};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mmt").join(name)
}

fn log() -> Vec<u8> {
    std::fs::read(fixture("accesses.mmt")).unwrap()
}

fn import_bytes(bytes: &[u8]) -> Result<(Recording, Tally), ImportError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mmt");
    std::fs::write(&path, bytes).unwrap();
    mmt::import_with_tally(&path, &Progress::new())
}

fn accesses(r: &Recording) -> Vec<Access> {
    r.events.accesses(0..r.events.len()).map(|(_, a)| a).collect()
}

/// Returns the accesses in pieces of at most four bytes, like the reference.
fn words(accesses: &[Access]) -> Vec<(bool, u64, u8, u64)> {
    let pieces = |a: &Access| match a.width {
        8 => vec![
            (a.write, u64::from(a.offset.get()), 4, a.value & 0xffff_ffff),
            (a.write, u64::from(a.offset.get()) + 4, 4, a.value >> 32),
        ],
        width => vec![(a.write, u64::from(a.offset.get()), width, a.value)],
    };
    accesses.iter().flat_map(pieces).collect()
}

/// Returns the accesses of the reference, with offsets from the start of the mapped file.
fn reference() -> Vec<(bool, u64, u8, u64)> {
    let text = std::fs::read_to_string(fixture("accesses.dedma.txt")).unwrap();
    let hex = |t: &str| u64::from_str_radix(t.trim().trim_start_matches("0x"), 16).unwrap();
    let mut offsets = std::collections::BTreeMap::new();
    let mut out = Vec::new();
    for line in text.lines().filter_map(|l| l.strip_prefix("--0000-- ")) {
        if let Some(map) = line.strip_prefix("got new mmap at ") {
            let offset = map.split_once("offset: ").unwrap().1.split_once(',').unwrap().0;
            let id = map.split_once("serial: ").unwrap().1.split_once(',').unwrap().0;
            offsets.insert(id.to_owned(), hex(offset));
        }
        let Some((way, rest)) = line.split_once(' ').filter(|(w, _)| ["r", "w"].contains(w)) else {
            continue;
        };
        let (id, rest) = rest.split_once(':').unwrap();
        let (offset, value) = rest.split_once(',').unwrap();
        let width = (value.trim().len() as u8 - 2) / 2;
        out.push((way == "w", offsets[id] + hex(offset), width, hex(value)));
    }
    out
}

#[test]
fn mmt_log_accesses_match_an_independent_reader() {
    let path = fixture("accesses.mmt");
    let (r, tally) = mmt::import_with_tally(&path, &Progress::new()).unwrap();
    let reference = reference();
    assert_eq!(reference.len(), 188);
    assert_eq!(words(&accesses(&r)), reference);
    // The program makes 6 stores, 100 stores of squares, a store across the end of a page, and a store after the move.
    // It makes 6 loads, 50 loads of squares, and a load of the last byte of a range. One more load is by an instruction
    // that also stores, and the tool does not record that store.
    let count = |kind| tally.records.get(&kind).copied().unwrap_or(0);
    assert_eq!((count(Kind::Write), count(Kind::Read)), (108, 58));
    assert_eq!((tally.wide, tally.pieces), (4, 12));
    let events = |kind: EventKind| r.events.kind.iter().filter(|k| *k == kind as u8).count();
    assert_eq!((events(EventKind::Write), events(EventKind::Read)), (108 + 4, 58 + 4));
    assert_eq!(
        [Kind::Open, Kind::Map, Kind::Remap, Kind::Unmap, Kind::Duplicate].map(count),
        [1, 3, 1, 1, 1]
    );
    assert_eq!(
        [Kind::IoctlBefore, Kind::IoctlAfter, Kind::Memory, Kind::Printed].map(count),
        [1, 1, 6, 1]
    );
    // All mappings of the file are one space of 0x6000 bytes.
    let spaces: Vec<_> = r
        .metadata
        .spaces
        .iter()
        .map(|s| (s.name.as_str(), s.kind, s.bytes))
        .collect();
    assert_eq!(spaces, [("window.bin", SpaceKind::Registers, 0x6000)]);
    assert_eq!(r.metadata.identity.tool, "valgrind 3.16.1, mmt");
    let kinds: Vec<_> = r.metadata.findings.iter().map(|f| f.kind).collect();
    assert_eq!(
        kinds,
        [FindingKind::Assumed, FindingKind::Assumed],
        "{:?}",
        r.metadata.findings
    );
    // The log is detected by its content, and the import round-trips through a file.
    assert_eq!(accesses(&crate::open(&path)), accesses(&r));
    let reopened = container::from_bytes(container::to_bytes(&r).unwrap()).unwrap();
    assert_eq!((&reopened.metadata, accesses(&reopened)), (&r.metadata, accesses(&r)));
}

#[test]
fn mmt_records_without_access_become_marks() {
    let (r, _) = import_bytes(&log()).unwrap();
    let notes: Vec<&str> = r.events.marks.iter().map(String::as_str).collect();
    let at = |text: &str| {
        notes
            .iter()
            .position(|n| n.starts_with(text))
            .unwrap_or_else(|| panic!("{text}: {notes:?}"))
    };
    assert!(notes[3].ends_with("Command: ./accesses"), "{}", notes[3]);
    let opened = at("open window.bin, flags 0x242, mode 0x1a4, fd 0x4");
    assert!(notes[opened + 1].starts_with("mmap window.bin, offset 0x0, prot 0x3, flags 0x1, fd 0x4, id 0x1"));
    let before = at("ioctl 0xc0406400 (d 0x0) of window.bin, 64 bytes: 00000001 00000002 00000003 00000000");
    // The argument of the ioctl points to a memory record with the text `name`.
    assert!(
        notes[before + 1].starts_with("memory at 0x") && notes[before + 1].ends_with(", 8 bytes: 656d616e 00000000")
    );
    let after = at("ioctl done 0xc0406400 (d 0x0) of window.bin, error 25, 64 bytes");
    assert_eq!(after, before + 4);
    assert_eq!(at("dup fd 0x4, as 0x5"), after + 4);
    assert!(notes[at("mremap")].ends_with("start 0x4804000, bytes 0x4000"));
    assert_eq!(
        notes[notes.len() - 2],
        "the program to standard output: sum 0x88776655887a002c, ioctl -1"
    );
}

#[test]
fn gzip_log_imports_equally_and_damage_is_reported() {
    let log = log();
    let complete = import_bytes(&log).unwrap().0;
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(&log).unwrap();
    let packed = packer.finish().unwrap();
    assert_eq!(accesses(&import_bytes(&packed).unwrap().0), accesses(&complete));
    let describe = |bytes: &[u8]| -> (usize, Vec<String>) {
        let (r, _) = import_bytes(bytes).unwrap();
        let truncated = r
            .metadata
            .findings
            .iter()
            .filter(|f| f.kind == FindingKind::TruncatedSection);
        (
            accesses(&r).len(),
            truncated.map(|f| format!("{}: {}", f.place, f.message)).collect(),
        )
    };
    let (count, messages) = describe(&packed[..packed.len() - 200]);
    assert!(
        count < 174 && messages[0].contains("cannot be decompressed further"),
        "{count} {messages:?}"
    );
    let first = log.windows(2).position(|w| w == b"\nw").unwrap() + 1;
    let (count, messages) = describe(&log[..first + 5]);
    assert_eq!(
        (count, messages),
        (
            0,
            vec![format!(
                "byte {first:#x}: the log ends within a record, after 5 of its bytes"
            )]
        )
    );
    let mut damaged = log.clone();
    damaged[first] = b'q';
    let (_, messages) = describe(&damaged);
    assert_eq!(messages, [format!("byte {first:#x}: no record begins with 0x71")]);
}

#[test]
fn invalid_mmt_logs_are_refused_with_an_offset() {
    for (bytes, message) in [
        (&b""[..], "the log has no records"),
        (b"==1== mmaptrace, an MMAP tracer\n", "the log has no records"),
        (
            b"==1== mmaptrace, an MMAP tracer\nx",
            "byte 0x20: the log ends within a record",
        ),
        (b"\x7fELF", "byte 0x0: no record begins with 0x7f"),
    ] {
        let error = import_bytes(bytes).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn mmt_log_is_recognized_with_and_without_banner() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.log");
    let fits = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        mmt::fits(&path)
    };
    let log = log();
    let opened = log.windows(2).position(|w| w == b"\no").unwrap() + 1;
    assert!(fits(&log) && fits(&log[opened..]) && fits(&log[opened..].repeat(20)));
    assert!(!fits(b"==1== Memcheck, a memory error detector\n==1== Command: ./a\n"));
    assert!(!fits(b"") && !fits(b"-- notes --\nopen it\n") && !fits(&log[opened + 1..]));
}

#[test]
fn mmt_records_of_older_releases_are_parsed() {
    let mut log = Vec::new();
    let mut put = |code: &[u8], parts: &[&[u8]]| {
        log.extend_from_slice(code);
        parts.iter().for_each(|p| log.extend_from_slice(p));
        log.push(b'\n');
    };
    let (w, l) = (|n: u32| n.to_le_bytes(), |n: u64| n.to_le_bytes());
    // The log has a range without a file, an object and its mapping, marks, and data.
    put(b"m", &[&l(0x1000), &w(1), &l(0x7000), &l(0x1000)]);
    put(b"nc", &[&w(1), &w(2), &w(0x906f), &w(4), b"GPU\0"]);
    put(b"nm", &[&l(0xf600_0000), &w(2), &l(0x9000), &l(0x1000), &l(1), &l(2)]);
    put(b"ni", &[&w(3), &w(0xc020_462a), &w(300), &[0xab; 300]]);
    put(b"no", &[&l(0x5000), &w(4), b"ptr\0", &w(5), &[1, 2, 3, 4, 5]]);
    put(b"nk", &[&w(8), b"VG-1-PRE"]);
    put(b"S", &[&w(7)]);
    put(b"s", &[&w(6), b"@0040\0"]);
    put(b"r", &[&w(1), &w(8), &[4], &w(0x1234)]);
    put(b"W", &[&l(0x9010), &[3], &[1, 2, 3]]);
    put(b"R", &[&l(0x1f_ff00_0000), &[1], &[9]]);
    put(b"w", &[&w(77), &w(0), &[0]]);
    put(b"w", &[&w(77), &w(4), &[1], &[5]]);
    let (r, tally) = import_bytes(&log).unwrap();
    let messages: Vec<_> = accesses(&r)
        .iter()
        .map(|a| {
            let space = &r.metadata.spaces[usize::from(a.space)].name;
            format!(
                "{} {space} {:#x} {} {:#x}",
                if a.write { "w" } else { "r" },
                a.offset,
                a.width,
                a.value
            )
        })
        .collect();
    assert_eq!(
        messages,
        [
            "r mapped 0x1008 4 0x1234",
            "w mapped 0xf6000010 2 0x201",
            "w mapped 0xf6000012 1 0x3",
            "r memory+0x1f00000000 0xff000000 1 0x9",
            "w range 77 0x4 1 0x5"
        ]
    );
    let notes = &r.events.marks;
    assert_eq!(notes[1], "create object GPU object1 0x1, object2 0x2, class 0x906f");
    assert!(notes[3].starts_with("ioctl 0xc020462a (F 0x2a), 300 bytes: abababab") && notes[3].ends_with(" …"));
    assert_eq!(notes[4], "memory ptr at 0x5000, 5 bytes: 04030201 05");
    assert_eq!(notes[5], "mmiotrace mark VG-1-PRE");
    assert_eq!((tally.carried, tally.noted), (305, 261));
    let messages: Vec<&str> = r
        .metadata
        .findings
        .iter()
        .filter(|f| f.kind == FindingKind::NotUsed)
        .map(|f| f.message.as_str())
        .collect();
    assert_eq!(
        messages,
        [
            "44 of 305 bytes that ioctls carry or point to were not imported: a note has only the first 256",
            "1 accesses have no bytes; they were not imported",
            "1 instruction addresses have no counterpart in a recording; they were not imported",
            "1 synchronization marks have no meaning after the run; they were not imported"
        ]
    );
}

#[test]
fn import_can_be_cancelled_and_reports_progress() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mmt");
    std::fs::write(&path, log().repeat(100)).unwrap();
    let progress = Progress::new();
    mmt::import(&path, &progress).unwrap();
    assert!(progress.fraction().unwrap() > 0.99, "{:?}", progress.fraction());
    progress.cancel();
    assert!(matches!(mmt::import(&path, &progress), Err(ImportError::Cancelled(_))));
}
