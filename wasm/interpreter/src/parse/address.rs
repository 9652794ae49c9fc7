//! Memory accesses: loads, stores, atomic additions, in all state spaces.

use super::body::{Body, Symbol};
use super::number::{self, Number};
use super::operand::{Fit, Operand};
use super::width_of;
use crate::error::{ParseError, ParseErrorKind};
use crate::lexer::Place;
use crate::program::{MAX_VECTOR, Operation, Slot, ZERO};
use crate::types::{Space, Type, U64};

/// Parsed address of an access of memory.
#[derive(Clone, Copy, Debug)]
struct Address {
    base: Slot,
    offset: i64,
}

/// A part of a variable in the parameter space.
#[derive(Clone, Copy, Debug)]
struct ParameterPart {
    slot: Slot,
    shift: u8,
}

/// Space, number of elements and element of an access, from its modifiers.
struct Access {
    /// Space, or none for the parameter space.
    space: Option<Space>,
    count: usize,
    element: Type,
}

fn parse_access(modifiers: &[&str]) -> Option<Access> {
    let (space, rest) = match modifiers {
        ["param", rest @ ..] => (None, rest),
        ["global", rest @ ..] => (Some(Space::Global), rest),
        ["const", rest @ ..] => (Some(Space::Const), rest),
        ["local", rest @ ..] => (Some(Space::Local), rest),
        _ => return None,
    };
    let (count, element) = match rest {
        ["v2", element] => (2, element),
        ["v4", element] => (4, element),
        [element] => (1, element),
        _ => return None,
    };
    let element = Type::parse(element).filter(|t| *t != Type::Pred)?;
    let fits = usize::from(element.bytes()) * count <= 16;
    fits.then_some(Access { space, count, element })
}

