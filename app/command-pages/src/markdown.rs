//! Markdown reference of a command line.

use crate::{visible_arguments, visible_verbs};
use clap::{Arg, Command};

/// A heading over consecutive verbs.
#[derive(Clone, Copy, Debug)]
pub struct VerbGroup {
    /// Text of the heading.
    pub heading: &'static str,
    /// First verb of the group, which ends before the first verb of the next group.
    pub first: &'static str,
}

/// Returns the reference of a program as Markdown, from headings of level 3 on: the program without a verb, the options
/// that verbs share, then each verb in the order of the help under its group. `shared` holds the ids of the shared
/// options.
#[must_use]
pub fn markdown_reference(command: &Command, groups: &[VerbGroup], shared: &[&str]) -> String {
    let mut program = command.clone();
    program.build();
    let name = program.get_name();
    let mut verbs = Vec::new();
    collect_verbs(&program, &mut verbs);
    let first_use = |id: &&str| verbs.iter().copied().find_map(|v| find_argument(v, id));
    let shared: Vec<&Arg> = shared.iter().filter_map(first_use).collect();

    let mut lines = vec![format!("### `{name}` without a verb"), String::new()];
    add_usage(&program, &mut lines);
    add_arguments(&program, &[], &mut lines);
    if !shared.is_empty() {
        lines.extend(["### Options that verbs share".to_owned(), String::new()]);
        lines.extend(["| option | verbs | meaning |", "|---|---|---|"].map(str::to_owned));
        for option in &shared {
            let lacking: Vec<String> = verbs
                .iter()
                .filter(|v| !visible_arguments(v).any(|a| is_same(a, option)))
                .map(|v| format!("`{}`", path(v, name)))
                .collect();
            let takers = match lacking.as_slice() {
                [] => "every verb".to_owned(),
                some => format!("every verb but {}", some.join(", ")),
            };
            lines.push(format!("| {} | {takers} | {} |", spelling(option), meaning(option)));
        }
        lines.push(String::new());
    }
    for verb in verbs {
        let path = path(verb, name);
        if let Some(group) = groups.iter().find(|g| g.first == path) {
            lines.extend([format!("### {}", group.heading), String::new()]);
        }
        lines.extend([format!("#### `{path}`"), String::new()]);
        if let Some(about) = verb.get_about() {
            lines.extend([
                format!("{}.", escape(about.to_string().trim_end_matches('.'))),
                String::new(),
            ]);
        }
        add_usage(verb, &mut lines);
        add_arguments(verb, &shared, &mut lines);
        if let Some(notes) = verb.get_after_help() {
            add_code(&notes.to_string(), &mut lines);
        }
    }
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines.join("\n") + "\n"
}

/// Collects the verbs in the order of the help, each followed by its own verbs.
fn collect_verbs<'a>(command: &'a Command, verbs: &mut Vec<&'a Command>) {
    for verb in visible_verbs(command) {
        verbs.push(verb);
        collect_verbs(verb, verbs);
    }
}

/// Returns the words that a person types for a verb, without the program.
fn path(verb: &Command, program: &str) -> String {
    let typed = verb.get_bin_name().unwrap_or_else(|| verb.get_name());
    typed.strip_prefix(program).unwrap_or(typed).trim_start().to_owned()
}

fn find_argument<'a>(command: &'a Command, id: &str) -> Option<&'a Arg> {
    visible_arguments(command).find(|a| a.get_id().as_str() == id)
}

/// Returns whether two verbs mean the same by an option.
fn is_same(a: &Arg, b: &Arg) -> bool {
    a.get_id() == b.get_id() && meaning(a) == meaning(b)
}

fn add_usage(command: &Command, lines: &mut Vec<String>) {
    let usage = command.clone().render_usage().to_string();
    add_code(usage.strip_prefix("Usage: ").unwrap_or(&usage), lines);
}

/// Adds text as it is.
fn add_code(text: &str, lines: &mut Vec<String>) {
    lines.push("```text".to_owned());
    lines.extend(text.lines().map(|l| l.trim().to_owned()));
    lines.extend(["```".to_owned(), String::new()]);
}

/// Adds the table of the arguments and options, without the shared ones and without `--help`.
fn add_arguments(command: &Command, shared: &[&Arg], lines: &mut Vec<String>) {
    let (positional, options): (Vec<&Arg>, Vec<&Arg>) = visible_arguments(command)
        .filter(|a| a.get_id().as_str() != "help" && !shared.iter().any(|s| is_same(a, s)))
        .partition(|a| a.is_positional());
    if positional.is_empty() && options.is_empty() {
        return;
    }
    lines.extend(["| argument | meaning |", "|---|---|"].map(str::to_owned));
    for argument in positional.into_iter().chain(options) {
        lines.push(format!("| {} | {} |", spelling(argument), meaning(argument)));
    }
    lines.push(String::new());
}

/// Returns how a person types an argument: `-f`, `--form <FORM>`.
fn spelling(argument: &Arg) -> String {
    let mut names = vec![argument.to_string()];
    if argument.get_long().is_some() {
        names.extend(
            argument
                .get_visible_aliases()
                .unwrap_or_default()
                .iter()
                .map(|a| format!("--{a}")),
        );
        if let Some(short) = argument.get_short() {
            names.insert(0, format!("-{short}"));
        }
    }
    let code = |name: &String| format!("`{}`", name.replace('|', "\\|"));
    names.iter().map(code).collect::<Vec<_>>().join(", ")
}

/// Returns the help of an argument, its values and its default.
fn meaning(argument: &Arg) -> String {
    let help = argument.get_long_help().or_else(|| argument.get_help());
    let sentence = |text: String| escape(text.strip_suffix('.').unwrap_or(&text));
    let mut parts: Vec<String> = help.map(|h| sentence(h.to_string())).into_iter().collect();
    // A switch has the values true and false, which nobody types.
    if argument.get_action().takes_values() {
        let values: Vec<String> = argument
            .get_possible_values()
            .iter()
            .filter(|v| !v.is_hide_set())
            .map(|v| match v.get_help() {
                Some(help) => format!("`{}` ({})", v.get_name(), escape(&help.to_string())),
                None => format!("`{}`", v.get_name()),
            })
            .collect();
        if !values.is_empty() && !argument.is_hide_possible_values_set() {
            parts.push(format!("Values: {}", values.join(", ")));
        }
        let defaults: Vec<String> = argument
            .get_default_values()
            .iter()
            .filter(|d| !d.is_empty())
            .map(|d| format!("`{}`", d.to_string_lossy()))
            .collect();
        if !defaults.is_empty() && !argument.is_hide_default_value_set() {
            parts.push(format!("Default: {}", defaults.join(", ")));
        }
    }
    parts.join(". ")
}

/// Returns text with its Markdown characters escaped. Code between backquotes stays as it is.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut is_code = false;
    for c in text.chars() {
        match c {
            '`' => is_code = !is_code,
            // A table ends a cell at this character, also within code.
            '|' => escaped.push('\\'),
            '<' | '*' if !is_code => escaped.push('\\'),
            _ => {}
        }
        escaped.push(if c == '\n' { ' ' } else { c });
    }
    escaped
}
