//! Translation of the non-arithmetic ADD operations: messages to other units, and branch targets.

use super::{ClauseTranslation, temporary};
use crate::shader::block::{AtomicOp, Message, NarrowAccess, Space, Target};
use crate::shader::descriptor_op;
use crate::shader::lanes::{Kind, Step, TEMPORARIES};
use crate::shader::mods::Mods;
use crate::shader::scalar::cube_face;
use crate::shader::vector::comparison;
use bifrost::{Count, Instruction, Modifier, Op, Source, Staging, Uniform, Value, uniform};
use trace_core::GpuVa;

impl ClauseTranslation<'_, '_> {
    pub(super) fn add(&mut self, i: &Instruction, fma: &Instruction, tuple: usize) -> Option<Message> {
        let to = temporary(true, tuple);
        let staging = self.clause.header.staging_register();
        if !self.has_staging(i, staging, staging_count(i)) {
            return None;
        }
        if let Some((load, words, bytes)) = access(i.op()) {
            return self.access(i, tuple, load, words, bytes);
        }
        if let Some(found) = descriptor_op::decode(i, fma) {
            let [a, b, c, _] = self.operands(i, tuple);
            let from = [a, b, c];
            return match found {
                Ok(what) => Some(Message::DescriptorOp {
                    op: what,
                    from,
                    staging,
                }),
                Err(why) => {
                    self.push_unknown(why);
                    None
                }
            };
        }
        match i.op() {
            Op::SegAdd => {
                if fma.op() != Op::SegAdd {
                    self.push_unknown(format!("+SEG_ADD next to *{}", fma.op().name()));
                    return None;
                }
                let from = self.operands(i, tuple);
                let base = self.shared_base(i);
                let (low, high) = (self.constant(base as u32), self.constant((base >> 32) as u32));
                // FMA computed the sum of the low words in this tuple. The sum is less than the added word if there is
                // a carry.
                let carry = self.scratch();
                let mut c = Step::new(Kind::IcmpUGt, [low, temporary(false, tuple), 0, 0], carry);
                c.numbers[0] = 1;
                self.steps.push(c);
                self.steps.push(Step::new(Kind::Add, [from[0], high, 0, 0], to));
                self.steps.push(Step::new(Kind::Add, [to, carry, 0, 0], to));
                None
            }
            Op::AtomCx => self.atomic(fma, tuple, staging),
            Op::AxchgI32 | Op::AxchgI64 | Op::AcmpxchgI32 | Op::AcmpxchgI64 | Op::AcmpstoreI32 | Op::AcmpstoreI64 => {
                let from = self.operands(i, tuple);
                let space = if i.get(Modifier::Seg) == Value::Wls {
                    Space::Shared
                } else {
                    Space::Global
                };
                Some(Message::Exchange {
                    space,
                    compare: !matches!(i.op(), Op::AxchgI32 | Op::AxchgI64),
                    returns: !matches!(i.op(), Op::AcmpstoreI32 | Op::AcmpstoreI64),
                    wide: matches!(i.op(), Op::AxchgI64 | Op::AcmpxchgI64 | Op::AcmpstoreI64),
                    address: [from[0], from[1]],
                    staging,
                })
            }
            Op::ClperI32 | Op::ClperOldI32 => {
                let (from, m) = (self.operands(i, tuple), Mods::from_instruction(i));
                let inactive = match m.inactive {
                    Value::Zero | Value::None => 0,
                    Value::Umax => u32::MAX,
                    Value::I1 => 1,
                    Value::V2i1 => 0x0001_0001,
                    Value::Smin => 0x8000_0000,
                    Value::Smax => 0x7fff_ffff,
                    Value::V2smin => 0x8000_8000,
                    Value::V2smax => 0x7fff_7fff,
                    Value::V4smin => 0x8080_8080,
                    Value::V4smax => 0x7f7f_7f7f,
                    Value::V2f1 => 0x3c00_3c00,
                    Value::V2infn => 0xfc00_fc00,
                    Value::V2inf => 0x7c00_7c00,
                    Value::F1 => 1f32.to_bits(),
                    Value::Infn => f32::NEG_INFINITY.to_bits(),
                    Value::Inf => f32::INFINITY.to_bits(),
                    other => {
                        self.push_unknown(format!("+CLPER.i32 with {}", other.name()));
                        0
                    }
                };
                Some(Message::Permute {
                    value: from[0],
                    lane: from[1],
                    op: m.lane_op,
                    width: m.subgroup,
                    inactive,
                    to,
                })
            }
            Op::Wmask => {
                let (from, m) = (self.operands(i, tuple), Mods::from_instruction(i));
                if m.number != 0 {
                    self.push_unknown("+WMASK with fill");
                }
                Some(Message::Ballot {
                    value: from[0],
                    width: m.subgroup,
                    to,
                })
            }
            Op::LdGclkU64 => Some(Message::Clock {
                cycles: i.get(Modifier::Source) == Value::CycleCounter,
                staging,
            }),
            Op::Nop if !self.is_result_used(true, tuple) => None,
            // The face is that of the sources of the tuple's FMA operation.
            Op::Cubeface2 if fma.op() == Op::Cubeface1 => {
                let from = self.operands(fma, tuple);
                let mut s = Step::new(Kind::Scalar(cube_face), from, to);
                s.mods = Some(Box::new(Mods::from_instruction(fma)));
                self.steps.push(s);
                None
            }
            Op::ShaddxhI32 => {
                self.high_sum(i, fma, tuple, to);
                None
            }
            Op::Barrier => Some(Message::Barrier),
            Op::Jump => {
                let target = self.target(i, 0, tuple);
                target.map(|to| Message::Branch { condition: None, to })
            }
            op if is_branch(op) => self.branch(i, tuple),
            _ => {
                self.arithmetic(i, tuple, to);
                None
            }
        }
    }

