//! The list of changes of the machine, written to disk before each change: a line of JSON each. Any reader of the list
//! can undo it: the recorder, its guard, or the next recording after both were killed.

use crate::change::Change;
use crate::error::RecordError;
use crate::kernel::{Kernel, read_trimmed};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;
use trace_core::recording::{Capture, Hardware};

/// Folder of the list: in memory that a restart of the machine clears, as it undoes the changes themselves.
pub const RUN_FOLDER: &str = "/run/kinescope";
const LIST: &str = "record.changes";
const LOCK: &str = "record.lock";
/// Version of the list's format.
const VERSION: u32 = 1;
/// Number of attempts to take the lock, and the time between two: a second in total.
const LOCK_TRIES: u32 = 20;
const LOCK_TICK: Duration = Duration::from_millis(50);
/// Maximum size of a list, bytes.
const MAX_LIST_BYTES: u64 = 4 << 20;

/// Data for the import of a log: everything that the log itself does not contain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The recording to write.
    pub output: PathBuf,
    /// The folder of the log.
    pub folder: PathBuf,
    /// The log is kept in the recording's folder.
    pub keep_log: bool,
    /// The device.
    pub hardware: Option<Hardware>,
    /// Board or machine.
    pub board: String,
    /// The program that records, with its version.
    pub tool: String,
    /// Start time, RFC 3339.
    pub when: String,
    /// How the recording is made.
    pub capture: Capture,
    /// The traces to read, by path, and the files in `folder` that they are written to, with the log first.
    pub traces: Vec<(String, String)>,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "kebab-case")]
enum Line {
    /// The first line.
    Recording { version: u32, boot: String, job: Box<Job> },
    /// The next change.
    Change { what: Change },
    /// The trace has ended; this is the final description of the recording.
    Ended { capture: Box<Capture> },
    /// The change of this number is undone.
    Undone { number: usize },
}

/// The open list.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    /// Data for the import of the log.
    pub job: Job,
    /// The machine was restarted since: nothing is left to undo.
    restarted: bool,
    /// The trace had ended.
    ended: bool,
    changes: Vec<(Change, bool)>,
}

/// The lock that one recorder holds together with its guard.
#[derive(Debug)]
pub struct Lock(File);

impl Lock {
    /// Takes the lock of `folder`, which is created if it is missing.
    ///
    /// # Errors
    /// Returns an error if another recorder holds the lock, or if the folder cannot be created.
    pub fn acquire(folder: &Path) -> Result<Self, RecordError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|e| RecordError::file(folder, e))?;
        let path = folder.join(LOCK);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&path).map_err(|e| RecordError::file(&path, e))?;
        // The holder can be about to end, or to start a process that has the lock for a short time.
        for _ in 0..LOCK_TRIES {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self(file)),
                Err(Errno::WOULDBLOCK) => std::thread::sleep(LOCK_TICK),
                Err(e) => return Err(RecordError::file(&path, e.into())),
            }
        }
        Err(RecordError::Locked(path.display().to_string()))
    }

    /// Duplicates the lock for another process that must hold it as well.
    ///
    /// # Errors
    /// Returns an error if the process has too many open files.
    pub fn share(&self) -> std::io::Result<File> {
        self.0.try_clone()
    }
}

