//! Job chains for another model: slots, storage, tile buffers, textures, and the instructions of shaders.
//!
//! Frame shaders of fragment jobs are not checked: no descriptor of them is decoded.

use super::{ModelChange, TEXTURE_FEATURES, TILER_FEATURES};
use crate::plan::ModelError;
use std::collections::HashSet;
use std::ops::Range;
use trace_core::families::mali_jm::{Compute, Job, JobType, Payload, RendererState, find_shaders};
use trace_core::memory::GpuMemory;
use trace_core::shader_code::{CodeEnd, MAX_CODE, decode_code_within};
use trace_core::{GpuVa, PAGE_SIZE};

/// Maximum number of shader bytes that are checked for a plan.
pub(super) const MAX_CHECKED_CODE: u64 = 256 << 20;
/// Size of a storage descriptor, bytes.
const STORAGE_BYTES: usize = 24;
/// Bits of a framebuffer address that are flags.
const FRAMEBUFFER_FLAGS: u64 = 63;
/// Maximum number of pages of storage that are looked for: 1 GiB.
const MAX_STORAGE_PAGES: u64 = 1 << 18;

/// The code that was checked so far.
#[derive(Default)]
pub(super) struct CheckedCode {
    /// Address space and first clause of each shader, since memory last changed.
    shaders: HashSet<(usize, GpuVa)>,
    /// Storage that was looked for: address space, start, size.
    storage: HashSet<(usize, GpuVa, u64)>,
    /// Number of bytes so far.
    pub bytes: u64,
}

/// A chain that is submitted.
pub(in crate::families::mali_jm) struct SubmittedChain<'c, M> {
    /// The event of the submit.
    pub event: u64,
    /// Slot and address space.
    pub slot: u8,
    pub space: u8,
    /// Its jobs.
    pub jobs: &'c [Job],
    /// Its memory, and the index of that translation.
    pub memory: &'c M,
    pub translation: usize,
    /// Allocated ranges of the translation.
    pub ranges: &'c [Range<GpuVa>],
}

impl ModelChange {
    /// Notes that the CPU changed memory: shaders are checked again.
    pub fn memory_changed(&mut self) {
        self.checked.shaders.clear();
        self.checked.storage.clear();
    }

    /// Checks that the target can run a chain.
    ///
    /// # Errors
    /// The first part of a job that does not fit the target, or that cannot be read.
    pub fn check_chain<M: GpuMemory>(&mut self, chain: &SubmittedChain<'_, M>) -> Result<(), ModelError> {
        let (event, slot, number) = (chain.event, chain.slot, chain.space);
        if self.target.js_present.checked_shr(u32::from(slot)).unwrap_or(0) & 1 == 0 {
            return Err(ModelError::Slot { event, slot });
        }
        if self.target.as_present.checked_shr(u32::from(number)).unwrap_or(0) & 1 == 0 {
            return Err(ModelError::Space { event, number });
        }
        chain.jobs.iter().try_for_each(|job| self.check_job(chain, job))
    }

    fn check_job<M: GpuMemory>(&mut self, chain: &SubmittedChain<'_, M>, job: &Job) -> Result<(), ModelError> {
        let unchecked = |why: String| ModelError::Unchecked { job: job.va, why };
        let kind = match &job.header {
            Ok(header) => header
                .kind()
                .ok_or_else(|| unchecked("its type is unknown".to_owned()))?,
            Err(e) => return Err(unchecked(e.to_string())),
        };
        let types = self
            .target
            .js_features
            .get(usize::from(chain.slot))
            .copied()
            .unwrap_or(0);
        if types >> (kind as u8) & 1 == 0 {
            let slot = chain.slot;
            return Err(ModelError::JobKind {
                job: job.va,
                kind: kind.name(),
                slot,
            });
        }
        match &job.payload {
            Payload::None | Payload::WriteValue(_) | Payload::CacheFlush(_) => {}
            Payload::Compute(part) => self.check_part(chain, job.va, part)?,
            Payload::IndexedVertex { vertex, fragment } => {
                self.check_part(chain, job.va, vertex)?;
                self.check_part(chain, job.va, fragment)?;
            }
            Payload::Fragment { framebuffer, .. } => {
                self.check_tile_buffer(job.va)?;
                let storage = GpuVa::new(framebuffer & !FRAMEBUFFER_FLAGS);
                self.check_storage(chain, job.va, storage)?;
            }
            Payload::NotRead => return Err(unchecked("the form of its descriptor is not decoded".to_owned())),
            Payload::Unreadable => return Err(unchecked("its descriptor has no content".to_owned())),
        }
        if matches!(kind, JobType::Tiler | JobType::IndexedVertex) {
            let (recorded, target) = (
                self.recorded.register(TILER_FEATURES) >> 8 & 0xf,
                self.target.tiler_levels(),
            );
            if recorded > target {
                return Err(ModelError::TilerLevels {
                    job: job.va,
                    recorded,
                    target,
                });
            }
        }
        for (_, shader) in find_shaders(job) {
            self.check_shader(chain, shader)?;
        }
        Ok(())
    }

