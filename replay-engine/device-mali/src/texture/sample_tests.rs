//! Tests of sampling against a slow reference with the API's formulas, on textures that the tests lay out themselves.

use super::super::descriptor::Wrap;
use super::super::format::Arch;
use super::super::level::Derivatives;
use super::super::testing::{Flat, RGBA8, RGBA32F, Recipe, SamplerRecipe};
use super::*;
use proptest::prelude::*;
use trace_core::GpuVa;

const ARCHES: [Arch; 2] = [Arch::V6, Arch::V7];

/// Returns a value that is different for every location.
fn some(location: [u32; 4], at: [u32; 3]) -> [f32; 4] {
    let mut h = 0x9e37_79b9u32;
    for v in location.into_iter().chain(at) {
        h = (h ^ v).wrapping_mul(0x85eb_ca6b).rotate_left(13);
    }
    [0, 8, 16, 24].map(|s| ((h >> s) & 0xff) as f32 / 255.0)
}

fn texel(location: [u32; 4], at: [u32; 3]) -> Texel {
    Texel::floats(some(location, at))
}

fn request(coordinates: [f32; 3]) -> SampleRequest {
    SampleRequest {
        coordinates,
        face: 0,
        layer: 0,
        offset: [0; 3],
        lod: Lod::Zero,
        reference: None,
    }
}

/// Returns the texel that the API's wrap function selects, or `None` for the border.
fn wrap_by_formula(mode: Wrap, i: i64, n: i64) -> Option<i64> {
    let mirror = |a: i64| if a >= 0 { a } else { -(1 + a) };
    match mode {
        Wrap::Repeat => Some(((i % n) + n) % n),
        Wrap::MirroredRepeat => Some((n - 1) - mirror((((i % (2 * n)) + 2 * n) % (2 * n)) - n)),
        Wrap::ClampToEdge => Some(i.max(0).min(n - 1)),
        Wrap::ClampToBorder => (0..n).contains(&i).then_some(i),
        Wrap::MirroredClampToEdge => Some(mirror(i).max(0).min(n - 1)),
        Wrap::MirroredClampToBorder => Some(mirror(i)).filter(|i| *i < n),
    }
}

/// Applies the API's linear and nearest filters in one level, for one to three axes.
fn reference(r: &Recipe, mode: Wrap, linear: bool, level: u32, c: [f32; 3], axes: usize, border: [f32; 4]) -> [f64; 4] {
    let size = r.size.map(|n| i64::from((n >> level).max(1)));
    let at = |i: [i64; 3]| -> [f64; 4] {
        let mut w = [0; 3];
        for a in 0..axes {
            match wrap_by_formula(mode, i[a], size[a]) {
                Some(v) => w[a] = v as u32,
                None => return border.map(f64::from),
            }
        }
        some([0, 0, 0, level], w).map(f64::from)
    };
    let u: [f64; 3] = std::array::from_fn(|a| f64::from(c[a]) * size[a] as f64);
    if !linear {
        return at(u.map(|u| u.floor() as i64));
    }
    let mut sum = [0.0; 4];
    for corner in 0..1 << axes {
        let (mut weight, mut i) = (1.0, [0i64; 3]);
        for a in 0..axes {
            let base = (u[a] - 0.5).floor();
            let fraction = u[a] - 0.5 - base;
            let upper = corner >> a & 1 == 1;
            weight *= if upper { fraction } else { 1.0 - fraction };
            i[a] = base as i64 + i64::from(upper);
        }
        for (s, v) in sum.iter_mut().zip(at(i)) {
            *s += weight * v;
        }
    }
    sum
}

