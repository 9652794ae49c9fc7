//! The staging area as memory of the driver.
#![allow(unsafe_code, reason = "calls of the driver with addresses of shared memory")]

use crate::call_error::{CallError, CallResult};
use cuda_driver::{Driver, INVALID_VALUE};
use remote_ring::Region;
use std::ffi::c_void;
use std::sync::{Arc, OnceLock};

/// Flag: the memory is known in every context.
const PORTABLE: u32 = 1;

/// The staging area.
pub struct Staging {
    region: Arc<Region>,
    /// Whether the driver knows it, so that it copies without the processor.
    is_registered: OnceLock<bool>,
}

impl Staging {
    /// Creates it; the driver learns of it at the first copy.
    pub const fn new(region: Arc<Region>) -> Self {
        Self {
            region,
            is_registered: OnceLock::new(),
        }
    }

    /// Returns the address of a range, for the driver.
    ///
    /// # Errors
    /// `INVALID_VALUE` if the range is not in the area.
    pub fn pointer(&self, offset: u64, bytes: u64) -> CallResult<*mut c_void> {
        let pointer = self.region.staging_pointer(offset, bytes);
        pointer
            .map(<*mut u8>::cast)
            .map_err(|_| CallError::Result(INVALID_VALUE))
    }

    /// Returns whether the driver reads the area when a copy runs. Otherwise it reads it during the call.
    pub fn is_registered(&self, driver: &Driver) -> bool {
        *self.is_registered.get_or_init(|| {
            let bytes = self.region.staging_bytes();
            let Ok(at) = self.pointer(0, bytes) else { return false };
            // SAFETY: the area is mapped while the session lives, which ends after the last call.
            unsafe { driver.cuMemHostRegister_v2(at, bytes as usize, PORTABLE) }.is_ok()
        })
    }
}
