//! A verb that was typed wrong: said before its arguments are taken for those of the window.

use super::{Failure, VERBS};
use std::ffi::OsString;
use std::path::Path;

/// Why these arguments, the program's name not among them, begin with no verb; `None` where they may.
pub fn of(arguments: &[OsString]) -> Option<Failure> {
    let first = arguments.first()?;
    let typed = first.to_str()?;
    let known = typed == "help" || VERBS.iter().any(|v| v.name == typed);
    if known || typed.is_empty() || typed.starts_with('-') || Path::new(first).exists() {
        return None;
    }
    let near = VERBS
        .iter()
        .map(|v| (distance(typed, v.name), v.name))
        .filter(|(d, name)| *d <= if name.len() < 6 { 1 } else { 2 })
        .min();
    // A file to open stands alone: what follows is an option.
    let more = arguments.get(1).is_some_and(|a| !a.to_string_lossy().starts_with('-'));
    let hint = match near {
        Some((_, name)) => format!("did you mean `{name}`?"),
        None if more => "`kinescope --help` lists them".to_owned(),
        None => return None,
    };
    let file = if more { "" } else { ", and no such file" };
    Some(Failure::usage(format!("there is no verb `{typed}`{file}: {hint}")))
}

/// Letters to add, leave out, replace, or swap with a neighbour to make one word of the other.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    // Words that long are near no verb.
    if a.len() > 32 {
        return usize::MAX;
    }
    let (mut before, mut last): (Vec<usize>, Vec<usize>) = (Vec::new(), (0..=b.len()).collect());
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let at = |r: &[usize], n: usize| r.get(n).copied().unwrap_or(usize::MAX - 1);
            let mut least = (at(&last, j) + usize::from(x != y)).min(at(&last, j + 1) + 1);
            least = least.min(at(&row, j) + 1);
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(y) && b.get(j - 1) == Some(x);
            if swapped {
                least = least.min(at(&before, j - 1) + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(arguments: &[&str]) -> Option<String> {
        let all: Vec<OsString> = arguments.iter().map(Into::into).collect();
        of(&all).map(|f| f.to_string())
    }

    #[test]
    fn a_verb_typed_wrong_is_named_with_the_one_that_is_near() {
        assert_eq!(
            told(&["inof", "x.kine"]).unwrap(),
            "there is no verb `inof`: did you mean `info`?"
        );
        assert_eq!(
            told(&["repaly"]).unwrap(),
            "there is no verb `repaly`, and no such file: did you mean `replay`?"
        );
        assert_eq!(
            told(&["frobnicate", "x.kine"]).unwrap(),
            "there is no verb `frobnicate`: `kinescope --help` lists them"
        );
    }

    #[test]
    fn verbs_options_and_files_are_no_verbs_typed_wrong() {
        for fine in [
            &["info", "x.kine"][..],
            &["help", "info"],
            &["--help"],
            &["x.kine", "--theme", "dark"],
            &["x.kine"],
            &["."],
            &[],
        ] {
            assert_eq!(told(fine), None, "{fine:?}");
        }
    }

    #[test]
    fn a_distance_counts_letters() {
        assert_eq!(distance("info", "info"), 0);
        assert_eq!(distance("inof", "info"), 1);
        assert_eq!(distance("inf", "info"), 1);
        assert_eq!(distance("", "map"), 3);
        assert_eq!(distance("jobs", "job"), 1);
    }
}
