//! Payloads of jobs: values to write, caches to maintain, and shader invocations.

use super::header::{HEADER_BYTES, JobHeader, JobType};
use crate::GpuVa;
use crate::families::chain::Dispatch;
use crate::memory::GpuMemory;

/// Size of a draw descriptor, bytes.
const DRAW_BYTES: usize = 128;
/// Size of a renderer state, bytes.
const STATE_BYTES: usize = 64;
/// Maximum size that this module reads of a job, bytes: header, invocation, parameters and two draw descriptors.
const JOB_BYTES: usize = 384;

impl Dispatch {
    /// Unpacks a packed invocation. Its first word holds the six sizes minus one, packed without gaps; the second
    /// word holds the start bit of each size but the first.
    #[must_use]
    pub fn unpack(sizes: u32, shifts: u32) -> Self {
        let begins = [
            0,
            shifts & 31,
            shifts >> 5 & 31,
            shifts >> 10 & 63,
            shifts >> 16 & 63,
            shifts >> 22 & 63,
            32,
        ];
        let mut all = [1u32; 6];
        for (out, pair) in all.iter_mut().zip(begins.array_windows::<2>()) {
            let [lo, end] = *pair;
            let bits = end.min(32).saturating_sub(lo);
            let value = u64::from(sizes) >> lo & ((1u64 << bits) - 1);
            *out = (value as u32).saturating_add(1);
        }
        let [x, y, z, gx, gy, gz] = all;
        Self {
            workgroups: [gx, gy, gz],
            size: [x, y, z],
        }
    }

    /// Packs the invocation into two words. `split` is the hardware's hint for distributing the work (0 to 15).
    /// Returns `None` if a size is 0 or the sizes do not fit in 32 bits.
    #[must_use]
    pub fn pack(&self, split: u32) -> Option<(u32, u32)> {
        let [x, y, z] = self.size;
        let [gx, gy, gz] = self.workgroups;
        let mut sizes = 0u64;
        let mut at = 0u32;
        let mut begins = [0u32; 6];
        for (begin, size) in begins.iter_mut().zip([x, y, z, gx, gy, gz]) {
            let value = size.checked_sub(1)?;
            *begin = at;
            sizes |= u64::from(value) << at;
            at += 32 - value.leading_zeros();
            if at > 32 {
                return None;
            }
        }
        let [_, ys, zs, gxs, gys, gzs] = begins;
        if ys > 31 || zs > 31 {
            return None;
        }
        let shifts = ys | zs << 5 | gxs << 10 | gys << 16 | gzs << 22 | (split & 15) << 28;
        Some((sizes as u32, shifts))
    }
}

/// The kind of value that a write-value job writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// The cycle counter, 64 bits.
    CycleCounter,
    /// The system time, 64 bits.
    Timestamp,
    /// Zero, 64 bits.
    Zero,
    /// A value stored in the job, of 1, 2, 4 or 8 bytes.
    Immediate {
        /// Number of bytes written.
        bytes: u8,
    },
    /// A type that does not exist on any GPU.
    Unknown(u32),
}

impl WriteKind {
    /// Returns the kind with this number.
    #[must_use]
    pub fn from_raw(raw: u32) -> Self {
        match raw {
            1 => Self::CycleCounter,
            2 => Self::Timestamp,
            3 => Self::Zero,
            4 => Self::Immediate { bytes: 1 },
            5 => Self::Immediate { bytes: 2 },
            6 => Self::Immediate { bytes: 4 },
            7 => Self::Immediate { bytes: 8 },
            other => Self::Unknown(other),
        }
    }

    /// Returns the number of the kind.
    #[must_use]
    pub fn raw(self) -> u32 {
        match self {
            Self::CycleCounter => 1,
            Self::Timestamp => 2,
            Self::Zero => 3,
            Self::Immediate { bytes: 1 } => 4,
            Self::Immediate { bytes: 2 } => 5,
            Self::Immediate { bytes: 4 } => 6,
            Self::Immediate { .. } => 7,
            Self::Unknown(raw) => raw,
        }
    }

    /// Returns the number of bytes that the job writes; 0 for an unknown kind.
    #[must_use]
    pub fn bytes(self) -> u8 {
        match self {
            Self::CycleCounter | Self::Timestamp | Self::Zero => 8,
            Self::Immediate { bytes } => bytes,
            Self::Unknown(_) => 0,
        }
    }
}

/// The payload of a write-value job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteValue {
    /// The address that the job writes to.
    pub address: GpuVa,
    /// The kind of value.
    pub kind: WriteKind,
    /// The immediate value.
    pub value: u64,
}

impl WriteValue {
    /// Returns the 24 bytes that follow the header.
    #[must_use]
    pub fn encode(&self) -> [u8; 24] {
        let mut out = [0; 24];
        let words = [self.address.get(), u64::from(self.kind.raw()), self.value];
        for (to, w) in out.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *to = w.to_le_bytes();
        }
        out
    }
}

