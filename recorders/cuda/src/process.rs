//! The process around the recorder: where the recording goes, how it ends with the program, what a fork leaves.

use crate::hooks::Inside;
use crate::recorder::Recorder;
use crate::settings::Settings;
use libc::c_int;
use std::fmt::Display;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, Once, PoisonError};

/// The recorder of this process, which is made once and never freed: other threads may be inside it when the process
/// ends.
static RECORDER: AtomicPtr<Recorder> = AtomicPtr::new(std::ptr::null_mut());
/// This process is not recorded: nobody wants it, it could not be, or it is a child of the one that is.
static OFF: AtomicBool = AtomicBool::new(false);
static BEGIN: Mutex<()> = Mutex::new(());
/// A recorder is made, or is being made: a child of this process has none of its own.
static BEGUN: AtomicBool = AtomicBool::new(false);
/// The process that the recorder is of. A child that shares memory with its parent until it becomes another program has
/// another number.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Says something to whoever started the program.
pub(crate) fn say(message: impl Display) {
    let line = format!("kinescope: {message}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// The recorder, while calls are recorded.
#[inline]
pub(crate) fn recorder() -> Option<&'static Recorder> {
    if OFF.load(Ordering::Relaxed) {
        return None;
    }
    let at = RECORDER.load(Ordering::Acquire);
    // SAFETY: null, or made from a box and never freed.
    unsafe { at.as_ref() }
}

/// As [`recorder`], begun at the first call of the driver.
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
    // SAFETY: made from a box and never freed.
    Some(unsafe { &*at })
}

/// Begins the recording of this process, where one is wanted and none was begun.
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
    // Before anything is begun: a child that is made meanwhile has nothing to go on with.
    at_ends();
    BEGUN.store(true, Ordering::Relaxed);
    let to = free_name(&settings.to);
    let wanted = settings.to.clone();
    let begun = Recorder::begin(&to, settings).or_else(|e| {
        // Another process of the program may have taken the name meanwhile.
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

/// The file of this process: the one that is named, or one beside it where another process has that.
fn free_name(to: &Path) -> PathBuf {
    if !to.exists() {
        return to.to_owned();
    }
    let stem = to.file_stem().unwrap_or_default().to_string_lossy();
    to.with_file_name(format!("{stem}-{}.kine", std::process::id()))
}

/// What the thread that writes does first when the program ends: whether there is more of it.
fn at_end() -> bool {
    recorder().is_some_and(Recorder::drain_at_exit)
}

/// Ends the recording and writes it. Called again it does nothing. It takes neither locks nor memory: a program may end
/// in a handler of a signal.
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
        say(format_args!("the recording ends before the program: {why}"));
    }
}

extern "C" fn in_child() {
    // The thread that writes is the parent's, and so is the device's state: a child cannot go on with either.
    if BEGUN.load(Ordering::Relaxed) {
        OFF.store(true, Ordering::Relaxed);
    }
}

/// Signals that end a process that does nothing about them.
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

/// A signal ends the process: the recording is written, and then the signal does what it does by default. What the
/// program did last before it crashed is what its recording is looked at for.
///
/// # Safety
/// Called by the kernel alone.
unsafe extern "C" fn at_signal(signal: c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    finish();
    // The default is back (SA_RESETHAND). A fault comes again where it was; what was sent has to be sent again.
    // SAFETY: the kernel's, which lies there while the handler runs.
    let sent = unsafe { info.as_ref() }.is_none_or(|i| i.si_code <= 0);
    if sent || !matches!(signal, libc::SIGILL | libc::SIGBUS | libc::SIGFPE | libc::SIGSEGV) {
        // SAFETY: sends a signal to this thread.
        unsafe { libc::raise(signal) };
    }
}

/// Takes the signals that end the process, and that the program does nothing about. Those that it takes up later are its
/// own, and those that it has taken up are left alone: what it does about them is not known.
fn take_signals() {
    for signal in ENDING {
        // SAFETY: the actions are whole; the function is of this library, which stays loaded, and takes neither locks
        // nor memory.
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

/// Sees to it that the end of the process is the end of the recording.
fn at_ends() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: functions of this library, which stays loaded.
        unsafe {
            libc::atexit(at_exit);
            libc::pthread_atfork(None, None, Some(in_child));
        }
        take_signals();
    });
}

macro_rules! exits {
    ($($name:ident)+) => { $(
        /// As the C library's: ends the process without what it does at an orderly end. The recording is written.
        ///
        /// # Safety
        /// As the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(code: c_int) -> ! {
            finish();
            loop {
                // SAFETY: ends the process.
                unsafe { libc::syscall(libc::SYS_exit_group, code) };
            }
        }
    )+ };
}

exits! { _exit _Exit }

/// For programs that say what of them is to be recorded: `begin` and `end`, other texts are notes. 0: it was taken up.
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
    // SAFETY: the caller's promise.
    let text = unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy().into_owned();
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| recorder.mark(&text)));
    if done.is_ok() { 0 } else { -1 }
}
