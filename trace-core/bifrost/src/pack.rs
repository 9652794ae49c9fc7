//! The encoder of clauses: the inverse of [`Clause::decode`] and [`Registers::decode`].
//!
//! It builds words from register blocks, bits of operations and constants. It makes no choices: the caller assigns
//! operations to slots, registers to ports and an order to constants.

use crate::clause::{Clause, Constant, Header, PcRelative, constant_positions};
use crate::modifier::{Modifier, Value};
use crate::op::Op;
use crate::registers::{Port2, Registers, ports};
use crate::table::{Instruction, Source, Unit};
use crate::{MAX_TUPLES, WORD_BYTES};

/// The reason why a clause cannot be packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    /// No or too many tuples.
    #[error("a clause has one to eight tuples, not {tuples}")]
    Tuples {
        /// Number of tuples requested.
        tuples: usize,
    },
    /// There are more constants than the format for this number of tuples can hold.
    #[error("{constants} constants do not fit a clause of {tuples} tuples")]
    TooManyConstants {
        /// Tuples of the clause.
        tuples: usize,
        /// Number of constants requested.
        constants: usize,
    },
    /// A constant and its pair partner would decode to other values. The difference of the upper bits of a pair marks
    /// it as relative. Two constants of which none is relative always fit in the other order.
    #[error("constant {index} cannot be combined with its neighbour in this order")]
    ConstantPair {
        /// Number of the first of the pair.
        index: usize,
    },
    /// A constant has one of its low four bits set. These bits belong to the uniform selector.
    #[error("constant {index} sets some of its low four bits, which are reserved for the uniform selector")]
    ConstantLow {
        /// Its number.
        index: usize,
    },
    /// A register block has no mode that can be encoded.
    #[error("the register block of tuple {tuple} has no valid mode: {why}")]
    Block {
        /// Number of the tuple.
        tuple: usize,
        /// The reason.
        why: &'static str,
    },
    /// An operation has more bits than its unit accepts.
    #[error("an operation of tuple {tuple} has more bits than its unit takes")]
    Bits {
        /// Number of the tuple.
        tuple: usize,
    },
}

/// A tuple to pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// The register block. The register numbers of unused ports have no effect.
    pub registers: Registers,
    /// The 23 bits of the FMA operation.
    pub fma: u32,
    /// The 20 bits of the ADD operation.
    pub add: u32,
}

impl Registers {
    /// Returns a block that reads nothing, writes nothing and selects zero.
    #[must_use]
    pub const fn idle() -> Self {
        Self {
            uniform: 0,
            port0: None,
            field0: 0,
            port1: None,
            field1: 0,
            register2: 0,
            port2: Port2::Idle,
            register3: 0,
            port3: crate::Port3::Idle,
            sound: true,
        }
    }

    /// Returns the 35 bits of the block; `first` for the first tuple of a clause. Decoding them gives the same reads
    /// and writes.
    ///
    /// # Errors
    ///
    /// The reason why the block cannot be encoded. Ports 0 and 1 must name registers in ascending order. Port 1 can
    /// only be read together with port 0. Not every combination of the actions of ports 2 and 3 exists.
    pub fn encode(&self, first: bool) -> Result<u64, &'static str> {
        let (mode, register2, register3) = self.mode(first)?;
        let control = if first {
            // The fifth bit of the mode has the position of the fourth.
            u64::from(mode & 7 | (mode & 16) >> 1)
        } else {
            u64::from(mode & 15)
        };
        let (reg0, reg1, control) = match (self.port0, self.port1) {
            (None, Some(_)) => return Err("port 1 is read without port 0"),
            (Some(a), Some(b)) => {
                if a > 63 || b > 63 {
                    return Err("a register number above 63");
                }
                let (low, high) = (a <= 31 && a <= b, a > 31 && a < b);
                match (low, high) {
                    (true, _) => (a, b, control),
                    (_, true) => (63 - a, 63 - b, control),
                    _ => return Err("ports 0 and 1 are not in ascending order"),
                }
            }
            (port0, None) => {
                let register = port0.unwrap_or(self.field0);
                if register > 63 {
                    return Err("a register number above 63");
                }
                let off = u8::from(port0.is_none()) << 1;
                (register & 31, (control as u8) << 2 | off | register >> 5, 0)
            }
        };
        let at = |value: u8, bit: u32| u64::from(value) << bit;
        let registers = at(register3, 8) | at(register2, 14) | at(reg0, 20) | at(reg1, 25);
        Ok(u64::from(self.uniform) | registers | control << 31)
    }

    /// Returns the mode, and the register numbers that ports 2 and 3 must have for it.
    fn mode(&self, first: bool) -> Result<(u32, u8, u8), &'static str> {
        let (a, b) = (self.register2, self.register3);
        if a > 63 || b > 63 {
            return Err("a register number above 63");
        }
        // Except in a first tuple, the fifth bit of the mode is set if both numbers are equal. Of two equivalent modes,
        // the greater one is the usual one.
        let fits = |mode: &u32| match first {
            true => mode & 8 == 0,
            false => *mode != 16,
        };
        let modes = (1..28)
            .rev()
            .filter(|m| ports(*m) == Some((self.port2, self.port3)) && fits(m));
        let idle2 = self.port2 == Port2::Idle;
        let idle3 = self.port3 == crate::Port3::Idle;
        let mut why = "no mode allows this use of ports 2 and 3";
        for mode in modes {
            if first {
                // A block that needs no two numbers repeats the same one.
                return Ok(match (idle2, idle3) {
                    (true, _) => (mode, b, b),
                    (_, true) => (mode, a, a),
                    _ => (mode, a, b),
                });
            }
            match (mode & 16 != 0, a == b) {
                (true, true) | (false, false) => return Ok((mode, a, b)),
                (true, false) if idle2 => return Ok((mode, b, b)),
                (true, false) if idle3 => return Ok((mode, a, a)),
                (true, false) => why = "ports 2 and 3 must name the same register",
                (false, true) => why = "ports 2 and 3 name the same register",
            }
        }
        Err(why)
    }
}

