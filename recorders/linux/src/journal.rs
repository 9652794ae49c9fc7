//! The list of what is changed on the machine, on disk before it is changed: a line of JSON each. Whoever has the list
//! can undo it, be it the recorder, its guard, or the next recording after both were killed.

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

/// Where the list is kept: memory that a restart of the machine empties, as it undoes the changes themselves.
pub const RUN_FOLDER: &str = "/run/kinescope";
const LIST: &str = "record.changes";
const LOCK: &str = "record.lock";
/// Version of the list's form.
const VERSION: u32 = 1;
/// How often the lock is tried, and the time between two tries: a second.
const LOCK_TRIES: u32 = 20;
const LOCK_TICK: Duration = Duration::from_millis(50);
/// Maximum number of bytes of a list.
const MAX_LIST_BYTES: u64 = 4 << 20;

/// What makes a recording of a log: everything that the log itself does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The recording to write.
    pub output: PathBuf,
    /// The folder of the log.
    pub folder: PathBuf,
    /// Whether the log is kept beside the recording.
    pub keep_log: bool,
    /// The device.
    pub hardware: Option<Hardware>,
    /// Board or machine.
    pub board: String,
    /// The program that records, with its version.
    pub tool: String,
    /// When it began, RFC 3339.
    pub when: String,
    /// How it is made.
    pub capture: Capture,
    /// The traces that are read, by their paths, and the files of `folder` that they go to: the log first.
    pub traces: Vec<(String, String)>,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "kebab-case")]
enum Line {
    /// The first line.
    Recording { version: u32, boot: String, job: Box<Job> },
    /// What is changed next.
    Change { what: Change },
    /// The trace is over; how the recording is described from now on.
    Ended { capture: Box<Capture> },
    /// The change of this number is undone.
    Undone { number: usize },
}

/// The list, open.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    /// What makes a recording of the log.
    pub job: Job,
    /// Whether the machine was restarted since: nothing is left to undo.
    restarted: bool,
    /// Whether the trace was over.
    ended: bool,
    changes: Vec<(Change, bool)>,
}

/// The lock that one recorder, with its guard, holds.
#[derive(Debug)]
pub struct Lock(File);

impl Lock {
    /// Takes the lock of `folder`, which is made where it is missing.
    ///
    /// # Errors
    /// When another recorder holds it, or the folder cannot be made.
    pub fn acquire(folder: &Path) -> Result<Self, RecordError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|e| RecordError::file(folder, e))?;
        let path = folder.join(LOCK);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&path).map_err(|e| RecordError::file(&path, e))?;
        // Whoever held it may be in the middle of its end, or of starting a process that has it for a moment.
        for _ in 0..LOCK_TRIES {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self(file)),
                Err(Errno::WOULDBLOCK) => std::thread::sleep(LOCK_TICK),
                Err(e) => return Err(RecordError::file(&path, e.into())),
            }
        }
        Err(RecordError::Locked(path.display().to_string()))
    }

    /// The lock once more, for a process that is to hold it too.
    ///
    /// # Errors
    /// When the process has too many files open.
    pub fn share(&self) -> std::io::Result<File> {
        self.0.try_clone()
    }
}

fn read_boot_id(kernel: &dyn Kernel) -> String {
    read_trimmed(kernel, "/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

impl Journal {
    /// Begins a list.
    ///
    /// # Errors
    /// When there is one already, or it cannot be written.
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

    /// Opens the list that somebody left; `None` where there is none.
    ///
    /// # Errors
    /// When it cannot be read, or does not say what it should.
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
            // Nothing was changed before its first line was whole.
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
        // In one piece: a list that is read again may lack its last line and never half of it.
        self.file.write_all(text.as_bytes()).map_err(failed)
    }

    /// Writes a change down, then does it. When doing it fails it stays on the list: undoing looks at what is.
    ///
    /// # Errors
    /// When it cannot be written down, and then it is not done; and what doing it says.
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

    /// Undoes what is not undone yet, the last change first. What cannot be undone is told and does not hold up the
    /// rest, but all before it are on the list still: undoing it later may change what they had put back.
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
            // A list that cannot be written is read as undone in part: undoing again does no harm.
            if let Err(e) = self.append(&Line::Undone { number }) {
                problems.push(e.to_string());
            }
        }
        problems
    }

    /// Undoes the change of this number now.
    ///
    /// # Errors
    /// When the kernel does not let it be undone; it stays on the list then.
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

    /// Ends the processes that were started, before all else: what is left of the trace then has an end.
    pub(crate) fn end_processes(&mut self, kernel: &dyn Kernel) {
        for number in 0..self.changes.len() {
            if matches!(
                self.changes.get(number),
                Some((Change::Process { .. } | Change::Command { .. }, false))
            ) {
                // Undoing everything tries it again and tells.
                let _ = self.undo_one(kernel, number);
            }
        }
    }

    /// Changes that are listed so far.
    pub(crate) fn len(&self) -> usize {
        self.changes.len()
    }

    /// Notes that the trace is over, and what is known of it.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub(crate) fn mark_ended(&mut self, capture: Capture) -> Result<(), RecordError> {
        self.job.capture = capture.clone();
        self.ended = true;
        self.append(&Line::Ended {
            capture: Box::new(capture),
        })
    }

    /// Whether the trace was over.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended
    }

    /// Whether everything is undone.
    #[must_use]
    pub fn is_undone(&self) -> bool {
        self.changes.iter().all(|(_, undone)| *undone)
    }

    /// Ends the list; one with changes that are not undone stays.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn end(self) -> Result<(), RecordError> {
        if !self.is_undone() {
            return Ok(());
        }
        std::fs::remove_file(&self.path).map_err(|e| RecordError::file(&self.path, e))
    }
}

/// What a list says.
#[derive(Debug, Default)]
pub(crate) struct ParsedJournal {
    boot: String,
    job: Option<Job>,
    ended: bool,
    pub(crate) changes: Vec<(Change, bool)>,
}

/// The changes that a list of changes says, those that are undone too.
///
/// # Errors
/// The number of the line that is wrong, and why.
pub fn parse_changes(bytes: &[u8]) -> Result<Vec<Change>, (usize, String)> {
    Ok(parse(bytes)?.changes.into_iter().map(|(change, _)| change).collect())
}

/// Reads a list. An error is the number of the line that is wrong, and why; a last line that is not whole is left out.
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
                return Err((at, format!("version {version}; this program knows version {VERSION}")));
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
