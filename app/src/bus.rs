//! What is said when a mapped recording becomes shorter while it is open: one line on stderr, and in the window a crash
//! report that names the file.
//!
//! A page of a mapped file that another program cut away cannot be read any more, and the system ends the program with
//! SIGBUS at whatever instruction tried. No error can be returned from there, so the program dies as it would have, by
//! the same signal; before that it says which file it was.
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

/// The report to write, made ready while everything can still be asked for.
struct Report {
    path: CString,
    shown: String,
    head: String,
}

static REPORT: OnceLock<Report> = OnceLock::new();
static ENDING: AtomicBool = AtomicBool::new(false);

const REASON: &str = "SIGBUS: a page of the file could not be read. Another program cut the file short or wrote it anew \
                      in place while it was open, or the disk failed.\nWhat was changed in the window is in the journal \
                      beside the recording and is offered when it is opened again.\n";

/// Makes every SIGBUS of this process name the recording, and then end the process as it would have.
///
/// # Errors
/// When the system does not take the handler.
pub fn install() -> io::Result<()> {
    // SAFETY: all-zero is a valid value of this C structure of integers; the fields that count are set below.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = handle;
    action.sa_sigaction = handler as *const () as libc::sighandler_t;
    // The threads of the standard library have a second stack for handlers.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: `action` is whole and lives through the call; the handler does only what a handler may (see there). What
    // the standard library had in place for this signal told of stack overflows, which are SIGSEGV on Linux.
    let done = unsafe { libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Makes a report ready, to be written into `folder` when the signal comes, with `head` above what happened. Gives its
/// path. The first call counts.
///
/// # Errors
/// When the folder cannot be made, or its name cannot be given to the system.
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

/// Writes all of some bytes, as far as the system takes them.
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

/// Runs where the signal struck: it may only read what is ready, and make system calls that are allowed in a handler.
/// It takes no lock and no memory.
extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    if ENDING.swap(true, Ordering::SeqCst) {
        // Another thread is telling already, and ends this one when it is done.
        loop {
            // SAFETY: has no arguments, and may be called in a handler.
            unsafe { libc::pause() };
        }
    }
    // SAFETY: the system hands over a whole structure, or, on broken platforms, none.
    let info = unsafe { info.as_ref() };
    // An address comes only with a fault of the machine; the signal can also be sent by hand.
    let name = info.filter(|i| i.si_code > 0).and_then(|i| {
        // SAFETY: for a fault of the machine the field is the address.
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
        // SAFETY: the path ends in a zero and lives for ever. open, fsync and close may be called in a handler.
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
            // SAFETY: the descriptor was opened above and belongs to nobody else.
            unsafe {
                libc::fsync(fd);
                libc::close(fd);
            }
            for part in [
                "kinescope: crash report: ",
                report.shown.as_str(),
                " (attach it when you tell somebody)\n",
            ] {
                write_fd(libc::STDERR_FILENO, part);
            }
        }
    }
    // The signal waits until this handler returns, and then does what it would have done.
    // SAFETY: both may be called in a handler, with a signal's number and its default action.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}
