//! Demangled function names (Itanium C++ ABI).
//!
//! Supports the forms that kernel names use: nested names, templates with types and numbers, substitutions,
//! operators, lambdas and parameter types. Names that need more (expressions in templates, `decltype`) stay mangled.

mod operators;
mod types;

use crate::recording::CallFunction;
use operators::OPERATORS;

/// Maximum size of a demangled name, bytes: substitutions can make a short name very long.
const MAX_NAME_BYTES: usize = 16 << 10;
/// Maximum nesting depth.
const MAX_DEPTH: u32 = 96;

/// Returns the name of a function for display.
pub(super) fn display_name(function: &CallFunction) -> String {
    if !function.demangled.is_empty() {
        return function.demangled.clone();
    }
    demangle(&function.name).unwrap_or_else(|| function.name.clone())
}

/// Demangles a name; returns `None` if it is not mangled, or uses an unsupported form.
#[must_use]
pub fn demangle(name: &str) -> Option<String> {
    let rest = name.strip_prefix("_Z")?;
    if rest.len() > MAX_NAME_BYTES {
        return None;
    }
    let mut p = Parser {
        rest: rest.as_bytes(),
        known: Vec::new(),
        arguments: Vec::new(),
        left: MAX_NAME_BYTES * 8,
        deep: 0,
    };
    let text = p.encoding()?;
    // Clones and parts of a function have a suffix after a dot.
    match p.rest {
        [] => Some(text),
        [b'.', ..] => Some(format!("{text} [{}]", std::str::from_utf8(p.rest).ok()?)),
        _ => None,
    }
}

/// A type as the text to the left and to the right of a declared name.
#[derive(Clone, Debug, Default)]
struct Type {
    left: String,
    right: String,
}

impl Type {
    fn plain(left: impl Into<String>) -> Self {
        Self {
            left: left.into(),
            right: String::new(),
        }
    }

    fn words(&self) -> String {
        format!("{}{}", self.left, self.right)
    }

    /// Returns a pointer or reference to the type.
    fn pointed(mut self, mark: &str) -> Self {
        // In a pointer to a function or an array, the marks are next to each other inside parentheses.
        if self.right.starts_with('(') || self.right.starts_with(" [") {
            self.left.push_str(" (");
            self.right = format!("){}", self.right);
        }
        self.left.push_str(mark);
        self
    }
}

/// A parsed name.
struct Name {
    text: String,
    /// Whether the name ends with template arguments; then the return type comes first.
    template: bool,
    /// Whether the name has no return type: a constructor, a destructor or a conversion.
    without: bool,
    /// The text after the parameters of a function: ` const`.
    behind: String,
}

