//! Tests of round trips: complete recordings, streams of chunks, several commits, unknown sections, derived data.

use crate::container::generate::{assert_same, metadata, recording};
use trace_core::container::{self, ContainerError, KineFile, MemorySink, Writer};
use trace_core::progress::Progress;
use trace_core::recording::{Column, ColumnBuilder, SectionKind};
use trace_core::{Recording, RegOffset};

#[test]
fn recording_round_trips_through_memory_and_file() {
    let folder = tempfile::tempdir().unwrap();
    for seed in [1, 2, 300] {
        let r = recording(seed, 200 * seed as usize);
        let bytes = container::to_bytes(&r).unwrap();
        assert_same(&r, &container::from_bytes(bytes.clone()).unwrap());
        let path = folder.path().join(format!("{seed}.kine"));
        container::write(&r, &path, &Progress::new()).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "file and bytes differ");
        let back = container::open(&path).unwrap();
        assert_same(&r, &back);
        assert_eq!(
            container::to_bytes(&back).unwrap(),
            bytes,
            "a second write gives other bytes"
        );
        assert_eq!(container::verify(&path).unwrap().findings, []);
    }
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        3,
        "other files are left in the folder"
    );
}

#[test]
fn empty_recording_round_trips() {
    let r = Recording::default();
    assert_same(&r, &container::from_bytes(container::to_bytes(&r).unwrap()).unwrap());
}

#[test]
fn constant_columns_use_little_space() {
    let mut r = recording(1, 0);
    let n = 3_000_000;
    let constant = |v: u64| {
        let mut b = ColumnBuilder::new();
        b.push_constant(v, n);
        b.finish()
    };
    let narrow = |v: u8| {
        let mut b = ColumnBuilder::new();
        b.push_constant(v, n);
        b.finish()
    };
    let words = |v: u32| {
        let mut b = ColumnBuilder::new();
        b.push_constant(v, n);
        b.finish()
    };
    r.events.kind = narrow(1);
    r.events.space = narrow(0);
    r.events.time = constant(9);
    r.events.thread = words(5);
    r.events.payload = words(0);
    r.events.offset = words(16);
    r.events.width = narrow(4);
    r.events.value = constant(0xffff_ffff_ffff_fff0);
    let bytes = container::to_bytes(&r).unwrap();
    assert!(
        bytes.len() < n * 5 + 100_000,
        "constant columns are stored row by row: {} bytes",
        bytes.len()
    );
    let back = container::from_bytes(bytes).unwrap();
    assert_eq!(back.events.value.get(n - 1), Some(0xffff_ffff_ffff_fff0));
    assert_eq!(back.events.access(n - 1), r.events.access(n - 1));
    assert!(back.events.offset.iter().eq(r.events.offset.iter()));
}

#[test]
fn columns_of_many_small_chunks_are_put_together() {
    let mut r = recording(1, 0);
    let mut b = ColumnBuilder::new();
    for i in 0..5000u32 {
        b.push_owned(vec![i as u8 % 2 + 1]);
        b.push_constant(2, 1 + i as usize % 3);
    }
    r.events.kind = b.finish();
    let n = r.events.kind.len();
    r.events.payload = (0..n as u32).collect::<Vec<_>>().into();
    r.events.space = vec![0; n].into();
    r.events.time = (0..n as u64).collect::<Vec<_>>().into();
    r.events.thread = vec![1; n].into();
    r.events.offset = vec![4; n].into();
    r.events.width = vec![4; n].into();
    r.events.value = vec![4; n].into();
    let bytes = container::to_bytes(&r).unwrap();
    assert_same(&r, &container::from_bytes(bytes.clone()).unwrap());
    let file = KineFile::from_bytes(bytes).unwrap();
    assert_eq!(
        file.sections()
            .iter()
            .filter(|s| s.kind == Some(SectionKind::EventKind))
            .count(),
        1
    );
}

fn slice<T: bytemuck::Pod>(c: &Column<T>, from: usize, to: usize) -> Vec<T> {
    c.iter_range(from..to).collect()
}

