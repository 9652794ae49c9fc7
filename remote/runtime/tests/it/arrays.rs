//! Arrays, textures and surfaces by the runtime's functions.

use crate::device_code::address;
use crate::runtime_library::RuntimeLibrary;
use kinescope_remote_cudart::channels::ChannelDescription;
use kinescope_remote_cudart::copies::{Extent, PitchedPointer, Position};
use kinescope_remote_cudart::slices::Copy3dParameters;
use std::ffi::c_void;
use std::ptr::null_mut;

/// `cudaMemcpyHostToDevice`, `cudaMemcpyDeviceToHost`, `cudaMemcpyDeviceToDevice` and `cudaMemcpyDefault`.
const TO_DEVICE: u32 = 1;
const TO_HOST: u32 = 2;
const ON_DEVICE: u32 = 3;
const ANY: u32 = 4;
/// Number of texels of a row, of rows, and of slices.
const WIDTH: usize = 6;
const HEIGHT: usize = 5;
const DEPTH: usize = 3;

fn words(count: usize) -> Vec<u32> {
    (0..count as u32).map(|n| n.wrapping_mul(0x9e37_79b9) ^ n).collect()
}

fn floats(library: &RuntimeLibrary) -> ChannelDescription {
    library.cudaCreateChannelDesc(32, 0, 0, 0, 2)
}

fn create(library: &RuntimeLibrary, width: usize, height: usize) -> *mut c_void {
    let (mut array, channels) = (null_mut(), floats(library));
    assert_eq!(
        library.cudaMallocArray(&raw mut array, &raw const channels, width, height, 0),
        0
    );
    array
}

fn read(library: &RuntimeLibrary, array: *mut c_void, width: usize, height: usize) -> Vec<u32> {
    let mut got = vec![0; width * height];
    let (at, row) = (address(got.as_mut_ptr()), width * 4);
    assert_eq!(
        library.cudaMemcpy2DFromArray(at, row, array, 0, 0, row, height, TO_HOST),
        0
    );
    got
}

#[test]
fn rows_go_to_arrays_and_back() {
    for library in RuntimeLibrary::both() {
        let array = create(&library, WIDTH, HEIGHT);
        let values = words(WIDTH * HEIGHT);
        let (at, row) = (address(values.as_ptr()), WIDTH * 4);
        let copied = library.cudaMemcpy2DToArray(array, 0, 0, at, row, row, HEIGHT, TO_DEVICE);
        assert_eq!(copied, 0);
        assert_eq!(read(&library, array, WIDTH, HEIGHT), values);
        // A part of it, through another array and a stream.
        let (other, mut stream) = (create(&library, WIDTH, HEIGHT), null_mut());
        assert_eq!(library.cudaStreamCreate(&raw mut stream), 0);
        let between = library.cudaMemcpy2DArrayToArray(other, 0, 0, array, 8, 1, 12, 3, ON_DEVICE);
        assert_eq!(between, 0);
        let mut part = vec![0; 9];
        let to = address(part.as_mut_ptr());
        let copied = library.cudaMemcpy2DFromArrayAsync(to, 12, other, 0, 0, 12, 3, ANY, stream);
        assert_eq!(copied, 0);
        assert_eq!(library.cudaStreamSynchronize(stream), 0);
        let expected: Vec<u32> = (1..4).flat_map(|y| values[y * WIDTH + 2..][..3].to_vec()).collect();
        assert_eq!(part, expected);
        let back = library.cudaMemcpy2DToArrayAsync(array, 12, 2, to, 12, 12, 3, TO_DEVICE, stream);
        assert_eq!(back, 0);
        assert_eq!(library.cudaStreamSynchronize(stream), 0);
        let all = read(&library, array, WIDTH, HEIGHT);
        assert_eq!(all[2 * WIDTH + 3..][..3], part[..3]);
        // Beyond the edge, a short pitch, and impossible directions.
        for (x, width, pitch, kind, code) in [
            (4, row, row, TO_DEVICE, 1),
            (0, row, 4, TO_DEVICE, 12),
            (0, row, row, TO_HOST, 21),
            (0, row, row, 0, 21),
        ] {
            let refused = library.cudaMemcpy2DToArray(array, x, 0, at, pitch, width, 1, kind);
            assert_eq!(refused, code);
        }
        for array in [array, other, null_mut()] {
            assert_eq!(library.cudaFreeArray(array), 0);
        }
        assert_eq!(library.cudaFreeArray(array), 400);
        assert_eq!(library.cudaStreamDestroy(stream), 0);
    }
}