    /// Returns whether this many staging registers exist. Otherwise the operation cannot be executed.
    fn has_staging(&mut self, i: &Instruction, first: u8, words: u8) -> bool {
        let fits = u16::from(first) + u16::from(words) <= TEMPORARIES;
        if !fits {
            self.push_unknown(format!("{}{} beyond the last register", i.unit().sign(), i.op().name()));
        }
        fits
    }

    /// Rejects meaningless combinations of a message and its clause: a result that is used although the message has
    /// none, a second message, or tuples after a branch.
    pub(super) fn check_message(&mut self, i: &Instruction, message: Option<&Message>, tuple: usize) {
        let Some(message) = message else { return };
        if matches!(message, Message::Permute { .. } | Message::Ballot { .. }) {
            return;
        }
        let name = i.op().name();
        if self.is_result_used(true, tuple) {
            self.push_unknown(format!("the result of +{name}, which gives none"));
        }
        let before = self.clause.tuples.iter().take(tuple).filter_map(|t| t.add);
        let another = before.map(|i| i.op()).any(|op| op.message() != bifrost::Message::None);
        if i.op().message() != bifrost::Message::None && another {
            self.push_unknown(format!("+{name} after another message of its clause"));
        }
        if matches!(message, Message::Branch { .. }) && tuple + 1 < self.clause.tuples.len() {
            self.push_unknown(format!("+{name} before the last tuple of its clause"));
        }
    }

    fn atomic(&mut self, fma: &Instruction, tuple: usize, staging: u8) -> Option<Message> {
        let (returns, one, wide) = match fma.op() {
            Op::AtomCI32 => (false, false, false),
            Op::AtomCReturnI32 => (true, false, false),
            Op::AtomC1I32 => (false, true, false),
            Op::AtomC1ReturnI32 => (true, true, false),
            Op::AtomCI64 => (false, false, true),
            Op::AtomCReturnI64 => (true, false, true),
            Op::AtomC1I64 => (false, true, true),
            Op::AtomC1ReturnI64 => (true, true, true),
            op => {
                self.push_unknown(format!("+ATOM_CX next to *{}", op.name()));
                return None;
            }
        };
        let words = match (one && !returns, wide) {
            (true, _) => 0,
            (false, wide) => 1 + u8::from(wide),
        };
        if !self.has_staging(fma, staging, words) {
            return None;
        }
        let from = self.operands(fma, tuple);
        let Some((op, operand)) = atomic(fma.get(Modifier::AtomOpc)).filter(|(_, operand)| operand.is_some() == one)
        else {
            self.push_unknown(format!("*{}.{}", fma.op().name(), fma.get(Modifier::AtomOpc).name()));
            return None;
        };
        Some(Message::Atomic {
            op,
            operand,
            returns,
            wide,
            address: [from[0], from[1]],
            staging,
        })
    }

