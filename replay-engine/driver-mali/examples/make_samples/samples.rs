//! Sample recordings that need no external file and whose results are known in advance.

use driver_mali::{ChainBuilder, Driver, DriverError, JobSpec, Recorder};
use replay_engine::device::RegisterTarget;
use trace_core::families::mali_jm::{CacheFlush, WriteKind};
use trace_core::mmu::Rights;
use trace_core::recording::{BufferRole, ElementType, MmuFormat};
use trace_core::{GpuVa, Recording};

/// Number of 64-bit words of the buffer `results`.
pub const RESULT_WORDS: usize = 8;
/// Initial contents of the buffers: a job that writes fewer than 8 bytes leaves the rest of its word.
pub const FILL: u8 = 0xa5;

/// Contents of the buffer `results` after the jobs of [`write_value`].
pub const RESULTS: [u64; RESULT_WORDS] = [
    0,
    0xa5a5_a5a5_a5a5_a511,
    0xa5a5_a5a5_a5a5_2222,
    0xa5a5_a5a5_3333_3333,
    0x4444_4444_4444_4444,
    0x0123_4567_89ab_cdef,
    0xa5a5_a5a5_a5a5_a5a5,
    0x6000_0001_a5a5_a5a5,
];

fn immediate(to: GpuVa, bytes: u8, value: u64) -> JobSpec {
    JobSpec::WriteValue {
        to,
        kind: WriteKind::Immediate { bytes },
        value,
    }
}

/// Records three submits from boot to shutdown. The first is a single job. The second is a chain of seven jobs with
/// null, cache-flush and every kind of write. The third is a chain on the fragment slot that stores the cycle counter
/// and the timestamp in the buffer `counters`.
///
/// # Errors
/// When the device or a job fails.
pub fn write_value(device: &mut dyn RegisterTarget, format: MmuFormat) -> Result<Recording, DriverError> {
    let mut driver = Driver::boot(device, Recorder::new("write-value jobs"))?;
    let space = driver.new_space(format)?;
    let words = RESULT_WORDS as u64 * 8;
    let results = driver.alloc(space, words, Rights::RW)?;
    let counters = driver.alloc(space, 16, Rights::RW)?;
    let chains = driver.alloc(space, 0x1000, Rights::RW)?;
    driver.write(space, results, &[FILL; RESULT_WORDS * 8])?;
    let word = |n: u64| results + 8 * n;
    let write = |to, kind| JobSpec::WriteValue { to, kind, value: 0 };
    let flush = CacheFlush {
        clean_l2: true,
        invalidate_l2: true,
        ..CacheFlush::default()
    };

    let alone = ChainBuilder::new().job(immediate(word(5), 8, 0x0123_4567_89ab_cdef));
    let every = ChainBuilder::new()
        .job(JobSpec::Null)
        .job(write(word(0), WriteKind::Zero))
        .job(immediate(word(1), 1, 0x11))
        .job(immediate(word(2), 2, 0x2222))
        .job(immediate(word(3), 4, 0x3333_3333))
        .job(immediate(word(4), 8, 0x4444_4444_4444_4444))
        .job(JobSpec::CacheFlush(flush))
        .job(immediate(word(7) + 4, 4, 0x6000_0001));
    let clocks = ChainBuilder::new()
        .job(write(counters, WriteKind::CycleCounter))
        .job(write(counters + 8, WriteKind::Timestamp));
    let mut heads = Vec::new();
    let mut at = chains;
    for chain in [&alone, &every, &clocks] {
        driver.write(space, at, &chain.build(at))?;
        heads.push(at);
        at += chain.bytes();
    }
    driver.name_buffer("results", BufferRole::Output, space, results, words, ElementType::U64);
    driver.name_buffer("counters", BufferRole::Shared, space, counters, 16, ElementType::U64);
    driver.name_buffer(
        "chains",
        BufferRole::Descriptor,
        space,
        chains,
        at - chains,
        ElementType::U32,
    );

    driver.start_cycle_counter()?;
    for (slot, head) in [1, 1, 0].into_iter().zip(heads) {
        driver.run_chain(space, slot, head)?;
    }
    driver.clean_caches()?;
    driver.finish()
}

