//! Events.

use crate::CallResult;
use crate::contexts::bind;
use crate::errors::INVALID_VALUE;
use cuda_driver::{CuEvent, CuStream};

/// `cudaEventCreate` and `cudaEventCreateWithFlags`. The flags are those of the driver.
pub fn create(to: *mut CuEvent, flags: u32) -> CallResult {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    bind()?.cuEventCreate(to, flags)
}

/// `cudaEventDestroy`.
pub fn destroy(event: CuEvent) -> CallResult {
    bind()?.cuEventDestroy_v2(event)
}

/// `cudaEventRecord`.
pub fn record(event: CuEvent, stream: CuStream) -> CallResult {
    bind()?.cuEventRecord(event, stream)
}

/// `cudaEventRecordWithFlags`.
pub fn record_with_flags(event: CuEvent, stream: CuStream, flags: u32) -> CallResult {
    bind()?.cuEventRecordWithFlags(event, stream, flags)
}

/// `cudaEventSynchronize`.
pub fn synchronize(event: CuEvent) -> CallResult {
    bind()?.cuEventSynchronize(event)
}

/// `cudaEventQuery`.
pub fn query(event: CuEvent) -> CallResult {
    bind()?.cuEventQuery(event)
}

/// `cudaEventElapsedTime`.
pub fn elapsed_time(milliseconds: *mut f32, from: CuEvent, to: CuEvent) -> CallResult {
    if milliseconds.is_null() {
        return Err(INVALID_VALUE);
    }
    bind()?.cuEventElapsedTime(milliseconds, from, to)
}
