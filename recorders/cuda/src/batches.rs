//! Copies in batches: each of them is a copy by itself, in the order in which they are listed, which is one of those
//! that the device may take.

use crate::copies::{CopyStream, unified};
use crate::recorder::{Recorder, is_ok};
use cuda_driver::{CuDevicePtr, CuResult};

/// Maximum number of copies of a batch.
const MAX_BATCH_COPIES: usize = 1 << 20;

/// `cuMemcpyBatchAsync`.
///
/// # Safety
/// There are as many places, sources and sizes as are told, as the driver asks for.
pub(crate) unsafe fn copies(
    r: &Recorder,
    at: CopyStream,
    call: &mut dyn FnMut() -> CuResult,
    to: *const CuDevicePtr,
    from: *const CuDevicePtr,
    bytes: *const usize,
    count: usize,
) -> CuResult {
    if to.is_null() || from.is_null() || bytes.is_null() {
        return call();
    }
    if count > MAX_BATCH_COPIES {
        return crate::unsupported::forward(r, call, crate::unsupported::BATCHES);
    }
    let mut result = None;
    for n in 0..count {
        // SAFETY: the caller's promise.
        let (to, from, bytes) = unsafe { (*to.add(n), *from.add(n), *bytes.add(n)) };
        // The driver is asked once; the other copies are told as it answered.
        let mut once = || *result.get_or_insert_with(&mut *call);
        let answered = unified(r, at, &mut once, to, from, bytes);
        if !is_ok(answered) {
            return answered;
        }
    }
    result.unwrap_or_else(call)
}
