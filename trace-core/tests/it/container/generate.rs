//! Generates recordings from a seed. The same seed gives the same recording.

use std::sync::Arc;
use trace_core::finding::{Finding, FindingKind};
use trace_core::recording::{
    Access, AddressSpace, AllocationKind, AllocationRow, AppliedEdit, Buffer, BufferRole, CALL_ASYNC, CALL_CAPTURED,
    CALL_OF_GRAPH, CallRow, Capture, ChainReport, Clock, CopyRow, Cut, DmaKind, DmaMapRow, ElementType, EventsBuilder,
    FillRow, FrameRole, Hardware, HostWriteRow, Identity, InterruptRow, LaunchRow, LostEvents, MemoryBuilder, Metadata,
    MmuFormat, NO_CONTENT, ObjectRow, OrderKind, OrderRow, PageRun, PlatformDevice, PlatformWindow, ProcessEntry,
    ProcessIndex, RecordedRange, Region, RegisterTraceMetadata, RingEntryRow, SaveReason, SavedMemoryRow, Snapshot,
    Space, SpaceKind, SubmitRow, TraceKind, UndecodedRow,
};
use trace_core::{BusAddr, GpuVa, PAGE_SIZE, PhysAddr, Recording, RegOffset};

/// A small random number generator, so that the tests need no crate for it.
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }
}

pub fn metadata() -> Metadata {
    Metadata {
        identity: Identity {
            gpu_id: 0x6000_0011,
            gpu_name: "Mali-G71".to_owned(),
            driver: "r9p0".to_owned(),
            board: "a board".to_owned(),
            tool: "a test".to_owned(),
            source: "test".to_owned(),
            when: "2026-01-02T03:04:05Z".to_owned(),
            clock: Clock::Monotonic,
        },
        spaces: vec![Space {
            name: "gpu".to_owned(),
            kind: SpaceKind::Registers,
            bytes: 0x4000,
        }],
        address_spaces: vec![AddressSpace {
            number: 0,
            format: MmuFormat::Aarch64_4k,
            root: PhysAddr::new(0x1000),
            memattr: 0x4c,
            transcfg: 6,
        }],
        buffers: vec![Buffer {
            name: "input".to_owned(),
            role: BufferRole::Input,
            address_space: 0,
            va: GpuVa::new(0x10_0000),
            bytes: 64,
            element: ElementType::F32,
        }],
        regions: vec![Region {
            address_space: 0,
            start: GpuVa::new(0x10_0000),
            end: GpuVa::new(0x10_2000),
            committed_pages: 2,
            flags: 0xf,
            has_content: true,
        }],
        lost: vec![LostEvents {
            before_event: 3,
            count: Some(2),
            reason: "the ring was full".to_owned(),
        }],
        findings: vec![Finding::new(FindingKind::LostEvents, "event 3", "two are missing").at_event(3)],
        source_pages: 4,
        source_zero_pages: 1,
        ..Metadata::default()
    }
}

/// Returns the same metadata with every record of a register trace.
pub fn metadata_with_records() -> Metadata {
    Metadata {
        kind: TraceKind::Register(RegisterTraceMetadata {
            hardware: Some(Hardware::Platform(PlatformDevice {
                node: "/gpu@ff9a0000".to_owned(),
                compatible: vec!["vendor,gpu".to_owned()],
                windows: vec![PlatformWindow {
                    name: "gpu".to_owned(),
                    base: PhysAddr::new(0xff9a_0000),
                    bytes: 0x4000,
                }],
                irqs: vec![14],
            })),
            chain_reports: vec![ChainReport {
                submit_event: 2,
                status: 1,
                computed: Some(true),
                reason: None,
            }],
            recorded_ranges: vec![RecordedRange {
                at: PhysAddr::new(0x1000),
                bytes: 0x2000,
                recorded_at: PhysAddr::new(0x10_0000),
            }],
            job_queues: Vec::new(),
            screen_at_end: Some(b"P6\n1 1\n255\nabc".to_vec()),
        }),
        capture: Some(Capture {
            method: "mmiotrace".to_owned(),
            kernel: "6.1.0".to_owned(),
            architecture: "x86_64".to_owned(),
            driver: "a driver".to_owned(),
            command: vec!["true".to_owned()],
            exit_code: Some(0),
            cut: None,
            lost: 2,
            unobserved: vec!["interrupts".to_owned()],
        }),
        buffer_shapes: [("input".to_owned(), vec![4, 4])].into(),
        cuts: vec![Cut {
            source: "whole.kine".to_owned(),
            events: 20,
            jobs: 2,
            kept_jobs: vec![[1, 1]],
            kept_events: None,
            supplied: 0,
        }],
        applied_edits: vec![AppliedEdit {
            buffer: "input".to_owned(),
            bytes: 64,
            source: "before.kine".to_owned(),
        }],
        processes: Some(ProcessIndex {
            kinescope_processes: 1,
            processes: vec![ProcessEntry {
                file: "a.kine".into(),
                process: 7,
                parent: 6,
                command: vec!["true".to_owned()],
                device: "a device".to_owned(),
                events: 6,
                launches: 0,
                complete: true,
            }],
        }),
        ..metadata()
    }
}

