//! Tests of every sized internal format that OpenGL ES 3.1 requires of textures and images (its tables 8.13, 8.14 and
//! 8.26). They use the hardware formats of Mesa's driver on both architectures, with a texel computed by hand.
//!
//! The compressed formats are in `etc2_tests.rs`. The number and order of each format are from Mesa's `pan_format.c`
//! (Copyright 2019-2020 Collabora, Ltd., MIT).

use super::testing::{Flat, Recipe, SamplerRecipe};
use super::{Arch, Attribute, Class, Conversion, Dimension, FetchRequest, PixelFormat, RegisterFormat, fetch};
use trace_core::GpuVa;

/// Component order: the field of architecture 6 and the number of architecture 7.
#[derive(Clone, Copy, Debug)]
struct Order(u32, u32);

const RGBA: Order = Order(0o3210, 0);
const BGRA: Order = Order(0o3012, 4);
const ABGR: Order = Order(0o0123, 12);
const RGB1: Order = Order(0o5210, 16);
const BGR1: Order = Order(0o5012, 20);
/// One component. The missing ones are 0, 0 and 1. Architecture 7 needs no order for it, because memory gives the same
/// result.
const R001: Order = Order(0o5440, 0);
const RG01: Order = Order(0o5410, 0);
const RRRR: Order = Order(0, 226);
const SRGB: u32 = 1 << 8;

/// Expected texel when it is sampled.
#[derive(Clone, Copy, Debug)]
enum Is {
    F([f32; 4]),
    U([u32; 4]),
    I([i32; 4]),
}

fn f(r: f32, g: f32, b: f32, a: f32) -> Is {
    Is::F([r, g, b, a])
}

fn u(r: u32, g: u32, b: u32, a: u32) -> Is {
    Is::U([r, g, b, a])
}

fn i(r: i32, g: i32, b: i32, a: i32) -> Is {
    Is::I([r, g, b, a])
}

