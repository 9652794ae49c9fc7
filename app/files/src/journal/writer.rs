//! The thread that writes the journal. It keeps every line until the line is in a file: next to the recording, or else
//! in the user's settings folder. Failed writes are retried with the next change and periodically.

use super::{JournalKey, Line, LockedFile, belongs, header, hold, move_to_backup, open};
use crate::changes::Change;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Delay before lines that are in no file are retried.
const SOON: Duration = Duration::from_secs(1);
/// Delay before lines in the fallback are retried next to the recording.
const LATER: Duration = Duration::from_secs(20);

/// Where the changes are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SaveState {
    /// All changes are in the journal next to the recording, or there are none.
    #[default]
    NextToRecording,
    /// The changes are in the fallback journal.
    InFallback {
        /// Path of the fallback journal.
        path: PathBuf,
        /// Why they are not next to the recording.
        why: String,
    },
    /// Some changes are only in memory.
    InMemory(Arc<UnsavedChanges>),
}

/// The changes that would be lost if the program ended now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnsavedChanges {
    /// Why they could not be written.
    pub error: String,
    /// Description of each change, oldest first.
    pub changes: Vec<String>,
}

enum Message {
    Line(Line),
    /// Retry at once and report completion.
    Try(Sender<()>),
    /// Return the complete journal as it would be if all lines could be written.
    Whole(Sender<io::Result<Vec<u8>>>),
}

/// A journal writer with its own thread.
pub struct Journal {
    to: Option<Sender<Message>>,
    thread: Option<JoinHandle<()>>,
    path: PathBuf,
    /// Path of the fallback, used if the journal next to the recording cannot be written.
    fallback: Option<PathBuf>,
    of: JournalKey,
    /// The journal that existed when the recording was opened, locked for this window.
    held: Option<Arc<LockedFile>>,
    /// Whether another window holds the journal, so that this one writes its own.
    elsewhere: bool,
    /// Lines that an earlier run could write only to the fallback.
    resumed: Vec<String>,
    keeping: Arc<Mutex<SaveState>>,
    /// Nothing is written: the owner of the changes keeps them.
    is_in_memory: bool,
}

impl Journal {
    /// Creates a journal at `path`. The file is created with the first change.
    #[must_use]
    pub fn new(path: PathBuf, of: JournalKey) -> Self {
        Self {
            to: None,
            thread: None,
            path,
            fallback: None,
            of,
            held: None,
            elsewhere: false,
            resumed: Vec::new(),
            keeping: Arc::default(),
            is_in_memory: false,
        }
    }

    /// Creates a journal that writes nothing. The changes exist as long as their owner keeps them.
    #[must_use]
    pub fn new_in_memory(of: JournalKey) -> Self {
        Self {
            is_in_memory: true,
            ..Self::new(PathBuf::new(), of)
        }
    }

    /// Sets a fallback file for lines that cannot be written at `path`.
    #[must_use]
    pub fn with_fallback(mut self, fallback: Option<PathBuf>) -> Self {
        self.fallback = fallback;
        self
    }

