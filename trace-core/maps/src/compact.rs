//! The compact text of a built-in register map: arrays written once, blocks by the first word of the register names, no
//! repeated defaults.

use super::draft::{Access, Draft, DraftRegister};
use super::map_text::{AliasedRegister, fields_text, levels_text, quoted};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::rc::Rc;

/// Maximum number of members of an array.
const MAX_MEMBERS: usize = 256;

/// A register, or an array of registers, to be written as text.
struct Entry<'a> {
    first: &'a DraftRegister,
    name: String,
    count: usize,
    stride: u64,
}

/// Maximum number of members that are grouped anew. The arrays of larger maps are written as they are.
const MAX_REGROUPED: u64 = 60_000;

/// Returns the members of arrays as registers of their own, if they are few enough.
fn one_by_one(registers: &[AliasedRegister]) -> Vec<AliasedRegister> {
    let members = registers
        .iter()
        .map(|(r, _)| r.shape().members())
        .fold(0, u64::saturating_add);
    if members > MAX_REGROUPED {
        return registers.to_vec();
    }
    let each = |(r, also): &AliasedRegister| {
        let (r, also, shape) = (r.clone(), also.clone(), r.shape());
        (0..shape.members()).map(move |m| {
            let single = DraftRegister {
                name: if r.levels.is_empty() {
                    r.name.clone()
                } else {
                    shape.name_of(&r.name, m)
                },
                offset: r.offset.saturating_add(shape.offset_of(m)),
                levels: Vec::new(),
                ..r.clone()
            };
            (single, also.clone())
        })
    };
    let mut all: Vec<AliasedRegister> = registers.iter().flat_map(each).collect();
    all.sort_by_key(|(r, _)| r.offset);
    all
}

/// Writes the registers. Returns the number of registers and fields, array members counted.
pub(crate) fn write(
    out: &mut String,
    draft: &mut Draft,
    registers: &[AliasedRegister],
    used: &mut HashSet<usize>,
) -> (usize, usize) {
    let registers = &one_by_one(registers);
    let blocks = blocks(registers);
    let texts: Vec<(String, usize)> = registers
        .iter()
        .map(|(r, _)| fields_text(draft, &r.name, r.body.bits, &r.body.fields, used, true))
        .collect();
    let members = |r: &DraftRegister| usize::try_from(r.shape().members()).unwrap_or(usize::MAX);
    let with_texts = registers.iter().zip(&texts);
    let fields = with_texts
        .map(|((r, _), t)| t.1.saturating_mul(members(r)))
        .fold(0, usize::saturating_add);
    let default_block = quoted(&draft.name);
    for (entry, text) in entries(registers, &texts) {
        let r = entry.first;
        let _ = write!(out, "\n[[register]]\nname = {}\n", quoted(&entry.name));
        let block = quoted(blocks.get(first_word(&r.name)).unwrap_or(&r.block));
        if block != default_block {
            let _ = writeln!(out, "block = {block}");
        }
        let _ = writeln!(out, "offset = {:#x}", r.offset);
        match r.body.bits {
            64 => out.push_str("wide = true\n"),
            32 => {}
            bits => {
                let _ = writeln!(out, "width = {}", bits / 8);
            }
        }
        out.push_str(&levels_text(&r.levels));
        if entry.count > 1 {
            let _ = writeln!(out, "count = {}\nstride = {:#x}", entry.count, entry.stride);
        }
        match r.body.access {
            Access::Read => out.push_str("access = \"ro\"\n"),
            Access::Write => out.push_str("access = \"wo\"\n"),
            Access::Both => {}
        }
        out.push_str(text);
    }
    let all = registers.iter().map(|(r, _)| members(r)).fold(0, usize::saturating_add);
    (all, fields)
}

/// Returns the start of a name up to its first underscore.
fn first_word(name: &str) -> &str {
    name.split_once('_').map_or(name, |(word, _)| word)
}

/// Returns blocks by first words that at least two registers share. Blocks without a known purpose stay in the domain's
/// block.
fn blocks(registers: &[AliasedRegister]) -> HashMap<&str, Rc<str>> {
    let mut count: HashMap<&str, usize> = HashMap::new();
    for (r, _) in registers {
        *count.entry(first_word(&r.name)).or_default() += 1;
    }
    let shared = count
        .into_iter()
        .filter(|(w, n)| *n > 1 && !matches!(*w, "" | "UNKNOWN"));
    shared.map(|(w, _)| (w, w.into())).collect()
}

/// Returns a name with `#` in place of each number: members of an array share it.
fn without_numbers(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '0'..='9' if out.ends_with('#') => {}
            '0'..='9' => out.push('#'),
            c => out.push(c),
        }
    }
    out
}

/// Groups registers by ascending offset into entries. Members of an array have the same fields, names that differ by a
/// number from 0 on, and equal distances.
fn entries<'a>(registers: &'a [AliasedRegister], texts: &'a [(String, usize)]) -> Vec<(Entry<'a>, &'a str)> {
    let mut alike: BTreeMap<(String, &str, u64), Vec<&DraftRegister>> = BTreeMap::new();
    let mut out = Vec::new();
    for ((r, _), text) in registers.iter().zip(texts) {
        if !r.levels.is_empty() {
            let name = r.name.clone();
            let (first, count, stride) = (r, 1, 0);
            out.push((
                Entry {
                    first,
                    name,
                    count,
                    stride,
                },
                text.0.as_str(),
            ));
            continue;
        }
        let key = (without_numbers(&r.name), text.0.as_str(), r.body.bits);
        alike.entry(key).or_default().push(r);
    }
    for ((_, text, _), members) in alike {
        let mut next = 0;
        while let Some(first) = members.get(next).copied() {
            let rest = members.get(next..).unwrap_or_default();
            let entry = array(first, rest).unwrap_or_else(|| Entry {
                first,
                name: first.name.clone(),
                count: 1,
                stride: 0,
            });
            next += entry.count;
            out.push((entry, text));
        }
    }
    out.sort_by_key(|(e, _)| e.first.offset);
    out
}

/// Returns the array that starts with the first of some registers, if there is one.
fn array<'a>(first: &'a DraftRegister, members: &[&'a DraftRegister]) -> Option<Entry<'a>> {
    let second = members.get(1)?;
    let stride = second.offset.checked_sub(first.offset)?;
    let zeros = first.name.match_indices('0');
    zeros
        .filter_map(|(at, _)| {
            let (before, after) = (first.name.get(..at)?, first.name.get(at + 1..)?);
            let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
            if digit(before.chars().next_back()) || digit(after.chars().next()) {
                return None;
            }
            let is_nth = |(n, r): &(usize, &&DraftRegister)| {
                let at = (*n as u64)
                    .checked_mul(stride)
                    .and_then(|d| d.checked_add(first.offset));
                Some(r.offset) == at && r.body.access == first.body.access && r.name == format!("{before}{n}{after}")
            };
            let count = members.iter().enumerate().take(MAX_MEMBERS).take_while(is_nth).count();
            (count > 1).then(|| Entry {
                first,
                name: format!("{before}{{n}}{after}"),
                count,
                stride,
            })
        })
        .max_by_key(|e| e.count)
}
