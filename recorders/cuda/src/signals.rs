//! Signal masks of the recorder's threads: they take no signals, so that a program that waits for a signal gets it.

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
