//! Tests of the comparison on recordings with known differences, in both directions.

use super::*;
use crate::recording::{Access, DmaKind, DmaMapRow, EventKind, EventsBuilder, FrameRole, MemoryBuilder, UndecodedRow};
use crate::{BusAddr, GpuVa, PhysAddr, RegOffset};

mod descriptors;
mod measured;
mod memory_comparison;

fn recording(accesses: &[(bool, u32, u64)], pages: &[(u64, u8)]) -> Recording {
    let mut b = EventsBuilder::new();
    for (i, (write, offset, value)) in accesses.iter().enumerate() {
        b.access(
            i as u64,
            0,
            Access {
                space: 0,
                write: *write,
                offset: RegOffset::new(*offset),
                width: 4,
                value: *value,
            },
        );
    }
    let mut m = MemoryBuilder::new();
    let frames: Vec<_> = pages
        .iter()
        .map(|(f, v)| (*f, m.add_page(&[*v; 4096]), FrameRole::Data))
        .collect();
    m.add_snapshot(0, frames);
    let mut r = Recording {
        events: b.finish(),
        memory: m.finish(),
        ..Recording::default()
    };
    r.metadata.identity.gpu_id = 0x60a0_0002;
    r
}

const BASE: [(bool, u32, u64); 7] = [
    (false, 0x2c, 0x100),
    (true, 0x18c0, 0x40),
    (true, 0x18e0, 1),
    (false, 0x100c, 2),
    (true, 0x18c0, 0x80),
    (true, 0x18e0, 1),
    (false, 0x100c, 2),
];

#[test]
fn a_recording_does_not_differ_from_itself() {
    let r = recording(&BASE, &[(1, 1), (2, 0)]);
    let d = diff(&r, &r.clone());
    assert!(d.is_empty(), "{d:?}");
    assert_eq!((d.events.equal, d.pages.same, d.jobs), (7, 2, (2, 2)));
}

#[test]
fn value_difference_is_reported_by_field() {
    let a = recording(&BASE, &[]);
    let mut changed = BASE;
    changed[6].2 = 0x0002_0000;
    let b = recording(&changed, &[]);
    let d = diff(&a, &b);
    assert_eq!(
        (d.events.equal, d.events.changed, d.events.deleted, d.events.inserted),
        (6, 1, 0, 0)
    );
    let e = d.events.list[0];
    assert_eq!(
        (e.job.a, e.a, e.b, e.value_a, e.value_b),
        (Some(2), Some(6), Some(6), Some(2), Some(0x2_0000))
    );
    assert_eq!(
        (d.registers[0].name.as_str(), d.registers[0].count),
        ("JOB_IRQ_STATUS", 1)
    );
    assert!(d.registers[0].fields.len() >= 2, "{:?}", d.registers[0].fields);
    assert_eq!(diff(&b, &a), d.swapped());
}

#[test]
fn inserted_and_deleted_accesses_do_not_shift_later_ones() {
    let a = recording(&BASE, &[]);
    let mut more = BASE.to_vec();
    more.insert(4, (false, 0x1000, 0));
    more.insert(0, (false, 0, 0x60a0_0002));
    more.remove(4);
    let b = recording(&more, &[]);
    let d = diff(&a, &b);
    assert_eq!(
        (d.events.equal, d.events.changed, d.events.deleted, d.events.inserted),
        (6, 0, 1, 2)
    );
    let both = |n| JobPair { a: Some(n), b: Some(n) };
    let differences: Vec<_> = d
        .events
        .list
        .iter()
        .map(|e| (e.job, e.a, e.b, e.offset.get()))
        .collect();
    assert_eq!(
        differences,
        [
            (both(0), None, Some(0), 0),
            (both(1), None, Some(4), 0x1000),
            (both(1), Some(3), None, 0x100c)
        ]
    );
    assert_eq!(diff(&b, &a), d.clone().swapped());
    assert!(!d.is_empty());
}

