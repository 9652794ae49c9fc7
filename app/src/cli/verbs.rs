//! The table of verbs, and the parser of the command line that it gives.
//!
//! To add a verb, copy one of the files in `verbs/`, then add its `mod` line and its line in [`VERBS`]. Parser, help,
//! completions and man page follow; `UPDATE_SNAPSHOTS=1` renews `docs/reference/command-line.md`.

mod agents;
mod apply;
mod bisect;
mod campaign;
mod channels;
mod check;
mod completions;
mod diff;
mod doctor;
mod events;
mod export;
mod import;
mod info;
mod jobs;
mod kernels;
mod last_writer;
mod launches;
mod link;
mod man;
mod memory;
mod notebook;
mod objects;
mod pagetables;
mod pair;
mod pipeline;
mod plan;
mod pushbuffer;
mod record;
mod references;
mod regmaps;
mod replay;
mod run;
mod screen;
mod shader;
mod stats;
mod targets;
mod trim;
mod tune;
mod verify;
mod wasm;

use super::verb::Verb;
use super::{limit, window_arguments};
use clap::{Arg, ArgAction, Args as _, Command, FromArgMatches as _};
use command_pages::VerbGroup;

/// Older names of verbs, which stay valid and are in no help.
const VERB_ALIASES: [(&str, &str); 4] = [
    ("boards", "targets"),
    ("map", "pagetables"),
    ("maps", "regmaps"),
    ("who", "last-writer"),
];

/// Returns whether the user may type `name` for a verb.
pub fn is_verb(name: &str) -> bool {
    VERBS.iter().any(|v| v.name == name) || VERB_ALIASES.iter().any(|(old, _)| *old == name)
}

/// The verb `completions`. It prints the whole parser, so that it gets it as an argument.
const COMPLETIONS: Verb = Verb {
    name: "completions",
    about: "Print a completion script for bash, zsh or fish",
    args: completions::Arguments::augment_args,
    run: |matches, out| {
        let arguments = completions::Arguments::from_arg_matches(matches)?;
        completions::run(&arguments, &command(), out)
    },
};

/// The verb `man`. It prints the whole parser, so that it gets it as an argument.
const MAN: Verb = Verb {
    name: "man",
    about: "Print the man page of this program, or write those of all verbs",
    args: man::Arguments::augment_args,
    run: |matches, out| {
        let arguments = man::Arguments::from_arg_matches(matches)?;
        man::run(&arguments, &command(), VERB_GROUPS, out)
    },
};

/// All verbs, in the order of the help.
pub const VERBS: &[Verb] = &[
    info::VERB,
    events::VERB,
    stats::VERB,
    jobs::VERB,
    launches::VERB,
    kernels::VERB,
    objects::VERB,
    channels::VERB,
    pushbuffer::VERB,
    shader::VERB,
    last_writer::VERB,
    references::VERB,
    pagetables::VERB,
    regmaps::VERB,
    memory::VERB,
    screen::VERB,
    check::VERB,
    diff::VERB,
    import::VERB,
    trim::VERB,
    apply::VERB,
    bisect::VERB,
    export::VERB,
    notebook::VERB,
    link::VERB,
    verify::VERB,
    targets::VERB,
    doctor::VERB,
    plan::VERB,
    replay::VERB,
    pipeline::VERB,
    tune::VERB,
    campaign::VERB,
    wasm::VERB,
    record::VERB,
    run::VERB,
    pair::VERB,
    agents::VERB,
    COMPLETIONS,
    MAN,
];

/// Headings of the verbs in the reference. A group begins with its verb in [`VERBS`] and ends before the next group.
const VERB_GROUPS: &[VerbGroup] = &[
    VerbGroup {
        heading: "Inspect and compare",
        first: "info",
    },
    VerbGroup {
        heading: "Import, edit and export",
        first: "import",
    },
    VerbGroup {
        heading: "Replay and tune",
        first: "targets",
    },
    VerbGroup {
        heading: "Run WebAssembly programs",
        first: "wasm",
    },
    VerbGroup {
        heading: "Record and run",
        first: "record",
    },
    VerbGroup {
        heading: "Agents",
        first: "pair",
    },
    VerbGroup {
        heading: "Shell and manual",
        first: "completions",
    },
];

/// Returns the clap command of the whole command line.
#[must_use]
pub fn command() -> Command {
    // The help line of a verb comes from the table, not from the comment on its arguments type.
    let json = || {
        Arg::new("json")
            .long("json")
            .global(true)
            .action(ArgAction::SetTrue)
            .help("Print JSON instead of text")
    };
    let verbs = VERBS.iter().map(|v| {
        let old = VERB_ALIASES
            .iter()
            .filter(|(_, new)| *new == v.name)
            .map(|(old, _)| *old);
        let command = (v.args)(Command::new(v.name)).aliases(old).about(v.about).arg(json());
        command.args(limit::argument(v.name))
    });
    window_arguments::add_arguments(Command::new("kinescope"))
        .version(env!("CARGO_PKG_VERSION"))
        .about("Inspect, edit and replay recordings of GPU work")
        .after_help("Exit codes: 0 success; 1 differences, or findings of severity error; 2 failure; 130 or 143 stopped by SIGINT or SIGTERM.")
        .args_conflicts_with_subcommands(true)
        .subcommand_negates_reqs(true)
        .subcommands(verbs)
}

/// Returns the reference of all verbs as Markdown: the generated part of `docs/reference/command-line.md`.
#[must_use]
pub fn render_reference() -> String {
    man::render(&command(), VERB_GROUPS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_table_gives_a_valid_parser() {
        command().debug_assert();
    }

    #[test]
    fn old_names_of_options_still_parse() {
        for line in [
            "x.kine --board software:mali-g71",
            "diff a.kine b.kine --most 5",
            "bisect x.kine --until true --most 9",
            "record --with cuda --kernels scale --most 2 -o x.kine -- program",
            "launches x.kine --on cuda:0 --most 5",
            "memory x.kine in0 --on cuda:0 --most 5",
            "last-writer x.kine in0 --on cuda:0 --most 5",
            "trim x.kine --jobs 0 --touched -o y.kine",
            "regmaps import x.svd --beside x.kine",
            "replay x.kine --on cuda:0 --near out0=exact",
            "replay x.kine --on qemu:edu --learn x.plan --look-at 3",
            "tune x.kine --on cuda:0 --near f32:1e-5",
        ] {
            let words = std::iter::once("kinescope").chain(line.split(' '));
            let parsed = command().try_get_matches_from(words);
            assert!(parsed.is_ok(), "{line}: {:?}", parsed.err());
        }
    }

    #[test]
    fn groups_cover_the_verbs_in_their_order() {
        let position = |g: &VerbGroup| VERBS.iter().position(|v| v.name == g.first).unwrap();
        let positions: Vec<usize> = VERB_GROUPS.iter().map(position).collect();
        assert_eq!(positions.first(), Some(&0));
        assert!(positions.is_sorted_by(|a, b| a < b), "{positions:?}");
    }
}
