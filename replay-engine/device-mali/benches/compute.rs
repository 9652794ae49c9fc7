//! How fast the software GPU computes: whole jobs of Mesa's own shaders at sizes of work, and its memory alone.
//!
//! The jobs are those of the sample recordings with larger buffers: every place of the push uniforms that names a
//! buffer or a size is changed, and so is the number of workgroups. What they compute is checked once. An item of a
//! job is an operation of one lane; the yardsticks are the same work on the processor, and a copy in memory.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark that cannot start says so"
)]

use device_mali::bench_support::{PagedMemory, track_last_writers};
use device_mali::{Model, SoftwareMali};
use divan::{Bencher, black_box, counter::BytesCount, counter::ItemsCount};
use replay_core::Device;
use replay_engine::device::{Arena, RegisterTarget, space};
use std::path::Path;
use trace_core::families::Dispatch;
use trace_core::mmu::mappings;
use trace_core::recording::Page;
use trace_core::{PAGE_SIZE, PhysAddr, Recording};

fn main() {
    divan::main();
}

/// Where the larger buffers lie, 64 MiB each.
const BUFFERS: u64 = 0x4000_0000;
const STRIDE: u64 = 64 << 20;

/// A job on a device whose addresses go through untranslated, ready to be run any number of times.
struct Job {
    device: SoftwareMali,
    head: u64,
    /// Names of the buffers, and where they were.
    buffers: Vec<(String, u64)>,
}

/// The change of a sample: sizes to find among the push uniforms and what to put there; the new dispatch.
struct Change {
    sample: &'static str,
    sizes: &'static [(u32, u32)],
    workgroups: [u32; 3],
}

const MATMUL: Change = Change {
    sample: "matmul",
    sizes: &[(32, 256)],
    workgroups: [32, 32, 1],
};
const CONV: Change = Change {
    sample: "conv3x3",
    sizes: &[(64, 1024), (48, 1024)],
    workgroups: [64, 256, 1],
};
const SAXPY: Change = Change {
    sample: "saxpy",
    sizes: &[(1000, 1 << 20)],
    workgroups: [1 << 15, 1, 1],
};

