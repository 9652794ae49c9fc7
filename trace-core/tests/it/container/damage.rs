//! Tests of damaged and hostile files: truncation, flipped bits, cyclic links, invalid tables.

use crate::container::generate::{Numbers, assert_same, recording};
use trace_core::Recording;
use trace_core::container::{self, ContainerError, KineFile, MemorySink, Writer};
use trace_core::finding::FindingKind;
use trace_core::progress::Progress;
use trace_core::recording::{PageId, SectionKind};

/// Returns a file of three commits, with the end and the recording of each commit.
fn three_commits() -> (Vec<u8>, Vec<(u64, Recording)>) {
    let mut w = Writer::begin(MemorySink::default()).unwrap();
    let mut commits = Vec::new();
    let mut complete = recording(2, 6);
    let events = complete.events.clone();
    let pages = complete.memory.clone();
    complete.memory = Default::default();
    for n in [2, 4] {
        let mut part = complete.clone();
        part.events = first_events(&complete, n);
        w.put(&part).unwrap();
        commits.push((w.commit().unwrap().end, part));
    }
    complete.events = events;
    complete.memory = pages;
    complete.extras.insert("more".to_owned(), vec![1, 2, 3]);
    w.put(&complete).unwrap();
    commits.push((w.commit().unwrap().end, complete));
    (w.into_sink().bytes, commits)
}

/// Returns the first `n` events with the rows that they reference.
fn first_events(r: &Recording, n: usize) -> trace_core::recording::Events {
    use trace_core::recording::{EventKind, EventsBuilder};
    let mut b = EventsBuilder::new();
    let e = &r.events;
    for i in 0..n {
        let time = e.time.get(i).unwrap();
        let row = e.payload.get(i).unwrap() as usize;
        match e.kind(i).unwrap() {
            EventKind::Read | EventKind::Write => b.access(time, e.thread.get(i).unwrap(), e.access(i).unwrap()),
            EventKind::Interrupt => b.interrupt(time, e.interrupts.get(row).unwrap()),
            EventKind::Submit => b.submit(time, e.submits.get(row).unwrap()),
            EventKind::HostWrite => b.host_write(time, e.thread.get(i).unwrap(), e.host_writes.get(row).unwrap()),
            EventKind::Undecoded => {
                let (thread, space) = (e.thread.get(i).unwrap(), e.space.get(i).unwrap());
                b.undecoded(time, thread, space, e.undecoded(i).unwrap());
            }
            EventKind::DmaMap => b.dma_map(time, e.thread.get(i).unwrap(), e.dma_map(i).unwrap()),
            EventKind::Mark => b.mark(time, e.marks[row].clone()),
            _ => b.push_call(time, e.thread.get(i).unwrap(), e.call(i).unwrap()),
        }
    }
    b.finish()
}

/// Opens bytes like a file on disk, whose blocks are verified on first use.
fn open_lazily(bytes: Vec<u8>) -> Result<Recording, ContainerError> {
    KineFile::from_bytes(bytes)?.recording()
}

/// Reads the events, pages and snapshots of a recording.
fn read_all(r: &Recording) -> u64 {
    let mut sum = r.span_ns();
    for i in 0..r.events.len() {
        sum = sum.wrapping_add(r.events.access(i).map_or(1, |a| a.value));
        sum = sum.wrapping_add(r.events.interrupt(i).map_or(1, |a| u64::from(a.status)));
    }
    for i in 0..=r.memory.pages.len() as u32 {
        sum = sum.wrapping_add(r.memory.pages.page(PageId(i)).map_or(0, |p| u64::from(p[7])));
    }
    for s in r.memory.snapshots.iter() {
        sum = sum.wrapping_add(r.memory.at(s.event).page_id(101).map_or(0, |p| u64::from(p.0)));
    }
    sum
}