#[test]
fn missing_job_is_reported() {
    let (a, b) = (recording(&BASE, &[]), recording(&BASE[..4], &[]));
    let d = diff(&a, &b);
    assert_eq!((d.jobs, d.events.deleted), ((2, 1), 3));
}

#[test]
fn pages_differ_by_contents_and_presence() {
    let a = recording(&[], &[(1, 1), (2, 2), (3, 3)]);
    let b = recording(&[], &[(2, 2), (3, 4), (9, 1)]);
    let d = diff(&a, &b);
    assert_eq!(
        (d.pages.same, d.pages.changed, d.pages.only_a, d.pages.only_b),
        (1, 1, 1, 1)
    );
    assert!(d.pages.physical);
    let changed = d.pages.list.iter().find(|p| p.in_a && p.in_b).unwrap();
    assert_eq!((changed.va, changed.first_byte), (GpuVa::new(0x3000), Some(0)));
    assert_eq!(diff(&b, &a), d.swapped());
}

/// A job that one side lacks in the middle shifts no later job: its neighbours are matched by their heads.
#[test]
fn missing_job_does_not_shift_later_jobs() {
    let job = |head: u64, status: u64| {
        [
            (true, 0x18c0, head),
            (true, 0x18e0, 1),
            (false, 0x1010, status),
            (false, 0x100c, 2),
        ]
    };
    let all = |heads: &[u64]| -> Vec<_> { heads.iter().flat_map(|h| job(*h, h & 0xf)).collect() };
    let a = recording(&all(&[0x41, 0x82, 0xc3, 0x104]), &[]);
    let b = recording(&all(&[0x41, 0xc3, 0x104]), &[]);
    let d = diff(&a, &b);
    assert_eq!(d.jobs, (4, 3));
    // The write of the head is in the interval of the previous job: 0x82 on one side, 0xc3 on the other.
    assert_eq!(
        (d.events.equal, d.events.changed, d.events.deleted, d.events.inserted),
        (11, 1, 4, 0)
    );
    let missing: Vec<_> = d
        .events
        .list
        .iter()
        .filter(|e| e.value_b.is_none())
        .map(|e| (e.job, e.events))
        .collect();
    assert_eq!(missing, [(JobPair { a: Some(2), b: None }, 4)]);
    assert_eq!(diff(&b, &a), d.swapped());
}

/// Creates a recording of two address spaces whose tables are at `base`; the pages after them hold `bytes`.
fn two_spaces(base: u64, bytes: [u8; 2]) -> Recording {
    two_spaces_of(base, bytes.map(|b| [b; 4096]))
}

/// Does the same with these pages.
fn two_spaces_of(base: u64, pages: [[u8; 4096]; 2]) -> Recording {
    use crate::PhysAddr;
    use crate::mmu::{self, Rights};
    use crate::recording::{AddressSpace, MmuFormat};
    const F: MmuFormat = MmuFormat::Aarch64_4k;
    let mut m = MemoryBuilder::new();
    let mut frames = Vec::new();
    let mut accesses = Vec::new();
    let mut spaces = Vec::new();
    for (number, data) in pages.into_iter().enumerate() {
        let root = base + ((number as u64) << 16);
        for level in 0..4u64 {
            let mut page = [0u8; 4096];
            for e in page.chunks_exact_mut(8) {
                e.copy_from_slice(&mmu::INVALID.to_le_bytes());
            }
            let next = PhysAddr::new(root + ((level + 1) << 12));
            let entry = if level < 3 {
                mmu::encode_table(F, next)
            } else {
                mmu::encode_leaf(F, next, Rights::RW, 0)
            };
            page[..8].copy_from_slice(&entry.to_le_bytes());
            frames.push(((root >> 12) + level, m.add_page(&page), FrameRole::Table));
        }
        frames.push(((root >> 12) + 4, m.add_page(&data), FrameRole::Data));
        let register = 0x2400 + 0x40 * number as u32;
        accesses.push((true, register, root & 0xffff_ffff));
        accesses.push((true, register + 4, root >> 32));
        spaces.push(AddressSpace {
            number: number as u8,
            format: F,
            root: PhysAddr::new(root),
            memattr: 0,
            transcfg: 6,
        });
    }
    m.add_snapshot(0, frames);
    let mut r = recording(&accesses, &[]);
    r.memory = m.finish();
    r.metadata.address_spaces = spaces;
    r
}