    /// Locks the journal for this window, if it exists. Returns `false` if another window holds it. That window then
    /// owns its contents, and the changes of this window go to a separate journal in the same folder.
    ///
    /// # Errors
    /// Returns an error if the journal exists and cannot be opened or locked.
    pub fn hold(&mut self) -> io::Result<bool> {
        match File::open(&self.path) {
            Ok(file) => {
                self.held = hold(file)?.map(Arc::new);
                self.elsewhere = self.held.is_none();
                Ok(!self.elsewhere)
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(e) => Err(e),
        }
    }

    /// Returns the text of the fallback if an earlier run left one that continues the journal next to the recording.
    /// Its lines are also written to that journal as soon as possible.
    pub fn resume(&mut self) -> Option<String> {
        let path = self.fallback.as_ref()?;
        let file = File::open(path).ok()?;
        let Ok(Some(mut file)) = hold(file) else { return None };
        let whole = whole_lines(&mut file.0).ok()?;
        let beside = match File::open(&self.path) {
            // If it cannot be read, only the fallback remains.
            Ok(mut f) => whole_lines(&mut f).unwrap_or_default(),
            Err(_) => Vec::new(),
        };
        let text = String::from_utf8(whole).ok()?;
        let first = text.lines().next().filter(|l| belongs(l, &self.of))?;
        let rest = match text.as_bytes().strip_prefix(beside.as_slice()) {
            Some(_) if beside.is_empty() => text.get(first.len() + 1..)?,
            Some(rest) => std::str::from_utf8(rest).ok()?,
            None => return None,
        };
        self.resumed = rest.lines().map(|l| format!("{l}\n")).collect();
        Some(text)
    }

    /// Leaves the fallback of an earlier run unchanged.
    pub fn discard_resumed(&mut self) {
        self.resumed.clear();
    }

    /// Returns the current or future path of the journal.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the writer was started.
    #[must_use]
    pub fn has_started(&self) -> bool {
        self.to.is_some()
    }

    /// Returns where the changes are stored, as far as known now.
    #[must_use]
    pub fn save_state(&self) -> SaveState {
        self.keeping.lock().map(|k| k.clone()).unwrap_or_default()
    }

    /// Tries to write everything, waits for completion, and returns where the changes are stored.
    #[must_use]
    pub fn flush(&self) -> SaveState {
        let (to, done) = channel();
        if self.to.as_ref().is_some_and(|t| t.send(Message::Try(to)).is_ok()) {
            // An error means that the thread has ended; it has reported why.
            let _ = done.recv();
        }
        self.save_state()
    }

    /// Returns the complete journal, including lines that could not be written.
    ///
    /// # Errors
    /// Returns an error if the lines already in the file cannot be read.
    pub fn read_all(&self) -> io::Result<Vec<u8>> {
        let (to, done) = channel();
        let gone = || io::Error::other("the journal was closed");
        self.to
            .as_ref()
            .ok_or_else(gone)?
            .send(Message::Whole(to))
            .map_err(|_| gone())?;
        done.recv().map_err(|_| gone())?
    }

    /// Starts the writer, so that [`Journal::close`] marks the existing lines as seen.
    pub fn start(&mut self) {
        if self.to.is_some() || self.is_in_memory {
            return;
        }
        let (to, from) = channel::<Message>();
        let resumed = std::mem::take(&mut self.resumed);
        let worker = Worker {
            path: self.path.clone(),
            fallback: self.fallback.clone(),
            of: self.of.clone(),
            held: self.held.clone(),
            elsewhere: self.elsewhere,
            beside: None,
            fallen: resumed.len(),
            left: !resumed.is_empty(),
            other: None,
            waiting: resumed
                .into_iter()
                .map(|text| PendingLine { text, what: None })
                .collect(),
            at: 0,
            keeping: Arc::clone(&self.keeping),
        };
        let thread = std::thread::Builder::new().name("journal".into());
        match thread.spawn(move || worker.run(&from)) {
            Ok(t) => self.thread = Some(t),
            Err(e) => {
                if let Ok(mut k) = self.keeping.lock() {
                    let changes = vec!["all changes since the recording was opened".to_owned()];
                    let why = format!("the journal thread cannot be started: {e}");
                    *k = SaveState::InMemory(Arc::new(UnsavedChanges { error: why, changes }));
                }
            }
        }
        self.to = Some(to);
    }

    fn send(&mut self, line: Line) {
        self.start();
        if let Some(to) = &self.to {
            // If no thread could be started, that was already reported.
            let _ = to.send(Message::Line(line));
        }
    }

    /// Logs a change.
    pub fn log_change(&mut self, change: &Change) {
        self.send(Line::Do(change.clone()));
    }

    /// Logs the undo of the last change.
    pub fn log_undo(&mut self) {
        self.send(Line::Undo);
    }

    /// Logs the redo of the last undone change.
    pub fn log_redo(&mut self) {
        self.send(Line::Redo);
    }

    /// Waits until everything is written or was tried once more.
    pub fn wait_written(&mut self) {
        self.to = None;
        if let Some(t) = self.thread.take() {
            let _ = t.join();
        }
    }

    /// Logs a normal end and waits until everything is written.
    pub fn close(&mut self) {
        if self.to.is_some() {
            self.send(Line::Closed);
        }
        self.wait_written();
        self.held = None;
    }
}

/// Returns the complete lines of a file.
fn whole_lines(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(super::MAX_BYTES).read_to_end(&mut bytes)?;
    bytes.truncate(bytes.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1));
    Ok(bytes)
}

