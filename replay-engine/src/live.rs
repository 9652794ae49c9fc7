//! Live programs: a CUDA program on the client's machine computes on devices of the server.
//!
//! This crate authenticates the client, shares the devices, carries frames and ends sessions. The content of the frames
//! belongs to the relays at both ends. A program hands in the [`LiveRunner`] that starts a worker process for each
//! program.

pub use crate::wire::live_message::{
    LiveGrant, LiveLimits, LiveRecording, LiveRequest, LocalWorker, MAX_DEVICES, MAX_PREFACE_BYTES, MAX_PROGRAM_BYTES,
};

use crate::wire::{FrameError, MARGIN, MAX_CALLS_BYTES, PublicKey, Sender, Topic, WireError};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Maximum size of the runner's report about a program, bytes.
pub const MAX_REPORT_BYTES: usize = 1 << 20;
/// Maximum number of recordings of a program.
pub const MAX_RECORDINGS: usize = 64;
/// Maximum size of the name of a recording, bytes.
pub const MAX_RECORDING_NAME_BYTES: usize = 128;
/// Maximum size of all recordings of a program, bytes.
pub const MAX_RECORDING_BYTES: u64 = 64 << 30;

/// A program that a runner starts a worker for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveStart {
    /// Name of the client in the key store.
    pub client: String,
    /// Key of the client.
    pub key: PublicKey,
    /// What the client asks for. The server has checked it and holds a share of each device.
    pub request: LiveRequest,
    /// Limits that the worker keeps. The server itself keeps that of time.
    pub limits: LiveLimits,
}

/// The end of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveEnd {
    /// Why the program did not end well, for the user.
    pub error: Option<String>,
    /// Bytes of the runner for the client's relay, at most [`MAX_REPORT_BYTES`].
    pub report: Vec<u8>,
    /// Files to send, at most [`MAX_RECORDINGS`]. They exist as long as their [`LiveSession`].
    pub recordings: Vec<LiveFile>,
}

/// A file that is sent to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveFile {
    /// Name for the client: [`is_valid_recording_name`] must be true.
    pub name: String,
    /// Path of the file.
    pub path: PathBuf,
}

/// Returns whether the client accepts a name for a recording: 1 to [`MAX_RECORDING_NAME_BYTES`] bytes, no separator, no
/// control character, no dot at the start.
#[must_use]
pub fn is_valid_recording_name(name: &str) -> bool {
    let is_allowed = |c: char| !c.is_control() && !matches!(c, '/' | '\\');
    (1..=MAX_RECORDING_NAME_BYTES).contains(&name.len()) && !name.starts_with('.') && name.chars().all(is_allowed)
}

/// Budgets of the live programs of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveBudgets {
    /// Maximum number of programs at the same time.
    pub sessions: usize,
    /// Maximum number of programs of one client key at the same time.
    pub sessions_per_client: usize,
    /// Maximum number of further connections of a program.
    pub lanes: u32,
    /// Maximum time of a program, or `None` for no limit.
    pub longest: Option<Duration>,
    /// Maximum size of a program's pinned, mapped and managed memory at this machine, bytes, or `None` for no limit.
    pub host_bytes: Option<u64>,
    /// Maximum memory of a program on all its devices, bytes, or `None` for no limit.
    pub device_bytes: Option<u64>,
}