#[test]
fn relocated_page_tables_are_equal_in_every_address_space() {
    let a = two_spaces(0x1_0010_0000, [1, 2]);
    let moved = diff(&a, &two_spaces(0x3_0070_0000, [1, 2]));
    assert!(moved.is_empty(), "{moved:?}");
    assert_eq!((moved.events.relocated, moved.pages.same), (4, 2));
    let changed = two_spaces(0x3_0070_0000, [1, 9]);
    let d = diff(&a, &changed);
    assert_eq!((d.pages.same, d.pages.changed, d.events.changed), (1, 1, 0));
    assert_eq!((d.pages.list[0].address_space, d.pages.list[0].va), (1, GpuVa::ZERO));
    assert_eq!(diff(&changed, &a), d.swapped());
    // A root that belongs to neither side is a difference.
    let mut other = two_spaces(0x3_0070_0000, [1, 2]);
    other.metadata.address_spaces[1].root += 0x1000;
    assert_eq!(diff(&a, &other).events.changed, 1);
}

#[test]
fn truncated_alignment_is_reported() {
    // Two values in every order: both sides contain all of them, and nothing is distinctive.
    let coins = |seed: u64| -> Vec<_> {
        let mut state = seed;
        let next = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (false, 0x2000 + 4 * (state >> 63) as u32, 0)
        });
        next.take(6000).collect()
    };
    let (a, b) = (recording(&coins(1), &[]), recording(&coins(2), &[]));
    let d = diff(&a, &b);
    assert_eq!(d.events.deleted, d.events.inserted);
    assert_eq!(d.events.cut_short, [JobPair { a: Some(0), b: Some(0) }]);
    assert_eq!(diff(&b, &a), d.swapped());
}

#[test]
fn a_comparison_can_be_cancelled() {
    let progress = Progress::new();
    progress.cancel();
    let r = recording(&BASE, &[]);
    assert_eq!(diff_with(&r, &r, &Rules::default(), &progress), Err(Cancelled));
}

/// Values that differ between any two runs are no difference: the number of status reads, a flush id and its use.
#[test]
fn wait_counts_flush_ids_and_counters_are_no_difference() {
    let run = |reads: usize, flush: u64, cycles: u64| {
        let mut list = vec![(true, 0x2418, 4)];
        list.extend(std::iter::repeat_n((false, 0x2428, 1), reads));
        list.extend([
            (false, 0x2428, 0),
            (false, 0x38, flush),
            (true, 0x18f0, flush),
            (false, 0x90, cycles),
        ]);
        recording(&list, &[])
    };
    let (a, b) = (run(9, 0xff_fff3, 1), run(2, 7, 2));
    let d = diff(&a, &b);
    assert!(d.is_empty(), "{d:?}");
    assert_eq!((d.events.equal, d.events.uncompared, d.events.folded), (2, 3, (9, 2)));
    assert_eq!(diff(&b, &a), d.swapped());
    // A wait that ended with another value is a difference, and so is another command.
    let mut list = vec![(true, 0x2418, 5)];
    list.extend([
        (false, 0x2428, 0),
        (false, 0x2428, 1),
        (false, 0x38, 7),
        (true, 0x18f0, 7),
        (false, 0x90, 2),
    ]);
    let other = recording(&list, &[]);
    let d = diff(&a, &other);
    let names: Vec<_> = d.registers.iter().map(|r| r.name.as_str()).collect();
    assert_eq!((d.events.changed, names), (2, vec!["AS0_COMMAND", "AS0_STATUS"]));
    // Without a map, no value is known to differ between runs.
    let (mut a, mut b) = (a, b);
    (a.metadata.identity.gpu_id, b.metadata.identity.gpu_id) = (0, 0);
    let d = diff(&a, &b);
    assert_eq!((d.events.uncompared, d.events.folded, d.is_empty()), (0, (0, 0), false));
}