/// A file that grows by complete lines.
struct AppendFile {
    file: LockedFile,
    /// Number of bytes of completely written lines.
    sound: u64,
}

impl AppendFile {
    fn new(file: LockedFile) -> io::Result<Self> {
        let sound = file.0.metadata()?.len();
        Ok(Self { file, sound })
    }

    /// Appends lines. After an error the file may end in a partial line, which the next call removes first.
    fn add(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.file.0.metadata()?.len() > self.sound {
            self.file.0.set_len(self.sound)?;
        }
        self.file.0.write_all(lines)?;
        self.file.0.sync_data()?;
        self.sound += lines.len() as u64;
        Ok(())
    }

    /// Removes the partial line that an error left.
    fn mend(&self) {
        // If this fails too, the next line tries again.
        let _ = self.file.0.set_len(self.sound);
    }
}

/// A line that is not in the journal next to the recording.
struct PendingLine {
    text: String,
    /// Description of the change; `None` if losing the line loses nothing.
    what: Option<String>,
}

struct Worker {
    path: PathBuf,
    fallback: Option<PathBuf>,
    of: JournalKey,
    held: Option<Arc<LockedFile>>,
    elsewhere: bool,
    beside: Option<AppendFile>,
    /// Lines that are not in the journal next to the recording, oldest first.
    waiting: VecDeque<PendingLine>,
    /// Number of these lines that are in the fallback.
    fallen: usize,
    /// Whether an earlier run left a fallback that this run continues.
    left: bool,
    /// The fallback file and path, once this run has opened it.
    other: Option<(AppendFile, PathBuf)>,
    /// The last time stamp written, seconds since 1970.
    at: u64,
    keeping: Arc<Mutex<SaveState>>,
}

