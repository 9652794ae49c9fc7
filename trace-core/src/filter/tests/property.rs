//! Property tests: on random filters and recordings, the scan finds the same events as the naive evaluator.

use super::{find_events, recording};
use crate::filter::{Derived, Interrupt, JobBounds};
use crate::recording::{
    Access, Column, ColumnBuilder, DmaMapRow, EventsBuilder, HostWriteRow, InterruptRow, Recording, SubmitRow,
    UndecodedRow,
};
use crate::{BusAddr, GpuVa, PhysAddr, RegOffset};
use proptest::prelude::*;

const OFFSETS: &[u32] = &[
    0, 0x20, 0x34, 0x1000, 0x100c, 0x1840, 0x18c0, 0x18c4, 0x18d8, 0x18e0, 0x2400, 0x2418, 0x3ffc, 0x9000,
];

#[derive(Clone, Debug)]
enum RandomEvent {
    Access(Access),
    Interrupt(u32, u32),
    Mark(u8),
    Submit(u64),
    HostWrite(u64, u32),
    Undecoded(u32, Option<(bool, u8)>, u8),
    Dma(u64, u64),
}

fn random_event() -> impl Strategy<Value = RandomEvent> {
    let offset = prop_oneof![
        4 => proptest::sample::select(OFFSETS),
        1 => (proptest::sample::select(OFFSETS), 0u32..8).prop_map(|(o, d)| o + d),
    ];
    let value = prop_oneof![0u64..16, Just(0x8_7b00), any::<u64>(), any::<u32>().prop_map(u64::from)];
    let access = (
        0u8..3,
        any::<bool>(),
        offset,
        proptest::sample::select(&[1u8, 2, 4, 4, 4, 8][..]),
        value,
    )
        .prop_map(|(space, write, offset, width, value)| {
            RandomEvent::Access(Access {
                space: space.min(1),
                write,
                offset: RegOffset::new(offset),
                width,
                value,
            })
        });
    prop_oneof![
        20 => access,
        1 => (0u32..4, any::<u32>()).prop_map(|(l, s)| RandomEvent::Interrupt(l, s)),
        1 => any::<u8>().prop_map(RandomEvent::Mark),
        1 => any::<u64>().prop_map(RandomEvent::Submit),
        1 => (any::<u64>(), 1u32..100).prop_map(|(a, n)| RandomEvent::HostWrite(a, n)),
        1 => (0u32..64, proptest::option::of((any::<bool>(), Just(4u8))), 0u8..2)
            .prop_map(|(o, a, s)| RandomEvent::Undecoded(o, a, s)),
        1 => (prop_oneof![Just(DmaMapRow::UNKNOWN.get()), any::<u64>()], any::<u64>()).prop_map(|(b, n)| RandomEvent::Dma(b, n)),
    ]
}

/// Splits a column into chunks, some of them constant.
fn chunked<T: bytemuck::Pod + PartialEq>(c: &Column<T>, every: usize) -> Column<T> {
    let all: Vec<T> = c.iter().collect();
    let mut b = ColumnBuilder::new();
    for part in all.chunks(every) {
        if part.iter().all(|v| *v == part[0]) {
            b.push_constant(part[0], part.len());
        } else {
            b.push_owned(part.to_vec());
        }
    }
    b.finish()
}

