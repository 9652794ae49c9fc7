//! Kernel launches.

use crate::contexts::bind;
use crate::driver::RuntimeDriver;
use crate::errors::{INVALID_CONFIGURATION, INVALID_DEVICE_FUNCTION, INVALID_VALUE};
use crate::launch_configuration::{Dim3, LaunchConfiguration};
use crate::pointers::get;
use crate::{CallResult, registration, thread_state, version};
use cuda_driver::{CuKernel, CuStream, FUNCTION_MAX_THREADS, LaunchAttribute, LaunchConfig};
use std::ffi::c_void;

/// `cudaLaunchConfig_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RuntimeLaunchConfig {
    grid: Dim3,
    block: Dim3,
    shared: usize,
    stream: CuStream,
    attributes: *const LaunchAttribute,
    attribute_count: u32,
}

/// Returns the maximum sizes of a grid and a block of the device: attributes 5 to 7 and 2 to 4.
fn max_sizes(driver: &RuntimeDriver) -> CallResult<[[u32; 3]; 2]> {
    let attribute = |number| -> CallResult<u32> {
        let mut value = 0;
        driver.cuDeviceGetAttribute(&raw mut value, number, thread_state::device())?;
        u32::try_from(value).map_err(|_| INVALID_VALUE)
    };
    Ok([
        [attribute(5)?, attribute(6)?, attribute(7)?],
        [attribute(2)?, attribute(3)?, attribute(4)?],
    ])
}

/// Returns whether the device and the kernel allow a grid and a block.
fn is_valid_configuration(driver: &RuntimeDriver, kernel: CuKernel, grid: Dim3, block: Dim3) -> CallResult<bool> {
    let is_within = |sizes: Dim3, max: [u32; 3]| sizes.sizes().iter().zip(max).all(|(n, max)| (1..=max).contains(n));
    let [max_grid, max_block] = max_sizes(driver)?;
    let mut max_threads = 0;
    driver.cuKernelGetAttribute(
        &raw mut max_threads,
        FUNCTION_MAX_THREADS,
        kernel,
        thread_state::device(),
    )?;
    let threads = block.sizes().iter().map(|n| u64::from(*n)).product::<u64>();
    let is_small = u64::try_from(max_threads).is_ok_and(|max| threads <= max);
    Ok(is_within(grid, max_grid) && is_within(block, max_block) && is_small)
}

/// Returns the runtime's code for the driver's code of a failed launch: the driver does not tell a bad configuration
/// from other invalid values.
fn refine_error(driver: &RuntimeDriver, kernel: CuKernel, grid: Dim3, block: Dim3, code: u32) -> u32 {
    match code {
        INVALID_VALUE
            if version::has_configuration_error()
                && is_valid_configuration(driver, kernel, grid, block) == Ok(false) =>
        {
            INVALID_CONFIGURATION
        }
        _ => code,
    }
}

/// Launches a kernel by its handle: `__cudaLaunchKernel`.
pub fn launch_kernel(kernel: CuKernel, launch: LaunchConfiguration, arguments: *mut *mut c_void) -> CallResult {
    let driver = bind()?;
    if kernel.is_null() {
        return Err(INVALID_DEVICE_FUNCTION);
    }
    let LaunchConfiguration {
        grid,
        block,
        shared,
        stream,
    } = launch;
    let shared = u32::try_from(shared).map_err(|_| INVALID_VALUE)?;
    let none = std::ptr::null_mut();
    driver
        .cuLaunchKernel(
            kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, stream, arguments, none,
        )
        .map_err(|code| refine_error(driver, kernel, grid, block, code))
}

/// Launches a kernel by the address of its host function: `cudaLaunchKernel`.
pub fn launch_function(
    function: *const c_void,
    launch: LaunchConfiguration,
    arguments: *mut *mut c_void,
) -> CallResult {
    launch_kernel(registration::kernel(function)?, launch, arguments)
}

/// `cudaLaunchCooperativeKernel`: all blocks run at the same time.
pub fn launch_cooperative(
    function: *const c_void,
    launch: LaunchConfiguration,
    arguments: *mut *mut c_void,
) -> CallResult {
    let kernel = registration::kernel(function)?;
    let driver = bind()?;
    let LaunchConfiguration {
        grid,
        block,
        shared,
        stream,
    } = launch;
    let shared = u32::try_from(shared).map_err(|_| INVALID_VALUE)?;
    driver
        .cuLaunchCooperativeKernel(
            kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, stream, arguments,
        )
        .map_err(|code| refine_error(driver, kernel, grid, block, code))
}

/// `cudaLaunchKernelExC`: a launch with attributes, which have the driver's form.
pub fn launch_with_attributes(
    config: *const RuntimeLaunchConfig,
    function: *const c_void,
    arguments: *mut *mut c_void,
    is_per_thread: bool,
) -> CallResult {
    let config = get(config)?;
    let kernel = registration::kernel(function)?;
    let driver = bind()?;
    let driver_config = LaunchConfig {
        grid: config.grid.sizes(),
        block: config.block.sizes(),
        shared: u32::try_from(config.shared).map_err(|_| INVALID_VALUE)?,
        stream: crate::streams::resolve(config.stream, is_per_thread),
        attributes: config.attributes,
        attribute_count: config.attribute_count,
    };
    driver
        .cuLaunchKernelEx(&raw const driver_config, kernel, arguments, std::ptr::null_mut())
        .map_err(|code| refine_error(driver, kernel, config.grid, config.block, code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launch_config_has_the_size_of_the_header() {
        assert_eq!(size_of::<RuntimeLaunchConfig>(), 56);
        assert_eq!(std::mem::offset_of!(RuntimeLaunchConfig, stream), 32);
    }
}