#[test]
fn truncated_file_opens_at_its_last_commit_or_reports_why() {
    let (bytes, commits) = three_commits();
    // The test truncates at every byte near the end of a commit, and at samples elsewhere.
    let near = |cut: &usize| commits.iter().any(|(end, _)| end.abs_diff(*cut as u64) <= 130);
    open_truncated(
        &bytes,
        &commits,
        (0..=bytes.len()).filter(|cut| cut % 23 == 0 || near(cut)),
    );
}

#[test]
#[ignore = "make test-full: truncates at every byte"]
fn file_truncated_at_any_byte_opens_at_its_last_commit_or_reports_why() {
    let (bytes, commits) = three_commits();
    open_truncated(&bytes, &commits, 0..=bytes.len());
}

fn open_truncated(bytes: &[u8], commits: &[(u64, Recording)], cuts: impl Iterator<Item = usize>) {
    assert_eq!(commits.last().unwrap().0, bytes.len() as u64);
    for cut in cuts {
        let before = commits.iter().rev().find(|(end, _)| *end <= cut as u64);
        match (container::from_bytes(bytes[..cut].to_vec()), before) {
            (Ok(r), Some((_, expected))) => assert_same(expected, &r),
            (Err(ContainerError::NoCommit { .. }), None) => {}
            (Err(ContainerError::NotKine { .. }), None) => assert_eq!(cut, 0),
            (got, expected) => panic!("cut at {cut}: {got:?}, expected {:?}", expected.map(|e| e.0)),
        }
    }
}

#[test]
fn truncated_file_on_disk_opens_at_its_last_commit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.kine");
    let (bytes, commits) = three_commits();
    for (i, (end, expected)) in commits.iter().enumerate() {
        for (more, open) in [
            (0, true),
            (1, true),
            (700, true),
            (-1i64, false),
            (-127, false),
            (-128, false),
        ] {
            let cut = (*end as i64 + more).min(bytes.len() as i64) as usize;
            std::fs::write(&path, &bytes[..cut]).unwrap();
            let got = container::open(&path);
            match (open, i) {
                (true, _) => assert_same(expected, &got.unwrap()),
                (false, 0) => assert!(matches!(got, Err(ContainerError::NoCommit { .. }))),
                (false, _) => assert_same(&commits[i - 1].1, &got.unwrap()),
            }
        }
    }
    let error = container::open(&folder.path().join("none.kine"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("none.kine"), "{error}");
    assert!(container::open(folder.path()).is_err(), "a folder opens as a file");
}

#[test]
fn garbage_after_the_last_commit_is_ignored_and_preserved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("torn.kine");
    let (bytes, commits) = three_commits();
    let (end, expected) = &commits[1];
    let mut torn = bytes[..*end as usize].to_vec();
    let mut n = Numbers::new(5);
    torn.extend((0..3_000_000).map(|_| n.next() as u8));
    std::fs::write(&path, &torn).unwrap();
    let file = KineFile::open(&path).unwrap();
    assert_eq!((file.commit(), file.committed_bytes()), (2, *end));
    assert_eq!(file.trailing_bytes(), 3_000_000);
    assert_same(expected, &file.recording().unwrap());
    // The lost bytes are a finding, until an append makes the file complete again.
    let findings = || trace_core::check::check_file(&path, &Progress::new()).unwrap();
    let is_lost =
        |f: &trace_core::finding::Finding| f.kind == FindingKind::LostEvents && f.message.contains("3000000 bytes");
    assert!(matches!(&findings()[..], [f] if is_lost(f)), "{:?}", findings());
    container::append(&commits[2].1, &path, &Default::default()).unwrap();
    assert_same(&commits[2].1, &container::open(&path).unwrap());
    assert_eq!(
        std::fs::read(&path).unwrap()[..torn.len()],
        torn,
        "the append changes existing bytes"
    );
    assert_eq!(container::verify(&path).unwrap().findings, []);
    assert_eq!(findings(), []);
}

#[test]
fn flipped_bits_never_panic_and_verify_finds_each() {
    assert!(flip_bits(2_000) > 100);
}

