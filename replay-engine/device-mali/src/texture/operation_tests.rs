//! Tests of texture operations: the word, the registers and the results.

use super::super::format::Arch;
use super::super::testing::{Flat, RGBA32F, Recipe, SamplerRecipe};
use super::super::{Derivatives, Texel, Texture};
use super::*;
use proptest::prelude::*;
use trace_core::GpuVa;

/// Fields of the word, as the compiler packs them.
#[derive(Clone, Copy, Default)]
struct Word {
    sampler_or_mode: u32,
    index: u32,
    immediate: u32,
    op: u32,
    offset: u32,
    shadow: u32,
    array: u32,
    dimension: u32,
    lod_or_fetch: u32,
    format: u32,
}

impl Word {
    fn pack(self) -> u32 {
        self.sampler_or_mode
            | self.index << 4
            | self.immediate << 11
            | self.op << 12
            | self.offset << 15
            | self.shadow << 16
            | self.array << 17
            | self.dimension << 18
            | self.lod_or_fetch << 20
            | self.format << 24
            | 15 << 28
    }

    fn single(self) -> Single {
        match Operation::decode(self.pack()).unwrap() {
            Operation::Single(s) => s,
            Operation::Dual(_) => panic!("dual"),
        }
    }
}

fn picture() -> (Recipe, Flat) {
    let mut r = Recipe::new(Arch::V7, RGBA32F, 8, 8);
    (r.levels, r.layers) = (2, 3);
    let memory = r.build(|p, at| Texel::floats([at[0] as f32, at[1] as f32, p[3] as f32, p[0] as f32]));
    (r, memory)
}

#[test]
fn recorded_fetch_word_is_decoded() {
    let Operation::Single(s) = Operation::decode(0xfe18_6800).unwrap() else {
        panic!()
    };
    assert_eq!(
        (s.kind, s.dimension, s.format),
        (Kind::Fetch, Dimension::D2, RegisterFormat::U32)
    );
    assert_eq!((s.texture, s.sampler), (Index::Immediate(0), Index::Immediate(0)));
    assert_eq!((s.staging(), s.written_mask()), (1, 15));
}

#[test]
fn staging_registers_are_read_in_order() {
    // All values come from registers: level of detail, reference, layer, offsets, sampler and texture.
    let s = Word {
        sampler_or_mode: 15,
        op: 7,
        offset: 1,
        shadow: 1,
        array: 1,
        dimension: 2,
        lod_or_fetch: 4,
        format: 4,
        ..Default::default()
    }
    .single();
    assert_eq!(s.staging(), 6);
    assert_eq!(s.indices(&[0, 0, 0, 0, 40, 50]), (50, 40));
    let s = Word {
        sampler_or_mode: 13,
        index: 9,
        op: 7,
        dimension: 3,
        lod_or_fetch: 3,
        format: 4,
        ..Default::default()
    }
    .single();
    assert_eq!((s.staging(), s.indices(&[0, 0, 0, 7])), (4, (7, 9)));
    let s = Word {
        sampler_or_mode: 14,
        index: 9,
        op: 7,
        dimension: 2,
        lod_or_fetch: 6,
        format: 4,
        ..Default::default()
    }
    .single();
    assert_eq!((s.staging(), s.indices(&[3])), (1, (9, 3)));
    let s = Word {
        sampler_or_mode: 12,
        index: 9,
        op: 7,
        dimension: 2,
        lod_or_fetch: 6,
        format: 4,
        ..Default::default()
    }
    .single();
    assert_eq!((s.staging(), s.indices(&[])), (0, (9, 9)));
}

#[test]
fn samples_fetches_and_gathers_through_registers() {
    let (r, mut memory) = picture();
    let texture = r.load(&mut memory);
    let sampler = SamplerRecipe {
        wrap: 9,
        ..Default::default()
    }
    .make();
    let none = Derivatives::default();
    let xy = (2.5f32 / 8.0, 3.5f32 / 8.0);
    let bits = (xy.0.to_bits(), xy.1.to_bits());
    let floats = |r: [u32; 4]| r.map(f32::from_bits);
    let base = Word {
        immediate: 1,
        op: 7,
        dimension: 2,
        format: 4,
        ..Default::default()
    };

    let s = Word {
        lod_or_fetch: 6,
        ..base
    }
    .single();
    assert_eq!(
        floats(s.run(&mut memory, &texture, &sampler, bits, &[], none).unwrap()),
        [2.0, 3.0, 0.0, 0.0]
    );
    // Level 1, layer 2, one texel to the right and one up.
    let s = Word {
        lod_or_fetch: 4,
        array: 1,
        offset: 1,
        ..base
    }
    .single();
    let staging = [256, 2, 0x0000_ff01];
    assert_eq!(
        floats(s.run(&mut memory, &texture, &sampler, bits, &staging, none).unwrap()),
        [2.0, 0.0, 1.0, 2.0]
    );
    // The result format is half floats.
    let s = Word {
        lod_or_fetch: 6,
        format: 0,
        ..base
    }
    .single();
    assert_eq!(s.written_mask(), 3);
    assert_eq!(
        s.run(&mut memory, &texture, &sampler, bits, &[], none).unwrap(),
        [0x4200_4000, 0, 0, 0]
    );
    // The result is clamped to 0..1.
    let s = Word {
        lod_or_fetch: 6,
        format: 7,
        ..base
    }
    .single();
    assert_eq!(
        floats(s.run(&mut memory, &texture, &sampler, bits, &[], none).unwrap()),
        [1.0, 1.0, 0.0, 0.0]
    );
    // A fetch takes its level from bit 8 upwards.
    let s = Word {
        op: 6,
        lod_or_fetch: 1,
        ..base
    }
    .single();
    assert_eq!(
        floats(s.run(&mut memory, &texture, &sampler, (3, 1), &[1 << 8], none).unwrap()),
        [3.0, 1.0, 1.0, 0.0]
    );
    let s = Word {
        op: 6,
        lod_or_fetch: 5,
        ..base
    }
    .single();
    let middle = (0.5f32.to_bits(), 0.5f32.to_bits());
    assert_eq!(
        floats(s.run(&mut memory, &texture, &sampler, middle, &[0], none).unwrap()),
        [3.0, 3.0, 4.0, 4.0]
    );
    // Operations reject floats as integers and textures of another dimension.
    let s = Word {
        lod_or_fetch: 6,
        format: 14,
        ..base
    }
    .single();
    assert!(s.run(&mut memory, &texture, &sampler, bits, &[], none).is_err());
    let s = Word {
        lod_or_fetch: 6,
        dimension: 1,
        ..base
    }
    .single();
    assert!(s.run(&mut memory, &texture, &sampler, bits, &[], none).is_err());
}

