//! The oracle: another interpreter, its values as bits, and its traps by the names of this project.

use wasm_ptx::{TrapKind, ValueType};
use wasm_tests::Outcome;
use wasmi::{TrapCode, Val, ValType};

/// End of a call: bits of the results, or the name of the trap.
pub type End = Result<Vec<u64>, String>;

pub fn bits(value: &Val) -> u64 {
    match value {
        Val::I32(value) => u64::from(*value as u32),
        Val::I64(value) => *value as u64,
        Val::F32(value) => u64::from(value.to_bits()),
        Val::F64(value) => value.to_bits(),
        other => panic!("a value of another type: {other:?}"),
    }
}

pub fn value(t: ValType, bits: u64) -> Val {
    match t {
        ValType::I32 => Val::I32(bits as i32),
        ValType::I64 => Val::I64(bits as i64),
        ValType::F32 => Val::F32(wasmi::F32::from_bits(bits as u32)),
        ValType::F64 => Val::F64(wasmi::F64::from_bits(bits)),
        other => panic!("a type that programs do not have: {other:?}"),
    }
}

pub fn value_type(t: ValType) -> ValueType {
    match t {
        ValType::I32 => ValueType::I32,
        ValType::I64 => ValueType::I64,
        ValType::F32 => ValueType::F32,
        _ => ValueType::F64,
    }
}

/// Returns the name of a trap. The oracle does not tell an index outside a table from other accesses outside it.
pub fn name_of_kind(kind: TrapKind) -> String {
    let kind = if kind == TrapKind::UndefinedElement {
        TrapKind::TableOutOfBounds
    } else {
        kind
    };
    kind.message().to_owned()
}

pub fn name_of_code(error: &wasmi::Error) -> String {
    let kind = match error.as_trap_code() {
        Some(TrapCode::UnreachableCodeReached) => TrapKind::Unreachable,
        Some(TrapCode::MemoryOutOfBounds) => TrapKind::MemoryOutOfBounds,
        Some(TrapCode::TableOutOfBounds) => TrapKind::TableOutOfBounds,
        Some(TrapCode::IndirectCallToNull) => TrapKind::UninitializedElement,
        Some(TrapCode::IntegerDivisionByZero) => TrapKind::DivideByZero,
        Some(TrapCode::IntegerOverflow) => TrapKind::IntegerOverflow,
        Some(TrapCode::BadConversionToInteger) => TrapKind::InvalidConversion,
        Some(TrapCode::StackOverflow) => TrapKind::StackExhausted,
        Some(TrapCode::BadSignature) => TrapKind::TypeMismatch,
        // An element segment that does not fit has no code.
        None if error.to_string().starts_with(TrapKind::TableOutOfBounds.message()) => TrapKind::TableOutOfBounds,
        _ => return format!("another error: {error}"),
    };
    name_of_kind(kind)
}

/// Returns the end of a call of a translated program.
pub fn end_of(outcome: Outcome) -> End {
    match outcome {
        Outcome::Returned(results) => Ok(results),
        Outcome::Trapped { kind, .. } => Err(name_of_kind(kind)),
        other => Err(format!("{other:?}")),
    }
}

/// Returns results with the low half of each slot of 32 bits.
pub fn narrow(results: &[u64], types: &[ValType]) -> Vec<u64> {
    let wide = types.iter().map(|t| value_type(*t).is_wide());
    let values = results.iter().zip(wide);
    values
        .map(|(bits, wide)| if wide { *bits } else { *bits & 0xffff_ffff })
        .collect()
}
