//! Texture and surface objects. Kernels get their numbers by value, so that the numbers are those of the worker's driver.

use crate::CallResult;
use crate::errors::DEVICE_UNAVAILABLE;
use crate::forms::{AbiHandle as _, handle_number};
use crate::pointers::{get, put};
use crate::request::Request;
use cuda_driver::{CuArray, CuMipmappedArray, CuObject, INVALID_VALUE, ResourceDescription};
use remote_calls::message::{CreateTexture, DescribeObject, ObjectKind, ObjectResource};
use remote_calls::{CallId, Encoder, HandleKind};
use std::ffi::c_void;

/// Returns a resource of the program.
///
/// # Errors
/// `INVALID_VALUE` for an unknown kind, `INVALID_HANDLE` for what is no array.
fn resource(from: *const c_void) -> CallResult<ObjectResource> {
    let description: ResourceDescription = get(from.cast())?;
    ObjectResource::from_description(&description, handle_number)?.ok_or(INVALID_VALUE)
}

/// Returns a resource as programs see it.
fn to_program(resource: &ObjectResource) -> CallResult<ResourceDescription> {
    resource.to_description(|kind, number| {
        Ok(match kind {
            HandleKind::MipmappedArray => CuMipmappedArray::from_number(number).addr() as u64,
            _ => CuArray::from_number(number).addr() as u64,
        })
    })
}

fn create(call: CallId, to: *mut CuObject, write: impl FnOnce(&mut Encoder)) -> CallResult {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let mut request = Request::new(call, false)?;
    write(&mut request.encoder);
    let answer = request.ask()?;
    put(to, answer.decoder().read().map_err(|_| DEVICE_UNAVAILABLE)?)
}

/// `cuTexObjectCreate`.
pub fn create_texture(
    to: *mut CuObject,
    memory: *const c_void,
    texture: *const c_void,
    view: *const c_void,
) -> CallResult {
    let create_texture = CreateTexture {
        resource: resource(memory)?,
        texture: get(texture.cast())?,
        view: match view.is_null() {
            true => None,
            false => Some(get(view.cast())?),
        },
    };
    create(CallId::create_texture, to, |encoder| create_texture.write(encoder))
}

/// `cuSurfObjectCreate`.
pub fn create_surface(to: *mut CuObject, memory: *const c_void) -> CallResult {
    let resource = resource(memory)?;
    create(CallId::create_surface, to, |encoder| resource.write(encoder))
}

/// `cuTexObjectGetResourceDesc` and `cuSurfObjectGetResourceDesc`.
pub fn describe(kind: ObjectKind, to: *mut c_void, object: CuObject) -> CallResult {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let mut request = Request::new(CallId::describe_object, false)?;
    DescribeObject { kind, object }.write(&mut request.encoder);
    let answer = request.ask()?;
    let resource = ObjectResource::read(&mut answer.decoder()).map_err(|_| DEVICE_UNAVAILABLE)?;
    put(to.cast(), to_program(&resource)?)
}
