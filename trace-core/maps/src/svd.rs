//! The importer of CMSIS-SVD (Arm's format specification, version 1.3): peripherals, clusters and registers with `dim`
//! arrays, `derivedFrom` at every level, inherited properties, enumerated values.
//!
//! It reads the XML itself, because every expansion must be limited before it is made and every loss needs its
//! position.

mod arrays;
mod derived;
mod fields;
mod reader;

use self::arrays::Members;
use self::derived::Chain;
use self::fields::{effects, sentence};
use self::reader::{MAX_DERIVED, Reader, child_text, first_text, text};
use super::draft::{Access, Body, Draft, DraftRegister, MAX_REGISTERS};
use super::error::{ImportError, LossKind};
use super::options::Options;
use super::source::Tree;
use super::svd_elements::UnsupportedElements;
use super::text::one_line;
use roxmltree::{Node, NodeId};
use std::collections::HashSet;
use std::rc::Rc;
use trace_core::registers::{ArrayLevel, MAX_LEVELS};

/// Maximum size of the register window of a map, bytes.
const MAX_WINDOW: u64 = 1 << 26;

/// Properties that registers inherit.
#[derive(Clone, Default)]
struct Inherited {
    size: Option<u64>,
    access: Option<String>,
    reset: Option<u64>,
}

