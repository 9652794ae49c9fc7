//! Tests of derived data of synthetic recordings, and of the published ones if they are present.

use super::*;
use crate::GpuVa;
use crate::progress::Progress;
use crate::recording::InterruptLine;
use crate::recording::{Access, EventsBuilder, InterruptRow, Recording, Space, SpaceKind, SubmitRow};
use crate::registers::RegisterMap;

fn map() -> &'static RegisterMap {
    RegisterMap::by_name("mali-jm").unwrap()
}

struct Script {
    events: EventsBuilder,
    time: u64,
}

impl Script {
    fn new() -> Self {
        Self {
            events: EventsBuilder::new(),
            time: 0,
        }
    }

    fn access(&mut self, write: bool, name: &str, value: u64) -> &mut Self {
        let offset = map().find_by_name(name).unwrap_or_else(|| panic!("no {name}")).offset;
        self.time += 1000;
        self.events.access(
            self.time,
            1,
            Access {
                space: 0,
                write,
                offset,
                width: 4,
                value,
            },
        );
        self
    }

    fn r(&mut self, name: &str, value: u64) -> &mut Self {
        self.access(false, name, value)
    }

    fn w(&mut self, name: &str, value: u64) -> &mut Self {
        self.access(true, name, value)
    }

    fn job(&mut self, head: u64, status: u64) -> &mut Self {
        self.w("JS1_HEAD_NEXT_LO", head & 0xffff_ffff)
            .w("JS1_HEAD_NEXT_HI", head >> 32)
            .w("JS1_COMMAND_NEXT", 1);
        self.r("JOB_IRQ_STATUS", status)
            .w("JOB_IRQ_CLEAR", status)
            .r("JOB_IRQ_RAWSTAT", 0)
    }

    fn derive(&mut self) -> Timeline {
        let mut recording = Recording {
            events: std::mem::take(&mut self.events).finish(),
            ..Recording::default()
        };
        recording.metadata.spaces.push(Space {
            name: "gpu".into(),
            kind: SpaceKind::Registers,
            bytes: 0x4000,
        });
        derive(&recording, map(), &Progress::new()).unwrap()
    }
}

/// A driver that maps memory during the run has no setup between jobs, so all jobs belong to the program.
#[test]
fn jobs_between_mappings_belong_to_the_compute_phase() {
    let map_more = |s: &mut Script| {
        s.w("AS0_COMMAND", 2).w("AS0_COMMAND", 4).r("AS0_STATUS", 0);
    };
    let phase_of = |jobs: &[bool]| {
        let mut s = Script::new();
        s.w("TILER_PWRON_LO", 1)
            .r("GPU_IRQ_STATUS", 0x400)
            .w("GPU_IRQ_CLEAR", 0x400);
        s.w("AS0_TRANSTAB_LO", 0x7).w("AS0_COMMAND", 1);
        for (n, maps) in jobs.iter().enumerate() {
            if *maps {
                map_more(&mut s);
            }
            s.job(0x1000 + 0x40 * n as u64, 2);
        }
        let t = s.derive();
        let compute = t.phases.iter().find(|p| p.name == PhaseName::Compute).unwrap();
        let inside = |j: &&JobSpan| (compute.first..=compute.last).contains(&j.submit_event);
        t.jobs.iter().filter(inside).count()
    };
    // The driver maps memory before the last of four layers.
    assert_eq!(phase_of(&[false, false, false, true]), 4);
    // Every job has its own address space.
    assert_eq!(phase_of(&[true, true]), 2);
    // A few jobs prepare, many compute.
    assert_eq!(phase_of(&[false, true, false, false, false]), 4);
}

#[test]
fn minimal_driver_trace_has_all_four_phases() {
    let mut s = Script::new();
    s.r("GPU_ID", 0x60a0_0002)
        .w("TILER_PWRON_LO", 1)
        .r("GPU_IRQ_STATUS", 0x400)
        .w("GPU_IRQ_CLEAR", 0x400);
    s.r("L2_READY_LO", 1).r("L2_READY_HI", 0).r("L2_READY_LO", 1);
    s.w("AS0_TRANSCFG_LO", 0x4200_0006).w("AS0_COMMAND", 1);
    s.job(0xffff_b8f5_b040, 2);
    s.w("AS0_COMMAND", 5)
        .r("AS0_STATUS", 1)
        .r("AS0_STATUS", 1)
        .r("AS0_STATUS", 0);
    s.job(0x1040, 2).job(0x1080, 0x0002_0000);
    s.w("AS0_TRANSCFG_LO", 0x4200_0001).r("L2_READY_LO", 1);
    let t = s.derive();
    let phases: Vec<_> = t.phases.iter().map(|p| (p.name, p.first, p.last)).collect();
    assert_eq!(
        phases,
        [
            (PhaseName::Boot, 0, 6),
            (PhaseName::Setup, 7, 18),
            (PhaseName::Compute, 19, 30),
            (PhaseName::Teardown, 31, 32)
        ]
    );
    let jobs: Vec<_> = t
        .jobs
        .iter()
        .map(|j| (j.slot, j.head_va.get(), j.submit_event, j.done_event, j.failed))
        .collect();
    assert_eq!(
        jobs,
        [
            (1, 0xffff_b8f5_b040, 11, Some(12), false),
            (1, 0x1040, 21, Some(22), false),
            (1, 0x1080, 27, Some(28), true)
        ]
    );
    let interrupts: Vec<_> = t.interrupts.iter().map(|i| (i.line, i.event, i.last)).collect();
    assert_eq!(
        interrupts,
        [
            (InterruptLine::Gpu, 2, 3),
            (InterruptLine::Job, 12, 14),
            (InterruptLine::Job, 22, 24),
            (InterruptLine::Job, 28, 30)
        ]
    );
    let polls: Vec<_> = t
        .polls
        .iter()
        .map(|p| (p.first, p.last, p.reads, p.value_at_end, p.group))
        .collect();
    assert_eq!(polls, [(4, 6, 3, 1, true), (16, 18, 3, 0, false)]);
}

