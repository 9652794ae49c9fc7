//! Arithmetic that may be done in 16-bit floats.

use crate::compare::Tolerance;
use crate::work::{BufferData, Dispatch, Element, RandomNumbers, Work, floats};

/// On `count` pairs, a multiple of 64. Exact in 16-bit and in 32-bit floats: everything is a multiple of 1/16 below 32.
pub fn make(count: usize) -> Work {
    let mut numbers = RandomNumbers::new(16);
    let a = numbers.multiples(count, 16, 0.25);
    let b = numbers.multiples(count, 16, 0.25);
    let made: Vec<f32> = (a.iter().zip(&b))
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
            BufferData::output("o", 2, Element::F32, &[count], floats(&made), Tolerance::Exact),
        ],
        steps: vec![Dispatch::new("mediump", source, [count as u32 / 64, 1, 1])],
        ..Work::default()
    }
}
