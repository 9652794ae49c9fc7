//! Constant data of a program: each start copies the same bytes to the device, from pageable and from pinned memory.

use crate::gpu::ClientResult;
use crate::program_context::{DEFAULT, ProgramContext};
use crate::result::check;

/// Default size, bytes.
const BYTES: u32 = 100 << 20;

/// Copies constant data to the device, and a part of each half back.
pub fn constants(w: &mut ProgramContext<'_>) -> ClientResult {
    let (gpu, words) = (w.gpu, w.size(BYTES) as usize / 8);
    // No part of the data equals another one.
    let data: Vec<u32> = (0..words as u32)
        .map(|index| index.wrapping_mul(2_654_435_761))
        .collect();
    let (pageable, pinned) = (gpu.upload_new(&data)?, gpu.alloc(words * 4)?);
    let host = gpu.pinned(words)?;
    for (to, from) in host.iter_mut().zip(&data) {
        *to = !from;
    }
    gpu.upload_async(pinned, host, DEFAULT)?;
    gpu.synchronize()?;
    let part = words.min(256);
    let first: Vec<u32> = gpu.download(pageable, part)?;
    let second: Vec<u32> = gpu.download(pinned, part)?;
    let inverted: Vec<u32> = data.iter().take(part).map(|word| !word).collect();
    check("words of pageable memory", &first, data.get(..part).unwrap_or_default())?;
    check("words of pinned memory", &second, &inverted)?;
    w.result.give(&first);
    w.result.give(&second);
    Ok(())
}
