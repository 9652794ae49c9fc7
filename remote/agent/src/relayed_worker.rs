//! A program of a client on another machine: its worker process behind a relay.

use crate::frames::{FrameBytes, LiveFrames};
use crate::lock;
use crate::worker_start::{WorkerProgram, WorkerStart};
use remote_relay::{ClientContents, WorkerEnd};
use remote_worker::{RELAY_VARIABLE, WorkerProcess};
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
    end: Arc<WorkerEnd>,
    worker: Mutex<WorkerProcess>,
    bytes: Arc<FrameBytes>,
    /// Digests of contents for the client.
    digests: Vec<u8>,
    program: WorkerProgram,
}

impl RelayedWorkerSession {
    /// Starts the worker of a program.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub fn start(start: WorkerStart, contents: ClientContents, sender: LiveSender) -> io::Result<Arc<Self>> {
        let WorkerStart { mut command, program } = start;
        let (here, there) = UnixStream::pair()?;
        command.env(RELAY_VARIABLE, "yes").stdout(Stdio::piped());
        let mut worker = WorkerProcess::start(command, there.into(), program.folder.file("report"))?;
        program.start_stream(&sender)?;
        let bytes = Arc::new(FrameBytes::default());
        let digests = contents.digests(MAX_PREFACE_BYTES);
        let failed = sender.clone();
        let end = WorkerEnd::new(
            here,
            LiveFrames::new(sender, &bytes),
            program.limits,
            contents,
            move |why| failed.report_end(why),
        );
        if let Some(output) = worker.take_output()? {
            end.set_output(output);
        }
        Ok(Arc::new(Self {
            end,
            worker: Mutex::new(worker),
            bytes,
            digests,
            program,
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
        self.program.finish(result)
    }

    fn end(&self) {
        self.program.stop_stream();
        self.end.end();
        // Another thread may wait for the process with the lock: it notices the end of the relay.
        if let Ok(mut worker) = self.worker.try_lock() {
            worker.kill();
        }
    }

    fn describe(&self) -> String {
        let name = &self.program.name;
        match self.end.host_bytes() >> 20 {
            0 => name.clone(),
            mebibytes => format!("{name}, {mebibytes} MiB of host memory"),
        }
    }
}
