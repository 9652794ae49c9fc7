//! Tests of the golden files of both versions. They stay readable, and the writer reproduces them byte for byte. One of
//! them is the hexdump in `docs/format.md`. The reader `tests/format_reader.py`, written only from that page, gives the
//! same contents as this crate.
//!
//! `KINESCOPE_BLESS=1 cargo test -p trace-core --test it golden` rewrites the files and the hexdump. Only a new version
//! of the format needs this, with new file names: the old files stay.

use crate::container::generate::{assert_same, metadata, metadata_with_records, recording, records};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use trace_core::container::{self, Encoding, KineFile, MemorySink, MetadataTag, SectionInfo, Writer};
use trace_core::encode;
use trace_core::progress::Progress;
use trace_core::recording::{
    Access, AllocationKind, AllocationRow, Api, ApiTraceMetadata, CALL_ASYNC, CallEvent, CallRow, Clock, CopyKind,
    CopyRow, DmaKind, DmaMapRow, DriverTraceMetadata, EventKind, Events, EventsBuilder, FillRow, FrameRole,
    HostWriteRow, InterruptRow, LaunchRow, MemoryBuilder, NO_CONTENT, ObjectAction, ObjectKind, ObjectRow, OrderKind,
    OrderRow, RingEntryRow, SaveReason, SavedMemoryRow, SectionKind, SubmitRow, TraceKind, UndecodedRow, UnknownRecord,
    ZERO_PAGE,
};
use trace_core::registers::RegisterMap;
use trace_core::timeline::{self, AxisKind, Pyramid};
use trace_core::{BusAddr, GpuVa, PAGE_SIZE, PhysAddr, Recording, RegOffset};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the path of a golden file of a version.
pub fn golden_path(version: u32, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/v{version}-{name}.kine"))
}

/// Returns the path of the golden file whose hexdump is in the page.
fn golden() -> PathBuf {
    golden_path(2, "tiny")
}

fn begin(version: u32) -> Writer<MemorySink> {
    match version {
        1 => Writer::begin_without_blocks(MemorySink::default()).unwrap(),
        _ => Writer::begin(MemorySink::default()).unwrap(),
    }
}

/// Returns a recording as a file of a version.
fn to_bytes(version: u32, recording: &Recording) -> Vec<u8> {
    let mut w = begin(version);
    w.put(recording).unwrap();
    w.commit().unwrap();
    w.into_sink().bytes
}

pub fn bless() -> bool {
    std::env::var_os("KINESCOPE_BLESS").is_some()
}

fn tiny_recording(events: usize) -> Recording {
    let mut b = EventsBuilder::new();
    let access = |write, offset, value| Access {
        space: 0,
        write,
        offset,
        width: 4,
        value,
    };
    b.access(100, 0, access(false, RegOffset::new(0x0), 0x6000_0011));
    b.access(250, 0, access(true, RegOffset::new(0x1860), 1));
    b.submit(
        300,
        SubmitRow {
            head_va: GpuVa::new(0x1000_1040),
            address_space: 0,
            slot: 1,
        },
    );
    b.interrupt(900, InterruptRow { line: 0, status: 2 });
    b.mark(950, "it ran");
    b.access(1000, 0, access(false, RegOffset::new(0x1000), 2));
    if events > 6 {
        b.access(1100, 0, access(true, RegOffset::new(0x1004), 2));
        b.mark(1200, "the end");
    }
    let mut page = [0; PAGE_SIZE];
    page[0x40..0x50].copy_from_slice(b"a page of memory");
    let mut m = MemoryBuilder::new();
    let ids = [m.add_page(&page), m.add_page(&ZERO_PAGE), m.add_page(&ZERO_PAGE)];
    m.add_snapshot(
        0,
        ids.iter()
            .enumerate()
            .map(|(i, id)| (0x10 + i as u64, *id, FrameRole::Data)),
    );
    let mut r = Recording {
        metadata: metadata(),
        events: b.finish(),
        memory: m.finish(),
        ..Recording::default()
    };
    if events > 6 {
        r.extras
            .insert("note".to_owned(), b"kept for whoever put it here".to_vec());
    }
    r
}

/// Returns a file of two commits: six events, then two more with an extra and a derived section.
fn tiny(version: u32) -> Vec<u8> {
    let mut w = begin(version);
    w.put(&tiny_recording(6)).unwrap();
    w.commit().unwrap();
    w.put(&tiny_recording(8)).unwrap();
    w.derived("summary", 1, b"eight events").unwrap();
    w.commit().unwrap();
    w.into_sink().bytes
}

#[test]
fn golden_files_of_each_version_are_readable_and_reproducible() {
    for version in [1, 2] {
        let path = golden_path(version, "tiny");
        if bless() {
            std::fs::write(&path, tiny(version)).unwrap();
        }
        assert_same(&tiny_recording(8), &container::open(&path).unwrap());
        let file = KineFile::open(&path).unwrap();
        assert_eq!(file.version(), version);
        let derived = file.derived("summary").unwrap().unwrap();
        assert_eq!(
            (derived.bytes(), derived.analysis_version, derived.is_current),
            (&b"eight events"[..], 1, true)
        );
        let report = container::verify(&path).unwrap();
        assert_eq!((report.commits, report.findings), (2, vec![]));
        assert!(
            std::fs::read(&path).unwrap() == tiny(version),
            "the writer does not reproduce the golden file of version {version}"
        );
        compare_with_python(&path);
    }
}

