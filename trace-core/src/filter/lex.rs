//! Lexer of the filter language: words, numbers, quoted texts and operators.

use super::error::{FilterError, FilterErrorKind};
use std::borrow::Cow;
use std::ops::Range;

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A word, with dots and dashes inside: `write`, `JS1_CONFIG.start_flush`, `host-write`, `bar3+0x10`.
    Word(&'a str),
    /// A quoted text, without its quotes.
    Text(Cow<'a, str>),
    /// A number, and whether it has a unit of time (then it is in nanoseconds).
    Number(u64, bool),
    /// An operator or a bracket.
    Sign(&'static str),
}

/// A token and its byte range in the text.
#[derive(Clone, Debug)]
pub(super) struct Spanned<'a> {
    pub token: Token<'a>,
    pub span: Range<usize>,
}

/// Longer operators come before their prefixes.
const SIGNS: [&str; 19] = [
    "&&", "||", "==", "=~", "!=", "!~", "<=", ">=", "..=", "..", "(", ")", "{", "}", ",", "=", "<", ">", "&",
];

/// Returns all tokens of a text.
pub(super) fn tokens(text: &str) -> Result<Vec<Spanned<'_>>, FilterError> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(next) = next(text, at)? {
        at = next.span.end;
        out.push(next);
    }
    Ok(out)
}

/// Returns the token that starts at a byte or after the spaces there; `None` at the end.
pub(super) fn next(text: &str, from: usize) -> Result<Option<Spanned<'_>>, FilterError> {
    let rest = text.get(from..).unwrap_or_default();
    let trimmed = rest.trim_start();
    let at = from + (rest.len() - trimmed.len());
    let Some(first) = trimmed.chars().next() else {
        return Ok(None);
    };
    let (token, len) = if first == '"' || first == '\'' {
        quoted(trimmed, first).ok_or_else(|| FilterError::new(FilterErrorKind::UnterminatedText, at..text.len()))?
    } else if first.is_ascii_digit() {
        let len = number_len(trimmed);
        let shown = trimmed.get(..len).unwrap_or_default();
        let (value, time) = number(shown).map_err(|why| {
            let text = shown.to_owned();
            FilterError::new(FilterErrorKind::Number { text, why }, at..at + len)
        })?;
        (Token::Number(value, time), len)
    } else if first.is_alphabetic() || first == '_' {
        let len = word_len(trimmed);
        (Token::Word(trimmed.get(..len).unwrap_or_default()), len)
    } else if let Some(sign) = SIGNS.iter().find(|s| trimmed.starts_with(**s)) {
        (Token::Sign(sign), sign.len())
    } else if first == '!' {
        (Token::Sign("!"), 1)
    } else {
        return Err(FilterError::new(
            FilterErrorKind::Character(first),
            at..at + first.len_utf8(),
        ));
    };
    Ok(Some(Spanned {
        token,
        span: at..at + len,
    }))
}

/// Returns the length of the word at the start of a text, bytes. A dot or a dash belongs to the word if a letter
/// follows; `+` and `@` belong to it if a digit follows, as in the locations of several spaces: `bar3+0x10`.
pub(super) fn word_len(text: &str) -> usize {
    let letter = |c: char| c.is_alphanumeric() || c == '_';
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, n)| *n);
        let joins = matches!(c, '.' | '-') && next.is_some_and(|n| n.is_alphabetic() || n == '_');
        let place = matches!(c, '+' | '@') && next.is_some_and(|n| n.is_ascii_digit());
        if !letter(c) && !joins && !place {
            return at;
        }
    }
    text.len()
}

fn number_len(text: &str) -> usize {
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let fraction = c == '.' && chars.peek().is_some_and(|(_, n)| n.is_ascii_digit());
        if !c.is_alphanumeric() && c != '_' && !fraction {
            return at;
        }
    }
    text.len()
}

/// Reads a quoted text; returns it with its length in bytes, including the quotes. A backslash before the same quote
/// makes that quote a part of the text. Any other backslash stands for itself, as regular expressions need it.
fn quoted(text: &str, quote: char) -> Option<(Token<'_>, usize)> {
    let mut escaped = false;
    let mut some = false;
    for (at, c) in text.char_indices().skip(1) {
        if escaped {
            escaped = false;
            some |= c == quote;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            let inner = text.get(1..at)?;
            let inner = if some {
                Cow::Owned(inner.replace(&format!("\\{quote}"), &quote.to_string()))
            } else {
                Cow::Borrowed(inner)
            };
            return Some((Token::Text(inner), at + 1));
        }
    }
    None
}

/// The units of time, in nanoseconds.
const UNITS: [(&str, u64); 4] = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

