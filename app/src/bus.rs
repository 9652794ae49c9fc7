//! The SIGBUS handler for a mapped recording that becomes shorter while it is open. It prints one line on stderr, and
//! in the window it writes a crash report that names the file.
//!
//! If another program truncates a mapped file, the missing pages cannot be read. The system ends the program with
//! SIGBUS at the instruction that tried. The code there cannot return an error, so the program still dies by that
//! signal. Before that, it names the file.
#![allow(
    unsafe_code,
    reason = "a signal's handler can only be put in place by hand; each call says why it is sound"
)]

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use trace_core::container::recording_at;

/// The report to write, prepared while it is still safe to allocate and query.
struct Report {
    path: CString,
    shown: String,
    head: String,
}

static REPORT: OnceLock<Report> = OnceLock::new();
static ENDING: AtomicBool = AtomicBool::new(false);

const REASON: &str = "SIGBUS: a page of the file could not be read. Another program truncated or rewrote the file \
                      while it was open, or the disk failed.\nUnsaved edits are in the journal next to the \
                      recording. Open the recording again to restore them.\n";

/// Makes every SIGBUS of this process report the recording, and then end the process as before.
///
/// # Errors
/// When the system rejects the handler.
pub fn install() -> io::Result<()> {
    // SAFETY: all-zero is a valid value of this C structure of integers; the fields that count are set below.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = handle;
    action.sa_sigaction = handler as *const () as libc::sighandler_t;
    // The threads of the standard library have an alternate stack for handlers.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: `action` is fully initialised and lives through the call; the handler does only what a handler may (see
    // there). The standard library's handler for this signal reported stack overflows, which are SIGSEGV on Linux.
    let done = unsafe { libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Prepares a report that the handler writes to `folder`, with `head` at the top. Returns its path. Only the first call
/// has an effect.
///
/// # Errors
/// When the folder cannot be created, or its name cannot be passed to the system.
pub fn report_to(folder: &Path, head: &str) -> io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map(|d| d.as_millis()).unwrap_or(0);
    let path = folder.join(format!("kinescope-crash-{now}-{}.txt", std::process::id()));
    let report = Report {
        path: CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)?,
        shown: path.display().to_string(),
        head: head.to_owned(),
    };
    let kept = REPORT.get_or_init(|| report);
    Ok(PathBuf::from(&kept.shown))
}

/// Writes all bytes of a text, as far as the system accepts them.
fn write_fd(fd: libc::c_int, text: &str) {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        // SAFETY: the pointer and the length are those of one live slice. write(2) may be called in a handler.
        let n = unsafe { libc::write(fd, rest.as_ptr().cast(), rest.len()) };
        match usize::try_from(n).ok().filter(|n| *n > 0).and_then(|n| rest.get(n..)) {
            Some(left) => rest = left,
            None => return,
        }
    }
}

/// Handles the signal. It only reads prepared data and makes system calls that are allowed in a handler. It takes no
/// lock and allocates no memory.
extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    if ENDING.swap(true, Ordering::SeqCst) {
        // Another thread is reporting already, and ends this one when it is done.
        loop {
            // SAFETY: has no arguments, and may be called in a handler.
            unsafe { libc::pause() };
        }
    }
    // SAFETY: the system passes a complete structure or, on broken platforms, none.
    let info = unsafe { info.as_ref() };
    // Only a hardware fault has an address; the signal can also be sent manually.
    let name = info.filter(|i| i.si_code > 0).and_then(|i| {
        // SAFETY: for a hardware fault the field is the address.
        let at = unsafe { i.si_addr() };
        recording_at(at.addr())
    });
    write_fd(libc::STDERR_FILENO, "kinescope: ");
    write_fd(libc::STDERR_FILENO, name.unwrap_or("memory"));
    write_fd(
        libc::STDERR_FILENO,
        match name {
            Some(_) => ": the file became shorter while it was read, or the disk failed; open it again\n",
            None => ": could not be read (SIGBUS)\n",
        },
    );
    if let Some(report) = REPORT.get() {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
        // SAFETY: the path ends in a zero and is never freed. open, fsync and close may be called in a handler.
        let fd = unsafe { libc::open(report.path.as_ptr(), flags, 0o600) };
        if fd >= 0 {
            for part in [
                report.head.as_str(),
                "recording: ",
                name.unwrap_or("none"),
                "\n\n",
                REASON,
            ] {
                write_fd(fd, part);
            }
            // SAFETY: the descriptor was opened above and has no other owner.
            unsafe {
                libc::fsync(fd);
                libc::close(fd);
            }
            for part in [
                "kinescope: crash report: ",
                report.shown.as_str(),
                " (attach it to a bug report)\n",
            ] {
                write_fd(libc::STDERR_FILENO, part);
            }
        }
    }
    // The signal is pending until this handler returns, and then has its default effect.
    // SAFETY: both may be called in a handler, with a signal's number and its default action.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}
