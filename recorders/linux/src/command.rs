//! The command that runs during the trace: located before any change, left alone while it runs, ended when the
//! recording is asked to end; and that request.

use crate::change::MARK;
use crate::error::RecordError;
use rustix::process::{Pid, Signal, kill_process};
use std::io::IsTerminal as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

/// Time between two polls for the end of the command.
const TICK: Duration = Duration::from_millis(10);
/// Maximum time for the command to end after a request.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// Number of the signal of a terminal's Ctrl-C.
const INTERRUPT: i32 = 2;

/// A request to end a recording. Clones share the request.
#[derive(Clone, Debug, Default)]
pub struct StopRequest(Arc<AtomicI32>);

impl StopRequest {
    /// Requests the end because of a signal of this number.
    pub fn request(&self, signal: i32) {
        self.0.store(signal, Ordering::SeqCst);
    }

    /// Returns the signal that requested the end.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        Some(self.0.load(Ordering::SeqCst)).filter(|n| *n != 0)
    }
}

/// Returns the program of a command, which exists and is executable.
///
/// # Errors
/// Returns an error if it does not exist, or is not a program.
pub(crate) fn find(command: &[String]) -> Result<Option<PathBuf>, RecordError> {
    let Some(name) = command.first() else {
        return Ok(None);
    };
    let runs = |path: &Path| std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
    let refuse = |why: &str| RecordError::Command {
        command: name.clone(),
        why: why.to_owned(),
    };
    if name.contains('/') {
        return match Path::new(name) {
            path if runs(path) => Ok(Some(path.to_owned())),
            path if path.exists() => Err(refuse("it is not an executable program")),
            _ => Err(refuse("there is no such program")),
        };
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders).map(|f| f.join(name)).find(|p| runs(p));
    found
        .map(Some)
        .ok_or_else(|| refuse("no folder of PATH contains such a program"))
}

/// Starts a command whose program was found. It has `mark` in its environment, and so has everything that it starts.
///
/// # Errors
/// Returns an error if the system does not start it.
pub(crate) fn start(program: &Path, command: &[String], mark: &str) -> Result<Child, RecordError> {
    let arguments = command.get(1..).unwrap_or_default();
    Command::new(program)
        .args(arguments)
        .env(MARK, mark)
        .spawn()
        .map_err(|e| RecordError::Command {
            command: program.display().to_string(),
            why: format!("it cannot be run: {e}"),
        })
}

/// Waits for a command, and ends it when the recording is asked to end.
///
/// # Errors
/// Returns an error if the system has lost the process.
pub(crate) fn wait(child: &mut Child, stop: &StopRequest) -> std::io::Result<u8> {
    let mut asked: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(exit_code(status));
        }
        match (stop.signal(), asked) {
            (Some(signal), None) => {
                asked = Some(Instant::now());
                let interrupted = signal == INTERRUPT;
                // A terminal interrupts every program in its foreground by itself.
                if !(interrupted && std::io::stdin().is_terminal())
                    && let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw)
                {
                    // The command can have ended just now.
                    let _ = kill_process(pid, if interrupted { Signal::INT } else { Signal::TERM });
                }
            }
            (Some(_), Some(at)) if at.elapsed() > END_TIMEOUT => child.kill()?,
            _ => {}
        }
        std::thread::sleep(TICK);
    }
}

/// Returns the exit code, with the shells' convention for a program that a signal ended.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|s| s.saturating_add(128)));
    code.and_then(|c| u8::try_from(c).ok()).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to_strings(words: &[&str]) -> Vec<String> {
        words.iter().map(|w| (*w).to_owned()).collect()
    }

    #[test]
    fn missing_command_is_reported_before_any_change() {
        assert_eq!(find(&[]).unwrap(), None);
        assert!(find(&to_strings(&["sh"])).unwrap().is_some());
        for (program, reason) in [
            ("no-such-program", "PATH"),
            ("/no/such", "no such program"),
            ("/etc/passwd", "not an executable program"),
        ] {
            let e = find(&to_strings(&[program])).unwrap_err().to_string();
            assert!(e.contains(reason) && e.contains("nothing was changed"), "{e}");
        }
    }

    #[test]
    fn command_wait_ends_at_exit_or_stop_request() {
        let stop = StopRequest::default();
        let command = to_strings(&["sh", "-c", "exit 3"]);
        let program = find(&command).unwrap().unwrap();
        assert_eq!(wait(&mut start(&program, &command, "").unwrap(), &stop).unwrap(), 3);
        let command = to_strings(&["sleep", "60"]);
        let program = find(&command).unwrap().unwrap();
        let mut child = start(&program, &command, "").unwrap();
        stop.request(15);
        assert_eq!(wait(&mut child, &stop).unwrap(), 128 + 15);
    }
}
