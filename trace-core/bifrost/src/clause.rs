//! A clause: 16-byte words in one of thirteen formats, unpacked into a header, tuples and constants.

use crate::registers::Registers;
use crate::table::{Instruction, Unit};
use crate::{MAX_TUPLES, MAX_WORDS, WORD_BYTES};

/// An error of clause decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClauseError {
    /// The code ends within the clause.
    #[error("the code ends within the clause at {address:#x}, after {words} words")]
    Ends {
        /// Address of the clause.
        address: u64,
        /// Number of words available.
        words: usize,
    },
    /// The tag of a word is no known format, or its format is not allowed at this position.
    #[error("word {word} of the clause at {address:#x} has the tag {tag:#04x}, which is not valid there")]
    Tag {
        /// Address of the clause.
        address: u64,
        /// Number of the word.
        word: usize,
        /// The tag.
        tag: u8,
    },
    /// Constants have positions or marks that no clause can have.
    #[error("word {word} of the clause at {address:#x} has constants that do not fit a clause of {tuples} tuples")]
    Constants {
        /// Address of the clause.
        address: u64,
        /// Number of the word.
        word: usize,
        /// Tuples of the clause.
        tuples: usize,
    },
    /// The clause has no last word within the maximum length.
    #[error("the clause at {address:#x} has more than {MAX_WORDS} words")]
    TooLong {
        /// Address of the clause.
        address: u64,
    },
}

/// The action after a clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flow {
    /// The thread ends.
    End,
    /// Not back to back, reconvergence where the branch says.
    BranchPc,
    /// Not back to back, reconvergence.
    Reconverge,
    /// Not back to back.
    Plain,
    /// Back to back, reconvergence.
    BackToBackReconverge,
    /// Back to back.
    BackToBack,
    /// Write elision, reconvergence.
    ElisionReconverge,
    /// Write elision.
    Elision,
}

impl Flow {
    const ALL: [Self; 8] = [
        Self::End,
        Self::BranchPc,
        Self::Reconverge,
        Self::Plain,
        Self::BackToBackReconverge,
        Self::BackToBack,
        Self::ElisionReconverge,
        Self::Elision,
    ];
}

/// The header of a clause, 45 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// The bits.
    pub bits: u64,
}

impl Header {
    fn field(self, at: u32, width: u32) -> u8 {
        (self.bits >> at) as u8 & ((1u16 << width) - 1) as u8
    }

    /// Returns the flush-to-zero mode: 0 none, 1 as in DirectX 11, 2 always, 3 abrupt.
    #[must_use]
    pub fn flush_to_zero(self) -> u8 {
        self.field(5, 2)
    }

    /// Whether infinite results become the greatest finite number.
    #[must_use]
    pub fn suppress_inf(self) -> bool {
        self.field(7, 1) != 0
    }

    /// Whether NaN results become 0.
    #[must_use]
    pub fn suppress_nan(self) -> bool {
        self.field(8, 1) != 0
    }

    /// Returns the handling of floating-point exceptions: 0 enabled, 1 disabled, 2 precise division, 3 precise square
    /// root.
    #[must_use]
    pub fn exceptions(self) -> u8 {
        self.field(9, 2)
    }

    /// Returns what comes after the clause.
    #[must_use]
    pub fn flow(self) -> Flow {
        Flow::ALL
            .get(usize::from(self.field(11, 3)))
            .copied()
            .unwrap_or(Flow::End)
    }

    /// Whether discarded threads end.
    #[must_use]
    pub fn terminate_discarded(self) -> bool {
        self.field(15, 1) != 0
    }

    /// Whether the next clause may be fetched ahead.
    #[must_use]
    pub fn prefetch(self) -> bool {
        self.field(16, 1) != 0
    }

    /// Whether staging registers must have been read before the next clause.
    #[must_use]
    pub fn staging_barrier(self) -> bool {
        self.field(17, 1) != 0
    }

    /// Returns the first staging register of the clause's message.
    #[must_use]
    pub fn staging_register(self) -> u8 {
        self.field(18, 6)
    }

    /// Returns the dependency slots that the clause waits for, one bit each.
    #[must_use]
    pub fn wait(self) -> u8 {
        self.field(24, 8)
    }

