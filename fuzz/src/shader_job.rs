//! Fuzz target for whole compute jobs: descriptors, page tables and code of the fuzzer's choice.

use crate::input::Input;
use crate::machine;
use device_mali::{Budget, Model, SoftwareMali};
use rayon::ThreadPool;
use replay_core::Device;
use replay_engine::device::{Arena, RegisterTarget, space};
use std::sync::LazyLock;
use trace_core::PhysAddr;
use trace_core::mmu::{self, Rights};
use trace_core::recording::{MmuFormat, Page, ZERO_PAGE};

/// First physical address.
const BASE: u64 = 0x40_0000;
/// Number of frames: four tables, descriptors, data, code. Each is mapped at its offset from [`BASE`].
const FRAMES: u64 = 24;
/// GPU address of the job.
pub const JOB: u64 = 4 * 4096;
const STATE: u64 = JOB + 0x200;
const PUSH: u64 = JOB + 0x300;
const UNIFORM_BUFFERS: u64 = JOB + 0x800;
const STORAGE: u64 = JOB + 0x900;
const TEXTURES: u64 = JOB + 0xa00;
const SAMPLERS: u64 = JOB + 0xb00;
const ATTRIBUTES: u64 = JOB + 0xc00;
const ATTRIBUTE_BUFFERS: u64 = JOB + 0xd00;
/// GPU address of the first data page.
pub const DATA: u64 = 8 * 4096;
const CODE: u64 = 20 * 4096;
const CODE_BYTES: usize = 4 * 4096;
/// Maximum number of table entries that an input changes.
const EDITS: u8 = 24;

static POOLS: LazyLock<[Option<ThreadPool>; 2]> =
    LazyLock::new(|| [1, 3].map(|n| rayon::ThreadPoolBuilder::new().num_threads(n).build().ok()));

/// Parts of a job, except for its code.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// Bit 0: the newer architecture; bit 1: the older page tables.
    pub mode: u8,
    /// The packed invocation.
    pub invocation: [u32; 2],
    /// Words 2 to 4 and 12 of the renderer state.
    pub state: [u32; 4],
    /// The storage descriptor.
    pub storage: [u32; 8],
    /// Push uniforms, at most 32.
    pub push: Vec<u64>,
    /// A word of the draw descriptor to change, and its new value; 255 for none.
    pub pointer: (u8, u32),
    /// Changed entries of page tables: index among all entries, entry.
    pub edits: Vec<(u16, u64)>,
}

impl Parts {
    /// Encodes the parts and the code as an input.
    #[must_use]
    pub fn encode(&self, code: &[u8]) -> Vec<u8> {
        let mut out = vec![self.mode];
        for word in self.invocation.iter().chain(&self.state).chain(&self.storage) {
            out.extend(word.to_le_bytes());
        }
        out.push(self.push.len() as u8);
        out.extend(self.push.iter().flat_map(|p| p.to_le_bytes()));
        out.push(self.pointer.0);
        out.extend(self.pointer.1.to_le_bytes());
        out.push(self.edits.len() as u8);
        for (index, entry) in &self.edits {
            out.extend(index.to_le_bytes());
            out.extend(entry.to_le_bytes());
        }
        out.extend(code);
        out
    }

    fn take(input: &mut Input<'_>) -> Self {
        let mode = input.u8();
        let invocation = std::array::from_fn(|_| input.u32());
        let state = std::array::from_fn(|_| input.u32());
        let storage = std::array::from_fn(|_| input.u32());
        let push = (0..input.u8() % 33).map(|_| input.u64()).collect();
        let pointer = (input.u8(), input.u32());
        let edits = (0..input.u8() % (EDITS + 1))
            .map(|_| (input.u16(), input.u64()))
            .collect();
        Self {
            mode,
            invocation,
            state,
            storage,
            push,
            pointer,
            edits,
        }
    }

    fn format(&self) -> MmuFormat {
        if self.mode & 2 == 0 {
            MmuFormat::Aarch64_4k
        } else {
            MmuFormat::MaliLpae
        }
    }

    fn page_of_descriptors(&self) -> Page {
        let mut page = ZERO_PAGE;
        let mut put = |va: u64, words: &[u32]| {
            let at = (va - JOB) as usize / 4;
            for (to, word) in page.as_chunks_mut::<4>().0.iter_mut().skip(at).zip(words) {
                *to = word.to_le_bytes();
            }
        };
        // A compute job without a next job.
        put(JOB + 16, &[1 | 4 << 1 | 1 << 16]);
        put(JOB + 32, &self.invocation);
        let tables = [
            (6, UNIFORM_BUFFERS),
            (8, TEXTURES),
            (10, SAMPLERS),
            (12, PUSH),
            (14, STATE),
            (16, ATTRIBUTE_BUFFERS),
            (18, ATTRIBUTES),
            (28, STORAGE),
        ];
        for (word, va) in tables {
            put(JOB + 64 + word * 4, &[va as u32]);
        }
        if self.pointer.0 < 32 {
            put(JOB + 64 + u64::from(self.pointer.0) * 4, &[self.pointer.1]);
        }
        let [resources, attributes, properties, preload] = self.state;
        put(STATE, &[CODE as u32, 0, resources, attributes, properties]);
        put(STATE + 48, &[preload]);
        let halves: Vec<u32> = self.push.iter().flat_map(|p| [*p as u32, (*p >> 32) as u32]).collect();
        put(PUSH, &halves);
        // Two pages of data for each.
        for n in 0..8u64 {
            let packed = (DATA + n * 4096) >> 4 << 12 | 0x1ff;
            put(UNIFORM_BUFFERS + n * 8, &[packed as u32, (packed >> 32) as u32]);
        }
        put(STORAGE, &self.storage);
        page
    }
}

