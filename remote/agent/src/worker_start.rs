//! A program that is about to get its worker, and what all workers of an agent share.

use crate::worker_recording::{RecordingPolicy, WorkerRecording};
use remote_relay::{ContentStore, WorkerLimits};
use remote_worker::PrivateFolder;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Returns the command that starts a worker process, without its argument.
pub type WorkerCommand = dyn Fn() -> Command + Send + Sync;

/// What all workers share.
pub struct WorkerShared {
    pub command: Box<WorkerCommand>,
    pub folder: PrivateFolder,
    pub contents: Arc<ContentStore>,
    pub limits: WorkerLimits,
    pub policy: Option<RecordingPolicy>,
    pub recorder: Option<PathBuf>,
    /// Number of programs so far, for names of their files.
    pub started: AtomicU64,
}

/// A program that is about to get its worker.
pub struct WorkerStart {
    /// What all workers share.
    pub shared: Arc<WorkerShared>,
    /// Folder of the worker. Its recording and its report are there.
    pub folder: WorkerFolder,
    /// The command of the worker, with its environment.
    pub command: Command,
    /// Its recording, if there is one.
    pub recording: Option<WorkerRecording>,
    /// Name of the client.
    pub client: String,
    /// Name of the program.
    pub program: String,
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
