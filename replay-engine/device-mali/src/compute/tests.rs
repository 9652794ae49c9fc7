//! Tests of memory and dispatch: with any number of threads, the result equals running the workgroups one after another
//! on plain memory.

use super::dispatch::{DispatchParams, DispatchResult, WorkgroupRunner, dispatch};
use super::last_writers::LastWriters;
use super::overlay::RoundWrites;
use super::stop::{Meter, Stop};
use super::trace::{AccessSource, NoTrace, Trace};
use super::view::{ChunkMode, View};
use crate::address_space::{Access, Translation};
use crate::budget::Budget;
use crate::fault::Fault;
use crate::memory::ArenaMemory;
use proptest::prelude::*;
use replay_engine::device::Arena;
use trace_core::mmu::{self, Rights};
use trace_core::progress::Progress;
use trace_core::recording::MmuFormat;
use trace_core::{GpuVa, PhysAddr};

const BASE: u64 = 0x4000_0000;
/// Number of frames of the arena: four tables, then data.
const FRAMES: u64 = 40;
/// First address of the data, and of the tables when accessed as data.
const DATA: GpuVa = GpuVa::new(0x10_0000);
const TABLES: GpuVa = GpuVa::new(0x18_0000);
const READ_ONLY: GpuVa = GpuVa::new(0x19_0000);
const CODE: GpuVa = GpuVa::new(0x19_1000);
const OUTSIDE: GpuVa = GpuVa::new(0x19_2000);

fn frame(n: u64) -> PhysAddr {
    PhysAddr::new(BASE + n * 4096)
}

/// Creates memory whose first four frames are tables. They map the other frames from [`DATA`], the tables themselves
/// from [`TABLES`], and three odd pages.
fn memory(format: MmuFormat) -> (ArenaMemory, Translation) {
    let mut m = ArenaMemory::new(Arena {
        base: PhysAddr::new(BASE),
        pages: FRAMES,
    });
    for level in 0..3u8 {
        let at = frame(u64::from(level)) + u64::from(mmu::index_at(level, DATA)) * 8;
        let entry = mmu::encode_table(format, frame(u64::from(level) + 1));
        m.write(at, &entry.to_le_bytes()).unwrap();
    }
    let mut map = |va: GpuVa, pa: PhysAddr, rights| {
        let at = frame(3) + u64::from(mmu::index_at(3, va)) * 8;
        let entry = mmu::encode_leaf(format, pa, rights, 0);
        m.write(at, &entry.to_le_bytes()).unwrap();
    };
    for n in 4..FRAMES {
        map(DATA + (n - 4) * 4096, frame(n), Rights::RW);
    }
    for n in 0..4 {
        map(TABLES + n * 4096, frame(n), Rights::RW);
    }
    map(READ_ONLY, frame(10), Rights::RO);
    map(CODE, frame(11), Rights::RX);
    map(OUTSIDE, PhysAddr::new(0x1000), Rights::RW);
    let t = Translation::tables(format, frame(0));
    (m, t)
}

const BOTH: [MmuFormat; 2] = [MmuFormat::Aarch64_4k, MmuFormat::MaliLpae];

fn view(m: &ArenaMemory, t: Translation) -> View<'_> {
    View::new(m, t, ChunkMode::InOrder)
}

