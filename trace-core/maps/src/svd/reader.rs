//! The elements of an SVD by name, and their texts and numbers.

use crate::draft::MAX_REGISTERS;
use crate::error::ImportError;
use crate::source::Tree;
use roxmltree::{Node, NodeId};
use std::cell::Cell;
use std::collections::HashMap;

/// Maximum length of a chain of derived elements.
pub(super) const MAX_DERIVED: usize = 16;
/// Maximum number of elements visited after the expansion of arrays and derived elements.
pub(super) const MAX_LOOKS: usize = 16_000_000;
/// Maximum number of elements of a peripheral, cluster, register or field that are no registers: properties,
/// interrupts.
const MAX_PROPERTIES: usize = 4096;

/// A reader of an SVD.
pub(super) struct Reader<'t> {
    pub(super) tree: &'t Tree<'t>,
    /// Elements by tag and name, in the order of the file.
    pub(super) named: HashMap<(&'t str, &'t str), Vec<Node<'t, 't>>>,
    /// The first two of them under each parent: one of them may be the element that asks.
    pub(super) siblings: HashMap<(&'t str, &'t str, NodeId), (Node<'t, 't>, Option<Node<'t, 't>>)>,
    /// Names of elements.
    pub(super) names: HashMap<NodeId, &'t str>,
    /// Arrays by tag: their members have names too.
    pub(super) arrays: HashMap<&'t str, Vec<Node<'t, 't>>>,
    pub(super) enums: HashMap<NodeId, Option<usize>>,
    pub(super) steps: usize,
    /// Number of visited elements; array members count shared ones again.
    pub(super) looks: Cell<usize>,
}

/// Returns the text of a child element, or `None` if it is missing or empty.
pub(super) fn text<'t>(node: Node<'t, 't>, tag: &str) -> Option<&'t str> {
    let child = node.children().find(|n| n.has_tag_name(tag))?;
    child.text().map(str::trim).filter(|t| !t.is_empty())
}

pub(super) fn first_text<'t>(chain: &[Node<'t, 't>], tag: &str) -> Option<&'t str> {
    chain.iter().find_map(|n| text(*n, tag))
}

/// Parses a number in SVD notation: `12`, `0x1f`, `#101`, `4k`. Don't-care bits are 0.
pub(super) fn number(text: &str) -> Option<u64> {
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

pub(super) fn child_text(node: Node<'_, '_>, tag: &str) -> Option<String> {
    let child = node.children().find(|n| n.has_tag_name(tag))?;
    child.text().map(|t| t.trim().to_owned()).filter(|t| !t.is_empty())
}

impl<'t> Reader<'t> {
    /// Creates the reader of a tree: finds its elements by name.
    pub(super) fn new(tree: &'t Tree<'t>) -> Result<Self, ImportError> {
        let mut reader = Self {
            tree,
            named: HashMap::new(),
            siblings: HashMap::new(),
            names: HashMap::new(),
            arrays: HashMap::new(),
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
                if tree.is_left_out(node) {
                    continue;
                }
                reader.names.insert(node.id(), name);
                if name.contains("%s") {
                    reader.arrays.entry(tag).or_default().push(node);
                }
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

    pub(super) fn number(&self, node: Node<'_, '_>, tag: &str) -> Result<Option<u64>, ImportError> {
        let Some(text) = child_text(node, tag) else {
            return Ok(None);
        };
        let value = number(&text).ok_or_else(|| {
            let text: String = text.chars().take(40).collect();
            self.tree.wrong(node, format!("{tag} is '{text}' (expected a number)"))
        })?;
        Ok(Some(value))
    }

    pub(super) fn first_number(&self, chain: &[Node<'_, '_>], tag: &str) -> Result<Option<u64>, ImportError> {
        for node in chain {
            if let Some(n) = self.number(*node, tag)? {
                return Ok(Some(n));
            }
        }
        Ok(None)
    }

    pub(super) fn many(&self, node: Node<'_, '_>) -> ImportError {
        ImportError::TooMuch {
            place: self.tree.place(node),
            what: "arrays have too many members".to_owned(),
            max: MAX_REGISTERS as u64,
        }
    }

    /// Counts the elements visited for something built from `chain`.
    pub(super) fn look(&self, chain: &[Node<'t, 't>]) -> Result<(), ImportError> {
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
}