/// Returns the amounts to add to the upper four bits of the first of two constants, and to bits 31 to 28. They mark
/// which constant is relative.
fn marks(a: PcRelative, b: PcRelative) -> Option<(u64, u64)> {
    use PcRelative::{High, Low, LowAndHigh, None as No};
    Some(match (a, b) {
        (No, No) => (0, 0),
        (Low, No) => (1, 0),
        (Low, Low) => (2, 0),
        (High, No) => (4, 0),
        (High, High) => (5, 0),
        (LowAndHigh, No) => (7, 0),
        (LowAndHigh, High) => (7, 1),
        (LowAndHigh, LowAndHigh) => (7, 2),
        _ => return None,
    })
}

/// Returns the four bits from bit `at` on.
fn nibble(bits: u64, at: u32) -> u64 {
    bits >> at & 15
}

/// Returns the encoded pair of constants of a word, or `None` if the decoder cannot distinguish this pair in this
/// order.
fn pair(a: Constant, b: Constant) -> Option<(u64, u64)> {
    let (m1, m2) = marks(a.relative, b.relative)?;
    let mut first = a.bits;
    if a.relative == PcRelative::None {
        let difference = nibble(a.bits, 60).wrapping_sub(nibble(b.bits, 60)) & 15;
        (difference == 0 || difference >= 8).then_some((first, b.bits))
    } else {
        // The upper four bits of a relative word have no meaning, so they are free for the mark.
        let set = |bits: u64, at: u32, to: u64| bits & !(15 << at) | (to & 15) << at;
        first = set(first, 60, nibble(b.bits, 60) + m1);
        if a.relative == PcRelative::LowAndHigh {
            first = set(first, 28, nibble(b.bits, 28) + m2);
        }
        Some((first, b.bits))
    }
}

/// Returns the word that marks the one constant among tuples as relative, or `None` if it cannot be relative.
fn embedded(relative: PcRelative) -> Option<u128> {
    let (m1, m2) = marks(relative, PcRelative::None)?;
    Some(u128::from(m1) << 68 | u128::from(m2) << 72)
}

/// The bits of one tuple: block, FMA operation, ADD operation.
#[derive(Clone, Copy, Default)]
struct Bits {
    registers: u128,
    fma: u128,
    add: u128,
}

impl Bits {
    /// Returns the lower 75 of the 78 bits at the position that most words use.
    fn whole(self) -> u128 {
        self.registers << 8 | self.fma << 43 | (self.add & 0x1_ffff) << 66
    }

    /// Returns the upper three bits.
    fn upper(self) -> u128 {
        self.add >> 17
    }

    /// Returns the lower 45 bits at the position of a second tuple.
    fn begin(self) -> u128 {
        (self.registers & 0x1fff) << 83 | (self.registers >> 13) << 96 | (self.fma & 0x3ff) << 118
    }

    /// Returns the next 30 bits, for the next word.
    fn rest(self) -> u128 {
        (self.fma >> 10) << 83 | (self.add & 0x1_ffff) << 96
    }
}

