//! Small mistakes in the XML of a file that would make all of it unreadable. They are mended before the file is parsed,
//! and reported. Comments are removed, so that a text with one inside is one text.

use std::borrow::Cow;

/// Maximum number of mistakes that are listed for a file.
const MAX_MISTAKES: usize = 100;
/// References that every XML reader knows.
const KNOWN: [&str; 5] = ["amp", "lt", "gt", "quot", "apos"];

/// A text without comments and small mistakes.
pub(crate) struct MendedText {
    pub text: String,
    /// From which byte of the text on, which byte of the file it was; ascending.
    moves: Vec<(usize, usize)>,
    /// The byte of the file, and what was mended there.
    pub mistakes: Vec<(usize, String)>,
    /// Number of mistakes that are not listed.
    pub more_mistakes: usize,
}

impl MendedText {
    /// Returns the byte of the file that a byte of the text was.
    pub fn origin(&self, at: usize) -> usize {
        let n = self.moves.partition_point(|(from, _)| *from <= at);
        let last = n.checked_sub(1).and_then(|n| self.moves.get(n));
        last.map_or(at, |(from, origin)| at - from + origin)
    }

    /// Declares a prefix of a namespace in the tag whose name ends at a byte of the text.
    pub fn declare(&mut self, at: usize, prefix: &str, line: u32) {
        let origin = self.origin(at);
        let declaration = format!(" xmlns:{prefix}=\"undeclared:{prefix}\"");
        self.text.insert_str(at, &declaration);
        for (from, _) in self.moves.iter_mut().filter(|(from, _)| *from >= at) {
            *from += declaration.len();
        }
        let n = self.moves.partition_point(|(from, _)| *from < at);
        self.moves.insert(n, (at + declaration.len(), origin));
        self.mistake(origin, || {
            format!("the prefix {prefix}: of line {line} is not declared; it is taken as declared")
        });
    }

    fn mistake(&mut self, at: usize, what: impl FnOnce() -> String) {
        if self.mistakes.len() < MAX_MISTAKES {
            self.mistakes.push((at, what()));
        } else {
            self.more_mistakes += 1;
        }
    }

    /// Appends what replaces a piece of the file that ends before `next`.
    fn replace(&mut self, with: &str, next: usize) {
        self.text.push_str(with);
        self.moves.push((self.text.len(), next));
    }
}

/// Removes comments and mends mistakes in the text of a file.
pub(crate) fn mend(file: &str) -> MendedText {
    let mut out = MendedText {
        text: String::with_capacity(file.len()),
        moves: Vec::new(),
        mistakes: Vec::new(),
        more_mistakes: 0,
    };
    let mut at = 0;
    // The declaration must be at the start of a file, and its encoding was followed already.
    let start = file.len() - file.trim_start_matches('\u{feff}').trim_start().len();
    let declaration = file.get(start..).filter(|t| t.starts_with("<?xml "));
    if let Some(end) = declaration.and_then(|t| t.find("?>")) {
        at = start + end + 2;
        out.replace("", at);
    }
    while let Some(rest) = file.get(at..).filter(|r| !r.is_empty()) {
        let special = |c: char| matches!(c, '<' | '&') || c.is_control() && !matches!(c, '\n' | '\r' | '\t');
        let Some(next) = rest.find(special) else {
            out.text.push_str(rest);
            break;
        };
        let (plain, rest) = rest.split_at(next);
        out.text.push_str(plain);
        at += next;
        let (length, mended) = special_at(rest);
        let piece = rest.get(..length).unwrap_or(rest);
        match mended {
            None => out.text.push_str(piece),
            Some(with) => {
                if !piece.starts_with("<!") {
                    let shown: String = piece.chars().take(1).collect();
                    out.mistake(at, || match shown.as_str() {
                        "&" => "a single & starts no reference that XML knows; it is read as the character".to_owned(),
                        "<" => "a single < starts no element; it is read as the character".to_owned(),
                        _ => "a control character is read as a space".to_owned(),
                    });
                }
                out.replace(&with, at + length);
            }
        }
        at += length.max(1);
    }
    out
}

