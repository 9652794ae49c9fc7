//! Tests of sessions, without a recorder: the tests supply the calls.

use super::*;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use trace_core::recording::{Api, CallModule, CodeKind, CopyKind, CopyRow, LaunchRow, Recording};

/// Time after which a test counts as hung.
const HANG_LIMIT: Duration = Duration::from_secs(120);

fn open(path: &std::path::Path) -> Recording {
    let report = trace_core::container::verify(path).unwrap();
    assert_eq!(report.findings, vec![]);
    trace_core::container::open(path).unwrap()
}

fn copy(kind: CopyKind, bytes: u64) -> CallEvent {
    CallEvent::Copy(CopyRow {
        to: 0x1000,
        from: 0x2000,
        bytes,
        rows: 1,
        kind: kind as u32,
        ..Default::default()
    })
}

fn settings(folder: &tempfile::TempDir) -> Settings {
    Settings {
        to: folder.path().join("r.kine"),
        limit: None,
    }
}

#[test]
fn session_entries_are_written_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let s = Session::begin(&settings(&folder)).unwrap();
    let b = s.start_call();
    let awaited = s.new_slot();
    s.record(
        b,
        1,
        copy(CopyKind::HostToDevice, 9000),
        EntryPayload::Content(vec![7; 9000]),
    );
    s.record(b, 1, copy(CopyKind::DeviceToHost, 5), EntryPayload::Awaited(awaited));
    s.record(
        b,
        2,
        CallEvent::Launch(LaunchRow::default()),
        EntryPayload::Arguments(vec![1, 2, 3]),
    );
    let never = s.new_slot();
    s.record(b, 2, copy(CopyKind::DeviceToHost, 5), EntryPayload::Awaited(never));
    s.record(b, 2, copy(CopyKind::HostToDevice, 5), EntryPayload::Content(vec![1; 4]));
    {
        let mut t = s.tables();
        t.metadata.api = Api::Cuda;
        t.metadata.modules.push(CallModule {
            kind: CodeKind::Ptx,
            origin: "memory".into(),
            ..Default::default()
        });
        t.mark_changed();
    }
    s.store_code(0, b"\n.version 7.0".repeat(1000));
    s.supply(awaited, Some(vec![9; 5]));
    s.end();
    s.end();
    let r = open(&folder.path().join("r.kine"));
    assert!(r.events.kind.iter().eq([10, 10, 9, 10, 10]));
    let copied = |event| match r.events.call(event) {
        Some(CallEvent::Copy(c)) => r.copy_content(&c),
        other => panic!("{other:?}"),
    };
    assert_eq!(copied(0), Some(vec![7; 9000]));
    assert_eq!(copied(1), Some(vec![9; 5]));
    assert_eq!(
        (copied(3), copied(4)),
        (None, None),
        "the first content is never supplied, the second has another length"
    );
    let Some(CallEvent::Launch(l)) = r.events.call(2) else {
        panic!()
    };
    assert_eq!(
        r.events.call_arguments(l.arguments_at, l.arguments),
        Some(vec![1, 2, 3])
    );
    assert!(r.events.thread.iter().eq([1, 1, 2, 2, 2]));
    let metadata = r.api().unwrap();
    assert_eq!(
        r.module_code(&metadata.modules[0]).unwrap(),
        b"\n.version 7.0".repeat(1000)
    );
    assert_eq!(
        (metadata.modules[0].kind, &*metadata.modules[0].origin),
        (CodeKind::Ptx, "memory")
    );
}

#[test]
fn concurrent_events_are_stored_before_the_session_ends() {
    let folder = tempfile::tempdir().unwrap();
    let s = Session::begin(&settings(&folder)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let s = &s;
            scope.spawn(move || {
                for n in 0..5000u32 {
                    let row = LaunchRow {
                        function: n,
                        ..Default::default()
                    };
                    s.record(
                        s.start_call(),
                        thread,
                        CallEvent::Launch(row),
                        EntryPayload::Arguments(n.to_le_bytes().to_vec()),
                    );
                }
            });
        }
    });
    let path = folder.path().join("r.kine");
    // A reader finds committed events during the recording.
    let deadline = Instant::now() + HANG_LIMIT;
    while trace_core::container::open(&path).map_or(0, |r| r.events.len()) < 20_000 {
        assert!(Instant::now() < deadline, "no event was committed");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(s);
    let r = open(&path);
    let mut next = [0u32; 4];
    for at in 0..r.events.len() {
        let Some(CallEvent::Launch(l)) = r.events.call(at) else {
            panic!()
        };
        let thread = r.events.thread.get(at).unwrap() as usize;
        assert_eq!(l.function, next[thread], "calls of a thread keep their order");
        next[thread] += 1;
        let arguments = r.events.call_arguments(l.arguments_at, l.arguments).unwrap();
        assert_eq!(arguments, l.function.to_le_bytes());
    }
    assert_eq!(next, [5000; 4]);
}

