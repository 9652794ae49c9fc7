//! Names of programs and buffers as identifiers of Rust and C.

use super::ProgramError;
use std::collections::BTreeSet;

/// Maximum length of a program name, bytes.
const MAX_NAME_BYTES: usize = 48;

/// Words that are reserved in Rust or C.
const KEYWORDS: &[&str] = &[
    "abstract",
    "alignas",
    "alignof",
    "as",
    "asm",
    "async",
    "auto",
    "await",
    "become",
    "bool",
    "box",
    "break",
    "case",
    "char",
    "const",
    "constexpr",
    "continue",
    "crate",
    "default",
    "do",
    "double",
    "dyn",
    "else",
    "enum",
    "extern",
    "false",
    "final",
    "float",
    "fn",
    "for",
    "gen",
    "goto",
    "if",
    "impl",
    "in",
    "inline",
    "int",
    "let",
    "long",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "nullptr",
    "override",
    "priv",
    "pub",
    "ref",
    "register",
    "restrict",
    "return",
    "self",
    "short",
    "signed",
    "sizeof",
    "static",
    "struct",
    "super",
    "switch",
    "trait",
    "true",
    "try",
    "type",
    "typedef",
    "typeof",
    "union",
    "unsafe",
    "unsized",
    "unsigned",
    "use",
    "virtual",
    "void",
    "volatile",
    "where",
    "while",
    "yield",
];

/// Checks a program name that the user chose.
///
/// # Errors
/// When the name is not a valid identifier in both languages.
pub fn check_program_name(name: &str) -> Result<String, ProgramError> {
    let bad = |reason| ProgramError::Name {
        name: name.to_owned(),
        reason,
    };
    let mut characters = name.chars();
    let begins = characters.next().is_some_and(|c| c.is_ascii_lowercase());
    if !begins
        || !characters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        || name.len() > MAX_NAME_BYTES
    {
        return Err(bad(
            "use 1 to 48 lower-case letters, digits and `_`, and begin with a letter",
        ));
    }
    if KEYWORDS.contains(&name) || matches!(name, "core" | "std" | "replay_core" | "test" | "main") {
        return Err(bad("it is a word of the language"));
    }
    Ok(name.to_owned())
}

/// Converts any text to an identifier of at most 48 characters.
pub fn to_identifier(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            'A'..='Z' | 'a'..='z' | '0'..='9' => out.push(c.to_ascii_lowercase()),
            _ if out.ends_with('_') || out.is_empty() => {}
            _ => out.push('_'),
        }
        if out.len() == MAX_NAME_BYTES {
            break;
        }
    }
    let mut out = out.trim_end_matches('_').to_owned();
    if !out.starts_with(|c: char| c.is_ascii_lowercase()) {
        out.insert(0, 'b');
    }
    if KEYWORDS.contains(&out.as_str()) {
        out.push('_');
    }
    out
}

/// Converts names to unique identifiers.
pub fn to_identifiers<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut taken = BTreeSet::new();
    names
        .map(|name| {
            let plain = to_identifier(name);
            let mut id = plain.clone();
            let mut n = 1u32;
            while !taken.insert(id.clone()) {
                n = n.saturating_add(1);
                id = format!("{plain}_{n}");
            }
            id
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arbitrary_names_become_unique_identifiers() {
        let ids = |names: &[&str]| to_identifiers(names.iter().copied());
        assert_eq!(
            ids(&["image", "Conv 1/bias", "7", "", "in", "ä", "image"]),
            ["image", "conv_1_bias", "b7", "b", "in_", "b_2", "image_2"]
        );
        assert_eq!(to_identifier(&"x".repeat(100)).len(), MAX_NAME_BYTES);
    }

    #[test]
    fn program_name_is_valid_in_c_and_rust() {
        assert_eq!(check_program_name("digits_2").unwrap(), "digits_2");
        for bad in ["", "Digits", "2x", "a-b", "union", "core", &"a".repeat(49), "ä"] {
            assert!(
                matches!(check_program_name(bad), Err(ProgramError::Name { .. })),
                "{bad}"
            );
        }
    }
}