/// Returns the length of the special text at the start, and what replaces it, if anything.
fn special_at(text: &str) -> (usize, Option<Cow<'static, str>>) {
    let whole = |start: &str, end: &str| {
        let inside = text.strip_prefix(start)?;
        Some(inside.find(end).map_or(text.len(), |n| start.len() + n + end.len()))
    };
    if let Some(length) = whole("<!--", "-->") {
        // A comment without an end is left to the parser, which names its place.
        let is_closed = text.get(..length).is_some_and(|t| t.len() >= 7 && t.ends_with("-->"));
        return (length, is_closed.then_some(Cow::Borrowed("")));
    }
    // A document type without definitions of its own says nothing about the elements.
    let document_type = text.starts_with("<!DOCTYPE").then(|| text.find(['>', '['])).flatten();
    if let Some(end) = document_type.filter(|end| text.get(*end..).is_some_and(|t| t.starts_with('>'))) {
        return (end + 1, Some(Cow::Borrowed("")));
    }
    if let Some(length) = whole("<![CDATA[", "]]>").or_else(|| whole("<?", "?>")) {
        return (length, None);
    }
    let mut chars = text.chars();
    let first = chars.next();
    let second = chars.next();
    match first {
        Some('<') => {
            let starts_one = second.is_none_or(|c| c.is_alphabetic() || matches!(c, '_' | ':' | '/' | '!'));
            (1, (!starts_one).then_some(Cow::Borrowed("&lt;")))
        }
        Some('&') => (1, (!is_reference(text)).then_some(Cow::Borrowed("&amp;"))),
        Some(c) => (c.len_utf8(), Some(Cow::Borrowed(" "))),
        None => (0, None),
    }
}

/// Whether a text that starts with `&` starts with a reference to a character.
fn is_reference(text: &str) -> bool {
    let Some((name, _)) = text
        .get(1..)
        .and_then(|t| t.get(..t.len().min(16)).unwrap_or(t).split_once(';'))
    else {
        return false;
    };
    let code = match name.strip_prefix('#') {
        None => return KNOWN.contains(&name),
        Some(digits) => match digits.strip_prefix('x') {
            Some(hex) => u32::from_str_radix(hex, 16),
            None => digits.parse(),
        },
    };
    let allowed = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t' | '\u{7f}'..='\u{9f}');
    code.ok().and_then(char::from_u32).is_some_and(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_single_characters_are_mended_with_their_places() {
        let file = "\n <?xml version='1.0'?><a>0x4<!-- was\n8 -->0</a><b>R&D &lt; 3 < 4 &deg; &#181;\u{1}</b><![CDATA[a & <!-- b -->]]><!--- c --->";
        let mended = mend(file);
        assert_eq!(
            mended.text,
            "<a>0x40</a><b>R&amp;D &lt; 3 &lt; 4 &amp;deg; &#181; </b><![CDATA[a & <!-- b -->]]>"
        );
        let at = |text: &str, of: &str| of.find(text).unwrap();
        assert_eq!(mended.origin(at("<b>", &mended.text)), at("<b>", file));
        assert_eq!(mended.origin(at("<![CDATA", &mended.text)), at("<![CDATA", file));
        let places: Vec<usize> = mended.mistakes.iter().map(|(at, _)| *at).collect();
        assert_eq!(
            places,
            [at("&D", file), at("< 4", file), at("&deg", file), at("\u{1}", file)]
        );
        assert_eq!(mend("<!DOCTYPE a SYSTEM 'a.dtd'><a/>").text, "<a/>");
        assert_eq!(
            mend("<!DOCTYPE a [<!ENTITY b 'c'>]><a/>").text,
            "<!DOCTYPE a [<!ENTITY b 'c'>]><a/>"
        );
        // Without an end, nothing is removed.
        assert_eq!(mend("<a><!-- b").text, "<a><!-- b");
        assert_eq!(mend("<a/><!-->").text, "<a/><!-->");
    }
}
