//! Fuzz targets for what shaders read through descriptors: textures, samplers, attributes, conversions.

use crate::input::Input;
use device_mali::texture::{
    Arch, Attribute, Conversion, Derivatives, MAX_STAGING, Operation, Sampler, Single, TexMemory, Texture,
};
use trace_core::GpuVa;

/// GPU memory that starts at address 0, is as long as the input and counts its reads.
struct FlatMemory<'a> {
    bytes: &'a [u8],
    reads: usize,
}

impl TexMemory for FlatMemory<'_> {
    type Error = ();

    fn read(&mut self, va: GpuVa, out: &mut [u8]) -> Result<(), ()> {
        self.reads += 1;
        assert!(out.len() <= 32, "a read exceeds 32 bytes");
        let from = usize::try_from(va.get())
            .ok()
            .and_then(|at| self.bytes.get(at..))
            .ok_or(())?;
        out.copy_from_slice(from.get(..out.len()).ok_or(())?);
        Ok(())
    }
}

/// Maximum number of reads of one access: two levels of eight texels, and a surface each.
const MAX_READS: usize = 20;

/// Fuzzes one access. The input is an architecture, the word of an operation, its operands, staging registers and
/// memory. The memory holds a texture at 0, a sampler at 32, attributes at 64, and their buffers at 128.
pub fn textures(data: &[u8]) -> bool {
    let mut input = Input(data);
    let arch = if input.u8() & 1 == 0 { Arch::V6 } else { Arch::V7 };
    let (word, x, y) = (input.u32(), input.u32(), input.u32());
    let staging: [u32; MAX_STAGING] = std::array::from_fn(|_| input.u32());
    let mut memory = FlatMemory {
        bytes: input.0,
        reads: 0,
    };
    let sampled = operation(arch, word, (x, y), &staging, &mut memory);
    let loaded = attribute(arch, (x, y), &staging, &mut memory);
    sampled || loaded
}

fn operation(arch: Arch, word: u32, xy: (u32, u32), staging: &[u32; MAX_STAGING], memory: &mut FlatMemory<'_>) -> bool {
    let Ok(operation) = Operation::decode(word) else {
        return false;
    };
    let (Ok(texture), Ok(sampler)) = (
        Texture::load(arch, memory, GpuVa::ZERO),
        Sampler::load(memory, GpuVa::new(32)),
    ) else {
        return false;
    };
    let derivatives = Derivatives {
        dx: [staging[6], staging[7], staging[8]].map(f32::from_bits),
        dy: [staging[3], staging[4], staging[5]].map(f32::from_bits),
    };
    let mut ran = false;
    let mut run = |s: Single| {
        assert!(s.staging() <= MAX_STAGING);
        let _ = s.indices(staging);
        memory.reads = 0;
        let first = s.run(memory, &texture, &sampler, xy, staging, derivatives);
        assert!(memory.reads <= MAX_READS, "{} reads", memory.reads);
        let second = s.run(memory, &texture, &sampler, xy, staging, derivatives);
        assert_eq!(first, second, "the same access gives another result");
        let cube = (xy.0, xy.1, staging[0]);
        let _ = s.run_cube(memory, &texture, &sampler, cube, derivatives);
        ran |= first.is_ok();
    };
    match operation {
        Operation::Single(s) => run(s),
        Operation::Dual(d) => {
            run(d.primary);
            run(d.secondary);
        }
    }
    ran
}

fn attribute(arch: Arch, (xy, z): (u32, u32), staging: &[u32; MAX_STAGING], memory: &mut FlatMemory<'_>) -> bool {
    let [index, conversion, ..] = *staging;
    let mut loaded = false;
    if let Ok(a) = Attribute::load(arch, memory, GpuVa::new(64), GpuVa::new(128), index % 8) {
        for at in [a.element(xy), a.texel(xy, z)].into_iter().flatten() {
            if let Some(at) = at {
                let end = a.pointer + u64::from(a.size);
                assert!(at >= a.pointer && at + u64::from(a.format.block().bytes) <= end);
            }
            loaded |= a.load_from(memory, at, None).is_ok();
            let [low, high, word] = a.reference(at, None);
            assert_eq!(
                at.unwrap_or(GpuVa::ZERO),
                GpuVa::new(u64::from(low) | u64::from(high) << 32)
            );
            let parsed = Conversion::parse(arch, word);
            assert_eq!(parsed.map(|c| c.is_some()), Ok(at.is_some()));
        }
    }
    if let Ok(Some(c)) = Conversion::parse(arch, conversion) {
        let registers = [staging[2], staging[3], staging[4], staging[5]];
        if let Ok(stored) = c.store(registers, staging[6] % 5) {
            assert_eq!(stored.bytes().len(), c.memory.block().bytes as usize);
            loaded = true;
        }
        let _ = c.load(memory, GpuVa::new(u64::from(xy)));
    }
    loaded
}
