//! The client's side: serves programs of this machine by workers of an agent.

use crate::agent_target::AgentTarget;
use crate::frames::{FrameBytes, LiveFrames};
use crate::lock;
use crate::recording_copy::RecordingCopy;
use remote_relay::ProgramEnd;
use remote_relay::record::is_about_recording;
use remote_ring::{SocketPeer, pass_file};
use remote_worker::{ProgramResult, ProgramServer, ServedProgram, WireBytes, WorkerReport};
use replay_engine::client::{Client, ClientError, LiveConnection, LiveOutcome};
use replay_engine::live::{LiveRecording, LiveRequest, LocalWorker};
use std::ffi::OsStr;
use std::io;
use std::net::Shutdown;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use trace_core::container::TransferBytes;

/// Time in which a program passes its memory after it connected.
const PASS_LIMIT: Duration = Duration::from_secs(10);
/// Interval in which the bytes on the wire are written next to a growing recording.
const TRANSFER_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum number of lanes for large copies, if the agent allows as many.
const MAX_LANES: u32 = 8;
/// Minimum number of them.
const MIN_LANES: u32 = 2;
/// Maximum size of the name of a program, bytes.
const MAX_PROGRAM_BYTES: usize = replay_engine::live::MAX_PROGRAM_BYTES;

/// Where recordings of programs go.
#[derive(Clone, Debug)]
pub struct ProgramRecording {
    /// File of the first program that ends.
    pub file: PathBuf,
    /// Approximate size at which a recording ends, bytes; 0 for no limit.
    pub limit_bytes: u64,
}

/// Serves programs by workers of an agent.
pub struct AgentPrograms {
    target: AgentTarget,
    program: String,
    recording: Option<ProgramRecording>,
    /// Number of programs so far, for names of their recordings.
    started: AtomicU64,
    /// The connection of the first program, made before it starts: what the agent refuses, it refuses then.
    first: Mutex<Option<LiveConnection>>,
}

impl AgentPrograms {
    /// Connects to the agent and starts a worker for the first program, whose name is `program`.
    ///
    /// # Errors
    /// If the agent cannot be reached, or refuses.
    pub fn open(
        target: AgentTarget,
        program: &OsStr,
        recording: Option<ProgramRecording>,
    ) -> Result<Self, ClientError> {
        let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy();
        let end = name.floor_char_boundary(MAX_PROGRAM_BYTES);
        let programs = Self {
            target,
            program: name.get(..end).unwrap_or_default().to_owned(),
            recording,
            started: AtomicU64::new(0),
            first: Mutex::new(None),
        };
        *lock(&programs.first) = Some(programs.start()?);
        Ok(programs)
    }

    fn start(&self) -> Result<LiveConnection, ClientError> {
        self.target.connect()?.start_live(LiveRequest {
            devices: self.target.devices().to_vec(),
            program: self.program.clone(),
            // The program says its number in its first request.
            process: std::process::id(),
            recording: self.recording.as_ref().map(|recording| LiveRecording {
                limit_bytes: recording.limit_bytes,
            }),
            is_local: self.target.is_local(),
        })
    }
}

impl ProgramServer for AgentPrograms {
    fn serve(&self, program: UnixStream) -> io::Result<Box<dyn ServedProgram>> {
        let first = lock(&self.first).take();
        let connection = match first {
            Some(connection) => connection,
            None => self.start().map_err(io::Error::other)?,
        };
        let number = self.started.fetch_add(1, Ordering::Relaxed) + 1;
        let recording = self.recording.as_ref().map(|recording| RecordingTarget {
            file: recording.file.clone(),
            copy: Arc::new(RecordingCopy::new(&recording.file, number)),
        });
        if let Some(worker) = connection.grant().local.clone() {
            return Ok(Box::new(LocalProgram::start(program, connection, &worker, recording)?));
        }
        program.set_read_timeout(Some(PASS_LIMIT))?;
        Ok(Box::new(RelayedProgram::start(
            program,
            connection,
            &self.target,
            recording,
        )?))
    }
}

/// Where the recording of one program goes.
#[derive(Clone, Debug)]
struct RecordingTarget {
    file: PathBuf,
    copy: Arc<RecordingCopy>,
}

impl RecordingTarget {
    /// Stores the recording of a program that has ended: its copy if that is complete, or what the agent sent whole.
    fn store(&self, whole: &[PathBuf], process: u32) -> io::Result<()> {
        if self.copy.finish(|| free_name(&self.file, process), !whole.is_empty())? {
            return Ok(());
        }
        whole
            .iter()
            .try_for_each(|path| std::fs::rename(path, free_name(&self.file, process)))
    }
}

