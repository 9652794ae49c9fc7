//! Fields of rules-ng-ng: bitfields, the bitsets that types name, and the types of their values.

use super::{Definitions, MAX_USES, TreeNode, doc_of, varset};
use crate::draft::{Draft, DraftField, DraftValue, Kind};
use crate::error::{ImportError, LossKind};
use crate::text::number;

/// The bits that fields are read into.
pub(super) struct Frame {
    pub name: String,
    pub lo: u64,
    pub bits: u64,
    pub set: Option<String>,
    pub depth: usize,
}

/// Collects the fields of a register or field: nested ones, and those of the bitset that its type names.
pub(super) fn contents<'t>(
    known: &mut Definitions<'t>,
    draft: &mut Draft,
    (tree, node): TreeNode<'t>,
    frame: &Frame,
    out: &mut Vec<DraftField>,
) -> Result<(), ImportError> {
    bitfields(known, draft, (tree, node), frame, out)?;
    let Some(parts) = node.attribute("type").and_then(|t| known.bitsets.get(t)).cloned() else {
        return Ok(());
    };
    if frame.depth >= MAX_USES {
        return Err(tree.wrong(
            node,
            format!("bitsets refer to each other {MAX_USES} deep or in a cycle"),
        ));
    }
    known.steps_on(&tree.place(node), parts.len())?;
    for (of, bitset) in parts {
        known.steps_on(&of.place(bitset), bitset.children().count())?;
        let inner = Frame {
            name: frame.name.clone(),
            set: varset(bitset, frame.set.as_deref()),
            depth: frame.depth + 1,
            ..*frame
        };
        bitfields(known, draft, (of, bitset), &inner, out)?;
    }
    Ok(())
}

fn bitfields<'t>(
    known: &mut Definitions<'t>,
    draft: &mut Draft,
    (tree, node): TreeNode<'t>,
    frame: &Frame,
    out: &mut Vec<DraftField>,
) -> Result<(), ImportError> {
    let prefix = if frame.lo == 0 && frame.depth <= 1 {
        ""
    } else {
        frame.name.as_str()
    };
    for node in tree.elements(node).filter(|n| n.tag_name().name() == "bitfield") {
        known.steps_on(&tree.place(node), 1 + node.children().count())?;
        let before = out.len();
        let read = bitfield(known, draft, (tree, node), frame, prefix, out);
        if draft.or_left_out(read)?.is_none() {
            out.truncate(before);
        }
    }
    Ok(())
}

fn bitfield<'t>(
    known: &mut Definitions<'t>,
    draft: &mut Draft,
    (tree, node): TreeNode<'t>,
    frame: &Frame,
    prefix: &str,
    out: &mut Vec<DraftField>,
) -> Result<(), ImportError> {
    let place = tree.place(node);
    let set = varset(node, frame.set.as_deref());
    if !known.is_wanted(draft, tree, node, set.as_deref()) {
        return Ok(());
    }
    let own = node.attribute("name").unwrap_or("UNKNOWN");
    let (low, high) = match tree.number(node, "pos")? {
        Some(pos) => (pos, pos),
        None => match (tree.number(node, "low")?, tree.number(node, "high")?) {
            (Some(low), Some(high)) => (low, high),
            _ => return Err(tree.wrong(node, format!("field {own} has neither pos nor low and high"))),
        },
    };
    if low > high || high >= frame.bits || high - low > 63 {
        draft.lose(place, LossKind::Field, || {
            format!(
                "field {own}, bits {high}:{low}, is reversed or exceeds the {} bits of {}",
                frame.bits, frame.name
            )
        });
        return Ok(());
    }
    let name = if prefix.is_empty() {
        own.to_owned()
    } else {
        format!("{prefix}_{own}")
    };
    let inner = Frame {
        name: name.clone(),
        lo: frame.lo + low,
        bits: high - low + 1,
        set: set.clone(),
        depth: frame.depth + 1,
    };
    let before = out.len();
    if inner.depth <= MAX_USES {
        // Nested fields replace their outer field and get its name as a prefix.
        let nested = Frame {
            depth: inner.depth + 1,
            ..inner
        };
        contents(known, draft, (tree, node), &nested, out)?;
        if out.len() > before {
            return Ok(());
        }
    }
    let kind = kind(known, draft, (tree, node), &name, high - low + 1, set.as_deref())?.unwrap_or(Kind::Hex);
    out.push(DraftField {
        name,
        lo: frame.lo + low,
        hi: frame.lo + high,
        kind,
        written: None,
        doc: doc_of(node),
        at: place,
    });
    Ok(())
}

