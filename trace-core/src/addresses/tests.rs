//! Tests that the curve visits every cell once, and that the summary of a range equals that of its single pages.

use super::*;
use crate::PhysAddr;
use crate::mmu::{self, Rights};
use crate::progress::Progress;
use crate::recording::{
    AddressSpace, Buffer, BufferRole, ElementType, EventsBuilder, FrameRole, HostWriteRow, MemoryBuilder, MmuFormat,
    PageId, Recording,
};
use proptest::prelude::*;

#[test]
fn hilbert_curve_visits_every_cell_once_by_neighbours() {
    for order in 0..=6 {
        let cells = 1u64 << (2 * order);
        let mut seen = vec![false; cells as usize];
        let mut last: Option<(u64, u64)> = None;
        for i in 0..cells {
            let (x, y) = hilbert::place(order, i);
            assert!(x < 1 << order && y < 1 << order, "{order}: {i} is at {x}, {y}");
            assert!(!std::mem::replace(&mut seen[(y << order | x) as usize], true));
            assert_eq!(hilbert::index(order, x, y), i);
            if let Some((a, b)) = last {
                assert_eq!(
                    a.abs_diff(x) + b.abs_diff(y),
                    1,
                    "{order}: {i} is no neighbour of the one before"
                );
            }
            last = Some((x, y));
        }
    }
}

proptest! {
    #[test]
    fn every_page_of_48_bits_has_a_cell_of_its_own(page in 0u64..1 << 36) {
        let (x, y) = hilbert::place(hilbert::PAGES_ORDER, page);
        prop_assert!(x < 1 << 18 && y < 1 << 18);
        prop_assert_eq!(hilbert::index(hilbert::PAGES_ORDER, x, y), page);
    }

    #[test]
    fn an_aligned_power_of_four_of_pages_is_a_square(page in 0u64..1 << 36, level in 0u32..=18) {
        let block = page >> (2 * level) << (2 * level);
        let (x, y) = hilbert::place(18, page);
        let (bx, by) = hilbert::place(18, block);
        prop_assert_eq!((x >> level, y >> level), (bx >> level, by >> level));
        // The square is inside the cell of the coarser order.
        let (cx, cy) = hilbert::place(18 - level, page >> (2 * level));
        prop_assert_eq!((x >> level, y >> level), (cx, cy));
    }

    #[test]
    fn close_curve_positions_are_close_in_the_square(page in 0u64..(1 << 36) - 4096, by in 1u64..4096) {
        let (a, b) = hilbert::place(18, page);
        let (c, d) = hilbert::place(18, page + by);
        // The squared distance is at most six times the path length (R. Niedermeier, K. Reinhardt, P. Sanders 2002).
        let squared = a.abs_diff(c).pow(2) + b.abs_diff(d).pow(2);
        prop_assert!(squared <= 6 * by, "{squared} for {by}");
    }
}

/// Returns runs from steps: gap and size in pages, physical location, rights.
fn runs_of(steps: &[(u64, u64, u64, u8)]) -> Vec<MapRun> {
    let mut at = 0;
    let mut out = Vec::new();
    for (gap, pages, frame, rights) in steps {
        at += gap << 12;
        out.push(MapRun {
            va: GpuVa::new(at),
            pa: PhysAddr::new(frame << 12),
            pages: *pages,
            rights: Rights {
                read: rights & 1 != 0,
                write: rights & 2 != 0,
                execute: rights & 4 != 0,
            },
            attributes: 0,
            shared: 0,
        });
        at += pages << 12;
    }
    out
}

fn steps() -> impl Strategy<Value = Vec<(u64, u64, u64, u8)>> {
    proptest::collection::vec((0u64..5, 1u64..6, 0u64..64, 0u8..8), 0..400)
}

