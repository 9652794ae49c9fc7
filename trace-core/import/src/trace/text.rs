//! Fields and numbers of a text line, parsed from bytes by hand: a log has millions of lines.

/// A line that is read from its start; every reader returns `None` if the line continues differently.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    rest: &'a [u8],
}

impl<'a> Line<'a> {
    pub(crate) fn new(line: &'a [u8]) -> Self {
        Self { rest: line }
    }

    /// Returns the unread rest.
    pub(super) fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// Skips this text, if it is next.
    pub(super) fn tag(&mut self, text: &[u8]) -> Option<()> {
        self.rest = self.rest.strip_prefix(text)?;
        Some(())
    }

    /// Skips blanks, if there are any.
    pub(super) fn blanks(&mut self) {
        while let [b' ' | b'\t', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    /// Returns the next field, which ends at a blank or at the line end; never empty.
    pub(super) fn word(&mut self) -> Option<&'a [u8]> {
        self.blanks();
        let end = self
            .rest
            .iter()
            .position(|b| matches!(b, b' ' | b'\t'))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }

    /// Parses the next field as a decimal number of at most 32 bits.
    pub(super) fn decimal(&mut self) -> Option<u32> {
        self.blanks();
        let mut value = 0u32;
        let mut digits = 0;
        while let [digit @ b'0'..=b'9', rest @ ..] = self.rest {
            value = value.checked_mul(10)?.checked_add(u32::from(digit - b'0'))?;
            self.rest = rest;
            digits += 1;
        }
        (digits > 0 && self.at_end_of_field()).then_some(value)
    }

    /// Parses the next field as a hexadecimal number of at most 64 bits, with or without `0x`.
    pub(super) fn hex(&mut self) -> Option<u64> {
        self.blanks();
        if let [b'0', b'x', rest @ ..] = self.rest {
            self.rest = rest;
        }
        let mut value = 0u64;
        let mut digits = 0;
        while let [c, rest @ ..] = self.rest
            && let Some(digit) = hex_digit(*c)
        {
            if value >> 60 != 0 {
                return None;
            }
            value = value << 4 | u64::from(digit);
            self.rest = rest;
            digits += 1;
        }
        (digits > 0 && self.at_end_of_field()).then_some(value)
    }

    /// Parses the next field as a time, `SECONDS.FRACTION` with one to nine fraction digits, in nanoseconds.
    pub(crate) fn time(&mut self) -> Option<u64> {
        self.blanks();
        let mut seconds = 0u64;
        let mut digits = 0;
        while let [digit @ b'0'..=b'9', rest @ ..] = self.rest {
            seconds = seconds.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
            self.rest = rest;
            digits += 1;
        }
        self.tag(b".")?;
        let (mut part, mut unit) = (0u64, 1_000_000_000u64);
        while let [digit @ b'0'..=b'9', rest @ ..] = self.rest {
            unit /= 10;
            if unit == 0 {
                return None;
            }
            part = part * 10 + u64::from(digit - b'0');
            self.rest = rest;
        }
        if digits == 0 || unit == 1_000_000_000 || !self.at_end_of_field() {
            return None;
        }
        seconds.checked_mul(1_000_000_000)?.checked_add(part * unit)
    }

    fn at_end_of_field(&self) -> bool {
        matches!(self.rest, [] | [b' ' | b'\t' | b'\r', ..])
    }
}

fn hex_digit(c: u8) -> Option<u8> {
    match c {
        b'0'..=b'9' => Some(c - b'0'),
        b'a'..=b'f' => Some(c - b'a' + 10),
        b'A'..=b'F' => Some(c - b'A' + 10),
        _ => None,
    }
}

/// Parses a whole field as a hexadecimal number, with or without `0x`.
pub(super) fn hex(field: &[u8]) -> Option<u64> {
    let mut line = Line::new(field);
    let value = line.hex()?;
    line.rest().is_empty().then_some(value)
}

/// Returns the lines of a block, without their ends.
pub(crate) fn lines(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = block;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let (line, after) = rest.split_at_checked(end)?;
        rest = after.get(1..).unwrap_or_default();
        Some(line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_with_their_field_and_fit_their_type() {
        let mut line = Line::new(b"4 4294967295 0xFEbf0000 ffffffffffffffff 5.102335 12.000000001 end of it");
        assert_eq!((line.decimal(), line.decimal()), (Some(4), Some(u32::MAX)));
        assert_eq!((line.hex(), line.hex()), (Some(0xfebf_0000), Some(u64::MAX)));
        assert_eq!((line.time(), line.time()), (Some(5_102_335_000), Some(12_000_000_001)));
        assert_eq!((line.word(), line.rest()), (Some(&b"end"[..]), &b" of it"[..]));
        for invalid in ["4294967296", "12a", "", "-1", "0x1"] {
            assert_eq!(Line::new(invalid.as_bytes()).decimal(), None, "{invalid}");
        }
        for invalid in ["0x", "10000000000000000", "0xg", "12,", ""] {
            assert_eq!(Line::new(invalid.as_bytes()).hex(), None, "{invalid}");
        }
        for invalid in [
            "5",
            "5.",
            ".5",
            "5.1234567890",
            "99999999999999999999.0",
            "18446744074.0",
            "1.5s",
        ] {
            assert_eq!(Line::new(invalid.as_bytes()).time(), None, "{invalid}");
        }
    }

    #[test]
    fn a_block_is_cut_into_lines() {
        let all: Vec<_> = lines(b"a\n\nbc\r\n\xff").collect();
        assert_eq!(all, [&b"a"[..], b"", b"bc\r", b"\xff"]);
        assert_eq!(lines(b"").count(), 0);
    }
}
