//! Completion at the cursor in a filter's text, with a description of each candidate.

use super::compile_registers::only_enum;
use super::error::FilterErrorKind;
use super::keywords::{KEYWORDS, Keyword, Meaning, Name, Number};
use super::lex::{Token, tokens, word_len};
use super::register_tests::{find_fields, without_index};
use crate::recording::{InterruptLine, Recording};
use crate::registers::{FieldKind, RegisterMap};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// Maximum number of candidates returned.
const MAX_CANDIDATES: usize = 200;

/// The completions at the cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completions {
    /// The byte range of the text that a candidate replaces: the word at the cursor.
    pub replace: Range<usize>,
    /// Candidates, the most likely first.
    pub candidates: Vec<Candidate>,
}

/// One completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The text to insert.
    pub text: String,
    /// The kind of the candidate.
    pub kind: CandidateKind,
    /// A description; may be empty.
    pub description: String,
}

/// The kind of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateKind {
    /// A numeric or name field of an event.
    Field,
    /// A kind of event.
    Kind,
    /// A register.
    Register,
    /// A field of a register.
    RegisterField,
    /// A value.
    Value,
    /// An operator or a connective.
    Operator,
}

/// The syntactic position of the cursor.
#[derive(Clone, Debug)]
enum CursorContext {
    /// At the start of a test.
    Term,
    /// After the left side of a comparison.
    After(String),
    /// At the value of a comparison with this left side.
    Value(String),
    /// After a number or at a numeric value.
    Number(String),
    /// After `in`.
    In(String),
    /// In a list.
    List(String),
    /// After `references`.
    Target,
    /// In a range.
    Range,
    /// After a complete test.
    Done,
}

impl CursorContext {
    fn then(self, token: &Token<'_>) -> Self {
        let word = |w: &str| match w.to_ascii_lowercase().as_str() {
            "and" | "or" | "not" => Self::Term,
            w if Keyword::find(w).is_some_and(|k| k.meaning == Meaning::References) => Self::Target,
            _ => Self::After(w.to_owned()),
        };
        match (self, token) {
            (_, Token::Sign("(" | "!" | "&&" | "||")) => Self::Term,
            (_, Token::Sign(")" | "}")) => Self::Done,
            (Self::After(left), Token::Sign("&")) => Self::Number(left),
            (Self::After(left), Token::Sign("=" | "==" | "!=" | "<" | "<=" | ">" | ">=" | "=~" | "!~")) => {
                Self::Value(left)
            }
            (Self::After(left), Token::Word(w)) if w.eq_ignore_ascii_case("in") => Self::In(left),
            // For example `job not in`.
            (Self::After(left), Token::Word(w)) if w.eq_ignore_ascii_case("not") => Self::After(left),
            (Self::Number(left), Token::Number(..)) => Self::After(left),
            (Self::Value(_), Token::Word(_) | Token::Text(_) | Token::Number(..)) => Self::Done,
            (Self::In(left), Token::Sign("{")) => Self::List(left),
            (Self::In(_), _) => Self::Range,
            (Self::Target, Token::Word(_) | Token::Text(_) | Token::Number(..)) => Self::Done,
            (Self::Range, Token::Number(..) | Token::Sign(_)) => Self::Range,
            (Self::List(left), _) => Self::List(left),
            (_, Token::Word(w)) => word(w),
            (_, Token::Text(t)) => Self::After(t.clone().into_owned()),
            (at, _) => at,
        }
    }
}

/// Returns the completions at a byte of a filter's text, for a recording. Returns none if the text before it is
/// invalid, or if only the user knows the value, as after `value =`.
#[must_use]
pub fn complete(text: &str, cursor: usize, recording: &Recording) -> Completions {
    let mut cursor = cursor.min(text.len());
    while !text.is_char_boundary(cursor) {
        cursor -= 1;
    }
    let head = text.get(..cursor).unwrap_or_default();
    // After an open quote: the text typed in it.
    let quote = match tokens(head) {
        Err(e) if e.what == FilterErrorKind::UnterminatedText => Some(e.span.start),
        _ => None,
    };
    let letter = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
    let start = quote.unwrap_or_else(|| {
        let back = head.char_indices().rev().take_while(|(_, c)| letter(*c));
        let start = back.last().map_or(cursor, |(at, _)| at);
        // A number, or a range such as `4..9`: its value cannot be predicted.
        match head.get(start..).and_then(|t| t.chars().next()) {
            Some(c) if c.is_alphabetic() || c == '_' => start,
            _ => cursor,
        }
    });
    let typed = head.get(start..).unwrap_or_default();
    let (mark, typed) = match quote {
        Some(_) => (typed.chars().next(), typed.get(1..).unwrap_or_default()),
        None => (None, typed),
    };
    let behind = text.get(cursor..).unwrap_or_default();
    let more = if quote.is_some() {
        // Up to the closing quote, if there is one.
        mark.and_then(|m| behind.find(m)).map_or(0, |n| n + 1)
    } else if typed.is_empty() {
        0
    } else {
        word_len(behind)
    };
    let mut out = Completions {
        replace: start..cursor + more,
        candidates: Vec::new(),
    };
    let Ok(before) = tokens(text.get(..start).unwrap_or_default()) else {
        return out;
    };
    // Directly after a number nothing is completed.
    let joins = before
        .last()
        .is_some_and(|t| t.span.end == start && matches!(t.token, Token::Number(..)));
    if joins {
        return out;
    }
    let at = before.iter().fold(CursorContext::Term, |at, t| at.then(&t.token));
    let mut c = CandidateCollector {
        map: RegisterMap::for_recording(recording),
        recording,
        typed: typed.to_lowercase(),
        quote: mark,
        found: Vec::new(),
    };
    c.at(&at);
    out.candidates = c.sorted();
    out
}

