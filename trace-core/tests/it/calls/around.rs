//! Launches that memory was taken down around, made up at random: memory before and behind each is what it held,
//! whatever happened between them, and what each changed is reported to the byte.

use crate::calls::net::{Build, WINDOW};
use proptest::prelude::*;
use trace_core::api_trace::{ApiTrace, BufferChange};
use trace_core::progress::Progress;
use trace_core::recording::{CallFunction, OrderRow};

const BUFFERS: u64 = 3;
const BYTES: u64 = 16;

fn at(n: u64) -> u64 {
    WINDOW + n % BUFFERS * BYTES
}

/// What happens: to which buffer before the launch, which argument it has, which buffer it changes, how many bytes, and
/// whether it is done.
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
        let differing = |was: &[u8], is: &[u8]| -> Vec<(u64, u64)> {
            let one = |n: &u64| {
                let part = (n * BYTES) as usize..((n + 1) * BYTES) as usize;
                was[part.clone()] != is[part]
            };
            (0..BUFFERS).filter(one).map(|n| (at(n), BYTES)).collect()
        };
        let mut truth = Vec::new();
        let mut last: Option<Vec<u8>> = None;
        for (between, argument, changes, bytes, done) in rounds {
            // Nothing tells of what happens here.
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
            let behind = all(&b);
            if done {
                b.call("snapshot after launch", 0);
                if bytes % 2 == 1 {
                    // What came and went meanwhile is reported before the pieces.
                    b.take_at(WINDOW + 0x1000 * (truth.len() as u64 + 1), 64);
                }
                for (from, length) in differing(&before, &behind) {
                    b.copy_out(from, length, OrderRow::NONE, true);
                }
            }
            truth.push((launch, before, behind.clone(), done));
            last = Some(behind);
            if !done {
                // As it is where the recording ends with a launch that failed.
                break;
            }
        }
        let r = b.finish();
        let api_trace = ApiTrace::from_recording(&r, &Progress::new()).unwrap().unwrap();
        let range = WINDOW..WINDOW + BUFFERS * BYTES;
        for (launch, before, behind, done) in &truth {
            let read = api_trace.read(&r, range.clone(), *launch);
            prop_assert!(read.pieces.iter().all(|p| p.state.is_known()), "{:?}", read.pieces);
            prop_assert_eq!(&read.bytes, before, "before {}", launch);
            for a in range.clone() {
                // What nobody recorded came between where the byte is another one than the last launch left.
                let who = api_trace.find_last_writer(&r, a, *launch);
                let other = who.change.is_some_and(|c| c.after != before[(a - WINDOW) as usize]);
                prop_assert_eq!(who.unrecorded, other, "{:?}", who);
            }
            if !done {
                prop_assert!(api_trace.launch_changes(*launch).is_none());
                continue;
            }
            let read = api_trace.read(&r, range.clone(), launch + 1);
            prop_assert!(read.pieces.iter().all(|p| p.state.is_known()), "{:?}", read.pieces);
            prop_assert_eq!(&read.bytes, behind, "behind {}", launch);
            let changed: Vec<u64> = range.clone().filter(|a| before[(a - WINDOW) as usize] != behind[(a - WINDOW) as usize]).collect();
            let left = api_trace.launch_changes(*launch).unwrap();
            prop_assert_eq!(left.list.iter().map(|l: &BufferChange| l.bytes).sum::<u64>(), changed.len() as u64);
            for a in range.clone() {
                let who = api_trace.find_last_writer(&r, a, launch + 1);
                let mine = who.change.filter(|c| c.event == *launch);
                prop_assert_eq!(mine.is_some(), changed.contains(&a), "{:#x} at {}", a, launch);
                if let Some(c) = mine {
                    let n = (a - WINDOW) as usize;
                    prop_assert_eq!((c.before, c.after), (before[n], behind[n]));
                }
                prop_assert!(who.launches.is_empty(), "{:?}", who);
            }
        }
    }
}
