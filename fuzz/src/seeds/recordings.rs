//! Seeds of the importers and of the container: a recording of a few events with page tables and a job.

use super::seed::Add;
use crate::{chains, parts};
use trace_core::progress::Progress;
use trace_core::recording::{
    Access, AddressSpace, DmaKind, DmaMapRow, EventsBuilder, FrameRole, HostWriteRow, InterruptRow, MemoryBuilder,
    Metadata, MmuFormat, Space, SpaceKind, SubmitRow, UndecodedRow,
};
use trace_core::timeline::Pyramid;
use trace_core::{BusAddr, GpuVa, PhysAddr, Recording, RegOffset, container, mmu};

/// Adds the seeds.
pub fn add(add: Add<'_>) {
    let files = gpureplay();
    for (target, name) in [
        ("gpureplay_io", "gr_io_history"),
        ("gpureplay_pgt", "gr_pgt"),
        ("gpureplay_memory", "gr_mem_contents"),
        ("gpureplay_sync", "gr_sync_as"),
        ("gpureplay_integrated", "seed_integrated"),
    ] {
        if let Some((_, bytes)) = files.iter().find(|(n, _)| *n == name) {
            add(target, "small", bytes.clone());
        }
    }
    add("chains", "list", [b"\0", chains::LIST.as_bytes()].concat());
    add("chains", "submit", [b"\x01", chains::SUBMIT.as_bytes()].concat());
    let padded = b"0,R,0x00000000,60a00002\n521,W,0x00000030,00000001\n";
    add("gpureplay_io", "padded", padded.to_vec());
    add("raw_memory", "small", raw_memory());
    macro_rules! packed {
        ($($name:literal)*) => {
            $(add(
                "unpack",
                $name,
                include_bytes!(concat!("../../../trace-core/import/tests/packed/", $name)).to_vec(),
            );)*
        };
    }
    packed!("log-first.tar.gz" "log-last.tar.xz" "long-gnu.tar.bz2" "long-pax.tar.zst" "deflated.zip" "bzip2.zip");
    add("memory_dump", "lime", lime_image());
    add("memory_dump", "core", elf_core());
    add("hrr", "small", hip_calls());
    add("iree_replay", "small", iree_replay());
    let recorded = include_bytes!("../../../trace-core/import/tests/iree/parameters-capture-all.ireereplay");
    add("iree_replay", "recorded", recorded.to_vec());
    macro_rules! core_dump {
        ($($target:literal $name:literal)*) => {
            $(add(
                $target,
                "small",
                include_bytes!(concat!("../../../trace-core/import/tests/core_dumps/", $name)).to_vec(),
            );)*
        };
    }
    core_dump!("amdgpu_dump" "amdgpu.txt" "etnaviv_dump" "etnaviv.bin" "msm_dump" "msm.txt");
    core_dump!("i915_state" "i915.txt" "panthor_dump" "panthor.bin" "xe_dump" "xe.txt");
    add("panfrostdump", "small", panfrostdump());
    add("rd", "small", rd());
    add("v3d", "small", V3D.to_vec());
    add(
        "mmt",
        "real",
        include_bytes!("../../../trace-core/import/tests/mmt/accesses.mmt").to_vec(),
    );
    add("mmt", "small", mmt());
    let packed = include_bytes!("../../../trace-core/import/tests/nvidia/h100-rm-client.klog.gz");
    add("nvidia_log", "packed", packed.to_vec());
    add("nvidia_log", "small", nvidia_log());
    add("regs_history", "debugfs", HISTORY.to_vec());
    add("regs_history", "kernel-log", KERNEL_LOG.to_vec());
    let based = [&[1][..], &0xffff_ff80_08a8_0000u64.to_le_bytes(), HISTORY].concat();
    add("regs_history", "with-base", based);
    add("metadata", "register-trace", metadata_section(&REGISTER_TRACE));
    add("metadata", "api-trace", metadata_section(&API_TRACE));
    add("metadata", "unknown-record", metadata_section(&UNKNOWN_RECORD));
    let packed = include_bytes!(
        "../../../sample-traces/freedreno/dEQP-VK.draw.indirect_draw.indexed.indirect_draw_count.triangle_list.rd.gz"
    );
    add("rd", "packed", packed.to_vec());
    let small = without_blocks(&recording()).unwrap_or_default();
    let split_parts = parts::split(&small);
    let second = [
        split_parts.clone(),
        parts::end_of_commit(false),
        parts::named_section(15, "note", b"more", false),
        parts::named_section(16, trace_core::timeline::SECTION, &timeline(), true),
        parts::end_of_commit(true),
    ];
    add("derived", "timeline", [vec![0], timeline()].concat());
    add("derived", "pyramid", [vec![1], pyramid()].concat());
    add("container", "small", small);
    let blocks = container::to_bytes(&recording()).unwrap_or_default();
    add("container", "blocks", blocks);
    let golden = include_bytes!("../../../trace-core/tests/golden/v2-metadata.kine");
    add("container", "metadata", golden.to_vec());
    let packed = include_bytes!("../../../trace-core/tests/golden/v2-packed.kine");
    add("container", "packed", packed.to_vec());
    add("container_resealed", "packed", parts::with_blocks(parts::split(packed)));
    add("container_resealed", "blocks", parts::with_blocks(split_parts.clone()));
    add(
        "container_resealed",
        "blocks-two-commits",
        parts::with_blocks(second.concat()),
    );
    add("container_resealed", "small", split_parts);
    add("container_resealed", "two-commits", second.concat());
    add(
        "container_resealed",
        "write-value",
        parts::split(include_bytes!("../../../sample-traces/write-value.kine")),
    );
}

