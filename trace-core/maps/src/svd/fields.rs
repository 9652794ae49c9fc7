//! Fields of registers: their bits, descriptions and value names.

use super::derived::Chain;
use super::reader::{Reader, child_text, first_text, number, text};
use crate::draft::{Access, Draft, DraftField, DraftValue, Kind, MAX_REGISTERS};
use crate::error::{ImportError, LossKind};
use crate::text::{MAX_NAME, one_line};
use roxmltree::Node;

impl<'t> Reader<'t> {
    pub(super) fn field(
        &mut self,
        draft: &mut Draft,
        chain: &Chain<'t>,
        outer: Access,
        out: &mut Vec<DraftField>,
    ) -> Result<(), ImportError> {
        let Some(node) = chain.first().copied() else {
            return Ok(());
        };
        let mut place = None;
        for n in chain.iter() {
            place = self.bits(*n)?;
            if place.is_some() {
                break;
            }
        }
        let (lo, hi) = place.ok_or_else(|| self.tree.wrong(node, "a field has no bits"))?;
        let mut doc = first_text(chain, "description").map(one_line).unwrap_or_default();
        let access = first_text(chain, "access");
        match (access, outer) {
            (Some("read-only"), Access::Both) => sentence(&mut doc, "Read-only."),
            (Some("write-only"), Access::Both) => sentence(&mut doc, "Write-only."),
            (Some("writeOnce" | "read-writeOnce"), _) => sentence(&mut doc, "Only the first write has an effect."),
            _ => {}
        }
        effects(&mut doc, chain);
        let enumerations: Vec<Node<'t, 't>> = chain
            .iter()
            .map(|n| {
                n.children()
                    .filter(|c| c.has_tag_name("enumeratedValues"))
                    .collect::<Vec<_>>()
            })
            .find(|list| !list.is_empty())
            .unwrap_or_default();
        let name = first_text(chain, "name").unwrap_or_default();
        let mut kind = if lo == hi { Kind::Bool } else { Kind::Hex };
        // Reads and writes may have lists of their own.
        let list_for = |access: &str| {
            let of = |n: &Node<'t, 't>| text(*n, "usage").unwrap_or("read-write");
            let own = enumerations.iter().find(|n| of(n) == access);
            own.or_else(|| enumerations.iter().find(|n| of(n) == "read-write"))
                .copied()
        };
        let (read, write) = (list_for("read"), list_for("write"));
        for (n, other) in enumerations.iter().enumerate() {
            if Some(*other) != read && Some(*other) != write {
                draft.lose(self.tree.place(*other), LossKind::Value, || {
                    format!(
                        "list {} of values of {name}: another list has the same direction",
                        n + 1
                    )
                });
            }
        }
        let mut values = |draft: &mut Draft, list: Option<Node<'t, 't>>, name: &str| match list {
            None => Ok(None),
            Some(list) => {
                let read = self.enumeration(draft, list, name);
                Ok(draft.or_left_out(read)?.flatten())
            }
        };
        let main = values(draft, read, name)?;
        let written = match write == read {
            true => None,
            false => Some(values(draft, write, &format!("{name}_write"))?).filter(|w| *w != main),
        };
        if let Some(e) = main {
            kind = Kind::Enum(e);
        }
        for (name, at) in self.members(chain, lo)?.one_by_one() {
            if out.len() > MAX_REGISTERS {
                return Err(self.many(node));
            }
            out.push(DraftField {
                name,
                lo: at,
                hi: at.saturating_add(hi - lo),
                kind: kind.clone(),
                written,
                doc: doc.clone(),
                at: self.tree.place(node),
            });
        }
        Ok(())
    }

    /// Reads the bits of a field, which SVD gives in three forms.
    fn bits(&self, node: Node<'t, 't>) -> Result<Option<(u64, u64)>, ImportError> {
        let wrong = || self.tree.wrong(node, "the bit range of a field is reversed or empty");
        if let Some(range) = text(node, "bitRange") {
            let inner = range.strip_prefix('[').and_then(|r| r.strip_suffix(']'));
            let (hi, lo) = inner.and_then(|r| r.split_once(':')).ok_or_else(wrong)?;
            let (hi, lo) = (number(hi).ok_or_else(wrong)?, number(lo).ok_or_else(wrong)?);
            return if lo <= hi { Ok(Some((lo, hi))) } else { Err(wrong()) };
        }
        if let (Some(lo), Some(hi)) = (self.number(node, "lsb")?, self.number(node, "msb")?) {
            return if lo <= hi { Ok(Some((lo, hi))) } else { Err(wrong()) };
        }
        if let Some(lo) = self.number(node, "bitOffset")? {
            let width = self.number(node, "bitWidth")?.unwrap_or(1);
            let hi = width.checked_sub(1).and_then(|w| w.checked_add(lo)).ok_or_else(wrong)?;
            return Ok(Some((lo, hi)));
        }
        Ok(None)
    }

