//! Rules of a comparison: what it excludes and its tolerances, one rule per line, as options or in a file.

use super::elements::Tolerance;
use crate::GpuVa;
use crate::ranges;
use crate::recording::{EventKind, Recording};
use crate::xref::parse_number;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// Maximum number of rules.
const MAX_RULES: usize = 10_000;
/// Maximum length of a line, bytes.
const LONGEST: usize = 4096;

/// The kinds of events and their words in rules and reports.
const KINDS: [(EventKind, &str); 17] = [
    (EventKind::Read, "read"),
    (EventKind::Write, "write"),
    (EventKind::Interrupt, "interrupt"),
    (EventKind::Submit, "submit"),
    (EventKind::Undecoded, "undecoded"),
    (EventKind::DmaMap, "dma-map"),
    (EventKind::Mark, "mark"),
    (EventKind::HostWrite, "host-write"),
    (EventKind::Launch, "launch"),
    (EventKind::Copy, "copy"),
    (EventKind::Fill, "fill"),
    (EventKind::Order, "order"),
    (EventKind::Allocation, "allocation"),
    (EventKind::Call, "call"),
    (EventKind::Object, "object"),
    (EventKind::RingEntry, "ring-entry"),
    (EventKind::SavedMemory, "saved-memory"),
];

/// Returns the word for a kind of event.
#[must_use]
pub fn kind_name(kind: EventKind) -> &'static str {
    KINDS.iter().find(|k| k.0 == kind).map_or("unknown", |k| k.1)
}

/// A pattern for names: `*` stands for any text, `?` for any character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// Returns the pattern that matches a name. Rules are split into words, so each blank in the name becomes a `?`,
    /// and so does the character that starts a comment.
    #[must_use]
    pub fn for_name(name: &str) -> Self {
        Self(
            name.chars()
                .map(|c| if c.is_whitespace() || c == '#' { '?' } else { c })
                .collect(),
        )
    }

    /// Returns whether the pattern matches a name.
    #[must_use]
    pub fn is_match(&self, name: &str) -> bool {
        let (pattern, name): (Vec<char>, Vec<char>) = (self.0.chars().collect(), name.chars().collect());
        let (mut p, mut n) = (0, 0);
        // The position of the last star, and how much of the name it covers so far.
        let mut star: Option<(usize, usize)> = None;
        while n < name.len() {
            match pattern.get(p) {
                Some('*') => {
                    star = Some((p, n));
                    p += 1;
                }
                Some(c) if *c == '?' || name.get(n) == Some(c) => {
                    p += 1;
                    n += 1;
                }
                _ => match &mut star {
                    Some((at, taken)) => {
                        *taken += 1;
                        (p, n) = (*at + 1, *taken);
                    }
                    None => return false,
                },
            }
        }
        pattern.get(p..).is_some_and(|rest| rest.iter().all(|c| *c == '*'))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// Values of a register, or of some of its fields, are not compared. The accesses are.
    Register {
        /// Name of the register, or its offset (`0x104`) if the map has no name.
        register: Pattern,
        /// Only these fields.
        field: Option<Pattern>,
    },
    /// Events of a kind are not compared.
    Events(EventKind),
    /// The contents of a buffer are not compared.
    Buffer(Pattern),
    /// A range of addresses is not compared.
    Memory {
        /// Number of the address space; all address spaces if `None`.
        space: Option<u8>,
        /// First address and one past the last.
        range: (GpuVa, GpuVa),
    },
    /// Page table mappings are not compared.
    Mappings,
    /// Elements of a buffer may differ within a tolerance.
    Tolerance {
        /// The buffer.
        buffer: Pattern,
        /// The tolerance.
        tolerance: Tolerance,
    },
}

/// Why a text is not a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct RuleError {
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// What is wrong and what would be valid.
    pub message: String,
}

/// All rules of a comparison, in the order in which they were given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// The rules.
    pub list: Vec<Rule>,
}

/// The words of a line, each with its start column.
struct RuleTokens<'a> {
    words: std::vec::IntoIter<(usize, &'a str)>,
    line: usize,
    end: usize,
}

impl<'a> RuleTokens<'a> {
    fn new(text: &'a str, line: usize) -> Self {
        let text = text.split_once('#').map_or(text, |t| t.0);
        let mut words = Vec::new();
        let mut rest = text;
        while let Some(begin) = rest.find(|c: char| !c.is_whitespace()) {
            let at = text.len() - rest.len() + begin;
            rest = rest.get(begin..).unwrap_or_default();
            let len = rest.find(char::is_whitespace).unwrap_or(rest.len());
            let (word, behind) = rest.split_at(len);
            words.push((1 + text.get(..at).map_or(0, |t| t.chars().count()), word));
            rest = behind;
        }
        Self {
            words: words.into_iter(),
            line,
            end: text.trim_end().chars().count() + 1,
        }
    }

