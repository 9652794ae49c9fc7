//! What an agent runs for programs of its clients: a worker process for each, behind a relay or with shared memory.

use crate::local_worker::LocalWorkerSession;
use crate::relayed_worker::RelayedWorkerSession;
use crate::worker_recording::{RecordingPolicy, WorkerRecording};
use crate::worker_start::{WorkerFolder, WorkerProgram, WorkerShared, WorkerStart};
use remote_relay::{ContentStore, WorkerLimits};
use remote_worker::{
    CONFINEMENT_VARIABLE, DEVICE_MEMORY_VARIABLE, NAMESPACE_NOTICE_VARIABLE, PARENT_VARIABLE, PrivateFolder,
    device_environment,
};
use replay_engine::live::{LiveRunner, LiveSender, LiveSession, LiveStart};
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Size of the staging area of a program, bytes: what the program's library asks for.
const STAGING_BYTES: u64 = 64 << 20;
/// Prefix of the names of CUDA devices.
const DEVICE_PREFIX: &str = "cuda";

/// Settings of the workers.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// Maximum size of the contents that are kept for later programs, bytes.
    pub content_bytes: u64,
    /// The recorder's library, if there is one.
    pub recorder: Option<PathBuf>,
    /// Folder in which every program is recorded, if the agent does that.
    pub recordings: Option<PathBuf>,
}

/// Runs programs of clients by worker processes.
pub struct LiveWorkers {
    shared: Arc<WorkerShared>,
}

impl LiveWorkers {
    /// Creates it. `command` starts a program that is a worker process for the argument
    /// [`remote_worker::SERVE_PROGRAM`].
    ///
    /// # Errors
    /// If the folder for sockets and reports cannot be created.
    pub fn new(command: impl Fn() -> Command + Send + Sync + 'static, options: WorkerOptions) -> io::Result<Self> {
        if let Some(folder) = &options.recordings {
            std::fs::create_dir_all(folder)?;
        }
        Ok(Self {
            shared: Arc::new(WorkerShared {
                command: Box::new(command),
                folder: PrivateFolder::create("kinescope-live")?,
                contents: ContentStore::new(options.content_bytes),
                policy: options.recordings.map(RecordingPolicy::new),
                recorder: options.recorder,
                started: AtomicU64::new(0),
            }),
        })
    }

    fn prepare(&self, start: &LiveStart) -> Result<WorkerStart, String> {
        let devices: Option<Vec<u32>> = start.request.devices.iter().map(|name| device_number(name)).collect();
        let devices = devices.ok_or("only CUDA devices run live programs")?;
        let shared = Arc::clone(&self.shared);
        let number = shared.started.fetch_add(1, Ordering::Relaxed);
        let folder = WorkerFolder(shared.folder.path().join(format!("worker-{number}")));
        std::fs::create_dir(&folder.0).map_err(|e| format!("the folder of the worker: {e}"))?;
        // Code that the driver compiled for one client is not for another.
        let cache = shared.folder.path().join(format!("cache-{}", start.key.fingerprint()));
        std::fs::create_dir_all(&cache).map_err(|e| format!("the cache of the worker: {e}"))?;
        let recording = WorkerRecording::create(
            start.request.recording,
            shared.policy.as_ref(),
            shared.recorder.as_deref(),
            folder.file("recording"),
        )?;
        let mut command = (shared.command)();
        command
            .envs(device_environment(&devices))
            .env("CUDA_CACHE_PATH", &cache)
            .env(PARENT_VARIABLE, std::process::id().to_string());
        // The agent's own environment can name more folders.
        let more = std::env::var_os(CONFINEMENT_VARIABLE).unwrap_or_default();
        let writable = [folder.0.clone(), cache]
            .into_iter()
            .chain(std::env::split_paths(&more));
        let writable = std::env::join_paths(writable).map_err(|e| e.to_string())?;
        command.env(CONFINEMENT_VARIABLE, writable);
        if let Some(recording) = &recording {
            recording.prepare(&mut command);
        }
        if number == 0 {
            command.env(NAMESPACE_NOTICE_VARIABLE, "yes");
        }
        if let Some(bytes) = start.limits.device_bytes {
            command.env(DEVICE_MEMORY_VARIABLE, bytes.to_string());
        }
        Ok(WorkerStart {
            command,
            program: WorkerProgram {
                shared,
                folder,
                client: start.client.clone(),
                name: start.request.program.clone(),
                limits: WorkerLimits {
                    staging_bytes: STAGING_BYTES,
                    host_bytes: start.limits.host_bytes.unwrap_or(u64::MAX),
                },
                recording,
                stream: OnceLock::new(),
            },
        })
    }
}

/// Returns the number of a CUDA device, or `None` for another device.
fn device_number(name: &str) -> Option<u32> {
    name.strip_prefix(DEVICE_PREFIX)?.parse().ok()
}

impl std::fmt::Debug for LiveWorkers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveWorkers").finish_non_exhaustive()
    }
}

impl LiveRunner for LiveWorkers {
    fn serves(&self, device: &str) -> bool {
        device_number(device).is_some()
    }

    fn start(&self, start: LiveStart, sender: LiveSender) -> Result<Arc<dyn LiveSession>, String> {
        let prepared = self.prepare(&start)?;
        match start.request.is_local {
            true => Ok(LocalWorkerSession::start(prepared, sender).map_err(|e| e.to_string())?),
            false => {
                let contents = self.shared.contents.open(start.key.0);
                Ok(RelayedWorkerSession::start(prepared, contents, sender).map_err(|e| e.to_string())?)
            }
        }
    }
}
