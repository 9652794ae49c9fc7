//! Floating-point instructions.

use wasmparser::Operator;

use super::function::FunctionEmitter;
use super::text::{FloatSource, Source, line};
use super::value::{CANONICAL_F64, NanBits, Value};
use crate::values::ValueType;

use ValueType::{F32, F64};

impl FunctionEmitter<'_> {
    /// Emits a floating-point instruction. Returns false if it is none.
    pub fn float(&mut self, operator: &Operator<'_>) -> bool {
        match operator {
            // A NaN of these is 0x7fffffff, whatever the inputs were.
            Operator::F32Add => self.arithmetic("add.rn.f32", F32, NanBits::Positive),
            Operator::F32Sub => self.arithmetic("sub.rn.f32", F32, NanBits::Positive),
            Operator::F32Mul => self.arithmetic("mul.rn.f32", F32, NanBits::Positive),
            Operator::F32Div => self.arithmetic("div.rn.f32", F32, NanBits::Arithmetic),
            Operator::F32Min => self.arithmetic("min.NaN.f32", F32, NanBits::Positive),
            Operator::F32Max => self.arithmetic("max.NaN.f32", F32, NanBits::Positive),
            Operator::F64Add => self.arithmetic("add.rn.f64", F64, NanBits::Arithmetic),
            Operator::F64Sub => self.arithmetic("sub.rn.f64", F64, NanBits::Arithmetic),
            Operator::F64Mul => self.arithmetic("mul.rn.f64", F64, NanBits::Arithmetic),
            Operator::F64Div => self.arithmetic("div.rn.f64", F64, NanBits::Arithmetic),
            Operator::F64Min => self.extreme_wide("min.f64"),
            Operator::F64Max => self.extreme_wide("max.f64"),
            Operator::F32Sqrt => self.round("sqrt.rn.f32", F32),
            Operator::F64Sqrt => self.round("sqrt.rn.f64", F64),
            Operator::F32Ceil => self.round("cvt.rpi.f32.f32", F32),
            Operator::F32Floor => self.round("cvt.rmi.f32.f32", F32),
            Operator::F32Trunc => self.round("cvt.rzi.f32.f32", F32),
            Operator::F32Nearest => self.round("cvt.rni.f32.f32", F32),
            Operator::F64Ceil => self.round("cvt.rpi.f64.f64", F64),
            Operator::F64Floor => self.round("cvt.rmi.f64.f64", F64),
            Operator::F64Trunc => self.round("cvt.rzi.f64.f64", F64),
            Operator::F64Nearest => self.round("cvt.rni.f64.f64", F64),
            Operator::F32Abs => self.bits("and.b32", F32, 0x7fff_ffff),
            Operator::F32Neg => self.bits("xor.b32", F32, 1 << 31),
            Operator::F64Abs => self.bits("and.b64", F64, u64::MAX >> 1),
            Operator::F64Neg => self.bits("xor.b64", F64, 1 << 63),
            Operator::F32Copysign => self.copy_sign(F32),
            Operator::F64Copysign => self.copy_sign(F64),
            Operator::F32Eq => self.compare_floats("eq.f32"),
            Operator::F32Ne => self.compare_floats("neu.f32"),
            Operator::F32Lt => self.compare_floats("lt.f32"),
            Operator::F32Gt => self.compare_floats("gt.f32"),
            Operator::F32Le => self.compare_floats("le.f32"),
            Operator::F32Ge => self.compare_floats("ge.f32"),
            Operator::F64Eq => self.compare_floats("eq.f64"),
            Operator::F64Ne => self.compare_floats("neu.f64"),
            Operator::F64Lt => self.compare_floats("lt.f64"),
            Operator::F64Gt => self.compare_floats("gt.f64"),
            Operator::F64Le => self.compare_floats("le.f64"),
            Operator::F64Ge => self.compare_floats("ge.f64"),
            _ => return false,
        }
        true
    }

    fn arithmetic(&mut self, name: &str, ty: ValueType, bits: NanBits) {
        let second = self.pop_float();
        let first = FloatSource(self.pop_register());
        let target = self.push_new(ty, bits);
        line!(self.out, "{name} {target}, {first}, {second};");
    }

    /// Emits a minimum or maximum of 64 bits: PTX returns the other operand if one is a NaN.
    fn extreme_wide(&mut self, name: &str) {
        let second = FloatSource(self.pop_register());
        let first = FloatSource(self.pop_register());
        let (plain, predicate) = (self.new_wide(), self.new_predicate());
        line!(self.out, "{name} %d{plain}, {first}, {second};");
        line!(self.out, "setp.nan.f64 %p{predicate}, {first}, {second};");
        let target = self.push_new(F64, NanBits::Plain);
        line!(
            self.out,
            "selp.b64 {target}, 0x{CANONICAL_F64:x}, %d{plain}, %p{predicate};"
        );
    }

    /// Emits an instruction with one operand.
    fn round(&mut self, name: &str, ty: ValueType) {
        let source = self.pop_register();
        let target = self.push_new(ty, NanBits::Arithmetic);
        line!(self.out, "{name} {target}, {source};");
    }

    /// Emits an instruction on the bits of a float: the payload of a NaN stays.
    fn bits(&mut self, name: &str, ty: ValueType, mask: u64) {
        let value = self.pop();
        let value = self.exact(value);
        let source = self.register_source(value);
        let target = self.push_new(ty, NanBits::Exact);
        let mask = if ty.is_wide() {
            Source::WideConstant(mask)
        } else {
            Source::WordConstant(mask as u32)
        };
        line!(self.out, "{name} {target}, {source}, {mask};");
    }

    fn copy_sign(&mut self, ty: ValueType) {
        let sign = self.pop();
        let sign = self.exact(sign);
        let sign = self.register_source(sign);
        let value = self.pop();
        let value = self.exact(value);
        let value = self.register_source(value);
        let target = self.push_new(ty, NanBits::Exact);
        if ty.is_wide() {
            let (low, high) = self.split(value);
            let (_, sign_high) = self.split(sign);
            let joined = self.new_word();
            line!(
                self.out,
                "lop3.b32 %r{joined}, %r{high}, %r{sign_high}, 0x7fffffff, {SELECT_BITS};"
            );
            line!(self.out, "mov.b64 {target}, {{%r{low},%r{joined}}};");
        } else {
            line!(
                self.out,
                "lop3.b32 {target}, {value}, {sign}, 0x7fffffff, {SELECT_BITS};"
            );
        }
    }

    fn compare_floats(&mut self, name: &str) {
        let second = self.pop_float();
        let first = self.pop_register();
        let predicate = self.new_predicate();
        line!(self.out, "setp.{name} %p{predicate}, {first}, {second};");
        self.push_predicate(predicate);
    }

    /// Changes the type of the value on top of the stack; its bits stay.
    pub fn reinterpret(&mut self, ty: ValueType) {
        let value = self.pop();
        let value = self.exact(value);
        let bits = if ty.is_float() { NanBits::Exact } else { NanBits::Plain };
        // A local keeps its type: its register is that of the new type as well.
        self.push(Value { ty, bits, ..value });
    }
}

/// Table of `lop3` for "first where the third is 1, second elsewhere": `a & c | b & !c`.
const SELECT_BITS: &str = "0xe4";