/// Converts half floats, floats, shorts and words to bytes.
fn h(of: &[u16]) -> Vec<u8> {
    of.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn w(of: &[u32]) -> Vec<u8> {
    of.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn fl(of: &[f32]) -> Vec<u8> {
    of.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// Format: its name, its number in the hardware's table with [`SRGB`], the order, the bytes of a texel, and the
/// expected texel.
type Row = (&'static str, u32, Order, Vec<u8>, Is);

/// Returns the colour formats, which have the same number on both architectures.
fn colours() -> Vec<Row> {
    // Halves of 1, -2 and 0.5, and a word of ten-bit components: 1023, 512, 1 and 2.
    let (one, minus_two, half) = (0x3c00, 0xc000, 0x3800);
    let tens = w(&[0x3ff | 0x200 << 10 | 1 << 20 | 2 << 30]);
    // The value of the sRGB curve at 188 of 255.
    let bright = 0.502_886_5;
    vec![
        ("R8", 163, R001, vec![51], f(0.2, 0.0, 0.0, 1.0)),
        ("R8_SNORM", 99, R001, vec![0x81], f(-1.0, 0.0, 0.0, 1.0)),
        ("RG8", 171, RG01, vec![51, 102], f(0.2, 0.4, 0.0, 1.0)),
        ("RG8_SNORM", 107, RG01, vec![127, 0x80], f(1.0, -1.0, 0.0, 1.0)),
        ("RGB8", 187, RGB1, vec![51, 102, 255, 9], f(0.2, 0.4, 1.0, 1.0)),
        ("RGB8_SNORM", 123, RGB1, vec![127, 0, 0x81, 9], f(1.0, 0.0, -1.0, 1.0)),
        ("RGB565", 64, BGR1, h(&[0xf800]), f(1.0, 0.0, 0.0, 1.0)),
        ("RGBA4", 186, ABGR, h(&[0x1f20]), f(1.0 / 15.0, 1.0, 2.0 / 15.0, 0.0)),
        ("RGB5_A1", 65, BGRA, h(&[0x8000 | 31 << 10]), f(1.0, 0.0, 0.0, 1.0)),
        ("RGBA8", 187, RGBA, vec![51, 102, 255, 0], f(0.2, 0.4, 1.0, 0.0)),
        (
            "RGBA8_SNORM",
            123,
            RGBA,
            vec![127, 0, 0x80, 0x81],
            f(1.0, 0.0, -1.0, -1.0),
        ),
        (
            "RGB10_A2",
            67,
            RGBA,
            tens.clone(),
            f(1.0, 512.0 / 1023.0, 1.0 / 1023.0, 2.0 / 3.0),
        ),
        ("RGB10_A2UI", 71, RGBA, tens, u(1023, 512, 1, 2)),
        (
            "SRGB8",
            187 | SRGB,
            RGB1,
            vec![255, 0, 188, 9],
            f(1.0, 0.0, bright, 1.0),
        ),
        (
            "SRGB8_ALPHA8",
            187 | SRGB,
            RGBA,
            vec![188, 0, 255, 51],
            f(bright, 0.0, 1.0, 0.2),
        ),
        ("R16F", 199, R001, h(&[minus_two]), f(-2.0, 0.0, 0.0, 1.0)),
        ("RG16F", 207, RG01, h(&[one, minus_two]), f(1.0, -2.0, 0.0, 1.0)),
        (
            "RGB16F",
            223,
            RGB1,
            h(&[one, minus_two, half, 9]),
            f(1.0, -2.0, 0.5, 1.0),
        ),
        (
            "RGBA16F",
            223,
            RGBA,
            h(&[one, minus_two, half, 0]),
            f(1.0, -2.0, 0.5, 0.0),
        ),
        ("R32F", 167, R001, fl(&[1e30]), f(1e30, 0.0, 0.0, 1.0)),
        ("RG32F", 175, RG01, fl(&[1e30, -0.1]), f(1e30, -0.1, 0.0, 1.0)),
        ("RGB32F", 183, RGB1, fl(&[1e30, -0.1, 3.0]), f(1e30, -0.1, 3.0, 1.0)),
        (
            "RGBA32F",
            191,
            RGBA,
            fl(&[1e30, -0.1, 3.0, 7.0]),
            f(1e30, -0.1, 3.0, 7.0),
        ),
        (
            "R11F_G11F_B10F",
            89,
            RGB1,
            w(&[0x3c0 | 0x400 << 11 | 0x1c0 << 22]),
            f(1.0, 2.0, 0.5, 1.0),
        ),
        // Mantissas of 1, 2 and 511 with an exponent of 16 - 15 - 9.
        (
            "RGB9_E5",
            91,
            RGB1,
            w(&[1 | 2 << 9 | 511 << 18 | 16 << 27]),
            f(1.0 / 256.0, 2.0 / 256.0, 511.0 / 256.0, 1.0),
        ),
        ("R8I", 195, R001, vec![0x80], i(-128, 0, 0, 1)),
        ("R8UI", 131, R001, vec![0x80], u(128, 0, 0, 1)),
        ("R16I", 196, R001, h(&[0x8000]), i(-32768, 0, 0, 1)),
        ("R16UI", 132, R001, h(&[0x8000]), u(32768, 0, 0, 1)),
        ("R32I", 197, R001, w(&[1 << 31]), i(i32::MIN, 0, 0, 1)),
        ("R32UI", 133, R001, w(&[u32::MAX]), u(u32::MAX, 0, 0, 1)),
        ("RG8I", 203, RG01, vec![255, 127], i(-1, 127, 0, 1)),
        ("RG8UI", 139, RG01, vec![255, 127], u(255, 127, 0, 1)),
        ("RG16I", 204, RG01, h(&[0xffff, 0x7fff]), i(-1, 32767, 0, 1)),
        ("RG16UI", 140, RG01, h(&[0xffff, 1]), u(65535, 1, 0, 1)),
        ("RG32I", 205, RG01, w(&[u32::MAX, 5]), i(-1, 5, 0, 1)),
        ("RG32UI", 141, RG01, w(&[7, u32::MAX]), u(7, u32::MAX, 0, 1)),
        ("RGB8I", 219, RGB1, vec![255, 1, 128, 9], i(-1, 1, -128, 1)),
        ("RGB8UI", 155, RGB1, vec![255, 1, 128, 9], u(255, 1, 128, 1)),
        ("RGB16I", 220, RGB1, h(&[0xffff, 1, 0x8000, 9]), i(-1, 1, -32768, 1)),
        ("RGB16UI", 156, RGB1, h(&[0xffff, 1, 0x8000, 9]), u(65535, 1, 32768, 1)),
        ("RGB32I", 213, RGB1, w(&[u32::MAX, 1, 1 << 31]), i(-1, 1, i32::MIN, 1)),
        (
            "RGB32UI",
            149,
            RGB1,
            w(&[u32::MAX, 1, 1 << 31]),
            u(u32::MAX, 1, 1 << 31, 1),
        ),
        ("RGBA8I", 219, RGBA, vec![255, 1, 128, 9], i(-1, 1, -128, 9)),
        ("RGBA8UI", 155, RGBA, vec![255, 1, 128, 9], u(255, 1, 128, 9)),
        ("RGBA16I", 220, RGBA, h(&[0xffff, 1, 0x8000, 9]), i(-1, 1, -32768, 9)),
        ("RGBA16UI", 156, RGBA, h(&[0xffff, 1, 0x8000, 9]), u(65535, 1, 32768, 9)),
        (
            "RGBA32I",
            221,
            RGBA,
            w(&[u32::MAX, 1, 1 << 31, 9]),
            i(-1, 1, i32::MIN, 9),
        ),
        (
            "RGBA32UI",
            157,
            RGBA,
            w(&[u32::MAX, 1, 1 << 31, 9]),
            u(u32::MAX, 1, 1 << 31, 9),
        ),
    ]
}

/// Returns the depth and stencil formats, which differ between the architectures.
fn depths(arch: Arch) -> Vec<Row> {
    let depth = |x: f32| match arch {
        // All four components are the depth; the driver's swizzle selects red.
        Arch::V6 => f(x, x, x, x),
        Arch::V7 => f(x, 0.0, 0.0, 1.0),
    };
    let order = if arch == Arch::V6 { RRRR } else { RGBA };
    let number = |v6, v7| if arch == Arch::V6 { v6 } else { v7 };
    let z24 = w(&[0xab_ff_ff_ff]);
    let z32s8 = [fl(&[0.25]), vec![0x5a, 0, 0, 0]].concat();
    vec![
        ("DEPTH_COMPONENT16", number(164, 75), order, h(&[0xffff]), depth(1.0)),
        ("DEPTH_COMPONENT24", 77, order, z24.clone(), depth(1.0)),
        ("DEPTH_COMPONENT32F", 167, order, fl(&[0.25]), depth(0.25)),
        ("DEPTH24_STENCIL8", 77, order, z24, depth(1.0)),
        ("DEPTH32F_STENCIL8", number(175, 87), order, z32s8, depth(0.25)),
    ]
}

/// Returns the 22 bits of a format.
fn raw(arch: Arch, number: u32, order: Order) -> u32 {
    let order = if arch == Arch::V6 { order.0 } else { order.1 };
    number << 12 | order
}

/// Compares a texel. Missing components of a format without its own order read as 0, 0 and 1 on both architectures.
fn same(is: Is, class: Class, bits: [u32; 4]) -> bool {
    match is {
        Is::F(want) => {
            class == Class::Float
                && want.iter().zip(bits).all(|(want, got)| {
                    let got = f32::from_bits(got);
                    (want - got).abs() <= want.abs() * 2e-7
                })
        }
        Is::U(want) => class == Class::Uint && want == bits,
        Is::I(want) => class == Class::Sint && want.map(|v| v as u32) == bits,
    }
}

#[test]
fn every_required_format_is_fetched_from_every_allowed_shape() {
    let (mut formats, mut fetched) = (0, 0);
    for arch in [Arch::V6, Arch::V7] {
        let all = colours()
            .into_iter()
            .map(|r| (r, true))
            .chain(depths(arch).into_iter().map(|r| (r, false)));
        for ((name, number, order, bytes, is), colour) in all {
            formats += 1;
            for (dimension, layers) in [
                (Dimension::D2, 1),
                (Dimension::D2, 3),
                (Dimension::Cube, 1),
                (Dimension::D3, 1),
            ] {
                if dimension == Dimension::D3 && !colour {
                    continue;
                }
                for tiled in [false, true] {
                    // The texture first has a format with the same texel size, and all its texels are equal. The test
                    // then replaces the format.
                    let plain = [(1, 131), (2, 132), (4, 133), (8, 141), (12, 149), (16, 157)];
                    let (_, same_size) = plain.iter().find(|(n, _)| *n == bytes.len()).unwrap();
                    let mut r = Recipe::new(arch, same_size << 12, 5, 5);
                    (r.dimension, r.layers, r.tiled) = (dimension, layers, tiled);
                    if dimension == Dimension::D3 {
                        r.size[2] = 2;
                    }
                    let same_size = PixelFormat::parse(arch, r.format).unwrap();
                    let mut piece = [0; 16];
                    piece[..bytes.len()].copy_from_slice(&bytes);
                    let texel = same_size.decode(&piece, 0, 0, true);
                    let mut memory = r.build(|_, _| texel);
                    let format = raw(arch, number, order);
                    let shape = u32::from_le_bytes(memory.0[..4].try_into().unwrap()) & 0x3ff;
                    memory.words(0, &[shape | format << 10]);
                    let texture = r.load(&mut memory);
                    let request = FetchRequest {
                        texel: [3, 4, i32::from(dimension == Dimension::D3)],
                        layer: layers - 1,
                        face: if dimension == Dimension::Cube { 5 } else { 0 },
                        ..FetchRequest::default()
                    };
                    let got = fetch(&mut memory, &texture, &SamplerRecipe::default().make(), &request).unwrap();
                    assert!(
                        same(is, got.class, got.bits),
                        "{name} of architecture {arch}, {dimension:?}: {is:?} was {got:x?} {:?}",
                        got.as_floats()
                    );
                    fetched += 1;
                }
            }
        }
    }
    assert_eq!((formats, fetched), (2 * 54, 2 * 2 * (49 * 4 + 5 * 3)));
}

/// Formats that image variables may have.
const IMAGES: [&str; 13] = [
    "RGBA32F",
    "RGBA16F",
    "R32F",
    "RGBA8",
    "RGBA8_SNORM",
    "RGBA32I",
    "RGBA16I",
    "RGBA8I",
    "R32I",
    "RGBA32UI",
    "RGBA16UI",
    "RGBA8UI",
    "R32UI",
];

#[test]
fn every_image_format_loads_and_stores() {
    for arch in [Arch::V6, Arch::V7] {
        for name in IMAGES {
            let (_, number, order, bytes, is) = colours().into_iter().find(|r| r.0 == name).unwrap();
            let mut m = Flat(vec![0; 8192]);
            let row = 4 * bytes.len() as u32;
            // An image of 4 by 4 texels in rows: attribute, buffer, record.
            m.words(0, &[raw(arch, number, order) << 10, 0]);
            m.words(64, &[5 | 4096, 0, bytes.len() as u32, 4096]);
            m.words(80, &[32 | 3 << 16, 3, row, 4 * row]);
            let a = Attribute::load(arch, &mut m, GpuVa::ZERO, GpuVa::new(64), 0).unwrap();
            let at = a.texel(2 << 16 | 1, 0).unwrap();
            let to = 4096 + u64::from(2 * row) + bytes.len() as u64;
            assert_eq!(at, Some(GpuVa::new(to)), "{name}");
            m.bytes(to, &bytes);
            let registers = match is {
                Is::F(_) => RegisterFormat::F32,
                Is::U(_) => RegisterFormat::U32,
                Is::I(_) => RegisterFormat::S32,
            };
            let loaded = a.load_from(&mut m, at, Some(registers)).unwrap();
            assert!(same(is, a.format.class(), loaded), "{name} of {arch}: {loaded:x?}");
            let [low, _, word] = a.reference(at, Some(registers));
            assert_eq!(u64::from(low), to);
            let stored = Conversion::parse(arch, word)
                .unwrap()
                .unwrap()
                .store(loaded, 4)
                .unwrap();
            // The encoder never stores the lower of the two codes for -1.
            let back: Vec<u8> = bytes
                .iter()
                .map(|b| {
                    if name.ends_with("SNORM") && *b == 0x80 {
                        0x81
                    } else {
                        *b
                    }
                })
                .collect();
            assert_eq!(stored.bytes(), back, "{name}");
        }
    }
}