/// Ends the worker of a program, and takes its report and its recording.
fn finish_connection(connection: LiveConnection, recording: Option<&RecordingTarget>) -> ProgramResult {
    let folder = recording.map(|recording| recording.file.with_extension("parts"));
    let finished = folder.as_ref().map_or(Ok(()), std::fs::create_dir_all);
    let outcome = match finished {
        Ok(()) => connection.finish(folder.as_deref()).map_err(|e| e.to_string()),
        Err(e) => Err(e.to_string()),
    };
    let mut result = ProgramResult::default();
    match outcome {
        Ok(outcome) => {
            let LiveOutcome { error, report, .. } = outcome;
            result.failure = error;
            // An agent without a report sends nothing.
            result.report = serde_json::from_slice::<WorkerReport>(&report).ok();
            let process = result.report.as_ref().map_or(0, |report| report.process);
            if let Some(recording) = recording
                && let Err(e) = recording.store(&outcome.recordings, process)
            {
                result
                    .failure
                    .get_or_insert(format!("the recording cannot be stored: {e}"));
            }
        }
        Err(why) => result.failure = Some(why),
    }
    if let Some(folder) = folder {
        // Another program may still use it.
        let _ = std::fs::remove_dir(folder);
    }
    result
}

/// Returns the file for a recording: the requested one, or one with the number of the process if that exists.
fn free_name(file: &Path, process: u32) -> PathBuf {
    if !file.exists() {
        return file.to_owned();
    }
    let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    file.with_file_name(format!("{stem}-{process}.kine"))
}

/// A program whose calls go through a relay.
struct RelayedProgram {
    end: Arc<ProgramEnd>,
    connection: Option<LiveConnection>,
    bytes: Arc<FrameBytes>,
    recording: Option<RecordingTarget>,
    /// The thread that writes the bytes on the wire next to the growing recording.
    transfer: Option<JoinHandle<()>>,
}

impl RelayedProgram {
    fn start(
        program: UnixStream,
        connection: LiveConnection,
        target: &AgentTarget,
        recording: Option<RecordingTarget>,
    ) -> io::Result<Self> {
        let bytes = Arc::new(FrameBytes::default());
        let frames = LiveFrames::new(connection.sender(), &bytes);
        let grant = connection.grant().clone();
        let end = ProgramEnd::start(program, frames, &grant.preface, true).map_err(io::Error::other)?;
        let (to, counted) = (Arc::clone(&end), Arc::clone(&bytes));
        let over = Arc::clone(&end);
        let copy = recording.as_ref().map(|recording| Arc::clone(&recording.copy));
        connection.start(
            move |frame| {
                counted.note_received(frame);
                if let Some(copy) = copy.as_ref().filter(|_| is_about_recording(frame)) {
                    return copy.take_frame(frame).map_err(|e| e.to_string());
                }
                to.take_frame(0, frame).map_err(|e| e.to_string())
            },
            move |why| over.finish(Some(why.unwrap_or_else(|| "the agent ended the program".to_owned()))),
        );
        if grant.max_lanes > 0 {
            let (target, end, bytes) = (target.clone(), Arc::clone(&end), Arc::clone(&bytes));
            let lanes = grant.max_lanes.min(lane_count());
            let open = move || {
                if end.wait_for_large_copy() {
                    // Without lanes, the main connection carries everything.
                    let _ = open_lanes(&target, grant.token, lanes, &end, &bytes);
                }
            };
            thread::Builder::new().name("kinescope-lanes".into()).spawn(open)?;
        }
        let transfer = recording
            .as_ref()
            .map(|recording| spawn_transfer_writer(recording, &end, &bytes));
        Ok(Self {
            end,
            connection: Some(connection),
            bytes,
            recording,
            transfer: transfer.transpose()?,
        })
    }
}

/// Returns the number of lanes that this machine can use: the thread of each has a partner on the other machine.
fn lane_count() -> u32 {
    let cores = thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX));
    (cores / 2).clamp(MIN_LANES, MAX_LANES)
}

/// Starts the thread that writes the bytes on the wire next to a growing recording, for who follows it.
fn spawn_transfer_writer(
    recording: &RecordingTarget,
    end: &Arc<ProgramEnd>,
    bytes: &Arc<FrameBytes>,
) -> io::Result<JoinHandle<()>> {
    let (copy, end, bytes) = (Arc::clone(&recording.copy), Arc::clone(end), Arc::clone(bytes));
    let write = move || {
        let mut written = None;
        while end.wait(Some(Instant::now() + TRANSFER_INTERVAL)).is_none() {
            let now = bytes.total();
            // The program goes on without this file; the next numbers may find room on the disk.
            if written != Some(now) && now.write_next_to(copy.path()).is_ok() {
                written = Some(now);
            }
        }
        TransferBytes::remove_next_to(copy.path());
    };
    thread::Builder::new().name("kinescope-transfer".into()).spawn(write)
}