/// A metadata record: tag and body.
type Record = (u32, &'static [u8]);

/// Metadata records of a register trace: one of each tag.
const REGISTER_TRACE: [Record; 9] = [
    (2, br#"{"bus":"pci","vendor":4098,"device":20825,"bars":[{"number":2,"base":4273930240,"bytes":16384}]}"#),
    (
        3,
        br#"{"method":"mmiotrace","kernel":"6.1.0","command":["true"],"exit_code":0,"lost":2,"unobserved":["interrupts"]}"#,
    ),
    (4, br#"{"image":[8,8]}"#),
    (
        5,
        br#"[{"submit_event":7,"status":1,"computed":false,"reason":"a vertex job"},{"submit_event":9,"status":1}]"#,
    ),
    (6, br#"[{"at":8192,"bytes":4096,"recorded_at":65536},{"at":4096,"bytes":4096,"recorded_at":0}]"#),
    (7, b"P6\n1 1\n255\nabc"),
    (8, br#"[{"source":"whole.kine","events":20,"jobs":2,"kept_jobs":[[1,1]],"supplied":3}]"#),
    (9, br#"[{"buffer":"image","bytes":256,"source":"before.kine"}]"#),
    (10, br#"{"kinescope_processes":1,"processes":[{"file":"a.kine","process":7,"launches":2}]}"#),
];

/// Metadata records of an API trace.
const API_TRACE: [Record; 1] = [(
    1,
    br#"{"api":"cuda","version":13000,"modules":[{"kind":"ptx","bytes":31,"pages":[[1,1]]}],"functions":[{"name":"k","module":0,"parameters":[[0,8]]}],"streams":[{"name":"default stream"}]}"#,
)];

/// A metadata record of an unknown tag, and an empty one of a known tag.
const UNKNOWN_RECORD: [Record; 2] = [(77, b"of a newer program"), (4, b"{}")];

/// Returns the section `metadata` with these records.
fn metadata_section(records: &[Record]) -> Vec<u8> {
    let mut out = Vec::new();
    for (tag, body) in records {
        out.extend(tag.to_le_bytes());
        out.extend(1u32.to_le_bytes());
        out.extend((body.len() as u64).to_le_bytes());
        out.extend(*body);
    }
    out
}

/// Writes a recording as a file of version 1.
fn without_blocks(recording: &Recording) -> Result<Vec<u8>, container::ContainerError> {
    let mut writer = container::Writer::begin_without_blocks(container::MemorySink::default())?;
    writer.put(recording)?;
    writer.commit()?;
    Ok(writer.into_sink().bytes)
}

/// Returns the stored pyramid of the recording.
fn pyramid() -> Vec<u8> {
    let map = trace_core::registers::RegisterMap::by_name("mali-jm");
    Pyramid::build(&recording(), map, &Progress::new())
        .map(|p| p.to_bytes())
        .unwrap_or_default()
}

/// Returns the stored timeline of the recording.
fn timeline() -> Vec<u8> {
    let map = trace_core::registers::RegisterMap::by_name("mali-jm");
    map.and_then(|m| trace_core::timeline::derive(&recording(), m, &Progress::new()).ok())
        .map(|t| t.to_bytes())
        .unwrap_or_default()
}

/// Physical addresses of a top table, one table of each lower level, and a page.
pub(super) const TABLES: [u64; 4] = [0x1000, 0x2000, 0x3000, 0x4000];
const PAGE: u64 = 0x5000;
pub(super) const VA: u64 = 0x10_0000;

/// Returns the tables at [`TABLES`]: `VA` and its neighbour map to `PAGE` and the page after it.
pub(super) fn tables(format: MmuFormat) -> Vec<(u64, Vec<u64>)> {
    let mut out: Vec<(u64, Vec<u64>)> = TABLES.iter().map(|at| (*at, vec![mmu::INVALID; 512])).collect();
    for (level, below) in TABLES.iter().skip(1).enumerate() {
        let index = usize::from(mmu::index_at(level as u8, GpuVa::new(VA)));
        if let Some(e) = out.get_mut(level).and_then(|t| t.1.get_mut(index)) {
            *e = mmu::encode_table(format, PhysAddr::new(*below));
        }
    }
    let index = usize::from(mmu::index_at(3, GpuVa::new(VA)));
    for i in 0..2u64 {
        if let Some(e) = out.get_mut(3).and_then(|t| t.1.get_mut(index + i as usize)) {
            *e = mmu::encode_leaf(format, PhysAddr::new(PAGE + i * 0x1000), mmu::Rights::RW, 0);
        }
    }
    out
}

/// Returns a page that starts with a job header: a compute job alone.
fn job_page() -> Vec<u8> {
    let mut page = vec![0; 4096];
    let header = [0u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 1, 1, 0x40];
    for (to, from) in page.iter_mut().zip(header) {
        *to = from;
    }
    page
}

/// Returns a small sound GPUReplay folder: file names and contents.
#[must_use]
pub fn gpureplay() -> Vec<(&'static str, Vec<u8>)> {
    let accesses: [(u64, char, u32, u32); 14] = [
        (0, 'R', 0x0, 0x60a0_0002),
        (521, 'W', 0x30, 1),
        (1042, 'R', 0x2c, 0x100),
        (520, 'W', 0x24, 0x100),
        (520, 'W', 0x2430, 0x4200_0006),
        (520, 'W', 0x2400, 0x1000),
        (520, 'W', 0x2418, 1),
        (520, 'R', 0x2428, 1),
        (520, 'R', 0x2428, 0),
        (520, 'R', 0x38, 7),
        (520, 'W', 0x18c0, VA as u32),
        (520, 'W', 0x18e0, 1),
        (900_000, 'R', 0x100c, 2),
        (520, 'W', 0x1004, 2),
    ];
    let mut io = String::new();
    let mut integrated = String::new();
    let mut now = 947_878_218_605u64;
    for (i, (delta, way, offset, value)) in accesses.iter().enumerate() {
        now += delta;
        io.push_str(&format!("{delta},{way},{offset:x},{value:x}\n"));
        integrated.push_str(&format!(
            "{now}\t   IO\t  78{}\t {i:3}: {way} reg 0x{offset:08x} val {value:08x}    GPU_CTRL | X (RO) \t\n",
            20 + i % 2
        ));
    }
    let tables = tables(MmuFormat::Aarch64_4k);
    let mut pgt = Vec::new();
    let size = 40 + tables.len() as u64 * 4104;
    for word in [size, TABLES[0], 0x4c8d_888d_8f88, 6] {
        pgt.extend(word.to_le_bytes());
    }
    for (level, (at, entries)) in tables.iter().enumerate() {
        pgt.extend((at | level as u64).to_le_bytes());
        pgt.extend(entries.iter().flat_map(|e| e.to_le_bytes()));
    }
    pgt.extend(0xff_ffff_ffffu64.to_le_bytes());
    let mut memory = Vec::new();
    for word in [VA, VA + 0x2000, 2] {
        memory.extend(word.to_le_bytes());
    }
    memory.extend(0x606eu32.to_le_bytes());
    memory.push(1);
    for (i, page) in [job_page(), vec![0; 4096]].iter().enumerate() {
        memory.extend((VA + i as u64 * 0x1000).to_le_bytes());
        memory.extend((PAGE + i as u64 * 0x1000).to_le_bytes());
        memory.extend(page);
    }
    let mut sync = 2u32.to_le_bytes().to_vec();
    for word in [VA, VA + 64, 64, VA + 64, VA + 128, 64] {
        sync.extend(word.to_le_bytes());
    }
    vec![
        ("gr_io_history", io.into_bytes()),
        ("gr_pgt", pgt),
        ("gr_mem_contents", memory),
        ("gr_sync_as", sync),
        ("seed_integrated", integrated.into_bytes()),
    ]
}

/// Returns base, root and format, then the dump: the same tables and page.
fn raw_memory() -> Vec<u8> {
    let mut out = TABLES[0].to_le_bytes().to_vec();
    out.extend(TABLES[0].to_le_bytes());
    out.push(0);
    for (_, entries) in tables(MmuFormat::Aarch64_4k) {
        out.extend(entries.iter().flat_map(|e| e.to_le_bytes()));
    }
    out.extend(job_page());
    out
}

/// Returns a LiME image of one page.
fn lime_image() -> Vec<u8> {
    let mut out = b"EMiL\x01\0\0\0".to_vec();
    for word in [0x1000u64, 0x1fff, 0] {
        out.extend(word.to_le_bytes());
    }
    out.resize(out.len() + 4096, 7);
    out
}

/// Returns an ELF core of one page at its physical address.
fn elf_core() -> Vec<u8> {
    let mut out = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x04\0\x3e\0\x01\0\0\0".to_vec();
    for word in [0u64, 64, 0] {
        out.extend(word.to_le_bytes());
    }
    out.extend([0; 4]);
    for half in [64u16, 56, 1, 0, 0, 0] {
        out.extend(half.to_le_bytes());
    }
    out.extend(b"\x01\0\0\0\x07\0\0\0");
    for word in [120u64, 0, 0x4000_0000, 4096, 4096, 0] {
        out.extend(word.to_le_bytes());
    }
    out.resize(out.len() + 4096, 9);
    out
}

/// Returns the calls of HIP that allocate memory, launch a kernel and wait for the device.
fn hip_calls() -> Vec<u8> {
    let mut out = b"EHRR\x03\0\0\0".to_vec();
    let mut record = |call: u16, sequence: u64, payload: &[u8]| {
        out.extend(call.to_le_bytes());
        for word in [sequence, sequence * 10, 7] {
            out.extend(word.to_le_bytes());
        }
        out.extend((32 + payload.len() as u32).to_le_bytes());
        out.extend([0; 2]);
        out.extend(payload);
    };
    let mut allocation = vec![0; 4];
    allocation.extend([0x7f00_0000_1000u64, 0x100].iter().flat_map(|w| w.to_le_bytes()));
    record(224, 1, &allocation);
    let mut launch = vec![0; 8];
    launch.extend(b"\x01\0k");
    launch.extend([0; 16]);
    launch.extend([1u32, 1, 1, 64, 1, 1, 0].iter().flat_map(|n| n.to_le_bytes()));
    launch.extend(b"\x01\0\0\0\x00\x04\0abcd");
    record(321, 2, &launch);
    record(75, 3, &[0; 4]);
    record(0xffff, 4, b"\x03\0\0\0\0\0\0\0HEOF");
    out
}

/// Returns a HAL replay that allocates a buffer, fills it and copies bytes of the host to it.
fn iree_replay() -> Vec<u8> {
    let words = |words: &[u64]| -> Vec<u8> { words.iter().flat_map(|w| w.to_le_bytes()).collect() };
    let operation = |code: u32, payload_kind: u32, object: u64, related: u64, payload: &[u8]| {
        let mut out = words(&[
            96 + payload.len() as u64,
            payload.len() as u64,
            1,
            3,
            1,
            object,
            related,
        ]);
        out.extend(96u32.to_le_bytes());
        out.extend([3, 0, 0, 0]);
        for n in [payload_kind, 0, code, 0, 0, 0] {
            out.extend(n.to_le_bytes());
        }
        out.resize(96, 0);
        out.extend(payload);
        out
    };
    let mut records = operation(102, 2, 2, 7, &words(&[64, 0, 0, 0, 0]));
    let mut fill = words(&[7, 0, 64, 0, 0, 0, 0, 0, 1]);
    fill.push(9);
    records.extend(operation(15, 15, 1, 0, &fill));
    records.extend(operation(203, 4, 7, 0, &words(&[8, 8, 8, 0, 0, 5])));
    let mut out = b"IRRP\x01\0\0\0\x18\0\0\0\0\0\0\0".to_vec();
    out.extend((24 + records.len() as u64).to_le_bytes());
    out.extend(records);
    out
}

/// Returns a recording of a few events of every kind and two pages.
#[must_use]
pub fn recording() -> Recording {
    let mut events = EventsBuilder::new();
    let access = |write, offset, value| Access {
        space: 0,
        write,
        offset,
        width: 4,
        value,
    };
    events.access(0, 1, access(false, RegOffset::ZERO, 0x60a0_0002));
    events.access(10, 1, access(true, RegOffset::new(0x30), 1));
    events.interrupt(20, InterruptRow { line: 2, status: 0x100 });
    events.submit(
        30,
        SubmitRow {
            head_va: GpuVa::new(VA),
            address_space: 0,
            slot: 1,
        },
    );
    events.mark(40, "a note");
    let row = HostWriteRow {
        at: PhysAddr::new(PAGE + 8),
        bytes: 16,
        page: 1,
    };
    events.host_write(50, 1, row);
    events.undecoded(
        60,
        1,
        0,
        UndecodedRow::from_instruction(RegOffset::new(0x3ff0), 0xf3_a5f6),
    );
    let mapped = DmaMapRow {
        bus: BusAddr::new(PAGE),
        bytes: 4096,
        kind: DmaKind::Allocated as u32,
        reserved: 0,
    };
    events.dma_map(70, 1, mapped);
    let mut memory = MemoryBuilder::new();
    let mut frames = Vec::new();
    let page_of = |bytes: &[u8]| {
        let mut page = [0; 4096];
        page.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        page
    };
    for (at, entries) in tables(MmuFormat::Aarch64_4k) {
        let bytes: Vec<u8> = entries.iter().flat_map(|e| e.to_le_bytes()).collect();
        frames.push((at >> 12, memory.add_page(&page_of(&bytes)), FrameRole::Table));
    }
    frames.push((PAGE >> 12, memory.add_page(&page_of(&job_page())), FrameRole::Data));
    memory.add_snapshot(0, frames);
    let metadata = Metadata {
        spaces: vec![Space {
            name: "gpu".into(),
            kind: SpaceKind::Registers,
            bytes: 0x4000,
        }],
        address_spaces: vec![AddressSpace {
            number: 0,
            format: MmuFormat::Aarch64_4k,
            root: PhysAddr::new(TABLES[0]),
            memattr: 0,
            transcfg: 6,
        }],
        source_pages: 1,
        ..Metadata::default()
    };
    Recording {
        metadata,
        events: events.finish(),
        memory: memory.finish(),
        ..Recording::default()
    }
}

/// Returns a dump of one object of a page, with registers of a job slot and an address space.
fn panfrostdump() -> Vec<u8> {
    let header = |kind: u32, bytes: u32, offset: u32, rest: &[u32]| {
        let words = [0x464e_4150, kind, bytes, offset];
        let mut out: Vec<u8> = words.iter().chain(rest).flat_map(|w| w.to_le_bytes()).collect();
        out.resize(2000, 0);
        out
    };
    let mut out = header(0, 24, 8000, &[0x10040, 0, 0x6000, 1, 0, 0, 1, 0]);
    out.extend(header(1, 8, 8024, &[]));
    out.extend(header(2, 4096, 8032, &[1, 0, 0x10000, 0, 0, 0]));
    out.extend(header(3, 0, 0, &[]));
    for word in [0x1884u32, 0, 0x2400, 0x5007, 0x2408, 0x88, 0x8000_0000, 0] {
        out.extend(word.to_le_bytes());
    }
    out.extend([7; 4096]);
    out
}

/// Returns a log: a file that is opened and mapped, a store to it, and loads by address. An ioctl with memory and
/// records of older releases follow.
fn mmt() -> Vec<u8> {
    let records: [&[u8]; 10] = [
        b"==1== mmaptrace, an MMAP tracer\n",
        b"o\x02\0\0\0\0\0\0\0\x04\0\0\0\x04\0\0\0bar\0\n",
        b"M\0\x10\0\0\0\0\0\0\x03\0\0\0\x01\0\0\0\x04\0\0\0\x01\0\0\0\0\0\x80\x04\0\0\0\0\0\x10\0\0\0\0\0\0\n",
        b"w\x01\0\0\0\x08\0\0\0\x04\x78\x56\x34\x12\n",
        b"R\x08\0\x80\x04\0\0\0\0\x10\0\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\n",
        b"r\x09\0\0\0\0\0\0\0\x01\x07\n",
        b"i\x04\0\0\0\x2a\x46\x20\xc0\x04\0\0\0\x01\x02\x03\x04\n",
        b"y\0\x10\0\0\0\0\0\0\x03\0\0\0\x05\x06\x07\n",
        b"nm\0\0\0\xf6\0\0\0\0\x02\0\0\0\0\x90\0\0\0\0\0\0\0\x10\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\n",
        b"nk\x03\0\0\0VG\0\n",
    ];
    records.concat()
}

/// Returns a log of requests to NVIDIA's kernel driver: an opened file, a buffer that is created and mapped, a ring entry
/// with its push buffer, a doorbell, the source of a copy, a saved page, a mark.
fn nvidia_log() -> Vec<u8> {
    let words = |w: &[u32]| w.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    let name = |text: &[u8], bytes: usize| [text, &vec![0; bytes - text.len()]].concat();
    let ioctl = |request: u32, argument: &[u32], nested: &[u32]| {
        let sizes = [argument, nested].map(|a| a.len() as u32 * 4);
        let head = words(&[4, 0, 0, sizes[0], sizes[1], 0, request, 0, 900, 0]);
        let [argument, nested] = [argument, nested].map(words);
        [&head, &name(b"nvidiactl", 24), &argument, &argument, &nested, &nested]
            .map(Vec::as_slice)
            .concat()
    };
    let mut memory = [0; 32];
    memory[16] = 0x1000;
    let allocation = [1, 2, 6, 0x40, 0, 0, 0, 0, 0, 0, 0, 0];
    let mapping = [1, 2, 9, 6, 0, 0, 0x1000, 0, 0, 0, 0, 0, 0x9000, 0, 0, 0];
    let page = [words(&[0, 0, 0, 0, 6, 0]), vec![1; 4096]].concat();
    let records = [
        (1, [words(&[4, 2, 0, 0]), name(b"/dev/nvidiactl", 48)].concat()),
        (3, ioctl(0xc030_462b, &allocation, &memory)),
        (3, ioctl(0xc040_4657, &mapping, &[])),
        (8, words(&[3, 0, 0x1ffc, 2 << 10, 1, 1])),
        (9, words(&[0x1ffc, 0, 0x2001_0000, 0xcbc0])),
        (12, words(&[0x9000, 0, 5, 6])),
        (10, words(&[0x90, 0, 0, 0, 0x8908, 0, 0, 0, 3, 0])),
        (6, page),
        (7, b"end".to_vec()),
    ];
    let record = |(kind, content): (u32, Vec<u8>)| [words(&[kind, content.len() as u32, 5, 0, 7, 0]), content].concat();
    records.into_iter().flat_map(record).collect()
}

/// Returns a file with a submit of third-generation commands, which lead to further commands.
fn rd() -> Vec<u8> {
    let words = |w: &[u32]| w.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    let commands = [1 << 16 | 0x10, 1, 2, 0xc001_3f00, 0x2000, 2, 0xc000_2200, 0];
    let sections = [
        (13, words(&[330])),
        (2, b"a/1: fence=5\0".to_vec()),
        (3, words(&[0x1000, 32])),
        (12, words(&commands)),
        (3, words(&[0x2000, 8])),
        (12, words(&[0x30, 7])),
        (6, words(&[0x1000, 8])),
    ];
    let section = |(kind, bytes): (u32, Vec<u8>)| [words(&[kind, bytes.len() as u32]), bytes].concat();
    sections.into_iter().flat_map(section).collect()
}

/// A write of a group with a core, a read of one without, and a note.
const V3D: &[u8] = b"# tracer: nop\n\
    \x20  python3-770 [001] .... 65.262148: v3d_map_gpu_region: start_page=0x00000020 num_pages=0x00002100 is_map=1\n\
    \x20  python3-770 [001] .... 65.262344: v3d_access_reg: group=~hub rw=r offset=0x00001200 val=0x060d0c01 core=-1\n\
    \x20  v3d_csd-747 [002] d.h1 65.345213: v3d_access_reg: group=core rw=w offset=0x00000030 val=0x00000001 core=0\n";

/// A full ring: the id of a GPU, a mask, and the start of a job.
const HISTORY: &[u8] = b"Last 4 register accesses of 9 total:\n\
    \x20    0: r: reg 0xffffff8008a80000 val 60000000\n\
    \x20    1: w: reg 0xffffff8008a81008 val 00000007\n\
    \x20    2: w: reg 0xffffff8008a818c0 val 00001000\n\
    \x20    3: w: reg 0xffffff8008a818e0 val 00000001\n";

/// Two overlapping dumps in a kernel log; the second is truncated.
const KERNEL_LOG: &[u8] = b"<6>[    0.100000] usb 1-1: new device\n\
    <3>[    1.000000] mali 13000000.gpu: Register IO History:\n\
    <3>[    1.000001] mali 13000000.gpu: Last 2 register accesses of 2 total:\n\
    <3>[    1.000002] mali 13000000.gpu:      0: r: reg 0x    f0a80000 val 60000000\n\
    <3>[    1.000003] mali 13000000.gpu:      1: r: reg 0x    f0a81000 val 00000001\n\
    <3>[    2.000000] mali 13000000.gpu: Last 3 register accesses of 4 total:\n\
    <3>[    2.000001] mali 13000000.gpu:      0: r: reg 0x    f0a81000 val 00000001\n\
    <3>[    2.000002] mali 13000000.gpu:      1: w: reg 0x    f0a81004 val 00000001\n";
