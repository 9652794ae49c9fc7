//! Tests of the memory comparison against a byte-by-byte count.

use super::{two_spaces, two_spaces_of};
use crate::GpuVa;
use crate::diff::{MappedAs, MappingDiff, MappingDifference, MemoryComparison};
use crate::memory::ByteState;
use crate::mmu::Rights;
use crate::progress::Progress;
use crate::recording::Recording;

/// Returns the start of every run of differing bytes, found one after another.
fn all(b: &MemoryComparison<'_>, forward: bool) -> Vec<GpuVa> {
    let progress = Progress::new();
    let mut at = if forward { GpuVa::ZERO } else { GpuVa::MAX };
    let mut out = Vec::new();
    while let Some(va) = b.find_next_difference(at, forward, &progress).unwrap() {
        out.push(va);
        at = va;
    }
    out
}

fn compare_memory<'a>(a: &'a Recording, b: &'a Recording, mappings: &MappingDiff) -> MemoryComparison<'a> {
    MemoryComparison::new((a, 0), (b, 0), 1, mappings).unwrap()
}

#[test]
fn next_differing_run_is_found_in_both_directions() {
    let none = MappingDiff::default();
    let mut pages = [[1; 4096], [2; 4096]];
    let a = two_spaces_of(0x1_0010_0000, pages);
    let runs = [(7, 1), (9, 4), (100, 900), (4000, 96)];
    for (begin, len) in runs {
        pages[1][begin..begin + len].fill(9);
    }
    let b = two_spaces_of(0x3_0070_0000, pages);
    let both = compare_memory(&a, &b, &none);
    let expected: Vec<GpuVa> = runs.iter().map(|r| GpuVa::new(r.0 as u64)).collect();
    assert_eq!(all(&both, true), expected);
    let mut back = all(&both, false);
    back.reverse();
    assert_eq!(back, expected);
    // From inside a run, the search leads to its own start, or to the next run.
    let progress = Progress::new();
    assert_eq!(
        both.find_next_difference(GpuVa::new(500), false, &progress).unwrap(),
        Some(GpuVa::new(100))
    );
    assert_eq!(
        both.find_next_difference(GpuVa::new(500), true, &progress).unwrap(),
        Some(GpuVa::new(4000))
    );
    let same = compare_memory(&a, &a, &none);
    assert_eq!((all(&same, true), all(&same, false)), (vec![], vec![]));
    let at_end = both.read(GpuVa::new(4094), 4);
    assert_eq!(at_end[0], (Ok(2), Ok(9)));
    assert_eq!(at_end[2], (Err(ByteState::Unmapped), Err(ByteState::Unmapped)));
    assert_eq!(both.read(GpuVa::new(u64::MAX - 1), 5).len(), 5);
}

#[test]
fn moved_memory_is_read_at_its_new_address() {
    let a = two_spaces(0x1_0010_0000, [1, 2]);
    let to = MappedAs {
        rights: Rights::RW,
        attr_index: 0,
        bits: 0,
    };
    let moved = |va: u64, to_va: u64| MappingDiff {
        list: vec![MappingDifference {
            address_space: 1,
            va: GpuVa::new(va),
            pages: 1,
            a: Some(to),
            b: None,
            moved_to: Some(GpuVa::new(to_va)),
        }],
        ..MappingDiff::default()
    };
    // The second recording has at 0 what the first would have at 0x8000.
    let mappings = moved(0x8000, 0);
    let both = compare_memory(&a, &a, &mappings);
    assert_eq!(both.map_to_second(GpuVa::new(0x8010)), GpuVa::new(0x10));
    assert_eq!(both.map_to_second(GpuVa::new(0x9000)), GpuVa::new(0x9000));
    assert_eq!(both.read(GpuVa::new(0x8000), 1)[0], (Err(ByteState::Unmapped), Ok(2)));
    // So it is not shown again at its own address.
    assert_eq!(both.read(GpuVa::ZERO, 1)[0], (Ok(2), Err(ByteState::Unmapped)));
}

#[test]
fn memory_comparison_needs_both_address_spaces() {
    let none = MappingDiff::default();
    let a = two_spaces(0x1_0010_0000, [1, 2]);
    let mut b = a.clone();
    b.metadata.address_spaces.truncate(1);
    assert!(MemoryComparison::new((&a, 0), (&b, 0), 1, &none).is_none());
    assert!(MemoryComparison::new((&a, 0), (&a, 0), 7, &none).is_none());
    let stop = Progress::new();
    stop.cancel();
    assert!(
        compare_memory(&a, &a, &none)
            .find_next_difference(GpuVa::ZERO, true, &stop)
            .is_err()
    );
}