struct CandidateCollector<'a> {
    map: Option<&'static RegisterMap>,
    recording: &'a Recording,
    /// The typed word, in lower case.
    typed: String,
    quote: Option<char>,
    found: Vec<(u8, Candidate)>,
}

impl CandidateCollector<'_> {
    fn sorted(mut self) -> Vec<Candidate> {
        // The sort is stable: within a rank, candidates keep the order in which they were found.
        self.found.sort_by_key(|(rank, _)| *rank);
        let mut all: Vec<Candidate> = Vec::new();
        for (_, c) in self.found {
            if all.len() < MAX_CANDIDATES && !all.iter().any(|x| x.text == c.text) {
                all.push(c);
            }
        }
        all
    }

    fn add(&mut self, text: &str, kind: CandidateKind, means: &str) {
        let lower = text.to_lowercase();
        let rank = match lower.find(&self.typed) {
            _ if lower == self.typed => 0,
            Some(0) => 1,
            // A match in the middle of a name counts only if more than one character is typed.
            Some(_) if self.typed.len() > 1 && kind != CandidateKind::Operator => 2,
            _ => return,
        };
        let text = match self.quote {
            Some(q) => format!("{q}{text}{q}"),
            None => text.to_owned(),
        };
        let means = means.to_owned();
        self.found.push((
            rank,
            Candidate {
                text,
                kind,
                description: means,
            },
        ));
    }

    /// Adds a value that is a name, in quotes if it is not a word.
    fn value(&mut self, text: &str, kind: CandidateKind, means: &str) {
        let plain = !text.is_empty() && word_len(text) == text.len() && text.starts_with(|c: char| !c.is_ascii_digit());
        let operator = Keyword::find(text).is_some_and(|w| w.meaning == Meaning::Operator);
        if self.quote.is_some() || plain && !operator {
            self.add(text, kind, means);
        } else {
            self.add(&format!("\"{text}\""), kind, means);
        }
    }

    fn at(&mut self, at: &CursorContext) {
        match at {
            CursorContext::Term => self.terms(),
            CursorContext::After(left) => {
                if self.typed.is_empty() {
                    self.signs(left);
                } else {
                    self.words(&["and", "or", "not", "in"]);
                    self.terms();
                }
            }
            CursorContext::Value(left) | CursorContext::List(left) => self.values(left),
            CursorContext::Target => self.targets(),
            CursorContext::Done => self.words(&["and", "or"]),
            CursorContext::Range if !self.typed.is_empty() => self.words(&["and", "or"]),
            CursorContext::Number(_) | CursorContext::In(_) | CursorContext::Range => {}
        }
    }

    fn words(&mut self, which: &[&str]) {
        for w in KEYWORDS.iter().filter(|w| which.contains(&w.name)) {
            self.add(w.name, CandidateKind::Operator, w.doc);
        }
    }

    fn terms(&mut self) {
        if let Some((register, _)) = self.typed.clone().rsplit_once('.')
            && self.register_fields(register)
        {
            return;
        }
        for w in KEYWORDS {
            let kind = match w.meaning {
                Meaning::Number(_) | Meaning::Name(_) => CandidateKind::Field,
                Meaning::Kind(_) => CandidateKind::Kind,
                Meaning::References => CandidateKind::Operator,
                Meaning::Operator => continue,
            };
            self.add(w.name, kind, w.doc);
        }
        self.words(&["not"]);
        self.registers(true);
    }

    fn targets(&mut self) {
        for b in &self.recording.metadata.buffers {
            self.value(&b.name, CandidateKind::Value, &format!("{} bytes at {}", b.bytes, b.va));
        }
        let Some(map) = self.map else { return };
        let _ = map.visit(|r| {
            self.value(&r.name, CandidateKind::Register, &r.doc);
            ControlFlow::<()>::Continue(())
        });
    }

    fn registers(&mut self, bare: bool) {
        let mut without: Vec<(String, Arc<str>)> = Vec::new();
        let Some(map) = self.map else { return };
        let _ = map.visit(|r| {
            self.value_or_term(&r.name, &r.doc, bare);
            if let Some(w) = &r.wide {
                self.value_or_term(&w.name, &r.doc, bare);
            }
            if let Some(n) = without_index(r)
                && without.last().is_none_or(|(last, _)| *last != n)
            {
                without.push((n, Arc::clone(&r.doc)));
            }
            ControlFlow::<()>::Continue(())
        });
        without.sort();
        without.dedup_by(|a, b| a.0 == b.0);
        for (n, doc) in without {
            self.value_or_term(&n.to_uppercase(), &format!("of every number: {doc}"), bare);
        }
    }

    fn value_or_term(&mut self, name: &str, doc: &str, bare: bool) {
        if bare {
            self.add(name, CandidateKind::Register, doc);
        } else {
            self.value(name, CandidateKind::Register, doc);
        }
    }

    /// Adds the fields of a register; returns whether the register exists.
    fn register_fields(&mut self, register: &str) -> bool {
        let Some(map) = self.map else { return false };
        let wholes = find_fields(map, register);
        let Some(whole) = wholes.first() else { return false };
        // Keep the user's spelling of the register, in the map's case.
        let own = map.find_register(|r| r.name.eq_ignore_ascii_case(register));
        let own = own.map_or_else(|| register.to_uppercase(), |r| r.name.clone());
        for f in whole.layout.fields.iter() {
            let bits = if f.lo == f.hi {
                format!("bit {}", f.lo)
            } else {
                format!("bits {} to {}", f.hi, f.lo)
            };
            let means = if f.doc.is_empty() {
                bits
            } else {
                format!("{bits}: {}", f.doc)
            };
            self.add(&format!("{own}.{}", f.name), CandidateKind::RegisterField, &means);
        }
        true
    }

    fn signs(&mut self, left: &str) {
        let numbers: &[(&str, &str)] = &[
            ("=", "equal"),
            ("!=", "different"),
            ("<", "less"),
            ("<=", "at most"),
            (">", "more"),
            (">=", "at least"),
            ("in", "in a range FIRST..END (END excluded), or in a list {A, B}"),
            ("&", "these bits of it; without a comparison: any of them is set"),
        ];
        let names: &[(&str, &str)] = &[
            ("=", "has this name (case is ignored)"),
            ("!=", "has another name"),
            ("=~", "matches a regular expression"),
            ("!~", "does not match it"),
            ("in", "in a list {A, B}"),
        ];
        let signs = match Keyword::find(left).map(|w| w.meaning) {
            Some(Meaning::Kind(_) | Meaning::References | Meaning::Operator) => &[],
            Some(Meaning::Name(_)) => names,
            Some(Meaning::Number(_)) | None => numbers,
        };
        for (sign, means) in signs {
            self.add(sign, CandidateKind::Operator, means);
        }
        self.words(&["and", "or"]);
    }

    fn values(&mut self, left: &str) {
        match Keyword::find(left).map(|w| w.meaning) {
            Some(Meaning::Name(Name::Register)) => self.registers(false),
            Some(Meaning::Name(Name::Block)) => {
                let mut blocks: Vec<&str> = self
                    .map
                    .into_iter()
                    .flat_map(RegisterMap::first_members)
                    .map(|r| r.block.as_str())
                    .collect();
                blocks.sort_unstable();
                blocks.dedup();
                for b in blocks {
                    self.value(b, CandidateKind::Value, "block of the register map");
                }
            }
            Some(Meaning::Name(Name::Space)) => {
                for s in &self.recording.metadata.spaces {
                    self.value(&s.name, CandidateKind::Value, &format!("{} bytes", s.bytes));
                }
            }
            Some(Meaning::Name(Name::Kind)) => {
                for w in KEYWORDS.iter().filter(|w| matches!(w.meaning, Meaning::Kind(_))) {
                    self.value(w.name, CandidateKind::Kind, w.doc);
                }
            }
            Some(Meaning::Name(Name::Call)) => {
                for name in self.recording.api().into_iter().flat_map(|api| &api.names) {
                    self.value(name, CandidateKind::Value, "name of a call");
                }
            }
            Some(Meaning::Number(Number::Line)) => {
                for l in [InterruptLine::Job, InterruptLine::Mmu, InterruptLine::Gpu] {
                    self.value(l.name(), CandidateKind::Value, "interrupt line");
                }
            }
            Some(_) => {}
            None => self.field_values(left),
        }
    }

    fn field_values(&mut self, left: &str) {
        let Some(map) = self.map else { return };
        if let Some(whole) = find_fields(map, left).first() {
            for (v, name) in only_enum(whole.layout).unwrap_or_default() {
                self.value(name, CandidateKind::Value, &format!("{v:#x}"));
            }
            return;
        }
        let Some((register, field)) = left.rsplit_once('.') else {
            return;
        };
        let wholes = find_fields(map, register);
        let fields = wholes.first().map(|w| w.layout.fields.as_ref()).unwrap_or_default();
        let found = fields.iter().find(|f| f.name.eq_ignore_ascii_case(field));
        match found.map(|f| &f.kind) {
            Some(FieldKind::Enum(names)) => {
                for (v, name) in names.iter() {
                    let doc = names.doc(*v).map(|d| format!(": {d}")).unwrap_or_default();
                    self.value(name, CandidateKind::Value, &format!("{v:#x}{doc}"));
                }
            }
            Some(FieldKind::Bool) => {
                self.value("yes", CandidateKind::Value, "1");
                self.value("no", CandidateKind::Value, "0");
            }
            _ => {}
        }
    }
}
