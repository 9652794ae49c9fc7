//! Tokens of PTX text: words and marks, without comments.

use crate::Error;

/// A token: a word, a one-byte mark, or a string with its quotes. A word that starts with a point ends before the next
/// point, so `.param.u64` is two tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    /// Offset of its first byte.
    pub at: usize,
    /// Its bytes.
    pub text: &'a [u8],
}

impl Token<'_> {
    /// Returns the offset after its last byte.
    pub(super) fn end(&self) -> usize {
        self.at + self.text.len()
    }
}

/// An iterator over the tokens of a text.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    taken: Option<Token<'a>>,
}

/// Whether a word can continue with this byte.
fn in_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | b'%') || b >= 0x80
}

impl<'a> Cursor<'a> {
    /// Creates a cursor over the text up to its first zero byte.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let len = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
        Self {
            bytes: bytes.get(..len).unwrap_or_default(),
            at: 0,
            taken: None,
        }
    }

    /// Returns the last token taken.
    pub(super) fn taken(&self) -> Option<Token<'a>> {
        self.taken
    }

    /// Returns the error for an unexpected token at this position. `None` is the end of the text.
    pub(super) fn expected(&self, expected: &'static str, found: Option<Token<'_>>) -> Error {
        let text = found.map_or(&b"the end"[..], |t| t.text);
        let mut text = String::from_utf8_lossy(text.get(..40).unwrap_or(text)).into_owned();
        if found.is_some_and(|t| t.text.len() > 40) {
            text.push('…');
        }
        Error::Text {
            at: found.map_or(self.bytes.len(), |t| t.at) as u64,
            expected,
            found: text,
        }
    }

    /// Skips white space and comments.
    fn skip_space(&mut self) {
        while let Some(&b) = self.bytes.get(self.at) {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            if b.is_ascii_whitespace() || b == 0x0b {
                self.at += 1;
            } else if rest.starts_with(b"//") {
                self.at += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
            } else if rest.starts_with(b"/*") {
                let body = rest.get(2..).unwrap_or_default();
                self.at += body
                    .windows(2)
                    .position(|w| w == b"*/")
                    .map_or(rest.len(), |end| end + 4);
            } else {
                return;
            }
        }
    }

    /// Returns the next token without taking it.
    pub(super) fn peek(&self) -> Option<Token<'a>> {
        self.clone().next()
    }

    /// Takes the next token if it is `text`.
    pub(super) fn take(&mut self, text: &[u8]) -> bool {
        let mut ahead = self.clone();
        let takes = ahead.next().is_some_and(|token| token.text == text);
        if takes {
            *self = ahead;
        }
        takes
    }

    /// Takes the next token, which must be `text`.
    pub(super) fn expect(&mut self, text: &[u8], expected: &'static str) -> Result<(), Error> {
        match self.next() {
            Some(token) if token.text == text => Ok(()),
            other => Err(self.expected(expected, other)),
        }
    }

    /// Takes a word that is not a directive: a name or a number.
    pub(super) fn word(&mut self, expected: &'static str) -> Result<&'a str, Error> {
        let token = self.next();
        let word = token.filter(|t| t.text.first().is_some_and(|&b| in_word(b)));
        word.and_then(|t| std::str::from_utf8(t.text).ok())
            .ok_or_else(|| self.expected(expected, token))
    }

    /// Takes a number: decimal, `0x` or octal in C notation, with or without a `U` suffix.
    pub(super) fn number<N: TryFrom<u64>>(&mut self, expected: &'static str) -> Result<N, Error> {
        let token = self.next();
        let text = token.and_then(|t| std::str::from_utf8(t.text).ok()).unwrap_or_default();
        let text = text.strip_suffix('U').unwrap_or(text);
        let number = match (
            text.strip_prefix("0x").or(text.strip_prefix("0X")),
            text.strip_prefix('0'),
        ) {
            (Some(digits), _) => u64::from_str_radix(digits, 16).ok(),
            (None, Some(digits)) if !digits.is_empty() => u64::from_str_radix(digits, 8).ok(),
            _ => text.parse().ok(),
        };
        number
            .and_then(|n| N::try_from(n).ok())
            .ok_or_else(|| self.expected(expected, token))
    }

    /// Skips to the brace that closes the one just taken.
    pub(super) fn skip_braces(&mut self, open: Token<'_>) -> Result<(), Error> {
        let mut depth = 1u64;
        for token in self.by_ref() {
            match token.text {
                b"{" => depth += 1,
                b"}" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Ok(());
            }
        }
        Err(self.expected("a brace that closes this one", Some(open)))
    }
}

impl<'a> Iterator for Cursor<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        self.skip_space();
        let rest = self.bytes.get(self.at..)?;
        let (&first, tail) = rest.split_first()?;
        let len = if first == b'"' {
            // No escape makes a quote part of a string; an unterminated string takes the rest.
            tail.iter().position(|&b| b == b'"').map_or(rest.len(), |end| end + 2)
        } else if first == b'.' {
            1 + tail.iter().take_while(|&&b| in_word(b)).count()
        } else if first.is_ascii_digit() {
            1 + tail.iter().take_while(|&&b| in_word(b) || b == b'.').count()
        } else if in_word(first) {
            1 + tail.iter().take_while(|&&b| in_word(b)).count()
        } else {
            1
        };
        let token = Token {
            at: self.at,
            text: rest.get(..len)?,
        };
        self.at += len;
        self.taken = Some(token);
        Some(token)
    }
}