/// Pushes events `from..to` of a recording that has only accesses.
fn push_accesses<S: container::Sink>(w: &mut Writer<S>, r: &Recording, from: usize, to: usize) {
    use SectionKind as K;
    let e = &r.events;
    w.push(K::EventKind, &slice(&e.kind, from, to)).unwrap();
    w.push(K::EventTime, &slice(&e.time, from, to)).unwrap();
    w.push(K::EventPayload, &slice(&e.payload, from, to)).unwrap();
    w.push_constant(K::EventSpace, 0u8, (to - from) as u64).unwrap();
    w.push_constant(K::EventThread, 77u32, (to - from) as u64).unwrap();
    w.push(K::AccessOffset, &slice(&e.offset, from, to)).unwrap();
    w.push(K::AccessValue, &slice(&e.value, from, to)).unwrap();
    w.push_constant(K::AccessWidth, 4u8, (to - from) as u64).unwrap();
}

/// Returns a recording of accesses only.
fn accesses(count: u64) -> Recording {
    use trace_core::recording::{Access, EventsBuilder};
    let mut b = EventsBuilder::new();
    for i in 0..count {
        b.access(
            i,
            77,
            Access {
                space: 0,
                write: i % 3 == 0,
                offset: RegOffset::new(i as u32 % 0x1000 * 4),
                width: 4,
                value: i * i,
            },
        );
    }
    Recording {
        metadata: metadata(),
        events: b.finish(),
        ..Recording::default()
    }
}

#[test]
fn many_commits_accumulate_beyond_the_table_chain_limit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.kine");
    let r = accesses(1000);
    let mut w = Writer::create(&path).unwrap();
    w.metadata(&r.metadata).unwrap();
    for i in 0..100usize {
        push_accesses(&mut w, &r, i * 5, i * 5 + 5);
        let c = w.commit().unwrap();
        assert_eq!(c.number, i as u64 + 1);
        assert_eq!(c.end, std::fs::metadata(&path).unwrap().len());
        let open = container::open(&path).unwrap();
        assert_eq!(open.events.len(), i * 5 + 5);
    }
    assert!(matches!(Writer::append(&path), Err(ContainerError::Busy { .. })));
    drop(w);
    for i in 100..200usize {
        let mut w = Writer::append(&path).unwrap();
        push_accesses(&mut w, &r, i * 5, i * 5 + 5);
        assert_eq!(w.commit().unwrap().number, i as u64 + 1);
    }
    assert_same(&r, &container::open(&path).unwrap());
    let report = container::verify(&path).unwrap();
    assert_eq!((report.commits, report.findings), (200, vec![]));
}

#[test]
fn append_writes_only_new_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("grows.kine");
    let (short, mut long) = (accesses(500), accesses(800));
    container::write(&short, &path, &Progress::new()).unwrap();
    long.metadata.identity.board = "another".to_owned();
    long.extras.insert("note".to_owned(), b"hello".to_vec());
    long.memory = recording(1, 1).memory;
    let before = std::fs::metadata(&path).unwrap().len();
    container::append(&long, &path, &Progress::new()).unwrap();
    assert_same(&long, &container::open(&path).unwrap());
    let file = KineFile::open(&path).unwrap();
    assert_eq!(file.commit(), 2);
    let offsets = file.sections();
    let added = offsets
        .iter()
        .find(|s| s.kind == Some(SectionKind::AccessOffset) && s.first_row == 500)
        .unwrap();
    assert!(added.offset >= before && added.rows == 300);
    let refused = container::append(&short, &path, &Progress::new());
    assert!(matches!(refused, Err(ContainerError::Refused(_))), "{refused:?}");
    assert_same(&long, &container::open(&path).unwrap());
    assert_eq!(container::verify(&path).unwrap().findings, []);
}

