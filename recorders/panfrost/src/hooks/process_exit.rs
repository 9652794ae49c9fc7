//! End and fork of a process.

use super::{ReentryGuard, next, set_errno};
use crate::process;
use libc::{c_int, c_void};
use panfrost_node::Errno;
use std::ffi::CStr;
use std::mem::ManuallyDrop;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

extern "C" fn at_exit() {
    if let Some(_inside) = ReentryGuard::enter() {
        process::finish();
    }
}

macro_rules! exits {
    ($($name:ident($text:literal);)+) => { $(
        /// Writes the recording, then ends the process as the C library's function does, without the work of an orderly
        /// exit.
        ///
        /// # Safety
        /// The same as the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(code: c_int) -> ! {
            type Exit = unsafe extern "C" fn(c_int);
            at_exit();
            real!($text, Exit, (), code);
            // Without such a function, use the system call.
            loop {
                // SAFETY: the call ends the process.
                unsafe { libc::syscall(libc::SYS_exit_group, code) };
            }
        }
    )+ };
}

exits! {
    _exit("_exit");
    _Exit("_Exit");
}

/// Locks that are held during a fork.
struct ForkGuards(ManuallyDrop<Option<(process::RecorderGuard, process::FilesGuard)>>);
// SAFETY: only the thread that holds the locks stores and takes the value.
unsafe impl Sync for ForkGuards {}
static FORKING: AtomicPtr<ForkGuards> = AtomicPtr::new(std::ptr::null_mut());

extern "C" fn before_fork() {
    if let Some(_inside) = ReentryGuard::enter() {
        let held = Box::new(ForkGuards(ManuallyDrop::new(Some(process::lock_all()))));
        FORKING.store(Box::into_raw(held), Ordering::Release);
    }
}

fn after_fork() -> Option<(process::RecorderGuard, process::FilesGuard)> {
    let held = FORKING.swap(std::ptr::null_mut(), Ordering::AcqRel);
    if held.is_null() {
        return None;
    }
    // SAFETY: `before_fork` created it from a box on this thread, and the swap makes sure that it is taken once.
    let mut held = unsafe { Box::from_raw(held) };
    held.0.take()
}

extern "C" fn parent_after_fork() {
    if let Some(_inside) = ReentryGuard::enter() {
        drop(after_fork());
    }
}

extern "C" fn child_after_fork() {
    if let Some(_inside) = ReentryGuard::enter() {
        if let Some((mut recorder, files)) = after_fork() {
            process::become_child(&mut recorder);
            drop((recorder, files));
        }
        // The thread that would write the recording exists only in the parent.
        for signal in SIGNALS {
            restore_signal(signal);
        }
    }
}

/// Time between two polls for a due commit, ms.
const COMMIT_INTERVAL_MS: c_int = 500;

/// Signals that end a process in an orderly way.
const SIGNALS: [c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
/// Pipe by which the signal handler notifies the thread that writes the recording.
static SIGNAL_PIPE: AtomicI32 = AtomicI32::new(-1);

extern "C" fn on_signal(signal: c_int) {
    let byte = signal as u8;
    // SAFETY: a handler is allowed to write into a pipe; the error number is restored for the interrupted code.
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(SIGNAL_PIPE.load(Ordering::Relaxed), (&raw const byte).cast(), 1);
        *libc::__errno_location() = errno;
    }
}

/// Returns a program's action for a signal.
fn signal_action(signal: c_int) -> libc::sigaction {
    // SAFETY: the structure holds numbers, for which zero is a value; the call only queries.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut now);
        now
    }
}

/// Restores the default action of a signal, unless the program has changed it in the meantime.
fn restore_signal(signal: c_int) {
    if signal_action(signal).sa_sigaction == on_signal as extern "C" fn(c_int) as usize {
        // SAFETY: the handler is this library's own and no longer needed.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Installs handlers that write the recording before a signal ends the process. Signals that the program handles or
/// ignores stay as they are.
fn install_signal_handlers() {
    let mut ends: [c_int; 2] = [-1; 2];
    // SAFETY: the array has room for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return;
    }
    let [from, to] = ends;
    SIGNAL_PIPE.store(to, Ordering::Relaxed);
    process::remember_pipe(ends);
    let watch = move || {
        // SAFETY: signals go to the program's own threads; the set is local.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
        }
        let mut byte = 0u8;
        loop {
            let mut waits = libc::pollfd {
                fd: from,
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: there is one structure.
            if unsafe { libc::poll(&raw mut waits, 1, COMMIT_INTERVAL_MS) } == 0 {
                if let Some(_inside) = ReentryGuard::enter() {
                    process::commit_journal();
                }
                continue;
            }
            // SAFETY: the buffer has room for one byte.
            let read = unsafe { libc::read(from, (&raw mut byte).cast(), 1) };
            if read == 1 {
                break;
            }
            if read == 0 || std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
                return;
            }
        }
        at_exit();
        let signal = c_int::from(byte);
        restore_signal(signal);
        // SAFETY: the signal that this process received is sent again, now to end it.
        unsafe { libc::kill(libc::getpid(), signal) };
    };
    if std::thread::Builder::new()
        .name("kinescope".into())
        .spawn(watch)
        .is_err()
    {
        return;
    }
    for signal in SIGNALS {
        if signal_action(signal).sa_sigaction == libc::SIG_DFL {
            // SAFETY: the structure holds numbers, for which zero is a value; the handler does only what is allowed in
            // one.
            unsafe {
                let mut new: libc::sigaction = std::mem::zeroed();
                new.sa_sigaction = on_signal as extern "C" fn(c_int) as usize;
                new.sa_flags = libc::SA_RESTART;
                libc::sigaction(signal, &raw const new, std::ptr::null_mut());
            }
        }
    }
}

/// Prepares the process for an end that writes the recording, on its first open of the node.
pub(super) fn start() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the functions are in this library, which stays loaded as long as the process lives.
        unsafe {
            libc::atexit(at_exit);
            libc::pthread_atfork(Some(before_fork), Some(parent_after_fork), Some(child_after_fork));
        }
        install_signal_handlers();
    });
}
