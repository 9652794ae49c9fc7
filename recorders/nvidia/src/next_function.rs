//! The next definitions of functions that this library replaces: those of the C library, or of another preloaded library.
#![allow(unsafe_code, reason = "functions that are found by name are foreign calls")]

use libc::{c_char, c_int, c_void, sigaction as SigAction};
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// Returns the C library's `dlsym`. A recorder of the program's API may replace it, and the loader finds the next
/// definition by the caller.
fn real_dlsym() -> Option<Dlsym> {
    static AT: AtomicUsize = AtomicUsize::new(0);
    let mut at = AT.load(Ordering::Relaxed);
    if at == 0 {
        // SAFETY: both strings end in a zero; the loader returns null if there is no such function.
        at = unsafe { libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), c"GLIBC_2.2.5".as_ptr()) } as usize;
        AT.store(at, Ordering::Relaxed);
    }
    // SAFETY: the C library's function of this name has this signature.
    (at != 0).then(|| unsafe { std::mem::transmute::<usize, Dlsym>(at) })
}

/// Returns the next function of a name after this library's own, or null if there is none.
pub(crate) fn next(at: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = at.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    let Some(dlsym) = real_dlsym() else {
        return std::ptr::null_mut();
    };
    // SAFETY: the name ends in a zero.
    let found = unsafe { dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    at.store(found, Ordering::Relaxed);
    found
}

/// Calls the next function of a name: `real!("close", fn(c_int) -> c_int, -1, fd)`; the third argument is the result if
/// there is none.
macro_rules! real {
    ($name:literal, $kind:ty, $without:expr $(, $arg:expr)*) => {{
        static AT: std::sync::atomic::AtomicPtr<libc::c_void> =
            std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());
        let name = const {
            match std::ffi::CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => c"",
            }
        };
        let found = $crate::next_function::next(&AT, name);
        if found.is_null() {
            $crate::system::set_errno(libc::ENOSYS);
            $without
        } else {
            // SAFETY: the function of this name has this type, and the arguments are the caller's.
            unsafe { std::mem::transmute::<*mut libc::c_void, $kind>(found)($($arg),*) }
        }
    }};
}
#[cfg(not(test))]
pub(crate) use real;

/// Calls the next `sigaction`.
pub(crate) fn real_sigaction(signal: c_int, new: *const SigAction, old: *mut SigAction) -> c_int {
    type Function = unsafe extern "C" fn(c_int, *const SigAction, *mut SigAction) -> c_int;
    real!("sigaction", Function, -1, signal, new, old)
}