/// A file keeps its version, so that older readers can still read it after an append.
#[test]
fn golden_file_of_version_1_is_appended_in_version_1() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.kine");
    std::fs::copy(golden_path(1, "tiny"), &path).unwrap();
    let mut more = tiny_recording(8);
    more.extras.insert("more".to_owned(), vec![1, 2, 3]);
    container::append(&more, &path, &Progress::new()).unwrap();
    assert_eq!(KineFile::open(&path).unwrap().version(), 1);
    assert_same(&more, &container::open(&path).unwrap());
    assert_eq!(container::verify(&path).unwrap().findings, vec![]);
    compare_with_python(&path);
}

/// Returns the path of the golden file with host writes, a later table of the format.
fn golden_host_writes() -> PathBuf {
    golden_path(1, "host-writes")
}

/// Returns a recording of a register write, two host writes, and a second register write.
fn changed_recording() -> Recording {
    let mut m = MemoryBuilder::new();
    let mut page = [0; PAGE_SIZE];
    page[..4].copy_from_slice(b"then");
    let before = m.add_page(&page);
    m.add_snapshot(0, [(0x10, before, FrameRole::Data), (0x11, before, FrameRole::Table)]);
    page[8..12].copy_from_slice(b"host");
    let after = m.add_page(&page);
    m.add_changes(3, [(0x10, after, FrameRole::Data), (0x12, after, FrameRole::Data)]);
    let mut b = EventsBuilder::new();
    let access = |value| Access {
        space: 0,
        write: true,
        offset: RegOffset::new(0x1860),
        width: 4,
        value,
    };
    b.access(100, 1, access(1));
    for at in [0x1_0008, 0x1_2000] {
        let row = HostWriteRow {
            at: PhysAddr::new(at),
            bytes: 4,
            page: after.0,
        };
        b.host_write(200, 1, row);
    }
    b.access(300, 1, access(1));
    Recording {
        metadata: metadata(),
        events: b.finish(),
        memory: m.finish(),
        ..Recording::default()
    }
}

#[test]
fn golden_file_with_host_writes_is_readable_and_reproducible() {
    let bytes = to_bytes(1, &changed_recording());
    if bless() {
        std::fs::write(golden_host_writes(), &bytes).unwrap();
    }
    let read = container::open(&golden_host_writes()).unwrap();
    assert_same(&changed_recording(), &read);
    assert_eq!(read.events.host_write(1).and_then(|w| w.piece()), Some(8..12));
    assert_eq!(container::verify(&golden_host_writes()).unwrap().findings, vec![]);
    assert!(
        std::fs::read(golden_host_writes()).unwrap() == bytes,
        "the writer does not reproduce the golden file"
    );
    compare_with_python(&golden_host_writes());
}

/// Returns the path of the golden file with undecoded accesses and DMA mappings. Their two tables were added to the
/// format after host writes.
fn golden_undecoded() -> PathBuf {
    golden_path(1, "undecoded")
}

/// Returns a recording of a store with a known value, two stores of an undecoded instruction, and a DMA allocation. Its
/// last event is a read of configuration space with an unknown value.
fn undecoded_recording() -> Recording {
    let mut b = EventsBuilder::new();
    let store = Access {
        space: 0,
        write: true,
        offset: RegOffset::new(0x10),
        width: 8,
        value: 0x0102_0304_0506_0708,
    };
    b.access(100, 1, store);
    for offset in [0x18, 0x20] {
        b.undecoded(
            200,
            1,
            0,
            UndecodedRow::from_instruction(RegOffset::new(offset), 0x00f3_48a5),
        );
    }
    let mapping = DmaMapRow {
        bus: BusAddr::new(0x12_3456_7000),
        bytes: 0x1_0000_0000,
        kind: DmaKind::Allocated as u32,
        reserved: 0,
    };
    b.dma_map(300, 1, mapping);
    b.undecoded(400, 1, 1, UndecodedRow::from_access(RegOffset::new(4), false, 2));
    let mut metadata = metadata();
    metadata.spaces.push(metadata.spaces[0].clone());
    Recording {
        metadata,
        events: b.finish(),
        ..Recording::default()
    }
}

#[test]
fn golden_file_with_undecoded_accesses_is_readable_and_reproducible() {
    let bytes = to_bytes(1, &undecoded_recording());
    if bless() {
        std::fs::write(golden_undecoded(), &bytes).unwrap();
    }
    let read = container::open(&golden_undecoded()).unwrap();
    assert_same(&undecoded_recording(), &read);
    assert_eq!(read.events.undecoded(2).and_then(|u| u.width()), Some(8));
    assert_eq!(
        read.events.dma_map(3).map(|d| d.bus),
        Some(BusAddr::new(0x12_3456_7000))
    );
    assert_eq!((read.events.undecoded(0), read.events.dma_map(4)), (None, None));
    assert_eq!(container::verify(&golden_undecoded()).unwrap().findings, vec![]);
    assert!(
        std::fs::read(golden_undecoded()).unwrap() == bytes,
        "the writer does not reproduce the golden file"
    );
    compare_with_python(&golden_undecoded());
}

