//! The process around the recorder: the recording's file, its end with the program, and forks.

use crate::message::say;
use crate::recorder::Recorder;
use crate::settings::Settings;
use crate::signals::handle_ending_signals;
use libc::c_int;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, Once, PoisonError};

/// The recorder of this process, which is created once and never freed: other threads can be inside it when the process
/// ends.
static RECORDER: AtomicPtr<Recorder> = AtomicPtr::new(std::ptr::null_mut());
/// This process is not recorded: recording is off or failed, or the process is a child of the recorded one.
static OFF: AtomicBool = AtomicBool::new(false);
static BEGIN: Mutex<()> = Mutex::new(());
/// A recorder exists or is being created: a child of this process has none of its own.
static BEGUN: AtomicBool = AtomicBool::new(false);
/// The process that the recorder belongs to. A child that shares memory with its parent until it executes another
/// program has another number.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Returns the recorder, while calls are recorded.
#[inline]
pub(crate) fn recorder() -> Option<&'static Recorder> {
    if OFF.load(Ordering::Relaxed) {
        return None;
    }
    let at = RECORDER.load(Ordering::Acquire);
    // SAFETY: the pointer is null, or is from a box that is never freed.
    unsafe { at.as_ref() }
}

/// Returns the same as [`recorder`], and starts the recording on the first call of the driver.
#[inline]
pub(crate) fn recorder_or_begin() -> Option<&'static Recorder> {
    if OFF.load(Ordering::Relaxed) {
        return None;
    }
    let at = RECORDER.load(Ordering::Acquire);
    if at.is_null() {
        begin();
        return recorder();
    }
    // SAFETY: the pointer is from a box that is never freed.
    Some(unsafe { &*at })
}

/// Starts the recording of this process, if one is requested and none was started.
#[cold]
fn begin() {
    let _one = BEGIN.lock().unwrap_or_else(PoisonError::into_inner);
    if OFF.load(Ordering::Relaxed) || !RECORDER.load(Ordering::Acquire).is_null() {
        return;
    }
    let Some(settings) = Settings::from_environment() else {
        OFF.store(true, Ordering::Relaxed);
        return;
    };
    // This must come first, so that a child that is forked meanwhile has nothing to continue.
    at_ends();
    BEGUN.store(true, Ordering::Relaxed);
    let to = free_name(&settings.to);
    let wanted = settings.to.clone();
    let begun = Recorder::begin(&to, settings).or_else(|e| {
        // Another process of the program can have taken the name meanwhile.
        let other = free_name(&wanted);
        match Settings::from_environment() {
            Some(settings) if other != to => Recorder::begin(&other, settings),
            _ => Err(e),
        }
    });
    match begun {
        Ok(recorder) => {
            recorder.trace.session.set_exit_hook(at_end);
            PROCESS.store(std::process::id(), Ordering::Relaxed);
            RECORDER.store(Box::into_raw(Box::new(recorder)), Ordering::Release);
        }
        Err(e) => {
            OFF.store(true, Ordering::Relaxed);
            say(format_args!("nothing is recorded: {e}"));
        }
    }
}

/// Returns the file of this process: the requested one, or one in the same folder if another process has that.
fn free_name(to: &Path) -> PathBuf {
    if !to.exists() {
        return to.to_owned();
    }
    let stem = to.file_stem().unwrap_or_default().to_string_lossy();
    to.with_file_name(format!("{stem}-{}.kine", std::process::id()))
}

/// Does the first work of the writer thread when the program ends. Returns whether there is more of it.
fn at_end() -> bool {
    recorder().is_some_and(Recorder::drain_at_exit)
}

/// Ends the recording and writes it. A second call does nothing. It takes no locks and allocates no memory: a program
/// can end in a signal handler.
pub(crate) fn finish() {
    if PROCESS.load(Ordering::Relaxed) == std::process::id()
        && let Some(recorder) = recorder()
    {
        recorder.trace.session.end();
    }
}

extern "C" fn at_exit() {
    finish();
    if PROCESS.load(Ordering::Relaxed) == std::process::id()
        && let Some(why) = recorder().and_then(|r| r.trace.session.why())
    {
        say(format_args!("the recording ends before the program ends: {why}"));
    }
}

extern "C" fn in_child() {
    // The writer thread and the device's state are the parent's: a child cannot continue with either.
    if BEGUN.load(Ordering::Relaxed) {
        OFF.store(true, Ordering::Relaxed);
    }
}

/// Handles a signal that ends the process: writes the recording and then runs the signal's default action. The last
/// calls before a crash are what the user wants to see in the recording.
///
/// # Safety
/// Only the kernel calls it.
unsafe extern "C" fn at_signal(signal: c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    finish();
    // SA_RESETHAND has restored the default action. A fault occurs again at its instruction; a sent signal must be sent
    // again.
    // SAFETY: the structure is the kernel's, and valid while the handler runs.
    let sent = unsafe { info.as_ref() }.is_none_or(|i| i.si_code <= 0);
    if sent || !matches!(signal, libc::SIGILL | libc::SIGBUS | libc::SIGFPE | libc::SIGSEGV) {
        // SAFETY: the call sends a signal to this thread.
        unsafe { libc::raise(signal) };
    }
}

/// Registers hooks so that the end of the process ends the recording.
fn at_ends() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the functions are in this library, which stays loaded.
        unsafe {
            libc::atexit(at_exit);
            libc::pthread_atfork(None, None, Some(in_child));
        }
        handle_ending_signals(at_signal);
    });
}

macro_rules! exits {
    ($($name:ident)+) => { $(
        /// Writes the recording, then ends the process as the C library's function does, without the work of an orderly
        /// exit.
        ///
        /// # Safety
        /// The same as the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(code: c_int) -> ! {
            finish();
            loop {
                // SAFETY: the call ends the process.
                unsafe { libc::syscall(libc::SYS_exit_group, code) };
            }
        }
    )+ };
}

exits! { _exit _Exit }
