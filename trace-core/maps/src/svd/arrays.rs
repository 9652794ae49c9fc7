//! Arrays of SVD: `dim`, `dimIncrement` and `dimIndex`.

use super::derived::{Chain, indices};
use super::reader::{Reader, first_text, text};
use crate::draft::MAX_REGISTERS;
use crate::error::ImportError;
use crate::text::MAX_NAME;
use trace_core::registers::{ArrayLevel, MAX_LEVEL_MEMBERS};

/// An element at its places.
pub(super) enum Members {
    /// Names and offsets, one by one: a single element, or an array whose names are no numbers in order.
    Listed(Vec<(String, u64)>),
    /// An array: its name with `{n}` for the number, the offset of its first member, and its level.
    Array { name: String, at: u64, level: ArrayLevel },
}

impl Members {
    /// Returns all names and offsets.
    pub fn one_by_one(self) -> Vec<(String, u64)> {
        match self {
            Self::Listed(list) => list,
            Self::Array { name, at, level } => (0..level.count)
                .map(|n| {
                    let number = level.first.saturating_add(n).to_string();
                    let offset = at.saturating_add(u64::from(n) * u64::from(level.stride));
                    (name.replace("{n}", &number), offset)
                })
                .collect(),
        }
    }
}

/// Returns the first number of indices that are numbers in order, in the form without zeros before them.
fn first_in_order(indices: &[String]) -> Option<u32> {
    let first: u32 = indices.first()?.parse().ok()?;
    let in_order = |(n, index): (u32, &String)| first.checked_add(n).is_some_and(|own| own.to_string() == *index);
    (0u32..).zip(indices).all(in_order).then_some(first)
}

impl<'t> Reader<'t> {
    /// Returns the names and offsets of an element, or of the members of an array.
    pub(super) fn members(&self, chain: &Chain<'t>, at: u64) -> Result<Members, ImportError> {
        let node = chain.first().copied().unwrap_or_else(|| self.tree.root());
        let own_name = text(node, "name");
        let name = own_name.or_else(|| first_text(chain, "name"));
        let name = name.ok_or_else(|| self.tree.wrong(node, "the element has no name"))?;
        if name.len() > MAX_NAME {
            return Err(self
                .tree
                .wrong(node, format!("its name has more than {MAX_NAME} bytes")));
        }
        let plain = name.replace(['{', '}'], "_");
        let arrays = chain.get(..chain.dims.min(chain.len())).unwrap_or_default();
        let dim = self.first_number(arrays, "dim")?;
        // A derived element with a name of its own that has no place for a number is no array.
        let is_single = self.number(node, "dim")?.is_none() && own_name.is_some() && !name.contains("%s");
        let Some(dim) = dim.filter(|_| !is_single) else {
            return Ok(Members::Listed(vec![(plain, at)]));
        };
        if dim == 0 {
            return Err(self.tree.wrong(node, "dim is 0 (expected at least 1)"));
        }
        if dim > MAX_REGISTERS as u64 {
            return Err(self
                .tree
                .wrong(node, format!("dim is {dim} (expected at most {MAX_REGISTERS})")));
        }
        let increment = self.first_number(arrays, "dimIncrement")?;
        let increment = increment.ok_or_else(|| self.tree.wrong(node, "an array has no dimIncrement"))?;
        let index = match first_text(arrays, "dimIndex") {
            None => None,
            Some(list) => {
                let wrong = || self.tree.wrong(node, format!("dimIndex does not name {dim} members"));
                Some(indices(list, dim).ok_or_else(wrong)?)
            }
        };
        let last = dim
            .checked_sub(1)
            .and_then(|n| n.checked_mul(increment)?.checked_add(at));
        last.ok_or_else(|| self.tree.wrong(node, "the addresses exceed 64 bits"))?;
        let plain = plain.replace("[%s]", "%s");
        let first = index.as_deref().map_or(Some(0), first_in_order);
        if let (Some(first), Ok(stride), Ok(count)) = (first, u32::try_from(increment), u32::try_from(dim))
            && plain.matches("%s").count() == 1
            && count <= MAX_LEVEL_MEMBERS
            && (1..).contains(&stride)
        {
            let level = ArrayLevel { count, stride, first };
            let name = plain.replace("%s", "{n}");
            return Ok(Members::Array { name, at, level });
        }
        let index = index.unwrap_or_else(|| (0..dim).map(|n| n.to_string()).collect());
        if index.iter().any(|i| i.len() > MAX_NAME) {
            return Err(self.tree.wrong(node, "the names of the members are too long"));
        }
        let mut all = Vec::new();
        for (n, index) in (0..dim).zip(index) {
            let member = plain.replace("%s", &index.replace(['{', '}'], "_"));
            if member.len() > 2 * MAX_NAME {
                return Err(self.tree.wrong(node, "the names of the members are too long"));
            }
            all.push((member, at.saturating_add(n.saturating_mul(increment))));
        }
        Ok(Members::Listed(all))
    }
}