#[test]
fn stopped_recording_stores_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let s = Session::begin(&settings(&folder)).unwrap();
    s.record(
        s.start_call(),
        1,
        CallEvent::Launch(LaunchRow::default()),
        EntryPayload::Nothing,
    );
    s.stop("the driver is another one");
    s.record(
        s.start_call(),
        1,
        CallEvent::Launch(LaunchRow::default()),
        EntryPayload::Nothing,
    );
    s.end();
    let r = open(&folder.path().join("r.kine"));
    assert_eq!(r.events.len(), 1);
    assert_eq!(r.metadata.lost[0].reason, "the driver is another one");

    let mut small = settings(&folder);
    small.to = folder.path().join("small.kine");
    small.limit = Some(100_000);
    let s = Session::begin(&small).unwrap();
    let mut n = 0u64;
    while s.is_going() {
        n += 1;
        let page: Vec<u8> = n.to_le_bytes().repeat(512);
        s.record(
            s.start_call(),
            1,
            copy(CopyKind::HostToDevice, 4096),
            EntryPayload::Content(page),
        );
        assert!(n < 10_000_000);
    }
    assert!(s.why().unwrap().contains("limit of 100000 bytes"));
    s.end();
    assert_eq!(open(&small.to).metadata.lost.len(), 1);
}

/// A caller can supply more than the queue's limit after a copy whose content depends on the same caller. The caller
/// must not wait for itself.
#[test]
fn caller_never_waits_for_its_own_pending_copy() {
    let folder = tempfile::tempdir().unwrap();
    let s = Session::begin(&settings(&folder)).unwrap();
    let slot = s.new_slot();
    s.record(
        s.start_call(),
        1,
        copy(CopyKind::DeviceToHost, 8),
        EntryPayload::Awaited(slot),
    );
    for n in 0..24u8 {
        let content: Vec<u8> = (0..1u32 << 20).map(|at| (at >> 8) as u8 ^ n).collect();
        s.record(
            s.start_call(),
            1,
            copy(CopyKind::HostToDevice, 1 << 20),
            EntryPayload::Content(content),
        );
    }
    s.supply(slot, Some(vec![5; 8]));
    s.end();
    let r = open(&folder.path().join("r.kine"));
    assert_eq!(r.events.len(), 25);
    let copied = |event| match r.events.call(event) {
        Some(CallEvent::Copy(c)) => r.copy_content(&c).unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!(copied(0), [5; 8]);
    for n in 0..24usize {
        let c = copied(n + 1);
        assert!(
            c.iter().enumerate().all(|(at, b)| *b == (at >> 8) as u8 ^ n as u8),
            "{n}"
        );
    }
}

/// Only the caller can supply the content of a copy. Later calls of the same caller must not wait for this content.
#[test]
fn session_does_not_block_on_pending_copy_content() {
    let folder = tempfile::tempdir().unwrap();
    let s = Session::begin(&settings(&folder)).unwrap();
    let slot = s.new_slot();
    s.record(
        s.start_call(),
        1,
        copy(CopyKind::DeviceToHost, 8),
        EntryPayload::Awaited(slot),
    );
    // A call that waits for the copy would never end, because this thread supplies the content after it.
    for n in 0..40_000u32 {
        let row = LaunchRow {
            function: n,
            ..Default::default()
        };
        let arguments = n.to_le_bytes().repeat(256);
        s.record(
            s.start_call(),
            1,
            CallEvent::Launch(row),
            EntryPayload::Arguments(arguments),
        );
    }
    // The session no longer waits for the content.
    s.supply(slot, Some(vec![5; 8]));
    s.end();
    let r = open(&folder.path().join("r.kine"));
    assert_eq!(r.events.len(), 40_001);
    for at in 1..r.events.len() {
        let Some(CallEvent::Launch(l)) = r.events.call(at) else {
            panic!()
        };
        let arguments = r.events.call_arguments(l.arguments_at, l.arguments).unwrap();
        assert_eq!(arguments, l.function.to_le_bytes().repeat(256));
        assert_eq!(l.function as usize, at - 1);
    }
    let messages: Vec<&str> = r.metadata.findings.iter().map(|f| f.message.as_str()).collect();
    assert!(
        messages
            .iter()
            .any(|f| f.contains("did not wait for some of its copies")),
        "{messages:?}"
    );
}

/// Contents of complete copies are stored after a copy whose content is pending.
#[test]
fn content_after_an_abandoned_copy_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let s = Session::begin(&settings(&folder)).unwrap();
    let never = s.new_slot();
    s.record(
        s.start_call(),
        1,
        copy(CopyKind::DeviceToHost, 8),
        EntryPayload::Awaited(never),
    );
    for n in 0..24u8 {
        let slot = s.new_slot();
        let bytes = 1 << 20;
        s.record(
            s.start_call(),
            1,
            copy(CopyKind::DeviceToHost, bytes),
            EntryPayload::Awaited(slot),
        );
        s.supply(slot, Some(vec![n; bytes as usize]));
    }
    s.supply(never, Some(vec![99; 8]));
    s.end();
    let r = open(&folder.path().join("r.kine"));
    assert_eq!(r.events.len(), 25);
    for n in 0..25usize {
        let Some(CallEvent::Copy(c)) = r.events.call(n) else {
            panic!()
        };
        let (bytes, value) = if n == 0 { (8, 99) } else { (1 << 20, n as u8 - 1) };
        assert_eq!(r.copy_content(&c).unwrap(), vec![value; bytes]);
    }
}

