//! Programs over matrices and pictures.

use crate::work::{
    Access, BufferData, Dispatch, Element, Kind, RandomNumbers, Role, Texture, Tolerance, Uniform, Work, floats, words,
};

/// Multiplies square matrices, with all reads from memory; `n` is a multiple of 8.
pub fn matmul_plain(n: usize) -> Work {
    matmul(n, "matmul_plain", include_str!("../../shaders/matmul_plain.comp"))
}

/// Multiplies square matrices through tiles in shared memory; `n` is a multiple of 8.
pub fn matmul_tiled(n: usize) -> Work {
    matmul(n, "matmul", include_str!("../../shaders/matmul.comp"))
}

/// Multiplies square matrices. The results are exact, because all numbers are small integers.
fn matmul(n: usize, name: &'static str, source: &'static str) -> Work {
    let mut numbers = RandomNumbers::new(777);
    let a = numbers.multiples(n * n, 8, 1.0);
    let b = numbers.multiples(n * n, 8, 1.0);
    let mut c = vec![0f32; n * n];
    for (row, left) in c.chunks_exact_mut(n).zip(a.chunks_exact(n)) {
        for (k, top) in left.iter().zip(b.chunks_exact(n)) {
            for (sum, t) in row.iter_mut().zip(top) {
                *sum += k * t;
            }
        }
    }
    let side = n as u32 / 8;
    let mut step = Dispatch::new(name, source, [side, side, 1]);
    step.uniforms = vec![("n", Uniform::U32(n as u32))];
    Work {
        buffers: vec![
            BufferData::input("a", 0, Element::F32, &[n, n], floats(&a)),
            BufferData::input("b", 1, Element::F32, &[n, n], floats(&b)),
            BufferData::output("c", 2, Element::F32, &[n, n], floats(&c), Tolerance::Exact),
        ],
        steps: vec![step],
        ..Work::default()
    }
}

/// Transposes a matrix of `h` rows of `w` elements, both multiples of 8.
pub fn transpose(w: usize, h: usize) -> Work {
    let src = RandomNumbers::new(5).words(w * h);
    let dst: Vec<u32> = (0..w).flat_map(|x| src.iter().skip(x).step_by(w).copied()).collect();
    let mut step = Dispatch::new(
        "transpose",
        include_str!("../../shaders/transpose.comp"),
        [w as u32 / 8, h as u32 / 8, 1],
    );
    step.uniforms = vec![("size", Uniform::U32x2([w as u32, h as u32]))];
    Work {
        buffers: vec![
            BufferData::input("src", 0, Element::U32, &[h, w], words(&src)),
            BufferData::output("dst", 1, Element::U32, &[w, h], words(&dst), Tolerance::Exact),
        ],
        steps: vec![step],
        ..Work::default()
    }
}

const CONV_BIAS: f32 = 0.25;

/// Computes a 3 by 3 convolution with bias and relu, of `w` by `h` pixels (multiples of 16 and 4). The results are
/// exact, because all products and sums are short binary fractions.
pub fn conv3x3(w: usize, h: usize) -> Work {
    let mut numbers = RandomNumbers::new(4711);
    let src = numbers.multiples(w * h, 64, 1.0 / 32.0);
    let k = numbers.multiples(9, 16, 1.0 / 8.0);
    let mut dst = Vec::with_capacity(w * h);
    for y in 0..h {
        for x in 0..w {
            let mut sum = CONV_BIAS;
            for (i, weight) in k.iter().enumerate() {
                let qx = (x + i % 3).saturating_sub(1).min(w - 1);
                let qy = (y + i / 3).saturating_sub(1).min(h - 1);
                sum += weight * src.get(qy * w + qx).copied().unwrap_or_default();
            }
            dst.push(sum.max(0.0));
        }
    }
    // In std140 each element of an array of floats takes 16 bytes.
    let mut uniform = vec![0f32; 40];
    for (slot, v) in uniform.iter_mut().step_by(4).zip(k.iter().chain([&CONV_BIAS])) {
        *slot = *v;
    }
    let mut step = Dispatch::new(
        "conv3x3",
        include_str!("../../shaders/conv3x3.comp"),
        [w as u32 / 16, h as u32 / 4, 1],
    );
    step.uniforms = vec![("size", Uniform::I32x2([w as i32, h as i32]))];
    Work {
        buffers: vec![
            BufferData {
                kind: Kind::Uniform,
                role: Some(Role::Weights),
                ..BufferData::input("kernel", 0, Element::F32, &[40], floats(&uniform))
            },
            BufferData::input("src", 0, Element::F32, &[h, w], floats(&src)),
            BufferData::output("dst", 1, Element::F32, &[h, w], floats(&dst), Tolerance::Exact),
        ],
        steps: vec![step],
        ..Work::default()
    }
}

/// Mirrors a texture of `w` by `h` pixels, both multiples of 8, into an image, and adds up neighbours in the image.
pub fn image(w: usize, h: usize) -> Work {
    let pixels = RandomNumbers::new(8).words(w * h);
    let mirrored: Vec<u32> = pixels
        .chunks_exact(w)
        .flat_map(|row| row.iter().rev().map(|v| v ^ 0x00ff_00ff))
        .collect();
    let below = mirrored.iter().cycle().skip(w);
    let sums: Vec<u32> = mirrored.iter().zip(below).map(|(a, b)| a.wrapping_add(*b)).collect();
    let (width, height) = (w as u32, h as u32);
    let groups = [width / 8, height / 8, 1];
    let mut store = Dispatch::new("image_store", include_str!("../../shaders/image_store.comp"), groups);
    store.textures = vec![(0, 0, Access::Sampled), (0, 1, Access::Write)];
    let mut load = Dispatch::new("image_load", include_str!("../../shaders/image_load.comp"), groups);
    load.textures = vec![(0, 1, Access::Read)];
    let blank = vec![0xdead_beef; w * h];
    Work {
        buffers: vec![BufferData::output(
            "sums",
            0,
            Element::U32,
            &[h, w],
            words(&sums),
            Tolerance::Exact,
        )],
        textures: vec![
            Texture { width, height, pixels },
            Texture {
                width,
                height,
                pixels: blank,
            },
        ],
        steps: vec![store, load],
    }
}
