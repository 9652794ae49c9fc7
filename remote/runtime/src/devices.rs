//! Devices: their number, the thread's device, attributes, versions, peers.

use crate::contexts::{self, bind, rebind};
use crate::errors::{INVALID_DEVICE, INVALID_VALUE, NO_DEVICE};
use crate::pointers::{put, put_bytes, put_if_wanted};
use crate::{CallResult, driver, errors, last_error, thread_state};
use cuda_driver::CuDevice;
use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

/// Flag: host memory is mapped. This is always so.
const MAP_HOST: u32 = 8;
/// Flags for waiting, of which one may be set: spin, yield, block.
const SCHEDULE_FLAGS: u32 = 7;
/// All flags of devices: waiting, mapped host memory, local memory, synchronous memory calls.
const DEVICE_FLAGS: u32 = 0x9f;

/// Preferences that have no effect, such as `cudaDeviceSetCacheConfig`; a program can read them again.
#[derive(Debug)]
pub struct Preference {
    value: AtomicU32,
    max: u32,
}

/// `cudaDeviceSetCacheConfig`.
pub static CACHE_CONFIG: Preference = Preference::new(3);
/// `cudaDeviceSetSharedMemConfig`.
pub static SHARED_MEMORY_CONFIG: Preference = Preference::new(2);

impl Preference {
    const fn new(max: u32) -> Self {
        Self {
            value: AtomicU32::new(0),
            max,
        }
    }

    /// Sets the preference.
    pub fn set(&self, value: u32) -> CallResult {
        if value > self.max {
            return Err(INVALID_VALUE);
        }
        bind()?;
        self.value.store(value, Ordering::Relaxed);
        Ok(())
    }

    /// Writes the preference.
    pub fn write(&self, to: *mut u32) -> CallResult {
        bind()?;
        put(to, self.value.load(Ordering::Relaxed))
    }
}

/// Returns an error if there is no device with this number.
pub fn check(device: CuDevice) -> CallResult<&'static driver::RuntimeDriver> {
    let driver = driver::initialized()?;
    let mut count = 0;
    driver.cuDeviceGetCount(&raw mut count)?;
    match (0..count).contains(&device) {
        true => Ok(driver),
        false => Err(INVALID_DEVICE),
    }
}

/// `cudaGetDeviceCount`. A machine without devices is an error.
pub fn count(to: *mut i32) -> CallResult {
    put(to, 0)?;
    let mut count = 0;
    driver::initialized()?.cuDeviceGetCount(&raw mut count)?;
    put(to, count)?;
    if count == 0 { Err(NO_DEVICE) } else { Ok(()) }
}

/// `cudaGetDevice`.
pub fn write_device(to: *mut i32) -> CallResult {
    driver::initialized()?;
    put(to, thread_state::device())
}

/// `cudaSetDevice`: changes this thread's device, and creates its context.
pub fn set_device(device: CuDevice) -> CallResult {
    check(device)?;
    thread_state::set_device(device);
    rebind().map(drop)
}

/// `cudaInitDevice`: creates a device's context, and leaves the thread's device.
pub fn initialize_device(device: CuDevice) -> CallResult {
    contexts::primary(check(device)?, device).map(drop)
}

/// `cudaSetDeviceFlags`.
pub fn set_flags(flags: u32) -> CallResult {
    let schedule = flags & SCHEDULE_FLAGS;
    if flags & !DEVICE_FLAGS != 0 || !matches!(schedule, 0 | 1 | 2 | 4) {
        return Err(INVALID_VALUE);
    }
    contexts::set_flags(thread_state::device(), flags & !MAP_HOST)
}

/// `cudaGetDeviceFlags`.
pub fn write_flags(to: *mut u32) -> CallResult {
    driver::initialized()?;
    put(to, contexts::flags(thread_state::device()) | MAP_HOST)
}

/// `cudaDeviceSynchronize`.
pub fn synchronize() -> CallResult {
    bind()?.cuCtxSynchronize()
}

/// `cudaDeviceReset`. It clears the thread's last error, which belonged to the context.
pub fn reset() -> CallResult {
    contexts::reset()?;
    last_error::clear();
    Ok(())
}

/// `cudaDeviceGetAttribute`. The numbers are those of the driver.
pub fn write_attribute(to: *mut i32, attribute: i32, device: CuDevice) -> CallResult {
    let driver = check(device)?;
    let mut value = 0;
    driver.cuDeviceGetAttribute(&raw mut value, attribute, device)?;
    put(to, value)
}

/// `cudaDriverGetVersion`: 0 without a driver.
pub fn write_driver_version(to: *mut i32) -> CallResult {
    let mut version = 0;
    if let Ok(driver) = driver::loaded() {
        driver.cuDriverGetVersion(&raw mut version)?;
    }
    put(to, version)
}

/// `cudaRuntimeGetVersion`.
pub fn write_runtime_version(to: *mut i32, version: i32) -> CallResult {
    put(to, version)
}