#[test]
fn content_sent_in_parts_is_one_copy() {
    let folder = tempfile::tempdir().unwrap();
    let s = Session::begin(&settings(&folder)).unwrap();
    let row = |bytes| CopyRow {
        to: 0x1f00,
        bytes,
        rows: 1,
        kind: CopyKind::HostToDevice as u32,
        ..Default::default()
    };
    let bytes: Vec<u8> = (0..3_000_000u32).map(|n| (n / 3) as u8).collect();
    let at = GpuVa::new(0x1f00);
    let supply = |slot| {
        s.supply_part(slot, at, bytes[..0x100 + 4096 * 300].to_vec());
        s.supply_part(slot, at + 0x100 + 4096 * 300, bytes[0x100 + 4096 * 300..].to_vec());
    };
    let complete = s.new_slot();
    supply(complete);
    s.record(
        s.start_call(),
        1,
        CallEvent::Copy(row(3_000_000)),
        EntryPayload::Parts(complete),
    );
    // These copies have a content of another length, and no content.
    let short = s.new_slot();
    s.supply_part(short, at, vec![1; 100]);
    s.record(
        s.start_call(),
        1,
        CallEvent::Copy(row(9000)),
        EntryPayload::Parts(short),
    );
    s.record(
        s.start_call(),
        1,
        CallEvent::Copy(row(9000)),
        EntryPayload::Parts(s.new_slot()),
    );
    // The content of this copy is supplied after its row.
    let later = s.new_slot();
    s.record(
        s.start_call(),
        1,
        CallEvent::Copy(row(3_000_000)),
        EntryPayload::Awaited(later),
    );
    supply(later);
    s.supply_parts(later);
    s.end();
    let r = open(&folder.path().join("r.kine"));
    let copied = |event| match r.events.call(event) {
        Some(CallEvent::Copy(c)) => r.copy_content(&c),
        other => panic!("{other:?}"),
    };
    assert_eq!(copied(0).unwrap(), bytes);
    assert_eq!((copied(1), copied(2)), (None, None));
    assert_eq!(copied(3).unwrap(), bytes);
}

/// A second snapshot of a range is supplied as its changes. Its row contains the complete range.
#[test]
fn snapshot_stores_only_changes_since_the_last_one() {
    let folder = tempfile::tempdir().unwrap();
    let s = Session::begin(&settings(&folder)).unwrap();
    let (at, bytes) = (GpuVa::new(0x1539_4000_0200), 20_000u64);
    let row = |from: GpuVa, bytes| {
        CallEvent::Copy(CopyRow {
            from: from.get(),
            bytes,
            rows: 1,
            kind: CopyKind::DeviceToHost as u32,
            ..Default::default()
        })
    };
    let record_snapshot = |from: GpuVa, length: u64, parts| {
        s.record(
            s.start_call(),
            1,
            row(from, length),
            EntryPayload::Snapshot {
                range: (at, bytes),
                parts,
            },
        );
    };
    let mut memory: Vec<u8> = (0..bytes as u32).map(|n| (n / 100) as u8).collect();
    let second = 4096 - 0x200;
    // The range is supplied in two pieces, then with a changed page in each piece, then without changes.
    record_snapshot(at, second + 4096, vec![(0, memory[..second as usize + 4096].to_vec())]);
    record_snapshot(
        at + second + 4096,
        bytes - second - 4096,
        vec![(0, memory[second as usize + 4096..].to_vec())],
    );
    memory[..second as usize].fill(9);
    memory[19_999] = 9;
    let last = second + 4 * 4096;
    record_snapshot(
        at,
        bytes,
        vec![
            (0, memory[..second as usize].to_vec()),
            (last, memory[last as usize..].to_vec()),
        ],
    );
    record_snapshot(at, bytes, vec![]);
    let other = GpuVa::new(0x9000);
    // The session does not invent unknown content: of another range, and of more bytes than the range has.
    s.record(
        s.start_call(),
        1,
        row(other, 10),
        EntryPayload::Snapshot {
            range: (other, 10),
            parts: vec![],
        },
    );
    record_snapshot(at, bytes + 1, vec![]);
    s.end();
    let r = open(&folder.path().join("r.kine"));
    let copied = |event| match r.events.call(event) {
        Some(CallEvent::Copy(c)) => r.copy_content(&c),
        other => panic!("{other:?}"),
    };
    assert_eq!(copied(2).unwrap(), memory);
    assert_eq!(copied(3).unwrap(), memory);
    assert_eq!((copied(4), copied(5)), (None, None));
}

