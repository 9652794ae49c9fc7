//! Signals: those that end the process, and a thread that takes none.

use libc::{c_int, c_void, siginfo_t};

/// A handler of a signal. It takes no locks and allocates no memory.
pub(crate) type Handler = unsafe extern "C" fn(c_int, *mut siginfo_t, *mut c_void);

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

/// Installs `handler` for signals that end the process and that the program does not handle. The program can replace
/// them later. Existing handlers stay, because their effect is unknown.
pub(crate) fn handle_ending_signals(handler: Handler) {
    for signal in ENDING {
        // SAFETY: the actions are complete; the handler is in this library, which stays loaded, and takes no locks and
        // no memory.
        unsafe {
            let mut was: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, std::ptr::null(), &raw mut was) != 0 || was.sa_sigaction != libc::SIG_DFL {
                continue;
            }
            let mut own: libc::sigaction = std::mem::zeroed();
            own.sa_sigaction = handler as usize;
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
