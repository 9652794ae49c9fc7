//! Short descriptions of values in one line: prepared once for a register and a direction, written for many values.

use super::layout::low_bits;
use super::{Direction, Field, FieldKind, Layout, NamedValues};
use std::fmt::Write as _;

/// Maximum number of characters of a description.
const MAX_CHARACTERS: usize = 120;
/// Stands between the parts of a description.
const SEPARATOR: &str = " · ";
/// Stands for the text of a field in [`Field::say`].
const VALUE_MARK: &str = "{}";

/// Describes the values of one access: the fields of each register that it touches, prepared for one direction.
///
/// [`super::RegisterMap::describer`] creates it.
#[derive(Clone, Debug)]
pub struct ValueDescriber<'a> {
    parts: Vec<PartDescriber<'a>>,
}

/// A register that the access touches.
#[derive(Clone, Debug)]
pub(super) struct PartDescriber<'a> {
    /// Name in front of the description, if the access touches several registers.
    pub name: Option<String>,
    /// Position of the touched bits in the value of the access.
    pub from_bit: u32,
    /// The touched bits, shifted down to bit 0.
    pub mask: u64,
    /// Position of the touched bits in the register.
    pub to_bit: u32,
    pub line: LineDescriber<'a>,
}

impl<'a> ValueDescriber<'a> {
    pub(super) fn new(parts: Vec<PartDescriber<'a>>) -> Self {
        Self { parts }
    }

    /// Appends the description of a value to `out`: one line of at most 120 characters, which may be empty.
    pub fn write(&self, value: u64, out: &mut String) {
        let start = out.len();
        for (n, part) in self.parts.iter().enumerate() {
            if n > 0 {
                out.push_str(SEPARATOR);
            }
            if let Some(name) = &part.name {
                out.push_str(name);
                out.push(' ');
            }
            let bits = value.checked_shr(part.from_bit).unwrap_or(0) & part.mask;
            part.line.write(bits.checked_shl(part.to_bit).unwrap_or(0), out);
        }
        if self.parts.len() > 1 {
            shorten(out, start);
        }
    }

    /// Returns the description of a value: one line of at most 120 characters, which may be empty.
    #[must_use]
    pub fn describe(&self, value: u64) -> String {
        let mut out = String::new();
        self.write(value, &mut out);
        out
    }
}

/// Describes the bits of a mask of one register.
#[derive(Clone, Debug)]
pub(super) struct LineDescriber<'a> {
    mask: u64,
    /// Description of zero; empty if there is none.
    zero: &'a str,
    fields: Vec<FieldDescriber<'a>>,
    /// The bits that the fields describe.
    known: u64,
}

/// Describes one field.
#[derive(Clone, Debug)]
struct FieldDescriber<'a> {
    field: &'a Field,
    /// Bits of the field, shifted down to bit 0.
    bits: u64,
    names: Option<&'a NamedValues>,
    /// Whether the field has a text if it is 0.
    shows_zero: bool,
    /// Whether an empty text of the field counts as a part.
    is_only: bool,
    /// Text before the first value.
    before: &'a str,
    /// Text after the first value, or `None` if the value is not shown.
    after: Option<&'a str>,
    /// Whether the text after the first value shows the value again.
    repeats: bool,
}

impl<'a> FieldDescriber<'a> {
    fn new(field: &'a Field, direction: Direction, is_only: bool) -> Self {
        let names = field.values(direction);
        let is_count = matches!(
            field.kind,
            FieldKind::Number | FieldKind::NumberPlusOne | FieldKind::PowerOfTwo
        );
        let names_zero = || names.and_then(|v| v.name(0)).is_some_and(|name| !name.is_empty());
        let (before, after) = match field.say.split_once(VALUE_MARK) {
            _ if is_only => ("", Some("")),
            Some((before, after)) => (before, Some(after)),
            None => (field.say.as_str(), None),
        };
        Self {
            field,
            bits: low_bits(field.width()),
            names,
            shows_zero: is_only || is_count || names_zero(),
            is_only,
            before,
            after,
            repeats: after.is_some_and(|after| after.contains(VALUE_MARK)),
        }
    }

    /// Appends the text of the field of a register's value. Returns whether there is one.
    fn write(&self, value: u64, has_parts: bool, out: &mut String) -> bool {
        let value = value.checked_shr(self.field.lo).unwrap_or(0) & self.bits;
        if value == 0 && !self.shows_zero {
            return false;
        }
        let start = out.len();
        if has_parts {
            out.push_str(SEPARATOR);
        }
        out.push_str(self.before);
        let text = out.len();
        // Only a name can be empty.
        if self.after.is_some() || self.names.is_some() {
            self.field.write_text(value, self.names, out);
            if out.len() == text && !self.is_only {
                out.truncate(start);
                return false;
            }
        }
        let Some(mut rest) = self.after else {
            out.truncate(text);
            return true;
        };
        while self.repeats
            && let Some((between, after)) = rest.split_once(VALUE_MARK)
        {
            out.push_str(between);
            self.field.write_text(value, self.names, out);
            rest = after;
        }
        out.push_str(rest);
        true
    }
}

impl<'a> LineDescriber<'a> {
    /// Prepares the description of the bits of `mask`, in position. Fields that are not completely inside it are shown as
    /// bits.
    pub fn new(layout: &'a Layout, mask: u64, direction: Direction) -> Self {
        let inside = layout.inside(0);
        let all = mask & inside == inside;
        let bits = |f: &Field| low_bits(f.width()).checked_shl(f.lo).unwrap_or(0);
        let whole = |f: &&Field| all || bits(f) & mask == bits(f);
        let is_only = matches!(layout.fields.as_ref(), [only] if only.say.is_empty());
        let fields = layout.fields.iter().filter(whole);
        let fields = fields.filter(|f| is_only || !f.say.is_empty());
        Self {
            mask,
            zero: if all { layout.zero.as_str() } else { "" },
            fields: fields.map(|f| FieldDescriber::new(f, direction, is_only)).collect(),
            known: if all {
                layout.known(0)
            } else {
                layout.fields.iter().filter(whole).fold(0, |k, f| k | bits(f))
            },
        }
    }

