//! Tests that combined loads and stores of adjacent lanes equal those of one lane after another.

use super::*;
use crate::address_space::Translation;
use crate::compute::bindings::Bindings;
use crate::compute::descriptors::{ComputeJob, Storage, Table, UniformBuffer};
use crate::compute::trace::NoTrace;
use crate::compute::view::ChunkMode;
use crate::memory::ArenaMemory;
use crate::shader::program::Program;
use crate::texture::Arch;
use proptest::prelude::*;
use replay_engine::device::Arena;
use trace_core::PhysAddr;
use trace_core::families::Dispatch;

const PAGES: u64 = 4;
const BYTES: u64 = PAGES * PAGE_SIZE as u64;

fn memory() -> ArenaMemory {
    let mut m = ArenaMemory::new(Arena {
        base: PhysAddr::ZERO,
        pages: PAGES,
    });
    for at in (0..BYTES).step_by(4) {
        m.write(PhysAddr::new(at), &(at as u32 ^ 0x5a5a_0000).to_le_bytes())
            .unwrap();
    }
    m
}

fn job(view: &mut View<'_, NoTrace>, bytes: u32) -> ComputeJob {
    ComputeJob {
        dispatch: Dispatch {
            workgroups: [1; 3],
            size: [32, 1, 1],
        },
        shader: GpuVa::ZERO,
        registers: 64,
        preload: Vec::new(),
        push_uniforms: Vec::new(),
        uniform_buffers: vec![
            UniformBuffer {
                va: GpuVa::new(0x1fc0),
                bytes,
            },
            UniformBuffer {
                va: GpuVa::new(0x30),
                bytes: 64,
            },
        ],
        textures: Table::default(),
        samplers: Table::default(),
        attributes: Table::default(),
        attribute_buffers: GpuVa::ZERO,
        bindings: Bindings::read(
            view,
            Arch::V6,
            Table::default(),
            Table::default(),
            (Table::default(), GpuVa::ZERO),
        ),
        barrier: false,
        storage: Storage {
            thread_base: GpuVa::new(0x400),
            thread_bytes: 64,
            group_base: GpuVa::new(0xfc0),
            group_bytes: 4096,
        },
    }
}

/// Layout of the low words of the lanes' addresses.
#[derive(Clone, Debug)]
enum Lows {
    Same(u32),
    Run(u32),
    Any(Vec<u32>),
}

impl Lows {
    fn at(&self, lane: usize) -> u32 {
        match self {
            Self::Same(low) => *low,
            Self::Run(low) => low.wrapping_add(4 * lane as u32),
            Self::Any(all) => all[lane],
        }
    }
}

fn low() -> impl Strategy<Value = u32> {
    let near = |to: u32| (0..40u32).prop_map(move |n| to.wrapping_add(n * 4).wrapping_sub(80));
    prop_oneof![
        (0..BYTES as u32 / 4).prop_map(|n| n * 4),
        0..BYTES as u32,
        near(0),
        near(64),
        near(4096),
        near(BYTES as u32),
    ]
}

fn lows() -> impl Strategy<Value = Lows> {
    prop_oneof![
        low().prop_map(Lows::Same),
        low().prop_map(Lows::Run),
        prop::collection::vec(low(), LANES).prop_map(Lows::Any),
    ]
}

/// Register pairs of the address, and of the loaded or stored data.
const ADDRESS: [u16; 2] = [10, 11];
const STAGING: u8 = 20;

/// Returns the result of an access: registers, fault and memory.
fn outcome<const N: usize>(
    (space, lows, highs, lanes, bytes): &(Space, Lows, Vec<u32>, Mask, u32),
    store: bool,
    at_once: bool,
) -> (Vec<[u32; LANES]>, Option<String>, Vec<u8>) {
    let m = memory();
    let mut view = View::<NoTrace>::new(&m, Translation::Identity, ChunkMode::InOrder);
    let job = job(&mut view, *bytes);
    let program = Program {
        nodes: Vec::new(),
        entry: 0,
        constants: Vec::new(),
    };
    let running = ShaderContext {
        program: &program,
        job: &job,
        warp: 4,
        clock: [0; 2],
    };
    let mut file = RegisterFile::new();
    for (lane, high) in highs.iter().enumerate() {
        file.at_mut(ADDRESS[0])[lane] = lows.at(lane);
        file.at_mut(ADDRESS[1])[lane] = *high;
        for n in 0..N as u16 {
            file.at_mut(u16::from(STAGING) + n)[lane] = 0x100 * lane as u32 + u32::from(n);
        }
    }
    let mut messages = MessageSender {
        running: &running,
        file: &mut file,
        view: &mut view,
        group: [0; 3],
        first: 0,
        lanes: *lanes,
        clause: GpuVa::ZERO,
        tuple: 0,
    };
    let one_by_one = |s: &mut MessageSender<'_, '_, '_, '_, NoTrace>| {
        for lane in lane_indices(*lanes) {
            let va = s.address(*space, ADDRESS, lane, 4 * N as u32);
            if store {
                let words: [u32; N] = std::array::from_fn(|n| s.staging_word(STAGING, n as u16, lane));
                if let Some(va) = va {
                    s.view.store(va, words)?;
                }
            } else {
                let words = match va {
                    Some(va) => s.view.load::<N>(va)?,
                    None => [0; N],
                };
                for (n, word) in (0..).zip(words) {
                    s.put(STAGING, n, lane, word);
                }
            }
        }
        Ok(())
    };
    let ended: Result<(), Stop> = match (at_once, store) {
        (false, _) => one_by_one(&mut messages),
        (true, false) => messages.load::<N>(*space, ADDRESS, STAGING),
        (true, true) => messages.store::<N>(*space, ADDRESS, STAGING),
    };
    let mut bytes = vec![0; BYTES as usize];
    view.read(GpuVa::ZERO, &mut bytes).unwrap();
    // After a faulting load, the registers do not matter, because the job ends.
    let registers = if ended.is_ok() {
        file.registers().to_vec()
    } else {
        Vec::new()
    };
    (registers, ended.err().map(|e| format!("{e:?}")), bytes)
}

proptest! {
    #[test]
    fn parallel_lanes_match_sequential_lanes(
        space in prop::sample::select(vec![Space::Global, Space::Shared, Space::Local, Space::Uniform]),
        lows in lows(),
        high in prop_oneof![4 => Just(0u32), 1 => Just(1), 1 => Just(2)],
        other in prop::option::of((0..LANES, 0..3u32)),
        lanes in prop_oneof![2 => Just(u32::MAX), 1 => any::<u32>(), 1 => Just(0x00ff_ff00)],
        bytes in prop::sample::select(vec![0, 16, 64, 112, 4096]),
    ) {
        let mut highs = vec![high; LANES];
        if let Some((lane, high)) = other {
            highs[lane] = high;
        }
        let access = (space, lows, highs, lanes, bytes);
        for store in [false, true] {
            prop_assert_eq!(outcome::<1>(&access, store, true), outcome::<1>(&access, store, false), "store {}", store);
            prop_assert_eq!(outcome::<2>(&access, store, true), outcome::<2>(&access, store, false), "store {}", store);
            prop_assert_eq!(outcome::<4>(&access, store, true), outcome::<4>(&access, store, false), "store {}", store);
        }
    }
}
