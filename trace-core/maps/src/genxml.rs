//! The importer of Mesa's packet descriptions: Intel's (`<genxml>`), Broadcom's (`<vcxml>`) and Panfrost's
//! (`<panxml>`). Registers become registers; instructions, packets and structures become layouts.

use super::draft::{Access, Body, Draft, DraftField, DraftLayout, Kind};
use super::error::{ImportError, LossKind};
use super::options::Options;
use super::source::{Tree, number, one_line};
use roxmltree::Node;
use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

const MAX_LAYOUT: u64 = 1 << 16;
/// Maximum nesting depth of groups.
const MAX_DEPTH: usize = 8;
/// Maximum number of group members of one structure.
const MAX_MEMBERS: usize = 1 << 16;
/// Maximum number of elements visited after the expansion of groups.
const MAX_STEPS: usize = 8_000_000;

/// The vendor of the file: they number bits differently.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Intel,
    Broadcom,
    Panfrost,
}

struct Reader<'t> {
    form: Form,
    enums: BTreeMap<&'t str, (&'t Tree<'t>, Node<'t, 't>)>,
    structs: HashSet<&'t str>,
    version: Option<u64>,
    of_versions: usize,
    steps: usize,
}

/// An element that is imported: its file, its tag and its name.
type NamedElement<'t> = (&'t Tree<'t>, Node<'t, 't>, &'t str, &'t str);

