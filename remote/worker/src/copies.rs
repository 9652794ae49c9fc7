//! Copies between the device and the staging area or messages, and when their ranges are free again.
#![allow(unsafe_code, reason = "calls of the driver with addresses of shared memory")]

use crate::call_error::{CallError, CallResult};
use crate::forms::{DriverHandle as _, find_object};
use crate::session::Scope;
use crate::{contexts, host_memory};
use cuda_driver::{
    CuStream, CudaError, Driver, EVENT_NO_TIMING, INVALID_CONTEXT, INVALID_VALUE, STREAM_CAPTURE_UNSUPPORTED,
};
use remote_calls::message::{CopyToDevice, CopyToHost, HostPart};
use remote_calls::{Decoder, Encoder, HandleKind, HandleNumber};
use remote_ring::has_spare_processors;
use std::time::{Duration, Instant};

/// How long a full staging area is looked at without a sleep, on a machine with processors to spare: what the device takes
/// for the oldest part of a copy, and less than a sleep and its wake-up.
const DRAIN_SPIN: Duration = Duration::from_micros(200);
/// Interval at which a full staging area is looked at afterwards.
const DRAIN_INTERVAL: Duration = Duration::from_micros(20);
/// Maximum size of a copy whose bytes travel in the message, bytes.
const MAX_INLINE_BYTES: u64 = 64 << 10;

/// Waits until the range with a ticket is free.
///
/// # Errors
/// If the message is invalid, or the program's thread has no context, without which no copy can follow.
pub fn drain(scope: &Scope<'_>, decoder: &mut Decoder<'_>) -> CallResult {
    let ticket: u64 = decoder.read()?;
    decoder.finish()?;
    // A driver can refuse to say how far a copy is on a thread without a context.
    if scope.context == HandleNumber::NULL {
        return Err(CallError::Result(INVALID_CONTEXT));
    }
    contexts::enter(scope)?;
    // Another thread may end a copy's event meanwhile, so that the event is not waited for.
    let begun = Instant::now();
    let can_spin = has_spare_processors();
    while !scope.session.copies.is_free(&scope.session.driver, ticket) {
        match can_spin && begun.elapsed() < DRAIN_SPIN {
            true => std::hint::spin_loop(),
            false => std::thread::sleep(DRAIN_INTERVAL),
        }
    }
    Ok(())
}

/// Frees a range that the client did not use.
///
/// # Errors
/// If the message is invalid.
pub fn release(scope: &Scope<'_>, decoder: &mut Decoder<'_>) -> CallResult {
    let ticket: u64 = decoder.read()?;
    decoder.finish()?;
    scope.session.copies.finish_unused(ticket);
    Ok(())
}

/// Frees the range of a copy to the device that is not played.
///
/// # Errors
/// If the message is invalid.
pub fn skip(scope: &Scope<'_>, mut decoder: Decoder<'_>) -> CallResult {
    if let HostPart::Staging { ticket, .. } = CopyToDevice::read(&mut decoder)?.source {
        scope.session.copies.finish(ticket);
    }
    Ok(())
}

fn stream_of(scope: &Scope<'_>, number: HandleNumber) -> CallResult<CuStream> {
    Ok(CuStream::from_object(find_object(scope, HandleKind::Stream, number)?))
}

/// Refuses a copy from or to the program's memory while a stream is captured: a graph would use the staging area.
///
/// # Errors
/// `STREAM_CAPTURE_UNSUPPORTED` then.
pub fn refuse_capture(scope: &Scope<'_>, stream: CuStream) -> CallResult {
    if !scope.session.is_capturing() {
        return Ok(());
    }
    let mut status = 0;
    // SAFETY: the stream is the driver's, and the pointer is valid for the result.
    unsafe { scope.session.driver.cuStreamIsCapturing(stream, &raw mut status)? };
    match status {
        0 => Ok(()),
        _ => Err(CallError::Result(STREAM_CAPTURE_UNSUPPORTED)),
    }
}

/// Copies from the program to the device.
///
/// # Errors
/// If the message is invalid, or the driver refuses the copy.
pub fn to_device(scope: &Scope<'_>, decoder: &mut Decoder<'_>, is_waited_for: bool) -> CallResult {
    let copy = CopyToDevice::read(decoder)?;
    decoder.finish()?;
    let session = scope.session;
    let mut result = play_to_device(scope, &copy);
    if is_waited_for && result.is_ok() {
        let stream = stream_of(scope, copy.stream)?;
        // SAFETY: the stream is the driver's.
        result = unsafe { session.driver.cuStreamSynchronize(stream) }.map_err(CallError::from);
    }
    // A copy that did not begin reads nothing.
    if let (Err(_), HostPart::Staging { ticket, .. }) = (&result, copy.source) {
        session.copies.finish(ticket);
    }
    result
}

