//! Fields of Mesa's packet descriptions: their bits, which each vendor counts differently, and their types.

use super::{Form, Reader};
use crate::draft::{Draft, DraftField, DraftValue, Kind};
use crate::error::{ImportError, LossKind};
use crate::source::Tree;
use crate::text::number;
use roxmltree::Node;

/// Maximum nesting depth of groups.
const MAX_DEPTH: usize = 8;
/// Maximum number of group members of one structure.
const MAX_MEMBERS: usize = 1 << 16;

impl<'t> Reader<'t> {
    /// Collects the fields of an element and returns the position after their last bit.
    pub(super) fn all(
        &mut self,
        draft: &mut Draft,
        tree: &'t Tree<'t>,
        node: Node<'t, 't>,
        owner: &str,
    ) -> Result<(Vec<DraftField>, u64), ImportError> {
        let mut out = Vec::new();
        self.fields(draft, tree, node, owner, 0, "", 0, &mut out)?;
        let end = out.iter().map(|f| f.hi.saturating_add(1)).max().unwrap_or(0);
        Ok((out, end))
    }

    #[allow(clippy::too_many_arguments, reason = "what a group passes on to the fields in it")]
    fn fields(
        &mut self,
        draft: &mut Draft,
        tree: &'t Tree<'t>,
        parent: Node<'t, 't>,
        owner: &str,
        base: u64,
        suffix: &str,
        depth: usize,
        out: &mut Vec<DraftField>,
    ) -> Result<(), ImportError> {
        for node in tree.elements(parent) {
            self.step(tree, node, 1)?;
            let before = out.len();
            let read = self.field_element(draft, tree, node, owner, base, suffix, depth, out);
            if draft.or_left_out(read)?.is_none() {
                out.truncate(before);
            }
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments, reason = "what a group passes on to the fields in it")]
    fn field_element(
        &mut self,
        draft: &mut Draft,
        tree: &'t Tree<'t>,
        node: Node<'t, 't>,
        owner: &str,
        base: u64,
        suffix: &str,
        depth: usize,
        out: &mut Vec<DraftField>,
    ) -> Result<(), ImportError> {
        let place = tree.place(node);
        match node.tag_name().name() {
            "field" => {
                if !self.is_wanted(tree, node)? {
                    return Ok(());
                }
                let name = format!("{}{suffix}", node.attribute("name").unwrap_or("unnamed"));
                let (lo, hi) = self.bits(tree, node)?;
                let (Some(lo), Some(hi)) = (lo.checked_add(base), hi.checked_add(base)) else {
                    return Err(tree.wrong(node, "the bit range exceeds 64 bits"));
                };
                if out.len() >= MAX_MEMBERS {
                    return Err(ImportError::TooMuch {
                        place,
                        what: "groups have too many fields".to_owned(),
                        max: MAX_MEMBERS as u64,
                    });
                }
                if hi - lo > 63 {
                    // A nested structure: its own definition lists its fields.
                    let what = node.attribute("type").unwrap_or_default();
                    draft.lose(place, LossKind::Field, || {
                        format!(
                            "field {name} of {owner} has {} bits ({what}); the maximum is 64",
                            (hi - lo).saturating_add(1)
                        )
                    });
                    return Ok(());
                }
                let (kind, doc) = self.kind(draft, tree, node, owner, &name, (hi - lo).saturating_add(1))?;
                out.push(DraftField {
                    name,
                    lo,
                    hi,
                    kind,
                    written: None,
                    doc,
                    at: place,
                });
            }
            "group" => {
                if depth >= MAX_DEPTH {
                    return Err(tree.wrong(node, format!("groups are nested more than {MAX_DEPTH} deep")));
                }
                let count = tree.number(node, "count")?.unwrap_or(0);
                let start = self.start(tree, node)?;
                let size = tree.number(node, "size")?.unwrap_or(0);
                if count > MAX_MEMBERS as u64 {
                    return Err(tree.wrong(
                        node,
                        format!("a group has {count} members (expected at most {MAX_MEMBERS})"),
                    ));
                }
                if count == 0 {
                    draft.lose(place, LossKind::Layout, || {
                        format!("a group of {owner} repeats by its length; only its first member is imported")
                    });
                }
                for n in 0..count.max(1) {
                    self.step(tree, node, 1)?;
                    let at = size
                        .checked_mul(n)
                        .and_then(|d| d.checked_add(start)?.checked_add(base));
                    let at = at.ok_or_else(|| tree.wrong(node, "the bit range exceeds 64 bits"))?;
                    let suffix = format!("{suffix}[{n}]");
                    self.fields(draft, tree, node, owner, at, &suffix, depth + 1, out)?;
                }
            }
            "value" | "doc" => {}
            other => draft.lose(place, LossKind::Element, || format!("<{other}> in {owner} is unknown")),
        }
        Ok(())
    }