pub(crate) fn read(trees: &[Tree<'_>], options: &Options, draft: &mut Draft) -> Result<(), ImportError> {
    let Some(tree) = trees.first() else { return Ok(()) };
    let root = tree.root();
    let form = match root.tag_name().name() {
        "vcxml" => Form::Broadcom,
        "panxml" => Form::Panfrost,
        "genxml" => Form::Intel,
        other => return Err(tree.wrong(root, format!("<{other}> is not <genxml>, <vcxml> or <panxml>"))),
    };
    let version = choose_version(draft, options, form)?;
    let mut reader = Reader {
        form,
        enums: BTreeMap::new(),
        structs: HashSet::new(),
        version,
        of_versions: 0,
        steps: 0,
    };
    let items = reader.collect(trees, draft)?;
    for (tree, node, tag, name) in items {
        match tag {
            "register" => reader.register(draft, tree, node, name)?,
            "aggregate" => draft.lose(tree.place(node), LossKind::Layout, || {
                format!("aggregate {name} consists of other structures; they are imported, but not their offsets in it")
            }),
            _ => reader.layout(draft, tree, node, tag, name)?,
        }
    }
    if reader.of_versions > 0 {
        let n = reader.of_versions;
        draft.lose(tree.place(root), LossKind::Variant, || {
            format!(
                "{n} items exist only in some versions and were imported for all; choose a version with --variant, \
                     42"
            )
        });
    }
    let named = root.attribute("name").or_else(|| root.attribute("gen"));
    let what = match form {
        Form::Intel => "Intel graphics",
        Form::Broadcom => "Broadcom VideoCore",
        Form::Panfrost => "Arm Mali",
    };
    draft.doc = format!(
        "Registers and packets of {what}{}.",
        named.map(|n| format!(" {n}")).unwrap_or_default()
    );
    draft.provenance = format!("Imported from {}, Mesa's genxml.", draft.file);
    Ok(())
}

/// Returns the version that the options request, if the file has versions.
fn choose_version(draft: &Draft, options: &Options, form: Form) -> Result<Option<u64>, ImportError> {
    Ok(match (&options.variant, form) {
        (None, _) => None,
        (Some(v), Form::Broadcom) => Some(number(v).ok_or_else(|| ImportError::Choose {
            file: draft.file.clone(),
            reason: format!("variant '{v}' is not a version (expected a number as in min_ver, 42)"),
        })?),
        (Some(v), _) => {
            return Err(ImportError::Choose {
                file: draft.file.clone(),
                reason: format!(
                    "the file has no variants, so '{v}' cannot be chosen: each generation has its own file"
                ),
            });
        }
    })
}

impl<'t> Reader<'t> {
    /// Returns the elements to import, and finds the definitions that they use.
    fn collect(&mut self, trees: &'t [Tree<'t>], draft: &mut Draft) -> Result<Vec<NamedElement<'t>>, ImportError> {
        // Definitions of a file come before its imports; the first definition of a name counts.
        let mut excluded: HashSet<String> = HashSet::new();
        let mut items = Vec::new();
        let mut seen: HashSet<(&str, &str, &str)> = HashSet::new();
        for tree in trees {
            let mut gone = Vec::new();
            for node in tree.root().children().filter(Node::is_element) {
                let tag = node.tag_name().name();
                if tag == "import" {
                    gone.extend(
                        node.children()
                            .filter(|n| n.has_tag_name("exclude"))
                            .filter_map(|n| n.attribute("name")),
                    );
                    continue;
                }
                let Some(name) = node.attribute("name") else {
                    draft.lose(tree.place(node), LossKind::Element, || format!("<{tag}> has no name"));
                    continue;
                };
                let versions = (
                    node.attribute("min_ver").unwrap_or(""),
                    node.attribute("max_ver").unwrap_or(""),
                );
                let key = (tag, name, if self.form == Form::Broadcom { versions.0 } else { "" });
                if excluded.contains(name)
                    || !self.is_wanted(tree, node)?
                    || (!seen.insert(key) && self.form != Form::Broadcom)
                {
                    continue;
                }
                match tag {
                    "enum" => {
                        self.enums.entry(name).or_insert((tree, node));
                    }
                    "struct" | "aggregate" => {
                        self.structs.insert(name);
                        items.push((tree, node, tag, name));
                    }
                    "instruction" | "packet" | "register" => items.push((tree, node, tag, name)),
                    other => draft.lose(tree.place(node), LossKind::Element, || {
                        format!("<{other}> {name} is unknown")
                    }),
                }
            }
            excluded.extend(gone.into_iter().map(str::to_owned));
        }
        Ok(items)
    }

    fn is_wanted(&mut self, tree: &Tree<'_>, node: Node<'_, '_>) -> Result<bool, ImportError> {
        if self.form != Form::Broadcom {
            return Ok(true);
        }
        let (min, max) = (tree.number(node, "min_ver")?, tree.number(node, "max_ver")?);
        if min.is_none() && max.is_none() {
            return Ok(true);
        }
        Ok(match self.version {
            Some(v) => min.is_none_or(|m| m <= v) && max.is_none_or(|m| v <= m),
            None => {
                self.of_versions += 1;
                true
            }
        })
    }

    /// Counts a visited element: nested groups expand to far more elements than a file holds.
    fn step(&mut self, tree: &Tree<'_>, node: Node<'_, '_>, n: usize) -> Result<(), ImportError> {
        self.steps = self.steps.saturating_add(n);
        if self.steps > MAX_STEPS {
            return Err(ImportError::TooMuch {
                place: tree.place(node),
                what: "groups and lists of values expand to too many items".to_owned(),
                max: MAX_STEPS as u64,
            });
        }
        Ok(())
    }

    fn register(
        &mut self,
        draft: &mut Draft,
        tree: &'t Tree<'t>,
        node: Node<'t, 't>,
        name: &str,
    ) -> Result<(), ImportError> {
        let offset = tree.number(node, "num")?;
        let offset = offset.ok_or_else(|| tree.wrong(node, format!("register {name} has no num")))?;
        let (fields, end) = self.all(draft, tree, node, name)?;
        let words = tree.number(node, "length")?.unwrap_or(end.div_ceil(32)).max(1);
        let block: Rc<str> = "MMIO".into();
        let at = tree.place(node);
        let add = |draft: &mut Draft, name: String, offset: u64, bits: u64, fields: Vec<DraftField>| {
            let body = Rc::new(Body {
                bits,
                access: Access::Both,
                doc: String::new(),
                fields,
                at: at.clone(),
            });
            draft.register(&block, name, offset, &body)
        };
        if words <= 2 {
            return add(draft, name.to_owned(), offset, 32 * words, fields);
        }
        if words > 1024 {
            draft.lose(tree.place(node), LossKind::Width, || {
                format!("register {name} has {words} words")
            });
            return Ok(());
        }
        // Longer fields become one field per word.
        for word in 0..words {
            let (from, to) = (32 * word, 32 * word + 31);
            let mut part = Vec::new();
            for f in fields.iter().filter(|f| f.lo <= to && f.hi >= from) {
                if f.lo < from || f.hi > to {
                    draft.lose(f.at.clone(), LossKind::Field, || {
                        format!("field {} of {name} spans several of its words", f.name)
                    });
                    continue;
                }
                part.push(DraftField {
                    lo: f.lo - from,
                    hi: f.hi - from,
                    ..f.clone()
                });
            }
            let at = offset
                .checked_add(4 * word)
                .ok_or_else(|| tree.wrong(node, "the offset exceeds 64 bits"))?;
            add(draft, format!("{name}_{word}"), at, 32, part)?;
        }
        Ok(())
    }

    fn layout(
        &mut self,
        draft: &mut Draft,
        tree: &'t Tree<'t>,
        node: Node<'t, 't>,
        tag: &str,
        name: &str,
    ) -> Result<(), ImportError> {
        let (mut fields, end) = self.all(draft, tree, node, name)?;
        let reported = match self.form {
            Form::Intel => tree.number(node, "length")?,
            Form::Panfrost => tree.number(node, "size")?,
            Form::Broadcom => None,
        };
        let mut doc = node.attribute("name").unwrap_or_default().to_owned();
        let mut name = name.to_owned();
        let mut bits = end;
        if self.form == Form::Broadcom {
            bits = bits.next_multiple_of(8);
            if tag == "packet" {
                bits = bits.max(8);
                if let Some(code) = tree.number(node, "code")? {
                    doc = format!("Packet {code}, {name}.");
                    if let Some(short) = node.attribute("shortname") {
                        name = short.to_owned();
                    }
                    let at = tree.place(node);
                    let kind = draft.enumeration(&at, &format!("opcode {name}"), vec![(code, name.clone())])?;
                    fields.push(DraftField {
                        name: "opcode".to_owned(),
                        lo: 0,
                        hi: 7,
                        kind: kind.map_or(Kind::Number, Kind::Enum),
                        doc: String::new(),
                        at,
                    });
                }
            }
            if self.version.is_none()
                && let Some(v) = node.attribute("min_ver").or(node.attribute("max_ver"))
            {
                name = format!("{name} v{v}");
            }
        } else {
            bits = bits.next_multiple_of(32);
            if let Some(words) = reported {
                let reported = words.saturating_mul(32);
                if reported < bits {
                    draft.lose(tree.place(node), LossKind::Layout, || {
                        format!(
                            "{tag} {name} has {reported} bits, but fields up to bit {}; its fields determine its \
                             length",
                            bits - 1
                        )
                    });
                }
                bits = bits.max(reported);
            } else if tag == "instruction" || self.form == Form::Intel {
                doc.push_str(" (of variable length)");
            }
        }
        if bits == 0 || bits > MAX_LAYOUT {
            draft.lose(tree.place(node), LossKind::Layout, || {
                format!("{tag} {name} has {bits} bits; a layout has 1 to {MAX_LAYOUT}")
            });
            return Ok(());
        }
        draft.layout(DraftLayout {
            name,
            bits,
            doc: one_line(&doc),
            fields,
            at: tree.place(node),
        })
    }

    /// Collects the fields of an element and returns the position after their last bit.
    fn all(
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
        for node in parent.children().filter(Node::is_element) {
            let place = tree.place(node);
            self.step(tree, node, 1)?;
            match node.tag_name().name() {
                "field" => {
                    if !self.is_wanted(tree, node)? {
                        continue;
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
                        continue;
                    }
                    let (kind, doc) = self.kind(draft, tree, node, owner, &name, (hi - lo).saturating_add(1))?;
                    out.push(DraftField {
                        name,
                        lo,
                        hi,
                        kind,
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
                        return Err(ImportError::TooMuch {
                            place,
                            what: format!("a group of {count}"),
                            max: MAX_MEMBERS as u64,
                        });
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
        }
        Ok(())
    }

    /// Parses the `start` of a field or group: bits; `8b` is bytes (Broadcom); `word:bit` (Panfrost).
    fn start(&self, tree: &Tree<'_>, node: Node<'_, '_>) -> Result<u64, ImportError> {
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

    fn bits(&self, tree: &Tree<'_>, node: Node<'_, '_>) -> Result<(u64, u64), ImportError> {
        let mut lo = self.start(tree, node)?;
        let wrong = || tree.wrong(node, "the bit range of a field is reversed or empty");
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
        if let Some(default) = node.attribute("default") {
            let default: String = default.chars().take(40).collect();
            doc = format!("The default is {default}.");
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
                    Form::Panfrost => 0,
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
                (_, Some(n)) if n < 64 => kind = Kind::Address(n as u32),
                _ => draft.lose(place, LossKind::Kind, || {
                    format!("field {name} of {owner} has the modifier {modifier}; its bits are shown without it")
                }),
            }
        }
        Ok((kind, doc))
    }
}

fn values(draft: &mut Draft, tree: &Tree<'_>, parent: Node<'_, '_>) -> Vec<(u64, String)> {
    let mut all = Vec::new();
    for node in parent.children().filter(|n| n.has_tag_name("value")) {
        let name = node.attribute("name").unwrap_or_default();
        match node.attribute("value").and_then(number) {
            Some(value) => all.push((value, name.to_owned())),
            None => draft.lose(tree.place(node), LossKind::Value, || {
                format!("value {name} has no number")
            }),
        }
    }
    all
}
