//! Clauses into steps: operands become places of the register file, modifiers become numbers, branches become clauses.
//!
//! The timing of a tuple is that of the hardware: it reads its registers before the results of the tuple before it are
//! written; what both units gave in the tuple before can be taken directly; a message sees the registers after that
//! writing; the results of the last tuple are written where the block of the first one says.

use super::bound::{self, Bound};
use super::lanes::{CONSTANTS, Kind, PLACES, Step, TEMPORARIES};
use super::mods::{Cmp, LaneOp, Mods, Mux, Round, Truth};
use super::scalar::{cube_face, scalar};
use bifrost::{
    Clause, Flow, Instruction, Modifier, Op, Port2, Port3, Source, Uniform, Unit, Value, WriteHalf, uniform,
};
use std::collections::HashMap;

/// Place of each lane's number within its warp.
pub(crate) const LANE_ID: u16 = 78;
/// Place of each lane's warp within the workgroup.
pub(crate) const WARP_ID: u16 = 79;
/// First place for operands that must be kept or made before a step.
const SCRATCH: u16 = TEMPORARIES + 4;

/// Something in a clause that this model does not execute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Unknown {
    /// Address of the clause.
    pub clause: u64,
    /// The operation, or the bits that are none.
    pub what: String,
}

/// Memory that an access goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    /// GPU addresses.
    Global,
    /// The workgroup's own memory, by offset.
    Shared,
    /// The thread's own memory, by offset.
    Local,
    /// A uniform buffer: the second word of the address is its number.
    Uniform,
}

/// A load or store of less than a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Narrow {
    /// Bytes of it, 1 to 3, or 2 more than whole words.
    pub bytes: u8,
    /// Whether what is loaded is extended with its sign.
    pub signed: bool,
    /// First bit that it is loaded to.
    pub shift: u8,
    /// Bits of the register that are replaced.
    pub replaced: u32,
    /// Whether a second register takes the extension.
    pub double: bool,
}

/// What an atomic operation does with memory and its operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Atomic {
    Add,
    SMin,
    SMax,
    UMin,
    UMax,
    And,
    Or,
    Xor,
}

/// A step that is no arithmetic.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    Load {
        space: Space,
        words: u8,
        narrow: Option<Narrow>,
        address: [u16; 2],
        staging: u8,
    },
    Store {
        space: Space,
        words: u8,
        narrow: Option<Narrow>,
        address: [u16; 2],
        staging: u8,
    },
    /// `operand`: a fixed one instead of the staging register.
    Atomic {
        op: Atomic,
        operand: Option<u64>,
        returns: bool,
        wide: bool,
        address: [u16; 2],
        staging: u8,
    },
    Exchange {
        space: Space,
        compare: bool,
        returns: bool,
        wide: bool,
        address: [u16; 2],
        staging: u8,
    },
    /// Takes the value of another lane.
    Permute {
        value: u16,
        lane: u16,
        op: LaneOp,
        width: u8,
        inactive: u32,
        to: u16,
    },
    /// A bit for each lane of the subgroup whose word is not 0.
    Ballot {
        value: u16,
        width: u8,
        to: u16,
    },
    /// A counter into two staging registers.
    Clock {
        cycles: bool,
        staging: u8,
    },
    /// A texture, an image or an attribute.
    Bound {
        what: Bound,
        from: [u16; 3],
        staging: u8,
    },
    Barrier,
    /// `condition`: the place of a word that is not 0 where a lane takes the branch.
    Branch {
        condition: Option<u16>,
        to: Target,
    },
}

/// Where a branch leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// To the end of the thread.
    End,
    /// To a clause.
    Clause(u64),
}

/// Arithmetic, then at most one message.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segment {
    pub steps: Vec<Step>,
    pub message: Option<Message>,
    /// Tuple of the message.
    pub tuple: u8,
}

/// A clause in executable form.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub address: u64,
    /// Address behind it.
    pub next: u64,
    pub segments: Vec<Segment>,
    /// Operations other than NOP.
    pub operations: u32,
    /// Whether threads that take no branch end here.
    pub ends: bool,
}

