//! The importer of rules-ng-ng, the format of envytools and freedreno (`docs`: rules-ng-ng.txt of envytools): domains
//! of registers in arrays and stripes, bitsets, enumerations, groups that are used by name, and ranges of variants.
//!
//! One domain becomes the registers, the other domains of the file become layouts.

mod fields;
mod items;
mod places;

use super::draft::{Body, Draft, DraftField, DraftLayout, DraftRegister, Kind};
use super::error::{FilePosition, ImportError, LossKind};
use super::options::Options;
use super::source::Tree;
use super::text::one_line;
use super::variants::{self, Names};
use items::walk;
use places::Scope;
use roxmltree::Node;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use trace_core::registers::{ArrayLevel, ArrayShape};

/// Maximum number of bits of a layout of the project's format.
const MAX_LAYOUT: u64 = 1 << 16;
/// Maximum depth of groups that use each other, and of bitsets that name each other.
const MAX_USES: usize = 16;
/// Maximum number of elements visited after the expansion of groups.
const MAX_STEPS: usize = 4_000_000;
/// Maximum size of a description that is read, bytes; one line of it is kept.
const MAX_DOC: usize = 4096;
/// Maximum number of enumerations that are searched for the requested variant.
const MAX_WANTED: usize = 64;

type TreeNode<'t> = (&'t Tree<'t>, Node<'t, 't>);

/// Definitions that all files of a database share.
#[derive(Default)]
struct Definitions<'t> {
    enums: BTreeMap<&'t str, Vec<TreeNode<'t>>>,
    bitsets: HashMap<&'t str, Vec<TreeNode<'t>>>,
    groups: HashMap<&'t str, Vec<TreeNode<'t>>>,
    domains: Vec<(&'t str, Vec<TreeNode<'t>>)>,
    /// Index of each domain in that list.
    domain_of: HashMap<&'t str, usize>,
    /// Enumerations with the requested variant among their values, with their values and its number.
    wanted: Vec<(&'t str, Names<'t>, usize)>,
    /// Items that only some variants have, if no variant was requested.
    of_variants: BTreeMap<String, (usize, FilePosition)>,
    steps: usize,
    unknown_types: HashSet<String>,
    /// Those found since the current domain started, which may be read again.
    new_unknown: Vec<String>,
}

/// A register of a domain; bit offsets count from its start.
struct Item {
    /// With `{n}` for the number of each level.
    name: String,
    bit: u64,
    levels: Vec<ArrayLevel>,
    body: Rc<Body>,
}

/// A domain that was read: its name, its first part, its size in bits, and its items.
type ReadDomain<'t> = (&'t str, TreeNode<'t>, u64, Vec<Item>);