fn device(parts: &Parts, code: &[u8]) -> SoftwareMali {
    let model = if parts.mode & 1 == 0 { Model::G71 } else { Model::G52 };
    let arena = Arena {
        base: PhysAddr::new(BASE),
        pages: FRAMES,
    };
    let mut device = SoftwareMali::with_arena(model, arena).with_budget(Budget {
        wave: 500,
        job: 5_000,
        read: 100_000,
    });
    let format = parts.format();
    let at = |n: u64| PhysAddr::new(BASE + n * 4096);
    let mut tables = [ZERO_PAGE; 4];
    let all = |tables: &mut [Page; 4], index: usize, entry: u64| {
        let to = tables.get_mut(index >> 9).map(|t| t.as_chunks_mut::<8>().0);
        if let Some(to) = to.and_then(|t| t.get_mut(index & 511)) {
            *to = entry.to_le_bytes();
        }
    };
    for level in 0..3 {
        all(&mut tables, level << 9, mmu::encode_table(format, at(level as u64 + 1)));
    }
    for n in 0..FRAMES {
        let rights = Rights {
            execute: true,
            ..Rights::RW
        };
        all(
            &mut tables,
            3 << 9 | n as usize,
            mmu::encode_leaf(format, at(n), rights, 0),
        );
    }
    for (index, entry) in &parts.edits {
        // Some edits point into the arena, whatever address the fuzzer chose.
        let entry = if entry >> 63 == 1 {
            entry & !(0xffff_ffff << 12) | (BASE + (entry >> 12) % FRAMES * 4096)
        } else {
            *entry
        };
        all(&mut tables, usize::from(*index) % (4 * 512), entry);
    }
    let mut put = |n: u64, page: &Page| {
        let stored = device.store_page(BASE / 4096 + n, page);
        assert!(stored.is_ok(), "{stored:?}");
    };
    for (n, table) in (0..).zip(&tables) {
        put(n, table);
    }
    put(JOB / 4096, &parts.page_of_descriptors());
    for n in DATA / 4096..CODE / 4096 {
        let mut page = ZERO_PAGE;
        for (i, word) in page.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            *word = ((i as u32 % 64) << (n % 24)).to_le_bytes();
        }
        put(n, &page);
    }
    for (n, part) in (CODE / 4096..).zip(code.chunks(4096).take(CODE_BYTES / 4096)) {
        let mut page = ZERO_PAGE;
        page.iter_mut().zip(part).for_each(|(to, from)| *to = *from);
        put(n, &page);
    }
    machine::switch_on(&mut device, format, PhysAddr::new(BASE));
    device
}

/// Runs a job. Returns the status of the slot with the report, the memory, and whether the shader ran to its end.
fn play(parts: &Parts, code: &[u8]) -> (String, Vec<(u64, Page)>, bool) {
    let mut device = device(parts, code);
    for (register, value) in [(0x18c0, JOB), (0x18c4, 0), (0x18d0, 0xff), (0x18d8, 0), (0x18e0, 1)] {
        let _ = device.write(space::REGISTERS, register, 4, value);
    }
    let _ = device.wait_interrupt(3, 1_000_000_000);
    let status = device.read(space::REGISTERS, 0x18a4, 4);
    let reports = device.take_job_reports();
    let computed = reports.iter().any(|r| r.computed == Some(true));
    let frames = device.memory().backed_frames();
    let inside = BASE / 4096..BASE / 4096 + FRAMES;
    assert!(
        frames.iter().all(|f| inside.contains(f)),
        "memory outside of the arena is used"
    );
    let page = |f: u64| Some((f, *device.memory().frame(f)?));
    let message = format!("{status:?} {reports:?} {:?} {:?}", device.work(), device.anomalies());
    (message, frames.into_iter().filter_map(page).collect(), computed)
}

/// Fuzzes a compute job of any descriptors, tables and code, on one thread and on three. The job ends, stays inside its
/// arena, and has the same result on both. The input is accepted if the shader ran to its end.
pub fn shader_job(data: &[u8]) -> bool {
    let mut input = Input(data);
    let parts = Parts::take(&mut input);
    let code = input.0;
    let [Some(one), Some(three)] = &*POOLS else {
        return false;
    };
    let alone = one.install(|| play(&parts, code));
    let together = three.install(|| play(&parts, code));
    assert_eq!(alone.0, together.0, "the number of threads changes the report");
    assert!(alone.1 == together.1, "the number of threads changes memory");
    alone.2
}
