//! Operands of instructions.

use super::Global;
use super::body::{Body, Symbol};
use super::number::{self, Number};
use crate::error::{ParseError, ParseErrorKind};
use crate::lexer::Place;
use crate::program::{Operation, Slot, Special};
use crate::types::{Type, U32, U64};
use crate::variables::function_address;

/// An operand as written.
#[derive(Clone, Copy, Debug)]
pub enum Operand {
    Register {
        slot: Slot,
        t: Type,
    },
    Number(Number),
    Special(Special),
    /// Address of a variable or a function.
    Address(u64),
    /// Address of a local array.
    LocalAddress(u32),
    /// A variable in the parameter space.
    Parameter {
        slot: Slot,
        bytes: u32,
    },
}

/// A source operand, ready for an operation.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    Slot(Slot),
    Constant(u64),
}

/// How the type of a register must fit the type of its instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Same size.
    Exact,
    /// The register may be wider.
    Wide,
}

/// An operand with its text, for messages.
#[derive(Clone, Copy, Debug)]
pub struct WrittenOperand<'a> {
    pub operand: Operand,
    pub text: &'a str,
    pub place: Place,
}

impl WrittenOperand<'_> {
    pub fn mismatch(&self) -> ParseError {
        self.place.error(ParseErrorKind::TypeMismatch {
            operand: self.text.to_owned(),
        })
    }
}

fn special(name: &str) -> Option<Special> {
    Some(match name {
        "%tid.x" => Special::Thread,
        "%ctaid.x" => Special::Block,
        "%ntid.x" => Special::BlockThreads,
        "%nctaid.x" => Special::Blocks,
        "%laneid" => Special::Lane,
        _ => return None,
    })
}

impl<'a> Body<'_, 'a> {
    /// Parses an operand.
    pub fn operand(&mut self) -> Result<WrittenOperand<'a>, ParseError> {
        let place = self.parser.lexer.place();
        let negative = self.parser.lexer.take(b'-')?;
        let text = self.parser.lexer.word("an operand")?;
        let operand = self.find_operand(text, place)?;
        let operand = match (operand, negative) {
            (operand, false) => Some(operand),
            (Operand::Number(number), true) => number.negated().map(Operand::Number),
            _ => None,
        };
        let operand = operand.ok_or_else(|| {
            place.error(ParseErrorKind::Unexpected {
                expected: "an integer",
                found: text.to_owned(),
            })
        })?;
        Ok(WrittenOperand { operand, text, place })
    }

    fn find_operand(&self, text: &str, place: Place) -> Result<Operand, ParseError> {
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            let number = number::parse(text).map(Operand::Number);
            return number.ok_or_else(|| place.error(ParseErrorKind::NumberOutOfRange(text.to_owned())));
        }
        match self.find_symbol(text) {
            Some(Symbol::Register { slot, t }) => return Ok(Operand::Register { slot, t }),
            Some(Symbol::Parameter { slot, bytes }) => return Ok(Operand::Parameter { slot, bytes }),
            Some(Symbol::Local { offset }) => return Ok(Operand::LocalAddress(offset)),
            None => {}
        }
        if let Some(special) = special(text) {
            return Ok(Operand::Special(special));
        }
        match self.parser.names.get(text) {
            Some(Global::Function(index)) => Ok(Operand::Address(function_address(*index))),
            Some(Global::Variable { address }) => Ok(Operand::Address(*address)),
            None => Err(place.error(ParseErrorKind::UnknownName(text.to_owned()))),
        }
    }

    /// Parses a destination register.
    pub fn destination(&mut self, t: Type, fit: Fit) -> Result<Slot, ParseError> {
        let written = self.operand()?;
        match written.operand {
            Operand::Register { slot, t: register } if fits(t, register, fit) => Ok(slot),
            _ => Err(written.mismatch()),
        }
    }

    /// Parses a source operand of a type.
    pub fn source(&mut self, t: Type, fit: Fit) -> Result<Source, ParseError> {
        let written = self.operand()?;
        self.value_of(&written, t, fit)
    }

    /// Returns a source for an operand, after the operations that it needs.
    pub fn value_of(&mut self, written: &WrittenOperand<'_>, t: Type, fit: Fit) -> Result<Source, ParseError> {
        match written.operand {
            Operand::Register { slot, t: register } if fits(t, register, fit) => Ok(Source::Slot(slot)),
            Operand::Number(number) => {
                let out_of_range = || {
                    written
                        .place
                        .error(ParseErrorKind::NumberOutOfRange(written.text.to_owned()))
                };
                number.bits(t).map(Source::Constant).ok_or_else(out_of_range)
            }
            Operand::Address(address) if t.accepts(U64) => Ok(Source::Constant(address)),
            Operand::Special(special) if t.accepts(U32) => {
                let to = self.temporary(written.place)?;
                self.emit(Operation::Special { to, special })?;
                Ok(Source::Slot(to))
            }
            Operand::LocalAddress(offset) if t.accepts(U64) => {
                let to = self.temporary(written.place)?;
                self.emit(Operation::LocalAddress { to, offset })?;
                Ok(Source::Slot(to))
            }
            _ => Err(written.mismatch()),
        }
    }

    /// Parses a source operand and returns a slot that holds it.
    pub fn source_slot(&mut self, t: Type, fit: Fit) -> Result<Slot, ParseError> {
        let place = self.parser.lexer.place();
        let source = self.source(t, fit)?;
        self.slot_of(source, place)
    }

    /// Returns a slot that holds a source.
    pub fn slot_of(&mut self, source: Source, place: Place) -> Result<Slot, ParseError> {
        match source {
            Source::Slot(slot) => Ok(slot),
            Source::Constant(value) => {
                let to = self.temporary(place)?;
                self.emit(Operation::Constant { to, value })?;
                Ok(to)
            }
        }
    }

    pub fn comma(&mut self) -> Result<(), ParseError> {
        self.parser.lexer.expect(b',', ",")
    }
}

fn fits(t: Type, register: Type, fit: Fit) -> bool {
    match fit {
        Fit::Exact => t.accepts(register),
        Fit::Wide => t.fits_into(register),
    }
}
