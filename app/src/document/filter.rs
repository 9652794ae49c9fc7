//! The Events filter: words and comparisons joined by `and`, `or` and `not`, as `job = 29 and not poll`.

use super::facts::{Facts, RegisterFact};
use crate::theme::text::parse_number;
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::{EventKind, Recording};

/// Most nested parts.
const MOST_DEPTH: usize = 64;

/// A filter that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Every event.
    All,
    /// Both.
    And(Box<Filter>, Box<Filter>),
    /// Either.
    Or(Box<Filter>, Box<Filter>),
    /// The others.
    Not(Box<Filter>),
    /// Accesses of one kind.
    Kind(EventKind),
    /// Parts of polls.
    Poll,
    /// First events of interrupt handlers.
    Interrupt,
    /// Registers whose name or block holds this text, in upper case.
    Name(String),
    /// A comparison of a number of the event.
    Compare(Key, Order, u64),
    /// Registers of blocks whose name holds this text.
    Block(String),
}

/// What a comparison is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Index of the event.
    Event,
    /// Index of the job that it makes ready, or that runs.
    Job,
    /// Value read or written.
    Value,
    /// Offset of the register.
    Offset,
    /// Thread id.
    Thread,
}

/// How two numbers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Equal.
    Equal,
    /// Different.
    Differs,
    /// Less.
    Less,
    /// More.
    More,
    /// Not more.
    AtMost,
    /// Not less.
    AtLeast,
}

impl Order {
    fn holds(self, a: u64, b: u64) -> bool {
        match self {
            Self::Equal => a == b,
            Self::Differs => a != b,
            Self::Less => a < b,
            Self::More => a > b,
            Self::AtMost => a <= b,
            Self::AtLeast => a >= b,
        }
    }
}

struct Words<'a> {
    words: Vec<&'a str>,
    at: usize,
    depth: usize,
}

/// Understands a filter's text.
///
/// # Errors
/// What is wrong with it, in words.
pub fn parse(text: &str) -> Result<Filter, String> {
    let mut words = Vec::new();
    for part in text.split_whitespace() {
        let mut rest = part;
        while !rest.is_empty() {
            let special = |c: char| "()=<>!".contains(c);
            let cut = match rest.find(special) {
                Some(0) if rest.starts_with(['(', ')']) => 1,
                Some(0) => rest.find(|c: char| !"=<>!".contains(c)).unwrap_or(rest.len()),
                Some(n) => n,
                None => rest.len(),
            };
            let (word, tail) = rest.split_at(cut);
            words.push(word);
            rest = tail;
        }
    }
    if words.is_empty() {
        return Ok(Filter::All);
    }
    let mut w = Words { words, at: 0, depth: 0 };
    let f = w.or()?;
    match w.peek() {
        None => Ok(f),
        Some(x) => Err(format!("{x:?} is not expected here")),
    }
}

impl<'a> Words<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    fn take(&mut self) -> Option<&'a str> {
        let w = self.peek()?;
        self.at += 1;
        Some(w)
    }

    fn or(&mut self) -> Result<Filter, String> {
        let mut f = self.and()?;
        while self.peek().is_some_and(|w| w.eq_ignore_ascii_case("or")) {
            self.at += 1;
            f = Filter::Or(Box::new(f), Box::new(self.and()?));
        }
        Ok(f)
    }

    fn and(&mut self) -> Result<Filter, String> {
        let mut f = self.one()?;
        loop {
            match self.peek() {
                Some(w) if w.eq_ignore_ascii_case("and") => self.at += 1,
                Some(w) if w.eq_ignore_ascii_case("or") || w == ")" => return Ok(f),
                None => return Ok(f),
                Some(_) => {}
            }
            f = Filter::And(Box::new(f), Box::new(self.one()?));
        }
    }

    fn one(&mut self) -> Result<Filter, String> {
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return Err("the filter is nested too deep".into());
        }
        let out = self.one_inner();
        self.depth -= 1;
        out
    }

    fn one_inner(&mut self) -> Result<Filter, String> {
        let word = self.take().ok_or("something is missing at the end")?;
        let lower = word.to_lowercase();
        let order = |w: &str| {
            Some(match w {
                "=" | "==" => Order::Equal,
                "!=" => Order::Differs,
                "<" => Order::Less,
                ">" => Order::More,
                "<=" => Order::AtMost,
                ">=" => Order::AtLeast,
                _ => return None,
            })
        };
        let key = match lower.as_str() {
            "event" => Some(Key::Event),
            "job" => Some(Key::Job),
            "value" => Some(Key::Value),
            "offset" => Some(Key::Offset),
            "thread" => Some(Key::Thread),
            _ => None,
        };
        if let Some(o) = self.peek().and_then(order) {
            self.at += 1;
            let value = self
                .take()
                .ok_or_else(|| format!("a value is missing after {word:?}"))?;
            if lower == "block" && o == Order::Equal {
                return Ok(Filter::Block(value.to_uppercase()));
            }
            if lower == "register" && o == Order::Equal {
                return Ok(Filter::Name(value.to_uppercase()));
            }
            let k = key
                .ok_or_else(|| format!("{word:?} cannot be compared; event, job, value, offset, thread, block can"))?;
            let v = parse_number(value).ok_or_else(|| format!("{value:?} is not a number"))?;
            return Ok(Filter::Compare(k, o, v));
        }
        Ok(match lower.as_str() {
            "(" => {
                let f = self.or()?;
                if self.take() != Some(")") {
                    return Err("a closing bracket is missing".into());
                }
                f
            }
            ")" | "and" | "or" => return Err(format!("{word:?} is not expected here")),
            "not" => Filter::Not(Box::new(self.one()?)),
            "read" => Filter::Kind(EventKind::Read),
            "write" => Filter::Kind(EventKind::Write),
            "undecoded" => Filter::Kind(EventKind::Undecoded),
            "poll" => Filter::Poll,
            "interrupt" | "irq" => Filter::Interrupt,
            _ => Filter::Name(word.to_uppercase()),
        })
    }
}

