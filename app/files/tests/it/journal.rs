//! A journal on a disk that is full, in a folder that cannot be written, and after such a run: no change is lost while
//! there is any place for it, and nobody reads that one is kept that is not.
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

fn of() -> JournalKey {
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
    let found = journal::read(path, &of(), &Base).unwrap().expect("a journal");
    assert_eq!(found.unusable, 0, "{}", std::fs::read_to_string(path).unwrap());
    words(&found.changes)
}

fn words(changes: &Changes) -> Vec<String> {
    changes.applied().map(Change::describe).collect()
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < HANG_LIMIT, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs a test of this file again as a program whose files may have 1024 bytes at most. `true`: this is that program.
fn in_a_program_without_room(test: &str) -> bool {
    if std::env::var_os("WITHOUT_ROOM").is_some() {
        return true;
    }
    // Longer writes fail, as on a full disk: a part is written, then none.
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

/// There is room again for this program.
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
    let mut j = Journal::new(path.clone(), of());
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
    assert_eq!(std::fs::read(&path).unwrap(), one, "no part of a line is left");
    let whole = String::from_utf8(j.read_all().unwrap()).unwrap();
    let whole = journal::parse(&whole, &of(), &Base).unwrap();
    assert_eq!(words(&whole.changes).len(), 3, "all of it can be saved elsewhere");
    make_room();
    // Nothing more is changed: it tries by itself.
    until("it was not tried again", || {
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
    let of = JournalKey {
        source: "x".repeat(2000),
        ..of()
    };
    let mut j = Journal::new(path.clone(), of.clone());
    j.log_change(&bytes(0, 1));
    assert!(matches!(j.flush(), SaveState::InMemory(_)));
    make_room();
    j.log_change(&bytes(1, 1));
    assert_eq!(j.flush(), SaveState::NextToRecording);
    j.close();
    let found = journal::read(&path, &of, &Base).unwrap().unwrap();
    assert_eq!(words(&found.changes).len(), 2);
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        1,
        "nothing was put aside"
    );
}

#[test]
fn journal_falls_back_to_another_folder_and_is_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.kine-edits");
    let other = dir.path().join("settings/journals/a.kine-edits");
    // What bars the way holds for every user: a folder of that name.
    std::fs::create_dir(&path).unwrap();
    let mut j = Journal::new(path.clone(), of()).with_fallback(Some(other.clone()));
    j.log_change(&bytes(0, 4));
    let SaveState::InFallback { path: at, why } = j.flush() else {
        panic!("{:?}", j.save_state())
    };
    assert!(at == other && why.contains("a.kine-edits"), "{why}");
    j.log_change(&bytes(8, 4));
    j.close();
    assert_eq!(change_titles(&other).len(), 2);
    // The next run, while it still cannot be written there, and the one after, when it can.
    for (n, barred) in [(3, true), (4, false)] {
        if !barred {
            std::fs::remove_dir(&path).unwrap();
        }
        let mut j = Journal::new(path.clone(), of()).with_fallback(Some(other.clone()));
        let text = j.resume().expect("it goes on with what was kept elsewhere");
        let found = journal::parse(&text, &of(), &Base).unwrap();
        assert!(found.closed && found.changes.len() == n - 1);
        j.log_change(&bytes(16 * n as u64, 4));
        let now = j.flush();
        assert_eq!(matches!(now, SaveState::InFallback { .. }), barred, "{now:?}");
        j.close();
        assert_eq!(change_titles(if barred { &other } else { &path }).len(), n);
    }
    assert!(!other.exists(), "it lies beside the recording now");
}

#[test]
fn fallback_journal_continues_the_adjacent_journal() {
    let dir = tempfile::tempdir().unwrap();
    let (path, other) = (dir.path().join("a.kine-edits"), dir.path().join("b.kine-edits"));
    let mut j = Journal::new(path.clone(), of());
    j.log_change(&bytes(0, 4));
    j.close();
    // As a run leaves it that found no room after the first change: a part of a line next to the recording.
    std::fs::copy(&path, &other).unwrap();
    let mut j = Journal::new(other.clone(), of());
    j.log_change(&bytes(8, 4));
    j.wait_written();
    let mut cut = std::fs::read(&path).unwrap();
    cut.extend_from_slice(b"{\"do\":{\"by");
    std::fs::write(&path, cut).unwrap();
    let mut j = Journal::new(path.clone(), of()).with_fallback(Some(other.clone()));
    let text = j.resume().expect("it goes on");
    assert_eq!(journal::parse(&text, &of(), &Base).unwrap().changes.len(), 2);
    j.log_change(&bytes(16, 4));
    j.close();
    let found = journal::read(&path, &of(), &Base).unwrap().unwrap();
    assert_eq!(
        (words(&found.changes).len(), found.unusable),
        (3, 1),
        "the cut line alone is lost"
    );
    assert!(!other.exists());
    // One that tells another story is no continuation.
    std::fs::write(
        &other,
        std::fs::read_to_string(&path).unwrap().replace("offset", "ofset"),
    )
    .unwrap();
    let mut j = Journal::new(path, of()).with_fallback(Some(other));
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
    let found = journal::parse(&text, &of(), &Base).unwrap();
    assert_eq!((found.times, found.unusable), (vec![None, Some(100), Some(200)], 0));
    let mut j = Journal::new(path.clone(), of());
    j.log_change(&bytes(0, 1));
    j.close();
    let found = journal::read(&path, &of(), &Base).unwrap().unwrap();
    assert!(found.times[0].is_some_and(|t| t > 1_700_000_000));
    let first = journal::discard(&path).unwrap();
    assert_eq!(first, dir.path().join("a.kine-edits.forgotten"));
    std::fs::copy(&first, &path).unwrap();
    assert_eq!(
        journal::discard(&path).unwrap(),
        dir.path().join("a.kine-edits.forgotten-2")
    );
}
