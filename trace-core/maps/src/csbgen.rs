//! The importer of Mesa's descriptions of PowerVR structures and streams (`<csbgen>`). Structures and streams become
//! layouts. Fields under a condition exist on some GPUs: the requested variant names the features of one.

mod condition;

use super::draft::{Draft, DraftField, DraftLayout, Kind};
use super::error::{ImportError, LossKind};
use super::genxml::values;
use super::options::Options;
use super::source::Tree;
use super::text::one_line;
use condition::{Condition, Features};
use roxmltree::Node;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of bits of a layout.
const MAX_LAYOUT: u64 = 1 << 16;
/// Maximum nesting depth of conditions.
const MAX_DEPTH: usize = 16;
/// Maximum number of features that a message lists.
const MAX_LISTED: usize = 40;

struct Reader<'t> {
    enums: BTreeMap<&'t str, Node<'t, 't>>,
    structs: BTreeSet<&'t str>,
    /// Features of the requested variant.
    features: Option<Features>,
    /// Number of fields that only some GPUs have, if no variant was requested.
    of_variants: usize,
}

pub(crate) fn read(trees: &[Tree<'_>], options: &Options, draft: &mut Draft) -> Result<(), ImportError> {
    let Some(tree) = trees.first() else { return Ok(()) };
    let root = tree.root();
    if root.tag_name().name() != "csbgen" {
        return Err(tree.wrong(root, "the root element of a description of PowerVR is <csbgen>"));
    }
    let known = names_of_features(root);
    let features = match &options.variant {
        None => None,
        Some(variant) => Some(choose(draft, variant, &known)?),
    };
    let mut reader = Reader {
        enums: BTreeMap::new(),
        structs: BTreeSet::new(),
        features,
        of_variants: 0,
    };
    for node in tree.elements(root) {
        let Some(name) = node.attribute("name") else { continue };
        match node.tag_name().name() {
            "enum" => {
                reader.enums.entry(name).or_insert(node);
            }
            "struct" => {
                reader.structs.insert(name);
            }
            _ => {}
        }
    }
    let mut constants = 0usize;
    let mut first_constant = None;
    for node in tree.elements(root) {
        let tag = node.tag_name().name();
        match (tag, node.attribute("name")) {
            ("struct" | "stream", Some(name)) => {
                let read = reader.layout(draft, tree, node, name);
                draft.or_left_out(read)?;
            }
            ("enum", Some(_)) => {}
            ("define", Some(_)) => {
                constants += 1;
                first_constant = first_constant.or(Some(node));
            }
            (tag, None) => draft.lose(tree.place(node), LossKind::Element, || format!("<{tag}> has no name")),
            (tag, Some(name)) => draft.lose(tree.place(node), LossKind::Element, || {
                format!("<{tag}> {name} is unknown")
            }),
        }
    }
    if let Some(node) = first_constant {
        draft.lose(tree.place(node), LossKind::Element, || {
            format!("{constants} <define>: a map has no constants")
        });
    }
    if reader.of_variants > 0 {
        let n = reader.of_variants;
        draft.lose(tree.place(root), LossKind::Variant, || {
            format!(
                "{n} fields exist only on some GPUs and were imported for all; name the features of one with --variant \
                 A,B=2 ({})",
                few(&known)
            )
        });
    }
    let named = root.attribute("name").map(|n| format!(" {n}")).unwrap_or_default();
    let prefix = root.attribute("prefix").map(|p| format!(" {p}")).unwrap_or_default();
    draft.doc = one_line(&format!("Structures of PowerVR{named}{prefix}."));
    let variant = options
        .variant
        .as_ref()
        .map(|v| format!(", features {v}"))
        .unwrap_or_default();
    draft.provenance = format!("Imported from {}, Mesa's csbgen{variant}.", draft.file);
    Ok(())
}

/// Returns the features that conditions and fields of a file name.
fn names_of_features<'t>(root: Node<'t, 't>) -> BTreeSet<&'t str> {
    let mut all = BTreeSet::new();
    for node in root.descendants().filter(Node::is_element) {
        let texts = [node.attribute("check"), node.attribute("feature")];
        all.extend(texts.into_iter().flatten().flat_map(condition::names));
    }
    all
}

fn few(names: &BTreeSet<&str>) -> String {
    let mut text = names.iter().take(MAX_LISTED).copied().collect::<Vec<_>>().join(", ");
    if names.len() > MAX_LISTED {
        text.push_str(&format!(" and {} more", names.len() - MAX_LISTED));
    }
    if text.is_empty() {
        "the file names none".to_owned()
    } else {
        text
    }
}

/// Returns the features of a variant, which conditions of the file have to name.
fn choose(draft: &Draft, variant: &str, known: &BTreeSet<&str>) -> Result<Features, ImportError> {
    let choose = |reason: String| ImportError::Choose {
        file: draft.file.clone(),
        reason,
    };
    let features = Features::parse(variant).ok_or_else(|| {
        choose(format!(
            "variant '{variant}' is not a list of features (expected A,B=2)"
        ))
    })?;
    let unknown = features.names().find(|n| !known.contains(n)).map(str::to_owned);
    match unknown {
        None => Ok(features),
        Some(unknown) => Err(choose(format!(
            "no condition of the file names the feature '{unknown}' (features: {})",
            few(known)
        ))),
    }
}

/// One condition around the fields that are read now: whether they exist, if the variant tells, and whether a branch
/// of it was taken.
struct Branch {
    is_taken: Option<bool>,
    was_taken: Option<bool>,
}

impl<'t> Reader<'t> {
    fn layout(
        &mut self,
        draft: &mut Draft,
        tree: &'t Tree<'t>,
        node: Node<'t, 't>,
        name: &str,
    ) -> Result<(), ImportError> {
        let is_stream = node.has_tag_name("stream");
        let mut fields = Vec::new();
        let mut open: Vec<Branch> = Vec::new();
        let mut next = 0u64;
        for child in tree.elements(node) {
            match child.tag_name().name() {
                "condition" => {
                    let read = self.condition(tree, child, &mut open);
                    draft.or_left_out(read)?;
                }
                "field" => {
                    let exists = self.exists(child, &open);
                    if exists == Some(false) {
                        continue;
                    }
                    if exists.is_none() {
                        self.of_variants += 1;
                    }
                    let read = self.field(draft, tree, child, (name, is_stream), &mut next);
                    fields.extend(draft.or_left_out(read)?.flatten());
                }
                "define" => {}
                other => draft.lose(tree.place(child), LossKind::Element, || {
                    format!("<{other}> in {name} is unknown")
                }),
            }
        }
        let end = fields.iter().map(|f| f.hi.saturating_add(1)).max().unwrap_or(0);
        let reported = draft.or_left_out(tree.number(node, "length"))?.flatten();
        let mut bits = end.max(next).next_multiple_of(32);
        if let Some(words) = reported {
            let words = words.saturating_mul(32);
            if words < bits && !is_stream {
                draft.lose(tree.place(node), LossKind::Layout, || {
                    format!(
                        "struct {name} has {words} bits, but fields up to bit {}; its fields determine its length",
                        bits - 1
                    )
                });
            }
            bits = bits.max(words);
        }
        if bits == 0 || bits > MAX_LAYOUT {
            draft.lose(tree.place(node), LossKind::Layout, || {
                format!("{name} has {bits} bits; a layout has 1 to {MAX_LAYOUT}")
            });
            return Ok(());
        }
        draft.layout(DraftLayout {
            name: name.to_owned(),
            bits,
            doc: one_line(name),
            fields,
            at: tree.place(node),
        })
    }

    /// Opens, changes or closes a condition: they are elements between the fields, not around them.
    fn condition(&self, tree: &Tree<'_>, node: Node<'_, '_>, open: &mut Vec<Branch>) -> Result<(), ImportError> {
        let check = node.attribute("check").unwrap_or_default();
        let holds = || match &self.features {
            None => Ok(None),
            Some(features) => Condition::parse(check)
                .map(|c| Some(c.holds(features)))
                .ok_or_else(|| tree.wrong(node, "its check is no condition of features")),
        };
        let unopened = || tree.wrong(node, "a branch of a condition that is not open");
        match node.attribute("type") {
            Some("if") => {
                if open.len() >= MAX_DEPTH {
                    return Err(tree.wrong(node, format!("conditions are nested more than {MAX_DEPTH} deep")));
                }
                let is_taken = holds().unwrap_or(None);
                open.push(Branch {
                    is_taken,
                    was_taken: is_taken,
                });
                holds().map(drop)
            }
            Some(branch @ ("elif" | "else")) => {
                let own = if branch == "else" {
                    Ok(self.features.as_ref().map(|_| true))
                } else {
                    holds()
                };
                let last = open.last_mut().ok_or_else(unopened)?;
                let own = own?;
                last.is_taken = own.zip(last.was_taken).map(|(own, was)| own && !was);
                last.was_taken = own.zip(last.was_taken).map(|(own, was)| own || was);
                Ok(())
            }
            Some("endif") => open.pop().map(drop).ok_or_else(unopened),
            _ => Err(tree.wrong(node, "a condition is not if, elif, else or endif")),
        }
    }

    /// Whether a field exists on the requested variant, or `None` if that is unknown.
    fn exists(&self, node: Node<'_, '_>, open: &[Branch]) -> Option<bool> {
        let of_feature = match (node.attribute("feature"), &self.features) {
            (None, _) => Some(true),
            (Some(_), None) => None,
            (Some(name), Some(features)) => Some(features.has(name)),
        };
        let all = open.iter().map(|b| b.is_taken).chain([of_feature]);
        let all: Vec<Option<bool>> = all.collect();
        if all.contains(&Some(false)) {
            return Some(false);
        }
        (!all.contains(&None)).then_some(true)
    }

    /// Reads a field. Fields of a stream follow each other, and have a size.
    fn field(
        &mut self,
        draft: &mut Draft,
        tree: &'t Tree<'t>,
        node: Node<'t, 't>,
        (owner, is_stream): (&str, bool),
        next: &mut u64,
    ) -> Result<Option<DraftField>, ImportError> {
        let name = node.attribute("name").unwrap_or("unnamed");
        let reversed = || {
            tree.wrong(
                node,
                format!("the bit range of field {name} of {owner} is reversed or empty"),
            )
        };
        let (lo, hi) = match (tree.number(node, "start")?, tree.number(node, "end")?) {
            (Some(lo), Some(hi)) if lo <= hi => (lo, hi),
            (None, None) if is_stream => {
                let size = tree.number(node, "size")?.filter(|s| *s > 0).ok_or_else(reversed)?;
                let lo = *next;
                let end = lo.checked_add(size).ok_or_else(reversed)?;
                *next = end;
                (lo, end - 1)
            }
            _ => return Err(reversed()),
        };
        let kind_name = node.attribute("type");
        if hi - lo > 63 {
            draft.lose(tree.place(node), LossKind::Field, || {
                let what = kind_name.unwrap_or_default();
                format!(
                    "field {name} of {owner} has {} bits ({what}); the maximum is 64",
                    hi - lo + 1
                )
            });
            return Ok(None);
        }
        let mut doc = Vec::new();
        if let Some(default) = node.attribute("default") {
            doc.push(format!("The default is {default}."));
        }
        if let Some(feature) = node.attribute("feature") {
            doc.push(format!("With {feature}."));
        }
        for define in tree.elements(node).filter(|n| n.has_tag_name("define")) {
            if let (Some(name), Some(value)) = (define.attribute("name"), define.attribute("value")) {
                doc.push(format!("{name} is {value}."));
            }
        }
        let kind = match kind_name {
            Some("uint") => Kind::Number,
            Some("bool") if lo == hi => Kind::Bool,
            Some("address" | "offset") => {
                let shift = tree.number(node, "shift")?.unwrap_or(0);
                let shift = u32::try_from(shift).ok().filter(|s| *s < 64);
                Kind::Address(shift.ok_or_else(|| tree.wrong(node, "its shift is more than 63"))?)
            }
            None | Some("hex" | "bool" | "mbo" | "uint_array") => Kind::Hex,
            Some(other) => match self.enums.get(other) {
                Some(list) => {
                    let named = values(draft, tree, *list);
                    let place = tree.place(*list);
                    draft.enumeration(&place, other, named)?.map_or(Kind::Hex, Kind::Enum)
                }
                None if self.structs.contains(other) => {
                    doc.insert(0, format!("A {other}."));
                    Kind::Hex
                }
                None => {
                    draft.lose(tree.place(node), LossKind::Kind, || {
                        format!("field {name} of {owner} is of type {other}; it is shown as bits")
                    });
                    Kind::Hex
                }
            },
        };
        Ok(Some(DraftField {
            name: name.to_owned(),
            lo,
            hi,
            kind,
            written: None,
            doc: one_line(&doc.join(" ")),
            at: tree.place(node),
        }))
    }
}