#[test]
#[ignore = "make test-full: flips 20,000 bits"]
fn many_flipped_bits_never_panic_and_verify_finds_each() {
    assert!(flip_bits(20_000) > 1000);
}

/// Flips random bits, and returns how many of them are covered by a digest.
fn flip_bits(rounds: u32) -> u64 {
    let (bytes, _) = three_commits();
    let file = KineFile::from_bytes(bytes.clone()).unwrap();
    let covered = |at: u64| {
        let table = |s: &container::SectionInfo| s.blocks_at..s.blocks_at + s.bytes.div_ceil(64 << 10) * 40;
        file.sections()
            .iter()
            .any(|s| (s.offset..s.offset + s.bytes).contains(&at) || s.bytes > 0 && table(s).contains(&at))
    };
    let mut n = Numbers::new(9);
    let mut detected = 0;
    for _ in 0..rounds {
        let at = n.below(bytes.len() as u64);
        let mut damaged = bytes.clone();
        damaged[at as usize] ^= 1 << n.below(8);
        if let Ok(r) = open_lazily(damaged.clone()) {
            read_all(&r);
        }
        let report = container::verify_bytes(damaged);
        if covered(at) {
            let report = report.unwrap();
            assert!(!report.is_sound(), "a flip at byte {at:#x} is not detected");
            assert!(
                report.findings.iter().any(|p| p.byte <= at && at < p.byte + 0x100000),
                "byte {at:#x}: {:?}",
                report.findings
            );
            detected += 1;
        }
    }
    detected
}

#[test]
fn bytes_at_random_and_many_flips_never_panic() {
    let (bytes, _) = three_commits();
    let mut n = Numbers::new(10);
    for round in 0..3000 {
        let mut damaged = bytes.clone();
        for _ in 0..n.below(60) {
            let at = n.below(bytes.len() as u64) as usize;
            damaged[at] = n.next() as u8;
        }
        damaged.truncate(n.below(bytes.len() as u64 + 1) as usize);
        if let Ok(r) = open_lazily(damaged.clone()) {
            read_all(&r);
        }
        let _ = container::verify_bytes(damaged);
        let noise: Vec<u8> = (0..n.below(9000)).map(|_| n.next() as u8).collect();
        assert!(container::from_bytes(noise).is_err(), "round {round}");
    }
}

/// Changes a table entry of the only commit and updates the digests, as a hostile writer would.
fn forge_entry(bytes: &[u8], kind: SectionKind, field: usize, value: u64) -> Vec<u8> {
    let mut b = bytes.to_vec();
    let record = b.len() - 128;
    let word = |b: &[u8], at: usize| u64::from_le_bytes(b[at..at + 8].try_into().unwrap());
    let (table, len) = (word(&b, record + 24) as usize, word(&b, record + 32) as usize);
    let entry = (table..table + len)
        .step_by(96)
        .find(|at| b[*at..*at + 4] == (kind as u32).to_le_bytes())
        .expect("the table has no section of this kind");
    let size = if (8..48).contains(&field) || field == 56 { 8 } else { 4 };
    b[entry + field..entry + field + size].copy_from_slice(&value.to_le_bytes()[..size]);
    seal(&mut b, record, table, len);
    b
}

/// Updates the digests of the table and of the record.
fn seal(b: &mut [u8], record: usize, table: usize, len: usize) {
    let d = *blake3::hash(&b[table..table + len]).as_bytes();
    b[record + 64..record + 96].copy_from_slice(&d);
    let d = *blake3::hash(&b[record..record + 96]).as_bytes();
    b[record + 96..record + 128].copy_from_slice(&d);
}

