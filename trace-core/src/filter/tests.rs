//! Tests of the filter language: its errors, its completion, and the scan against a naive evaluator.

mod complete;
mod language;
mod naive;
mod property;

use super::{Derived, Filter, Interrupt, JobBounds, Query};
use crate::progress::Progress;
use crate::recording::{
    Access, DmaMapRow, EventsBuilder, Hardware, HostWriteRow, InterruptRow, PciFunction, Recording, Space, SpaceKind,
    SubmitRow, UndecodedRow,
};
use crate::{BusAddr, GpuVa, PhysAddr, RegOffset};

/// A Mali-G71: 0x6000 in the upper half of its id register.
const G71: u32 = 0x6000_0000;

fn access(write: bool, offset: u32, value: u64) -> Access {
    Access {
        space: 0,
        write,
        offset: RegOffset::new(offset),
        width: 4,
        value,
    }
}

fn recording(b: EventsBuilder) -> Recording {
    let space = |name: &str, kind| Space {
        name: name.into(),
        kind,
        bytes: 1 << 16,
    };
    let mut r = Recording {
        events: b.finish(),
        ..Recording::default()
    };
    r.metadata.identity.gpu_id = G71;
    r.metadata.spaces = vec![
        space("gpu", SpaceKind::Registers),
        space("bar1", SpaceKind::Framebuffer),
    ];
    r
}

/// Creates an event of every kind and two jobs.
fn sample() -> (Recording, Derived) {
    let mut b = EventsBuilder::new();
    b.mark(5, "begin"); // 0
    b.access(10, 1, access(false, 0x0, 0x6000_0000)); // 1: GPU_ID
    b.access(1_500, 1, access(true, 0x1858 + 0x80, 0x8_7b00)); // 2: JS1_CONFIG_NEXT
    b.access(2_000, 2, access(true, 0x1860 + 0x80, 1)); // 3: JS1_COMMAND_NEXT, submits job 0
    b.interrupt(3_000, InterruptRow { line: 0, status: 0x2 }); // 4
    b.access(4_000, 2, access(false, 0x100c, 0x2)); // 5: JOB_IRQ_STATUS
    b.access(5_000_000, 1, access(true, 0x1860 + 0x80, 1)); // 6: submits job 1
    b.submit(
        5_000_100,
        SubmitRow {
            head_va: GpuVa::new(0xae0c_3000),
            address_space: 0,
            slot: 1,
        },
    ); // 7
    b.host_write(
        6_000_000,
        3,
        HostWriteRow {
            at: PhysAddr::new(0x1000),
            bytes: 64,
            page: 0,
        },
    ); // 8
    b.undecoded(
        7_000_000,
        1,
        1,
        UndecodedRow::from_access(RegOffset::new(0x20), true, 4),
    ); // 9
    b.dma_map(
        8_000_000,
        1,
        DmaMapRow {
            bus: BusAddr::new(0x8000),
            bytes: 4096,
            kind: 1,
            reserved: 0,
        },
    ); // 10
    b.access(2_000_000_000, 1, access(true, 0x1844 + 0x80, 0x1)); // 11: JS1_HEAD_NEXT_HI
    b.access(
        2_000_000_001,
        1,
        Access {
            space: 1,
            ..access(true, 0x1860 + 0x80, 1)
        },
    ); // 12: the same offset in another space
    let derived = Derived {
        jobs: vec![
            JobBounds {
                slot: 1,
                submit: 3,
                done: Some(4),
                head_va: GpuVa::new(0x7000),
            },
            JobBounds {
                slot: 1,
                submit: 6,
                done: None,
                head_va: GpuVa::new(0x9000),
            },
        ],
        polls: vec![(1, 2)],
        interrupts: vec![
            Interrupt {
                event: 4,
                line: 0,
                status: 2,
            },
            Interrupt {
                event: 5,
                line: 1,
                status: 0x10,
            },
        ],
        inputs: Vec::new(),
    };
    (recording(b), derived)
}

fn filter(text: &str, (recording, derived): &(Recording, Derived)) -> Filter {
    let query = Query::parse(text).unwrap_or_else(|e| panic!("{text}: {e}\n{}", e.caret(text, "")));
    let filter = query.compile(recording, Some(derived));
    filter.unwrap_or_else(|e| panic!("{text}: {e}\n{}", e.caret(text, "")))
}

/// Creates accesses of many widths to a virtio device on PCI, whose registers have 1 to 8 bytes.
fn with_many_widths() -> (Recording, Derived) {
    let mut b = EventsBuilder::new();
    for (offset, width, value) in [
        (0x20, 8, 0x1_0000_2000), // 0: QUEUE_DESC, both halves
        (0x20, 4, 0x2000),        // 1: QUEUE_DESC_LO
        (0x24, 4, 0x1),           // 2: QUEUE_DESC_HI
        (0x14, 1, 0xf),           // 3: DEVICE_STATUS
        (0x14, 4, 0x0003_000f),   // 4: DEVICE_STATUS, CONFIG_GENERATION, QUEUE_SELECT
        (0x20, 1, 0x20),          // 5: QUEUE_DESC_LO[7:0]
        (0x16, 2, 0x3),           // 6: QUEUE_SELECT
        (0x1c, 2, 0x1),           // 7: QUEUE_ENABLE
        (0x3000_0000, 4, 0),      // 8: far outside
    ] {
        b.access(
            0,
            1,
            Access {
                space: 1,
                write: true,
                offset: RegOffset::new(offset),
                width,
                value,
            },
        );
    }
    let mut r = recording(b);
    virtio(&mut r);
    (r, Derived::default())
}

/// Turns a recording into one of a virtio graphics device, with its registers in space 1.
fn virtio(r: &mut Recording) {
    r.metadata.identity.gpu_id = 0;
    r.metadata.spaces[1].name = "bar4".into();
    r.metadata.spaces[1].kind = SpaceKind::Registers;
    r.set_hardware(&Hardware::Pci(PciFunction {
        vendor: 0x1af4,
        device: 0x1050,
        ..PciFunction::default()
    }));
}

/// Returns the events that pass, found in every available way.
fn find_events(text: &str, on: &(Recording, Derived)) -> Vec<u64> {
    let f = filter(text, on);
    let events = &on.0.events;
    let selected = f.select(events, &Progress::new()).unwrap();
    let all: Vec<u64> = selected.iter().collect();
    let single: Vec<u64> = (0..events.len() as u64).filter(|e| f.is_match(events, *e)).collect();
    assert_eq!(all, single, "{text}: scan and single events");
    let naive = naive::Naive {
        recording: &on.0,
        derived: &on.1,
        references: std::cell::RefCell::default(),
    };
    let query = Query::parse(text).unwrap();
    let plain: Vec<u64> = (0..events.len() as u64).filter(|e| naive.passes(&query, *e)).collect();
    assert_eq!(all, plain, "{text}: scan and naive");
    all
}

/// Returns the error of a filter, with the line that points to it.
fn parse_error(text: &str) -> String {
    let on = sample();
    let e = match Query::parse(text) {
        Err(e) => e,
        Ok(q) => match q.compile(&on.0, Some(&on.1)) {
            Err(e) => e,
            Ok(_) => panic!("{text} is accepted"),
        },
    };
    assert!(
        text.is_char_boundary(e.span.start) && text.is_char_boundary(e.span.end),
        "{text}"
    );
    format!("{e}\n{}", e.caret(text, ""))
}
