//! Tests with arbitrary register writes and memory contents. The device never panics, ends in bounded time, stays
//! inside the arena and gives the same results every time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use device_mali::{Model, SoftwareMali};
use proptest::prelude::*;
use replay_core::Device;
use replay_engine::device::{Arena, RegisterTarget, Target, space};
use trace_core::PhysAddr;
use trace_core::mmu::{self, Rights};
use trace_core::recording::{MmuFormat, Page, ZERO_PAGE};

const FRAMES: u64 = 16;
const BASE: u64 = 0x40_0000;

#[derive(Clone, Debug)]
enum Op {
    Read(u64, u8),
    Write(u64, u8, u64),
    Arena(u64, u64),
    Wait(u32, u64),
    Pause(u64),
}

fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => (0u64..0x1000).prop_map(|o| o * 4),
        2 => (0u64..12).prop_map(|o| 0x1880 + 0x40 + o * 4),
        2 => (0u64..16).prop_map(|o| 0x2400 + o * 4),
        1 => Just(0x30),
        1 => any::<u64>(),
    ]
}

fn value() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => 0u64..16,
        2 => (0..FRAMES * 64).prop_map(|o| BASE + o * 64),
        1 => Just(0x4200_0006),
        1 => any::<u64>(),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => (offset(), prop_oneof![9 => Just(4u8), 1 => any::<u8>()]).prop_map(|(o, w)| Op::Read(o, w)),
        6 => (offset(), prop_oneof![9 => Just(4u8), 1 => any::<u8>()], value()).prop_map(|(o, w, v)| Op::Write(o, w, v)),
        3 => ((0..FRAMES * 512).prop_map(|w| w * 8), any::<u64>()).prop_map(|(o, v)| Op::Arena(o, v)),
        1 => (any::<u32>(), any::<u64>()).prop_map(|(l, n)| Op::Wait(l, n)),
        1 => any::<u64>().prop_map(Op::Pause),
    ]
}

/// Returns a page of table entries and job headers that point into the arena, with some noise.
fn page(seed: u64) -> Box<Page> {
    let mut state = seed;
    let mut draw = |below: u64| {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31).checked_rem(below).unwrap_or(z)
    };
    let mut page = Box::new(ZERO_PAGE);
    for to in page.chunks_exact_mut(8) {
        let word = match draw(8) {
            0..3 => (BASE + draw(FRAMES + 2) * 4096) | draw(0x1000),
            3..5 => draw(FRAMES * 64) * 64,
            5..7 => 1 | (1 + draw(11)) << 1 | draw(0x1_0000) << 16,
            _ => draw(0),
        };
        to.copy_from_slice(&word.to_le_bytes());
    }
    page
}

fn device() -> SoftwareMali {
    SoftwareMali::with_arena(
        Model::G71,
        Arena {
            base: PhysAddr::new(BASE),
            pages: FRAMES,
        },
    )
}

fn play(d: &mut SoftwareMali, ops: &[Op]) -> Vec<String> {
    let mut messages = Vec::new();
    for op in ops {
        messages.push(match op {
            Op::Read(o, w) => format!("{:?}", d.read(space::REGISTERS, *o, *w)),
            Op::Write(o, w, v) => format!("{:?}", d.write(space::REGISTERS, *o, *w, *v)),
            Op::Arena(o, v) => format!("{:?}", d.write(space::ARENA, *o, 8, *v)),
            Op::Wait(l, n) => format!("{:?}", d.wait_interrupt(*l, *n)),
            Op::Pause(n) => format!("{:?}", d.pause(*n)),
        });
    }
    messages
}

fn check_memory_is_in_arena(d: &SoftwareMali) {
    let inside = BASE / 4096..BASE / 4096 + FRAMES;
    assert!(d.memory().backed_frames().iter().all(|f| inside.contains(f)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn arbitrary_accesses_are_handled_deterministically(ops in proptest::collection::vec(op(), 0..200)) {
        let (mut a, mut b) = (device(), device());
        prop_assert_eq!(play(&mut a, &ops), play(&mut b, &ops));
        prop_assert_eq!(a.take_job_reports(), b.take_job_reports());
        prop_assert_eq!(a.anomalies(), b.anomalies());
        check_memory_is_in_arena(&a);
        a.reset().unwrap();
        prop_assert!(a.memory().backed_frames().is_empty());
        prop_assert_eq!((a.raised_lines(), a.now_ns()), (0, 0));
    }

    #[test]
    fn chain_in_arbitrary_memory_ends_or_hangs(
        seed in any::<u64>(),
        head in (0..FRAMES * 64).prop_map(|o| o * 64),
        lpae in any::<bool>(),
        sound_tables in any::<bool>(),
        slot in 0u64..3,
    ) {
        let mut d = device();
        let format = if lpae { MmuFormat::MaliLpae } else { MmuFormat::Aarch64_4k };
        for n in 0..FRAMES {
            d.store_page(BASE / 4096 + n, &page(seed.wrapping_add(n))).unwrap();
        }
        if sound_tables {
            // The first frames map the others at their offset, so that chains get past their first header.
            let at = |n: u64| PhysAddr::new(BASE + n * 4096);
            for level in 0..3 {
                let mut t = ZERO_PAGE;
                t[..8].copy_from_slice(&mmu::encode_table(format, at(level + 1)).to_le_bytes());
                d.store_page(at(level).frame(), &t).unwrap();
            }
            let mut t = ZERO_PAGE;
            for (n, to) in (0..FRAMES).zip(t.chunks_exact_mut(8)) {
                to.copy_from_slice(&mmu::encode_leaf(format, at(n), Rights::RW, 0).to_le_bytes());
            }
            d.store_page(at(3).frame(), &t).unwrap();
        }
        let js = 0x1800 + 0x80 * slot;
        let root = mmu::root_register(format, PhysAddr::new(BASE));
        let config = if lpae { 0 } else { 0x4200_0006 };
        for (o, v) in [
            (0x28, u64::MAX), (0x1008, u64::MAX), (0x2008, u64::MAX), (0x180, 0xff), (0x190, 1),
            (0x2430, config), (0x2400, root), (0x2404, 0), (0x2418, 1),
        ] {
            d.write(space::REGISTERS, o, 4, v & 0xffff_ffff).unwrap();
        }
        d.wait_interrupt(4, 1_000_000).unwrap();
        for (o, v) in [(0x40, head), (0x44, 0), (0x50, 0xff), (0x58, 0), (0x60, 1)] {
            d.write(space::REGISTERS, js + o, 4, v).unwrap();
        }
        d.wait_interrupt(1, 1_000_000_000).unwrap();
        let status = d.read(space::REGISTERS, js + 0x24, 4).unwrap();
        let raw = d.read(space::REGISTERS, 0x1000, 4).unwrap();
        match status {
            1 => prop_assert_eq!(raw, 1 << slot),
            8 => prop_assert_eq!(raw, 0),
            _ => prop_assert_eq!(raw, 1 << (16 + slot)),
        }
        prop_assert!(d.take_job_reports().len() <= 65_536);
        check_memory_is_in_arena(&d);
    }
}
