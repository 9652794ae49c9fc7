//! The command line: one file per verb, and the table of verbs.
//!
//! To add a verb, copy one of the files, then add its `mod` line and its line in [`VERBS`]. Parser and help follow.

mod agents;
mod api_trace;
mod apply;
mod bisect;
mod check;
mod completions;
mod diff;
mod doctor;
mod empty_result;
mod event_filter;
mod events;
mod export;
mod exported_program;
mod failure;
mod guard;
mod guess;
mod import;
mod info;
mod jobs;
mod kernels;
mod last_writer;
mod launches;
mod limit;
mod link;
mod man;
mod memory;
mod notebook;
mod out;
mod outcome;
mod outputs;
mod pagetables;
mod pair;
mod plan;
mod plan_file;
mod progress_line;
mod record;
mod record_api_trace;
mod regmaps;
mod replay;
mod replay_arguments;
mod replayed_screen;
mod screen;
mod screen_diff;
mod shader;
mod signals;
mod source;
mod stats;
mod targets;
mod thread;
mod times;
mod trace_arguments;
mod trim;
mod tune;
mod typo;
mod verify;

use crate::commands::COMMANDS;
use crate::document::targets::PLAY_CALLS;
use crate::theme::ThemeChoice;
use crate::window::{AfterOpen, Options, PictureForm, Shot, Studio, UNKNOWN_FORMAT};
use clap::{Arg, ArgAction, ArgMatches, Command};
use command_pages::VerbGroup;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use trace_core::progress::Progress;

pub use failure::{Exit, Failure};
pub use man::render_reference;
pub use out::{Out, format_hex};

/// A verb of the command line.
pub struct Verb {
    /// Name that the user types.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// Adds its arguments to a command.
    pub args: fn(Command) -> Command,
    /// Runs the verb.
    pub run: fn(&ArgMatches, &mut Out) -> Result<Exit, Failure>,
}

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

/// All verbs, in the order of the help.
pub const VERBS: &[Verb] = &[
    info::VERB,
    events::VERB,
    stats::VERB,
    jobs::VERB,
    launches::VERB,
    kernels::VERB,
    shader::VERB,
    last_writer::VERB,
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
    tune::VERB,
    record::VERB,
    pair::VERB,
    agents::VERB,
    completions::VERB,
    man::VERB,
];

/// Headings of the verbs in the reference. A group begins with its verb in [`VERBS`] and ends before the next group.
pub const VERB_GROUPS: &[VerbGroup] = &[
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
        heading: "Record",
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
    Command::new("kinescope")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Inspect, edit and replay recordings of GPU work")
        .after_help("Exit codes: 0 success; 1 differences, or findings of severity error; 2 failure; 130 or 143 stopped by SIGINT or SIGTERM.")
        .args_conflicts_with_subcommands(true)
        .subcommand_negates_reqs(true)
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .value_parser(clap::value_parser!(PathBuf))
                .help("Recording to open in the window: a .kine, a folder or file that can be imported, or a kinescope: link"),
        )
        .arg(
            Arg::new("at")
                .long("at")
                .value_name("EVENT")
                .requires("file")
                .value_parser(link::event)
                .help("Index of the current event"),
        )
        .arg(
            Arg::new("compare")
                .long("compare")
                .value_name("OTHER")
                .requires("file")
                .value_parser(clap::value_parser!(PathBuf))
                .help("Second recording to compare FILE with, side by side"),
        )
        .arg(
            Arg::new("screenshot")
                .long("screenshot")
                .value_name("OUT.png|OUT.svg")
                .requires("file")
                .value_parser(clap::value_parser!(PathBuf))
                .help("Render the window off-screen into a picture instead of opening it; the name selects the format"),
        )
        .arg(
            Arg::new("panel")
                .long("panel")
                .value_name("PANEL")
                .requires("screenshot")
                .value_parser(link::panel)
                .help("Draw only this panel of the window: timeline, events, memory, …"),
        )
        .arg(
            Arg::new("size")
                .long("size")
                .value_name("WIDTHxHEIGHT")
                .requires("screenshot")
                .value_parser(size)
                .help("Size of the window in points [default: 1280x800]; with --panel, the picture shows the panel's part of it"),
        )
        .arg(
            Arg::new("scale")
                .long("scale")
                .value_name("N")
                .requires("screenshot")
                .value_parser(scale)
                .help("Pixels per point in the picture, 0.5 to 4 [default: 1]"),
        )
        .arg(
            Arg::new("theme")
                .long("theme")
                .value_parser(ThemeChoice::ALL.map(ThemeChoice::name))
                .help("Colours of the window"),
        )
        .arg(
            Arg::new("board")
                .long("on")
                .alias("board")
                .value_name("TARGET")
                .conflicts_with("screenshot")
                .help("Target that the window selects for a replay [default: software:mali-g71]"),
        )
        .subcommands(verbs)
}

