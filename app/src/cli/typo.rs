//! A verb that was typed wrong: said before its arguments are taken for those of the window.

use super::{Failure, VERBS};
use std::ffi::OsString;
use std::path::Path;
use trace_core::filter::distance;

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
}
