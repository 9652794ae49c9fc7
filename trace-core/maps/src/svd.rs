//! The importer of CMSIS-SVD (Arm's format specification, version 1.3): peripherals, clusters and registers with `dim`
//! arrays, `derivedFrom` at every level, inherited properties, enumerated values.
//!
//! It reads the XML itself, because every expansion must be limited before it is made and every loss needs its
//! position.

mod fields;

use self::fields::{effects, sentence};
use super::draft::{Access, Body, Draft, MAX_REGISTERS};
use super::error::{ImportError, LossKind};
use super::options::Options;
use super::source::{MAX_NAME, Tree, one_line};
use super::svd_elements::UnsupportedElements;
use roxmltree::{Node, NodeId};
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Maximum length of a chain of derived elements.
const MAX_DERIVED: usize = 16;
/// Maximum number of elements visited after the expansion of arrays and derived elements.
const MAX_LOOKS: usize = 16_000_000;
/// Maximum number of elements of a peripheral, cluster, register or field that are no registers: properties,
/// interrupts.
const MAX_PROPERTIES: usize = 4096;
/// Maximum size of the register window of a map, bytes.
const MAX_WINDOW: u64 = 1 << 26;

/// An element and the elements that it is derived from, nearest first.
type Chain<'t> = Vec<Node<'t, 't>>;

/// Properties that registers inherit.
#[derive(Clone, Default)]
struct Inherited {
    size: Option<u64>,
    access: Option<String>,
    reset: Option<u64>,
}

struct Reader<'t> {
    tree: &'t Tree<'t>,
    /// Elements by tag and name, in the order of the file.
    named: HashMap<(&'t str, &'t str), Vec<Node<'t, 't>>>,
    /// The first two of them under each parent: one of them may be the element that asks.
    siblings: HashMap<(&'t str, &'t str, NodeId), (Node<'t, 't>, Option<Node<'t, 't>>)>,
    /// Names of elements.
    names: HashMap<NodeId, &'t str>,
    enums: HashMap<NodeId, Option<usize>>,
    steps: usize,
    /// Number of visited elements; array members count shared ones again.
    looks: Cell<usize>,
}

/// A peripheral of the file: its name, its bus address, and its element with those that it is derived from.
type Peripheral<'t> = (String, u64, Chain<'t>);