/// Runs the command line of this process and returns its exit code.
#[must_use]
pub fn main() -> u8 {
    if let Err(e) = crate::bus::install() {
        eprintln!("kinescope: cannot handle SIGBUS: {e}; if a recording shrinks while it is read, no message names it");
    }
    let arguments: Vec<OsString> = std::env::args_os().collect();
    // Not a verb for users: another process of this program uses it to replay on a CUDA device.
    if arguments.len() == 2 && arguments.get(1).is_some_and(|a| a == PLAY_CALLS) {
        return match replay_engine::device::cuda::worker::serve_request(std::io::stdin(), std::io::stdout()) {
            Ok(()) => 0,
            Err(e) => {
                failure::complain(format_args!("standard input or output: {e}"));
                2
            }
        };
    }
    if let Some(wrong) = typo::find_unknown_verb(arguments.get(1..).unwrap_or_default()) {
        let code = wrong.code();
        failure::complain(wrong);
        return code;
    }
    let matches = match command().try_get_matches_from(&arguments) {
        Ok(m) => m,
        Err(e) => {
            if let Some(wrong) = typo::suggest_option(&e, &command(), arguments.get(1..).unwrap_or_default()) {
                let code = wrong.code();
                failure::complain(wrong);
                return code;
            }
            let code = if e.use_stderr() { 2 } else { 0 };
            // A closed pipe is not an error for help output.
            let _ = e.print();
            return code;
        }
    };
    let result = match matches.subcommand() {
        Some((name, sub)) => match VERBS.iter().find(|v| v.name == name) {
            Some(verb) => {
                if let Err(e) = signals::install() {
                    failure::complain(format_args!(
                        "cannot handle signals: {e}; a signal ends the program without cleaning up"
                    ));
                }
                limit::set_from_arguments(sub);
                let mut out = Out::stdout(sub.get_flag("json"));
                let done = (verb.run)(sub, &mut out);
                let done = done.and_then(|exit| out.flush().map(|()| exit).map_err(Failure::from));
                // A failure prints its own reason.
                match done {
                    Ok(exit) if source::report_damage() && exit == Exit::Good => Ok(Exit::Differs),
                    done => done,
                }
            }
            None => Err(Failure::usage(format!("no verb '{name}'"))),
        },
        None => window(&matches),
    };
    match result {
        Ok(exit) => exit.code(),
        Err(failure) if failure.is_closed_pipe() => 0,
        Err(failure) => {
            let code = failure.code();
            failure::complain(failure);
            code
        }
    }
}

