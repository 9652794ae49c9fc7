//! Tests of texels of every plain and packed format: decoded by hand-written rules, and encoded back to the same bytes.

use super::super::format::Arch;
use super::*;
use proptest::prelude::*;

fn v6(index: u32) -> PixelFormat {
    PixelFormat::parse(Arch::V6, index << 12 | 0o3210).unwrap()
}

fn bytes(of: &[u8]) -> [u8; 16] {
    let mut out = [0; 16];
    out[..of.len()].copy_from_slice(of);
    out
}

fn floats(f: &PixelFormat, of: &[u8]) -> [f32; 4] {
    f.decode(&bytes(of), 0, 0, true).as_floats()
}

#[test]
fn packed_formats_start_at_the_lowest_bit() {
    assert_eq!(floats(&v6(64), &0x001fu16.to_le_bytes()), [1.0, 0.0, 0.0, 1.0]);
    assert_eq!(floats(&v6(64), &0xf800u16.to_le_bytes()), [0.0, 0.0, 1.0, 1.0]);
    assert_eq!(floats(&v6(64), &0x07e0u16.to_le_bytes()), [0.0, 1.0, 0.0, 1.0]);
    assert_eq!(floats(&v6(65), &0x8001u16.to_le_bytes()), [1.0 / 31.0, 0.0, 0.0, 1.0]);
    assert_eq!(
        floats(&v6(186), &0xf120u16.to_le_bytes()),
        [0.0, 2.0 / 15.0, 1.0 / 15.0, 1.0]
    );
    let w = 0x3ffu32 | 0x200 << 10 | 1 << 20 | 2 << 30;
    assert_eq!(
        floats(&v6(67), &w.to_le_bytes()),
        [1.0, 512.0 / 1023.0, 1.0 / 1023.0, 2.0 / 3.0]
    );
    assert_eq!(
        v6(71).decode(&bytes(&w.to_le_bytes()), 0, 0, true).bits,
        [1023, 512, 1, 2]
    );
    let s = v6(73)
        .decode(&bytes(&w.to_le_bytes()), 0, 0, true)
        .bits
        .map(|b| b as i32);
    assert_eq!(s, [-1, -512, 1, -2]);
    let r = 0x3c0u32 | 0x3c0 << 11 | 0x1e0 << 22;
    assert_eq!(floats(&v6(89), &r.to_le_bytes()), [1.0; 4]);
}

#[test]
fn plain_formats_by_definition() {
    assert_eq!(floats(&v6(187), &[255, 0, 51, 102]), [1.0, 0.0, 0.2, 0.4]);
    assert_eq!(floats(&v6(123), &[127, 129, 128, 0]), [1.0, -1.0, -1.0, 0.0]);
    assert_eq!(
        v6(219)
            .decode(&bytes(&[255, 128, 127, 1]), 0, 0, true)
            .bits
            .map(|b| b as i32),
        [-1, -128, 127, 1]
    );
    assert_eq!(v6(139).decode(&bytes(&[7, 9]), 0, 0, true).bits, [7, 9, 0, 1]);
    assert_eq!(floats(&v6(207), &[0, 0x3c, 0, 0xc0]), [1.0, -2.0, 0.0, 1.0]);
    assert_eq!(
        floats(&v6(83), &{
            let mut b = [0; 12];
            b[..4].copy_from_slice(&0x1_8000u32.to_le_bytes());
            b[4..8].copy_from_slice(&(-0x8000i32).to_le_bytes());
            b
        }),
        [1.5, -0.5, 0.0, 1.0]
    );
}

