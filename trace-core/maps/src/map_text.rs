//! The text of fields of registers and layouts.

use super::draft::{Draft, DraftField, DraftRegister, Kind};
use super::error::LossKind;
use super::source::one_name;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

/// Maximum number of alternative names in the description of a register or field.
pub(crate) const MAX_ALSO: usize = 16;

/// A register, and the names and texts of others that share its bytes.
pub(crate) type AliasedRegister = (DraftRegister, Vec<String>);

/// Quotes a text of the map in one line. Escaped line breaks and control characters would not be readable, and the
/// comment at the top of the file cannot hold them.
pub(crate) fn quoted(text: &str) -> String {
    toml::Value::String(one_name(text)).to_string()
}

/// Formats the `fields` of a register or layout and returns their number; overlapping or outlying ones are lost.
/// `compact`: without descriptions, and without the texts that a block with `say = "names"` gives.
pub(crate) fn fields_text(
    draft: &mut Draft,
    owner: &str,
    bits: u64,
    fields: &[DraftField],
    used: &mut HashSet<usize>,
    compact: bool,
) -> (String, usize) {
    let KeptFields { fields: kept, also } = keep_fields(draft, owner, bits, fields);
    if kept.is_empty() {
        return (String::new(), 0);
    }
    let mut numbered: Vec<(usize, &DraftField, String)> = kept
        .into_iter()
        .enumerate()
        .map(|(n, (f, name))| (n, f, name))
        .collect();
    numbered.sort_by_key(|(_, f, _)| f.lo);
    let many = numbered.len() > 1;
    let mut out = String::from("fields = [\n");
    for (n, f, name) in &numbered {
        let _ = write!(out, "    {{ name = {}, bits = ", quoted(name));
        let _ = if f.lo == f.hi {
            write!(out, "\"{}\"", f.lo)
        } else {
            write!(out, "\"{}:{}\"", f.hi, f.lo)
        };
        let is_name = push_kind(&mut out, draft, f, used);
        if compact {
            out.push_str(" },\n");
            continue;
        }
        let mut doc = f.doc.clone();
        if let Some(names) = also.get(n) {
            let _ = write!(
                doc,
                "{}Also in these bits: {}.",
                if doc.is_empty() { "" } else { " " },
                names.join(", ")
            );
        }
        if !doc.is_empty() {
            let _ = write!(out, ", doc = {}", quoted(&doc));
        }
        // The one-line text of an access then shows the fields that are not 0.
        let words = name.replace("{}", "");
        if is_name {
            let _ = write!(out, ", say = {}", quoted(&words));
        } else if many {
            let _ = write!(out, ", say = {}", quoted(&format!("{words} {{}}")));
        }
        out.push_str(" },\n");
    }
    out.push_str("]\n");
    (out, numbered.len())
}

/// The fields of a register or layout that the format accepts.
struct KeptFields<'a> {
    /// The fields with their names, in the order of the file.
    fields: Vec<(&'a DraftField, String)>,
    /// Names of lost fields that share the bits of a kept one, by its index.
    also: HashMap<usize, Vec<&'a str>>,
}

/// Selects the fields that are inside their owner and share no bits; the others are lost.
fn keep_fields<'a>(draft: &mut Draft, owner: &str, bits: u64, fields: &'a [DraftField]) -> KeptFields<'a> {
    let mut kept: Vec<(&DraftField, String)> = Vec::with_capacity(fields.len());
    let mut ends: std::collections::BTreeMap<u64, (u64, usize)> = std::collections::BTreeMap::new();
    let mut names: HashSet<String> = HashSet::new();
    // The search for a free name continues where it stopped, so that many equal names do not restart it.
    let mut next: HashMap<String, u32> = HashMap::new();
    let mut also: HashMap<usize, Vec<&str>> = HashMap::new();
    for f in fields {
        if f.lo > f.hi || f.hi >= bits || f.hi - f.lo > 63 {
            draft.lose(f.at.clone(), LossKind::Field, || {
                format!(
                    "field {} of {owner}, bits {}:{}, is reversed, wider than 64 or exceeds its {bits} bits",
                    f.name, f.hi, f.lo
                )
            });
            continue;
        }
        if let Some((_, (_, other))) = ends.range(..=f.hi).next_back().filter(|(_, (hi, _))| *hi >= f.lo) {
            let main = kept.get(*other).map(|(k, _)| k.name.clone()).unwrap_or_default();
            if main != f.name {
                let names = also.entry(*other).or_default();
                if names.len() < MAX_ALSO {
                    names.push(&f.name);
                }
            }
            draft.lose(f.at.clone(), LossKind::Field, || {
                format!(
                    "field {} of {owner}, bits {}:{}, shares bits with {main}; only {main} is kept",
                    f.name, f.hi, f.lo
                )
            });
            continue;
        }
        let plain = one_name(&f.name);
        let mut name = plain.clone();
        while name.is_empty() || names.contains(&name) {
            let n = next.entry(plain.clone()).or_insert(1u32);
            *n += 1;
            name = format!("{plain}_{n}");
        }
        names.insert(name.clone());
        ends.insert(f.lo, (f.hi, kept.len()));
        kept.push((f, name));
    }
    KeptFields { fields: kept, also }
}

/// Adds the kind of a field. Returns whether its text is its name alone.
fn push_kind(out: &mut String, draft: &Draft, f: &DraftField, used: &mut HashSet<usize>) -> bool {
    match f.kind {
        Kind::Hex => {}
        Kind::Number => out.push_str(", kind = \"number\""),
        Kind::NumberPlusOne => out.push_str(", kind = \"number+1\""),
        Kind::PowerOfTwo => out.push_str(", kind = \"power-of-two\""),
        Kind::Bool if f.lo == f.hi => {
            out.push_str(", kind = \"bool\"");
            return true;
        }
        Kind::Bool => {}
        Kind::Address(shift) => {
            out.push_str(", kind = \"address\"");
            if shift > 0 {
                let _ = write!(out, ", shift = {shift}");
            }
        }
        Kind::Enum(e) => {
            if let Some((enumeration, _)) = draft.enums.get(e) {
                let _ = write!(out, ", enum = {}", quoted(enumeration));
                used.insert(e);
            }
        }
    }
    false
}
