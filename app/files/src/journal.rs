//! The journal of changes, `FILE.kine-edits`, in the folder of the recording. Each change is one line, written
//! immediately, so that a crash loses nothing. One window at a time writes to the journal. Another window on the same
//! recording writes to its own journal, which is offered later.

mod writer;

pub use crate::sibling_paths::{path_for, sibling_path};
pub use writer::{Journal, SaveState, UnsavedChanges};

use crate::changes::{Change, Changes, RecordedContents};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Maximum size of a journal that is read, bytes.
const MAX_BYTES: u64 = 1 << 30;

/// Why a journal cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A system call failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// The journal is longer than 1 GiB.
    #[error("{}: the journal has {bytes} bytes; the maximum is {MAX_BYTES}", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Size of the journal, bytes.
        bytes: u64,
    },
}

/// A locked file. Other windows and programs see it as in use while this value exists.
struct LockedFile(File);

impl Drop for LockedFile {
    fn drop(&mut self) {
        // A child process that was forked meanwhile shares the open file, so closing alone does not release the lock.
        let _ = self.0.unlock();
    }
}

/// Locks a file for this window. Returns `None` if another window holds the lock.
fn hold(file: File) -> io::Result<Option<LockedFile>> {
    match file.try_lock() {
        Ok(()) => Ok(Some(LockedFile(file))),
        Err(TryLockError::WouldBlock) => Ok(None),
        // On file systems without locks, concurrent windows cannot be detected.
        Err(TryLockError::Error(e)) if e.kind() == io::ErrorKind::Unsupported => Ok(Some(LockedFile(file))),
        Err(TryLockError::Error(e)) => Err(e),
    }
}

/// Whether two open files are the same file.
fn same(a: &File, b: &File) -> io::Result<bool> {
    let (a, b) = (a.metadata()?, b.metadata()?);
    Ok((a.dev(), a.ino()) == (b.dev(), b.ino()))
}

/// A line of the journal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    /// Identity of the recording that the changes belong to.
    Of { events: u64, gpu: u32, source: String },
    /// Time of the following changes, seconds since 1970.
    At(u64),
    /// A change was made.
    Do(Change),
    /// The last change was undone.
    Undo,
    /// The last undone change was redone.
    Redo,
    /// The program ended normally.
    Closed,
}

/// The identity of the recording that a journal belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalKey {
    /// Number of events.
    pub events: u64,
    /// Raw GPU id.
    pub gpu: u32,
    /// Source format.
    pub source: String,
}

/// The contents of a journal.
#[derive(Debug, Default)]
pub struct JournalContents {
    /// The changes at the end of the journal.
    pub changes: Changes,
    /// Time of each change, seconds since 1970; `None` if it was not stored.
    pub times: Vec<Option<u64>>,
    /// Whether the program ended normally.
    pub closed: bool,
    /// Whether another window made the changes while this program also had the recording open.
    pub other_window: bool,
    /// Number of lines that could not be parsed.
    pub unusable: usize,
    /// Path of the journal.
    pub path: PathBuf,
    /// Path of the journal next to the recording, if this one is a fallback that continues it.
    pub base_path: Option<PathBuf>,
}

/// Maximum number of backup journals of one recording.
const MAX_ASIDE: u32 = 99;

fn backup_path(path: &Path, n: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!("-left-{n}"));
    name.into()
}

/// Renames a journal to a backup, so that a new one can take its path. Returns the new path.
///
/// # Errors
/// Returns an error if the file cannot be renamed.
pub fn move_to_backup(path: &Path) -> io::Result<PathBuf> {
    let free = (1..=MAX_ASIDE).map(|n| backup_path(path, n)).find(|p| !p.exists());
    let to = free.unwrap_or_else(|| backup_path(path, MAX_ASIDE));
    std::fs::rename(path, &to)?;
    Ok(to)
}

/// Renames a journal so that it is never offered again, but the user can still find it. Returns the new path.
///
/// # Errors
/// Returns an error if the file cannot be renamed.
pub fn discard(path: &Path) -> io::Result<PathBuf> {
    let named = |n: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(if n == 1 {
            ".forgotten".to_owned()
        } else {
            format!(".forgotten-{n}")
        });
        PathBuf::from(name)
    };
    let free = (1..=MAX_ASIDE).map(named).find(|p| !p.exists());
    let to = free.unwrap_or_else(|| named(MAX_ASIDE));
    std::fs::rename(path, &to)?;
    Ok(to)
}