#[test]
fn zero_page_equals_a_missing_page() {
    let (a, b) = (recording(&BASE, &[(1, 1), (2, 0)]), recording(&BASE, &[(1, 1), (3, 0)]));
    let d = diff(&a, &b);
    assert!(d.is_empty(), "{d:?}");
    assert_eq!(d.pages.same, 3);
}

/// Creates a recording of one address space. Tables at `base` map its first pages, each to its own frame after the
/// tables, by these entries without address; 0 leaves a page unmapped.
fn mapped(base: u64, entries: &[u64]) -> Recording {
    use crate::recording::{AddressSpace, MmuFormat};
    use crate::{PhysAddr, mmu};
    const F: MmuFormat = MmuFormat::Aarch64_4k;
    let mut m = MemoryBuilder::new();
    let mut frames = Vec::new();
    for level in 0..4u64 {
        let mut page = [0u8; 4096];
        let mut put = |i: usize, e: u64| page[i * 8..i * 8 + 8].copy_from_slice(&e.to_le_bytes());
        if level < 3 {
            put(0, mmu::encode_table(F, PhysAddr::new(base + ((level + 1) << 12))));
        } else {
            for (i, bits) in entries.iter().enumerate().filter(|(_, e)| **e != 0) {
                put(i, bits | (base + 0x4000 + ((i as u64) << 12)));
            }
        }
        frames.push(((base >> 12) + level, m.add_page(&page), FrameRole::Table));
    }
    m.add_snapshot(0, frames);
    let mut r = recording(&[], &[]);
    r.memory = m.finish();
    r.metadata.address_spaces = vec![AddressSpace {
        number: 3,
        format: F,
        root: PhysAddr::new(base),
        memattr: 0,
        transcfg: 6,
    }];
    r
}

/// Entries without address: read and write, not executable; the same, executable; the same with another attribute.
const RW: u64 = 1 << 54 | 0x443;
const RWX: u64 = 0x443;
const RW1: u64 = 1 << 54 | 0x447;

#[test]
fn mapping_differences_are_grouped_into_runs() {
    let a = mapped(0x10_0000, &[RW, RW, RW, RW, RW, RW, RW, 0, 0]);
    let b = mapped(0x10_0000, &[RW, RWX, RWX, RW, 0, RW1, RW, RW, RW]);
    let d = diff(&a, &b);
    let m = &d.mappings;
    assert_eq!((m.same, m.changed, m.only_a, m.only_b), (3, 3, 1, 2));
    let list: Vec<_> = m
        .list
        .iter()
        .map(|d| (d.address_space, d.va.get() >> 12, d.pages))
        .collect();
    assert_eq!(list, [(3, 1, 2), (3, 4, 1), (3, 5, 1), (3, 7, 2)]);
    let rights = |m: Option<MappedAs>| m.map(|m| m.rights.to_string());
    assert_eq!(rights(m.list[0].a).as_deref(), Some("rw-"));
    assert_eq!(rights(m.list[0].b).as_deref(), Some("rwx"));
    assert_eq!((m.list[1].b, m.list[3].a), (None, None));
    assert_eq!(m.list[2].b.map(|m| m.attr_index), Some(1));
    assert!(!d.is_empty());
    assert_eq!(diff(&b, &a), d.swapped());
    // Each of the three is a difference by itself.
    for other in [[RWX, RW], [RW1, RW], [0, RW]] {
        let (a, b) = (mapped(0x10_0000, &[RW, RW]), mapped(0x10_0000, &other));
        let d = diff(&a, &b);
        assert!(!d.is_empty(), "{other:x?}");
        assert_eq!(diff(&b, &a), d.swapped());
    }
}

