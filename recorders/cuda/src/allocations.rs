//! Calls that take and give back memory of the device, and contexts that take theirs with them.

use crate::memory::{NotServed, Served, Until};
use crate::recorder::{Form, Recorder, When, is_ok, lock};
use crate::resolve::driver;
use cuda_driver::{
    CuContext, CuDevice, CuDevicePtr, CuEvent, CuMemPool, CuResult, CuStream, CudaError, EVENT_NO_TIMING,
    LOCATION_DEVICE, OUT_OF_MEMORY, STREAM_PER_THREAD, SUCCESS,
};
use cuda_session::{Begun, With};
use libc::c_void;
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
fn wait_for(context: Option<usize>) -> Result<(), CudaError> {
    let d = driver();
    let Some(context) = context else {
        // SAFETY: waits, as the driver's own function does before it gives memory back.
        return unsafe { d.cuCtxSynchronize() };
    };
    let mut before: CuContext = std::ptr::null_mut();
    // SAFETY: a context that is not destroyed, as far as is known; the thread's own comes back.
    unsafe {
        d.cuCtxPushCurrent_v2(context as CuContext)?;
        let waited = d.cuCtxSynchronize();
        let _ = d.cuCtxPopCurrent_v2(&raw mut before);
        waited
    }
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
            let leaving = lock(&r.memory).is_leaving() && r.captures.load(Ordering::Relaxed) == 0;
            if !leaving || wait_for(None).is_err() {
                return None;
            }
            let mut memory = lock(&r.memory);
            memory.reclaim(true);
            memory.take(r, bytes).ok()
        }
    }
}

/// An allocation that the driver serves.
fn own(r: &Recorder, call: Call<'_>, at: *mut CuDevicePtr, bytes: u64, served: Served) -> CuResult {
    let result = call();
    if is_ok(result) && !at.is_null() {
        // SAFETY: the driver has put the answer there.
        lock(&r.memory).served(unsafe { *at }, bytes, served);
    }
    result
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
    r.not_recorded(
        "managed memory",
        "the program has memory that host and device share: what the host writes there is not seen, and a replay has it as it was filled by calls alone",
    );
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
    taken_in_order(r, form, call, at, bytes, stream, true)
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
    let wanted = !lock(&r.memory).is_foreign(pool);
    taken_in_order(r, form, call, at, bytes, stream, wanted)
}

fn taken_in_order(
    r: &Recorder,
    form: Form,
    call: Call<'_>,
    at: *mut CuDevicePtr,
    bytes: usize,
    stream: CuStream,
    wanted: bool,
) -> CuResult {
    r.tell_device();
    let begun = r.session.begun();
    let bytes = bytes as u64;
    // Memory of a graph that is captured is the graph's own.
    let result = if r.captured(stream, form) == 0 {
        serve(r, call, at, bytes, wanted)
    } else {
        r.not_recorded(
            "memory of graphs",
            "the program has graphs that take memory by themselves: what it holds is not in the recording, and its addresses may not be free for a replay",
        );
        own(r, call, at, bytes, Served::OfGraph)
    };
    let address = address_of(at, result);
    let stream = r.stream(stream, form);
    told(r, begun, AllocationKind::TakeInOrder, address, bytes, stream, result);
    result
}

