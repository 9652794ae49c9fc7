//! Tests of a journal on a full disk, in a folder that cannot be written, and after such a run. No change is lost while
//! any folder has room for it, and no unsaved change is reported as saved.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use kinescope_files::changes::{Change, Changes, Piece, RecordedContents};
use kinescope_files::journal::{self, Journal, JournalKey, SaveState};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Time after which a test counts as hung.
const HANG_LIMIT: Duration = Duration::from_secs(60);

/// A recording with one buffer `in`.
struct Base;

impl RecordedContents for Base {
    fn extent(&self, buffer: &str) -> Option<(u64, u64)> {
        (buffer == "in").then_some((0x1000, 4096))
    }

    fn read(&self, _: &str, _: u64, out: &mut [u8]) {
        out.fill(0);
    }
}

fn key() -> JournalKey {
    JournalKey {
        events: 10,
        gpu: 1,
        source: "x".into(),
    }
}

fn bytes(offset: u64, count: usize) -> Change {
    Change::Bytes {
        buffer: "in".into(),
        title: "edit".into(),
        pieces: vec![Piece {
            offset,
            new: vec![7; count].into(),
        }],
    }
}

fn change_titles(path: &Path) -> Vec<String> {
    let found = journal::read(path, &key(), &Base).unwrap().expect("the journal exists");
    assert_eq!(found.unusable, 0, "{}", std::fs::read_to_string(path).unwrap());
    describe_changes(&found.changes)
}

fn describe_changes(changes: &Changes) -> Vec<String> {
    changes.applied().map(Change::describe).collect()
}

fn until(failure: &str, holds: impl Fn() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < HANG_LIMIT, "{failure}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs a test of this file in a child process whose files may have at most 1024 bytes. Returns `true` in that child
/// process.
fn in_a_program_without_room(test: &str) -> bool {
    if std::env::var_os("WITHOUT_ROOM").is_some() {
        return true;
    }
    // Longer writes fail as on a full disk: a part is written, then nothing.
    let done = Command::new("bash")
        .args(["-c", "trap '' XFSZ; ulimit -S -f 1; exec \"$0\" --exact \"$1\""])
        .arg(std::env::current_exe().unwrap())
        .arg(test)
        .env("WITHOUT_ROOM", "1")
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && out.contains("1 passed"), "{out}");
    false
}

/// Removes the limit on the size of files of this process.
fn make_room() {
    let done = Command::new("prlimit")
        .args(["--fsize=unlimited", "--pid", &std::process::id().to_string()])
        .status();
    assert!(done.unwrap().success());
}

#[test]
fn journal_keeps_changes_in_memory_while_the_disk_is_full() {
    if !in_a_program_without_room("journal::journal_keeps_changes_in_memory_while_the_disk_is_full") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.kine-edits");
    let mut j = Journal::new(path.clone(), key());
    j.log_change(&bytes(0, 300));
    assert_eq!(j.flush(), SaveState::NextToRecording);
    let one = std::fs::read(&path).unwrap();
    j.log_change(&bytes(400, 300));
    j.log_change(&bytes(800, 1));
    let SaveState::InMemory(lost) = j.flush() else {
        panic!("{:?}", j.save_state())
    };
    assert!(lost.error.contains("a.kine-edits"), "{}", lost.error);
    assert_eq!(
        lost.changes,
        ["in: 300 bytes at offset 400", "in: 1 byte at offset 800"]
    );
    assert_eq!(std::fs::read(&path).unwrap(), one, "no part of a line remains");
    let complete = String::from_utf8(j.read_all().unwrap()).unwrap();
    let complete = journal::parse(&complete, &key(), &Base).unwrap();
    assert_eq!(
        describe_changes(&complete.changes).len(),
        3,
        "all changes can be saved elsewhere"
    );
    make_room();
    // The journal retries by itself, without another change.
    until("the journal was not written again", || {
        j.save_state() == SaveState::NextToRecording
    });
    j.log_change(&bytes(900, 2));
    j.close();
    assert_eq!(
        change_titles(&path),
        [
            "in: 300 bytes at offset 0",
            "in: 300 bytes at offset 400",
            "in: 1 byte at offset 800",
            "in: 2 bytes at offset 900"
        ]
    );
}

#[test]
fn journal_restarts_after_a_full_disk_at_its_first_line() {
    if !in_a_program_without_room("journal::journal_restarts_after_a_full_disk_at_its_first_line") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.kine-edits");
    let key = JournalKey {
        source: "x".repeat(2000),
        ..key()
    };
    let mut j = Journal::new(path.clone(), key.clone());
    j.log_change(&bytes(0, 1));
    assert!(matches!(j.flush(), SaveState::InMemory(_)));
    make_room();
    j.log_change(&bytes(1, 1));
    assert_eq!(j.flush(), SaveState::NextToRecording);
    j.close();
    let found = journal::read(&path, &key, &Base).unwrap().unwrap();
    assert_eq!(describe_changes(&found.changes).len(), 2);
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        1,
        "no journal was renamed"
    );
}

