//! Texture and surface objects. Their numbers are those of the driver.

use crate::CallResult;
use crate::arrays::{describe, texel_of};
use crate::channels::{ChannelDescription, TexelFormat};
use crate::contexts::bind;
use crate::driver::RuntimeDriver;
use crate::errors::INVALID_VALUE;
use crate::pointers::{get, put};
use cuda_driver::{
    CuArray, CuObject, RESOURCE_ARRAY, RESOURCE_LINEAR, RESOURCE_MIPMAPPED_ARRAY, RESOURCE_ROWS, ResourceDescription,
};
use std::ffi::c_void;

/// Flag of the driver: integers are read as integers.
const AS_INTEGER: u32 = 0x01;
/// Flag of the driver: coordinates are from 0 to 1.
const NORMALIZED: u32 = 0x02;
/// Flag of the driver: texels are sRGB.
const SRGB: u32 = 0x10;
/// Flag of the driver: levels are not blended exactly.
const NO_TRILINEAR: u32 = 0x20;
/// Flag of the driver: edges of cube maps are blended.
const SEAMLESS: u32 = 0x40;
/// `cudaReadModeElementType` and `cudaReadModeNormalizedFloat`.
const READ_ELEMENTS: u32 = 0;
const READ_NORMALIZED: u32 = 1;
/// Number of words of the driver's `CUDA_TEXTURE_DESC`.
const TEXTURE_WORDS: usize = 26;

/// Version of the runtime's structures: those of CUDA 13 are longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceLayout {
    /// CUDA 12.
    Cuda12,
    /// CUDA 13, with reserved words and flags.
    Cuda13,
}

/// The common start of `cudaResourceDesc`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct ResourceHead {
    /// `cudaResourceType`: the driver's number.
    kind: u32,
    pad: u32,
    /// The handle of an array, or the address of linear memory.
    memory: u64,
    /// Texels of linear memory.
    channels: ChannelDescription,
    pad_before_sizes: u32,
    /// Size of linear memory, bytes; of rows, their width and number in texels, and their distance in bytes.
    sizes: [u64; 3],
}

/// The end of `cudaResourceDesc` of CUDA 13.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct ResourceTail {
    reserved: [u64; 9],
    flags: u64,
}

/// `cudaTextureDesc`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct TextureDescription {
    address_modes: [u32; 3],
    filter: u32,
    read_mode: u32,
    is_srgb: i32,
    border: [u32; 4],
    is_normalized: i32,
    max_anisotropy: u32,
    mipmap_filter: u32,
    /// Level bias, smallest and largest level, as the bits of floats.
    levels: [u32; 3],
    has_no_trilinear: i32,
    is_seamless: i32,
}

/// `cudaResourceViewDesc` without reserved words: the start of the driver's structure.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct ViewHead {
    words: [u32; 12],
}

/// The driver's `CUDA_RESOURCE_VIEW_DESC`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(8))]
struct DriverView {
    head: ViewHead,
    reserved: [u32; 16],
}

/// The driver's `CUDA_TEXTURE_DESC`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(8))]
struct DriverTexture {
    words: [u32; TEXTURE_WORDS],
}

/// Reads a resource of the program in the form of the driver.
fn resource(from: *const c_void, layout: ResourceLayout) -> CallResult<ResourceDescription> {
    let head: ResourceHead = get(from.cast())?;
    let tail: ResourceTail = match layout {
        ResourceLayout::Cuda12 => ResourceTail::default(),
        ResourceLayout::Cuda13 => get(from.wrapping_byte_add(size_of::<ResourceHead>()).cast())?,
    };
    let texel = match head.kind {
        RESOURCE_LINEAR | RESOURCE_ROWS => head.channels.to_driver()?,
        RESOURCE_ARRAY | RESOURCE_MIPMAPPED_ARRAY => TexelFormat { format: 0, channels: 0 },
        _ => return Err(INVALID_VALUE),
    };
    Ok(ResourceDescription {
        kind: head.kind,
        memory: head.memory,
        format: texel.format,
        channels: texel.channels,
        sizes: match head.kind {
            RESOURCE_LINEAR => [head.sizes[0], 0, 0],
            RESOURCE_ROWS => head.sizes,
            _ => [0; 3],
        },
        flags: tail.flags as u32,
        ..ResourceDescription::default()
    })
}

