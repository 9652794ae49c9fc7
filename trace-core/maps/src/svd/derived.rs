//! Elements that are derived from others: siblings, elements of other parents, and members of arrays.

use super::reader::{MAX_DERIVED, MAX_LOOKS, Reader, text};
use crate::draft::MAX_REGISTERS;
use crate::error::ImportError;
use roxmltree::Node;
use std::ops::Deref;

/// An element and the elements that it is derived from, nearest first.
#[derive(Clone)]
pub(super) struct Chain<'t> {
    nodes: Vec<Node<'t, 't>>,
    /// Number of them whose `dim` counts: an element that is derived from one member of an array is no array.
    pub dims: usize,
}

impl<'t> Deref for Chain<'t> {
    type Target = [Node<'t, 't>];

    fn deref(&self) -> &Self::Target {
        &self.nodes
    }
}

impl<'t> Reader<'t> {
    /// Returns an element followed by the elements that it is derived from.
    pub(super) fn chain(&self, node: Node<'t, 't>) -> Result<Chain<'t>, ImportError> {
        let mut chain = Chain {
            nodes: vec![node],
            dims: usize::MAX,
        };
        let mut last = node;
        while let Some(path) = last.attribute("derivedFrom") {
            let base = self.find(last, path)?;
            let (base, is_member) = base.ok_or_else(|| {
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
            if is_member {
                chain.dims = chain.dims.min(chain.len());
            }
            chain.nodes.push(base);
            last = base;
        }
        Ok(chain)
    }

    /// Resolves a path: a sibling, or else any element of the same tag with the path's last name under elements of its
    /// other names. Names of members of arrays count too. Returns whether it is one of these.
    fn find(&self, node: Node<'t, 't>, path: &'t str) -> Result<Option<(Node<'t, 't>, bool)>, ImportError> {
        let tag = node.tag_name().name();
        let mut parts = path.rsplit('.');
        let last = parts.next().unwrap_or_default();
        let outer: Vec<&str> = parts.collect();
        let key = self.named.get(&(tag, last)).map(Vec::as_slice).unwrap_or_default();
        if outer.is_empty() {
            let near = node.parent().and_then(|p| self.siblings.get(&(tag, last, p.id())));
            let sibling = near.and_then(|(a, b)| if *a == node { *b } else { Some(*a) });
            let found = sibling.or_else(|| key.iter().find(|n| **n != node).copied());
            if let Some(found) = found {
                return Ok(Some((found, false)));
            }
        }
        for candidate in key.iter().filter(|_| !outer.is_empty()) {
            self.count_look(node)?;
            if self.is_under(*candidate, &outer)? {
                return Ok(Some((*candidate, false)));
            }
        }
        // Members of arrays, those next to the element first.
        let arrays = self.arrays.get(tag).map(Vec::as_slice).unwrap_or_default();
        let mut other = None;
        for candidate in arrays.iter().filter(|n| **n != node) {
            self.count_look(node)?;
            if !self.is_named(*candidate, last)? || !self.is_under(*candidate, &outer)? {
                continue;
            }
            if candidate.parent() == node.parent() {
                return Ok(Some((*candidate, true)));
            }
            other = other.or(Some((*candidate, true)));
        }
        Ok(other)
    }

    fn count_look(&self, node: Node<'t, 't>) -> Result<(), ImportError> {
        self.looks.set(self.looks.get().saturating_add(1));
        if self.looks.get() <= MAX_LOOKS {
            return Ok(());
        }
        Err(ImportError::TooMuch {
            place: self.tree.place(node),
            what: "derived elements are searched among too many elements".to_owned(),
            max: MAX_LOOKS as u64,
        })
    }

    /// Whether the elements around one have these names, the nearest first.
    fn is_under(&self, node: Node<'t, 't>, names: &[&str]) -> Result<bool, ImportError> {
        let mut above = node.ancestors().skip(1).filter(|n| self.names.contains_key(&n.id()));
        for name in names {
            match above.next() {
                Some(n) if self.is_named(n, name)? => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Whether an element, or a member of the array that it is, has a name.
    fn is_named(&self, node: Node<'t, 't>, wanted: &str) -> Result<bool, ImportError> {
        let Some(name) = self.names.get(&node.id()) else {
            return Ok(false);
        };
        if *name == wanted {
            return Ok(true);
        }
        // `[%s]` is written with and without its brackets.
        let plain = name.replace("[%s]", "%s");
        let forms = if plain == *name {
            vec![plain]
        } else {
            vec![(*name).to_owned(), plain]
        };
        for form in forms {
            let Some((start, end)) = form.split_once("%s") else {
                continue;
            };
            let index = wanted.strip_prefix(start).and_then(|w| w.strip_suffix(end));
            let Some(index) = index.filter(|i| !i.is_empty()) else {
                continue;
            };
            let dim = self.number(node, "dim")?.unwrap_or(0);
            let listed = text(node, "dimIndex").and_then(|list| indices(list, dim));
            let is_member = match listed {
                Some(list) => {
                    self.looks.set(self.looks.get().saturating_add(list.len()));
                    list.iter().any(|i| i == index)
                }
                None => index.parse::<u64>().is_ok_and(|n| n < dim),
            };
            if is_member {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Parses `dimIndex`: `0-3`, `A-D`, `left,right`. Returns `None` if it does not name `dim` members.
pub(super) fn indices(list: &str, dim: u64) -> Option<Vec<String>> {
    let mut all: Vec<String> = Vec::new();
    for part in list.split(',').map(str::trim) {
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
            return None;
        }
    }
    (all.len() as u64 == dim).then_some(all)
}
