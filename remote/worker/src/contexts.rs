//! The current context of a worker's thread: that of the program's thread whose call it plays.
#![allow(unsafe_code, reason = "calls of the driver")]

use crate::call_error::CallResult;
use crate::session::Scope;
use remote_calls::HandleNumber;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    /// The context that this thread has set, and the state of [`CHANGES`] then; `None` if it is not known.
    static CURRENT: Cell<Option<(HandleNumber, u64)>> = const { Cell::new(None) };
}

/// Number of calls that ended contexts or gave one new life: what a thread has set before can be gone.
static CHANGES: AtomicU64 = AtomicU64::new(0);

/// Makes the caller's context this thread's current one.
///
/// # Errors
/// If the context is unknown, or the driver refuses it.
pub fn enter(scope: &Scope<'_>) -> CallResult {
    let wanted = (scope.context, CHANGES.load(Ordering::Relaxed));
    if CURRENT.get() == Some(wanted) {
        return Ok(());
    }
    let context = scope.session.handles.get(scope.context)?;
    let context = std::ptr::with_exposed_provenance_mut(context as usize);
    // SAFETY: the handle is the driver's, or null.
    unsafe { scope.session.driver.cuCtxSetCurrent(context)? };
    CURRENT.set(Some(wanted));
    Ok(())
}

/// Removes the context that the driver made current while it created it: only requests say what is current.
pub fn leave_created(scope: &Scope<'_>) {
    let mut context = std::ptr::null_mut();
    // SAFETY: the pointer is valid for the result. A failure means that nothing is current.
    let _ = unsafe { scope.session.driver.cuCtxPopCurrent_v2(&raw mut context) };
    CURRENT.set(None);
}

/// Notes that a library may have made a context current, where the caller has none: NVIDIA's runtime does so.
pub fn forget_thread(scope: &Scope<'_>) {
    if scope.context == HandleNumber::NULL {
        CURRENT.set(None);
    }
}

/// Forgets which context is current on every thread, after a call that ends contexts or gives one new life.
pub fn forget() {
    CHANGES.fetch_add(1, Ordering::Relaxed);
}

/// Returns whether the primary context of a device has state: it was not reset, and not released by all its users.
pub fn is_primary_active(scope: &Scope<'_>, device: Option<i32>) -> bool {
    let (mut flags, mut active) = (0, 0);
    let Some(device) = device else { return false };
    // SAFETY: the pointers are valid for the results.
    let state = unsafe {
        scope
            .session
            .driver
            .cuDevicePrimaryCtxGetState(device, &raw mut flags, &raw mut active)
    };
    state.is_ok() && active != 0
}
