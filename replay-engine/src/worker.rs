//! What worker processes and their parents share: the folder of a replay, the watch on the parent, the output for answers,
//! the digest of outputs.

use crate::run::OutputBuffer;
use rustix::process::{Signal, getpid, getppid, kill_process};
use std::fs::File;
use std::io::BufWriter;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;
use trace_core::recording::Digest;

/// Interval at which a worker checks that its parent is alive.
const PARENT_TICK: Duration = Duration::from_millis(500);
/// The folder for replay files, if the system has it. A plan is as large as the data that it copies, so shared memory
/// is preferred.
const SHARED_MEMORY: &str = "/dev/shm";

/// Ends this process when its parent is gone. Otherwise work that never ends would occupy the device forever.
pub fn end_with_parent() {
    let parent = getppid();
    let watch = move || {
        while getppid() == parent {
            std::thread::sleep(PARENT_TICK);
        }
        let _ = kill_process(getpid(), Signal::KILL);
    };
    // Without a thread there is no check, and in most cases the process ends by itself.
    let _ = std::thread::Builder::new().name("kinescope-parent".into()).spawn(watch);
}

/// Takes the standard output of this process for answers to its parent. What kernels and libraries print from now on goes to
/// `printed`: the parent could take it for an answer.
///
/// # Errors
/// If the operating system refuses.
pub fn take_answer_output(printed: impl AsFd) -> std::io::Result<BufWriter<File>> {
    let answers = std::io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdout(printed)?;
    Ok(BufWriter::new(File::from(answers)))
}

/// Creates the folder for the plan and the outputs of a replay, which is removed with the value.
///
/// # Errors
/// If no folder can be created.
pub fn create_folder(prefix: &str) -> std::io::Result<tempfile::TempDir> {
    let mut made = tempfile::Builder::new();
    made.prefix(prefix);
    match Path::new(SHARED_MEMORY).is_dir() {
        // If shared memory is full or not writable, the system's temporary folder is used.
        true => made.tempdir_in(SHARED_MEMORY).or_else(|_| made.tempdir()),
        false => made.tempdir(),
    }
}

/// Returns the digest of outputs, which must be equal in every repetition.
#[must_use]
pub fn fingerprint_outputs(outputs: &[OutputBuffer]) -> Digest {
    let mut hash = blake3::Hasher::new();
    for o in outputs {
        hash.update(&(o.name.len() as u64).to_le_bytes());
        hash.update(o.name.as_bytes());
        hash.update(&o.blake3);
    }
    *hash.finalize().as_bytes()
}
