//! Calls that allocate and free device memory, and contexts that take their memory with them.

use super::{Call, pools};
use crate::contexts::{current_context, current_context_and_device, wait_for_context, with_context};
use crate::driver::{driver, is_ok};
use crate::memory::{DriverMemoryKind, FreeCondition, WindowRefusal};
use crate::recorder::Recorder;
use crate::trace::{Form, When, lock};
use cuda_driver::{
    CuDevicePtr, CuEvent, CuMemPool, CuResult, CuStream, CudaError, EVENT_NO_TIMING, INVALID_HANDLE, OUT_OF_MEMORY,
    POINTER_MANAGED, SUCCESS,
};
use trace_core::GpuVa;
use trace_core::recording::{AllocationKind, OrderRow};

/// Allocates `bytes` bytes from the window and returns their address. Returns `None` if the driver must serve them.
fn allocate_in_window(r: &Recorder, bytes: u64) -> Option<GpuVa> {
    if bytes == 0 {
        return None;
    }
    let taken = lock(&r.memory).take(&r.trace, bytes);
    match taken {
        Ok(at) => Some(at),
        Err(WindowRefusal::NoWindow) => None,
        Err(WindowRefusal::Refused) => {
            // The memory that deferred frees release can be enough.
            let here = current_context();
            let memory = lock(&r.memory);
            let (leaving, idle) = (memory.has_deferred_frees(), memory.list_idle(here));
            drop(memory);
            if !leaving || r.trace.is_capturing() || wait_for_context(None).is_err() {
                return None;
            }
            let mut memory = lock(&r.memory);
            memory.reclaim(&r.trace, &idle);
            memory.take(&r.trace, bytes).ok()
        }
    }
}

/// Serves an allocation by the driver.
fn allocate_by_driver(
    r: &Recorder,
    call: Call<'_>,
    at: *mut CuDevicePtr,
    bytes: u64,
    served: DriverMemoryKind,
) -> CuResult {
    let result = call();
    if is_ok(result) && !at.is_null() {
        // SAFETY: the driver has written the answer.
        let address = GpuVa::new(unsafe { *at });
        // The driver knows for pools of every origin whether the host can access their memory.
        let served = match served {
            DriverMemoryKind::Plain if is_managed(address) => DriverMemoryKind::Managed,
            served => served,
        };
        if served == DriverMemoryKind::Managed {
            crate::shared_memory::add_range(address, bytes);
        }
        lock(&r.memory).add_driver_allocation(address, bytes, served);
    }
    result
}

/// Returns whether host and device share the memory at an address, according to the driver.
fn is_managed(at: GpuVa) -> bool {
    let mut managed = 0u32;
    // SAFETY: the query has a valid pointer for the answer, which is four bytes.
    let asked = unsafe { driver().cuPointerGetAttribute((&raw mut managed).cast(), POINTER_MANAGED, at.get()) };
    asked.is_ok() && managed != 0
}

/// Serves an allocation from the window, or by the driver if the window has no room. Returns the program's result.
fn serve(r: &Recorder, call: Call<'_>, at: *mut CuDevicePtr, bytes: u64, wanted: bool) -> CuResult {
    let served = if at.is_null() || !wanted {
        None
    } else {
        allocate_in_window(r, bytes)
    };
    match served {
        Some(address) => {
            // SAFETY: the program's pointer for the answer is not null.
            unsafe { *at = address.get() };
            SUCCESS
        }
        None => {
            let result = allocate_by_driver(r, call, at, bytes, DriverMemoryKind::Plain);
            let first = lock(&r.memory).device();
            if is_ok(result)
                && first >= 0
                && let Some((_, device)) = current_context_and_device().filter(|(_, device)| *device != first)
            {
                r.trace.note_not_recorded(
                    "another device",
                    format!(
                        "the program uses memory of device {device} and of device {first}: a replay runs everything \
                         on one device"
                    ),
                );
            }
            if is_ok(result) && wanted && lock(&r.memory).device() >= 0 && bytes > 0 {
                r.trace.note_not_recorded(
                    "window",
                    "some memory is not in the recorder's address window, which was full, had no memory or is on \
                     another device: a replay may not find its addresses free",
                );
            }
            result
        }
    }
}