fn random_recording() -> impl Strategy<Value = (Recording, Derived)> {
    let events = proptest::collection::vec((random_event(), 0u64..3000, 0u32..3), 0..200);
    // Sometimes more events than a block has.
    let repeat = prop_oneof![9 => Just(1usize), 1 => Just(60usize)];
    let jobs = proptest::collection::vec((0u8..3, 0u64..40, proptest::option::of(0u64..40)), 0..8);
    let polls = proptest::collection::vec((0u64..40, 0u64..20), 0..4);
    let interrupts = proptest::collection::vec((0u64..200, 0u32..3, any::<u64>()), 0..5);
    (
        events,
        repeat,
        jobs,
        polls,
        interrupts,
        1usize..5000,
        any::<bool>(),
        any::<u8>(),
    )
        .prop_map(|(events, repeat, jobs, polls, interrupts, every, shift, damage)| {
            let mut b = EventsBuilder::new();
            let mut time = 0;
            for (event, later, thread) in std::iter::repeat_n(&events, repeat).flatten() {
                time += later;
                match event {
                    RandomEvent::Access(a) => b.access(time, *thread, *a),
                    RandomEvent::Interrupt(line, status) => b.interrupt(
                        time,
                        InterruptRow {
                            line: *line,
                            status: *status,
                        },
                    ),
                    RandomEvent::Mark(n) => b.mark(time, format!("mark {n}")),
                    RandomEvent::Submit(head) => b.submit(
                        time,
                        SubmitRow {
                            head_va: GpuVa::new(*head),
                            address_space: 0,
                            slot: 0,
                        },
                    ),
                    RandomEvent::HostWrite(at, bytes) => b.host_write(
                        time,
                        *thread,
                        HostWriteRow {
                            at: PhysAddr::new(*at),
                            bytes: *bytes,
                            page: 0,
                        },
                    ),
                    RandomEvent::Undecoded(offset, access, space) => {
                        let row = match access {
                            Some((write, width)) => UndecodedRow::from_access(RegOffset::new(*offset), *write, *width),
                            None => UndecodedRow::from_instruction(RegOffset::new(*offset), 0x0f_6f07),
                        };
                        b.undecoded(time, *thread, *space, row);
                    }
                    RandomEvent::Dma(bus, bytes) => b.dma_map(
                        time,
                        *thread,
                        DmaMapRow {
                            bus: BusAddr::new(*bus),
                            bytes: *bytes,
                            kind: 1,
                            reserved: 0,
                        },
                    ),
                }
            }
            let mut r = recording(b);
            let e = &mut r.events;
            if shift {
                // Access rows in another order, and one row that does not exist.
                let n = e.offset.len().max(1) as u32;
                e.payload = e
                    .payload
                    .iter()
                    .map(|p| p.wrapping_add(3) % (n + 1))
                    .collect::<Vec<_>>()
                    .into();
            }
            if damage < 20 {
                // Unknown kinds.
                e.kind = e
                    .kind
                    .iter()
                    .enumerate()
                    .map(|(n, k)| if n % 7 == 3 { damage } else { k })
                    .collect::<Vec<_>>()
                    .into();
            }
            e.kind = chunked(&e.kind, every);
            e.space = chunked(&e.space, every);
            e.time = chunked(&e.time, every);
            e.thread = chunked(&e.thread, every);
            e.payload = chunked(&e.payload, every);
            e.offset = chunked(&e.offset, every);
            e.width = chunked(&e.width, every);
            e.value = chunked(&e.value, every);
            let mut derived = Derived::default();
            let mut at = 0;
            for (slot, later, done) in jobs {
                at += later + 1;
                derived.jobs.push(JobBounds {
                    slot,
                    submit: at,
                    done: done.map(|d| at + d),
                    head_va: GpuVa::new(at * 0x1000),
                });
            }
            let mut at = 0;
            for (later, len) in polls {
                at += later;
                derived.polls.push((at, at + len));
                at += len + 1;
            }
            derived.interrupts = interrupts
                .into_iter()
                .map(|(event, line, status)| Interrupt { event, line, status })
                .collect();
            derived.interrupts.sort_by_key(|i| i.event);
            (r, derived)
        })
}

fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        (0u64..20).prop_map(|n| n.to_string()),
        (0u64..300).prop_map(|n| n.to_string()),
        any::<u64>().prop_map(|n| format!("{n:#x}")),
        any::<u32>().prop_map(|n| format!("{n:#b}")),
        proptest::sample::select(OFFSETS).prop_map(|n| format!("{n:#x}")),
    ]
}

fn condition() -> impl Strategy<Value = String> {
    let compare = (
        proptest::sample::select(&["=", "==", "!=", "<", "<=", ">", ">="][..]),
        number(),
    );
    let list = proptest::collection::vec(number(), 1..8);
    prop_oneof![
        4 => compare.prop_map(|(o, n)| format!(" {o} {n}")),
        1 => (any::<u64>(), any::<u64>(), any::<bool>()).prop_map(|(a, b, not)| {
            let not = if not { "not " } else { "" };
            format!(" {not}in {}..{}", a.min(b), a.max(b))
        }),
        1 => (0u64..50, 0u64..50).prop_map(|(a, b)| format!(" in {a}..{}", a + b)),
        1 => number().prop_map(|n| format!(" in {n}..")),
        1 => list.prop_map(|l| format!(" in {{{}}}", l.join(", "))),
        1 => Just(String::new()),
    ]
}