#[test]
fn physical_page_addresses_are_no_mapping_difference() {
    let entries = [RW, RWX, 0, RW1, RW];
    let d = diff(&mapped(0x10_0000, &entries), &mapped(0x7000_0000, &entries));
    assert!(d.is_empty(), "{d:?}");
    assert_eq!((d.mappings.same, d.mappings.list.len()), (4, 0));
}

#[test]
fn mappings_of_a_missing_address_space_are_one_sided() {
    let a = mapped(0x10_0000, &[RW, RW, RWX]);
    let mut b = a.clone();
    b.metadata.address_spaces[0].number = 1;
    let d = diff(&a, &b);
    assert_eq!((d.mappings.only_a, d.mappings.only_b, d.mappings.same), (3, 3, 0));
    let list: Vec<_> = d.mappings.list.iter().map(|m| (m.address_space, m.pages)).collect();
    assert_eq!(list, [(1, 2), (1, 1), (3, 2), (3, 1)]);
    assert_eq!(diff(&b, &a), d.swapped());
}

#[test]
fn more_differing_runs_than_are_listed_are_counted() {
    use crate::mmu;
    // Blocks of 1 GiB, every second one executable on one side: 512 runs in each of eight tables.
    let with_blocks = |executable: bool| {
        let mut r = mapped(0x10_0000, &[]);
        let mut m = MemoryBuilder::new();
        let entries = |f: &dyn Fn(u64) -> u64| {
            let mut page = [0u8; 4096];
            for (i, e) in page.chunks_exact_mut(8).enumerate() {
                e.copy_from_slice(&f(i as u64).to_le_bytes());
            }
            page
        };
        let table = |i: u64| if i < 8 { (0x101 + i) << 12 | 3 } else { 0 };
        let block = |i: u64| {
            if executable && i.is_multiple_of(2) {
                RWX & !2
            } else {
                RW & !2
            }
        };
        let (top, blocks) = (m.add_page(&entries(&table)), m.add_page(&entries(&block)));
        let mut frames = vec![(0x100, top, FrameRole::Table)];
        frames.extend((0..8).map(|i| (0x101 + i, blocks, FrameRole::Table)));
        m.add_snapshot(0, frames);
        r.memory = m.finish();
        r
    };
    let (a, b) = (with_blocks(false), with_blocks(true));
    let m = diff(&a, &b).mappings;
    let half = 8 * 256 * (mmu::span_bytes(1) >> 12);
    assert_eq!((m.same, m.changed, m.list.len()), (half, half, MAX_LISTED_DIFFERENCES));
}

/// Creates CPU writes before each of two jobs, as pieces of pages: address and bytes.
fn written(pieces: [&[(u64, &[u8])]; 2]) -> Recording {
    let mut b = EventsBuilder::new();
    let mut m = MemoryBuilder::new();
    let zeros = m.add_page(&[0; 4096]);
    m.add_snapshot(0, [(7, zeros, FrameRole::Data)]);
    for (n, pieces) in pieces.into_iter().enumerate() {
        for (at, bytes) in pieces {
            let mut image = [0u8; 4096];
            let from = (at % 4096) as usize;
            image[from..from + bytes.len()].copy_from_slice(bytes);
            let page = m.add_page(&image).0;
            let row = crate::recording::HostWriteRow {
                at: PhysAddr::new(*at),
                bytes: bytes.len() as u32,
                page,
            };
            b.host_write(n as u64, 0, row);
        }
        for (offset, value) in [(0x18c0, 0x40 * (n as u64 + 1)), (0x18e0, 1)] {
            let access = Access {
                space: 0,
                write: true,
                offset: RegOffset::new(offset),
                width: 4,
                value,
            };
            b.access(n as u64, 0, access);
        }
    }
    let mut r = Recording {
        events: b.finish(),
        memory: m.finish(),
        ..Recording::default()
    };
    r.metadata.identity.gpu_id = 0x60a0_0002;
    r
}