    fn error(&self, column: usize, message: impl Into<String>) -> RuleError {
        RuleError {
            line: self.line,
            column,
            message: message.into(),
        }
    }

    fn next(&mut self, expected: &str) -> Result<(usize, &'a str), RuleError> {
        self.words
            .next()
            .ok_or_else(|| self.error(self.end, format!("expected {expected}")))
    }

    fn finish(mut self) -> Result<(), RuleError> {
        match self.words.next() {
            Some((at, word)) => Err(self.error(
                at,
                format!(
                    "'{word}' is not expected here: the rule is complete before \
                                                            it"
                ),
            )),
            None => Ok(()),
        }
    }
}

const WHAT: &str = "what to ignore: register NAME, events KIND, buffer NAME, memory FIRST..END, or mappings";

fn parse_ignore(words: &mut RuleTokens<'_>) -> Result<Rule, RuleError> {
    let (at, what) = words.next(WHAT)?;
    Ok(match what {
        "register" => {
            let register = Pattern(words.next("a register's name, * for any text")?.1.to_owned());
            let field = match words.words.next() {
                None => None,
                Some((_, "field")) => Some(Pattern(words.next("a field's name, * for any text")?.1.to_owned())),
                Some((at, other)) => {
                    return Err(words.error(at, format!("'{other}' is not valid here (expected: field NAME)")));
                }
            };
            Rule::Register { register, field }
        }
        "events" => {
            let all = KINDS.map(|k| k.1).join(", ");
            let (at, kind) = words.next(&format!("a kind of event: {all}"))?;
            match KINDS.iter().find(|k| k.1 == kind) {
                Some((kind, _)) => Rule::Events(*kind),
                None => return Err(words.error(at, format!("'{kind}' is not a kind of event (expected {all})"))),
            }
        }
        "buffer" => Rule::Buffer(Pattern(words.next("a buffer's name, * for any text")?.1.to_owned())),
        "memory" => {
            let (at, text) =
                words.next("addresses: FIRST..END or FIRST..=LAST, SPACE: before it for one address space")?;
            let bad = || {
                words.error(
                    at,
                    format!("'{text}' is not of the form [SPACE:]FIRST..END or [SPACE:]FIRST..=LAST"),
                )
            };
            let (space, range) = match text.split_once(':') {
                Some((space, range)) => (Some(space.parse().map_err(|_| bad())?), range),
                None => (None, text),
            };
            let typed = ranges::split(range).ok_or_else(bad)?;
            let (first, end) = (
                parse_number(typed.first).ok_or_else(bad)?,
                parse_number(typed.end).ok_or_else(bad)?,
            );
            let end = if typed.inclusive { end.saturating_add(1) } else { end };
            if first >= end {
                let why = "FIRST..END excludes END, FIRST..=LAST includes LAST";
                return Err(words.error(at, format!("'{text}' is empty: {why}")));
            }
            Rule::Memory {
                space,
                range: (GpuVa::new(first), GpuVa::new(end)),
            }
        }
        "mappings" => Rule::Mappings,
        other => return Err(words.error(at, format!("'{other}' cannot be ignored (expected {WHAT})"))),
    })
}

fn parse_tolerance(words: &mut RuleTokens<'_>) -> Result<Rule, RuleError> {
    const LIMITS: &str = "absolute NUMBER, relative NUMBER or ulp COUNT";
    match words.next("buffer NAME")? {
        (_, "buffer") => {}
        (at, other) => return Err(words.error(at, format!("'{other}' is not valid here (expected: buffer NAME)"))),
    }
    let buffer = Pattern(words.next("a buffer's name, * for any text")?.1.to_owned());
    let mut tolerance = Tolerance::default();
    while let Some((at, limit)) = words.words.next() {
        let (at_value, value) = match limit {
            "absolute" | "relative" | "ulp" => words.next("a number")?,
            other => return Err(words.error(at, format!("'{other}' is not a limit (expected {LIMITS})"))),
        };
        let bad = || words.error(at_value, format!("'{value}' is not a number of 0 or more"));
        let float = || {
            let v: f64 = value.parse().map_err(|_| bad())?;
            if v.is_finite() && v >= 0.0 { Ok(v) } else { Err(bad()) }
        };
        match limit {
            "absolute" => tolerance.absolute = Some(float()?),
            "relative" => tolerance.relative = Some(float()?),
            _ => tolerance.ulp = Some(parse_number(value).ok_or_else(bad)?),
        }
    }
    if !tolerance.is_some() {
        return Err(words.error(words.end, format!("expected {LIMITS}")));
    }
    Ok(Rule::Tolerance { buffer, tolerance })
}

