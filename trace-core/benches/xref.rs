//! How long does a search for references take on ten million events, against one pass over their columns?

#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark that cannot start says so")]

use trace_core::check::Submit;
use trace_core::progress::Progress;
use trace_core::recording::{Access, EventsBuilder, HostWriteRow, Recording, Space, SpaceKind};
use trace_core::registers::RegisterMap;
use trace_core::xref::{MAX_REFERENCES, XrefIndex, XrefTarget, find_references};
use trace_core::{GpuVa, PhysAddr, timeline};

fn main() {
    divan::main();
}

/// Events of the recording.
const EVENTS: u64 = 10_000_000;
/// Events from one submit to the next.
const SUBMIT_EVERY: u64 = 1000;
/// Events from one CPU write to the next.
const HOST_WRITE_EVERY: u64 = 100;

/// Accesses of a driver with a submit every thousand events, and CPU writes between them.
fn recording() -> Recording {
    let map = RegisterMap::by_name("mali-jm").unwrap();
    let offset = |name: &str| map.find_by_name(name).unwrap().offset;
    let (head, command, status) = (
        offset("JS1_HEAD_NEXT_LO"),
        offset("JS1_COMMAND_NEXT"),
        offset("JOB_IRQ_RAWSTAT"),
    );
    let mut b = EventsBuilder::new();
    for n in 0..EVENTS {
        if n % HOST_WRITE_EVERY == 50 {
            let row = HostWriteRow {
                at: PhysAddr::new((n % 4096) * 64),
                bytes: 64,
                page: 0,
            };
            b.host_write(n * 10, 1, row);
            continue;
        }
        let (write, offset, value) = match n % SUBMIT_EVERY {
            0 => (true, head, 0x5000 + n % 4096),
            1 => (true, command, 1),
            _ => (false, status, 0),
        };
        b.access(
            n * 10,
            1,
            Access {
                space: 0,
                write,
                offset,
                width: 4,
                value,
            },
        );
    }
    let mut r = Recording {
        events: b.finish(),
        ..Recording::default()
    };
    r.metadata.identity.gpu_id = 0x6000_0000;
    r.metadata.spaces = vec![Space {
        name: "gpu".into(),
        kind: SpaceKind::Registers,
        bytes: 1 << 16,
    }];
    r
}

fn submits(r: &Recording) -> Vec<Submit> {
    let map = RegisterMap::by_name("mali-jm").unwrap();
    let jobs = timeline::derive(r, map, &Progress::new()).unwrap().jobs;
    let submit = |j: &timeline::JobSpan| Submit {
        index: j.index,
        event: j.submit_event,
        head_va: j.head_va,
    };
    jobs.iter().map(submit).collect()
}

#[divan::bench(sample_count = 5)]
fn derive_the_index(b: divan::Bencher<'_, '_>) {
    let r = recording();
    let submits = submits(&r);
    b.bench(|| XrefIndex::new(&r, &submits, &Progress::new()).unwrap());
}

fn search(b: divan::Bencher<'_, '_>, target: XrefTarget) {
    let r = recording();
    let index = XrefIndex::new(&r, &submits(&r), &Progress::new()).unwrap();
    b.bench(|| find_references(&r, &index, target, (u64::MAX, MAX_REFERENCES), &Progress::new()).unwrap());
}

#[divan::bench(sample_count = 5)]
fn bytes_of_gpu_memory(b: divan::Bencher<'_, '_>) {
    search(
        b,
        XrefTarget::Bytes {
            space: 0,
            va: GpuVa::new(0x5000),
            bytes: 64,
        },
    );
}

#[divan::bench(sample_count = 5)]
fn bytes_of_physical_memory(b: divan::Bencher<'_, '_>) {
    search(
        b,
        XrefTarget::Physical {
            at: PhysAddr::new(0x1000),
            bytes: 64,
        },
    );
}

#[divan::bench(sample_count = 5)]
fn a_register(b: divan::Bencher<'_, '_>) {
    let map = RegisterMap::by_name("mali-jm").unwrap();
    let register = map.find_by_name("JS1_COMMAND_NEXT").unwrap().offset;
    search(b, XrefTarget::Register { register, bits: None });
}

/// The measure: the kind of every event, counted once.
#[divan::bench(sample_count = 5)]
fn one_pass_over_the_kinds(b: divan::Bencher<'_, '_>) {
    let r = recording();
    b.bench(|| r.events.kind.iter().filter(|k| *k == 9).count());
}