/// Returns a recording of one call of each kind, and of a second copy, which has no content. Each kind of call has a
/// later table of the format, and the calls reference bytes and pages.
fn calls_recording() -> Recording {
    let mut b = EventsBuilder::new();
    let mut m = MemoryBuilder::new();
    let at = 0x1539_4000_0200;
    let allocation = AllocationRow {
        at: GpuVa::new(at),
        bytes: 5000,
        kind: AllocationKind::Take as u32,
        stream: OrderRow::NONE,
        ..Default::default()
    };
    b.allocation(100, 7, allocation);
    let fill = FillRow {
        to: GpuVa::new(at),
        elements: 1250,
        rows: 1,
        value: 0x3f80_0000,
        element: 4,
        took: 900,
        ..Default::default()
    };
    b.fill(200, 7, fill);
    let (mut first, second) = ([0; PAGE_SIZE], [3; PAGE_SIZE]);
    first[0x200..].fill(5);
    let pages = [m.add_page(&first).0, m.add_page(&second).0];
    let copy = CopyRow {
        to: at,
        from: 0x7f12_3456_0000,
        bytes: (2 * PAGE_SIZE - 0x200) as u64,
        rows: 1,
        pages_at: b.call_pages(&pages),
        kind: CopyKind::HostToDevice as u32,
        flags: CALL_ASYNC,
        ..Default::default()
    };
    b.copy(300, 7, copy);
    let launch = LaunchRow {
        arguments_at: b.call_bytes(&at.to_le_bytes()),
        arguments: 8,
        function: 2,
        stream: 1,
        grid: [5, 1, 1],
        block: [256, 1, 1],
        shared: 1024,
        flags: LaunchRow::COOPERATIVE,
        result: 0,
        took: 5000,
        ..Default::default()
    };
    b.launch(400, 8, launch);
    let wait = OrderRow {
        kind: OrderKind::StreamDone as u32,
        stream: 1,
        event: OrderRow::NONE,
        ..Default::default()
    };
    b.order(500, 7, wait);
    let back = CopyRow {
        to: 0x7f12_3456_0000,
        from: at,
        bytes: 100,
        rows: 2,
        to_pitch: 100,
        from_pitch: 512,
        pages_at: NO_CONTENT,
        kind: CopyKind::DeviceToHost as u32,
        ..Default::default()
    };
    b.copy(600, 7, back);
    let call = CallRow {
        arguments_at: b.call_bytes(&[1, 0, 0, 0, 0, 0, 0, 0]),
        arguments: 8,
        name: 3,
        about: u32::MAX,
        result: 700,
        took: u32::MAX,
        flags: 0,
    };
    b.call(700, 7, call);
    let mut r = Recording {
        metadata: metadata(),
        events: b.finish(),
        memory: m.finish(),
        ..Recording::default()
    };
    let metadata = ApiTraceMetadata {
        api: Api::Cuda,
        version: 13000,
        ..Default::default()
    };
    r.metadata.kind = TraceKind::Api(metadata);
    r
}

#[test]
fn golden_files_with_calls_are_readable_and_reproducible() {
    for version in [1, 2] {
        check_golden_calls(version);
    }
}

fn check_golden_calls(version: u32) {
    let path = golden_path(version, "calls");
    let bytes = to_bytes(version, &calls_recording());
    if bless() {
        std::fs::write(&path, &bytes).unwrap();
    }
    let read = container::open(&path).unwrap();
    assert_same(&calls_recording(), &read);
    assert!(read.events.kind.iter().skip(1).eq([11, 10, 9, 12, 10, 14]));
    let Some(CallEvent::Copy(copy)) = read.events.call(2) else {
        panic!()
    };
    let copied = read.copy_content(&copy).unwrap();
    assert_eq!(
        (copied[0], copied[PAGE_SIZE - 0x200], copied.len()),
        (5, 3, 2 * PAGE_SIZE - 0x200)
    );
    assert_eq!(read.api().unwrap().version, 13000);
    assert_eq!(container::verify(&path).unwrap().findings, vec![]);
    assert!(
        std::fs::read(&path).unwrap() == bytes,
        "the writer does not reproduce the golden file of version {version}"
    );
    compare_with_python(&path);
}

/// Returns a driver trace: objects, a ring entry with its commands and one without, saved memory, a request.
fn driver_recording() -> Recording {
    let mut b = EventsBuilder::new();
    let mut m = MemoryBuilder::new();
    let mut page = [0; PAGE_SIZE];
    page[0x10..0x18].copy_from_slice(&[0x00, 0x81, 0x04, 0x20, 1, 2, 3, 4]);
    let pages = b.call_pages(&[m.add_page(&page).0]);
    let mut metadata = DriverTraceMetadata {
        driver_version: "580.159.04".into(),
        has_arguments: true,
        ..DriverTraceMetadata::default()
    };
    let buffer = ObjectRow {
        action: ObjectAction::Create as u32,
        kind: ObjectKind::Buffer as u32,
        client: 0xc1d0_0030,
        parent: 0xcaf0_0000,
        handle: 0xcaf0_0005,
        class: 0x40,
        bytes: 0x20_0000,
        caller: metadata.add_name("RM_ALLOC"),
        flags: ObjectRow::VIDEO_MEMORY,
        ..ObjectRow::default()
    };
    b.object(10, 7, buffer);
    let mapping = ObjectRow {
        action: ObjectAction::Map as u32,
        address: GpuVa::new(0x10_0000_0000),
        second: 0,
        space: 0xcaf0_0003,
        ..buffer
    };
    b.object(20, 7, mapping);
    let entry = RingEntryRow {
        entry: 0x0000_0210_0000_0010,
        va: GpuVa::new(0x10_0000_0010),
        bytes: 8,
        pages_at: pages,
        client: 0xc1d0_0030,
        channel: 0xcaf0_000e,
        index: 1,
        ..RingEntryRow::default()
    };
    b.ring_entry(30, 7, entry);
    let unheld = RingEntryRow {
        pages_at: NO_CONTENT,
        index: 2,
        ..entry
    };
    b.ring_entry(40, 7, unheld);
    let saved = SavedMemoryRow {
        va: GpuVa::new(0x10_0000_0014),
        bytes: 4,
        pages_at: pages,
        reason: SaveReason::CopySource as u32,
        ..SavedMemoryRow::default()
    };
    b.saved_memory(50, 7, saved);
    let request = CallRow {
        arguments_at: b.call_bytes(&[7; 8]),
        arguments: 8,
        name: metadata.add_name("RM_FREE"),
        about: 4,
        ..CallRow::default()
    };
    b.call(60, 7, request);
    let mut r = Recording {
        events: b.finish(),
        memory: m.finish(),
        ..Recording::default()
    };
    r.metadata.kind = TraceKind::Driver(metadata);
    r
}

