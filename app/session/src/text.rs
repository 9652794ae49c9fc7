//! Formats of values: digits grouped by thin spaces, hex in lower case, sizes and times with their units.

/// The space between groups of three digits.
pub const THIN: char = '\u{2009}';

/// Formats a count with its digits in groups of three.
#[must_use]
pub fn count(n: u64) -> String {
    group(&n.to_string())
}

/// Formats a count of items in words: `1 job`, `23 jobs`.
#[must_use]
pub fn count_noun(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// Groups the digits of the counts in a sentence by three. Numbers that are part of something else (addresses,
/// versions, names) stay as they are.
#[must_use]
pub fn group_digits(sentence: &str) -> String {
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

/// Formats a value of a register of `width` bytes as hex with all its digits.
#[must_use]
pub fn hex(value: u64, width: u8) -> String {
    match width {
        1 => format!("{value:#04x}"),
        2 => format!("{value:#06x}"),
        8 => format!("{value:#018x}"),
        _ => format!("{value:#010x}"),
    }
}

/// Formats a size in bytes, to three figures.
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

/// Formats a duration in a suitable unit, to four figures: `180 µs`, `163.8 µs`, `13.06 s`.
#[must_use]
pub fn duration(ns: u64) -> String {
    const UNITS: [(&str, f64); 3] = [("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
    if ns < 1_000 {
        return format!("{ns} ns");
    }
    let v = ns as f64;
    // A value that rounds up to a thousand becomes one of the next unit.
    let (unit, one) = UNITS
        .into_iter()
        .find(|(_, one)| v / one < 999.95)
        .unwrap_or(("s", 1e9));
    let value = v / one;
    let decimals = match value {
        v if v < 9.9995 => 3,
        v if v < 99.995 => 2,
        v if v < 999.95 => 1,
        _ => 0,
    };
    format!("{} {unit}", trimmed(&format!("{value:.decimals$}")))
}

/// Formats a decimal number without trailing zeros, its digits in groups of three on both sides of the point.
fn trimmed(number: &str) -> String {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    group_decimal(whole, part.trim_end_matches('0'))
}

/// Formats a decimal number from its digits before and after the point, in groups of three on both sides of it.
fn group_decimal(whole: &str, part: &str) -> String {
    let mut out = group(whole);
    for (i, c) in part.chars().enumerate() {
        if i == 0 {
            out.push('.');
        } else if i.is_multiple_of(3) {
            out.push(THIN);
        }
        out.push(c);
    }
    out
}

/// Formats a time since the first event, exact, in a suitable unit: `180 µs`, `1.25 ms`, `12.895 703 s`.
#[must_use]
pub fn time(ns: u64) -> String {
    let (unit, one, digits) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => ("µs", 1_000, 3),
        1_000_000..1_000_000_000 => ("ms", 1_000_000, 6),
        _ => ("s", 1_000_000_000, 9),
    };
    let number = format!("{}.{:0digits$}", ns / one, ns % one);
    format!("{} {unit}", trimmed(&number))
}

/// Formats a label of a time axis whose marks are `step` nanoseconds apart, in the unit that suits `end`, the last
/// mark.
#[must_use]
pub fn tick(ns: f64, step: f64, end: f64) -> String {
    let (unit, one) = match end {
        e if e < 1e3 => ("ns", 1.0),
        e if e < 1e6 => ("µs", 1e3),
        e if e < 1e9 => ("ms", 1e6),
        _ => ("s", 1e9),
    };
    // As many decimals as are needed to distinguish two marks.
    let decimals = (one / step.max(1.0)).log10().ceil().clamp(0.0, 9.0) as usize;
    let number = format!("{:.decimals$}", ns / one);
    let (whole, part) = number.split_once('.').unwrap_or((&number, ""));
    format!("{} {unit}", group_decimal(whole, part))
}

/// Formats a label of an axis of ticks.
#[must_use]
pub fn count_ticks(n: u64) -> String {
    count_noun(n, "tick", "ticks")
}

/// The unit of all times of a table, so that their digits are aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Nanoseconds.
    Nanoseconds,
    /// Microseconds with three decimals.
    Microseconds,
    /// Seconds with six decimals.
    Seconds,
    /// Ticks of a counter.
    Ticks,
}

impl TimeUnit {
    /// Returns the unit for times up to this many nanoseconds.
    #[must_use]
    pub fn for_span(ns: u64) -> Self {
        match ns {
            0..10_000 => Self::Nanoseconds,
            10_000..1_000_000_000 => Self::Microseconds,
            _ => Self::Seconds,
        }
    }

    /// Formats a time since the first event.
    #[must_use]
    pub fn time(self, ns: u64) -> String {
        match self {
            Self::Ticks => group(&ns.to_string()),
            Self::Nanoseconds => format!("{} ns", group(&ns.to_string())),
            Self::Microseconds => format!("{}.{:03} µs", group(&(ns / 1_000).to_string()), ns % 1_000),
            Self::Seconds => {
                let us = ns / 1_000;
                format!(
                    "{}.{:03}{THIN}{:03} s",
                    group(&(us / 1_000_000).to_string()),
                    us / 1_000 % 1_000,
                    us % 1_000
                )
            }
        }
    }
}

/// Formats a time, seconds since 1970, as a date and a time of day in UTC.
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

/// Formats a signed difference of times in microseconds.
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

/// Cuts a text in the middle so that at most `max` characters are left. An offset at the end, such as `+0x3000`, stays
/// whole if there is room for it.
#[must_use]
pub fn truncate_middle(text: &str, max: usize) -> String {
    let n = text.chars().count();
    if n <= max || max < 3 {
        return text.to_owned();
    }
    let keep = max - 1;
    let offset = text
        .rfind("+0x")
        .map_or(0, |at| text.get(at..).unwrap_or_default().chars().count());
    let tail = if offset < keep { offset.max(keep / 2) } else { keep / 2 };
    let head = keep - tail;
    text.chars()
        .take(head)
        .chain(std::iter::once('…'))
        .chain(text.chars().skip(n - tail))
        .collect()
}

/// Parses a number as users write it: decimal, `0x…`, with spaces, thin spaces or `_` between groups.
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

/// Formats a value in few characters.
#[must_use]
pub fn format_short(v: f64) -> String {
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
    fn numbers_are_grouped_for_display() {
        assert_eq!(count(8542), "8\u{2009}542");
        assert_eq!(count(12), "12");
        assert_eq!(
            group_digits("16385 pages at event 2411."),
            "16\u{2009}385 pages at event 2\u{2009}411."
        );
        let same = "0x1234 at 127.0.0.1:7199, r1234p0, 0001, 3.14159 and 12 (b1234)";
        assert_eq!(group_digits(same), same);
        assert_eq!(
            (count_noun(1, "job", "jobs"), count_noun(0, "job", "jobs")),
            ("1 job".into(), "0 jobs".into())
        );
        assert_eq!(hex(0x87b00, 4), "0x00087b00");
        assert_eq!(bytes(538 << 20), "538 MiB");
        assert_eq!(offset_us(-17_708), "-17.708 µs");
        // `date -u -d @SECONDS` prints the same.
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_399), "2000-02-28 23:59:59 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(date(1_795_304_222), "2026-11-21 23:37:02 UTC");
        assert_eq!(truncate_middle("a_very_long_name.kine", 9), "a_ve…kine");
        assert_eq!(truncate_middle("memory@0x1800000000+0x1051004", 14), "mem…+0x1051004");
        assert_eq!(truncate_middle("memory@0x1800000000+0x10", 14), "memory@…0+0x10");
        assert_eq!(truncate_middle("memory@0x1800000000+0x1051004", 6), "mem…04");
        assert_eq!(parse_number("0xffff b000"), Some(0xffff_b000));
        assert_eq!(parse_number("8\u{2009}542"), Some(8542));
        assert_eq!(parse_number("x"), None);
    }

    #[test]
    fn a_time_has_the_unit_that_suits_it() {
        let shown = [0, 180, 1_000, 180_000, 180_250, 1_250_000, 12_895_703_000].map(time);
        let expected = [
            "0 ns",
            "180 ns",
            "1 µs",
            "180 µs",
            "180.25 µs",
            "1.25 ms",
            "12.895\u{2009}703 s",
        ];
        assert_eq!(shown, expected);
        let shown = [0, 999, 180_000, 163_840, 999_990, 13_060_000_000, 4_000_000_000_000].map(duration);
        let expected = [
            "0 ns",
            "999 ns",
            "180 µs",
            "163.8 µs",
            "1 ms",
            "13.06 s",
            "4\u{2009}000 s",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn axis_ticks_share_a_unit_and_are_distinct() {
        let labels = |from: f64, step: f64| [0.0, 1.0, 2.0].map(|n| tick(from + n * step, step, from + 3.0 * step));
        assert_eq!(labels(0.0, 50_000.0), ["0 µs", "50 µs", "100 µs"]);
        assert_eq!(labels(0.0, 200.0), ["0 ns", "200 ns", "400 ns"]);
        assert_eq!(labels(0.0, 2e9), ["0 s", "2 s", "4 s"]);
        let deep = labels(12_895_700_000.0, 10_000.0);
        assert_eq!(deep, ["12.895\u{2009}70 s", "12.895\u{2009}71 s", "12.895\u{2009}72 s"]);
    }

    #[test]
    fn table_times_share_a_unit_and_align() {
        let unit = TimeUnit::for_span(450_000);
        assert_eq!(
            (unit.time(180_000), unit.time(7)),
            ("180.000 µs".into(), "0.007 µs".into())
        );
        let unit = TimeUnit::for_span(12_895_703_000);
        assert_eq!(unit.time(12_895_703_000), "12.895\u{2009}703 s");
        assert_eq!(TimeUnit::for_span(9_000).time(1_234), "1\u{2009}234 ns");
    }
}