/// Records three submits between which the CPU changes memory and mappings. It overwrites the previous chain with the
/// next one, writes a few words and whole pages next to what jobs wrote, unmaps a buffer, and maps another one far
/// away. Every word of `data` and `late` is known in advance: [`CHANGES_DATA`], [`CHANGES_LATE`].
///
/// # Errors
/// When the device or a job fails.
pub fn record_changes(device: &mut dyn RegisterTarget, format: MmuFormat) -> Result<Recording, DriverError> {
    let mut driver = Driver::boot(device, Recorder::new("memory that the CPU changes"))?;
    let space = driver.new_space(format)?;
    let chains = driver.alloc(space, 0x1000, Rights::RW)?;
    let data = driver.alloc(space, 0x2000, Rights::RW)?;
    let gone = driver.alloc(space, 0x3000, Rights::RW)?;
    let late = GpuVa::new(0x55_0000_0000);
    driver.name_buffer("data", BufferRole::Output, space, data, 0x2000, ElementType::U64);
    driver.name_buffer("late", BufferRole::Output, space, late, 0x4000, ElementType::U64);
    let word = |base: GpuVa, n: u64| base + 8 * n;
    let run = |driver: &mut Driver<'_>, jobs: &[(GpuVa, u64)]| {
        let chain = jobs
            .iter()
            .fold(ChainBuilder::new(), |c, (to, value)| c.job(immediate(*to, 8, *value)));
        driver.write(space, chains, &chain.build(chains))?;
        driver.run_chain(space, 1, chains)
    };
    driver.write(space, gone, &[0x77; 0x3000])?;
    run(&mut driver, &[(data, 1), (gone, 2)])?;
    driver.write(space, word(data, 1), &11u64.to_le_bytes())?;
    let page: Vec<u8> = (0..0x1000u32).map(|i| (i / 8) as u8).collect();
    driver.write(space, word(data, 512), &page)?;
    driver.unmap(space, gone, 0x3000)?;
    driver.map(space, late, 0x4000, Rights::RW)?;
    driver.write(space, late, &[5; 0x2400])?;
    run(&mut driver, &[(word(data, 2), 3), (word(late, 1), 4)])?;
    // The words after the one that a job wrote.
    driver.write(space, word(late, 2), &[6; 0x300])?;
    run(&mut driver, &[(word(data, 3), 5)])?;
    driver.finish()
}

/// First words of the buffer `data` after [`record_changes`]. The words of its second page repeat their number, as a
/// byte.
pub const CHANGES_DATA: [u64; 4] = [1, 11, 3, 5];
/// First words of the buffer `late` after [`record_changes`].
pub const CHANGES_LATE: [u64; 3] = [0x0505_0505_0505_0505, 4, 0x0606_0606_0606_0606];

/// Source of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// [`write_value`] with page tables of this format.
    WriteValue(MmuFormat),
    /// [`record_changes`] with page tables of this format.
    Changes(MmuFormat),
    /// [`driver_mali::chains::record_folder`] of this folder in the recordings folder.
    Folder(&'static str),
}

/// Sample of the folder `sample-traces`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// File name.
    pub file: &'static str,
    /// Name of the simulator that it is recorded on.
    pub device: &'static str,
    /// Source of the sample.
    pub source: Source,
}

const fn folder(file: &'static str, device: &'static str, folder: &'static str) -> Sample {
    Sample {
        file,
        device,
        source: Source::Folder(folder),
    }
}

/// All samples.
pub const SAMPLES: &[Sample] = &[
    Sample {
        file: "write-value.kine",
        device: "mali-g71",
        source: Source::WriteValue(MmuFormat::Aarch64_4k),
    },
    Sample {
        file: "write-value-lpae.kine",
        device: "mali-g71",
        source: Source::WriteValue(MmuFormat::MaliLpae),
    },
    Sample {
        file: "changes.kine",
        device: "mali-g71",
        source: Source::Changes(MmuFormat::MaliLpae),
    },
    folder("vecadd.kine", "mali-g71", "panfrost/g71/vecadd"),
    folder("saxpy.kine", "mali-g71", "panfrost/g71/saxpy"),
    folder("matmul.kine", "mali-g71", "panfrost/g71/matmul"),
    folder("conv3x3.kine", "mali-g71", "panfrost/g71/conv3x3"),
    folder("histogram.kine", "mali-g71", "panfrost/g71/histogram"),
    folder("mat4.kine", "mali-g71", "panfrost/g71/mat4"),
    folder("mediump.kine", "mali-g71", "panfrost/g71/mediump"),
    folder("texfetch.kine", "mali-g71", "panfrost/g71/texfetch"),
    folder("twopass.kine", "mali-g71", "panfrost/g71/twopass"),
    folder("chain2.kine", "mali-g71", "panfrost/g71/chain2"),
    folder("triangle.kine", "mali-g71", "panfrost/g71/triangle"),
    folder("tri3.kine", "mali-g71", "panfrost/g71/tri3"),
    folder("vecadd-g52.kine", "mali-g52", "panfrost/g52/vecadd"),
];

/// Samples in addition to [`SAMPLES`] that were recorded live from a program on Mesa's driver. A script makes each of
/// them again. Values that are not the program's (addresses, times) may differ.
pub const LIVE: &[&str] = &["digits.kine"];

impl Sample {
    /// Records the sample again. `recordings` is the folder that external files are read from.
    ///
    /// # Errors
    /// When the source cannot be read, or the device or a job fails.
    pub fn make(
        &self,
        recordings: &std::path::Path,
        device: &mut dyn RegisterTarget,
    ) -> Result<Recording, DriverError> {
        match self.source {
            Source::WriteValue(format) => write_value(device, format),
            Source::Changes(format) => record_changes(device, format),
            Source::Folder(folder) => {
                driver_mali::chains::record_folder(&recordings.join(folder), device).map(|r| r.recording)
            }
        }
    }
}
