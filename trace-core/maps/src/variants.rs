//! Variant ranges of rules-ng-ng: the device variants that have an item.

use std::collections::HashMap;

/// Maximum size of a range in bytes: two short names.
const MAX_RANGE: usize = 1024;

/// Name of the enumeration of NVIDIA's chips in rules-ng-ng. Envytools creates it when it is built, so that its sources do
/// not have it.
pub(crate) const CHIPSETS: &str = "chipset";

/// NVIDIA's chips in the order of their generations, for files without [`CHIPSETS`]. Separated by spaces.
pub(crate) const NVIDIA_CHIPS: &str = "\
    NV1 NV3 NV3T NV4 NV5 NV6 NVA NV10 NV15 NV1A NV11 NV17 NV1F NV18 NV20 NV2A \
    NV25 NV28 NV30 NV35 NV31 NV36 NV34 NV40 NV45 NV41 NV42 NV43 NV44 NV44A G70 G72 \
    G71 G73 C51 MCP61 MCP67 MCP68 MCP73 RSX G80 G84 G86 G92 G94 G96 G98 G200 \
    MCP77 MCP79 GT215 GT216 GT218 MCP89 GF100 GF104 GF114 GF106 GF116 GF108 GF110 GF119 GF117 GK104 \
    GK107 GK106 GK110 GK110B GK210 GK208 GK208B GK20A GM107 GM108 GM204 GM200 GM206 GM20B GP100 GP102 \
    GP104 GP106 GP107 GP108 GP10B GV100 GV11B TU102 TU104 TU106 TU116 TU117 GA100 GA102 GA103 GA104 \
    GA106 GA107 GH100 AD102 AD103 AD104 AD106 AD107 GB100 GB102 GB202 GB203 GB205 GB206 GB207";

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
