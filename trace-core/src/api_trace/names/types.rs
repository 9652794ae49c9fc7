//! Parsing of types, substitutions and template arguments in mangled names.

use super::operators::builtin;
use super::{Parser, Type};

impl Parser<'_> {
    /// Parses a substitution: `S_`, `S3_`, `St` and so on.
    pub(super) fn substitution(&mut self) -> Option<Type> {
        self.take("S").then_some(())?;
        for (letter, word) in [
            ("t", "std"),
            ("a", "std::allocator"),
            ("b", "std::basic_string"),
            ("s", "std::string"),
            ("i", "std::istream"),
            ("o", "std::ostream"),
            ("d", "std::iostream"),
        ] {
            if self.take(letter) {
                return Some(Type::plain(word));
            }
        }
        let n = self.index36()?;
        let t = self.known.get(n)?.clone();
        self.spend(t.left.len() + t.right.len())?;
        Some(t)
    }

    /// Parses a sequence number: `_` is 0, `0_` is 1, with digits in base 36.
    pub(super) fn index36(&mut self) -> Option<usize> {
        if self.take("_") {
            return Some(0);
        }
        let mut n = 0usize;
        loop {
            match self.next()? {
                b'_' => return n.checked_add(1),
                c @ (b'0'..=b'9' | b'A'..=b'Z') => {
                    let digit = if c.is_ascii_digit() { c - b'0' } else { c - b'A' + 10 };
                    n = n.checked_mul(36)?.checked_add(usize::from(digit))?;
                }
                _ => return None,
            }
        }
    }

    pub(super) fn template_parameter(&mut self) -> Option<Type> {
        self.take("T").then_some(())?;
        let n = if self.take("_") {
            0
        } else {
            let n = self.number()?.checked_add(1)?;
            self.take("_").then_some(n)?
        };
        // The argument type of a generic lambda is not known.
        let t = self.arguments.get(n).cloned().unwrap_or_else(|| Type::plain("auto"));
        self.spend(t.left.len() + t.right.len())?;
        Some(t)
    }

    /// Parses `I … E`: returns the arguments as text, and each as a type.
    pub(super) fn template_arguments(&mut self) -> Option<(String, Vec<Type>)> {
        self.within(|p| {
            p.take("I").then_some(())?;
            let mut list = Vec::new();
            while !p.take("E") {
                list.push(p.template_argument()?);
            }
            let words: Vec<String> = list.iter().map(Type::words).filter(|w| !w.is_empty()).collect();
            let text = format!("<{}>", words.join(", "));
            p.spend(text.len())?;
            Some((text, list))
        })
    }

    pub(super) fn template_argument(&mut self) -> Option<Type> {
        match self.peek()? {
            b'L' => self.literal().map(Type::plain),
            b'J' => {
                self.next();
                let mut words = Vec::new();
                while !self.take("E") {
                    words.push(self.template_argument()?.words());
                }
                let text = words.join(", ");
                self.spend(text.len())?;
                Some(Type::plain(text))
            }
            b'X' => None,
            _ => self.ty(),
        }
    }

    /// Parses `L … E`: a number, a Boolean, or the address of a function.
    pub(super) fn literal(&mut self) -> Option<String> {
        self.take("L").then_some(())?;
        if self.take("_Z") {
            let text = self.encoding()?;
            return self.take("E").then_some(text);
        }
        let letter = self.peek()?;
        let t = self.ty()?.words();
        let end = self.rest.iter().position(|b| *b == b'E')?;
        let digits = std::str::from_utf8(self.rest.get(..end)?).ok()?.to_owned();
        self.rest = self.rest.get(end + 1..)?;
        let digits = match digits.strip_prefix('n') {
            Some(d) => format!("-{d}"),
            None => digits,
        };
        Some(match (letter, &*digits) {
            (b'b', "0") => "false".to_owned(),
            (b'b', _) => "true".to_owned(),
            (b'i', _) => digits,
            (b'j', _) => format!("{digits}u"),
            (b'l', _) => format!("{digits}l"),
            (b'm', _) => format!("{digits}ul"),
            (b'x', _) => format!("{digits}ll"),
            (b'y', _) => format!("{digits}ull"),
            _ => format!("({t}){digits}"),
        })
    }

    /// Parses a type.
    pub(super) fn ty(&mut self) -> Option<Type> {
        self.within(|p| {
            let t = p.ty_within()?;
            p.spend(t.left.len() + t.right.len())?;
            Some(t)
        })
    }

    pub(super) fn ty_within(&mut self) -> Option<Type> {
        let first = self.peek()?;
        if let Some(word) = builtin(first) {
            self.next();
            return Some(Type::plain(word));
        }
        match first {
            b'P' => self.pointed("*"),
            b'R' => self.pointed("&"),
            b'O' => self.pointed("&&"),
            b'K' | b'V' | b'r' => {
                self.next();
                let word = match first {
                    b'K' => " const",
                    b'V' => " volatile",
                    _ => " __restrict__",
                };
                let mut t = self.ty()?;
                t.left.push_str(word);
                self.add_substitution(t)
            }
            b'F' => self.function(),
            b'A' => self.array(),
            b'T' => {
                let t = self.template_parameter()?;
                let t = self.add_substitution(t)?;
                self.with_template_arguments(t)
            }
            b'S' if self.rest.get(1) != Some(&b't') => {
                let t = self.substitution()?;
                self.with_template_arguments(t)
            }
            b'D' => self.extended_type(),
            b'u' => {
                self.next();
                let t = Type::plain(self.source_name()?);
                self.add_substitution(t)
            }
            _ => {
                let name = self.name(false)?;
                self.add_substitution(Type::plain(name.text))
            }
        }
    }

    /// Parses a pointer or a reference.
    pub(super) fn pointed(&mut self, mark: &str) -> Option<Type> {
        self.next();
        let t = self.ty()?.pointed(mark);
        self.add_substitution(t)
    }

    /// Parses the template arguments of a type, if they follow.
    pub(super) fn with_template_arguments(&mut self, t: Type) -> Option<Type> {
        if self.peek() != Some(b'I') {
            return Some(t);
        }
        let (message, _) = self.template_arguments()?;
        self.add_substitution(Type::plain(format!("{}{message}", t.words())))
    }

    /// Parses `F … E`: a function type.
    pub(super) fn function(&mut self) -> Option<Type> {
        self.take("F").then_some(())?;
        self.take("Y");
        let returned = self.ty()?;
        let parameters = self.parameters()?;
        self.take("E").then_some(())?;
        self.add_substitution(Type {
            left: returned.left,
            right: format!("({parameters}){}", returned.right),
        })
    }

    /// Parses `A10_f`: an array type.
    pub(super) fn array(&mut self) -> Option<Type> {
        self.take("A").then_some(())?;
        let count = if self.peek() == Some(b'_') {
            String::new()
        } else {
            self.number()?.to_string()
        };
        self.take("_").then_some(())?;
        let t = self.ty()?;
        self.add_substitution(Type {
            left: t.left,
            right: format!(" [{count}]{}", t.right.trim_start()),
        })
    }

    /// Parses types that start with a `D`.
    pub(super) fn extended_type(&mut self) -> Option<Type> {
        for (code, word) in [
            ("Dn", "decltype(nullptr)"),
            ("Di", "char32_t"),
            ("Ds", "char16_t"),
            ("Du", "char8_t"),
            ("Da", "auto"),
            ("Dc", "decltype(auto)"),
            ("Dh", "half"),
            ("DF16_", "_Float16"),
            ("DF16b", "std::bfloat16_t"),
        ] {
            if self.take(code) {
                return Some(Type::plain(word));
            }
        }
        if self.take("Dp") {
            // The types of a parameter pack stand among the others. Patterns that expand a pack are not supported.
            (self.peek() == Some(b'T')).then_some(())?;
            let t = self.ty()?;
            return self.add_substitution(t);
        }
        None
    }
}
