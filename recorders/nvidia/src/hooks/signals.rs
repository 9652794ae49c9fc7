//! Handlers, masks and stacks of signals: the recorder's handler of faults stays, no thread blocks its signals, and each has
//! a stack for it.

use crate::next_function::{real, real_sigaction};
use crate::signals::{set_program_action, without_faults};
use libc::{c_int, sigaction as SigAction, sighandler_t, sigset_t, stack_t};

/// Replaces the C library's function.
///
/// # Safety
/// The same as the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(signal: c_int, new: *const SigAction, old: *mut SigAction) -> c_int {
    // SAFETY: the pointer is null or the caller's structure.
    let action = unsafe { new.as_ref() };
    let Some(before) = set_program_action(signal, action) else {
        return real_sigaction(signal, new, old);
    };
    // SAFETY: the pointer is null or the caller's structure.
    if let Some(old) = unsafe { old.as_mut() } {
        *old = before;
    }
    0
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn signal(number: c_int, handler: sighandler_t) -> sighandler_t {
    type Signal = unsafe extern "C" fn(c_int, sighandler_t) -> sighandler_t;
    // SAFETY: the structure holds numbers, for which zero is a value.
    let mut action: SigAction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = libc::SA_RESTART;
    match set_program_action(number, Some(&action)) {
        Some(before) => before.sa_sigaction,
        None => real!("signal", Signal, libc::SIG_ERR, number, handler),
    }
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaltstack(new: *const stack_t, old: *mut stack_t) -> c_int {
    // SAFETY: the arguments are the caller's.
    unsafe { crate::signal_stack::set(new, old) }
}

macro_rules! masks {
    ($($name:ident($text:literal, $without:expr);)+) => { $(
        /// Replaces the C library's function.
        ///
        /// # Safety
        /// The same as the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int {
            type Mask = unsafe extern "C" fn(c_int, *const sigset_t, *mut sigset_t) -> c_int;
            // SAFETY: the pointer is null or the caller's set.
            let changed = unsafe { set.as_ref() }.filter(|_| how != libc::SIG_UNBLOCK).map(without_faults);
            let set = changed.as_ref().map_or(set, std::ptr::from_ref);
            real!($text, Mask, $without, how, set, old)
        }
    )+ };
}

masks! {
    sigprocmask("sigprocmask", -1);
    pthread_sigmask("pthread_sigmask", libc::ENOSYS);
}
