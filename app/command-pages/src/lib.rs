//! Pages of a command line, made from its clap command: shell completions, man pages, Markdown reference. None of them
//! shows hidden verbs, options or aliases.
#![forbid(unsafe_code)]

mod completions;
mod man;
mod markdown;
mod printing;

pub use completions::{Shell, completion_script};
pub use man::{ManPage, man_pages};
pub use markdown::{VerbGroup, markdown_reference};
pub use printing::{print_manual, print_text};

use clap::{Arg, Command};

/// Returns the verbs that pages show. clap's own verb `help` is in no page.
fn visible_verbs(command: &Command) -> impl Iterator<Item = &Command> {
    command
        .get_subcommands()
        .filter(|c| !c.is_hide_set() && c.get_name() != "help")
}

/// Returns the arguments and options that pages show.
fn visible_arguments(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|a| !a.is_hide_set())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ArgAction;

    /// A program with one visible verb that has a hidden alias and a hidden option, and one hidden verb.
    fn program() -> Command {
        let file = Arg::new("file")
            .value_name("FILE")
            .required(true)
            .help("Recording | folder");
        let form = Arg::new("form")
            .short('f')
            .long("form")
            .value_name("A|B")
            .value_parser(["a", "b"])
            .default_value("a")
            .help("Form <of> the output");
        let secret = Arg::new("secret").long("secret").hide(true).action(ArgAction::SetTrue);
        let json = || {
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print JSON")
        };
        let show = Command::new("show")
            .alias("display")
            .about("Show a recording")
            .args([file, form, secret, json()]);
        let nested = Command::new("maps")
            .about("Handle maps")
            .subcommand(Command::new("list").about("List maps"));
        Command::new("program")
            .version("1.2.3")
            .about("Show recordings")
            .after_help("Exit codes: 0 good, 1 bad.")
            .subcommands([show, nested, Command::new("guard").hide(true)])
    }

    #[test]
    fn completions_offer_only_visible_names() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = completion_script(&program(), shell);
            for name in ["show", "maps", "list", "form"] {
                assert!(script.contains(name), "{shell:?} lacks {name}");
            }
            for name in ["display", "guard", "secret"] {
                assert!(!script.contains(name), "{shell:?} offers {name}");
            }
        }
    }

    #[test]
    fn each_verb_has_a_man_page_with_the_exit_codes() {
        let pages = man_pages(&program()).unwrap();
        let names: Vec<&str> = pages.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(
            names,
            ["program.1", "program-show.1", "program-maps.1", "program-maps-list.1"]
        );
        for page in &pages {
            assert!(page.text.contains("EXIT STATUS"), "{}", page.name);
            assert!(!page.text.contains("secret"), "{}", page.name);
            assert!(!page.text.contains("guard"), "{}", page.name);
        }
    }

    #[test]
    fn the_reference_shows_usage_values_and_defaults() {
        let groups = [VerbGroup {
            heading: "Look",
            first: "show",
        }];
        let text = markdown_reference(&program(), &groups, &["json"]);
        for line in [
            "### Look",
            "#### `show`",
            "Show a recording.",
            "program show [OPTIONS] <FILE>",
            "| `<FILE>` | Recording \\| folder |",
            "| `-f`, `--form <A\\|B>` | Form \\<of> the output. Values: `a`, `b`. Default: `a` |",
            "| `--json` | every verb but `maps`, `maps list` | Print JSON |",
            "#### `maps list`",
        ] {
            assert!(text.lines().any(|l| l == line), "no line {line}:\n{text}");
        }
        assert!(!text.contains("secret") && !text.contains("guard") && !text.contains("display"));
    }
}
