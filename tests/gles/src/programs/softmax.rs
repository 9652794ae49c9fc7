//! Softmax of rows of 64.

use crate::compare::Tolerance;
use crate::work::{BufferData, Dispatch, Element, RandomNumbers, Work, floats};

/// GLSL's `exp` is allowed an error that grows with its argument; the arguments here reach down to -12.
const TOLERANCE: Tolerance = Tolerance::Relative(2e-6);

/// Of `rows` rows. The CPU computes in 64-bit floats.
pub fn make(rows: usize) -> Work {
    let x = RandomNumbers::new(24).multiples(rows * 64, 6000, 0.001);
    let mut y = Vec::with_capacity(x.len());
    for row in x.chunks_exact(64) {
        let greatest = row.iter().copied().fold(f32::MIN, f32::max);
        let e: Vec<f64> = row.iter().map(|v| f64::from(v - greatest).exp()).collect();
        let sum: f64 = e.iter().sum();
        y.extend(e.iter().map(|v| (v / sum) as f32));
    }
    let shape = [rows, 64];
    let source = include_str!("../../shaders/softmax.comp");
    Work {
        buffers: vec![
            BufferData::input("x", 0, Element::F32, &shape, floats(&x)),
            BufferData::output("y", 1, Element::F32, &shape, floats(&y), TOLERANCE),
        ],
        steps: vec![Dispatch::new("softmax", source, [rows as u32, 1, 1])],
        ..Work::default()
    }
}
