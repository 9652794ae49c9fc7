//! Tests of random launches with snapshots before and after. Memory before and after a launch must have its real
//! content, and the changes of each launch must be exact to the byte.

use crate::calls::net::{Build, WINDOW};
use proptest::prelude::*;
use trace_core::GpuVa;
use trace_core::api_trace::{ApiTrace, BufferChange};
use trace_core::progress::Progress;
use trace_core::recording::{CallFunction, OrderRow};

const BUFFERS: u64 = 3;
const BYTES: u64 = 16;

fn at(n: u64) -> u64 {
    WINDOW + n % BUFFERS * BYTES
}

/// A launch: the buffer that changes before it, its argument, the buffer that it changes, the number of changed bytes,
/// and whether it completes.
type Round = (u8, u8, u8, u8, bool);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn memory_around_launches_matches_its_real_content(rounds in prop::collection::vec(any::<Round>(), 1..12)) {
        let mut b = Build::new();
        b.stream("default stream", 0);
        b.metadata.functions = vec![CallFunction {
            name: "work".into(),
            demangled: "work(float*)".into(),
            parameters: vec![[0, 8]],
            ..Default::default()
        }];
        for n in 0..BUFFERS {
            b.take_at(at(n), BYTES);
        }
        let all = |b: &Build| b.held(WINDOW, BUFFERS * BYTES);
        let differing = |old: &[u8], new: &[u8]| -> Vec<(u64, u64)> {
            let differs = |n: &u64| {
                let part = (n * BYTES) as usize..((n + 1) * BYTES) as usize;
                old[part.clone()] != new[part]
            };
            (0..BUFFERS).filter(differs).map(|n| (at(n), BYTES)).collect()
        };
        let mut truth = Vec::new();
        let mut last: Option<Vec<u8>> = None;
        for (between, argument, changes, bytes, done) in rounds {
            // The recording has no event for this change.
            b.set(at(u64::from(between)), &[between, between ^ 0x5a]);
            let before = all(&b);
            let pieces = match &last {
                Some(last) => differing(last, &before),
                None => (0..BUFFERS).map(|n| (at(n), BYTES)).collect(),
            };
            b.snapshot("snapshot before launch", &pieces);
            let launch = b.launch(0, [1; 3], [1; 3], 0, &at(u64::from(argument)).to_le_bytes());
            let new: Vec<u8> = (0..u64::from(bytes) % (BYTES + 1)).map(|n| bytes.wrapping_mul(7) ^ n as u8).collect();
            b.set(at(u64::from(changes)), &new);
            let after = all(&b);
            if done {
                b.call("snapshot after launch", 0);
                if bytes % 2 == 1 {
                    // An allocation in the meantime is reported before the pieces of the snapshot.
                    b.take_at(WINDOW + 0x1000 * (truth.len() as u64 + 1), 64);
                }
                for (from, length) in differing(&before, &after) {
                    b.copy_out(from, length, OrderRow::NONE, true);
                }
            }
            truth.push((launch, before, after.clone(), done));
            last = Some(after);
            if !done {
                // A recording can end with a failed launch.
                break;
            }
        }
        let r = b.finish();
        let api_trace = ApiTrace::from_recording(&r, &Progress::new()).unwrap().unwrap();
        let range = WINDOW..WINDOW + BUFFERS * BYTES;
        for (launch, before, after, done) in &truth {
            let read = api_trace.read(&r, GpuVa::new_range(range.clone()), *launch);
            prop_assert!(read.pieces.iter().all(|p| p.state.is_known()), "{:?}", read.pieces);
            prop_assert_eq!(&read.bytes, before, "before {}", launch);
            for a in range.clone() {
                // A byte that differs from the last recorded change has an unrecorded write.
                let writer = api_trace.find_last_writer(&r, GpuVa::new(a), *launch);
                let unrecorded = writer.change.is_some_and(|c| c.after != before[(a - WINDOW) as usize]);
                prop_assert_eq!(writer.unrecorded, unrecorded, "{:?}", writer);
            }
            if !done {
                prop_assert!(api_trace.launch_changes(*launch).is_none());
                continue;
            }
            let read = api_trace.read(&r, GpuVa::new_range(range.clone()), launch + 1);
            prop_assert!(read.pieces.iter().all(|p| p.state.is_known()), "{:?}", read.pieces);
            prop_assert_eq!(&read.bytes, after, "after {}", launch);
            let changed: Vec<u64> = range.clone().filter(|a| before[(a - WINDOW) as usize] != after[(a - WINDOW) as usize]).collect();
            let changes = api_trace.launch_changes(*launch).unwrap();
            prop_assert_eq!(changes.list.iter().map(|l: &BufferChange| l.bytes).sum::<u64>(), changed.len() as u64);
            for a in range.clone() {
                let writer = api_trace.find_last_writer(&r, GpuVa::new(a), launch + 1);
                let change = writer.change.filter(|c| c.event == *launch);
                prop_assert_eq!(change.is_some(), changed.contains(&a), "{:#x} at {}", a, launch);
                if let Some(c) = change {
                    let n = (a - WINDOW) as usize;
                    prop_assert_eq!((c.before, c.after), (before[n], after[n]));
                }
                prop_assert!(writer.launches.is_empty(), "{:?}", writer);
            }
        }
    }
}