    /// Appends the description of a register's value: at most 120 characters.
    pub fn write(&self, value: u64, out: &mut String) {
        let value = value & self.mask;
        if value == 0 && !self.zero.is_empty() {
            out.push_str(self.zero);
            return;
        }
        let start = out.len();
        let mut has_parts = false;
        for field in &self.fields {
            has_parts |= field.write(value, has_parts, out);
        }
        let rest = value & !self.known;
        if rest != 0 {
            if has_parts {
                out.push_str(SEPARATOR);
                out.push('+');
            }
            push_hex(rest, out);
        } else if !has_parts {
            if value == 0 {
                out.push('0');
            } else {
                push_hex(value, out);
            }
        }
        shorten(out, start);
    }
}

impl Field {
    /// Appends the meaning of the field's bits to `out`. `names` are the names of the access's direction.
    pub(super) fn write_text(&self, value: u64, names: Option<&NamedValues>, out: &mut String) {
        if let Some(names) = names {
            match names.name(value) {
                Some(name) => out.push_str(name),
                None => {
                    out.push_str("unknown ");
                    push_hex(value, out);
                }
            }
            return;
        }
        match &self.kind {
            FieldKind::Number => push_decimal(value.into(), out),
            FieldKind::NumberPlusOne => push_decimal(value.saturating_add(1).into(), out),
            FieldKind::PowerOfTwo => match 1u128.checked_shl(value.min(127) as u32) {
                Some(n) if value < 128 => push_decimal(n, out),
                _ => {
                    out.push_str("2^");
                    push_decimal(value.into(), out);
                }
            },
            // An enumeration was handled above.
            FieldKind::Hex | FieldKind::Enum(_) => push_hex(value, out),
            FieldKind::Set { first } => push_set(value, *first, out),
            FieldKind::Address { shift } => push_hex(value.checked_shl(*shift).unwrap_or(0), out),
            FieldKind::Bool => out.push_str(if value == 0 { "no" } else { "yes" }),
        }
    }
}

/// Appends `1`, `0 to 7`, `0 to 3, 5`; `none`.
fn push_set(value: u64, first: u32, out: &mut String) {
    if value == 0 {
        out.push_str("none");
        return;
    }
    let mut rest = value;
    let mut shifted = 0;
    let mut is_first = true;
    while rest != 0 {
        let bit = rest.trailing_zeros();
        let run = (rest >> bit).trailing_ones();
        let from = u64::from(first) + u64::from(shifted + bit);
        if !is_first {
            out.push_str(", ");
        }
        is_first = false;
        push_decimal(from.into(), out);
        if run > 1 {
            out.push_str(if run == 2 { ", " } else { " to " });
            push_decimal((from + u64::from(run) - 1).into(), out);
        }
        shifted += bit + run;
        rest = value.checked_shr(shifted).unwrap_or(0);
    }
}

/// Appends `0x1f`.
fn push_hex(value: u64, out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [b'0'; 18];
    let mut rest = value;
    let mut at = text.len();
    loop {
        at -= 1;
        if let (Some(to), Some(digit)) = (text.get_mut(at), DIGITS.get((rest & 15) as usize)) {
            *to = *digit;
        }
        rest >>= 4;
        if rest == 0 || at <= 2 {
            break;
        }
    }
    at -= 1;
    if let Some(to) = text.get_mut(at) {
        *to = b'x';
    }
    at -= 1;
    out.push_str(text.get(at..).and_then(|t| str::from_utf8(t).ok()).unwrap_or_default());
}

/// Appends a decimal number.
fn push_decimal(value: u128, out: &mut String) {
    /// The numbers 0 to 99, two digits each.
    const PAIRS: &str = "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849\
                         5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";
    if value < 100 {
        let at = value as usize * 2;
        let digits = if value < 10 { at + 1..at + 2 } else { at..at + 2 };
        out.push_str(PAIRS.get(digits).unwrap_or_default());
        return;
    }
    // Writing to a string cannot fail.
    let _ = write!(out, "{value}");
}

/// Cuts the line that starts at byte `start` to 120 characters.
pub(super) fn shorten(out: &mut String, start: usize) {
    // A character has at least one byte.
    let Some(line) = out.get(start..).filter(|line| line.len() > MAX_CHARACTERS) else {
        return;
    };
    let mut ends = line.char_indices().skip(MAX_CHARACTERS - 1);
    if let (Some((last, _)), Some(_)) = (ends.next(), ends.next()) {
        out.truncate(start + last);
        out.push('…');
    }
}

impl Layout {
    /// Describes a value in one short line for a table: `start`, `slot 1 done`, `clean+invalidate · AS 0`. At most 120
    /// characters.
    #[must_use]
    pub fn describe(&self, value: u64) -> String {
        self.describe_part(value, u64::MAX)
    }

    /// Describes only the bits of `mask`, in position; fields that are not completely inside it are shown as bits.
    #[must_use]
    pub fn describe_part(&self, value: u64, mask: u64) -> String {
        self.describe_part_in(value, mask, Direction::Read)
    }

    /// Same as [`Layout::describe_part`], for a read or a write.
    #[must_use]
    pub fn describe_part_in(&self, value: u64, mask: u64, direction: Direction) -> String {
        let mut out = String::new();
        LineDescriber::new(self, mask, direction).write(value, &mut out);
        out
    }
}
