//! Tests of texel atomics in the compiler's form: compute the texel's address, then run an atomic at that address.

use super::{ComputeEnd, ComputeParams, ComputeRun, run};
use crate::Model;
use crate::address_space::{Access, MmuFault, Translation};
use crate::compute::stop::Stop;
use crate::compute::trace::NoTrace;
use crate::fault::Fault;
use crate::memory::ArenaMemory;
use crate::registers::exception;
use bifrost::pack::{Slots, clause};
use bifrost::{Header, Instruction, Modifier, Op, Registers, Source, Unit, Value};
use replay_engine::device::Arena;
use trace_core::families::Dispatch;
use trace_core::mmu::{self, Rights};
use trace_core::recording::MmuFormat;
use trace_core::{GpuVa, PhysAddr};

const LOW: Source = Source::Uniform { high: false };
/// Pages of the test, each at its own address. The first four pages hold the page tables and are not mapped.
const JOB: u64 = 0x4000;
const STATE: u64 = 0x5000;
const ATTRIBUTES: u64 = 0x6000;
const CODE: u64 = 0x7000;
const TEXELS: u64 = 0x8000;

fn bits(unit: Unit, op: Op, sources: &[Source], set: &[(Modifier, Value)]) -> u32 {
    (0..1 << unit.bits())
        .find(|bits| {
            Instruction::decode(unit, *bits).is_some_and(|i| {
                i.op() == op
                    && i.is_sound()
                    && sources.iter().enumerate().all(|(n, s)| i.source(n) == Some(*s))
                    && set.iter().all(|(m, v)| i.get(*m) == *v)
            })
        })
        .unwrap()
}

fn one(flow: u64, registers: Registers, fma: u32, add: u32) -> Vec<u8> {
    // The first register is the staging register.
    let slots = [Slots { registers, fma, add }];
    clause(Header { bits: flow << 11 }, &slots, &[]).unwrap().concat()
}

/// Returns code that adds 1 to the texel whose column is the thread's position.
fn counts() -> Vec<u8> {
    let thread = Registers {
        port0: Some(55),
        ..Registers::idle()
    };
    let address = Registers {
        port0: Some(0),
        port1: Some(1),
        ..Registers::idle()
    };
    let format = [(Modifier::RegisterFormat, Value::U32)];
    let find = bits(Unit::Add, Op::LeaAttrTex, &[Source::Port(0), LOW, LOW], &format);
    // Selects the table of attributes instead of the table of varyings.
    let table = [(Modifier::Table, Value::Attribute1)];
    let choose = bits(Unit::Fma, Op::DtselImm, &[Source::Port(0)], &table);
    let sources = [Source::Port(0), Source::Port(1)];
    let increment = bits(Unit::Fma, Op::AtomC1I32, &sources, &[(Modifier::AtomOpc, Value::Ainc)]);
    [
        one(3, thread, choose, find),
        one(0, address, increment, bits(Unit::Add, Op::AtomCx, &[], &[])),
    ]
    .concat()
}

/// Runs the code with this number of threads on an image of four texels.
fn count(threads: u32) -> (ComputeRun<NoTrace>, [u32; 4]) {
    let mut m = ArenaMemory::new(Arena {
        base: PhysAddr::ZERO,
        pages: 16,
    });
    let format = MmuFormat::MaliLpae;
    let mut put = |at: u64, words: &[u32]| {
        for (n, w) in (0..).zip(words) {
            m.write(PhysAddr::new(at + n * 4), &w.to_le_bytes()).unwrap();
        }
    };
    let halves = |e: u64| [e as u32, (e >> 32) as u32];
    for level in 0..3u64 {
        put(
            level << 12,
            &halves(mmu::encode_table(format, PhysAddr::new((level + 1) << 12))),
        );
    }
    let rights = Rights {
        execute: true,
        ..Rights::RW
    };
    for n in 4..9u64 {
        put(
            (3 << 12) + n * 8,
            &halves(mmu::encode_leaf(format, PhysAddr::new(n << 12), rights, 0)),
        );
    }
    let d = Dispatch {
        workgroups: [1; 3],
        size: [threads, 1, 1],
    };
    let (sizes, shifts) = d.pack(6).unwrap();
    put(JOB + 32, &[sizes, shifts]);
    for (word, to) in [(14, STATE), (16, ATTRIBUTES + 64), (18, ATTRIBUTES)] {
        put(JOB + 64 + word * 4, &[to as u32]);
    }
    put(STATE, &[CODE as u32, 0, 0, 1]);
    put(STATE + 48, &[1 << 7]);
    // The image is one row of words.
    put(ATTRIBUTES, &[(133 << 12 | 0o5440) << 10, 0]);
    put(ATTRIBUTES + 64, &[5 | TEXELS as u32, 0, 4, 16]);
    put(ATTRIBUTES + 80, &[32 | 3 << 16, 0, 16, 16]);
    for (n, w) in (0..).zip(counts().as_chunks::<4>().0) {
        put(CODE + n * 4, &[u32::from_le_bytes(*w)]);
    }
    let root = PhysAddr::ZERO;
    let terms = ComputeParams {
        translation: Translation::tables(format, root),
        model: Model::G71.data(),
        budget: Model::G71.data().budget,
        progress: None,
        clock: [0; 2],
    };
    let ran = run(&mut m, GpuVa::new(JOB), terms);
    let texels = std::array::from_fn(|n| {
        let mut word = [0; 4];
        m.read(PhysAddr::new(TEXELS + n as u64 * 4), &mut word).unwrap();
        u32::from_le_bytes(word)
    });
    (ran, texels)
}

#[test]
fn an_atomic_within_an_image_changes_the_texel() {
    let (ran, texels) = count(4);
    assert!(matches!(ran.end, ComputeEnd::Computed), "{:?}", ran.end);
    assert_eq!(texels, [1; 4]);
}

#[test]
fn an_atomic_outside_its_image_faults_at_address_0() {
    let (ran, texels) = count(6);
    let ComputeEnd::Stopped(Stop::Fault(Fault::Mmu(MmuFault { code, va, access, .. }))) = ran.end else {
        panic!("{:?}", ran.end);
    };
    assert_eq!((va, access), (GpuVa::ZERO, Access::Atomic));
    assert_eq!(code, exception::TRANSLATION + 3);
    // The atomics before the fault have changed the texels.
    assert_eq!(texels, [1; 4]);
}
