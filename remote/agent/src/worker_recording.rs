//! The recording of a program by its worker: the recorder of CUDA programs, preloaded into the worker process.

use crate::lock;
use crate::recording_stream::{RECORDING_NAME, RecordingStream, find_recording};
use replay_engine::live::{LiveFile, LiveRecording, LiveSender, is_valid_recording_name};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

/// Where an agent keeps recordings of all programs, by its own choice.
#[derive(Debug)]
pub struct RecordingPolicy {
    folder: PathBuf,
    /// Number of recordings so far, for their names.
    count: Mutex<u64>,
}

impl RecordingPolicy {
    /// Creates it for a folder.
    pub const fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            count: Mutex::new(0),
        }
    }

    /// Keeps a recording of a client's program. Returns its path.
    fn keep(&self, recorded: &Path, client: &str, program: &str) -> std::io::Result<PathBuf> {
        let seconds = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let mut count = lock(&self.count);
        *count += 1;
        let plain = |text: &str| -> String {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            text.chars()
                .map(|c| if is_plain(c) { c } else { '_' })
                .take(64)
                .collect()
        };
        let name = format!("{}-{}-{seconds}-{count}.kine", plain(client), plain(program));
        let to = self.folder.join(name);
        // The two folders can be on different file systems.
        std::fs::copy(recorded, &to)?;
        Ok(to)
    }
}

/// The recording of one program.
#[derive(Debug)]
pub struct WorkerRecording {
    folder: PathBuf,
    limit_bytes: u64,
    library: PathBuf,
    /// The client gets the recording.
    is_sent: bool,
}

impl WorkerRecording {
    /// Creates the recording of a program into a folder of its own, or `None` if nobody wants one.
    ///
    /// # Errors
    /// If there is no recorder, or the folder cannot be created.
    pub fn create(
        requested: Option<LiveRecording>,
        policy: Option<&RecordingPolicy>,
        library: Option<&Path>,
        folder: PathBuf,
    ) -> Result<Option<Self>, String> {
        if requested.is_none() && policy.is_none() {
            return Ok(None);
        }
        let library = library.ok_or(
            "this agent has no recorder: libkinescope_cuda.so is not next to it; install it there, or run without --record",
        )?;
        std::fs::create_dir(&folder).map_err(|e| format!("the folder of the recording: {e}"))?;
        Ok(Some(Self {
            folder,
            limit_bytes: requested.map_or(0, |recording| recording.limit_bytes),
            library: library.to_owned(),
            is_sent: requested.is_some(),
        }))
    }

    /// Makes a worker record.
    pub fn prepare(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", &self.library)
            .env("KINESCOPE_RECORD_TO", self.folder.join(RECORDING_NAME))
            .env("KINESCOPE_RECORD_LIMIT", self.limit_bytes.to_string());
    }

    /// Begins to send the recording to the client, if it gets it.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start_stream(&self, sender: LiveSender) -> std::io::Result<Option<Arc<RecordingStream>>> {
        match self.is_sent {
            true => RecordingStream::start(self.folder.clone(), sender).map(Some),
            false => Ok(None),
        }
    }

    /// Ends the recording: keeps it where the policy says, and sends its rest. Returns it if the client still needs it.
    ///
    /// # Errors
    /// If it cannot be kept.
    pub fn finish(
        &self,
        policy: Option<&RecordingPolicy>,
        stream: Option<&RecordingStream>,
        client: &str,
        program: &str,
    ) -> Result<Option<LiveFile>, String> {
        let Some(path) = find_recording(&self.folder) else {
            return Ok(None);
        };
        if let Some(policy) = policy {
            policy
                .keep(&path, client, program)
                .map_err(|e| format!("the agent cannot keep its recording: {e}"))?;
        }
        if stream.is_some_and(|stream| stream.finish(&path)) {
            return Ok(None);
        }
        let name = RECORDING_NAME.to_owned();
        Ok((self.is_sent && is_valid_recording_name(&name)).then_some(LiveFile { name, path }))
    }
}