/// A metadata record: tag, version, body.
pub type Record = (u32, u32, Vec<u8>);

/// Splits the records of a section `metadata`.
pub fn split_records(mut bytes: &[u8]) -> Vec<Record> {
    let mut all = Vec::new();
    while let Some((head, rest)) = bytes.split_at_checked(16) {
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap());
        let (body, rest) = rest.split_at(word(8) as usize);
        all.push((word(0), word(4), body.to_vec()));
        bytes = rest;
    }
    all
}

/// Returns the records of a section `metadata` that holds the metadata.
pub fn records(metadata: &Metadata) -> Vec<Record> {
    split_records(&trace_core::container::encode_metadata(metadata).unwrap())
}

/// Adds a call of a random kind.
fn call(b: &mut EventsBuilder, n: &mut Numbers, time: u64) {
    let thread = 78;
    match n.below(6) {
        0 => {
            let bytes: Vec<u8> = (0..n.below(40)).map(|v| v as u8).collect();
            let row = LaunchRow {
                arguments_at: b.call_bytes(&bytes),
                arguments: bytes.len() as u32,
                function: n.below(5) as u32,
                stream: n.below(3) as u32,
                grid: [1 + n.below(9) as u32, 1, 2],
                block: [32, 1 + n.below(4) as u32, 1],
                cluster: [0, 0, n.below(2) as u32],
                shared: n.below(1 << 16) as u32,
                flags: LaunchRow::COOPERATIVE,
                result: n.below(2) as u32,
                took: n.next() as u32,
            };
            b.launch(time, thread, row);
        }
        1 => {
            let mut row = CopyRow {
                to: n.next() >> 20,
                from: n.next() >> 20,
                bytes: n.below(5000),
                rows: 1 + n.below(2),
                to_pitch: 8192,
                from_pitch: 4096,
                pages_at: NO_CONTENT,
                kind: 1 + n.below(4) as u32,
                stream: 1,
                flags: CALL_ASYNC | CALL_CAPTURED,
                result: 0,
                took: 9,
                reserved: 0,
            };
            if n.below(3) > 0 {
                let pages: Vec<u32> = (0..row.pages().unwrap()).map(|_| n.below(3) as u32).collect();
                row.pages_at = b.call_pages(&pages);
            }
            b.copy(time, thread, row);
        }
        2 => {
            let row = FillRow {
                to: GpuVa::new(n.next() >> 20),
                elements: n.below(1 << 30),
                rows: 1,
                pitch: 0,
                value: n.next() as u32,
                element: 4,
                flags: CALL_OF_GRAPH,
                ..FillRow::default()
            };
            b.fill(time, thread, row);
        }
        3 => {
            let row = OrderRow {
                kind: OrderKind::StreamWaits as u32,
                stream: n.below(3) as u32,
                event: OrderRow::NONE,
                ..OrderRow::default()
            };
            b.order(time, thread, row);
        }
        4 => {
            let row = AllocationRow {
                at: GpuVa::new(n.next() >> 20),
                bytes: n.below(1 << 40),
                kind: AllocationKind::Take as u32,
                ..AllocationRow::default()
            };
            b.allocation(time, thread, row);
        }
        _ => {
            let row = CallRow {
                arguments_at: b.call_bytes(&[1, 2, 3]),
                arguments: 3,
                name: n.below(9) as u32,
                about: u32::MAX,
                ..CallRow::default()
            };
            b.call(time, thread, row);
        }
    }
}

/// Adds an event of a driver trace, of a random kind.
fn driver_event(b: &mut EventsBuilder, n: &mut Numbers, time: u64) {
    let thread = 79;
    match n.below(3) {
        0 => {
            let row = ObjectRow {
                bytes: n.below(1 << 30),
                address: GpuVa::new(n.next() >> 16),
                handle: n.next() as u32,
                class: n.below(1 << 16) as u32,
                action: 1 + n.below(4) as u32,
                kind: 1 + n.below(12) as u32,
                flags: ObjectRow::HOST_MEMORY,
                ..ObjectRow::default()
            };
            b.object(time, thread, row);
        }
        1 => {
            let mut row = RingEntryRow {
                entry: n.next(),
                va: GpuVa::new(n.next() >> 20),
                bytes: n.below(9000),
                pages_at: NO_CONTENT,
                channel: n.below(4) as u32,
                index: n.below(1024) as u32,
                ..RingEntryRow::default()
            };
            if n.below(3) > 0 {
                let pages: Vec<u32> = (0..row.stored().pages().unwrap()).map(|_| n.below(3) as u32).collect();
                row.pages_at = b.call_pages(&pages);
            }
            b.ring_entry(time, thread, row);
        }
        _ => {
            let row = SavedMemoryRow {
                va: GpuVa::new(n.next() >> 20),
                bytes: n.below(1 << 20),
                pages_at: NO_CONTENT,
                reason: SaveReason::Start as u32,
                ..SavedMemoryRow::default()
            };
            b.saved_memory(time, thread, row);
        }
    }
}

