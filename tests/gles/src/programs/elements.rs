//! Programs that compute each element independently.

use crate::work::{BufferData, Dispatch, Element, RandomNumbers, Role, Tolerance, Uniform, Work, floats, words};

const SAXPY_K: f32 = 2.5;

/// Computes `y = k x + y` for the first `n` of `count` elements (a multiple of 64). The results are exact, because all
/// products and sums are short binary fractions.
pub fn saxpy(count: usize, n: usize) -> Work {
    let mut numbers = RandomNumbers::new(12345);
    let x = numbers.multiples(count, 4096, 1.0 / 256.0);
    let y = numbers.multiples(count, 4096, 1.0 / 256.0);
    let after: Vec<f32> = (x.iter().zip(&y).enumerate())
        .map(|(i, (x, y))| if i < n { SAXPY_K * x + y } else { *y })
        .collect();
    let mut step = Dispatch::new(
        "saxpy",
        include_str!("../../shaders/saxpy.comp"),
        [count as u32 / 64, 1, 1],
    );
    step.uniforms = vec![("k", Uniform::F32(SAXPY_K)), ("n", Uniform::U32(n as u32))];
    Work {
        buffers: vec![
            BufferData::input("x", 0, Element::F32, &[count], floats(&x)),
            BufferData {
                role: Some(Role::Output),
                expected: Some((floats(&after), Tolerance::Exact)),
                ..BufferData::input("y", 1, Element::F32, &[count], floats(&y))
            },
        ],
        steps: vec![step],
        ..Work::default()
    }
}

/// Computes with `count` pairs (a multiple of 64) in arithmetic that can use 16-bit floats. The results are exact in
/// 16-bit and in 32-bit floats, because all values are multiples of 1/16 below 32.
pub fn mediump(count: usize) -> Work {
    let mut numbers = RandomNumbers::new(16);
    let a = numbers.multiples(count, 16, 0.25);
    let b = numbers.multiples(count, 16, 0.25);
    let results: Vec<f32> = (a.iter().zip(&b))
        .map(|(x, y)| {
            let product = (x * y + 0.5).max(-2.0);
            let between = x * 0.75 + y * 0.25;
            if x < y {
                product
            } else {
                between.abs().min(3.0) - product
            }
        })
        .collect();
    let source = include_str!("../../shaders/mediump.comp");
    Work {
        buffers: vec![
            BufferData::input("a", 0, Element::F32, &[count], floats(&a)),
            BufferData::input("b", 1, Element::F32, &[count], floats(&b)),
            BufferData::output("o", 2, Element::F32, &[count], floats(&results), Tolerance::Exact),
        ],
        steps: vec![Dispatch::new("mediump", source, [count as u32 / 64, 1, 1])],
        ..Work::default()
    }
}

/// Counts the steps until points of the plane escape, at `w` by `h` points, both multiples of 8. The results are exact,
/// because the arithmetic is in integers with 12 fractional bits.
pub fn mandelbrot(w: usize, h: usize) -> Work {
    let mut steps = Vec::with_capacity(w * h);
    for gy in 0..h as i32 {
        for gx in 0..w as i32 {
            let cx = gx * 12288 / w as i32 - 8704;
            let cy = gy * 9216 / h as i32 - 4608;
            let (mut x, mut y, mut n) = (0i32, 0i32, 0);
            while n < 96 {
                let (xx, yy) = ((x * x) >> 12, (y * y) >> 12);
                if xx + yy > 16384 {
                    break;
                }
                (x, y) = (xx - yy + cx, ((x * y) >> 11) + cy);
                n += 1;
            }
            steps.push(n);
        }
    }
    let mut step = Dispatch::new(
        "mandelbrot",
        include_str!("../../shaders/mandelbrot.comp"),
        [w as u32 / 8, h as u32 / 8, 1],
    );
    step.uniforms = vec![("size", Uniform::U32x2([w as u32, h as u32]))];
    Work {
        buffers: vec![BufferData::output(
            "steps",
            0,
            Element::U32,
            &[h, w],
            words(&steps),
            Tolerance::Exact,
        )],
        steps: vec![step],
        ..Work::default()
    }
}
