//! How many values fall into each of 64 bins.

use crate::compare::Tolerance;
use crate::work::{BufferData, Dispatch, Element, RandomNumbers, Role, Work, words};

/// Of `count` values, a multiple of 128. The bins hold something before, which has to stay in the sums.
pub fn make(count: usize) -> Work {
    let values = RandomNumbers::new(99).words(count);
    let before: Vec<u32> = (0..64).map(|i| 0x5000 + i * 3).collect();
    let mut bins = before.clone();
    for v in &values {
        if let Some(b) = bins.get_mut((v.wrapping_mul(2_654_435_761) >> 26) as usize) {
            *b += 1;
        }
    }
    let source = include_str!("../../shaders/histogram.comp");
    Work {
        buffers: vec![
            BufferData::input("values", 0, Element::U32, &[count], words(&values)),
            BufferData {
                role: Some(Role::Output),
                expected: Some((words(&bins), Tolerance::Exact)),
                ..BufferData::input("bins", 1, Element::U32, &[64], words(&before))
            },
        ],
        steps: vec![Dispatch::new("histogram", source, [count as u32 / 128, 1, 1])],
        ..Work::default()
    }
}
