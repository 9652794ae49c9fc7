//! Memory at the recorded addresses: reserved, mapped, and given back.
#![allow(unsafe_code, reason = "calls of the driver; why each is sound stands at it")]

use super::error::CudaReplayError;
use cuda_driver::{
    ACCESS_READ_WRITE, ALLOCATION_PINNED, AccessDescription, AllocationProperties, CuDevice, CuMemHandle, Driver,
    LOCATION_DEVICE, MemLocation,
};

/// Ranges of addresses with memory of the device behind them. Given back when dropped.
#[derive(Debug)]
pub(super) struct Mapped {
    driver: Driver,
    device: CuDevice,
    /// First byte and bytes of what is reserved, and its memory where it is mapped.
    ranges: Vec<(u64, u64, Option<CuMemHandle>)>,
}

impl Mapped {
    /// Maps memory at each of the ranges.
    pub fn at(driver: Driver, device: CuDevice, ranges: &[(u64, u64)]) -> Result<Self, CudaReplayError> {
        let mut all = Self {
            driver,
            device,
            ranges: Vec::new(),
        };
        for (at, bytes) in ranges {
            all.add(*at, *bytes)?;
        }
        Ok(all)
    }

    fn add(&mut self, at: u64, bytes: u64) -> Result<(), CudaReplayError> {
        let d = &self.driver;
        let length = bytes as usize;
        let mut given = 0;
        // SAFETY: a range of addresses alone; the driver says where it is.
        unsafe { d.cuMemAddressReserve(&raw mut given, length, 0, at, 0)? };
        if given != at {
            // SAFETY: what was just reserved, and is not used.
            let _ = unsafe { d.cuMemAddressFree(given, length) };
            return Err(CudaReplayError::Taken {
                at,
                end: at.saturating_add(bytes),
                given,
            });
        }
        self.ranges.push((at, bytes, None));
        let location = MemLocation {
            kind: LOCATION_DEVICE,
            id: self.device,
        };
        let properties = AllocationProperties {
            kind: ALLOCATION_PINNED,
            handle_types: 0,
            location,
            win32: std::ptr::null_mut(),
            flags: [0; 8],
        };
        let access = AccessDescription {
            location,
            flags: ACCESS_READ_WRITE,
        };
        let mut handle = 0;
        // SAFETY: forms of this function, and addresses that were just reserved.
        unsafe {
            d.cuMemCreate(&raw mut handle, length, &raw const properties, 0)?;
            if let Err(e) = d.cuMemMap(at, length, 0, handle, 0) {
                let _ = d.cuMemRelease(handle);
                return Err(e.into());
            }
            if let Some(last) = self.ranges.last_mut() {
                last.2 = Some(handle);
            }
            d.cuMemSetAccess(at, length, &raw const access, 1)?;
        }
        Ok(())
    }

    /// Bytes of memory that are mapped.
    pub fn bytes(&self) -> u64 {
        self.ranges.iter().map(|r| r.1).sum()
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let d = &self.driver;
        for (at, bytes, handle) in &self.ranges {
            // SAFETY: mapped and reserved by this value, and nothing runs any more; a device that has failed refuses,
            // and gives it back with its context.
            unsafe {
                if let Some(handle) = handle {
                    let _ = d.cuMemUnmap(*at, *bytes as usize);
                    let _ = d.cuMemRelease(*handle);
                }
                let _ = d.cuMemAddressFree(*at, *bytes as usize);
            }
        }
    }
}