pub(crate) fn read(trees: &[Tree<'_>], options: &Options, draft: &mut Draft) -> Result<(), ImportError> {
    let Some(tree) = trees.first() else { return Ok(()) };
    let device = tree.root();
    if device.tag_name().name() != "device" {
        return Err(tree.wrong(device, "the root element of an SVD is <device>"));
    }
    let mut reader = Reader::new(tree)?;
    let own = Inherited::default().under(&reader, &[device])?;
    let unit = reader.number(device, "addressUnitBits")?.unwrap_or(8);
    if unit != 8 {
        return Err(tree.wrong(device, format!("the address unit has {unit} bits (expected 8)")));
    }
    let found = reader.peripherals()?;
    let names = || {
        let list: Vec<String> = found
            .iter()
            .take(200)
            .map(|(n, at, _)| format!("{n} at {at:#x}"))
            .collect();
        list.join(", ")
    };
    if found.is_empty() {
        return Err(tree.wrong(device, "the file has no peripherals"));
    }
    if let Some(missing) = options.blocks.iter().find(|b| !found.iter().any(|(n, ..)| n == *b)) {
        return Err(ImportError::Choose {
            file: draft.file.clone(),
            reason: format!("the file has no peripheral '{missing}'; it has {}", names()),
        });
    }
    let choice = format!("choose peripherals with --block NAME; the file has {}", names());
    let wanted: Vec<&Peripheral<'_>> = found
        .iter()
        .filter(|(n, ..)| options.blocks.is_empty() || options.blocks.contains(n))
        .collect();
    let mut wordless = UnsupportedElements::default();
    wordless.children(draft, tree, device);
    let start = wanted.iter().map(|(_, at, _)| *at).min().unwrap_or(0);
    draft.window_at = Some(start);
    let mut end = 4;
    let mut read: HashSet<NodeId> = HashSet::new();
    for peripheral in &wanted {
        let (name, at, chain) = peripheral;
        reader.look(chain)?;
        let base = at - start;
        if base >= MAX_WINDOW {
            return Err(ImportError::Choose {
                file: draft.file.clone(),
                reason: format!(
                    "{name} is {base:#x} bytes after the first peripheral, but a register map covers at most \
                     {MAX_WINDOW:#x}; {choice}"
                ),
            });
        }
        end = end.max(reader.peripheral(draft, peripheral, base, &own, wanted.len() > 1)?);
        let interrupts: usize = chain
            .first()
            .map_or(0, |n| n.children().filter(|c| c.has_tag_name("interrupt")).count());
        for node in chain {
            if read.insert(node.id()) {
                wordless.visit_tree(draft, tree, *node);
            }
        }
        if interrupts > 0
            && let Some(node) = chain.first()
        {
            draft.lose(tree.place(*node), LossKind::Element, || {
                format!("{interrupts} interrupts of {name}: a map has no interrupt numbers")
            });
        }
    }
    let last = draft
        .registers
        .iter()
        .map(|r| r.offset.saturating_add(r.body.bits / 8))
        .max()
        .unwrap_or(4);
    let bytes = end.max(last).min(MAX_WINDOW);
    draft.window = Some(bytes.next_multiple_of(4).min(MAX_WINDOW));
    for tag in ["cpu", "vendorExtensions"] {
        if let Some(node) = device.children().find(|n| n.has_tag_name(tag)) {
            draft.lose(tree.place(node), LossKind::Element, || {
                format!("<{tag}> has no information about registers")
            });
        }
    }
    wordless.report(draft);
    describe(draft, options, device, start);
    Ok(())
}

/// Sets the description and the provenance of the map.
fn describe(draft: &mut Draft, options: &Options, device: Node<'_, '_>, start: u64) {
    let device_name = text(device, "name").unwrap_or("a device");
    let about = text(device, "description").map(one_line).unwrap_or_default();
    let parts = if options.blocks.is_empty() {
        String::new()
    } else {
        format!(" ({})", options.blocks.join(", "))
    };
    draft.doc = format!("{device_name}{parts}: {about} The MMIO region begins at {start:#x}.").replace(":  ", ". ");
    let version = text(device, "version")
        .map(|v| format!(", version {v}"))
        .unwrap_or_default();
    let vendor = text(device, "vendor").map(|v| format!(" of {v}")).unwrap_or_default();
    draft.provenance = one_line(&format!("Imported from {}, CMSIS-SVD{vendor}{version}.", draft.file));
}

/// Returns the text of a child element, or `None` if it is missing or empty.
fn text<'t>(node: Node<'t, 't>, tag: &str) -> Option<&'t str> {
    let child = node.children().find(|n| n.has_tag_name(tag))?;
    child.text().map(str::trim).filter(|t| !t.is_empty())
}

fn first_text<'t>(chain: &[Node<'t, 't>], tag: &str) -> Option<&'t str> {
    chain.iter().find_map(|n| text(*n, tag))
}

/// Parses a number in SVD notation: `12`, `0x1f`, `#101`, `4k`. Don't-care bits are 0.
fn number(text: &str) -> Option<u64> {
    let text = text.trim().trim_start_matches('+');
    if let Some(bits) = text
        .strip_prefix('#')
        .or_else(|| text.strip_prefix("0b"))
        .or_else(|| text.strip_prefix("0B"))
    {
        return u64::from_str_radix(&bits.replace(['x', 'X'], "0"), 2).ok();
    }
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return u64::from_str_radix(hex, 16).ok();
    }
    let (digits, factor) = match text.char_indices().next_back()? {
        (at, 'k' | 'K') => (text.get(..at)?, 1u64 << 10),
        (at, 'm' | 'M') => (text.get(..at)?, 1 << 20),
        (at, 'g' | 'G') => (text.get(..at)?, 1 << 30),
        (at, 't' | 'T') => (text.get(..at)?, 1 << 40),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

impl Inherited {
    fn under(&self, reader: &Reader<'_>, chain: &[Node<'_, '_>]) -> Result<Self, ImportError> {
        let mut own = self.clone();
        if let Some(size) = reader.first_number(chain, "size")? {
            own.size = Some(size);
        }
        if let Some(access) = chain.iter().find_map(|n| child_text(*n, "access")) {
            own.access = Some(access);
        }
        if let Some(reset) = reader.first_number(chain, "resetValue")? {
            own.reset = Some(reset);
        }
        Ok(own)
    }
}

fn child_text(node: Node<'_, '_>, tag: &str) -> Option<String> {
    let child = node.children().find(|n| n.has_tag_name(tag))?;
    child.text().map(|t| t.trim().to_owned()).filter(|t| !t.is_empty())
}

impl<'t> Reader<'t> {
    /// Creates the reader of a tree: finds its elements by name.
    fn new(tree: &'t Tree<'t>) -> Result<Self, ImportError> {
        let mut reader = Self {
            tree,
            named: HashMap::new(),
            siblings: HashMap::new(),
            names: HashMap::new(),
            enums: HashMap::new(),
            steps: 0,
            looks: Cell::new(0),
        };
        let device = tree.root();
        for node in device.descendants().filter(Node::is_element) {
            let tag = node.tag_name().name();
            if matches!(
                tag,
                "device" | "peripheral" | "cluster" | "register" | "field" | "enumeratedValues"
            ) && let Some(name) = text(node, "name")
            {
                // They are searched for every property, and again for every array member.
                let others = |n: &Node<'_, '_>| {
                    let listed = ["register", "cluster", "enumeratedValue"];
                    !n.is_text() && !listed.contains(&n.tag_name().name())
                };
                if node.children().filter(others).count() > MAX_PROPERTIES {
                    return Err(ImportError::TooMuch {
                        place: tree.place(node),
                        what: format!("a {tag} has too many elements that are not registers"),
                        max: MAX_PROPERTIES as u64,
                    });
                }
                reader.names.insert(node.id(), name);
                reader.named.entry((tag, name)).or_default().push(node);
                if let Some(parent) = node.parent() {
                    let first = reader.siblings.entry((tag, name, parent.id())).or_insert((node, None));
                    if first.0 != node && first.1.is_none() {
                        first.1 = Some(node);
                    }
                }
            }
        }
        Ok(reader)
    }

    /// Returns the peripherals of the file, members of arrays one by one.
    fn peripherals(&mut self) -> Result<Vec<Peripheral<'t>>, ImportError> {
        let (tree, device) = (self.tree, self.tree.root());
        let peripherals: Vec<Node<'t, 't>> = device
            .children()
            .filter(|n| n.has_tag_name("peripherals"))
            .flat_map(|n| n.children())
            .filter(|n| n.has_tag_name("peripheral"))
            .collect();
        let mut found: Vec<Peripheral<'t>> = Vec::new();
        for node in peripherals {
            let chain = self.chain(node)?;
            let base = self.number(node, "baseAddress")?;
            let base = base.ok_or_else(|| tree.wrong(node, "a peripheral has no baseAddress"))?;
            for (name, at) in self.repeats(&chain, base)? {
                found.push((name, at, chain.clone()));
                if found.len() > MAX_REGISTERS {
                    return Err(self.many(node));
                }
            }
        }
        Ok(found)
    }

    /// Reads the registers of a peripheral at an offset of the window. Returns the end of its address blocks.
    /// `is_one_of_several`: its name is needed as a prefix, because several peripherals can have registers of one name.
    fn peripheral(
        &mut self,
        draft: &mut Draft,
        (name, _, chain): &Peripheral<'t>,
        base: u64,
        own: &Inherited,
        is_one_of_several: bool,
    ) -> Result<u64, ImportError> {
        let mut end = 4;
        for block in chain
            .iter()
            .find_map(|n| n.children().find(|c| c.has_tag_name("addressBlock")))
            .iter()
        {
            let (offset, size) = (self.number(*block, "offset")?, self.number(*block, "size")?);
            end = end.max(
                base.saturating_add(offset.unwrap_or(0))
                    .saturating_add(size.unwrap_or(0)),
            );
        }
        let block: Rc<str> = name.as_str().into();
        let prefix = first_text(chain, "prependToName").unwrap_or_default().to_owned();
        let suffix = first_text(chain, "appendToName").unwrap_or_default();
        let outer = if is_one_of_several {
            format!("{name}_{prefix}")
        } else {
            prefix
        };
        let own = own.under(self, chain)?;
        if let Some(list) = chain
            .iter()
            .find_map(|n| n.children().find(|c| c.has_tag_name("registers")))
        {
            self.list(draft, list, &block, &outer, suffix, base, &own, 0)?;
        }
        Ok(end)
    }

    fn number(&self, node: Node<'_, '_>, tag: &str) -> Result<Option<u64>, ImportError> {
        let Some(text) = child_text(node, tag) else {
            return Ok(None);
        };
        let value = number(&text).ok_or_else(|| {
            let text: String = text.chars().take(40).collect();
            self.tree.wrong(node, format!("{tag} is '{text}' (expected a number)"))
        })?;
        Ok(Some(value))
    }

    fn first_number(&self, chain: &[Node<'_, '_>], tag: &str) -> Result<Option<u64>, ImportError> {
        for node in chain {
            if let Some(n) = self.number(*node, tag)? {
                return Ok(Some(n));
            }
        }
        Ok(None)
    }

    fn many(&self, node: Node<'_, '_>) -> ImportError {
        ImportError::TooMuch {
            place: self.tree.place(node),
            what: "arrays have too many members".to_owned(),
            max: MAX_REGISTERS as u64,
        }
    }

    /// Counts the elements visited for something built from `chain`.
    fn look(&self, chain: &[Node<'t, 't>]) -> Result<(), ImportError> {
        let children: usize = chain.iter().map(|n| 1 + n.children().count()).sum();
        self.looks.set(self.looks.get().saturating_add(children));
        match chain.first() {
            Some(node) if self.looks.get() > MAX_LOOKS => Err(ImportError::TooMuch {
                place: self.tree.place(*node),
                what: "arrays and derived elements expand to too many elements".to_owned(),
                max: MAX_LOOKS as u64,
            }),
            _ => Ok(()),
        }
    }

    /// Returns an element followed by the elements that it is derived from.
    fn chain(&self, node: Node<'t, 't>) -> Result<Chain<'t>, ImportError> {
        let mut chain = vec![node];
        let mut last = node;
        while let Some(path) = last.attribute("derivedFrom") {
            let base = self.find(last, path)?;
            let base = base.ok_or_else(|| {
                self.tree
                    .wrong(last, format!("it is derived from {path}, which does not exist"))
            })?;
            if chain.contains(&base) {
                return Err(self.tree.wrong(last, format!("it is derived from {path} in a cycle")));
            }
            if chain.len() >= MAX_DERIVED {
                return Err(self.tree.wrong(
                    last,
                    format!("more than {MAX_DERIVED} elements are derived from each other"),
                ));
            }
            chain.push(base);
            last = base;
        }
        Ok(chain)
    }

    /// Resolves a path: a sibling, or else any element of the same tag with the path's last name under elements of its
    /// other names.
    fn find(&self, node: Node<'t, 't>, path: &'t str) -> Result<Option<Node<'t, 't>>, ImportError> {
        let tag = node.tag_name().name();
        let mut parts = path.rsplit('.');
        let last = parts.next().unwrap_or_default();
        let outer: Vec<&str> = parts.collect();
        let Some(key) = self.named.get(&(tag, last)) else {
            return Ok(None);
        };
        if outer.is_empty() {
            let near = node.parent().and_then(|p| self.siblings.get(&(tag, last, p.id())));
            let sibling = near.and_then(|(a, b)| if *a == node { *b } else { Some(*a) });
            return Ok(sibling.or_else(|| key.iter().find(|n| **n != node).copied()));
        }
        for candidate in key {
            self.looks.set(self.looks.get().saturating_add(1));
            if self.looks.get() > MAX_LOOKS {
                return Err(self.tree.wrong(node, format!("too many elements have the name {last}")));
            }
            let mut above = candidate.ancestors().skip(1).filter_map(|n| self.names.get(&n.id()));
            if outer.iter().all(|part| above.next() == Some(part)) {
                return Ok(Some(*candidate));
            }
        }
        Ok(None)
    }

    /// Returns names and offsets of the members of an array; for a single element, its own.
    fn repeats(&self, chain: &[Node<'t, 't>], at: u64) -> Result<Vec<(String, u64)>, ImportError> {
        let Some(node) = chain.first().copied() else {
            return Ok(Vec::new());
        };
        let name = text(node, "name").or_else(|| first_text(chain, "name"));
        let name = name.ok_or_else(|| self.tree.wrong(node, "the element has no name"))?;
        let Some(dim) = self.first_number(chain, "dim")? else {
            return Ok(vec![(name.to_owned(), at)]);
        };
        if dim == 0 {
            return Err(self.tree.wrong(node, "dim is 0 (expected at least 1)"));
        }
        if dim > MAX_REGISTERS as u64 {
            return Err(self.many(node));
        }
        let increment = self.first_number(chain, "dimIncrement")?;
        let increment = increment.ok_or_else(|| self.tree.wrong(node, "an array has no dimIncrement"))?;
        let index = self.indices(chain, dim)?;
        let mut all = Vec::new();
        for (n, index) in (0..dim).zip(index) {
            let offset = n.checked_mul(increment).and_then(|d| d.checked_add(at));
            let offset = offset.ok_or_else(|| self.tree.wrong(node, "the addresses exceed 64 bits"))?;
            let member = name.replace("[%s]", &index).replace("%s", &index);
            if member.len() > 2 * MAX_NAME {
                return Err(self.tree.wrong(node, "the names of the members are too long"));
            }
            all.push((member, offset));
        }
        Ok(all)
    }

    /// Parses `dimIndex`: `0-3`, `A-D`, `left,right`; numbers from 0 if there is none.
    fn indices(&self, chain: &[Node<'t, 't>], dim: u64) -> Result<Vec<String>, ImportError> {
        let Some(text) = first_text(chain, "dimIndex") else {
            return Ok((0..dim).map(|n| n.to_string()).collect());
        };
        let mut all: Vec<String> = Vec::new();
        for part in text.split(',').map(str::trim) {
            let range = part.split_once('-').and_then(|(a, b)| {
                if let (Ok(a), Ok(b)) = (a.parse::<u64>(), b.parse::<u64>()) {
                    let many = b.checked_sub(a).filter(|d| *d <= MAX_REGISTERS as u64);
                    return many.map(|_| (a..=b).map(|n| n.to_string()).collect::<Vec<_>>());
                }
                match (a.as_bytes(), b.as_bytes()) {
                    ([a @ b'A'..=b'Z'], [b @ b'A'..=b'Z']) if a <= b => {
                        Some((*a..=*b).map(|c| char::from(c).to_string()).collect())
                    }
                    _ => None,
                }
            });
            match range {
                Some(list) => all.extend(list),
                None => all.push(part.to_owned()),
            }
            if all.len() as u64 > dim {
                break;
            }
        }
        if all.len() as u64 != dim {
            let node = chain.first().copied().unwrap_or_else(|| self.tree.root());
            return Err(self.tree.wrong(node, format!("dimIndex does not name {dim} members")));
        }
        Ok(all)
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "what a cluster passes on to the registers in it"
    )]
    fn list(
        &mut self,
        draft: &mut Draft,
        list: Node<'t, 't>,
        block: &Rc<str>,
        prefix: &str,
        suffix: &str,
        base: u64,
        inherited: &Inherited,
        depth: usize,
    ) -> Result<(), ImportError> {
        if depth > MAX_DERIVED {
            return Err(self
                .tree
                .wrong(list, format!("clusters are nested more than {MAX_DERIVED} deep")));
        }
        for node in list.children() {
            let cluster = node.has_tag_name("cluster");
            if !cluster && !node.has_tag_name("register") {
                continue;
            }
            let chain = self.chain(node)?;
            self.look(&chain)?;
            let offset = self.first_number(&chain, "addressOffset")?;
            let offset = offset.ok_or_else(|| self.tree.wrong(node, "the element has no addressOffset"))?;
            let at = base
                .checked_add(offset)
                .ok_or_else(|| self.tree.wrong(node, "the address exceeds 64 bits"))?;
            let own = inherited.under(self, &chain)?;
            let members = self.repeats(&chain, at)?;
            self.steps = self.steps.saturating_add(members.len());
            if self.steps > 16 * MAX_REGISTERS {
                return Err(self.many(node));
            }
            if cluster {
                for (name, at) in members {
                    for from in &chain {
                        let inner = format!("{prefix}{name}_");
                        let has = from
                            .children()
                            .any(|n| n.has_tag_name("register") || n.has_tag_name("cluster"));
                        if has {
                            self.list(draft, *from, block, &inner, suffix, at, &own, depth + 1)?;
                            break;
                        }
                    }
                    if draft.registers.len() > MAX_REGISTERS {
                        return Err(self.many(node));
                    }
                }
                continue;
            }
            let body = Rc::new(self.register(draft, &chain, &own)?);
            for (name, at) in members {
                draft.register(block, format!("{prefix}{name}{suffix}"), at, &body)?;
            }
        }
        Ok(())
    }

    fn register(&mut self, draft: &mut Draft, chain: &[Node<'t, 't>], own: &Inherited) -> Result<Body, ImportError> {
        let Some(node) = chain.first().copied() else {
            return Err(self.tree.wrong(self.tree.root(), "a register that cannot be imported"));
        };
        let bits = own.size.unwrap_or(32);
        let mut doc = first_text(chain, "description").map(one_line).unwrap_or_default();
        let access = match own.access.as_deref() {
            Some("read-only") => Access::Read,
            Some("write-only") => Access::Write,
            Some("writeOnce") => {
                sentence(&mut doc, "Only the first write has an effect.");
                Access::Write
            }
            Some("read-writeOnce") => {
                sentence(&mut doc, "Only the first write has an effect.");
                Access::Both
            }
            None | Some("read-write") => Access::Both,
            Some(other) => {
                let other: String = other.chars().take(40).collect();
                return Err(self.tree.wrong(node, format!("access '{other}' is not defined by SVD")));
            }
        };
        effects(&mut doc, chain);
        if let Some(reset) = own.reset {
            sentence(&mut doc, &format!("Reset value {reset:#x}."));
        }
        let mut fields = Vec::new();
        if let Some(list) = chain
            .iter()
            .find_map(|n| n.children().find(|c| c.has_tag_name("fields")))
        {
            self.look(&[list])?;
            for node in list.children().filter(|n| n.has_tag_name("field")) {
                let chain = self.chain(node)?;
                self.look(&chain)?;
                self.field(draft, &chain, access, &mut fields)?;
            }
        }
        Ok(Body {
            bits,
            access,
            doc,
            fields,
            at: self.tree.place(node),
        })
    }
}
