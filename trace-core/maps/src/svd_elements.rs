//! Elements of an SVD that a map has no word for, and those that SVD has none for: told, and not left out in silence.

use super::draft::Draft;
use super::error::{FilePosition, LossKind};
use super::source::Tree;
use roxmltree::Node;
use std::collections::BTreeMap;

/// What registers, clusters and peripherals have of arrays and properties.
const SHARED: &[&str] = &[
    "dim",
    "dimIncrement",
    "dimIndex",
    "dimName",
    "dimArrayIndex",
    "name",
    "description",
    "size",
    "access",
    "protection",
    "resetValue",
    "resetMask",
];

/// The children that an element of SVD has, beside those that are shared; `None` where it is not gone into.
fn children(tag: &str) -> Option<(&'static [&'static str], bool)> {
    Some(match tag {
        "device" => (
            &[
                "vendor",
                "vendorID",
                "series",
                "version",
                "licenseText",
                "cpu",
                "headerSystemFilename",
                "headerDefinitionsPrefix",
                "addressUnitBits",
                "width",
                "peripherals",
                "vendorExtensions",
            ],
            true,
        ),
        "peripherals" => (&["peripheral"], false),
        "peripheral" => (
            &[
                "version",
                "alternatePeripheral",
                "groupName",
                "prependToName",
                "appendToName",
                "headerStructName",
                "disableCondition",
                "baseAddress",
                "addressBlock",
                "interrupt",
                "registers",
                "vendorExtensions",
            ],
            true,
        ),
        "registers" => (&["cluster", "register"], false),
        "cluster" => (
            &[
                "alternateCluster",
                "headerStructName",
                "addressOffset",
                "register",
                "cluster",
                "vendorExtensions",
            ],
            true,
        ),
        "register" => (
            &[
                "displayName",
                "alternateGroup",
                "alternateRegister",
                "addressOffset",
                "dataType",
                "modifiedWriteValues",
                "writeConstraint",
                "readAction",
                "fields",
                "vendorExtensions",
            ],
            true,
        ),
        "fields" => (&["field"], false),
        "field" => (
            &[
                "bitOffset",
                "bitWidth",
                "lsb",
                "msb",
                "bitRange",
                "modifiedWriteValues",
                "writeConstraint",
                "readAction",
                "enumeratedValues",
                "vendorExtensions",
            ],
            true,
        ),
        "enumeratedValues" => (&["name", "headerEnumName", "usage", "enumeratedValue"], false),
        "enumeratedValue" => (&["name", "description", "value", "isDefault"], false),
        _ => return None,
    })
}

/// What they say that a map cannot; the others name things for headers of C alone.
const LOST: &[&str] = &[
    "alternateCluster",
    "alternateGroup",
    "alternatePeripheral",
    "alternateRegister",
    "dimArrayIndex",
    "disableCondition",
    "protection",
    "resetMask",
    "writeConstraint",
];

/// Whether a number is 32 or 64 bits of ones.
fn all_bits(text: &str) -> bool {
    let digits = text.trim().trim_start_matches("0x").trim_start_matches("0X");
    matches!(digits.len(), 8 | 16) && digits.bytes().all(|b| matches!(b, b'f' | b'F'))
}

/// How often each element was met that a map has no word for, and where first.
#[derive(Default)]
pub(crate) struct UnsupportedElements(BTreeMap<&'static str, (usize, FilePosition)>);

impl UnsupportedElements {
    /// Looks at all elements under one, itself too.
    pub fn visit_tree(&mut self, draft: &mut Draft, tree: &Tree<'_>, node: Node<'_, '_>) {
        for element in node.descendants().filter(Node::is_element) {
            self.children(draft, tree, element);
        }
    }

    /// Looks at the children of one element.
    pub fn children(&mut self, draft: &mut Draft, tree: &Tree<'_>, node: Node<'_, '_>) {
        let tag = node.tag_name().name();
        let Some((known, shared)) = children(tag) else { return };
        for child in node.children().filter(Node::is_element) {
            let name = child.tag_name().name();
            // A mask of all bits, which most files have, says nothing.
            let says = name != "resetMask" || !child.text().is_some_and(all_bits);
            if let Some(lost) = LOST.iter().find(|l| **l == name).filter(|_| says) {
                self.0.entry(lost).or_insert_with(|| (0, tree.place(child))).0 += 1;
            } else if says && !known.contains(&name) && !(shared && SHARED.contains(&name)) {
                draft.lose(tree.place(child), LossKind::Element, || {
                    format!("<{name}> in <{tag}> is unknown")
                });
            }
        }
    }

    /// Tells what was met, each kind of element once.
    pub fn report(self, draft: &mut Draft) {
        for (name, (count, place)) in self.0 {
            draft.lose(place, LossKind::Element, || {
                format!("{count} <{name}>: a map has no word for what it says")
            });
        }
    }
}