    fn access(&mut self, i: &Instruction, tuple: usize, load: bool, words: u8, bytes: u8) -> Option<Message> {
        let from = self.operands(i, tuple);
        let space = match i.get(Modifier::Seg) {
            Value::None | Value::Stream => Space::Global,
            Value::Wls => Space::Shared,
            Value::Tl => Space::Local,
            Value::Ubo if load => Space::Uniform,
            other => {
                self.push_unknown(format!("+{} of {}", i.op().name(), other.name()));
                return None;
            }
        };
        let (address, staging) = ([from[0], from[1]], self.clause.header.staging_register());
        let mut narrow = (!bytes.is_multiple_of(4)).then_some(NarrowAccess {
            bytes,
            signed: false,
            shift: 0,
            replaced: u32::MAX,
            double: false,
        });
        let mut words = words;
        if load && bytes <= 4 {
            let extend = i.get(Modifier::Extend);
            let (shift, replaced, double) = match (i.get(Modifier::LaneDest), bytes) {
                (Value::B0, _) => (0, 0xff, false),
                (Value::B1, _) => (8, 0xff00, false),
                (Value::B2, _) => (16, 0xff_0000, false),
                (Value::B3, _) => (24, 0xff00_0000, false),
                (Value::H0, _) => (0, 0xffff, false),
                (Value::H1, _) => (16, 0xffff_0000, false),
                (Value::D0, _) => (0, u32::MAX, true),
                _ => (0, u32::MAX, false),
            };
            if narrow.is_some() || double {
                narrow = Some(NarrowAccess {
                    bytes,
                    signed: extend == Value::Sext,
                    shift,
                    replaced,
                    double,
                });
            }
            if double {
                words = 2;
                if !self.has_staging(i, staging, words) {
                    return None;
                }
            }
        }
        Some(if load {
            Message::Load {
                space,
                words,
                narrow,
                address,
                staging,
            }
        } else {
            Message::Store {
                space,
                words,
                narrow,
                address,
                staging,
            }
        })
    }

    /// Returns the target of a source that must be a constant.
    fn target(&mut self, i: &Instruction, n: usize, tuple: usize) -> Option<Target> {
        let found = match (i.source(n), self.clause.tuples.get(tuple)) {
            (Some(Source::Uniform { high }), Some(t)) => match uniform(t.registers.uniform) {
                Uniform::Zero => Some(Target::End),
                Uniform::Constant { index, low } => {
                    let c = self
                        .clause
                        .constants
                        .get(usize::from(index))
                        .copied()
                        .unwrap_or_default();
                    match c.offset(low, high) {
                        Some(by) if by % 16 != 0 => {
                            self.push_unknown(format!("+{} to {by:#x} bytes on, where no clause is", i.op().name()));
                            return None;
                        }
                        Some(by) => Some(Target::Clause(GpuVa::new(self.clause.address.wrapping_add_signed(by)))),
                        None if c.word(low, high, 0) == 0 => Some(Target::End),
                        None => None,
                    }
                }
                _ => None,
            },
            _ => None,
        };
        if found.is_none() {
            self.push_unknown(format!("+{} to a computed address", i.op().name()));
        }
        found
    }

    fn branch(&mut self, i: &Instruction, tuple: usize) -> Option<Message> {
        let (zero, float, signed) = match i.op() {
            Op::BranchzI16 | Op::BranchzI32 | Op::BranchzU16 | Op::BranchzU32 => (true, false, false),
            Op::BranchzS16 | Op::BranchzS32 => (true, false, true),
            Op::BranchzF16 | Op::BranchzF32 => (true, true, false),
            Op::BranchI16 | Op::BranchI32 | Op::BranchU16 | Op::BranchU32 => (false, false, false),
            Op::BranchS16 | Op::BranchS32 => (false, false, true),
            _ => (false, true, false),
        };
        let m = Mods::from_instruction(i);
        let target = self.target(i, if zero { 1 } else { 2 }, tuple)?;
        let from = self.operands(i, tuple);
        let mut sides = [from[0], if zero { self.constant(0) } else { from[1] }];
        for (n, side) in sides.iter_mut().enumerate().take(if zero { 1 } else { 2 }) {
            if m.pick.get(n).is_some_and(|p| p.bits == 16) {
                let to = self.scratch();
                let at = m.pick.get(n).map_or(0, |p| u32::from(p.at[0] & 1));
                let mut s = Step::new(Kind::Extract, [*side, 0, 0, 0], to);
                s.numbers = [16 * at, 0xffff];
                if float {
                    s.kind = Kind::Widen16;
                } else if signed {
                    s.kind = Kind::ExtractSigned;
                    s.numbers = [16 - 16 * at, 16];
                }
                self.steps.push(s);
                *side = to;
            }
        }
        let to = self.scratch();
        let Some((kind, exchange)) = comparison(m.cmp, float, signed) else {
            self.push_unknown(format!("+{} with another comparison", i.op().name()));
            return None;
        };
        let [a, b] = if exchange { [sides[1], sides[0]] } else { sides };
        let mut s = Step::new(kind, [a, b, 0, 0], to);
        s.numbers[0] = u32::MAX;
        self.steps.push(s);
        Some(Message::Branch {
            condition: Some(to),
            to: target,
        })
    }
}