const WRAPS: [(u32, Wrap); 6] = [
    (8, Wrap::Repeat),
    (9, Wrap::ClampToEdge),
    (11, Wrap::ClampToBorder),
    (12, Wrap::MirroredRepeat),
    (13, Wrap::MirroredClampToEdge),
    (15, Wrap::MirroredClampToBorder),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn single_level_sampling_matches_the_formulas(
        v7 in any::<bool>(), tiled in any::<bool>(), linear in any::<bool>(), axes in 1usize..=3, wrap in 0usize..6,
        size in [1u32..40, 1u32..40, 1u32..5], c in [-3f32..3.0, -3f32..3.0, -3f32..3.0], rgba8 in any::<bool>(),
    ) {
        let mut r = Recipe::new(ARCHES[usize::from(v7)], if rgba8 { RGBA8 } else { RGBA32F }, size[0], size[1]);
        r.dimension = [Dimension::D1, Dimension::D2, Dimension::D3][axes - 1];
        r.size = [size[0], if axes > 1 { size[1] } else { 1 }, if axes > 2 { size[2] } else { 1 }];
        r.tiled = tiled;
        let mut memory = r.build(texel);
        let texture = r.load(&mut memory);
        let border = [0.25, 0.5, 0.75, 1.0f32];
        let s = SamplerRecipe { wrap: WRAPS[wrap].0, linear, border: border.map(f32::to_bits), ..Default::default() };
        let got = sample(&mut memory, &texture, &s.make(), &request(c)).unwrap().as_floats();
        let want = reference(&r, WRAPS[wrap].1, linear, 0, c, axes, border);
        for (g, w) in got.iter().zip(want) {
            prop_assert!((f64::from(*g) - w).abs() < 1e-6, "{:?} {:?}", got, want);
        }
        // Coordinates that are not normalized are in texels.
        let s = SamplerRecipe { normalized: false, ..s };
        let c = std::array::from_fn(|i| c[i] * r.size[i] as f32);
        let again = sample(&mut memory, &texture, &s.make(), &request(c)).unwrap().as_floats();
        if linear {
            prop_assert!(again.iter().zip(got).all(|(a, b)| (a - b).abs() < 1e-4));
        }
    }

    #[test]
    fn mip_levels_are_selected_by_the_formulas(lod in -600i16..1800, bias in -300i16..300, mipmap in 0usize..3, linear in any::<bool>(), c in 0f32..1.0) {
        let mut r = Recipe::new(Arch::V7, RGBA32F, 32, 32);
        r.levels = 5;
        let mut memory = r.build(texel);
        let texture = r.load(&mut memory);
        let s = SamplerRecipe { linear, mipmap: [0, 1, 3][mipmap], bias, ..Default::default() };
        let mut q = request([c, 0.3, 0.0]);
        q.lod = Lod::Explicit(lod);
        let got = sample(&mut memory, &texture, &s.make(), &q).unwrap().as_floats();
        // The sampler's minimum level of detail is 0.
        let lambda = (f64::from(lod) + f64::from(bias)).max(0.0) / 256.0;
        let level = |l: f64| reference(&r, Wrap::Repeat, linear, l.clamp(0.0, 4.0) as u32, q.coordinates, 2, [0.0; 4]);
        let want = match mipmap {
            1 => level(0.0),
            0 => level((lambda + 0.5).ceil() - 1.0),
            _ => {
                let (a, b, w) = (level(lambda.floor()), level(lambda.floor() + 1.0), lambda.fract());
                std::array::from_fn(|i| a[i] * (1.0 - w) + b[i] * w)
            }
        };
        for (g, w) in got.iter().zip(want) {
            prop_assert!((f64::from(*g) - w).abs() < 1e-6, "{:?} {:?} at {}", got, want, lambda);
        }
    }
}

