//! The process around the recorder: where the recording goes, how it ends with the program, what a fork leaves.

use crate::recorder::Recorder;
use libc::c_int;
use std::fmt::Display;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, Once, PoisonError};

/// Where the recording goes. Without it nothing is recorded, and calls only pass through.
const RECORD_TO: &str = "KINESCOPE_RECORD_TO";
/// Bytes, about, at which the recording ends while the program goes on; 0: none.
const RECORD_LIMIT: &str = "KINESCOPE_RECORD_LIMIT";
/// `whole`, `first:N` for the first N launches, or `marks` for what lies between two marks.
const RECORD_RANGE: &str = "KINESCOPE_CUDA_RANGE";
/// `no`: allocations are the driver's own, and their addresses are told as they are.
const RECORD_WINDOW: &str = "KINESCOPE_CUDA_WINDOW";

/// The recorder of this process, which is made once and never freed: other threads may be inside it when the process
/// ends.
static RECORDER: AtomicPtr<Recorder> = AtomicPtr::new(std::ptr::null_mut());
/// This process is not recorded: nobody wants it, it could not be, or it is a child of the one that is.
static OFF: AtomicBool = AtomicBool::new(false);
static BEGIN: Mutex<()> = Mutex::new(());
/// The process that the recorder is of. A child that shares memory with its parent until it becomes another program has
/// another number.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// How much of a program is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Range {
    /// All of it.
    Whole,
    /// Up to and with this many launches.
    First(u64),
    /// What lies between the program's marks.
    Marks,
}

impl Range {
    fn of(text: &str) -> Option<Self> {
        match text {
            "" | "whole" => Some(Self::Whole),
            "marks" => Some(Self::Marks),
            _ => text.strip_prefix("first:")?.parse().ok().map(Self::First),
        }
    }

    /// In words, as the recording tells it.
    pub fn words(self) -> String {
        match self {
            Self::Whole => "whole".to_owned(),
            Self::First(n) => format!("first {n} launches"),
            Self::Marks => "between marks".to_owned(),
        }
    }
}

/// Says something to whoever started the program.
pub(crate) fn say(message: impl Display) {
    let line = format!("kinescope: {message}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// The recorder, while calls are recorded.
pub(crate) fn recorder() -> Option<&'static Recorder> {
    let at = RECORDER.load(Ordering::Acquire);
    if at.is_null() || OFF.load(Ordering::Relaxed) {
        return None;
    }
    // SAFETY: made from a box and never freed.
    Some(unsafe { &*at })
}

/// As [`recorder`], begun at the first call of the driver.
pub(crate) fn recorder_or_begin() -> Option<&'static Recorder> {
    if RECORDER.load(Ordering::Acquire).is_null() && !OFF.load(Ordering::Relaxed) {
        begin();
    }
    recorder()
}

/// Begins the recording of this process, where one is wanted and none was begun.
fn begin() {
    if OFF.load(Ordering::Relaxed) || !RECORDER.load(Ordering::Acquire).is_null() {
        return;
    }
    let _one = BEGIN.lock().unwrap_or_else(PoisonError::into_inner);
    if OFF.load(Ordering::Relaxed) || !RECORDER.load(Ordering::Acquire).is_null() {
        return;
    }
    let Some(to) = std::env::var_os(RECORD_TO).filter(|v| !v.is_empty()).map(PathBuf::from) else {
        OFF.store(true, Ordering::Relaxed);
        return;
    };
    let text = |name: &str| std::env::var(name).unwrap_or_default();
    let limit = text(RECORD_LIMIT).parse().ok().filter(|n| *n > 0);
    let range = Range::of(&text(RECORD_RANGE)).unwrap_or_else(|| {
        say(format_args!(
            "{RECORD_RANGE} is '{}' (expected whole, first:N or marks): the whole program is recorded",
            text(RECORD_RANGE)
        ));
        Range::Whole
    });
    match Recorder::begin(&free_name(&to), limit, range, text(RECORD_WINDOW) != "no") {
        Ok(recorder) => {
            PROCESS.store(std::process::id(), Ordering::Relaxed);
            RECORDER.store(Box::into_raw(Box::new(recorder)), Ordering::Release);
            at_ends();
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

/// Ends the recording and writes it. Called again it does nothing.
pub(crate) fn finish() {
    if PROCESS.load(Ordering::Relaxed) != std::process::id() {
        return;
    }
    if let Some(recorder) = recorder() {
        // A fault in here is the recorder's own, and the program ends anyway.
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| recorder.finish())).is_err() {
            say("the recorder has a fault: the recording ends where it was last written");
        }
    }
}

extern "C" fn at_exit() {
    finish();
}

extern "C" fn in_child() {
    // The thread that writes is the parent's, and so is the device's state: a child cannot go on with either.
    if !RECORDER.load(Ordering::Acquire).is_null() {
        OFF.store(true, Ordering::Relaxed);
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
    let Some(recorder) = recorder() else { return -1 };
    // SAFETY: the caller's promise.
    let text = unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy().into_owned();
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| recorder.mark(&text)));
    if done.is_ok() { 0 } else { -1 }
}
