//! Textures and images: one mirrored into another, neighbours of that one added up.

use crate::compare::Tolerance;
use crate::work::{Access, BufferData, Dispatch, Element, RandomNumbers, Texture, Work, words};

/// Of `w` by `h` pixels, both multiples of 8.
pub fn make(w: usize, h: usize) -> Work {
    let pixels = RandomNumbers::new(8).words(w * h);
    let mirrored: Vec<u32> = pixels
        .chunks_exact(w)
        .flat_map(|row| row.iter().rev().map(|v| v ^ 0x00ff_00ff))
        .collect();
    let below = mirrored.iter().cycle().skip(w);
    let sums: Vec<u32> = mirrored.iter().zip(below).map(|(a, b)| a.wrapping_add(*b)).collect();
    let (width, height) = (w as u32, h as u32);
    let groups = [width / 8, height / 8, 1];
    let mut store = Dispatch::new("image_store", include_str!("../../shaders/image_store.comp"), groups);
    store.textures = vec![(0, 0, Access::Sampled), (0, 1, Access::Write)];
    let mut load = Dispatch::new("image_load", include_str!("../../shaders/image_load.comp"), groups);
    load.textures = vec![(0, 1, Access::Read)];
    let blank = vec![0xdead_beef; w * h];
    Work {
        buffers: vec![BufferData::output(
            "sums",
            0,
            Element::U32,
            &[h, w],
            words(&sums),
            Tolerance::Exact,
        )],
        textures: vec![
            Texture { width, height, pixels },
            Texture {
                width,
                height,
                pixels: blank,
            },
        ],
        steps: vec![store, load],
    }
}
