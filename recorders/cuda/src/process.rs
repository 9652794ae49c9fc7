//! The process around the recorder: the recording's file, its end with the program, and forks.

use crate::hooks::Inside;
use crate::recorder::Recorder;
use crate::settings::Settings;
use libc::c_int;
use std::fmt::Display;
use std::io::Write as _;
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

/// Prints a message for the user who started the program.
pub(crate) fn say(message: impl Display) {
    let line = format!("kinescope: {message}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

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
            recorder.session.set_exit_hook(at_end);
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
        recorder.session.end();
    }
}

extern "C" fn at_exit() {
    finish();
    if PROCESS.load(Ordering::Relaxed) == std::process::id()
        && let Some(why) = recorder().and_then(|r| r.session.why())
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

/// Signals that end a process without a handler for them.
const ENDING: [c_int; 10] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGILL,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGSEGV,
    libc::SIGPIPE,
    libc::SIGTERM,
];

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

/// Installs handlers for signals that end the process and that the program does not handle. The program can replace
/// them later. Existing handlers stay, because their effect is unknown.
fn take_signals() {
    for signal in ENDING {
        // SAFETY: the actions are complete; the function is in this library, which stays loaded, and takes no locks and
        // no memory.
        unsafe {
            let mut was: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, std::ptr::null(), &raw mut was) != 0 || was.sa_sigaction != libc::SIG_DFL {
                continue;
            }
            let mut own: libc::sigaction = std::mem::zeroed();
            own.sa_sigaction =
                at_signal as unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut libc::c_void) as usize;
            own.sa_flags = libc::SA_SIGINFO | libc::SA_RESETHAND | libc::SA_NODEFER;
            libc::sigemptyset(&raw mut own.sa_mask);
            libc::sigaction(signal, &raw const own, std::ptr::null_mut());
        }
    }
}

/// Runs `make` while this thread takes no signals: a thread that is started meanwhile never takes any.
pub(crate) fn without_signals<T>(make: impl FnOnce() -> T) -> T {
    // SAFETY: the signal sets are complete and local to this function; only this thread's mask changes.
    let was = unsafe {
        let (mut all, mut was): (libc::sigset_t, libc::sigset_t) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        let changed = libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut was) == 0;
        changed.then_some(was)
    };
    let made = make();
    if let Some(was) = was {
        // SAFETY: the mask is the thread's previous one.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const was, std::ptr::null_mut()) };
    }
    made
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
        take_signals();
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

/// Marks the recorded part of a program: `begin` and `end`; other texts are notes. Returns 0 if the mark was accepted.
///
/// # Safety
/// The text ends in a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kinescope_mark(text: *const libc::c_char) -> c_int {
    if text.is_null() {
        return -1;
    }
    let (Some(recorder), Some(_inside)) = (recorder(), Inside::enter()) else {
        return -1;
    };
    // SAFETY: guaranteed by the caller.
    let text = unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy().into_owned();
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| recorder.mark(&text)));
    if done.is_ok() { 0 } else { -1 }
}