/// Writes a resource of the driver for the program.
fn put_resource(to: *mut c_void, resource: &ResourceDescription, layout: ResourceLayout) -> CallResult {
    let channels = match resource.kind {
        RESOURCE_LINEAR | RESOURCE_ROWS => ChannelDescription::from_driver(TexelFormat {
            format: resource.format,
            channels: resource.channels,
        })?,
        _ => ChannelDescription::default(),
    };
    let head = ResourceHead {
        kind: resource.kind,
        pad: 0,
        memory: resource.memory,
        channels,
        pad_before_sizes: 0,
        sizes: match resource.kind {
            RESOURCE_LINEAR => [resource.sizes[0], 0, 0],
            RESOURCE_ROWS => resource.sizes,
            _ => [0; 3],
        },
    };
    put(to.cast(), head)?;
    if layout == ResourceLayout::Cuda13 {
        let tail = ResourceTail {
            flags: resource.flags.into(),
            ..ResourceTail::default()
        };
        put(to.wrapping_byte_add(size_of::<ResourceHead>()).cast(), tail)?;
    }
    Ok(())
}

/// Returns whether the texels of a resource are integers, which a texture can read as such or as numbers up to 1.
fn has_integers(driver: &RuntimeDriver, resource: &ResourceDescription) -> CallResult<bool> {
    let of_array = |array: CuArray| describe(driver, array).map(|d| texel_of(&d).is_integer());
    let memory = crate::pointers::pointer_of(resource.memory);
    match resource.kind {
        RESOURCE_ARRAY => of_array(memory),
        RESOURCE_MIPMAPPED_ARRAY => {
            let mut level = std::ptr::null_mut();
            driver.cuMipmappedArrayGetLevel(&raw mut level, memory, 0)?;
            of_array(level)
        }
        _ => Ok(TexelFormat {
            format: resource.format,
            channels: resource.channels,
        }
        .is_integer()),
    }
}

impl TextureDescription {
    fn to_driver(self, has_integers: bool) -> CallResult<DriverTexture> {
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        let as_integer = match self.read_mode {
            READ_ELEMENTS => has_integers,
            READ_NORMALIZED => false,
            _ => return Err(INVALID_VALUE),
        };
        let flags = flag(as_integer, AS_INTEGER)
            | flag(self.is_normalized != 0, NORMALIZED)
            | flag(self.is_srgb != 0, SRGB)
            | flag(self.has_no_trilinear != 0, NO_TRILINEAR)
            | flag(self.is_seamless != 0, SEAMLESS);
        let mut words = [0; TEXTURE_WORDS];
        let values = self
            .address_modes
            .into_iter()
            .chain([self.filter, flags, self.max_anisotropy, self.mipmap_filter])
            .chain(self.levels)
            .chain(self.border);
        words.iter_mut().zip(values).for_each(|(to, value)| *to = value);
        Ok(DriverTexture { words })
    }

    fn from_driver(texture: &DriverTexture, has_integers: bool) -> Self {
        let [
            x,
            y,
            z,
            filter,
            flags,
            max_anisotropy,
            mipmap_filter,
            bias,
            min,
            max,
            r,
            g,
            b,
            a,
            ..,
        ] = texture.words;
        let is_set = |flag: u32| i32::from(flags & flag != 0);
        Self {
            address_modes: [x, y, z],
            filter,
            read_mode: match has_integers && flags & AS_INTEGER == 0 {
                true => READ_NORMALIZED,
                false => READ_ELEMENTS,
            },
            is_srgb: is_set(SRGB),
            border: [r, g, b, a],
            is_normalized: is_set(NORMALIZED),
            max_anisotropy,
            mipmap_filter,
            levels: [bias, min, max],
            has_no_trilinear: is_set(NO_TRILINEAR),
            is_seamless: is_set(SEAMLESS),
        }
    }
}

/// `cudaCreateTextureObject`.
pub fn create_texture(
    to: *mut CuObject,
    memory: *const c_void,
    texture: *const TextureDescription,
    view: *const ViewHead,
    layout: ResourceLayout,
) -> CallResult {
    let driver = bind()?;
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let (resource, texture) = (resource(memory, layout)?, get(texture)?);
    let texture = texture.to_driver(has_integers(driver, &resource)?)?;
    let view = match view.is_null() {
        true => None,
        false => Some(DriverView {
            head: get(view)?,
            reserved: [0; 16],
        }),
    };
    let view = view
        .as_ref()
        .map_or(std::ptr::null(), |view| std::ptr::from_ref(view).cast());
    driver.cuTexObjectCreate(to, (&raw const resource).cast(), (&raw const texture).cast(), view)
}

