//! Batched copies: each is a copy by itself, in the listed order, which is one of the orders that the device can
//! choose.

use crate::copies::{CopyStream, unified};
use crate::recorder::{Recorder, is_ok};
use cuda_driver::{CuDevicePtr, CuResult};

/// Maximum number of copies of a batch.
const MAX_BATCH_COPIES: usize = 1 << 20;

/// Handles `cuMemcpyBatchAsync`.
///
/// # Safety
/// The lists have as many destinations, sources and sizes as the count says, as the driver requires.
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
        // SAFETY: guaranteed by the caller.
        let (to, from, bytes) = unsafe { (*to.add(n), *from.add(n), *bytes.add(n)) };
        // The driver is called once; the other copies get the same result.
        let mut once = || *result.get_or_insert_with(&mut *call);
        let answered = unified(r, at, &mut once, to, from, bytes);
        if !is_ok(answered) {
            return answered;
        }
    }
    result.unwrap_or_else(call)
}
