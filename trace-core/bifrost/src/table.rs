//! The table of operation encodings and the decoder of operations.

mod add;
mod fma;

use crate::{Modifier, Op, Value};

/// One of the two units that execute the operations of a tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Multiplication, addition, shifts.
    Fma,
    /// Addition, conversion, comparison, messages, branches.
    Add,
}

impl Unit {
    /// Returns the number of bits of an operation of this unit.
    #[must_use]
    pub const fn bits(self) -> u32 {
        match self {
            Self::Fma => 23,
            Self::Add => 20,
        }
    }

    /// Returns the sign that Mesa's disassembler writes before an operation of this unit.
    #[must_use]
    pub const fn sign(self) -> char {
        match self {
            Self::Fma => '*',
            Self::Add => '+',
        }
    }
}

/// The source of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// Register read at port 0, 1 or 2.
    Port(u8),
    /// The constant 0 for FMA; the FMA result of the same tuple for ADD.
    Stage,
    /// Low or high word of the tuple's uniform or constant.
    Uniform {
        /// Whether it is the high word.
        high: bool,
    },
    /// The FMA or ADD result of the previous tuple.
    Passed {
        /// Whether it is the ADD result.
        add: bool,
    },
}

impl Source {
    /// Returns the source with this three-bit selector.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        match bits & 7 {
            3 => Self::Stage,
            4 => Self::Uniform { high: false },
            5 => Self::Uniform { high: true },
            6 => Self::Passed { add: false },
            7 => Self::Passed { add: true },
            port => Self::Port(port as u8),
        }
    }
}

/// The encoding of a modifier's value.
#[derive(Clone, Copy, Debug)]
enum ModifierField {
    /// A field: first bit, width, values by content.
    Direct(u32, u32, &'static [Value]),
    /// The derived fields together: values by content.
    Derived(&'static [Value]),
    /// Like `Derived`, with other values if the selector of the first source is the greater one.
    Ordered(&'static [Value], &'static [Value]),
    /// Like `Derived`, with the first values only if the selector of the first source is the smaller one. Equal
    /// selectors count as descending. Branches that compare two sources use this form.
    Below(&'static [Value], &'static [Value]),
}

/// One encoding of an operation. An operation has several encodings if its modifiers do not all fit one.
#[derive(Debug)]
struct Encoding {
    op: Op,
    /// Mask of the fixed bits, and their values.
    mask: u32,
    exact: u32,
    /// First bit of each source's selector, and the allowed selectors, one bit each.
    sources: &'static [(u32, u32)],
    /// Modifiers in the order of the text, each with the value that the text omits.
    modifiers: &'static [(Modifier, Option<Value>, ModifierField)],
    /// Fields that select the values of derived modifiers: first bit and width.
    derived: &'static [(u32, u32)],
    /// Immediate numbers: name, first bit, width.
    immediates: &'static [(&'static str, u32, u32)],
}

fn field(bits: u32, at: u32, width: u32) -> u32 {
    bits >> at & ((1 << width) - 1)
}

impl Encoding {
    /// Returns the combined content of the derived fields, the first in the lowest bits.
    fn derived_index(&self, bits: u32) -> usize {
        let mut shift = 0;
        let mut index = 0;
        for (at, width) in self.derived {
            index |= field(bits, *at, *width) << shift;
            shift += width;
        }
        index as usize
    }

    /// Returns the selector of a source.
    fn selector(&self, n: usize, bits: u32) -> u32 {
        self.sources.get(n).map_or(0, |(at, _)| field(bits, *at, 3))
    }

    fn value(&self, place: ModifierField, bits: u32) -> Value {
        let (values, index): (&[Value], usize) = match place {
            ModifierField::Direct(at, width, values) => (values, field(bits, at, width) as usize),
            ModifierField::Derived(values) => (values, self.derived_index(bits)),
            ModifierField::Ordered(up, down) => {
                let values = if self.selector(0, bits) > self.selector(1, bits) {
                    down
                } else {
                    up
                };
                (values, self.derived_index(bits))
            }
            ModifierField::Below(up, down) => {
                let values = if self.selector(0, bits) < self.selector(1, bits) {
                    up
                } else {
                    down
                };
                (values, self.derived_index(bits))
            }
        };
        values.get(index).copied().unwrap_or(Value::Reserved)
    }

    /// Whether bits match this encoding and use no reserved field value.
    fn fits(&self, bits: u32) -> bool {
        bits & self.mask == self.exact
            && self.modifiers.iter().all(|(_, _, place)| {
                matches!(place, ModifierField::Direct(..)) || self.value(*place, bits) != Value::Reserved
            })
    }
}

/// A decoded operation with its bits.
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    unit: Unit,
    bits: u32,
    encoding: &'static Encoding,
}

impl PartialEq for Instruction {
    fn eq(&self, other: &Self) -> bool {
        self.unit == other.unit && self.bits == other.bits
    }
}

impl Eq for Instruction {}

impl Instruction {
    /// Decodes the operation of a unit with these bits. Returns `None` if the table has none.
    #[must_use]
    pub fn decode(unit: Unit, bits: u32) -> Option<Self> {
        let bits = bits & ((1 << unit.bits()) - 1);
        let encodings = match unit {
            Unit::Fma => fma::ENCODINGS,
            Unit::Add => add::ENCODINGS,
        };
        let encoding = encodings.iter().find(|e| e.fits(bits))?;
        Some(Self { unit, bits, encoding })
    }

