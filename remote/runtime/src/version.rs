//! Which major version of NVIDIA's runtime this library stands in for, where both answer differently.

use std::sync::atomic::{AtomicU32, Ordering};

static MAJOR: AtomicU32 = AtomicU32::new(12);

/// Sets the major version. The libraries do that when they are loaded.
pub fn set_major(major: u32) {
    MAJOR.store(major, Ordering::Relaxed);
}

/// Returns whether a launch whose grid or block is not possible has an error of its own. The runtime of CUDA 13 passes on
/// the driver's `cudaErrorInvalidValue` (seen with 12.9 and 13.0).
pub fn has_configuration_error() -> bool {
    MAJOR.load(Ordering::Relaxed) == 12
}
