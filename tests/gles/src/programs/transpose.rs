//! Rows become columns.

use crate::compare::Tolerance;
use crate::work::{BufferData, Dispatch, Element, RandomNumbers, Uniform, Work, words};

/// Of a matrix of `h` rows of `w` elements, both multiples of 8.
pub fn make(w: usize, h: usize) -> Work {
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
