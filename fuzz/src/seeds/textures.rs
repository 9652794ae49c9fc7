//! Seeds of what shaders read through descriptors: one texture of each shape, arrays and images as attributes.

use super::seed::Add;

/// Returns an input: architecture, operation, operands, staging, and the words of memory at their offsets.
fn input(v7: bool, op: [u32; 3], staging: &[u32], memory: &[(usize, &[u32])]) -> Vec<u8> {
    let mut out = vec![u8::from(v7)];
    let staged = (0..9).map(|i| staging.get(i).copied().unwrap_or(0));
    for word in op.into_iter().chain(staged) {
        out.extend(word.to_le_bytes());
    }
    let head = out.len();
    out.resize(head + 4096, 0);
    for (i, byte) in out[head + 1024..].iter_mut().enumerate() {
        *byte = ((i * 37) >> 2) as u8;
    }
    for (at, words) in memory {
        for (i, word) in words.iter().enumerate() {
            let to = head + at + 4 * i;
            out[to..to + 4].copy_from_slice(&word.to_le_bytes());
        }
    }
    out
}

/// A sampler with level of detail 0 to 32, filtered, trilinear, repeated.
const SAMPLER: [u32; 3] = [1 | 0x888 << 8 | 1 << 23 | 1 << 25 | 1 << 26 | 3 << 30, 0x1fff << 16, 0];

/// Adds the seeds.
pub fn add(add: Add<'_>) {
    let mut seed = |file, bytes| add("textures", file, bytes);
    let half = 0.5f32.to_bits();
    let surface: [u32; 8] = [1024, 0, 1024, 1024, 2048, 0, 512, 512];
    // The seed is a recorded fetch: integers, 2D, tiled.
    let t = [
        2 | 2 << 4 | (133 << 12 | 0o5440) << 10,
        15 | 7 << 16,
        0o5440 | 1 << 12,
        0,
        512,
    ];
    let memory: [(usize, &[u32]); 3] = [(0, &t), (32, &SAMPLER), (512, &surface)];
    seed("fetch", input(false, [0xfe18_6800, 3, 1], &[0], &memory));
    // The seed samples at an explicit level of detail between two levels, 8 bits a component.
    let t = [
        2 | 2 << 4 | 187 << 22,
        15 | 15 << 16,
        0o3210 | 1 << 12 | 1 << 16,
        1 << 24,
        512,
    ];
    let memory: [(usize, &[u32]); 3] = [(0, &t), (32, &SAMPLER), (512, &surface)];
    seed("sample", input(true, [0xf448_7800, half, half], &[128], &memory));
    // The seeds are a gather on a cube, and ETC2 in rows.
    let t = [2 | 187 << 22, 3 | 3 << 16, 0o3210 | 2 << 12, 0, 512];
    let faces: [u32; 24] = std::array::from_fn(|i| {
        if i % 4 == 0 {
            1024 + 64 * i as u32
        } else {
            16 * u32::from(i % 4 == 2)
        }
    });
    let memory: [(usize, &[u32]); 3] = [(0, &t), (32, &SAMPLER), (512, &faces)];
    seed(
        "cube",
        input(true, [0xf450_6800, 0x1f00_0000 | 2 << 29, half], &[0], &memory),
    );
    let t = [2 | 2 << 4 | 3 << 22, 15 | 15 << 16, 0o3210 | 2 << 12, 0, 512];
    let memory: [(usize, &[u32]); 3] = [(0, &t), (32, &SAMPLER), (512, &surface)];
    seed("etc2", input(true, [0xf468_7800, half, half], &[], &memory));
    // The seed loads an image and converts four floats to 8 bits a component.
    let attribute = [(187 << 12 | 0o3210) << 10, 0];
    let buffers = [6 | 1024, 0, 4, 2048, 32 | 15 << 16, 15, 1024, 0];
    let memory: [(usize, &[u32]); 2] = [(64, &attribute), (128, &buffers)];
    let staging = [0, 187 << 12 | 0o3210 | 1 << 24, half, half, half, half, 4];
    seed("image", input(false, [0, 3 | 5 << 16, 0], &staging, &memory));
}
