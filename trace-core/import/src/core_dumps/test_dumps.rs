//! What the tests of all dumps need.

use std::path::Path;
use trace_core::finding::FindingKind;
use trace_core::progress::Progress;
use trace_core::recording::Recording;

/// Opens a dump that is text as the program does. `fits` is the probe of its importer.
pub(super) fn open_text(text: &str, fits: fn(&Path) -> bool) -> Recording {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    std::fs::write(&path, text).unwrap();
    assert!(fits(&path));
    let opened = crate::open(&path, &crate::OpenOptions::default(), &Progress::new());
    opened.and_then(crate::Opened::into_recording).unwrap()
}

/// The messages of a kind of findings.
pub(super) fn list_messages(r: &Recording, kind: FindingKind) -> Vec<&str> {
    let of_kind = r.metadata.findings.iter().filter(|f| f.kind == kind);
    of_kind.map(|f| f.message.as_str()).collect()
}

/// Asserts that nothing of a dump was left out or cut.
pub(super) fn assert_used_whole(r: &Recording) {
    for kind in [FindingKind::NotUsed, FindingKind::TruncatedSection] {
        assert!(list_messages(r, kind).is_empty(), "{:?}", r.metadata.findings);
    }
}

/// Opens a dump that is cut after every `step` bytes from `first` on, and asserts that a finding tells each cut line.
pub(super) fn assert_opens_cut(whole: &str, (first, step): (usize, usize), open: fn(&str) -> Recording) {
    for cut in (first..whole.len()).step_by(step) {
        let part = whole.get(..cut).unwrap();
        let r = open(part);
        let is_told = !list_messages(&r, FindingKind::TruncatedSection).is_empty();
        assert!(part.ends_with('\n') || is_told, "{cut}");
    }
}
