//! The following of a recording while a recorder writes it, off the interface thread.
//!
//! A look reads only what was committed since the last one. A reading derives all data again: it happens at intervals of
//! at least four times its duration, so that all readings together cost a fixed share of the time.

mod counts;
mod growing_file;
mod reader;

pub use counts::{CountedTrace, EventCounts};
pub use reader::{FollowError, FollowedRecording};

use growing_file::{FileId, FileStat, GrowingFile, WriterState};
use reader::{GrowthReader, RecordedEnd, read_finished};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use trace_core::container::TransferBytes;
use trace_core::progress::{Cancelled, Progress};

/// Minimum interval of looks at the file.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Minimum interval of readings.
const READ_INTERVAL: Duration = Duration::from_millis(250);
/// A look or a reading takes at most one part in this many of the time, plus one.
const COST_FACTOR: u32 = 4;
/// Number of looks in a row that find no writer before the recorder counts as gone: a new file is locked only after it
/// was created.
const MIN_GONE_LOOKS: u32 = 3;
/// Time after which a removed file that nothing replaced counts as lost.
const MAX_MISSING: Duration = Duration::from_secs(10);

/// The phase of following.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FollowPhase {
    /// There is no file yet.
    #[default]
    Waiting,
    /// The file grows.
    Growing,
    /// The program has ended, and the finished file is awaited.
    Closing,
    /// The recorder has finished the file. The note says what the recording lacks.
    Finished {
        /// Why the recording ends early, if it does.
        note: Option<String>,
    },
    /// The recorder is gone and has not finished the file.
    RecorderGone {
        /// What happened.
        reason: String,
    },
    /// The file cannot be read.
    Failed {
        /// The error.
        reason: String,
    },
}

impl FollowPhase {
    /// Returns whether following has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(
            self,
            Self::Finished { .. } | Self::RecorderGone { .. } | Self::Failed { .. }
        )
    }
}

/// The state of following, for the user.
#[derive(Clone, Debug)]
pub struct FollowStatus {
    /// The phase.
    pub phase: FollowPhase,
    /// The file that grows, with its present name.
    pub file: Option<PathBuf>,
    /// Size of the file, bytes.
    pub bytes: u64,
    /// Counts of its events.
    pub counts: EventCounts,
    /// Bytes between the program and the machine of its device, if that is another one.
    pub transfer: Option<TransferBytes>,
    /// When the file was created, or first seen.
    pub since: Option<SystemTime>,
    /// When the file grew last.
    pub grown: Instant,
    /// Why the file cannot be read at present.
    pub problem: Option<String>,
}

/// A file that is followed, one step at a time.
#[derive(Debug)]
pub struct Following {
    requested: PathBuf,
    status: FollowStatus,
    file: Option<(GrowingFile, FileId)>,
    reader: GrowthReader,
    gone_looks: u32,
    missing_since: Option<Instant>,
    read_due: Instant,
    /// Why the last reading failed.
    read_error: Option<String>,
}

impl Following {
    /// Begins to follow the recording at a path, which may not exist yet.
    #[must_use]
    pub fn new(requested: PathBuf) -> Self {
        let now = Instant::now();
        Self {
            requested,
            status: FollowStatus {
                phase: FollowPhase::Waiting,
                file: None,
                bytes: 0,
                counts: EventCounts::default(),
                transfer: None,
                since: None,
                grown: now,
                problem: None,
            },
            file: None,
            reader: GrowthReader::default(),
            gone_looks: 0,
            missing_since: None,
            read_due: now,
            read_error: None,
        }
    }

    /// Returns the state.
    #[must_use]
    pub fn status(&self) -> &FollowStatus {
        &self.status
    }