    /// Returns the dependency slot of the clause's message.
    #[must_use]
    pub fn slot(self) -> u8 {
        self.field(32, 3)
    }

    /// Returns the type of the clause's message.
    #[must_use]
    pub fn message(self) -> u8 {
        self.field(35, 5)
    }

    /// Returns the type of the next clause's message.
    #[must_use]
    pub fn next_message(self) -> u8 {
        self.field(40, 5)
    }
}

/// The part of a constant that is relative to the clause's address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PcRelative {
    /// None.
    #[default]
    None,
    /// The low 60 bits as one signed number.
    Low,
    /// The high word, as a signed number of 28 bits.
    High,
    /// Both words.
    LowAndHigh,
}

/// A constant of a clause: 60 bits. The uniform selector adds the low four bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Constant {
    /// The 64 bits, low four zero.
    pub bits: u64,
    /// The part that is relative.
    pub relative: PcRelative,
}

/// Sign-extends the low 28 bits.
fn sign28(word: u32) -> i32 {
    (word << 4) as i32 >> 4
}

impl Constant {
    /// Returns the distance in bytes from the clause to the target of a word of the constant, if that word is relative.
    #[must_use]
    pub fn offset(&self, low: u8, high: bool) -> Option<i64> {
        let bits = self.bits | u64::from(low & 15);
        match (self.relative, high) {
            (PcRelative::None, _) | (PcRelative::High, false) => None,
            (PcRelative::Low, _) => Some((bits << 4) as i64 >> 4),
            (PcRelative::High | PcRelative::LowAndHigh, true) => Some(i64::from(sign28((bits >> 32) as u32))),
            (PcRelative::LowAndHigh, false) => Some(i64::from(sign28(bits as u32))),
        }
    }

    /// Returns a word of the constant as an operand of a clause at `address` reads it.
    #[must_use]
    pub fn word(&self, low: u8, high: bool, address: u64) -> u32 {
        let bits = self.bits | u64::from(low & 15);
        match (self.offset(low, high), self.relative) {
            (None, _) => (if high { bits >> 32 } else { bits }) as u32,
            (Some(by), PcRelative::Low) => {
                let at = address.wrapping_add_signed(by);
                (if high { at >> 32 } else { at }) as u32
            }
            (Some(by), _) => address.wrapping_add_signed(by) as u32,
        }
    }
}

/// A tuple: an operation for each unit and a register block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuple {
    /// The register block.
    pub registers: Registers,
    /// Bits of the FMA operation.
    pub fma_bits: u32,
    /// Bits of the ADD operation.
    pub add_bits: u32,
    /// The FMA operation, or `None` if the table has no operation with these bits.
    pub fma: Option<Instruction>,
    /// The ADD operation.
    pub add: Option<Instruction>,
}

/// An unpacked clause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    /// GPU address, or distance from the start of the code.
    pub address: u64,
    /// Number of 16-byte words of the clause.
    pub words: usize,
    /// The header.
    pub header: Header,
    /// One to eight tuples.
    pub tuples: Vec<Tuple>,
    /// The constants of the clause; unused ones are zero.
    pub constants: [Constant; 6],
}

/// Fields of a clause as its words are read.
#[derive(Default)]
struct ClauseFields {
    fma: [u32; MAX_TUPLES],
    add: [u32; MAX_TUPLES],
    registers: [u64; MAX_TUPLES],
    constants: [Constant; 6],
    header: u64,
    tuples: usize,
}

/// Index of the first of two constants, and the number of tuples that the clause must have, by the position field of a
/// word of constants.
const POSITIONS: [(usize, usize); 15] = [
    (0, 1),
    (0, 2),
    (0, 4),
    (1, 3),
    (1, 5),
    (2, 4),
    (0, 7),
    (1, 6),
    (3, 5),
    (1, 8),
    (2, 7),
    (3, 6),
    (3, 8),
    (4, 7),
    (5, 6),
];

/// Returns the position field of a word with the constants `at` and `at + 1` in a clause of `tuples` tuples, or `None`
/// if the clause cannot have them.
pub(crate) fn constant_positions(at: usize, tuples: usize) -> Option<u8> {
    let found = POSITIONS.iter().position(|p| *p == (at, tuples))?;
    u8::try_from(found).ok()
}

