//! Checks before every call: the driver must be initialized, the thread must be allowed to call it, and no test has
//! requested a failure.

use crate::codes::{NOT_INITIALIZED, NOT_PERMITTED, SUCCESS, is_sticky};
use crate::context::{self, Context};
use crate::settings::settings;
use crate::streams::{self, Stream};
use crate::{Answer, device};
use cuda_driver::{CuResult, CuStream};
use std::cell::Cell;
use std::sync::Arc;

/// Functions that are allowed before `cuInit`, inside a host function, and in the child of a process that used the
/// device.
const ALWAYS: [&str; 6] = [
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGetExportTable",
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
];

thread_local! {
    static HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// A call of a driver function.
pub struct Call {
    /// Whether the default stream is the calling thread's own stream.
    pub per_thread: bool,
}

impl Call {
    /// Returns the thread's context, which must have no error.
    pub fn context(&self) -> Answer<Arc<Context>> {
        let context = context::current()?;
        context.check()?;
        Ok(context)
    }

    /// Returns the thread's context, and a stream of it.
    pub fn stream(&self, handle: CuStream) -> Answer<(Arc<Context>, Arc<Stream>)> {
        let context = self.context()?;
        let stream = streams::find(&context, handle, self.per_thread)?;
        Ok((context, stream))
    }

    /// Returns the thread's context, and the default stream of this form of the function.
    pub fn default_stream(&self) -> Answer<(Arc<Context>, Arc<Stream>)> {
        self.stream(std::ptr::null_mut())
    }
}

/// Runs a call and returns its result code.
pub fn answer(function: &'static str, per_thread: bool, work: impl FnOnce(&Call) -> Answer) -> CuResult {
    if !ALWAYS.contains(&function) {
        if device::is_child() || (!device::is_initialized() && function != "cuInit") {
            return NOT_INITIALIZED;
        }
        if HOST_FUNCTION.try_with(Cell::get).unwrap_or(false) {
            return NOT_PERMITTED;
        }
        if let Some(code) = settings().due_call(function) {
            if is_sticky(code) {
                context::hurt_current(code);
            }
            return code;
        }
    }
    work(&Call { per_thread }).map_or_else(|code| code, |()| SUCCESS)
}

/// Runs a program's host function, which is not allowed to call the driver.
pub fn in_host_function(function: impl FnOnce()) {
    let _ = HOST_FUNCTION.try_with(|inside| inside.set(true));
    function();
    let _ = HOST_FUNCTION.try_with(|inside| inside.set(false));
}
