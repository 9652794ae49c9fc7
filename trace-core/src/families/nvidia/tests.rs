//! Tests with push buffers that CUDA's driver wrote on an H100: the launches are those that the programs asked for.

use crate::GpuVa;
use crate::PAGE_SIZE;
use crate::driver_trace::{DecodedSubmission, DriverTrace, GpuWork, SubmittedLaunch};
use crate::families::find_family;
use crate::progress::Progress;
use crate::recording::{
    DriverTraceMetadata, EventsBuilder, MemoryBuilder, NO_CONTENT, ObjectAction, ObjectKind, ObjectRow, Recording,
    RingEntryRow, TraceKind,
};
use crate::registers::RegisterMap;
use crate::timeline;

const CLIENT: u32 = 0xc1d0_0021;
const CHANNEL: u32 = 0x5c00_001c;

/// Returns a channel with a compute engine, a buffer of 1 MiB at each address, and a ring entry for each push buffer.
fn recording(buffers: &[u64], push_buffers: &[(u64, &[u8])]) -> Recording {
    let mut b = EventsBuilder::new();
    let mut m = MemoryBuilder::new();
    let object = |kind: ObjectKind, parent, handle, class| ObjectRow {
        action: ObjectAction::Create as u32,
        kind: kind as u32,
        client: CLIENT,
        parent,
        handle,
        class,
        ..ObjectRow::default()
    };
    b.object(0, 1, object(ObjectKind::Channel, 0, CHANNEL, 0xc86f));
    b.object(1, 1, object(ObjectKind::Engine, CHANNEL, 2, 0xcbc0));
    for (n, va) in (0x100u32..).zip(buffers) {
        let buffer = object(ObjectKind::Buffer, 0, n, 0x40);
        b.object(2, 1, buffer);
        let mapping = ObjectRow {
            action: ObjectAction::Map as u32,
            address: GpuVa::new(*va),
            bytes: 1 << 20,
            second: 0,
            ..buffer
        };
        b.object(3, 1, mapping);
    }
    for (index, (va, bytes)) in (0u32..).zip(push_buffers) {
        let va = GpuVa::new(*va);
        let mut padded = vec![0; va.in_page()];
        padded.extend_from_slice(bytes);
        padded.resize(padded.len().next_multiple_of(PAGE_SIZE), 0);
        let pages: Vec<u32> = padded
            .chunks_exact(PAGE_SIZE)
            .map(|p| m.add_page(p.try_into().unwrap()).0)
            .collect();
        let pages_at = b.call_pages(&pages);
        let entry = RingEntryRow {
            va,
            bytes: bytes.len() as u64,
            pages_at,
            client: CLIENT,
            channel: CHANNEL,
            index,
            ..RingEntryRow::default()
        };
        b.ring_entry(100 + u64::from(index), 1, entry);
    }
    let mut r = Recording {
        events: b.finish(),
        memory: m.finish(),
        ..Recording::default()
    };
    r.metadata.kind = TraceKind::Driver(DriverTraceMetadata::default());
    r
}

fn decode(r: &Recording) -> Vec<DecodedSubmission> {
    let trace = DriverTrace::from_recording(r, &Progress::new()).unwrap().unwrap();
    let family = find_family(r);
    assert_eq!(family.name(), "nvidia");
    let mut decoder = family.submission_decoder(r, &trace).unwrap();
    trace.submissions().iter().map(|s| decoder.decode(s)).collect()
}

fn launches(decoded: &DecodedSubmission) -> Vec<&SubmittedLaunch> {
    let launches = decoded.work.iter().filter_map(|w| match w {
        GpuWork::Launch(launch) => Some(&**launch),
        _ => None,
    });
    launches.collect()
}

macro_rules! sample {
    ($name:literal) => {
        include_bytes!(concat!("../../../nvidia-channel/tests/data/h100-launch-", $name, ".pb")).as_slice()
    };
}

#[test]
fn launch_of_vadd_has_the_grid_and_parameters_of_its_source() {
    let first = decode(&recording(&[], &[(0x2_0083_a404, sample!("vadd"))]));
    let parameters = &launches(&first[0])[0].parameters;
    // Without buffers, all words have four bytes. vadd has three pointers and a number.
    let words: Vec<u64> = parameters.iter().map(|p| p.value).collect();
    assert_eq!(words.len(), 7);
    let pointer = |n: usize| words[2 * n] | words[2 * n + 1] << 32;
    let r = recording(&[pointer(0) & !0xf_ffff], &[(0x2_0083_a404, sample!("vadd"))]);
    let decoded = &decode(&r)[0];
    assert_eq!(decoded.error, None);
    assert!(decoded.methods.len() > 300, "{}", decoded.methods.len());
    assert!(decoded.methods.iter().all(|m| m.name.is_some() && m.class.is_some()));
    let [launch] = launches(decoded)[..] else {
        panic!("{:?}", decoded.work);
    };
    assert_eq!((launch.grid, launch.block), ([4, 1, 1], [256, 1, 1]));
    let found: Vec<(u32, u32, bool)> = launch
        .parameters
        .iter()
        .map(|p| (p.offset, p.bytes, p.buffer.is_some()))
        .collect();
    assert_eq!(found[0], (0, 8, true), "the first pointer is in the buffer");
    assert_eq!(
        launch.parameters.last().map(|p| (p.offset, p.bytes, p.value)),
        Some((24, 4, 1000))
    );
}

#[test]
fn launches_have_the_dimensions_of_their_sources() {
    let all: [(&[u8], [u32; 3], [u32; 3]); 3] = [
        (sample!("ids"), [2, 3, 4], [8, 4, 2]),
        (sample!("localmem"), [2, 1, 1], [64, 1, 1]),
        (sample!("dynsum"), [1, 1, 1], [128, 1, 1]),
    ];
    let entries: Vec<(u64, &[u8])> = (0u64..)
        .map(|n| 0x2_0083_b000 + n * 0x1000)
        .zip(all.map(|a| a.0))
        .collect();
    for (decoded, (_, grid, block)) in decode(&recording(&[], &entries)).iter().zip(all) {
        let launch = launches(decoded)[0];
        assert_eq!((launch.grid, launch.block), (grid, block));
        assert!(launch.registers > 0 && launch.shared >= 0x400, "{launch:?}");
    }
}

#[test]
fn ring_entries_are_jobs() {
    let r = recording(&[], &[(0x1000, sample!("vadd")), (0x2000, sample!("ids"))]);
    let map = RegisterMap::for_jobs_of(&r).unwrap();
    let timeline = timeline::derive(&r, map, &Progress::new()).unwrap();
    let jobs: Vec<_> = timeline
        .jobs
        .iter()
        .map(|j| (j.slot, j.submit_event, j.head_va.get()))
        .collect();
    assert_eq!(jobs, [(0, 2, 0x1000), (0, 3, 0x2000)]);
}

#[test]
fn commands_that_the_recording_lacks_are_an_error() {
    let mut r = recording(&[], &[]);
    let mut b = EventsBuilder::new();
    let entry = RingEntryRow {
        va: GpuVa::new(0x1000),
        bytes: 64,
        pages_at: NO_CONTENT,
        ..RingEntryRow::default()
    };
    b.ring_entry(0, 1, entry);
    let damaged = RingEntryRow { pages_at: 0, ..entry };
    b.ring_entry(1, 1, damaged);
    r.events = b.finish();
    for decoded in decode(&r) {
        assert!(decoded.methods.is_empty() && decoded.error.is_some());
    }
}