/// The payload of a cache-flush job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheFlush {
    /// Clean the load/store caches of the shader cores.
    pub clean_shader_ls: bool,
    /// Invalidate the load/store caches of the shader cores.
    pub invalidate_shader_ls: bool,
    /// Invalidate the other caches of the shader cores.
    pub invalidate_shader_other: bool,
    /// Clean the caches of the job manager.
    pub clean_job_manager: bool,
    /// Invalidate the caches of the job manager.
    pub invalidate_job_manager: bool,
    /// Clean the caches of the tiler.
    pub clean_tiler: bool,
    /// Invalidate the caches of the tiler.
    pub invalidate_tiler: bool,
    /// Clean the level 2 cache.
    pub clean_l2: bool,
    /// Invalidate the level 2 cache.
    pub invalidate_l2: bool,
}

impl CacheFlush {
    /// Unpacks the two words after the header.
    #[must_use]
    pub fn unpack(first: u32, second: u32) -> Self {
        let bit = |word: u32, n: u32| word >> n & 1 != 0;
        Self {
            clean_shader_ls: bit(first, 0),
            invalidate_shader_ls: bit(first, 1),
            invalidate_shader_other: bit(first, 2),
            clean_job_manager: bit(first, 16),
            invalidate_job_manager: bit(first, 17),
            clean_tiler: bit(first, 24),
            invalidate_tiler: bit(first, 25),
            clean_l2: bit(second, 0),
            invalidate_l2: bit(second, 1),
        }
    }

    /// Packs the flags into the two words after the header.
    #[must_use]
    pub fn pack(&self) -> (u32, u32) {
        let first = u32::from(self.clean_shader_ls)
            | u32::from(self.invalidate_shader_ls) << 1
            | u32::from(self.invalidate_shader_other) << 2
            | u32::from(self.clean_job_manager) << 16
            | u32::from(self.invalidate_job_manager) << 17
            | u32::from(self.clean_tiler) << 24
            | u32::from(self.invalidate_tiler) << 25;
        (first, u32::from(self.clean_l2) | u32::from(self.invalidate_l2) << 1)
    }
}

/// The shader and its bindings of a compute, vertex or tiler job. Unbound addresses are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compute {
    /// The draw descriptor.
    pub draw: GpuVa,
    /// Positions.
    pub position: GpuVa,
    /// Uniform-buffer table.
    pub uniform_buffers: GpuVa,
    /// Texture table.
    pub textures: GpuVa,
    /// Sampler table.
    pub samplers: GpuVa,
    /// Push uniforms.
    pub push_uniforms: GpuVa,
    /// Renderer state, which points at the shader.
    pub state: GpuVa,
    /// Attribute buffers.
    pub attribute_buffers: GpuVa,
    /// Attributes.
    pub attributes: GpuVa,
    /// Varying buffers.
    pub varying_buffers: GpuVa,
    /// Varyings.
    pub varyings: GpuVa,
    /// Viewport.
    pub viewport: GpuVa,
    /// Thread storage.
    pub thread_storage: GpuVa,
    /// The renderer state, if its bytes can be read.
    pub renderer: Option<RendererState>,
}

/// The properties of a shader in its renderer state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RendererState {
    /// Address of the shader's code; 0 for none.
    pub shader: GpuVa,
    /// Number of samplers that the shader uses.
    pub samplers: u16,
    /// Number of textures that the shader uses.
    pub textures: u16,
    /// Number of attributes that the shader reads.
    pub attributes: u16,
    /// Number of varyings that the shader writes or reads.
    pub varyings: u16,
    /// Number of uniform buffers.
    pub uniform_buffers: u8,
    /// Whether the shader has a barrier.
    pub barrier: bool,
    /// Register preload flags, raw.
    pub preload: u32,
    /// Size of the push uniforms, 64-bit words.
    pub push_uniforms: u8,
}

impl RendererState {
    /// Decodes the first 52 bytes of a renderer state.
    #[must_use]
    pub fn read(bytes: &[u8; STATE_BYTES]) -> Self {
        let w = |n: usize| word(bytes, n * 4);
        Self {
            // The code is 16-byte aligned; the low bits are flags.
            shader: GpuVa::new((u64::from(w(0)) | u64::from(w(1)) << 32) & !15),
            samplers: w(2) as u16,
            textures: (w(2) >> 16) as u16,
            attributes: w(3) as u16,
            varyings: (w(3) >> 16) as u16,
            uniform_buffers: w(4) as u8,
            barrier: w(4) >> 11 & 1 != 0,
            preload: w(12),
            push_uniforms: (w(12) >> 15 & 0x7f) as u8,
        }
    }
}