fn code(stop: Stop) -> u8 {
    match stop {
        Stop::Fault(f) => f.code(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn words_bytes_and_ranges_see_the_same_memory() {
    for format in BOTH {
        let (m, t) = memory(format);
        let mut v = view(&m, t);
        v.write(DATA, &(0..=255).collect::<Vec<u8>>()).unwrap();
        for at in 0..240u64 {
            let b = |n: u64| u32::from((at + n) as u8);
            let word = |n: u64| b(n) | b(n + 1) << 8 | b(n + 2) << 16 | b(n + 3) << 24;
            assert_eq!(v.load::<1>(DATA + at), Ok([word(0)]));
            assert_eq!(v.load::<4>(DATA + at), Ok([word(0), word(4), word(8), word(12)]));
            assert_eq!(v.load_u8(DATA + at), Ok(at as u8));
            assert_eq!(v.load_u16(DATA + at), Ok(word(0) as u16));
        }
        // Loads and stores across two pages, whose frames are adjacent here.
        for at in 4080..4100 {
            v.store(DATA + at, [1, 2, 3, 0x0405_0607]).unwrap();
            assert_eq!(v.load::<4>(DATA + at), Ok([1, 2, 3, 0x0405_0607]));
            v.store_u16(DATA + at, 0x1122).unwrap();
            v.store_u8(DATA + at + 1, 0x33).unwrap();
            assert_eq!(v.load_u16(DATA + at), Ok(0x3322));
            let mut bytes = [0; 4];
            v.read(DATA + at, &mut bytes).unwrap();
            assert_eq!(bytes, [0x22, 0x33, 0, 0]);
        }
        assert_eq!(v.atomic(DATA + 8, |w| w.wrapping_add(1)), Ok(0x0b0a_0908));
        assert_eq!(v.atomic64(DATA + 8, |w| w << 4), Ok(0x0f0e_0d0c_0b0a_0909));
        assert_eq!(v.load::<1>(DATA + 8), Ok([0xb0a0_9090]));
        assert!(v.read(DATA + 5, &mut []).is_ok());
    }
}

#[test]
fn rights_are_checked_and_faults_name_the_access() {
    for format in BOTH {
        let (m, t) = memory(format);
        let mut v = view(&m, t);
        let fault = |r: Result<(), Stop>| match r {
            Err(Stop::Fault(Fault::Mmu(f))) => (f.code, f.va, f.access),
            other => panic!("{other:?}"),
        };
        v.load::<1>(READ_ONLY).unwrap();
        assert_eq!(fault(v.store(READ_ONLY, [1])), (0xcb, READ_ONLY, Access::Write));
        // A refused page leaves no cached translation.
        assert_eq!(fault(v.store(READ_ONLY, [1])), (0xcb, READ_ONLY, Access::Write));
        assert_eq!(
            fault(v.atomic(READ_ONLY + 4, |w| w).map(drop)),
            (0xcb, READ_ONLY + 4, Access::Atomic)
        );
        assert_eq!(fault(v.fetch(DATA).map(drop)), (0xcb, DATA, Access::Execute));
        assert_eq!(v.fetch(CODE), Ok([0; 16]));
        let unmapped = DATA + 36 * 4096;
        assert_eq!(fault(v.load::<2>(unmapped).map(drop)), (0xc3, unmapped, Access::Read));
        // The second of the two pages reports its own address. The store does not write to the first page.
        assert_eq!(
            fault(v.store(unmapped.wrapping_sub(4), [7, 7])),
            (0xc3, unmapped, Access::Write)
        );
        assert_eq!(v.load::<1>(unmapped.wrapping_sub(4)), Ok([0]));
        assert_eq!(fault(v.store(GpuVa::MAX.wrapping_sub(1), [7])).0, 0xe0);
        assert_eq!(fault(v.load::<1>(GpuVa::new(1 << 40)).map(drop)).0, 0xc0);
        assert_eq!(
            v.store(OUTSIDE + 8, [1]),
            Err(Stop::Fault(Fault::Bus {
                address: PhysAddr::new(0x1008),
                va: OUTSIDE + 8,
                access: Access::Write
            }))
        );
        assert_eq!(v.finish().outside, 1);
    }
}

#[test]
fn page_table_writes_take_effect_at_once_within_a_chunk() {
    for format in BOTH {
        let (m, t) = memory(format);
        let mut v = view(&m, t);
        v.store(DATA, [1]).unwrap();
        v.store(DATA + 4096, [2]).unwrap();
        let entry = TABLES + 3 * 4096 + u64::from(mmu::index_at(3, DATA)) * 8;
        let second = mmu::encode_leaf(format, frame(5), Rights::RO, 0);
        v.store(entry, [second as u32, (second >> 32) as u32]).unwrap();
        assert_eq!(v.load::<1>(DATA), Ok([2]));
        assert_eq!(code(v.store(DATA, [3]).unwrap_err()), 0xcb);
        v.store(entry, [0]).unwrap();
        assert_eq!(code(v.load::<1>(DATA).unwrap_err()), 0xc3);
    }
}

#[test]
fn page_used_as_table_invalidates_cached_translations() {
    // The test stores to the page so that its translation is cached. It then uses the page as a table and stores to it
    // again.
    let format = MmuFormat::MaliLpae;
    let (m, t) = memory(format);
    let mut v = view(&m, t);
    let far = GpuVa::new(0x4000_0000);
    let words = |e: u64| [e as u32, (e >> 32) as u32];
    v.store(DATA, words(mmu::encode_leaf(format, frame(7), Rights::RW, 0)))
        .unwrap();
    v.store(DATA + 3 * 4096, [77]).unwrap();
    v.store(DATA + 4 * 4096, [88]).unwrap();
    // The level 1 entry of `far` points at frame 5 as a level 2 table, whose first entry points at frame 4.
    v.store(DATA + 4096, words(mmu::encode_table(format, frame(4))))
        .unwrap();
    let entry = TABLES + 4096 + u64::from(mmu::index_at(1, far)) * 8;
    v.store(entry, words(mmu::encode_table(format, frame(5)))).unwrap();
    assert_eq!(v.load::<1>(far), Ok([77]));
    v.store(DATA, words(mmu::encode_leaf(format, frame(8), Rights::RW, 0)))
        .unwrap();
    assert_eq!(v.load::<1>(far), Ok([88]));
}

#[test]
fn in_order_chunks_drop_pages_that_they_only_read() {
    let pages = 3 << 14;
    let mut m = ArenaMemory::new(Arena {
        base: PhysAddr::ZERO,
        pages,
    });
    m.write(PhysAddr::new(4096), &[5]).unwrap();
    let mut v: View<'_> = View::new(&m, Translation::Identity, ChunkMode::InOrder);
    for n in 0..pages {
        v.load::<1>(GpuVa::new(n << 12)).unwrap();
        if n % 1000 == 1 {
            v.store(GpuVa::new(n << 12), [n as u32]).unwrap();
        }
    }
    assert_eq!(
        (v.load::<1>(GpuVa::new(4096)), v.load::<1>(GpuVa::new(1001 << 12))),
        (Ok([1]), Ok([1001]))
    );
    let left = v.finish();
    assert!(left.slots.len() <= (1 << 14) + 1, "{}", left.slots.len());
    let written = left.slots.iter().filter(|s| s.copy.is_some()).count();
    assert_eq!(written as u64, pages.div_ceil(1000));
}

#[test]
fn full_memory_refuses_new_pages_but_accepts_existing_ones() {
    let (mut m, t) = memory(MmuFormat::MaliLpae);
    m.set_max_frames(m.backed_frames().len() + 1);
    let mut v = view(&m, t);
    v.store(DATA, [1]).unwrap();
    v.store(DATA + 8, [1]).unwrap();
    assert_eq!(code(v.store(DATA + 4096, [2]).unwrap_err()), 0x48);
    assert_eq!(v.load::<1>(DATA + 4096), Ok([0]));
    let left = v.finish();
    assert_eq!(left.refused, 1);
    let mut speculative: View<'_> = View::new(&m, t, ChunkMode::Speculative { pages: 100 });
    speculative.store(DATA, [1]).unwrap();
    assert_eq!(speculative.store(DATA + 4096, [2]), Err(Stop::Retry));
    let mut few: View<'_> = View::new(&m, t, ChunkMode::Speculative { pages: 5 });
    few.load::<1>(DATA).unwrap();
    assert_eq!(few.load::<1>(DATA + 4096).map(drop), Err(Stop::Retry));
    RoundWrites::default().commit(left.slots, &mut m).unwrap();
    assert_eq!(m.free_frames(), 0);
}

#[test]
fn atomic_access_beyond_the_frame_limit_is_an_atomic_fault() {
    let (mut m, t) = memory(MmuFormat::MaliLpae);
    m.set_max_frames(m.backed_frames().len());
    let mut v = view(&m, t);
    v.load::<1>(DATA).unwrap();
    let refused = v.atomic(DATA, |w| w + 1);
    assert!(
        matches!(
            refused,
            Err(Stop::Fault(Fault::Bus {
                access: Access::Atomic,
                ..
            }))
        ),
        "{refused:?}"
    );
}

// Programs for whole jobs.

/// Step of a workgroup's program. `at` is relative to [`DATA`].
#[derive(Clone, Copy, Debug)]
enum Op {
    Load(u64),
    Load4(u64),
    Store(u64, u32),
    /// Stores the current sum.
    StoreSum(u64),
    StoreByte(u64),
    StoreWide(u64),
    Add(u64, u32),
    /// Maps a page of data to another frame, or unmaps it.
    Remap(u64, u64),
    /// Loads from the address in the sum.
    Follow,
    /// Loops as often as the word at this address says.
    Loop(u64),
    Unknown,
}

/// One program for each workgroup, in linear order.
struct Toy<'a> {
    programs: &'a [Vec<Op>],
    groups: [u32; 3],
}

fn remap(page: u64, to: u64) -> (u64, [u32; 2]) {
    let va = DATA + page * 4096;
    let entry = if to < 36 {
        mmu::encode_leaf(MmuFormat::MaliLpae, frame(to + 4), Rights::RW, 0)
    } else {
        mmu::INVALID
    };
    let at = TABLES + 3 * 4096 + u64::from(mmu::index_at(3, va)) * 8;
    (at.get(), [entry as u32, (entry >> 32) as u32])
}

impl<T: Trace> WorkgroupRunner<T> for Toy<'_> {
    fn run(&mut self, group: [u32; 3], v: &mut View<'_, T>, meter: &mut Meter<'_>) -> Result<(), Stop> {
        let [x, y, z] = group.map(|g| g as usize);
        let n = x + self.groups[0] as usize * (y + self.groups[1] as usize * z);
        let mut fuel = meter.fuel();
        let mut sum = n as u32;
        for (pc, op) in self.programs[n].iter().enumerate() {
            meter.clause(&mut fuel)?;
            meter.lane_ops += 1;
            if T::ON {
                v.set_access_source(AccessSource {
                    group,
                    pc: GpuVa::new(pc as u64),
                    ..AccessSource::default()
                });
            }
            match *op {
                Op::Load(at) => sum = sum.wrapping_mul(31).wrapping_add(v.load::<1>(DATA + at)?[0]),
                Op::Load4(at) => {
                    for w in v.load::<4>(DATA + at)? {
                        sum = sum.wrapping_mul(31).wrapping_add(w);
                    }
                }
                Op::Store(at, w) => v.store(DATA + at, [w])?,
                Op::StoreSum(at) => v.store(DATA + at, [sum])?,
                Op::StoreByte(at) => v.store_u8(DATA + at, sum as u8)?,
                Op::StoreWide(at) => v.store(DATA + at, [sum, n as u32, sum ^ 5])?,
                Op::Add(at, w) => sum ^= v.atomic(DATA + at, |old| old.wrapping_add(w))?,
                Op::Remap(page, to) => {
                    let (at, entry) = remap(page, to);
                    v.store(GpuVa::new(at), entry)?;
                }
                Op::Follow => sum ^= v.load::<1>(DATA + u64::from(sum % (35 * 1024)) * 4)?[0],
                Op::Loop(at) => {
                    for _ in 0..v.load::<1>(DATA + at)?[0] % 50_000 {
                        meter.clause(&mut fuel)?;
                    }
                }
                Op::Unknown => {
                    return Err(Stop::Unimplemented {
                        pc: GpuVa::new(pc as u64),
                        name: "odd".into(),
                    });
                }
            }
        }
        Ok(())
    }
}

fn list_frames(m: &ArenaMemory) -> Vec<(u64, Vec<u8>)> {
    let page = |f: u64| m.frame(f).map_or_else(Vec::new, |p| p.to_vec());
    m.backed_frames().into_iter().map(|f| (f, page(f))).collect()
}

fn play<T: Trace>(
    threads: usize,
    programs: &[Vec<Op>],
    groups: [u32; 3],
    room: usize,
    budget: Budget,
) -> (DispatchResult<T>, ArenaMemory) {
    let (mut m, translation) = memory(MmuFormat::MaliLpae);
    m.set_max_frames(m.backed_frames().len() + room);
    let terms = DispatchParams {
        translation,
        groups,
        budget,
        progress: None,
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let done = pool.install(|| dispatch(&mut m, terms, || Toy { programs, groups }));
    (done, m)
}

const PLENTY: Budget = Budget {
    wave: 1 << 40,
    job: 1 << 40,
    read: 0,
};

/// Runs the programs one after another, each alone on the memory that the previous ones left.
fn run_sequentially(
    programs: &[Vec<Op>],
    groups: [u32; 3],
    room: usize,
    budget: Budget,
) -> (DispatchResult<NoTrace>, ArenaMemory) {
    let (mut m, translation) = memory(MmuFormat::MaliLpae);
    m.set_max_frames(m.backed_frames().len() + room);
    let mut done = DispatchResult {
        stats: Default::default(),
        stop: None,
        trace: NoTrace,
        outside: 0,
        refused: 0,
        reruns: 0,
    };
    let [gx, gy, gz] = groups;
    for z in 0..gz {
        for y in 0..gy {
            for x in 0..gx {
                let mut v: View<'_> = View::new(&m, translation, ChunkMode::InOrder);
                let left = budget.job - done.stats.clauses;
                let mut meter = Meter::new(budget.wave, left, false, None);
                let ran = Toy { programs, groups }.run([x, y, z], &mut v, &mut meter);
                done.stats += meter.stats();
                let left = v.finish();
                done.outside += left.outside;
                done.refused += left.refused;
                RoundWrites::default().commit(left.slots, &mut m).unwrap();
                if let Err(stop) = ran {
                    done.stop = Some(([x, y, z], stop));
                    return (done, m);
                }
            }
        }
    }
    (done, m)
}

fn check_parallel_matches_sequential(programs: &[Vec<Op>], groups: [u32; 3], room: usize, budget: Budget) {
    let (serial, expected) = run_sequentially(programs, groups, room, budget);
    for threads in [1, 2, 5] {
        let (done, m) = play::<NoTrace>(threads, programs, groups, room, budget);
        assert_eq!(done.stop, serial.stop, "{threads} threads");
        assert_eq!(
            (done.stats, done.outside, done.refused),
            (serial.stats, serial.outside, serial.refused)
        );
        assert_eq!(list_frames(&m), list_frames(&expected), "{threads} threads");
    }
}

fn data_offset() -> impl Strategy<Value = u64> {
    // The locations are few, so that workgroups conflict. Some cross pages and a few are outside the mapped range.
    prop_oneof![
        8 => (0u64..8).prop_map(|w| w * 4),
        4 => (0u64..4, 0u64..40).prop_map(|(p, b)| p * 4096 + 4070 + b),
        4 => (0u64..36, 0u64..1024).prop_map(|(p, w)| p * 4096 + w * 4),
        1 => (35u64..37).prop_map(|p| p * 4096),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => data_offset().prop_map(Op::Load),
        2 => data_offset().prop_map(Op::Load4),
        3 => (data_offset(), any::<u32>()).prop_map(|(a, w)| Op::Store(a, w)),
        4 => data_offset().prop_map(Op::StoreSum),
        2 => data_offset().prop_map(Op::StoreByte),
        2 => data_offset().prop_map(Op::StoreWide),
        2 => (data_offset(), any::<u32>()).prop_map(|(a, w)| Op::Add(a, w)),
        1 => (0u64..8, 0u64..38).prop_map(|(p, t)| Op::Remap(p, t)),
        2 => Just(Op::Follow),
        1 => data_offset().prop_map(Op::Loop),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn parallel_workgroups_match_sequential_execution(
        programs in proptest::collection::vec(proptest::collection::vec(op(), 0..12), 24),
        quiet in 0usize..24,
        room in prop_oneof![4 => Just(100usize), 1 => 0usize..20],
        job in prop_oneof![4 => Just(1u64 << 40), 1 => 0u64..200_000],
        stop in prop_oneof![3 => Just(None), 1 => (0usize..24).prop_map(Some)],
    ) {
        let mut programs = programs;
        // Some jobs have many workgroups that do nothing.
        programs.iter_mut().take(quiet).for_each(Vec::clear);
        if let Some(p) = stop.and_then(|n| programs.get_mut(n)) {
            p.push(Op::Unknown);
        }
        check_parallel_matches_sequential(&programs, [4, 3, 2], room, Budget { wave: 100_000, job, ..PLENTY });
    }
}

#[test]
fn independent_workgroups_run_once_each() {
    let programs: Vec<Vec<Op>> = (0..1000)
        .map(|n| vec![Op::Load(n * 4 + 65536), Op::StoreSum(n * 8), Op::StoreByte(n * 8 + 5)])
        .collect();
    check_parallel_matches_sequential(&programs, [10, 10, 10], 100, PLENTY);
    let (done, _) = play::<NoTrace>(2, &programs, [10, 10, 10], 100, PLENTY);
    assert_eq!((done.reruns, done.stats.clauses), (0, 3000));
}

#[test]
fn conflicting_workgroups_fall_back_to_sequential_runs() {
    let programs: Vec<Vec<Op>> = (0..1000).map(|n| vec![Op::Add(n % 7 * 4, 1)]).collect();
    check_parallel_matches_sequential(&programs, [1000, 1, 1], 100, PLENTY);
    let (done, m) = play::<NoTrace>(4, &programs, [1000, 1, 1], 100, PLENTY);
    assert!(done.reruns < 100, "{}", done.reruns);
    let mut word = [0; 4];
    m.read(frame(4), &mut word).unwrap();
    assert_eq!(u32::from_le_bytes(word), 143);
}

#[test]
fn memory_written_before_read_is_no_workgroup_conflict() {
    // All workgroups share one location, like workgroup memory.
    let programs: Vec<Vec<Op>> = (0..400)
        .map(|n| {
            vec![
                Op::Store(0, n),
                Op::StoreWide(16),
                Op::Add(0, 3),
                Op::Load(16),
                Op::StoreSum(8192 + u64::from(n) * 4),
            ]
        })
        .collect();
    check_parallel_matches_sequential(&programs, [400, 1, 1], 100, PLENTY);
    let (done, _) = play::<NoTrace>(4, &programs, [400, 1, 1], 100, PLENTY);
    assert_eq!(done.reruns, 0);
}

#[test]
fn first_fault_in_order_ends_the_job_and_keeps_earlier_stores() {
    let unmapped = 36 * 4096;
    let mut programs: Vec<Vec<Op>> = (0..200u64).map(|n| vec![Op::Store(n * 4, n as u32 + 1)]).collect();
    for n in [199, 120, 77] {
        programs[n].extend([Op::Load(unmapped), Op::Store(n as u64 * 4, 0)]);
    }
    check_parallel_matches_sequential(&programs, [20, 10, 1], 100, PLENTY);
    let (done, m) = play::<NoTrace>(4, &programs, [20, 10, 1], 100, PLENTY);
    let (group, stop) = done.stop.unwrap();
    assert_eq!((group, code(stop)), ([17, 3, 0], 0xc3));
    let word = |n: u64| {
        let mut b = [0; 4];
        m.read(frame(4) + n * 4, &mut b).unwrap();
        u32::from_le_bytes(b)
    };
    assert_eq!((word(76), word(77), word(78)), (77, 78, 0));
}

#[test]
fn endless_speculative_workgroups_are_rerun_and_end() {
    // The second workgroup loops while the word is zero. The first workgroup sets the word.
    struct Spin;
    impl<T: Trace> WorkgroupRunner<T> for Spin {
        fn run(&mut self, group: [u32; 3], v: &mut View<'_, T>, meter: &mut Meter<'_>) -> Result<(), Stop> {
            let mut fuel = meter.fuel();
            if group[0] == 0 {
                v.store(DATA, [1])?;
            }
            while v.load::<1>(DATA)? == [0] {
                meter.clause(&mut fuel)?;
            }
            Ok(())
        }
    }
    let (mut m, translation) = memory(MmuFormat::MaliLpae);
    let terms = DispatchParams {
        translation,
        groups: [8, 1, 1],
        budget: Budget {
            wave: 1 << 30,
            job: 1 << 20,
            read: 0,
        },
        progress: None,
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap();
    let done: DispatchResult<NoTrace> = pool.install(|| dispatch(&mut m, terms, || Spin));
    assert_eq!((done.stop, done.stats.clauses), (None, 0));
}

#[test]
fn cancelled_job_ends_soon() {
    struct Forever(Progress);
    impl<T: Trace> WorkgroupRunner<T> for Forever {
        fn run(&mut self, _: [u32; 3], _: &mut View<'_, T>, meter: &mut Meter<'_>) -> Result<(), Stop> {
            let mut fuel = meter.fuel();
            self.0.cancel();
            loop {
                meter.clause(&mut fuel)?;
            }
        }
    }
    let (mut m, translation) = memory(MmuFormat::MaliLpae);
    let progress = Progress::new();
    let terms = DispatchParams {
        translation,
        groups: [u32::MAX, 1, 1],
        budget: Budget {
            wave: u64::MAX,
            job: u64::MAX,
            read: 0,
        },
        progress: Some(&progress),
    };
    let done: DispatchResult<NoTrace> = dispatch(&mut m, terms, || Forever(progress.clone()));
    assert_eq!(done.stop, Some(([0, 0, 0], Stop::Cancelled)));
}

#[test]
fn the_last_writer_of_every_byte_is_known() {
    let programs: Vec<Vec<Op>> = (0..64)
        .map(|n| vec![Op::Store(n * 4, 1), Op::StoreByte(4096 + n / 4), Op::Add(8192, 1)])
        .collect();
    for threads in [1, 4] {
        let (done, _) = play::<LastWriters>(threads, &programs, [64, 1, 1], 100, PLENTY);
        let find_writer = |page: u64, at: u64| {
            done.trace
                .find(frame(4 + page) + at)
                .map(|(_, w)| (w.group[0], w.pc.get()))
        };
        assert_eq!(find_writer(0, 0), Some((0, 0)));
        assert_eq!(find_writer(0, 63 * 4 + 3), Some((63, 0)));
        assert_eq!(find_writer(0, 64 * 4), None);
        assert_eq!(find_writer(1, 0), Some((3, 1)));
        assert_eq!(find_writer(1, 3), Some((15, 1)));
        assert_eq!(find_writer(1, 15), Some((63, 1)));
        assert_eq!(find_writer(2, 0), Some((63, 2)));
        assert_eq!(find_writer(3, 0), None);
    }
}

#[test]
fn spent_budget_always_ends_a_job_at_the_same_clause() {
    let programs: Vec<Vec<Op>> = (0..40u64)
        .map(|n| vec![Op::Store(n * 4, 1), Op::StoreByte(n + 4096)])
        .collect();
    for job in (0..82).step_by(3) {
        check_parallel_matches_sequential(&programs, [40, 1, 1], 100, Budget { job, ..PLENTY });
    }
    check_parallel_matches_sequential(&programs, [40, 1, 1], 100, Budget { wave: 1, ..PLENTY });
}