pub(crate) fn read(trees: &[Tree<'_>], options: &Options, draft: &mut Draft) -> Result<(), ImportError> {
    let (mut known, own) = define(trees);
    if let Some(variant) = &options.variant {
        known.choose_variant(draft, variant)?;
    }
    let names: Vec<&str> = known.domains.iter().map(|(n, _)| *n).collect();
    let candidates: Vec<&str> = match options.blocks.as_slice() {
        [] if own.is_empty() => names.clone(),
        [] => names.iter().copied().filter(|n| own.contains(n)).collect(),
        wanted => {
            if let Some(missing) = wanted.iter().find(|w| !known.domain_of.contains_key(w.as_str())) {
                return Err(ImportError::Choose {
                    file: draft.file.clone(),
                    reason: format!("the file has no domain '{missing}' (domains: {})", few(&names)),
                });
            }
            names
                .iter()
                .copied()
                .filter(|n| wanted.iter().any(|w| w == n))
                .collect()
        }
    };
    let mut read: Vec<ReadDomain<'_>> = Vec::new();
    for name in candidates {
        read.extend(read_domain(&mut known, draft, name)?);
    }
    add_domains(draft, options, read, &names)?;
    for (set, (count, place)) in std::mem::take(&mut known.of_variants) {
        let parts = known.enums.get(set.as_str());
        let names = parts.map(|p| values_of(p).join(", ")).unwrap_or_default();
        draft.lose(place, LossKind::Variant, || {
            format!(
                "{count} items exist only on some variants of {set} and were imported for all; choose a variant \
                     with --variant ({names})"
            )
        });
    }
    if draft.doc.is_empty() {
        draft.doc = format!("Registers of the rules-ng-ng database {}.", draft.file);
    }
    draft.provenance = format!("Imported from {}, rules-ng-ng{}.", draft.file, variant_text(options));
    Ok(())
}

/// Returns the definitions of all files, and the names of the domains of the first one.
fn define<'t>(trees: &'t [Tree<'t>]) -> (Definitions<'t>, HashSet<&'t str>) {
    let mut known = Definitions::default();
    let mut own: HashSet<&str> = HashSet::new();
    for (n, tree) in trees.iter().enumerate() {
        for node in tree.root().descendants().filter(Node::is_element) {
            let tag = node.tag_name().name();
            let Some(name) = node.attribute("name") else { continue };
            match tag {
                "enum" => known.enums.entry(name).or_default().push((tree, node)),
                "bitset" => known.bitsets.entry(name).or_default().push((tree, node)),
                "group" => known.groups.entry(name).or_default().push((tree, node)),
                "domain" => {
                    if n == 0 {
                        own.insert(name);
                    }
                    let next = known.domains.len();
                    let at = *known.domain_of.entry(name).or_insert(next);
                    match known.domains.get_mut(at) {
                        Some((_, parts)) => parts.push((tree, node)),
                        None => known.domains.push((name, vec![(tree, node)])),
                    }
                }
                _ => {}
            }
        }
    }
    (known, own)
}

/// Reads a domain. A domain whose offsets are those of bytes, although it states words, is read as bytes.
fn read_domain<'t>(
    known: &mut Definitions<'t>,
    draft: &mut Draft,
    name: &'t str,
) -> Result<Option<ReadDomain<'t>>, ImportError> {
    let of_name = known.domain_of.get(name).and_then(|at| known.domains.get(*at));
    let Some(parts) = of_name.map(|(_, p)| p.clone()) else {
        return Ok(None);
    };
    // Messages of the first pass are held back until it is known whether the domain is read again.
    let before = (draft.losses.len(), draft.more_losses);
    let earlier = std::mem::take(&mut known.of_variants);
    known.new_unknown.clear();
    let (mut items, mut size) = domain(known, draft, &parts, None)?;
    // Freedreno's display blocks declare 32-bit cells and count bytes, as their drivers do.
    let words = |i: &Item| i.body.bits == 32 && i.bit.is_multiple_of(128);
    let (tree, node) = match parts.first() {
        Some(first) => *first,
        None => return Ok(None),
    };
    let cells = tree.number(node, "width").ok().flatten() == Some(32);
    if cells && items.len() > 1 && items.iter().all(words) {
        draft.losses.truncate(before.0);
        draft.more_losses = before.1;
        known.of_variants.clear();
        for name in std::mem::take(&mut known.new_unknown) {
            known.unknown_types.remove(&name);
        }
        (items, size) = domain(known, draft, &parts, Some(8))?;
        draft.lose(tree.place(node), LossKind::Element, || {
            format!(
                "domain {name} states 32-bit cells, but all its offsets are multiples of 4: they are read as \
                     bytes, as its drivers do"
            )
        });
    }
    for (set, (count, place)) in std::mem::replace(&mut known.of_variants, earlier) {
        known.of_variants.entry(set).or_insert_with(|| (0, place)).0 += count;
    }
    Ok(Some((name, (tree, node), size, items)))
}

/// Adds the items of the domains to the map: the main one as registers, the others as layouts.
fn add_domains(
    draft: &mut Draft,
    options: &Options,
    read: Vec<ReadDomain<'_>>,
    names: &[&str],
) -> Result<(), ImportError> {
    // A database with only enumerations is a map without registers, which is useless. The domain named after the file
    // is used, or else the one with the most registers.
    let stem = std::path::Path::new(&draft.file)
        .file_stem()
        .and_then(|s| s.to_str())
        .unwrap_or_default()
        .to_owned();
    let weight = |n: &usize| {
        read.get(*n)
            .map(|r| (r.0.eq_ignore_ascii_case(&stem), r.3.len(), usize::MAX - n))
    };
    let Some(main) = (0..read.len()).max_by_key(weight) else {
        return Err(ImportError::Choose {
            file: draft.file.clone(),
            reason: format!(
                "the file and its imports have no domain of registers (domains: {})",
                few(names)
            ),
        });
    };
    // If several domains are requested by name, all of them are registers of one window.
    let several = options.blocks.len() > 1;
    for (n, (name, (tree, node), size, items)) in read.into_iter().enumerate() {
        let block: Rc<str> = name.into();
        if n == main || several {
            if n == main {
                draft.doc = doc_of(node);
            }
            if size > 0 {
                draft.window = draft.window.max(Some(size / 8));
            }
            for item in items {
                if !item.bit.is_multiple_of(8) {
                    continue;
                }
                draft.register(DraftRegister {
                    name: item.name,
                    block: Rc::clone(&block),
                    offset: item.bit / 8,
                    levels: item.levels,
                    body: item.body,
                })?;
            }
        } else {
            layout(draft, name, tree.place(node), doc_of(node), items)?;
        }
    }
    Ok(())
}

