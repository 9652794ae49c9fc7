//! Translator of clauses into steps: operands become register file locations, modifiers become numbers, branches become
//! clause addresses.
//!
//! The timing of a tuple is that of the hardware. A tuple reads its registers before the results of the previous tuple
//! are written. It can use the results of both units of the previous tuple directly. A message sees the registers after
//! that write. The results of the last tuple are written where the register block of the first tuple says.

mod message_ops;
mod modes;

use super::block::{AtomicOp, Block, ConstantPool, Message, Segment, ShaderInputs, UnknownOperation};
use super::lanes::{Kind, SPECIAL, Step, TEMPORARIES};
use super::vector::step;
use bifrost::{
    Clause, Flow, Instruction, Modifier, Op, Port2, Port3, Source, Uniform, Unit, Value, WriteHalf, uniform,
};
use message_ops::atomic;
use trace_core::GpuVa;

/// Location of each lane's number in its warp.
pub(crate) const LANE_ID: u16 = SPECIAL;
/// Location of each lane's warp number in the workgroup.
pub(crate) const WARP_ID: u16 = SPECIAL + 1;
/// First location for operands that must be saved or computed before a step.
const SCRATCH: u16 = TEMPORARIES + 4;

/// Translator of clauses, which share their constants.
pub(crate) struct Translator<'a> {
    given: &'a ShaderInputs,
    pub pool: ConstantPool,
}

/// Translation of one clause.
struct ClauseTranslation<'t, 'a> {
    t: &'t mut Translator<'a>,
    clause: &'t Clause,
    block: Block,
    steps: Vec<Step>,
    scratch: u16,
    unknown: Vec<UnknownOperation>,
}

fn temporary(add: bool, tuple: usize) -> u16 {
    TEMPORARIES + 2 * (tuple as u16 & 1) + u16::from(add)
}

impl<'a> Translator<'a> {
    pub(crate) fn new(given: &'a ShaderInputs) -> Self {
        Self {
            given,
            pool: ConstantPool::default(),
        }
    }

    /// Translates a clause, or returns the operations that cannot be executed.
    pub(crate) fn clause(&mut self, clause: &Clause) -> Result<Block, Vec<UnknownOperation>> {
        let mut w = ClauseTranslation {
            t: self,
            clause,
            block: Block {
                address: GpuVa::new(clause.address),
                next: GpuVa::new(clause.address.wrapping_add(clause.bytes())),
                segments: Vec::new(),
                operations: 0,
                ends: clause.header.flow() == Flow::End,
            },
            steps: Vec::new(),
            scratch: SCRATCH,
            unknown: Vec::new(),
        };
        w.header();
        for n in 0..clause.tuples.len() {
            w.tuple(n);
        }
        if let Some(first) = clause.tuples.first() {
            w.write_results(&first.registers, clause.tuples.len() - 1);
        }
        w.push_segment(None, 0);
        if w.unknown.is_empty() {
            Ok(w.block)
        } else {
            Err(w.unknown)
        }
    }
}

impl ClauseTranslation<'_, '_> {
    fn push_unknown(&mut self, what: impl Into<String>) {
        self.unknown.push(UnknownOperation {
            clause: GpuVa::new(self.clause.address),
            operation: what.into(),
        });
    }

    fn push_segment(&mut self, message: Option<Message>, tuple: usize) {
        let steps = std::mem::take(&mut self.steps);
        if !steps.is_empty() || message.is_some() {
            self.block.segments.push(Segment {
                steps,
                message,
                tuple: tuple as u8,
            });
        }
    }

    fn scratch(&mut self) -> u16 {
        let place = self.scratch;
        self.scratch = if place + 1 >= LANE_ID { SCRATCH } else { place + 1 };
        place
    }

    /// Returns the location of a constant.
    fn constant(&mut self, word: u32) -> u16 {
        if let Some(p) = self.t.pool.intern(word) {
            return p;
        }
        let to = self.scratch();
        let mut s = Step::new(Kind::Splat, [0; 4], to);
        s.numbers[0] = word;
        self.steps.push(s);
        to
    }

