//! What every call does before its own work: the driver has to be begun, the thread may call it, and no test wants the
//! call to fail.

use crate::Answer;
use crate::codes::{NOT_INITIALIZED, NOT_PERMITTED, SUCCESS};
use crate::context::{self, Context};
use crate::streams::{self, Stream};
use crate::{device, fail};
use cuda_driver::{CuResult, CuStream};
use std::cell::Cell;
use std::sync::Arc;

/// Functions that answer before `cuInit`, and inside of a host function.
const ALWAYS: [&str; 6] =
    ["cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString", "cuGetProcAddress", "cuGetProcAddress_v2"];
/// Further ones that a host function may call.
const IN_HOST_FUNCTION: [&str; 1] = ["cuEventQuery"];

thread_local! {
    static HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// A call of one of the driver's functions.
pub struct Call {
    /// The default stream is the thread's own.
    pub per_thread: bool,
}

impl Call {
    /// The thread's context, which has to be in order.
    pub fn context(&self) -> Answer<Arc<Context>> {
        let context = context::current()?;
        context.check()?;
        Ok(context)
    }

    /// The thread's context, and a stream of it.
    pub fn stream(&self, handle: CuStream) -> Answer<(Arc<Context>, Arc<Stream>)> {
        let context = self.context()?;
        let stream = streams::find(&context, handle, self.per_thread)?;
        Ok((context, stream))
    }
}

/// Makes a call.
pub fn answer(function: &'static str, per_thread: bool, work: impl FnOnce(&Call) -> Answer) -> CuResult {
    let always = ALWAYS.contains(&function);
    if !always && !device::begun() {
        return NOT_INITIALIZED;
    }
    let inside = HOST_FUNCTION.try_with(Cell::get).unwrap_or(false);
    if inside && !always && !IN_HOST_FUNCTION.contains(&function) {
        return NOT_PERMITTED;
    }
    if let Some(code) = fail::due(function) {
        return code;
    }
    work(&Call { per_thread }).map_or_else(|code| code, |()| SUCCESS)
}

/// Runs a program's host function, which may not call the driver.
pub fn in_host_function(function: impl FnOnce()) {
    let _ = HOST_FUNCTION.try_with(|inside| inside.set(true));
    function();
    let _ = HOST_FUNCTION.try_with(|inside| inside.set(false));
}
