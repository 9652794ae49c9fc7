//! Texture and surface objects, and how kernels read and write by them. Filters are not implemented.

use crate::codes::{ILLEGAL_ADDRESS, INVALID_VALUE, LAUNCH_FAILED};
use crate::handles::pointer;
use crate::memory::arrays::{ARRAYS, Array, MIPMAPPED_ARRAYS};
use crate::memory::table::find;
use crate::memory::view::View;
use crate::{Answer, lock};
use cuda_driver::{
    CuObject, RESOURCE_ARRAY, RESOURCE_LINEAR, RESOURCE_MIPMAPPED_ARRAY, RESOURCE_ROWS, ResourceDescription,
};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Number of words of `CUDA_TEXTURE_DESC`.
pub const TEXTURE_WORDS: usize = 26;
/// Number of words of `CUDA_RESOURCE_VIEW_DESC`.
pub const VIEW_WORDS: usize = 28;
/// First number of an object.
const FIRST: CuObject = 0x1_0000_0001;
/// `CU_AD_FORMAT_UNSIGNED_INT8`.
const FORMAT_U8: u32 = 1;
/// `CU_TR_ADDRESS_MODE_BORDER`: texels beyond the edge are zero. Otherwise the texel at the edge is read.
const BORDER: u32 = 3;

/// A texture object, or a surface object, which has neither texture nor view.
#[derive(Clone, Copy)]
pub struct TextureObject {
    pub resource: ResourceDescription,
    pub texture: Option<[u32; TEXTURE_WORDS]>,
    pub view: Option<[u32; VIEW_WORDS]>,
    context: usize,
}

struct Objects {
    all: BTreeMap<CuObject, TextureObject>,
    created: u64,
}

static OBJECTS: Mutex<Objects> = Mutex::new(Objects {
    all: BTreeMap::new(),
    created: 0,
});

fn check(resource: &ResourceDescription) -> Answer {
    let handle = pointer(resource.memory as usize);
    match resource.kind {
        _ if resource.flags != 0 => Err(INVALID_VALUE),
        RESOURCE_ARRAY | RESOURCE_MIPMAPPED_ARRAY if resource.memory == 0 => Err(INVALID_VALUE),
        RESOURCE_ARRAY => ARRAYS.get(handle).map(drop),
        RESOURCE_MIPMAPPED_ARRAY => MIPMAPPED_ARRAYS.get(handle).map(drop),
        RESOURCE_LINEAR | RESOURCE_ROWS => find(resource.memory).map(drop).ok_or(INVALID_VALUE),
        _ => Err(INVALID_VALUE),
    }
}

/// Creates an object. Its number is not used again.
pub fn create(
    resource: ResourceDescription,
    texture: Option<[u32; TEXTURE_WORDS]>,
    view: Option<[u32; VIEW_WORDS]>,
    context: usize,
) -> Answer<CuObject> {
    check(&resource)?;
    let mut objects = lock(&OBJECTS);
    let number = FIRST + objects.created;
    objects.created += 1;
    let object = TextureObject {
        resource,
        texture,
        view,
        context,
    };
    objects.all.insert(number, object);
    Ok(number)
}

/// Returns a texture object, or a surface object.
pub fn get(number: CuObject, is_texture: bool) -> Answer<TextureObject> {
    let found = lock(&OBJECTS).all.get(&number).copied();
    found
        .filter(|object| object.texture.is_some() == is_texture)
        .ok_or(INVALID_VALUE)
}

/// Destroys a texture object, or a surface object.
pub fn destroy(number: CuObject, is_texture: bool) -> Answer {
    get(number, is_texture)?;
    lock(&OBJECTS).all.remove(&number);
    Ok(())
}

/// Removes the objects of a context that is destroyed.
pub fn forget(context: usize) {
    lock(&OBJECTS).all.retain(|_, object| object.context != context);
}

/// Returns the array of an object of a kernel.
fn array(object: &TextureObject) -> Answer<std::sync::Arc<Array>> {
    ARRAYS
        .get(pointer(object.resource.memory as usize))
        .map_err(|_| ILLEGAL_ADDRESS)
}

/// Reads the texel at a whole position by a texture object: a float, or a byte as a number from 0 to 1.
pub fn read_texel(memory: &View, number: CuObject, at: [i64; 2]) -> Answer<f32> {
    let object = get(number, true).map_err(|_| LAUNCH_FAILED)?;
    let resource = &object.resource;
    let (width, height) = match resource.kind {
        RESOURCE_LINEAR if resource.format == FORMAT_U8 => (resource.sizes[0], 1),
        RESOURCE_LINEAR => (resource.sizes[0] / 4, 1),
        RESOURCE_ROWS => (resource.sizes[0], resource.sizes[1]),
        RESOURCE_ARRAY => {
            let array = array(&object)?;
            (array.row / array.texel(), array.rows)
        }
        _ => return Err(LAUNCH_FAILED),
    };
    let mut position = [0; 2];
    for ((to, from), (mode, size)) in position
        .iter_mut()
        .zip(at)
        .zip(object.texture.unwrap_or_default().iter().zip([width, height]))
    {
        let last = size.saturating_sub(1) as i64;
        if *mode == BORDER && !(0..=last).contains(&from) {
            return Ok(0.0);
        }
        *to = from.clamp(0, last) as u64;
    }
    let [x, y] = position;
    match resource.kind {
        RESOURCE_ARRAY => {
            let array = array(&object)?;
            let word = array.u32(y * array.row + x * 4).ok_or(ILLEGAL_ADDRESS)?;
            Ok(f32::from_bits(word))
        }
        _ if resource.format == FORMAT_U8 => Ok(f32::from(memory.u8(resource.memory + x)?) / 255.0),
        _ => memory.f32(resource.memory + y * resource.sizes[2] + x * 4),
    }
}

/// Changes a word by a surface object. The column is in bytes.
pub fn change_word(number: CuObject, column: u64, row: u64, change: impl FnOnce(u32) -> u32) -> Answer {
    let object = get(number, false).map_err(|_| LAUNCH_FAILED)?;
    let array = array(&object)?;
    let at = row * array.row + column;
    let word = array.u32(at).ok_or(ILLEGAL_ADDRESS)?;
    array.set_u32(at, change(word)).ok_or(ILLEGAL_ADDRESS)
}
