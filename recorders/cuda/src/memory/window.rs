//! The address window of allocations: its addresses, and the physical memory that is mapped there.

use crate::driver::driver;
use cuda_driver::{
    ACCESS_READ_WRITE, ALLOCATION_PINNED, AccessDescription, AllocationProperties, CuDevice, CuMemHandle, CudaError,
    DEVICE_VIRTUAL_MEMORY, LOCATION_DEVICE, MemLocation,
};
use cuda_session::{Backing, GRANULE, Window};
use std::collections::BTreeMap;
use trace_core::GpuVa;

/// First address of the window: drivers grant it on request, and programs and their libraries do not use it.
pub(super) const WINDOW_BASE: GpuVa = GpuVa::new(0x1539_4000_0000);
/// Size of the window if the driver grants it, bytes: addresses cost nothing.
pub(super) const WINDOW_BYTES: u64 = 1 << 40;
/// `CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED`.
const DEVICE_DIRECT_RDMA: i32 = 110;
/// Minimum size of the window, bytes.
const MIN_WINDOW: u64 = 16 << 30;

const _: () = assert!(WINDOW_BASE.is_aligned(GRANULE));

/// Physical memory of the window.
pub(super) struct WindowBacking {
    /// Its device; -1 if there is no window.
    pub device: CuDevice,
    /// Mappings by first address: size in bytes and the memory's handle.
    handles: BTreeMap<GpuVa, (u64, CuMemHandle)>,
    /// Other devices that the program allows to access this device's memory.
    peers: Vec<CuDevice>,
    /// Network cards and similar devices can access it as well, as they can the driver's own memory.
    direct: bool,
}

impl WindowBacking {
    /// Returns the backing of no window.
    pub fn none() -> Self {
        Self {
            device: -1,
            handles: BTreeMap::new(),
            peers: Vec::new(),
            direct: false,
        }
    }

    /// Sets the window's device.
    pub fn set_device(&mut self, device: CuDevice) {
        let mut direct = 0;
        // SAFETY: the query has a valid pointer for the answer.
        let asked = unsafe { driver().cuDeviceGetAttribute(&raw mut direct, DEVICE_DIRECT_RDMA, device) };
        self.direct = asked.is_ok() && direct != 0;
        self.device = device;
    }

    /// Allows another device to access the window's memory, as it can access the driver's, if `owner` is its device.
    pub fn allow_peer(&mut self, other: CuDevice, owner: CuDevice) {
        if owner != self.device || other == owner || self.peers.contains(&other) {
            return;
        }
        self.peers.push(other);
        let all: Vec<(GpuVa, u64)> = self.handles.iter().map(|(at, (bytes, _))| (*at, *bytes)).collect();
        // If one mapping is refused, so are the others.
        let allowed = all.iter().try_for_each(|(at, bytes)| self.allow(*at, *bytes));
        if allowed.is_err() {
            self.peers.retain(|peer| *peer != other);
        }
    }

    /// Sets which devices can access a mapping.
    fn allow(&self, at: GpuVa, bytes: u64) -> Result<(), CudaError> {
        let of = |id: CuDevice| AccessDescription {
            location: MemLocation {
                kind: LOCATION_DEVICE,
                id,
            },
            flags: ACCESS_READ_WRITE,
        };
        let all: Vec<AccessDescription> = [self.device].iter().chain(&self.peers).map(|id| of(*id)).collect();
        // SAFETY: the mapping is in the window, and there are as many structures as the length says.
        unsafe { driver().cuMemSetAccess(at.get(), bytes as usize, all.as_ptr(), all.len()) }
    }
}

impl Backing for WindowBacking {
    type Error = CudaError;

    fn map(&mut self, at: GpuVa, bytes: u64) -> Result<(), CudaError> {
        let d = driver();
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
            flags: [0, u8::from(self.direct), 0, 0, 0, 0, 0, 0],
        };
        let mut handle = 0;
        // SAFETY: the structures belong to this function. The addresses are in the window, reserved and not mapped.
        unsafe { d.cuMemCreate(&raw mut handle, length, &raw const properties, 0)? };
        // SAFETY: as above.
        let mapped = unsafe { d.cuMemMap(at.get(), length, 0, handle, 0) }.and_then(|()| {
            self.allow(at, bytes).inspect_err(|_| {
                // SAFETY: the range was just mapped.
                let _ = unsafe { d.cuMemUnmap(at.get(), length) };
            })
        });
        if let Err(e) = mapped {
            // SAFETY: the memory is not mapped.
            let _ = unsafe { d.cuMemRelease(handle) };
            return Err(e);
        }
        self.handles.insert(at, (bytes, handle));
        Ok(())
    }

    fn unmap(&mut self, at: GpuVa, bytes: u64) -> Result<(), CudaError> {
        let d = driver();
        // SAFETY: the mapping is in this window and unused: the caller waited for the device before the free.
        unsafe { d.cuMemUnmap(at.get(), bytes as usize)? };
        match self.handles.remove(&at) {
            // SAFETY: the memory is not mapped any more.
            Some((_, handle)) => unsafe { d.cuMemRelease(handle) },
            None => Ok(()),
        }
    }
}

/// Reserves a range at a fixed address, or a shorter one if the driver does not grant the whole size.
pub(super) fn reserve_at(base: GpuVa, max: u64, min: u64) -> Result<u64, String> {
    let d = driver();
    let mut bytes = max;
    let mut last = String::new();
    while bytes >= min {
        let mut at = 0;
        // SAFETY: the call only reserves addresses; the driver returns where.
        match unsafe { d.cuMemAddressReserve(&raw mut at, bytes as usize, 0, base.get(), 0) } {
            Ok(()) if at == base.get() => return Ok(bytes),
            Ok(()) => {
                last = format!("the driver returned {at:#x} instead of {base}");
                // SAFETY: the range was just reserved and is not used.
                let _ = unsafe { d.cuMemAddressFree(at, bytes as usize) };
            }
            Err(e) => last = e.to_string(),
        }
        bytes /= 4;
    }
    Err(last)
}

/// Reserves the window.
pub(super) fn reserve_window() -> Result<(Window, CuDevice), String> {
    let d = driver();
    let (mut device, mut able) = (0, 0);
    // SAFETY: the queries have valid pointers for the answers.
    unsafe {
        d.cuCtxGetDevice(&raw mut device).map_err(|e| e.to_string())?;
        d.cuDeviceGetAttribute(&raw mut able, DEVICE_VIRTUAL_MEMORY, device)
            .map_err(|e| e.to_string())?;
    }
    if able == 0 {
        return Err("the device cannot map memory at chosen addresses".to_owned());
    }
    let bytes = reserve_at(WINDOW_BASE, WINDOW_BYTES, MIN_WINDOW)?;
    Ok((Window::new(WINDOW_BASE, bytes), device))
}