/// Uniforms and constants of a program by place.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    places: HashMap<u32, u16>,
    words: Vec<u32>,
}

impl Pool {
    fn place(&mut self, word: u32) -> Option<u16> {
        if let Some(p) = self.places.get(&word) {
            return Some(*p);
        }
        let place = u16::try_from(self.words.len()).ok()?.checked_add(CONSTANTS)?;
        if usize::from(place) >= PLACES {
            return None;
        }
        self.words.push(word);
        self.places.insert(word, place);
        Some(place)
    }

    /// The words, from the first place of constants on.
    pub(crate) fn words(&self) -> &[u32] {
        &self.words
    }
}

/// What a job gives its shader besides registers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given {
    /// Pushed uniforms, 64 bits each.
    pub push: Vec<u64>,
    /// GPU address of the workgroup's memory.
    pub shared_base: u64,
}

/// Translates clauses; constants are shared between them.
pub(crate) struct Translator<'a> {
    given: &'a Given,
    pub pool: Pool,
}

/// A clause under translation.
struct Work<'t, 'a> {
    t: &'t mut Translator<'a>,
    clause: &'t Clause,
    block: Block,
    steps: Vec<Step>,
    scratch: u16,
    unknown: Vec<Unknown>,
}

fn temporary(add: bool, tuple: usize) -> u16 {
    TEMPORARIES + 2 * (tuple as u16 & 1) + u16::from(add)
}

fn truth_word(t: Truth) -> u32 {
    match t {
        Truth::One => 1,
        Truth::Float => 1f32.to_bits(),
        Truth::Mask => u32::MAX,
    }
}

impl<'a> Translator<'a> {
    pub(crate) fn new(given: &'a Given) -> Self {
        Self {
            given,
            pool: Pool::default(),
        }
    }

    /// Translates a clause, or says what of it cannot be executed.
    pub(crate) fn clause(&mut self, clause: &Clause) -> Result<Block, Vec<Unknown>> {
        let mut w = Work {
            t: self,
            clause,
            block: Block {
                address: clause.address,
                next: clause.address.wrapping_add(clause.bytes()),
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
            w.writes(&first.registers, clause.tuples.len() - 1);
        }
        w.close(None, 0);
        if w.unknown.is_empty() {
            Ok(w.block)
        } else {
            Err(w.unknown)
        }
    }
}

impl Work<'_, '_> {
    fn cannot(&mut self, what: impl Into<String>) {
        self.unknown.push(Unknown {
            clause: self.clause.address,
            what: what.into(),
        });
    }

    /// Modes that change what every operation computes.
    fn header(&mut self) {
        let h = self.clause.header;
        if h.flush_to_zero() != 0 {
            self.cannot("flush-to-zero");
        }
        if h.suppress_inf() || h.suppress_nan() {
            self.cannot("suppression of infinity or NaN");
        }
    }

    fn close(&mut self, message: Option<Message>, tuple: usize) {
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

    /// The place of a constant.
    fn constant(&mut self, word: u32) -> u16 {
        if let Some(p) = self.t.pool.place(word) {
            return p;
        }
        let to = self.scratch();
        let mut s = Step::new(Kind::Splat, [0; 4], to);
        s.numbers[0] = word;
        self.steps.push(s);
        to
    }

    /// The place of an operand.
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
                // Nothing passes from clause to clause.
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
                        self.cannot(format!("uniform {n:#x}"));
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
            self.cannot(format!("a reserved register mode in tuple {n}"));
        }
        for (unit, bits, i) in [(Unit::Fma, t.fma_bits, t.fma), (Unit::Add, t.add_bits, t.add)] {
            match i {
                None => self.cannot(format!("{}{bits:#07x}", unit.sign())),
                Some(i) if !i.is_sound() => self.cannot(format!("{}{} {bits:#07x}", unit.sign(), i.op().name())),
                Some(_) => {}
            }
        }
        let (Some(fma), Some(add)) = (t.fma, t.add) else { return };
        self.block.operations += u32::from(fma.op() != Op::Nop) + u32::from(add.op() != Op::Nop);
        self.fma(&fma, n);
        let message = self.add(&add, &fma, n);
        // What a message takes from registers that are written now it takes from before.
        let message = message.map(|m| self.keep(m, n));
        if n > 0 {
            self.writes(&t.registers, n - 1);
        }
        if let Some(m) = message {
            self.close(Some(m), n);
        }
    }

