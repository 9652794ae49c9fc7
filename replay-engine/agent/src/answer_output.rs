//! The standard output of worker processes of the agent.

use anyhow::{Context as _, Result};
use std::fs::{File, OpenOptions};
use std::io::BufWriter;

/// Takes the standard output of this worker process for answers. What kernels of clients print is dropped: it would fill
/// the agent's log.
///
/// # Errors
/// If the operating system refuses.
pub fn take_answer_output() -> Result<BufWriter<File>> {
    let nowhere = OpenOptions::new().write(true).open("/dev/null").context("/dev/null")?;
    Ok(replay_engine::worker::take_answer_output(nowhere)?)
}