/// Returns the number of staging registers that an operation uses, as far as it is known before it runs.
fn staging_count(i: &Instruction) -> u8 {
    let (Staging::Read(count) | Staging::Write(count) | Staging::ReadWrite(count)) = i.op().staging() else {
        return 0;
    };
    match count {
        Count::Words(words) => words,
        Count::Descriptor => 1,
        Count::Format => {
            let values: u8 = match i.get(Modifier::Vecsize) {
                Value::V2 => 2,
                Value::V3 => 3,
                Value::V4 => 4,
                _ => 1,
            };
            match i.get(Modifier::RegisterFormat) {
                Value::F16 | Value::S16 | Value::U16 => values.div_ceil(2),
                _ => values,
            }
        }
    }
}

fn is_branch(op: Op) -> bool {
    matches!(
        op,
        Op::BranchzI16
            | Op::BranchzI32
            | Op::BranchzU16
            | Op::BranchzU32
            | Op::BranchzS16
            | Op::BranchzS32
            | Op::BranchzF16
            | Op::BranchzF32
            | Op::BranchI16
            | Op::BranchI32
            | Op::BranchU16
            | Op::BranchU32
            | Op::BranchS16
            | Op::BranchS32
            | Op::BranchF16
            | Op::BranchF32
    )
}

/// Returns whether an operation is a load (`true`) or a store (`false`), with its register words and memory bytes.
/// Returns `None` for other operations.
fn access(op: Op) -> Option<(bool, u8, u8)> {
    Some(match op {
        Op::LoadI8 => (true, 1, 1),
        Op::LoadI16 => (true, 1, 2),
        Op::LoadI24 => (true, 1, 3),
        Op::LoadI32 => (true, 1, 4),
        Op::LoadI48 => (true, 2, 6),
        Op::LoadI64 => (true, 2, 8),
        Op::LoadI96 => (true, 3, 12),
        Op::LoadI128 => (true, 4, 16),
        Op::StoreI8 => (false, 1, 1),
        Op::StoreI16 => (false, 1, 2),
        Op::StoreI24 => (false, 1, 3),
        Op::StoreI32 => (false, 1, 4),
        Op::StoreI48 => (false, 2, 6),
        Op::StoreI64 => (false, 2, 8),
        Op::StoreI96 => (false, 3, 12),
        Op::StoreI128 => (false, 4, 16),
        _ => return None,
    })
}

/// Returns the meaning of an atomic's name, and the operand that the name implies.
pub(super) fn atomic(name: Value) -> Option<(AtomicOp, Option<u64>)> {
    Some(match name {
        Value::Aadd => (AtomicOp::Add, None),
        Value::Asmin => (AtomicOp::SMin, None),
        Value::Asmax => (AtomicOp::SMax, None),
        Value::Aumin => (AtomicOp::UMin, None),
        Value::Aumax => (AtomicOp::UMax, None),
        Value::Aand => (AtomicOp::And, None),
        Value::Aor => (AtomicOp::Or, None),
        Value::Axor => (AtomicOp::Xor, None),
        Value::Ainc => (AtomicOp::Add, Some(1)),
        Value::Adec => (AtomicOp::Add, Some(u64::MAX)),
        Value::Aumax1 => (AtomicOp::UMax, Some(1)),
        Value::Asmax1 => (AtomicOp::SMax, Some(1)),
        Value::Aor1 => (AtomicOp::Or, Some(1)),
        _ => return None,
    })
}