/// Decodes the two four-bit marks of a pair of constants. Returns `None` for marks that do not exist.
fn relative(m1: u32, m2: u32) -> Option<(PcRelative, PcRelative)> {
    use PcRelative::{High, Low, LowAndHigh, None as No};
    Some(match (m1, m2) {
        (8.., _) | (0, _) => (No, No),
        (1 | 6, _) => (Low, No),
        (2, _) => (Low, Low),
        (4, _) => (High, No),
        (5, _) => (High, High),
        (7, 0) => (LowAndHigh, No),
        (7, 1 | 3) => (LowAndHigh, High),
        (7, 2) => (LowAndHigh, LowAndHigh),
        _ => return None,
    })
}

/// The reason why a word was rejected.
enum WordError {
    Tag,
    Constants,
}

impl ClauseFields {
    fn set(&mut self, n: usize, fma: u32, add: u32, registers: u64) {
        if let (Some(f), Some(a), Some(r)) = (self.fma.get_mut(n), self.add.get_mut(n), self.registers.get_mut(n)) {
            *f |= fma;
            *a |= add;
            *r |= registers;
        }
    }

    /// Decodes one word. Returns `true` if the clause ends with it.
    fn word(&mut self, w: u128, first: bool) -> Result<bool, WordError> {
        let bits = |at: u32, width: u32| (w >> at) as u64 & ((1 << width) - 1);
        let tag = w as u32 & 0xff;
        let stop = tag & 0x40 != 0;
        // Most formats share this part: a whole tuple without the upper three bits of its ADD operation.
        let (fma, add, registers) = (bits(43, 23) as u32, bits(66, 17) as u32, bits(8, 35));
        // The remaining bits hold a second tuple without its upper bits. Its register block and FMA operation have
        // other positions.
        let (s4, tail) = (bits(83, 13), (w >> 96) as u32);
        let low = tag & 7;
        let upper = |three: u32| three << 17;
        if tag & 0x80 != 0 {
            let n = if stop { 5 } else { 2 };
            self.set(n + 1, fma, add | upper(tag >> 3 & 7), registers);
            self.set(n, (s4 as u32) << 10, tail & 0x1_ffff | upper(low), 0);
            self.constants[0].bits = u64::from(tail >> 17) << 4;
            return if first { Err(WordError::Tag) } else { Ok(false) };
        }
        let kind = tag >> 3 & 7;
        if first != matches!(kind, 1 | 5) {
            return Err(WordError::Tag);
        }
        match (kind, low) {
            (0, 3) => {
                self.set(1, fma, add | upper(tail >> 29), registers);
                self.tuples = 2;
                Ok(stop)
            }
            (0, 4 | 6) => {
                let n = if low == 4 { 2 } else { 5 };
                self.set(n, (s4 as u32) << 10, tail & 0x1_ffff | upper(tail >> 29), 0);
                let mark = relative(bits(68, 4) as u32, bits(72, 4) as u32).ok_or(WordError::Constants)?;
                self.constants[0] = Constant {
                    bits: bits(8, 60) << 4,
                    relative: mark.0,
                };
                self.tuples = n + 1;
                Ok(stop)
            }
            (0, 1 | 5 | 7) => {
                let n = if low == 7 { 5 } else { 2 };
                self.set(n, (s4 as u32) << 10, tail & 0x1_ffff | upper(tail >> 29), 0);
                self.set(n + 1, fma, add | upper(tail >> 26 & 7), registers);
                if low == 1 {
                    return Ok(false);
                }
                self.tuples = n + 2;
                Ok(stop)
            }
            (2 | 3, _) => {
                let n = if kind == 2 { 4 } else { 7 };
                self.set(n, fma, add | upper(low), registers);
                self.constants[0].bits |= bits(83, 45) << 19;
                self.tuples = n + 1;
                Ok(stop)
            }
            (4, _) => {
                let n = if stop { 4 } else { 1 };
                self.set(n, fma, add | upper(low), registers);
                self.set(n + 1, tail >> 22, 0, s4 | u64::from(tail & 0x3f_ffff) << 13);
                Ok(false)
            }
            (1 | 5, _) => {
                self.header = bits(83, 45);
                self.set(0, fma, add | upper(low), registers);
                if kind == 1 {
                    self.tuples = 1;
                }
                Ok(kind == 1 && stop)
            }
            (6 | 7, _) => {
                let (at, tuples) = POSITIONS.get(tag as usize & 15).copied().ok_or(WordError::Constants)?;
                if tuples != self.tuples {
                    return Err(WordError::Constants);
                }
                let difference = |a: u32, b: u32| (bits(a, 4) as u32).wrapping_sub(bits(b, 4) as u32) & 15;
                let marks = relative(difference(64, 124), difference(32, 92)).ok_or(WordError::Constants)?;
                let pair = [(bits(8, 60) << 4, marks.0), (bits(68, 60) << 4, marks.1)];
                for (to, (bits, relative)) in self.constants.iter_mut().skip(at).zip(pair) {
                    *to = Constant { bits, relative };
                }
                Ok(stop)
            }
            _ => Err(WordError::Tag),
        }
    }
}

