//! Tests of outputs that a driver trace without calls has.

use crate::{ChannelOptions, NvidiaReplayDevice, compile};
use nvidia_client::steps::{Step, Steps};
use replay_engine::device::DeviceInfo;
use replay_engine::plan::{Edits, Plan, RewriteKind};
use trace_core::progress::Progress;
use trace_core::recording::{
    CallRow, Clock, DriverTraceMetadata, EventsBuilder, Identity, MemoryBuilder, Metadata, ObjectKind, ObjectRow, Page,
    Recording, RingEntryRow, TraceKind,
};
use trace_core::{GpuVa, PAGE_SIZE};

const CLIENT: u32 = 1;
const SPACE: u32 = 2;
const CHANNEL: u32 = 3;
const PUSH_BUFFERS: u64 = 0x2_0080_0000;
pub(super) const VIDEO: u64 = 0x2_0100_0000;
pub(super) const SYSTEM: u64 = 0x2_0200_0000;
const BYTES: u64 = 1 << 20;

/// Returns the header of consecutive methods of the copy engine, with their values.
fn methods(method: u32, values: &[u32]) -> Vec<u32> {
    let mut words = vec![1 << 29 | (values.len() as u32) << 16 | 4 << 13 | method >> 2];
    words.extend_from_slice(values);
    words
}

/// Returns the words of a copy of one line.
pub(super) fn copy(from: u64, to: u64, bytes: u64) -> Vec<u32> {
    let mut words = methods(0x400, &[(from >> 32) as u32, from as u32, (to >> 32) as u32, to as u32]);
    words.extend(methods(0x418, &[bytes as u32, 1]));
    words.extend(methods(0x300, &[0x182]));
    words
}

/// Returns a driver trace with these submissions.
pub(super) fn record(submissions: &[Vec<u32>]) -> Recording {
    record_with_page(submissions, None)
}

/// Returns a driver trace with these submissions, after a request for the page of the compute scheduler.
fn record_with_page(submissions: &[Vec<u32>], page: Option<u64>) -> Recording {
    let (mut events, mut memory) = (EventsBuilder::new(), MemoryBuilder::new());
    let row = |kind, handle, parent, class| ObjectRow::create(CLIENT, kind, handle, parent, class);
    let mut rows = vec![
        row(ObjectKind::Client, CLIENT, 0, 0x41),
        row(ObjectKind::AddressSpace, SPACE, CLIENT, 0x90f1),
        row(ObjectKind::Channel, CHANNEL, CLIENT, 0xc86f),
        row(ObjectKind::Engine, 4, CHANNEL, 0xcbc0),
        row(ObjectKind::Engine, 5, CHANNEL, 0xc8b5),
    ];
    for (handle, va, flags) in [
        (6, PUSH_BUFFERS, ObjectRow::HOST_MEMORY),
        (7, VIDEO, ObjectRow::VIDEO_MEMORY),
        (8, SYSTEM, ObjectRow::HOST_MEMORY),
    ] {
        let buffer = ObjectRow {
            bytes: 8 * BYTES,
            flags,
            ..row(ObjectKind::Buffer, handle, CLIENT, 0)
        };
        rows.push(buffer);
        rows.push(buffer.mapped_at(GpuVa::new(va), SPACE));
    }
    for row in rows {
        events.object(events.len() as u64, 0, row);
    }
    if let Some(page) = page {
        let argument = [page, PAGE_SIZE as u64].map(u64::to_le_bytes).concat();
        let head = [0x41u64.to_le_bytes(), (argument.len() as u64).to_le_bytes()].concat();
        let stored = [head, argument.clone(), argument].concat();
        let row = CallRow {
            arguments_at: events.call_bytes(&stored),
            arguments: stored.len() as u32,
            ..CallRow::default()
        };
        events.call(events.len() as u64, 0, row);
    }
    for (number, words) in (0..).zip(submissions) {
        let mut page: Page = [0; PAGE_SIZE];
        for (to, word) in page.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        let id = memory.add_page(&page).0;
        let entry = RingEntryRow {
            va: GpuVa::new(PUSH_BUFFERS + number * PAGE_SIZE as u64),
            bytes: words.len() as u64 * 4,
            pages_at: events.call_pages(&[id]),
            client: CLIENT,
            channel: CHANNEL,
            index: number as u32,
            ..RingEntryRow::default()
        };
        events.ring_entry(events.len() as u64, 0, entry);
    }
    Recording {
        metadata: Metadata {
            identity: Identity {
                clock: Clock::Virtual,
                ..Identity::default()
            },
            kind: TraceKind::Driver(DriverTraceMetadata {
                driver_version: "580.159.04".to_owned(),
                has_arguments: true,
                names: vec!["UVM_MAP_DYNAMIC_PARALLELISM_REGION".to_owned()],
                ..DriverTraceMetadata::default()
            }),
            ..Metadata::default()
        },
        events: events.finish(),
        memory: memory.finish(),
        ..Recording::default()
    }
}