    /// Returns the location of an operand.
    fn operand(&mut self, source: Source, unit: Unit, tuple: usize) -> u16 {
        let Some(t) = self.clause.tuples.get(tuple) else {
            return 0;
        };
        let r = t.registers;
        match source {
            Source::Port(0) => u16::from(r.field0),
            Source::Port(1) => u16::from(r.field1),
            Source::Port(_) => u16::from(r.register2),
            Source::Stage if unit == Unit::Fma => self.constant(0),
            Source::Stage => temporary(false, tuple),
            Source::Passed { add } => match tuple.checked_sub(1) {
                Some(before) => temporary(add, before),
                // No value passes from clause to clause.
                None => self.constant(0),
            },
            Source::Uniform { high } => {
                let word = match uniform(r.uniform) {
                    Uniform::Zero => 0,
                    Uniform::Constant { index, low } => {
                        let c = self
                            .clause
                            .constants
                            .get(usize::from(index))
                            .copied()
                            .unwrap_or_default();
                        c.word(low, high, self.clause.address)
                    }
                    Uniform::Push(n) => {
                        let word = self.t.given.push.get(usize::from(n)).copied().unwrap_or(0);
                        (if high { word >> 32 } else { word }) as u32
                    }
                    Uniform::Special(1) if !high => return LANE_ID,
                    Uniform::Special(2) if !high => return WARP_ID,
                    // One core does all the work.
                    Uniform::Special(1..=3) => 0,
                    Uniform::Special(n) | Uniform::Reserved(n) => {
                        self.push_unknown(format!("uniform {n:#x}"));
                        0
                    }
                };
                self.constant(word)
            }
        }
    }

    fn operands(&mut self, i: &Instruction, tuple: usize) -> [u16; 4] {
        let mut places = [0; 4];
        for (n, place) in places.iter_mut().enumerate() {
            if let Some(source) = i.source(n) {
                *place = self.operand(source, i.unit(), tuple);
            }
        }
        places
    }

    fn tuple(&mut self, n: usize) {
        let Some(t) = self.clause.tuples.get(n).copied() else {
            return;
        };
        if !t.registers.sound {
            self.push_unknown(format!("a reserved register mode in tuple {n}"));
        }
        for (unit, bits, i) in [(Unit::Fma, t.fma_bits, t.fma), (Unit::Add, t.add_bits, t.add)] {
            match i {
                None => self.push_unknown(format!("{}{bits:#07x}", unit.sign())),
                Some(i) if !i.is_sound() => self.push_unknown(format!("{}{} {bits:#07x}", unit.sign(), i.op().name())),
                Some(_) => {}
            }
        }
        let (Some(fma), Some(add)) = (t.fma, t.add) else { return };
        self.block.operations += u32::from(fma.op() != Op::Nop) + u32::from(add.op() != Op::Nop);
        self.check_modes(&fma);
        self.check_modes(&add);
        self.refuse_sent_sum(&fma, &add);
        self.fma(&fma, n);
        let message = self.add(&add, &fma, n);
        self.check_message(&add, message.as_ref(), n);
        // If a register is written in this tuple, a message takes its value from before the write.
        let message = message.map(|m| self.preserve_operands(m, n));
        if n > 0 {
            self.write_results(&t.registers, n - 1);
        }
        if let Some(m) = message {
            self.push_segment(Some(m), n);
        }
    }

    /// Copies the operands of a message that this tuple's register block overwrites before the message is sent.
    fn preserve_operands(&mut self, mut m: Message, tuple: usize) -> Message {
        let Some(t) = self.clause.tuples.get(tuple).filter(|_| tuple > 0) else {
            return m;
        };
        let r = t.registers;
        let written = |place: u16| {
            matches!(r.port2, Port2::WriteFma(_)) && place == u16::from(r.register2)
                || r.port3 != Port3::Idle && place == u16::from(r.register3)
        };
        let mut copy = |place: &mut u16| {
            if *place < TEMPORARIES && written(*place) {
                let to = self.scratch();
                self.steps.push(Step::new(Kind::Mov, [*place, 0, 0, 0], to));
                *place = to;
            }
        };
        match &mut m {
            Message::Load { address, .. }
            | Message::Store { address, .. }
            | Message::Atomic { address, .. }
            | Message::Exchange { address, .. } => address.iter_mut().for_each(copy),
            Message::DescriptorOp { from, .. } => from.iter_mut().for_each(copy),
            Message::Permute { value, lane, .. } => {
                copy(value);
                copy(lane);
            }
            Message::Ballot { value, .. } => copy(value),
            Message::Branch { .. } | Message::Barrier | Message::Clock { .. } => {}
        }
        m
    }