fn play_to_device(scope: &Scope<'_>, copy: &CopyToDevice<'_>) -> CallResult {
    let driver = &scope.session.driver;
    let stream = stream_of(scope, copy.stream)?;
    let bytes = usize::try_from(copy.bytes).map_err(|_| CallError::Result(INVALID_VALUE))?;
    if let HostPart::Window(offset) = copy.source {
        let from = host_memory::pointer(scope, offset, copy.bytes)?;
        // SAFETY: the range is in the window, which stays mapped.
        return unsafe { driver.cuMemcpyHtoDAsync_v2(copy.to, from, bytes, stream) }.map_err(CallError::from);
    }
    refuse_capture(scope, stream)?;
    match copy.source {
        HostPart::Window(_) => Ok(()),
        // SAFETY: the driver reads memory that it does not know during the call.
        HostPart::Inline(source) => unsafe {
            Ok(driver.cuMemcpyHtoDAsync_v2(copy.to, source.as_ptr().cast(), bytes, stream)?)
        },
        HostPart::Staging { ticket, offset } => {
            let from = scope.session.staging.pointer(offset, copy.bytes)?;
            scope.session.counters.add_in(copy.bytes);
            let is_registered = scope.session.staging.is_registered(&scope.session.driver);
            // SAFETY: the range is in the staging area, which stays mapped. The client does not write it before the
            // ticket is released; a hostile client changes only its own bytes.
            unsafe { driver.cuMemcpyHtoDAsync_v2(copy.to, from, bytes, stream)? };
            if !is_registered {
                scope.session.copies.finish(ticket);
                return Ok(());
            }
            let mut event = std::ptr::null_mut();
            // SAFETY: the pointer is valid for the result, and both handles are the driver's.
            let recorded = unsafe {
                driver
                    .cuEventCreate(&raw mut event, EVENT_NO_TIMING)
                    .and_then(|()| driver.cuEventRecord(event, stream))
            };
            match recorded {
                Ok(()) => scope.session.copies.add(ticket, event),
                Err(_) => {
                    // SAFETY: the stream is the driver's.
                    unsafe { driver.cuStreamSynchronize(stream)? };
                    scope.session.copies.finish(ticket);
                }
            }
            Ok(())
        }
    }
}

/// Waits for the work that a stream has now: not for what other threads add meanwhile, such as further parts of a copy.
fn wait_for_work_so_far(driver: &Driver, stream: CuStream) -> Result<(), CudaError> {
    let mut event = std::ptr::null_mut();
    // SAFETY: the pointer is valid for the result, and both handles are the driver's.
    unsafe {
        if driver.cuEventCreate(&raw mut event, EVENT_NO_TIMING).is_err() {
            return driver.cuStreamSynchronize(stream);
        }
        let done = match driver.cuEventRecord(event, stream) {
            Ok(()) => driver.cuEventSynchronize(event),
            Err(_) => driver.cuStreamSynchronize(stream),
        };
        let destroyed = driver.cuEventDestroy_v2(event);
        done.and(destroyed)
    }
}

/// Copies from the device to the program: returns when the bytes are in the staging area or the answer.
///
/// # Errors
/// If the message is invalid, or the driver refuses the copy.
pub fn to_host(scope: &Scope<'_>, decoder: &mut Decoder<'_>, answer: &mut Encoder, is_waited_for: bool) -> CallResult {
    let copy = CopyToHost::read(decoder)?;
    decoder.finish()?;
    let driver = &scope.session.driver;
    let stream = stream_of(scope, copy.stream)?;
    let bytes = usize::try_from(copy.bytes).map_err(|_| CallError::Result(INVALID_VALUE))?;
    if let HostPart::Window(offset) = copy.target {
        let to = host_memory::pointer(scope, offset, copy.bytes)?;
        // SAFETY: the range is in the window, which stays mapped.
        unsafe {
            driver.cuMemcpyDtoHAsync_v2(to, copy.from, bytes, stream)?;
            if is_waited_for {
                driver.cuStreamSynchronize(stream)?;
            } else {
                scope.note_host_copy(stream);
            }
        }
        return Ok(());
    }
    refuse_capture(scope, stream)?;
    match copy.target {
        HostPart::Window(_) => {}
        HostPart::Inline(_) => {
            if copy.bytes > MAX_INLINE_BYTES {
                return Err(CallError::Result(INVALID_VALUE));
            }
            let mut target = vec![0u8; bytes];
            // SAFETY: the buffer has this size, and is used until the stream is done.
            unsafe {
                let begun = driver.cuMemcpyDtoHAsync_v2(target.as_mut_ptr().cast(), copy.from, bytes, stream);
                let done = driver.cuStreamSynchronize(stream);
                begun?;
                done?;
            }
            answer.write_bytes(&target);
        }
        HostPart::Staging { offset, .. } => {
            let to = scope.session.staging.pointer(offset, copy.bytes)?;
            scope.session.staging.is_registered(&scope.session.driver);
            scope.session.counters.add_out(copy.bytes);
            // SAFETY: the range is in the staging area, which stays mapped.
            let begun = unsafe { driver.cuMemcpyDtoHAsync_v2(to, copy.from, bytes, stream) };
            let done = wait_for_work_so_far(driver, stream);
            begun?;
            done?;
        }
    }
    Ok(())
}