impl Clause {
    /// Unpacks the clause at `address`. `fetch` returns its words by number.
    ///
    /// # Errors
    ///
    /// When the code ends, or a word has a format that is not allowed at its position.
    pub fn decode<E: From<ClauseError>>(
        address: u64,
        mut fetch: impl FnMut(usize) -> Result<[u8; WORD_BYTES], E>,
    ) -> Result<Self, E> {
        let mut parts = ClauseFields::default();
        for n in 0..MAX_WORDS {
            let word = u128::from_le_bytes(fetch(n)?);
            let tuples = parts.tuples;
            let done = parts.word(word, n == 0).map_err(|bad| match bad {
                WordError::Tag => ClauseError::Tag {
                    address,
                    word: n,
                    tag: word as u8,
                },
                WordError::Constants => ClauseError::Constants {
                    address,
                    word: n,
                    tuples,
                },
            })?;
            if done {
                return Ok(parts.finish(address, n + 1));
            }
        }
        Err(ClauseError::TooLong { address }.into())
    }

    /// Unpacks the clause at byte offset `at` of code.
    ///
    /// # Errors
    ///
    /// Same as [`Clause::decode`].
    pub fn from_code(code: &[u8], at: usize) -> Result<Self, ClauseError> {
        let address = at as u64;
        Self::decode(address, |n| {
            let from = at.saturating_add(n * WORD_BYTES);
            let word = code.get(from..).and_then(<[u8]>::first_chunk::<WORD_BYTES>);
            word.copied().ok_or(ClauseError::Ends { address, words: n })
        })
    }

    /// Returns the size of the clause, bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (self.words * WORD_BYTES) as u64
    }

    /// Returns the register block that names the destinations of a tuple's results: that of the next tuple, or that of
    /// the first tuple for the last one.
    #[must_use]
    pub fn writes_of(&self, tuple: usize) -> Option<&Registers> {
        let next = self.tuples.get(tuple + 1).or_else(|| self.tuples.first())?;
        Some(&next.registers)
    }

    /// Whether every operation is known and every register block has a valid mode.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let sound = |i: &Option<Instruction>| i.as_ref().is_some_and(Instruction::is_sound);
        self.tuples
            .iter()
            .all(|t| t.registers.sound && sound(&t.fma) && sound(&t.add))
    }
}

impl ClauseFields {
    fn finish(self, address: u64, words: usize) -> Clause {
        let fields = self.fma.into_iter().zip(self.add).zip(self.registers).take(self.tuples);
        let tuple = |(n, ((fma_bits, add_bits), registers)): (usize, ((u32, u32), u64))| Tuple {
            registers: Registers::decode(registers, n == 0),
            fma_bits,
            add_bits,
            fma: Instruction::decode(Unit::Fma, fma_bits),
            add: Instruction::decode(Unit::Add, add_bits),
        };
        Clause {
            address,
            words,
            header: Header { bits: self.header },
            tuples: fields.enumerate().map(tuple).collect(),
            constants: self.constants,
        }
    }
}