/// The position of the registers that are read now.
struct Scope<'s> {
    block: &'s Rc<str>,
    prefix: String,
    suffix: String,
    base: u64,
    /// Levels of the arrays around them.
    levels: Vec<ArrayLevel>,
    inherited: Inherited,
    depth: usize,
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
    let own = Inherited::default().under(&reader, draft, &[device]);
    let own = draft.or_left_out(own)?.unwrap_or_default();
    let unit = draft
        .or_left_out(reader.number(device, "addressUnitBits"))?
        .flatten()
        .unwrap_or(8);
    if unit != 8 {
        return Err(tree.wrong(device, format!("the address unit has {unit} bits (expected 8)")));
    }
    let found = reader.peripherals(draft)?;
    let names = || {
        let list: Vec<String> = found
            .iter()
            .take(200)
            .map(|(n, at, _)| format!("{n} at {at:#x}"))
            .collect();
        list.join(", ")
    };
    if found.is_empty() && draft.losses.is_empty() {
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
        let read_to = reader.peripheral(draft, peripheral, base, &own, wanted.len() > 1);
        end = end.max(draft.or_left_out(read_to)?.unwrap_or(0));
        let interrupts: usize = chain
            .first()
            .map_or(0, |n| n.children().filter(|c| c.has_tag_name("interrupt")).count());
        for node in chain.iter() {
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
        .map(|r| {
            r.offset
                .saturating_add(r.shape().span())
                .saturating_add(r.body.bits / 8)
        })
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

impl Inherited {
    /// Returns the properties of an element under these. A reset value that is no number is left out; it is only
    /// described.
    fn under(&self, reader: &Reader<'_>, draft: &mut Draft, chain: &[Node<'_, '_>]) -> Result<Self, ImportError> {
        let mut own = self.clone();
        if let Some(size) = reader.first_number(chain, "size")? {
            own.size = Some(size);
        }
        if let Some(access) = chain.iter().find_map(|n| child_text(*n, "access")) {
            own.access = Some(access);
        }
        let reset = reader.first_number(chain, "resetValue");
        if let Some(reset) = draft.or_left_out(reset)?.flatten() {
            own.reset = Some(reset);
        }
        Ok(own)
    }
}

impl<'t> Reader<'t> {
    /// Returns the peripherals of the file, members of arrays one by one.
    fn peripherals(&mut self, draft: &mut Draft) -> Result<Vec<Peripheral<'t>>, ImportError> {
        let (tree, device) = (self.tree, self.tree.root());
        let lists = device.children().filter(|n| n.has_tag_name("peripherals"));
        let mut found: Vec<Peripheral<'t>> = Vec::new();
        for node in lists
            .flat_map(|n| tree.elements(n))
            .filter(|n| n.has_tag_name("peripheral"))
        {
            let members = self.peripheral_members(node);
            let Some((chain, members)) = draft.or_left_out(members)? else {
                continue;
            };
            for (name, at) in members {
                found.push((name, at, chain.clone()));
                if found.len() > MAX_REGISTERS {
                    return Err(self.many(node));
                }
            }
        }
        Ok(found)
    }

    /// Returns the names and addresses of a peripheral, or of the members of an array.
    #[allow(clippy::type_complexity, reason = "the parts of a list of peripherals")]
    fn peripheral_members(&self, node: Node<'t, 't>) -> Result<(Chain<'t>, Vec<(String, u64)>), ImportError> {
        let chain = self.chain(node)?;
        let base = self.number(node, "baseAddress")?;
        let base = base.ok_or_else(|| self.tree.wrong(node, "a peripheral has no baseAddress"))?;
        let members = self.members(&chain, base)?.one_by_one();
        Ok((chain, members))
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
            let offset = draft.or_left_out(self.number(*block, "offset"))?.flatten();
            let size = draft.or_left_out(self.number(*block, "size"))?.flatten();
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
        let own = own.under(self, draft, chain)?;
        if let Some(list) = chain
            .iter()
            .find_map(|n| n.children().find(|c| c.has_tag_name("registers")))
        {
            let scope = Scope {
                block: &block,
                prefix: outer.replace(['{', '}'], "_"),
                suffix: suffix.replace(['{', '}'], "_"),
                base,
                levels: Vec::new(),
                inherited: own,
                depth: 0,
            };
            self.list(draft, list, &scope)?;
        }
        Ok(end)
    }

    /// Reads the registers and clusters of a list. An element that cannot be read is reported and left out.
    fn list(&mut self, draft: &mut Draft, list: Node<'t, 't>, scope: &Scope<'_>) -> Result<(), ImportError> {
        if scope.depth > MAX_DERIVED {
            return Err(self
                .tree
                .wrong(list, format!("clusters are nested more than {MAX_DERIVED} deep")));
        }
        let tree = self.tree;
        for node in tree.elements(list) {
            if node.has_tag_name("cluster") || node.has_tag_name("register") {
                let read = self.list_element(draft, node, scope);
                draft.or_left_out(read)?;
            }
        }
        Ok(())
    }

    fn list_element(&mut self, draft: &mut Draft, node: Node<'t, 't>, scope: &Scope<'_>) -> Result<(), ImportError> {
        let chain = self.chain(node)?;
        self.look(&chain)?;
        let offset = self.first_number(&chain, "addressOffset")?;
        let offset = offset.ok_or_else(|| self.tree.wrong(node, "the element has no addressOffset"))?;
        let at = scope
            .base
            .checked_add(offset)
            .ok_or_else(|| self.tree.wrong(node, "the address exceeds 64 bits"))?;
        let own = scope.inherited.under(self, draft, &chain)?;
        let members = self.members(&chain, at)?;
        let Scope { prefix, suffix, .. } = scope;
        // Each place of the members: one for an array that the map can hold as one.
        let places: Vec<(String, u64, Vec<ArrayLevel>)> = match members {
            Members::Array { .. } if scope.levels.len() >= MAX_LEVELS => {
                return Err(self
                    .tree
                    .wrong(node, format!("arrays are nested more than {MAX_LEVELS} deep")));
            }
            Members::Array { name, at, level } => {
                vec![(name, at, scope.levels.iter().copied().chain([level]).collect())]
            }
            members => {
                let all = members.one_by_one().into_iter();
                all.map(|(name, at)| (name, at, scope.levels.clone())).collect()
            }
        };
        self.steps = self.steps.saturating_add(places.len());
        if self.steps > 16 * MAX_REGISTERS {
            return Err(self.many(node));
        }
        if node.has_tag_name("cluster") {
            let is_item = |n: Node<'_, '_>| n.has_tag_name("register") || n.has_tag_name("cluster");
            let from = chain.iter().find(|n| n.children().any(is_item));
            for (name, base, levels) in places {
                let inner = Scope {
                    block: scope.block,
                    prefix: format!("{prefix}{name}_"),
                    suffix: suffix.clone(),
                    base,
                    levels,
                    inherited: own.clone(),
                    depth: scope.depth + 1,
                };
                if let Some(from) = from {
                    self.list(draft, *from, &inner)?;
                }
                if draft.registers.len() > MAX_REGISTERS {
                    return Err(self.many(node));
                }
            }
            return Ok(());
        }
        let body = Rc::new(self.register(draft, &chain, &own)?);
        for (name, offset, levels) in places {
            draft.register(DraftRegister {
                name: format!("{prefix}{name}{suffix}"),
                block: Rc::clone(scope.block),
                offset,
                levels,
                body: Rc::clone(&body),
            })?;
        }
        Ok(())
    }

    fn register(&mut self, draft: &mut Draft, chain: &Chain<'t>, own: &Inherited) -> Result<Body, ImportError> {
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
            let tree = self.tree;
            for node in tree.elements(list).filter(|n| n.has_tag_name("field")) {
                let read = self.chain(node).and_then(|chain| {
                    self.look(&chain)?;
                    self.field(draft, &chain, access, &mut fields)
                });
                draft.or_left_out(read)?;
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
