//! The parser of fields, and the fields of the halves of 64-bit registers.

use super::map_error::{RegisterMapError, SourceLocation};
use super::raw::RawField;
use super::weight::Values;
use super::{Field, FieldKind, Layout};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum size of a layout, bits.
const MAX_BITS: u32 = 1 << 16;

/// Enumerations of a map by name.
pub(super) type Enums = BTreeMap<String, Values>;

/// Returns the fields of a 64-bit register that lie in the 32 bits from `from` on, cut to them.
pub(super) fn half(wide: &Layout, name: String, from: u32) -> Layout {
    let mut fields = Vec::new();
    for f in wide.fields.iter() {
        let (lo, hi) = (f.lo.max(from), f.hi.min(from + 31));
        if lo > hi {
            continue;
        }
        let cut = lo - f.lo;
        let whole = lo == f.lo && hi == f.hi;
        let kind = match &f.kind {
            FieldKind::Set { first } => FieldKind::Set {
                first: first.saturating_add(cut),
            },
            FieldKind::Address { shift } => FieldKind::Address {
                shift: shift.saturating_add(cut),
            },
            k if whole => k.clone(),
            _ => FieldKind::Hex,
        };
        fields.push(Field {
            lo: lo - from,
            hi: hi - from,
            kind,
            written: f.written.clone().filter(|_| whole),
            ..f.clone()
        });
    }
    Layout {
        name,
        bits: 32,
        fields: fields.into(),
        zero: wide.zero.clone(),
        doc: Arc::clone(&wide.doc),
    }
}

/// Parses the fields of a layout of `bits` bits and checks them against it and each other.
pub(super) fn fields(
    at: &SourceLocation<'_>,
    raw: &[RawField],
    bits: u32,
    enums: &Enums,
) -> Result<Layout, RegisterMapError> {
    if bits == 0 || bits > MAX_BITS {
        return Err(at.err(format!("the size is {bits} bits; the valid range is 1 to {MAX_BITS}")));
    }
    let mut fields: Vec<Field> = Vec::with_capacity(raw.len());
    for f in raw {
        let bad = |reason: &str| at.err(format!("field {}: {reason}", f.name));
        let (hi, lo) = f.bits.split_once(':').unwrap_or((&f.bits, &f.bits));
        let (Ok(hi), Ok(lo)) = (hi.parse::<u32>(), lo.parse::<u32>()) else {
            return Err(bad("bits must be \"7\" or \"7:0\""));
        };
        if lo > hi || hi - lo > 63 || hi >= bits {
            return Err(bad("its bits are reversed, wider than 64 or outside the register"));
        }
        let kind = match (f.kind.as_deref(), &f.enumeration) {
            (None, Some(e)) => FieldKind::Enum(Arc::clone(
                enums.get(e).ok_or_else(|| bad("no enumeration has this name"))?,
            )),
            (Some(_), Some(_)) => return Err(bad("it has both a kind and an enumeration")),
            (None | Some("hex"), None) => FieldKind::Hex,
            (Some("number"), None) => FieldKind::Number,
            (Some("number+1"), None) => FieldKind::NumberPlusOne,
            (Some("power-of-two"), None) => FieldKind::PowerOfTwo,
            (Some("set"), None) => FieldKind::Set { first: f.first },
            (Some("bool"), None) if lo == hi => FieldKind::Bool,
            (Some("bool"), None) => return Err(bad("a switch must have one bit")),
            (Some("address"), None) if f.shift < 64 => FieldKind::Address { shift: f.shift },
            (Some("address"), None) => return Err(bad("the shift is more than 63")),
            (Some(_), None) => return Err(bad("no kind has this name")),
        };
        let written = match &f.write_enumeration {
            None => None,
            // Without a name, values of writes have no names.
            Some(e) if e.is_empty() => Some(Arc::default()),
            Some(e) => Some(Arc::clone(
                enums
                    .get(e)
                    .ok_or_else(|| bad("no enumeration has the name of its write-enum"))?,
            )),
        };
        if f.shift != 0 && !matches!(kind, FieldKind::Address { .. }) {
            return Err(bad("only an address can have a shift"));
        }
        if f.first != 0 && !matches!(kind, FieldKind::Set { .. }) {
            return Err(bad("only a set can have a first number"));
        }
        fields.push(Field {
            name: f.name.clone(),
            lo,
            hi,
            kind,
            written,
            doc: f.doc.clone(),
            say: f.say.clone(),
            status: f.status,
        });
    }
    fields.sort_by_key(|f| f.lo);
    for pair in fields.windows(2) {
        if let [a, b] = pair
            && b.lo <= a.hi
        {
            return Err(at.err(format!("fields {} and {} overlap", a.name, b.name)));
        }
    }
    let mut names: Vec<&str> = fields.iter().map(|f| f.name.as_str()).collect();
    names.sort_unstable();
    if let Some([name, _]) = names.array_windows().find(|[a, b]| a == b) {
        return Err(at.err(format!("two fields have the name {name}")));
    }
    Ok(Layout {
        bits,
        fields: fields.into(),
        ..Layout::default()
    })
}
