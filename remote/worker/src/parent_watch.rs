//! The end of a worker with the process that started it, even if that was killed: a program that shares memory with the
//! worker of an agent would keep the device otherwise.

use rustix::process::{Pid, getppid};
use std::time::Duration;

/// Environment variable with the process that a worker ends with.
pub const PARENT_VARIABLE: &str = "KINESCOPE_WORKER_PARENT";
/// Interval at which the parent is looked at.
const INTERVAL: Duration = Duration::from_millis(100);

/// Starts a thread that ends this process when its parent is gone, if the environment names the parent.
///
/// # Errors
/// If no thread can be started.
pub fn watch_parent() -> std::io::Result<()> {
    let parent = std::env::var(PARENT_VARIABLE).ok();
    let Some(parent) = parent.and_then(|parent| parent.parse().ok()).and_then(Pid::from_raw) else {
        return Ok(());
    };
    let thread = std::thread::Builder::new().name("kinescope-parent".into());
    thread.spawn(move || {
        while getppid() == Some(parent) {
            std::thread::sleep(INTERVAL);
        }
        std::process::exit(1);
    })?;
    Ok(())
}
