//! Tests of instructions: their words are put together here from the table's bits.

use super::super::command_streams::tests::{ReportedCommands, buffers};
use super::*;

fn word(code: u64, fields: &[(u32, u64)]) -> u64 {
    fields
        .iter()
        .fold(code << 56, |word, (start, value)| word | value << start)
}

fn split(all: &[u64]) -> Vec<u32> {
    all.iter().flat_map(|w| [*w as u32, (*w >> 32) as u32]).collect()
}

fn decode(memory: &[(u64, &[u32])], all: &[u64]) -> (ReportedCommands, StreamSummary) {
    let mut reported = ReportedCommands::default();
    let summary = decode_instructions(&buffers(memory), GpuVa::new(0x1000), all, 10_000, &mut reported);
    (reported, summary)
}

#[test]
fn moves_are_writes_and_calls_are_followed() {
    let called = split(&[
        word(2, &[(48, 37), (0, 4)]),
        word(2, &[(48, 38), (0, 2)]),
        word(2, &[(48, 39), (0, 1)]),
        word(1, &[(48, 16), (0, 0x7000_1000)]),
        word(4, &[(0, 1), (14, 2)]),
        word(38, &[(1, 2), (16, 0xff), (32, 6), (40, 8), (48, 1)]),
    ]);
    let all = [
        word(23, &[(0, 2)]),
        word(34, &[(0, 1), (2, 1)]),
        word(1, &[(48, 2), (0, 0x1_0000_9000)]),
        word(2, &[(48, 4), (0, called.len() as u64 * 4)]),
        word(32, &[(40, 2), (32, 4)]),
        word(36, &[(0, 1), (4, 3), (16, 1), (40, 4), (48, 3)]),
        word(3, &[(16, 8)]),
        word(47, &[]),
        0,
    ];
    let (reported, summary) = decode(&[(0x1_0000_9000, &called)], &all);
    assert_eq!(
        reported.commands,
        [
            "SET_SB_ENTRY: endpoint 2, other 0",
            "REQ_RESOURCE: compute, tiler",
            "CALL: address d2, length r4",
            "RUN_COMPUTE: task increment 1, axis Z, resources 0, shader 0, thread storage 0, uniforms 0 (shader at \
             0x70001000, 4 × 2 × 1 workgroups)",
            "SYNC_SET32: scope group, wait 0xff, data r6, address d8, signal slot 1",
            "FLUSH_CACHE2: L2 clean, load/store cache clean and invalidate, others none, wait 0x1, flush id r4, signal \
             slot 3",
            "WAIT: slots 0x8",
            "ERROR_BARRIER"
        ]
    );
    let known = [
        (8, 0x9000),
        (12, 1),
        (16, 48),
        (37 * 4, 4),
        (38 * 4, 2),
        (39 * 4, 1),
        (64, 0x7000_1000),
        (68, 0),
    ];
    assert_eq!(reported.writes, known);
    assert_eq!((summary.missing, summary.unknown), (0, 0));
}

#[test]
fn values_are_computed_only_from_what_is_known() {
    let table = [5, 6];
    let all = [
        word(1, &[(48, 2), (0, 0x8ff8)]),
        word(17, &[(48, 2), (40, 2), (0, 4)]),
        word(20, &[(48, 10), (16, 0b11), (40, 2), (0, 4)]),
        word(16, &[(48, 12), (40, 11), (0, 0xffff_fff0)]),
        word(18, &[(48, 13), (40, 10), (32, 11)]),
        // r20 is unknown: so is r21, and a call of it goes nowhere.
        word(16, &[(48, 21), (40, 20), (0, 1)]),
        word(33, &[(40, 20), (32, 21)]),
        word(47, &[]),
    ];
    let (reported, summary) = decode(&[(0x9000, &table)], &all);
    assert_eq!(
        reported.writes,
        [
            (8, 0x8ff8),
            (12, 0),
            (8, 0x8ffc),
            (12, 0),
            (40, 5),
            (44, 6),
            (48, 6u32.wrapping_sub(16)),
            (52, 5)
        ]
    );
    assert_eq!(summary.missing, 1);
    assert!(
        !reported.commands.iter().any(|c| c == "ERROR_BARRIER"),
        "a jump does not come back"
    );
}

#[test]
fn branches_and_loops_are_bounded() {
    let all = [
        word(2, &[(48, 1), (0, 2)]),
        word(16, &[(48, 1), (40, 1), (0, 0xffff_ffff)]),
        word(22, &[(40, 1), (28, 1), (0, 0xfffe)]),
        word(22, &[(28, 6), (0, 0xffff)]),
    ];
    let (reported, summary) = decode(&[], &all);
    assert!(summary.is_endless && summary.commands <= 10_000);
    let counts: Vec<u32> = reported.writes.iter().take(3).map(|w| w.1).collect();
    assert_eq!(counts, [2, 1, 0]);
    let (_, summary) = decode(&[], &[word(22, &[(28, 6), (0, 0x8000)]), word(99, &[])]);
    assert_eq!((summary.missing, summary.unknown), (1, 0));
    assert_eq!(decode(&[], &[word(99, &[])]).1.unknown, 1);
}

#[test]
fn instructions_have_different_operations() {
    let mut codes = std::collections::BTreeSet::new();
    for code in 0..64u64 {
        if let Some(text) = describe_instruction(code << 56) {
            assert!(codes.insert(text.split(':').next().map(str::to_owned)));
        }
    }
    assert_eq!(codes.len(), 39);
}
