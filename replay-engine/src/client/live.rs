//! Live programs on an agent: start of the worker, frames both ways, lanes, recordings.

use super::connection::{Connection, last_word};
use super::error::{ClientError, Stage};
use super::session::Client;
use crate::live::{
    LiveGrant, LiveLimits, LiveRequest, LiveSender, MAX_RECORDING_BYTES, MAX_RECORDINGS, is_valid_recording_name,
};
use crate::wire::live_message::{LIVE_VERSION, LiveCommand, LiveRefusal, LiveReply};
use crate::wire::{ReaderMessage, Sender, Topic, WAITING_FRAMES, WireError};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Maximum time for the next part of a recording, which the agent sends without a pause.
const PART_LIMIT: Duration = Duration::from_secs(60);

/// A connection that belongs to a live program on an agent. Dropping it ends the program.
#[derive(Debug)]
pub struct LiveConnection {
    grant: LiveGrant,
    link: Link,
}

/// A further connection of a live program. Dropping it ends the lane alone.
#[derive(Debug)]
pub struct LiveLane {
    number: u32,
    link: Link,
}

/// How a live program ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveOutcome {
    /// Why it did not end well, if so.
    pub error: Option<String>,
    /// Bytes of the agent's runner for the relay.
    pub report: Vec<u8>,
    /// The stored recordings.
    pub recordings: Vec<PathBuf>,
}

/// What an agent offers to programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveOffer {
    /// The devices that programs can use.
    pub devices: Vec<String>,
    /// Limits of each program.
    pub limits: LiveLimits,
}

/// A connection for frames of calls, and the thread that watches it.
#[derive(Debug)]
struct Link {
    connection: Mutex<Connection>,
    /// Whether frames have a handler.
    has_started: AtomicBool,
    /// Whether the client has sent the end of the program: then messages go to [`LiveConnection::finish`].
    is_finishing: Arc<AtomicBool>,
    /// Why the connection ended before that.
    lost: Arc<Mutex<Option<String>>>,
}

impl Client {
    fn check_live_version(&self) -> Result<(), ClientError> {
        if self.version >= LIVE_VERSION {
            return Ok(());
        }
        Err(ClientError::Version(format!(
            "the agent ({}) speaks protocol version {}, and live programs need version {LIVE_VERSION}; update the agent",
            self.program, self.version
        )))
    }

    /// Returns what the agent offers to programs, or `None` if it runs none or is too old to.
    ///
    /// # Errors
    /// If the connection is lost, or there is no answer within `limit`.
    pub fn describe_live(&self, limit: Duration) -> Result<Option<LiveOffer>, ClientError> {
        let stage = Stage::StartWorker;
        if self.version < LIVE_VERSION {
            return Ok(None);
        }
        self.connection.send(stage, Topic::Live, &LiveCommand::Describe)?;
        let frame = self.connection.frame(stage, limit)?;
        let frame = frame.ok_or_else(|| self.connection.protocol_error(stage, "no answer about live programs"))?;
        match self.connection.decode(stage, Topic::Live, &frame)? {
            LiveReply::Offer { devices, limits } => Ok(Some(LiveOffer { devices, limits })),
            LiveReply::Refused(_) => Ok(None),
            _ => Err(unexpected(&self.connection)),
        }
    }

    /// Starts the worker of a program on devices of the agent. The connection belongs to the program from then on.
    ///
    /// # Errors
    /// If the agent is too old or refuses, or if the connection is lost.
    pub fn start_live(self, request: LiveRequest) -> Result<LiveConnection, ClientError> {
        self.check_live_version()?;
        let devices = request.devices.clone();
        match self.ask_live(&LiveCommand::Start(Box::new(request)))? {
            LiveReply::Started(grant) => Ok(LiveConnection {
                grant: *grant,
                link: Link::new(self.connection),
            }),
            LiveReply::Refused(refusal) => Err(refusal_error(refusal, &devices)),
            _ => Err(unexpected(&self.connection)),
        }
    }

