//! SVD elements that a map cannot express, and elements that are not SVD: both are reported, not dropped silently.

use super::draft::Draft;
use super::error::{FilePosition, LossKind};
use super::source::Tree;
use roxmltree::Node;
use std::collections::BTreeMap;

/// Elements of arrays and properties that registers, clusters and peripherals share.
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

/// Returns the allowed children of an SVD element besides the shared ones, or `None` if the element is not descended
/// into.
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

/// Elements whose information a map cannot express; the others are names for C headers only.
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

/// For each element that a map cannot express: its count and first position.
#[derive(Default)]
pub(crate) struct UnsupportedElements(BTreeMap<&'static str, (usize, FilePosition)>);

impl UnsupportedElements {
    /// Checks all elements of a tree, its root included.
    pub fn visit_tree(&mut self, draft: &mut Draft, tree: &Tree<'_>, node: Node<'_, '_>) {
        for element in node.descendants().filter(Node::is_element) {
            self.children(draft, tree, element);
        }
    }

    /// Checks the children of one element.
    pub fn children(&mut self, draft: &mut Draft, tree: &Tree<'_>, node: Node<'_, '_>) {
        let tag = node.tag_name().name();
        let Some((known, shared)) = children(tag) else { return };
        for child in node.children().filter(Node::is_element) {
            let name = child.tag_name().name();
            // A mask of all bits, which most files have, carries no information.
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

    /// Reports each kind of element once.
    pub fn report(self, draft: &mut Draft) {
        for (name, (count, place)) in self.0 {
            draft.lose(place, LossKind::Element, || {
                format!("{count} <{name}>: a map cannot express it")
            });
        }
    }
}