/// Returns a recording with events of every kind, pages, snapshots with parents, and extras.
pub fn recording(seed: u64, events: usize) -> Recording {
    let mut n = Numbers::new(seed);
    let mut b = EventsBuilder::new();
    for i in 0..events {
        let time = 1000 * i as u64 + n.below(900);
        match n.below(12) {
            0 => b.interrupt(
                time,
                InterruptRow {
                    line: n.below(3) as u32,
                    status: n.next() as u32,
                },
            ),
            1 => b.mark(time, format!("mark {i} é")),
            2 => b.submit(
                time,
                SubmitRow {
                    head_va: GpuVa::new(n.next()),
                    address_space: 0,
                    slot: n.below(3) as u32,
                },
            ),
            3 => {
                let in_page = n.below(4000);
                let row = HostWriteRow {
                    at: PhysAddr::new(0x64000 + in_page),
                    bytes: 1 + n.below(4096 - in_page) as u32,
                    page: n.below(3) as u32,
                };
                b.host_write(time, 77, row);
            }
            4 => b.undecoded(
                time,
                77,
                0,
                UndecodedRow::from_instruction(RegOffset::new(n.below(0x4000) as u32), 0xf3_a5f6),
            ),
            5 => {
                let row = DmaMapRow {
                    bus: BusAddr::new(n.next()),
                    bytes: n.below(1 << 20),
                    kind: DmaKind::Mapped as u32,
                    reserved: 0,
                };
                b.dma_map(time, 77, row);
            }
            6 | 7 => call(&mut b, &mut n, time),
            8 => driver_event(&mut b, &mut n, time),
            _ => {
                let access = Access {
                    space: 0,
                    write: n.below(2) == 0,
                    offset: RegOffset::new((n.below(0x1000) * 4) as u32),
                    width: 4,
                    value: n.next() & 0xffff_ffff,
                };
                b.access(time, 77, access);
            }
        }
    }
    let mut m = MemoryBuilder::new();
    let mut page = |v: u64| {
        let mut p = [0u8; PAGE_SIZE];
        for (i, c) in p.chunks_exact_mut(8).enumerate() {
            c.copy_from_slice(&(v * (i as u64 % 61)).to_le_bytes());
        }
        m.add_page(&p)
    };
    let ids: Vec<_> = [0, 3, 5, 3, 7 + seed].into_iter().map(&mut page).collect();
    m.add_snapshot(
        0,
        ids.iter()
            .enumerate()
            .map(|(i, id)| (100 + i as u64, *id, FrameRole::Data)),
    );
    let mut memory = m.finish();
    let mut snapshots = (*memory.snapshots).clone();
    let run = PageRun {
        first_frame: 101,
        count: 2,
        first_page: ids[2],
        repeat: true,
        role: FrameRole::Table,
    };
    snapshots.push(Snapshot {
        event: events as u64 / 2,
        parent: Some(0),
        runs: vec![run],
    });
    memory.snapshots = Arc::new(snapshots);
    let mut r = Recording {
        metadata: metadata_with_records(),
        events: b.finish(),
        memory,
        ..Recording::default()
    };
    r.extras
        .insert("outcome".to_owned(), (0..seed % 500).map(|v| v as u8).collect());
    r
}

/// Checks that all data of two recordings are equal.
pub fn assert_same(a: &Recording, b: &Recording) {
    assert_eq!(a.metadata, b.metadata);
    assert_eq!(a.extras, b.extras);
    assert_eq!(a.events.len(), b.events.len());
    assert_eq!(a.events.marks, b.events.marks);
    macro_rules! column {
        ($($name:ident),*) => {$(
            assert!(a.events.$name.iter().eq(b.events.$name.iter()), "column {}", stringify!($name));
        )*};
    }
    column!(
        kind,
        space,
        time,
        thread,
        payload,
        offset,
        width,
        value,
        interrupts,
        submits,
        host_writes,
        undecoded,
        dma_maps,
        launches,
        copies,
        fills,
        orders,
        allocations,
        calls,
        objects,
        ring_entries,
        saved_memory,
        call_bytes,
        call_pages
    );
    for i in 0..a.events.len() {
        assert_eq!(a.events.access(i), b.events.access(i), "event {i}");
    }
    assert_eq!(a.memory.snapshots, b.memory.snapshots);
    assert_eq!(a.memory.pages.len(), b.memory.pages.len());
    for i in 0..=a.memory.pages.len() as u32 + 1 {
        let id = trace_core::recording::PageId(i);
        assert_eq!(a.memory.pages.page(id), b.memory.pages.page(id), "page {i}");
        assert_eq!(a.memory.pages.digest(id), b.memory.pages.digest(id), "page {i}");
    }
}