    /// Makes this connection a lane of a program of this client. `token` is that of its [`LiveGrant`].
    ///
    /// # Errors
    /// If the agent is too old or refuses, or if the connection is lost.
    pub fn join_live(self, token: [u8; 32]) -> Result<LiveLane, ClientError> {
        self.check_live_version()?;
        match self.ask_live(&LiveCommand::Join { token })? {
            LiveReply::Joined { lane } => Ok(LiveLane {
                number: lane,
                link: Link::new(self.connection),
            }),
            LiveReply::Refused(refusal) => Err(refusal_error(refusal, &[])),
            _ => Err(unexpected(&self.connection)),
        }
    }

    /// Sends a command that makes this the connection of a program, and returns the reply.
    fn ask_live(&self, command: &LiveCommand) -> Result<LiveReply, ClientError> {
        // The agent may send frames of calls right after its reply.
        self.connection.calls.expect_handler();
        self.connection.send(Stage::StartWorker, Topic::Live, command)?;
        self.connection.message(Stage::StartWorker, Topic::Live)
    }
}

fn unexpected(connection: &Connection) -> ClientError {
    connection.protocol_error(
        Stage::StartWorker,
        "it answers another request than the one that was sent",
    )
}

/// Returns the error for a refusal, with what to do.
fn refusal_error(refusal: LiveRefusal, devices: &[String]) -> ClientError {
    match refusal {
        LiveRefusal::NotOffered => ClientError::Refused(
            "it runs no live programs; start it with `kinescope-agent serve --live` to allow them".to_owned(),
        ),
        LiveRefusal::NoDevice { known } => {
            let missing = devices.iter().find(|device| !known.contains(device));
            let device = missing.map_or("the device", String::as_str);
            ClientError::Refused(match known.is_empty() {
                true => format!("`{device}` runs no live programs, and no other device of the agent does"),
                false => format!(
                    "`{device}` runs no live programs; the agent runs them on {}",
                    known.join(", ")
                ),
            })
        }
        LiveRefusal::Busy {
            device,
            holder,
            since_s,
        } => ClientError::Busy {
            device,
            holder,
            since_s,
        },
        LiveRefusal::OutOfOrder { device, reason } => ClientError::OutOfOrder { device, reason },
        LiveRefusal::Limit(why) => ClientError::Refused(why),
        LiveRefusal::Failed(why) => ClientError::WorkerFailed(why),
        LiveRefusal::UnknownToken => {
            ClientError::Refused("the program of this connection has ended, or belongs to another client".to_owned())
        }
    }
}

