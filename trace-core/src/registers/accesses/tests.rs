//! Tests of packed access lists against plain lists of numbers.

use super::{Accesses, RegisterAccess, gallop};
use proptest::prelude::*;

/// Distances typical of drivers: polls, neighbours, pauses, a constant distance for a while.
fn distances() -> impl Strategy<Value = Vec<(u32, bool)>> {
    let one = prop_oneof![4 => 1u32..3, 4 => 1u32..200, 1 => 1u32..2_000_000];
    let often = prop_oneof![4 => Just(1usize), 1 => 2usize..600];
    let runs = proptest::collection::vec(((one, any::<bool>()), often), 0..60);
    runs.prop_map(|runs| runs.into_iter().flat_map(|(d, n)| std::iter::repeat_n(d, n)).collect())
}

fn events_at(distances: &[(u32, bool)], first: u64) -> Vec<(u64, bool)> {
    let mut at = first;
    let mut out = Vec::new();
    for (d, write) in distances {
        out.push((at, *write));
        at += u64::from(*d);
    }
    out
}

/// Returns the number of cases: few in `make test`, more in `make test-full`, which sets `PROPTEST_CASES`.
fn cases() -> u32 {
    if std::env::var_os("PROPTEST_CASES").is_some() {
        256
    } else {
        48
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn packed_accesses_equal_the_pushed_list(d in distances(), first in 0u64..5_000_000, any in 0u64..10_000_000) {
        let plain = events_at(&d, first);
        let packed: Accesses = plain.iter().copied().collect();
        let back: Vec<(u64, bool)> = packed.iter().map(|a| (a.event, a.write)).collect();
        prop_assert_eq!(&back, &plain);
        prop_assert_eq!(packed.iter().len(), plain.len());
        let writes: Vec<u64> = plain.iter().filter(|p| p.1).map(|p| p.0).collect();
        let all: Vec<u64> = plain.iter().map(|p| p.0).collect();
        for (list, naive) in [(packed.all(), &all), (packed.writes(), &writes)] {
            prop_assert_eq!(list.len(), naive.len());
            prop_assert_eq!(list.is_empty(), naive.is_empty());
            prop_assert_eq!(list.first(), naive.first().copied());
            prop_assert_eq!(list.last(), naive.last().copied());
            prop_assert_eq!(list.iter().collect::<Vec<_>>(), naive.clone());
            // For long lists a few hundred indices and events, not all.
            let some = naive.len() / 200 + 1;
            for index in (0..naive.len() + 2).step_by(some) {
                prop_assert_eq!(list.get(index), naive.get(index).copied());
            }
            let events = naive.iter().step_by(some).flat_map(|e| [e.saturating_sub(1), *e, e + 1]).chain([0, any, u64::MAX]);
            for event in events {
                prop_assert_eq!(list.count_before(event), naive.partition_point(|e| *e < event));
                prop_assert_eq!(list.count_until(event), naive.partition_point(|e| *e <= event));
                let n = naive.partition_point(|e| *e < event);
                let neighbors = [n.checked_sub(1).and_then(|n| naive.get(n)), naive.get(n)].map(|e| e.copied());
                prop_assert_eq!(list.neighbors(event), neighbors);
                prop_assert_eq!(list.contains(event), naive.binary_search(&event).is_ok());
                let within = event..event.saturating_add(100);
                prop_assert_eq!(list.first_in(within.clone()), naive.iter().copied().find(|e| within.contains(e)));
            }
        }
        for step in [1, 2, 97] {
            let mut cursor = packed.cursor();
            for (event, _) in plain.iter().step_by(step) {
                for event in [*event, event + 1] {
                    let n = plain.partition_point(|p| p.0 < event);
                    let naive = n.checked_sub(1).map(|n| (n, RegisterAccess { event: plain[n].0, write: plain[n].1 }));
                    prop_assert_eq!(cursor.last_before(event), naive);
                }
            }
            let last = plain.len().checked_sub(1).map(|n| (n, plain[n].0));
            prop_assert_eq!(cursor.last_before(u64::MAX).map(|(n, a)| (n, a.event)), last);
        }
        for (event, _) in plain.iter().step_by(plain.len() / 200 + 1) {
            prop_assert_eq!(gallop(&plain, |p| p.0 < *event), plain.partition_point(|p| p.0 < *event));
        }
        prop_assert_eq!(gallop(&plain, |_| true), plain.len());
        for index in [0, 1, 255, 256, 257, 600, plain.len()] {
            let from: Vec<RegisterAccess> = packed.iter_from(index).collect();
            let naive: Vec<RegisterAccess> = plain.iter().skip(index).map(|p| RegisterAccess { event: p.0, write: p.1 }).collect();
            prop_assert_eq!(packed.iter_from(index).len(), naive.len());
            prop_assert_eq!(from, naive);
        }
    }
}

#[test]
fn accesses_out_of_order_are_refused() {
    let mut a = Accesses::default();
    assert!(a.push(5, true));
    assert!(!a.push(5, false));
    assert!(!a.push(4, false));
    assert!(!a.push(1 << 32, false));
    assert!(a.push(u64::from(u32::MAX), false));
    assert_eq!(a.all().iter().collect::<Vec<_>>(), [5, u64::from(u32::MAX)]);
    assert_eq!(a.writes().iter().collect::<Vec<_>>(), [5]);
}

#[test]
fn event_zero_is_a_valid_access() {
    let a: Accesses = [(0, true), (1, false)].into_iter().collect();
    assert_eq!(
        (a.all().first(), a.all().count_before(1), a.writes().count_until(0)),
        (Some(0), 1, 1)
    );
    assert!(a.all().contains(0));
}

#[test]
fn polled_register_accesses_are_stored_compactly() {
    // 127 reads in a row, then a job.
    let packed: Accesses = (0..100_000u64)
        .flat_map(|job| (0..127).map(move |n| (job * 142 + n, false)))
        .collect();
    assert!(packed.bytes() < 1_500_000, "{} for {}", packed.bytes(), packed.len());
    assert_eq!(packed.all().get(127 * 99_999 + 126), Some(99_999 * 142 + 126));
    assert_eq!(packed.all().count_before(99_999 * 142), 127 * 99_999);
}

#[test]
fn packed_accesses_use_about_one_byte_each() {
    // One register in ten accesses of a driver, now and then a pause.
    let packed: Accesses = (0..1_000_000u64)
        .scan(0, |at, n| {
            *at += if n.is_multiple_of(1000) { 5000 } else { 3 + n % 13 };
            Some((*at, n.is_multiple_of(5)))
        })
        .collect();
    assert!(packed.bytes() < 1_250_000, "{}", packed.bytes());
}
