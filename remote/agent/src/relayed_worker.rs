//! A program of a client on another machine: its worker process behind a relay.

use crate::frames::{FrameBytes, LiveFrames};
use crate::lock;
use crate::recording_stream::RecordingStream;
use crate::worker_recording::WorkerRecording;
use crate::worker_start::{WorkerFolder, WorkerShared, WorkerStart};
use remote_relay::{ClientContents, WorkerEnd};
use remote_worker::{ProgramResult, RELAY_VARIABLE, WorkerProcess};
use replay_engine::live::{LiveEnd, LiveSender, LiveSession, LocalWorker, MAX_PREFACE_BYTES};
use std::io;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Time in which a worker ends after its program did: a recorder writes its file then.
pub const END_LIMIT: Duration = Duration::from_secs(60);

/// A program with its worker.
pub struct RelayedWorkerSession {
    shared: Arc<WorkerShared>,
    end: Arc<WorkerEnd>,
    worker: Mutex<WorkerProcess>,
    recording: Option<WorkerRecording>,
    stream: Option<Arc<RecordingStream>>,
    bytes: Arc<FrameBytes>,
    /// Digests of contents for the client.
    digests: Vec<u8>,
    client: String,
    program: String,
    _folder: WorkerFolder,
}

impl RelayedWorkerSession {
    /// Starts the worker of a program.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub fn start(mut start: WorkerStart, contents: ClientContents, sender: LiveSender) -> io::Result<Arc<Self>> {
        let (here, there) = UnixStream::pair()?;
        let report = start.folder.file("report");
        start.command.env(RELAY_VARIABLE, "yes").stdout(Stdio::piped());
        let mut worker = WorkerProcess::start(start.command, there.into(), report)?;
        let bytes = Arc::new(FrameBytes::default());
        let digests = contents.digests(MAX_PREFACE_BYTES);
        let stream = start_stream(start.recording.as_ref(), &sender)?;
        let failed = sender.clone();
        let end = WorkerEnd::new(
            here,
            LiveFrames::new(sender, &bytes),
            start.shared.limits,
            contents,
            move |why| failed.report_end(why),
        );
        if let Some(output) = worker.take_output()? {
            end.set_output(output);
        }
        Ok(Arc::new(Self {
            shared: start.shared,
            end,
            worker: Mutex::new(worker),
            recording: start.recording,
            stream,
            bytes,
            digests,
            client: start.client,
            program: start.program,
            _folder: start.folder,
        }))
    }
}

impl LiveSession for RelayedWorkerSession {
    fn preface(&self) -> (Option<LocalWorker>, Vec<u8>) {
        (None, self.digests.clone())
    }

    fn take_frame(&self, lane: u32, frame: &[u8]) -> Result<(), String> {
        self.bytes.note_received(frame);
        self.end.take_frame(lane, frame).map_err(|e| e.to_string())
    }

    fn add_lane(&self, _: u32, sender: LiveSender) -> Result<(), String> {
        let frames = LiveFrames::new(sender, &self.bytes);
        self.end.add_lane(frames).map_err(|e| e.to_string())
    }

    fn finish(&self) -> LiveEnd {
        self.end.end();
        let result = lock(&self.worker).finish(Instant::now() + END_LIMIT);
        // The client may be gone; then the output has no reader.
        let _ = self.end.finish_output();
        end_of_program(
            result,
            self.recording.as_ref(),
            self.stream.as_deref(),
            &self.shared,
            &self.client,
            &self.program,
        )
    }

    fn end(&self) {
        if let Some(stream) = &self.stream {
            stream.stop();
        }
        self.end.end();
        // Another thread may wait for the process with the lock: it notices the end of the relay.
        if let Ok(mut worker) = self.worker.try_lock() {
            worker.kill();
        }
    }

    fn describe(&self) -> String {
        match self.end.host_bytes() >> 20 {
            0 => self.program.clone(),
            mebibytes => format!("{}, {mebibytes} MiB of host memory", self.program),
        }
    }
}

/// Begins to send the recording of a program, if there is one that the client gets.
///
/// # Errors
/// If no thread can be started.
pub fn start_stream(
    recording: Option<&WorkerRecording>,
    sender: &LiveSender,
) -> io::Result<Option<Arc<RecordingStream>>> {
    match recording {
        Some(recording) => recording.start_stream(sender.clone()),
        None => Ok(None),
    }
}

/// Returns what is left of a program.
pub fn end_of_program(
    result: ProgramResult,
    recording: Option<&WorkerRecording>,
    stream: Option<&RecordingStream>,
    shared: &WorkerShared,
    client: &str,
    program: &str,
) -> LiveEnd {
    let report = result.report.and_then(|report| serde_json::to_vec(&report).ok());
    let mut end = LiveEnd {
        error: result.failure,
        report: report.unwrap_or_default(),
        recordings: Vec::new(),
    };
    if let Some(recording) = recording {
        match recording.finish(shared.policy.as_ref(), stream, client, program) {
            Ok(file) => end.recordings.extend(file),
            Err(why) => {
                end.error.get_or_insert(why);
            }
        }
    }
    end
}
