//! Signals of the process and threads of the recorder: these take none, so that a program that waits for one itself gets
//! it.

/// Makes something while this thread takes no signals: a thread that begins meanwhile takes none ever.
pub(crate) fn without_signals<T>(make: impl FnOnce() -> T) -> T {
    // SAFETY: sets of signals are whole, and of this function; a mask is changed of this thread alone.
    let was = unsafe {
        let (mut all, mut was): (libc::sigset_t, libc::sigset_t) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        let changed = libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut was) == 0;
        changed.then_some(was)
    };
    let made = make();
    if let Some(was) = was {
        // SAFETY: the mask that this thread had.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const was, std::ptr::null_mut()) };
    }
    made
}
