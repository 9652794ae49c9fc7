//! Lines of a plan's text: words, numbers, quoted text.

use trace_core::PhysAddr;

/// The error for text that is not a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column} of the plan: {reason}")]
pub struct TextError {
    /// Line number, starting at 1.
    pub line: usize,
    /// Character in the line, starting at 1.
    pub column: usize,
    /// What is wrong.
    pub reason: String,
}

/// Returns text in quotes, with escapes.
pub(super) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                out.push_str("\\u{");
                out.push_str(&format!("{:x}", u32::from(c)));
                out.push('}');
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// The fields of a line, read in order.
pub(super) struct Fields<'a> {
    line: usize,
    whole: &'a str,
    rest: &'a str,
    /// Byte position of the last field in the line.
    at: usize,
    /// Start of the arena, once it is known.
    base: Option<PhysAddr>,
}

impl<'a> Fields<'a> {
    pub fn new(line: usize, text: &'a str, base: Option<PhysAddr>) -> Self {
        let whole = text.trim_end();
        Self {
            line,
            whole,
            rest: whole.trim_start(),
            at: whole.len() - whole.trim_start().len(),
            base,
        }
    }

    pub fn error(&self, reason: String) -> TextError {
        TextError {
            line: self.line,
            column: self.whole.get(..self.at).map_or(0, |t| t.chars().count()) + 1,
            reason,
        }
    }

    /// Marks the start of the next field.
    fn begin(&mut self) {
        self.at = self.whole.len() - self.rest.len();
    }

    /// Returns whether quoted text is next.
    pub fn is_quoted(&self) -> bool {
        self.rest.starts_with('"')
    }

    /// Reads the next word, quoted or not.
    pub fn any(&mut self, what: &str) -> Result<String, TextError> {
        self.begin();
        if self.rest.is_empty() {
            return Err(self.error(format!("{what} is missing")));
        }
        let end = self.rest.find(char::is_whitespace).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        Ok(word.to_owned())
    }

    /// Reads a number, or an address of the arena, `arena+0x1000`, as its offset from the arena's start.
    fn relative(&mut self, what: &str) -> Result<(u64, bool), TextError> {
        let word = self.any(what)?;
        match word.strip_prefix("arena+") {
            Some(offset) => Ok((self.parse(offset, what)?, true)),
            None => Ok((self.parse(&word, what)?, false)),
        }
    }

    /// Reads a number; `arena+0x1000` is that address.
    pub fn address(&mut self, what: &str) -> Result<u64, TextError> {
        match self.relative(what)? {
            (n, false) => Ok(n),
            (n, true) => {
                let base = self
                    .base
                    .ok_or_else(|| self.error("the line `arena` must come first".to_owned()))?;
                let sum = base.checked_add(n).map(PhysAddr::get);
                sum.ok_or_else(|| self.error(format!("{what}: beyond the last address")))
            }
        }
    }

    /// Reads a number; `arena+0x1000` is only the offset.
    pub fn offset(&mut self, what: &str) -> Result<u64, TextError> {
        Ok(self.relative(what)?.0)
    }

    /// Reads a frame number; `arena+0x1000` is the frame there.
    pub fn frame(&mut self, what: &str) -> Result<u64, TextError> {
        let mut ahead = Self { ..*self };
        if ahead.any(what)?.starts_with("arena+") {
            let at = self.address(what)?;
            if !at.is_multiple_of(4096) {
                return Err(self.error(format!("{what}: not a multiple of 4096")));
            }
            return Ok(at / 4096);
        }
        self.number(what)
    }

    pub fn word(&mut self, expected: &str) -> Result<(), TextError> {
        match self.any(&format!("`{expected}`"))? {
            word if word == expected => Ok(()),
            word => Err(self.error(format!("expected `{expected}`, found `{word}`"))),
        }
    }

    /// Reads a number, decimal or with `0x`, that fits its type.
    pub fn number<T: TryFrom<u64>>(&mut self, what: &str) -> Result<T, TextError> {
        let word = self.any(what)?;
        self.parse(&word, what)
    }

    pub fn parse<T: TryFrom<u64>>(&self, word: &str, what: &str) -> Result<T, TextError> {
        let (digits, radix) = word.strip_prefix("0x").map_or((word, 10), |hex| (hex, 16));
        // The number parser would accept a sign, too.
        let value = Some(digits).filter(|d| !d.starts_with('+'));
        value
            .and_then(|d| u64::from_str_radix(d, radix).ok())
            .and_then(|v| T::try_from(v).ok())
            .ok_or_else(|| self.error(format!("{what}: `{word}` is not a number that fits")))
    }

    /// Reads a keyword and the number after it.
    pub fn named<T: TryFrom<u64>>(&mut self, name: &str) -> Result<T, TextError> {
        self.word(name)?;
        self.number(name)
    }

    /// Reads a number, or `-` for none.
    pub fn optional(&mut self, what: &str) -> Result<Option<u64>, TextError> {
        let word = self.any(what)?;
        if word == "-" {
            Ok(None)
        } else {
            self.parse(&word, what).map(Some)
        }
    }

    /// Reads quoted text.
    pub fn text(&mut self, what: &str) -> Result<String, TextError> {
        self.begin();
        let Some(inner) = self.rest.strip_prefix('"') else {
            return Err(self.error(format!("{what} must be in quotes")));
        };
        let mut out = String::new();
        let mut chars = inner.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = inner.get(at + 1..).unwrap_or("").trim_start();
                    return Ok(out);
                }
                '\\' => match chars.next().map(|(_, c)| c) {
                    Some('n') => out.push('\n'),
                    Some('r') => out.push('\r'),
                    Some('t') => out.push('\t'),
                    Some(c @ ('"' | '\\')) => out.push(c),
                    Some('u') => {
                        let open = chars.next().is_some_and(|(_, c)| c == '{');
                        let hex: String = chars.by_ref().map(|(_, c)| c).take_while(|c| *c != '}').collect();
                        let digits = Some(&hex).filter(|h| open && !h.starts_with('+'));
                        let c = digits
                            .and_then(|h| u32::from_str_radix(h, 16).ok())
                            .and_then(char::from_u32);
                        out.push(c.ok_or_else(|| self.error(format!("`\\u{{{hex}}}` is not a character")))?);
                    }
                    _ => return Err(self.error(format!("{what} has an unknown escape"))),
                },
                c => out.push(c),
            }
        }
        Err(self.error(format!("{what} has no closing quote")))
    }

    /// Checks that only a comment is left.
    pub fn end(&mut self) -> Result<(), TextError> {
        self.begin();
        if self.rest.is_empty() || self.rest.starts_with('#') {
            return Ok(());
        }
        Err(self.error(format!("`{}` is too much in this line", self.rest)))
    }
}
