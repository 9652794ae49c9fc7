//! Descriptors of a compute job, read from memory through the page tables.
//!
//! The layout follows Mesa's tables for the architectures 6 and 7 (src/panfrost/lib/genxml/v6.xml and v7.xml, Copyright
//! 2019 Collabora, Ltd., MIT). For compute jobs they differ only in the register allocation. A job reads its
//! descriptors once, at its start.

use super::bindings::Bindings;
use super::stop::Stop;
use super::trace::Trace;
use super::view::View;
use crate::fault::Fault;
use crate::model::ModelData;
use crate::registers::exception;
use crate::texture::Arch;
use trace_core::GpuVa;
use trace_core::families::Dispatch;
use trace_core::families::mali_jm::HEADER_BYTES;

/// Size of the draw descriptor, bytes. It starts 64 bytes after the start of the job.
const DRAW_BYTES: usize = 128;
const DRAW_OFFSET: u64 = 64;
const STATE_BYTES: usize = 64;
const STORAGE_BYTES: usize = 32;
/// First preloaded register. Bit `n` of the preload set stands for register 48 + `n`.
const FIRST_PRELOADED: u8 = 48;

/// Value that is preloaded into a register before the shader starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PreloadValue {
    /// The low half of the shader's address.
    Pc,
    /// Position in the workgroup along x, and along y from bit 16.
    LocalXy,
    /// Position in the workgroup along z.
    LocalZ,
    /// Number of the workgroup along an axis.
    Group(usize),
    /// Position in the whole dispatch along an axis.
    Global(usize),
}

impl PreloadValue {
    /// Preloaded values by bit of the preload set.
    const BITS: [(u8, Self); 9] = [
        (6, Self::Pc),
        (7, Self::LocalXy),
        (8, Self::LocalZ),
        (9, Self::Group(0)),
        (10, Self::Group(1)),
        (11, Self::Group(2)),
        (12, Self::Global(0)),
        (13, Self::Global(1)),
        (14, Self::Global(2)),
    ];
}

/// Table of descriptors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    /// GPU address of the first descriptor.
    pub va: GpuVa,
    /// Number of descriptors that the shader uses.
    pub count: u32,
}

/// Uniform buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UniformBuffer {
    /// GPU address, a multiple of 16.
    pub va: GpuVa,
    /// Size in bytes, 0 to 65,536 in steps of 16. A load beyond it returns zeros.
    pub bytes: u32,
}

/// Storage that the driver allocates for threads and workgroups.
///
/// Real GPUs run many threads and workgroups at the same time and give each its own instance. Here workgroups run in
/// one order: a thread uses the instance with its number in the workgroup, and every workgroup uses the first instance.
/// Afterwards memory holds what the last workgroup left there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Storage {
    /// GPU address of the first thread's storage.
    pub thread_base: GpuVa,
    /// Size of the storage of a thread in bytes, a power of two, at least 16.
    pub thread_bytes: u64,
    /// GPU address of the workgroup's storage.
    pub group_base: GpuVa,
    /// Size of the storage of a workgroup in bytes; 0 if there is none, or if its encoding is unknown.
    pub group_bytes: u64,
}

impl Storage {
    fn read(words: &[u32; STORAGE_BYTES / 4]) -> Self {
        let [sizes, group, tls_low, tls_high, wls_low, wls_high, _, _] = *words;
        // The workgroup storage descriptor has three fields: a number of instances, whose maximum means no storage; a
        // base, which Mesa leaves at 0; and a scale, the binary logarithm of the size plus one.
        let (instances, base, scale) = (group & 31, group >> 5 & 3, group >> 8 & 31);
        let group_bytes = match (instances, base, scale) {
            (31, _, _) | (_, _, 0) | (_, 1.., _) => 0,
            (_, 0, scale) => 1 << (scale - 1),
        };
        Self {
            thread_base: GpuVa::new(long(tls_low, tls_high)),
            thread_bytes: 16 << (sizes & 31),
            group_base: GpuVa::new(long(wls_low, wls_high)),
            group_bytes,
        }
    }