/// Returns the address of an allocation, or 0 if the call failed.
fn address_of(at: *mut CuDevicePtr, result: CuResult) -> GpuVa {
    if is_ok(result) && !at.is_null() {
        // SAFETY: the pointer holds the answer if the call succeeded.
        GpuVa::new(unsafe { *at })
    } else {
        GpuVa::ZERO
    }
}

/// Handles `cuMemAlloc`.
pub(crate) fn alloc(r: &Recorder, _form: Form, call: Call<'_>, at: *mut CuDevicePtr, bytes: usize) -> CuResult {
    r.trace.record_device();
    let begun = r.trace.session.start_call();
    let bytes = bytes as u64;
    let result = serve(r, call, at, bytes, true);
    let address = address_of(at, result);
    r.trace
        .record_allocation(begun, AllocationKind::Take, address, bytes, OrderRow::NONE, result);
    result
}

/// Handles `cuMemAllocPitch`.
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
    r.trace.record_device();
    let begun = r.trace.session.start_call();
    // Drivers round rows up to this multiple.
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
        // SAFETY: the program's pointer for the answer is not null if the window serves the allocation.
        unsafe { *pitch = row };
    }
    let address = address_of(at, result);
    r.trace
        .record_allocation(begun, AllocationKind::Take, address, bytes, OrderRow::NONE, result);
    result
}

/// Handles `cuMemAllocManaged`.
pub(crate) fn alloc_managed(
    r: &Recorder,
    _form: Form,
    call: Call<'_>,
    at: *mut CuDevicePtr,
    bytes: usize,
    _flags: u32,
) -> CuResult {
    r.trace.record_device();
    let begun = r.trace.session.start_call();
    let result = allocate_by_driver(r, call, at, bytes as u64, DriverMemoryKind::Managed);
    let address = address_of(at, result);
    let kind = AllocationKind::TakeManaged;
    r.trace
        .record_allocation(begun, kind, address, bytes as u64, OrderRow::NONE, result);
    result
}

/// Handles `cuMemAllocAsync`.
pub(crate) fn alloc_async(
    r: &Recorder,
    form: Form,
    call: Call<'_>,
    at: *mut CuDevicePtr,
    bytes: usize,
    stream: CuStream,
) -> CuResult {
    allocate_in_stream(r, form, call, at, bytes, stream, None)
}

/// Handles `cuMemAllocFromPoolAsync`.
pub(crate) fn alloc_from_pool(
    r: &Recorder,
    form: Form,
    call: Call<'_>,
    at: *mut CuDevicePtr,
    bytes: usize,
    pool: CuMemPool,
    stream: CuStream,
) -> CuResult {
    allocate_in_stream(r, form, call, at, bytes, stream, Some(pool))
}

fn allocate_in_stream(
    r: &Recorder,
    form: Form,
    call: Call<'_>,
    at: *mut CuDevicePtr,
    bytes: usize,
    stream: CuStream,
    pool: Option<CuMemPool>,
) -> CuResult {
    r.trace.record_device();
    let begun = r.trace.session.start_call();
    let bytes = bytes as u64;
    // Memory of a captured graph belongs to the graph.
    let mut kind = AllocationKind::TakeInOrder;
    let result = if r.trace.capture_flag(stream, form) == 0 {
        let may = lock(&r.pools).can_serve(pool);
        let result = serve(r, call, at, bytes, may);
        let address = address_of(at, result);
        if !may && address != GpuVa::ZERO {
            match lock(&r.memory).find_shared(address) {
                Some(range) if range.managed => kind = AllocationKind::TakeManaged,
                _ => pools::note_driver_pool(r),
            }
        }
        result
    } else {
        r.trace.note_not_recorded(
            "memory of graphs",
            "the program has graphs that allocate memory: its content is not in the recording, and a replay may not \
             find its addresses free",
        );
        allocate_by_driver(r, call, at, bytes, DriverMemoryKind::OfGraph)
    };
    let address = address_of(at, result);
    let stream = r.trace.stream_number(stream, form);
    r.trace.record_allocation(begun, kind, address, bytes, stream, result);
    result
}