#[test]
fn a_gradient_is_the_level_of_detail_of_a_later_sample() {
    let (r, mut memory) = picture();
    let texture = r.load(&mut memory);
    let sampler = SamplerRecipe {
        mipmap: 3,
        ..Default::default()
    }
    .make();
    let s = Word {
        immediate: 1,
        op: 4,
        offset: 1,
        shadow: 1,
        dimension: 2,
        format: 14,
        ..Default::default()
    }
    .single();
    assert_eq!(s.staging(), 2);
    let d = |texels: f32| (texels / 8.0).to_bits();
    let none = Derivatives::default();
    // Two texels across and one and a half down.
    let got = s
        .run(&mut memory, &texture, &sampler, (d(2.0), 0), &[d(0.0), d(1.5)], none)
        .unwrap();
    assert_eq!(got, [256, 0, 0, 0]);
    let got = s
        .run(&mut memory, &texture, &sampler, (d(0.25), 0), &[0, 0], none)
        .unwrap();
    assert_eq!(got[0], -512i16 as u16 as u32);
    let s = Word {
        immediate: 1,
        op: 7,
        dimension: 2,
        lod_or_fetch: 3,
        format: 4,
        ..Default::default()
    }
    .single();
    let got = s.run(&mut memory, &texture, &sampler, (0, 0), &[128, 0], none).unwrap();
    assert_eq!(f32::from_bits(got[2]), 0.5);
}

#[test]
fn two_textures_at_once() {
    // Primary: sampler 1, texture 2, f16. Secondary: sampler 3, texture 0, f32, to register 20.
    let word = 1 | 1 << 2 | 2 << 4 | 3 << 6 | 20 << 12 | 4 << 18 | 15 << 21 | 15 << 28;
    let Operation::Dual(d) = Operation::decode(word).unwrap() else {
        panic!()
    };
    assert_eq!((d.primary.indices(&[]), d.secondary.indices(&[])), ((2, 1), (0, 3)));
    assert_eq!(
        (d.primary.format, d.secondary.format),
        (RegisterFormat::F16, RegisterFormat::F32)
    );
    assert_eq!(
        (
            d.secondary_register,
            d.primary.written_mask(),
            d.secondary.written_mask()
        ),
        (20, 3, 15)
    );
}

#[test]
fn unbound_textures_read_zero_in_every_format() {
    let mut memory = Flat(vec![0; 64]);
    memory.words(0, &[2 | 2 << 4 | (95 << 12 | 0o4444) << 10, 0, 2 << 12]);
    let texture = Texture::load(Arch::V6, &mut memory, GpuVa::ZERO).unwrap();
    let sampler = SamplerRecipe::default().make();
    for format in [0, 4, 12, 13, 14, 15] {
        for (op, lod_or_fetch, dimension) in [(7, 6, 2), (6, 1, 3), (6, 4, 0)] {
            let s = Word {
                immediate: 1,
                op,
                dimension,
                lod_or_fetch,
                format,
                ..Default::default()
            }
            .single();
            assert_eq!(
                s.run(&mut memory, &texture, &sampler, (0, 0), &[0; 9], Derivatives::default()),
                Ok([0; 4])
            );
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_words_decode_as_texture_operations_or_are_refused(word in any::<u32>(), staging in any::<[u32; 9]>(), xy in any::<(u32, u32)>(), texture in any::<[u8; 32]>(), v7 in any::<bool>()) {
        let singles = match Operation::decode(word) {
            Ok(Operation::Single(s)) => vec![s],
            Ok(Operation::Dual(d)) => vec![d.primary, d.secondary],
            Err(_) => vec![],
        };
        let (r, mut memory) = picture();
        let sampler = SamplerRecipe { linear: true, mipmap: 3, ..Default::default() }.make();
        let mut hostile = texture;
        hostile[0] = hostile[0] & 0xf0 | 2;
        let arch = if v7 { Arch::V7 } else { Arch::V6 };
        for s in singles {
            prop_assert!(s.staging() <= MAX_STAGING);
            for texture in [Some(r.load(&mut memory)), Texture::parse(arch, &hostile).ok()].into_iter().flatten() {
                let _ = s.indices(&staging);
                let d = Derivatives { dx: staging[..3].try_into().map(|a: [u32; 3]| a.map(f32::from_bits)).unwrap(), ..Default::default() };
                let _ = s.run(&mut memory, &texture, &sampler, xy, &staging, d);
                let _ = s.run_cube(&mut memory, &texture, &sampler, (xy.0, xy.1, staging[0]), d);
            }
        }
    }
}
