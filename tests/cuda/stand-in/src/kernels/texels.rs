//! Kernels that read textures and change surfaces.

use super::run::KernelRun;
use crate::Answer;
use crate::textures::{change_word, read_texel};

/// `read_texels(out, texture, n)`: out[i] = texel n - 1 - i of linear memory.
pub fn read_texels(r: &KernelRun<'_>) -> Answer {
    let (out, texture, n) = (r.u64(0)?, r.u64(1)?, u64::from(r.u32(2)?));
    r.indices(n).try_for_each(|i| {
        let texel = read_texel(&r.memory, texture, [(n - 1 - i) as i64, 0])?;
        r.memory.set_f32(out + i * 4, texel)
    })
}

/// `read_plane(out, texture, width, n)`: out[i] = texel left of and above pixel i.
pub fn read_plane(r: &KernelRun<'_>) -> Answer {
    let (out, texture, width) = (r.u64(0)?, r.u64(1)?, u64::from(r.u32(2)?));
    r.indices(r.u32(3)?.into()).try_for_each(|i| {
        let at = [(i % width) as i64 - 1, (i / width) as i64 - 1];
        r.memory.set_f32(out + i * 4, read_texel(&r.memory, texture, at)?)
    })
}

/// `change_plane(surface, width, n)`: pixel i = pixel i · 3 + i.
pub fn change_plane(r: &KernelRun<'_>) -> Answer {
    let (surface, width) = (r.u64(0)?, u64::from(r.u32(1)?));
    r.indices(r.u32(2)?.into()).try_for_each(|i| {
        change_word(surface, i % width * 4, i / width, |word| {
            word.wrapping_mul(3).wrapping_add(i as u32)
        })
    })
}
