//! The registers of rules-ng-ng, in arrays, stripes and groups.

use super::fields::{Frame, contents, kind};
use super::places::{Scope, is_placed_at_run_time, joined, memory, named_places, places, plain_name};
use super::{Definitions, Item, MAX_USES, TreeNode, doc_of, varset};
use crate::draft::{Access, Body, Draft, DraftField};
use crate::error::{ImportError, LossKind};
use crate::source::Tree;
use roxmltree::Node;
use std::rc::Rc;

/// Reads the items of a domain, array, stripe or group. An item that cannot be read is reported and left out.
pub(super) fn walk<'t>(
    known: &mut Definitions<'t>,
    draft: &mut Draft,
    tree: &'t Tree<'t>,
    parent: Node<'t, 't>,
    scope: &Scope,
    items: &mut Vec<Item>,
) -> Result<(), ImportError> {
    for node in tree.elements(parent) {
        known.step(&tree.place(node))?;
        let read = walk_element(known, draft, (tree, node), scope, items);
        draft.or_left_out(read)?;
    }
    Ok(())
}

fn walk_element<'t>(
    known: &mut Definitions<'t>,
    draft: &mut Draft,
    (tree, node): TreeNode<'t>,
    scope: &Scope,
    items: &mut Vec<Item>,
) -> Result<(), ImportError> {
    let place = tree.place(node);
    let set = varset(node, scope.varset.as_deref());
    match node.tag_name().name() {
        "reg8" => register(known, draft, (tree, node), 8, scope, set.as_deref(), items)?,
        "reg16" => register(known, draft, (tree, node), 16, scope, set.as_deref(), items)?,
        "reg32" => register(known, draft, (tree, node), 32, scope, set.as_deref(), items)?,
        "reg64" => register(known, draft, (tree, node), 64, scope, set.as_deref(), items)?,
        "array" | "stripe" => {
            if known.is_wanted(draft, tree, node, set.as_deref()) {
                repeat(known, draft, (tree, node), scope, set, items)?;
            }
        }
        "use-group" => {
            if !known.is_wanted(draft, tree, node, set.as_deref()) {
                return Ok(());
            }
            let name = node.attribute("name").unwrap_or_default();
            let Some(parts) = known.groups.get(name).cloned() else {
                draft.lose(place, LossKind::Reference, || format!("group {name} does not exist"));
                return Ok(());
            };
            if scope.depth >= MAX_USES {
                return Err(tree.wrong(node, format!("groups use each other {MAX_USES} deep or in a cycle")));
            }
            known.steps_on(&place, parts.len())?;
            for (of, group) in parts {
                let inner = Scope {
                    prefix: scope.prefix.clone(),
                    levels: scope.levels.clone(),
                    varset: set.clone(),
                    depth: scope.depth + 1,
                    ..*scope
                };
                walk(known, draft, of, group, &inner, items)?;
            }
        }
        // Definitions for all files, and texts.
        "enum" | "bitset" | "group" | "domain" | "import" | "doc" | "brief" => {}
        other => draft.lose(place, LossKind::Element, || format!("<{other}> is unknown")),
    }
    Ok(())
}

fn repeat<'t>(
    known: &mut Definitions<'t>,
    draft: &mut Draft,
    (tree, node): TreeNode<'t>,
    scope: &Scope,
    set: Option<String>,
    items: &mut Vec<Item>,
) -> Result<(), ImportError> {
    if is_placed_at_run_time(draft, tree, node)
        || memory(draft, tree, node, node.attribute("name").unwrap_or("without a name"))?
    {
        return Ok(());
    }
    let places = places(tree, node, 0, scope)?;
    for (own, base, levels) in named_places(places, &plain_name(node), scope) {
        let inner = Scope {
            prefix: joined(&scope.prefix, &own),
            base,
            levels,
            varset: set.clone(),
            ..*scope
        };
        walk(known, draft, tree, node, &inner, items)?;
    }
    Ok(())
}

fn register<'t>(
    known: &mut Definitions<'t>,
    draft: &mut Draft,
    (tree, node): TreeNode<'t>,
    bits: u64,
    scope: &Scope,
    set: Option<&str>,
    items: &mut Vec<Item>,
) -> Result<(), ImportError> {
    if !known.is_wanted(draft, tree, node, set) || is_placed_at_run_time(draft, tree, node) {
        return Ok(());
    }
    let name = plain_name(node);
    if name.is_empty() {
        return Err(tree.wrong(node, "a register has no name"));
    }
    if node.attribute("offset").is_none() && node.attribute("offsets").is_none() {
        return Err(tree.wrong(node, format!("register {name} has no offset")));
    }
    let access = match node.attribute("access") {
        Some("r") => Access::Read,
        Some("w") => Access::Write,
        None | Some("rw") => Access::Both,
        Some(other) => {
            let other: String = other.chars().take(40).collect();
            return Err(tree.wrong(node, format!("access '{other}' is not r, w or rw")));
        }
    };
    if memory(draft, tree, node, &name)? {
        return Ok(());
    }
    let places = places(tree, node, (bits / scope.unit).max(1), scope)?;
    known.steps_on(&tree.place(node), node.children().count())?;
    let mut fields = Vec::new();
    let frame = Frame {
        name: name.clone(),
        lo: 0,
        bits,
        set: set.map(str::to_owned),
        depth: 0,
    };
    contents(known, draft, (tree, node), &frame, &mut fields)?;
    if fields.is_empty()
        && let Some(kind) = kind(known, draft, (tree, node), &name, bits, set)?
    {
        fields.push(DraftField {
            name: "value".to_owned(),
            lo: 0,
            hi: bits - 1,
            kind,
            written: None,
            doc: String::new(),
            at: tree.place(node),
        });
    }
    let body = Rc::new(Body {
        bits,
        access,
        doc: doc_of(node),
        fields,
        at: tree.place(node),
    });
    for (own, at, levels) in named_places(places, &name, scope) {
        known.step(&body.at)?;
        let bit = at.checked_mul(scope.unit);
        items.push(Item {
            name: joined(&scope.prefix, &own),
            bit: bit.ok_or_else(|| tree.wrong(node, "the offset exceeds 64 bits"))?,
            levels,
            body: Rc::clone(&body),
        });
    }
    Ok(())
}
