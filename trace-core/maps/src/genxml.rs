//! The importer of Mesa's packet descriptions: Intel's (`<genxml>`), Asahi's (`<genxml>` with other attributes, or
//! `<agxml>`), Broadcom's (`<vcxml>`) and Panfrost's (`<panxml>`). Registers become registers; instructions, packets and
//! structures become layouts.

mod fields;

use super::draft::{Access, Body, Draft, DraftField, DraftLayout, DraftRegister, DraftValue, Kind};
use super::error::{ImportError, LossKind};
use super::options::Options;
use super::source::Tree;
use super::text::{number, one_line};
pub(crate) use fields::values;
use roxmltree::Node;
use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

const MAX_LAYOUT: u64 = 1 << 16;
/// Maximum number of elements visited after the expansion of groups.
const MAX_STEPS: usize = 8_000_000;

/// The vendor of the file: they number bits differently.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Intel,
    Broadcom,
    Panfrost,
    Asahi,
}

impl Form {
    /// Returns the form of a file. Intel and Asahi have one root element: Intel's fields have a first and a last bit,
    /// Asahi's a first bit and a size.
    fn from_root(root: Node<'_, '_>) -> Option<Self> {
        let is_sized = |n: Node<'_, '_>| n.has_tag_name("field") && n.has_attribute("size");
        match root.tag_name().name() {
            "vcxml" => Some(Self::Broadcom),
            "panxml" => Some(Self::Panfrost),
            "agxml" => Some(Self::Asahi),
            "genxml" if !root.has_attribute("gen") && root.descendants().any(is_sized) => Some(Self::Asahi),
            "genxml" => Some(Self::Intel),
            _ => None,
        }
    }
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
    let form = Form::from_root(root).ok_or_else(|| {
        let tag: String = root.tag_name().name().chars().take(40).collect();
        tree.wrong(root, format!("<{tag}> is not <genxml>, <agxml>, <vcxml> or <panxml>"))
    })?;
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
        let read = match tag {
            "register" => reader.register(draft, tree, node, name),
            "aggregate" => {
                draft.lose(tree.place(node), LossKind::Layout, || {
                    format!(
                        "aggregate {name} consists of other structures; they are imported, but not their offsets in it"
                    )
                });
                Ok(())
            }
            _ => reader.layout(draft, tree, node, tag, name),
        };
        draft.or_left_out(read)?;
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
        Form::Asahi => "Apple AGX",
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
            for node in tree.elements(tree.root()) {
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
                    || !draft.or_left_out(self.is_wanted(tree, node))?.unwrap_or(false)
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
            draft.register(DraftRegister {
                name: name.replace(['{', '}'], "_"),
                block: Rc::clone(&block),
                offset,
                levels: Vec::new(),
                body,
            })
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
            // Asahi counts bytes.
            Form::Asahi => tree.number(node, "size")?.map(|bytes| bytes.div_ceil(4)),
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
                    let kind = draft.enumeration(
                        &at,
                        &format!("opcode {name}"),
                        vec![DraftValue::new(code, name.clone())],
                    )?;
                    fields.push(DraftField {
                        name: "opcode".to_owned(),
                        lo: 0,
                        hi: 7,
                        kind: kind.map_or(Kind::Number, Kind::Enum),
                        written: None,
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
}
