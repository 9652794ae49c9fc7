//! Replacements of C library functions: each checks whether a call is about NVIDIA's driver, and forwards every call.
//!
//! Calls go to the next definition of the function, which may be that of another preloaded library. The recorder's own
//! calls, and those of such a library during a forwarded call, are not recorded ([`ReentryGuard`]).
#![allow(
    unsafe_code,
    reason = "functions in the place of the C library's are foreign calls on both sides; why each is sound stands at it"
)]

use std::cell::Cell;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Guard for a thread in the recorder: calls that are made inside are only forwarded.
struct ReentryGuard;

impl ReentryGuard {
    /// Enters the recorder. Returns `None` if this thread is already inside or is ending.
    fn enter() -> Option<Self> {
        let entered = INSIDE.try_with(|inside| !inside.replace(true));
        entered.unwrap_or(false).then_some(Self)
    }
}

impl Drop for ReentryGuard {
    fn drop(&mut self) {
        let _ = INSIDE.try_with(|inside| inside.set(false));
    }
}

mod ioctl;
mod mappings;
mod open;
mod process_exit;
mod signals;