    /// Returns the GPU address of a thread's storage, by the thread's number in its workgroup.
    pub(crate) fn thread_va(&self, thread: u32) -> GpuVa {
        self.thread_base
            .wrapping_add(self.thread_bytes.wrapping_mul(u64::from(thread)))
    }
}

/// Compute job with all bindings of its shader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ComputeJob {
    /// Number of workgroups, and size of a workgroup.
    pub dispatch: Dispatch,
    /// GPU address of the shader's first clause.
    pub shader: GpuVa,
    /// Number of registers of a thread, 32 or 64.
    pub registers: u8,
    /// Registers that are preloaded before the shader starts, with their values.
    pub preload: Vec<(u8, PreloadValue)>,
    /// Push uniforms, which the shader reads from fast-access memory.
    pub push_uniforms: Vec<u64>,
    /// Uniform buffers by number.
    pub uniform_buffers: Vec<UniformBuffer>,
    /// Textures.
    pub textures: Table,
    /// Samplers.
    pub samplers: Table,
    /// Attributes. In a compute shader they are images.
    pub attributes: Table,
    /// GPU address of the attribute buffers, which attributes refer to by number.
    pub attribute_buffers: GpuVa,
    /// Parsed contents of these tables.
    pub bindings: Bindings,
    /// Whether the shader contains a workgroup barrier.
    pub barrier: bool,
    /// Storage of threads and workgroups.
    pub storage: Storage,
}

fn long(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// Reads a descriptor as little-endian words.
fn words<const N: usize, T: Trace>(view: &mut View<'_, T>, va: GpuVa) -> Result<[u32; N], Stop> {
    let mut out = [0; N];
    let mut bytes = vec![0; 4 * N];
    view.read(va, &mut bytes)?;
    for (to, from) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *to = u32::from_le_bytes(*from);
    }
    Ok(out)
}

/// Reads a table of 64-bit entries, with an 8-bit count.
fn longs<T: Trace>(view: &mut View<'_, T>, va: GpuVa, count: u8) -> Result<Vec<u64>, Stop> {
    let mut bytes = vec![0; 8 * usize::from(count)];
    view.read(va, &mut bytes)?;
    Ok(bytes
        .as_chunks::<8>()
        .0
        .iter()
        .map(|b| u64::from_le_bytes(*b))
        .collect())
}

