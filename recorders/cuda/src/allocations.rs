//! Calls that take and give back memory of the device, and contexts that take theirs with them.

use crate::leaving::Until;
use crate::memory::{NotServed, Served};
use crate::pools;
use crate::recorder::{Form, Recorder, When, is_ok, lock};
use crate::resolve::driver;
use cuda_driver::{
    CuContext, CuDevicePtr, CuEvent, CuMemPool, CuResult, CuStream, CudaError, EVENT_NO_TIMING, INVALID_HANDLE,
    OUT_OF_MEMORY, POINTER_MANAGED, SUCCESS,
};
use cuda_session::{Begun, With};
use std::sync::atomic::Ordering;
use trace_core::recording::{AllocationKind, AllocationRow, CallEvent, OrderRow};

type Call<'a> = &'a mut dyn FnMut() -> CuResult;

pub(crate) fn told(
    r: &Recorder,
    begun: Begun,
    kind: AllocationKind,
    at: u64,
    bytes: u64,
    stream: u32,
    result: CuResult,
) {
    let row = AllocationRow {
        at,
        bytes,
        kind: kind as u32,
        stream,
        result,
        took: begun.took(),
    };
    r.hand(begun, CallEvent::Allocation(row), With::Nothing);
}

/// Waits for what a context has; `None`: for the calling thread's.
pub(crate) fn wait_for(context: Option<usize>) -> Result<(), CudaError> {
    let d = driver();
    let Some(context) = context else {
        // SAFETY: waits, as the driver's own function does before it gives memory back.
        return unsafe { d.cuCtxSynchronize() };
    };
    // SAFETY: as above.
    within(context, || unsafe { d.cuCtxSynchronize() })
}

/// Does something with a context as the thread's.
fn within<T>(context: usize, work: impl FnOnce() -> Result<T, CudaError>) -> Result<T, CudaError> {
    let d = driver();
    let mut before: CuContext = std::ptr::null_mut();
    // SAFETY: a context that is not destroyed, as far as is known.
    unsafe { d.cuCtxPushCurrent_v2(context as CuContext)? };
    let done = work();
    // SAFETY: the thread's own comes back.
    let _ = unsafe { d.cuCtxPopCurrent_v2(&raw mut before) };
    done
}

/// `bytes` bytes from the window: their address. `None`: the driver shall serve them.
fn take(r: &Recorder, bytes: u64) -> Option<u64> {
    if bytes == 0 {
        return None;
    }
    let taken = lock(&r.memory).take(r, bytes);
    match taken {
        Ok(at) => Some(at),
        Err(NotServed::NoWindow) => None,
        Err(NotServed::Refused) => {
            // What leaves may be enough.
            let here = crate::memory::context();
            let memory = lock(&r.memory);
            let (leaving, idle) = (memory.is_leaving(), memory.idle_in(here));
            drop(memory);
            if !leaving || r.captures.load(Ordering::Relaxed) > 0 || wait_for(None).is_err() {
                return None;
            }
            let mut memory = lock(&r.memory);
            memory.reclaim(r, &idle);
            memory.take(r, bytes).ok()
        }
    }
}

/// An allocation that the driver serves.
fn own(r: &Recorder, call: Call<'_>, at: *mut CuDevicePtr, bytes: u64, served: Served) -> CuResult {
    let result = call();
    if is_ok(result) && !at.is_null() {
        // SAFETY: the driver has put the answer there.
        let address = unsafe { *at };
        // Of pools of every origin the driver knows whether the host reaches their memory.
        let served = match served {
            Served::Plain if is_managed(address) => Served::Managed,
            served => served,
        };
        if served == Served::Managed {
            crate::shared::note(address, bytes);
        }
        lock(&r.memory).served(address, bytes, served);
    }
    result
}

/// Whether host and device share the memory at an address, as the driver says.
fn is_managed(at: u64) -> bool {
    let mut managed = 0u32;
    // SAFETY: a question with a place for the answer, which is of four bytes.
    let asked = unsafe { driver().cuPointerGetAttribute((&raw mut managed).cast(), POINTER_MANAGED, at) };
    asked.is_ok() && managed != 0
}

