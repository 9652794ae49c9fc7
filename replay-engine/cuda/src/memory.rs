//! Device memory at the recorded addresses: reserved, mapped, and released.
#![allow(unsafe_code, reason = "calls of the driver; why each is sound stands at it")]

use super::code::MovedVariable;
use super::error::CudaReplayError;
use super::script::{MemoryAlias, Script};
use cuda_driver::{
    ACCESS_READ_WRITE, ALLOCATION_PINNED, AccessDescription, AllocationProperties, CuDevice, CuMemHandle, Driver,
    LOCATION_DEVICE, MemLocation,
};
use trace_core::GpuVa;

/// Sizes and alignments of the reservation around a range outside of the window, if the driver does not grant the range
/// alone, bytes. Drivers honor the address of long ranges only; the shorter the range, the less of this process is in
/// its way.
const RESERVATION_BYTES: [u64; 4] = [64 << 20, 512 << 20, 4 << 30, 64 << 30];

/// Address ranges backed by device memory. They are released on drop.
#[derive(Debug)]
pub(super) struct MappedMemory {
    driver: Driver,
    device: CuDevice,
    /// First byte and length of each reservation, bytes.
    reserved: Vec<(u64, u64)>,
    /// First byte and length in bytes of each mapping, and its memory handle.
    ranges: Vec<(u64, u64, CuMemHandle)>,
    /// First byte and length in bytes of each mapping that aliases the memory of `ranges`.
    same: Vec<(u64, u64)>,
    /// Memory shared by host and device that has another address now.
    pub moved: Vec<MovedVariable>,
}

impl MappedMemory {
    /// Maps memory at each range of a script. The address windows of the recorder are reserved as a whole, as in the
    /// recording: drivers place a short range anywhere, whatever address is requested.
    pub fn new(driver: Driver, device: CuDevice, script: &Script) -> Result<Self, CudaReplayError> {
        let mut all = Self {
            driver,
            device,
            reserved: Vec::new(),
            ranges: Vec::new(),
            same: Vec::new(),
            moved: Vec::new(),
        };
        let windows = [script.metadata.window, script.metadata.reserved];
        let places = || {
            let same = script.same.iter().map(|s| (s.at, s.bytes));
            script.ranges.iter().copied().chain(same)
        };
        for window in windows {
            if places().any(|(at, bytes)| window.contains(at, bytes)) {
                all.reserve(window.base.get(), window.bytes)?;
            }
        }
        for (at, bytes) in places() {
            if !windows.iter().any(|w| w.contains(at, bytes)) {
                all.reserve_outside(at.get(), bytes)?;
            }
        }
        for (at, bytes) in &script.ranges {
            all.map(at.get(), *bytes)?;
        }
        for s in &script.same {
            all.map_again(s)?;
        }
        for (at, bytes) in &script.shared {
            all.map_anywhere(at.get(), *bytes, &script.shared_parts)?;
        }
        Ok(all)
    }

    /// Maps memory whose parts may be relocated, for example memory shared by host and device. It uses the recorded
    /// address, or another one if that is not free in this process.
    fn map_anywhere(&mut self, at: u64, bytes: u64, parts: &[(GpuVa, u64)]) -> Result<(), CudaReplayError> {
        let is_free = self.reserve_outside(at, bytes);
        if is_free.is_ok() {
            return self.map(at, bytes);
        }
        let mut to = 0;
        // SAFETY: reserves only an address range; the driver returns its address.
        unsafe { self.driver.cuMemAddressReserve(&raw mut to, bytes as usize, 0, 0, 0)? };
        self.reserved.push((to, bytes));
        self.map(to, bytes)?;
        let inside = parts
            .iter()
            .filter(|(part, _)| part.get().checked_sub(at).is_some_and(|by| by < bytes));
        self.moved.extend(inside.map(|(part, length)| MovedVariable {
            was: *part,
            bytes: *length,
            is: GpuVa::new(to + (part.get() - at)),
        }));
        Ok(())
    }

    /// Maps `bytes` bytes, a multiple of the mapping granularity, at any address, with unmapped addresses after them.
    /// Returns the first address.
    pub fn map_with_gap(&mut self, bytes: u64) -> Result<GpuVa, CudaReplayError> {
        let whole = bytes.saturating_add(super::script::GRANULE);
        let mut at = 0;
        // SAFETY: reserves only an address range; the driver returns its address.
        unsafe { self.driver.cuMemAddressReserve(&raw mut at, whole as usize, 0, 0, 0)? };
        self.reserved.push((at, whole));
        self.map(at, bytes)?;
        Ok(GpuVa::new(at))
    }