/// Returns the bits of an operation of a unit with these sources and modifiers. All other modifiers have the value that
/// the text omits. Returns `None` if the operation has no such form.
///
/// The search tries every value of the free fields. It is meant for a few hand-written clauses, not for a compiler.
#[must_use]
pub fn operation(unit: Unit, op: Op, sources: &[Source], modifiers: &[(Modifier, Value)]) -> Option<u32> {
    let is_match = |i: &Instruction| {
        let usual = |(m, v, shown): (Modifier, Value, bool)| {
            let set = modifiers.iter().find(|(n, _)| *n == m);
            set.map_or(!shown, |(_, want)| v == *want)
        };
        i.op() == op
            && (0..i.source_count()).all(|n| i.source(n) == sources.get(n).copied())
            && i.modifiers().all(usual)
    };
    Instruction::encodings(unit)
        .filter(|e| e.0 == op)
        .find_map(|(_, mask, exact)| {
            let free = !mask & ((1 << unit.bits()) - 1);
            // All values of the free bits, the highest first.
            let mut more = free;
            loop {
                if Instruction::decode(unit, exact | more).is_some_and(|i| is_match(&i)) {
                    return Some(exact | more);
                }
                more = more.checked_sub(1)? & free;
            }
        })
}

/// Packs a clause into its words.
///
/// `constants` are in the order of the uniform selectors; their low four bits are zero. Clauses of three, five, six and
/// eight tuples have room for one constant among the tuples. That constant can only be relative if there are three or
/// six tuples.
///
/// # Errors
///
/// [`PackError`] names what does not fit.
pub fn clause(header: Header, tuples: &[Slots], constants: &[Constant]) -> Result<Vec<[u8; WORD_BYTES]>, PackError> {
    let count = tuples.len();
    let t = gather(tuples)?;
    if let Some(index) = constants.iter().position(|c| c.bits & 15 != 0) {
        return Err(PackError::ConstantLow { index });
    }
    let room = matches!(count, 3 | 5 | 6 | 8);
    let constant = |n: usize| constants.get(n).copied().unwrap_or_default();
    let ec0 = u128::from(constant(0).bits >> 4);
    let mark = || match (room, count) {
        (true, 3 | 6) => embedded(constant(0).relative).ok_or(PackError::ConstantPair { index: 0 }),
        (true, _) if constant(0).relative != PcRelative::None => Err(PackError::ConstantPair { index: 0 }),
        _ => Ok(0),
    };
    let mark = mark()?;
    let header = u128::from(header.bits & ((1 << 45) - 1)) << 83;
    let start = |kind: u128| kind << 3 | t[0].upper() | t[0].whole() | header;
    // Content of words 1, 2, ... by number of tuples. `two` is a whole tuple and the rest of the previous one.
    let two = |whole: usize, tag: u128| {
        t[whole].whole() | t[whole - 1].rest() | t[whole].upper() << 122 | t[whole - 1].upper() << 125 | tag
    };
    let begin = |whole: usize, stop: u128| t[whole].whole() | t[whole + 1].begin() | 4 << 3 | stop | t[whole].upper();
    let alone = |part: usize, tag: u128| ec0 << 8 | mark | t[part].rest() | t[part].upper() << 125 | tag;
    let split = |whole: usize, stop: u128| {
        let tag = 0x80 | stop | t[whole].upper() << 3 | t[whole - 1].upper();
        t[whole].whole() | t[whole - 1].rest() | (ec0 & 0x7fff) << 113 | tag
    };
    let last = |whole: usize, kind: u128| t[whole].whole() | (ec0 >> 15) << 83 | kind << 3 | t[whole].upper();
    let stop = 0x40;
    let mut words = match count {
        1 => vec![start(1)],
        2 => vec![start(5), t[1].whole() | t[1].upper() << 125 | 3],
        3 => vec![start(5), begin(1, 0), alone(2, 4)],
        4 => vec![start(5), begin(1, 0), two(3, 5)],
        5 => vec![start(5), begin(1, 0), split(3, 0), last(4, 2)],
        6 => vec![start(5), begin(1, 0), two(3, 1), begin(4, stop), alone(5, 6)],
        7 => vec![start(5), begin(1, 0), two(3, 1), begin(4, stop), two(6, 7)],
        _ => vec![
            start(5),
            begin(1, 0),
            two(3, 1),
            begin(4, stop),
            split(6, stop),
            last(7, 3),
        ],
    };
    let mut at = usize::from(room);
    while at < constants.len() {
        let position = constant_positions(at, count).ok_or(PackError::TooManyConstants {
            tuples: count,
            constants: constants.len(),
        })?;
        if at + 1 == constants.len() {
            words.push(single(constant(at), position).ok_or(PackError::ConstantPair { index: at })?);
        } else {
            let (a, b) = pair(constant(at), constant(at + 1)).ok_or(PackError::ConstantPair { index: at })?;
            words.push(constant_word(a, b, position));
        }
        at += 2;
    }
    // All formats that can be the last one use the same bit as the mark.
    if let Some(word) = words.last_mut() {
        *word |= stop;
    }
    Ok(words.into_iter().map(u128::to_le_bytes).collect())
}