impl Filter {
    /// A name in it that no register and no block has, so that nothing can pass that part.
    #[must_use]
    pub fn unknown(&self, facts: &Facts) -> Option<String> {
        let lacks = |has: &dyn Fn(&RegisterFact) -> bool| !facts.registers.values().any(has);
        match self {
            Self::And(a, b) | Self::Or(a, b) => a.unknown(facts).or_else(|| b.unknown(facts)),
            Self::Not(a) => a.unknown(facts),
            Self::Name(t) => lacks(&|r| r.name.contains(t.as_str()) || r.block.contains(t.as_str())).then(|| t.clone()),
            Self::Block(t) => lacks(&|r| r.block.to_uppercase().contains(t.as_str())).then(|| t.clone()),
            _ => None,
        }
    }

    /// Whether an event passes.
    #[must_use]
    pub fn passes(&self, recording: &Recording, facts: &Facts, event: u64) -> bool {
        let at = usize::try_from(event).unwrap_or(usize::MAX);
        match self {
            Self::All => true,
            Self::And(a, b) => a.passes(recording, facts, event) && b.passes(recording, facts, event),
            Self::Or(a, b) => a.passes(recording, facts, event) || b.passes(recording, facts, event),
            Self::Not(a) => !a.passes(recording, facts, event),
            Self::Kind(k) => recording.events.kind(at) == Some(*k),
            Self::Poll => facts.poll_at(event).is_some(),
            Self::Interrupt => facts.interrupt_at(event).is_some(),
            Self::Name(text) => recording.events.access(at).is_some_and(|a| {
                let register = facts.register_of(&a);
                register
                    .and_then(|r| facts.registers.get(&r))
                    .is_some_and(|r| r.name.contains(text.as_str()) || r.block.contains(text.as_str()))
            }),
            Self::Block(text) => recording.events.access(at).is_some_and(|a| {
                let register = facts.register_of(&a);
                register
                    .and_then(|r| facts.registers.get(&r))
                    .is_some_and(|r| r.block.to_uppercase().contains(text.as_str()))
            }),
            Self::Compare(key, order, v) => {
                let value = match key {
                    Key::Event => Some(event),
                    Key::Job => facts.job_of(recording, event).map(|j| u64::from(j.index)),
                    Key::Value => recording.events.access(at).map(|a| a.value),
                    Key::Offset => recording.events.access(at).map(|a| u64::from(a.offset)),
                    Key::Thread => recording.events.thread.get(at).map(u64::from),
                };
                value.is_some_and(|x| order.holds(x, *v))
            }
        }
    }
}

/// Events that pass, in order.
///
/// # Errors
/// [`Cancelled`] when nobody wants them any more.
pub fn rows(filter: &Filter, recording: &Recording, facts: &Facts, progress: &Progress) -> Result<Vec<u32>, Cancelled> {
    let n = recording.events.len() as u64;
    progress.set_total(n);
    let mut out = Vec::new();
    for from in (0..n).step_by(16_384) {
        let to = (from + 16_384).min(n);
        out.extend(
            (from..to)
                .filter(|e| filter.passes(recording, facts, *e))
                .filter_map(|e| u32::try_from(e).ok()),
        );
        progress.advance(to - from)?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_understood_or_told_what_is_wrong() {
        let and = |a, b| Filter::And(Box::new(a), Box::new(b));
        assert_eq!(
            parse("job = 29 and not poll"),
            Ok(and(
                Filter::Compare(Key::Job, Order::Equal, 29),
                Filter::Not(Box::new(Filter::Poll))
            ))
        );
        assert_eq!(parse("undecoded"), Ok(Filter::Kind(EventKind::Undecoded)));
        assert_eq!(
            parse("write js1"),
            Ok(and(Filter::Kind(EventKind::Write), Filter::Name("JS1".into())))
        );
        assert_eq!(
            parse("value>=0x10"),
            Ok(Filter::Compare(Key::Value, Order::AtLeast, 16))
        );
        assert_eq!(parse("  "), Ok(Filter::All));
        assert!(matches!(parse("(read or write) block=as0"), Ok(Filter::And(..))));
        for bad in ["job =", "job = x", "(read", "read )", "and", "name > 3", "not"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(parse(&"(".repeat(5000)).is_err());
        assert!(parse(&"not ".repeat(5000)).is_err());
    }
}