fn read_boot_id(kernel: &dyn Kernel) -> String {
    read_trimmed(kernel, "/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

impl Journal {
    /// Creates a list.
    ///
    /// # Errors
    /// Returns an error if there is a list already, or if it cannot be written.
    pub fn begin(folder: &Path, job: Job, kernel: &dyn Kernel) -> Result<Self, RecordError> {
        let path = folder.join(LIST);
        let mut options = OpenOptions::new();
        let file = options
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(|e| RecordError::file(&path, e))?;
        let mut journal = Self {
            path,
            file,
            job,
            restarted: false,
            ended: false,
            changes: Vec::new(),
        };
        journal.append(&Line::Recording {
            version: VERSION,
            boot: read_boot_id(kernel),
            job: Box::new(journal.job.clone()),
        })?;
        Ok(journal)
    }

    /// Opens the list that an earlier recorder left, or returns `None` if there is none.
    ///
    /// # Errors
    /// Returns an error if it cannot be read, or is malformed.
    pub fn open_leftover(folder: &Path, kernel: &dyn Kernel) -> Result<Option<Self>, RecordError> {
        let path = folder.join(LIST);
        let opened = OpenOptions::new().read(true).append(true).open(&path);
        let mut file = match opened {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(RecordError::file(&path, e)),
        };
        let mut bytes = Vec::new();
        let read = (&mut file).take(MAX_LIST_BYTES).read_to_end(&mut bytes);
        read.map_err(|e| RecordError::file(&path, e))?;
        let parsed = parse(&bytes).map_err(|(line, why)| RecordError::Journal {
            path: path.clone(),
            line,
            why,
        })?;
        let Some(job) = parsed.job else {
            // No change is made before the first line is complete.
            std::fs::remove_file(&path).map_err(|e| RecordError::file(&path, e))?;
            return Ok(None);
        };
        Ok(Some(Self {
            path,
            file,
            job,
            restarted: parsed.boot != read_boot_id(kernel),
            ended: parsed.ended,
            changes: parsed.changes,
        }))
    }

    fn append(&mut self, line: &Line) -> Result<(), RecordError> {
        let failed = |e| RecordError::file(&self.path, e);
        let mut text = serde_json::to_string(line).map_err(|e| failed(e.into()))?;
        text.push('\n');
        // One write: a list that is read later can lack its last line, but never has half of it.
        self.file.write_all(text.as_bytes()).map_err(failed)
    }

    /// Writes a change to the list, then makes it. A change that fails stays on the list: undo checks the actual state.
    ///
    /// # Errors
    /// Returns an error if the change cannot be written, and then it is not made; and the error of the change itself.
    pub fn apply<T>(
        &mut self,
        change: Change,
        what: impl FnOnce() -> Result<T, RecordError>,
    ) -> Result<T, RecordError> {
        let line = Line::Change { what: change };
        self.append(&line)?;
        if let Line::Change { what } = line {
            self.changes.push((what, false));
        }
        what()
    }

    /// Undoes the changes that are not undone yet, last one first. A failed undo is reported and does not stop the
    /// others. All changes before it stay on the list as well, because a later undo of it can change what they
    /// restored.
    pub fn undo(&mut self, kernel: &dyn Kernel) -> Vec<String> {
        let mut problems = Vec::new();
        for number in (0..self.changes.len()).rev() {
            let Some((change, false)) = self.changes.get(number).cloned() else {
                continue;
            };
            if !self.restarted
                && let Err(e) = change.undo(kernel)
            {
                problems.push(format!("{change}: {e}"));
            }
            if !problems.is_empty() {
                continue;
            }
            if let Some(c) = self.changes.get_mut(number) {
                c.1 = true;
            }
            // If the write fails, the list is later read as partly undone: another undo does no harm.
            if let Err(e) = self.append(&Line::Undone { number }) {
                problems.push(e.to_string());
            }
        }
        problems
    }

    /// Undoes the change of this number now.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses; the change then stays on the list.
    pub(crate) fn undo_one(&mut self, kernel: &dyn Kernel, number: usize) -> Result<(), RecordError> {
        let Some((change, false)) = self.changes.get(number).cloned() else {
            return Ok(());
        };
        change.undo(kernel).map_err(|source| RecordError::Change {
            what: change.to_string(),
            source,
            hint: String::new(),
        })?;
        if let Some(c) = self.changes.get_mut(number) {
            c.1 = true;
        }
        self.append(&Line::Undone { number })
    }

    /// Ends the started processes before anything else, so that the rest of the trace has an end.
    pub(crate) fn end_processes(&mut self, kernel: &dyn Kernel) {
        for number in 0..self.changes.len() {
            if matches!(
                self.changes.get(number),
                Some((Change::Process { .. } | Change::Command { .. }, false))
            ) {
                // The undo of the whole list tries again and reports.
                let _ = self.undo_one(kernel, number);
            }
        }
    }

    /// Returns the number of changes on the list.
    pub(crate) fn len(&self) -> usize {
        self.changes.len()
    }

    /// Writes that the trace has ended, with its description.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub(crate) fn mark_ended(&mut self, capture: Capture) -> Result<(), RecordError> {
        self.job.capture = capture.clone();
        self.ended = true;
        self.append(&Line::Ended {
            capture: Box::new(capture),
        })
    }

    /// Returns whether the trace had ended.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended
    }

    /// Returns whether everything is undone.
    #[must_use]
    pub fn is_undone(&self) -> bool {
        self.changes.iter().all(|(_, undone)| *undone)
    }

    /// Removes the list; a list with changes that are not undone stays.
    ///
    /// # Errors
    /// Returns an error if it cannot be removed.
    pub fn end(self) -> Result<(), RecordError> {
        if !self.is_undone() {
            return Ok(());
        }
        std::fs::remove_file(&self.path).map_err(|e| RecordError::file(&self.path, e))
    }
}

/// The content of a list.
#[derive(Debug, Default)]
pub(crate) struct ParsedJournal {
    boot: String,
    job: Option<Job>,
    ended: bool,
    pub(crate) changes: Vec<(Change, bool)>,
}

/// Returns the changes on a list, including undone ones.
///
/// # Errors
/// Returns the number of the malformed line, and why.
pub fn parse_changes(bytes: &[u8]) -> Result<Vec<Change>, (usize, String)> {
    Ok(parse(bytes)?.changes.into_iter().map(|(change, _)| change).collect())
}

/// Parses a list. The error is the number of the malformed line, and why; an incomplete last line is left out.
pub(crate) fn parse(bytes: &[u8]) -> Result<ParsedJournal, (usize, String)> {
    let mut parsed = ParsedJournal::default();
    let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |end| end + 1);
    let lines = bytes.get(..whole).unwrap_or_default().split(|b| *b == b'\n');
    for (at, line) in (1..).zip(lines).filter(|(_, l)| !l.is_empty()) {
        let line: Line = serde_json::from_slice(line).map_err(|e| (at, e.to_string()))?;
        match (line, &mut parsed.job) {
            (
                Line::Recording {
                    version: VERSION,
                    boot,
                    job,
                },
                None,
            ) => (parsed.boot, parsed.job) = (boot, Some(*job)),
            (Line::Recording { version, .. }, None) => {
                return Err((at, format!("version {version}; this program reads version {VERSION}")));
            }
            (Line::Change { what }, Some(_)) => parsed.changes.push((what, false)),
            (Line::Ended { capture }, Some(job)) => (job.capture, parsed.ended) = (*capture, true),
            (Line::Undone { number }, Some(_)) => match parsed.changes.get_mut(number) {
                Some(c) => c.1 = true,
                None => return Err((at, format!("there is no change {number}"))),
            },
            _ => return Err((at, "out of place".into())),
        }
    }
    Ok(parsed)
}
