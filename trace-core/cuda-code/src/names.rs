//! Function names: demangling, and patterns that select functions.

use cpp_demangle::{BorrowedSymbol, DemangleOptions, ParseOptions};
use regex::Regex;
use std::fmt;

/// Maximum size of a mangled name that is read, bytes. Templates of matrix libraries have names of some thousand bytes.
const MAX_MANGLED_BYTES: usize = 64 << 10;
/// Maximum size of a demangled name, bytes: a short name can stand for a very long text.
const MAX_DEMANGLED_BYTES: usize = 64 << 10;
/// Maximum nesting depth of a name.
const MAX_DEMANGLE_DEPTH: u32 = 128;

/// Text with a maximum length; a longer one is a write error.
struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if text.len() > MAX_DEMANGLED_BYTES - self.0.len() {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

fn written(mangled: &str, options: DemangleOptions) -> Option<String> {
    if !mangled.starts_with("_Z") || mangled.len() > MAX_MANGLED_BYTES {
        return None;
    }
    let parse = ParseOptions::default().recursion_limit(MAX_DEMANGLE_DEPTH);
    let (symbol, rest) = BorrowedSymbol::with_tail_and_options(mangled.as_bytes(), &parse).ok()?;
    // A name of which only a part can be read stays as it is.
    if !rest.is_empty() {
        return None;
    }
    let mut text = Bounded(String::new());
    symbol
        .structured_demangle(&mut text, &options.recursion_limit(MAX_DEMANGLE_DEPTH))
        .ok()?;
    Some(text.0)
}

/// Demangles a C++ name: `add(float*)` for `_Z3addPf`. Returns `None` for other names, or if the result does not fit [a
/// bounded text](MAX_DEMANGLED_BYTES).
#[must_use]
pub fn demangle(mangled: &str) -> Option<String> {
    written(mangled, DemangleOptions::new())
}

/// Same as [`demangle`] without parameters and return type: `ns::add<float>`.
#[must_use]
pub fn without_parameters(mangled: &str) -> Option<String> {
    written(mangled, DemangleOptions::new().no_params().no_return_type())
}

/// An error in a list of patterns.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    /// There is nothing between two commas.
    #[error("pattern {number} is empty (expected part of a name, a name with * and ?, or /expression/)")]
    Empty {
        /// Number of the pattern in the list, from 1.
        number: usize,
    },
    /// An expression cannot be read.
    #[error("pattern {number}, '{text}', is not a valid regular expression: {why}")]
    Expression {
        /// Number of the pattern in the list, from 1.
        number: usize,
        /// The expression.
        text: String,
        /// The reason.
        why: String,
    },
}

#[derive(Clone, Debug)]
enum Pattern {
    /// Part of a name.
    Part(String),
    /// A whole name, or a part of one, by a regular expression.
    Expression(Regex),
}

/// A list of name patterns; a name matches if one of them does.
#[derive(Clone, Debug)]
pub struct Patterns {
    all: Vec<Pattern>,
}

impl Patterns {
    /// Reads a comma-separated list of patterns. A pattern is a part of a name (`gemm`), a whole name with the
    /// wildcards `*` and `?` (`add<*>`), or a regular expression between slashes (`/^gemm_[0-9]+/`). Commas in brackets
    /// of any kind belong to a name.
    ///
    /// # Errors
    ///
    /// When a pattern is empty, or an expression cannot be read.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let mut all = Vec::new();
        for (n, one) in pieces(text).into_iter().enumerate() {
            let number = n + 1;
            let one = one.trim();
            let expression = |text: &str| {
                Regex::new(text).map_err(|e| PatternError::Expression {
                    number,
                    text: text.to_owned(),
                    // The last line gives the reason; the lines before it point at the position.
                    why: e
                        .to_string()
                        .lines()
                        .last()
                        .map_or("", |l| l.trim_start_matches("error: "))
                        .to_owned(),
                })
            };
            let inside = one.strip_prefix('/').and_then(|o| o.strip_suffix('/'));
            all.push(match inside {
                Some("") => return Err(PatternError::Empty { number }),
                Some(inside) => Pattern::Expression(expression(inside)?),
                None if one.is_empty() => return Err(PatternError::Empty { number }),
                None if one.contains(['*', '?']) => Pattern::Expression(expression(&whole(one))?),
                None => Pattern::Part(one.to_owned()),
            });
        }
        Ok(Self { all })
    }

    /// Whether a pattern matches a function: its mangled name, or its source name with or without parameters.
    #[must_use]
    pub fn is_match(&self, mangled: &str) -> bool {
        let written = [demangle(mangled), without_parameters(mangled)];
        let names = || {
            [mangled]
                .into_iter()
                .chain(written.iter().flatten().map(String::as_str))
        };
        self.all.iter().any(|p| match p {
            Pattern::Part(part) => names().any(|n| n.contains(part.as_str())),
            Pattern::Expression(e) => names().any(|n| e.is_match(n)),
        })
    }
}

