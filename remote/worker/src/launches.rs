//! Launches of kernels.
#![allow(unsafe_code, reason = "calls of the driver")]

use crate::call_error::{CallError, CallResult};
use crate::forms::{DriverHandle as _, find_object};
use crate::session::Scope;
use cuda_driver::{
    CuFunction, CuStream, EXTRA_BUFFER, EXTRA_END, EXTRA_SIZE, LaunchAttribute, LaunchConfig, NOT_SUPPORTED,
};
use remote_calls::message::{Launch, is_number_attribute};
use remote_calls::{Decoder, HandleKind};
use std::ffi::c_void;

/// Arguments of a launch, as one block for the driver.
pub struct ArgumentBlock {
    bytes: Vec<u8>,
    size: usize,
    list: [*mut c_void; 5],
}

impl ArgumentBlock {
    /// Creates a block with these bytes.
    pub fn new(arguments: &[u8]) -> Self {
        Self {
            bytes: arguments.to_vec(),
            size: arguments.len(),
            list: [std::ptr::null_mut(); 5],
        }
    }

    /// Returns the `extra` list of a launch; null if there are no arguments. The list is valid until the block moves.
    pub fn extra(&mut self) -> *mut *mut c_void {
        if self.size == 0 {
            return std::ptr::null_mut();
        }
        self.list = [
            std::ptr::without_provenance_mut(EXTRA_BUFFER),
            self.bytes.as_mut_ptr().cast(),
            std::ptr::without_provenance_mut(EXTRA_SIZE),
            (&raw mut self.size).cast(),
            std::ptr::without_provenance_mut(EXTRA_END),
        ];
        self.list.as_mut_ptr()
    }
}

/// Plays a launch.
///
/// # Errors
/// If the message is invalid, or the driver refuses the launch.
pub fn launch(scope: &Scope<'_>, decoder: &mut Decoder<'_>) -> CallResult {
    let launch = Launch::read(decoder)?;
    decoder.finish()?;
    let driver = &scope.session.driver;
    let function = CuFunction::from_object(find_object(scope, HandleKind::Function, launch.function)?);
    let stream = CuStream::from_object(find_object(scope, HandleKind::Stream, launch.stream)?);
    // The driver copies the block during the call.
    let mut arguments = ArgumentBlock::new(launch.arguments);
    let extra = arguments.extra();
    let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (launch.grid, launch.block);
    let Some(attributes) = launch.attributes else {
        let none = std::ptr::null_mut();
        if launch.cooperative {
            // This function takes addresses of arguments alone.
            let cooperative = [LaunchAttribute {
                id: cuda_driver::LAUNCH_COOPERATIVE,
                pad: [0; 4],
                value: [1, 0, 0, 0, 0, 0, 0, 0],
            }];
            let config = LaunchConfig {
                grid: launch.grid,
                block: launch.block,
                shared: launch.shared,
                stream,
                attributes: cooperative.as_ptr(),
                attribute_count: 1,
            };
            // SAFETY: the structures are complete, and live during the call.
            return unsafe { driver.cuLaunchKernelEx(&raw const config, function, none, extra) }
                .map_err(CallError::from);
        }
        // SAFETY: the handles are the driver's, and the list of arguments lives during the call. A kernel reads what its
        // program passed; its context belongs to this program alone.
        return unsafe {
            driver.cuLaunchKernel(
                function,
                grid_x,
                grid_y,
                grid_z,
                block_x,
                block_y,
                block_z,
                launch.shared,
                stream,
                none,
                extra,
            )
        }
        .map_err(CallError::from);
    };
    if attributes.iter().any(|attribute| !is_number_attribute(attribute.id)) {
        return Err(CallError::Result(NOT_SUPPORTED));
    }
    let attributes: Vec<LaunchAttribute> = attributes
        .iter()
        .map(|attribute| LaunchAttribute {
            id: attribute.id,
            pad: [0; 4],
            value: attribute.value,
        })
        .collect();
    let config = LaunchConfig {
        grid: launch.grid,
        block: launch.block,
        shared: launch.shared,
        stream,
        attributes: attributes.as_ptr(),
        attribute_count: attributes.len() as u32,
    };
    // SAFETY: as above; the attributes have no pointers, the client refuses those that have.
    unsafe { driver.cuLaunchKernelEx(&raw const config, function, std::ptr::null_mut(), extra) }
        .map_err(CallError::from)
}
