//! Errors for a mistyped verb or option. A verb is checked before its arguments are parsed as those of the window.

use super::Failure;
use super::verbs::{VERBS, is_verb};
use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;
use std::path::Path;
use trace_core::filter::distance;

/// Returns the error if these arguments, without the program name, start with an unknown verb; `None` if they may be
/// valid.
pub fn find_unknown_verb(arguments: &[OsString]) -> Option<Failure> {
    let first = arguments.first()?;
    let typed = first.to_str()?;
    let known = typed == "help" || is_verb(typed);
    if known || typed.is_empty() || typed.starts_with('-') || Path::new(first).exists() {
        return None;
    }
    let near = VERBS
        .iter()
        .map(|v| (distance(typed, v.name), v.name))
        .filter(|(d, name)| *d <= if name.len() < 6 { 1 } else { 2 })
        .min();
    // A file to open has no other positional argument: only options follow it.
    let more = arguments.get(1).is_some_and(|a| !a.to_string_lossy().starts_with('-'));
    let hint = match near {
        Some((_, name)) => format!("did you mean `{name}`?"),
        None if more => "`kinescope --help` lists them".to_owned(),
        None => return None,
    };
    let file = if more { "" } else { ", and no such file" };
    Some(Failure::usage(format!("there is no verb `{typed}`{file}: {hint}")))
}

/// Common alternatives to `--bytes`.
const BYTES_ALIASES: [&str; 5] = ["--length", "--len", "--size", "--count", "--limit"];

/// Suggests a replacement for an option or argument that a verb does not accept; `None` if clap's own message is
/// sufficient.
pub fn suggest_option(error: &clap::Error, command: &Command, arguments: &[OsString]) -> Option<Failure> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let verb = command.find_subcommand(arguments.first()?.to_str()?)?;
    let takes = |name: &str| verb.get_arguments().any(|a| a.get_long() == Some(name));
    let name = verb.get_name();
    let option = given.split('=').next().unwrap_or_default();
    if BYTES_ALIASES.contains(&option) && takes("bytes") {
        let hint = "did you mean `--bytes N`?";
        return Some(Failure::usage(format!("`{name}` does not take '{given}': {hint}")));
    }
    if !takes("where") {
        return None;
    }
    let hint = match option {
        "--filter" | "--query" | "--expr" | "--expression" | "--if" => "did you mean `--where EXPR`?".to_owned(),
        "--job" | "--jobs" => "did you mean `--where 'job = N'`?".to_owned(),
        "--thread" | "--event" | "--time" | "--value" | "--offset" | "--space" | "--kind" => {
            let field = option.trim_start_matches('-');
            format!("did you mean `--where '{field} = …'`?")
        }
        _ if option.starts_with('-') => return None,
        _ if given.parse::<f64>().is_ok()
            && let Some(switch) = switch_before(verb, given, arguments) =>
        {
            format!("`{switch}` takes no value")
        }
        _ if Path::new(given).exists() => format!("`{name}` takes one recording"),
        _ => format!("did you mean `--where '{given}'`?"),
    };
    Some(Failure::usage(format!("`{name}` does not take '{given}': {hint}")))
}

/// Returns the option before an argument, if it takes no value.
fn switch_before<'a>(verb: &Command, given: &str, arguments: &'a [OsString]) -> Option<&'a str> {
    let at = arguments.iter().position(|a| a == given)?;
    let before = arguments.get(at.checked_sub(1)?)?.to_str()?;
    let option = verb
        .get_arguments()
        .find(|a| a.get_long() == before.strip_prefix("--"))?;
    let takes_none = option.get_long().is_some() && !option.get_action().takes_values();
    takes_none.then_some(before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::command;

    fn suggest(arguments: &[&str]) -> Option<String> {
        let all: Vec<OsString> = arguments.iter().map(Into::into).collect();
        let with_program = std::iter::once(OsString::from("kinescope")).chain(all.iter().cloned());
        let error = command().try_get_matches_from(with_program).err()?;
        suggest_option(&error, &command(), &all).map(|f| f.to_string())
    }

    #[test]
    fn foreign_filter_syntax_gets_a_suggestion() {
        for (arguments, hint) in [
            (&["events", "x.kine", "write"][..], "--where 'write'"),
            (&["events", "x.kine", "--filter", "write"], "--where EXPR"),
            (&["stats", "x.kine", "--filter=write"], "--where EXPR"),
            (&["stats", "x.kine", "--job", "3"], "--where 'job = N'"),
            (&["events", "x.kine", "--thread", "3"], "--where 'thread = …'"),
            (&["export", "x.kine", "write", "-o", "x.csv"], "--where 'write'"),
            (
                &["stats", "x.kine", "--histogram", "10"],
                "`--histogram` takes no value",
            ),
            (&["events", "x.kine", "--json", "write"], "--where 'write'"),
            (&["memory", "x.kine", "0x1000", "--length", "64"], "--bytes N"),
        ] {
            let suggestion = suggest(arguments).unwrap();
            assert!(suggestion.contains(hint), "{arguments:?}: {suggestion}");
        }
        for none in [
            &["events", "x.kine", "--wat"][..],
            &["info", "x.kine", "y"],
            &["events"],
        ] {
            assert_eq!(suggest(none), None, "{none:?}");
        }
    }

    fn suggestion_for(arguments: &[&str]) -> Option<String> {
        let all: Vec<OsString> = arguments.iter().map(Into::into).collect();
        find_unknown_verb(&all).map(|f| f.to_string())
    }

    #[test]
    fn mistyped_verb_suggestion_names_the_nearest_verb() {
        assert_eq!(
            suggestion_for(&["inof", "x.kine"]).unwrap(),
            "there is no verb `inof`: did you mean `info`?"
        );
        assert_eq!(
            suggestion_for(&["repaly"]).unwrap(),
            "there is no verb `repaly`, and no such file: did you mean `replay`?"
        );
        assert_eq!(
            suggestion_for(&["frobnicate", "x.kine"]).unwrap(),
            "there is no verb `frobnicate`: `kinescope --help` lists them"
        );
    }

    #[test]
    fn verbs_options_and_files_are_not_reported_as_typos() {
        for fine in [
            &["info", "x.kine"][..],
            &["help", "info"],
            &["--help"],
            &["x.kine", "--theme", "dark"],
            &["x.kine"],
            &["."],
            &[],
        ] {
            assert_eq!(suggestion_for(fine), None, "{fine:?}");
        }
    }
}
