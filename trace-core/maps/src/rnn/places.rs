//! The places of arrays, stripes and registers of rules-ng-ng. Arrays at equal distances stay arrays.

use crate::draft::Draft;
use crate::error::{ImportError, LossKind};
use crate::source::Tree;
use crate::text::number;
use roxmltree::Node;
use trace_core::registers::{ArrayLevel, MAX_LEVELS};

/// Maximum number of members of an array; longer ones are memory.
const MAX_ARRAY: u64 = 4096;

/// The position in a domain of the items that are read now.
pub(super) struct Scope {
    /// Start of the names, with `{n}` for the number of each level.
    pub(super) prefix: String,
    /// In units of the domain.
    pub(super) base: u64,
    /// Bits of a domain unit.
    pub(super) unit: u64,
    /// Levels of the arrays around, in bytes.
    pub(super) levels: Vec<ArrayLevel>,
    pub(super) varset: Option<String>,
    pub(super) depth: usize,
}

/// Whether an array has so many members that it is memory, which a map has no names for.
pub(super) fn memory(draft: &mut Draft, tree: &Tree<'_>, node: Node<'_, '_>, name: &str) -> Result<bool, ImportError> {
    let length = tree.number(node, "length")?.unwrap_or(1);
    if length <= MAX_ARRAY {
        return Ok(false);
    }
    draft.lose(tree.place(node), LossKind::Array, || {
        format!("array {name} has {length} members; only {MAX_ARRAY} are imported")
    });
    Ok(true)
}

/// Whether the offsets of an array or register are only known at run time: the file gives expressions of the driver for
/// them, or they count from another domain.
pub(super) fn is_placed_at_run_time(draft: &mut Draft, tree: &Tree<'_>, node: Node<'_, '_>) -> bool {
    let stated = ["doffsets", "doffset"].iter().find_map(|a| node.attribute(*a));
    let is_expression = |text: &&str| number(text).is_none() && text.contains(['>', '[', '(', '+', '*']);
    let computed = || {
        ["offset", "offsets"]
            .iter()
            .find_map(|a| node.attribute(*a).filter(is_expression))
    };
    let Some(places) = stated.or_else(computed) else {
        return false;
    };
    let registers = node
        .descendants()
        .filter(|n| n.is_element() && n.tag_name().name().starts_with("reg"))
        .count();
    let name = node.attribute("name").unwrap_or("without a name");
    let tag = if node.tag_name().name().starts_with("reg") {
        "register"
    } else {
        "array"
    };
    let registers = match registers {
        1 if tag == "register" => String::new(),
        n => format!(" with {n} registers"),
    };
    let places: String = places.chars().take(80).collect();
    draft.lose(tree.place(node), LossKind::Placement, || {
        format!(
            "{tag} {name}{registers} is placed at run time ({places}), so that its offsets are not in \
             the file; it is left out"
        )
    });
    true
}

/// The places of an array, a stripe or a register, in cells.
pub(super) enum Places {
    /// One place, or several that are not at equal distances.
    Listed { offsets: Vec<u64>, are_numbered: bool },
    /// Places at equal distances.
    Array { offset: u64, level: ArrayLevel },
}

/// Returns the places of an array, a stripe or a register.
pub(super) fn places(
    tree: &Tree<'_>,
    node: Node<'_, '_>,
    own_cells: u64,
    scope: &Scope,
) -> Result<Places, ImportError> {
    let length = tree.number(node, "length")?.unwrap_or(1);
    let too_far = || tree.wrong(node, "the offsets exceed 64 bits");
    if length > 1 && scope.levels.len() >= MAX_LEVELS {
        return Err(tree.wrong(node, format!("arrays are nested more than {MAX_LEVELS} deep")));
    }
    if let Some(list) = node.attribute("offsets") {
        let mut offsets = Vec::new();
        for text in list.split(',') {
            let at = number(text).and_then(|n| n.checked_add(scope.base));
            offsets.push(at.ok_or_else(|| tree.wrong(node, "offsets must be a list of numbers"))?);
        }
        let steps: Option<Vec<u64>> = offsets.windows(2).map(|w| w.last()?.checked_sub(*w.first()?)).collect();
        let stride = steps
            .filter(|s| s.iter().all(|d| Some(d) == s.first()))
            .and_then(|s| s.first().copied());
        if let (Some(stride), Some(offset)) = (stride, offsets.first().copied())
            && let Some(level) = level(offsets.len() as u64, stride, scope)
        {
            return Ok(Places::Array { offset, level });
        }
        return Ok(Places::Listed {
            offsets,
            are_numbered: true,
        });
    }
    let stride = tree.number(node, "stride")?.unwrap_or(own_cells);
    let offset = tree.number(node, "offset")?.unwrap_or(0);
    if length > 1 && stride == 0 {
        return Err(tree.wrong(node, "an array of several members needs a stride"));
    }
    let offset = scope.base.checked_add(offset).ok_or_else(too_far)?;
    let last = length
        .saturating_sub(1)
        .checked_mul(stride)
        .and_then(|d| d.checked_add(offset));
    last.and_then(|l| l.checked_mul(scope.unit)).ok_or_else(too_far)?;
    if let Some(level) = level(length, stride, scope) {
        return Ok(Places::Array { offset, level });
    }
    Ok(Places::Listed {
        offsets: (0..length)
            .map(|n| offset.saturating_add(n.saturating_mul(stride)))
            .collect(),
        are_numbered: length != 1,
    })
}

/// Returns the level of an array with a stride in cells, or `None` if a map cannot hold it as one.
fn level(count: u64, stride: u64, scope: &Scope) -> Option<ArrayLevel> {
    let stride = u32::try_from(stride.checked_mul(scope.unit / 8)?).ok()?;
    let count = u32::try_from(count).ok().filter(|c| *c > 1)?;
    let is_held = scope.levels.len() < MAX_LEVELS && stride > 0;
    is_held.then_some(ArrayLevel {
        count,
        stride,
        first: 0,
    })
}

/// Returns `NAME` with the number of a member: `MRT3`, and `VPC_2_1` if the name ends with a digit.
fn numbered(name: &str, n: &str) -> String {
    let gap = if name.ends_with(|c: char| c.is_ascii_digit() || c == '}') {
        "_"
    } else {
        ""
    };
    format!("{name}{gap}{n}")
}

/// Returns the names, offsets and levels of the places: one for an array that is kept as one.
pub(super) fn named_places(places: Places, name: &str, scope: &Scope) -> Vec<(String, u64, Vec<ArrayLevel>)> {
    match places {
        Places::Array { offset, level } => {
            let levels = scope.levels.iter().copied().chain([level]).collect();
            vec![(numbered(name, "{n}"), offset, levels)]
        }
        Places::Listed { offsets, are_numbered } => {
            let each = |(n, at): (usize, u64)| {
                let own = match are_numbered {
                    true => numbered(name, &n.to_string()),
                    false => name.to_owned(),
                };
                (own, at, scope.levels.clone())
            };
            offsets.into_iter().enumerate().map(each).collect()
        }
    }
}

/// Returns the start of a name and a name, joined.
pub(super) fn joined(outer: &str, own: &str) -> String {
    match (outer, own) {
        (outer, "") => outer.to_owned(),
        ("", own) => own.to_owned(),
        (outer, own) => format!("{outer}_{own}"),
    }
}

/// Returns the name of an element, which cannot be taken for one with a number in it.
pub(super) fn plain_name(node: Node<'_, '_>) -> String {
    node.attribute("name").unwrap_or_default().replace(['{', '}'], "_")
}