#[test]
fn invalid_section_tables_are_refused_with_a_location() {
    use SectionKind as K;
    let bytes = container::to_bytes(&recording(3, 40)).unwrap();
    assert!(
        container::from_bytes(forge_entry(&bytes, K::EventTime, 8, 0x1000)).is_err(),
        "overlap"
    );
    let cases = [
        (K::EventKind, 24, 39, "39 rows of 1 bytes in 40 bytes"),
        (K::EventKind, 48, 1, "constant"),
        (K::EventTime, 8, 4097, "not a valid location"),
        (K::EventTime, 8, 0, "not a valid location"),
        (K::EventTime, 8, u64::MAX - 5, "not a valid location"),
        (K::EventTime, 16, u64::MAX, "not a valid location"),
        (K::EventTime, 24, u64::MAX, "rows of 8 bytes"),
        (K::EventTime, 32, 7, "begins at row 7"),
        (K::EventTime, 48, 9, "encoding 9"),
        (K::EventTime, 52, 4, "rows of 4 bytes"),
        (K::EventTime, 4, 2, "version 2"),
        (K::EventTime, 4, 0, "version 0"),
        (
            K::EventTime,
            0,
            0x203,
            "begins at row 0, but the previous one ends at 40",
        ),
        (
            K::EventSpace,
            24,
            1 << 60,
            "has 1152921504606846976 rows, column event-kind has 40",
        ),
        (K::EventSpace, 40, 256, "constant"),
        (K::Facts, 48, 0, "encoding"),
        (K::Facts, 16, u64::MAX, "not a valid location"),
        (K::Facts, 16, 8, "its block table states"),
        (
            K::EventTime,
            56,
            0,
            "is not a valid location for the table of its 1 blocks",
        ),
        (
            K::EventTime,
            56,
            0x1001,
            "is not a valid location for the table of its 1 blocks",
        ),
        (
            K::EventTime,
            56,
            u64::MAX - 7,
            "is not a valid location for the table of its 1 blocks",
        ),
        (K::EventSpace, 56, 8, "it has no bytes, but a block table"),
        (K::Extra, 16, 200, "is not a valid size of the record"),
        (K::Snapshots, 24, 1, "has 2 elements"),
        (K::PageImages, 24, 2, "rows of 4096 bytes"),
    ];
    for (kind, field, value, message) in cases {
        let error = container::from_bytes(forge_entry(&bytes, kind, field, value)).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains(message) && text.contains("byte 0x"),
            "{kind:?} field {field}: {text}"
        );
    }
    let unknown = container::from_bytes(forge_entry(&bytes, K::Extra, 0, 0xffff)).unwrap();
    assert!(unknown.extras.is_empty(), "a section of unknown kind is read as extras");
}

#[test]
fn unknown_sections_are_kept_when_appending() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("unknown.kine");
    let r = recording(3, 40);
    let bytes = forge_entry(&container::to_bytes(&r).unwrap(), SectionKind::Extra, 0, 0xffff);
    std::fs::write(&path, bytes).unwrap();
    let before = container::sections(&path)
        .unwrap()
        .into_iter()
        .find(|s| s.number == 0xffff)
        .unwrap();
    for i in 0..70u8 {
        let mut w = Writer::append(&path).unwrap();
        w.extra("count", &[i]).unwrap();
        w.commit().unwrap();
    }
    let all = container::sections(&path).unwrap();
    assert_eq!(all.iter().find(|s| s.number == 0xffff), Some(&before));
    assert_eq!(all.iter().filter(|s| s.kind == Some(SectionKind::Extra)).count(), 1);
    assert_eq!(container::open(&path).unwrap().extras["count"], [69]);
}

