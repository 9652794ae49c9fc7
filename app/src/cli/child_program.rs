//! Programs that verbs start: their libraries and environment, their signals and their exit codes.

use crate::cli::{Failure, signals};
use remote_worker::wait_for_process_end;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::{OsStr, OsString};
use std::io::IsTerminal as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::OnceLock;
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
fn join_list(paths: &[PathBuf]) -> OsString {
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

/// Folder of the libraries of a package that holds this command line, such as the Python package.
static PACKAGE_FOLDER: OnceLock<PathBuf> = OnceLock::new();

/// Sets the folder of the libraries of a package that holds this command line. Returns `false` if it was set before.
pub fn set_package_folder(folder: PathBuf) -> bool {
    PACKAGE_FOLDER.set(folder).is_ok()
}

/// Returns the folders of libraries for programs: that of the package, that of this program, and the library folders of
/// an installation.
pub fn library_folders(program: &Path) -> Vec<PathBuf> {
    let installed = ["", "../lib", "../lib/kinescope"].map(|below| program.join(below));
    PACKAGE_FOLDER.get().cloned().into_iter().chain(installed).collect()
}

/// Returns a library for programs by its file name: in the folder of a package, in the folder of this program, or in the
/// library folder of an installation. `package` is the package that builds it.
///
/// # Errors
/// If it is in none of them.
pub fn find_library(library: &str, package: &str) -> Result<PathBuf, Failure> {
    let own = program_folder().unwrap_or_default();
    let places = library_folders(&own).into_iter().map(|folder| folder.join(library));
    let found = places.into_iter().find(|p| p.is_file());
    found.ok_or_else(|| {
        let message = match PACKAGE_FOLDER.get() {
            Some(folder) => format!(
                "{library} is neither in this package, in {}, nor next to this program, in {}: use the program \
                 `kinescope` of an installation",
                folder.display(),
                own.display()
            ),
            None => format!(
                "{library} is not next to this program, in {}: `cargo build -p {package}` builds it there",
                own.display()
            ),
        };
        Failure::usage(message)
    })
}

/// Returns the value of `LD_PRELOAD` that loads these libraries, and those that it names already.
///
/// # Errors
/// If a path has a space or a colon, which separate the names there.
pub fn preload(libraries: &[PathBuf]) -> Result<OsString, Failure> {
    let splits = |path: &&PathBuf| {
        path.as_os_str()
            .as_encoded_bytes()
            .iter()
            .any(|b| matches!(b, b' ' | b':'))
    };
    if let Some(path) = libraries.iter().find(splits) {
        return Err(Failure::usage(format!(
            "{}: a library whose path has a space or a colon cannot be loaded into a program; install Kinescope into \
             another folder",
            path.display()
        )));
    }
    Ok(prepend_to_list(&join_list(libraries), "LD_PRELOAD"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_that_the_loader_would_split_is_refused() {
        for path in ["/opt/two words/libx.so", "/opt/a:b/libx.so"] {
            let refused = preload(&["/opt/liby.so".into(), path.into()]).unwrap_err();
            assert!(refused.to_string().contains(path), "{refused}");
        }
        let list = preload(&["/opt/liby.so".into(), "/opt/libx.so".into()]).unwrap();
        assert!(list.to_string_lossy().starts_with("/opt/liby.so:/opt/libx.so"));
    }
}