struct Parser<'a> {
    rest: &'a [u8],
    known: Vec<Type>,
    arguments: Vec<Type>,
    /// Remaining output budget, bytes.
    left: usize,
    deep: u32,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn take(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text.as_bytes()) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Counts output bytes so that a name cannot grow without limit.
    fn spend(&mut self, bytes: usize) -> Option<()> {
        self.left = self.left.checked_sub(bytes + 1)?;
        Some(())
    }

    fn within<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.deep >= MAX_DEPTH {
            return None;
        }
        self.deep += 1;
        let done = read(self);
        self.deep -= 1;
        done
    }

    fn add_substitution(&mut self, t: Type) -> Option<Type> {
        self.spend(t.left.len() + t.right.len())?;
        self.known.push(t.clone());
        Some(t)
    }

    /// Parses a function with its parameters, or a name alone.
    fn encoding(&mut self) -> Option<String> {
        self.within(|p| {
            if matches!(p.rest, [b'T' | b'G', ..]) {
                return None;
            }
            let name = p.name(true)?;
            if matches!(p.peek(), None | Some(b'E' | b'.')) {
                return Some(name.text);
            }
            let returned = if name.template && !name.without {
                Some(p.ty()?)
            } else {
                None
            };
            let parameters = p.parameters()?;
            // Qualifiers of the function, such as `const`, come after its parameters.
            let text = match returned {
                Some(r) => format!("{} {}({parameters}){}{}", r.left, name.text, name.behind, r.right),
                None => format!("{}({parameters}){}", name.text, name.behind),
            };
            p.spend(text.len())?;
            Some(text)
        })
    }

    /// Parses parameter types up to the end, or to an `E`.
    fn parameters(&mut self) -> Option<String> {
        let mut out = Vec::new();
        while !matches!(self.peek(), None | Some(b'E' | b'.')) {
            out.push(self.ty()?.words());
        }
        if out == ["void"] {
            out.clear();
        }
        let text = out
            .iter()
            .filter(|t| !t.is_empty())
            .cloned()
            .collect::<Vec<_>>()
            .join(", ");
        self.spend(text.len())?;
        Some(text)
    }

    /// Parses a name. `outer` says that it is the function's own name, whose template arguments its parameters refer
    /// to.
    fn name(&mut self, outer: bool) -> Option<Name> {
        self.within(|p| match p.peek()? {
            b'N' => p.nested(outer),
            b'Z' => p.local(),
            b'S' if p.rest.get(1) != Some(&b't') => {
                let t = p.substitution()?;
                p.with_arguments(t.words(), outer)
            }
            _ => {
                let text = if p.take("St") {
                    format!("std::{}", p.unqualified()?.0)
                } else {
                    p.unqualified()?.0
                };
                if p.peek() == Some(b'I') {
                    p.add_substitution(Type::plain(text.clone()))?;
                }
                p.with_arguments(text, outer)
            }
        })
    }

    /// Parses the template arguments of a name, if they follow.
    fn with_arguments(&mut self, text: String, outer: bool) -> Option<Name> {
        if self.peek() != Some(b'I') {
            return Some(Name {
                text,
                template: false,
                without: false,
                behind: String::new(),
            });
        }
        let (message, list) = self.template_arguments()?;
        if outer {
            self.arguments = list;
        }
        Some(Name {
            text: format!("{text}{message}"),
            template: true,
            without: false,
            behind: String::new(),
        })
    }

    /// Parses `N … E`: nested names.
    fn nested(&mut self, outer: bool) -> Option<Name> {
        self.take("N");
        let mut behind = String::new();
        for (letter, word) in [("r", " restrict"), ("V", " volatile"), ("K", " const")] {
            if self.take(letter) {
                behind.push_str(word);
            }
        }
        for (letter, word) in [("R", " &"), ("O", " &&")] {
            if self.take(letter) {
                behind.push_str(word);
            }
        }
        let mut text = String::new();
        let mut last = String::new();
        let (mut template, mut without) = (false, false);
        loop {
            match self.peek()? {
                b'E' => {
                    self.next();
                    break;
                }
                b'S' if self.rest.get(1) == Some(&b't') => {
                    self.take("St");
                    text = "std".to_owned();
                    continue;
                }
                b'S' => {
                    let t = self.substitution()?;
                    text = t.words();
                    last = text.rsplit("::").next().unwrap_or_default().to_owned();
                    template = false;
                    continue;
                }
                b'T' => {
                    let t = self.template_parameter()?;
                    text = t.words();
                    template = false;
                }
                b'I' => {
                    let (message, list) = self.template_arguments()?;
                    if outer {
                        self.arguments = list;
                    }
                    text.push_str(&message);
                    template = true;
                }
                b'C' if matches!(self.rest.get(1), Some(b'1'..=b'5')) => {
                    self.rest = self.rest.get(2..)?;
                    text = format!("{text}::{}", bare(&last));
                    (template, without) = (false, true);
                }
                b'D' if matches!(self.rest.get(1), Some(b'0'..=b'5')) => {
                    self.rest = self.rest.get(2..)?;
                    text = format!("{text}::~{}", bare(&last));
                    (template, without) = (false, true);
                }
                _ => {
                    let (own, conversion) = self.unqualified()?;
                    last.clone_from(&own);
                    text = if text.is_empty() { own } else { format!("{text}::{own}") };
                    (template, without) = (false, conversion);
                }
            }
            self.spend(text.len())?;
            // The complete name is not a prefix of another, so it gets no substitution number.
            if self.peek() != Some(b'E') {
                self.add_substitution(Type::plain(text.clone()))?;
            }
        }
        Some(Name {
            text,
            template,
            without,
            behind,
        })
    }

    /// Parses `Z … E …`: a name local to a function.
    fn local(&mut self) -> Option<Name> {
        self.take("Z");
        let function = self.encoding()?;
        self.take("E").then_some(())?;
        if self.take("s") {
            self.discriminator();
            return Some(Name {
                text: format!("{function}::string literal"),
                template: false,
                without: true,
                behind: String::new(),
            });
        }
        if self.take("d") {
            // A lambda in a default argument: the argument's number is of little use.
            while self.peek().is_some_and(|b| b.is_ascii_digit()) {
                self.next();
            }
            self.take("_").then_some(())?;
        }
        let name = self.name(false)?;
        self.discriminator();
        Some(Name {
            text: format!("{function}::{}", name.text),
            ..name
        })
    }

    fn discriminator(&mut self) {
        if self.peek() == Some(b'_') {
            let digits = |r: &[u8]| r.iter().take_while(|b| b.is_ascii_digit()).count();
            if let Some(rest) = self.rest.strip_prefix(b"__") {
                let n = digits(rest);
                self.rest = rest.get(n..).and_then(|r| r.strip_prefix(b"_")).unwrap_or(rest);
            } else if self.rest.get(1).is_some_and(u8::is_ascii_digit) {
                self.rest = self.rest.get(2..).unwrap_or_default();
            }
        }
    }

    /// Parses a name without its enclosing scope, and whether it is a conversion.
    fn unqualified(&mut self) -> Option<(String, bool)> {
        let (mut text, conversion) = match self.peek()? {
            b'0'..=b'9' => (self.source_name()?, false),
            b'L' => {
                self.next();
                (self.source_name()?, false)
            }
            b'U' => (self.closure()?, false),
            _ => self.operator()?,
        };
        while self.take("B") {
            text = format!("{text}[abi:{}]", self.source_name()?);
        }
        Some((text, conversion))
    }

    fn number(&mut self) -> Option<usize> {
        let digits = self.rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let text = std::str::from_utf8(self.rest.get(..digits)?).ok()?;
        self.rest = self.rest.get(digits..)?;
        text.parse().ok()
    }

    fn source_name(&mut self) -> Option<String> {
        let length = self.number()?;
        let (own, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        let text = std::str::from_utf8(own).ok()?;
        if text.starts_with("_GLOBAL__N") {
            return Some("(anonymous namespace)".to_owned());
        }
        self.spend(text.len())?;
        Some(text.to_owned())
    }

    /// Parses a lambda or an unnamed type.
    fn closure(&mut self) -> Option<String> {
        if self.take("Ut") {
            let n = self.counted()?;
            return Some(format!("{{unnamed type#{n}}}"));
        }
        self.take("Ul").then_some(())?;
        let parameters = self.parameters()?;
        self.take("E").then_some(())?;
        let n = self.counted()?;
        Some(format!("{{lambda({parameters})#{n}}}"))
    }

    /// Parses a number: `_` is 1, `0_` is 2.
    fn counted(&mut self) -> Option<usize> {
        if self.take("_") {
            return Some(1);
        }
        let n = self.number()?.checked_add(2)?;
        self.take("_").then_some(n)
    }

    fn operator(&mut self) -> Option<(String, bool)> {
        if self.take("cv") {
            return Some((format!("operator {}", self.ty()?.words()), true));
        }
        let two = self.rest.get(..2)?;
        let (_, word) = OPERATORS.iter().find(|(code, _)| code.as_bytes() == two)?;
        self.rest = self.rest.get(2..)?;
        Some((format!("operator{word}"), false))
    }
}