#[test]
fn stale_derived_data_is_detected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("derived.kine");
    let r = accesses(10);
    container::write_with(&r, &path, &Progress::new(), |w| {
        w.derived("timeline", 3, b"made of ten events")
    })
    .unwrap();
    let read = |name| KineFile::open(&path).unwrap().derived(name).unwrap();
    let d = read("timeline").unwrap();
    assert_eq!(
        (d.bytes(), d.analysis_version, d.is_current),
        (&b"made of ten events"[..], 3, true)
    );
    assert!(read("polls").is_none());
    let mut w = Writer::append(&path).unwrap();
    w.extra("note", b"an extra does not change what was analysed").unwrap();
    w.commit().unwrap();
    assert!(read("timeline").unwrap().is_current);
    push_accesses(&mut w, &r, 0, 5);
    w.commit().unwrap();
    assert!(!read("timeline").unwrap().is_current);
    w.derived("timeline", 4, b"new").unwrap();
    w.commit().unwrap();
    let d = read("timeline").unwrap();
    assert_eq!((d.bytes(), d.analysis_version, d.is_current), (&b"new"[..], 4, true));
}

#[test]
fn inconsistent_sections_are_not_written() {
    let mut w = Writer::begin(MemorySink::default()).unwrap();
    w.push(SectionKind::EventKind, &[1u8, 2]).unwrap();
    let report = w.commit().unwrap_err().to_string();
    assert!(
        report.contains("event-space has 0 rows, column event-kind has 2"),
        "{report}"
    );
    assert!(
        w.push(SectionKind::EventTime, &[1u8]).is_err(),
        "rows of the wrong size are accepted"
    );
    assert!(
        w.push_constant(SectionKind::EventKind, 1u8, 5).is_err(),
        "constant kinds are accepted"
    );
    assert!(
        w.push(SectionKind::Facts, &[1u8]).is_err(),
        "a section that is not a column is accepted"
    );
    let mut r = recording(1, 10);
    r.memory.pages = Default::default();
    assert!(
        matches!(container::to_bytes(&r), Err(ContainerError::Refused(_))),
        "snapshots of missing pages are accepted"
    );
}

#[test]
fn a_cancelled_write_leaves_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept.kine");
    let (old, new) = (accesses(10), accesses(1000));
    container::write(&old, &path, &Progress::new()).unwrap();
    let progress = Progress::new();
    progress.cancel();
    assert!(matches!(
        container::write(&new, &path, &progress),
        Err(ContainerError::Cancelled(_))
    ));
    assert_same(&old, &container::open(&path).unwrap());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let watched = Progress::new();
    container::write(&new, &path, &watched).unwrap();
    assert!(watched.fraction().unwrap() > 0.5);
}

#[test]
fn a_streamed_file_appears_at_once_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("streamed.kine");
    let r = accesses(1000);
    let failed = container::write_streamed(&path, &Progress::new(), |w| {
        push_accesses(w, &r, 0, 500);
        Err(ContainerError::Refused("the source ended".to_owned()))
    });
    assert_eq!(failed.unwrap_err().to_string(), "cannot be written: the source ended");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    container::write_streamed::<ContainerError>(&path, &Progress::new(), |w| {
        w.metadata(&r.metadata)?;
        for i in 0..10 {
            push_accesses(w, &r, i * 100, i * 100 + 100);
        }
        Ok(())
    })
    .unwrap();
    assert_same(&r, &container::open(&path).unwrap());
    let constants = container::sections(&path).unwrap();
    let widths: Vec<u64> = constants
        .iter()
        .filter(|s| s.kind == Some(SectionKind::AccessWidth))
        .map(|s| s.rows)
        .collect();
    assert_eq!(widths, [1000], "adjacent constant chunks are not merged");
}

#[test]
fn an_open_recording_stays_as_it_was_while_others_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shared.kine");
    let (first, more) = (accesses(3000), accesses(9000));
    container::write(&first, &path, &Progress::new()).unwrap();
    let open = container::open(&path).unwrap();
    container::append(&more, &path, &Progress::new()).unwrap();
    assert_same(&first, &open);
    let grown = container::open(&path).unwrap();
    container::write(&accesses(5), &path, &Progress::new()).unwrap();
    assert_same(&first, &open);
    assert_same(&more, &grown);
    assert_same(&accesses(5), &container::open(&path).unwrap());
}