/// An allocation from the window, or by the driver where that has none: what is answered.
fn serve(r: &Recorder, call: Call<'_>, at: *mut CuDevicePtr, bytes: u64, wanted: bool) -> CuResult {
    let served = if at.is_null() || !wanted { None } else { take(r, bytes) };
    match served {
        Some(address) => {
            // SAFETY: the program's place for the answer, which is not null.
            unsafe { *at = address };
            SUCCESS
        }
        None => {
            let result = own(r, call, at, bytes, Served::Plain);
            let first = lock(&r.memory).device();
            if is_ok(result)
                && first >= 0
                && let Some((_, device)) = crate::memory::here().filter(|(_, device)| *device != first)
            {
                r.not_recorded(
                    "another device",
                    format!("the program takes memory of device {device} beside that of device {first}: a replay does all of it on one device"),
                );
            }
            if is_ok(result) && wanted && lock(&r.memory).device() >= 0 && bytes > 0 {
                r.not_recorded(
                    "window",
                    "some memory was not served from the window, which had no room or no memory for it or is of another device: a replay may not find its addresses free",
                );
            }
            result
        }
    }
}

/// The address that an allocation has, where it has one.
fn address_of(at: *mut CuDevicePtr, result: CuResult) -> u64 {
    if is_ok(result) && !at.is_null() {
        // SAFETY: the place holds the answer where the call succeeded.
        unsafe { *at }
    } else {
        0
    }
}

/// `cuMemAlloc`.
pub(crate) fn alloc(r: &Recorder, _form: Form, call: Call<'_>, at: *mut CuDevicePtr, bytes: usize) -> CuResult {
    r.tell_device();
    let begun = r.session.begun();
    let bytes = bytes as u64;
    let result = serve(r, call, at, bytes, true);
    let address = address_of(at, result);
    told(r, begun, AllocationKind::Take, address, bytes, OrderRow::NONE, result);
    result
}

/// `cuMemAllocPitch`.
#[allow(clippy::too_many_arguments, reason = "those of the driver's function")]
pub(crate) fn alloc_pitch(
    r: &Recorder,
    _form: Form,
    call: Call<'_>,
    at: *mut CuDevicePtr,
    pitch: *mut usize,
    width: usize,
    height: usize,
    _element: u32,
) -> CuResult {
    r.tell_device();
    let begun = r.session.begun();
    // Drivers round rows up to this much.
    let row = width.checked_next_multiple_of(512);
    let bytes = row.and_then(|r| r.checked_mul(height)).filter(|b| *b > 0);
    let bytes = bytes.unwrap_or(0) as u64;
    let mut asked = false;
    let mut by_driver = || {
        asked = true;
        call()
    };
    let result = serve(r, &mut by_driver, at, bytes, bytes > 0 && !pitch.is_null());
    if is_ok(result)
        && !asked
        && let Some(row) = row
    {
        // SAFETY: the program's place for the answer, which is not null where the window serves.
        unsafe { *pitch = row };
    }
    let address = address_of(at, result);
    told(r, begun, AllocationKind::Take, address, bytes, OrderRow::NONE, result);
    result
}

/// `cuMemAllocManaged`.
pub(crate) fn alloc_managed(
    r: &Recorder,
    _form: Form,
    call: Call<'_>,
    at: *mut CuDevicePtr,
    bytes: usize,
    _flags: u32,
) -> CuResult {
    r.tell_device();
    let begun = r.session.begun();
    let result = own(r, call, at, bytes as u64, Served::Managed);
    let address = address_of(at, result);
    let kind = AllocationKind::TakeManaged;
    told(r, begun, kind, address, bytes as u64, OrderRow::NONE, result);
    result
}

/// `cuMemAllocAsync`.
pub(crate) fn alloc_async(
    r: &Recorder,
    form: Form,
    call: Call<'_>,
    at: *mut CuDevicePtr,
    bytes: usize,
    stream: CuStream,
) -> CuResult {
    taken_in_order(r, form, call, at, bytes, stream, None)
}

/// `cuMemAllocFromPoolAsync`.
pub(crate) fn alloc_from_pool(
    r: &Recorder,
    form: Form,
    call: Call<'_>,
    at: *mut CuDevicePtr,
    bytes: usize,
    pool: CuMemPool,
    stream: CuStream,
) -> CuResult {
    taken_in_order(r, form, call, at, bytes, stream, Some(pool))
}