#[test]
fn interrupt_events_merge_with_their_handlers() {
    let mut s = Script::new();
    s.w("JS1_HEAD_NEXT_LO", 0x40)
        .w("JS1_COMMAND_NEXT", 1)
        .w("JS1_HEAD_NEXT_LO", 0x80)
        .w("JS1_COMMAND_NEXT", 1);
    s.events.interrupt(9000, InterruptRow { line: 0, status: 2 });
    s.r("JOB_IRQ_STATUS", 2).w("JOB_IRQ_CLEAR", 2);
    s.events.interrupt(
        9500,
        InterruptRow {
            line: 0,
            status: 0x2_0000,
        },
    );
    let t = s.derive();
    let interrupts: Vec<_> = t.interrupts.iter().map(|i| (i.event, i.last, i.status)).collect();
    assert_eq!(interrupts, [(4, 6, 2), (7, 7, 0x2_0000)]);
    let jobs: Vec<_> = t
        .jobs
        .iter()
        .map(|j| (j.head_va.get(), j.done_event, j.done_ns, j.failed))
        .collect();
    assert_eq!(
        jobs,
        [(0x40, Some(4), Some(9000), false), (0x80, Some(7), Some(9500), true)]
    );
}

#[test]
fn submits_without_registers_are_jobs() {
    let mut s = Script::new();
    s.events.submit(
        5,
        SubmitRow {
            head_va: GpuVa::new(0x1000),
            address_space: 0,
            slot: 1,
        },
    );
    s.events.interrupt(7, InterruptRow { line: 0, status: 2 });
    s.events.submit(
        8,
        SubmitRow {
            head_va: GpuVa::new(0x2000),
            address_space: 0,
            slot: 300,
        },
    );
    let t = s.derive();
    assert_eq!(t.jobs.len(), 2);
    assert_eq!((t.jobs[0].done_event, t.jobs[1].done_event), (Some(1), None));
}

#[test]
fn gaps_and_block_ends_do_not_change_polls() {
    let mut s = Script::new();
    let n = 200_000u64;
    for i in 0..n {
        s.r("AS0_STATUS", u64::from(i + 1 < n));
    }
    s.time += 50_000_000;
    s.r("AS0_STATUS", 0)
        .r("AS0_STATUS", 7)
        .w("AS0_COMMAND", 1)
        .r("AS0_STATUS", 3);
    let t = s.derive();
    let polls: Vec<_> = t
        .polls
        .iter()
        .map(|p| (p.first, p.last, p.reads, p.value_at_end))
        .collect();
    assert_eq!(polls, [(0, n - 1, n, 0), (n, n + 1, 2, 7)]);
    assert_eq!(
        t.gaps,
        [Gap {
            after_event: n - 1,
            ns: 50_001_000
        }]
    );
}

#[test]
fn an_empty_recording_has_an_empty_timeline() {
    assert_eq!(Script::new().derive(), Timeline::default());
}

