//! Texture and surface objects.
#![allow(unsafe_code, reason = "calls of the driver")]

use crate::call_error::{CallError, CallResult};
use crate::forms::find_object;
use crate::session::Scope;
use cuda_driver::{CuObject, INVALID_VALUE, NOT_SUPPORTED, ResourceDescription};
use remote_calls::message::{CreateTexture, DescribeObject, ObjectKind, ObjectResource, TEXTURE_WORDS, VIEW_WORDS};
use remote_calls::{Decoder, Encoder, HandleNumber};

/// A structure of the driver without pointers, aligned as the driver's are.
#[repr(C, align(8))]
struct Aligned<const N: usize>([u32; N]);

/// Returns a resource for the driver.
///
/// # Errors
/// `INVALID_HANDLE` for an unknown array, `INVALID_VALUE` for null.
fn to_driver(scope: &Scope<'_>, resource: &ObjectResource) -> CallResult<ResourceDescription> {
    resource.to_description(|kind, number| match number == HandleNumber::NULL {
        true => Err(CallError::Result(INVALID_VALUE)),
        false => find_object(scope, kind, number),
    })
}

/// Returns a resource that the driver described.
///
/// # Errors
/// `NOT_SUPPORTED` for an array that the program does not know, or another kind of memory.
fn from_driver(scope: &Scope<'_>, description: &ResourceDescription) -> CallResult<ObjectResource> {
    let refused = || CallError::Result(NOT_SUPPORTED);
    let number = |kind, handle| scope.session.handles.find_number(kind, handle).ok_or_else(refused);
    ObjectResource::from_description(description, number)?.ok_or_else(refused)
}

/// Creates a texture object. The answer has its number.
///
/// # Errors
/// If the message is invalid, names an unknown array, or the driver refuses.
pub fn create_texture(scope: &Scope<'_>, decoder: &mut Decoder<'_>, answer: &mut Encoder) -> CallResult {
    let create = CreateTexture::read(decoder)?;
    decoder.finish()?;
    let objects = &scope.session.texture_objects;
    objects.check_room()?;
    let resource = to_driver(scope, &create.resource)?;
    let texture: Aligned<TEXTURE_WORDS> = Aligned(create.texture);
    let view: Option<Aligned<VIEW_WORDS>> = create.view.map(Aligned);
    let view = view
        .as_ref()
        .map_or(std::ptr::null(), |view| std::ptr::from_ref(view).cast());
    let mut object: CuObject = 0;
    // SAFETY: the structures have the driver's sizes and live during the call, and arrays are the driver's. Addresses of
    // device memory are the program's own affair.
    unsafe {
        scope.session.driver.cuTexObjectCreate(
            &raw mut object,
            (&raw const resource).cast(),
            (&raw const texture).cast(),
            view,
        )?;
    }
    objects.add(ObjectKind::Texture, object, scope.context);
    answer.write(object);
    Ok(())
}

/// Creates a surface object. The answer has its number.
///
/// # Errors
/// If the message is invalid, names an unknown array, or the driver refuses.
pub fn create_surface(scope: &Scope<'_>, decoder: &mut Decoder<'_>, answer: &mut Encoder) -> CallResult {
    let resource = ObjectResource::read(decoder)?;
    decoder.finish()?;
    let objects = &scope.session.texture_objects;
    objects.check_room()?;
    let resource = to_driver(scope, &resource)?;
    let (mut object, form): (CuObject, _) = (0, (&raw const resource).cast());
    // SAFETY: as above.
    unsafe { scope.session.driver.cuSurfObjectCreate(&raw mut object, form)? };
    objects.add(ObjectKind::Surface, object, scope.context);
    answer.write(object);
    Ok(())
}

/// Describes the memory of an object.
///
/// # Errors
/// If the message is invalid, or the object or its array is unknown.
pub fn describe(scope: &Scope<'_>, decoder: &mut Decoder<'_>, answer: &mut Encoder) -> CallResult {
    let DescribeObject { kind, object } = DescribeObject::read(decoder)?;
    decoder.finish()?;
    scope.session.texture_objects.check(kind, object)?;
    let mut description = ResourceDescription::default();
    let (driver, to) = (&scope.session.driver, (&raw mut description).cast());
    // SAFETY: the object is the driver's, and the pointer is valid for the result.
    unsafe {
        match kind {
            ObjectKind::Texture => driver.cuTexObjectGetResourceDesc(to, object)?,
            ObjectKind::Surface => driver.cuSurfObjectGetResourceDesc(to, object)?,
        }
    }
    from_driver(scope, &description)?.write(answer);
    Ok(())
}
