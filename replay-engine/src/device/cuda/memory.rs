//! Memory at the recorded addresses: reserved, mapped, and given back.
#![allow(unsafe_code, reason = "calls of the driver; why each is sound stands at it")]

use super::error::CudaReplayError;
use cuda_driver::{
    ACCESS_READ_WRITE, ALLOCATION_PINNED, AccessDescription, AllocationProperties, CuDevice, CuMemHandle, Driver,
    LOCATION_DEVICE, MemLocation,
};
use trace_core::recording::CallWindow;

/// What is reserved around a range outside of the window that is not granted by itself: 64 GiB, at a multiple of that.
const AROUND: u64 = 64 << 30;

/// Ranges of addresses with memory of the device behind them. Given back when dropped.
#[derive(Debug)]
pub(super) struct Mapped {
    driver: Driver,
    device: CuDevice,
    /// First byte and bytes of what is reserved.
    reserved: Vec<(u64, u64)>,
    /// First byte and bytes of what is mapped, and its memory.
    ranges: Vec<(u64, u64, CuMemHandle)>,
}

impl Mapped {
    /// Maps memory at each of the ranges. The window is reserved as a whole, as it was for the recording: drivers put a
    /// short range where they like, wherever it is asked for.
    pub fn at(
        driver: Driver,
        device: CuDevice,
        window: CallWindow,
        ranges: &[(u64, u64)],
    ) -> Result<Self, CudaReplayError> {
        let mut all = Self {
            driver,
            device,
            reserved: Vec::new(),
            ranges: Vec::new(),
        };
        let end = window.base.saturating_add(window.bytes);
        let is_in = |at: u64, bytes: u64| at >= window.base && at.saturating_add(bytes) <= end;
        if ranges.iter().any(|(at, bytes)| is_in(*at, *bytes)) {
            all.reserve(window.base, window.bytes)?;
        }
        for (at, bytes) in ranges {
            if !is_in(*at, *bytes) {
                all.reserve_outside(*at, *bytes)?;
            }
            all.map(*at, *bytes)?;
        }
        Ok(all)
    }

    /// Reserves a range outside of the window: by itself or, where the driver puts it elsewhere, with so much around it that
    /// the driver heeds where it is asked for.
    fn reserve_outside(&mut self, at: u64, bytes: u64) -> Result<(), CudaReplayError> {
        let end = at.saturating_add(bytes);
        let over = |from: u64, to: u64| {
            move |(first, length): &(u64, u64)| *first < to && from < first.saturating_add(*length)
        };
        let holds = |(first, length): &(u64, u64)| *first <= at && end <= first.saturating_add(*length);
        if self.reserved.iter().any(holds) {
            return Ok(());
        }
        let Err(e) = self.reserve(at, bytes) else { return Ok(()) };
        let from = at - at % AROUND;
        let to = end.checked_next_multiple_of(AROUND);
        match to.filter(|to| !self.reserved.iter().any(over(from, *to))) {
            // What is told is that the range itself is not to be had.
            Some(to) => self.reserve(from, to - from).map_err(|_| e),
            None => Err(e),
        }
    }

    fn reserve(&mut self, at: u64, bytes: u64) -> Result<(), CudaReplayError> {
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
        self.reserved.push((at, bytes));
        Ok(())
    }

    /// Puts memory behind addresses that are reserved.
    fn map(&mut self, at: u64, bytes: u64) -> Result<(), CudaReplayError> {
        let d = &self.driver;
        let length = bytes as usize;
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
        // SAFETY: forms of this function, and addresses that are reserved and not mapped.
        unsafe {
            d.cuMemCreate(&raw mut handle, length, &raw const properties, 0)?;
            if let Err(e) = d.cuMemMap(at, length, 0, handle, 0) {
                let _ = d.cuMemRelease(handle);
                return Err(e.into());
            }
            self.ranges.push((at, bytes, handle));
            d.cuMemSetAccess(at, length, &raw const access, 1)?;
            // What another process left there is nobody's business, and two replays begin alike.
            d.cuMemsetD8_v2(at, 0, length)?;
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
                let _ = d.cuMemUnmap(*at, *bytes as usize);
                let _ = d.cuMemRelease(*handle);
            }
        }
        for (at, bytes) in &self.reserved {
            // SAFETY: as above.
            let _ = unsafe { d.cuMemAddressFree(*at, *bytes as usize) };
        }
    }
}