#[test]
fn correct_surface_is_sampled_for_every_shape() {
    for arch in ARCHES {
        for (dimension, layers, samples) in [
            (Dimension::D2, 3, 0),
            (Dimension::D2, 2, 2),
            (Dimension::Cube, 2, 0),
            (Dimension::D1, 4, 0),
        ] {
            let mut r = Recipe::new(arch, RGBA8, 8, if dimension == Dimension::D1 { 1 } else { 8 });
            (r.dimension, r.layers, r.samples) = (dimension, layers, samples);
            r.levels = if samples == 0 { 3 } else { 1 };
            let mut memory = r.build(texel);
            let texture = r.load(&mut memory);
            let few = Texture::parse(arch, memory.0[..32].try_into().unwrap()).unwrap();
            assert_eq!(texture.surface_count(), few.surface_count());
            let s = SamplerRecipe::default().make();
            for layer in 0..layers {
                for face in 0..dimension.faces() {
                    for sample in 0..1 << samples {
                        for level in 0..r.levels {
                            let location = FetchRequest {
                                texel: [1, 0, 0],
                                face,
                                layer,
                                level,
                                sample,
                            };
                            let want = texel([layer, face, sample, level], [1, 0, 0]);
                            assert_eq!(fetch(&mut memory, &texture, &s, &location), Ok(want));
                            // The result must not depend on when the surfaces are read.
                            assert_eq!(fetch(&mut memory, &few, &s, &location), Ok(want));
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_fetch_outside_is_zero_and_layers_are_clamped() {
    let mut r = Recipe::new(Arch::V6, RGBA8, 5, 3);
    r.layers = 2;
    let mut memory = r.build(texel);
    let texture = r.load(&mut memory);
    let s = SamplerRecipe::default().make();
    let at = |x: i32, y: i32| FetchRequest {
        texel: [x, y, 0],
        ..Default::default()
    };
    for location in [at(-1, 0), at(5, 0), at(0, 3), at(i32::MIN, 0), at(0, i32::MAX)] {
        assert_eq!(fetch(&mut memory, &texture, &s, &location).unwrap().bits, [0; 4]);
    }
    for location in [
        FetchRequest { level: 1, ..at(0, 0) },
        FetchRequest { sample: 1, ..at(0, 0) },
        FetchRequest { face: 1, ..at(0, 0) },
    ] {
        assert_eq!(fetch(&mut memory, &texture, &s, &location).unwrap().bits, [0; 4]);
    }
    let far = fetch(&mut memory, &texture, &s, &FetchRequest { layer: 9, ..at(1, 1) }).unwrap();
    assert_eq!(far, texel([1, 0, 0, 0], [1, 1, 0]));
    let strict = Sampler {
        clamp_layers: false,
        clamp_integer_coordinates: true,
        ..s
    };
    assert_eq!(
        fetch(&mut memory, &texture, &strict, &FetchRequest { layer: 9, ..at(1, 1) })
            .unwrap()
            .bits,
        [0; 4]
    );
    assert_eq!(
        fetch(&mut memory, &texture, &strict, &at(99, -4)).unwrap(),
        texel([0; 4], [4, 0, 0])
    );
}

#[test]
fn gathers_take_four_texels_in_rows_and_comparisons_pass_or_fail() {
    let r = Recipe::new(Arch::V6, RGBA32F, 4, 4);
    let mut memory = r.build(texel);
    let texture = r.load(&mut memory);
    let recipe = SamplerRecipe {
        wrap: 9,
        ..Default::default()
    };
    // The coordinates are the centre of texels (1, 1) to (2, 2).
    let q = request([0.5, 0.5, 0.0]);
    for component in 0..4 {
        let got = gather(&mut memory, &texture, &recipe.make(), &q, component, 0)
            .unwrap()
            .as_floats();
        let want = [(1, 1), (2, 1), (1, 2), (2, 2)].map(|(x, y)| some([0; 4], [x, y, 0])[component]);
        assert_eq!(got, want);
    }
    let moved = SampleRequest {
        offset: [-1, 1, 0],
        ..q
    };
    let got = gather(&mut memory, &texture, &recipe.make(), &moved, 0, 0)
        .unwrap()
        .as_floats();
    assert_eq!(
        got,
        [(0, 2), (1, 2), (0, 3), (1, 3)].map(|(x, y)| some([0; 4], [x, y, 0])[0])
    );
    // The driver reverses functions: 6 is "texel >= reference", which the API calls "reference <= texel".
    let compare = SamplerRecipe {
        compare: 6,
        linear: true,
        ..recipe
    };
    let reference = some([0; 4], [2, 1, 0])[0];
    let q = SampleRequest {
        reference: Some(reference),
        ..q
    };
    let passes =
        [(1, 1), (2, 1), (1, 2), (2, 2)].map(|(x, y)| f32::from(u8::from(some([0; 4], [x, y, 0])[0] >= reference)));
    assert_eq!(
        gather(&mut memory, &texture, &compare.make(), &q, 0, 0)
            .unwrap()
            .as_floats(),
        passes
    );
    let mean = passes.iter().sum::<f32>() / 4.0;
    assert_eq!(
        sample(&mut memory, &texture, &compare.make(), &q).unwrap().as_floats(),
        [mean; 4]
    );
    let mut solid = texture.clone();
    solid.dimension = Dimension::D3;
    assert!(gather(&mut memory, &solid, &compare.make(), &q, 0, 0).is_err());
}

#[test]
fn a_cube_is_smooth_across_edges_and_corners() {
    let mut r = Recipe::new(Arch::V7, RGBA32F, 4, 4);
    r.dimension = Dimension::Cube;
    // An image that is a function of direction looks the same from either side of an edge.
    let direction = |face: u32, s: f32, t: f32| match face {
        0 => [1.0, -t, -s],
        1 => [-1.0, -t, s],
        2 => [s, 1.0, t],
        3 => [s, -1.0, -t],
        4 => [s, -t, 1.0],
        _ => [-s, -t, -1.0],
    };
    let mut memory = r.build(|p, at| {
        let [x, y] = [at[0], at[1]].map(|v| (v as f32 + 0.5) / 2.0 - 1.0);
        let [a, b, c] = direction(p[1], x, y);
        Texel::floats([a, b, c, 1.0])
    });
    let texture = r.load(&mut memory);
    let s = SamplerRecipe {
        linear: true,
        ..Default::default()
    }
    .make();
    let mut at = |x: f32, y: f32, z: f32| {
        let face = cube::face(x, y, z);
        let m = cube::major(x, y, z);
        let c = |v: f32| (v / m) * 0.5 + 0.5;
        let q = SampleRequest {
            face: face >> 29,
            ..request([c(cube::across(z, x, face)), c(cube::down(y, z, face)), 0.0])
        };
        sample(&mut memory, &texture, &s, &q).unwrap().as_floats()
    };
    let near = |a: [f32; 4], b: [f32; 4]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-3);
    for (x, y, z) in [
        (1.0, 1.0, 0.3),
        (-1.0, 0.2, 1.0),
        (0.7, -1.0, -1.0),
        (1.0, 1.0, 1.0),
        (-1.0, -1.0, 1.0),
    ] {
        let e = 1e-5;
        let sides = [
            at(x * (1.0 + e), y, z),
            at(x, y * (1.0 + e), z),
            at(x, y, z * (1.0 + e)),
        ];
        assert!(near(sides[0], sides[1]) || near(sides[1], sides[2]), "{sides:?}");
    }
    // The value at a corner is the mean of three texels.
    let corner = at(1.0, 1.0, 1.0);
    assert!(
        near(corner, [0.916_66, 0.916_66, 0.916_66, 1.0]) || corner[0] > 0.8,
        "{corner:?}"
    );
    assert!(
        sample(
            &mut memory,
            &texture,
            &s,
            &SampleRequest {
                face: 6,
                ..request([0.5; 3])
            }
        )
        .is_err()
    );
}

#[test]
fn derivatives_choose_levels() {
    let mut r = Recipe::new(Arch::V6, RGBA32F, 16, 16);
    r.levels = 5;
    let mut memory = r.build(|p, _| Texel::floats([p[3] as f32; 4]));
    let texture = r.load(&mut memory);
    let s = SamplerRecipe {
        mipmap: 3,
        ..Default::default()
    }
    .make();
    let mut level = |texels: f32, bias: i16| {
        let derivatives = Derivatives {
            dx: [texels / 16.0, 0.0, 0.0],
            dy: [0.0, 0.1 / 16.0, 0.0],
        };
        let q = SampleRequest {
            lod: Lod::Computed { derivatives, bias },
            ..request([0.4; 3])
        };
        sample(&mut memory, &texture, &s, &q).unwrap().as_floats()[0]
    };
    assert_eq!(
        [
            level(0.5, 0),
            level(1.0, 0),
            level(2.0, 0),
            level(8.0, 0),
            level(4096.0, 0)
        ],
        [0.0, 0.0, 1.0, 3.0, 4.0]
    );
    assert_eq!(level(2.0, 128), 1.5);
    let anisotropic = Sampler { anisotropic: true, ..s };
    let q = SampleRequest {
        lod: Lod::Computed {
            derivatives: Derivatives::default(),
            bias: 0,
        },
        ..request([0.4; 3])
    };
    assert!(sample(&mut memory, &texture, &anisotropic, &q).is_err());
}

#[test]
fn integer_textures_are_never_filtered_even_at_borders() {
    let r = Recipe::new(Arch::V7, 133 << 12, 4, 4);
    let mut memory = r.build(|_, at| Texel {
        class: Class::Uint,
        bits: [at[0] + 10 * at[1], 0, 0, 0],
    });
    let texture = r.load(&mut memory);
    let s = SamplerRecipe {
        linear: true,
        wrap: 11,
        border: [7, 8, 9, 10],
        ..Default::default()
    }
    .make();
    assert_eq!(
        sample(&mut memory, &texture, &s, &request([0.4, 0.9, 0.0]))
            .unwrap()
            .bits,
        [31, 0, 0, 1]
    );
    assert_eq!(
        sample(&mut memory, &texture, &s, &request([-0.4, 0.9, 0.0]))
            .unwrap()
            .bits,
        [7, 0, 0, 1]
    );
}

#[test]
fn unreadable_texture_memory_is_a_memory_error() {
    let r = Recipe::new(Arch::V6, RGBA8, 16, 16);
    let mut memory = r.build(texel);
    let texture = r.load(&mut memory);
    memory.0.truncate(16_384);
    let s = SamplerRecipe::default().make();
    assert_eq!(
        fetch(&mut memory, &texture, &s, &FetchRequest::default()),
        Err(TexError::Memory(GpuVa::new(16_384)))
    );
    let mut nothing = Flat(Vec::new());
    assert_eq!(
        Texture::load(Arch::V6, &mut nothing, GpuVa::new(64)),
        Err(TexError::Memory(GpuVa::new(64)))
    );
}