    /// Parses the start of a field or group: `start` in bits; `8b` is bytes (Broadcom); `word:bit` (Panfrost, Asahi);
    /// `dword` with the low end of `bits`, or `offset-bits` of a group (Intel).
    fn start(&self, tree: &Tree<'_>, node: Node<'_, '_>) -> Result<u64, ImportError> {
        if self.form == Form::Intel && node.attribute("start").is_none() {
            return self.start_in_word(tree, node);
        }
        let text = node.attribute("start").unwrap_or("0");
        let wrong = || tree.wrong(node, "start is not a bit number");
        if let Some((word, bit)) = text.split_once(':') {
            let word = number(word).and_then(|w| w.checked_mul(32)).ok_or_else(wrong)?;
            return number(bit).and_then(|b| b.checked_add(word)).ok_or_else(wrong);
        }
        if self.form == Form::Broadcom
            && !text.starts_with("0x")
            && let Some(bytes) = text.strip_suffix('b')
        {
            return number(bytes).and_then(|b| b.checked_mul(8)).ok_or_else(wrong);
        }
        number(text).ok_or_else(wrong)
    }

    /// Parses `dword`, and the low end of `bits` or `offset-bits`.
    fn start_in_word(&self, tree: &Tree<'_>, node: Node<'_, '_>) -> Result<u64, ImportError> {
        let word = tree.number(node, "dword")?.unwrap_or(0);
        let offset = match (tree.number(node, "offset-bits")?, tree.number(node, "offset_bits")?) {
            (Some(bits), _) | (None, Some(bits)) => bits,
            (None, None) => bit_range(node).map_or(0, |(_, lo)| lo),
        };
        let start = word.checked_mul(32).and_then(|w| w.checked_add(offset));
        start.ok_or_else(|| tree.wrong(node, "the bit range exceeds 64 bits"))
    }

    fn bits(&self, tree: &Tree<'_>, node: Node<'_, '_>) -> Result<(u64, u64), ImportError> {
        let mut lo = self.start(tree, node)?;
        let wrong = || tree.wrong(node, "the bit range of a field is reversed or empty");
        if self.form == Form::Intel && node.has_attribute("bits") {
            let (high, low) = bit_range(node).ok_or_else(|| tree.wrong(node, "bits is not HIGH:LOW"))?;
            let width = high.checked_sub(low).ok_or_else(wrong)?;
            return Ok((lo, lo.checked_add(width).ok_or_else(wrong)?));
        }
        if self.form == Form::Intel {
            let hi = tree.number(node, "end")?.ok_or_else(wrong)?;
            return if lo <= hi { Ok((lo, hi)) } else { Err(wrong()) };
        }
        let size = match node.attribute("size") {
            Some(text) if text.contains(':') => {
                let (words, bits) = text.split_once(':').ok_or_else(wrong)?;
                let words = number(words).and_then(|w| w.checked_mul(32));
                words
                    .zip(number(bits))
                    .and_then(|(w, b)| w.checked_add(b))
                    .ok_or_else(wrong)?
            }
            // Asahi's fields without a size have one bit.
            None if self.form == Form::Asahi => 1,
            _ => tree.number(node, "size")?.ok_or_else(wrong)?,
        };
        // Broadcom counts a packet's bits from after its opcode.
        if self.form == Form::Broadcom && node.ancestors().any(|n| n.has_tag_name("packet")) {
            lo = lo.checked_add(8).ok_or_else(wrong)?;
        }
        let hi = size.checked_sub(1).and_then(|s| s.checked_add(lo)).ok_or_else(wrong)?;
        Ok((lo, hi))
    }

