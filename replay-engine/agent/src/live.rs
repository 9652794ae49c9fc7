//! Live CUDA programs of clients: what runs them, and the worker process of one.

use anyhow::{Context as _, Result};
use remote_agent::{LiveWorkers, WorkerOptions};
use replay_engine::live::LiveRunner;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

/// The recorder's library for worker processes.
const RECORDER: &str = "libkinescope_cuda.so";
/// Maximum size of the contents of programs that are kept for later ones, bytes.
const CONTENT_BYTES: u64 = 1 << 30;

/// Returns the recorder's library, if it is next to this program or in the library folder of an installation.
fn find_recorder() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?.parent()?.to_owned();
    let places = [
        own.join(RECORDER),
        own.join("../lib").join(RECORDER),
        own.join("../lib/kinescope").join(RECORDER),
    ];
    places.into_iter().find(|place| place.is_file())
}

/// Returns the size of the contents of programs that are kept for later ones, bytes. `host_bytes` is the maximum host
/// memory of a program.
pub fn content_bytes(host_bytes: Option<u64>) -> u64 {
    CONTENT_BYTES.min(host_bytes.unwrap_or(u64::MAX))
}

/// Returns what runs the CUDA programs of clients. Each worker runs this same executable. `content_bytes` is the maximum
/// size of the contents that are kept; with `recordings`, every program is recorded into that folder.
///
/// # Errors
/// When a folder cannot be created.
pub fn runner(content_bytes: u64, recordings: Option<PathBuf>) -> Result<Arc<dyn LiveRunner>> {
    let options = WorkerOptions {
        content_bytes,
        recorder: find_recorder(),
        recordings,
    };
    let workers = LiveWorkers::new(|| Command::new(replay_cuda::current_program()), options);
    Ok(Arc::new(workers.context("cannot create a folder for live programs")?))
}

/// Runs a worker process: the calls of one program.
///
/// # Errors
/// When the shared memory fails, or the client sends what no program sends.
pub fn serve_worker() -> Result<()> {
    remote_worker::serve_standard_input().context("a live program")
}