/// Handles `cuMemFree`.
pub(crate) fn free(r: &Recorder, _form: Form, call: Call<'_>, at: CuDevicePtr) -> CuResult {
    let begun = r.trace.session.start_call();
    let at = GpuVa::new(at);
    let mut memory = lock(&r.memory);
    let Some((bytes, context)) = memory.find_piece(at) else {
        let bytes = memory.remove_driver_allocation(at);
        drop(memory);
        let result = call();
        if at != GpuVa::ZERO && r.trace.is_inside() {
            r.streams.all_done(&r.trace, Some(result));
            lock(&r.shared).forget(at);
            let bytes = bytes.unwrap_or(0);
            r.trace
                .record_allocation(begun, AllocationKind::Give, at, bytes, OrderRow::NONE, result);
        }
        return result;
    };
    let result = if r.trace.is_capturing() {
        // A wait would end the capture: the memory is freed with the next wait that is allowed.
        memory.defer_free(at, FreeCondition::Idle);
        SUCCESS
    } else {
        let idle = memory.list_idle(context);
        // No other thread must wait for the lock while this one waits for the device.
        drop(memory);
        let other = current_context() != context;
        match wait_for_context((other && context != 0).then_some(context)) {
            Ok(()) => {
                let mut memory = lock(&r.memory);
                memory.reclaim(&r.trace, &idle);
                let given = memory.free(at);
                drop(memory);
                r.streams.context_done(&r.trace, context);
                given.err().and_then(|e| e.result()).unwrap_or(SUCCESS)
            }
            Err(e) => e.result().unwrap_or(SUCCESS),
        }
    };
    r.trace
        .record_allocation(begun, AllocationKind::Give, at, bytes, OrderRow::NONE, result);
    result
}

/// Handles `cuMemFreeAsync`: the memory is freed when the stream reaches this point.
pub(crate) fn free_async(r: &Recorder, form: Form, call: Call<'_>, at: CuDevicePtr, stream: CuStream) -> CuResult {
    let begun = r.trace.session.start_call();
    let at = GpuVa::new(at);
    let piece = lock(&r.memory).find_piece(at);
    let (result, bytes) = match piece {
        Some((bytes, context)) if r.trace.capture_flag(stream, form) == 0 => {
            (free_in_stream(r, form, at, context, stream), bytes)
        }
        _ => {
            let bytes = lock(&r.memory).remove_driver_allocation(at).unwrap_or(0);
            lock(&r.shared).forget(at);
            (call(), bytes)
        }
    };
    if r.trace.is_recorded(When::Work) {
        let stream = r.trace.stream_number(stream, form);
        r.trace
            .record_allocation(begun, AllocationKind::GiveInOrder, at, bytes, stream, result);
    }
    result
}

/// Frees memory of the window once a stream has done its current work.
fn free_in_stream(r: &Recorder, form: Form, at: GpuVa, context: usize, stream: CuStream) -> CuResult {
    let real = form.real_stream(stream);
    let until = match record_event(real) {
        Ok(event) => FreeCondition::Event(event),
        // The stream can belong to another context than the calling thread's: most likely to the memory's own.
        Err(e) if e.result() == Some(INVALID_HANDLE) && context != current_context() => {
            with_context(context, || record_event(real)).map_or(FreeCondition::Gone, FreeCondition::Event)
        }
        Err(e) => return e.result().unwrap_or(OUT_OF_MEMORY),
    };
    let mut memory = lock(&r.memory);
    memory.reclaim(&r.trace, &[]);
    memory.defer_free(at, until);
    SUCCESS
}

/// Records an event of the recorder's own after a stream's current work.
fn record_event(stream: CuStream) -> Result<usize, CudaError> {
    let d = driver();
    let mut event: CuEvent = std::ptr::null_mut();
    // SAFETY: the pointer is valid for the answer, and the stream is the program's.
    unsafe {
        d.cuEventCreate(&raw mut event, EVENT_NO_TIMING)?;
        d.cuEventRecord(event, stream).inspect_err(|_| {
            let _ = d.cuEventDestroy_v2(event);
        })?;
    }
    Ok(event as usize)
}
