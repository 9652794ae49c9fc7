//! The text of fields of registers and layouts.

use super::draft::{Draft, DraftField, DraftRegister, Kind};
use super::error::LossKind;
use super::text::one_name;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use trace_core::registers::{ArrayLevel, ArrayShape};

/// Maximum number of alternative names in the description of a register or field.
pub(crate) const MAX_ALSO: usize = 16;

/// Maximum number of pairs of an address and another field that are compared.
const MAX_TRIMMED: usize = 1 << 20;

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
    let trimmed = trim_addresses(draft, owner, fields);
    let fields = trimmed.as_deref().unwrap_or(fields);
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
        push_written(&mut out, draft, f, used);
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

/// Takes the bits of smaller fields out of the addresses around them: the low bits of an aligned address are free for
/// other use. Returns `None` if no address contains another field.
fn trim_addresses(draft: &mut Draft, owner: &str, fields: &[DraftField]) -> Option<Vec<DraftField>> {
    let addresses = fields
        .iter()
        .enumerate()
        .filter(|(_, f)| matches!(f.kind, Kind::Address(_)));
    let addresses: Vec<usize> = addresses.map(|(n, _)| n).collect();
    if addresses.is_empty() || addresses.len().saturating_mul(fields.len()) > MAX_TRIMMED {
        return None;
    }
    let mut out: Option<Vec<DraftField>> = None;
    for n in addresses {
        let Some(f) = fields.get(n) else { continue };
        let Kind::Address(shift) = f.kind else { continue };
        let inside = |s: &&DraftField| f.lo <= s.lo && s.hi <= f.hi && s.lo <= s.hi && (s.lo, s.hi) != (f.lo, f.hi);
        let mut smaller: Vec<(u64, u64)> = fields.iter().filter(inside).map(|s| (s.lo, s.hi)).collect();
        if smaller.is_empty() {
            continue;
        }
        smaller.sort_unstable();
        // The longest run of bits that no smaller field has.
        let (mut best, mut from) = (None, f.lo);
        let ends = smaller
            .iter()
            .copied()
            .chain([(f.hi.saturating_add(1), f.hi.saturating_add(1))]);
        for (lo, hi) in ends {
            let longest = best.map_or(0, |(lo, hi): (u64, u64)| hi - lo + 1);
            if lo > from && lo - from > longest {
                best = Some((from, lo - 1));
            }
            from = from.max(hi.saturating_add(1));
        }
        let Some((lo, hi)) = best else { continue };
        let own = u64::from(shift).saturating_add(lo - f.lo);
        let Some(own) = u32::try_from(own).ok().filter(|s| *s < 64) else {
            continue;
        };
        let taken: u64 = hi - lo + 1;
        let free = f.hi - f.lo + 1 - taken;
        let in_others: u64 = smaller.iter().map(|(lo, hi)| hi - lo + 1).sum();
        if free > in_others {
            draft.lose(f.at.clone(), LossKind::Field, || {
                format!(
                    "address {} of {owner} contains other fields; its bits outside {hi}:{lo} are shown as bits",
                    f.name
                )
            });
        }
        let all = out.get_or_insert_with(|| fields.to_vec());
        if let Some(trimmed) = all.get_mut(n) {
            (trimmed.lo, trimmed.hi, trimmed.kind) = (lo, hi, Kind::Address(own));
        }
    }
    out
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

/// Adds the names of the values in writes, if they differ.
fn push_written(out: &mut String, draft: &Draft, f: &DraftField, used: &mut HashSet<usize>) {
    let Some(written) = f.written else { return };
    let found = written.and_then(|e| Some((e, draft.enums.get(e)?)));
    if let Some((e, _)) = found {
        used.insert(e);
    }
    let name = found.map_or("", |(_, (name, _))| name.as_str());
    let _ = write!(out, ", write-enum = {}", quoted(name));
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

/// Formats the levels of an array: one as numbers, several as lists.
pub(crate) fn levels_text(levels: &[ArrayLevel]) -> String {
    let shape = ArrayShape::new(levels);
    let list = |numbers: Vec<String>| match numbers.as_slice() {
        [one] => one.clone(),
        _ => format!("[{}]", numbers.join(", ")),
    };
    let each = |text: &dyn Fn(&ArrayLevel) -> String| list(shape.levels().iter().map(text).collect());
    if shape.levels().is_empty() {
        return String::new();
    }
    let mut out = format!(
        "count = {}\nstride = {}\n",
        each(&|l| l.count.to_string()),
        each(&|l| format!("{:#x}", l.stride))
    );
    if shape.levels().iter().any(|l| l.first != 0) {
        let _ = writeln!(out, "first = {}", each(&|l| l.first.to_string()));
    }
    out
}