/// Returns the description of a GPU.
pub(super) fn device() -> DeviceInfo {
    NvidiaReplayDevice::describe(0, "NVIDIA H100")
}

fn plan(recording: &Recording) -> Plan {
    let options = ChannelOptions::default();
    let compiled = compile(recording, &Edits::default(), &device(), &options, &Progress::new());
    compiled.unwrap().plan
}

/// Returns the outputs of the plan of these submissions: name, address, bytes.
fn outputs(submissions: &[Vec<u32>]) -> Vec<(String, u64, u64)> {
    let plan = plan(&record(submissions));
    let outputs = plan.outputs.iter();
    outputs.map(|o| (o.name.clone(), o.va.get(), o.bytes)).collect()
}

/// CUDA's driver copies large memory through a small one of its own, piece by piece.
#[test]
fn pieces_of_a_copy_to_the_host_are_one_output() {
    let pieces: Vec<Vec<u32>> = (0..3).map(|n| copy(VIDEO + n * BYTES, SYSTEM, BYTES)).collect();
    assert_eq!(outputs(&pieces), [("out0".to_owned(), VIDEO, 3 * BYTES)]);
    let together = pieces.concat();
    assert_eq!(outputs(&[together]), [("out0".to_owned(), VIDEO, 3 * BYTES)]);
}

#[test]
fn work_between_two_copies_to_the_host_divides_their_outputs() {
    let leave = |n: u64| copy(VIDEO + n * BYTES, SYSTEM, BYTES);
    let change = copy(VIDEO + 4 * BYTES, VIDEO, 16);
    let expected = [
        ("out0".to_owned(), VIDEO, BYTES),
        ("out1".to_owned(), VIDEO + BYTES, BYTES),
    ];
    assert_eq!(outputs(&[leave(0), change, leave(1)]), expected);
    // Memory elsewhere is another output.
    let apart = [
        ("out0".to_owned(), VIDEO, BYTES),
        ("out1".to_owned(), VIDEO + 2 * BYTES, BYTES),
    ];
    assert_eq!(outputs(&[leave(0), leave(2)]), apart);
}

/// Kernels of a graph store messages for the compute scheduler in a page that is no memory.
#[test]
fn the_page_of_the_scheduler_is_mapped_apart_from_memory() {
    const PAGE: u64 = 0x7f19_22e0_0000;
    let work = [copy(VIDEO, SYSTEM, 16)];
    let found = |page: u64| {
        let plan = plan(&record_with_page(&work, Some(page)));
        let body = &plan.channel().unwrap().body;
        let steps: Vec<Step<'_>> = Steps::new(body).map(Result::unwrap).collect();
        let pages = steps.iter().filter_map(|step| match step {
            Step::MapScheduler { va } => Some(*va),
            _ => None,
        });
        let pages: Vec<u64> = pages.collect();
        let has_memory = |va: u64| {
            steps
                .iter()
                .any(|step| matches!(step, Step::Map { va: first, bytes, .. } if (*first..first + bytes).contains(&va)))
        };
        let left_out = plan.rewrites.iter().filter(|r| r.kind == RewriteKind::LeftOut);
        (pages, has_memory(page), left_out.count())
    };
    assert_eq!(found(PAGE), (vec![PAGE], false, 0));
    // Memory of the program has the address.
    assert_eq!(found(VIDEO + 0x1000), (vec![], true, 1));
}