#[test]
fn host_writes_are_compared_by_byte_with_their_address() {
    let a = written([&[(0x5010, &[1, 2, 3, 4])], &[(0x5010, &[9]), (0x7000, &[0, 0])]]);
    assert!(diff(&a, &a.clone()).is_empty());
    // The same bytes in other pieces.
    let cut = written([
        &[(0x5010, &[1, 2]), (0x5012, &[3, 4])],
        &[(0x5010, &[9]), (0x7000, &[0]), (0x7001, &[0])],
    ]);
    let d = diff(&a, &cut);
    assert!(d.is_empty(), "{d:?}");
    assert_eq!(d.host_writes.same, 7);
    // Other bytes, fewer bytes, and a byte that the other side's memory already holds: frame 7 is all zeros.
    let b = written([&[(0x5010, &[1, 7, 8])], &[(0x5010, &[9]), (0x6000, &[5, 5, 5])]]);
    let d = diff(&a, &b);
    let h = &d.host_writes;
    assert_eq!(
        (h.same, h.already, h.changed, h.only_a, h.only_b, h.physical),
        (2, 2, 2, 1, 3, true)
    );
    let both = |n| JobPair { a: Some(n), b: Some(n) };
    let entries: Vec<_> = h
        .list
        .iter()
        .map(|d| {
            (
                d.job,
                d.a,
                d.b,
                d.va.get(),
                d.bytes,
                d.bytes_a.clone(),
                d.bytes_b.clone(),
            )
        })
        .collect();
    assert_eq!(
        entries,
        [
            (both(0), Some(0), Some(0), 0x5011, 2, vec![2, 3], vec![7, 8]),
            (both(0), Some(0), None, 0x5013, 1, vec![4], vec![]),
            (both(1), None, Some(4), 0x6000, 3, vec![], vec![5, 5, 5])
        ]
    );
    assert!(!d.is_empty());
    assert_eq!(diff(&b, &a), d.clone().swapped());
}

/// Creates a recording of undecoded accesses and DMA maps.
fn beside_accesses(undecoded: &[u32], dma: &[(u64, u64)]) -> Recording {
    let mut b = EventsBuilder::new();
    for at in undecoded {
        b.undecoded(
            0,
            0,
            0,
            UndecodedRow::from_instruction(RegOffset::new(*at), 0x00f3_48a5),
        );
    }
    for (bus, bytes) in dma {
        let row = DmaMapRow {
            bus: BusAddr::new(*bus),
            bytes: *bytes,
            kind: DmaKind::Mapped as u32,
            reserved: 0,
        };
        b.dma_map(0, 0, row);
    }
    Recording {
        events: b.finish(),
        ..Recording::default()
    }
}

#[test]
fn undecoded_accesses_are_compared_by_address() {
    let (a, b) = (beside_accesses(&[0, 8, 16], &[]), beside_accesses(&[0, 16, 24], &[]));
    let d = diff(&a, &b);
    assert_eq!((d.events.equal, d.events.deleted, d.events.inserted), (2, 1, 1));
    let entries: Vec<_> = d
        .events
        .list
        .iter()
        .map(|e| (e.kind, e.a, e.b, e.offset.get()))
        .collect();
    let undecoded = EventKind::Undecoded;
    assert_eq!(entries, [(undecoded, Some(1), None, 8), (undecoded, None, Some(2), 24)]);
    assert!(diff(&a, &a).is_empty());
    assert_eq!(diff(&b, &a), d.swapped());
}

#[test]
fn dma_memory_is_compared_by_size_not_address() {
    let (a, b) = (
        beside_accesses(&[], &[(0x1000, 64), (0x2000, 4096)]),
        beside_accesses(&[], &[(0x8000, 64), (0x9000, 8192)]),
    );
    let d = diff(&a, &b);
    assert_eq!((d.events.equal, d.events.changed), (1, 1));
    assert_eq!(diff(&b, &a), d.swapped());
}

