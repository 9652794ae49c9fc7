//! Calls on texture and surface objects.

use crate::Answer;
use crate::call::Call;
use crate::codes::INVALID_VALUE;
use crate::pointers::{get, give};
use crate::textures::{self, TEXTURE_WORDS, VIEW_WORDS};
use cuda_driver::{CuObject, ResourceDescription};
use std::ffi::c_void;

pub fn cuTexObjectCreate(
    call: &Call,
    to: *mut CuObject,
    resource: *const c_void,
    texture: *const c_void,
    view: *const c_void,
) -> Answer {
    let context = call.context()?;
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let texture = get(texture.cast::<[u32; TEXTURE_WORDS]>())?;
    let view = match view.is_null() {
        true => None,
        false => Some(get(view.cast::<[u32; VIEW_WORDS]>())?),
    };
    let object = textures::create(get(resource.cast())?, Some(texture), view, context.handle)?;
    give(to, object)
}

pub fn cuTexObjectDestroy(call: &Call, object: CuObject) -> Answer {
    call.context()?;
    textures::destroy(object, true)
}

pub fn cuTexObjectGetResourceDesc(call: &Call, to: *mut c_void, object: CuObject) -> Answer {
    call.context()?;
    give(to.cast::<ResourceDescription>(), textures::get(object, true)?.resource)
}

pub fn cuTexObjectGetTextureDesc(call: &Call, to: *mut c_void, object: CuObject) -> Answer {
    call.context()?;
    let texture = textures::get(object, true)?.texture.ok_or(INVALID_VALUE)?;
    give(to.cast::<[u32; TEXTURE_WORDS]>(), texture)
}

/// An object without a view has none to describe.
pub fn cuTexObjectGetResourceViewDesc(call: &Call, to: *mut c_void, object: CuObject) -> Answer {
    call.context()?;
    let view = textures::get(object, true)?.view.ok_or(INVALID_VALUE)?;
    give(to.cast::<[u32; VIEW_WORDS]>(), view)
}

pub fn cuSurfObjectCreate(call: &Call, to: *mut CuObject, resource: *const c_void) -> Answer {
    let context = call.context()?;
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    give(to, textures::create(get(resource.cast())?, None, None, context.handle)?)
}

pub fn cuSurfObjectDestroy(call: &Call, object: CuObject) -> Answer {
    call.context()?;
    textures::destroy(object, false)
}

pub fn cuSurfObjectGetResourceDesc(call: &Call, to: *mut c_void, object: CuObject) -> Answer {
    call.context()?;
    give(to.cast::<ResourceDescription>(), textures::get(object, false)?.resource)
}
