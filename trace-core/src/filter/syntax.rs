//! Parser of the filter language: a tree of tests in which no name is resolved yet.

use super::error::{FilterError, FilterErrorKind};
use super::keywords::{Keyword, Kind, Meaning, Name, Number};
use super::lex::{Spanned, Token, tokens};
use super::{MAX_BYTES, MAX_DEPTH};
use std::ops::Range;

/// A parsed filter. It is independent of any recording: [`Query::compile`] creates the filter for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    pub(super) root: Node,
}

/// A node of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// Every event, from an empty text.
    All,
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    Test(Test),
}

/// A name as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TypedText {
    pub text: String,
    pub span: Range<usize>,
    /// Whether the name is in quotes: then it is never a keyword.
    pub quoted: bool,
}

/// A test of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Test {
    pub left: TypedText,
    /// The mask of the bits of a number that are tested.
    pub mask: Option<u64>,
    pub condition: Condition,
}

/// The condition on the left side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// No condition: a kind of event, a part of a register's name, or a field that the event has; with a mask, bits
    /// that are set.
    Bare,
    /// A comparison.
    Compare(Comparison, Value),
    /// `=~` and `!~`.
    Match { not: bool, pattern: TypedText },
    /// `in FIRST..END` without END, or `in FIRST..=LAST` with LAST.
    Within {
        not: bool,
        first: Option<Value>,
        end: Option<Value>,
        /// Whether `end` is part of the range.
        inclusive: bool,
        span: Range<usize>,
    },
    /// `in {a, b}`.
    Among { not: bool, values: Vec<Value> },
    /// The target of `references`.
    Target(Value),
}

/// The operator of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    Differs,
    Less,
    More,
    AtMost,
    AtLeast,
}

impl Comparison {
    pub fn sign(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::Differs => "!=",
            Self::Less => "<",
            Self::More => ">",
            Self::AtMost => "<=",
            Self::AtLeast => ">=",
        }
    }

    fn from_sign(sign: &str) -> Option<Self> {
        Some(match sign {
            "=" | "==" => Self::Equal,
            "!=" => Self::Differs,
            "<" => Self::Less,
            ">" => Self::More,
            "<=" => Self::AtMost,
            ">=" => Self::AtLeast,
            _ => return None,
        })
    }
}

/// The right side of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Number { value: u64, time: bool, span: Range<usize> },
    Name(TypedText),
}

struct Parser<'a> {
    tokens: Vec<Spanned<'a>>,
    at: usize,
    depth: usize,
    end: usize,
}

impl Query {
    /// Parses a filter's text. A text without words lets every event pass.
    ///
    /// # Errors
    /// The error and its position.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        if text.len() > MAX_BYTES {
            return Err(FilterError::new(FilterErrorKind::TooLong, MAX_BYTES..text.len()));
        }
        let mut p = Parser {
            tokens: tokens(text)?,
            at: 0,
            depth: 0,
            end: text.len(),
        };
        if p.tokens.is_empty() {
            return Ok(Self { root: Node::All });
        }
        let root = p.or()?;
        match p.peek() {
            None => Ok(Self { root }),
            Some(t) => Err(FilterError::new(
                FilterErrorKind::Unexpected(describe_token(&t.token)),
                t.span.clone(),
            )),
        }
    }

    /// Returns whether every event passes, because the text is empty.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.root == Node::All
    }

    /// Describes the ranges with both ends inclusive, for readers of the results: `job 4 to 8` for `job in 4..9`.
    /// Skips ranges without a first or a last number, and empty ones.
    #[must_use]
    pub fn describe_ranges(&self) -> Vec<String> {
        fn number(value: Option<&Value>) -> Option<(u64, bool)> {
            match value? {
                Value::Number { value, time, .. } => Some((*value, *time)),
                Value::Name(_) => None,
            }
        }
        fn node(n: &Node, out: &mut Vec<String>) {
            match n {
                Node::All => {}
                Node::And(all) | Node::Or(all) => all.iter().for_each(|n| node(n, out)),
                Node::Not(n) => node(n, out),
                Node::Test(t) => {
                    let Condition::Within {
                        first, end, inclusive, ..
                    } = &t.condition
                    else {
                        return;
                    };
                    let (Some((first, time)), Some((end, _))) = (number(first.as_ref()), number(end.as_ref())) else {
                        return;
                    };
                    let last = if *inclusive { Some(end) } else { end.checked_sub(1) };
                    // A time is not a count: nobody asks for the nanosecond before the end.
                    if let Some(last) = last.filter(|l| *l >= first && !time) {
                        let text = |n: u64| match t.left.text.to_ascii_lowercase().as_str() {
                            "job" | "event" | "thread" | "width" | "bytes" | "irq.line" | "call.result" | "errno"
                            | "input.number" | "copy.number" => n.to_string(),
                            _ => format!("{n:#x}"),
                        };
                        out.push(format!("{} {} to {}", t.left.text, text(first), text(last)));
                    }
                }
            }
        }
        let mut out = Vec::new();
        node(&self.root, &mut out);
        out
    }

    /// Returns whether the query needs data that is found in events instead of stored in them: jobs, polls,
    /// interrupts by their handlers, submits. Such a query is compiled with that data ([`super::Derived`]).
    #[must_use]
    pub fn needs_derived(&self) -> bool {
        self.has_test(Self::is_of_derived)
    }

    /// Returns whether the query tests inputs of a WebAssembly run. It is compiled with [`super::Derived::inputs`].
    #[must_use]
    pub fn needs_inputs(&self) -> bool {
        self.has_test(|word| matches!(word, Meaning::Name(Name::Input) | Meaning::Number(Number::Input)))
    }

    /// Returns whether a keyword needs data that is found in events.
    fn is_of_derived(word: Meaning) -> bool {
        match word {
            Meaning::Number(n) => matches!(n, Number::Job | Number::Line | Number::Status | Number::Address),
            Meaning::Kind(k) => matches!(k, Kind::Interrupt | Kind::Submit | Kind::Poll),
            // A kind may be named on the right side, and match a pattern.
            Meaning::References | Meaning::Name(Name::Kind) => true,
            Meaning::Name(_) | Meaning::Operator => false,
        }
    }

    /// Returns whether a test has a keyword on its left side for which `is_wanted` returns `true`.
    fn has_test(&self, is_wanted: impl Fn(Meaning) -> bool + Copy) -> bool {
        fn node(n: &Node, is_wanted: impl Fn(Meaning) -> bool + Copy) -> bool {
            match n {
                Node::All => false,
                Node::And(all) | Node::Or(all) => all.iter().any(|n| node(n, is_wanted)),
                Node::Not(n) => node(n, is_wanted),
                Node::Test(t) => {
                    let word = Keyword::find(&t.left.text).filter(|_| !t.left.quoted);
                    word.is_some_and(|w| is_wanted(w.meaning))
                }
            }
        }
        node(&self.root, is_wanted)
    }
}