#[test]
fn one_sided_event_kinds_are_counted_but_no_difference() {
    let (a, b) = (beside_accesses(&[0, 8], &[(0, 64)]), beside_accesses(&[], &[(0, 64)]));
    let d = diff(&a, &b);
    assert!(d.is_empty());
    let one_sided = OneSided {
        kind: EventKind::Undecoded,
        a: 2,
        b: 0,
    };
    assert_eq!(d.events.one_sided, [one_sided]);
    assert_eq!(diff(&b, &a), d.swapped());
}

/// Swapped blocks, an interrupt and a changed value are separate differences, found from either side.
#[test]
fn moved_blocks_are_distinguished_from_inserts_and_deletes() {
    let block = |number: u32| -> Vec<_> {
        (0..6)
            .map(|i| (true, 0x2000 + number * 0x40 + 4 * i, u64::from(i) + 7))
            .collect()
    };
    let all = |order: &[u32]| -> Vec<_> { order.iter().flat_map(|n| block(*n)).collect() };
    let a = recording(&all(&[0, 1, 2, 3, 4, 5, 6, 7]), &[]);
    let b = recording(&all(&[0, 2, 3, 4, 5, 6, 1, 7]), &[]);
    let d = diff(&a, &b);
    let e = &d.events;
    assert_eq!((e.equal, e.changed, e.deleted, e.inserted, e.moved), (42, 0, 0, 0, 6));
    let first = e.list[0];
    assert_eq!(
        (first.what, first.a, first.b, first.events),
        (ChangeKind::MovedFrom, Some(6), Some(36), 6)
    );
    assert_eq!(diff(&b, &a).swapped().events.moved, 6);
    assert_eq!(diff(&b, &a), d.swapped());
}

#[test]
fn alignment_gives_the_change_of_an_event_on_either_side() {
    let a = recording(&BASE, &[]);
    let mut more = BASE.to_vec();
    more.insert(3, (true, 0x2000, 5));
    more.insert(4, (true, 0x2004, 6));
    more[6].2 ^= 0x40;
    let b = recording(&more, &[]);
    let (d, aligned) = compare(&a, &b, &Rules::default(), &Progress::new()).unwrap();
    assert_eq!((d.events.inserted, d.events.changed), (2, 1));
    assert_eq!(aligned.change_at(DiffSide::B, 4), Some(ChangeKind::Inserted));
    assert_eq!(aligned.change_at(DiffSide::A, 4), Some(ChangeKind::Changed));
    let block = |change| aligned.blocks().iter().find(|b| b.change == change).unwrap();
    let inserted = block(ChangeKind::Inserted);
    assert_eq!((inserted.len, aligned.event_b(inserted.b)), (2, Some(3)));
    assert_eq!(aligned.event_a(block(ChangeKind::Changed).a), Some(4));
}

/// A written value is the same even if it is half of a root on one side only.
#[test]
fn equal_root_values_are_equal_regardless_of_tables() {
    use crate::recording::{AddressSpace, MmuFormat};
    let with_root = |root: u64| {
        let mut r = recording(&[(true, 0x2400, 0)], &[]);
        r.metadata.address_spaces = vec![AddressSpace {
            number: 0,
            format: MmuFormat::MaliLpae,
            root: PhysAddr::new(root),
            memattr: 0,
            transcfg: 0,
        }];
        r
    };
    let (a, b) = (with_root(0x5000), with_root(0x1_0000_0000));
    let d = diff(&a, &b);
    assert_eq!((d.events.equal, d.events.changed, d.events.relocated), (1, 0, 0));
    assert_eq!(diff(&b, &a), d.swapped());
}