/// Reads the items of all parts of a domain, and its size in bits. A given cell size replaces that of the file.
fn domain<'t>(
    known: &mut Definitions<'t>,
    draft: &mut Draft,
    parts: &[TreeNode<'t>],
    cells: Option<u64>,
) -> Result<(Vec<Item>, u64), ImportError> {
    let (mut items, mut size) = (Vec::new(), 0);
    for (tree, node) in parts {
        let width = tree.number(*node, "width").and_then(|width| match width.unwrap_or(8) {
            bits @ (8 | 16 | 32 | 64) => Ok(bits),
            other => Err(tree.wrong(
                *node,
                format!("a domain of {other}-bit cells (expected 8, 16, 32 or 64)"),
            )),
        });
        let Some(reported) = draft.or_left_out(width)? else {
            continue;
        };
        let unit = cells.unwrap_or(reported);
        let count = draft.or_left_out(tree.number(*node, "size"))?.flatten().unwrap_or(0);
        size = size.max(count.saturating_mul(unit));
        let scope = Scope {
            prefix: String::new(),
            base: 0,
            unit,
            levels: Vec::new(),
            varset: varset(*node, None),
            depth: 0,
        };
        walk(known, draft, tree, *node, &scope, &mut items)?;
    }
    Ok((items, size))
}

fn variant_text(options: &Options) -> String {
    options
        .variant
        .as_ref()
        .map(|v| format!(", variant {v}"))
        .unwrap_or_default()
}

fn few(names: &[&str]) -> String {
    const MAX_DEPTH: usize = 30;
    let mut text = names.iter().take(MAX_DEPTH).copied().collect::<Vec<_>>().join(", ");
    if names.len() > MAX_DEPTH {
        text.push_str(&format!(" and {} more", names.len() - MAX_DEPTH));
    }
    if text.is_empty() { "none".to_owned() } else { text }
}

fn values_of<'t>(parts: &[TreeNode<'t>]) -> Vec<&'t str> {
    let all = parts.iter().flat_map(|(_, n)| n.children());
    all.filter(|n| n.tag_name().name() == "value")
        .filter_map(|n| n.attribute("name"))
        .collect()
}

/// Lists the variants to choose from: enumerations that items are selected by.
fn variants_of(known: &Definitions<'_>) -> String {
    let mut messages = Vec::new();
    for set in ["chip", "chipset", "card", "obj-class"] {
        if let Some(parts) = known.enums.get(set) {
            messages.push(format!("{set}: {}", few(&values_of(parts))));
        }
    }
    if messages.is_empty() {
        "the file names no variants".to_owned()
    } else {
        messages.join("; ")
    }
}

fn varset(node: Node<'_, '_>, outer: Option<&str>) -> Option<String> {
    let own = node
        .attribute("varset")
        .or_else(|| node.attribute("prefix").filter(|p| *p != "none"));
    own.or(outer).map(str::to_owned)
}

fn doc_of(node: Node<'_, '_>) -> String {
    let mut out = Vec::new();
    for tag in ["brief", "doc"] {
        if let Some(n) = node.children().find(|n| n.tag_name().name() == tag) {
            // No more than fits one line: it is read again for every array member.
            let mut text = String::new();
            for part in n
                .descendants()
                .take(MAX_DOC)
                .filter_map(|t| t.text().filter(|_| t.is_text()))
            {
                let left = MAX_DOC.saturating_sub(text.len());
                text.extend(part.chars().take(left));
            }
            let text = one_line(&text);
            if !text.is_empty() {
                out.push(text);
            }
        }
    }
    out.join(" ")
}

