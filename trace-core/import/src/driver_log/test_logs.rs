//! Opens logs of tests through the table of formats, and describes what became of them.

use crate::{IMPORTERS, OpenOptions, Opened, open};
use std::path::{Path, PathBuf};
use trace_core::Recording;
use trace_core::finding::FindingKind;
use trace_core::progress::Progress;
use trace_core::recording::{EventKind, ObjectAction, ObjectKind, ObjectRow};

/// Writes a log to a file.
pub(super) fn write(text: impl AsRef<[u8]>) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.txt");
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

/// Opens a log that the importer of this name must take.
pub(super) fn open_as(importer: &str, path: &Path) -> Recording {
    let found = IMPORTERS.iter().find(|i| (i.fits)(path)).map(|i| i.name);
    assert_eq!(found, Some(importer));
    let opened = open(path, &OpenOptions::default(), &Progress::new());
    opened.and_then(Opened::into_recording).unwrap()
}

/// Imports a text that the importer of this name must take.
pub(super) fn import_as(importer: &str, text: impl AsRef<[u8]>) -> Recording {
    let (_folder, path) = write(text);
    open_as(importer, &path)
}

/// Returns the events of objects in order.
pub(super) fn objects(recording: &Recording) -> Vec<ObjectRow> {
    recording.events.objects.iter().collect()
}

/// Returns the objects of a kind that were created.
pub(super) fn created(recording: &Recording, kind: ObjectKind) -> Vec<ObjectRow> {
    let is = |row: &ObjectRow| row.kind == kind as u32 && row.action == ObjectAction::Create as u32;
    recording.events.objects.iter().filter(is).collect()
}

/// Returns the name of the function that asked for an object.
pub(super) fn caller<'a>(recording: &'a Recording, row: &ObjectRow) -> &'a str {
    recording.driver_trace().unwrap().name(row.caller).unwrap_or("nobody")
}

/// Returns each event as a text: the description, or the text of a mark.
pub(super) fn describe_events(recording: &Recording) -> Vec<String> {
    let events = &recording.events;
    let describe = |event: usize| match events.kind(event) {
        Some(EventKind::Mark) => events.marks[events.payload.get(event).unwrap() as usize].clone(),
        _ => recording.describe_driver_event(event).unwrap(),
    };
    (0..events.len()).map(describe).collect()
}

/// Returns the messages of the findings of a kind.
pub(super) fn messages(recording: &Recording, kind: FindingKind) -> Vec<&str> {
    let findings = recording.metadata.findings.iter();
    findings
        .filter(|f| f.kind == kind)
        .map(|f| f.message.as_str())
        .collect()
}
