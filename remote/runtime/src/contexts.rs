//! Primary contexts: retained at first use, and current on each thread that calls the runtime.

use crate::driver::{self, RuntimeDriver};
use crate::{CallResult, lock, thread_state};
use cuda_driver::{CuContext, CuDevice};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The retained primary contexts by device, as numbers.
static RETAINED: Mutex<BTreeMap<CuDevice, usize>> = Mutex::new(BTreeMap::new());
/// Flags of the devices' contexts, set by the program.
static FLAGS: Mutex<BTreeMap<CuDevice, u32>> = Mutex::new(BTreeMap::new());
/// Number of resets. Threads set their context anew after a reset.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Returns the number of resets so far. What belongs to a context is valid within one generation.
pub fn generation() -> u64 {
    GENERATION.load(Ordering::Acquire)
}

/// Returns the primary context of a device.
pub fn primary(driver: &RuntimeDriver, device: CuDevice) -> CallResult<CuContext> {
    let mut retained = lock(&RETAINED);
    if let Some(context) = retained.get(&device) {
        return Ok(std::ptr::with_exposed_provenance_mut(*context));
    }
    let flags = lock(&FLAGS).get(&device).copied();
    if let Some(flags) = flags {
        // Flags are hints about waiting: a driver without the function waits in its own way.
        let _ = driver.cuDevicePrimaryCtxSetFlags_v2(device, flags);
    }
    let mut context = std::ptr::null_mut();
    driver.cuDevicePrimaryCtxRetain(&raw mut context, device)?;
    retained.insert(device, context.expose_provenance());
    Ok(context)
}

/// Makes the primary context of this thread's device current.
pub fn rebind() -> CallResult<&'static RuntimeDriver> {
    let driver = driver::initialized()?;
    let generation = generation();
    driver.cuCtxSetCurrent(primary(driver, thread_state::device())?)?;
    thread_state::set_bound_generation(generation);
    Ok(driver)
}

/// Makes sure that this thread has a current context, and returns the driver. A context that the program made current
/// by the driver stays.
pub fn bind() -> CallResult<&'static RuntimeDriver> {
    let driver = driver::initialized()?;
    let generation = generation();
    let bound = thread_state::bound_generation();
    if bound.is_none_or(|bound| bound == generation) {
        let mut current = std::ptr::null_mut();
        driver.cuCtxGetCurrent(&raw mut current)?;
        if !current.is_null() {
            if bound.is_none() {
                thread_state::set_bound_generation(generation);
            }
            return Ok(driver);
        }
    }
    rebind()
}

/// Returns this thread's current context.
pub fn current() -> CallResult<CuContext> {
    let mut current = std::ptr::null_mut();
    bind()?.cuCtxGetCurrent(&raw mut current)?;
    Ok(current)
}

/// Destroys the primary context of this thread's device. The next call creates another.
pub fn reset() -> CallResult {
    let driver = driver::initialized()?;
    let device = thread_state::device();
    let mut retained = lock(&RETAINED);
    retained.remove(&device);
    GENERATION.fetch_add(1, Ordering::AcqRel);
    driver.cuDevicePrimaryCtxReset_v2(device)
}

/// Returns the flags that the program set for a device.
pub fn flags(device: CuDevice) -> u32 {
    lock(&FLAGS).get(&device).copied().unwrap_or(0)
}

/// Sets the flags of a device, for its current context and the next ones.
pub fn set_flags(device: CuDevice, flags: u32) -> CallResult {
    let driver = driver::initialized()?;
    lock(&FLAGS).insert(device, flags);
    // As in `primary`: the flags are hints.
    let _ = driver.cuDevicePrimaryCtxSetFlags_v2(device, flags);
    Ok(())
}