#[test]
fn newer_versions_are_refused_with_a_clear_sentence() {
    let bytes = container::to_bytes(&recording(1, 5)).unwrap();
    let mut newer = bytes.clone();
    newer[8] = 3;
    let d = *blake3::hash(&newer[..32]).as_bytes();
    newer[32..64].copy_from_slice(&d);
    let text = container::from_bytes(newer).unwrap_err().to_string();
    assert!(
        text.ends_with("the file has version 3, but this program reads up to 2; use a newer version"),
        "{text}"
    );
    let mut newer = bytes.clone();
    let record = newer.len() - 128;
    newer[record + 48] = 7;
    let d = *blake3::hash(&newer[record..record + 96]).as_bytes();
    newer[record + 96..].copy_from_slice(&d);
    assert!(matches!(
        container::from_bytes(newer.clone()),
        Err(ContainerError::TooNew { version: 7, .. })
    ));
    // A commit of an older version than its file is an error, because its sections follow other rules.
    newer[record + 48] = 1;
    let d = *blake3::hash(&newer[record..record + 96]).as_bytes();
    newer[record + 96..].copy_from_slice(&d);
    let text = container::from_bytes(newer).unwrap_err().to_string();
    assert!(
        text.ends_with("a commit of version 1 is in a file of version 2"),
        "{text}"
    );
}

/// A file that declares an unknown codec is refused on open. A block with an undeclared codec is refused on use.
#[test]
fn unknown_codecs_are_refused_by_their_number() {
    let bytes = container::to_bytes(&recording(1, 5)).unwrap();
    let record = bytes.len() - 128;
    let mut compressed = bytes.clone();
    compressed[record + 56] = 1 << 3 | 1;
    let d = *blake3::hash(&compressed[record..record + 96]).as_bytes();
    compressed[record + 96..].copy_from_slice(&d);
    let error = container::from_bytes(compressed).unwrap_err();
    assert!(
        matches!(error, ContainerError::UnknownCodec { codec: 3, .. }) && !error.is_damage(),
        "{error}"
    );
    let mut undeclared = bytes.clone();
    let file = KineFile::from_bytes(bytes).unwrap();
    let times = file
        .sections()
        .into_iter()
        .find(|s| s.kind == Some(SectionKind::EventTime));
    undeclared[times.unwrap().blocks_at as usize + 36] = 3;
    reseal_tables(&mut undeclared);
    let r = open_lazily(undeclared.clone()).unwrap();
    assert_eq!(r.events.time.get(0), None);
    let text = r.damage.first().unwrap().to_string();
    assert!(
        text.contains("event-time, block 0") && text.contains("codec 3"),
        "{text}"
    );
    let report = container::verify_bytes(undeclared).unwrap();
    assert!(
        report.findings.iter().any(|p| p.message.contains("codec 3")),
        "{report:?}"
    );
}

#[test]
fn cyclic_or_invalid_commit_links_end() {
    let (bytes, commits) = three_commits();
    let record = bytes.len() - 128;
    let table = u64::from_le_bytes(bytes[record + 24..record + 32].try_into().unwrap()) as usize;
    let len = u64::from_le_bytes(bytes[record + 32..record + 40].try_into().unwrap()) as usize;
    let second = commits[1].0 - 128;
    for previous in [
        0,
        record as u64,
        record as u64 + 512,
        second + 1,
        second - 512,
        u64::MAX,
        4096,
    ] {
        let mut b = bytes.clone();
        b[record + 40..record + 48].copy_from_slice(&previous.to_le_bytes());
        seal(&mut b, record, table, len);
        let got = container::from_bytes(b.clone()).unwrap();
        assert_same(&commits[1].1, &got);
        let report = container::verify_bytes(b).unwrap();
        assert!(
            report.findings.iter().any(|p| p.byte == record as u64),
            "{:?}",
            report.findings
        );
    }
    // Thousands of valid records reference the same long table, whose digest is wrong.
    let mut b = bytes[..4096].to_vec();
    b.resize(4096 + (8 << 20), 0);
    let table_bytes = (1u64 << 20) / 96 * 96;
    for at in (4096 + (2 << 20)..b.len() - 512).step_by(512) {
        b[at..at + 128].copy_from_slice(&bytes[record..]);
        for (field, v) in [(8, at as u64), (16, 1), (24, 4096), (32, table_bytes), (40, 0)] {
            b[at + field..at + field + 8].copy_from_slice(&v.to_le_bytes());
        }
        let d = *blake3::hash(&b[at..at + 96]).as_bytes();
        b[at + 96..at + 128].copy_from_slice(&d);
    }
    assert!(matches!(container::from_bytes(b), Err(ContainerError::NoCommit { .. })));
}

