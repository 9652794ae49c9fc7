//! Tests of the clauses that a shader's paths reach, and of unknown or missing code.

use super::{Program, ProgramLoadError};
use crate::shader::block::ShaderInputs;
use bifrost::pack::{Slots, clause};
use bifrost::{Constant, Header, Instruction, Op, PcRelative, Registers, Source, Unit, WORD_BYTES};
use trace_core::GpuVa;

const ENTRY: GpuVa = GpuVa::new(0x7000);
const NEXT: u64 = 3 << 11;

fn first(unit: Unit, is_match: impl Fn(Option<Instruction>) -> bool) -> u32 {
    (0..1 << unit.bits())
        .find(|bits| is_match(Instruction::decode(unit, *bits)))
        .unwrap()
}

/// Returns the `n`th unknown FMA operation.
fn unknown(n: usize) -> u32 {
    let none = |bits: &u32| Instruction::decode(Unit::Fma, *bits).is_none();
    (0..1 << Unit::Fma.bits()).filter(none).nth(n).unwrap()
}

fn nop(unit: Unit) -> u32 {
    first(unit, |i| i.is_some_and(|i| i.op() == Op::Nop && i.is_sound()))
}

/// Returns a branch whose sources are all the constant.
fn branch(op: Op) -> u32 {
    let high = Some(Source::Uniform { high: true });
    first(Unit::Add, |i| {
        i.is_some_and(|i| i.op() == op && i.is_sound() && (0..i.source_count()).all(|n| i.source(n) == high))
    })
}

/// Returns a clause of one tuple. `by` is the distance that the constant encodes.
fn one(flow: u64, fma: u32, add: u32, by: i32) -> Vec<u8> {
    let registers = Registers {
        uniform: 0x41,
        ..Registers::idle()
    };
    let constant = Constant {
        bits: u64::from(by as u32 & 0x0fff_ffff) << 32,
        relative: PcRelative::High,
    };
    let slots = [Slots { registers, fma, add }];
    clause(Header { bits: flow }, &slots, &[constant]).unwrap().concat()
}

/// Size of a clause of one tuple, in bytes.
const ONE: i32 = 2 * WORD_BYTES as i32;

/// Loads isolated code. Returns the unknown operations, or the address that could not be fetched.
fn load(code: &[u8]) -> Result<usize, Result<Vec<String>, GpuVa>> {
    let fetch = |at: GpuVa| {
        let word = usize::try_from(at.wrapping_sub(ENTRY.get()).get())
            .ok()
            .and_then(|from| code.get(from..));
        word.and_then(|w| w.first_chunk()).copied().ok_or(at)
    };
    match Program::load(ENTRY, &ShaderInputs::default(), || Ok(()), fetch) {
        Ok(p) => Ok(p.nodes.len()),
        Err(ProgramLoadError::Fetch(at)) => Err(Err(at)),
        Err(ProgramLoadError::Unknown(all)) => Err(Ok(all
            .into_iter()
            .map(|u| format!("{:#x} {}", u.clause, u.operation))
            .collect())),
    }
}

fn field_text(at: i32, bits: u32) -> String {
    format!("{:#x} *{bits:#07x}", ENTRY.get() as i32 + at)
}

#[test]
fn unknown_clause_with_a_jump_continues_only_at_its_target() {
    let jump = branch(Op::Jump);
    let [a, b] = [unknown(0), unknown(1)];
    let mut code = [
        one(NEXT, nop(Unit::Fma), jump, 2 * ONE),
        one(0, a, nop(Unit::Add), 0),
        one(NEXT, b, jump, -ONE),
    ]
    .concat();
    let unknown_fields = Err(Ok(vec![field_text(ONE, a), field_text(2 * ONE, b)]));
    assert_eq!(load(&code), unknown_fields, "the code ends at the end of memory");
    code.extend([0x5a; 256]);
    assert_eq!(load(&code), unknown_fields, "data follows the code");
}

#[test]
fn unknown_clause_with_a_branch_continues_both_ways() {
    let [a, b, c] = [unknown(0), unknown(1), unknown(2)];
    let code = [
        one(NEXT, a, branch(Op::BranchzI32), 2 * ONE),
        one(0, b, nop(Unit::Add), 0),
        one(0, c, nop(Unit::Add), 0),
    ]
    .concat();
    assert_eq!(
        load(&code),
        Err(Ok(vec![field_text(0, a), field_text(ONE, b), field_text(2 * ONE, c)]))
    );
}

#[test]
fn unknown_instructions_are_reported_despite_missing_code() {
    // Unknown bits that could be a jump are not decoded as one. The path after them leads out of the code.
    let code = one(NEXT, unknown(0), nop(Unit::Add), 0);
    assert_eq!(load(&code), Err(Ok(vec![field_text(0, unknown(0))])));
    // The result does not depend on the order in which the two paths are read.
    for [taken, jump] in [[64 * ONE, ONE], [2 * ONE, 64 * ONE]] {
        let code = [
            one(NEXT, nop(Unit::Fma), branch(Op::BranchzI32), taken),
            one(NEXT, nop(Unit::Fma), branch(Op::Jump), jump),
            one(0, unknown(0), nop(Unit::Add), 0),
        ]
        .concat();
        assert_eq!(load(&code), Err(Ok(vec![field_text(2 * ONE, unknown(0))])));
    }
}

#[test]
fn shader_that_leaves_memory_is_a_fetch_fault() {
    let end = one(0, nop(Unit::Fma), nop(Unit::Add), 0);
    assert_eq!(load(&end), Ok(1));
    let out = one(NEXT, nop(Unit::Fma), nop(Unit::Add), 0);
    assert_eq!(load(&out), Err(Err(ENTRY + ONE as u64)));
    let out = one(0, nop(Unit::Fma), branch(Op::BranchzI32), -ONE);
    assert_eq!(load(&out), Err(Err(ENTRY.wrapping_sub(ONE as u64))));
}

#[test]
fn program_load_stops_at_its_budget_despite_unknown_code() {
    let code = [
        one(NEXT, unknown(0), nop(Unit::Add), 0),
        one(NEXT, unknown(0), branch(Op::Jump), -ONE),
    ]
    .concat();
    let fetch = |at: GpuVa| Ok(*code[(at - ENTRY) as usize..].first_chunk::<WORD_BYTES>().unwrap());
    for max in 0..2 {
        let mut paid = 0;
        let pay = || {
            if paid == max {
                return Err("no more");
            }
            paid += 1;
            Ok(())
        };
        let end = Program::load(ENTRY, &ShaderInputs::default(), pay, fetch);
        assert!(matches!(end, Err(ProgramLoadError::Fetch("no more"))), "{end:?}");
    }
}