#[test]
fn golden_file_of_a_driver_trace_is_readable_and_reproducible() {
    let path = golden_path(2, "driver");
    let bytes = to_bytes(2, &driver_recording());
    if bless() {
        std::fs::write(&path, &bytes).unwrap();
    }
    let read = container::open(&path).unwrap();
    assert_same(&driver_recording(), &read);
    let stored = read.events.stored_content(2).unwrap();
    assert_eq!(read.content(&stored).unwrap(), [0x00, 0x81, 0x04, 0x20, 1, 2, 3, 4]);
    let saved = read.events.stored_content(4).unwrap();
    assert_eq!(read.content(&saved).unwrap(), [1, 2, 3, 4]);
    assert_eq!(read.content(&read.events.stored_content(3).unwrap()), None);
    assert_eq!(read.driver_trace().unwrap().driver_version, "580.159.04");
    assert!(read.api().is_none() && read.register_trace().is_none());
    assert_eq!(container::verify(&path).unwrap().findings, vec![]);
    assert!(
        std::fs::read(&path).unwrap() == bytes,
        "the writer does not reproduce the golden file"
    );
    compare_with_python(&path);
}

/// Returns a recording with every metadata record of a register trace, and one of an unknown tag.
fn recording_with_records() -> Recording {
    let mut r = tiny_recording(6);
    r.metadata = metadata_with_records();
    r.metadata.unknown_records = vec![UnknownRecord {
        tag: 4096,
        version: 3,
        body: b"kept".to_vec(),
    }];
    r
}

#[test]
fn golden_file_with_metadata_records_is_readable_and_reproducible() {
    let path = golden_path(2, "metadata");
    let bytes = to_bytes(2, &recording_with_records());
    if bless() {
        std::fs::write(&path, &bytes).unwrap();
    }
    assert_same(&recording_with_records(), &container::open(&path).unwrap());
    assert_eq!(container::verify(&path).unwrap().findings, vec![]);
    assert!(
        std::fs::read(&path).unwrap() == bytes,
        "the writer does not reproduce the golden file"
    );
    compare_with_python(&path);
}

/// Returns a recording whose clock counts ticks, with named queues of jobs.
fn recording_of_ticks() -> Recording {
    let mut r = tiny_recording(6);
    r.metadata.identity.clock = Clock::Ticks;
    let trace = r.register_trace_mut().unwrap();
    trace.job_queues = vec!["rcs0".to_owned(), String::new(), "bcs0".to_owned()];
    r
}

#[test]
fn golden_file_with_ticks_and_queues_is_readable_and_reproducible() {
    let path = golden_path(2, "ticks");
    let bytes = to_bytes(2, &recording_of_ticks());
    if bless() {
        std::fs::write(&path, &bytes).unwrap();
    }
    let read = container::open(&path).unwrap();
    assert_same(&recording_of_ticks(), &read);
    assert!(read.counts_ticks());
    assert_eq!((read.job_queue(0), read.job_queue(1)), (Some("rcs0"), None));
    assert_eq!(container::verify(&path).unwrap().findings, vec![]);
    assert!(
        std::fs::read(&path).unwrap() == bytes,
        "the writer does not reproduce the golden file"
    );
    compare_with_python(&path);
}

/// Verification reports rows of calls that reference missing bytes or pages.
#[test]
fn calls_with_missing_bytes_or_pages_are_reported() {
    let valid = calls_recording();
    let problems = |change: &dyn Fn(&mut Recording)| {
        let mut r = valid.clone();
        change(&mut r);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wrong.kine");
        container::write(&r, &path, &Progress::new()).unwrap();
        let problems = container::verify(&path).unwrap().findings;
        problems.into_iter().map(|p| p.message).collect::<Vec<_>>()
    };
    assert_eq!(problems(&|_| {}), Vec::<String>::new());
    let launch = valid.events.launches.get(0).unwrap();
    let far = LaunchRow {
        arguments: 17,
        ..launch
    };
    assert_eq!(
        problems(&|r| r.events.launches = vec![far].into()),
        ["launch 0 has 17 bytes of arguments from 0 on, but there are 16"]
    );
    assert_eq!(
        problems(&|r| r.events.call_pages = vec![1, 3].into()),
        ["page 1 of calls is page 3, but there are 2"]
    );
    assert_eq!(
        problems(&|r| r.events.call_pages = vec![1].into()),
        ["copy 0 names pages from 0 on, but there are 1"]
    );
    assert_eq!(
        problems(&|r| r.events.orders = Vec::new().into()),
        ["event 4 names row 0, but its table has 0"]
    );
}

