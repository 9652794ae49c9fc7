//! A program that is about to get its worker, and what all workers of an agent share.

use crate::recording_stream::RecordingStream;
use crate::worker_recording::{RecordingPolicy, WorkerRecording};
use remote_relay::{ContentStore, WorkerLimits};
use remote_worker::{PrivateFolder, ProgramResult};
use replay_engine::live::{LiveEnd, LiveSender};
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

/// Returns the command that starts a worker process, without its argument.
pub type WorkerCommand = dyn Fn() -> Command + Send + Sync;

/// What all workers share.
pub struct WorkerShared {
    pub command: Box<WorkerCommand>,
    pub folder: PrivateFolder,
    pub contents: Arc<ContentStore>,
    pub policy: Option<RecordingPolicy>,
    pub recorder: Option<PathBuf>,
    /// Number of programs so far, for names of their files.
    pub started: AtomicU64,
}

/// A program that is about to get its worker.
pub struct WorkerStart {
    /// The command of the worker, with its environment.
    pub command: Command,
    /// The program.
    pub program: WorkerProgram,
}

/// A program of a client, with what the agent keeps of it.
pub struct WorkerProgram {
    /// What all workers share.
    pub shared: Arc<WorkerShared>,
    /// Folder of the worker. Its report and its recording are there.
    pub folder: WorkerFolder,
    /// Name of the client.
    pub client: String,
    /// Name of the program.
    pub name: String,
    /// Limits of its memory at this machine.
    pub limits: WorkerLimits,
    /// Its recording, if there is one.
    pub recording: Option<WorkerRecording>,
    /// What sends the recording, once it does.
    pub stream: OnceLock<Arc<RecordingStream>>,
}

impl WorkerProgram {
    /// Begins to send the recording, if there is one that the client gets.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start_stream(&self, sender: &LiveSender) -> io::Result<()> {
        if let Some(recording) = &self.recording
            && let Some(stream) = recording.start_stream(sender.clone())?
        {
            // A second stream is not started.
            let _ = self.stream.set(stream);
        }
        Ok(())
    }

    /// Ends the sending of the recording.
    pub fn stop_stream(&self) {
        if let Some(stream) = self.stream.get() {
            stream.stop();
        }
    }

    /// Returns what is left of the program, after its worker has ended.
    pub fn finish(&self, result: ProgramResult) -> LiveEnd {
        let report = result.report.and_then(|report| serde_json::to_vec(&report).ok());
        let mut end = LiveEnd {
            error: result.failure,
            report: report.unwrap_or_default(),
            recordings: Vec::new(),
        };
        if let Some(recording) = &self.recording {
            let stream = self.stream.get().map(Arc::as_ref);
            match recording.finish(self.shared.policy.as_ref(), stream, &self.client, &self.name) {
                Ok(file) => end.recordings.extend(file),
                Err(why) => {
                    end.error.get_or_insert(why);
                }
            }
        }
        end
    }
}

/// The folder of a worker, removed on drop.
#[derive(Debug)]
pub struct WorkerFolder(pub PathBuf);

impl WorkerFolder {
    /// Returns the path of a file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for WorkerFolder {
    fn drop(&mut self) {
        // What cannot be removed stays until the agent's folder is.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
