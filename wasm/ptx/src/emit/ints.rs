//! Integer instructions.

use wasmparser::Operator;

use super::function::FunctionEmitter;
use super::text::{Source, line};
use super::value::{NanBits, Operand, Value};
use crate::program::TrapKind;
use crate::values::ValueType;

use ValueType::{I32, I64};

impl FunctionEmitter<'_> {
    /// Emits an integer instruction. Returns false if it is none.
    pub fn integer(&mut self, operator: &Operator<'_>) -> bool {
        match operator {
            Operator::I32Add => self.binary("add.s32", I32),
            Operator::I32Sub => self.binary("sub.s32", I32),
            Operator::I32Mul => self.binary("mul.lo.s32", I32),
            Operator::I32And => self.binary("and.b32", I32),
            Operator::I32Or => self.binary("or.b32", I32),
            Operator::I32Xor => self.binary("xor.b32", I32),
            Operator::I64Add => self.binary("add.s64", I64),
            Operator::I64Sub => self.binary("sub.s64", I64),
            Operator::I64Mul => self.binary("mul.lo.s64", I64),
            Operator::I64And => self.binary("and.b64", I64),
            Operator::I64Or => self.binary("or.b64", I64),
            Operator::I64Xor => self.binary("xor.b64", I64),
            Operator::I32DivS => self.divide("div.s32", I32, true, false),
            Operator::I32DivU => self.divide("div.u32", I32, false, false),
            Operator::I32RemS => self.divide("rem.s32", I32, true, true),
            Operator::I32RemU => self.divide("rem.u32", I32, false, true),
            Operator::I64DivS => self.divide("div.s64", I64, true, false),
            Operator::I64DivU => self.divide("div.u64", I64, false, false),
            Operator::I64RemS => self.divide("rem.s64", I64, true, true),
            Operator::I64RemU => self.divide("rem.u64", I64, false, true),
            Operator::I32Shl => self.shift("shl.b32", I32),
            Operator::I32ShrS => self.shift("shr.s32", I32),
            Operator::I32ShrU => self.shift("shr.u32", I32),
            Operator::I64Shl => self.shift("shl.b64", I64),
            Operator::I64ShrS => self.shift("shr.s64", I64),
            Operator::I64ShrU => self.shift("shr.u64", I64),
            Operator::I32Rotl => self.rotate_word("shf.l.wrap.b32"),
            Operator::I32Rotr => self.rotate_word("shf.r.wrap.b32"),
            Operator::I64Rotl => self.rotate_wide(true),
            Operator::I64Rotr => self.rotate_wide(false),
            Operator::I32Clz => self.unary("clz.b32", I32),
            Operator::I32Popcnt => self.unary("popc.b32", I32),
            Operator::I32Ctz => {
                let source = self.pop_register();
                let reversed = self.new_word();
                line!(self.out, "brev.b32 %r{reversed}, {source};");
                let target = self.push_new(I32, NanBits::Plain);
                line!(self.out, "clz.b32 {target}, %r{reversed};");
            }
            Operator::I64Clz => self.count_wide("clz.b64"),
            Operator::I64Popcnt => self.count_wide("popc.b64"),
            Operator::I64Ctz => {
                let source = self.pop_register();
                let reversed = self.new_wide();
                line!(self.out, "brev.b64 %d{reversed}, {source};");
                self.push(Value::register(I64, reversed, NanBits::Plain));
                self.count_wide("clz.b64");
            }
            Operator::I32Eqz => {
                let value = self.pop();
                if let Operand::Predicate { register, negated } = value.operand {
                    self.push(Value {
                        operand: Operand::Predicate {
                            register,
                            negated: !negated,
                        },
                        ..value
                    });
                } else {
                    self.push(value);
                    self.push(Value::constant(I32, 0));
                    self.compare("eq.s32");
                }
            }
            Operator::I64Eqz => {
                self.push(Value::constant(I64, 0));
                self.compare("eq.s64");
            }
            Operator::I32Eq => self.compare("eq.s32"),
            Operator::I32Ne => self.compare("ne.s32"),
            Operator::I32LtS => self.compare("lt.s32"),
            Operator::I32LtU => self.compare("lt.u32"),
            Operator::I32GtS => self.compare("gt.s32"),
            Operator::I32GtU => self.compare("gt.u32"),
            Operator::I32LeS => self.compare("le.s32"),
            Operator::I32LeU => self.compare("le.u32"),
            Operator::I32GeS => self.compare("ge.s32"),
            Operator::I32GeU => self.compare("ge.u32"),
            Operator::I64Eq => self.compare("eq.s64"),
            Operator::I64Ne => self.compare("ne.s64"),
            Operator::I64LtS => self.compare("lt.s64"),
            Operator::I64LtU => self.compare("lt.u64"),
            Operator::I64GtS => self.compare("gt.s64"),
            Operator::I64GtU => self.compare("gt.u64"),
            Operator::I64LeS => self.compare("le.s64"),
            Operator::I64LeU => self.compare("le.u64"),
            Operator::I64GeS => self.compare("ge.s64"),
            Operator::I64GeU => self.compare("ge.u64"),
            _ => return false,
        }
        true
    }

    fn unary(&mut self, name: &str, ty: ValueType) {
        let source = self.pop_register();
        let target = self.push_new(ty, NanBits::Plain);
        line!(self.out, "{name} {target}, {source};");
    }

    /// Counts bits of 64 bits: PTX returns 32 bits.
    fn count_wide(&mut self, name: &str) {
        let source = self.pop_register();
        let count = self.new_word();
        line!(self.out, "{name} %r{count}, {source};");
        let target = self.push_new(I64, NanBits::Plain);
        line!(self.out, "cvt.u64.u32 {target}, %r{count};");
    }

    fn binary(&mut self, name: &str, ty: ValueType) {
        let second = self.pop_source();
        let first = self.pop_register();
        let target = self.push_new(ty, NanBits::Plain);
        line!(self.out, "{name} {target}, {first}, {second};");
    }

    /// Pushes the result of a comparison as a predicate.
    pub fn compare(&mut self, name: &str) {
        let second = self.pop_source();
        let first = self.pop_register();
        let predicate = self.new_predicate();
        line!(self.out, "setp.{name} %p{predicate}, {first}, {second};");
        self.push_predicate(predicate);
    }

    pub fn push_predicate(&mut self, register: u32) {
        self.push(Value {
            ty: I32,
            operand: Operand::Predicate {
                register,
                negated: false,
            },
            bits: NanBits::Plain,
        });
    }

    fn divide(&mut self, name: &str, ty: ValueType, signed: bool, remainder: bool) {
        let mut divisor = self.pop_source();
        let dividend = self.pop_register();
        let bits = if ty.is_wide() { 64 } else { 32 };
        let constant = match divisor {
            Source::WordConstant(value) => Some(i64::from(value.cast_signed())),
            Source::WideConstant(value) => Some(value.cast_signed()),
            Source::Word(_) | Source::Wide(_) => None,
        };
        if constant.is_none_or(|value| value == 0) {
            if constant.is_some() {
                let register = Self::register(ty, self.new_register(ty));
                self.move_to(register, divisor);
                divisor = register;
            }
            let zero = self.new_predicate();
            line!(self.out, "setp.eq.s{bits} %p{zero}, {divisor}, 0;");
            self.trap_if(zero, false, TrapKind::DivideByZero);
        }
        if signed && constant.is_none_or(|value| value == -1) {
            let minus = self.new_predicate();
            if remainder {
                // A remainder by -1 is that by 1.
                let one = Self::register(ty, self.new_register(ty));
                let register = if divisor.is_constant() {
                    self.move_to(one, divisor);
                    one
                } else {
                    divisor
                };
                line!(self.out, "setp.eq.s{bits} %p{minus}, {register}, -1;");
                line!(self.out, "selp.b{bits} {one}, 1, {register}, %p{minus};");
                divisor = one;
            } else {
                let minimum = if ty.is_wide() {
                    Source::WideConstant(1 << 63)
                } else {
                    Source::WordConstant(1 << 31)
                };
                line!(self.out, "setp.eq.s{bits} %p{minus}, {dividend}, {minimum};");
                if !divisor.is_constant() {
                    line!(self.out, "setp.eq.and.s{bits} %p{minus}, {divisor}, -1, %p{minus};");
                }
                self.trap_if(minus, false, TrapKind::IntegerOverflow);
            }
        }
        let target = self.push_new(ty, NanBits::Plain);
        line!(self.out, "{name} {target}, {dividend}, {divisor};");
    }

    fn shift(&mut self, name: &str, ty: ValueType) {
        let count = self.pop_source();
        let first = self.pop_register();
        // WebAssembly takes counts modulo the width, PTX clamps them.
        let count = match count {
            Source::WordConstant(value) => Source::WordConstant(value & 31),
            Source::WideConstant(value) => Source::WordConstant((value & 63) as u32),
            Source::Word(_) => {
                let masked = self.new_word();
                line!(self.out, "and.b32 %r{masked}, {count}, 31;");
                Source::Word(masked)
            }
            Source::Wide(_) => {
                let masked = self.new_word();
                line!(
                    self.out,
                    "cvt.u32.u64 %r{masked}, {count};\nand.b32 %r{masked}, %r{masked}, 63;"
                );
                Source::Word(masked)
            }
        };
        let target = self.push_new(ty, NanBits::Plain);
        line!(self.out, "{name} {target}, {first}, {count};");
    }

    fn rotate_word(&mut self, name: &str) {
        let count = self.pop_source();
        let first = self.pop_register();
        let target = self.push_new(I32, NanBits::Plain);
        line!(self.out, "{name} {target}, {first}, {first}, {count};");
    }

    fn rotate_wide(&mut self, left: bool) {
        let count = self.pop_source();
        let first = self.pop_register();
        let (low, high) = self.split(first);
        let (low, high, count) = match count {
            Source::WideConstant(value) if value & 32 == 0 => (low, high, Source::WordConstant((value & 31) as u32)),
            Source::WideConstant(value) => (high, low, Source::WordConstant((value & 31) as u32)),
            _ => {
                // Bit 5 of the count exchanges the halves; the shifts take the rest.
                let (word, bit, swap) = (self.new_word(), self.new_word(), self.new_predicate());
                let (new_low, new_high) = (self.new_word(), self.new_word());
                line!(
                    self.out,
                    "cvt.u32.u64 %r{word}, {count};\nand.b32 %r{bit}, %r{word}, 32;"
                );
                line!(self.out, "setp.ne.s32 %p{swap}, %r{bit}, 0;");
                line!(self.out, "selp.b32 %r{new_low}, %r{high}, %r{low}, %p{swap};");
                line!(self.out, "selp.b32 %r{new_high}, %r{low}, %r{high}, %p{swap};");
                (new_low, new_high, Source::Word(word))
            }
        };
        let (out_low, out_high) = (self.new_word(), self.new_word());
        if left {
            line!(self.out, "shf.l.wrap.b32 %r{out_high}, %r{low}, %r{high}, {count};");
            line!(self.out, "shf.l.wrap.b32 %r{out_low}, %r{high}, %r{low}, {count};");
        } else {
            line!(self.out, "shf.r.wrap.b32 %r{out_low}, %r{low}, %r{high}, {count};");
            line!(self.out, "shf.r.wrap.b32 %r{out_high}, %r{high}, %r{low}, {count};");
        }
        let target = self.push_new(I64, NanBits::Plain);
        line!(self.out, "mov.b64 {target}, {{%r{out_low},%r{out_high}}};");
    }
}
