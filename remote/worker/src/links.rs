//! Links: machine code made of texts and other machine code.
#![allow(unsafe_code, reason = "calls of the driver")]

use crate::call_error::{CallError, CallResult};
use crate::code::{PADDING, read_image};
use crate::forms::DriverHandle as _;
use crate::jit_options::JitList;
use crate::link_table::Link;
use crate::lock;
use crate::session::Scope;
use cuda_driver::{CuResult, CudaError, INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED};
use remote_calls::message::{LoadCode, MAX_LINKED_PIECE};
use remote_calls::{Decoder, Encoder, HandleKind, HandleNumber};
use std::ffi::CString;

fn result_of(done: Result<(), CudaError>) -> CuResult {
    done.map_or_else(|e| e.result().unwrap_or(NOT_SUPPORTED), |()| 0)
}

/// Creates a link. The answer has the driver's result.
///
/// # Errors
/// If the message is invalid.
pub fn create(scope: &Scope<'_>, decoder: &mut Decoder<'_>) -> CallResult {
    let load = LoadCode::read(decoder)?;
    decoder.finish()?;
    let mut options = JitList::new(&load.options)?;
    let mut state = std::ptr::null_mut();
    let (kinds, values, count) = (options.kinds.as_mut_ptr(), options.values.as_mut_ptr(), options.count());
    // SAFETY: the lists have this many elements, and live as long as the link.
    unsafe {
        scope
            .session
            .driver
            .cuLinkCreate_v2(count, kinds, values, &raw mut state)?
    };
    let link = Link {
        state: state.object() as usize,
        options,
        inputs: Vec::new(),
        image: Vec::new(),
    };
    scope
        .session
        .handles
        .insert(HandleKind::LinkState, load.handle, state.object(), scope.context)?;
    lock(&scope.session.links.links).insert(load.handle, link);
    Ok(())
}

/// Adds an input to a link. The answer has the logs and the driver's result.
///
/// # Errors
/// If the message is invalid, or there is no such link.
pub fn add(scope: &Scope<'_>, decoder: &mut Decoder<'_>, answer: &mut Encoder) -> CallResult {
    let kind: u32 = decoder.read()?;
    let name = CString::new(decoder.read_text()?).map_err(|_| CallError::Result(INVALID_VALUE))?;
    let load = LoadCode::read(decoder)?;
    decoder.finish()?;
    let mut image = read_image(scope, &load)?;
    let bytes = image.len() - PADDING.len();
    let mut options = JitList::new(&load.options)?;
    let (kinds, values, count) = (options.kinds.as_mut_ptr(), options.values.as_mut_ptr(), options.count());
    let mut links = lock(&scope.session.links.links);
    let link = links.get_mut(&load.handle).ok_or(CallError::Result(INVALID_HANDLE))?;
    let data = image.as_mut_ptr().cast();
    // SAFETY: the handle is the driver's, the input has this size and lives as long as the link, and the lists have this
    // many elements.
    let added = unsafe {
        scope
            .session
            .driver
            .cuLinkAddData_v2(link.state(), kind, data, bytes, name.as_ptr(), count, kinds, values)
    };
    link.inputs.push(image);
    link.options.logs().write(answer);
    answer.write(result_of(added));
    Ok(())
}

/// Completes a link. The answer has the logs, the driver's result, and the size of the image.
///
/// # Errors
/// If the message is invalid, or there is no such link.
pub fn complete(scope: &Scope<'_>, decoder: &mut Decoder<'_>, answer: &mut Encoder) -> CallResult {
    let handle: HandleNumber = decoder.read()?;
    decoder.finish()?;
    let mut links = lock(&scope.session.links.links);
    let link = links.get_mut(&handle).ok_or(CallError::Result(INVALID_HANDLE))?;
    let (mut image, mut bytes) = (std::ptr::null_mut(), 0);
    // SAFETY: the handle is the driver's, and the pointers are valid for the results.
    let completed = unsafe {
        scope
            .session
            .driver
            .cuLinkComplete(link.state(), &raw mut image, &raw mut bytes)
    };
    if completed.is_ok() && !image.is_null() {
        // SAFETY: the driver's image has this size, and lives until the link is destroyed.
        link.image = unsafe { std::slice::from_raw_parts(image.cast::<u8>(), bytes) }.to_vec();
    }
    link.options.logs().write(answer);
    answer.write(result_of(completed));
    answer.write(link.image.len());
    Ok(())
}

/// Returns a piece of a linked image.
///
/// # Errors
/// If the message is invalid, there is no such link, or the range is not in its image.
pub fn read(scope: &Scope<'_>, decoder: &mut Decoder<'_>, answer: &mut Encoder) -> CallResult {
    let handle: HandleNumber = decoder.read()?;
    let offset: usize = decoder.read()?;
    decoder.finish()?;
    let links = lock(&scope.session.links.links);
    let link = links.get(&handle).ok_or(CallError::Result(INVALID_HANDLE))?;
    let rest = link.image.get(offset..).ok_or(CallError::Result(INVALID_VALUE))?;
    answer.write_bytes(rest.get(..MAX_LINKED_PIECE).unwrap_or(rest));
    Ok(())
}

/// Destroys a link.
///
/// # Errors
/// If the message is invalid, there is no such link, or the driver refuses.
pub fn destroy(scope: &Scope<'_>, decoder: &mut Decoder<'_>) -> CallResult {
    let handle: HandleNumber = decoder.read()?;
    decoder.finish()?;
    let removed = lock(&scope.session.links.links).remove(&handle);
    let link = removed.ok_or(CallError::Result(INVALID_HANDLE))?;
    scope.session.handles.remove(handle);
    // SAFETY: the handle is the driver's, and is not used any more.
    unsafe { scope.session.driver.cuLinkDestroy(link.state()) }.map_err(CallError::from)
}