impl Job {
    fn new(change: &Change) -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../sample-traces/{}.kine", change.sample));
        let r = trace_core::container::open(&file).unwrap();
        let mut device = SoftwareMali::with_arena(
            Model::G71,
            Arena {
                base: PhysAddr::ZERO,
                pages: 1 << 20,
            },
        );
        let (submit, head) = submitted(&r);
        let memory = r.memory.at(submit);
        let s = &r.metadata.address_spaces[0];
        for m in mappings(s.format, s.root, &memory).unwrap() {
            for n in 0..m.pages {
                let va = m.va.get() + n * PAGE_SIZE as u64;
                let leaf = trace_core::mmu::translate(s.format, s.root, trace_core::GpuVa::new(va), &memory).unwrap();
                if let Some(page) = memory.frame(leaf.pa.frame()) {
                    device.store_page(va / PAGE_SIZE as u64, page).unwrap();
                }
            }
        }
        let buffers = r
            .metadata
            .buffers
            .iter()
            .map(|b| (b.name.clone(), b.va.get()))
            .collect();
        let mut job = Self { device, head, buffers };
        for (register, value) in [
            (0x28, u64::from(u32::MAX)),
            (0x1008, u64::from(u32::MAX)),
            (0x180, 0xff),
            (0x190, 1),
            // Addresses go through as they are.
            (0x2430, 2),
            (0x2418, 1),
        ] {
            job.device.write(space::REGISTERS, register, 4, value).unwrap();
        }
        job.device.wait_interrupt(4, 1_000_000).unwrap();
        job.change(change);
        job
    }

    fn word(&mut self, va: u64) -> u32 {
        self.device.read(space::ARENA, va, 4).unwrap() as u32
    }

    fn put(&mut self, va: u64, word: u32) {
        self.device.write(space::ARENA, va, 4, u64::from(word)).unwrap();
    }

    fn long(&mut self, va: u64) -> u64 {
        u64::from(self.word(va)) | u64::from(self.word(va + 4)) << 32
    }

    fn change(&mut self, change: &Change) {
        let head = self.head;
        let shifts = self.word(head + 36);
        let old = Dispatch::unpack(self.word(head + 32), shifts);
        let new = Dispatch {
            workgroups: change.workgroups,
            ..old
        };
        let (sizes, shifts) = new.pack(shifts >> 28).unwrap();
        self.put(head + 32, sizes);
        self.put(head + 36, shifts);
        let state = self.long(head + 64 + 14 * 4);
        let push = self.long(head + 64 + 12 * 4);
        let count = u64::from(self.word(state + 48) >> 15 & 127);
        let buffers: Vec<u64> = self.buffers.iter().map(|b| b.1).collect();
        let (mut pointers, mut sizes) = (0, 0);
        for at in (0..count).map(|n| push + n * 8) {
            let value = self.long(at);
            if let Some(n) = buffers.iter().position(|va| *va == value) {
                self.put(at, (BUFFERS + n as u64 * STRIDE) as u32);
                pointers += 1;
                continue;
            }
            for half in [at, at + 4] {
                let word = self.word(half);
                if let Some((_, to)) = change.sizes.iter().find(|(from, _)| *from == word) {
                    self.put(half, *to);
                    sizes += 1;
                }
            }
        }
        // Uniform buffers stay where they were.
        assert!(
            pointers >= 2 && sizes >= 1,
            "{}: {pointers} pointers and {sizes} sizes",
            change.sample
        );
        for n in 0..buffers.len() as u64 {
            let first = (BUFFERS + n * STRIDE) / PAGE_SIZE as u64;
            for frame in first..first + (4 << 20) / PAGE_SIZE as u64 {
                let mut page: Box<Page> = Box::new([0; PAGE_SIZE]);
                for (i, word) in page.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                    *word = (((frame * 1024 + i as u64) % 61) as f32).to_le_bytes();
                }
                self.device.store_page(frame, &page).unwrap();
            }
        }
    }

    /// Runs the job; gives the operations of its lanes.
    fn run(&mut self) -> u64 {
        let before = self.device.work().lane_ops;
        for (register, value) in [
            (0x18c0, self.head & 0xffff_ffff),
            (0x18c4, self.head >> 32),
            (0x18d0, 0xff),
            (0x18d4, 0),
            (0x18d8, 0),
            (0x18e0, 1),
        ] {
            self.device.write(space::REGISTERS, register, 4, value).unwrap();
        }
        self.device.wait_interrupt(1, 1_000_000_000).unwrap();
        self.device
            .write(space::REGISTERS, 0x1004, 4, u64::from(u32::MAX))
            .unwrap();
        let report = self.device.take_job_reports().pop().unwrap();
        assert_eq!((report.status, report.computed), (1, Some(true)), "{:?}", report.reason);
        self.device.work().lane_ops - before
    }

    /// An element of one of the larger buffers.
    fn float(&mut self, buffer: &str, n: u64) -> f32 {
        let number = self.buffers.iter().position(|b| b.0 == buffer).unwrap() as u64;
        f32::from_bits(self.word(BUFFERS + number * STRIDE + n * 4))
    }
}

/// The event of a recording's only submit, and the head of its chain.
fn submitted(r: &Recording) -> (u64, u64) {
    let (mut head, mut submit) = (0, 0);
    for e in 0..r.events.len() {
        if let Some(a) = r.events.access(e).filter(|a| a.write) {
            match a.offset.get() {
                0x18c0 => head = head & !0xffff_ffff | a.value,
                0x18c4 => head = head & 0xffff_ffff | a.value << 32,
                0x18e0 => submit = e as u64,
                _ => {}
            }
        }
    }
    (submit, head)
}

fn threads(n: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap()
}

const CORES: [usize; 2] = [1, 2];

fn measure(b: Bencher<'_, '_>, cores: usize, change: &Change, check: impl Fn(&mut Job)) {
    let pool = threads(cores);
    let mut job = Job::new(change);
    let items = pool.install(|| job.run());
    check(&mut job);
    b.counter(ItemsCount::new(items))
        .bench_local(|| pool.install(|| job.run()));
}

/// The same while the device remembers who writes each byte, from nothing in each run.
fn measure_remembered(b: Bencher<'_, '_>, cores: usize, change: &Change) {
    let pool = threads(cores);
    let mut job = Job::new(change);
    let items = pool.install(|| job.run());
    b.counter(ItemsCount::new(items)).bench_local(|| {
        track_last_writers(&mut job.device);
        pool.install(|| job.run())
    });
}

fn check_matmul(job: &mut Job) {
    let (y, x) = (201, 77);
    let sum: f32 = (0..256)
        .map(|k| job.float("a", y * 256 + k) * job.float("b", k * 256 + x))
        .sum();
    assert_eq!(job.float("c", y * 256 + x), sum);
}

