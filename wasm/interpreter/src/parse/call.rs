//! Calls: direct, and through a register with a prototype.

use super::Global;
use super::body::{Body, Symbol};
use super::operand::{Fit, Operand};
use crate::error::{ParseError, ParseErrorKind};
use crate::lexer::{Place, Token};
use crate::program::{CallSite, Formal, Operation, Slot};
use crate::types::{Type, U64};

/// An argument or result of a call as written.
#[derive(Clone, Copy, Debug)]
enum Actual {
    Slots {
        first: Slot,
        bytes: u32,
    },
    /// A value of the size of its parameter.
    Value(Operand),
}

impl<'a> Body<'_, 'a> {
    /// Parses a call behind its name.
    pub fn call(&mut self) -> Result<(), ParseError> {
        let parenthesis = Token::Punctuation(b'(');
        let mut results = Vec::new();
        if self.parser.lexer.peek() == parenthesis {
            results = self.actuals()?;
            self.comma()?;
        }
        let place = self.parser.lexer.place();
        let name = self.parser.lexer.word("a function")?;
        let mut arguments = Vec::new();
        let mut prototype = None;
        if self.parser.lexer.take(b',')? {
            if self.parser.lexer.peek() == parenthesis {
                arguments = self.actuals()?;
                if self.parser.lexer.take(b',')? {
                    let here = self.parser.lexer.place();
                    prototype = Some((self.parser.lexer.word("a prototype")?, here));
                }
            } else {
                let here = self.parser.lexer.place();
                prototype = Some((self.parser.lexer.word("a prototype")?, here));
            }
        }
        let (target, signature) = match (self.find_symbol(name), prototype) {
            (Some(Symbol::Register { slot, t }), Some((prototype, here))) if U64.accepts(t) => {
                (Err(slot), self.find_prototype(prototype, here)?)
            }
            _ => match self.parser.names.get(name) {
                Some(Global::Function(index)) => {
                    let function = self.parser.program.functions.get(*index as usize);
                    let function = function.filter(|f| !f.is_entry);
                    let unknown = || place.error(ParseErrorKind::UnknownName(name.to_owned()));
                    (Ok(*index), function.ok_or_else(unknown)?.signature.clone())
                }
                _ => return Err(place.error(ParseErrorKind::UnknownName(name.to_owned()))),
            },
        };
        let mismatch = || place.error(ParseErrorKind::ArgumentMismatch(name.to_owned()));
        let counts = (signature.results.len(), signature.parameters.len());
        if counts != (results.len(), arguments.len()) {
            return Err(mismatch());
        }
        let (result_slots, parameter_slots, _) = signature.first_slots();
        let mut site = CallSite {
            function: target.ok(),
            ..CallSite::default()
        };
        for ((formal, slot), actual) in signature.parameters.iter().zip(parameter_slots).zip(&arguments) {
            let first = self.actual_slot(actual, formal, place)?.ok_or_else(mismatch)?;
            site.arguments
                .extend((0..formal.slots()).map(|n| (first + n, slot + n)));
        }
        for ((formal, slot), actual) in signature.results.iter().zip(result_slots).zip(&results) {
            let Actual::Slots { first, bytes } = *actual else {
                return Err(mismatch());
            };
            if bytes != formal.bytes {
                return Err(mismatch());
            }
            site.results.extend((0..formal.slots()).map(|n| (slot + n, first + n)));
        }
        if target.is_err() {
            site.prototype = signature;
        }
        let index = self.parser.program.sites.len() as u32;
        self.parser.program.sites.push(site);
        self.emit(match target {
            Ok(_) => Operation::Call { site: index },
            Err(address) => Operation::CallIndirect { address, site: index },
        })
    }

    /// Parses a list of arguments or results in parentheses.
    fn actuals(&mut self) -> Result<Vec<Actual>, ParseError> {
        self.parser.lexer.expect(b'(', "(")?;
        let mut actuals = Vec::new();
        if self.parser.lexer.take(b')')? {
            return Ok(actuals);
        }
        loop {
            let written = self.operand()?;
            actuals.push(match written.operand {
                Operand::Register { slot, t } => Actual::Slots {
                    first: slot,
                    bytes: u32::from(t.bytes()),
                },
                Operand::Parameter { slot, bytes } => Actual::Slots { first: slot, bytes },
                operand => Actual::Value(operand),
            });
            if !self.parser.lexer.take(b',')? {
                break;
            }
        }
        self.parser.lexer.expect(b')', ")")?;
        Ok(actuals)
    }

    /// Returns the first slot of an argument, or `None` if it does not match its parameter.
    fn actual_slot(&mut self, actual: &Actual, formal: &Formal, place: Place) -> Result<Option<Slot>, ParseError> {
        let operand = match *actual {
            Actual::Slots { first, bytes } => return Ok((bytes == formal.bytes).then_some(first)),
            Actual::Value(operand) => operand,
        };
        let t = match formal.bytes {
            4 => Type::Bits(4),
            8 => Type::Bits(8),
            _ => return Ok(None),
        };
        let text = "an argument";
        let written = super::operand::WrittenOperand { operand, text, place };
        let source = self.value_of(&written, t, Fit::Exact)?;
        self.slot_of(source, place).map(Some)
    }
}
