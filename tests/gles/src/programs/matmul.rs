//! A product of square matrices: straight from memory, or through tiles in shared memory.

use crate::compare::Tolerance;
use crate::work::{BufferData, Dispatch, Element, RandomNumbers, Uniform, Work, floats};

/// Each element from memory; `n` is a multiple of 8.
pub fn plain(n: usize) -> Work {
    make(n, "matmul_plain", include_str!("../../shaders/matmul_plain.comp"))
}

/// Through tiles; `n` is a multiple of 8.
pub fn tiled(n: usize) -> Work {
    make(n, "matmul", include_str!("../../shaders/matmul.comp"))
}

/// Exact: small whole numbers.
fn make(n: usize, name: &'static str, source: &'static str) -> Work {
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
