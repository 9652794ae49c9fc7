//! Calls that launch functions.

use crate::call::Call;
use crate::codes::NOT_SUPPORTED;
use crate::graphs::Work;
use crate::launch::{Launch, LaunchShape};
use crate::pointers::{get, get_at};
use crate::{Answer, capture};
use cuda_driver::{CuFunction, CuStream, LAUNCH_CLUSTER, LAUNCH_COOPERATIVE, LaunchConfig};
use std::ffi::c_void;

fn launch(
    call: &Call,
    function: CuFunction,
    shape: LaunchShape,
    stream: CuStream,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Answer {
    let (context, stream) = call.stream(stream)?;
    let launch = Launch::prepare(&context, function, shape, parameters, extra)?;
    // A missing kernel returns an error at once and does not fail on the device, so that a test reports it.
    if !launch.is_implemented() {
        return Err(NOT_SUPPORTED);
    }
    if capture::capture_work(&context, &stream, || Work::Launch(launch.clone()))? {
        return Ok(());
    }
    context.submit(&stream, Vec::new(), move |health| launch.run(health));
    Ok(())
}

#[allow(clippy::too_many_arguments, reason = "the driver's own")]
pub fn cuLaunchKernel(
    call: &Call,
    function: CuFunction,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared: u32,
    stream: CuStream,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Answer {
    let shape = LaunchShape {
        grid: [grid_x, grid_y, grid_z],
        block: [block_x, block_y, block_z],
        cluster: [0; 3],
        shared,
        cooperative: false,
    };
    launch(call, function, shape, stream, parameters, extra)
}

#[allow(clippy::too_many_arguments, reason = "the driver's own")]
pub fn cuLaunchCooperativeKernel(
    call: &Call,
    function: CuFunction,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared: u32,
    stream: CuStream,
    parameters: *mut *mut c_void,
) -> Answer {
    let shape = LaunchShape {
        grid: [grid_x, grid_y, grid_z],
        block: [block_x, block_y, block_z],
        cluster: [0; 3],
        shared,
        cooperative: true,
    };
    launch(call, function, shape, stream, parameters, std::ptr::null_mut())
}

pub fn cuLaunchKernelEx(
    call: &Call,
    config: *const LaunchConfig,
    function: CuFunction,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Answer {
    let config = get(config)?;
    let mut shape = LaunchShape {
        grid: config.grid,
        block: config.block,
        cluster: [0; 3],
        shared: config.shared,
        cooperative: false,
    };
    for n in 0..config.attribute_count as usize {
        let attribute = get_at(config.attributes, n)?;
        let [low, high, ..] = attribute.value;
        match attribute.id {
            LAUNCH_COOPERATIVE => shape.cooperative = low as u32 != 0,
            LAUNCH_CLUSTER => shape.cluster = [low as u32, (low >> 32) as u32, high as u32],
            _ => {}
        }
    }
    launch(call, function, shape, config.stream, parameters, extra)
}
