//! Words, numbers and punctuation of a text, with their places.

use crate::error::{ParseError, ParseErrorKind};

/// A word, a quoted text, or one character of punctuation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// A name, directive, instruction with its modifiers, or number.
    Word(&'a str),
    /// A text between quotation marks.
    Text(&'a str),
    /// One character.
    Punctuation(u8),
    /// End of the text.
    End,
}

impl Token<'_> {
    pub fn describe(&self) -> String {
        match self {
            Self::Word(word) => (*word).to_owned(),
            Self::Text(text) => format!("\"{text}\""),
            Self::Punctuation(byte) => char::from(*byte).to_string(),
            Self::End => "the end of the text".to_owned(),
        }
    }
}

/// A place in a text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    /// Line, from 1.
    pub line: u32,
    /// Column in bytes, from 1.
    pub column: u32,
}

impl Place {
    pub fn error(self, kind: ParseErrorKind) -> ParseError {
        ParseError {
            line: self.line,
            column: self.column,
            kind,
        }
    }
}

/// A lexer with one token of look-ahead.
pub struct Lexer<'a> {
    text: &'a str,
    /// Offset behind the look-ahead.
    at: usize,
    line: u32,
    line_start: usize,
    ahead: Token<'a>,
    /// Place of the look-ahead.
    place: Place,
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%' | b'.')
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a str) -> Result<Self, ParseError> {
        let mut lexer = Self {
            text,
            at: 0,
            line: 1,
            line_start: 0,
            ahead: Token::End,
            place: Place::default(),
        };
        lexer.advance()?;
        Ok(lexer)
    }

    /// Returns the next token and leaves it.
    pub fn peek(&self) -> Token<'a> {
        self.ahead
    }

    /// Returns the place of the next token.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Takes the next token.
    pub fn next(&mut self) -> Result<Token<'a>, ParseError> {
        let token = self.ahead;
        self.advance()?;
        Ok(token)
    }

    /// Takes the next token if it is this character.
    pub fn take(&mut self, byte: u8) -> Result<bool, ParseError> {
        let found = self.ahead == Token::Punctuation(byte);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    /// Takes the next token, which must be this character.
    pub fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), ParseError> {
        if self.take(byte)? {
            return Ok(());
        }
        Err(self.unexpected(expected))
    }

    /// Takes the next token, which must be a word.
    pub fn word(&mut self, expected: &'static str) -> Result<&'a str, ParseError> {
        let Token::Word(word) = self.ahead else {
            return Err(self.unexpected(expected));
        };
        self.advance()?;
        Ok(word)
    }

    /// Returns the error that says what the text needs here.
    pub fn unexpected(&self, expected: &'static str) -> ParseError {
        self.place.error(ParseErrorKind::Unexpected {
            expected,
            found: self.ahead.describe(),
        })
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn skip_line(&mut self) {
        self.at += self.rest().find('\n').unwrap_or(self.rest().len());
    }

    fn skip_block(&mut self) {
        let rest = self.rest();
        let length = rest.find("*/").map_or(rest.len(), |n| n + 2);
        let skipped = rest.get(..length).unwrap_or(rest);
        let lines = skipped.bytes().filter(|b| *b == b'\n').count();
        self.line = self.line.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
        if let Some(n) = skipped.rfind('\n') {
            self.line_start = self.at + n + 1;
        }
        self.at += length;
    }

    fn skip_space(&mut self) {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            match byte {
                b'\n' => {
                    self.at += 1;
                    self.line = self.line.saturating_add(1);
                    self.line_start = self.at;
                }
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'/' if bytes.get(self.at + 1) == Some(&b'/') => self.skip_line(),
                b'/' if bytes.get(self.at + 1) == Some(&b'*') => self.skip_block(),
                _ => break,
            }
        }
    }

    fn advance(&mut self) -> Result<(), ParseError> {
        self.skip_space();
        let column = u32::try_from(self.at - self.line_start)
            .unwrap_or(u32::MAX)
            .saturating_add(1);
        self.place = Place {
            line: self.line,
            column,
        };
        let bytes = self.text.as_bytes();
        let Some(&first) = bytes.get(self.at) else {
            self.ahead = Token::End;
            return Ok(());
        };
        let start = self.at;
        if is_word(first) {
            while bytes.get(self.at).is_some_and(|b| is_word(*b)) {
                self.at += 1;
            }
            self.ahead = Token::Word(self.text.get(start..self.at).unwrap_or(""));
        } else if first == b'"' {
            let rest = self.text.get(start + 1..).unwrap_or("");
            let Some(length) = rest
                .find(['"', '\n'])
                .filter(|n| rest.as_bytes().get(*n) == Some(&b'"'))
            else {
                return Err(self.place.error(ParseErrorKind::Unexpected {
                    expected: "a closing quotation mark",
                    found: "the end of the line".to_owned(),
                }));
            };
            self.at += length + 2;
            self.ahead = Token::Text(rest.get(..length).unwrap_or(""));
        } else if first.is_ascii_graphic() {
            self.at += 1;
            self.ahead = Token::Punctuation(first);
        } else {
            return Err(self.place.error(ParseErrorKind::Unexpected {
                expected: "ASCII text",
                found: format!("byte {first:#04x}"),
            }));
        }
        Ok(())
    }
}
