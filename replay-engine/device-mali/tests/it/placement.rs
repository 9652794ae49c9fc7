//! Tests that meaningless clauses, and clauses without enough registers, are refused with the operation's name.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use bifrost::pack::{Slots, clause, operation};
use bifrost::{Header, Modifier, Op, Port3, Registers, Source, Unit, Value, WriteHalf};
use device_mali::bench_support::run_clause;

const LOW: Source = Source::Uniform { high: false };
const HIGH: Source = Source::Uniform { high: true };

/// Returns the encoding of an operation whose sources are zero.
fn zeros(unit: Unit, op: Op, set: &[(Modifier, Value)]) -> u32 {
    operation(unit, op, &[LOW, LOW, LOW], set)
        .or_else(|| operation(unit, op, &[LOW, HIGH, LOW], set))
        .or_else(|| operation(unit, op, &[Source::Port(0), LOW, LOW], set))
        .unwrap_or_else(|| panic!("{op:?} has no such form"))
}

fn nop(unit: Unit) -> u32 {
    operation(unit, Op::Nop, &[], &[]).unwrap()
}

fn idle(fma: u32, add: u32) -> Slots {
    Slots {
        registers: Registers::idle(),
        fma,
        add,
    }
}

/// Returns the refusal of a clause with this staging register.
fn refuse(staging: u8, tuples: &[Slots]) -> String {
    let header = Header {
        bits: u64::from(staging) << 18,
    };
    assert_eq!(header.staging_register(), staging);
    let code = clause(header, tuples, &[]).unwrap().concat();
    run_clause(&code, &mut [[0; 64]], &[]).expect_err("the clause must be refused")
}

#[test]
fn message_without_result_cannot_write_a_register() {
    let writes = Registers {
        port3: Port3::WriteAdd(WriteHalf::Full),
        register3: 1,
        ..Registers::idle()
    };
    let barrier = Slots {
        registers: writes,
        fma: nop(Unit::Fma),
        add: zeros(Unit::Add, Op::Barrier, &[]),
    };
    let message = refuse(0, &[barrier]);
    assert!(message.contains("the result of +BARRIER"), "{message}");
}

#[test]
fn address_carry_requires_the_sum_in_the_same_tuple() {
    let seg = [(Modifier::Seg, Value::Wls)];
    let add = zeros(Unit::Add, Op::SegAdd, &seg);
    let message = refuse(0, &[idle(nop(Unit::Fma), add)]);
    assert!(message.contains("+SEG_ADD next to *NOP"), "{message}");
}

#[test]
fn staging_registers_never_wrap_around() {
    let f32 = (Modifier::RegisterFormat, Value::F32);
    for (staging, op, set) in [
        (62, Op::LdAttrTex, vec![f32, (Modifier::Vecsize, Value::V4)]),
        (63, Op::LdGclkU64, vec![(Modifier::Source, Value::CycleCounter)]),
        (63, Op::AcmpxchgI32, vec![]),
        (62, Op::LeaAttr, vec![f32]),
        (63, Op::LoadI64, vec![(Modifier::Seg, Value::None)]),
    ] {
        let message = refuse(staging, &[idle(nop(Unit::Fma), zeros(Unit::Add, op, &set))]);
        assert!(message.contains("beyond the last register"), "{op:?}: {message}");
    }
}

#[test]
fn clause_allows_one_message_and_a_final_branch() {
    let load = zeros(Unit::Add, Op::LoadI32, &[(Modifier::Seg, Value::None)]);
    let twice = [idle(nop(Unit::Fma), load), idle(nop(Unit::Fma), load)];
    let text = refuse(0, &twice);
    assert!(text.contains("+LOAD.i32 after another message"), "{text}");
    let jump = zeros(Unit::Add, Op::Jump, &[]);
    let text = refuse(0, &[idle(nop(Unit::Fma), jump), idle(nop(Unit::Fma), nop(Unit::Add))]);
    assert!(text.contains("+JUMP before the last tuple"), "{text}");
}