    /// Checks the bindings of a shader and its storage.
    fn check_part<M: GpuMemory>(
        &mut self,
        chain: &SubmittedChain<'_, M>,
        job: GpuVa,
        part: &Compute,
    ) -> Result<(), ModelError> {
        match &part.renderer {
            Some(state) => self.check_textures(job, state)?,
            None if part.state == GpuVa::ZERO => {}
            None => {
                let why = format!("its renderer state at {} has no content", part.state);
                return Err(ModelError::Unchecked { job, why });
            }
        }
        self.check_storage(chain, job, part.thread_storage)
    }

    fn check_textures(&self, job: GpuVa, state: &RendererState) -> Result<(), ModelError> {
        if state.textures == 0 {
            return Ok(());
        }
        for (word, here) in self.target.texture_formats().into_iter().enumerate() {
            let missing = self.recorded.register(TEXTURE_FEATURES + 4 * word as u32) & !here;
            if missing != 0 {
                return Err(ModelError::TextureFormats { job, missing, word });
            }
        }
        Ok(())
    }

    fn check_tile_buffer(&self, job: GpuVa) -> Result<(), ModelError> {
        let (from, to) = (self.recorded.model.tile_buffer, self.target.tile_buffer);
        for (buffer, recorded, target) in [
            ("color", from.color_bytes, to.color_bytes),
            ("depth", from.depth_bytes, to.depth_bytes),
        ] {
            if recorded > target {
                return Err(ModelError::TileBuffer {
                    job,
                    buffer,
                    recorded,
                    target,
                });
            }
        }
        Ok(())
    }

    /// Checks that the storage that a descriptor names is large enough for the cores of the target.
    fn check_storage<M: GpuMemory>(
        &mut self,
        chain: &SubmittedChain<'_, M>,
        job: GpuVa,
        descriptor: GpuVa,
    ) -> Result<(), ModelError> {
        let (cores, threads) = (self.target.core_numbers(), self.target.storage_threads());
        let fits = cores <= self.recorded.core_numbers() && threads <= self.recorded.storage_threads();
        if fits || descriptor == GpuVa::ZERO {
            return Ok(());
        }
        let mut bytes = [0; STORAGE_BYTES];
        if !chain.memory.read(descriptor, &mut bytes) {
            let why = format!("its storage descriptor at {descriptor} has no content");
            return Err(ModelError::Unchecked { job, why });
        }
        let storage = StorageDescriptor::read(&bytes);
        let parts = [
            ("thread", storage.threads, u64::from(threads)),
            ("workgroup", storage.workgroups, storage.instances),
        ];
        for (name, (va, each), instances) in parts {
            if va == GpuVa::ZERO || each == 0 {
                continue;
            }
            let needed = each.saturating_mul(instances).saturating_mul(u64::from(cores));
            if self.checked.storage.contains(&(chain.translation, va, needed)) {
                continue;
            }
            let found = measure_storage(chain, va, needed);
            if found < needed {
                return Err(ModelError::Storage {
                    job,
                    storage: name,
                    va,
                    found,
                    needed,
                    each,
                    instances,
                    cores: u64::from(cores),
                });
            }
            self.checked.storage.insert((chain.translation, va, needed));
        }
        Ok(())
    }