/// Parses the rule in a line; `None` if the line is empty.
fn rule(text: &str, line: usize) -> Result<Option<Rule>, RuleError> {
    let mut words = RuleTokens::new(text, line);
    if text.len() > LONGEST {
        return Err(words.error(LONGEST, format!("the line is longer than {LONGEST} bytes")));
    }
    let Some((at, verb)) = words.words.next() else {
        return Ok(None);
    };
    let rule = match verb {
        "ignore" => parse_ignore(&mut words)?,
        "tolerance" => parse_tolerance(&mut words)?,
        other => return Err(words.error(at, format!("'{other}' is not a rule (expected ignore or tolerance)"))),
    };
    words.finish()?;
    Ok(Some(rule))
}

impl FromStr for Rules {
    type Err = RuleError;

    /// Parses rules, one per line; a `#` starts a comment.
    fn from_str(text: &str) -> Result<Self, RuleError> {
        let mut list = Vec::new();
        for (n, line) in text.lines().enumerate() {
            list.extend(rule(line, n + 1)?);
            if list.len() > MAX_RULES {
                return Err(RuleError {
                    line: n + 1,
                    column: 1,
                    message: format!("more than {MAX_RULES} rules"),
                });
            }
        }
        Ok(Self { list })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Register { register, field } => {
                write!(f, "ignore register {register}")?;
                field.iter().try_for_each(|name| write!(f, " field {name}"))
            }
            Self::Events(kind) => write!(f, "ignore events {}", kind_name(*kind)),
            Self::Buffer(name) => write!(f, "ignore buffer {name}"),
            Self::Memory { space, range } => {
                f.write_str("ignore memory ")?;
                space.iter().try_for_each(|s| write!(f, "{s}:"))?;
                write!(f, "{:#x}..{:#x}", range.0, range.1)
            }
            Self::Mappings => f.write_str("ignore mappings"),
            Self::Tolerance { buffer, tolerance } => {
                write!(f, "tolerance buffer {buffer}")?;
                let floats = [("absolute", tolerance.absolute), ("relative", tolerance.relative)];
                for (name, limit) in floats {
                    limit.iter().try_for_each(|v| write!(f, " {name} {v:e}"))?;
                }
                tolerance.ulp.iter().try_for_each(|v| write!(f, " ulp {v}"))
            }
        }
    }
}

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.list.iter().try_for_each(|r| writeln!(f, "{r}"))
    }
}

impl Rules {
    /// Returns whether events of a kind are compared.
    pub(super) fn compares(&self, kind: EventKind) -> bool {
        !self.list.contains(&Rule::Events(kind))
    }

    /// Returns whether page table mappings are compared.
    pub(super) fn compares_mappings(&self) -> bool {
        !self.list.contains(&Rule::Mappings)
    }

    /// Returns whether a buffer's contents are compared.
    pub(super) fn compares_buffer(&self, name: &str) -> bool {
        !self
            .list
            .iter()
            .any(|r| matches!(r, Rule::Buffer(p) if p.is_match(name)))
    }

    /// Returns the tolerance for raw images.
    #[must_use]
    pub fn image_tolerance(&self) -> Tolerance {
        self.tolerance("image")
    }

    /// Returns the tolerance for a buffer, from the last rule that matches it.
    pub(super) fn tolerance(&self, name: &str) -> Tolerance {
        let of = |r: &Rule| match r {
            Rule::Tolerance { buffer, tolerance } if buffer.is_match(name) => Some(*tolerance),
            _ => None,
        };
        self.list.iter().rev().find_map(of).unwrap_or_default()
    }

    /// Returns the patterns of the fields of a register that are not compared; `None` stands for the whole register.
    pub(super) fn rules_for_register<'r>(&'r self, name: &'r str) -> impl Iterator<Item = Option<&'r Pattern>> {
        self.list.iter().filter_map(move |r| match r {
            Rule::Register { register, field } if register.is_match(name) => Some(field.as_ref()),
            _ => None,
        })
    }

