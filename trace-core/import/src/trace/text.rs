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

/// Returns the mask of a value of a width.
pub(super) fn mask(width: u8) -> u64 {
    match width {
        8.. => u64::MAX,
        w => (1 << (8 * u32::from(w))) - 1,
    }
}

/// Parses a whole field as a time of ISO 8601 with its zone, `2026-03-14T09:26:53.589013Z` or with `+01:00` in place of
/// `Z`. Returns nanoseconds since 1970.
pub(super) fn iso_time(field: &[u8]) -> Option<u64> {
    fn digits(field: &[u8], at: usize, count: usize) -> Option<u64> {
        let part = field.get(at..at + count)?;
        part.iter().try_fold(0u64, |value, digit| {
            let digit = digit.checked_sub(b'0').filter(|d| *d < 10)?;
            Some(value * 10 + u64::from(digit))
        })
    }
    let is_form = field.get(4) == Some(&b'-')
        && field.get(7) == Some(&b'-')
        && matches!(field.get(10), Some(b'T' | b' '))
        && field.get(13) == Some(&b':')
        && field.get(16) == Some(&b':');
    if !is_form {
        return None;
    }
    let (year, month, day) = (digits(field, 0, 4)?, digits(field, 5, 2)?, digits(field, 8, 2)?);
    let (hour, minute, second) = (digits(field, 11, 2)?, digits(field, 14, 2)?, digits(field, 17, 2)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 24 || minute > 59 || second > 60 {
        return None;
    }
    let mut rest = field.get(19..)?;
    let (mut part, mut unit) = (0u64, 1_000_000_000u64);
    if let [b'.' | b',', after @ ..] = rest {
        rest = after;
        while let [digit @ b'0'..=b'9', after @ ..] = rest {
            unit /= 10;
            part += u64::from(digit - b'0') * unit;
            rest = after;
        }
    }
    // Minutes that the zone is ahead of the universal time.
    let ahead = match rest {
        b"Z" | b"z" | b"" => 0i64,
        [sign @ (b'+' | b'-'), zone @ ..] => {
            let hours = digits(zone, 0, 2)?;
            let minutes = match zone.get(2..)? {
                b"" => 0,
                [b':', ..] if zone.len() == 5 => digits(zone, 3, 2)?,
                _ if zone.len() == 4 => digits(zone, 2, 2)?,
                _ => return None,
            };
            let all = i64::try_from(hours * 60 + minutes).ok()?;
            if *sign == b'-' { -all } else { all }
        }
        _ => return None,
    };
    // Days since 1970-01-01, with years that begin in March.
    let (year, month) = (i64::try_from(year).ok()?, i64::try_from(month).ok()?);
    let shifted = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (shifted.div_euclid(400), shifted.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + i64::try_from(day).ok()? - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    let of_day = i64::try_from(hour * 3600 + minute * 60 + second).ok()?;
    let seconds = u64::try_from(days * 86_400 + of_day - ahead * 60).ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(part)
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
    fn times_of_iso_8601_count_from_1970() {
        for (text, time) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2026-03-14T09:26:53.589013Z", Some(1_773_480_413_589_013_000)),
            ("2026-03-14T10:26:53.589013+01:00", Some(1_773_480_413_589_013_000)),
            ("2026-03-14T03:56:53.589013-0530", Some(1_773_480_413_589_013_000)),
            ("2024-02-29T23:59:59.5Z", Some(1_709_251_199_500_000_000)),
            ("2100-03-01T00:00:00Z", Some(4_107_542_400_000_000_000)),
            ("1969-12-31T23:59:59Z", None),
            ("2026-13-14T09:26:53Z", None),
            ("2026-03-14T09:26:5", None),
            ("2026-03-14T09:26:53X", None),
            ("2026-03-14", None),
        ] {
            assert_eq!(iso_time(text.as_bytes()), time, "{text}");
        }
    }

    #[test]
    fn a_block_is_cut_into_lines() {
        let all: Vec<_> = lines(b"a\n\nbc\r\n\xff").collect();
        assert_eq!(all, [&b"a"[..], b"", b"bc\r", b"\xff"]);
        assert_eq!(lines(b"").count(), 0);
    }
}
