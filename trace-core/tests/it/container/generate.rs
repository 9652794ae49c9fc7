//! Generates recordings from a seed. The same seed gives the same recording.

use std::sync::Arc;
use trace_core::finding::{Finding, FindingKind};
use trace_core::recording::{
    Access, AddressSpace, AllocationKind, AllocationRow, Buffer, BufferRole, CALL_ASYNC, CALL_CAPTURED, CALL_OF_GRAPH,
    CallRow, Clock, CopyRow, DmaKind, DmaMapRow, ElementType, EventsBuilder, FillRow, FrameRole, HostWriteRow,
    Identity, InterruptRow, LaunchRow, LostEvents, MemoryBuilder, Metadata, MmuFormat, NO_CONTENT, OrderKind, OrderRow,
    PageRun, Region, Snapshot, Space, SpaceKind, SubmitRow, UndecodedRow,
};
use trace_core::{GpuVa, PAGE_SIZE, PhysAddr, Recording};

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
            root: PhysAddr(0x1000),
            memattr: 0x4c,
            transcfg: 6,
        }],
        buffers: vec![Buffer {
            name: "input".to_owned(),
            role: BufferRole::Input,
            address_space: 0,
            va: GpuVa(0x10_0000),
            bytes: 64,
            element: ElementType::F32,
        }],
        regions: vec![Region {
            address_space: 0,
            start: GpuVa(0x10_0000),
            end: GpuVa(0x10_2000),
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
    }
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
                to: n.next() >> 20,
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
                at: n.next() >> 20,
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
                    head_va: n.next(),
                    address_space: 0,
                    slot: n.below(3) as u32,
                },
            ),
            3 => {
                let in_page = n.below(4000);
                let row = HostWriteRow {
                    at: 0x64000 + in_page,
                    bytes: 1 + n.below(4096 - in_page) as u32,
                    page: n.below(3) as u32,
                };
                b.host_write(time, 77, row);
            }
            4 => b.undecoded(
                time,
                77,
                0,
                UndecodedRow::from_instruction(n.below(0x4000) as u32, 0xf3_a5f6),
            ),
            5 => {
                let row = DmaMapRow {
                    bus: n.next(),
                    bytes: n.below(1 << 20),
                    kind: DmaKind::Mapped as u32,
                    reserved: 0,
                };
                b.dma_map(time, 77, row);
            }
            6 | 7 => call(&mut b, &mut n, time),
            _ => {
                let access = Access {
                    space: 0,
                    write: n.below(2) == 0,
                    offset: (n.below(0x1000) * 4) as u32,
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
        metadata: metadata(),
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
