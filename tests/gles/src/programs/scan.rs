//! Running sums.

use crate::compare::Tolerance;
use crate::work::{BufferData, Dispatch, Element, RandomNumbers, Work, words};

/// Of `count` numbers, a multiple of 128; sums wrap around.
pub fn make(count: usize) -> Work {
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
