//! A call of a driver function, and host functions, which are not allowed to call the driver.

use std::cell::Cell;
use std::ffi::c_void;

thread_local! {
    static HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// A call of a driver function.
pub struct Call {
    /// Whether the default stream is the calling thread's own stream.
    pub per_thread: bool,
}

/// Runs a program's host function, which is not allowed to call the driver.
pub fn in_host_function(function: impl FnOnce()) {
    let _ = HOST_FUNCTION.try_with(|inside| inside.set(true));
    function();
    let _ = HOST_FUNCTION.try_with(|inside| inside.set(false));
}

/// Returns whether this thread runs a program's host function.
pub fn is_in_host_function() -> bool {
    HOST_FUNCTION.try_with(Cell::get).unwrap_or(false)
}

/// A host function of the program, with its data.
#[derive(Clone, Copy)]
pub struct HostFunction {
    function: usize,
    data: usize,
}

impl HostFunction {
    /// Returns the host function, or `None` for a null pointer.
    pub fn new(function: *mut c_void, data: *mut c_void) -> Option<Self> {
        (!function.is_null()).then(|| Self {
            function: function.expose_provenance(),
            data: data.expose_provenance(),
        })
    }

    /// Calls the function.
    pub fn run(self) {
        let at = std::ptr::with_exposed_provenance::<c_void>(self.function);
        // SAFETY: the program passed it as a function of this type, and keeps it until it is called.
        let function = unsafe { std::mem::transmute::<*const c_void, unsafe extern "C" fn(*mut c_void)>(at) };
        // SAFETY: the argument is the program's own.
        in_host_function(|| unsafe { function(std::ptr::with_exposed_provenance_mut(self.data)) });
    }
}
