//! A 3 by 3 convolution with bias and relu.

use crate::compare::Tolerance;
use crate::work::{BufferData, Dispatch, Element, Kind, RandomNumbers, Role, Uniform, Work, floats};

const BIAS: f32 = 0.25;

/// Of `w` by `h` pixels (multiples of 16 and 4). Exact: every product and sum is a short binary fraction.
pub fn make(w: usize, h: usize) -> Work {
    let mut numbers = RandomNumbers::new(4711);
    let src = numbers.multiples(w * h, 64, 1.0 / 32.0);
    let k = numbers.multiples(9, 16, 1.0 / 8.0);
    let mut dst = Vec::with_capacity(w * h);
    for y in 0..h {
        for x in 0..w {
            let mut sum = BIAS;
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
    for (place, v) in uniform.iter_mut().step_by(4).zip(k.iter().chain([&BIAS])) {
        *place = *v;
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
