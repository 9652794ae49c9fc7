//! Arguments of the program without a verb: it opens the window, or renders it into a picture.

use super::{Exit, Failure, link_arguments, outputs};
use crate::commands::COMMANDS;
use crate::theme::ThemeChoice;
use crate::window::{AfterOpen, Options, PictureForm, Shot, Studio, UNKNOWN_FORMAT};
use clap::{Arg, ArgMatches, Command};
use std::path::{Path, PathBuf};
use trace_core::progress::Progress;

/// Default size of a picture, points.
pub const DEFAULT_SIZE: [f32; 2] = [1280.0, 800.0];

/// Adds the arguments to the command of the program.
pub fn add_arguments(command: Command) -> Command {
    command
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .value_parser(clap::value_parser!(PathBuf))
                .help("Recording to open in the window: a .kine, a folder or file that can be imported, or a kinescope: link"),
        )
        .arg(
            Arg::new("follow")
                .long("follow")
                .requires("file")
                .conflicts_with_all(["at", "compare", "screenshot"])
                .action(clap::ArgAction::SetTrue)
                .help("Follow FILE while a recorder writes it; the window waits for a file that does not exist yet"),
        )
        .arg(
            Arg::new("at")
                .long("at")
                .value_name("EVENT")
                .requires("file")
                .value_parser(link_arguments::event)
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
                .value_parser(link_arguments::panel)
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
}

/// Opens the window, or renders it off-screen.
pub fn open(matches: &ArgMatches) -> Result<Exit, Failure> {
    let follow = matches.get_flag("follow");
    let opened = matches
        .get_one::<PathBuf>("file")
        .map(|f| match follow {
            // The file need not exist.
            true => Ok((f.clone(), None)),
            false => link_arguments::resolve_file(f),
        })
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
    if let Some(file) = file.filter(|_| follow) {
        check_followed(file)?;
    }
    if let Some(file) = file
        && !follow
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
            render_picture(
                file,
                AfterOpen {
                    compare,
                    goal,
                    panel: None,
                },
                out,
                (&shot, panel),
            )
            .map_err(fail)?;
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
            let afterwards = AfterOpen {
                compare,
                goal,
                panel: None,
            };
            let options = Options {
                theme,
                target,
                afterwards,
                follow,
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

/// Returns an error for a path that no recorder can write.
fn check_followed(file: &Path) -> Result<(), Failure> {
    let folder = file.parent().filter(|f| !f.as_os_str().is_empty());
    match folder {
        _ if file.is_dir() => Err(Failure::file(
            file,
            "it is a folder (expected the file that a recorder writes, or will write)",
        )),
        Some(folder) if !folder.is_dir() => {
            Err(Failure::file(folder, "no such folder (expected that of the recording)"))
        }
        _ => Ok(()),
    }
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
