//! Which variants of a device an item of rules-ng-ng is there on.

/// Whether a list of ranges (`A6XX`, `A2XX-A4XX`, `NV17:NV20`, `A7XX-`, `:G80`) has the variant, in the order that
/// `names` gives; `None` for what is no range of these names.
pub(crate) fn has(list: &str, names: &[&str], wanted: usize) -> Option<bool> {
    let mut any = false;
    for range in list.split_whitespace() {
        any |= within(range, names, wanted)?;
    }
    Some(any)
}

fn within(range: &str, names: &[&str], wanted: usize) -> Option<bool> {
    let number = |name: &str| names.iter().position(|n| *n == name);
    // A name may have a dash in it.
    if let Some(one) = number(range) {
        return Some(one == wanted);
    }
    for (at, c) in range.char_indices().filter(|(_, c)| matches!(c, '-' | ':')) {
        let (from, to) = (range.get(..at)?, range.get(at + 1..)?);
        let from = if from.is_empty() { Some(0) } else { number(from) };
        let to = match (to, c) {
            ("", _) => Some(names.len()),
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
    fn ranges_of_variants_are_read_as_rules_ng_ng_defines_them() {
        let names = ["NV1", "NV4", "G80", "GF-100", "GK104"];
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
