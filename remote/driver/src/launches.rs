//! Launches of kernels. The configuration is checked here, so that an error comes from the launch that has it.

use crate::code::{Function, function};
use crate::errors::INVALID_CONTEXT;
use crate::forms::stream_number;
use crate::pointers::{bytes, get, get_at};
use crate::request::{Request, has_context};
use crate::{CallResult, stream_state};
use cuda_driver::{
    CuFunction, CuStream, EXTRA_BUFFER, EXTRA_END, EXTRA_SIZE, INVALID_VALUE, LaunchAttribute, LaunchConfig,
    NOT_SUPPORTED,
};
use remote_calls::message::{
    Launch, LaunchAttributeValue, MAX_ARGUMENT_BYTES, MAX_LAUNCH_ATTRIBUTES, is_number_attribute,
};
use remote_calls::{CallId, HandleNumber};
use std::ffi::c_void;

/// Maximum number of blocks in x, and in y and z, of every device since compute capability 3.0.
const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];

/// Shared memory that a block gets on every device without a request, bytes.
const SURE_SHARED_BYTES: u32 = 48 << 10;

/// A launch as the program makes it.
pub struct LaunchForm {
    /// Function, or kernel.
    pub function: CuFunction,
    /// Number of blocks per dimension.
    pub grid: [u32; 3],
    /// Number of threads of a block per dimension.
    pub block: [u32; 3],
    /// Dynamic shared memory, bytes.
    pub shared: u32,
    /// Stream.
    pub stream: CuStream,
    /// Addresses of the arguments.
    pub parameters: *mut *mut c_void,
    /// Arguments as one buffer.
    pub extra: *mut *mut c_void,
    /// Whether blocks may wait for each other.
    pub is_cooperative: bool,
    /// Attributes, for the function that has them.
    pub attributes: Option<Vec<LaunchAttributeValue>>,
}

/// `cuLaunchKernelEx`.
pub fn launch_with(
    is_per_thread: bool,
    config: *const LaunchConfig,
    function: CuFunction,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> CallResult {
    let config = get(config)?;
    if config.attribute_count > MAX_LAUNCH_ATTRIBUTES {
        return Err(INVALID_VALUE);
    }
    let attribute = |index| {
        let LaunchAttribute { id, value, .. } = get_at(config.attributes, index)?;
        match is_number_attribute(id) {
            true => Ok(LaunchAttributeValue { id, value }),
            false => Err(NOT_SUPPORTED),
        }
    };
    let attributes = (0..config.attribute_count as usize)
        .map(attribute)
        .collect::<CallResult<Vec<_>>>()?;
    let form = LaunchForm {
        function,
        grid: config.grid,
        block: config.block,
        shared: config.shared,
        stream: config.stream,
        parameters,
        extra,
        is_cooperative: false,
        attributes: Some(attributes),
    };
    launch(is_per_thread, &form)
}

/// Launches a kernel. Without `--wait-each` it returns when the request is written.
pub fn launch(is_per_thread: bool, form: &LaunchForm) -> CallResult {
    let mut request = Request::new(CallId::launch, is_per_thread)?;
    if !has_context() {
        return Err(INVALID_CONTEXT);
    }
    let stream = stream_number(is_per_thread, form.stream)?;
    describe(form, stream, |launch| {
        launch.write(&mut request.encoder);
        Ok(())
    })?;
    // Launches into a capture, and those that few programs make, can fail for reasons that only the driver knows.
    let static_shared = function(form.function)?.description.shared_bytes;
    let is_plain = !form.is_cooperative
        && form.attributes.as_ref().is_none_or(Vec::is_empty)
        && form.shared.saturating_add(static_shared) <= SURE_SHARED_BYTES;
    match is_plain && stream_state::is_plain(stream) {
        true => request.finish().map(drop),
        false => request.ask().map(drop),
    }
}

/// Checks a launch, and passes its message to `write`.
///
/// # Errors
/// The driver's code for a function that does not exist, or a launch that no device runs.
pub fn describe<R>(
    form: &LaunchForm,
    stream: HandleNumber,
    write: impl FnOnce(Launch<'_>) -> CallResult<R>,
) -> CallResult<R> {
    let function = function(form.function)?;
    check_configuration(&function, form)?;
    let mut buffer = [0; 1024];
    let mut large = Vec::new();
    let arguments = collect_arguments(&function, form, &mut buffer, &mut large)?;
    write(Launch {
        function: function.description.handle,
        grid: form.grid,
        block: form.block,
        shared: form.shared,
        stream,
        attributes: form.attributes.clone(),
        cooperative: form.is_cooperative,
        arguments,
    })
}

fn check_configuration(function: &Function, form: &LaunchForm) -> CallResult {
    let limits = form.grid.iter().zip(MAX_GRID);
    let is_grid_valid = limits.into_iter().all(|(count, limit)| (1..=limit).contains(count));
    let threads = form.block.iter().try_fold(1u32, |all, count| all.checked_mul(*count));
    let max_threads = function.description.max_threads;
    match threads {
        Some(threads) if is_grid_valid && (1..=max_threads).contains(&threads) && form.block[2] <= 64 => Ok(()),
        _ => Err(INVALID_VALUE),
    }
}

/// Returns the arguments as one block: in `buffer` if they fit, else in `large`.
fn collect_arguments<'b>(
    function: &Function,
    form: &LaunchForm,
    buffer: &'b mut [u8; 1024],
    large: &'b mut Vec<u8>,
) -> CallResult<&'b [u8]> {
    if !form.extra.is_null() {
        if !form.parameters.is_null() {
            return Err(INVALID_VALUE);
        }
        large.extend_from_slice(extra_buffer(form.extra)?);
        return Ok(large);
    }
    let size = function.description.argument_bytes();
    if size > MAX_ARGUMENT_BYTES {
        return Err(INVALID_VALUE);
    }
    let size = size as usize;
    let block = match buffer.get_mut(..size) {
        Some(block) => block,
        None => {
            large.resize(size, 0);
            large
        }
    };
    for (index, place) in function.description.parameters.iter().enumerate() {
        let value = bytes(get_at(form.parameters, index)?, place.bytes as usize)?;
        let first = place.offset as usize;
        let target = block.get_mut(first..first + value.len()).ok_or(INVALID_VALUE)?;
        target.copy_from_slice(value);
    }
    Ok(block)
}

/// Returns the buffer of arguments in a launch's `extra` list.
fn extra_buffer<'a>(extra: *mut *mut c_void) -> CallResult<&'a [u8]> {
    let (mut at, mut size) = (std::ptr::null::<c_void>(), None);
    // The list has three markers at most.
    for pair in 0..3 {
        let marker = get_at(extra, pair * 2)?.addr();
        match marker {
            EXTRA_END => break,
            EXTRA_BUFFER => at = get_at(extra, pair * 2 + 1)?,
            EXTRA_SIZE => size = Some(get::<usize>(get_at(extra, pair * 2 + 1)?.cast())?),
            _ => return Err(INVALID_VALUE),
        }
    }
    let size = size
        .filter(|size| *size <= MAX_ARGUMENT_BYTES as usize)
        .ok_or(INVALID_VALUE)?;
    bytes(at, size)
}
