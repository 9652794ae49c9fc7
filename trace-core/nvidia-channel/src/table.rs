//! The text form of the embedded tables of methods and descriptors, in `assets/registers/nvidia/`.
//!
//! A table has these lines; numbers are hexadecimal, bits and counts decimal:
//!
//! - `class NUMBER NAME`: a class whose methods the table has;
//! - `layout MAJOR_MINOR BYTES CLASS...`: a version of a descriptor, up to the next such line;
//! - `in CLASS...`: the following lines are valid for these classes;
//! - `OFFSET[+STRIDE*COUNT] NAME`: a method, or an array of methods;
//! - ` HIGH:LOW[+STRIDE*COUNT] NAME [VALUE=NAME...]`: a field of the method or of the descriptor, with its values.
//!   `HIGH:LOW` is `BIT` for a single bit, and `bool` stands for `0=FALSE 1=TRUE`.

use crate::field::Field;
use std::str::SplitAsciiWhitespace;
use thiserror::Error;

/// Maximum number of elements in an array.
const MAX_ELEMENTS: u32 = 256;

/// A line of a table that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {text:?} is not a line of a table")]
pub struct TableError {
    /// Number of the line, from 1.
    pub line: usize,
    /// The line.
    pub text: String,
}

/// A method or an array of methods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MethodInfo {
    /// Name, as NVIDIA's headers have it.
    pub name: &'static str,
    /// Byte address of the first element.
    pub offset: u16,
    /// Distance of two elements in bytes; 0 for a method that is not an array.
    pub stride: u16,
    /// Number of elements; 1 for a method that is not an array.
    pub count: u16,
    /// Fields of the value. A value without fields is one number.
    pub fields: Vec<Field>,
}

/// A class and its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Class {
    pub number: u16,
    pub name: &'static str,
}

/// A descriptor's version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    pub major: u8,
    pub minor: u8,
    pub bytes: usize,
    pub classes: Vec<u16>,
    pub sections: Vec<Section>,
}

/// Lines that are valid for some classes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Section {
    pub classes: Vec<u16>,
    pub methods: Vec<MethodInfo>,
    /// Fields of a descriptor.
    pub fields: Vec<Field>,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Table {
    pub classes: Vec<Class>,
    /// Sections of methods.
    pub sections: Vec<Section>,
    pub layouts: Vec<Layout>,
}

impl Table {
    /// Parses a table.
    pub(crate) fn parse(text: &'static str) -> Result<Self, TableError> {
        let mut table = Self::default();
        for (n, line) in text.lines().enumerate() {
            table.read_line(line).ok_or_else(|| TableError {
                line: n + 1,
                text: line.to_owned(),
            })?;
        }
        Ok(table)
    }

    fn read_line(&mut self, line: &'static str) -> Option<()> {
        let mut words = line.split_ascii_whitespace();
        let head = words.next()?;
        if line.starts_with(' ') {
            let field = parse_field(head, words)?;
            let section = self.section()?;
            match section.methods.last_mut() {
                Some(method) => method.fields.push(field),
                None => section.fields.push(field),
            }
            return Some(());
        }
        match head {
            "class" => self.classes.push(Class {
                number: parse_hex(words.next()?)?,
                name: words.next()?,
            }),
            "layout" => {
                let (major, minor) = words.next()?.split_once('_')?;
                self.layouts.push(Layout {
                    major: major.parse().ok()?,
                    minor: minor.parse().ok()?,
                    bytes: words.next()?.parse().ok()?,
                    classes: words.map(parse_hex).collect::<Option<_>>()?,
                    sections: Vec::new(),
                });
            }
            "in" => {
                let section = Section {
                    classes: words.map(parse_hex).collect::<Option<_>>()?,
                    ..Section::default()
                };
                match self.layouts.last_mut() {
                    Some(layout) => layout.sections.push(section),
                    None => self.sections.push(section),
                }
            }
            _ => {
                let (offset, stride, count) = parse_array(head)?;
                let method = MethodInfo {
                    name: words.next()?,
                    offset: parse_hex(offset)?,
                    stride: u16::try_from(stride).ok()?,
                    count: u16::try_from(count).ok()?,
                    fields: Vec::new(),
                };
                self.section()?.methods.push(method);
            }
        }
        Some(())
    }

    /// Returns the section that is read.
    fn section(&mut self) -> Option<&mut Section> {
        match self.layouts.last_mut() {
            Some(layout) => layout.sections.last_mut(),
            None => self.sections.last_mut(),
        }
    }
}

fn parse_hex(word: &str) -> Option<u16> {
    u16::from_str_radix(word, 16).ok()
}

/// Splits `FIRST[+STRIDE*COUNT]`.
fn parse_array(word: &'static str) -> Option<(&'static str, u32, u32)> {
    let Some((first, array)) = word.split_once('+') else {
        return Some((word, 0, 1));
    };
    let (stride, count) = array.split_once('*')?;
    let (stride, count) = (stride.parse().ok()?, count.parse().ok()?);
    (stride > 0 && (1..=MAX_ELEMENTS).contains(&count)).then_some((first, stride, count))
}

fn parse_field(bits: &'static str, mut words: SplitAsciiWhitespace<'static>) -> Option<Field> {
    let (bits, stride, count) = parse_array(bits)?;
    let (high, low) = bits.split_once(':').unwrap_or((bits, bits));
    let (high, low): (u32, u32) = (high.parse().ok()?, low.parse().ok()?);
    let name = words.next()?;
    let mut values = Vec::new();
    for word in words {
        if word == "bool" {
            values.extend([(0, "FALSE"), (1, "TRUE")]);
            continue;
        }
        let (value, text) = word.split_once('=')?;
        values.push((u32::from_str_radix(value, 16).ok()?, text));
    }
    (high >= low && high - low < 64).then_some(Field {
        name,
        high,
        low,
        stride,
        count,
        values,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_of_methods() {
        let table = Table::parse("class c0 X\nin c0\n320+4*64 DATA\n 31:4 A 0=B f=C\n 3 D bool\n");
        let table = table.unwrap_or_default();
        let method = &table.sections[0].methods[0];
        assert_eq!(
            (method.name, method.offset, method.stride, method.count),
            ("DATA", 0x320, 4, 64)
        );
        assert_eq!(method.fields[0].values, [(0, "B"), (15, "C")]);
        assert_eq!((method.fields[1].high, method.fields[1].low), (3, 3));
        assert_eq!(method.fields[1].text_of(1), Some("TRUE"));
    }

    #[test]
    fn damaged_lines_are_named() {
        for text in [
            "class c0",
            "in zz",
            "320 A",
            "in c0\n320+4 A",
            "in c0\n 3:4 A",
            "in c0\n 3 A x",
            "in c0\n 99:1 A",
        ] {
            let line = text.lines().count();
            assert_eq!(Table::parse(text).map_err(|e| e.line), Err(line), "{text}");
        }
    }
}