/// `cudaDeviceGetStreamPriorityRange`. A driver without the function has no priorities.
pub fn write_priority_range(lowest: *mut i32, highest: *mut i32) -> CallResult {
    let driver = bind()?;
    let (mut low, mut high) = (0, 0);
    match driver.cuCtxGetStreamPriorityRange(&raw mut low, &raw mut high) {
        Ok(()) | Err(errors::CALL_REQUIRES_NEWER_DRIVER) => {}
        Err(code) => return Err(code),
    }
    put_if_wanted(lowest, low);
    put_if_wanted(highest, high);
    Ok(())
}

/// `cudaDeviceGetPCIBusId`: writes domain, bus and device in hexadecimal, for example `0000:3b:00.0`.
pub fn write_pci_address(to: *mut c_char, room: i32, device: CuDevice) -> CallResult {
    let driver = check(device)?;
    let find = |attribute| -> CallResult<i32> {
        let mut value = 0;
        driver.cuDeviceGetAttribute(&raw mut value, attribute, device)?;
        Ok(value)
    };
    let text = format!("{:04x}:{:02x}:{:02x}.0\0", find(50)?, find(33)?, find(34)?);
    if usize::try_from(room).is_ok_and(|room| text.len() <= room) {
        put_bytes(to.cast(), text.as_bytes())
    } else {
        Err(INVALID_VALUE)
    }
}

/// `cudaDeviceGetByPCIBusId`.
pub fn find_pci_address(to: *mut i32, text: *const c_char) -> CallResult {
    if to.is_null() || text.is_null() {
        return Err(INVALID_VALUE);
    }
    driver::initialized()?.cuDeviceGetByPCIBusId(to, text)
}

/// `cudaDeviceGetP2PAttribute`. The numbers are those of the driver.
pub fn write_peer_attribute(to: *mut i32, attribute: i32, device: CuDevice, peer: CuDevice) -> CallResult {
    check(device)?;
    let driver = check(peer)?;
    if to.is_null() || device == peer {
        return Err(if to.is_null() { INVALID_VALUE } else { INVALID_DEVICE });
    }
    driver.cuDeviceGetP2PAttribute(to, attribute, device, peer)
}

/// `cudaCtxResetPersistingL2Cache`.
pub fn reset_cache() -> CallResult {
    bind()?.cuCtxResetPersistingL2Cache()
}

/// Returns the driver's flags for a lookup. A caller with default streams of its threads gets functions for them, unless
/// it asks for others.
#[must_use]
pub const fn entry_point_flags(flags: u64, is_per_thread: bool) -> u64 {
    const PER_THREAD: u64 = 2;
    match flags {
        0 if is_per_thread => PER_THREAD,
        flags => flags,
    }
}

/// `cudaGetDriverEntryPoint` and `cudaGetDriverEntryPointByVersion`. The flags are those of the driver. A function that
/// is missing is a status, and no error.
pub fn write_entry_point(
    symbol: *const c_char,
    to: *mut *mut c_void,
    version: i32,
    flags: u64,
    status: *mut i32,
) -> CallResult {
    if symbol.is_null() || to.is_null() {
        return Err(INVALID_VALUE);
    }
    let mut found = 0;
    match bind()?.cuGetProcAddress_v2(symbol, to, version, flags, &raw mut found) {
        Ok(()) => {}
        Err(errors::SYMBOL_NOT_FOUND) if !status.is_null() => put(to, std::ptr::null_mut())?,
        Err(code) => return Err(code),
    }
    put_if_wanted(status, found);
    Ok(())
}

/// `cudaDeviceCanAccessPeer`.
pub fn write_peer_access(to: *mut i32, device: CuDevice, peer: CuDevice) -> CallResult {
    check(device)?;
    let driver = check(peer)?;
    let mut can_access = 0;
    if device != peer {
        match driver.cuDeviceCanAccessPeer(&raw mut can_access, device, peer) {
            Ok(()) | Err(errors::CALL_REQUIRES_NEWER_DRIVER) => {}
            Err(code) => return Err(code),
        }
    }
    put(to, can_access)
}

/// `cudaDeviceGetLimit`.
pub fn write_limit(to: *mut usize, limit: u32) -> CallResult {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    bind()?.cuCtxGetLimit(to, limit)
}

/// `cudaDeviceSetLimit`.
pub fn set_limit(limit: u32, value: usize) -> CallResult {
    bind()?.cuCtxSetLimit(limit, value)
}

/// `cudaDeviceEnablePeerAccess`, and its opposite.
pub fn set_peer_access(peer: i32, is_enabled: bool) -> CallResult {
    let driver = bind()?;
    if peer == thread_state::device() {
        return Err(INVALID_DEVICE);
    }
    let context = contexts::primary(driver, peer)?;
    let result = match is_enabled {
        true => driver.cuCtxEnablePeerAccess(context, 0),
        false => driver.cuCtxDisablePeerAccess(context),
    };
    result.map_err(|code| match code {
        errors::CALL_REQUIRES_NEWER_DRIVER | errors::NOT_SUPPORTED => errors::PEER_ACCESS_UNSUPPORTED,
        code => code,
    })
}
