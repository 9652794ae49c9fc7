//! Copies between arrays and consecutive bytes of the window.
#![allow(unsafe_code, reason = "calls of the driver with addresses of shared memory")]

use crate::call_error::{CallError, CallResult};
use crate::copies::refuse_capture;
use crate::forms::{DriverHandle as _, find_object};
use crate::host_memory;
use crate::session::Scope;
use cuda_driver::{CuArray, CuStream, INVALID_VALUE};
use remote_calls::message::{ArrayCopy, ArrayCopyDirection};
use remote_calls::{Decoder, HandleKind, HandleNumber};

/// Copies between an array and the window, and waits for it where the program does.
///
/// # Errors
/// If the message is invalid, the array is unknown, or the driver refuses the copy.
pub fn copy(scope: &Scope<'_>, decoder: &mut Decoder<'_>, is_waited_for: bool) -> CallResult {
    let copy = ArrayCopy::read(decoder)?;
    decoder.finish()?;
    let size = |value: u64| usize::try_from(value).map_err(|_| CallError::Result(INVALID_VALUE));
    let (offset, bytes) = (size(copy.offset)?, size(copy.bytes)?);
    if copy.array == HandleNumber::NULL {
        return Err(CallError::Result(INVALID_VALUE));
    }
    let array = CuArray::from_object(find_object(scope, HandleKind::Array, copy.array)?);
    let host = host_memory::pointer(scope, copy.host, copy.bytes)?;
    let stream = CuStream::from_object(find_object(scope, HandleKind::Stream, copy.stream)?);
    if is_waited_for {
        refuse_capture(scope, stream)?;
    }
    let driver = &scope.session.driver;
    // SAFETY: the array and the stream are the driver's, and the range is in the window, which stays mapped.
    unsafe {
        match copy.direction {
            ArrayCopyDirection::ToArray => driver.cuMemcpyHtoAAsync_v2(array, offset, host, bytes, stream)?,
            ArrayCopyDirection::FromArray => driver.cuMemcpyAtoHAsync_v2(host, array, offset, bytes, stream)?,
        }
        if is_waited_for {
            driver.cuStreamSynchronize(stream)?;
        } else if copy.direction == ArrayCopyDirection::FromArray {
            scope.note_host_copy(stream);
        }
    }
    Ok(())
}
