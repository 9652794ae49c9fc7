//! Host functions of the program, in streams and graphs.
#![allow(unsafe_code, reason = "calls of the driver")]

use crate::call_error::CallResult;
use crate::forms::{DriverHandle as _, find_object};
use crate::host_function_lane::{ID_BITS, run_callback, run_function};
use crate::session::Scope;
use cuda_driver::CuStream;
use remote_calls::message::{HostFunctionForm, LaunchHostFunction, MAX_HOST_FUNCTION};
use remote_calls::{Decoder, HandleKind};
use std::ffi::c_void;

/// Returns the driver's argument for a host function: the numbers of the lane and of the function.
///
/// # Errors
/// If no thread can be started for the lane.
pub fn node_data(scope: &Scope<'_>, id: u64) -> CallResult<*mut c_void> {
    let lane = scope.session.host_functions.start()?;
    let number = u64::from(lane) << ID_BITS | (id & MAX_HOST_FUNCTION);
    Ok(std::ptr::without_provenance_mut(number as usize))
}

/// Returns the driver's function for host functions.
pub fn node_function() -> *mut c_void {
    run_function as *const () as *mut c_void
}

/// Launches a host function in a stream.
///
/// # Errors
/// If the message is invalid, or the driver refuses.
pub fn launch(scope: &Scope<'_>, decoder: &mut Decoder<'_>) -> CallResult {
    let launch = LaunchHostFunction::read(decoder)?;
    decoder.finish()?;
    let stream = CuStream::from_object(find_object(scope, HandleKind::Stream, launch.stream)?);
    let data = node_data(scope, launch.id)?;
    let driver = &scope.session.driver;
    // SAFETY: the functions have the types that the driver expects, and live as long as the process. The argument is a
    // number, which they look up.
    unsafe {
        match launch.form {
            HostFunctionForm::Function => driver.cuLaunchHostFunc(stream, node_function(), data)?,
            HostFunctionForm::Callback => {
                let function = run_callback as *const () as *mut c_void;
                driver.cuStreamAddCallback(stream, function, data, 0)?;
            }
        }
    }
    Ok(())
}