#[test]
fn consecutive_bytes_go_over_rows() {
    for library in RuntimeLibrary::both() {
        let array = create(&library, WIDTH, HEIGHT);
        let values = words(WIDTH * HEIGHT);
        let (at, bytes) = (address(values.as_ptr()), values.len() * 4);
        assert_eq!(library.cudaMemcpyToArray(array, 0, 0, at, bytes, TO_DEVICE), 0);
        assert_eq!(read(&library, array, WIDTH, HEIGHT), values);
        // From the middle of the second row on.
        let first = WIDTH + 3;
        let mut rest = vec![0; values.len() - first];
        let to = address(rest.as_mut_ptr());
        let copied = library.cudaMemcpyFromArray(to, array, 12, 1, rest.len() * 4, TO_HOST);
        assert_eq!(copied, 0);
        assert_eq!(rest, values[first..]);
        let beyond = library.cudaMemcpyFromArray(to, array, 12, 1, rest.len() * 4 + 4, TO_HOST);
        assert_eq!(beyond, 1);
        // To an array with other rows.
        let narrow = create(&library, 4, 8);
        let between = library.cudaMemcpyArrayToArray(narrow, 8, 1, array, 12, 1, 60, ON_DEVICE);
        assert_eq!(between, 0);
        assert_eq!(read(&library, narrow, 4, 8)[6..21], values[first..first + 15]);
        for array in [array, narrow] {
            assert_eq!(library.cudaFreeArray(array), 0);
        }
    }
}

#[test]
fn slices_go_to_arrays_and_back() {
    for library in RuntimeLibrary::both() {
        let (mut array, channels) = (null_mut(), library.cudaCreateChannelDesc(16, 16, 0, 0, 1));
        let extent = |width, height, depth| Extent { width, height, depth };
        let position = |x, y, z| Position { x, y, z };
        let whole = extent(WIDTH, HEIGHT, DEPTH);
        assert_eq!(
            library.cudaMalloc3DArray(&raw mut array, &raw const channels, whole, 0),
            0
        );
        let values = words(WIDTH * HEIGHT * DEPTH);
        let memory = |at: *const u32, width: usize, height| PitchedPointer {
            at: at.cast_mut().cast(),
            pitch: width * 4,
            width: width * 4,
            height,
        };
        let none = memory(std::ptr::null(), 0, 0);
        let mut parameters = Copy3dParameters {
            source_array: null_mut(),
            source_position: position(0, 0, 0),
            source: memory(values.as_ptr(), WIDTH, HEIGHT),
            to_array: array,
            to_position: position(0, 0, 0),
            to: none,
            extent: whole,
            kind: TO_DEVICE,
        };
        assert_eq!(library.cudaMemcpy3D(&raw const parameters), 0);
        // Sizes and positions are texels.
        let mut part = vec![0; 2 * 3 * 2];
        parameters.source_array = array;
        parameters.source_position = position(3, 1, 1);
        parameters.source = none;
        parameters.to_array = null_mut();
        parameters.to = memory(part.as_mut_ptr(), 2, 3);
        parameters.extent = extent(2, 3, 2);
        parameters.kind = TO_HOST;
        assert_eq!(library.cudaMemcpy3D(&raw const parameters), 0);
        let row = |y: usize, z: usize| values[(z * HEIGHT + y) * WIDTH + 3..][..2].to_vec();
        let expected: Vec<u32> = (1..3).flat_map(|z| (1..4).flat_map(move |y| row(y, z))).collect();
        assert_eq!(part, expected);
        parameters.kind = TO_DEVICE;
        assert_eq!(library.cudaMemcpy3D(&raw const parameters), 21);
        parameters.kind = TO_HOST;
        parameters.extent = extent(4, 3, 2);
        assert_eq!(library.cudaMemcpy3D(&raw const parameters), 1, "beyond a row");
        parameters.to_array = array;
        assert_eq!(library.cudaMemcpy3D(&raw const parameters), 1, "two targets");

        let (mut described, mut size, mut flags) = (ChannelDescription::default(), extent(0, 0, 0), 9);
        let info = library.cudaArrayGetInfo(&raw mut described, &raw mut size, &raw mut flags, array);
        assert_eq!((info, described, flags), (0, channels, 0));
        assert_eq!((size.width, size.height, size.depth), (WIDTH, HEIGHT, DEPTH));
        assert_eq!(library.cudaFreeArray(array), 0);
        let gone = library.cudaGetChannelDesc(&raw mut described, array);
        assert_eq!(gone, 400);
        let three = library.cudaCreateChannelDesc(8, 8, 8, 0, 1);
        let refused = library.cudaMallocArray(&raw mut array, &raw const three, 4, 4, 0);
        assert_eq!(refused, 20);
    }
}

