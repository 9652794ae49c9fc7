//! How values are written: digits grouped by thin spaces, hex in lower case, sizes and times with their units.

/// The space between groups of three digits.
pub const THIN: char = '\u{2009}';

/// A count with its digits in groups of three.
#[must_use]
pub fn count(n: u64) -> String {
    group(&n.to_string())
}

/// A count of things in words: `1 job`, `23 jobs`.
#[must_use]
pub fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// A sentence with the digits of its counts in groups of three. Numbers that are part of something else, addresses,
/// versions, names, stay as they are.
#[must_use]
pub fn grouped(sentence: &str) -> String {
    let mut out = String::with_capacity(sentence.len() + 8);
    for (i, word) in sentence.split(' ').enumerate() {
        if i > 0 {
            out.push(' ');
        }
        let start = word.len() - word.trim_start_matches(['(', '"']).len();
        let end = word
            .trim_end_matches([',', '.', ';', ':', ')', '"', '?', '!'])
            .len()
            .max(start);
        let number = word.get(start..end).unwrap_or_default();
        if number.len() > 3
            && number.len() < 20
            && number.bytes().all(|b| b.is_ascii_digit())
            && !number.starts_with('0')
        {
            out.push_str(word.get(..start).unwrap_or_default());
            out.push_str(&group(number));
            out.push_str(word.get(end..).unwrap_or_default());
        } else {
            out.push_str(word);
        }
    }
    out
}

fn group(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(THIN);
        }
        out.push(c);
    }
    out
}

/// A value of a register of `width` bytes as hex with all its digits.
#[must_use]
pub fn hex(value: u64, width: u8) -> String {
    match width {
        1 => format!("{value:#04x}"),
        2 => format!("{value:#06x}"),
        8 => format!("{value:#018x}"),
        _ => format!("{value:#010x}"),
    }
}

/// A size in bytes, to three figures.
#[must_use]
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut v, mut unit) = (n as f64, 0);
    while v >= 1024.0 && unit + 1 < UNITS.len() {
        v /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{n} B"),
        _ if v < 10.0 => format!("{v:.1} {}", UNITS[unit]),
        _ => format!("{v:.0} {}", UNITS[unit]),
    }
}

/// A duration in the unit that suits it.
#[must_use]
pub fn duration(ns: u64) -> String {
    let v = ns as f64;
    if ns < 1_000 {
        format!("{ns} ns")
    } else if ns < 1_000_000 {
        format!("{:.1} µs", v / 1e3)
    } else if ns < 1_000_000_000 {
        format!("{:.2} ms", v / 1e6)
    } else {
        format!("{:.2} s", v / 1e9)
    }
}

/// A time as seconds with microseconds, in groups of three.
#[must_use]
pub fn seconds(ns: u64) -> String {
    let us = ns / 1_000;
    format!(
        "{}.{:03}{THIN}{:03} s",
        group(&(us / 1_000_000).to_string()),
        us / 1_000 % 1_000,
        us % 1_000
    )
}

/// A time, seconds since 1970, as a date and a time of day in UTC.
#[must_use]
pub fn date(unix_s: u64) -> String {
    let (days, rest) = (unix_s / 86_400, unix_s % 86_400);
    // Days since 1 March of the year 0, in which every leap day is the last of its year.
    let day = days + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let (d, m) = (
        of_year - (153 * month + 2) / 5 + 1,
        if month < 10 { month + 3 } else { month - 9 },
    );
    let y = year_of_era + era * 400 + u64::from(m <= 2);
    let (h, min, s) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{y:04}-{m:02}-{d:02} {h:02}:{min:02}:{s:02} UTC")
}

/// A signed difference of times in microseconds.
#[must_use]
pub fn offset_us(ns: i64) -> String {
    let sign = if ns < 0 { '-' } else { '+' };
    let a = ns.unsigned_abs();
    if a >= 1_000_000_000 {
        format!("{sign}{}.{:03} s", a / 1_000_000_000, a / 1_000_000 % 1_000)
    } else if a >= 10_000_000 {
        format!("{sign}{}.{:03} ms", a / 1_000_000, a / 1_000 % 1_000)
    } else {
        format!("{sign}{}.{:03} µs", group(&(a / 1_000).to_string()), a % 1_000)
    }
}

/// A text cut in the middle so that at most `most` characters are left.
#[must_use]
pub fn middle(text: &str, most: usize) -> String {
    let n = text.chars().count();
    if n <= most || most < 3 {
        return text.to_owned();
    }
    let keep = most - 1;
    let (head, tail) = (keep.div_ceil(2), keep / 2);
    text.chars()
        .take(head)
        .chain(std::iter::once('…'))
        .chain(text.chars().skip(n - tail))
        .collect()
}

/// Reads a number as people write it: decimal, `0x…`, with spaces, thin spaces or `_` between groups.
#[must_use]
pub fn parse_number(text: &str) -> Option<u64> {
    let clean: String = text
        .chars()
        .filter(|c| !c.is_whitespace() && *c != '_' && *c != THIN)
        .collect();
    match clean.strip_prefix("0x").or_else(|| clean.strip_prefix("0X")) {
        Some(h) => u64::from_str_radix(h, 16).ok(),
        None => clean.parse().ok(),
    }
}

/// A value in few characters.
#[must_use]
pub fn short(v: f64) -> String {
    if v == 0.0 {
        "0".into()
    } else if v.abs() >= 1e6 || v.abs() < 1e-3 {
        format!("{v:.3e}")
    } else if v.fract() == 0.0 {
        format!("{v}")
    } else {
        format!("{v:.4}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_people_read_them() {
        assert_eq!(count(8542), "8\u{2009}542");
        assert_eq!(count(12), "12");
        assert_eq!(
            grouped("16385 pages at event 2411."),
            "16\u{2009}385 pages at event 2\u{2009}411."
        );
        let same = "0x1234 at 127.0.0.1:7199, r1234p0, 0001, 3.14159 and 12 (b1234)";
        assert_eq!(grouped(same), same);
        assert_eq!(
            (counted(1, "job", "jobs"), counted(0, "job", "jobs")),
            ("1 job".into(), "0 jobs".into())
        );
        assert_eq!(hex(0x87b00, 4), "0x00087b00");
        assert_eq!(bytes(538 << 20), "538 MiB");
        assert_eq!(seconds(12_895_703_000), "12.895\u{2009}703 s");
        assert_eq!(offset_us(-17_708), "-17.708 µs");
        // `date -u -d @SECONDS` says the same.
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_399), "2000-02-28 23:59:59 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(date(1_795_304_222), "2026-11-21 23:37:02 UTC");
        assert_eq!(middle("a_very_long_name.kine", 9), "a_ve…kine");
        assert_eq!(parse_number("0xffff b000"), Some(0xffff_b000));
        assert_eq!(parse_number("8\u{2009}542"), Some(8542));
        assert_eq!(parse_number("x"), None);
    }
}