#[test]
fn call_lanes_per_stream_have_correct_counts() {
    use crate::recording::{
        AllocationKind, AllocationRow, ApiTraceMetadata, CallEvent, CallRow, CallStream, CopyKind, CopyRow,
        EventsBuilder, FillRow, LaunchRow, OrderRow, Recording, TraceKind,
    };
    let mut b = EventsBuilder::new();
    for n in 0..3000u32 {
        let (time, stream) = (u64::from(n) * 100, n % 40);
        let kind = [CopyKind::HostToDevice, CopyKind::DeviceToHost, CopyKind::DeviceToDevice][n as usize % 3] as u32;
        match n % 7 {
            0 => b.launch(
                time,
                1,
                LaunchRow {
                    stream,
                    ..Default::default()
                },
            ),
            1 => b.copy(
                time,
                1,
                CopyRow {
                    stream,
                    kind,
                    ..Default::default()
                },
            ),
            2 => b.fill(
                time,
                1,
                FillRow {
                    stream,
                    ..Default::default()
                },
            ),
            3 => b.order(
                time,
                1,
                OrderRow {
                    stream,
                    ..Default::default()
                },
            ),
            4 => b.allocation(
                time,
                1,
                AllocationRow {
                    kind: AllocationKind::Take as u32,
                    ..Default::default()
                },
            ),
            5 => b.copy(
                time,
                1,
                CopyRow {
                    stream: OrderRow::NONE,
                    kind,
                    ..Default::default()
                },
            ),
            _ => b.call(time, 1, CallRow::default()),
        }
    }
    let mut r = Recording {
        events: b.finish(),
        ..Recording::default()
    };
    let metadata = ApiTraceMetadata {
        streams: vec![CallStream::default(); 40],
        ..Default::default()
    };
    r.metadata.kind = TraceKind::Api(metadata);
    let p = Pyramid::build(&r, None, &Progress::new()).unwrap();
    let (streams, memory, calls) = p.call_lanes().unwrap();
    assert_eq!(streams.len(), 32, "other streams do not share the last lane");
    let counts = p.count(&r.events, 0..3000);
    let lane_counts = |lane: Option<usize>| lane.map_or((0, 0), |l| counts[l]);
    let count_calls = |is_match: &dyn Fn(CallEvent) -> bool| {
        (0..3000).filter(|e| r.events.call(*e).is_some_and(is_match)).count() as u32
    };
    for (n, lanes) in streams.iter().enumerate() {
        let is_in_lane = |s: u32| s as usize == n || (n == 31 && s >= 31 && s != OrderRow::NONE);
        let launches = count_calls(&|c| matches!(c, CallEvent::Launch(l) if is_in_lane(l.stream)));
        let orders = count_calls(&|c| matches!(c, CallEvent::Order(o) if is_in_lane(o.stream)));
        assert_eq!(lane_counts(lanes.launches), (orders, launches), "stream {n}");
        let to_host = CopyKind::DeviceToHost as u32;
        let out = count_calls(&|c| matches!(c, CallEvent::Copy(c) if is_in_lane(c.stream) && c.kind == to_host));
        let into = count_calls(&|c| match c {
            CallEvent::Copy(c) => is_in_lane(c.stream) && c.kind != to_host,
            CallEvent::Fill(f) => is_in_lane(f.stream),
            _ => false,
        });
        assert_eq!(lane_counts(lanes.copies), (out, into), "stream {n}");
    }
    let pieces = |out: bool| {
        count_calls(
            &|c| matches!(c, CallEvent::Copy(c) if c.stream == OrderRow::NONE && (c.kind == CopyKind::DeviceToHost as u32) == out),
        )
    };
    let allocations = count_calls(&|c| matches!(c, CallEvent::Allocation(_)));
    assert_eq!(lane_counts(memory), (pieces(true), allocations + pieces(false)));
    assert_eq!(
        lane_counts(calls),
        (count_calls(&|c| matches!(c, CallEvent::Call(_))), 0)
    );
    let all: u32 = counts.iter().map(|c| c.0 + c.1).sum();
    assert_eq!(all, 3000, "every call is in a lane");
}

#[test]
fn driver_trace_has_a_lane_per_channel() {
    use crate::recording::{
        CallRow, DriverTraceMetadata, ObjectAction, ObjectKind, ObjectRow, RingEntryRow, SavedMemoryRow, TraceKind,
    };
    let mut b = EventsBuilder::new();
    let object = |kind: ObjectKind, action: ObjectAction, handle| ObjectRow {
        kind: kind as u32,
        action: action as u32,
        handle,
        ..ObjectRow::default()
    };
    b.object(0, 1, object(ObjectKind::Channel, ObjectAction::Create, 7));
    b.object(1, 1, object(ObjectKind::Channel, ObjectAction::Free, 7));
    for channel in [7, 9, 9] {
        let row = RingEntryRow {
            channel,
            ..RingEntryRow::default()
        };
        b.ring_entry(2, 1, row);
    }
    b.call(3, 1, CallRow::default());
    b.saved_memory(4, 1, SavedMemoryRow::default());
    let mut r = Recording {
        events: b.finish(),
        ..Recording::default()
    };
    r.metadata.kind = TraceKind::Driver(DriverTraceMetadata::default());
    let pyramid = Pyramid::build(&r, None, &Progress::new()).unwrap();
    let all = pyramid.count(&r.events, 0..r.events.len() as u64);
    let counts = |name: &str| Some(all[pyramid.lanes().iter().position(|n| n == name)?]);
    assert_eq!(counts("channel 0"), Some((0, 1)));
    assert_eq!(counts("channel 1"), Some((0, 2)));
    assert_eq!(counts("objects"), Some((1, 1)));
    assert_eq!(counts("requests"), Some((1, 0)));
    assert_eq!(counts("saved memory"), Some((0, 1)));
}