/// Opens the window, or renders it off-screen.
fn window(matches: &ArgMatches) -> Result<Exit, Failure> {
    let opened = matches
        .get_one::<PathBuf>("file")
        .map(|f| link::resolve_file(f))
        .transpose()?;
    let (file, mut goal) = match &opened {
        Some((file, goal)) => (Some(file), goal.clone()),
        None => (None, None),
    };
    if let Some(event) = matches.get_one::<u64>("at") {
        goal.get_or_insert_default().scene.event = *event;
    }
    let theme = matches.get_one::<String>("theme");
    let theme = theme.and_then(|name| ThemeChoice::from_name(name));
    if let Some(file) = file
        && !file.exists()
    {
        return Err(Failure::file(
            file,
            "no such file or folder (expected a recording, or a verb: see --help)",
        ));
    }
    let compare = matches.get_one::<PathBuf>("compare");
    if let Some(other) = compare
        && !other.exists()
    {
        return Err(Failure::file(
            other,
            "no such file or folder (expected a recording to compare with)",
        ));
    }
    let fail = |e: anyhow::Error| match file {
        Some(f) => Failure::file(f, format!("{e:#}")),
        None => Failure::usage(format!("{e:#}")),
    };
    match (matches.get_one::<PathBuf>("screenshot"), file) {
        (Some(out), Some(file)) => {
            let size = matches.get_one::<[f32; 2]>("size").copied().unwrap_or(DEFAULT_SIZE);
            let scale = matches.get_one::<f32>("scale").copied().unwrap_or(1.0);
            outputs::CommandFiles::for_recording(file)
                .with_output("--screenshot", Some(out))
                .check()?;
            check_picture_name(out)?;
            disable_device_choice();
            let shot = Shot {
                size,
                scale,
                theme: theme.unwrap_or_default(),
                commands: COMMANDS,
            };
            let compare = compare.cloned();
            let panel = matches.get_one::<String>("panel").map(String::as_str);
            render_picture(file, AfterOpen { compare, goal }, out, (&shot, panel)).map_err(fail)?;
        }
        _ if !has_display() => {
            return Err(Failure::usage(
                "there is no display here for a window (neither DISPLAY nor WAYLAND_DISPLAY is set); \
                 `kinescope --screenshot OUT.png FILE` draws the window into a picture, and `kinescope --help` lists \
                 what works in a terminal",
            ));
        }
        _ => {
            let target = matches.get_one::<String>("board").cloned();
            let compare = compare.cloned();
            let afterwards = AfterOpen { compare, goal };
            let options = Options {
                theme,
                target,
                afterwards,
            };
            crate::window::run(file.cloned(), options, COMMANDS).map_err(fail)?;
        }
    }
    Ok(Exit::Good)
}

/// Renders the window with a recording off-screen, or one panel of it, once all its content is ready. Writes the
/// picture in the format of the file name.
fn render_picture(file: &Path, afterwards: AfterOpen, out: &Path, how: (&Shot, Option<&str>)) -> anyhow::Result<()> {
    let (shot, panel) = how;
    let mut studio = Studio::new(shot, Progress::new())?;
    studio.open(file, afterwards)?;
    if let Some(panel) = panel {
        studio.show_panel(panel)?;
    }
    Ok(kinescope_files::output::write(out, &studio.picture(out, panel)?)?)
}

/// Returns whether a window can be opened at all. Systems other than Linux always have a display.
fn has_display() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|v| !v.is_empty());
    !cfg!(target_os = "linux") || ["DISPLAY", "WAYLAND_DISPLAY", "WAYLAND_SOCKET"].into_iter().any(set)
}

/// Returns an error for a picture name whose format cannot be written.
fn check_picture_name(out: &Path) -> Result<(), Failure> {
    match PictureForm::from_path(out) {
        Some(_) => Ok(()),
        None => Err(Failure::file(out, UNKNOWN_FORMAT)),
    }
}

/// Restarts this program in the same process if a Vulkan device selection layer would print an error that there is no
/// Wayland display. The layer lets a user choose among devices, which an off-screen picture does not need. If the
/// restart is not possible, the error stays.
fn disable_device_choice() {
    use std::os::unix::process::CommandExt as _;
    const OFF: &str = "NODEVICE_SELECT";
    let has_folder = std::env::var_os("XDG_RUNTIME_DIR").is_some_and(|v| Path::new(&v).is_absolute());
    if has_folder || !cfg!(target_os = "linux") || std::env::var_os(OFF).is_some() {
        return;
    }
    let mut arguments = std::env::args_os();
    let mut again = std::process::Command::new("/proc/self/exe");
    if let Some(name) = arguments.next() {
        again.arg0(name);
    }
    // `exec` returns only on failure.
    let _failed = again.args(arguments).env(OFF, "1").exec();
}

/// Default size of a picture, points.
const DEFAULT_SIZE: [f32; 2] = [1280.0, 800.0];

/// Parses `WIDTHxHEIGHT` in points.
fn size(text: &str) -> Result<[f32; 2], String> {
    let parse = |t: &str| t.parse::<u16>().ok().filter(|v| (64..=8192).contains(v)).map(f32::from);
    let both = text.split_once('x').and_then(|(w, h)| Some([parse(w)?, parse(h)?]));
    both.ok_or_else(|| format!("'{text}' is not a size (expected WIDTHxHEIGHT, 64 to 8192 each)"))
}

/// Parses the number of pixels per point.
fn scale(text: &str) -> Result<f32, String> {
    let value = text.parse::<f32>().ok().filter(|v| (0.5..=4.0).contains(v));
    value.ok_or_else(|| format!("'{text}' is not a scale (expected 0.5 to 4)"))
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
