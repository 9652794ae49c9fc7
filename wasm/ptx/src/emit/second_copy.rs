//! Regions of straight code: their accesses are tested once for each address, and have no paths of their own for rare
//! addresses. A second copy of the region, at the end of the function, does any access.
//!
//! Paths that leave the code for one access and come back are slow for all copies: the assembler makes threads wait for
//! each other at each of them, and orders no instruction across them.

use super::function::FunctionEmitter;
use super::region::{Entry, Guard, is_straight};
use super::text::line;
use super::value::{Operand, Value};
use crate::access::Access;
use crate::error::TranslateError;
use crate::values::MemoryId;

/// How far behind an access later ones may be that its test covers as well, in bytes.
const MAX_COVERED: u64 = 1 << 10;

impl FunctionEmitter<'_> {
    /// Returns the label of the second copy of the region for the current instruction. `stack` is the stack before it.
    pub fn second_copy(&mut self, stack: &[Value]) -> u32 {
        if let Some(last) = self.region.entries.last()
            && last.index == self.index
        {
            return last.label;
        }
        let label = self.new_label();
        self.region.entries.push(Entry {
            index: self.index,
            label,
            stack: stack.to_vec(),
        });
        label
    }

    /// Returns the bytes from the address on that later accesses of the region probably need, at least `need`.
    pub fn covered_bytes(&self, access: &Access, need: u64, max: u64) -> u64 {
        let later = self.body.operators.get(self.index..).unwrap_or_default();
        later
            .iter()
            .take_while(|(operator, _)| is_straight(operator))
            .filter_map(|(operator, _)| Access::decode(operator))
            .filter(|other| other.memory == access.memory)
            .map(|other| u64::from(other.offset) + u64::from(other.bytes))
            .filter(|bytes| *bytes <= max.min(need + MAX_COVERED))
            .max()
            .unwrap_or(need)
            .max(need)
    }

    /// Returns the guard of an address that covers `need` bytes with an alignment.
    pub fn find_guard(&self, operand: Operand, memory: MemoryId, align: u32, need: u64) -> Option<Guard> {
        let mut guards = self.region.guards.iter();
        guards
            .find(|g| g.operand == operand && g.memory == memory && g.align >= align && g.need >= need)
            .copied()
    }

    /// Forgets what was tested of a local that changes.
    pub fn drop_guards(&mut self, local: u32) {
        self.region
            .guards
            .retain(|guard| guard.operand != Operand::Local(local));
    }

    /// Ends the region before the current instruction: writes its second copy, from the first way into it on.
    pub fn close_region(&mut self) -> Result<(), TranslateError> {
        let region = std::mem::take(&mut self.region);
        let Some(first) = region.entries.first() else {
            return Ok(());
        };
        let (end, offset) = (self.index, self.offset);
        let after = self.new_label();
        line!(self.out, "$L{after}:");
        let last = std::mem::replace(&mut self.stack, first.stack.clone());
        let fast = std::mem::take(&mut self.out);
        self.region.is_second = true;
        let start = first.index;
        let mut entries = region.entries.into_iter().peekable();
        let body = self.body;
        for index in start..end {
            if let Some(entry) = entries.next_if(|entry| entry.index == index) {
                if index != start {
                    self.move_stack(&entry.stack);
                }
                line!(self.out, "$L{}:", entry.label);
                self.stack = entry.stack;
            }
            let Some((operator, offset)) = body.operators.get(index) else {
                break;
            };
            self.index = index;
            self.offset = *offset;
            self.operator(operator)?;
        }
        self.move_stack(&last);
        line!(self.out, "bra $L{after};");
        self.region.is_second = false;
        self.stack = last;
        (self.index, self.offset) = (end, offset);
        let second = std::mem::replace(&mut self.out, fast);
        self.tail.push_str(&second);
        Ok(())
    }

    /// Moves the values on the stack to the places of the same values in `targets`.
    ///
    /// A register of the targets is written by one instruction of the first copy, so that no move destroys a source.
    fn move_stack(&mut self, targets: &[Value]) {
        let values = self.stack.clone();
        for (value, target) in values.into_iter().zip(targets) {
            if value.operand == target.operand {
                continue;
            }
            match target.operand {
                Operand::Register(register) => {
                    let source = self.source(value);
                    self.move_to(Self::register(target.ty, register), source);
                }
                Operand::Predicate { register, negated } => {
                    if let Operand::Predicate {
                        register: from,
                        negated: from_negated,
                    } = value.operand
                    {
                        if from_negated == negated {
                            line!(self.out, "and.pred %p{register}, %p{from}, %p{from};");
                        } else {
                            line!(self.out, "not.pred %p{register}, %p{from};");
                        }
                    }
                }
                Operand::Local(_) | Operand::Constant(_) => {}
            }
        }
    }
}