impl LiveBudgets {
    /// Returns the limits of each program.
    #[must_use]
    pub fn limits(&self) -> LiveLimits {
        LiveLimits {
            host_bytes: self.host_bytes,
            device_bytes: self.device_bytes,
            time_ms: self
                .longest
                .map(|longest| u64::try_from(longest.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

impl Default for LiveBudgets {
    fn default() -> Self {
        Self {
            sessions: 32,
            sessions_per_client: 8,
            lanes: 8,
            longest: None,
            host_bytes: None,
            device_bytes: None,
        }
    }
}

/// Starts the workers of programs. A program of the server hands it in.
pub trait LiveRunner: fmt::Debug + Send + Sync {
    /// Returns whether programs can use a device of the server with this name.
    fn serves(&self, device: &str) -> bool;

    /// Starts the worker of a program. `sender` sends frames to the client; those before the return wait until the
    /// client knows of the start. The client is not watched closely meanwhile, so this takes seconds at most.
    ///
    /// # Errors
    /// The reason for the user: the worker did not start.
    fn start(&self, start: LiveStart, sender: LiveSender) -> Result<Arc<dyn LiveSession>, String>;
}

/// A program with its worker. Several threads call it at the same time.
pub trait LiveSession: Send + Sync {
    /// Returns how the client reaches a local worker, and the bytes for the client's relay.
    fn preface(&self) -> (Option<LocalWorker>, Vec<u8>);

    /// Takes a frame of the client. Lane 0 is the connection that started the program. The call is on the reading thread
    /// of the connection: while it waits for space, the client has to wait.
    ///
    /// # Errors
    /// Why the frame is not taken. The program then ends.
    fn take_frame(&self, lane: u32, frame: &[u8]) -> Result<(), String>;

    /// Adds a connection. Lanes are numbered from 1, and no number is used again. Frames that `sender` sends before the
    /// return wait until the client knows the lane.
    ///
    /// # Errors
    /// Why the lane is not added. The program goes on.
    fn add_lane(&self, lane: u32, sender: LiveSender) -> Result<(), String>;

    /// Handles the end of a lane's connection. The program goes on.
    fn remove_lane(&self, _lane: u32) {}

    /// Ends the worker in order, after the client said that the program has ended. When it returns, nothing of the
    /// program uses a device any more. A call of [`LiveSession::end`] makes it return.
    fn finish(&self) -> LiveEnd;

    /// Kills the worker at once. A waiting [`LiveSession::take_frame`] returns. Later calls have no effect.
    fn end(&self);

    /// Returns one short text for lists of holders, such as `vector_add, 12 MiB`.
    fn describe(&self) -> String;
}

/// Sends frames of calls to the other end. A clone sends on the same connection.
#[derive(Clone, Debug)]
pub struct LiveSender {
    sender: Sender,
    early: Arc<EarlyFrames>,
    end: EndReport,
}

impl LiveSender {
    /// Creates the sender of an agent. Its frames wait for [`LiveSender::open`].
    pub(crate) fn closed(sender: Sender, end: EndReport) -> Self {
        Self {
            sender,
            early: Arc::new(EarlyFrames {
                is_open: AtomicBool::new(false),
                waiting: Mutex::new(Some(Vec::new())),
            }),
            end,
        }
    }

    /// Creates the sender of a client.
    pub(crate) fn opened(sender: Sender) -> Self {
        Self {
            sender,
            early: Arc::new(EarlyFrames {
                is_open: AtomicBool::new(true),
                waiting: Mutex::new(None),
            }),
            end: EndReport::default(),
        }
    }

    /// Sends the waiting frames, then later ones at once. The other end knows of the program or of the lane now.
    pub(crate) fn open(&self) -> Result<(), WireError> {
        let mut waiting = self.early.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for frame in waiting.take().unwrap_or_default() {
            self.sender.send_bytes(Topic::Calls, &frame)?;
        }
        self.early.is_open.store(true, Ordering::Release);
        Ok(())
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// If it is longer than [`MAX_CALLS_BYTES`], the connection fails, or the other end takes nothing for
    /// [`crate::wire::LIVE_WRITE_LIMIT`].
    pub fn send(&self, frame: &[u8]) -> Result<(), WireError> {
        self.send_parts(&[frame])
    }

    /// Sends several parts as one frame, without a copy of the whole frame.
    ///
    /// # Errors
    /// Same as [`LiveSender::send`].
    pub fn send_parts(&self, parts: &[&[u8]]) -> Result<(), WireError> {
        let bytes = parts.iter().fold(0usize, |sum, part| sum.saturating_add(part.len()));
        check_size(bytes)?;
        if self.early.keep(parts) {
            return Ok(());
        }
        self.sender.send_parts(Topic::Calls, parts)
    }

    /// Sends a frame from memory that holds [`MARGIN`] bytes for the connection and then the frame. No byte is copied, and
    /// the memory has no meaning afterwards.
    ///
    /// # Errors
    /// Same as [`LiveSender::send`].
    pub fn send_in_place(&self, buffer: &mut [u8]) -> Result<(), WireError> {
        let frame = buffer.get(MARGIN..).unwrap_or_default();
        check_size(frame.len())?;
        if self.early.keep(&[frame]) {
            return Ok(());
        }
        self.sender.send_in_place(Topic::Calls, buffer)
    }

    /// Reports that the worker has died. The client gets the error, and the program ends. Only the first report counts.
    /// On a client, it closes the connection.
    pub fn report_end(&self, error: &str) {
        if !self.end.report(error) {
            self.close();
        }
    }

    /// Closes the connection in both directions. On an agent, that ends the program or the lane.
    pub fn close(&self) {
        self.sender.close();
    }
}

/// Checks the size of a frame of calls.
fn check_size(bytes: usize) -> Result<(), FrameError> {
    if bytes > MAX_CALLS_BYTES {
        let (bytes, limit) = (bytes as u64, MAX_CALLS_BYTES);
        return Err(FrameError::TooLong { bytes, limit });
    }
    Ok(())
}

/// Frames that a runner sends before the other end knows of the program.
#[derive(Debug)]
struct EarlyFrames {
    /// Whether frames need not wait any more, without the lock.
    is_open: AtomicBool,
    /// The frames, or `None` when frames need not wait any more.
    waiting: Mutex<Option<Vec<Vec<u8>>>>,
}

impl EarlyFrames {
    /// Keeps a frame if it has to wait, and returns whether it has to.
    fn keep(&self, parts: &[&[u8]]) -> bool {
        if self.is_open.load(Ordering::Acquire) {
            return false;
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.as_mut().map(|frames| frames.push(parts.concat())).is_some()
    }
}

/// The first error that a worker reports, for the session that waits for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndReport {
    /// `None` on a client, which has no session.
    error: Option<Arc<Mutex<Option<String>>>>,
}

impl EndReport {
    /// Creates the report of a session.
    pub fn for_session() -> Self {
        Self {
            error: Some(Arc::default()),
        }
    }

    /// Stores an error, unless there is one. Returns false if no session waits for it.
    pub fn report(&self, error: &str) -> bool {
        let Some(shared) = &self.error else { return false };
        let mut first = shared.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| error.to_owned());
        true
    }

    /// Returns the error, if there is one.
    pub fn error(&self) -> Option<String> {
        let shared = self.error.as_ref()?;
        shared.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_recordings_stay_in_their_folder() {
        for name in ["train.kine", "train-12.kine", "a b", &"x".repeat(128)] {
            assert!(is_valid_recording_name(name), "{name}");
        }
        for name in [
            "",
            ".",
            "..",
            ".bashrc",
            "a/b",
            "/a",
            "..\\a",
            "a\0",
            "a\n",
            &"x".repeat(129),
        ] {
            assert!(!is_valid_recording_name(name), "{name:?}");
        }
    }
}
