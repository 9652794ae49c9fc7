//! Search for the known word that is nearest to a misspelt one.

/// Returns the number of letters to insert, delete, replace or swap with a neighbour to turn one word into the other.
/// Returns `usize::MAX` for words of more than 64 letters, which have no near words.
#[must_use]
pub fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(65).collect(), b.chars().take(65).collect());
    if a.len() > 64 || b.len() > 64 {
        return usize::MAX;
    }
    let (mut before, mut last): (Vec<usize>, Vec<usize>) = (Vec::new(), (0..=b.len()).collect());
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let at = |r: &[usize], n: usize| r.get(n).copied().unwrap_or(usize::MAX - 1);
            let mut min = (at(&last, j) + usize::from(x != y)).min(at(&last, j + 1) + 1);
            min = min.min(at(&row, j) + 1);
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(y) && b.get(j - 1) == Some(x);
            if swapped {
                min = min.min(at(&before, j - 1) + 1);
            }
            row.push(min);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(usize::MAX)
}

/// Returns the known word nearest to a misspelt one, ignoring case; the first if several are equally near. Returns
/// `None` if none is near: a short word may differ in one letter, a longer one in two, a long one in three.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let max = match word.chars().count() {
        0..=1 => return None,
        2..=4 => 1,
        5..=11 => 2,
        _ => 3,
    };
    let mut best: Option<(usize, &str)> = None;
    for k in known {
        // The difference in length alone excludes most words.
        if k.len().abs_diff(word.len()) > max {
            continue;
        }
        let d = distance(&word, &k.to_lowercase());
        if d <= max && best.is_none_or(|(b, _)| d < b) {
            best = Some((d, k));
        }
    }
    best.map(|(_, k)| k)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_counts_letters() {
        assert_eq!(distance("info", "info"), 0);
        assert_eq!(distance("inof", "info"), 1);
        assert_eq!(distance("inf", "info"), 1);
        assert_eq!(distance("", "map"), 3);
        assert_eq!(distance("jobs", "job"), 1);
        assert_eq!(distance(&"x".repeat(100), "job"), usize::MAX);
    }

    #[test]
    fn near_words_are_suggested_but_distant_ones_are_not() {
        let known = ["read", "write", "JS1_COMMAND"];
        assert_eq!(nearest("wirte", known), Some("write"));
        assert_eq!(nearest("js1_comand", known), Some("JS1_COMMAND"));
        assert_eq!(nearest("x", known), None);
        assert_eq!(nearest("banana", known), None);
    }
}
