//! Memory at the recorded addresses: reserved, mapped, and given back.
#![allow(unsafe_code, reason = "calls of the driver; why each is sound stands at it")]

use super::code::MovedVariable;
use super::error::CudaReplayError;
use super::script::{MemoryAlias, Script};
use cuda_driver::{
    ACCESS_READ_WRITE, ALLOCATION_PINNED, AccessDescription, AllocationProperties, CuDevice, CuMemHandle, Driver,
    LOCATION_DEVICE, MemLocation,
};

/// What is reserved around a range outside of the window that is not granted by itself: 64 GiB, at a multiple of that.
const AROUND: u64 = 64 << 30;

/// Ranges of addresses with memory of the device behind them. Given back when dropped.
#[derive(Debug)]
pub(super) struct MappedMemory {
    driver: Driver,
    device: CuDevice,
    /// First byte and bytes of what is reserved.
    reserved: Vec<(u64, u64)>,
    /// First byte and bytes of what is mapped, and its memory.
    ranges: Vec<(u64, u64, CuMemHandle)>,
    /// First byte and bytes of what is mapped to the memory of one of these.
    same: Vec<(u64, u64)>,
    /// Memory that host and device shared and that lies elsewhere now.
    pub moved: Vec<MovedVariable>,
}

impl MappedMemory {
    /// Maps memory at each range of a script. The windows that the recorder served addresses from are reserved as a whole,
    /// as they were for the recording: drivers put a short range where they like, wherever it is asked for.
    pub fn new(driver: Driver, device: CuDevice, script: &Script) -> Result<Self, CudaReplayError> {
        let mut all = Self {
            driver,
            device,
            reserved: Vec::new(),
            ranges: Vec::new(),
            same: Vec::new(),
            moved: Vec::new(),
        };
        let windows = [script.facts.window, script.facts.reserved];
        let places = || {
            let same = script.same.iter().map(|s| (s.at, s.bytes));
            script.ranges.iter().copied().chain(same)
        };
        for window in windows {
            if places().any(|(at, bytes)| window.contains(at, bytes)) {
                all.reserve(window.base, window.bytes)?;
            }
        }
        for (at, bytes) in places() {
            if !windows.iter().any(|w| w.contains(at, bytes)) {
                all.reserve_outside(at, bytes)?;
            }
        }
        for (at, bytes) in &script.ranges {
            all.map(*at, *bytes)?;
        }
        for s in &script.same {
            all.map_again(s)?;
        }
        for (at, bytes) in &script.shared {
            all.map_anywhere(*at, *bytes, &script.shared_parts)?;
        }
        Ok(all)
    }

    /// Maps memory of which parts may be moved, as what host and device shared: where it was, or elsewhere if that is not free in this process.
    fn map_anywhere(&mut self, at: u64, bytes: u64, parts: &[(u64, u64)]) -> Result<(), CudaReplayError> {
        let is_free = self.reserve_outside(at, bytes);
        if is_free.is_ok() {
            return self.map(at, bytes);
        }
        let mut to = 0;
        // SAFETY: a range of addresses alone; the driver says where it is.
        unsafe { self.driver.cuMemAddressReserve(&raw mut to, bytes as usize, 0, 0, 0)? };
        self.reserved.push((to, bytes));
        self.map(to, bytes)?;
        let inside = parts.iter().filter(|(part, _)| *part >= at && part - at < bytes);
        self.moved.extend(inside.map(|(part, length)| MovedVariable {
            was: *part,
            bytes: *length,
            is: to + (part - at),
        }));
        Ok(())
    }

    /// Maps so many bytes, a multiple of what memory is mapped in, wherever the driver likes, with nothing behind them: their
    /// first address.
    pub fn map_with_gap(&mut self, bytes: u64) -> Result<u64, CudaReplayError> {
        let whole = bytes.saturating_add(super::script::GRANULE);
        let mut at = 0;
        // SAFETY: a range of addresses alone; the driver says where it is.
        unsafe { self.driver.cuMemAddressReserve(&raw mut at, whole as usize, 0, 0, 0)? };
        self.reserved.push((at, whole));
        self.map(at, bytes)?;
        Ok(at)
    }

    /// Puts memory that is mapped already behind further addresses.
    fn map_again(&mut self, s: &MemoryAlias) -> Result<(), CudaReplayError> {
        let found = self
            .ranges
            .iter()
            .find(|(at, bytes, _)| *at == s.of && *bytes == s.bytes);
        let handle = found
            .map(|(.., handle)| *handle)
            .ok_or_else(|| CudaReplayError::Damaged {
                event: 0,
                what: format!(
                    "the memory at {:#x} is mapped at {:#x} too, which is not there",
                    s.of, s.at
                ),
            })?;
        let d = &self.driver;
        // SAFETY: memory that this value has made, and addresses that are reserved and not mapped.
        unsafe { d.cuMemMap(s.at, s.bytes as usize, 0, handle, 0)? };
        self.same.push((s.at, s.bytes));
        self.allow(s.at, s.bytes)
    }

    /// Lets the device reach what is mapped.
    fn allow(&self, at: u64, bytes: u64) -> Result<(), CudaReplayError> {
        let access = AccessDescription {
            location: MemLocation {
                kind: LOCATION_DEVICE,
                id: self.device,
            },
            flags: ACCESS_READ_WRITE,
        };
        // SAFETY: a form of this function, and a mapping of this value.
        unsafe { self.driver.cuMemSetAccess(at, bytes as usize, &raw const access, 1)? };
        Ok(())
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
        let mut handle = 0;
        // SAFETY: forms of this function, and addresses that are reserved and not mapped.
        unsafe {
            d.cuMemCreate(&raw mut handle, length, &raw const properties, 0)?;
            if let Err(e) = d.cuMemMap(at, length, 0, handle, 0) {
                let _ = d.cuMemRelease(handle);
                return Err(e.into());
            }
        }
        self.ranges.push((at, bytes, handle));
        self.allow(at, bytes)?;
        // What another process left there is nobody's business, and two replays begin alike.
        // SAFETY: memory that was just mapped.
        unsafe { self.driver.cuMemsetD8_v2(at, 0, length)? };
        Ok(())
    }

    /// First byte and bytes of all memory that is mapped, each once.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ranges.iter().map(|(at, bytes, _)| (*at, *bytes))
    }

    /// Bytes of memory that are mapped.
    pub fn bytes(&self) -> u64 {
        self.ranges.iter().map(|r| r.1).sum()
    }
}

impl Drop for MappedMemory {
    fn drop(&mut self) {
        let d = &self.driver;
        for (at, bytes) in &self.same {
            // SAFETY: mapped by this value, and nothing runs any more.
            let _ = unsafe { d.cuMemUnmap(*at, *bytes as usize) };
        }
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