impl Link {
    fn new(connection: Connection) -> Self {
        connection.calls.allow_long_writes();
        Self {
            connection: Mutex::new(connection),
            has_started: AtomicBool::new(false),
            is_finishing: Arc::default(),
            lost: Arc::default(),
        }
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sender(&self) -> LiveSender {
        LiveSender::opened(self.connection().sender.clone())
    }

    /// Passes arriving frames to `on_frame`, and the end of the connection to `on_end`. Only the first call has an
    /// effect.
    fn start(
        &self,
        on_frame: impl FnMut(&[u8]) -> Result<(), String> + Send + 'static,
        on_end: impl FnOnce(Option<String>) + Send + 'static,
    ) {
        let mut connection = self.connection();
        if self.has_started.swap(true, Ordering::SeqCst) {
            return;
        }
        let (to_finish, arrived) = sync_channel(WAITING_FRAMES);
        let watcher = Watcher {
            arrived: std::mem::replace(&mut connection.arrived, arrived),
            to_finish,
            is_finishing: Arc::clone(&self.is_finishing),
            lost: Arc::clone(&self.lost),
            sender: connection.sender.clone(),
        };
        let thread = thread::Builder::new().name("kinescope-live".into());
        // Without the thread, the connection is as good as lost: its receiver is dropped here.
        if thread.spawn(move || watcher.watch(on_end)).is_err() {
            connection.sender.close();
        }
        connection.calls.set_handler(Box::new(on_frame));
    }
}

/// Watches a connection until it ends, or passes its messages on after the end of the program.
struct Watcher {
    arrived: Receiver<ReaderMessage>,
    to_finish: SyncSender<ReaderMessage>,
    is_finishing: Arc<AtomicBool>,
    lost: Arc<Mutex<Option<String>>>,
    sender: Sender,
}

impl Watcher {
    fn watch(self, on_end: impl FnOnce(Option<String>)) {
        for message in &self.arrived {
            // `finish` takes the lock before it sends the end, so every message belongs to one of both.
            let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
            if self.is_finishing.load(Ordering::SeqCst) {
                drop(lost);
                if self.to_finish.send(message).is_err() {
                    return;
                }
                continue;
            }
            let error = describe_message(&message);
            *lost = Some(
                error
                    .clone()
                    .unwrap_or_else(|| "the agent ended the program".to_owned()),
            );
            drop(lost);
            self.sender.close();
            on_end(error);
            return;
        }
    }
}

/// Returns the error that an unexpected message means: the end of the connection or of the program.
fn describe_message(message: &ReaderMessage) -> Option<String> {
    let frame = match message {
        ReaderMessage::Ended(e) => return Some(wire_text(e)),
        ReaderMessage::Frame(frame) => frame,
    };
    if let Some(why) = last_word(frame) {
        return Some(format!("the agent ended the connection: {why}"));
    }
    match frame.message() {
        Ok(LiveReply::Ended { error, .. }) if frame.concern == Topic::Live => error,
        _ => Some(format!(
            "the agent broke the protocol: a frame about {:?} while the program was running",
            frame.concern
        )),
    }
}

/// Returns the end of a connection for the user.
fn wire_text(e: &WireError) -> String {
    match e {
        WireError::CallsRejected(why) => why.clone(),
        e => format!("the connection to the agent was lost: {e}"),
    }
}

impl LiveConnection {
    /// Returns what the agent granted.
    #[must_use]
    pub fn grant(&self) -> &LiveGrant {
        &self.grant
    }

    /// Returns the sender of frames.
    #[must_use]
    pub fn sender(&self) -> LiveSender {
        self.link.sender()
    }

    /// Passes arriving frames to `on_frame`, on the reading thread of the connection. Frames wait until this call.
    /// While `on_frame` waits, the agent has to wait too, and hears that this end is alive.
    ///
    /// `on_end` gets the reason when the program ends before [`LiveConnection::finish`]: the connection was lost,
    /// `on_frame` failed, or the agent ended the program. The reason is `None` if the agent gives none. Only the first
    /// call has an effect.
    pub fn start(
        &self,
        on_frame: impl FnMut(&[u8]) -> Result<(), String> + Send + 'static,
        on_end: impl FnOnce(Option<String>) + Send + 'static,
    ) {
        self.link.start(on_frame, on_end);
    }

    /// Ends the program in order, and stores its recordings as new files of `folder`, or nowhere.
    ///
    /// # Errors
    /// If the program ended before, the connection is lost, or a recording cannot be stored.
    pub fn finish(self, folder: Option<&Path>) -> Result<LiveOutcome, ClientError> {
        let connection = self.link.connection();
        {
            let lost = self.link.lost.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(why) = &*lost {
                return Err(ClientError::ProgramFailed(why.clone()));
            }
            self.link.is_finishing.store(true, Ordering::SeqCst);
        }
        if !self.link.has_started.load(Ordering::SeqCst) {
            // Nobody wants the frames, and the last message is behind them.
            connection.calls.set_handler(Box::new(|_| Ok(())));
        }
        connection.send(Stage::RunProgram, Topic::Live, &LiveCommand::Finish)?;
        match connection.message(Stage::RunProgram, Topic::Live)? {
            LiveReply::Ended {
                error,
                report,
                recordings,
            } => Ok(LiveOutcome {
                error,
                report,
                recordings: receive_recordings(&connection, &recordings, folder)?,
            }),
            _ => {
                Err(connection.protocol_error(Stage::RunProgram, "it answers the end of a program with something else"))
            }
        }
    }
}

impl LiveLane {
    /// Returns the number of the lane, from 1.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the sender of frames.
    #[must_use]
    pub fn sender(&self) -> LiveSender {
        self.link.sender()
    }

