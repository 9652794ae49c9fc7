//! Parser of a module: directives, variables, functions.

mod address;
mod body;
mod call;
mod instruction;
mod number;
mod operand;
mod signature;
mod variable;

use crate::error::{ParseError, ParseErrorKind};
use crate::lexer::{Lexer, Place, Token};
use crate::memory::Width;
use crate::program::{Function, Program, Signature};
use crate::types::Space;
use body::Body;
use signature::NamedSignature;
use std::collections::HashMap;

/// Maximum number of functions of a module.
const MAX_FUNCTIONS: usize = 1 << 20;
/// Maximum number of operations of a module.
const MAX_OPERATIONS: usize = 1 << 26;
/// Maximum number of slots of all frames of a module: a text of a few bytes can declare many registers.
const MAX_SLOTS: u32 = 1 << 22;
/// Maximum size of the variables of a module, and of the local arrays of a function, bytes.
const MAX_VARIABLE_BYTES: u64 = 1 << 26;

/// What a name of the module stands for.
#[derive(Clone, Copy, Debug)]
enum Global {
    Function(u32),
    Variable { address: u64 },
}

/// Parser of a module.
struct Parser<'a> {
    lexer: Lexer<'a>,
    program: Program,
    names: HashMap<&'a str, Global>,
    /// Places of the declarations of functions.
    places: Vec<Place>,
}

impl Program {
    /// Parses and checks a text.
    ///
    /// # Errors
    ///
    /// Returns the first place that is not in the subset, or that breaks a rule of PTX. The time is linear in the text.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut parser = Parser {
            lexer: Lexer::new(text)?,
            program: Self::default(),
            names: HashMap::new(),
            places: Vec::new(),
        };
        parser.module()?;
        for (function, place) in parser.program.functions.iter().zip(&parser.places) {
            if function.start.is_none() {
                return Err(place.error(ParseErrorKind::NoBody(function.name.clone())));
            }
        }
        Ok(parser.program)
    }
}

impl<'a> Parser<'a> {
    fn module(&mut self) -> Result<(), ParseError> {
        loop {
            let place = self.lexer.place();
            match self.lexer.next()? {
                Token::End => return Ok(()),
                Token::Punctuation(b';') => {}
                Token::Word(word) => self.directive(word, place)?,
                token => {
                    return Err(place.error(ParseErrorKind::Unexpected {
                        expected: "a directive",
                        found: token.describe(),
                    }));
                }
            }
        }
    }

    fn directive(&mut self, word: &'a str, place: Place) -> Result<(), ParseError> {
        match word {
            ".version" | ".address_size" => self.lexer.word("a version or a size").map(|_| ()),
            ".target" => {
                self.lexer.word("a target")?;
                while self.lexer.take(b',')? {
                    self.lexer.word("a target")?;
                }
                Ok(())
            }
            // Linkage: all names of the module are in one text.
            ".visible" | ".weak" => Ok(()),
            ".entry" => self.function(true),
            ".func" => self.function(false),
            ".global" => self.variable(Space::Global),
            ".const" => self.variable(Space::Const),
            _ => Err(place.error(ParseErrorKind::UnknownDirective(word.to_owned()))),
        }
    }

    fn function(&mut self, is_entry: bool) -> Result<(), ParseError> {
        let results = if !is_entry && self.lexer.peek() == Token::Punctuation(b'(') {
            signature::parse_formals(&mut self.lexer)?
        } else {
            Vec::new()
        };
        let place = self.lexer.place();
        let name = self.lexer.word("the name of a function")?;
        let parameters = if self.lexer.peek() == Token::Punctuation(b'(') {
            signature::parse_formals(&mut self.lexer)?
        } else {
            Vec::new()
        };
        let named = NamedSignature { results, parameters };
        let signature = named.signature();
        if is_entry && signature.parameters.iter().any(|p| p.bytes > 8 || !p.in_memory) {
            return Err(place.error(ParseErrorKind::ArgumentMismatch(name.to_owned())));
        }
        let mut max_threads = 0;
        while let Token::Word(word) = self.lexer.peek() {
            let here = self.lexer.place();
            self.lexer.next()?;
            match word {
                ".maxntid" | ".reqntid" => max_threads = self.dimensions()?,
                ".minnctapersm" | ".maxnreg" => {
                    self.dimensions()?;
                }
                ".noreturn" => {}
                _ => return Err(here.error(ParseErrorKind::UnknownDirective(word.to_owned()))),
            }
        }
        let index = self.declare(name, place, signature, is_entry, max_threads)?;
        if self.lexer.take(b';')? {
            return Ok(());
        }
        self.lexer.expect(b'{', "the body of a function")?;
        let defined = self
            .program
            .functions
            .get(index as usize)
            .is_some_and(|f| f.start.is_some());
        if defined {
            return Err(place.error(ParseErrorKind::DuplicateName(name.to_owned())));
        }
        let start = self.position(place)?;
        let mut body = Body::new(self, &named)?;
        body.parse()?;
        let (slots, local_bytes) = body.frame();
        if let Some(function) = self.program.functions.get_mut(index as usize) {
            (function.start, function.slots, function.local_bytes) = (Some(start), slots, local_bytes);
        }
        Ok(())
    }

    /// Returns the product of dimensions.
    fn dimensions(&mut self) -> Result<u32, ParseError> {
        let mut product = 1u32;
        loop {
            let place = self.lexer.place();
            let word = self.lexer.word("a number")?;
            let number = number::parse_u32(word);
            let number = number.ok_or_else(|| place.error(ParseErrorKind::NumberOutOfRange(word.to_owned())))?;
            product = product.saturating_mul(number);
            if !self.lexer.take(b',')? {
                return Ok(product);
            }
        }
    }

    /// Adds a function, or returns the index of an earlier declaration with the same signature.
    fn declare(
        &mut self,
        name: &'a str,
        place: Place,
        signature: Signature,
        is_entry: bool,
        max_threads: u32,
    ) -> Result<u32, ParseError> {
        if let Some(global) = self.names.get(name) {
            let Global::Function(index) = *global else {
                return Err(place.error(ParseErrorKind::DuplicateName(name.to_owned())));
            };
            let earlier = self.program.functions.get(index as usize);
            if !earlier.is_some_and(|f| f.signature == signature && f.is_entry == is_entry) {
                return Err(place.error(ParseErrorKind::ArgumentMismatch(name.to_owned())));
            }
            return Ok(index);
        }
        let index = self.program.functions.len();
        if index >= MAX_FUNCTIONS {
            return Err(place.error(ParseErrorKind::Limit("functions")));
        }
        self.program.functions.push(Function {
            name: name.to_owned(),
            signature,
            is_entry,
            max_threads,
            start: None,
            slots: 0,
            local_bytes: 0,
        });
        self.places.push(place);
        self.names.insert(name, Global::Function(index as u32));
        Ok(index as u32)
    }

    /// Returns the index of the next operation.
    fn position(&self, place: Place) -> Result<u32, ParseError> {
        let position = self.program.operations.len();
        if position >= MAX_OPERATIONS {
            return Err(place.error(ParseErrorKind::Limit("instructions")));
        }
        Ok(position as u32)
    }
}

/// Returns the width of an access of a size.
fn width_of(bytes: u8) -> Width {
    match bytes {
        1 => Width::Byte,
        2 => Width::Half,
        4 => Width::Word,
        _ => Width::Double,
    }
}
