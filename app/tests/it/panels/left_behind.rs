//! Tests of edits that a crashed run left behind, and of a journal that cannot be written.

use crate::common::HANG_LIMIT;
use crate::panels::hands::{bytes, edited, floats, saxpy};
use kinescope_files::journal;

#[test]
fn edits_of_a_crashed_run_can_be_restored() {
    let mut w = floats();
    w.click("value 0");
    w.views().inputs.field = "42".into();
    w.click("Set");
    let edited_bytes = bytes(&mut w, "x");
    w.crash_and_restart();
    w.run("show-inputs");
    assert!(!edited(&mut w, "x"), "edits are not restored without a question");
    w.click("Restore");
    assert!(bytes(&mut w, "x") == edited_bytes);
    // After a normal close, the edits return without a question.
    let path = w.doc().path.clone();
    w.run("close");
    w.start(&path);
    assert!(bytes(&mut w, "x") == edited_bytes && w.doc().offered.is_none());
}

#[test]
fn edits_before_restore_keep_old_and_new_changes() {
    let mut w = floats();
    assert!(w.doc().edit("x", 0, vec![1, 2, 3, 4]));
    w.crash_and_restart();
    w.run("show-inputs");
    assert!(w.doc().edit("x", 8, vec![5, 6, 7, 8]));
    w.settle();
    // After another crash, the newer edits are offered first and the older ones are kept.
    w.crash_and_restart();
    w.run("show-inputs");
    w.click("Restore");
    assert_eq!(bytes(&mut w, "x")[8..12], [5, 6, 7, 8]);
    let path = w.doc().path.clone();
    w.run("close");
    w.start(&path);
    w.click("Restore");
    let now = bytes(&mut w, "x");
    assert_eq!((&now[..4], &now[8..12]), (&[1, 2, 3, 4][..], &[5, 6, 7, 8][..]));
    w.run("close");
    w.start(&path);
    assert!(w.doc().offered.is_none() && bytes(&mut w, "x") == now);
}

#[test]
fn journal_write_failure_is_reported() {
    let mut w = saxpy();
    // A folder blocks the path of the journal.
    std::fs::create_dir(journal::path_for(&w.doc().path.clone())).unwrap();
    assert!(w.doc().edit("x", 0, vec![1]));
    let since = std::time::Instant::now();
    while w.app().notice.is_none() {
        assert!(since.elapsed() < HANG_LIMIT, "no notice was shown");
        w.settle();
    }
    assert!(w.app().notice.clone().unwrap().1.contains("kine-edits"));
}