/// A section with a wrong digest is reported once with its location. Its readers do not report it again.
#[test]
fn damaged_section_is_reported_once() {
    let (mut bytes, _) = three_commits();
    let file = KineFile::from_bytes(bytes.clone()).unwrap();
    let sections = file.sections();
    let metadata = sections.iter().rfind(|s| s.kind == Some(SectionKind::Facts)).unwrap();
    let at = metadata.offset;
    bytes[at as usize] ^= 1;
    let report = container::verify_bytes(bytes).unwrap();
    let entries: Vec<_> = report.findings.iter().map(|p| (p.byte, p.message.clone())).collect();
    assert_eq!(
        entries,
        [(at, "section facts, block 0 does not agree with its digest".to_owned())]
    );
}

#[test]
fn verify_names_rows_with_invalid_references() {
    let mut r = recording(3, 40);
    let set = |c: &trace_core::recording::Column<u32>, row: usize, v: u32| {
        let mut all: Vec<u32> = c.iter().collect();
        all[row] = v;
        all.into()
    };
    let mut kinds: Vec<u8> = r.events.kind.iter().collect();
    kinds[7] = 99;
    r.events.kind = kinds.into();
    r.events.payload = set(&r.events.payload, 9, 5000);
    let mut widths: Vec<u8> = r.events.width.iter().collect();
    (widths[1], widths[3]) = (3, 1);
    r.events.width = widths.into();
    r.metadata.buffers.push(r.metadata.buffers[0].clone());
    r.metadata.buffers[0].address_space = 4;
    let bytes = container::to_bytes(&r).unwrap();
    let file = KineFile::from_bytes(bytes.clone()).unwrap();
    let at = |kind| file.sections().iter().find(|s| s.kind == Some(kind)).unwrap().offset;
    let report = container::verify_bytes(bytes).unwrap();
    let expected = [
        (at(SectionKind::EventKind) + 7, "event 7 is of unknown kind 99"),
        (at(SectionKind::EventPayload) + 9 * 4, "event 9 names row 5000"),
        (at(SectionKind::AccessWidth) + 1, "access 1 is 3 bytes wide"),
        (at(SectionKind::AccessValue) + 3 * 8, "access 3 of 1 bytes has value"),
        (at(SectionKind::Facts), "buffer \"input\" is in address space 4"),
        (at(SectionKind::Facts), "two buffers have the name"),
    ];
    assert_eq!(report.findings.len(), expected.len(), "{:?}", report.findings);
    for (problem, (byte, text)) in report.findings.iter().zip(expected) {
        assert!(
            problem.byte == byte && problem.message.starts_with(text),
            "{problem:?}, expected {byte:#x} {text}"
        );
    }
    assert_eq!(report.finding_count, 6);
}

fn word(b: &[u8], at: usize) -> usize {
    b.get(at..at + 8)
        .map_or(usize::MAX, |w| u64::from_le_bytes(w.try_into().unwrap()) as usize)
}

/// Updates all digests of a file with one commit to the current contents.
pub fn reseal(b: &mut [u8]) {
    let record = b.len() - 128;
    let (table, len) = (word(b, record + 24), word(b, record + 32));
    for entry in (table..table + len).step_by(96) {
        let (offset, bytes, blocks) = (word(b, entry + 8), word(b, entry + 16), word(b, entry + 56));
        let Some(data) = offset
            .checked_add(bytes)
            .and_then(|end| b.get(offset..end))
            .map(<[u8]>::to_vec)
        else {
            continue;
        };
        for (n, block) in data.chunks(64 << 10).enumerate() {
            if let Some(at) = blocks.checked_add(n * 40)
                && let Some(stored) = b.get_mut(at..at.saturating_add(32))
            {
                stored.copy_from_slice(blake3::hash(block).as_bytes());
            }
        }
    }
    reseal_tables(b);
}

