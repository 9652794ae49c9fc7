//! Seeds of shader code: the shaders of the sample recordings, with padding after them and without.

use super::{Add, shader_job};
use crate::shader_code::encode;

/// Start address of a seed's code.
const ENTRY: u64 = 0x5f_0000_1000;

/// Adds the seeds.
pub fn add(add: Add<'_>) {
    for sample in ["vecadd", "matmul", "histogram", "mediump"] {
        if let Some(mut code) = shader_job::code_of_sample(sample) {
            code.extend([0; 16]);
            add("shader_code", sample, encode(ENTRY, u32::MAX, u16::MAX, &code));
        }
    }
    if let Some(code) = shader_job::code_of_sample("vecadd-g52") {
        // The code ends at the last byte of the address space, where nothing can follow it.
        let entry = 0u64.wrapping_sub(code.len() as u64);
        add(
            "shader_code",
            "vecadd-g52-at-the-end",
            encode(entry, u32::MAX, u16::MAX, &code),
        );
    }
}
