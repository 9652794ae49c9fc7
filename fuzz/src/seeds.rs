//! Small sound inputs for every target, made here from nothing: what the fuzzer starts from.

use kinescope_files::buffers::npy;
use replay_core::{Action, Encoder, MAX_ACTION_BYTES, ReadClass};
use replay_engine::device::Arena;
use replay_engine::plan::{
    Budgets, PLAN_VERSION, Plan, PlanBuffer, PlanJob, PlanPage, PlanSpace, ReadClasses, Rewrite, RewriteKind, text,
};
use replay_engine::wire::message::{LeaseRequest, PagesReply, PairMessage, RunReply, RunRequest};
use replay_engine::wire::{Concern, Preamble, Word, first_piece};
use trace_core::recording::{
    Access, AddressSpace, ElementType, EventsBuilder, Facts, FrameRole, InterruptRow, MemoryBuilder, MmuFormat, Space,
    SpaceKind, SubmitRow, zero_digest,
};
use trace_core::{GpuVa, PhysAddr, Recording, mmu};

/// A committed input: target, file name, bytes.
pub struct Seed {
    /// Name of the target.
    pub target: &'static str,
    /// Name of the file in the corpus.
    pub file: &'static str,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// All seeds.
#[must_use]
pub fn all() -> Vec<Seed> {
    let mut seeds = Vec::new();
    let mut add = |target, file, bytes| seeds.push(Seed { target, file, bytes });
    let body = body(&every_action());
    let plan = plan(&body);
    add("actions", "every-action", body);
    add("actions", "empty", Vec::new());
    for (file, element) in [
        ("f32", ElementType::F32),
        ("u8", ElementType::U8),
        ("f16", ElementType::F16),
    ] {
        add("npy", file, npy::write(element, &[1, 2, 3, 4, 5, 6, 7, 8]));
    }
    add("plan_text", "every-action", text::print(&plan).into_bytes());
    add("plan_bytes", "every-action", plan.to_bytes().unwrap_or_default());
    add(
        "wire",
        "preamble",
        [vec![0], Preamble::own(Word::Session).to_bytes().to_vec()].concat(),
    );
    // Kinds 1 to 9 of the target, as small as they come; see `wire`.
    let message = |kind: u8, bytes: Result<Vec<u8>, trace_core::encode::EncodeError>| {
        [vec![kind], bytes.unwrap_or_default()].concat()
    };
    let encode = trace_core::encode::to_bytes::<PairMessage>;
    add("wire", "pair", message(2, encode(&PairMessage::Nonce([7; 32]))));
    add(
        "wire",
        "lease",
        message(3, trace_core::encode::to_bytes(&LeaseRequest::Take("mali-g71".into()))),
    );
    add(
        "wire",
        "lack",
        message(6, trace_core::encode::to_bytes(&PagesReply::LackPages(vec![(0, 3)]))),
    );
    add(
        "wire",
        "start",
        message(7, trace_core::encode::to_bytes(&RunRequest::Start { repeat: 2 })),
    );
    add(
        "wire",
        "progress",
        message(8, trace_core::encode::to_bytes(&RunReply::Progress(5))),
    );
    let piece = first_piece(Concern::Run, b"\0\0\0\0\x05\0\0\0")
        .map(|(p, _)| p)
        .unwrap_or_default();
    let length = (piece.len() as u16).to_le_bytes();
    add("wire", "frame", [vec![9], length.to_vec(), piece].concat());
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
    add(
        "gpureplay_io",
        "padded",
        b"0,R,0x00000000,60a00002\n521,W,0x00000030,00000001\n".to_vec(),
    );
    add("raw_memory", "small", raw_memory());
    add(
        "container",
        "small",
        trace_core::container::to_bytes(&recording()).unwrap_or_default(),
    );
    seeds
}

/// Physical addresses of a top table, one table of each lower level, and a page.
const TABLES: [u64; 4] = [0x1000, 0x2000, 0x3000, 0x4000];
const PAGE: u64 = 0x5000;
const VA: u64 = 0x10_0000;

/// The tables at [`TABLES`]: `VA` and its neighbour map to `PAGE` and the page after it.
fn tables() -> Vec<(u64, Vec<u64>)> {
    let mut out: Vec<(u64, Vec<u64>)> = TABLES.iter().map(|at| (*at, vec![mmu::INVALID; 512])).collect();
    for (level, below) in TABLES.iter().skip(1).enumerate() {
        let index = usize::from(mmu::index_at(level as u8, VA));
        if let Some(e) = out.get_mut(level).and_then(|t| t.1.get_mut(index)) {
            *e = mmu::encode_table(MmuFormat::Aarch64_4k, PhysAddr(*below));
        }
    }
    let index = usize::from(mmu::index_at(3, VA));
    for i in 0..2u64 {
        if let Some(e) = out.get_mut(3).and_then(|t| t.1.get_mut(index + i as usize)) {
            *e = mmu::encode_leaf(MmuFormat::Aarch64_4k, PhysAddr(PAGE + i * 0x1000), mmu::Rights::RW, 0);
        }
    }
    out
}

/// A page that starts with a job header: a compute job alone.
fn job_page() -> Vec<u8> {
    let mut page = vec![0; 4096];
    let header = [0u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 1, 1, 0x40];
    for (to, from) in page.iter_mut().zip(header) {
        *to = from;
    }
    page
}

/// A small sound GPUReplay folder: file names and contents.
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
    let tables = tables();
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

/// Base, root and format, then the dump: the same tables and page.
fn raw_memory() -> Vec<u8> {
    let mut out = TABLES[0].to_le_bytes().to_vec();
    out.extend(TABLES[0].to_le_bytes());
    out.push(0);
    for (_, entries) in tables() {
        out.extend(entries.iter().flat_map(|e| e.to_le_bytes()));
    }
    out.extend(job_page());
    out
}

/// A recording of a few events of every kind and two pages.
fn recording() -> Recording {
    let mut events = EventsBuilder::new();
    let access = |write, offset, value| Access {
        space: 0,
        write,
        offset,
        width: 4,
        value,
    };
    events.access(0, 1, access(false, 0, 0x60a0_0002));
    events.access(10, 1, access(true, 0x30, 1));
    events.interrupt(20, InterruptRow { line: 2, status: 0x100 });
    events.submit(
        30,
        SubmitRow {
            head_va: VA,
            address_space: 0,
            slot: 1,
        },
    );
    events.mark(40, "a note");
    let mut memory = MemoryBuilder::new();
    let mut frames = Vec::new();
    let page_of = |bytes: &[u8]| {
        let mut page = [0; 4096];
        page.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        page
    };
    for (at, entries) in tables() {
        let bytes: Vec<u8> = entries.iter().flat_map(|e| e.to_le_bytes()).collect();
        frames.push((at >> 12, memory.add_page(&page_of(&bytes)), FrameRole::Table));
    }
    frames.push((PAGE >> 12, memory.add_page(&page_of(&job_page())), FrameRole::Data));
    memory.add_snapshot(0, frames);
    let facts = Facts {
        spaces: vec![Space {
            name: "gpu".into(),
            kind: SpaceKind::Registers,
            bytes: 0x4000,
        }],
        address_spaces: vec![AddressSpace {
            number: 0,
            format: MmuFormat::Aarch64_4k,
            root: PhysAddr(TABLES[0]),
            memattr: 0,
            transcfg: 6,
        }],
        source_pages: 1,
        ..Facts::default()
    };
    Recording {
        facts,
        events: events.finish(),
        memory: memory.finish(),
        ..Recording::default()
    }
}

/// One action of every kind, as a boot and a job would have them.
fn every_action() -> Vec<Action> {
    let (space, width) = (0, 4);
    vec![
        Action::Read {
            event: 0,
            space,
            offset: 0,
            width,
            class: ReadClass::Equal,
            expected: 0x60a0_0002,
        },
        Action::Write {
            event: 1,
            space,
            offset: 0x30,
            width,
            value: 1,
        },
        Action::WaitInterrupt {
            event: 2,
            lines: 4,
            limit_ns: 1_000_000,
        },
        Action::Read {
            event: 2,
            space,
            offset: 0x2c,
            width,
            class: ReadClass::Masked(0x100),
            expected: 0x100,
        },
        Action::Read {
            event: 3,
            space,
            offset: 0x38,
            width,
            class: ReadClass::Feeds(0),
            expected: 7,
        },
        Action::WriteSlot {
            event: 4,
            space,
            offset: 0x18f0,
            width,
            slot: 0,
        },
        Action::Read {
            event: 5,
            space,
            offset: 0x90,
            width,
            class: ReadClass::Any,
            expected: 9,
        },
        Action::Until {
            event: 6,
            reads: 12,
            space,
            offset: 0x28,
            width,
            mask: 1,
            expected: 0,
            limit_ns: 100_000,
        },
        Action::Pause { event: 18, ns: 1_000 },
        Action::Write {
            event: 20,
            space: 1,
            offset: 0x1000,
            width: 8,
            value: 0x1122_3344_5566_7788,
        },
    ]
}

fn body(actions: &[Action]) -> Vec<u8> {
    let mut out = vec![0; actions.len() * MAX_ACTION_BYTES];
    let mut encoder = Encoder::new(&mut out);
    let sound = actions.iter().all(|a| encoder.push(a).is_ok());
    let used = if sound { encoder.len() } else { 0 };
    out.truncate(used);
    out
}

fn plan(body: &[u8]) -> Plan {
    let base = PhysAddr(0x1_0000_0000);
    Plan {
        version: PLAN_VERSION,
        title: "seed".into(),
        gpu_id: 0x60a0_0002,
        register_map: "mali-jm".into(),
        arena: Arena { base, pages: 1 << 20 },
        pages: vec![PlanPage {
            frame: base.frame(),
            digest: zero_digest(),
            role: FrameRole::Table,
        }],
        used_pages: 2,
        spaces: vec![PlanSpace {
            number: 0,
            format: MmuFormat::Aarch64_4k,
            root: base,
            root_register: base.0,
        }],
        outputs: vec![PlanBuffer {
            name: "output".into(),
            va: GpuVa(0x10_0000),
            bytes: 64,
            element: ElementType::F32,
            space: 0,
        }],
        jobs: vec![PlanJob {
            submit_event: 4,
            done_event: Some(6),
            head_va: GpuVa(0x10_1000),
            slot: 1,
        }],
        rewrites: vec![Rewrite {
            kind: RewriteKind::FlushId,
            event: Some(4),
            detail: "from event 3".into(),
        }],
        reads: ReadClasses {
            equal: 1,
            masked: 1,
            until: 12,
            feeds: 1,
            any: 1,
        },
        interrupts: 1,
        actions: every_action().len() as u64,
        budgets: Budgets::default(),
        allowed: Vec::new(),
        buffers: Vec::new(),
        body: body.to_vec(),
    }
}