#[test]
fn mapping_difference_starts_at_the_entry_store() {
    use crate::PhysAddr;
    use crate::recording::HostWriteRow;
    // Two jobs' worth of events would exceed the limit, so the entry is stored before the first job.
    let base = 0x10_0000u64;
    let build = |entries: &[u64], store: bool| {
        let mut r = mapped(base, &[RW, RW]);
        let later = mapped(base, entries);
        let mut m = MemoryBuilder::new();
        let mut table = 0;
        for (event, source) in [(0, &r), (2, &later)] {
            let view = source.memory.last();
            let frames: Vec<_> = (0..4)
                .map(|n| {
                    let frame = (base >> 12) + n;
                    let page = m.add_page(view.frame(frame).unwrap());
                    if n == 3 {
                        table = page.0;
                    }
                    (frame, page, FrameRole::Table)
                })
                .collect();
            m.add_snapshot(event, frames);
        }
        r.memory = m.finish();
        let mut e = EventsBuilder::new();
        let access = |offset: u32| Access {
            space: 0,
            write: true,
            offset: RegOffset::new(offset),
            width: 4,
            value: 1,
        };
        e.access(0, 0, access(0x20));
        if store {
            let row = HostWriteRow {
                at: PhysAddr::new(base + 0x3000 + 8),
                bytes: 8,
                page: table,
            };
            e.host_write(1, 0, row);
        } else {
            e.access(1, 0, access(0x24));
        }
        e.access(2, 0, access(0x28));
        r.events = e.finish();
        r
    };
    assert_eq!(PhysAddr::new(base + 0x3008).frame(), (base >> 12) + 3);
    for (store, expected) in [(true, Some((Some(1), Some(1)))), (false, None)] {
        let (a, b) = (build(&[RW, RW], store), build(&[RW, RWX], store));
        let (d, aligned) = compare(&a, &b, &Rules::default(), &Progress::new()).unwrap();
        let [m] = &d.mappings.list[..] else {
            panic!("{:?}", d.mappings)
        };
        assert_eq!((m.va, m.pages), (GpuVa::new(0x1000), 1));
        let effect = mapping_effect(&a, &b, m).unwrap();
        let cause = find_cause((&a, &b), (&d, &aligned), effect, &Progress::new()).unwrap();
        let first = cause.steps.first().map(|s| (s.a, s.b));
        assert_eq!(first, expected, "{cause:?}");
        if store {
            assert_eq!(cause.steps[0].link, Link::Stored);
        }
    }
}

/// A replay omits the driver's reads of system memory: it has no such space.
#[test]
fn accesses_to_a_missing_machine_space_are_not_compared() {
    use crate::recording::{Space, SpaceKind};
    let space = |name: &str, kind| Space {
        name: name.into(),
        kind,
        bytes: 0x1000,
    };
    let with = |foreign: &[u64], spaces: Vec<Space>| {
        let mut b = EventsBuilder::new();
        let mut access = |space, offset, value| {
            let (write, width) = (false, 4);
            b.access(
                0,
                0,
                Access {
                    space,
                    write,
                    offset,
                    width,
                    value,
                },
            );
        };
        access(0, RegOffset::new(0x2c), 0x100);
        foreign.iter().for_each(|v| access(1, RegOffset::new(0x10), *v));
        access(0, RegOffset::new(0x100c), 2);
        let mut r = Recording {
            events: b.finish(),
            ..Recording::default()
        };
        r.metadata.spaces = spaces;
        r
    };
    let (device, machine) = (
        space("bar2", SpaceKind::Registers),
        space("memory@0xc0000", SpaceKind::Memory),
    );
    let a = with(&[0xaa55, 7], vec![device.clone(), machine.clone()]);
    let b = with(&[], vec![device.clone()]);
    let d = diff(&a, &b);
    assert!(d.is_empty(), "{d:?}");
    assert_eq!((d.events.equal, d.events.foreign), (2, (2, 0)));
    assert_eq!(diff(&b, &a), d.swapped());
    // If both sides have the space, it is compared; and framebuffer memory belongs to the device.
    let other = with(&[0xaa55], vec![device.clone(), machine]);
    assert_eq!(diff(&a, &other).events.deleted, 1);
    let device_only = with(&[1], vec![device.clone(), space("bar0", SpaceKind::Framebuffer)]);
    assert_eq!(diff(&device_only, &b).events.deleted, 1);
}