    /// Checks that the target has every instruction that a shader can reach.
    pub(super) fn check_shader<M: GpuMemory>(
        &mut self,
        chain: &SubmittedChain<'_, M>,
        shader: GpuVa,
    ) -> Result<(), ModelError> {
        if !self.checked.shaders.insert((chain.translation, shader)) {
            return Ok(());
        }
        let room = MAX_CHECKED_CODE.saturating_sub(self.checked.bytes);
        let code = decode_code_within(chain.memory, shader, room.min(MAX_CODE));
        self.checked.bytes = self.checked.bytes.saturating_add(code.bytes());
        if code.end == CodeEnd::Limit && room < MAX_CODE {
            return Err(ModelError::TooMuchCode {
                limit: MAX_CHECKED_CODE,
            });
        }
        if !code.end.is_complete() {
            return Err(ModelError::Code { shader, end: code.end });
        }
        // A branch to an address in a register may lead to any clause.
        let is_indirect = code.clauses.iter().any(|c| c.reachable && c.indirect);
        for clause in code.clauses.iter().filter(|c| c.reachable || is_indirect) {
            let at = GpuVa::new(clause.clause.address);
            for tuple in &clause.clause.tuples {
                let slots = [("FMA", tuple.fma_bits, &tuple.fma), ("ADD", tuple.add_bits, &tuple.add)];
                for (unit, bits, instruction) in slots {
                    let Some(op) = instruction.as_ref().map(|i| i.op()) else {
                        return Err(ModelError::UnknownInstruction {
                            shader,
                            clause: at,
                            unit,
                            bits,
                        });
                    };
                    if let Some(why) = self.target.missing_operation(op) {
                        return Err(ModelError::Instruction {
                            shader,
                            clause: at,
                            instruction: op.name(),
                            why,
                        });
                    }
                }
            }
        }
        Ok(())
    }
}

/// The storage of threads and workgroups that a job uses. Sizes are 0 where there is none.
struct StorageDescriptor {
    /// Start, and size for each thread.
    threads: (GpuVa, u64),
    /// Start, and size for each instance of a workgroup.
    workgroups: (GpuVa, u64),
    /// Instances of workgroups of a core.
    instances: u64,
}

impl StorageDescriptor {
    /// Decodes a descriptor; the layout is that of Mesa's tables for the architectures 6 and 7 (`v6.xml`, `v7.xml`).
    fn read(bytes: &[u8; STORAGE_BYTES]) -> Self {
        let mut words = [0u32; STORAGE_BYTES / 4];
        for (to, from) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *to = u32::from_le_bytes(*from);
        }
        let [sizes, group, tls_low, tls_high, wls_low, wls_high] = words;
        let address = |low: u32, high: u32| GpuVa::new(u64::from(low) | u64::from(high) << 32);
        // The number of instances is a power of two, whose largest value means that there is no storage. The size is a
        // power of two, stored as its logarithm plus one.
        let (instances, scale) = (group & 31, group >> 8 & 31);
        let each = match scale.checked_sub(1) {
            Some(log2) if instances != 31 => 1 << log2,
            _ => 0,
        };
        Self {
            threads: (address(tls_low, tls_high), 16 << (sizes & 31)),
            workgroups: (address(wls_low, wls_high), each),
            instances: 1 << instances,
        }
    }
}

/// Returns the number of bytes of storage from an address on, as far as `needed` bytes: to the end of the allocated
/// range that holds it, or of the mapped pages if no range is known.
fn measure_storage<M: GpuMemory>(chain: &SubmittedChain<'_, M>, va: GpuVa, needed: u64) -> u64 {
    let ends = chain.ranges.iter().filter(|r| r.contains(&va)).map(|r| r.end);
    let limit = ends
        .max()
        .map_or(needed, |end| end.saturating_sub(va.get()).get().min(needed));
    let mut found = 0;
    for _ in 0..MAX_STORAGE_PAGES {
        let at = va.saturating_add(found);
        if found >= limit || !chain.memory.read(at, &mut [0]) {
            break;
        }
        found += (PAGE_SIZE - at.in_page()) as u64;
    }
    found.min(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_descriptors_have_sizes_and_instances() {
        let mut bytes = [0; STORAGE_BYTES];
        let words = [2u32, 3 | 9 << 8, 0x4000, 1, 0x6000, 2];
        for (to, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        let storage = StorageDescriptor::read(&bytes);
        assert_eq!(storage.threads, (GpuVa::new(0x1_0000_4000), 64));
        assert_eq!(
            (storage.workgroups, storage.instances),
            ((GpuVa::new(0x2_0000_6000), 256), 8)
        );
        bytes[4] = 31;
        assert_eq!(StorageDescriptor::read(&bytes).workgroups.1, 0);
    }
}