impl<'a> Body<'_, 'a> {
    /// Parses `ld`. Returns `None` if the modifiers are none of a load.
    pub fn load(&mut self, modifiers: &[&str]) -> Result<Option<()>, ParseError> {
        let Some(access) = parse_access(modifiers) else {
            return Ok(None);
        };
        let place = self.parser.lexer.place();
        let mut registers = self.elements(&access, true)?;
        self.comma()?;
        let Some(space) = access.space else {
            return self.load_parameter(&access, &registers).map(Some);
        };
        let mut address = self.address()?;
        if registers.len() > 1 {
            self.check_alignment(&access, address)?;
            // A destination may be the base: the parts behind it still need the address.
            if registers.contains(&address.base) {
                let to = self.temporary(place)?;
                self.emit(Operation::Copy { to, from: address.base })?;
                address.base = to;
            }
        }
        let (width, step) = (width_of(access.element.bytes()), i64::from(access.element.bytes()));
        for to in registers.drain(..) {
            let (base, offset) = (address.base, address.offset);
            self.emit(if access.element.is_signed() {
                Operation::LoadSigned {
                    space,
                    width,
                    to,
                    base,
                    offset,
                }
            } else {
                Operation::Load {
                    space,
                    width,
                    to,
                    base,
                    offset,
                }
            })?;
            address.offset = address.offset.wrapping_add(step);
        }
        Ok(Some(()))
    }

    /// Parses `st`. Returns `None` if the modifiers are none of a store.
    pub fn store(&mut self, modifiers: &[&str]) -> Result<Option<()>, ParseError> {
        let Some(access) = parse_access(modifiers) else {
            return Ok(None);
        };
        match access.space {
            None => self.store_parameter(&access).map(Some),
            Some(Space::Const) => Ok(None),
            Some(space) => {
                let mut address = self.address()?;
                self.comma()?;
                let registers = self.elements(&access, false)?;
                if registers.len() > 1 {
                    self.check_alignment(&access, address)?;
                }
                let width = width_of(access.element.bytes());
                for from in registers {
                    let (base, offset) = (address.base, address.offset);
                    self.emit(Operation::Store {
                        space,
                        width,
                        from,
                        base,
                        offset,
                    })?;
                    address.offset = address.offset.wrapping_add(i64::from(access.element.bytes()));
                }
                Ok(Some(()))
            }
        }
    }

    /// Parses `red.global.add`. Returns `None` for other modifiers.
    pub fn reduction(&mut self, modifiers: &[&str]) -> Result<Option<()>, ParseError> {
        let ["global", "add", element] = modifiers else {
            return Ok(None);
        };
        let Some(t) = Type::parse(element).filter(|t| matches!(t, Type::Unsigned(4 | 8) | Type::Signed(4))) else {
            return Ok(None);
        };
        let address = self.address()?;
        self.comma()?;
        let from = self.source_slot(t, Fit::Exact)?;
        let (width, base, offset) = (width_of(t.bytes()), address.base, address.offset);
        self.emit(Operation::AtomicAdd {
            width,
            from,
            base,
            offset,
        })?;
        Ok(Some(()))
    }

    fn check_alignment(&mut self, access: &Access, address: Address) -> Result<(), ParseError> {
        self.emit(Operation::CheckAlignment {
            bytes: u32::from(access.element.bytes()) * access.count as u32,
            base: address.base,
            offset: address.offset,
        })
    }

    /// Parses the registers of an access: one, or a list in braces.
    fn elements(&mut self, access: &Access, destination: bool) -> Result<Vec<Slot>, ParseError> {
        let mut slots = Vec::with_capacity(MAX_VECTOR);
        let is_list = access.count > 1;
        if is_list {
            self.parser.lexer.expect(b'{', "{")?;
        }
        for n in 0..access.count {
            if n > 0 {
                self.comma()?;
            }
            slots.push(if destination {
                self.destination(access.element, Fit::Wide)?
            } else {
                self.source_slot(access.element, Fit::Wide)?
            });
        }
        if is_list {
            self.parser.lexer.expect(b'}', "}")?;
        }
        Ok(slots)
    }

    /// Parses the offset behind a base, and the bracket.
    fn offset(&mut self) -> Result<i64, ParseError> {
        let mut offset = 0;
        if self.parser.lexer.take(b'+')? || self.parser.lexer.peek() == crate::lexer::Token::Punctuation(b'-') {
            let place = self.parser.lexer.place();
            let negative = self.parser.lexer.take(b'-')?;
            let word = self.parser.lexer.word("an offset")?;
            let number = number::parse(word);
            let number = if negative {
                number.and_then(Number::negated)
            } else {
                number
            };
            let bits = number.and_then(|n| n.bits(Type::Signed(8)));
            offset = bits.ok_or_else(|| place.error(ParseErrorKind::NumberOutOfRange(word.to_owned())))? as i64;
        }
        self.parser.lexer.expect(b']', "]")?;
        Ok(offset)
    }

    fn address(&mut self) -> Result<Address, ParseError> {
        self.parser.lexer.expect(b'[', "an address")?;
        let written = self.operand()?;
        let (base, start) = match written.operand {
            Operand::Register { slot, t } if U64.accepts(t) => (slot, 0),
            Operand::Number(number) => (ZERO, number.bits(U64).ok_or_else(|| written.mismatch())?),
            Operand::Address(address) => (ZERO, address),
            Operand::LocalAddress(offset) => {
                let to = self.temporary(written.place)?;
                self.emit(Operation::LocalAddress { to, offset })?;
                (to, 0)
            }
            _ => return Err(written.mismatch()),
        };
        let offset = self.offset()?.wrapping_add_unsigned(start);
        Ok(Address { base, offset })
    }

    /// Parses the address of a variable in the parameter space, and returns its parts, one for each element.
    fn parameter_parts(&mut self, access: &Access) -> Result<Vec<ParameterPart>, ParseError> {
        self.parser.lexer.expect(b'[', "an address")?;
        let place: Place = self.parser.lexer.place();
        let name = self.parser.lexer.word("a parameter")?;
        let Some(Symbol::Parameter { slot, bytes }) = self.find_symbol(name) else {
            return Err(place.error(ParseErrorKind::UnknownName(name.to_owned())));
        };
        let offset = self.offset()?;
        let size = u64::from(access.element.bytes());
        let total = size * access.count as u64;
        let wrong = || place.error(ParseErrorKind::ParameterAccess(name.to_owned()));
        let offset = u64::try_from(offset).map_err(|_| wrong())?;
        let end = offset.checked_add(total).ok_or_else(wrong)?;
        if end > u64::from(bytes) || offset % total != 0 {
            return Err(wrong());
        }
        let parts = (0..access.count as u64).map(|n| {
            let at = offset + n * size;
            ParameterPart {
                slot: slot + (at / 8) as u32,
                shift: (at % 8 * 8) as u8,
            }
        });
        Ok(parts.collect())
    }

    fn load_parameter(&mut self, access: &Access, registers: &[Slot]) -> Result<(), ParseError> {
        let parts = self.parameter_parts(access)?;
        let bits = access.element.bits();
        for (part, to) in parts.into_iter().zip(registers.iter().copied()) {
            let (from, shift) = (part.slot, part.shift);
            self.emit(if bits == 64 {
                Operation::Copy { to, from }
            } else if access.element.is_signed() {
                let bits = bits as u8;
                Operation::ExtractSigned { to, from, shift, bits }
            } else {
                let mask = (1 << bits) - 1;
                Operation::Extract { to, from, shift, mask }
            })?;
        }
        Ok(())
    }

    fn store_parameter(&mut self, access: &Access) -> Result<(), ParseError> {
        let parts = self.parameter_parts(access)?;
        self.comma()?;
        let registers = self.elements(access, false)?;
        let bits = access.element.bits();
        for (part, from) in parts.into_iter().zip(registers) {
            let (to, shift) = (part.slot, part.shift);
            self.emit(if bits == 64 {
                Operation::Copy { to, from }
            } else {
                let mask = (1 << bits) - 1;
                Operation::Insert { to, from, shift, mask }
            })?;
        }
        Ok(())
    }
}