    fn enumeration(
        &mut self,
        draft: &mut Draft,
        list: Node<'t, 't>,
        field: &str,
    ) -> Result<Option<usize>, ImportError> {
        if let Some(known) = self.enums.get(&list.id()) {
            return Ok(*known);
        }
        let chain = self.chain(list)?;
        // The base of a derived list is read, and its losses reported, once.
        if let Some(base) = chain.iter().skip(1).find_map(|n| self.enums.get(&n.id())) {
            let known = *base;
            self.enums.insert(list.id(), known);
            return Ok(known);
        }
        let from = chain
            .iter()
            .find(|n| n.children().any(|c| c.has_tag_name("enumeratedValue")));
        let mut values = Vec::new();
        for node in from
            .iter()
            .flat_map(|n| n.children())
            .filter(|n| n.has_tag_name("enumeratedValue"))
        {
            let doc = text(node, "description").map(one_line).unwrap_or_default();
            let name = text(node, "name").map(one_line).filter(|n| n.len() <= MAX_NAME);
            // A value without a name is named by its description.
            let (name, doc) = match name {
                Some(name) => (name, doc),
                None => (doc, String::new()),
            };
            let doc = if doc == name { String::new() } else { doc };
            let raw = text(node, "value").unwrap_or_default();
            if text(node, "isDefault").is_some_and(|t| t != "false" && t != "0") {
                draft.lose(self.tree.place(node), LossKind::Value, || {
                    format!("{name} stands for every other value, but a name needs one value")
                });
                continue;
            }
            let bits = ["#", "0b", "0B"].iter().find_map(|b| raw.strip_prefix(b));
            if bits.is_some_and(|b| b.contains(['x', 'X'])) {
                draft.lose(self.tree.place(node), LossKind::Value, || {
                    format!(
                        "{name} is {raw}, which matches several values; the name is used for the one whose free \
                             bits are 0"
                    )
                });
            }
            match number(raw) {
                Some(value) => values.push(DraftValue { value, name, doc }),
                None => draft.lose(self.tree.place(node), LossKind::Value, || {
                    format!("{name} has no number")
                }),
            }
        }
        let name = first_text(&chain, "name").unwrap_or(field);
        let made = draft.enumeration(&self.tree.place(list), name, values)?;
        self.enums.insert(list.id(), made);
        // Other lists derived from the same base find it already read.
        if let Some(from) = from {
            self.enums.insert(from.id(), made);
        }
        Ok(made)
    }
}

pub(super) fn sentence(doc: &mut String, more: &str) {
    if !doc.is_empty() {
        if !doc.ends_with(['.', '!', '?', ':']) {
            doc.push('.');
        }
        doc.push(' ');
    }
    doc.push_str(more);
}

/// Appends the side effects of writes and reads to the description.
pub(super) fn effects(doc: &mut String, chain: &[Node<'_, '_>]) {
    let get = |tag: &str| chain.iter().find_map(|n| child_text(*n, tag));
    let written = match get("modifiedWriteValues").as_deref() {
        Some("oneToClear") => "Writing 1 clears.",
        Some("oneToSet") => "Writing 1 sets.",
        Some("oneToToggle") => "Writing 1 toggles.",
        Some("zeroToClear") => "Writing 0 clears.",
        Some("zeroToSet") => "Writing 0 sets.",
        Some("zeroToToggle") => "Writing 0 toggles.",
        Some("clear") => "Any write clears.",
        Some("set") => "Any write sets.",
        _ => "",
    };
    let read = match get("readAction").as_deref() {
        Some("clear") => "Reading clears.",
        Some("set") => "Reading sets.",
        Some("modify" | "modifyExternal") => "Reading has a side effect.",
        _ => "",
    };
    for text in [written, read] {
        if !text.is_empty() {
            sentence(doc, text);
        }
    }
}
