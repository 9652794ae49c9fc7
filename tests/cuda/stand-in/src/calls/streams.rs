//! Calls on streams.

use crate::call::{Call, HostFunction, in_host_function};
use crate::capture::{refuse_capturing, refuse_implicit};
use crate::codes::{INVALID_HANDLE, INVALID_VALUE, NOT_READY};
use crate::graphs::Work;
use crate::handles::pointer;
use crate::pointers::{get, give};
use crate::streams::STREAMS;
use crate::{Answer, capture, context, lock, streams};
use cuda_driver::{CuContext, CuStream, STREAM_NON_BLOCKING, STREAM_PER_THREAD};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::Mutex;

/// Highest priority; the lowest is 0.
pub const HIGHEST: i32 = -5;

/// Attributes of streams: the window of a cache, and the way of waits.
const STREAM_ATTRIBUTES: [u32; 2] = [1, 3];

/// Attributes that programs set, by the numbers of their streams.
static ATTRIBUTES: Mutex<BTreeMap<(u64, u32), [u64; 8]>> = Mutex::new(BTreeMap::new());

pub fn cuStreamCreate(call: &Call, to: *mut CuStream, flags: u32) -> Answer {
    cuStreamCreateWithPriority(call, to, flags, 0)
}

pub fn cuStreamCreateWithPriority(call: &Call, to: *mut CuStream, flags: u32, priority: i32) -> Answer {
    let context = call.context()?;
    if to.is_null() || flags & !STREAM_NON_BLOCKING != 0 {
        return Err(INVALID_VALUE);
    }
    let stream = streams::make(context.handle, flags, priority.clamp(HIGHEST, 0));
    give(to, pointer(stream.handle))
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
    context.synchronize_stream(&stream)
}

pub fn cuStreamQuery(call: &Call, stream: CuStream) -> Answer {
    let (context, stream) = call.stream(stream)?;
    refuse_capturing(&stream)?;
    refuse_implicit(&context, &stream)?;
    if context.is_done(&stream) {
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

pub fn cuStreamGetCtx(call: &Call, stream: CuStream, to: *mut CuContext) -> Answer {
    let (context, _) = context::find_stream_anywhere(call, stream)?;
    give(to, pointer(context.handle))
}

/// Sets an attribute, which has no effect here: a window of memory for a cache, or the way of waits.
pub fn cuStreamSetAttribute(call: &Call, stream: CuStream, attribute: u32, value: *const c_void) -> Answer {
    let (_, stream) = call.stream(stream)?;
    let value = get(value.cast::<[u64; 8]>())?;
    if !STREAM_ATTRIBUTES.contains(&attribute) {
        return Err(INVALID_VALUE);
    }
    lock(&ATTRIBUTES).insert((stream.id, attribute), value);
    Ok(())
}

pub fn cuStreamGetAttribute(call: &Call, stream: CuStream, attribute: u32, to: *mut c_void) -> Answer {
    let (_, stream) = call.stream(stream)?;
    if !STREAM_ATTRIBUTES.contains(&attribute) {
        return Err(INVALID_VALUE);
    }
    let value = lock(&ATTRIBUTES).get(&(stream.id, attribute)).copied();
    give(to.cast::<[u64; 8]>(), value.unwrap_or_default())
}

pub fn cuStreamCopyAttributes(call: &Call, to: CuStream, from: CuStream) -> Answer {
    let ((_, to), (_, from)) = (call.stream(to)?, call.stream(from)?);
    let mut attributes = lock(&ATTRIBUTES);
    for attribute in STREAM_ATTRIBUTES {
        if let Some(value) = attributes.get(&(from.id, attribute)).copied() {
            attributes.insert((to.id, attribute), value);
        }
    }
    Ok(())
}

pub fn cuLaunchHostFunc(call: &Call, stream: CuStream, function: *mut c_void, data: *mut c_void) -> Answer {
    let (context, stream) = call.stream(stream)?;
    let function = HostFunction::new(function, data).ok_or(INVALID_VALUE)?;
    if capture::capture_work(&context, &stream, || Work::Host(function))? {
        return Ok(());
    }
    context.submit(&stream, Vec::new(), move |_| {
        function.run();
        Ok(())
    });
    Ok(())
}

/// Calls a function in a stream. The mode says how the stream waits for it, and changes nothing else.
pub fn cuLaunchHostFunc_v2(
    call: &Call,
    stream: CuStream,
    function: *mut c_void,
    data: *mut c_void,
    _mode: u32,
) -> Answer {
    cuLaunchHostFunc(call, stream, function, data)
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
    context.submit(&stream, Vec::new(), move |_| {
        let at = std::ptr::with_exposed_provenance::<c_void>(function);
        // SAFETY: the program passed a function of this type, and keeps it until this call.
        let function =
            unsafe { std::mem::transmute::<*const c_void, unsafe extern "C" fn(CuStream, u32, *mut c_void)>(at) };
        let data = std::ptr::with_exposed_provenance_mut(data);
        // SAFETY: the arguments are the program's own.
        in_host_function(|| unsafe { function(pointer(handle), 0, data) });
        Ok(())
    });
    Ok(())
}