impl ComputeJob {
    /// Reads the job whose header is at `va`.
    ///
    /// # Errors
    /// Returns the fault of a descriptor that cannot be read; `INSTR_INVALID_PC` if there is no shader;
    /// `JOB_CONFIG_FAULT` if a workgroup has more threads than the GPU supports.
    pub(crate) fn read<T: Trace>(view: &mut View<'_, T>, va: GpuVa, model: &ModelData) -> Result<Self, Stop> {
        let [sizes, shifts] = words::<2, _>(view, va.wrapping_add(HEADER_BYTES as u64))?;
        let dispatch = Dispatch::unpack(sizes, shifts);
        let draw = words::<{ DRAW_BYTES / 4 }, _>(view, va.wrapping_add(DRAW_OFFSET))?;
        let pointer = |n: usize| {
            let word = |n: usize| draw.get(n).copied().unwrap_or(0);
            GpuVa::new(long(word(n), word(n + 1)))
        };
        let state = words::<{ STATE_BYTES / 4 }, _>(view, pointer(14))?;
        let [code_low, code_high, resources, attributes, properties, ..] = state;
        let preload = state.get(12).copied().unwrap_or(0);
        let shader = GpuVa::new(long(code_low, code_high)).align_down(16);
        if shader == GpuVa::ZERO {
            return Err(Fault::Job(exception::INVALID_PC).into());
        }
        let threads = dispatch.size.iter().fold(1u64, |n, s| n.saturating_mul(u64::from(*s)));
        if threads > u64::from(model.threads_of_group()) {
            return Err(Fault::Job(exception::CONFIG).into());
        }
        let push_count = (preload >> 15 & 127) as u8;
        let push_uniforms = if push_count > 0 {
            longs(view, pointer(12), push_count)?
        } else {
            Vec::new()
        };
        let buffer_count = (properties & 255) as u8;
        let uniform_buffers = if buffer_count > 0 {
            longs(view, pointer(6), buffer_count)?
        } else {
            Vec::new()
        };
        let storage = match pointer(28) {
            GpuVa::ZERO => Storage::default(),
            va => Storage::read(&words::<{ STORAGE_BYTES / 4 }, _>(view, va)?),
        };
        let textures = Table {
            va: pointer(8),
            count: resources >> 16,
        };
        let samplers = Table {
            va: pointer(10),
            count: resources & 0xffff,
        };
        let attributes = Table {
            va: pointer(18),
            count: attributes & 0xffff,
        };
        let arch = if model.architecture >= 7 { Arch::V7 } else { Arch::V6 };
        let bindings = Bindings::read(view, arch, textures, samplers, (attributes, pointer(16)));
        Ok(Self {
            dispatch,
            shader,
            registers: if model.architecture >= 7 && properties >> 12 & 3 == 2 {
                32
            } else {
                64
            },
            preload: PreloadValue::BITS
                .into_iter()
                .filter(|(bit, _)| preload >> bit & 1 == 1)
                .map(|(bit, what)| (FIRST_PRELOADED + bit, what))
                .collect(),
            push_uniforms,
            uniform_buffers: uniform_buffers.into_iter().map(UniformBuffer::unpack).collect(),
            textures,
            samplers,
            attributes,
            attribute_buffers: pointer(16),
            bindings,
            barrier: properties >> 11 & 1 == 1,
            storage,
        })
    }

    /// Returns the number of threads of a workgroup.
    pub(crate) fn threads(&self) -> u32 {
        self.dispatch.size.iter().product()
    }
}