/// The decoded payload of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// The job has no payload.
    None,
    /// A write of one value.
    WriteValue(WriteValue),
    /// Cache maintenance.
    CacheFlush(CacheFlush),
    /// A compute, vertex or tiler job.
    Compute(Compute),
    /// Indexed vertex work and tiler work in one job, with two shaders.
    IndexedVertex {
        /// The vertex shader.
        vertex: Compute,
        /// The fragment shader of the primitives.
        fragment: Compute,
    },
    /// Fragment work over tiles.
    Fragment {
        /// First tile, x and y.
        min: [u16; 2],
        /// Last tile, x and y.
        max: [u16; 2],
        /// The framebuffer descriptor; its low bits are flags.
        framebuffer: u64,
    },
    /// The payload has an unsupported kind: 32-bit jobs, geometry jobs and fused jobs.
    NotRead,
    /// The bytes of the payload are unmapped or without content.
    Unreadable,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let mut w = [0; 4];
    for (to, from) in w.iter_mut().zip(bytes.iter().skip(at)) {
        *to = *from;
    }
    u32::from_le_bytes(w)
}

fn wide(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at.saturating_add(4))) << 32
}

/// Decodes the draw descriptor at `offset` in the bytes of a job, and the renderer state that it points to.
fn draw(mem: &(impl GpuMemory + ?Sized), va: GpuVa, job: &[u8], offset: usize) -> Compute {
    let q = |n: usize| GpuVa::new(wide(job, offset.saturating_add(n * 4)));
    let mut c = Compute {
        draw: va.saturating_add(offset as u64),
        position: q(4),
        uniform_buffers: q(6),
        textures: q(8),
        samplers: q(10),
        push_uniforms: q(12),
        state: q(14),
        attribute_buffers: q(16),
        attributes: q(18),
        varying_buffers: q(20),
        varyings: q(22),
        viewport: q(24),
        thread_storage: q(28),
        renderer: None,
    };
    let mut state = [0; STATE_BYTES];
    if c.state.get() != 0 && mem.read(c.state, &mut state) {
        c.renderer = Some(RendererState::read(&state));
    }
    c
}

/// Decodes the payload of the job at `va`, whose header is already decoded, and its dispatch if it has one.
#[must_use]
pub fn decode_payload(mem: &(impl GpuMemory + ?Sized), va: GpuVa, header: &JobHeader) -> (Payload, Option<Dispatch>) {
    let Some(kind) = header.kind().filter(|_| header.is_64bit) else {
        return (Payload::NotRead, None);
    };
    let bytes = match kind {
        JobType::Null => return (Payload::None, None),
        JobType::Geometry | JobType::Fused => return (Payload::NotRead, None),
        JobType::WriteValue => HEADER_BYTES + 24,
        JobType::CacheFlush => HEADER_BYTES + 8,
        JobType::Fragment => HEADER_BYTES + 16,
        JobType::Compute | JobType::Vertex => 64 + DRAW_BYTES,
        JobType::Tiler => 128 + DRAW_BYTES,
        JobType::IndexedVertex => JOB_BYTES,
    };
    let mut buffer = [0; JOB_BYTES];
    let Some(job) = buffer.get_mut(..bytes) else {
        return (Payload::NotRead, None);
    };
    if !mem.read(va, job) {
        return (Payload::Unreadable, None);
    }
    let job = &*job;
    let dispatch = Some(Dispatch::unpack(word(job, HEADER_BYTES), word(job, HEADER_BYTES + 4)));
    match kind {
        JobType::WriteValue => {
            let payload = WriteValue {
                address: GpuVa::new(wide(job, HEADER_BYTES)),
                kind: WriteKind::from_raw(word(job, HEADER_BYTES + 8)),
                value: wide(job, HEADER_BYTES + 16),
            };
            (Payload::WriteValue(payload), None)
        }
        JobType::CacheFlush => {
            let flush = CacheFlush::unpack(word(job, HEADER_BYTES), word(job, HEADER_BYTES + 4));
            (Payload::CacheFlush(flush), None)
        }
        JobType::Fragment => {
            let tile = |w: u32| [(w & 0xfff) as u16, (w >> 16 & 0xfff) as u16];
            let payload = Payload::Fragment {
                min: tile(word(job, HEADER_BYTES)),
                max: tile(word(job, HEADER_BYTES + 4)),
                framebuffer: wide(job, HEADER_BYTES + 8),
            };
            (payload, None)
        }
        JobType::Compute | JobType::Vertex => (Payload::Compute(draw(mem, va, job, 64)), dispatch),
        JobType::Tiler => (Payload::Compute(draw(mem, va, job, 128)), dispatch),
        JobType::IndexedVertex => {
            let (fragment, vertex) = (draw(mem, va, job, 128), draw(mem, va, job, 256));
            (Payload::IndexedVertex { vertex, fragment }, dispatch)
        }
        JobType::Null | JobType::Geometry | JobType::Fused => (Payload::NotRead, None),
    }
}