/// Updates the digests of all block tables, and of the commit, in a file with one commit.
fn reseal_tables(b: &mut [u8]) {
    let record = b.len() - 128;
    let (table, len) = (word(b, record + 24), word(b, record + 32));
    for entry in (table..table + len).step_by(96) {
        let (bytes, blocks) = (word(b, entry + 16), word(b, entry + 56));
        let size = bytes.div_ceil(64 << 10).saturating_mul(40);
        if bytes > 0
            && let Some(block_table) = blocks.checked_add(size).and_then(|end| b.get(blocks..end))
        {
            let d = *blake3::hash(block_table).as_bytes();
            b[entry + 64..entry + 96].copy_from_slice(&d);
        }
    }
    seal(b, record, table, len);
}

#[test]
fn hostile_files_with_valid_digests_never_panic() {
    open_hostile_files(3_000);
}

#[test]
#[ignore = "make test-full: opens 20,000 files"]
fn many_hostile_files_with_valid_digests_never_panic() {
    open_hostile_files(20_000);
}

fn open_hostile_files(rounds: u32) {
    let bytes = container::to_bytes(&recording(3, 40)).unwrap();
    let file = KineFile::from_bytes(bytes.clone()).unwrap();
    let record = bytes.len() - 128;
    let table = u64::from_le_bytes(bytes[record + 24..record + 32].try_into().unwrap()) as usize;
    let ranges: Vec<(usize, usize)> = file
        .sections()
        .iter()
        .filter(|s| s.bytes > 0 && s.kind != Some(SectionKind::PageImages))
        .map(|s| (s.offset as usize, s.bytes.min(600) as usize))
        .chain([
            (table, record - table),
            (table, record - table),
            (table, record - table),
        ])
        .collect();
    let odd = [
        0,
        1,
        2,
        255,
        4096,
        1 << 20,
        1 << 31,
        u64::from(u32::MAX),
        1 << 40,
        u64::MAX / 4096,
        u64::MAX - 7,
        u64::MAX,
    ];
    let mut n = Numbers::new(77);
    let (mut opened, mut refused) = (0, 0);
    for _ in 0..rounds {
        let mut b = bytes.clone();
        for _ in 0..1 + n.below(3) {
            let (start, len) = ranges[n.below(ranges.len() as u64) as usize];
            let at = start + n.below(len as u64) as usize;
            match n.below(4) {
                0 => b[at] = n.next() as u8,
                1 => b[at] ^= 1 << n.below(8),
                2 => {
                    let at = (at & !7).min(record - 8);
                    b[at..at + 8].copy_from_slice(&odd[n.below(odd.len() as u64) as usize].to_le_bytes());
                }
                _ => {
                    let at = (at & !3).min(record - 4);
                    b[at..at + 4].copy_from_slice(&(odd[n.below(odd.len() as u64) as usize] as u32).to_le_bytes());
                }
            }
        }
        reseal(&mut b);
        match open_lazily(b.clone()) {
            Ok(r) => {
                read_all(&r);
                assert!(r.memory.last().runs().len() < 1000);
                assert!(r.events.len() <= b.len(), "the file has more events than bytes");
                opened += 1;
            }
            Err(e) => {
                assert!(!e.to_string().is_empty());
                refused += 1;
            }
        }
        let _ = container::verify_bytes(b);
    }
    let enough = rounds / 10;
    assert!(
        opened > enough && refused > enough,
        "{opened} opened, {refused} refused"
    );
}

#[test]
fn commit_search_in_a_sparse_file_can_be_cancelled() {
    use trace_core::progress::Progress;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sparse.kine");
    std::fs::write(&path, container::to_bytes(&recording(3, 40)).unwrap()).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(1 << 40).unwrap();
    let progress = Progress::new();
    let (watched, path_copy) = (progress.clone(), path.clone());
    let opening = std::thread::spawn(move || container::open_with(&path_copy, &progress));
    while watched.fraction().is_none_or(|f| f == 0.0) && !opening.is_finished() {
        std::thread::yield_now();
    }
    watched.cancel();
    let result = opening.join().unwrap();
    assert!(
        matches!(result, Err(ContainerError::Cancelled(_))),
        "{:?}",
        result.map(|r| r.events.len())
    );
}