fn constant_word(a: u64, b: u64, position: u8) -> u128 {
    u128::from(a >> 4) << 8 | u128::from(b >> 4) << 68 | 6 << 3 | u128::from(position)
}

/// Returns a word with one constant. The second constant is zero, or has the same upper four bits where zero would mark
/// the first as relative.
fn single(a: Constant, position: u8) -> Option<u128> {
    let beside = |bits| Constant {
        bits,
        relative: PcRelative::None,
    };
    let (a, b) = pair(a, beside(0)).or_else(|| pair(a, beside(a.bits & 15 << 60)))?;
    Some(constant_word(a, b, position))
}

fn gather(tuples: &[Slots]) -> Result<[Bits; MAX_TUPLES], PackError> {
    let mut bits = [Bits::default(); MAX_TUPLES];
    if tuples.is_empty() || tuples.len() > MAX_TUPLES {
        return Err(PackError::Tuples { tuples: tuples.len() });
    }
    for (tuple, (to, from)) in bits.iter_mut().zip(tuples).enumerate() {
        if from.fma >> 23 != 0 || from.add >> 20 != 0 {
            return Err(PackError::Bits { tuple });
        }
        let registers = from.registers.encode(tuple == 0);
        *to = Bits {
            registers: u128::from(registers.map_err(|why| PackError::Block { tuple, why })?),
            fma: u128::from(from.fma),
            add: u128::from(from.add),
        };
    }
    Ok(bits)
}

impl Clause {
    /// Packs the clause again after a change by hand. Trailing zero constants are left out.
    ///
    /// # Errors
    ///
    /// When [`clause`] cannot pack it.
    pub fn pack(&self) -> Result<Vec<[u8; WORD_BYTES]>, PackError> {
        let slots = |t: &crate::Tuple| Slots {
            registers: t.registers,
            fma: t.fma_bits,
            add: t.add_bits,
        };
        let tuples: Vec<Slots> = self.tuples.iter().map(slots).collect();
        let used = self.constants.iter().rposition(|c| *c != Constant::default());
        let constants = self.constants.get(..used.map_or(0, |n| n + 1)).unwrap_or_default();
        clause(self.header, &tuples, constants)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Port3, WriteHalf};

    #[test]
    fn a_block_with_both_ports_keeps_registers_beyond_31() {
        let block = Registers {
            port0: Some(60),
            port1: Some(61),
            register3: 7,
            port3: Port3::WriteFma(WriteHalf::Full),
            ..Registers::idle()
        };
        let bits = block.encode(false).unwrap();
        let back = Registers::decode(bits, false);
        assert_eq!((back.port0, back.port1), (Some(60), Some(61)));
        assert_eq!((back.port2, back.port3, back.register3), (block.port2, block.port3, 7));
    }

    #[test]
    fn unencodable_register_modes_are_refused_with_a_reason() {
        let block = Registers {
            port2: Port2::Read,
            register2: 3,
            register3: 3,
            port3: Port3::WriteFma(WriteHalf::Full),
            ..Registers::idle()
        };
        assert_eq!(block.encode(false), Err("ports 2 and 3 name the same register"));
        assert!(block.encode(true).is_ok());
        let both = Registers {
            port0: Some(5),
            port1: Some(4),
            ..Registers::idle()
        };
        assert_eq!(both.encode(true), Err("ports 0 and 1 are not in ascending order"));
    }

    #[test]
    fn two_plain_constants_fit_in_one_of_the_orders() {
        for a in 0..16u64 {
            for b in 0..16u64 {
                let c = |n: u64| Constant {
                    bits: n << 60,
                    relative: PcRelative::None,
                };
                assert!(pair(c(a), c(b)).is_some() || pair(c(b), c(a)).is_some());
            }
        }
    }
}
