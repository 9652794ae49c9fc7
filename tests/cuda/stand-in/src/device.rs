//! The device, with the properties that tests need; and whether the driver is initialized.

use crate::Answer;
use crate::codes::INVALID_DEVICE;
use cuda_driver::CuDevice;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// Compute capability.
pub const CAPABILITY: (u32, u32) = (9, 0);
/// Number of multiprocessors.
pub const MULTIPROCESSORS: u32 = 16;
/// Maximum number of threads on a multiprocessor.
pub const THREADS: u32 = 2048;
/// Maximum number of blocks on a multiprocessor.
pub const BLOCKS: u32 = 32;
/// Number of registers of a multiprocessor.
pub const REGISTERS: u32 = 65_536;
/// Maximum number of threads in a block.
pub const BLOCK_THREADS: u32 = 1024;
/// Default size of a block's shared memory, bytes.
pub const SHARED: u32 = 48 << 10;
/// Maximum size of shared memory that a function can request, bytes.
pub const MAX_SHARED: u32 = 227 << 10;

static BEGUN: AtomicBool = AtomicBool::new(false);
/// Whether this process is a fork of the process that initialized the driver. Its locks have the parent's state.
static CHILD: AtomicBool = AtomicBool::new(false);

/// Returns whether `cuInit` was called.
pub fn is_initialized() -> bool {
    BEGUN.load(Ordering::Acquire)
}

/// Returns whether this process is a fork of a process that initialized the driver.
pub fn is_child() -> bool {
    CHILD.load(Ordering::Relaxed)
}

extern "C" fn in_child() {
    CHILD.store(true, Ordering::Relaxed);
}

/// Checks that the number is this device's.
pub fn check(device: CuDevice) -> Answer {
    if device == 0 { Ok(()) } else { Err(INVALID_DEVICE) }
}

/// Initializes the driver.
pub fn initialize() {
    static ONCE: Once = Once::new();
    // SAFETY: the function is in this library, which a program that initialized the driver keeps loaded.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(in_child));
    });
    BEGUN.store(true, Ordering::Release);
}
