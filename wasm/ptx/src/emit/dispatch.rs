//! From an instruction to the file that emits it.

use wasmparser::Operator;

use super::function::FunctionEmitter;
use super::text::{Source, line};
use super::value::{NanBits, Value};
use crate::error::TranslateError;
use crate::program::TrapKind;
use crate::values::ValueType;

impl FunctionEmitter<'_> {
    /// Emits one instruction.
    pub fn operator(&mut self, operator: &Operator<'_>) -> Result<(), TranslateError> {
        if self.dead {
            self.skip(operator);
            return Ok(());
        }
        if let Some(access) = crate::access::Access::decode(operator) {
            self.access(&access);
            return Ok(());
        }
        match operator {
            Operator::Nop => {}
            Operator::Unreachable => {
                let label = self.trap_label(TrapKind::Unreachable);
                line!(self.out, "bra $L{label};");
                self.dead = true;
            }
            Operator::Block { blockty } => self.block(*blockty),
            Operator::Loop { blockty } => self.loop_(*blockty),
            Operator::If { blockty } => self.if_(*blockty),
            Operator::Else => self.else_(),
            Operator::End => self.end(),
            Operator::Br { relative_depth } => self.branch(*relative_depth),
            Operator::BrIf { relative_depth } => self.branch_if(*relative_depth),
            Operator::BrTable { targets } => {
                let list: Vec<u32> = targets.targets().filter_map(Result::ok).collect();
                self.branch_table(&list, targets.default());
            }
            Operator::Return => {
                let outermost = u32::try_from(self.frames.len() - 1).unwrap_or(u32::MAX);
                self.branch(outermost);
            }
            Operator::Call { function_index } => {
                let function = self.instance.functions[*function_index as usize];
                self.call(function);
            }
            Operator::CallIndirect {
                type_index,
                table_index,
            } => {
                let signature = self.instance.types[*type_index as usize];
                let table = self.instance.tables[*table_index as usize];
                self.call_indirect(signature, table);
            }
            Operator::Drop => {
                self.pop();
            }
            Operator::Select | Operator::TypedSelect { .. } => self.select(),
            Operator::LocalGet { local_index } => self.get_local(*local_index),
            Operator::LocalSet { local_index } => {
                let value = self.pop();
                self.set_local(*local_index, value);
            }
            Operator::LocalTee { local_index } => {
                let value = self.pop();
                self.set_local(*local_index, value);
                self.get_local(*local_index);
            }
            Operator::GlobalGet { global_index } => {
                let global = self.instance.globals[*global_index as usize];
                self.global_get(global);
            }
            Operator::GlobalSet { global_index } => {
                let global = self.instance.globals[*global_index as usize];
                self.global_set(global);
            }
            Operator::I32Const { value } => self.constant(ValueType::I32, u64::from(value.cast_unsigned())),
            Operator::I64Const { value } => self.constant(ValueType::I64, value.cast_unsigned()),
            Operator::F32Const { value } => self.constant(ValueType::F32, u64::from(value.bits())),
            Operator::F64Const { value } => self.constant(ValueType::F64, value.bits()),
            Operator::MemorySize { mem } => self.memory_size(self.instance.memories[*mem as usize]),
            Operator::MemoryGrow { mem } => self.memory_grow(self.instance.memories[*mem as usize]),
            Operator::MemoryFill { mem } => self.memory_fill(self.instance.memories[*mem as usize]),
            Operator::MemoryCopy { dst_mem, src_mem } => {
                let (to, from) = (
                    self.instance.memories[*dst_mem as usize],
                    self.instance.memories[*src_mem as usize],
                );
                self.memory_copy(to, from);
            }
            Operator::MemoryInit { data_index, mem } => {
                self.memory_init(*data_index, self.instance.memories[*mem as usize]);
            }
            Operator::DataDrop { data_index } => self.data_drop(*data_index),
            Operator::TableInit { elem_index, table } => {
                self.table_init(*elem_index, self.instance.tables[*table as usize]);
            }
            Operator::ElemDrop { elem_index } => self.element_drop(*elem_index),
            Operator::TableCopy { dst_table, src_table } => {
                let (to, from) = (
                    self.instance.tables[*dst_table as usize],
                    self.instance.tables[*src_table as usize],
                );
                self.table_copy(to, from);
            }
            other => {
                if !(self.integer(other) || self.float(other) || self.convert(other)) {
                    return Err(TranslateError::Unsupported {
                        module: self.instance.module.name.clone(),
                        offset: self.offset,
                        feature: "this instruction",
                    });
                }
            }
        }
        Ok(())
    }

    fn constant(&mut self, ty: ValueType, value: u64) {
        self.push(Value::constant(ty, value));
    }

    fn select(&mut self) {
        let condition = self.pop();
        let mut second = self.pop();
        let mut first = self.pop();
        if first.bits == NanBits::Exact || second.bits == NanBits::Exact {
            first = self.exact(first);
            second = self.exact(second);
        }
        let bits = first.bits.max(second.bits);
        if let Some(constant) = condition.word_constant() {
            let value = if constant != 0 { first } else { second };
            self.push(Value { bits, ..value });
            return;
        }
        let (predicate, negated) = self.condition(condition);
        let first_source = self.source(first);
        let second_source = self.source(second);
        let (yes, no) = if negated {
            (second_source, first_source)
        } else {
            (first_source, second_source)
        };
        let width = if first.ty.is_wide() { 64 } else { 32 };
        let target = self.push_new(first.ty, bits);
        line!(self.out, "selp.b{width} {target}, {yes}, {no}, %p{predicate};");
    }

    /// Returns the halves of a 64-bit source in new registers.
    pub fn split(&mut self, source: Source) -> (u32, u32) {
        let low = self.new_word();
        let high = self.new_word();
        if let Source::WideConstant(value) = source {
            line!(self.out, "mov.b32 %r{low}, {};", Source::WordConstant(value as u32));
            line!(
                self.out,
                "mov.b32 %r{high}, {};",
                Source::WordConstant((value >> 32) as u32)
            );
        } else {
            line!(self.out, "mov.b64 {{%r{low},%r{high}}}, {source};");
        }
        (low, high)
    }
}