proptest! {
    #[test]
    fn range_summary_matches_its_pages(steps in steps(), from in 0u64..3000, pages in 0u64..3000) {
        let all = Pieces::new(runs_of(&steps));
        let range = from << 12..(from + pages) << 12;
        let mut naive = RightsSummary::default();
        for r in all.list() {
            for p in (0..r.pages).map(|p| r.va.get() + (p << 12)).filter(|p| range.contains(p)) {
                let _ = p;
                naive.bytes[RightsSummary::index(r.rights)] += 4096;
            }
        }
        prop_assert_eq!(all.over(&GpuVa::new_range(range.clone())), naive);
        let holds = |at: u64| all.list().iter().position(|r| r.va.get() <= at && at < r.end().get());
        let border = all.border(GpuVa::new(range.start));
        prop_assert!(border > GpuVa::new(range.start));
        prop_assert_eq!(holds(border - GpuVa::new(1)), holds(range.start));
        prop_assert!(border == GpuVa::MAX || holds(border.get()) != holds(range.start));
        let kinds = naive.kinds();
        prop_assert!(kinds.windows(2).all(|k| k[0].1 >= k[1].1));
        prop_assert_eq!(kinds.iter().map(|k| k.1).sum::<u64>(), naive.mapped_bytes());
    }

    #[test]
    fn all_mappings_of_a_page_are_found(steps in steps(), frame in 0u64..70, pages in 1u64..4) {
        let runs = runs_of(&steps);
        let (a, b) = runs.split_at(runs.len() / 2);
        let reverse_map = ReverseMap::new([a, b]);
        let memory = PhysAddr::new(frame << 12)..PhysAddr::new((frame + pages) << 12);
        let (found, all) = reverse_map.find_mappings(&memory, usize::MAX);
        prop_assert!(all);
        let pages_of = |va: GpuVa, n: u64| (0..n).map(move |p| va.get() + (p << 12));
        let mut entries: Vec<(u32, u64)> = found.iter().flat_map(|p| pages_of(p.run.va, p.run.pages).map(|v| (p.space, v))).collect();
        entries.sort_unstable();
        let mut naive = Vec::new();
        for (space, runs) in [(0, a), (1, b)] {
            for r in runs {
                for va in pages_of(r.va, r.pages) {
                    if memory.contains(&r.target(GpuVa::new(va)).unwrap()) {
                        naive.push((space, va));
                    }
                }
            }
        }
        naive.sort_unstable();
        prop_assert_eq!(entries, naive);
    }

    #[test]
    fn islands_cover_all_mappings_without_large_gaps(steps in steps(), far in 0u64..40, max in 1usize..20) {
        let mut steps = steps;
        for (i, s) in steps.iter_mut().enumerate() {
            s.0 = if i % 7 == 3 { s.0 << (far % 24) } else { s.0 };
        }
        let runs = runs_of(&steps);
        let found = find_islands(&runs, max);
        prop_assert!(found.len() <= max);
        prop_assert!(runs.iter().all(|r| found.iter().any(|i| i.range.start <= r.va && r.end() <= i.range.end)));
        let mut end = 0;
        for i in &found {
            prop_assert_eq!(i.range.start - GpuVa::new(end), i.gap);
            end = i.range.end.get();
        }
        if found.len() < max && !runs.is_empty() {
            // The islands are cut at every gap of at least 64 KiB, except if there are too many gaps.
            let gaps = runs.windows(2).filter(|w| w[1].va.get() - w[0].end().get() >= 1 << 16).count();
            prop_assert!(found.len() == gaps + 1 || gaps >= max);
        }
    }

    #[test]
    fn address_belongs_to_the_smallest_enclosing_buffer(list in proptest::collection::vec((0u64..200, 1u64..80), 0..30)) {
        let buffers: Vec<Buffer> = list.iter().map(|(va, bytes)| buffer(*va, *bytes)).collect();
        let all = find_owners(&buffers, 0);
        prop_assert!(all.list().windows(2).all(|w| w[0].va.get() + w[0].bytes <= w[1].va.get()));
        for at in 0..300u64 {
            let holds = |b: &&Buffer| b.va.get() <= at && at - b.va.get() < b.bytes;
            let smallest = buffers.iter().filter(holds).map(|b| b.bytes).min();
            let owner = all.at(GpuVa::new(at)).map(|o| buffers[o.buffer as usize].bytes);
            prop_assert_eq!(owner, smallest, "{}", at);
        }
    }
}

fn buffer(va: u64, bytes: u64) -> Buffer {
    Buffer {
        name: format!("b{va}-{bytes}"),
        role: BufferRole::Shared,
        address_space: 0,
        va: GpuVa::new(va),
        bytes,
        element: ElementType::U8,
    }
}

#[test]
fn page_entropy_is_computed_from_its_bytes() {
    assert_eq!(page_entropy(&[7; 4096]), 0.0);
    let mut page = [0u8; 4096];
    for (i, b) in page.iter_mut().enumerate() {
        *b = i as u8;
    }
    assert!((page_entropy(&page) - 8.0).abs() < 1e-4, "{}", page_entropy(&page));
    page.iter_mut().for_each(|b| *b &= 1);
    assert!((page_entropy(&page) - 1.0).abs() < 1e-4);
}

/// Returns a recording whose frames change between snapshots. The CPU wrote one of the changed frames.
fn changing() -> Recording {
    let mut m = MemoryBuilder::new();
    let id: Vec<PageId> = (1..=5u8).map(|v| m.add_page(&[v; 4096])).collect();
    let data = FrameRole::Data;
    m.add_snapshot(0, (1..=4).map(|f| (f, id[0], data)));
    m.add_changes(3, [(2, id[1], data), (3, id[1], data)]);
    // This snapshot stores frame 3 again without a change.
    m.add_changes(5, [(3, id[1], data), (4, id[2], data)]);
    m.add_changes(7, [(9, id[3], data)]);
    let mut b = EventsBuilder::new();
    let row = |frame: u64| HostWriteRow {
        at: PhysAddr::new(frame << 12 | 8),
        bytes: 4,
        page: id[1].0,
    };
    for _ in 0..2 {
        b.mark(0, "m");
    }
    b.host_write(0, 0, row(2));
    for _ in 3..8 {
        b.mark(0, "m");
    }
    b.host_write(0, 0, row(1));
    Recording {
        memory: m.finish(),
        events: b.finish(),
        ..Recording::default()
    }
}