impl Worker {
    fn run(mut self, from: &Receiver<Message>) {
        // The file exists from the start, so that another window sees that this one holds the journal.
        let mut next = self.write();
        loop {
            let got = match next {
                Some(wait) => from.recv_timeout(wait),
                None => from.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match got {
                Ok(Message::Line(line)) => {
                    self.take(line);
                    next = self.write();
                }
                Ok(Message::Try(done)) => {
                    next = self.write();
                    // The requester may have stopped waiting.
                    let _ = done.send(());
                }
                Ok(Message::Whole(to)) => {
                    let _ = to.send(self.whole());
                }
                Err(RecvTimeoutError::Timeout) => next = self.write(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        if next.is_some() {
            self.write();
        }
    }

    fn take(&mut self, line: Line) {
        let what = match &line {
            Line::Do(c) => Some(c.describe()),
            Line::Undo => Some("undo of a change".to_owned()),
            Line::Redo => Some("redo of a change".to_owned()),
            Line::Of { .. } | Line::At(_) | Line::Closed => None,
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let mut text = String::new();
        let timed = what.is_some() && now != self.at;
        for l in timed.then_some(Line::At(now)).iter().chain([&line]) {
            match serde_json::to_string(l) {
                Ok(t) => text += &(t + "\n"),
                Err(e) => tracing::error!("a line of the journal cannot be encoded: {e}"),
            }
        }
        self.at = now;
        self.waiting.push_back(PendingLine { text, what });
    }

    /// Writes the pending lines and returns the delay before the next try.
    fn write(&mut self) -> Option<Duration> {
        let now = match self.write_to_journal() {
            Ok(()) => {
                // All lines are next to the recording now.
                let mine = self.other.take().map(|(_, path)| path);
                let left = std::mem::take(&mut self.left).then(|| self.fallback.clone()).flatten();
                if let Some(path) = mine.or(left) {
                    let _ = std::fs::remove_file(path);
                }
                self.fallen = 0;
                SaveState::NextToRecording
            }
            Err(e) => {
                let why = format!("{}: {e}", self.path.display());
                match self.fall_back() {
                    Ok(path) => SaveState::InFallback { path, why },
                    Err(also) => {
                        let lost = self.waiting.iter().skip(self.fallen);
                        SaveState::InMemory(Arc::new(UnsavedChanges {
                            error: also.map_or_else(|| why.clone(), |a| format!("{why}; {a}")),
                            changes: lost.filter_map(|w| w.what.clone()).collect(),
                        }))
                    }
                }
            }
        };
        let again = match &now {
            SaveState::NextToRecording => None,
            SaveState::InFallback { .. } => Some(LATER),
            SaveState::InMemory(_) => Some(SOON),
        };
        if let Ok(mut k) = self.keeping.lock() {
            if std::mem::discriminant(&*k) != std::mem::discriminant(&now) {
                match &now {
                    SaveState::NextToRecording => tracing::info!("changes are saved next to the recording"),
                    SaveState::InFallback { path, why } => {
                        tracing::warn!("changes are saved in {}: {why}", path.display())
                    }
                    SaveState::InMemory(u) => tracing::error!("changes are not saved: {}", u.error),
                }
            }
            *k = now;
        }
        again
    }

    /// Writes the pending lines to the journal next to the recording.
    fn write_to_journal(&mut self) -> io::Result<()> {
        if self.beside.is_none() {
            let file = open(&self.path, &self.of, self.held.as_deref(), self.elsewhere)?;
            self.beside = Some(AppendFile::new(file)?);
        }
        let Some(file) = &mut self.beside else { return Ok(()) };
        while let Some(w) = self.waiting.front() {
            if let Err(e) = file.add(w.text.as_bytes()) {
                file.mend();
                return Err(e);
            }
            self.waiting.pop_front();
            self.fallen = self.fallen.saturating_sub(1);
        }
        Ok(())
    }

    /// Writes the pending lines to the fallback and returns its path. The error says why it failed; `None` if there is
    /// no fallback.
    fn fall_back(&mut self) -> Result<PathBuf, Option<String>> {
        let Some(path) = self.fallback.clone() else {
            return Err(None);
        };
        let describe = |e: io::Error| Some(format!("{}: {e}", path.display()));
        if self.other.is_none() {
            let made = self.fallback_file(&path).map_err(describe)?;
            self.other = Some(made);
        }
        let Some((file, path)) = &mut self.other else {
            return Err(None);
        };
        for w in self.waiting.iter().skip(self.fallen) {
            if let Err(e) = file.add(w.text.as_bytes()) {
                file.mend();
                return Err(describe(e));
            }
            self.fallen += 1;
        }
        Ok(path.clone())
    }

    /// Creates the fallback with all lines of the journal next to the recording.
    fn fallback_file(&mut self, path: &Path) -> io::Result<(AppendFile, PathBuf)> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        if !self.left
            && let Ok(there) = std::fs::metadata(path)
            && there.len() > 0
        {
            // Another file has this path: that of another window, or of an earlier recording of this name.
            move_to_backup(path)?;
        }
        let mut open = OpenOptions::new();
        let file = open.read(true).append(true).create(true).open(path)?;
        let Some(file) = hold(file)? else {
            return Err(io::Error::other("another window uses it"));
        };
        let mut file = AppendFile::new(file)?;
        if !self.left {
            let before = self.before()?;
            if let Err(e) = file.add(&before) {
                // A partial copy would be read as complete.
                let _ = std::fs::remove_file(path);
                return Err(e);
            }
        }
        Ok((file, path.to_owned()))
    }

    /// Returns the lines that this window owns in the journal next to the recording.
    fn before(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = match &mut self.beside {
            Some(f) => {
                let mut b = whole_lines(&mut f.file.0)?;
                b.truncate(usize::try_from(f.sound).unwrap_or(usize::MAX));
                b
            }
            None if self.elsewhere => Vec::new(),
            None => match File::open(&self.path) {
                Ok(mut f) => whole_lines(&mut f).unwrap_or_default(),
                Err(_) => Vec::new(),
            },
        };
        let first = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
        if !belongs(&String::from_utf8_lossy(first), &self.of) {
            bytes = header(&self.of)?.into_bytes();
        }
        Ok(bytes)
    }

    fn whole(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = self.before()?;
        for w in &self.waiting {
            bytes.extend_from_slice(w.text.as_bytes());
        }
        Ok(bytes)
    }
}