/// `cuMemPoolCreate`: memory of pools that other processes share, or that is not the device's, is the driver's to serve.
///
/// # Safety
/// The form is the program's, which the driver reads too.
pub(crate) unsafe fn pool_create(
    r: &Recorder,
    call: Call<'_>,
    pool: *mut CuMemPool,
    properties: *const [u32; 4],
) -> CuResult {
    let result = call();
    if is_ok(result) && !pool.is_null() && !properties.is_null() {
        // SAFETY: the caller's promise: a form that begins with these four words, and the driver's answer.
        let ([_, shared, kind, device], pool) = unsafe { (*properties, *pool) };
        let mut memory = lock(&r.memory);
        let here = crate::memory::here().map_or(0, |(_, device)| device);
        let foreign = shared != 0 || kind != LOCATION_DEVICE || device != here as u32;
        memory.set_foreign(pool, foreign);
        drop(memory);
        if shared != 0 {
            r.not_recorded(
                "shared memory",
                "the program has pools of memory that other processes can share: what these write is not seen",
            );
        }
    }
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
        // Nobody waits for the lock while this waits for the device.
        drop(memory);
        let other = crate::memory::here().map_or(0, |(here, _)| here) != context;
        match wait_for((other && context != 0).then_some(context)) {
            Ok(()) => {
                let mut memory = lock(&r.memory);
                if !other {
                    memory.reclaim(true);
                }
                let given = memory.give(at);
                drop(memory);
                r.complete_all();
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
        Some((bytes, _)) if r.captured(stream, form) == 0 => (leave(r, form, at, stream), bytes),
        _ => {
            let bytes = lock(&r.memory).unserved(at).unwrap_or(0);
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
fn leave(r: &Recorder, form: Form, at: u64, stream: CuStream) -> CuResult {
    let d = driver();
    let real = match (stream as usize, form) {
        (0, Form::PerThread) => STREAM_PER_THREAD as CuStream,
        _ => stream,
    };
    let mut event: CuEvent = std::ptr::null_mut();
    // SAFETY: a place for the answer, and a stream of the program's.
    let put = unsafe {
        d.cuEventCreate(&raw mut event, EVENT_NO_TIMING).and_then(|()| {
            d.cuEventRecord(event, real).inspect_err(|_| {
                let _ = d.cuEventDestroy_v2(event);
            })
        })
    };
    match put {
        Ok(()) => {
            let mut memory = lock(&r.memory);
            memory.reclaim(false);
            memory.leave(at, Until::Event(event as usize));
            SUCCESS
        }
        Err(e) => e.result().unwrap_or(OUT_OF_MEMORY),
    }
}

/// `cuCtxEnablePeerAccess`: functions of this context may reach memory of another one.
pub(crate) fn reach_peer(r: &Recorder, call: Call<'_>, peer: CuContext) -> CuResult {
    let result = call();
    let here = crate::memory::here();
    let (d, mut owner, mut popped): (_, CuDevice, CuContext) = (driver(), 0, std::ptr::null_mut());
    // SAFETY: a context that the program has just named; the thread's own comes back.
    let asked = is_ok(result)
        && unsafe {
            d.cuCtxPushCurrent_v2(peer).is_ok() && {
                let asked = d.cuCtxGetDevice(&raw mut owner).is_ok();
                let _ = d.cuCtxPopCurrent_v2(&raw mut popped);
                asked
            }
        };
    if let Some((_, device)) = here.filter(|_| asked) {
        lock(&r.memory).let_reach(device, owner);
    }
    result
}

/// A context is destroyed.
pub(crate) fn context_destroy(r: &Recorder, call: Call<'_>, context: CuContext) -> CuResult {
    let result = call();
    if is_ok(result) {
        context_gone(r, context as usize);
    }
    result
}

/// The context that the runtime uses is reset.
pub(crate) fn context_reset(r: &Recorder, call: Call<'_>, device: CuDevice) -> CuResult {
    let d = driver();
    let mut context: CuContext = std::ptr::null_mut();
    // Asking makes the context where there is none: not of a device of which nothing is known.
    let known = lock(&r.memory).knows(device);
    // SAFETY: asks which one it is, and leaves it retained as often as it was.
    let asked = known
        && unsafe {
            d.cuDevicePrimaryCtxRetain(&raw mut context, device)
                .and_then(|()| d.cuDevicePrimaryCtxRelease_v2(device))
                .is_ok()
        };
    let result = call();
    if is_ok(result) && asked {
        context_gone(r, context as usize);
    }
    result
}

/// A context is gone: what was awaited is taken up as it stands, and what was made in it is no more.
fn context_gone(r: &Recorder, context: usize) {
    r.complete_all();
    lock(&r.snapshots).forget_context(context);
    lock(&r.memory).forget_context(context);
    lock(&r.code).forget_context(context);
    r.changed();
}

/// Memory of the host: pinned, or registered.
pub(crate) fn alloc_host(r: &Recorder, call: Call<'_>, at: *mut *mut c_void, bytes: usize) -> CuResult {
    let begun = r.session.begun();
    let result = call();
    let address = if is_ok(result) && !at.is_null() {
        // SAFETY: the driver has put the answer there.
        (unsafe { *at }) as u64
    } else {
        0
    };
    pinned(r, begun, address, bytes, result);
    result
}

/// `cuMemHostRegister`.
pub(crate) fn register_host(r: &Recorder, call: Call<'_>, at: *mut c_void, bytes: usize) -> CuResult {
    let begun = r.session.begun();
    let result = call();
    pinned(r, begun, if is_ok(result) { at as u64 } else { 0 }, bytes, result);
    result
}

fn pinned(r: &Recorder, begun: Begun, at: u64, bytes: usize, result: CuResult) {
    if at != 0 {
        lock(&r.memory).pinned.insert(at, bytes as u64);
    }
    let kind = AllocationKind::TakeHost;
    told(r, begun, kind, at, bytes as u64, OrderRow::NONE, result);
}

/// `cuMemFreeHost` and `cuMemHostUnregister`.
pub(crate) fn free_host(r: &Recorder, call: Call<'_>, at: *mut c_void) -> CuResult {
    let begun = r.session.begun();
    // What was to come there is taken up as it stands.
    r.complete_all();
    let bytes = lock(&r.memory).pinned.remove(&(at as u64)).unwrap_or(0);
    let result = call();
    let kind = AllocationKind::GiveHost;
    told(r, begun, kind, at as u64, bytes, OrderRow::NONE, result);
    result
}
