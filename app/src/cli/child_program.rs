//! Programs that verbs start: their libraries and environment, their signals and their exit codes.

use crate::cli::{Failure, signals};
use remote_worker::wait_for_process_end;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::{OsStr, OsString};
use std::io::IsTerminal as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::Duration;
use trace_core::progress::Progress;

/// Interval between two checks whether the user interrupts the program.
const TICK: Duration = Duration::from_millis(10);

/// Waits for the program. Forwards termination signals to it; it then writes what it has.
pub fn wait_for_program(child: &mut Child) -> std::io::Result<ExitStatus> {
    let progress = Progress::new();
    let _going = signals::cancel_on_signal(&progress);
    let mut is_reported = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if progress.check().is_err() && !is_reported {
            is_reported = true;
            let interrupted = signals::requested_exit_code() == Some(130);
            // A terminal itself interrupts every program in the foreground.
            if !(interrupted && std::io::stdin().is_terminal())
                && let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw)
            {
                let signal = if interrupted { Signal::INT } else { Signal::TERM };
                // The program may have just ended.
                let _ = kill_process(pid, signal);
            }
        }
        wait_for_process_end(child.id(), TICK);
    }
}

/// Returns the exit code as shells count it if a signal ended the program.
pub fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|s| s.saturating_add(128)));
    code.and_then(|c| u8::try_from(c).ok()).unwrap_or(u8::MAX)
}

/// Returns a list of paths as an environment variable holds it.
pub fn join_list(paths: &[PathBuf]) -> OsString {
    let mut list = OsString::new();
    for (n, path) in paths.iter().enumerate() {
        if n > 0 {
            list.push(":");
        }
        list.push(path);
    }
    list
}

/// Prepends a value to a list in an environment variable.
pub fn prepend_to_list(first: &OsStr, list: &str) -> OsString {
    let mut all = first.to_owned();
    if let Some(rest) = std::env::var_os(list).filter(|r| !r.is_empty()) {
        all.push(":");
        all.push(rest);
    }
    all
}

/// Returns the folder of this program.
pub fn program_folder() -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.parent()?.to_owned())
}

/// Returns a library for programs by its file name: in the folder of this program, or in the library folder of an
/// installation. `package` is the package that builds it.
///
/// # Errors
/// If it is in neither.
pub fn find_library(library: &str, package: &str) -> Result<PathBuf, Failure> {
    let own = program_folder().unwrap_or_default();
    let places = [
        own.join(library),
        own.join("../lib").join(library),
        own.join("../lib/kinescope").join(library),
    ];
    let found = places.into_iter().find(|p| p.is_file());
    found.ok_or_else(|| {
        Failure::usage(format!(
            "{library} is not next to this program, in {}: `cargo build -p {package}` builds it there",
            own.display()
        ))
    })
}

/// Parses a number of bytes, with a unit of 1024 or none: `500M`.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let (number, power) = match text.to_ascii_uppercase().chars().last() {
        Some(unit) if unit.is_ascii_alphabetic() => (
            &text[..text.len() - 1],
            ['K', 'M', 'G', 'T']
                .iter()
                .position(|u| *u == unit)
                .map(|n| n as u32 + 1),
        ),
        _ => (text, Some(0)),
    };
    let number: Option<u64> = number.parse().ok();
    let bytes = number
        .zip(power)
        .and_then(|(n, p)| n.checked_mul(1024u64.checked_pow(p)?));
    bytes.ok_or_else(|| "expected a number of bytes, optionally with K, M, G or T after it: 500M".to_owned())
}

/// Returns an absolute form of a path, for a program in another folder.
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
