//! Tests of the staging area and its allocator.

use super::{SMALL, create_pair};
use crate::{STAGING_ALIGNMENT, StagingAllocator, StagingRange};
use proptest::prelude::*;
use std::collections::HashSet;

#[test]
fn staging_ranges_are_checked() {
    let (client, worker) = create_pair(SMALL);
    client.copy_to_staging(8000, b"weights").unwrap();
    let mut bytes = [0; 7];
    worker.copy_from_staging(8000, &mut bytes).unwrap();
    assert_eq!(&bytes, b"weights");
    client.copy_to_staging(0, &[7; 8192]).unwrap();
    client.copy_to_staging(8192, &[]).unwrap();
    for (offset, length) in [(0, 8193), (8192, 1), (u64::MAX, 1), (u64::MAX - 3, 4), (1 << 40, 0)] {
        let mut bytes = vec![0; length as usize];
        assert!(client.copy_to_staging(offset, &bytes).is_err());
        assert!(client.copy_from_staging(offset, &mut bytes).is_err());
        assert!(client.staging_pointer(offset, length).is_err());
    }
    let first = client.staging_pointer(0, 8192).unwrap() as usize;
    assert!(first.is_multiple_of(4096));
    assert_eq!(client.staging_pointer(8191, 1).unwrap() as usize, first + 8191);
    assert_eq!(client.staging_bytes(), 8192);
}

#[test]
fn space_becomes_free_in_the_order_of_allocation() {
    let mut allocator = StagingAllocator::new(256);
    let ranges: Vec<StagingRange> = (0..4).map(|_| allocator.allocate(64).unwrap()).collect();
    assert_eq!(
        ranges.iter().map(|range| range.offset).collect::<Vec<_>>(),
        [0, 64, 128, 192]
    );
    assert!(allocator.release(ranges[1].ticket));
    assert!(allocator.allocate(64).is_none());
    assert!(allocator.release(ranges[0].ticket));
    assert_eq!(allocator.in_use(), 128);
    assert_eq!(allocator.allocate(100).unwrap().offset, 0);
    assert!(allocator.allocate(1).is_none());
    assert!(allocator.allocate(u64::MAX).is_none());
}

proptest! {
    #[test]
    fn staging_ranges_do_not_overlap(
        capacity in 0u64..5000, steps in prop::collection::vec((0u64..1500, any::<u16>(), any::<bool>()), 1..200),
    ) {
        let mut allocator = StagingAllocator::new(capacity);
        let mut live: Vec<StagingRange> = Vec::new();
        let mut tickets = HashSet::new();
        for (bytes, choice, releases) in steps {
            if releases && !live.is_empty() {
                let range = live.swap_remove(usize::from(choice) % live.len());
                prop_assert!(allocator.release(range.ticket));
                prop_assert!(!allocator.release(range.ticket));
            } else if let Some(range) = allocator.allocate(bytes) {
                prop_assert!(range.bytes == bytes && range.offset.is_multiple_of(STAGING_ALIGNMENT));
                prop_assert!(range.offset + bytes <= capacity);
                prop_assert!(tickets.insert(range.ticket));
                for other in &live {
                    let apart = range.offset + bytes <= other.offset || other.offset + other.bytes <= range.offset;
                    prop_assert!(apart, "{range:?} overlaps {other:?}");
                }
                live.push(range);
            } else {
                let size = bytes.max(1).next_multiple_of(STAGING_ALIGNMENT);
                prop_assert!(!live.is_empty() || size > capacity, "an empty area has space");
            }
            let live_bytes: u64 = live.iter().map(|range| range.bytes).sum();
            prop_assert!((live_bytes..=capacity).contains(&allocator.in_use()));
            prop_assert_eq!(allocator.in_use() == 0, live.is_empty());
        }
        prop_assert!(!allocator.release(u64::MAX));
        for range in live {
            prop_assert!(allocator.release(range.ticket));
        }
        let whole = capacity - capacity % STAGING_ALIGNMENT;
        prop_assert_eq!(allocator.allocate(whole).is_some(), whole > 0);
    }
}