/// Returns the type of a value, or `None` if the file gives none.
pub(super) fn kind<'t>(
    known: &mut Definitions<'t>,
    draft: &mut Draft,
    (tree, node): TreeNode<'t>,
    name: &str,
    bits: u64,
    set: Option<&str>,
) -> Result<Option<Kind>, ImportError> {
    let shift = tree.number(node, "shr")?.unwrap_or(0);
    if shift > 63 {
        return Err(tree.wrong(node, format!("{name} is shifted by {shift} bits")));
    }
    let shifted = |kind: Option<Kind>| {
        if shift > 0 {
            Some(Kind::Address(shift as u32))
        } else {
            kind
        }
    };
    let place = || tree.place(node);
    if node.children().any(|n| n.tag_name().name() == "value") {
        let values = values(known, draft, &[(tree, node)], set)?;
        return Ok(draft.enumeration(&place(), name, values)?.map(Kind::Enum));
    }
    Ok(match node.attribute("type") {
        None => shifted((bits == 1 && node.tag_name().name() == "bitfield").then_some(Kind::Bool)),
        Some("uint") => shifted(Some(Kind::Number)),
        Some("hex") => shifted(Some(Kind::Hex)),
        Some("boolean") if bits == 1 => Some(Kind::Bool),
        Some("boolean" | "bitset" | "enum") => shifted(Some(Kind::Hex)),
        Some("address" | "waddress" | "saddress") => Some(Kind::Address(shift as u32)),
        Some(other @ ("int" | "float" | "fixed" | "ufixed")) => {
            draft.lose(place(), LossKind::Kind, || {
                format!("{name} is of type {other}; it is shown as bits")
            });
            shifted(Some(Kind::Hex))
        }
        Some(other) => {
            if let Some(parts) = known.enums.get(other).cloned() {
                let values = values(known, draft, &parts, set)?;
                return Ok(draft.enumeration(&place(), other, values)?.map(Kind::Enum));
            }
            let here = known.bitsets.contains_key(other) || known.domain_of.contains_key(other);
            if !here && known.unknown_types.insert(other.to_owned()) {
                known.new_unknown.push(other.to_owned());
                draft.lose(place(), LossKind::Reference, || {
                    format!("type {other} does not exist; its values are shown as bits")
                });
            }
            shifted(Some(Kind::Hex))
        }
    })
}

fn values<'t>(
    known: &mut Definitions<'t>,
    draft: &mut Draft,
    parts: &[TreeNode<'t>],
    set: Option<&str>,
) -> Result<Vec<DraftValue>, ImportError> {
    let mut all = Vec::new();
    for (tree, parent) in parts {
        known.steps_on(&tree.place(*parent), 1 + parent.children().count())?;
        for node in parent.children().filter(|n| n.tag_name().name() == "value") {
            let set = varset(node, set);
            let (Some(name), Some(text)) = (node.attribute("name"), node.attribute("value")) else {
                // Variants are values without numbers.
                continue;
            };
            if !known.is_wanted(draft, tree, node, set.as_deref()) {
                continue;
            }
            match number(text) {
                Some(value) => all.push(DraftValue {
                    doc: doc_of(node),
                    ..DraftValue::new(value, name)
                }),
                None => draft.lose(tree.place(node), LossKind::Value, || {
                    format!(
                        "the value of {name} is '{}', which is not a number",
                        text.chars().take(40).collect::<String>()
                    )
                }),
            }
        }
    }
    Ok(all)
}