fn test() -> impl Strategy<Value = String> {
    let numbers = &[
        "event",
        "time",
        "thread",
        "offset",
        "width",
        "value",
        "job",
        "irq.line",
        "irq.status",
        "address",
        "bytes",
        "JS1_COMMAND_NEXT",
        "JS_CONFIG_NEXT.priority",
        "JS1_CONFIG_NEXT.start_flush",
        "JS1_HEAD_NEXT",
        "JS_HEAD_NEXT_LO",
        "JS1_HEAD_NEXT.address",
        "AS0_TRANSTAB",
        "GPU_ID",
        "AS_COMMAND",
        "JS1_CONFIG_NEXT.chain_flag",
    ][..];
    let mask = prop_oneof![2 => Just(String::new()), 1 => number().prop_map(|n| format!(" & {n}"))];
    let words = &[
        "read",
        "write",
        "access",
        "interrupt",
        "submit",
        "poll",
        "mark",
        "host-write",
        "undecoded",
        "dma",
        "unknown",
        "js1",
        "JS_COMMAND_NEXT",
        "mmu",
        "reg",
        "block",
        "space",
        "text",
        "kind = write",
        "kind in {poll, read}",
        "reg = GPU_ID",
        "reg != GPU_ID",
        "reg =~ 'JS[01]_'",
        "reg !~ '_NEXT$'",
        "reg = JS1_HEAD_NEXT",
        "reg = AS_COMMAND",
        "block = MMU",
        "block != JOB_SLOT",
        "block =~ 'job'",
        "space = bar1",
        "space != gpu",
        "space =~ '.'",
        "text = 'mark 3'",
        "text !~ '1'",
        "irq.line = gpu",
        "JS1_COMMAND_NEXT = start",
        "JS1_CONFIG_NEXT.start_mmu = no",
        "reg in {GPU_ID, JOB_IRQ_STATUS, JS1_COMMAND_NEXT}",
        "reg =~ '\\[15:8\\]'",
        "kind != interrupt",
        "references GPU_ID",
        "references JS1_COMMAND_NEXT",
        "references JS1_HEAD_NEXT",
        "references JS1_CONFIG_NEXT.start_flush",
        "xref bar1+0x20",
        "references 0x8_7b00",
    ][..];
    prop_oneof![
        (proptest::sample::select(numbers), mask, condition()).prop_map(|(n, m, c)| format!("{n}{m}{c}")),
        proptest::sample::select(words).prop_map(str::to_owned),
    ]
}

/// Generates tests that are valid for any recording, and tests of a virtio device's registers.
fn test_of_virtio() -> impl Strategy<Value = String> {
    let numbers = &[
        "value",
        "offset",
        "width",
        "QUEUE_DESC",
        "QUEUE_DESC.address",
        "QUEUE_DESC_LO",
        "QUEUE_DESC_HI",
        "DEVICE_STATUS",
        "DEVICE_STATUS.driver_ok",
        "QUEUE_SELECT.queue",
        "NUM_QUEUES",
    ][..];
    let words = &[
        "write",
        "reg",
        "reg = QUEUE_DESC",
        "reg != DEVICE_STATUS",
        "reg =~ '^QUEUE_.*LO'",
        "reg !~ ' to '",
        "reg in {QUEUE_DESC_HI, 'QUEUE_DESC_LO[7:0]'}",
        "block = COMMON",
        "queue_d",
        "DEVICE_STATUS.failed",
        "DEVICE_STATUS.acknowledge = no",
    ][..];
    prop_oneof![
        (proptest::sample::select(numbers), condition()).prop_map(|(n, c)| format!("{n}{c}")),
        proptest::sample::select(words).prop_map(str::to_owned),
    ]
}

fn expression() -> impl Strategy<Value = String> {
    combine(test())
}

fn combine(test: impl Strategy<Value = String> + 'static) -> impl Strategy<Value = String> {
    test.prop_recursive(4, 16, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|a| format!("not ({a})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) and ({b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) or ({b})")),
            (inner.clone(), inner.clone(), inner).prop_map(|(a, b, c)| format!("{a} and {b} or {c}")),
        ]
    })
}

/// Returns the number of cases: few in `make test`, more in `make test-full`, which sets `PROPTEST_CASES`.
fn cases(few: u32, more: u32) -> u32 {
    if std::env::var_os("PROPTEST_CASES").is_some() {
        more
    } else {
        few
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(16, 96), ..ProptestConfig::default() })]

    #[test]
    fn scan_matches_the_naive_evaluator(on in random_recording(), texts in proptest::collection::vec(expression(), 1..6)) {
        for text in texts {
            find_events(&text, &on);
        }
    }

    #[test]
    fn scan_matches_the_evaluator_for_every_register_width(
        on in random_recording(),
        texts in proptest::collection::vec(combine(test_of_virtio()), 1..6),
    ) {
        let (mut recording, derived) = on;
        // Few locations, so that accesses hit registers.
        let offsets: Vec<u32> = recording.events.offset.iter().map(|o| o % 0x38).collect();
        recording.events.offset = offsets.into();
        super::virtio(&mut recording);
        let on = (recording, derived);
        for text in texts {
            find_events(&text, &on);
        }
    }

    #[test]
    fn no_text_makes_the_parser_or_completion_panic(text in "\\PC{0,60}", at in 0usize..70) {
        let on = super::sample();
        if let Err(e) = crate::filter::Query::parse(&text).and_then(|q| q.compile(&on.0, None)) {
            let message = e.caret(&text, "");
            prop_assert!(message.contains('^'));
        }
        let completion = crate::filter::complete(&text, at, &on.0);
        prop_assert!(text.get(completion.replace).is_some());
    }
}
