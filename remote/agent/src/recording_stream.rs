//! The recording of a worker on its way to the client: committed bytes while it grows, and the rest at its end.

use crate::lock;
use remote_relay::record::{Record, encode_record};
use replay_engine::live::LiveSender;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use trace_core::container::KineFile;

/// Name of a recording as the recorder writes it.
pub const RECORDING_NAME: &str = "recording.kine";
/// Suffix of the file of a process that has not ended normally.
const UNFINISHED: &str = ".unfinished.kine";
/// Interval at which the file is looked at.
const INTERVAL: Duration = Duration::from_millis(200);
/// Size of the parts that are sent, bytes: calls of the program wait for a part that is being sent.
const PART_BYTES: usize = 128 << 10;

/// What was sent.
struct State {
    sent: u64,
    digest: blake3::Hasher,
    /// A send failed: the connection is lost.
    is_lost: bool,
}

/// Sends the recording of a worker.
pub struct RecordingStream {
    folder: PathBuf,
    sender: LiveSender,
    state: Mutex<State>,
    is_over: AtomicBool,
}

/// Returns the recording in the folder of a worker: the recorder writes it under its name from the start, or under that of
/// a process that has not ended normally.
pub fn find_recording(folder: &Path) -> Option<PathBuf> {
    let own = folder.join(RECORDING_NAME);
    if own.exists() {
        return Some(own);
    }
    let entries = std::fs::read_dir(folder).ok()?;
    let mut paths = entries.flatten().map(|entry| entry.path());
    paths.find(|path| path.to_string_lossy().ends_with(UNFINISHED))
}

impl RecordingStream {
    /// Begins to send what a worker records into a folder.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(folder: PathBuf, sender: LiveSender) -> io::Result<Arc<Self>> {
        let stream = Arc::new(Self {
            folder,
            sender,
            state: Mutex::new(State {
                sent: 0,
                digest: blake3::Hasher::new(),
                is_lost: false,
            }),
            is_over: AtomicBool::new(false),
        });
        let of = Arc::clone(&stream);
        let thread = std::thread::Builder::new().name("kinescope-recording".into());
        thread.spawn(move || {
            while !of.is_over.load(Ordering::Relaxed) {
                std::thread::sleep(INTERVAL);
                of.send_growth();
            }
        })?;
        Ok(stream)
    }

    /// Sends what was committed since the last look.
    fn send_growth(&self) {
        let mut state = lock(&self.state);
        if self.is_over.load(Ordering::Relaxed) {
            return;
        }
        let Some(path) = find_recording(&self.folder) else {
            return;
        };
        // Bytes behind the last commit can still change. A file without a commit is looked at again.
        let committed = KineFile::open(&path).map_or(0, |file| file.committed_bytes());
        // The recorder can rename the file at this moment. Then the end sends all of it.
        let _ = File::open(&path).and_then(|file| self.send_until(&mut state, &file, committed));
    }

    fn send_until(&self, state: &mut State, file: &File, end: u64) -> io::Result<()> {
        let mut part = vec![0; PART_BYTES];
        while state.sent < end && !state.is_lost {
            let size = (end - state.sent).min(PART_BYTES as u64) as usize;
            let part = part.get_mut(..size).unwrap_or_default();
            file.read_exact_at(part, state.sent)?;
            state.digest.update(part);
            state.sent += size as u64;
            state.is_lost = self.sender.send(&encode_record(&Record::Recording(part))).is_err();
        }
        Ok(())
    }

    /// Ends the looks.
    pub fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Sends the rest of the finished recording. Returns `false` if its beginning is not what was sent: then the client
    /// needs all of it.
    pub fn finish(&self, path: &Path) -> bool {
        self.stop();
        let mut state = lock(&self.state);
        let mut finished = || -> io::Result<bool> {
            let file = File::open(path)?;
            let bytes = file.metadata()?.len();
            if bytes < state.sent || hash_start(&file, state.sent)? != state.digest.finalize() {
                return Ok(false);
            }
            self.send_until(&mut state, &file, bytes)?;
            let end = encode_record(&Record::RecordingEnd(bytes));
            Ok(!state.is_lost && self.sender.send(&end).is_ok())
        };
        // A file that cannot be read fails again where it is sent whole, with its reason.
        finished().unwrap_or(false)
    }
}

/// Returns the digest of the first bytes of a file.
fn hash_start(file: &File, bytes: u64) -> io::Result<blake3::Hash> {
    let mut digest = blake3::Hasher::new();
    let mut part = vec![0; PART_BYTES];
    let mut done = 0;
    while done < bytes {
        let size = (bytes - done).min(PART_BYTES as u64) as usize;
        let part = part.get_mut(..size).unwrap_or_default();
        file.read_exact_at(part, done)?;
        digest.update(part);
        done += size as u64;
    }
    Ok(digest.finalize())
}
