//! Programs whose threads combine their values: histograms, running sums, normalized rows.

use crate::work::{BufferData, Dispatch, Element, RandomNumbers, Role, Tolerance, Work, floats, words};

/// Counts how many of `count` values (a multiple of 128) are in each of 64 bins. The counts are added to initial values
/// of the bins.
pub fn histogram(count: usize) -> Work {
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

/// Computes running sums of `count` numbers (a multiple of 128). Sums wrap around.
pub fn scan(count: usize) -> Work {
    let values = RandomNumbers::new(31).words(count);
    let running = |part: &[u32]| -> Vec<u32> {
        let next = |sum: &mut u32, v: &u32| {
            *sum = sum.wrapping_add(*v);
            Some(*sum)
        };
        part.iter().scan(0, next).collect()
    };
    let blocks: Vec<u32> = values.chunks(128).filter_map(|b| running(b).last().copied()).collect();
    let groups = [blocks.len() as u32, 1, 1];
    let exact = Tolerance::Exact;
    Work {
        buffers: vec![
            BufferData::input("values", 0, Element::U32, &[count], words(&values)),
            BufferData::output("sums", 1, Element::U32, &[count], words(&running(&values)), exact),
            BufferData::output("blocks", 2, Element::U32, &[blocks.len()], words(&blocks), exact),
        ],
        steps: vec![
            Dispatch::new("scan_blocks", include_str!("../../shaders/scan_blocks.comp"), groups),
            Dispatch::new("scan_add", include_str!("../../shaders/scan_add.comp"), groups),
        ],
        ..Work::default()
    }
}

/// GLSL allows an error of `exp` that increases with its argument. The arguments here are not below -12.
const SOFTMAX_TOLERANCE: Tolerance = Tolerance::Relative(2e-6);

/// Computes the softmax of `rows` rows of 64 values. The CPU uses 64-bit floats.
pub fn softmax(rows: usize) -> Work {
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
            BufferData::output("y", 1, Element::F32, &shape, floats(&y), SOFTMAX_TOLERANCE),
        ],
        steps: vec![Dispatch::new("softmax", source, [rows as u32, 1, 1])],
        ..Work::default()
    }
}
