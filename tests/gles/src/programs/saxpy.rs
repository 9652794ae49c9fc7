//! `y = k x + y`.

use crate::compare::Tolerance;
use crate::work::{BufferData, Dispatch, Element, RandomNumbers, Role, Uniform, Work, floats};

const K: f32 = 2.5;

/// Of `count` elements (a multiple of 64) the first `n`. Exact: every product and sum is a short binary fraction.
pub fn make(count: usize, n: usize) -> Work {
    let mut numbers = RandomNumbers::new(12345);
    let x = numbers.multiples(count, 4096, 1.0 / 256.0);
    let y = numbers.multiples(count, 4096, 1.0 / 256.0);
    let after: Vec<f32> = (x.iter().zip(&y).enumerate())
        .map(|(i, (x, y))| if i < n { K * x + y } else { *y })
        .collect();
    let mut step = Dispatch::new(
        "saxpy",
        include_str!("../../shaders/saxpy.comp"),
        [count as u32 / 64, 1, 1],
    );
    step.uniforms = vec![("k", Uniform::F32(K)), ("n", Uniform::U32(n as u32))];
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