    /// Looks at the file, and reads it if there is something new and a reading is due.
    ///
    /// # Errors
    /// [`Cancelled`] if the work was cancelled. Anything else is in the state.
    pub fn step(&mut self, progress: &Progress) -> Result<Option<FollowedRecording>, Cancelled> {
        if self.status.phase.has_ended() {
            return Ok(None);
        }
        let Some(file) = self.find_file() else {
            self.note_missing();
            return Ok(None);
        };
        self.missing_since = None;
        self.status.problem = None;
        let looked = self.reader.look(&file, progress);
        // A file that no process writes any more ends, even if it cannot be read.
        let has_changed = self.note_error(looked)?.unwrap_or(false);
        if self.status.phase.has_ended() {
            return Ok(None);
        }
        if has_changed {
            self.status.grown = Instant::now();
        } else if self.status.problem.is_none() {
            // What a file lacks for a reading may be in its next bytes: only one that rests has a problem.
            self.status.problem.clone_from(&self.read_error);
        }
        self.status.bytes = FileStat::read(&file.path).map_or(self.status.bytes, |s| s.bytes);
        self.status.counts = self.reader.counts;
        // The last numbers stay until the finished file is there.
        self.status.transfer = TransferBytes::read_next_to(&file.path).or(self.status.transfer);
        let end = self.find_end(&file, has_changed);
        match end {
            Some(FollowPhase::Finished { note }) => self.finish(&file, note, progress),
            Some(end) => {
                let last = self.read(&file, progress)?;
                self.status.phase = end;
                Ok(last)
            }
            None if self.reader.has_news() && Instant::now() >= self.read_due => self.read(&file, progress),
            None => Ok(None),
        }
    }

    /// Returns the file to look at: the one of the last step, or the one that now grows.
    fn find_file(&mut self) -> Option<GrowingFile> {
        let is_there = |(file, id): &(GrowingFile, FileId)| FileStat::read(&file.path).is_some_and(|s| s.id == *id);
        if !self.file.as_ref().is_some_and(is_there) {
            let found = growing_file::find(&self.requested);
            self.file = found.and_then(|file| {
                let stat = FileStat::read(&file.path)?;
                let since = stat.created.unwrap_or_else(SystemTime::now);
                self.status.since.get_or_insert(since);
                Some((file, stat.id))
            });
            self.gone_looks = 0;
            self.status.grown = Instant::now();
        }
        let file = self.file.as_ref().map(|(file, _)| file.clone())?;
        self.status.file = Some(file.path.clone());
        Some(file)
    }

    /// Waits for a file. One that was there and was removed must be replaced soon.
    fn note_missing(&mut self) {
        if self.status.file.is_none() {
            self.status.phase = FollowPhase::Waiting;
            return;
        }
        self.status.phase = FollowPhase::Closing;
        if self.missing_since.get_or_insert_with(Instant::now).elapsed() > MAX_MISSING {
            let file = self.status.file.as_deref().unwrap_or(&self.requested).display();
            self.status.phase = FollowPhase::RecorderGone {
                reason: format!("{file} was removed, and {} was not written", self.requested.display()),
            };
        }
    }