#[test]
fn undecoded_accesses_without_space_or_row_are_findings() {
    let mut r = undecoded_recording();
    let mut spaces: Vec<u8> = r.events.space.iter().collect();
    spaces[1] = 9;
    r.events.space = spaces.into();
    let rows: Vec<UndecodedRow> = r.events.undecoded.iter().take(2).collect();
    r.events.undecoded = rows.into();
    let report = container::verify_bytes(container::to_bytes(&r).unwrap()).unwrap();
    let messages: Vec<_> = report.findings.iter().map(|p| p.message.as_str()).collect();
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert!(
        messages.iter().any(|m| m.contains("event 1 goes to space 9")),
        "{messages:?}"
    );
    assert!(
        messages
            .iter()
            .any(|m| m.contains("event 4 names row 2, but its table has 2")),
        "{messages:?}"
    );
}

#[test]
fn verify_reports_host_writes_beyond_or_without_a_page() {
    for (at, bytes, page, message) in [
        (0x1_0ffe, 4, 1, "spans more than one page"),
        (0x1_0000, 0, 1, "spans more than one page"),
        (0x1_0000, 4097, 1, "spans more than one page"),
        (0x1_0000, 4, 9, "names page 9, but there are 2"),
    ] {
        let mut r = changed_recording();
        let mut rows: Vec<HostWriteRow> = r.events.host_writes.iter().collect();
        rows[1] = HostWriteRow {
            at: PhysAddr::new(at),
            bytes,
            page,
        };
        r.events.host_writes = rows.into();
        let report = container::verify_bytes(container::to_bytes(&r).unwrap()).unwrap();
        assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
        assert!(report.findings[0].message.contains(message), "{:?}", report.findings);
    }
}

/// Returns the notes of the hexdump by the offset of their line of 16 bytes.
fn annotations(bytes: &[u8]) -> std::collections::BTreeMap<usize, String> {
    let mut notes = std::collections::BTreeMap::new();
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let digest = |notes: &mut std::collections::BTreeMap<usize, String>, at: usize, content: &str| {
        notes.insert(at, format!("BLAKE3 of {content}"));
        notes.insert(at + 16, "…".to_owned());
    };
    notes.insert(0, "header: magic, version 2, 64 bytes".to_owned());
    notes.insert(16, "reserved".to_owned());
    digest(&mut notes, 32, "the header's first 32 bytes");
    let encoded = |v: &dyn Fn() -> Result<Vec<u8>, encode::EncodeError>| v().unwrap().len();
    macro_rules! fields {
        ($at:expr, $($name:literal: $value:expr),* $(,)?) => {{
            let mut at: usize = $at;
            $(
                let line: &mut String = notes.entry(at / 16 * 16).or_default();
                let comma = if line.is_empty() { "" } else { ", " };
                line.push_str(comma);
                line.push_str($name);
                at += encoded(&|| encode::to_bytes(&$value));
            )*
            at
        }};
    }
    let mut record = bytes.len() - 128;
    while record != 0 {
        let (number, table, len, previous) = (
            word(record + 16),
            word(record + 24),
            word(record + 32),
            word(record + 40),
        );
        notes.insert(record, format!("commit record {number}: magic, its own place"));
        notes.insert(record + 16, format!("number {number}, table at {table:#x}"));
        notes.insert(
            record + 32,
            format!("table of {len} bytes, previous record at {previous:#x}"),
        );
        let complete = bytes[record + 52] == 1;
        let flag = if complete { "complete" } else { "adds to the one before" };
        notes.insert(
            record + 48,
            format!("version 2, flags ({flag}), codecs {}", word(record + 56)),
        );
        digest(&mut notes, record + 64, "the table");
        digest(&mut notes, record + 96, "the record's first 96 bytes");
        for entry in (table..table + len).step_by(96) {
            let number = u32::from_le_bytes(bytes[entry..entry + 4].try_into().unwrap());
            let name = SectionKind::from_raw(number).unwrap().name();
            notes.insert(
                entry,
                format!("entry: {name} ({number:#x}) version 1, at {:#x}", word(entry + 8)),
            );
            notes.insert(
                entry + 16,
                format!("{} bytes, {} rows", word(entry + 16), word(entry + 24)),
            );
            notes.insert(
                entry + 32,
                format!("first row {}, constant value {}", word(entry + 32), word(entry + 40)),
            );
            let encoding = Encoding::from_raw(u32::from(bytes[entry + 48])).unwrap();
            notes.insert(
                entry + 48,
                format!(
                    "{encoding:?}, {} bytes a row, table of blocks at {:#x}",
                    u16::from(bytes[entry + 52]) + 256 * u16::from(bytes[entry + 53]),
                    word(entry + 56)
                ),
            );
            digest(&mut notes, entry + 64, "its table of blocks");
            let blocks = word(entry + 56);
            if blocks != 0 {
                // A block table can start in the middle of a line.
                let line = notes.entry(blocks / 16 * 16).or_default();
                let comma = if line.is_empty() { "" } else { ", " };
                line.push_str(&format!("{comma}blocks of {name} from {blocks:#x}: BLAKE3 of block 0"));
                let stored = u32::from_le_bytes(bytes[blocks + 32..blocks + 36].try_into().unwrap());
                let line = notes.entry((blocks + 32) / 16 * 16).or_default();
                line.push_str(&format!("its {stored} bytes, codec {}", bytes[blocks + 36]));
            }
            let at = word(entry + 8);
            if at != 0 {
                notes.insert(at, format!("section {name}: {} bytes", word(entry + 16)));
                if number == SectionKind::Facts as u32 {
                    let f = metadata();
                    let end = fields!(at, "gpu_id": f.identity.gpu_id, "gpu_name": f.identity.gpu_name,
                        "driver": f.identity.driver, "board": f.identity.board, "tool": f.identity.tool,
                        "source": f.identity.source, "when": f.identity.when, "clock": f.identity.clock,
                        "spaces": f.spaces, "address_spaces": f.address_spaces, "buffers": f.buffers,
                        "regions": f.regions, "lost": f.lost, "findings": f.findings,
                        "source_pages": f.source_pages, "source_zero_pages": f.source_zero_pages);
                    assert_eq!(end, at + word(entry + 16), "the notes do not cover the record");
                }
                if number == SectionKind::Snapshots as u32 {
                    let s = &tiny_recording(6).memory.snapshots[0];
                    fields!(at, "list of 1": 1u64, "event": s.event, "parent": s.parent, "list of 2 runs": 2u64,
                        "run": s.runs[0], "run": s.runs[1]);
                }
                if number >= 0x701 {
                    notes.insert(at + 16, "derived: content digest it was made from".to_owned());
                    notes.insert(at + 48, "its name".to_owned());
                    notes.insert(at + 256, "its content".to_owned());
                }
            }
        }
        record = previous;
    }
    notes
}