#[test]
fn levels_are_arrays() {
    for library in RuntimeLibrary::both() {
        let (mut mipmapped, mut level, channels) = (null_mut(), null_mut(), floats(&library));
        let extent = Extent {
            width: 8,
            height: 4,
            depth: 0,
        };
        let made = library.cudaMallocMipmappedArray(&raw mut mipmapped, &raw const channels, extent, 2, 0);
        assert_eq!(made, 0);
        assert_eq!(library.cudaGetMipmappedArrayLevel(&raw mut level, mipmapped, 1), 0);
        let values = words(8);
        let copied = library.cudaMemcpy2DToArray(level, 0, 0, address(values.as_ptr()), 16, 16, 2, TO_DEVICE);
        assert_eq!(copied, 0);
        assert_eq!(read(&library, level, 4, 2), values);
        assert_eq!(library.cudaGetMipmappedArrayLevel(&raw mut level, mipmapped, 2), 1);
        assert_eq!(library.cudaFreeMipmappedArray(mipmapped), 0);
        assert_eq!(library.cudaFreeMipmappedArray(null_mut()), 0);
    }
}

/// Returns a resource as a program makes it: the words of `cudaResourceDesc` of CUDA 13, which is the longer one.
fn array_resource(array: *mut c_void) -> [u64; 18] {
    let mut resource = [0; 18];
    resource[1] = array.addr() as u64;
    resource
}

#[test]
fn textures_and_surfaces_are_described_as_they_were_made() {
    for library in RuntimeLibrary::both() {
        let array = create(&library, WIDTH, HEIGHT);
        let (mut object, mut surface) = (0, 0);
        let resource = array_resource(array);
        // Modes, filter, read mode, sRGB, border, coordinates, anisotropy, filter and range of levels, and two switches.
        let mut texture = [3_u32, 3, 1, 1, 0, 0, 1, 2, 3, 4, 1, 8, 0, 5, 6, 7, 0, 0];
        let view = null_mut();
        let from = (&raw const resource).cast();
        let made = library.cudaCreateTextureObject(&raw mut object, from, texture.as_ptr(), view);
        assert_eq!(made, 0);
        assert_eq!(library.cudaCreateSurfaceObject(&raw mut surface, from), 0);
        assert!(object != 0 && surface != 0 && object != surface);
        // The words after those of the version stay.
        let length = if library.version == 12 { 8 } else { 18 };
        let mut described = [[u64::MAX; 20]; 2];
        let [of_texture, of_surface] = &mut described;
        assert_eq!(
            library.cudaGetTextureObjectResourceDesc(of_texture.as_mut_ptr(), object),
            0
        );
        assert_eq!(
            library.cudaGetSurfaceObjectResourceDesc(of_surface.as_mut_ptr(), surface),
            0
        );
        for described in described {
            assert_eq!(described[..length], resource[..length]);
            assert!(described[length..].iter().all(|word| *word == u64::MAX));
        }
        let mut described = [9_u32; 18];
        let asked = library.cudaGetTextureObjectTextureDesc(described.as_mut_ptr(), object);
        assert_eq!((asked, described), (0, texture));
        texture[4] = 7;
        let refused = library.cudaCreateTextureObject(&raw mut object, from, texture.as_ptr(), view);
        assert_eq!(refused, 1, "unknown read mode");
        assert_eq!(library.cudaDestroyTextureObject(object), 0);
        assert_eq!(library.cudaDestroyTextureObject(object), 1);
        assert_eq!(library.cudaDestroySurfaceObject(surface), 0);
        assert_eq!(library.cudaFreeArray(array), 0);

        // Bytes of linear memory, which are read as numbers from 0 to 1.
        let mut memory = 0;
        assert_eq!(library.cudaMalloc(&raw mut memory, 64), 0);
        let mut resource = [0_u64; 18];
        (resource[0], resource[1]) = (2, memory);
        // One channel of 8 bits, unsigned, and 64 bytes.
        (resource[2], resource[4], resource[5]) = (8, 1, 64);
        let mut texture = [0_u32; 18];
        texture[4] = 1;
        let from = (&raw const resource).cast();
        let made = library.cudaCreateTextureObject(&raw mut object, from, texture.as_ptr(), view);
        assert_eq!(made, 0);
        let (mut again, mut described) = ([0_u64; 18], [9_u32; 18]);
        let asked = library.cudaGetTextureObjectResourceDesc(again.as_mut_ptr(), object);
        assert_eq!((asked, again), (0, resource));
        let asked = library.cudaGetTextureObjectTextureDesc(described.as_mut_ptr(), object);
        assert_eq!((asked, described), (0, texture));
        assert_eq!(library.cudaDestroyTextureObject(object), 0);
        assert_eq!(library.cudaFree(memory), 0);
    }
}