#[test]
fn pending_copies_are_collected_at_exit() {
    static SESSION: OnceLock<(Session, Slot)> = OnceLock::new();
    let folder = tempfile::tempdir().unwrap();
    let s = Session::begin(&settings(&folder)).unwrap();
    let slot = s.new_slot();
    let (s, _) = SESSION.get_or_init(|| (s, slot));
    s.set_exit_hook(|| {
        if let Some((s, slot)) = SESSION.get() {
            s.supply(*slot, Some(vec![3; 5]));
        }
        false
    });
    s.record(
        s.start_call(),
        1,
        copy(CopyKind::DeviceToHost, 5),
        EntryPayload::Awaited(slot),
    );
    s.end();
    let r = open(&folder.path().join("r.kine"));
    let Some(CallEvent::Copy(c)) = r.events.call(0) else {
        panic!()
    };
    assert_eq!(r.copy_content(&c).unwrap(), [3; 5]);
}

/// The writer thread supplies pending content at the end. It must not wait for itself. It calls the hook repeatedly, so
/// that the hook need not have all content in memory at once.
#[test]
fn entries_over_the_queue_limit_are_supplied_at_exit() {
    const COPIES: u64 = 6;
    static SESSION: OnceLock<(Session, Vec<Slot>)> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let folder = tempfile::tempdir().unwrap();
    let s = Session::begin(&settings(&folder)).unwrap();
    let slots = (0..COPIES).map(|_| s.new_slot()).collect();
    let (s, slots) = SESSION.get_or_init(|| (s, slots));
    s.set_exit_hook(|| {
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        if let Some((s, slots)) = SESSION.get()
            && let Some(slot) = slots.get(n as usize)
        {
            for part in 0..8 {
                s.supply_part(*slot, GpuVa::new(0x2000) + (part << 20), vec![n as u8 + 1; 1 << 20]);
            }
            s.supply_parts(*slot);
        }
        n + 1 < COPIES
    });
    for slot in slots {
        s.record(
            s.start_call(),
            1,
            copy(CopyKind::DeviceToHost, 8 << 20),
            EntryPayload::Awaited(*slot),
        );
    }
    s.end();
    assert!(
        s.shared.done.load(Ordering::Acquire),
        "the writer thread waited for itself"
    );
    let r = open(&folder.path().join("r.kine"));
    assert_eq!(r.events.len() as u64, COPIES);
    for n in 0..COPIES {
        let Some(CallEvent::Copy(c)) = r.events.call(n as usize) else {
            panic!()
        };
        assert_eq!(r.copy_content(&c).unwrap(), vec![n as u8 + 1; 8 << 20]);
    }
}

#[test]
fn writer_thread_failure_is_reported_in_the_recording() {
    let folder = tempfile::tempdir().unwrap();
    let s = Session::begin(&settings(&folder)).unwrap();
    s.record(
        s.start_call(),
        1,
        CallEvent::Launch(LaunchRow::default()),
        EntryPayload::Nothing,
    );
    let path = folder.path().join("r.kine");
    let deadline = Instant::now() + HANG_LIMIT;
    while trace_core::container::open(&path).map_or(0, |r| r.events.len()) < 1 {
        assert!(Instant::now() < deadline, "no event was committed");
        std::thread::sleep(Duration::from_millis(5));
    }
    s.set_exit_hook(|| panic!("a fault, for a test"));
    s.end();
    let r = open(&path);
    assert_eq!(r.events.len(), 1);
    assert_eq!(r.metadata.lost[0].reason, "the recorder's writer failed");
}

#[test]
fn session_does_not_overwrite_an_existing_file() {
    let folder = tempfile::tempdir().unwrap();
    let s = settings(&folder);
    std::fs::write(&s.to, b"mine").unwrap();
    let e = Session::begin(&s).unwrap_err();
    assert!(e.to_string().contains("r.kine"), "{e}");
    assert_eq!(std::fs::read(&s.to).unwrap(), b"mine");
}