/// Returns a hexdump in lines of 16 bytes: offset, hex, text, note. A `*` stands for omitted lines of zeros.
fn dump(bytes: &[u8]) -> String {
    let notes = annotations(bytes);
    let mut out = String::new();
    let mut skipping = false;
    for (i, line) in bytes.chunks(16).enumerate() {
        let at = i * 16;
        let note = notes.get(&at);
        if note.is_none() && line.iter().all(|b| *b == 0) {
            if !skipping {
                out.push_str("*\n");
            }
            skipping = true;
            continue;
        }
        skipping = false;
        let hex: Vec<String> = line.iter().map(|b| format!("{b:02x}")).collect();
        let text: String = line
            .iter()
            .map(|b| {
                if b.is_ascii_graphic() || *b == b' ' {
                    *b as char
                } else {
                    '.'
                }
            })
            .collect();
        let row = format!(
            "{at:06x}  {:<47}  |{text}|  {}",
            hex.join(" "),
            note.map_or("", String::as_str)
        );
        writeln!(out, "{}", row.trim_end()).unwrap();
    }
    writeln!(out, "{:06x}", bytes.len()).unwrap();
    out
}

const BEGIN: &str = "<!-- dump of v2-tiny.kine -->\n```text\n";
const END: &str = "```\n<!-- end of dump -->";

#[test]
fn golden_hexdump_in_the_page_matches_the_file() {
    let page_at = root().join("docs/format.md");
    let page = std::fs::read_to_string(&page_at).unwrap();
    let start = page.find(BEGIN).expect("the page has no hexdump") + BEGIN.len();
    let end = start + page[start..].find(END).expect("the hexdump has no end");
    let bytes = std::fs::read(golden()).unwrap();
    if bless() {
        std::fs::write(&page_at, format!("{}{}{}", &page[..start], dump(&bytes), &page[end..])).unwrap();
        return;
    }
    // The bytes are parsed from the page, as a reader of the page would type them.
    let mut parsed = Vec::new();
    for line in page[start..end].lines().filter(|l| *l != "*") {
        let at = usize::from_str_radix(&line[..6], 16).unwrap();
        assert!(at >= parsed.len());
        parsed.resize(at, 0u8);
        let hex = line.get(8..55).unwrap_or_default();
        parsed.extend(hex.split_whitespace().map(|h| u8::from_str_radix(h, 16).unwrap()));
    }
    assert!(parsed == bytes, "the hexdump in docs/format.md differs from the file");
    assert_eq!(
        &page[start..end],
        dump(&bytes),
        "the notes of the hexdump differ from the file"
    );
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn kind_name(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Read => "read",
        EventKind::Write => "write",
        EventKind::Interrupt => "interrupt",
        EventKind::Mark => "mark",
        EventKind::Submit => "submit",
        EventKind::HostWrite => "host-write",
        EventKind::Undecoded => "undecoded",
        EventKind::DmaMap => "dma-map",
        other => other.call_name().or_else(|| other.driver_name()).unwrap(),
    }
}

/// Returns the pages with the bytes of an event.
fn stored_pages(e: &Events, event: usize) -> Option<Vec<u32>> {
    let rows = e.stored_content(event)?.rows()?;
    Some(
        e.call_pages
            .iter_range(rows.start as usize..rows.end as usize)
            .collect(),
    )
}