#[test]
fn depth_and_stencil_formats_decode() {
    let z24s8 = 0xab_ff_ff_ffu32.to_le_bytes();
    assert_eq!(floats(&v6(77), &z24s8)[0], 1.0);
    assert_eq!(
        v6(79).decode(&bytes(&[0, 0, 0, 0, 0x5a, 1, 2, 3]), 0, 0, true).bits[1],
        0x5a
    );
    // Architecture 7: the order GRBA moves the stencil to red.
    let f = PixelFormat::parse(Arch::V7, 85 << 12 | 2).unwrap();
    assert_eq!(
        f.decode(&bytes(&z24s8), 0, 0, true),
        Texel {
            class: Class::Uint,
            bits: [0xab, 0, 0, 1]
        }
    );
    let f = PixelFormat::parse(Arch::V7, 87 << 12).unwrap();
    assert_eq!(
        f.decode(&bytes(&0.25f32.to_le_bytes()), 0, 0, true).as_floats(),
        [0.25, 0.0, 0.0, 1.0]
    );
    // Both architectures support luminance with alpha.
    let f = PixelFormat::parse(Arch::V7, 24 << 12 | 228).unwrap();
    assert_eq!(
        f.decode(&bytes(&[255, 51]), 0, 0, true).as_floats(),
        [1.0, 1.0, 1.0, 0.2]
    );
    let f = PixelFormat::parse(Arch::V6, 171 << 12 | 0o1000).unwrap();
    assert_eq!(
        f.decode(&bytes(&[255, 51]), 0, 0, true).as_floats(),
        [1.0, 1.0, 1.0, 0.2]
    );
}

#[test]
fn srgb_applies_only_to_colours_and_can_be_overridden() {
    let f = PixelFormat::parse(Arch::V6, 1 << 20 | 187 << 12 | 0o3012).unwrap();
    let t = f.decode(&bytes(&[255, 0, 188, 188]), 0, 0, true).as_floats();
    assert!((t[0] - 0.5).abs() < 0.01 && t[1] == 0.0 && t[2] == 1.0);
    assert_eq!(t[3], 188.0 / 255.0);
    assert_eq!(
        f.decode(&bytes(&[255, 0, 188, 188]), 0, 0, false).as_floats()[0],
        188.0 / 255.0
    );
}

#[test]
fn unsupported_texel_stores_are_errors() {
    assert!(v6(1).encode(&Texel::floats([0.0; 4])).is_err());
    let e = v6(77).encode(&Texel::floats([0.0; 4])).unwrap_err();
    assert_eq!(
        e.to_string(),
        "storing pixel format 77 (Z24X8 UNORM) is not implemented"
    );
}

/// Formats whose texels encode to the same bytes again, except for NaN and the second code of the minimum snorm.
const STORED: [u32; 48] = [
    99, 100, 107, 108, 115, 116, 123, 124, 131, 132, 133, 139, 140, 141, 147, 148, 149, 155, 156, 157, 163, 164, 171,
    172, 179, 180, 187, 188, 195, 196, 197, 203, 204, 205, 219, 220, 221, 64, 65, 67, 71, 73, 186, 89, 199, 207, 223,
    167,
];

proptest! {
    #[test]
    fn texels_round_trip_to_the_same_bytes(of in any::<[u8; 16]>(), which in 0usize..48, order in 0usize..4) {
        let order = [0o3210u32, 0o3012, 0o0123, 0o0321][order];
        let f = PixelFormat::parse(Arch::V6, STORED[which] << 12 | order).unwrap();
        // Channels that memory lacks hide components of other orders, so only formats with four components are
        // reordered.
        let f = if f.components() == 4 { f } else { v6(STORED[which]) };
        let t = f.decode(&of, 0, 0, true);
        let size = f.block().bytes as usize;
        if f.class() == Class::Float && t.as_floats().iter().any(|x| x.is_nan()) { return Ok(()); }
        let back = f.encode(&t).unwrap();
        let again = f.decode(&back, 0, 0, true);
        prop_assert_eq!(t, again);
        if !matches!(STORED[which], 99..=124) {
            prop_assert_eq!(&back[..size], &of[..size]);
        }
    }

    #[test]
    fn pixel_formats_decode_arbitrary_bytes(raw in any::<u32>(), of in any::<[u8; 16]>(), v7 in any::<bool>(), x in any::<u32>()) {
        let arch = if v7 { Arch::V7 } else { Arch::V6 };
        if let Ok(f) = PixelFormat::parse(arch, raw) {
            let t = f.decode(&of, x, x >> 8, true);
            let _ = f.encode(&t);
        }
    }
}