    /// Returns every encoding of a unit in the order of the decoder: mask and value of the fixed bits.
    pub fn encodings(unit: Unit) -> impl Iterator<Item = (Op, u32, u32)> {
        let encodings = match unit {
            Unit::Fma => fma::ENCODINGS,
            Unit::Add => add::ENCODINGS,
        };
        encodings.iter().map(|e| (e.op, e.mask, e.exact))
    }

    /// Returns the unit.
    #[must_use]
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// Returns the operation.
    #[must_use]
    pub fn op(&self) -> Op {
        self.encoding.op
    }

    /// Returns the bits: 23 for FMA, 20 for ADD.
    #[must_use]
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Returns the number of sources, at most four.
    #[must_use]
    pub fn source_count(&self) -> usize {
        self.encoding.sources.len()
    }

    /// Returns a source, by its number from 0.
    #[must_use]
    pub fn source(&self, n: usize) -> Option<Source> {
        let (at, _) = self.encoding.sources.get(n)?;
        Some(Source::from_bits(field(self.bits, *at, 3)))
    }

    /// Whether the operation allows a source's selector.
    #[must_use]
    pub fn source_allowed(&self, n: usize) -> bool {
        let allowed = |(at, mask): &(u32, u32)| mask >> field(self.bits, *at, 3) & 1 != 0;
        self.encoding.sources.get(n).is_some_and(allowed)
    }

    /// Returns the value of a modifier, or [`Value::None`] if the operation has no such modifier.
    #[must_use]
    pub fn get(&self, modifier: Modifier) -> Value {
        let found = self.encoding.modifiers.iter().find(|(m, _, _)| *m == modifier);
        found.map_or(Value::None, |(_, _, place)| self.encoding.value(*place, self.bits))
    }

    /// Returns the modifiers in the order of the text: the modifier, its value, whether the text shows it.
    pub fn modifiers(&self) -> impl Iterator<Item = (Modifier, Value, bool)> + '_ {
        self.encoding.modifiers.iter().map(|(m, default, place)| {
            let value = self.encoding.value(*place, self.bits);
            (*m, value, Some(value) != *default)
        })
    }

    /// Returns the immediate numbers: name and value.
    pub fn immediates(&self) -> impl Iterator<Item = (&'static str, u32)> + '_ {
        let number = |(name, at, width): &(&'static str, u32, u32)| (*name, field(self.bits, *at, *width));
        self.encoding.immediates.iter().map(number)
    }

    /// Returns one of the immediate numbers, or 0 if the operation has none of that name.
    #[must_use]
    pub fn immediate(&self, name: &str) -> u32 {
        self.immediates().find(|(n, _)| *n == name).map_or(0, |(_, v)| v)
    }

    /// Whether no modifier has a reserved value and the operation allows every source.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        (0..self.source_count()).all(|n| self.source_allowed(n))
            && self.modifiers().all(|(_, value, _)| value != Value::Reserved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_fit_their_unit_and_read_no_fixed_bit() {
        for unit in [Unit::Fma, Unit::Add] {
            let encodings = match unit {
                Unit::Fma => fma::ENCODINGS,
                Unit::Add => add::ENCODINGS,
            };
            for e in encodings {
                let all = (1 << unit.bits()) - 1;
                assert_eq!(e.mask & !all, 0, "{:?}", e.op);
                assert_eq!(e.exact & !e.mask, 0, "{:?}", e.op);
                assert!(e.sources.len() <= 4, "{:?}", e.op);
                let width: u32 = e.derived.iter().map(|(_, w)| w).sum();
                for (m, _, position) in e.modifiers {
                    match position {
                        ModifierField::Direct(at, w, values) => {
                            assert_eq!(values.len(), 1 << w, "{:?} {m:?}", e.op);
                            assert!(at + w <= unit.bits());
                        }
                        ModifierField::Derived(values) => assert_eq!(values.len(), 1 << width, "{:?} {m:?}", e.op),
                        ModifierField::Ordered(a, b) | ModifierField::Below(a, b) => {
                            assert!(a.len() == 1 << width && b.len() == 1 << width)
                        }
                    }
                }
            }
        }
    }

    /// Regression test: a branch that compares a source with itself decoded to another comparison.
    #[test]
    fn equal_branch_sources_decode_like_descending_ones() {
        for (bits, cmp) in [
            (0x68b00, Value::Ne),
            (0x68b08, Value::Eq),
            (0x68b01, Value::Ne),
            (0x68ec0, Value::Le),
        ] {
            let i = Instruction::decode(Unit::Add, bits).unwrap();
            let found = i.get(Modifier::Cmpf);
            assert_eq!(found, cmp, "{bits:#x} {:?} {}", i.op(), found.name());
        }
    }

    #[test]
    fn operations_are_decoded_from_their_bits() {
        let i = Instruction::decode(Unit::Fma, 0x701963).unwrap();
        assert_eq!((i.op(), i.source_count()), (Op::Nop, 0));
        // `*IMUL.i32 t0, r?, ...` has two sources and is not a shift.
        let found = Instruction::encodings(Unit::Fma)
            .find(|(op, _, _)| *op == Op::ImulI32)
            .unwrap();
        assert_eq!(Instruction::decode(Unit::Fma, found.2).unwrap().op(), Op::ImulI32);
        assert!(Instruction::decode(Unit::Fma, 0x7f_ffff).is_none());
    }
}