#[test]
fn journal_falls_back_to_another_folder_and_is_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.kine-edits");
    let other = dir.path().join("settings/journals/a.kine-edits");
    // A folder of that name blocks the journal for every user, root included.
    std::fs::create_dir(&path).unwrap();
    let mut j = Journal::new(path.clone(), key()).with_fallback(Some(other.clone()));
    j.log_change(&bytes(0, 4));
    let SaveState::InFallback { path: at, why } = j.flush() else {
        panic!("{:?}", j.save_state())
    };
    assert!(at == other && why.contains("a.kine-edits"), "{why}");
    j.log_change(&bytes(8, 4));
    j.close();
    assert_eq!(change_titles(&other).len(), 2);
    // The next run still cannot write there, and the run after it can.
    for (n, blocked) in [(3, true), (4, false)] {
        if !blocked {
            std::fs::remove_dir(&path).unwrap();
        }
        let mut j = Journal::new(path.clone(), key()).with_fallback(Some(other.clone()));
        let text = j.resume().expect("the journal resumes from the other folder");
        let found = journal::parse(&text, &key(), &Base).unwrap();
        assert!(found.closed && found.changes.len() == n - 1);
        j.log_change(&bytes(16 * n as u64, 4));
        let now = j.flush();
        assert_eq!(matches!(now, SaveState::InFallback { .. }), blocked, "{now:?}");
        j.close();
        assert_eq!(change_titles(if blocked { &other } else { &path }).len(), n);
    }
    assert!(!other.exists(), "the journal is next to the recording now");
}

#[test]
fn fallback_journal_continues_the_adjacent_journal() {
    let dir = tempfile::tempdir().unwrap();
    let (path, other) = (dir.path().join("a.kine-edits"), dir.path().join("b.kine-edits"));
    let mut j = Journal::new(path.clone(), key());
    j.log_change(&bytes(0, 4));
    j.close();
    // A run without room after its first change leaves a part of a line next to the recording.
    std::fs::copy(&path, &other).unwrap();
    let mut j = Journal::new(other.clone(), key());
    j.log_change(&bytes(8, 4));
    j.wait_written();
    let mut cut = std::fs::read(&path).unwrap();
    cut.extend_from_slice(b"{\"do\":{\"by");
    std::fs::write(&path, cut).unwrap();
    let mut j = Journal::new(path.clone(), key()).with_fallback(Some(other.clone()));
    let text = j.resume().expect("the journal resumes");
    assert_eq!(journal::parse(&text, &key(), &Base).unwrap().changes.len(), 2);
    j.log_change(&bytes(16, 4));
    j.close();
    let found = journal::read(&path, &key(), &Base).unwrap().unwrap();
    assert_eq!(
        (describe_changes(&found.changes).len(), found.unusable),
        (3, 1),
        "only the truncated line is lost"
    );
    assert!(!other.exists());
    // A journal with other changes is not a continuation.
    std::fs::write(
        &other,
        std::fs::read_to_string(&path).unwrap().replace("offset", "ofset"),
    )
    .unwrap();
    let mut j = Journal::new(path, key()).with_fallback(Some(other));
    assert_eq!(j.resume(), None);
}

#[test]
fn journal_dates_each_change_and_is_renamed_when_discarded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.kine-edits");
    let head = r#"{"of":{"events":10,"gpu":1,"source":"x"}}"#;
    let pin = |n: u32| format!(r#"{{"do":{{"pin":{{"register":{n},"on":true}}}}}}"#);
    let text = [
        head,
        &pin(1),
        r#"{"at":100}"#,
        &pin(2),
        r#"{"at":200}"#,
        &pin(3),
        "\"undo\"",
        &pin(4),
    ]
    .join("\n");
    let found = journal::parse(&text, &key(), &Base).unwrap();
    assert_eq!((found.times, found.unusable), (vec![None, Some(100), Some(200)], 0));
    let mut j = Journal::new(path.clone(), key());
    j.log_change(&bytes(0, 1));
    j.close();
    let found = journal::read(&path, &key(), &Base).unwrap().unwrap();
    assert!(found.times[0].is_some_and(|t| t > 1_700_000_000));
    let first = journal::discard(&path).unwrap();
    assert_eq!(first, dir.path().join("a.kine-edits.forgotten"));
    std::fs::copy(&first, &path).unwrap();
    assert_eq!(
        journal::discard(&path).unwrap(),
        dir.path().join("a.kine-edits.forgotten-2")
    );
}
