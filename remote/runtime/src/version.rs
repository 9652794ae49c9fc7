//! Which major version of NVIDIA's runtime this library stands in for, where both answer differently.

use crate::errors::{ErrorCode, INVALID_DEVICE_FUNCTION, INVALID_RESOURCE_HANDLE};
use std::sync::atomic::{AtomicU32, Ordering};

static MAJOR: AtomicU32 = AtomicU32::new(12);

/// Sets the major version. The libraries do that when they are loaded.
pub fn set_major(major: u32) {
    MAJOR.store(major, Ordering::Relaxed);
}

fn is_12() -> bool {
    MAJOR.load(Ordering::Relaxed) == 12
}

/// Returns whether a launch whose grid or block is not possible has an error of its own. The runtime of CUDA 13 passes on
/// the driver's `cudaErrorInvalidValue` (seen with 13.0).
pub fn has_configuration_error() -> bool {
    is_12()
}

/// Returns the error of an address that is no kernel (that of CUDA 13 seen with 13.0).
pub fn unknown_kernel_error() -> ErrorCode {
    if is_12() {
        INVALID_DEVICE_FUNCTION
    } else {
        INVALID_RESOURCE_HANDLE
    }
}
