//! Parameter lists of functions and prototypes.

use super::number;
use crate::error::{ParseError, ParseErrorKind};
use crate::lexer::{Lexer, Place};
use crate::program::{Formal, Signature};
use crate::types::Type;

/// Maximum size of a parameter, bytes.
const MAX_PARAMETER_BYTES: u32 = 4096;
/// Maximum size of all parameters of a function, bytes: each call copies them.
const MAX_TOTAL_BYTES: u32 = 8192;
/// Maximum number of parameters of a function.
const MAX_PARAMETERS: usize = 4096;

/// A parameter with its name.
#[derive(Clone, Copy, Debug)]
pub struct NamedFormal<'a> {
    pub name: &'a str,
    pub place: Place,
    pub element: Type,
    pub formal: Formal,
}

/// Results and parameters with their names.
#[derive(Clone, Debug)]
pub struct NamedSignature<'a> {
    pub results: Vec<NamedFormal<'a>>,
    pub parameters: Vec<NamedFormal<'a>>,
}

impl NamedSignature<'_> {
    /// Returns the signature without names.
    pub fn signature(&self) -> Signature {
        Signature {
            results: self.results.iter().map(|f| f.formal).collect(),
            parameters: self.parameters.iter().map(|f| f.formal).collect(),
        }
    }
}

/// An array declaration behind its space: type, alignment, name, number of elements.
#[derive(Clone, Copy, Debug)]
pub struct ArrayDeclaration<'a> {
    pub name: &'a str,
    pub place: Place,
    pub element: Type,
    pub alignment: u32,
    /// Number of elements; 1 for a scalar, none for `[]`.
    pub count: Option<u64>,
}

impl ArrayDeclaration<'_> {
    pub fn duplicate(&self) -> ParseError {
        self.place.error(ParseErrorKind::DuplicateName(self.name.to_owned()))
    }
}

/// Parses `.align 8 .b8 name[16]` and the like.
pub fn parse_array<'a>(lexer: &mut Lexer<'a>) -> Result<ArrayDeclaration<'a>, ParseError> {
    let mut alignment = None;
    let element = loop {
        let place = lexer.place();
        let word = lexer.word("a type")?;
        let unknown = || place.error(ParseErrorKind::UnknownDirective(word.to_owned()));
        match word {
            ".align" => {
                let place = lexer.place();
                let word = lexer.word("an alignment")?;
                let number = number::parse_u32(word).filter(|n| n.is_power_of_two() && *n <= 128);
                let error = || place.error(ParseErrorKind::NumberOutOfRange(word.to_owned()));
                alignment = Some(number.ok_or_else(error)?);
            }
            // Hints about what a pointer points to.
            ".ptr" | ".global" => {}
            _ => break word.strip_prefix('.').and_then(Type::parse).ok_or_else(unknown)?,
        }
    };
    let place = lexer.place();
    let name = lexer.word("a name")?;
    let mut count = Some(1);
    if lexer.take(b'[')? {
        count = None;
        if !lexer.take(b']')? {
            let here = lexer.place();
            let word = lexer.word("a number of elements")?;
            count = number::parse_u32(word).map(u64::from);
            if count.is_none() {
                return Err(here.error(ParseErrorKind::NumberOutOfRange(word.to_owned())));
            }
            lexer.expect(b']', "]")?;
        }
    }
    Ok(ArrayDeclaration {
        name,
        place,
        element,
        alignment: alignment.unwrap_or(1).max(u32::from(element.bytes())),
        count,
    })
}

/// Returns the parameter that a declaration behind `.param` describes.
pub fn parameter_of(array: &ArrayDeclaration<'_>) -> Result<Formal, ParseError> {
    let bytes = array
        .count
        .and_then(|n| n.checked_mul(u64::from(array.element.bytes())));
    let bytes = bytes.and_then(|n| u32::try_from(n).ok());
    let bytes = bytes.filter(|n| (1..=MAX_PARAMETER_BYTES).contains(n));
    let error = || array.place.error(ParseErrorKind::Limit("bytes of a parameter"));
    Ok(Formal {
        in_memory: true,
        bytes: bytes.ok_or_else(error)?,
        alignment: array.alignment,
    })
}

/// Parses a list of parameters in parentheses.
pub fn parse_formals<'a>(lexer: &mut Lexer<'a>) -> Result<Vec<NamedFormal<'a>>, ParseError> {
    lexer.expect(b'(', "a list of parameters")?;
    let mut formals = Vec::new();
    let mut total = 0u32;
    if lexer.take(b')')? {
        return Ok(formals);
    }
    loop {
        let place = lexer.place();
        let space = lexer.word(".param or .reg")?;
        let array = parse_array(lexer)?;
        let formal = match space {
            ".param" => parameter_of(&array)?,
            ".reg" if array.count == Some(1) => Formal {
                in_memory: false,
                bytes: u32::from(array.element.bytes()),
                alignment: u32::from(array.element.bytes()),
            },
            _ => return Err(place.error(ParseErrorKind::UnknownDirective(space.to_owned()))),
        };
        formals.push(NamedFormal {
            name: array.name,
            place: array.place,
            element: array.element,
            formal,
        });
        total = total.saturating_add(formal.bytes.next_multiple_of(8));
        if formals.len() > MAX_PARAMETERS || total > MAX_TOTAL_BYTES {
            return Err(place.error(ParseErrorKind::Limit("parameters")));
        }
        if !lexer.take(b',')? {
            break;
        }
    }
    lexer.expect(b')', ")")?;
    Ok(formals)
}
