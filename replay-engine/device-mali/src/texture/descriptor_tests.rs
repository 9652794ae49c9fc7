//! Tests of rejected descriptors and of the bits that are checked.

use super::super::format::Channel;
use super::super::testing::{RGBA8, Recipe, SamplerRecipe};
use super::*;
use proptest::prelude::*;

fn with(words: &[(usize, u32)]) -> Result<Texture, Refusal> {
    let memory = Recipe::new(Arch::V6, RGBA8, 16, 8).build(|_, _| super::super::texel::Texel::floats([0.0; 4]));
    let mut bytes: [u8; 32] = memory.0[..32].try_into().unwrap();
    for (i, flip) in words {
        let w = word(&bytes, *i) ^ flip;
        bytes[i * 4..i * 4 + 4].copy_from_slice(&w.to_le_bytes());
    }
    Texture::parse(Arch::V6, &bytes)
}

#[test]
fn unimplemented_texture_features_are_named() {
    let parse_error = |w: &[(usize, u32)]| with(w).unwrap_err().to_string();
    assert_eq!(parse_error(&[(0, 2)]), "a texture descriptor has type 0, expected 2");
    assert_eq!(
        parse_error(&[(2, 0xd << 12)]),
        "a texture compressed with AFBC is not implemented"
    );
    assert_eq!(
        parse_error(&[(2, 1 << 24)]),
        "a texture whose least level is not 0 is not implemented"
    );
    assert_eq!(
        parse_error(&[(0, 1 << 8)]),
        "a texture sampled at the corners of texels is not implemented"
    );
    assert_eq!(
        parse_error(&[(2, 4 << 12)]),
        "the texel ordering of a texture has the value 0x5, which is not implemented"
    );
    let t = with(&[]).unwrap();
    assert_eq!((t.width, t.height, t.levels, t.layers, t.samples), (16, 8, 1, 1, 1));
    assert_eq!(t.swizzle, [0, 1, 2, 3].map(Channel::Component));
}

#[test]
fn samplers_are_refused_by_name() {
    let with = |i: usize, flip: u32| {
        let mut bytes = [0; 32];
        for (j, w) in SamplerRecipe::default().words().into_iter().enumerate() {
            let w = if i == j { w ^ flip } else { w };
            bytes[j * 4..j * 4 + 4].copy_from_slice(&w.to_le_bytes());
        }
        Sampler::parse(&bytes).map_err(|e| e.to_string())
    };
    assert_eq!(with(0, 1).unwrap_err(), "a sampler descriptor has type 0, expected 1");
    assert_eq!(
        with(0, 2 << 16).unwrap_err(),
        "the wrap mode of a sampler has the value 0xa, which is not implemented"
    );
    assert!(with(0, 2 << 30).is_err());
    assert!(with(2, 1 << 24).is_err());
    assert!(with(2, 3 << 24).unwrap().anisotropic);
    assert_eq!(with(2, 0xff00).unwrap().lod_bias, -256);
}

#[test]
fn comparisons() {
    let all: Vec<[bool; 3]> = (0..8)
        .map(|f| [0.0, 1.0, 2.0].map(|t| Compare::from_bits(f).passes(t, 1.0)))
        .collect();
    let want = (0..8).map(|f| [f & 1 != 0, f & 2 != 0, f & 4 != 0]).collect::<Vec<_>>();
    assert_eq!(all, want);
    let nan: Vec<u32> = (0..8)
        .filter(|f| Compare::from_bits(*f).passes(f32::NAN, 1.0))
        .collect();
    assert_eq!(nan, [5, 7]);
}

proptest! {
    #[test]
    fn arbitrary_bytes_parse_as_a_descriptor_or_are_refused(bytes in any::<[u8; 32]>(), v7 in any::<bool>()) {
        let arch = if v7 { Arch::V7 } else { Arch::V6 };
        let mut bytes = bytes;
        for kind in [1, 2] {
            bytes[0] = bytes[0] & 0xf0 | kind;
            if let Ok(t) = Texture::parse(arch, &bytes) {
                prop_assert!((0..40).all(|l| t.extent(l).iter().all(|n| (1..=65_536).contains(n))));
                prop_assert!(t.surface_count() >= 1);
            }
            let _ = Sampler::parse(&bytes);
        }
    }
}