/// Opens lanes, and keeps them until the program ends.
fn open_lanes(
    target: &AgentTarget,
    token: [u8; 32],
    count: u32,
    end: &Arc<ProgramEnd>,
    bytes: &Arc<FrameBytes>,
) -> Result<(), ClientError> {
    let mut lanes = Vec::new();
    for _ in 0..count {
        let client: Client = target.connect()?;
        let lane = client.join_live(token)?;
        let (to, counted, over) = (Arc::clone(end), Arc::clone(bytes), Arc::clone(end));
        let number = lane.number();
        lane.start(
            move |frame| {
                counted.note_received(frame);
                to.take_frame(number, frame).map_err(|e| e.to_string())
            },
            move |why| {
                over.finish(Some(why.unwrap_or_else(|| "a lane of the connection ended".to_owned())));
            },
        );
        if end.add_lane(LiveFrames::new(lane.sender(), bytes)).is_err() {
            break;
        }
        lanes.push(lane);
    }
    // Without an end, the wait goes on.
    while end.wait(None).is_none() {}
    drop(lanes);
    Ok(())
}

impl ServedProgram for RelayedProgram {
    fn is_running(&mut self) -> bool {
        !self.end.has_ended()
    }

    fn finish(mut self: Box<Self>, limit: Instant) -> ProgramResult {
        let ended = self.end.wait(Some(limit));
        if ended.is_none() {
            self.end.finish(None);
        }
        if let Some(transfer) = self.transfer.take() {
            // The thread does not panic.
            let _ = transfer.join();
        }
        let Some(connection) = self.connection.take() else {
            return ProgramResult::default();
        };
        match ended {
            Some(None) => {
                let mut result = finish_connection(connection, self.recording.as_ref());
                if let Some(report) = &mut result.report {
                    let TransferBytes { sent, received } = self.bytes.total();
                    report.wire = Some(WireBytes { sent, received });
                }
                result
            }
            Some(Some(why)) => ProgramResult {
                failure: Some(why),
                ..ProgramResult::default()
            },
            None => ProgramResult {
                failure: Some("the worker on the agent was killed: its program did not end".to_owned()),
                ..ProgramResult::default()
            },
        }
    }
}

impl Drop for RelayedProgram {
    fn drop(&mut self) {
        self.end.finish(None);
    }
}

/// A program that shares memory with a worker of an agent on this machine.
struct LocalProgram {
    connection: Option<LiveConnection>,
    /// Why the agent ended the program, if it did.
    ended: Arc<Mutex<Option<String>>>,
    recording: Option<RecordingTarget>,
}

impl LocalProgram {
    fn start(
        program: UnixStream,
        connection: LiveConnection,
        worker: &LocalWorker,
        recording: Option<RecordingTarget>,
    ) -> io::Result<Self> {
        let ended = Arc::new(Mutex::new(None));
        let end = Arc::clone(&ended);
        // The worker is killed without a word to the program.
        let last_word = SocketPeer::new(program.try_clone()?);
        let copy = recording.as_ref().map(|recording| Arc::clone(&recording.copy));
        connection.start(
            move |frame| match &copy {
                Some(copy) if is_about_recording(frame) => copy.take_frame(frame).map_err(|e| e.to_string()),
                _ => Err("frames for a program that shares memory with its worker".to_owned()),
            },
            move |why| {
                let why = why.unwrap_or_else(|| "the agent ended the program".to_owned());
                last_word.send_reason(&why);
                *lock(&end) = Some(why);
                // The program may be gone, or its worker.
                let _ = last_word.socket().shutdown(Shutdown::Both);
            },
        );
        let socket = UnixStream::connect(Path::new(OsStr::from_bytes(&worker.path)))?;
        pass_file(&socket, &worker.token, &program).map_err(io::Error::other)?;
        // What kernels and libraries print in the worker belongs to the output of the program.
        pass_file(&socket, &worker.token, io::stdout()).map_err(io::Error::other)?;
        Ok(Self {
            connection: Some(connection),
            ended,
            recording,
        })
    }
}

impl ServedProgram for LocalProgram {
    fn is_running(&mut self) -> bool {
        lock(&self.ended).is_none()
    }

    /// The program's end ends its worker; the agent waits for that.
    fn finish(mut self: Box<Self>, _: Instant) -> ProgramResult {
        let ended = lock(&self.ended).clone();
        match (ended, self.connection.take()) {
            (None, Some(connection)) => finish_connection(connection, self.recording.as_ref()),
            (failure, _) => ProgramResult {
                failure,
                ..ProgramResult::default()
            },
        }
    }
}
