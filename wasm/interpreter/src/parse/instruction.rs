//! Instructions: from their names and modifiers to operations.

use super::body::Body;
use super::operand::{Fit, Operand, Source};
use crate::arithmetic::{self, Binary, Shape, compare, convert, integer};
use crate::error::{ParseError, ParseErrorKind};
use crate::lexer::{Place, Token};
use crate::program::{Operation, Slot, Special};
use crate::types::{B32, S32, S64, Type, U32, U64};

/// Maximum number of parts of the name of an instruction.
const MAX_PARTS: usize = 8;

impl<'a> Body<'_, 'a> {
    /// Parses an instruction behind its name, with its guard: a predicate and the value that it must have.
    pub fn instruction(&mut self, word: &'a str, place: Place, guard: Option<(Slot, bool)>) -> Result<(), ParseError> {
        let parts: Vec<&str> = word.split('.').take(MAX_PARTS + 1).collect();
        let unknown = || place.error(ParseErrorKind::UnknownInstruction(word.to_owned()));
        let [name, modifiers @ ..] = parts.as_slice() else {
            return Err(unknown());
        };
        if parts.len() > MAX_PARTS {
            return Err(unknown());
        }
        if *name == "bra" && matches!(modifiers, [] | ["uni"]) {
            let place = self.parser.lexer.place();
            let label = self.parser.lexer.word("a label")?;
            self.branch(label, place, guard)?;
            return self.parser.lexer.expect(b';', ";");
        }
        let skip = guard.map(|guard| self.begin_guard(guard)).transpose()?;
        self.unguarded(name, modifiers)?.ok_or_else(unknown)?;
        if let Some(branch) = skip {
            self.end_guard(branch, place)?;
        }
        self.parser.lexer.expect(b';', ";")
    }

    /// Parses an instruction. Returns `None` if the subset does not have it.
    fn unguarded(&mut self, name: &str, modifiers: &[&str]) -> Result<Option<()>, ParseError> {
        match (name, modifiers) {
            ("ld", _) => self.load(modifiers),
            ("st", _) => self.store(modifiers),
            ("red", _) => self.reduction(modifiers),
            ("mov", [t]) => self.typed(t, Self::move_value),
            ("cvta", ["global" | "local" | "const", "u64"] | ["to", "global" | "local" | "const", "u64"]) => {
                self.move_value(U64).map(Some)
            }
            ("cvt", _) => self.convert(modifiers),
            ("setp", _) => self.compare(modifiers),
            ("selp", [t]) => self.typed(t, Self::select),
            ("lop3", ["b32"]) => self.logic().map(Some),
            ("call", [] | ["uni"]) => self.call().map(Some),
            ("ret", [] | ["uni"]) => self.emit(Operation::Return).map(Some),
            ("exit", []) => self.emit(Operation::Exit).map(Some),
            ("brx", ["idx"] | ["idx", "uni"]) => {
                let index = self.source_slot(U32, Fit::Exact)?;
                self.comma()?;
                let place = self.parser.lexer.place();
                let list = self.parser.lexer.word("a list of targets")?;
                self.branch_indexed(index, list, place).map(Some)
            }
            ("activemask", ["b32"]) => {
                let to = self.destination(B32, Fit::Exact)?;
                let special = Special::ActiveMask;
                self.emit(Operation::Special { to, special }).map(Some)
            }
            ("bar", ["warp", "sync"]) => {
                self.source(B32, Fit::Exact)?;
                self.emit(Operation::Nothing).map(Some)
            }
            (_, [between @ .., t]) => {
                let Some(t) = Type::parse(t) else { return Ok(None) };
                match arithmetic::find(name, between, t) {
                    Some((shape, result)) => self.compute(shape, t, result).map(Some),
                    None => Ok(None),
                }
            }
            _ => Ok(None),
        }
    }

    fn typed(
        &mut self,
        t: &str,
        parse: fn(&mut Self, Type) -> Result<(), ParseError>,
    ) -> Result<Option<()>, ParseError> {
        match Type::parse(t) {
            Some(t) if t.bytes() >= 4 || t == Type::Pred => parse(self, t).map(Some),
            _ => Ok(None),
        }
    }

    fn move_value(&mut self, t: Type) -> Result<(), ParseError> {
        let brace = Token::Punctuation(b'{');
        if self.parser.lexer.peek() == brace {
            return self.unpack(t);
        }
        let to = self.destination(t, Fit::Exact)?;
        self.comma()?;
        if self.parser.lexer.peek() == brace {
            return self.pack(to, t);
        }
        let written = self.operand()?;
        if let Operand::Special(special) = written.operand
            && t.accepts(U32)
        {
            return self.emit(Operation::Special { to, special });
        }
        match self.value_of(&written, t, Fit::Exact)? {
            Source::Slot(from) => self.emit(Operation::Copy { to, from }),
            Source::Constant(value) => self.emit(Operation::Constant { to, value }),
        }
    }

    /// Returns the type of each half of a value.
    fn half(&self, t: Type) -> Result<Type, ParseError> {
        match t {
            Type::Bits(8) => Ok(Type::Bits(4)),
            Type::Bits(4) => Ok(Type::Bits(2)),
            _ => Err(self.parser.lexer.unexpected("a type of bits with two halves")),
        }
    }

    /// `mov.b64 {low, high}, value`.
    fn unpack(&mut self, t: Type) -> Result<(), ParseError> {
        let half = self.half(t)?;
        let place = self.parser.lexer.place();
        self.parser.lexer.expect(b'{', "{")?;
        let low = self.destination(half, Fit::Exact)?;
        self.comma()?;
        let high = self.destination(half, Fit::Exact)?;
        self.parser.lexer.expect(b'}', "}")?;
        self.comma()?;
        let value = self.source_slot(t, Fit::Exact)?;
        let from = self.temporary(place)?;
        self.emit(Operation::Copy { to: from, from: value })?;
        let (shift, mask) = (half.bits() as u8, (1 << half.bits()) - 1);
        self.emit(Operation::Extract {
            to: low,
            from,
            shift: 0,
            mask,
        })?;
        self.emit(Operation::Extract {
            to: high,
            from,
            shift,
            mask,
        })
    }

    /// `mov.b64 value, {low, high}`.
    fn pack(&mut self, to: Slot, t: Type) -> Result<(), ParseError> {
        let half = self.half(t)?;
        let place = self.parser.lexer.place();
        self.parser.lexer.expect(b'{', "{")?;
        let low = self.source_slot(half, Fit::Exact)?;
        self.comma()?;
        let high = self.source_slot(half, Fit::Exact)?;
        self.parser.lexer.expect(b'}', "}")?;
        let value = self.temporary(place)?;
        let (shift, mask) = (half.bits() as u8, (1 << half.bits()) - 1);
        self.emit(Operation::Copy { to: value, from: low })?;
        self.emit(Operation::Insert {
            to: value,
            from: high,
            shift,
            mask,
        })?;
        self.emit(Operation::Copy { to, from: value })
    }

    fn convert(&mut self, modifiers: &[&str]) -> Result<Option<()>, ParseError> {
        let [modes @ .., destination, source] = modifiers else {
            return Ok(None);
        };
        let mode = match modes {
            [] => None,
            [mode] => Some(*mode),
            _ => return Ok(None),
        };
        let (Some(destination), Some(source)) = (Type::parse(destination), Type::parse(source)) else {
            return Ok(None);
        };
        let Some(function) = convert::find(mode, destination, source) else {
            return Ok(None);
        };
        let to = self.destination(destination, Fit::Wide)?;
        self.comma()?;
        let a = self.source_slot(source, Fit::Wide)?;
        self.emit(Operation::Unary { function, to, a }).map(Some)
    }

    fn compare(&mut self, modifiers: &[&str]) -> Result<Option<()>, ParseError> {
        let (name, combination, t) = match modifiers {
            [name, t] => (name, None, t),
            [name, combination, t] => (name, Some(*combination), t),
            _ => return Ok(None),
        };
        let combine: Option<Binary> = match combination {
            None => None,
            Some("and") => Some(integer::and),
            Some("or") => Some(integer::or),
            Some("xor") => Some(integer::xor),
            _ => return Ok(None),
        };
        let Some(t) = Type::parse(t) else { return Ok(None) };
        let Some(function) = compare::find(name, t) else {
            return Ok(None);
        };
        let place = self.parser.lexer.place();
        let to = self.destination(Type::Pred, Fit::Exact)?;
        let mut complement = None;
        if self.parser.lexer.take(b'|')? {
            complement = Some(self.destination(Type::Pred, Fit::Exact)?);
        }
        self.comma()?;
        let a = self.source_slot(t, Fit::Exact)?;
        self.comma()?;
        let b = self.source(t, Fit::Exact)?;
        let simple = combine.is_none() && complement.is_none();
        if simple {
            return self.emit_comparison(binary(function, to, a, b)).map(Some);
        }
        let value = self.temporary(place)?;
        self.emit(binary(function, value, a, b))?;
        let with = match combine {
            None => None,
            Some(function) => {
                self.comma()?;
                let inverted = self.parser.lexer.take(b'!')?;
                let other = self.source_slot(Type::Pred, Fit::Exact)?;
                let b = self.temporary(place)?;
                self.emit(if inverted {
                    Operation::Unary {
                        function: integer::not_pred,
                        to: b,
                        a: other,
                    }
                } else {
                    Operation::Copy { to: b, from: other }
                })?;
                Some((function, b))
            }
        };
        let inverse = self.temporary(place)?;
        self.emit(Operation::Unary {
            function: integer::not_pred,
            to: inverse,
            a: value,
        })?;
        for (to, a) in [(Some(to), value), (complement, inverse)] {
            let Some(to) = to else { continue };
            self.emit(match with {
                Some((function, b)) => Operation::Binary { function, to, a, b },
                None => Operation::Copy { to, from: a },
            })?;
        }
        Ok(Some(()))
    }

    fn select(&mut self, t: Type) -> Result<(), ParseError> {
        if t == Type::Pred {
            return Err(self.parser.lexer.unexpected("a type that is no predicate"));
        }
        let to = self.destination(t, Fit::Exact)?;
        self.comma()?;
        let place = self.parser.lexer.place();
        let a = self.source(t, Fit::Exact)?;
        self.comma()?;
        let b = self.source(t, Fit::Exact)?;
        self.comma()?;
        let predicate = self.source_slot(Type::Pred, Fit::Exact)?;
        if let (Source::Constant(a), Source::Constant(b)) = (a, b)
            && let (Ok(a), Ok(b)) = (u32::try_from(a), u32::try_from(b))
        {
            return self.emit(Operation::SelectConstant { to, a, b, predicate });
        }
        let (a, b) = (self.slot_of(a, place)?, self.slot_of(b, place)?);
        self.emit(Operation::Select { to, a, b, predicate })
    }

    fn logic(&mut self) -> Result<(), ParseError> {
        let to = self.destination(B32, Fit::Exact)?;
        let mut operands = [0; 3];
        for operand in &mut operands {
            self.comma()?;
            *operand = self.source_slot(B32, Fit::Exact)?;
        }
        self.comma()?;
        let place = self.parser.lexer.place();
        let Source::Constant(table) = self.source(U32, Fit::Exact)? else {
            return Err(place.error(ParseErrorKind::NumberOutOfRange("of the table".to_owned())));
        };
        let [a, b, c] = operands;
        let table = u8::try_from(table);
        let table = table.map_err(|_| place.error(ParseErrorKind::NumberOutOfRange("of the table".to_owned())))?;
        self.emit(Operation::Logic { to, a, b, c, table })
    }

    fn compute(&mut self, shape: Shape, t: Type, result: Type) -> Result<(), ParseError> {
        let to = self.destination(result, Fit::Exact)?;
        self.comma()?;
        let mut next = |types: &[Type]| -> Result<[Slot; 4], ParseError> {
            let mut slots = [0; 4];
            for (n, (slot, t)) in slots.iter_mut().zip(types).enumerate() {
                if n > 0 {
                    self.comma()?;
                }
                *slot = self.source_slot(*t, Fit::Exact)?;
            }
            Ok(slots)
        };
        let operation = match shape {
            Shape::Unary(function) => {
                let [a, ..] = next(&[t])?;
                Operation::Unary { function, to, a }
            }
            Shape::Binary(function) => return self.binary(function, to, t, t),
            Shape::Shift(function) => return self.binary(function, to, t, U32),
            Shape::Division(function) => {
                let [a, b, ..] = next(&[t, t])?;
                Operation::Division { function, to, a, b }
            }
            Shape::Ternary(function) => {
                let [a, b, c, _] = next(&[t, t, t])?;
                Operation::Ternary { function, to, a, b, c }
            }
            Shape::TernaryWide(function) => {
                let [a, b, c, _] = next(&[t, t, result])?;
                Operation::Ternary { function, to, a, b, c }
            }
            Shape::TernaryCount(function) => {
                let [a, b, c, _] = next(&[t, t, U32])?;
                Operation::Ternary { function, to, a, b, c }
            }
            Shape::Extract(function) => {
                let [a, b, c, _] = next(&[t, U32, U32])?;
                Operation::Ternary { function, to, a, b, c }
            }
            Shape::Insert(function) => {
                let operands = next(&[t, t, U32, U32])?;
                Operation::Quaternary { function, to, operands }
            }
        };
        self.emit(operation)
    }

    fn binary(&mut self, function: Binary, to: Slot, first: Type, second: Type) -> Result<(), ParseError> {
        let a = self.source_slot(first, Fit::Exact)?;
        self.comma()?;
        let b = self.source(second, Fit::Exact)?;
        let is_sum = matches!(first, U32 | U64 | S32 | S64) && std::ptr::fn_addr_eq(function, integer::add as Binary);
        self.emit(match b {
            Source::Slot(b) if is_sum => Operation::Add { to, a, b },
            Source::Constant(b) if is_sum => Operation::AddConstant { to, a, b },
            b => binary(function, to, a, b),
        })
    }
}

fn binary(function: Binary, to: Slot, a: Slot, b: Source) -> Operation {
    match b {
        Source::Slot(b) => Operation::Binary { function, to, a, b },
        Source::Constant(b) => Operation::BinaryConstant { function, to, a, b },
    }
}
