//! Variables of a module and their initial values.

use super::signature::{ArrayDeclaration, parse_array};
use super::{Global, MAX_VARIABLE_BYTES, Parser, number};
use crate::error::{ParseError, ParseErrorKind};
use crate::lexer::Token;
use crate::types::Space;
use crate::variables::function_address;

impl Parser<'_> {
    pub(super) fn variable(&mut self, space: Space) -> Result<(), ParseError> {
        let array = parse_array(&mut self.lexer)?;
        let mut bytes = Vec::new();
        if self.lexer.take(b'=')? {
            self.initial_values(&array, &mut bytes)?;
        }
        self.lexer.expect(b';', ";")?;
        let size = u64::from(array.element.bytes());
        let total = match array.count {
            Some(count) => count.saturating_mul(size),
            None => bytes.len() as u64,
        };
        let images = &mut self.program.variables;
        let used = (images.global.bytes.len() + images.constant.bytes.len()) as u64;
        if total > MAX_VARIABLE_BYTES.saturating_sub(used) {
            return Err(array.place.error(ParseErrorKind::Limit("bytes of variables")));
        }
        if bytes.len() as u64 > total {
            return Err(array.place.error(ParseErrorKind::Limit("initial values")));
        }
        bytes.resize(total as usize, 0);
        let image = match space {
            Space::Const => &mut images.constant,
            _ => &mut images.global,
        };
        let address = image.add(&bytes, array.alignment as usize);
        if self.names.insert(array.name, Global::Variable { address }).is_some() {
            return Err(array.duplicate());
        }
        Ok(())
    }

    fn initial_values(&mut self, array: &ArrayDeclaration<'_>, bytes: &mut Vec<u8>) -> Result<(), ParseError> {
        let list = self.lexer.take(b'{')?;
        if list && self.lexer.take(b'}')? {
            return Ok(());
        }
        loop {
            let value = self.initial_value(array)?;
            let size = usize::from(array.element.bytes());
            bytes.extend(value.to_le_bytes().iter().take(size));
            if bytes.len() as u64 > MAX_VARIABLE_BYTES {
                return Err(array.place.error(ParseErrorKind::Limit("bytes of variables")));
            }
            if !list {
                return Ok(());
            }
            if !self.lexer.take(b',')? {
                return self.lexer.expect(b'}', "}");
            }
        }
    }

    fn initial_value(&mut self, array: &ArrayDeclaration<'_>) -> Result<u64, ParseError> {
        let place = self.lexer.place();
        let negative = self.lexer.take(b'-')?;
        let Token::Word(word) = self.lexer.next()? else {
            return Err(place.error(ParseErrorKind::Unexpected {
                expected: "an initial value",
                found: "punctuation".to_owned(),
            }));
        };
        if let Some(number) = number::parse(word) {
            let number = if negative { number.negated() } else { Some(number) };
            let bits = number.and_then(|n| n.bits(array.element));
            return bits.ok_or_else(|| place.error(ParseErrorKind::NumberOutOfRange(word.to_owned())));
        }
        if array.element.bytes() != 8 || negative {
            return Err(place.error(ParseErrorKind::TypeMismatch {
                operand: word.to_owned(),
            }));
        }
        match self.names.get(word) {
            Some(Global::Function(index)) => Ok(function_address(*index)),
            Some(Global::Variable { address }) => Ok(*address),
            None => Err(place.error(ParseErrorKind::UnknownName(word.to_owned()))),
        }
    }
}
