//! Calls about streams.

use super::{STREAMS, is_done, make, submit, synchronize};
use crate::Answer;
use crate::call::{Call, in_host_function};
use crate::codes::{INVALID_HANDLE, INVALID_VALUE, NOT_READY};
use crate::graphs::capture::{self, refuse_capturing, refuse_implicit};
use crate::graphs::nodes::Work;
use crate::pointers::give;
use cuda_driver::{CuStream, STREAM_NON_BLOCKING, STREAM_PER_THREAD};
use std::ffi::c_void;

/// Highest priority; the lowest is 0.
const HIGHEST: i32 = -5;

pub fn cuStreamCreate(call: &Call, to: *mut CuStream, flags: u32) -> Answer {
    cuStreamCreateWithPriority(call, to, flags, 0)
}

pub fn cuStreamCreateWithPriority(call: &Call, to: *mut CuStream, flags: u32, priority: i32) -> Answer {
    let context = call.context()?;
    if to.is_null() || flags & !STREAM_NON_BLOCKING != 0 {
        return Err(INVALID_VALUE);
    }
    let stream = make(&context, flags, priority.clamp(HIGHEST, 0));
    give(to, crate::handles::pointer(stream.handle))
}

/// Destroys a stream. Its submitted work still runs to completion.
pub fn cuStreamDestroy_v2(call: &Call, stream: CuStream) -> Answer {
    call.context()?;
    if stream as usize <= STREAM_PER_THREAD {
        return Err(INVALID_HANDLE);
    }
    STREAMS.take(stream).map(drop)
}

pub fn cuStreamSynchronize(call: &Call, stream: CuStream) -> Answer {
    let (context, stream) = call.stream(stream)?;
    refuse_capturing(&stream)?;
    refuse_implicit(&context, &stream)?;
    synchronize(&context, &stream)
}

pub fn cuStreamQuery(call: &Call, stream: CuStream) -> Answer {
    let (context, stream) = call.stream(stream)?;
    refuse_capturing(&stream)?;
    refuse_implicit(&context, &stream)?;
    if is_done(&context, &stream) {
        context.check()
    } else {
        Err(NOT_READY)
    }
}

pub fn cuStreamGetFlags(call: &Call, stream: CuStream, to: *mut u32) -> Answer {
    let (_, stream) = call.stream(stream)?;
    give(to, stream.flags)
}

pub fn cuStreamGetPriority(call: &Call, stream: CuStream, to: *mut i32) -> Answer {
    let (_, stream) = call.stream(stream)?;
    give(to, stream.priority)
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
        // SAFETY: the program passed a function of this type, and keeps it until this call.
        let function = unsafe { std::mem::transmute::<*const c_void, unsafe extern "C" fn(*mut c_void)>(at) };
        // SAFETY: the argument is the program's own.
        in_host_function(|| unsafe { function(std::ptr::with_exposed_provenance_mut(self.data)) });
    }
}

pub fn cuLaunchHostFunc(call: &Call, stream: CuStream, function: *mut c_void, data: *mut c_void) -> Answer {
    let (context, stream) = call.stream(stream)?;
    let function = HostFunction::new(function, data).ok_or(INVALID_VALUE)?;
    if capture::capture_work(&context, &stream, || Work::Host(function))? {
        return Ok(());
    }
    submit(&context, &stream, Vec::new(), move |_| {
        function.run();
        Ok(())
    });
    Ok(())
}

/// Calls a function with the stream and its result. The call cannot be part of a graph.
pub fn cuStreamAddCallback(
    call: &Call,
    handle: CuStream,
    function: *mut c_void,
    data: *mut c_void,
    flags: u32,
) -> Answer {
    let (context, stream) = call.stream(handle)?;
    refuse_capturing(&stream)?;
    refuse_implicit(&context, &stream)?;
    if function.is_null() || flags != 0 {
        return Err(INVALID_VALUE);
    }
    let (handle, function, data) = (handle as usize, function.expose_provenance(), data.expose_provenance());
    submit(&context, &stream, Vec::new(), move |_| {
        let at = std::ptr::with_exposed_provenance::<c_void>(function);
        // SAFETY: the program passed a function of this type, and keeps it until this call.
        let function =
            unsafe { std::mem::transmute::<*const c_void, unsafe extern "C" fn(CuStream, u32, *mut c_void)>(at) };
        let data = std::ptr::with_exposed_provenance_mut(data);
        // SAFETY: the arguments are the program's own.
        in_host_function(|| unsafe { function(crate::handles::pointer(handle), 0, data) });
        Ok(())
    });
    Ok(())
}