    /// Returns whether the result of a unit is used: by the next tuple, by a register, or, for FMA, by the ADD
    /// operation of the tuple.
    fn is_result_used(&self, add: bool, tuple: usize) -> bool {
        let by = |i: Option<Instruction>, wanted: Source| {
            i.is_some_and(|i| (0..i.source_count()).any(|n| i.source(n) == Some(wanted)))
        };
        let beside = self
            .clause
            .tuples
            .get(tuple)
            .is_some_and(|t| !add && by(t.add, Source::Stage));
        let next = self.clause.tuples.get(tuple + 1).is_some_and(|t| {
            let passed = Source::Passed { add };
            by(t.fma, passed) || by(t.add, passed)
        });
        let written = self.clause.writes_of(tuple).is_some_and(|r| {
            matches!(
                (add, r.port2, r.port3),
                (false, Port2::WriteFma(_), _) | (false, _, Port3::WriteFma(_)) | (true, _, Port3::WriteAdd(_))
            )
        });
        beside || next || written
    }

    /// Writes the results of a tuple as a register block says.
    fn write_results(&mut self, r: &bifrost::Registers, tuple: usize) {
        let write = |half: WriteHalf, add: bool, register: u8| {
            let kind = match half {
                WriteHalf::Full => Kind::Write,
                WriteHalf::Low => Kind::WriteLow,
                WriteHalf::High => Kind::WriteHigh,
            };
            Step::new(kind, [temporary(add, tuple), 0, 0, 0], u16::from(register))
        };
        if let Port2::WriteFma(half) = r.port2 {
            self.steps.push(write(half, false, r.register2));
        }
        match r.port3 {
            Port3::Idle => {}
            Port3::WriteFma(half) => self.steps.push(write(half, false, r.register3)),
            Port3::WriteAdd(half) => self.steps.push(write(half, true, r.register3)),
        }
    }

    fn fma(&mut self, i: &Instruction, tuple: usize) {
        let to = temporary(false, tuple);
        match i.op() {
            // The ADD operation of the tuple sends the message or does the work.
            Op::Nop if !self.is_result_used(false, tuple) => {}
            Op::Nop
            | Op::AtomCI32
            | Op::AtomCI64
            | Op::AtomC1I32
            | Op::AtomC1I64
            | Op::AtomCReturnI32
            | Op::AtomCReturnI64
            | Op::AtomC1ReturnI32
            | Op::AtomC1ReturnI64 => {
                let zero = self.constant(0);
                self.steps.push(Step::new(Kind::Mov, [zero, 0, 0, 0], to));
            }
            // The operation selects a table for the ADD operation of the tuple, and passes its source on.
            Op::DtselImm => {
                let from = self.operands(i, tuple);
                self.steps.push(Step::new(Kind::Mov, from, to));
            }
            Op::SegAdd => {
                let from = self.operands(i, tuple);
                let base = self.shared_base(i);
                let low = self.constant(base as u32);
                self.steps.push(Step::new(Kind::Add, [from[0], low, 0, 0], to));
            }
            Op::AtomPostI32 => {
                let from = self.operands(i, tuple);
                self.after_atomic(i, from, to);
            }
            _ => self.arithmetic(i, tuple, to),
        }
    }

    /// Returns the GPU address of the memory that `SEG_ADD` adds.
    fn shared_base(&mut self, i: &Instruction) -> u64 {
        if i.get(Modifier::Seg) != Value::Wls || i.get(Modifier::PreserveNull) != Value::None {
            self.push_unknown(format!("{}SEG_ADD of another kind", i.unit().sign()));
        }
        self.t.given.shared_base.get()
    }

    /// Joins the result of an atomic with the value that its own lane must have seen before.
    fn after_atomic(&mut self, i: &Instruction, from: [u16; 4], to: u16) {
        let kind = match atomic(i.get(Modifier::AtomOpc)) {
            Some((AtomicOp::Add, None)) => Kind::Add,
            Some((
                AtomicOp::And
                | AtomicOp::UMin
                | AtomicOp::SMin
                | AtomicOp::SMax
                | AtomicOp::UMax
                | AtomicOp::Or
                | AtomicOp::Xor,
                None,
            )) => {
                // The second word is neutral, see `Message::Atomic`: memory is changed lane by lane.
                Kind::Mov
            }
            _ => {
                self.push_unknown("*ATOM_POST of another kind");
                return;
            }
        };
        self.steps.push(Step::new(kind, from, to));
    }

    /// Translates an operation that needs only its operands.
    fn arithmetic(&mut self, i: &Instruction, tuple: usize, to: u16) {
        let from = self.operands(i, tuple);
        let m = self.mods(i);
        let with = m.unknown.map(|u| format!(" with {u}")).unwrap_or_default();
        match step(i.op(), m, from, to) {
            Some(s) => {
                self.steps.push(s);
                self.suppress(i, to);
            }
            None => self.push_unknown(format!("{}{}{with}", i.unit().sign(), i.op().name())),
        }
    }
}