    /// Copies operands of a message that this tuple's block overwrites before the message is sent.
    fn keep(&mut self, mut m: Message, tuple: usize) -> Message {
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
            Message::Bound { from, .. } => from.iter_mut().for_each(copy),
            Message::Permute { value, lane, .. } => {
                copy(value);
                copy(lane);
            }
            Message::Ballot { value, .. } => copy(value),
            Message::Branch { .. } | Message::Barrier | Message::Clock { .. } => {}
        }
        m
    }

    /// Whether anything takes the result of a unit: the next tuple, a register, for FMA the ADD operation beside it.
    fn taken(&self, add: bool, tuple: usize) -> bool {
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

    /// Writes the results of a tuple as a block says.
    fn writes(&mut self, r: &bifrost::Registers, tuple: usize) {
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
            // The ADD operation beside it sends the message, or does the work.
            Op::Nop if !self.taken(false, tuple) => {}
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
            // It chooses a table for the operation beside it, and passes its source on.
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

    /// GPU address of the memory that `SEG_ADD` adds.
    fn shared_base(&mut self, i: &Instruction) -> u64 {
        if i.get(Modifier::Seg) != Value::Wls || i.get(Modifier::PreserveNull) != Value::None {
            self.cannot(format!("{}SEG_ADD of another kind", i.unit().sign()));
        }
        self.t.given.shared_base
    }

    /// Joins what an atomic operation returned with what its own lane is to have had before.
    fn after_atomic(&mut self, i: &Instruction, from: [u16; 4], to: u16) {
        let kind = match atomic(i.get(Modifier::AtomOpc)) {
            Some((Atomic::Add, None)) => Kind::Add,
            Some((
                Atomic::And | Atomic::UMin | Atomic::SMin | Atomic::SMax | Atomic::UMax | Atomic::Or | Atomic::Xor,
                None,
            )) => {
                // The second word is neutral, see `Message::Atomic`: memory is changed lane by lane.
                Kind::Mov
            }
            _ => {
                self.cannot("*ATOM_POST of another kind");
                return;
            }
        };
        self.steps.push(Step::new(kind, from, to));
    }

    /// An operation that needs nothing but its operands.
    fn arithmetic(&mut self, i: &Instruction, tuple: usize, to: u16) {
        let from = self.operands(i, tuple);
        match step(i, from, to) {
            Some(s) => self.steps.push(s),
            None => {
                let m = Mods::of(i);
                let with = m.unknown.map(|u| format!(" with {u}")).unwrap_or_default();
                self.cannot(format!("{}{}{with}", i.unit().sign(), i.op().name()));
            }
        }
    }

    fn add(&mut self, i: &Instruction, fma: &Instruction, tuple: usize) -> Option<Message> {
        let to = temporary(true, tuple);
        let staging = self.clause.header.staging_register();
        if let Some((load, words, bytes)) = access(i.op()) {
            return self.access(i, tuple, load, words, bytes);
        }
        if let Some(found) = bound::of(i, fma) {
            let [a, b, c, _] = self.operands(i, tuple);
            let from = [a, b, c];
            return match found {
                Ok(what) => Some(Message::Bound { what, from, staging }),
                Err(why) => {
                    self.cannot(why);
                    None
                }
            };
        }
        match i.op() {
            Op::SegAdd => {
                let from = self.operands(i, tuple);
                let base = self.shared_base(i);
                let (low, high) = (self.constant(base as u32), self.constant((base >> 32) as u32));
                // The sum of the low words, which FMA made in this tuple, is less than what was added: a carry.
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
                let (from, m) = (self.operands(i, tuple), Mods::of(i));
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
                        self.cannot(format!("+CLPER.i32 with {}", other.name()));
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
                let (from, m) = (self.operands(i, tuple), Mods::of(i));
                if m.number != 0 {
                    self.cannot("+WMASK with fill");
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
            Op::Nop if !self.taken(true, tuple) => None,
            // The face is that of the sources of the operation beside it.
            Op::Cubeface2 if fma.op() == Op::Cubeface1 => {
                let from = self.operands(fma, tuple);
                let mut s = Step::new(Kind::Scalar(cube_face), from, to);
                s.mods = Some(Box::new(Mods::of(fma)));
                self.steps.push(s);
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
                self.cannot(format!("+ATOM_CX beside *{}", op.name()));
                return None;
            }
        };
        let from = self.operands(fma, tuple);
        let Some((op, operand)) = atomic(fma.get(Modifier::AtomOpc)).filter(|(_, operand)| operand.is_some() == one)
        else {
            self.cannot(format!("*{}.{}", fma.op().name(), fma.get(Modifier::AtomOpc).name()));
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
                self.cannot(format!("+{} of {}", i.op().name(), other.name()));
                return None;
            }
        };
        let (address, staging) = ([from[0], from[1]], self.clause.header.staging_register());
        if u16::from(staging) + u16::from(words) > TEMPORARIES {
            self.cannot(format!("+{} beyond the last register", i.op().name()));
            return None;
        }
        let mut narrow = (!bytes.is_multiple_of(4)).then_some(Narrow {
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
                narrow = Some(Narrow {
                    bytes,
                    signed: extend == Value::Sext,
                    shift,
                    replaced,
                    double,
                });
            }
            if double {
                words = 2;
                if u16::from(staging) + 2 > TEMPORARIES {
                    self.cannot(format!("+{} beyond the last register", i.op().name()));
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

    /// Where a source that must be a constant leads.
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
                        Some(by) => Some(Target::Clause(self.clause.address.wrapping_add_signed(by))),
                        None if c.word(low, high, 0) == 0 => Some(Target::End),
                        None => None,
                    }
                }
                _ => None,
            },
            _ => None,
        };
        if found.is_none() {
            self.cannot(format!("+{} to a computed address", i.op().name()));
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
        let m = Mods::of(i);
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
            self.cannot(format!("+{} with another comparison", i.op().name()));
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

/// Whether an operation loads or stores: words of registers, bytes of memory.
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

/// What an atomic's name means, and the operand that the name gives.
fn atomic(name: Value) -> Option<(Atomic, Option<u64>)> {
    Some(match name {
        Value::Aadd => (Atomic::Add, None),
        Value::Asmin => (Atomic::SMin, None),
        Value::Asmax => (Atomic::SMax, None),
        Value::Aumin => (Atomic::UMin, None),
        Value::Aumax => (Atomic::UMax, None),
        Value::Aand => (Atomic::And, None),
        Value::Aor => (Atomic::Or, None),
        Value::Axor => (Atomic::Xor, None),
        Value::Ainc => (Atomic::Add, Some(1)),
        Value::Adec => (Atomic::Add, Some(u64::MAX)),
        Value::Aumax1 => (Atomic::UMax, Some(1)),
        Value::Asmax1 => (Atomic::SMax, Some(1)),
        Value::Aor1 => (Atomic::Or, Some(1)),
        _ => return None,
    })
}

/// The kind of a comparison, and whether its operands change places for it.
fn comparison(cmp: Cmp, float: bool, signed: bool) -> Option<(Kind, bool)> {
    Some(match (cmp, float, signed) {
        (Cmp::Eq, false, _) => (Kind::IcmpEq, false),
        (Cmp::Ne, false, _) => (Kind::IcmpNe, false),
        (Cmp::Gt, false, false) => (Kind::IcmpUGt, false),
        (Cmp::Ge, false, false) => (Kind::IcmpUGe, false),
        (Cmp::Lt, false, false) => (Kind::IcmpUGt, true),
        (Cmp::Le, false, false) => (Kind::IcmpUGe, true),
        (Cmp::Gt, false, true) => (Kind::IcmpSGt, false),
        (Cmp::Ge, false, true) => (Kind::IcmpSGe, false),
        (Cmp::Lt, false, true) => (Kind::IcmpSGt, true),
        (Cmp::Le, false, true) => (Kind::IcmpSGe, true),
        (Cmp::Eq, true, _) => (Kind::FcmpEq, false),
        (Cmp::Ne, true, _) => (Kind::FcmpNe, false),
        (Cmp::Gt, true, _) => (Kind::FcmpGt, false),
        (Cmp::Ge, true, _) => (Kind::FcmpGe, false),
        (Cmp::Lt, true, _) => (Kind::FcmpGt, true),
        (Cmp::Le, true, _) => (Kind::FcmpGe, true),
        (Cmp::GtLt | Cmp::Total, ..) => return None,
    })
}

/// The vector form of an operation, or its scalar form; `None` when it has neither.
fn step(i: &Instruction, from: [u16; 4], to: u16) -> Option<Step> {
    let m = Mods::of(i);
    if m.unknown.is_some() {
        return None;
    }
    if let Some(s) = vector(i.op(), &m, from, to) {
        return Some(s);
    }
    let mut s = Step::new(Kind::Scalar(scalar(i.op())?), from, to);
    s.mods = Some(Box::new(m));
    Some(s)
}

fn exchanged(from: [u16; 4], exchange: bool) -> [u16; 4] {
    if exchange {
        [from[1], from[0], from[2], from[3]]
    } else {
        from
    }
}

fn vector(op: Op, m: &Mods, from: [u16; 4], to: u16) -> Option<Step> {
    let plain = |kind| Some(Step::new(kind, from, to));
    let whole = |n: usize| m.pick.get(n).is_some_and(|p| p.bits == 32);
    let floats = |kind, count: usize| {
        if !(0..count).all(whole) || m.round != Round::Even {
            return None;
        }
        let mut s = Step::new(kind, from, to);
        s.and = m.abs.map(|abs| if abs { 0x7fff_ffff } else { u32::MAX });
        s.xor = m.neg.map(|neg| if neg { 0x8000_0000 } else { 0 });
        s.clamp = m.clamp;
        Some(s)
    };
    let shift = |kind| {
        let mut s = Step::new(kind, from, to);
        s.numbers[0] = 8 * u32::from(m.pick[2].at[0]) * u32::from(m.pick[2].bits == 8);
        s.xor[1] = if m.not1 { u32::MAX } else { 0 };
        s.xor[2] = if m.not_result { u32::MAX } else { 0 };
        Some(s)
    };
    let part = |signed: bool| {
        let p = m.pick[0];
        let mut s = Step::new(if signed { Kind::ExtractSigned } else { Kind::Extract }, from, to);
        let (bits, at) = (u32::from(p.bits), u32::from(p.at[0]));
        if bits == 32 {
            return Some(Step::new(Kind::Mov, from, to));
        }
        s.numbers = if signed {
            [32 - bits * (at + 1), 32 - bits]
        } else {
            [bits * at, (1 << bits) - 1]
        };
        Some(s)
    };
    match op {
        Op::MovI32 => plain(Kind::Mov),
        Op::IaddS32 | Op::IaddU32 if whole(1) && !m.saturate => plain(Kind::Add),
        Op::IsubS32 | Op::IsubU32 if whole(1) && !m.saturate => plain(Kind::Sub),
        Op::ImulI32 if whole(1) => plain(Kind::Mul),
        Op::LshiftOrI32 => shift(Kind::LshiftOr),
        Op::LshiftAndI32 => shift(Kind::LshiftAnd),
        Op::LshiftXorI32 => shift(Kind::LshiftXor),
        Op::RshiftOrI32 => shift(Kind::RshiftOr),
        Op::RshiftAndI32 => shift(Kind::RshiftAnd),
        Op::RshiftXorI32 => shift(Kind::RshiftXor),
        Op::ArshiftI32 => shift(Kind::Arshift),
        Op::IcmpI32 | Op::IcmpU32 | Op::IcmpS32 => {
            let (kind, exchange) = comparison(m.cmp, false, op == Op::IcmpS32)?;
            let mut s = Step::new(kind, exchanged(from, exchange), to);
            s.numbers[0] = truth_word(m.truth);
            Some(s)
        }
        Op::FcmpF32 => {
            let (kind, exchange) = comparison(m.cmp, true, false)?;
            let mut s = floats(kind, 2)?;
            if exchange {
                s.from = exchanged(from, true);
                s.and.swap(0, 1);
                s.xor.swap(0, 1);
            }
            s.numbers[0] = truth_word(m.truth);
            Some(s)
        }
        Op::CselI32 | Op::CselU32 | Op::CselS32 | Op::CselF32 => {
            let (float, signed) = (op == Op::CselF32, op == Op::CselS32);
            let (kind, exchange, other) = match (m.cmp, float, signed) {
                (Cmp::Eq, false, _) => (Kind::CselEq, false, false),
                (Cmp::Ne, false, _) => (Kind::CselEq, false, true),
                (Cmp::Gt, false, false) => (Kind::CselUGt, false, false),
                (Cmp::Ge, false, false) => (Kind::CselUGe, false, false),
                (Cmp::Lt, false, false) => (Kind::CselUGt, true, false),
                (Cmp::Le, false, false) => (Kind::CselUGe, true, false),
                (Cmp::Gt, false, true) => (Kind::CselSGt, false, false),
                (Cmp::Ge, false, true) => (Kind::CselSGe, false, false),
                (Cmp::Lt, false, true) => (Kind::CselSGt, true, false),
                (Cmp::Le, false, true) => (Kind::CselSGe, true, false),
                (Cmp::Eq, true, _) => (Kind::CselFEq, false, false),
                (Cmp::Ne, true, _) => (Kind::CselFEq, false, true),
                (Cmp::Gt, true, _) => (Kind::CselFGt, false, false),
                (Cmp::Ge, true, _) => (Kind::CselFGe, false, false),
                (Cmp::Lt, true, _) => (Kind::CselFGt, true, false),
                (Cmp::Le, true, _) => (Kind::CselFGe, true, false),
                (Cmp::GtLt | Cmp::Total, ..) => return None,
            };
            let mut from = exchanged(from, exchange);
            if other {
                from.swap(2, 3);
            }
            Some(Step::new(kind, from, to))
        }
        Op::MuxI32 => match m.mux {
            Mux::IntZero => plain(Kind::MuxZero),
            Mux::Negative => plain(Kind::MuxNegative),
            Mux::Bit => plain(Kind::MuxBit),
            Mux::FloatZero => None,
        },
        Op::FaddF32 => floats(Kind::Fadd, 2),
        Op::FmaF32 => floats(Kind::Fma, 3),
        Op::FmaxF32 if !m.nan_propagates => floats(Kind::Fmax, 2),
        Op::FminF32 if !m.nan_propagates => floats(Kind::Fmin, 2),
        Op::FroundF32 if whole(0) => {
            let kind = match m.round {
                Round::Even => Kind::RoundEven,
                Round::Up => Kind::RoundUp,
                Round::Down => Kind::RoundDown,
                Round::Zero => Kind::RoundZero,
                Round::Away | Round::Odd => return None,
            };
            let mut s = Step::new(kind, from, to);
            s.and[0] = if m.abs[0] { 0x7fff_ffff } else { u32::MAX };
            s.xor[0] = if m.neg[0] { 0x8000_0000 } else { 0 };
            Some(s)
        }
        Op::U32ToF32 if m.round == Round::Even => plain(Kind::FromUnsigned),
        Op::S32ToF32 if m.round == Round::Even => plain(Kind::FromSigned),
        Op::F32ToU32 if m.round == Round::Zero => plain(Kind::ToUnsigned),
        Op::F32ToS32 if m.round == Round::Zero => plain(Kind::ToSigned),
        Op::U16ToU32 | Op::U8ToU32 => part(false),
        Op::S16ToS32 | Op::S8ToS32 => part(true),
        Op::F16ToF32 => {
            let mut s = Step::new(Kind::Widen16, from, to);
            s.numbers[0] = 16 * u32::from(m.pick[0].at[0] & 1) * u32::from(m.pick[0].bits == 16);
            Some(s)
        }
        Op::MkvecV2i16 => {
            let mut s = Step::new(Kind::Pack, from, to);
            for (number, p) in s.numbers.iter_mut().zip(m.pick) {
                *number = 16 * u32::from(p.at[0] & 1) * u32::from(p.bits == 16);
            }
            Some(s)
        }
        _ => None,
    }
}