/// Returns a name without its template arguments.
fn bare(name: &str) -> &str {
    name.split('<').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn demangled_names_match_cxxfilt() {
        // The right sides are the output of `c++filt` of binutils 2.40.
        for (mangled, message) in [
            ("_Z3addPKfS0_Pfi", "add(float const*, float const*, float*, int)"),
            ("_Z4fillv", "fill()"),
            ("_ZN2at6native5relu_EPfi", "at::native::relu_(float*, int)"),
            (
                "_Z4axpyIfEvT_PKS0_PS0_i",
                "void axpy<float>(float, float const*, float*, int)",
            ),
            (
                "_Z6reduceILi256EdEvPKT0_PS0_j",
                "void reduce<256, double>(double const*, double*, unsigned int)",
            ),
            ("_Z1kILb1ELj4ELm8EEvPi", "void k<true, 4u, 8ul>(int*)"),
            ("_ZN12_GLOBAL__N_16kernelEPc", "(anonymous namespace)::kernel(char*)"),
            (
                "_ZN3cub10DeviceScanIiE4initERKNS_4GridE",
                "cub::DeviceScan<int>::init(cub::Grid const&)",
            ),
            ("_Z5applyPFvPiES_", "apply(void (*)(int*), int*)"),
            ("_Z2fnPA4_f", "fn(float (*) [4])"),
            (
                "_ZNKSt6vectorIiSaIiEE4sizeEv",
                "std::vector<int, std::allocator<int> >::size() const",
            ),
            ("_ZN1AC2Ev", "A::A()"),
            ("_ZN1AD1Ev", "A::~A()"),
            ("_ZplRK1AS1_", "operator+(A const&, A const&)"),
            ("_ZN1AcvfEv", "A::operator float()"),
            (
                "_Z4packIJifdEEvDpT_",
                "void pack<int, float, double>(int, float, double)",
            ),
            (
                "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_",
                "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, \
                 std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)",
            ),
            (
                "_Z7computePK6__halfP13__nv_bfloat16",
                "compute(__half const*, __nv_bfloat16*)",
            ),
            (
                "_ZZ4mainENKUlPfE_clES_",
                "main::{lambda(float*)#1}::operator()(float*) const",
            ),
        ] {
            let plain = |s: &str| s.replace("> >", ">>");
            assert_eq!(
                demangle(mangled).as_deref().map(plain),
                Some(plain(message)),
                "{mangled}"
            );
        }
        for invalid in [
            "add",
            "_Z",
            "_Z9add",
            "_ZN3add",
            "_Z1fIXplLi1ELi2EEEvv",
            "_ZTV1A",
            "_Z3addS9_",
            "",
        ] {
            assert_eq!(demangle(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn doubling_mangled_name_is_bounded() {
        // Each pair contains the one before twice.
        let mut name = "_Z1fSt4pairIiiE".to_owned();
        for n in 0..200usize {
            let substitution = if n == 0 {
                "S0_".to_owned()
            } else {
                format!("S{}_", to36(n))
            };
            name.push_str(&format!("St4pairI{substitution}{substitution}E"));
        }
        let _ = demangle(&name);
        assert_eq!(demangle(&format!("_Z1f{}", "P".repeat(10_000))), None);
    }

    fn to36(n: usize) -> String {
        let digit = |d: usize| char::from(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[d]);
        if n < 36 {
            digit(n).to_string()
        } else {
            format!("{}{}", to36(n / 36), digit(n % 36))
        }
    }

    proptest! {
        #[test]
        fn demangling_arbitrary_text_ends(text in "_Z[A-Za-z0-9_]{0,60}") {
            let _ = demangle(&text);
        }
    }
}