/// Reads the newest backup journal that no other window uses and that holds changes of this recording.
#[must_use]
pub fn read_backup(path: &Path, of: &JournalKey, recorded: &dyn RecordedContents) -> Option<JournalContents> {
    (1..=MAX_ASIDE)
        .rev()
        .map(|n| backup_path(path, n))
        .find_map(|p| read_unlocked(&p, of, recorded))
        .map(|found| JournalContents {
            other_window: true,
            ..found
        })
}

/// Reads a journal if no other window uses it and it holds changes of this recording.
#[must_use]
pub fn read_unlocked(path: &Path, of: &JournalKey, recorded: &dyn RecordedContents) -> Option<JournalContents> {
    let free = File::open(path).is_ok_and(|f| hold(f).is_ok_and(|h| h.is_some()));
    let found = free.then(|| read(path, of, recorded).ok().flatten()).flatten();
    found.filter(|f| !f.changes.is_empty())
}

/// Reads a journal. Returns `None` if there is none, or if it belongs to another recording.
///
/// # Errors
/// Returns an error if the journal exists and cannot be read, or is longer than 1 GiB.
pub fn read(
    path: &Path,
    of: &JournalKey,
    recorded: &dyn RecordedContents,
) -> Result<Option<JournalContents>, JournalError> {
    let io = |source| JournalError::Io {
        path: path.to_owned(),
        source,
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(io(e)),
    };
    let length = file.metadata().map_err(io)?.len();
    if length > MAX_BYTES {
        return Err(JournalError::TooLong {
            path: path.to_owned(),
            bytes: length,
        });
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(io)?;
    // A truncated line may end inside a character. The other lines are still valid.
    let found = parse(&String::from_utf8_lossy(&bytes), of, recorded);
    Ok(found.map(|f| JournalContents {
        path: path.to_owned(),
        ..f
    }))
}

/// Parses the text of a journal. Returns `None` if it belongs to another recording.
#[must_use]
pub fn parse(text: &str, of: &JournalKey, recorded: &dyn RecordedContents) -> Option<JournalContents> {
    let mut lines = text.lines();
    if !belongs(lines.next()?, of) {
        return None;
    }
    let mut found = JournalContents::default();
    let (mut at, mut undone) = (None, Vec::new());
    for line in lines.filter(|l| !l.is_empty()) {
        found.closed = false;
        let used = match serde_json::from_str::<Line>(line) {
            Ok(Line::At(t)) => {
                at = Some(t);
                true
            }
            Ok(Line::Do(c)) => {
                let fits = found.changes.apply(c, recorded);
                if fits {
                    found.times.push(at);
                    undone.clear();
                }
                fits
            }
            Ok(Line::Undo) => {
                let one = found.changes.undo().is_some();
                undone.extend(found.times.pop().filter(|_| one));
                one
            }
            Ok(Line::Redo) => {
                let one = found.changes.redo(recorded).is_some();
                found.times.extend(undone.pop().filter(|_| one));
                one
            }
            Ok(Line::Closed) => {
                found.closed = true;
                true
            }
            Ok(Line::Of { .. }) | Err(_) => false,
        };
        found.unusable += usize::from(!used);
    }
    Some(found)
}

/// Whether the first line of a journal names this recording.
fn belongs(line: &str, of: &JournalKey) -> bool {
    match serde_json::from_str::<Line>(line) {
        Ok(Line::Of { events, gpu, source }) => (JournalKey { events, gpu, source }) == *of,
        _ => false,
    }
}

/// Creates and locks a new file. Returns `None` if the file exists.
fn create(path: &Path) -> io::Result<Option<LockedFile>> {
    match OpenOptions::new().read(true).append(true).create_new(true).open(path) {
        Ok(file) => {
            // The directory entry must be as durable as the lines.
            let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
            hold(file)
        }
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(None),
        Err(e) => Err(e),
    }
}

/// Creates the journal of a window that does not hold the journal of the recording.
fn create_beside(path: &Path) -> io::Result<LockedFile> {
    for n in 1..=MAX_ASIDE {
        if let Some(file) = create(&backup_path(path, n))? {
            return Ok(file);
        }
    }
    Err(io::Error::other(format!(
        "there are already {MAX_ASIDE} backup journals next to it; move some of them away"
    )))
}

/// Opens the journal for appending. A journal of another recording becomes a backup. A journal with a truncated last
/// line gets a line feed. A journal that another window holds is left alone.
fn open(path: &Path, of: &JournalKey, held: Option<&LockedFile>, elsewhere: bool) -> io::Result<LockedFile> {
    let there = OpenOptions::new().read(true).append(true).open(path);
    let file = match there {
        _ if elsewhere => create_beside(path)?,
        Ok(file) => {
            // The locked file may have been moved since, and the file at this path may belong to another window.
            let mine = held.map(|h| same(&h.0, &file)).transpose()?.unwrap_or(false);
            let mut file = if mine {
                LockedFile(file)
            } else {
                match hold(file)? {
                    Some(file) => file,
                    None => return begin(create_beside(path)?, of),
                }
            };
            let mut first = Vec::new();
            (&mut file.0).take(1 << 16).read_to_end(&mut first)?;
            let line = first.split(|b| *b == b'\n').next().unwrap_or_default();
            if belongs(&String::from_utf8_lossy(line), of) {
                file.0.seek(SeekFrom::End(-1))?;
                let mut last = [0];
                file.0.read_exact(&mut last)?;
                if last != *b"\n" {
                    file.0.write_all(b"\n")?;
                }
                return Ok(file);
            }
            if first.is_empty() {
                return begin(file, of);
            }
            drop(file);
            move_to_backup(path)?;
            match create(path)? {
                Some(file) => file,
                None => create_beside(path)?,
            }
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => match create(path)? {
            Some(file) => file,
            // Another window created one just now.
            None => create_beside(path)?,
        },
        Err(e) => return Err(e),
    };
    begin(file, of)
}

/// Returns the first line of a journal.
fn header(of: &JournalKey) -> io::Result<String> {
    let JournalKey { events, gpu, source } = of.clone();
    let line = serde_json::to_string(&Line::Of { events, gpu, source });
    Ok(line.map_err(io::Error::other)? + "\n")
}

/// Writes the first line completely or not at all.
fn begin(mut file: LockedFile, of: &JournalKey) -> io::Result<LockedFile> {
    if let Err(e) = file.0.write_all(header(of)?.as_bytes()) {
        // A partial line would be read as that of another recording. The first error is the one to report.
        let _ = file.0.set_len(0);
        return Err(e);
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::tests::{Base, bytes, now};
    use trace_core::RegOffset;

    fn key() -> JournalKey {
        JournalKey {
            events: 10,
            gpu: 1,
            source: "x".into(),
        }
    }

    #[test]
    fn journal_with_a_truncated_last_line_is_restored() {
        let dir = tempfile::tempdir().unwrap();
        let path = path_for(&dir.path().join("a.kine"));
        assert!(path.ends_with("a.kine-edits"));
        let base = Base(vec![0; 4]);
        let mut j = Journal::new(path.clone(), key());
        j.log_change(&bytes(1, &[7]));
        j.log_change(&Change::Pin {
            register: RegOffset::new(4),
            on: true,
        });
        j.log_undo();
        j.wait_written();
        let found = read(&path, &key(), &base).unwrap().unwrap();
        assert!(!found.closed && found.unusable == 0);
        assert_eq!(now(&found.changes, &base), [0, 7, 0, 0]);
        assert!(found.changes.pins().is_empty() && found.changes.next().is_some());
        let text = std::fs::read_to_string(&path).unwrap();
        for cut in 0..text.len() {
            if let Some(f) = parse(&text[..cut], &key(), &base) {
                assert!(f.unusable <= 1);
            }
        }
        let other = JournalKey { events: 11, ..key() };
        assert!(
            read(&path, &other, &base).unwrap().is_none(),
            "the journal is of another recording"
        );
        let mut j = Journal::new(path.clone(), key());
        j.log_redo();
        j.close();
        assert!(read(&path, &key(), &base).unwrap().unwrap().closed);
    }

    #[test]
    fn change_after_a_truncated_journal_line_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.kine-edits");
        let base = Base(vec![0; 4]);
        let mut j = Journal::new(path.clone(), key());
        j.log_change(&bytes(0, &[1]));
        let note = Change::Note {
            event: 1,
            old: None,
            new: Some("é".into()),
        };
        j.log_change(&note);
        j.wait_written();
        // The machine stopped inside the character.
        let content = std::fs::read(&path).unwrap();
        let cut = content.iter().rposition(|b| *b == 0xc3).unwrap() + 1;
        std::fs::write(&path, &content[..cut]).unwrap();
        let mut j = Journal::new(path.clone(), key());
        j.log_change(&bytes(2, &[3]));
        j.wait_written();
        let found = read(&path, &key(), &base).unwrap().unwrap();
        assert_eq!((now(&found.changes, &base), found.unusable), (vec![1, 0, 3, 0], 1));
    }

    #[test]
    fn foreign_journal_is_renamed_and_unwritable_folder_reported() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.kine-edits");
        let base = Base(vec![0; 4]);
        let other = JournalKey { events: 11, ..key() };
        let mut j = Journal::new(path.clone(), other.clone());
        j.log_change(&bytes(0, &[1]));
        j.wait_written();
        let mut j = Journal::new(path.clone(), key());
        j.log_change(&bytes(0, &[2]));
        j.wait_written();
        assert_eq!(
            now(&read(&path, &key(), &base).unwrap().unwrap().changes, &base),
            [2, 0, 0, 0]
        );
        let backup = read_backup(&path, &other, &base).expect("the other journal was renamed");
        assert_eq!(now(&backup.changes, &base), [1, 0, 0, 0]);
        let mut j = Journal::new(dir.path().join("none").join("a.kine-edits"), key());
        j.log_change(&bytes(0, &[2]));
        j.wait_written();
        let SaveState::InMemory(lost) = j.save_state() else {
            panic!("{:?}", j.save_state())
        };
        assert!(lost.error.contains("none"), "{}", lost.error);
        assert_eq!(lost.changes, ["in: 1 byte at offset 0"]);
    }

    #[test]
    fn two_windows_on_one_recording_keep_separate_changes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.kine-edits");
        let base = Base(vec![0; 4]);
        let mut first = Journal::new(path.clone(), key());
        assert!(first.hold().unwrap(), "no journal exists yet");
        first.log_change(&bytes(0, &[1]));
        first.wait_written();
        // The window that writes first gets the journal. The second window opened before the journal existed, the third
        // after.
        let mut second = Journal::new(path.clone(), key());
        let mut first = Journal::new(path.clone(), key());
        assert!(first.hold().unwrap());
        let mut third = Journal::new(path.clone(), key());
        assert!(!third.hold().unwrap(), "the first window holds the journal");
        second.log_change(&bytes(1, &[2]));
        third.log_change(&bytes(2, &[3]));
        while !(backup_path(&path, 1).exists() && backup_path(&path, 2).exists()) {
            std::thread::yield_now();
        }
        assert!(read_backup(&path, &key(), &base).is_none(), "the backups are in use");
        first.log_change(&bytes(3, &[4]));
        first.close();
        second.close();
        third.close();
        let found = read(&path, &key(), &base).unwrap().unwrap();
        assert_eq!(now(&found.changes, &base), [1, 0, 0, 4]);
        let mut seen: Vec<Vec<u8>> = Vec::new();
        while let Some(found) = read_backup(&path, &key(), &base) {
            seen.push(now(&found.changes, &base));
            std::fs::remove_file(&found.path).unwrap();
        }
        seen.sort();
        assert_eq!(seen, [[0, 0, 3, 0], [0, 2, 0, 0]]);
        assert!(Journal::new(path, key()).hold().unwrap(), "all locks are released");
    }

    #[test]
    fn oversized_journal_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.kine-edits");
        File::create(&path).unwrap().set_len(MAX_BYTES + 1).unwrap();
        let error = read(&path, &key(), &Base(vec![0; 4])).unwrap_err();
        assert!(
            matches!(error, JournalError::TooLong { bytes, .. } if bytes == MAX_BYTES + 1),
            "{error}"
        );
        assert!(read(&dir.path().join("none"), &key(), &Base(vec![])).unwrap().is_none());
    }
}