    fn kind(
        &mut self,
        draft: &mut Draft,
        tree: &'t Tree<'t>,
        node: Node<'t, 't>,
        owner: &str,
        name: &str,
        bits: u64,
    ) -> Result<(Kind, String), ImportError> {
        let place = tree.place(node);
        let mut doc = String::new();
        let word = if node.has_attribute("exact") {
            "value"
        } else {
            "default"
        };
        if let Some(default) = node.attribute("exact").or(node.attribute("default")) {
            let default: String = default.chars().take(40).collect();
            doc = format!("The {word} is {default}.");
        }
        if node.children().any(|n| n.has_tag_name("value")) {
            self.step(tree, node, node.children().count())?;
            let values = values(draft, tree, node);
            let own = format!("{owner} {}", node.attribute("name").unwrap_or_default());
            if let Some(e) = draft.enumeration(&place, &own, values)? {
                return Ok((Kind::Enum(e), doc));
            }
        }
        let mut kind = match node.attribute("type") {
            Some("uint") => Kind::Number,
            Some("bool") if bits == 1 => Kind::Bool,
            Some("address" | "offset") => {
                // The bits are in place: those below the field are zeros of the address.
                let low = match self.form {
                    Form::Panfrost | Form::Asahi => 0,
                    Form::Intel => self.bits(tree, node)?.0 % 32,
                    Form::Broadcom => (32u64).saturating_sub(bits),
                };
                Kind::Address(low as u32)
            }
            Some("mbo") => {
                doc = "Must be one.".to_owned();
                Kind::Hex
            }
            Some("mbz") => {
                doc = "Must be zero.".to_owned();
                Kind::Hex
            }
            None | Some("hex" | "bool") => Kind::Hex,
            Some(other) => {
                if let Some((of, e)) = self.enums.get(other).copied() {
                    self.step(tree, node, e.children().count())?;
                    let values = values(draft, of, e);
                    return Ok((
                        draft
                            .enumeration(&of.place(e), other, values)?
                            .map_or(Kind::Hex, Kind::Enum),
                        doc,
                    ));
                }
                if self.structs.contains(other) {
                    doc = format!("A {other}. {doc}").trim_end().to_owned();
                } else {
                    draft.lose(place.clone(), LossKind::Kind, || {
                        format!("field {name} of {owner} is of type {other}; it is shown as bits")
                    });
                }
                Kind::Hex
            }
        };
        if node.attribute("minus_one").is_some_and(|t| t == "true") {
            kind = Kind::NumberPlusOne;
        }
        if let Some(modifier) = node.attribute("modifier") {
            let shift = modifier
                .strip_prefix("shr(")
                .and_then(|m| m.strip_suffix(')'))
                .and_then(number);
            match (modifier, shift) {
                ("minus(1)", _) => kind = Kind::NumberPlusOne,
                ("log2", _) => kind = Kind::PowerOfTwo,
                // The driver rounds up to a multiple; the bits are the value.
                (aligned, _) if aligned.starts_with("align(") => {}
                (_, Some(n)) if n < 64 => kind = Kind::Address(n as u32),
                _ => draft.lose(place, LossKind::Kind, || {
                    format!("field {name} of {owner} has the modifier {modifier}; its bits are shown without it")
                }),
            }
        }
        Ok((kind, doc))
    }
}

/// Parses `bits` of today's form of Intel: `HIGH:LOW`, or one bit.
fn bit_range(node: Node<'_, '_>) -> Option<(u64, u64)> {
    let text = node.attribute("bits")?;
    let (high, low) = text.split_once(':').unwrap_or((text, text));
    Some((number(high)?, number(low)?))
}

pub(crate) fn values(draft: &mut Draft, tree: &Tree<'_>, parent: Node<'_, '_>) -> Vec<DraftValue> {
    let mut all = Vec::new();
    for node in tree.elements(parent).filter(|n| n.has_tag_name("value")) {
        let name = node.attribute("name").unwrap_or_default();
        match node.attribute("value").and_then(number) {
            Some(value) => all.push(DraftValue::new(value, name)),
            None => draft.lose(tree.place(node), LossKind::Value, || {
                format!("value {name} has no number")
            }),
        }
    }
    all
}
