//! Conditions of csbgen: expressions of features and numbers, `!ROGUEXE`, `NUM_TA > 0 && TFBC`.

use std::collections::BTreeMap;

/// Maximum number of tokens of a condition, and maximum depth of its brackets.
const MAX_TOKENS: usize = 256;
const MAX_DEPTH: usize = 16;

/// The features of a GPU, with their numbers; 1 if none is given.
pub(super) struct Features(BTreeMap<String, u64>);

impl Features {
    /// Parses `A,B=2`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut all = BTreeMap::new();
        for part in text.split(',').map(str::trim) {
            let (name, number) = match part.split_once('=') {
                Some((name, number)) => (name.trim(), number.trim().parse().ok()?),
                None => (part, 1),
            };
            if name.is_empty() {
                return None;
            }
            all.insert(name.to_owned(), number);
        }
        Some(Self(all))
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub fn has(&self, name: &str) -> bool {
        self.number(name) != 0
    }

    /// Returns the number of a feature, 0 for one that the GPU does not have.
    fn number(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'c> {
    Name(&'c str),
    Number(u64),
    Sign(&'c str),
}

const SIGNS: [&str; 11] = ["&&", "||", "==", "!=", ">=", "<=", ">", "<", "!", "(", ")"];

fn tokens(text: &str) -> Option<Vec<Token<'_>>> {
    let mut all = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if all.len() >= MAX_TOKENS {
            return None;
        }
        let sign = SIGNS.iter().find(|s| rest.starts_with(**s));
        let length = match sign {
            Some(sign) => sign.len(),
            None => {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                end.unwrap_or(rest.len())
            }
        };
        let (token, after) = rest.split_at_checked(length).filter(|(t, _)| !t.is_empty())?;
        all.push(match (sign, token.parse()) {
            (Some(_), _) => Token::Sign(token),
            (None, Ok(number)) => Token::Number(number),
            // A feature may begin with a digit.
            (None, Err(_)) => Token::Name(token),
        });
        rest = after.trim_start();
    }
    Some(all)
}

/// Returns the features that a condition names.
pub(super) fn names(text: &str) -> Vec<&str> {
    let all = tokens(text).unwrap_or_default().into_iter();
    all.filter_map(|t| match t {
        Token::Name(name) => Some(name),
        _ => None,
    })
    .collect()
}

/// A condition.
pub(super) struct Condition<'c>(Vec<Token<'c>>);

impl<'c> Condition<'c> {
    /// Parses a condition; `None` if it is none.
    pub fn parse(text: &'c str) -> Option<Self> {
        let all = Self(tokens(text)?);
        let none = Features(BTreeMap::new());
        all.value(&none).map(|_| all)
    }

    /// Whether a GPU with these features satisfies it.
    pub fn holds(&self, features: &Features) -> bool {
        self.value(features).is_some_and(|v| v != 0)
    }

    fn value(&self, features: &Features) -> Option<u64> {
        let mut parser = Evaluation {
            rest: &self.0,
            features,
            depth: 0,
        };
        let value = parser.any()?;
        parser.rest.is_empty().then_some(value)
    }
}

struct Evaluation<'e> {
    rest: &'e [Token<'e>],
    features: &'e Features,
    depth: usize,
}

impl Evaluation<'_> {
    fn take(&mut self, sign: &str) -> bool {
        match self.rest.split_first() {
            Some((Token::Sign(s), rest)) if *s == sign => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    fn any(&mut self) -> Option<u64> {
        let mut value = self.all()?;
        while self.take("||") {
            value = u64::from(self.all()? != 0 || value != 0);
        }
        Some(value)
    }

    fn all(&mut self) -> Option<u64> {
        let mut value = self.comparison()?;
        while self.take("&&") {
            value = u64::from(self.comparison()? != 0 && value != 0);
        }
        Some(value)
    }

    fn comparison(&mut self) -> Option<u64> {
        let left = self.one()?;
        let sign = ["==", "!=", ">=", "<=", ">", "<"].into_iter().find(|s| self.take(s));
        let Some(sign) = sign else { return Some(left) };
        let right = self.one()?;
        Some(u64::from(match sign {
            "==" => left == right,
            "!=" => left != right,
            ">=" => left >= right,
            "<=" => left <= right,
            ">" => left > right,
            _ => left < right,
        }))
    }

    fn one(&mut self) -> Option<u64> {
        if self.depth > MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let value = if self.take("!") {
            u64::from(self.one()? == 0)
        } else if self.take("(") {
            let value = self.any()?;
            if !self.take(")") {
                return None;
            }
            value
        } else {
            let (token, rest) = self.rest.split_first()?;
            self.rest = rest;
            match token {
                Token::Name(name) => self.features.number(name),
                Token::Number(n) => *n,
                Token::Sign(_) => return None,
            }
        };
        self.depth -= 1;
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_follow_the_features() {
        let features = Features::parse("ROGUEXE, NUM_TA=4,8_OUTPUT_REGISTERS").unwrap();
        for (text, holds) in [
            ("ROGUEXE", true),
            ("!ROGUEXE", false),
            ("TFBC", false),
            ("NUM_TA > 3 && !TFBC", true),
            ("TFBC || NUM_TA == 4", true),
            ("(TFBC || ROGUEXE) && NUM_TA <= 3", false),
            ("8_OUTPUT_REGISTERS", true),
        ] {
            assert_eq!(Condition::parse(text).unwrap().holds(&features), holds, "{text}");
        }
        let deep = format!("{}A{}", "(".repeat(100), ")".repeat(100));
        for text in ["", "A &&", "A B", "(A", "A + B", "== 3", deep.as_str()] {
            assert!(Condition::parse(text).is_none(), "{text}");
        }
        assert_eq!(names("A > 2 && !B"), ["A", "B"]);
        assert!(Features::parse("A,,B").is_none() && Features::parse("A=x").is_none());
    }
}