    /// Returns a result, or `None` for an error, which the state then shows.
    fn note_error<T>(&mut self, result: Result<T, FollowError>) -> Result<Option<T>, Cancelled> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(e) if e.is_cancelled() => Err(Cancelled),
            Err(e) if e.is_final() => {
                self.status.phase = FollowPhase::Failed { reason: e.to_string() };
                Ok(None)
            }
            Err(e) => {
                self.status.problem = Some(e.to_string());
                Ok(None)
            }
        }
    }

    /// Returns the phase that ends following, or `None` while the file grows.
    fn find_end(&mut self, file: &GrowingFile, has_changed: bool) -> Option<FollowPhase> {
        let writer = file.writer(self.reader.is_container());
        self.gone_looks = match writer {
            WriterState::Gone if !has_changed => self.gone_looks + 1,
            _ => 0,
        };
        let is_gone = self.gone_looks >= MIN_GONE_LOOKS;
        let is_complete = self.reader.end == RecordedEnd::Complete;
        self.status.phase = FollowPhase::Growing;
        if file.is_final {
            let note = match &self.reader.end {
                _ if is_complete => return Some(FollowPhase::Finished { note: None }),
                _ if !is_gone => return None,
                _ if !self.reader.has_content() => {
                    let reason = format!("{} holds no commit, and no process writes it", file.path.display());
                    return Some(FollowPhase::RecorderGone { reason });
                }
                RecordedEnd::Early(reason) => Some(format!("it ends early: {reason}")),
                RecordedEnd::Open if self.reader.counts.trace == CountedTrace::Calls => {
                    Some("its program was killed, so it ends at its last commit".to_owned())
                }
                RecordedEnd::Open | RecordedEnd::Complete => None,
            };
            return Some(FollowPhase::Finished { note });
        }
        if file.has_owner() {
            if is_complete || is_gone {
                self.status.phase = FollowPhase::Closing;
            }
            return None;
        }
        // Nobody will move the file.
        (is_complete || is_gone).then(|| FollowPhase::RecorderGone {
            reason: format!(
                "the command that records it is gone, so the recording stays in {}",
                file.path.display()
            ),
        })
    }

    /// Reads the finished file.
    fn finish(
        &mut self,
        file: &GrowingFile,
        note: Option<String>,
        progress: &Progress,
    ) -> Result<Option<FollowedRecording>, Cancelled> {
        let read = match read_finished(&file.path, progress) {
            Err(e) if !e.is_cancelled() => {
                self.status.phase = FollowPhase::Failed { reason: e.to_string() };
                return Ok(None);
            }
            read => self.note_error(read)?,
        };
        self.status.phase = FollowPhase::Finished { note };
        Ok(read)
    }

    /// Reads what the last look found, and sets when the next reading is due.
    fn read(&mut self, file: &GrowingFile, progress: &Progress) -> Result<Option<FollowedRecording>, Cancelled> {
        if !self.reader.has_news() {
            return Ok(None);
        }
        let begun = Instant::now();
        let events = self.reader.counts.events;
        let read = self.reader.read(file, &self.requested, progress);
        let before = self.status.problem.take();
        let read = self.note_error(read)?.flatten();
        self.read_error = std::mem::replace(&mut self.status.problem, before);
        self.read_due = Instant::now() + (begun.elapsed() * COST_FACTOR).max(READ_INTERVAL);
        self.status.counts = self.reader.counts;
        if self.reader.counts.events != events {
            self.status.grown = Instant::now();
        }
        Ok(read)
    }
}

/// The newest state and reading that the interface has not taken.
#[derive(Debug)]
struct FollowerOutput {
    status: FollowStatus,
    recording: Option<FollowedRecording>,
}

/// A thread that follows a file until this is dropped.
#[derive(Debug)]
pub struct Follower {
    requested: PathBuf,
    latest: Arc<Mutex<FollowerOutput>>,
    progress: Progress,
    /// Wakes the thread when it is dropped.
    _wake: Sender<()>,
}

impl Follower {
    /// Starts to follow the recording at a path, which may not exist yet. `notify` is called after each step.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(requested: PathBuf, notify: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        let mut following = Following::new(requested.clone());
        let latest = Arc::new(Mutex::new(FollowerOutput {
            status: following.status.clone(),
            recording: None,
        }));
        let (progress, (wake, woken)) = (Progress::new(), channel());
        let (shared, cancelled) = (Arc::clone(&latest), progress.clone());
        let thread = std::thread::Builder::new().name("following".to_owned());
        thread.spawn(move || {
            loop {
                let begun = Instant::now();
                let Ok(recording) = following.step(&cancelled) else {
                    return;
                };
                // The time of a reading does not delay the next look.
                let pause = match recording.is_some() {
                    true => LOOK_INTERVAL,
                    false => (begun.elapsed() * COST_FACTOR).max(LOOK_INTERVAL),
                };
                let has_ended = following.status.phase.has_ended();
                let replaced = {
                    let mut latest = shared.lock().unwrap_or_else(PoisonError::into_inner);
                    latest.status.clone_from(&following.status);
                    recording.and_then(|r| latest.recording.replace(r))
                };
                // A large recording is freed here, while the interface does not wait for the lock.
                drop(replaced);
                notify();
                if has_ended || !matches!(woken.recv_timeout(pause), Err(RecvTimeoutError::Timeout)) {
                    return;
                }
            }
        })?;
        Ok(Self {
            requested,
            latest,
            progress,
            _wake: wake,
        })
    }

    /// Returns the requested path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.requested
    }

    /// Returns the state, and the newest reading if it was not taken yet.
    #[must_use]
    pub fn take(&self) -> (FollowStatus, Option<FollowedRecording>) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        (latest.status.clone(), latest.recording.take())
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.progress.cancel();
    }
}

#[cfg(test)]
mod tests;