/// Parses a number in decimal, hexadecimal (`0x`), octal (`0o`) or binary (`0b`), with underscores between digits. A
/// decimal number may have a unit of time, and with a unit a fraction. Also returns whether it has a unit.
fn number(text: &str) -> Result<(u64, bool), &'static str> {
    const LARGE: &str = "it does not fit into 64 bits";
    let lower = text.to_ascii_lowercase();
    for (prefix, radix, why) in [
        ("0x", 16, "0x is followed by digits and a to f"),
        ("0o", 8, "0o is followed by digits from 0 to 7"),
        ("0b", 2, "0b is followed by digits 0 and 1"),
    ] {
        if let Some(digits) = lower.strip_prefix(prefix) {
            return whole(digits, radix, why, LARGE).map(|n| (n, false));
        }
    }
    let digits = lower
        .find(|c: char| !(c.is_ascii_digit() || c == '_' || c == '.'))
        .unwrap_or(lower.len());
    let (digits, unit) = lower.split_at(digits);
    const WHY: &str = "it has letters that are not a unit (ns, us, ms, s), or hexadecimal digits without 0x";
    let factor = match unit {
        "" => None,
        u => Some(UNITS.iter().find(|(n, _)| *n == u).ok_or(WHY)?.1),
    };
    let Some((before, behind)) = digits.split_once('.') else {
        let n = whole(digits, 10, WHY, LARGE)?;
        return match factor {
            Some(f) => n.checked_mul(f).ok_or(LARGE).map(|n| (n, true)),
            None => Ok((n, false)),
        };
    };
    let factor = factor.ok_or("only a time may have a fraction, as in 1.5ms")?;
    let n = whole(before, 10, WHY, LARGE)?.checked_mul(factor).ok_or(LARGE)?;
    let (mut part, mut of) = (0u64, factor);
    for c in behind.chars().filter(|c| *c != '_') {
        let digit = c.to_digit(10).ok_or("it has two decimal points")?;
        of /= 10;
        if of == 0 && digit != 0 {
            return Err("a time must be a whole number of nanoseconds");
        }
        part += u64::from(digit) * of;
    }
    n.checked_add(part).ok_or(LARGE).map(|n| (n, true))
}

fn whole(digits: &str, radix: u32, why: &'static str, large: &'static str) -> Result<u64, &'static str> {
    let mut n = 0u64;
    let mut any = false;
    for c in digits.chars().filter(|c| *c != '_') {
        let digit = c.to_digit(radix).ok_or(why)?;
        any = true;
        n = n
            .checked_mul(u64::from(radix))
            .and_then(|n| n.checked_add(u64::from(digit)))
            .ok_or(large)?;
    }
    if any { Ok(n) } else { Err(why) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Result<Token<'_>, FilterErrorKind> {
        next(text, 0).map(|s| s.unwrap().token).map_err(|e| e.what)
    }

    #[test]
    fn numbers_are_read_in_every_base_and_unit() {
        for (text, value, time) in [
            ("0", 0, false),
            ("1_000", 1000, false),
            ("0x1860", 0x1860, false),
            ("0XFFFF_ffff", 0xffff_ffff, false),
            ("0b1010_0001", 0xa1, false),
            ("0o17", 15, false),
            ("18446744073709551615", u64::MAX, false),
            ("10us", 10_000, true),
            ("1.5ms", 1_500_000, true),
            ("2s", 2_000_000_000, true),
            ("7ns", 7, true),
            ("0.000000001s", 1, true),
        ] {
            assert_eq!(one(text), Ok(Token::Number(value, time)), "{text}");
        }
        for bad in [
            "0x",
            "0xg",
            "0b2",
            "12ab",
            "18446744073709551616",
            "1.5",
            "1.5ns",
            "99999999999s",
            "1.2.3ms",
            "1__",
        ] {
            assert_eq!(one(bad).is_err(), bad != "1__", "{bad}");
        }
    }

    #[test]
    fn words_strings_and_operators_are_tokenized() {
        let all = |t: &str| {
            tokens(t)
                .unwrap()
                .into_iter()
                .map(|s| format!("{:?}", s.token))
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(
            all("job in 4..9 and JS1_CONFIG.start_flush!=3"),
            "Word(\"job\") Word(\"in\") Number(4, false) Sign(\"..\") Number(9, false) Word(\"and\") \
             Word(\"JS1_CONFIG.start_flush\") Sign(\"!=\") Number(3, false)"
        );
        assert_eq!(all("host-write"), "Word(\"host-write\")");
        assert_eq!(
            all(r#"reg=~"a\.b\"c" 'x'"#),
            r#"Word("reg") Sign("=~") Text("a\\.b\"c") Text("x")"#
        );
        assert!(matches!(tokens("a \"b").unwrap_err().span, r if r == (2..4)));
        assert_eq!(tokens("a # b").unwrap_err().what, FilterErrorKind::Character('#'));
        assert_eq!(
            all("1ms..2.5ms"),
            "Number(1000000, true) Sign(\"..\") Number(2500000, true)"
        );
        assert_eq!(all("4..=9"), "Number(4, false) Sign(\"..=\") Number(9, false)");
    }
}