    /// Maps existing memory at further addresses.
    fn map_again(&mut self, s: &MemoryAlias) -> Result<(), CudaReplayError> {
        let found = self
            .ranges
            .iter()
            .find(|(at, bytes, _)| *at == s.of.get() && *bytes == s.bytes);
        let handle = found
            .map(|(.., handle)| *handle)
            .ok_or_else(|| CudaReplayError::Damaged {
                event: 0,
                what: format!(
                    "the memory at {:#x} is also mapped at {:#x}, which does not exist",
                    s.of, s.at
                ),
            })?;
        let d = &self.driver;
        // SAFETY: memory created by this value, and addresses that are reserved and unmapped.
        unsafe { d.cuMemMap(s.at.get(), s.bytes as usize, 0, handle, 0)? };
        self.same.push((s.at.get(), s.bytes));
        self.allow(s.at.get(), s.bytes)
    }

    /// Grants the device access to a mapping.
    fn allow(&self, at: u64, bytes: u64) -> Result<(), CudaReplayError> {
        let access = AccessDescription {
            location: MemLocation {
                kind: LOCATION_DEVICE,
                id: self.device,
            },
            flags: ACCESS_READ_WRITE,
        };
        // SAFETY: a valid access descriptor, and a mapping of this value.
        unsafe { self.driver.cuMemSetAccess(at, bytes as usize, &raw const access, 1)? };
        Ok(())
    }

    /// Reserves a range outside of the window: by itself, or, if the driver returns another address, in a reservation
    /// large enough that the driver honors the requested address.
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
        for around in RESERVATION_BYTES {
            let from = at - at % around;
            let to = end.checked_next_multiple_of(around);
            let Some(to) = to.filter(|to| !self.reserved.iter().any(over(from, *to))) else {
                break;
            };
            if self.reserve(from, to - from).is_ok() {
                return Ok(());
            }
        }
        // The error says that the range itself is not available.
        Err(e)
    }

    fn reserve(&mut self, at: u64, bytes: u64) -> Result<(), CudaReplayError> {
        let d = &self.driver;
        let length = bytes as usize;
        let mut given = 0;
        // SAFETY: reserves only an address range; the driver returns its address.
        unsafe { d.cuMemAddressReserve(&raw mut given, length, 0, at, 0)? };
        if given != at {
            // SAFETY: just reserved, and unused.
            let _ = unsafe { d.cuMemAddressFree(given, length) };
            return Err(CudaReplayError::Taken {
                at: GpuVa::new(at),
                end: GpuVa::new(at.saturating_add(bytes)),
                given,
            });
        }
        self.reserved.push((at, bytes));
        Ok(())
    }

    /// Backs reserved addresses with memory.
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
        // SAFETY: valid descriptors, and addresses that are reserved and unmapped.
        unsafe {
            d.cuMemCreate(&raw mut handle, length, &raw const properties, 0)?;
            if let Err(e) = d.cuMemMap(at, length, 0, handle, 0) {
                let _ = d.cuMemRelease(handle);
                return Err(e.into());
            }
        }
        self.ranges.push((at, bytes, handle));
        self.allow(at, bytes)?;
        // This hides data of other processes, and two replays start with the same contents. SAFETY: memory that was
        // just mapped.
        unsafe { self.driver.cuMemsetD8_v2(at, 0, length)? };
        Ok(())
    }

    /// Returns the first byte and the length in bytes of each mapped range, each once.
    pub fn ranges(&self) -> impl Iterator<Item = (GpuVa, u64)> + '_ {
        self.ranges.iter().map(|(at, bytes, _)| (GpuVa::new(*at), *bytes))
    }

    /// Returns the number of mapped bytes.
    pub fn bytes(&self) -> u64 {
        self.ranges.iter().map(|r| r.1).sum()
    }
}

impl Drop for MappedMemory {
    fn drop(&mut self) {
        let d = &self.driver;
        for (at, bytes) in &self.same {
            // SAFETY: mapped by this value, and no device work is pending.
            let _ = unsafe { d.cuMemUnmap(*at, *bytes as usize) };
        }
        for (at, bytes, handle) in &self.ranges {
            // SAFETY: mapped and reserved by this value, and no device work is pending. A failed device refuses, and
            // releases the memory with its context.
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
