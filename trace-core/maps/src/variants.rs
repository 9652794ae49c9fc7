//! Variant ranges of rules-ng-ng: the device variants that have an item.

use std::collections::HashMap;

/// Maximum size of a range in bytes: two short names.
const MAX_RANGE: usize = 1024;

/// The variants of an enumeration in order.
pub(crate) struct Names<'t> {
    number: HashMap<&'t str, usize>,
    count: usize,
}

impl<'t> Names<'t> {
    /// Indexes these names; a repeated name has its first position.
    pub fn new(names: &[&'t str]) -> Self {
        let mut number = HashMap::with_capacity(names.len());
        for (n, name) in names.iter().enumerate() {
            number.entry(*name).or_insert(n);
        }
        Self {
            number,
            count: names.len(),
        }
    }

    fn number(&self, name: &str) -> Option<usize> {
        self.number.get(name).copied()
    }
}

/// Whether a list of ranges (`A6XX`, `A2XX-A4XX`, `NV17:NV20`, `A7XX-`, `:G80`) contains the variant, in the order of
/// `names`. Returns `None` if it is no range of these names.
pub(crate) fn has(list: &str, names: &Names<'_>, wanted: usize) -> Option<bool> {
    let mut any = false;
    for range in list.split_whitespace() {
        any |= within(range, names, wanted)?;
    }
    Some(any)
}

fn within(range: &str, names: &Names<'_>, wanted: usize) -> Option<bool> {
    if range.len() > MAX_RANGE {
        return None;
    }
    let number = |name: &str| names.number(name);
    // A name may contain a dash.
    if let Some(one) = number(range) {
        return Some(one == wanted);
    }
    for (at, c) in range.char_indices().filter(|(_, c)| matches!(c, '-' | ':')) {
        let (from, to) = (range.get(..at)?, range.get(at + 1..)?);
        let from = if from.is_empty() { Some(0) } else { number(from) };
        let to = match (to, c) {
            ("", _) => Some(names.count),
            (name, '-') => number(name).map(|n| n + 1),
            (name, _) => number(name),
        };
        if let (Some(from), Some(to)) = (from, to) {
            return Some((from..to).contains(&wanted));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variant_ranges_follow_rules_ng_ng() {
        let names = Names::new(&["NV1", "NV4", "G80", "GF-100", "GK104"]);
        let on = |list: &str| (0..5).filter(|n| has(list, &names, *n).unwrap()).collect::<Vec<_>>();
        assert_eq!(on("NV4"), [1]);
        assert_eq!(on("NV4-GF-100"), [1, 2, 3]);
        assert_eq!(on("NV4:GF-100"), [1, 2]);
        assert_eq!(on(":G80 GK104"), [0, 1, 4]);
        assert_eq!(on("-G80"), [0, 1, 2]);
        assert_eq!(on("GF-100-"), [3, 4]);
        assert_eq!(has("A7XX-", &names, 0), None);
    }
}