#[test]
fn oversized_attachment_is_refused_before_reading() {
    use std::os::unix::fs::FileExt;
    let bytes = container::to_bytes(&recording(3, 40)).unwrap();
    let record = bytes.len() - 128;
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let (table, len) = (word(record + 24), word(record + 32));
    // The table and its record follow a hole, and the attachment claims to fill the hole.
    let table_at = 80usize << 20;
    let mut end = bytes[table..].to_vec();
    let (record_at, at) = (record - table, table_at + (record - table));
    end[record_at + 8..record_at + 16].copy_from_slice(&(at as u64).to_le_bytes());
    end[record_at + 24..record_at + 32].copy_from_slice(&(table_at as u64).to_le_bytes());
    let entry = (0..len)
        .step_by(96)
        .find(|e| end[*e..*e + 4] == (SectionKind::Extra as u32).to_le_bytes())
        .unwrap();
    end[entry + 16..entry + 24].copy_from_slice(&(70u64 << 20).to_le_bytes());
    // The block table of the attachment is in the hole, too.
    end[entry + 56..entry + 64].copy_from_slice(&(75u64 << 20).to_le_bytes());
    seal(&mut end, record_at, 0, len);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.kine");
    std::fs::write(&path, &bytes[..table]).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&end, table_at as u64).unwrap();
    let report = container::open(&path).unwrap_err().to_string();
    assert!(
        report.contains("73400320 bytes is not a valid size of the record"),
        "{report}"
    );
}

/// A sink that discards all data.
struct NullSink;

impl container::Sink for NullSink {
    fn write_at(&mut self, _at: u64, _bytes: &[u8]) -> std::io::Result<()> {
        Ok(())
    }

    fn sync(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn oversized_extras_are_refused_on_write() {
    let mut w = Writer::begin(NullSink).unwrap();
    let max = vec![0; 64 << 20];
    for name in ["a", "b", "c", "d", "a"] {
        w.extra(name, &max).unwrap();
    }
    for (name, bytes) in [("e", &max[..1]), ("a", &[&max[..], &[0]].concat()[..])] {
        let error = w.extra(name, bytes).unwrap_err();
        assert!(matches!(error, ContainerError::Refused(_)), "{error}");
    }
}

/// The location of an invalid row takes a search, so rows that are only counted are not located.
#[test]
fn verify_handles_a_large_file_with_every_row_wrong() {
    let mut w = Writer::begin(MemorySink::default()).unwrap();
    let n = 1000;
    for _ in 0..n {
        w.push(SectionKind::EventKind, &[77u8; 500]).unwrap();
    }
    for kind in [SectionKind::EventThread, SectionKind::EventPayload] {
        w.push_constant(kind, 0u32, n * 500).unwrap();
    }
    w.push_constant(SectionKind::EventSpace, 0u8, n * 500).unwrap();
    w.push_constant(SectionKind::EventTime, 0u64, n * 500).unwrap();
    w.commit().unwrap();
    let report = container::verify_bytes(w.into_sink().bytes).unwrap();
    assert_eq!(
        (report.finding_count, report.findings.len()),
        (n * 500, container::MAX_VERIFY_FINDINGS)
    );
}

#[test]
fn unfinished_file_without_a_header_is_named_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rec.kine.4000000000-0.kine.tmp");
    for bytes in [&b""[..], &b"KINE"[..4], &[0; 9]] {
        std::fs::write(&path, bytes).unwrap();
        let error = container::open(&path).unwrap_err().to_string();
        let is_named = error.contains("unfinished file") || error.contains("within its header");
        assert!(is_named, "{} bytes: {error}", bytes.len());
    }
}