/// Returns an event in the form of the Python reader.
fn event_as_json(r: &Recording, i: usize) -> Value {
    let e = &r.events;
    let kind = e.kind(i).unwrap();
    let row = e.payload.get(i).unwrap() as usize;
    let mut v = serde_json::json!({
        "event": i,
        "kind": kind_name(kind),
        "space": e.space.get(i).unwrap(),
        "time": e.time.get(i).unwrap(),
        "thread": e.thread.get(i).unwrap(),
    });
    let more = match kind {
        EventKind::Read | EventKind::Write => {
            let a = e.access(i).unwrap();
            serde_json::json!({ "offset": a.offset, "width": a.width, "value": a.value })
        }
        EventKind::Interrupt => {
            let row = e.interrupts.get(row).unwrap();
            serde_json::json!({ "line": row.line, "status": row.status })
        }
        EventKind::Mark => serde_json::json!({ "text": e.marks[row] }),
        EventKind::Submit => {
            let s = e.submits.get(row).unwrap();
            serde_json::json!({ "head_va": s.head_va, "address_space": s.address_space, "slot": s.slot })
        }
        EventKind::HostWrite => {
            let w = e.host_writes.get(row).unwrap();
            serde_json::json!({ "at": w.at, "bytes": w.bytes, "image": w.page })
        }
        EventKind::Undecoded => {
            let u = e.undecoded.get(row).unwrap();
            serde_json::json!({ "offset": u.offset, "code": u.code })
        }
        EventKind::DmaMap => {
            let d = e.dma_maps.get(row).unwrap();
            serde_json::json!({ "bus": d.bus, "bytes": d.bytes, "map_kind": d.kind })
        }
        EventKind::Object => {
            let o = e.objects.get(row).unwrap();
            serde_json::json!({
                "bytes": o.bytes, "address": o.address, "second": o.second, "client": o.client, "parent": o.parent,
                "handle": o.handle, "class": o.class, "address_space": o.space, "action": o.action,
                "object_kind": o.kind, "caller": o.caller, "flags": o.flags, "result": o.result,
            })
        }
        EventKind::RingEntry => {
            let n = e.ring_entries.get(row).unwrap();
            serde_json::json!({
                "entry": n.entry, "at": n.va, "bytes": n.bytes, "client": n.client, "channel": n.channel,
                "index": n.index, "pages": stored_pages(e, i),
            })
        }
        EventKind::SavedMemory => {
            let s = e.saved_memory.get(row).unwrap();
            serde_json::json!({ "at": s.va, "bytes": s.bytes, "reason": s.reason, "pages": stored_pages(e, i) })
        }
        _ => match e.call(i).unwrap() {
            CallEvent::Launch(l) => serde_json::json!({
                "function": l.function, "stream": l.stream, "grid": l.grid, "block": l.block, "cluster": l.cluster,
                "shared": l.shared, "flags": l.flags, "result": l.result, "took": l.took,
                "arguments": hex(&e.call_arguments(l.arguments_at, l.arguments).unwrap()),
            }),
            CallEvent::Copy(c) => {
                let pages = stored_pages(e, i);
                serde_json::json!({
                    "to": c.to, "from": c.from, "bytes": c.bytes, "rows": c.rows, "to_pitch": c.to_pitch,
                    "from_pitch": c.from_pitch, "copy_kind": c.kind, "stream": c.stream, "flags": c.flags,
                    "result": c.result, "took": c.took, "pages": pages,
                })
            }
            CallEvent::Fill(f) => serde_json::json!({
                "to": f.to, "elements": f.elements, "rows": f.rows, "pitch": f.pitch, "value": f.value,
                "element": f.element, "stream": f.stream, "flags": f.flags, "result": f.result, "took": f.took,
            }),
            CallEvent::Order(o) => serde_json::json!({
                "order_kind": o.kind, "stream": o.stream, "number": o.event, "flags": o.flags, "result": o.result,
                "took": o.took,
            }),
            CallEvent::Allocation(a) => serde_json::json!({
                "at": a.at, "bytes": a.bytes, "allocation_kind": a.kind, "stream": a.stream, "result": a.result,
                "took": a.took,
            }),
            CallEvent::Call(c) => serde_json::json!({
                "name": c.name, "about": c.about, "result": c.result, "took": c.took,
                "arguments": hex(&e.call_arguments(c.arguments_at, c.arguments).unwrap()),
            }),
        },
    };
    v.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    v
}

fn section_as_json(s: &SectionInfo) -> Value {
    let hex: String = s.digest.iter().map(|b| format!("{b:02x}")).collect();
    serde_json::json!({
        "section": s.kind.unwrap().name(),
        "name": s.name,
        "version": s.version,
        "offset": s.offset,
        "bytes": s.bytes,
        "first_row": s.first_row,
        "rows": s.rows,
        "digest": hex,
    })
}

/// Runs the Python reader and compares all sections, events, snapshots, pages and the metadata.
pub fn compare_with_python(path: &Path) {
    let script = root().join("tests/format_reader.py");
    let out = Command::new("python3")
        .arg(&script)
        .arg(path)
        .output()
        .expect("this test needs python3");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).unwrap();
    let lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let lines_with = |key: &str| {
        lines
            .iter()
            .filter(|l| l.get(key).is_some())
            .cloned()
            .collect::<Vec<Value>>()
    };
    let file = KineFile::open(path).unwrap();
    let r = file.recording().unwrap();
    let sections: Vec<Value> = file.sections().iter().map(section_as_json).collect();
    assert_eq!(lines_with("section"), sections);
    let events: Vec<Value> = (0..r.events.len()).map(|i| event_as_json(&r, i)).collect();
    assert_eq!(lines_with("event"), events);
    assert_eq!(lines_with("facts"), [serde_json::json!({ "facts": r.metadata })]);
    let snapshots: Vec<Value> = r
        .memory
        .snapshots
        .iter()
        .map(|s| serde_json::json!({ "snapshot": s }))
        .collect();
    assert_eq!(lines_with("snapshot"), snapshots);
    let metadata: Vec<Value> = records(&r.metadata)
        .into_iter()
        .map(|(tag, version, body)| match MetadataTag::from_raw(tag) {
            None | Some(MetadataTag::ScreenAtEnd) => {
                serde_json::json!({ "metadata": tag, "version": version, "body": body })
            }
            Some(_) => {
                let body: Value = serde_json::from_slice(&body).unwrap();
                serde_json::json!({ "metadata": tag, "version": version, "body": body })
            }
        })
        .collect();
    assert_eq!(lines_with("metadata"), metadata);
    let extras: Vec<Value> = r
        .extras
        .iter()
        .map(|(n, b)| serde_json::json!({ "extra": n, "content": b }))
        .collect();
    assert_eq!(lines_with("extra"), extras);
    assert_eq!(lines_with("page").len(), r.memory.pages.len());
    for (i, p) in lines_with("page").iter().enumerate() {
        let id = trace_core::recording::PageId(i as u32 + 1);
        let sum: u64 = r.memory.pages.page(id).unwrap().iter().map(|b| u64::from(*b)).sum();
        let hex: String = r
            .memory
            .pages
            .digest(id)
            .unwrap()
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        assert_eq!(*p, serde_json::json!({ "page": i + 1, "digest": hex, "sum": sum }));
    }
    assert_eq!(
        lines.len(),
        sections.len() + events.len() + 1 + snapshots.len() + metadata.len() + extras.len() + r.memory.pages.len()
    );
}

