//! Tests that no change of a user is lost or mixed, with two windows on one recording or with an unreadable journal.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use crate::common::net::net;
use kinescope_files::changes::Change;
use kinescope_files::journal;
use kinescope_session::derived_data::Stage;
use kinescope_session::{Document, derive};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trace_core::RegOffset;
use trace_core::progress::Progress;

/// Copies a recording into `dir` and returns its path.
fn copy(dir: &Path) -> PathBuf {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .join("sample-traces");
    let path = dir.join("write-value.kine");
    std::fs::copy(samples.join("write-value.kine"), &path).unwrap();
    path
}

fn open(path: &Path) -> Document {
    let recording = trace_core::container::open(path).unwrap();
    let derived = derive::derive(&recording, &Progress::new()).unwrap();
    Document::new(path.to_owned(), Arc::new(recording), Arc::new(derived))
}

fn pin(doc: &mut Document, register: u32) {
    assert!(doc.change(Change::Pin {
        register: RegOffset::new(register),
        on: true
    }));
}

fn wait_for_journal(path: &Path) {
    let journal = journal::path_for(path);
    while std::fs::metadata(&journal).map_or(0, |m| m.len()) == 0 {
        std::thread::yield_now();
    }
}

#[test]
fn a_second_window_neither_reads_nor_writes_the_journal_of_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let path = copy(dir.path());
    let mut first = open(&path);
    assert!(first.notice.is_none());
    pin(&mut first, 4);
    wait_for_journal(&path);
    let mut second = open(&path);
    assert!(second.notice.as_ref().is_some_and(|n| n.contains("another window")));
    assert!(second.offered.is_none() && second.changes().pins().is_empty());
    pin(&mut second, 8);
    first.close();
    second.close();
    let third = open(&path);
    assert!(third.notice.is_none());
    assert_eq!(third.changes().pins(), [RegOffset::new(4)]);
    let offered = third
        .offered
        .as_ref()
        .expect("the change of the second window is offered");
    assert_eq!(offered.changes.pins(), [RegOffset::new(8)]);
}

#[test]
fn oversized_journal_is_reported_and_renamed() {
    let dir = tempfile::tempdir().unwrap();
    let path = copy(dir.path());
    let journal = journal::path_for(&path);
    File::create(&journal).unwrap().set_len((1 << 30) + 1).unwrap();
    let mut doc = open(&path);
    let message = doc.notice.take().unwrap();
    assert!(
        message.contains("1073741825 bytes") && message.contains("was moved to"),
        "{message}"
    );
    assert!(!journal.exists());
    pin(&mut doc, 4);
    doc.close();
    assert_eq!(open(&path).changes().pins().len(), 1);
}

#[test]
fn api_trace_buffers_load_late_unless_edits_need_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("net.kine");
    let recording = Arc::new(net(1).recording);
    let first = || Arc::new(derive::first(&recording, (None, None), &Progress::new()).unwrap());
    let mut doc = Document::new(path.clone(), Arc::clone(&recording), first());
    assert!(!doc.derived.has_stage(Stage::Buffers) && doc.buffers.list().is_empty());
    let part = derive::find_out(Stage::Buffers, &recording, None, &doc.derived, &Progress::new()).unwrap();
    doc.learn(part);
    assert!(doc.derived.has_stage(Stage::Buffers) && doc.buffers.get("in0").is_some());
    assert!(doc.edit("in0", 0, vec![0x5a]));
    doc.close();
    drop(doc);
    let reopened = Document::new(path, Arc::clone(&recording), first());
    assert!(reopened.derived.has_stage(Stage::Buffers) && reopened.buffers.get("in0").is_some());
    assert!(reopened.changes().inputs().contains_key("in0"), "{:?}", reopened.notice);
}