impl Definitions<'_> {
    /// Finds the enumerations that have the requested variant among their values.
    fn choose_variant(&mut self, draft: &mut Draft, variant: &str) -> Result<(), ImportError> {
        for (name, parts) in &self.enums {
            if self.wanted.len() >= MAX_WANTED {
                break;
            }
            let values = values_of(parts);
            if let Some(n) = values.iter().position(|v| *v == variant) {
                self.wanted.push((name, Names::new(&values), n));
            }
        }
        // The list of NVIDIA's chips is not among envytools' sources.
        let chips: Vec<&str> = variants::NVIDIA_CHIPS.split_whitespace().collect();
        let chip = chips.iter().position(|c| *c == variant);
        if let Some(n) = chip.filter(|_| self.wanted.is_empty() && !self.enums.contains_key(variants::CHIPSETS)) {
            self.wanted.push((variants::CHIPSETS, Names::new(&chips), n));
            let place = FilePosition {
                file: draft.file.as_str().into(),
                line: 1,
                column: 1,
            };
            draft.lose(place, LossKind::Variant, || {
                format!(
                    "the enumeration {} is not there; NVIDIA's chips are taken in the order of their generations",
                    variants::CHIPSETS
                )
            });
        }
        if self.wanted.is_empty() {
            let missing = draft.losses.iter().filter(|l| l.kind == LossKind::Import);
            let missing: String = missing.take(MAX_WANTED).map(|l| format!("; {}", l.what)).collect();
            return Err(ImportError::Choose {
                file: draft.file.clone(),
                reason: format!(
                    "no enumeration has a variant '{variant}'; {}{missing}",
                    variants_of(self)
                ),
            });
        }
        Ok(())
    }

    fn step(&mut self, at: &FilePosition) -> Result<(), ImportError> {
        self.steps_on(at, 1)
    }

    /// Counts visited elements: `n` of them.
    fn steps_on(&mut self, at: &FilePosition, n: usize) -> Result<(), ImportError> {
        self.steps = self.steps.saturating_add(n);
        if self.steps > MAX_STEPS {
            return Err(ImportError::TooMuch {
                place: at.clone(),
                what: "arrays and groups expand to too many items".to_owned(),
                max: MAX_STEPS as u64,
            });
        }
        Ok(())
    }

    /// Whether an item exists on the requested variant; all do if none was requested.
    fn is_wanted(&mut self, draft: &mut Draft, tree: &Tree<'_>, node: Node<'_, '_>, set: Option<&str>) -> bool {
        let Some(list) = node.attribute("variants") else {
            return true;
        };
        if self.wanted.is_empty() {
            let set = set.unwrap_or("chip").to_owned();
            self.of_variants.entry(set).or_insert_with(|| (0, tree.place(node))).0 += 1;
            return true;
        }
        let named = set.and_then(|s| self.wanted.iter().find(|(n, ..)| *n == s));
        let answer = match (named, set) {
            (Some((_, names, n)), _) => variants::has(list, names, *n),
            // Another dimension than that of the requested variant: nothing is known of it.
            (None, Some(s)) if self.enums.contains_key(s) => Some(true),
            _ => self
                .wanted
                .iter()
                .find_map(|(_, names, n)| variants::has(list, names, *n)),
        };
        answer.unwrap_or_else(|| {
            draft.lose(tree.place(node), LossKind::Variant, || {
                format!("variants '{list}' are not values of the enumeration; the item is imported for every variant")
            });
            true
        })
    }
}

/// Adds a domain that is no register window: a descriptor.
fn layout(draft: &mut Draft, name: &str, at: FilePosition, doc: String, items: Vec<Item>) -> Result<(), ImportError> {
    // Array members share their fields until here, and then each has its own: counted before they are created.
    let near = |i: &&Item| i.bit.saturating_add(i.body.bits) <= MAX_LAYOUT;
    let fields_of = |i: &Item| {
        let members = usize::try_from(ArrayShape::new(&i.levels).members()).unwrap_or(usize::MAX);
        i.body.fields.len().max(1).saturating_mul(members)
    };
    draft.room(
        &at,
        items.iter().filter(near).map(fields_of).fold(0, usize::saturating_add),
    )?;
    let mut fields = Vec::new();
    let (mut bits, mut far) = (0, 0u64);
    for item in items {
        let shape = ArrayShape::new(&item.levels);
        for member in 0..shape.members() {
            let start = item.bit.saturating_add(shape.offset_of(member).saturating_mul(8));
            let end = start.saturating_add(item.body.bits);
            if end > MAX_LAYOUT {
                far = far.saturating_add(shape.members() - member);
                break;
            }
            let name = if item.levels.is_empty() {
                item.name.clone()
            } else {
                shape.name_of(&item.name, member)
            };
            bits = bits.max(end);
            if item.body.fields.is_empty() {
                fields.push(DraftField {
                    name: name.clone(),
                    lo: start,
                    hi: end - 1,
                    kind: Kind::Hex,
                    written: None,
                    doc: item.body.doc.clone(),
                    at: item.body.at.clone(),
                });
            }
            let one = item.body.fields.len() == 1;
            for f in &item.body.fields {
                let whole = one && f.name == "value";
                fields.push(DraftField {
                    name: if whole {
                        name.clone()
                    } else {
                        format!("{name}_{}", f.name)
                    },
                    lo: start + f.lo,
                    hi: start + f.hi,
                    ..f.clone()
                });
            }
        }
    }
    if far > 0 {
        draft.lose(at.clone(), LossKind::Layout, || {
            format!("{far} registers of domain {name} are too far from its start for a descriptor; --block {name} imports the domain as registers")
        });
    }
    if bits == 0 {
        return Ok(());
    }
    draft.layout(DraftLayout {
        name: name.to_owned(),
        bits,
        doc,
        fields,
        at,
    })
}