    /// Passes arriving frames to `on_frame` as [`LiveConnection::start`] does. `on_end` gets the reason when the
    /// connection ends. The end of the program ends its lanes too.
    pub fn start(
        &self,
        on_frame: impl FnMut(&[u8]) -> Result<(), String> + Send + 'static,
        on_end: impl FnOnce(Option<String>) + Send + 'static,
    ) {
        self.link.start(on_frame, on_end);
    }
}

/// A file that is removed unless it is complete.
struct PartialFile {
    path: PathBuf,
    file: File,
    is_complete: bool,
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if !self.is_complete {
            // The caller reports why the file is not complete.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Receives the recordings that the agent announced, and returns the paths of those that are stored.
fn receive_recordings(
    connection: &Connection,
    recordings: &[(String, u64)],
    folder: Option<&Path>,
) -> Result<Vec<PathBuf>, ClientError> {
    let stage = Stage::FetchRecordings;
    let total = recordings
        .iter()
        .try_fold(0u64, |sum, (_, bytes)| sum.checked_add(*bytes));
    if recordings.len() > MAX_RECORDINGS || total.is_none_or(|bytes| bytes > MAX_RECORDING_BYTES) {
        return Err(connection.protocol_error(stage, "more recordings than a program can have"));
    }
    let mut stored = Vec::new();
    for (name, bytes) in recordings {
        if !is_valid_recording_name(name) {
            return Err(connection.protocol_error(stage, format!("`{}` as a recording", name.escape_debug())));
        }
        let not_stored = |path: &Path, e: &std::io::Error| ClientError::NotStored {
            path: path.display().to_string(),
            reason: e.to_string(),
        };
        let mut file = match folder.map(|folder| folder.join(name)) {
            Some(path) => Some(PartialFile {
                file: File::create_new(&path).map_err(|e| not_stored(&path, &e))?,
                path,
                is_complete: false,
            }),
            None => None,
        };
        receive_bulk(connection, *bytes, |part| match &mut file {
            Some(open) => open.file.write_all(part).map_err(|e| not_stored(&open.path, &e)),
            None => Ok(()),
        })?;
        if let Some(mut file) = file {
            file.is_complete = true;
            stored.push(file.path.clone());
        }
    }
    Ok(stored)
}

/// Receives exactly this many bytes as bulk.
fn receive_bulk(
    connection: &Connection,
    bytes: u64,
    mut take: impl FnMut(&[u8]) -> Result<(), ClientError>,
) -> Result<(), ClientError> {
    let stage = Stage::FetchRecordings;
    let mut rest = bytes;
    while rest > 0 {
        let Some(frame) = connection.frame(stage, PART_LIMIT)? else {
            let seconds = PART_LIMIT.as_secs();
            return Err(connection.protocol_error(stage, format!("no part of a recording within {seconds} s")));
        };
        let left = rest.checked_sub(frame.payload.len() as u64);
        let is_part = frame.concern == Topic::Bulk && !frame.payload.is_empty();
        let Some(left) = left.filter(|_| is_part) else {
            return Err(connection.protocol_error(stage, "a frame in the middle of a recording"));
        };
        take(&frame.payload)?;
        rest = left;
    }
    Ok(())
}

const _: fn() = || {
    // The relay of a program uses a connection from several threads.
    fn is_shared<T: Send + Sync>() {}
    is_shared::<LiveConnection>();
    is_shared::<LiveLane>();
};