#[test]
fn memory_change_is_dated_by_cpu_write_or_snapshot() {
    let r = changing();
    let describe = |event: u64| -> Vec<(u64, u64)> {
        let all = last_changes(&r, event, &Progress::new()).unwrap();
        all.iter()
            .flat_map(|c| c.frames.clone().map(|f| (f, c.value)))
            .collect()
    };
    assert_eq!(describe(0), [(1, 0), (2, 0), (3, 0), (4, 0)]);
    assert_eq!(
        describe(2),
        [(1, 0), (2, 2), (3, 0), (4, 0)],
        "the CPU wrote frame 2, and no snapshot has it yet"
    );
    assert_eq!(describe(3), [(1, 0), (2, 2), (3, 3), (4, 0)]);
    assert_eq!(
        describe(6),
        [(1, 0), (2, 2), (3, 3), (4, 5)],
        "frame 3 has the same page as before"
    );
    assert_eq!(describe(7), [(1, 0), (2, 2), (3, 3), (4, 5), (9, 7)]);
    assert_eq!(describe(8), [(1, 8), (2, 2), (3, 3), (4, 5), (9, 7)]);
}

#[test]
fn frame_values_appear_at_their_mapped_addresses() {
    let runs = runs_of(&[(1, 3, 2, 3), (10, 2, 3, 1)]);
    let frames = [
        FrameValue { frames: 0..3, value: 7 },
        FrameValue { frames: 4..9, value: 9 },
    ];
    let (layer, all) = map_values(&runs, &frames);
    assert!(all);
    let list: Vec<_> = layer
        .list()
        .iter()
        .map(|v| (v.va.get() >> 12, v.bytes >> 12, v.value))
        .collect();
    assert_eq!(list, [(1, 1, 7), (3, 1, 9), (15, 1, 9)]);
    let sum = layer.over(&(GpuVa::ZERO..GpuVa::new(4 << 12)));
    assert_eq!((sum.bytes, sum.min, sum.max, sum.mean()), (8192, 7, 9, Some(8.0)));
}

#[test]
fn runs_go_on_by_address_and_in_physical_memory() {
    const F: MmuFormat = MmuFormat::Aarch64_4k;
    let mut m = MemoryBuilder::new();
    let page = |entries: &[(usize, u64)]| {
        let mut p = [0u8; 4096];
        for (i, e) in entries {
            p[i * 8..i * 8 + 8].copy_from_slice(&e.to_le_bytes());
        }
        p
    };
    let leaf = |f: u64, rights, attr| mmu::encode_leaf(F, PhysAddr::new(f << 12), rights, attr);
    let mut frames: Vec<_> = (1..4u64)
        .map(|f| {
            (
                f,
                m.add_page(&page(&[(0, mmu::encode_table(F, PhysAddr::new((f + 1) << 12)))])),
                FrameRole::Table,
            )
        })
        .collect();
    let leaves = [
        (1, leaf(9, Rights::RW, 0)),
        (2, leaf(10, Rights::RW, 0)),
        (3, leaf(30, Rights::RW, 0)),
        (4, leaf(31, Rights::RO, 0)),
        (5, leaf(32, Rights::RO, 1)),
    ];
    frames.push((4, m.add_page(&page(&leaves)), FrameRole::Table));
    m.add_snapshot(0, frames);
    let memory = m.finish();
    let space = AddressSpace {
        number: 0,
        format: F,
        root: PhysAddr::new(1 << 12),
        memattr: 0x4d88,
        transcfg: 6,
    };
    let mut room = MappedRuns::MAX_RUNS;
    let runs = MappedRuns::build(&space, &memory.last(), &mut room, &Progress::new()).unwrap();
    let reported_entries: Vec<_> = runs
        .list
        .iter()
        .map(|r| (r.va.get() >> 12, r.pages, r.pa.frame(), r.attributes))
        .collect();
    assert_eq!(
        reported_entries,
        [(1, 2, 9, 0x88), (3, 1, 30, 0x88), (4, 1, 31, 0x88), (5, 1, 32, 0x4d)]
    );
    assert_eq!((runs.tables.len(), runs.all, room), (4, true, MappedRuns::MAX_RUNS - 4));
    let mut room = 2;
    let runs = MappedRuns::build(&space, &memory.last(), &mut room, &Progress::new()).unwrap();
    assert_eq!((runs.list.len(), runs.all), (2, false));
}