#[test]
fn golden_reader_written_from_the_page_agrees() {
    compare_with_python(&golden());
}

#[test]
fn golden_reader_written_from_the_page_agrees_on_other_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("made.kine");
    container::write(&recording(7, 1500), &path, &Default::default()).unwrap();
    compare_with_python(&path);
    // The file has many commits, so that incremental and complete tables alternate, and a torn tail.
    let growing = folder.path().join("grows.kine");
    let mut w = Writer::create(&growing).unwrap();
    for n in 0..70u32 {
        w.push(SectionKind::EventKind, &[4u8]).unwrap();
        w.push(SectionKind::EventTime, &[u64::from(n)]).unwrap();
        w.push(SectionKind::EventPayload, &[n]).unwrap();
        w.push_constant(SectionKind::EventSpace, 0u8, 1).unwrap();
        w.push_constant(SectionKind::EventThread, 9u32, 1).unwrap();
        w.marks(&[format!("mark {n}")]).unwrap();
        w.metadata(&metadata()).unwrap();
        w.extra("count", &n.to_le_bytes()).unwrap();
        w.commit().unwrap();
    }
    drop(w);
    let mut bytes = std::fs::read(&growing).unwrap();
    bytes.extend([0x55; 5000]);
    std::fs::write(&growing, &bytes).unwrap();
    compare_with_python(&growing);
}

#[test]
fn golden_reader_written_from_the_page_agrees_on_derived_data() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("derived.kine");
    timeline::write(&recording(11, 9000), &path, &Progress::new()).unwrap();
    let file = KineFile::open(&path).unwrap();
    let r = file.recording().unwrap();
    let map = RegisterMap::for_gpu(r.metadata.identity.gpu_id);
    let pyramid = Pyramid::stored(&file, &r, map)
        .unwrap()
        .expect("the file has no stored pyramid");
    let script = root().join("tests/format_reader.py");
    let out = Command::new("python3").arg(script).arg(&path).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).unwrap();
    let lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let read = lines
        .iter()
        .find(|l| l.get("pyramid").is_some())
        .expect("the reader did not find the section");
    assert_eq!(read["pyramid"], r.events.len());
    assert_eq!(read["lanes"], serde_json::json!(pyramid.lanes()));
    let rows = read["before"].as_array().unwrap();
    assert_eq!(rows.len(), r.events.len().div_ceil(128) + 1);
    for (i, row) in rows.iter().enumerate() {
        let before = (i as u64 * 128).min(r.events.len() as u64);
        let counts: Vec<_> = pyramid.count(&r.events, 0..before).iter().map(|c| [c.0, c.1]).collect();
        assert_eq!(*row, serde_json::json!(counts), "row {i}");
        if let Some(last) = before.checked_sub(1) {
            let axis = pyramid.axis();
            let position = axis.position(AxisKind::Compressed, last) as u64;
            assert_eq!(read["latest"][i], axis.ns(last), "row {i}");
            assert_eq!(read["cut"][i], axis.ns(last) - position, "row {i}");
        }
    }
    if let Some(map) = map {
        let expected = timeline::derive(&r, map, &Progress::new()).unwrap();
        let read = lines
            .iter()
            .find(|l| l.get("timeline").is_some())
            .expect("the reader did not find the section");
        let tables = &read["timeline"];
        assert_eq!(tables["polls"].as_array().unwrap().len(), expected.polls.len());
        assert_eq!(tables["jobs"].as_array().unwrap().len(), expected.jobs.len());
        for (row, gap) in tables["gaps"].as_array().unwrap().iter().zip(&expected.gaps) {
            assert_eq!(*row, serde_json::json!([gap.after_event, gap.ns]));
        }
    }
}

#[test]
fn golden_reader_refuses_invalid_files() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = tiny(2);
    for (name, bytes) in [
        ("cut", &bytes[..20_000]),
        ("other", b"PNG, say".as_slice()),
        ("empty", b""),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let out = Command::new("python3")
            .arg(root().join("tests/format_reader.py"))
            .arg(&path)
            .output()
            .unwrap();
        assert_eq!(out.status.code(), Some(1), "{name}");
        assert!(!out.stderr.is_empty() && out.stdout.is_empty(), "{name}");
    }
}