fn taken_in_order(
    r: &Recorder,
    form: Form,
    call: Call<'_>,
    at: *mut CuDevicePtr,
    bytes: usize,
    stream: CuStream,
    pool: Option<CuMemPool>,
) -> CuResult {
    r.tell_device();
    let begun = r.session.begun();
    let bytes = bytes as u64;
    // Memory of a graph that is captured is the graph's own.
    let mut kind = AllocationKind::TakeInOrder;
    let result = if r.captured(stream, form) == 0 {
        let may = pools::may_serve(r, pool);
        let result = serve(r, call, at, bytes, may);
        let address = address_of(at, result);
        if !may && address != 0 {
            match lock(&r.memory).shared_at(address) {
                Some(range) if range.managed => kind = AllocationKind::TakeManaged,
                _ => pools::served_by_driver(r),
            }
        }
        result
    } else {
        r.not_recorded(
            "memory of graphs",
            "the program has graphs that take memory by themselves: what it holds is not in the recording, and its addresses may not be free for a replay",
        );
        own(r, call, at, bytes, Served::OfGraph)
    };
    let address = address_of(at, result);
    let stream = r.stream(stream, form);
    told(r, begun, kind, address, bytes, stream, result);
    result
}

/// `cuMemFree`.
pub(crate) fn free(r: &Recorder, _form: Form, call: Call<'_>, at: CuDevicePtr) -> CuResult {
    let begun = r.session.begun();
    let mut memory = lock(&r.memory);
    let Some((bytes, context)) = memory.piece(at) else {
        let bytes = memory.unserved(at);
        drop(memory);
        let result = call();
        if at != 0 && r.is_inside() {
            r.all_done(Some(result));
            lock(&r.shared).forget(at);
            let bytes = bytes.unwrap_or(0);
            told(r, begun, AllocationKind::Give, at, bytes, OrderRow::NONE, result);
        }
        return result;
    };
    let result = if r.captures.load(Ordering::Relaxed) > 0 {
        // A wait would end the capture: the memory goes with the next one that is allowed.
        memory.leave(at, Until::Idle);
        SUCCESS
    } else {
        let idle = memory.idle_in(context);
        // Nobody waits for the lock while this waits for the device.
        drop(memory);
        let other = crate::memory::context() != context;
        match wait_for((other && context != 0).then_some(context)) {
            Ok(()) => {
                let mut memory = lock(&r.memory);
                memory.reclaim(r, &idle);
                let given = memory.give(at);
                drop(memory);
                r.context_done(context);
                given.err().and_then(|e| e.result()).unwrap_or(SUCCESS)
            }
            Err(e) => e.result().unwrap_or(SUCCESS),
        }
    };
    told(r, begun, AllocationKind::Give, at, bytes, OrderRow::NONE, result);
    result
}

/// `cuMemFreeAsync`: the memory goes when the stream has come so far.
pub(crate) fn free_async(r: &Recorder, form: Form, call: Call<'_>, at: CuDevicePtr, stream: CuStream) -> CuResult {
    let begun = r.session.begun();
    let piece = lock(&r.memory).piece(at);
    let (result, bytes) = match piece {
        Some((bytes, context)) if r.captured(stream, form) == 0 => (leave(r, form, at, context, stream), bytes),
        _ => {
            let bytes = lock(&r.memory).unserved(at).unwrap_or(0);
            lock(&r.shared).forget(at);
            (call(), bytes)
        }
    };
    if r.takes(When::Work) {
        let stream = r.stream(stream, form);
        told(r, begun, AllocationKind::GiveInOrder, at, bytes, stream, result);
    }
    result
}

/// Memory of the window goes when a stream has done what it has now.
fn leave(r: &Recorder, form: Form, at: u64, context: usize, stream: CuStream) -> CuResult {
    let real = Recorder::real_stream(stream, form);
    let until = match put_event(real) {
        Ok(event) => Until::Event(event),
        // The stream may be of another context than the calling thread's: of the memory's own, most likely.
        Err(e) if e.result() == Some(INVALID_HANDLE) && context != crate::memory::context() => {
            within(context, || put_event(real)).map_or(Until::Gone, Until::Event)
        }
        Err(e) => return e.result().unwrap_or(OUT_OF_MEMORY),
    };
    let mut memory = lock(&r.memory);
    memory.reclaim(r, &[]);
    memory.leave(at, until);
    SUCCESS
}

/// Puts an event of the recorder's own behind what a stream has.
fn put_event(stream: CuStream) -> Result<usize, CudaError> {
    let d = driver();
    let mut event: CuEvent = std::ptr::null_mut();
    // SAFETY: a place for the answer, and a stream of the program's.
    unsafe {
        d.cuEventCreate(&raw mut event, EVENT_NO_TIMING)?;
        d.cuEventRecord(event, stream).inspect_err(|_| {
            let _ = d.cuEventDestroy_v2(event);
        })?;
    }
    Ok(event as usize)
}