/// Describes a token for messages.
fn describe_token(token: &Token<'_>) -> String {
    match token {
        Token::Word(w) => (*w).to_owned(),
        Token::Text(t) => format!("\"{t}\""),
        Token::Number(n, _) => n.to_string(),
        Token::Sign(s) => (*s).to_owned(),
    }
}

const TERM: &str = "a field, a kind of event, a register or `(`";

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&Spanned<'a>> {
        self.tokens.get(self.at)
    }

    fn word(&self, ahead: usize) -> Option<&'a str> {
        match self.tokens.get(self.at + ahead)?.token {
            Token::Word(w) => Some(w),
            _ => None,
        }
    }

    fn is_word(&self, ahead: usize, word: &str) -> bool {
        self.word(ahead).is_some_and(|w| w.eq_ignore_ascii_case(word))
    }

    fn sign(&self) -> Option<&'static str> {
        match self.peek()?.token {
            Token::Sign(s) => Some(s),
            _ => None,
        }
    }

    /// Takes the next token if it is this operator.
    fn takes(&mut self, sign: &str) -> bool {
        let is = self.sign() == Some(sign);
        self.at += usize::from(is);
        is
    }

    /// Returns the end of the token before the next one, or the start of the text.
    fn behind(&self) -> usize {
        self.at
            .checked_sub(1)
            .and_then(|n| self.tokens.get(n))
            .map_or(0, |t| t.span.end)
    }

    fn expected(&self, expected: &'static str) -> FilterError {
        let (found, span) = match self.peek() {
            Some(t) => (describe_token(&t.token), t.span.clone()),
            None => (String::new(), self.end..self.end),
        };
        FilterError::new(FilterErrorKind::Expected { expected, found }, span)
    }

    fn or(&mut self) -> Result<Node, FilterError> {
        let mut all = vec![self.and()?];
        while self.is_word(0, "or") || self.sign() == Some("||") {
            self.at += 1;
            all.push(self.and()?);
        }
        Ok(one_or(all, Node::Or))
    }

    fn and(&mut self) -> Result<Node, FilterError> {
        let mut all = vec![self.unary()?];
        loop {
            if self.is_word(0, "and") || self.sign() == Some("&&") {
                self.at += 1;
            } else {
                // Two consecutive tests are combined with `and`.
                let begins = match self.peek().map(|t| &t.token) {
                    Some(Token::Word(w)) => !w.eq_ignore_ascii_case("or"),
                    Some(Token::Text(_)) => true,
                    Some(Token::Sign(s)) => *s == "(" || *s == "!",
                    _ => false,
                };
                if !begins {
                    return Ok(one_or(all, Node::And));
                }
            }
            all.push(self.unary()?);
        }
    }

    fn unary(&mut self) -> Result<Node, FilterError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let span = self.peek().map_or(self.end..self.end, |t| t.span.clone());
            return Err(FilterError::new(FilterErrorKind::TooDeep, span));
        }
        let out = if self.is_word(0, "not") || self.sign() == Some("!") {
            self.at += 1;
            Node::Not(Box::new(self.unary()?))
        } else if self.takes("(") {
            let inner = self.or()?;
            if !self.takes(")") {
                return Err(self.expected("`)`"));
            }
            inner
        } else {
            Node::Test(self.test()?)
        };
        self.depth -= 1;
        Ok(out)
    }

    fn test(&mut self) -> Result<Test, FilterError> {
        let left = match self.peek() {
            Some(Spanned {
                token: Token::Word(w),
                span,
            }) if !is_operator(w) => TypedText {
                text: (*w).to_owned(),
                span: span.clone(),
                quoted: false,
            },
            Some(Spanned {
                token: Token::Text(t),
                span,
            }) => TypedText {
                text: t.clone().into_owned(),
                span: span.clone(),
                quoted: true,
            },
            _ => return Err(self.expected(TERM)),
        };
        self.at += 1;
        let is_references = |w: &Keyword| w.meaning == Meaning::References;
        if !left.quoted && Keyword::find(&left.text).is_some_and(is_references) {
            let condition = Condition::Target(self.value("an address, a buffer, a register or a pixel")?);
            return Ok(Test {
                left,
                mask: None,
                condition,
            });
        }
        let mut mask = None;
        if self.takes("&") {
            mask = Some(match self.value("a number")? {
                Value::Number { value, .. } => value,
                Value::Name(_) => {
                    self.at -= 1;
                    return Err(self.expected("a number"));
                }
            });
        }
        let condition = self.condition()?;
        Ok(Test { left, mask, condition })
    }

    fn condition(&mut self) -> Result<Condition, FilterError> {
        let not = self.is_word(0, "not") && self.is_word(1, "in");
        if not || self.is_word(0, "in") {
            self.at += 1 + usize::from(not);
            return self.within(not);
        }
        let Some(sign) = self.sign() else {
            return Ok(Condition::Bare);
        };
        if let Some(order) = Comparison::from_sign(sign) {
            self.at += 1;
            return Ok(Condition::Compare(order, self.value("a number or a name")?));
        }
        if sign == "=~" || sign == "!~" {
            self.at += 1;
            return match self.value("a regular expression in quotes")? {
                Value::Name(pattern) => Ok(Condition::Match {
                    not: sign == "!~",
                    pattern,
                }),
                Value::Number { .. } => {
                    self.at -= 1;
                    Err(self.expected("a regular expression in quotes"))
                }
            };
        }
        Ok(Condition::Bare)
    }

    fn within(&mut self, not: bool) -> Result<Condition, FilterError> {
        const WHAT: &str = "a range FIRST..END (or FIRST..=LAST) or a list {A, B}";
        let from = self.peek().map_or(self.end, |t| t.span.start);
        if self.takes("{") {
            let mut values = Vec::new();
            loop {
                values.push(self.value("a number or a name")?);
                if self.takes("}") {
                    return Ok(Condition::Among { not, values });
                }
                if !self.takes(",") {
                    return Err(self.expected("`,` or `}`"));
                }
            }
        }
        let bound = |p: &mut Self| match p.peek().map(|t| &t.token) {
            Some(Token::Number(..)) => p.value("a number").map(Some),
            _ => Ok(None),
        };
        let first = bound(self)?;
        let inclusive = self.takes("..=");
        if !inclusive && !self.takes("..") {
            return Err(self.expected(if first.is_some() { "`..` or `..=`" } else { WHAT }));
        }
        let end = bound(self)?;
        if end.is_none() && (first.is_none() || inclusive) {
            return Err(self.expected("a number"));
        }
        let span = from..self.behind();
        Ok(Condition::Within {
            not,
            first,
            end,
            inclusive,
            span,
        })
    }

    fn value(&mut self, expected: &'static str) -> Result<Value, FilterError> {
        let value = match self.peek() {
            Some(Spanned {
                token: Token::Number(value, time),
                span,
            }) => Value::Number {
                value: *value,
                time: *time,
                span: span.clone(),
            },
            Some(Spanned {
                token: Token::Word(w),
                span,
            }) if !is_operator(w) => Value::Name(TypedText {
                text: (*w).to_owned(),
                span: span.clone(),
                quoted: false,
            }),
            Some(Spanned {
                token: Token::Text(t),
                span,
            }) => Value::Name(TypedText {
                text: t.clone().into_owned(),
                span: span.clone(),
                quoted: true,
            }),
            _ => return Err(self.expected(expected)),
        };
        self.at += 1;
        Ok(value)
    }
}

/// Returns whether a word is a connective without a meaning of its own.
fn is_operator(word: &str) -> bool {
    Keyword::find(word).is_some_and(|w| w.meaning == Meaning::Operator)
}

/// Returns the only part, or all of them joined.
fn one_or(mut all: Vec<Node>, join: impl FnOnce(Vec<Node>) -> Node) -> Node {
    match (all.len(), all.pop()) {
        (1, Some(only)) => only,
        (_, last) => {
            all.extend(last);
            join(all)
        }
    }
}
