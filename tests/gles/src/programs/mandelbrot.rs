//! Steps until points of the plane escape.

use crate::compare::Tolerance;
use crate::work::{BufferData, Dispatch, Element, Uniform, Work, words};

/// At `w` by `h` points, both multiples of 8. Exact: whole numbers, 12 bits behind the point.
pub fn make(w: usize, h: usize) -> Work {
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