    /// Returns the addresses of a recording that are not compared: the buffers and the ranges in rules.
    pub(super) fn memory(&self, recording: &Recording) -> IgnoredMemory {
        let mut ranges: Vec<(Option<u8>, Range<u64>)> = Vec::new();
        for rule in &self.list {
            match rule {
                Rule::Memory { space, range } => ranges.push((*space, range.0.get()..range.1.get())),
                Rule::Buffer(name) => {
                    for b in recording.metadata.buffers.iter().filter(|b| name.is_match(&b.name)) {
                        let space = recording.metadata.address_spaces.get(b.address_space as usize);
                        ranges.push((space.map(|s| s.number), b.va.get()..b.va.get().saturating_add(b.bytes)));
                    }
                }
                _ => {}
            }
        }
        IgnoredMemory { ranges }
    }

    /// Returns the addresses of a recording whose bytes are not compared one by one: excluded addresses, and the
    /// buffers whose elements are compared with a tolerance.
    pub(super) fn memory_compared_by_element(&self, recording: &Recording) -> IgnoredMemory {
        let with_tolerance = |r: &Rule| match r {
            Rule::Tolerance { buffer, .. } => Some(Rule::Buffer(buffer.clone())),
            _ => None,
        };
        let measured = Self {
            list: self.list.iter().filter_map(with_tolerance).collect(),
        };
        self.memory(recording).merge(measured.memory(recording))
    }
}

/// Addresses that are not compared.
#[derive(Clone, Debug, Default)]
pub(super) struct IgnoredMemory {
    ranges: Vec<(Option<u8>, Range<u64>)>,
}

impl IgnoredMemory {
    /// Merges the addresses of both sides.
    pub fn merge(mut self, mut other: Self) -> Self {
        self.ranges.append(&mut other.ranges);
        self
    }

    /// Returns the parts of `bytes` bytes at an address that are not compared, as offsets.
    pub fn ignored_within(&self, space: u8, va: GpuVa, bytes: u64) -> Vec<Range<u64>> {
        let end = va.saturating_add(bytes);
        let of = self.ranges.iter().filter(|r| r.0.is_none_or(|s| s == space));
        of.map(|r| r.1.start.max(va.get())..r.1.end.min(end.get()))
            .filter(|r| r.start < r.end)
            .map(|r| r.start - va.get()..r.end - va.get())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "ignore register LATEST_FLUSH\n\
        ignore register JS?_STATUS field CO*\n\
        ignore events interrupt\n\
        ignore buffer scratch*\n\
        ignore memory 0x1000..0x2000\n\
        ignore memory 1:0x8000000000..0x8000001000\n\
        ignore mappings\n\
        tolerance buffer * absolute 1e-5 relative 1.5e-3 ulp 4\n";

    #[test]
    fn comparison_rules_round_trip() {
        let rules: Rules = ALL.parse().unwrap();
        assert_eq!(rules.list.len(), 8);
        assert_eq!(rules.to_string(), ALL);
        let commented = format!("# what differs by itself\n\n{}", ALL.replace('\n', "   # so\n"));
        assert_eq!(commented.parse::<Rules>().unwrap(), rules);
    }

    #[test]
    fn invalid_comparison_rules_are_refused_with_a_location() {
        let describe = |text: &str| text.parse::<Rules>().unwrap_err().to_string();
        for (text, expected) in [
            ("forget it", "line 1, column 1: 'forget' is not a rule"),
            ("\nignore", "line 2, column 7: expected what to ignore"),
            ("ignore  colour", "line 1, column 9: 'colour' cannot be ignored"),
            ("ignore register", "line 1, column 16: expected a register's name"),
            ("ignore register A of", "line 1, column 19: 'of' is not valid here"),
            ("ignore events kick", "line 1, column 15: 'kick' is not a kind of event"),
            ("ignore memory 5..5", "line 1, column 15: '5..5' is empty"),
            ("ignore memory 999:0..5", "line 1, column 15: '999:0..5' is not"),
            ("ignore mappings now", "line 1, column 17: 'now' is not expected here"),
            ("tolerance buffer o", "line 1, column 19: expected absolute"),
            ("tolerance buffer o ulp -1", "line 1, column 24: '-1' is not a number"),
            (
                "tolerance buffer o absolute nan",
                "line 1, column 29: 'nan' is not a number",
            ),
        ] {
            assert!(describe(text).starts_with(expected), "{text:?}: {}", describe(text));
        }
    }

    #[test]
    fn a_star_stands_for_any_text() {
        let is = |p: &str, name: &str| Pattern(p.into()).is_match(name);
        assert!(is("*", "") && is("a*", "a") && is("*a*b", "xxaab") && is("J?1", "JS1") && is("ä*ö", "ä-ö"));
        assert!(!is("a", "ab") && !is("a*c", "ab") && !is("?", "") && !is("", "a"));
        // The time must not exceed pattern length times name length.
        assert!(!is(&"*a".repeat(200), &"a".repeat(150)));
    }
}
