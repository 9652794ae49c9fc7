//! Conversions between types.

use wasmparser::Operator;

use super::function::FunctionEmitter;
use super::text::line;
use super::value::NanBits;
use crate::program::TrapKind;
use crate::values::ValueType;

use ValueType::{F32, F64, I32, I64};

/// Exclusive limits of the floats that fit an integer type, as PTX constants.
struct Range {
    /// Comparison with the lower limit, and the limit.
    low: (&'static str, &'static str),
    /// Upper limit: values are below it.
    high: &'static str,
}

fn range(integer: ValueType, float: ValueType, signed: bool) -> Range {
    match (integer, float, signed) {
        (I32, F32, true) => Range {
            low: ("ge", "0fCF000000"),
            high: "0f4F000000",
        },
        (I32, F32, false) => Range {
            low: ("gt", "0fBF800000"),
            high: "0f4F800000",
        },
        (I32, _, true) => Range {
            low: ("gt", "0dC1E0000000200000"),
            high: "0d41E0000000000000",
        },
        (I32, _, false) => Range {
            low: ("gt", "0dBFF0000000000000"),
            high: "0d41F0000000000000",
        },
        (_, F32, true) => Range {
            low: ("ge", "0fDF000000"),
            high: "0f5F000000",
        },
        (_, F32, false) => Range {
            low: ("gt", "0fBF800000"),
            high: "0f5F800000",
        },
        (_, _, true) => Range {
            low: ("ge", "0dC3E0000000000000"),
            high: "0d43E0000000000000",
        },
        (_, _, false) => Range {
            low: ("gt", "0dBFF0000000000000"),
            high: "0d43F0000000000000",
        },
    }
}

impl FunctionEmitter<'_> {
    /// Emits a conversion. Returns false if the instruction is none.
    pub fn convert(&mut self, operator: &Operator<'_>) -> bool {
        match operator {
            Operator::I32WrapI64 => self.cast("cvt.u32.u64", I32),
            Operator::I64ExtendI32S => self.cast("cvt.s64.s32", I64),
            Operator::I64ExtendI32U => self.cast("cvt.u64.u32", I64),
            Operator::I32Extend8S => self.cast("cvt.s32.s8", I32),
            Operator::I32Extend16S => self.cast("cvt.s32.s16", I32),
            Operator::I64Extend8S => self.cast("cvt.s64.s8", I64),
            Operator::I64Extend16S => self.cast("cvt.s64.s16", I64),
            Operator::I64Extend32S => self.cast("cvt.s64.s32", I64),
            Operator::F32ConvertI32S => self.cast("cvt.rn.f32.s32", F32),
            Operator::F32ConvertI32U => self.cast("cvt.rn.f32.u32", F32),
            Operator::F32ConvertI64S => self.cast("cvt.rn.f32.s64", F32),
            Operator::F32ConvertI64U => self.cast("cvt.rn.f32.u64", F32),
            Operator::F64ConvertI32S => self.cast("cvt.rn.f64.s32", F64),
            Operator::F64ConvertI32U => self.cast("cvt.rn.f64.u32", F64),
            Operator::F64ConvertI64S => self.cast("cvt.rn.f64.s64", F64),
            Operator::F64ConvertI64U => self.cast("cvt.rn.f64.u64", F64),
            Operator::F32DemoteF64 => self.resize("cvt.rn.f32.f64", F32),
            Operator::F64PromoteF32 => self.resize("cvt.f64.f32", F64),
            Operator::I32ReinterpretF32 => self.reinterpret(I32),
            Operator::I64ReinterpretF64 => self.reinterpret(I64),
            Operator::F32ReinterpretI32 => self.reinterpret_word(),
            Operator::F64ReinterpretI64 => self.reinterpret(F64),
            Operator::I32TruncF32S => self.truncate(I32, F32, true),
            Operator::I32TruncF32U => self.truncate(I32, F32, false),
            Operator::I32TruncF64S => self.truncate(I32, F64, true),
            Operator::I32TruncF64U => self.truncate(I32, F64, false),
            Operator::I64TruncF32S => self.truncate(I64, F32, true),
            Operator::I64TruncF32U => self.truncate(I64, F32, false),
            Operator::I64TruncF64S => self.truncate(I64, F64, true),
            Operator::I64TruncF64U => self.truncate(I64, F64, false),
            Operator::I32TruncSatF32S => self.saturate(I32, F32, true),
            Operator::I32TruncSatF32U => self.saturate(I32, F32, false),
            Operator::I32TruncSatF64S => self.saturate(I32, F64, true),
            Operator::I32TruncSatF64U => self.saturate(I32, F64, false),
            Operator::I64TruncSatF32S => self.saturate(I64, F32, true),
            Operator::I64TruncSatF32U => self.saturate(I64, F32, false),
            Operator::I64TruncSatF64S => self.saturate(I64, F64, true),
            Operator::I64TruncSatF64U => self.saturate(I64, F64, false),
            _ => return false,
        }
        true
    }

    fn cast(&mut self, name: &str, ty: ValueType) {
        let source = self.pop_register();
        let target = self.push_new(ty, NanBits::Plain);
        line!(self.out, "{name} {target}, {source};");
    }

    fn resize(&mut self, name: &str, ty: ValueType) {
        let source = self.pop_register();
        let target = self.push_new(ty, NanBits::Arithmetic);
        line!(self.out, "{name} {target}, {source};");
    }

    fn reinterpret_word(&mut self) {
        // A predicate is an integer only.
        let source = self.pop_register();
        if let super::text::Source::Word(register) = source {
            self.push(super::value::Value::register(F32, register, NanBits::Exact));
        }
    }

    /// Returns the conversion instruction: it truncates, and saturates what it can.
    fn conversion(integer: ValueType, float: ValueType, signed: bool) -> String {
        let sign = if signed { 's' } else { 'u' };
        format!("cvt.rzi.{sign}{}.f{}", width(integer), width(float))
    }

    fn truncate(&mut self, integer: ValueType, float: ValueType, signed: bool) {
        let source = self.pop_register();
        let limits = range(integer, float, signed);
        let bits = width(float);
        let inside = self.new_predicate();
        line!(
            self.out,
            "setp.{}.f{bits} %p{inside}, {source}, {};",
            limits.low.0,
            limits.low.1
        );
        line!(
            self.out,
            "setp.lt.and.f{bits} %p{inside}, {source}, {}, %p{inside};",
            limits.high
        );
        let label = self.trap_choice(
            TrapKind::IntegerOverflow,
            TrapKind::InvalidConversion,
            &format!("setp.nan.f{bits} %PREDICATE, {source}, {source}"),
        );
        line!(self.out, "@!%p{inside} bra $L{label};");
        let target = self.push_new(integer, NanBits::Plain);
        line!(
            self.out,
            "{} {target}, {source};",
            Self::conversion(integer, float, signed)
        );
    }

    fn saturate(&mut self, integer: ValueType, float: ValueType, signed: bool) {
        let source = self.pop_register();
        let (bits, integer_bits) = (width(float), width(integer));
        let converted = Self::register(integer, self.new_register(integer));
        line!(
            self.out,
            "{} {converted}, {source};",
            Self::conversion(integer, float, signed)
        );
        let nan = self.new_predicate();
        line!(self.out, "setp.nan.f{bits} %p{nan}, {source}, {source};");
        let target = self.push_new(integer, NanBits::Plain);
        line!(self.out, "selp.b{integer_bits} {target}, 0, {converted}, %p{nan};");
    }
}

fn width(ty: ValueType) -> u32 {
    if ty.is_wide() { 64 } else { 32 }
}