/// `cudaDestroyTextureObject`.
pub fn destroy_texture(object: CuObject) -> CallResult {
    bind()?.cuTexObjectDestroy(object)
}

fn texture_resource(driver: &RuntimeDriver, object: CuObject) -> CallResult<ResourceDescription> {
    let mut resource = ResourceDescription::default();
    driver.cuTexObjectGetResourceDesc((&raw mut resource).cast(), object)?;
    Ok(resource)
}

/// `cudaGetTextureObjectResourceDesc`.
pub fn write_texture_resource(to: *mut c_void, object: CuObject, layout: ResourceLayout) -> CallResult {
    put_resource(to, &texture_resource(bind()?, object)?, layout)
}

/// `cudaGetTextureObjectTextureDesc`.
pub fn write_texture(to: *mut TextureDescription, object: CuObject) -> CallResult {
    let driver = bind()?;
    let mut texture = DriverTexture::default();
    driver.cuTexObjectGetTextureDesc((&raw mut texture).cast(), object)?;
    let has_integers = has_integers(driver, &texture_resource(driver, object)?)?;
    put(to, TextureDescription::from_driver(&texture, has_integers))
}

/// `cudaGetTextureObjectResourceViewDesc`.
pub fn write_view(to: *mut c_void, object: CuObject, layout: ResourceLayout) -> CallResult {
    let mut view = DriverView::default();
    bind()?.cuTexObjectGetResourceViewDesc((&raw mut view).cast(), object)?;
    match layout {
        ResourceLayout::Cuda12 => put(to.cast(), view.head),
        ResourceLayout::Cuda13 => put(to.cast(), view),
    }
}

/// `cudaCreateSurfaceObject`.
pub fn create_surface(to: *mut CuObject, memory: *const c_void, layout: ResourceLayout) -> CallResult {
    let driver = bind()?;
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let resource = resource(memory, layout)?;
    driver.cuSurfObjectCreate(to, (&raw const resource).cast())
}

/// `cudaDestroySurfaceObject`.
pub fn destroy_surface(object: CuObject) -> CallResult {
    bind()?.cuSurfObjectDestroy(object)
}

/// `cudaGetSurfaceObjectResourceDesc`.
pub fn write_surface_resource(to: *mut c_void, object: CuObject, layout: ResourceLayout) -> CallResult {
    let mut resource = ResourceDescription::default();
    bind()?.cuSurfObjectGetResourceDesc((&raw mut resource).cast(), object)?;
    put_resource(to, &resource, layout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_sizes_of_the_headers() {
        assert_eq!(size_of::<ResourceHead>(), 64);
        assert_eq!(std::mem::offset_of!(ResourceHead, sizes), 40);
        assert_eq!(size_of::<ResourceHead>() + size_of::<ResourceTail>(), 144);
        assert_eq!(size_of::<TextureDescription>(), 72);
        assert_eq!(size_of::<ViewHead>(), 48);
        assert_eq!(size_of::<DriverView>(), 112);
        assert_eq!(size_of::<DriverTexture>(), 104);
        assert_eq!(size_of::<ResourceDescription>(), 144);
    }

    #[test]
    fn read_modes_are_flags_of_integers() {
        for (read_mode, has_integers, flags) in [
            (READ_ELEMENTS, true, AS_INTEGER),
            (READ_NORMALIZED, true, 0),
            (READ_ELEMENTS, false, 0),
        ] {
            let description = TextureDescription {
                read_mode,
                is_normalized: 1,
                border: [1, 2, 3, 4],
                levels: [5, 6, 7],
                ..TextureDescription::default()
            };
            let texture = description.to_driver(has_integers).unwrap();
            assert_eq!(texture.words[4], flags | NORMALIZED);
            assert_eq!(texture.words[7..14], [5, 6, 7, 1, 2, 3, 4]);
            let again = TextureDescription::from_driver(&texture, has_integers);
            assert_eq!((again.read_mode, again.is_normalized), (read_mode, 1));
        }
    }
}