fn check_conv(job: &mut Job) {
    let weights = job.buffers.iter().find(|b| b.0 == "k").unwrap().1;
    let mut sum = f32::from_bits(job.word(weights + 9 * 16));
    for n in 0..9 {
        let weight = f32::from_bits(job.word(weights + n * 16));
        sum += weight * job.float("src", (599 + n / 3) * 1024 + 299 + n % 3);
    }
    let got = job.float("dst", 600 * 1024 + 300);
    assert!(
        (got - sum.max(0.0)).abs() <= 1e-4 * sum.abs().max(1.0),
        "{got} is not {sum}"
    );
}

/// The recorded factor is 2.5, and what `y` began with is known.
fn check_saxpy(job: &mut Job) {
    let n = (1 << 20) - 1;
    let y = (job.buffers.iter().position(|b| b.0 == "y").unwrap() as u64 * (STRIDE / 4) + BUFFERS / 4 + n) % 61;
    assert_eq!(job.float("y", n), 2.5 * job.float("x", n) + y as f32);
}

#[divan::bench(args = CORES, sample_count = 10, sample_size = 1)]
fn matmul_256(b: Bencher<'_, '_>, cores: usize) {
    measure(b, cores, &MATMUL, check_matmul);
}

#[divan::bench(args = CORES, sample_count = 10, sample_size = 1)]
fn matmul_256_writers_remembered(b: Bencher<'_, '_>, cores: usize) {
    measure_remembered(b, cores, &MATMUL);
}

#[divan::bench(args = CORES, sample_count = 10, sample_size = 1)]
fn conv3x3_1024(b: Bencher<'_, '_>, cores: usize) {
    measure(b, cores, &CONV, check_conv);
}

#[divan::bench(args = CORES, sample_count = 10, sample_size = 1)]
fn conv3x3_1024_writers_remembered(b: Bencher<'_, '_>, cores: usize) {
    measure_remembered(b, cores, &CONV);
}

#[divan::bench(args = CORES, sample_count = 10, sample_size = 1)]
fn saxpy_1m(b: Bencher<'_, '_>, cores: usize) {
    measure(b, cores, &SAXPY, check_saxpy);
}

#[divan::bench(args = CORES, sample_count = 10, sample_size = 1)]
fn saxpy_1m_writers_remembered(b: Bencher<'_, '_>, cores: usize) {
    measure_remembered(b, cores, &SAXPY);
}

/// The yardstick of `matmul_256`: the same loops on one core of the processor.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn plain_matmul_256(b: Bencher<'_, '_>) {
    let m: Vec<f32> = (0..256 * 256).map(|n| (n % 61) as f32).collect();
    let mut out = vec![0f32; 256 * 256];
    b.bench_local(|| {
        let m = black_box(&m);
        for (y, row) in out.chunks_mut(256).enumerate() {
            for (x, to) in row.iter_mut().enumerate() {
                *to = (0..256).map(|k| m[y * 256 + k] * m[k * 256 + x]).sum();
            }
        }
        black_box(&mut out);
    });
}

const MEMORY: u64 = 4 << 20;

/// Loads of words one after another, through page tables and the overlay of a chunk.
#[divan::bench]
fn memory_loads(b: Bencher<'_, '_>) {
    let m = PagedMemory::new(MEMORY);
    b.counter(BytesCount::new(MEMORY))
        .bench_local(|| m.sum_loads(black_box(4), MEMORY));
}

/// Stores, each page copied at the first one.
#[divan::bench]
fn memory_stores(b: Bencher<'_, '_>) {
    let m = PagedMemory::new(MEMORY);
    b.counter(BytesCount::new(MEMORY))
        .bench_local(|| m.count_stores(black_box(4), MEMORY));
}

/// Loads with a row between them, as of a matrix read by columns.
#[divan::bench]
fn memory_loads_by_column(b: Bencher<'_, '_>) {
    let m = PagedMemory::new(MEMORY);
    b.counter(BytesCount::new(MEMORY))
        .bench_local(|| m.sum_loads(black_box(1024), MEMORY));
}

/// The yardstick of the three: a copy in memory.
#[divan::bench]
fn plain_copy(b: Bencher<'_, '_>) {
    let (from, mut to) = (vec![1u8; MEMORY as usize], vec![0u8; MEMORY as usize]);
    b.counter(BytesCount::new(MEMORY)).bench_local(|| {
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
    });
}