/// Returns the regular expression of a whole name with `*` and `?`.
fn whole(glob: &str) -> String {
    let mut text = String::from("(?s)^");
    for c in glob.chars() {
        match c {
            '*' => text.push_str(".*"),
            '?' => text.push('.'),
            c => text.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
        }
    }
    text.push('$');
    text
}

/// Splits a list at commas outside of brackets and expressions.
fn pieces(text: &str) -> Vec<&str> {
    let (mut all, mut begins, mut depth) = (Vec::new(), 0, 0u32);
    let (mut inside, mut escaped) = (false, false);
    for (at, c) in text.char_indices() {
        let first = text.get(begins..at).is_some_and(|t| t.trim().is_empty());
        match c {
            '/' if first && !inside => inside = true,
            '/' if inside && !escaped => inside = false,
            '(' | '<' | '[' if !inside => depth += 1,
            ')' | '>' | ']' if !inside => depth = depth.saturating_sub(1),
            ',' if !inside && depth == 0 => {
                all.extend(text.get(begins..at));
                begins = at + 1;
            }
            _ => {}
        }
        escaped = inside && c == '\\' && !escaped;
    }
    all.extend(text.get(begins..));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn mangled_names_are_demangled() {
        assert_eq!(demangle("_Z3addPf").as_deref(), Some("add(float*)"));
        assert_eq!(
            demangle("_ZN2ns5scaleIfEEvPT_i").as_deref(),
            Some("void ns::scale<float>(float*, int)")
        );
        assert_eq!(
            without_parameters("_ZN2ns5scaleIfEEvPT_i").as_deref(),
            Some("ns::scale<float>")
        );
        for none in ["add", "", "_Z", "_Z3addPf and more", "_Z99999999999999999999x"] {
            assert_eq!(demangle(none), None, "{none}");
        }
        assert_eq!(demangle(&format!("_Z{}", "P".repeat(1 << 20))), None);
    }

    /// Each substitution doubles the text, so 60 of them would exhaust the memory of any machine.
    #[test]
    fn demangled_name_length_is_bounded() {
        let mut name = String::from("_Z1fSt4pairIiiE");
        for n in 0..60u32 {
            let s = std::char::from_digit(n % 36, 36).unwrap().to_ascii_uppercase();
            name.push_str(&format!("St4pairIS{s}_S{s}_E"));
        }
        assert!(demangle(&name).is_none_or(|n| n.len() <= MAX_DEMANGLED_BYTES));
    }

    #[test]
    fn name_patterns_match_parts_globs_and_expressions() {
        let scale = "_ZN2ns5scaleIfEEvPT_i";
        for (patterns, fits) in [
            ("scale", true),
            ("ns::scale", true),
            ("5scaleI", true),
            ("scale<double>", false),
            ("add, scale", true),
            ("*scale*", true),
            ("scale*", false),
            ("ns::scale<*>", true),
            ("ns::scale<????>", false),
            ("void ns::scale<float>(float*, int)", true),
            ("other(int, int),_ZN2ns5*", true),
            ("/^ns::sc[a,b]le/", true),
            ("/^scale/", false),
            ("/a{1,2}b/,/float.,/", true),
            (r"/\/,/,add", false),
        ] {
            assert_eq!(Patterns::parse(patterns).unwrap().is_match(scale), fits, "{patterns}");
        }
        assert!(matches!(
            Patterns::parse("a,,b"),
            Err(PatternError::Empty { number: 2 })
        ));
        assert!(matches!(Patterns::parse(""), Err(PatternError::Empty { number: 1 })));
        assert!(matches!(Patterns::parse("//"), Err(PatternError::Empty { number: 1 })));
        let error = Patterns::parse("a,/(/").unwrap_err();
        assert_eq!(
            error.to_string(),
            "pattern 2, '(', is not a valid regular expression: unclosed group"
        );
    }

    proptest! {
        #[test]
        fn arbitrary_text_parses_as_a_pattern_or_is_refused(text in "\\PC{0,40}", name in "[_ZNSPIEvif0-9Kst]{0,60}") {
            if let Ok(p) = Patterns::parse(&text) {
                let _ = p.is_match(&format!("_Z{name}"));
            }
        }
    }
}