impl UniformBuffer {
    fn unpack(raw: u64) -> Self {
        if raw == 0 {
            return Self::default();
        }
        Self {
            va: GpuVa::new((raw >> 12) << 4),
            bytes: ((raw & 0xfff) as u32 + 1) * 16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Model;
    use crate::address_space::Translation;
    use crate::compute::view::ChunkMode;
    use crate::memory::ArenaMemory;
    use proptest::prelude::*;
    use replay_engine::device::Arena;
    use std::path::{Path, PathBuf};
    use trace_core::PhysAddr;

    fn memory(pages: u64) -> ArenaMemory {
        ArenaMemory::new(Arena {
            base: PhysAddr::ZERO,
            pages,
        })
    }

    fn read(m: &ArenaMemory, va: u64, model: Model) -> Result<ComputeJob, Stop> {
        let mut v: View<'_> = View::new(m, Translation::Identity, ChunkMode::InOrder);
        ComputeJob::read(&mut v, GpuVa::new(va), model.data())
    }

    fn put(m: &mut ArenaMemory, va: u64, words: &[u32]) {
        for (n, w) in (0..).zip(words) {
            m.write(PhysAddr::new(va + n * 4), &w.to_le_bytes()).unwrap();
        }
    }

    /// Returns memory with a job at 0x1000 and its state at 0x2000.
    fn sound() -> ArenaMemory {
        let mut m = memory(16);
        let d = Dispatch {
            workgroups: [7, 2, 1],
            size: [8, 4, 2],
        };
        let (sizes, shifts) = d.pack(6).unwrap();
        put(&mut m, 0x1020, &[sizes, shifts]);
        for (word, value) in [
            (6, 0x3000),
            (8, 0x3800),
            (10, 0x3900),
            (12, 0x3100),
            (14, 0x2000),
            (16, 0x3a00),
            (18, 0x3b00),
            (28, 0x3200),
        ] {
            put(&mut m, 0x1040 + word * 4, &[value]);
        }
        put(
            &mut m,
            0x2000,
            &[0x5007, 1, 2 | 3 << 16, 4 | 5 << 16, 2 | 1 << 11 | 2 << 12],
        );
        put(&mut m, 0x2030, &[1 << 7 | 1 << 12 | 1 << 14 | 2 << 15]);
        put(&mut m, 0x3000, &[0x0004_0001, 0, 0, 0]);
        put(&mut m, 0x3100, &[1, 2, 3, 4]);
        put(&mut m, 0x3200, &[2, 3 | 9 << 8, 0x4000, 1, 0x6000, 2]);
        m
    }

    #[test]
    fn every_part_of_a_job_is_read() {
        let job = read(&sound(), 0x1000, Model::G71).unwrap();
        let table = |va, count| Table { va, count };
        assert_eq!(
            job,
            ComputeJob {
                dispatch: Dispatch {
                    workgroups: [7, 2, 1],
                    size: [8, 4, 2]
                },
                shader: GpuVa::new(0x1_0000_5000),
                registers: 64,
                preload: vec![
                    (55, PreloadValue::LocalXy),
                    (60, PreloadValue::Global(0)),
                    (62, PreloadValue::Global(2))
                ],
                push_uniforms: vec![0x2_0000_0001, 0x4_0000_0003],
                uniform_buffers: vec![
                    UniformBuffer {
                        va: GpuVa::new(0x400),
                        bytes: 32
                    },
                    UniformBuffer::default()
                ],
                textures: table(GpuVa::new(0x3800), 3),
                samplers: table(GpuVa::new(0x3900), 2),
                attributes: table(GpuVa::new(0x3b00), 4),
                attribute_buffers: GpuVa::new(0x3a00),
                bindings: job.bindings.clone(),
                barrier: true,
                storage: Storage {
                    thread_base: GpuVa::new(0x1_0000_4000),
                    thread_bytes: 64,
                    group_base: GpuVa::new(0x2_0000_6000),
                    group_bytes: 256
                },
            }
        );
        assert_eq!(
            (job.threads(), job.storage.thread_va(3)),
            (64, GpuVa::new(0x1_0000_40c0))
        );
        // The newer architecture has shaders that use half of the registers.
        assert_eq!(read(&sound(), 0x1000, Model::G52).unwrap().registers, 32);
    }

    #[test]
    fn unreadable_or_invalid_jobs_raise_their_exception() {
        let code = |r: Result<ComputeJob, Stop>| match r {
            Err(Stop::Fault(f)) => f.code(),
            other => panic!("{other:?}"),
        };
        // A pointer to each part is set to an address beyond memory.
        for word in [6, 12, 14, 28] {
            let mut m = sound();
            put(&mut m, 0x1040 + word * 4, &[0x10_0000]);
            assert_eq!(code(read(&m, 0x1000, Model::G71)), exception::BUS, "word {word}");
        }
        let mut m = sound();
        put(&mut m, 0x2000, &[15, 0]);
        assert_eq!(code(read(&m, 0x1000, Model::G71)), exception::INVALID_PC);
        for (sizes, shifts) in [
            // A workgroup of 2^32 threads, and one with one thread more than the GPU supports.
            (u32::MAX, 0x0820_8000 | 10 | 21 << 5),
            Dispatch {
                workgroups: [1; 3],
                size: [385, 1, 1],
            }
            .pack(6)
            .unwrap(),
        ] {
            put(&mut m, 0x2000, &[0x5000, 0]);
            put(&mut m, 0x1020, &[sizes, shifts]);
            assert_eq!(
                code(read(&m, 0x1000, Model::G71)),
                exception::CONFIG,
                "{sizes:#x} {shifts:#x}"
            );
        }
    }

    proptest! {
        #[test]
        fn arbitrary_job_descriptors_are_read_or_refused(seed in proptest::collection::vec(any::<u32>(), 256), small in any::<bool>(), va in 0u64..0x4000) {
            let mut m = memory(4);
            for at in 0..16 {
                let word = |w: &u32| if small { w & 0x3fff } else { *w };
                put(&mut m, at * 1024, &seed.iter().map(word).collect::<Vec<_>>());
            }
            if let Ok(job) = read(&m, va & !63, Model::G52) {
                prop_assert!((1..=384).contains(&job.threads()));
                prop_assert!(job.push_uniforms.len() < 128 && job.uniform_buffers.len() < 256);
            }
        }
    }

    #[allow(clippy::print_stdout, reason = "says what it skips")]
    fn recordings() -> Option<PathBuf> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/recordings");
        let folder = std::env::var_os("KINESCOPE_RECORDINGS")
            .map_or(root, PathBuf::from)
            .join("panfrost");
        if !folder.is_dir() {
            println!("skipped: no recordings at {}", folder.display());
            return None;
        }
        Some(folder)
    }

    /// Compares jobs of Mesa's own driver with an independent reading of the same memory.
    #[test]
    fn job_descriptors_of_mesa_match_an_independent_reader() {
        let Some(folder) = recordings() else { return };
        let mut seen = 0;
        for gpu in ["g71", "g52", "zoo/g71", "zoo/g52"] {
            let Ok(entries) = std::fs::read_dir(folder.join(gpu)) else {
                continue;
            };
            for program in entries.map(|e| e.unwrap().path()) {
                let json = |name: &str| -> serde_json::Value {
                    serde_json::from_slice(&std::fs::read(program.join(name)).unwrap()).unwrap()
                };
                let number = |v: &serde_json::Value| {
                    u64::from_str_radix(v.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
                };
                for submit in json("spec.json")["submits"].as_array().unwrap() {
                    let mut m = memory(1 << 20);
                    for bo in json(submit["submit"].as_str().unwrap())["bos"].as_array().unwrap() {
                        let Some(file) = bo["file"].as_str() else { continue };
                        let bytes = std::fs::read(program.join(file)).unwrap();
                        for (n, page) in (0..).zip(bytes.chunks(4096)) {
                            m.write(PhysAddr::new(number(&bo["va"]) + n * 4096), page).unwrap();
                        }
                    }
                    for parsed_json in submit["jobs"]
                        .as_array()
                        .unwrap()
                        .iter()
                        .filter(|j| j["type"] == "compute")
                    {
                        let model = if gpu.ends_with("g52") { Model::G52 } else { Model::G71 };
                        let job = read(&m, number(&parsed_json["va"]), model)
                            .unwrap_or_else(|e| panic!("{}: {e:?}", program.display()));
                        let (rsd, count) = (&parsed_json["rsd"], |v: &serde_json::Value| {
                            v.as_u64().unwrap() as usize
                        });
                        let sizes = |v: &serde_json::Value| {
                            v.as_array()
                                .unwrap()
                                .iter()
                                .map(|n| n.as_u64().unwrap() as u32)
                                .collect::<Vec<_>>()
                        };
                        assert_eq!(job.dispatch.size.to_vec(), sizes(&parsed_json["workgroup_size"]));
                        assert_eq!(job.dispatch.workgroups.to_vec(), sizes(&parsed_json["num_workgroups"]));
                        assert_eq!(job.shader, GpuVa::new(number(&rsd["shader"])));
                        assert_eq!(job.uniform_buffers.len(), count(&rsd["ubo_count"]));
                        assert_eq!(job.push_uniforms.len(), count(&rsd["push_uniform_count_64bit"]));
                        assert_eq!(job.textures.count as usize, count(&rsd["texture_count"]));
                        assert_eq!(job.samplers.count as usize, count(&rsd["sampler_count"]));
                        assert_eq!(job.attributes.count as usize, count(&rsd["attribute_count"]));
                        assert_eq!(job.barrier, rsd["barrier"].as_bool().unwrap());
                        let set = job.preload.iter().fold(0, |s, (r, _)| s | 1u64 << (r - 48));
                        assert_eq!(set, number(&rsd["preload"]) & 0x7fff);
                        assert_eq!(
                            job.attribute_buffers,
                            GpuVa::new(number(&parsed_json["attribute_buffers"]))
                        );
                        seen += 1;
                    }
                }
            }
        }
        assert!(seen >= 25, "{seen} jobs");
    }
}
