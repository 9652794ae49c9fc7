//! State of a thread of the program: its device, and its context's generation.

use cuda_driver::CuDevice;
use std::cell::Cell;

thread_local! {
    static DEVICE: Cell<CuDevice> = const { Cell::new(0) };
    static BOUND_GENERATION: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Returns this thread's device.
pub fn device() -> CuDevice {
    DEVICE.get()
}

/// Changes this thread's device.
pub fn set_device(device: CuDevice) {
    DEVICE.set(device);
}

/// Returns the generation of the primary context that the runtime made current on this thread.
pub fn bound_generation() -> Option<u64> {
    BOUND_GENERATION.get()
}

/// Remembers the generation of the primary context that the runtime made current on this thread.
pub fn set_bound_generation(generation: u64) {
    BOUND_GENERATION.set(Some(generation));
}
