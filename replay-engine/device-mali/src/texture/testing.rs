//! Test textures with the driver's memory layout, and memory that holds them.

use super::TexMemory;
use super::descriptor::{Dimension, Sampler, Texture};
use super::format::{Arch, PixelFormat};
use super::texel::Texel;
use trace_core::GpuVa;

/// Memory that starts at address 0.
#[derive(Clone)]
pub(super) struct Flat(pub Vec<u8>);

impl TexMemory for Flat {
    type Error = GpuVa;

    fn read(&mut self, va: GpuVa, out: &mut [u8]) -> Result<(), GpuVa> {
        let from = usize::try_from(va.get()).map_err(|_| va)?;
        let end = from.checked_add(out.len()).ok_or(va)?;
        out.copy_from_slice(self.0.get(from..end).ok_or(va)?);
        Ok(())
    }
}

impl Flat {
    pub(super) fn words(&mut self, at: u64, words: &[u32]) {
        for (i, w) in words.iter().enumerate() {
            self.bytes(at + 4 * i as u64, &w.to_le_bytes());
        }
    }

    pub(super) fn bytes(&mut self, at: u64, bytes: &[u8]) {
        let at = at as usize;
        if self.0.len() < at + bytes.len() {
            self.0.resize(at + bytes.len(), 0);
        }
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

/// Parameters of a test texture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recipe {
    pub arch: Arch,
    pub dimension: Dimension,
    /// The 22 bits of the pixel format.
    pub format: u32,
    pub size: [u32; 3],
    pub levels: u32,
    pub layers: u32,
    /// Binary logarithm of the number of samples.
    pub samples: u32,
    pub tiled: bool,
    pub swizzle: u32,
}

pub(super) const RGBA8: u32 = 187 << 12;
pub(super) const RGBA32F: u32 = 191 << 12;

impl Recipe {
    /// Creates a tiled 2D texture of this format, whose number has no order.
    pub(super) fn new(arch: Arch, format: u32, width: u32, height: u32) -> Self {
        Self {
            arch,
            dimension: Dimension::D2,
            format: format | if arch == Arch::V6 { 0o3210 } else { 0 },
            size: [width, height, 1],
            levels: 1,
            layers: 1,
            samples: 0,
            tiled: true,
            swizzle: 0o3210,
        }
    }

    fn extent(&self, level: u32) -> [u32; 3] {
        self.size.map(|n| (n >> level).max(1))
    }

    /// Builds the texture from a function of (layer, face, sample, level) and (x, y, z). The descriptor is at 0,
    /// surfaces from 1024 and texels from 16384. The format must have one texel per block.
    pub(super) fn build(&self, texel: impl Fn([u32; 4], [u32; 3]) -> Texel) -> Flat {
        let format = PixelFormat::parse(self.arch, self.format).unwrap();
        let bytes = format.block().bytes;
        let mut memory = Flat(Vec::new());
        let dimension = match self.dimension {
            Dimension::Cube => 0,
            Dimension::D1 => 1,
            Dimension::D2 => 2,
            Dimension::D3 => 3u32,
        };
        memory.words(
            0,
            &[
                2 | dimension << 4 | self.format << 10,
                (self.size[0] - 1) | (self.size[1] - 1) << 16,
                self.swizzle | if self.tiled { 1 } else { 2 } << 12 | (self.levels - 1) << 16,
                self.samples << 13 | ((self.levels - 1) << 8) << 16,
                1024,
                0,
                self.layers - 1,
                self.size[2] - 1,
            ],
        );
        let (mut surface, mut data) = (1024u64, 16_384u64);
        let faces = if self.dimension == Dimension::Cube { 6 } else { 1 };
        let mut order = Vec::new();
        let samples = 1 << self.samples;
        match self.arch {
            Arch::V6 => {
                for l in 0..self.layers {
                    for v in 0..self.levels {
                        for f in 0..faces {
                            order.extend((0..samples).map(|s| [l, f, s, v]));
                        }
                    }
                }
            }
            Arch::V7 => {
                for l in 0..self.layers * faces {
                    for s in 0..samples {
                        order.extend((0..self.levels).map(|v| [l / faces, l % faces, s, v]));
                    }
                }
            }
        }
        for location in order {
            let [w, h, d] = self.extent(location[3]);
            let side = if self.tiled { 16 } else { 1 };
            let row = w.next_multiple_of(side) * bytes * side;
            let slice = row * h.div_ceil(side);
            memory.words(surface, &[data as u32, 0, row, slice]);
            surface += 16;
            for z in 0..d {
                for (x, y) in (0..w).flat_map(|x| (0..h).map(move |y| (x, y))) {
                    let inside = if self.tiled {
                        let at = (0..4).fold(0, |at, b| {
                            let (xb, yb) = (x >> b & 1, y >> b & 1);
                            at | (xb ^ yb) << (2 * b) | yb << (2 * b + 1)
                        });
                        y / 16 * row + (x / 16 * 256 + at) * bytes
                    } else {
                        y * row + x * bytes
                    };
                    let encoded = format.encode(&texel(location, [x, y, z])).unwrap();
                    memory.bytes(data + u64::from(z * slice + inside), &encoded[..bytes as usize]);
                }
            }
            data += u64::from(slice * d).next_multiple_of(64) + 64;
        }
        memory
    }

    pub(super) fn load(&self, memory: &mut Flat) -> Texture {
        Texture::load(self.arch, memory, GpuVa::ZERO).unwrap()
    }
}

/// Parameters of a test sampler.
#[derive(Clone, Copy, Debug)]
pub(super) struct SamplerRecipe {
    pub wrap: u32,
    pub linear: bool,
    pub mipmap: u32,
    pub normalized: bool,
    pub compare: u32,
    pub bias: i16,
    pub border: [u32; 4],
}

impl Default for SamplerRecipe {
    fn default() -> Self {
        Self {
            wrap: 8,
            linear: false,
            mipmap: 0,
            normalized: true,
            compare: 0,
            bias: 0,
            border: [0; 4],
        }
    }
}

impl SamplerRecipe {
    pub(super) fn words(&self) -> [u32; 8] {
        let nearest = u32::from(!self.linear);
        [
            1 | self.wrap << 8
                | self.wrap << 12
                | self.wrap << 16
                | 1 << 21
                | 1 << 23
                | u32::from(self.normalized) << 25
                | 1 << 26
                | nearest << 27
                | nearest << 28
                | self.mipmap << 30,
            self.compare << 13 | 0x1fff << 16,
            u32::from(self.bias as u16),
            0,
            self.border[0],
            self.border[1],
            self.border[2],
            self.border[3],
        ]
    }

    pub(super) fn make(&self) -> Sampler {
        let mut bytes = [0; 32];
        for (to, w) in bytes.chunks_mut(4).zip(self.words()) {
            to.copy_from_slice(&w.to_le_bytes());
        }
        Sampler::parse(&bytes).unwrap()
    }
}
