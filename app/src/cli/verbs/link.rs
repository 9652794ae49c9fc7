//! `link`: prints a link to an event of a recording, and registers this program on the desktop for such links.

use crate::cli::link_arguments::{event, panel};
use crate::cli::source::Source;
use crate::cli::{Exit, Failure, Out, Verb};
use clap::{Args, FromArgMatches as _};
use kinescope_files::link::{self, Link, SCHEME};
use kinescope_files::output;
use kinescope_files::scene::{Scene, Selection};
use serde::Serialize;
use std::path::{Path, PathBuf};

pub const VERB: Verb = Verb {
    name: "link",
    about: "Print a link that opens a recording at an event",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

#[derive(Args)]
struct Arguments {
    /// Recording: a .kine, or a folder or file that can be imported
    #[arg(value_name = "FILE", required_unless_present = "register")]
    file: Option<PathBuf>,
    /// Index of the current event of the link [default: 0]
    #[arg(long, value_name = "EVENT", value_parser = event, requires = "file")]
    at: Option<u64>,
    /// Selection: register:OFFSET, job:N, buffer:NAME, memory:SPACE:ADDRESS:BYTES, entry:SPACE:ADDRESS:LEVEL,
    /// framebuffer:SPACE:OFFSET:BYTES, finding:N, note:EVENT
    #[arg(long, value_name = "WHAT", value_parser = selection, requires = "file")]
    select: Option<Selection>,
    /// Panel to bring to the front, by its name: events, memory, page-tables; may be given more than once
    #[arg(long, value_name = "PANEL", value_parser = panel, requires = "file")]
    show: Vec<String>,
    /// Register this program for kinescope: links on this user's desktop
    #[arg(long, conflicts_with = "file")]
    register: bool,
}

fn selection(text: &str) -> Result<Selection, String> {
    link::parse_selection(text).map_err(|e| format!("'{text}' is no {e}"))
}

/// A link as text.
#[derive(Serialize)]
struct Report {
    /// The link.
    link: String,
}

/// The registration of the program on the desktop, which only the command line makes.
#[derive(Serialize)]
struct RegistrationReport {
    /// The entry among the user's applications.
    registered: String,
    /// The program that opens links.
    program: String,
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let Some(file) = arguments.file.as_ref().filter(|_| !arguments.register) else {
        return register(out);
    };
    let opened = Source { file: file.clone() }.open()?;
    let events = opened.recording.events.len() as u64;
    let event = arguments.at.unwrap_or(0);
    if event >= events {
        let have = match events {
            0 => "it holds no events".to_owned(),
            n => format!("its events are 0 to {}", n - 1),
        };
        return Err(Failure::file(file, format!("there is no event {event}: {have}")));
    }
    let whole = file.canonicalize().map_err(|e| Failure::file(file, e))?;
    let scene = Scene {
        event,
        selection: arguments.select.clone().unwrap_or_default(),
        panels: arguments.show.clone(),
    };
    let link = Link::new(&whole, events, scene).to_string();
    if out.is_json() {
        out.value(&Report { link })?;
    } else {
        out.line(&link)?;
    }
    Ok(Exit::Good)
}

/// Adds an entry for this program to the user's applications (freedesktop.org, Desktop Entry 1.5 and MIME applications
/// 1.0.1), and makes it the default for links.
fn register(out: &mut Out) -> Result<Exit, Failure> {
    let Some(dirs) = directories::BaseDirs::new() else {
        return Err(Failure::usage("cannot register links: the user has no home folder"));
    };
    let program =
        std::env::current_exe().map_err(|e| Failure::usage(format!("cannot find the path of this program: {e}")))?;
    let folder = dirs.data_local_dir().join("applications");
    std::fs::create_dir_all(&folder).map_err(|e| Failure::file(&folder, e))?;
    let entry = folder.join("kinescope.desktop");
    output::write(&entry, desktop_entry(&program)?.as_bytes())?;
    let list = dirs.config_dir().join("mimeapps.list");
    let before = match std::fs::read_to_string(&list) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(e) => return Err(Failure::file(&list, e)),
    };
    std::fs::create_dir_all(dirs.config_dir()).map_err(|e| Failure::file(dirs.config_dir(), e))?;
    output::write(&list, add_default_handler(&before).as_bytes())?;
    if out.is_json() {
        out.value(&RegistrationReport {
            registered: entry.display().to_string(),
            program: program.display().to_string(),
        })?;
    } else {
        out.line(format!("{SCHEME}: links open with {}", program.display()))?;
        out.line(format!("registered in {} and {}", entry.display(), list.display()))?;
    }
    Ok(Exit::Good)
}

fn desktop_entry(program: &Path) -> Result<String, Failure> {
    let path = program.to_str().filter(|p| !p.chars().any(char::is_control));
    let Some(path) = path else {
        return Err(Failure::file(program, "a desktop cannot start a program of this name"));
    };
    // An argument in quotes. The file format doubles the backslashes of the string.
    let mut quoted = String::new();
    for c in path.chars() {
        if matches!(c, '"' | '`' | '$' | '\\') {
            quoted.push('\\');
        }
        quoted.push(c);
        if c == '%' {
            quoted.push('%');
        }
    }
    let quoted = quoted.replace('\\', "\\\\");
    Ok(format!(
        "[Desktop Entry]\nType=Application\nName=Kinescope\nComment=Inspect, edit and replay recordings of GPU work\n\
         Exec=\"{quoted}\" %u\nTerminal=false\nIcon=kinescope\nCategories=Development;Debugger;\n\
         MimeType=x-scheme-handler/{SCHEME};application/x-kinescope-recording;\n"
    ))
}

/// Returns the list of default applications with this program as the one for links. Keeps every other line.
fn add_default_handler(list: &str) -> String {
    const GROUP: &str = "[Default Applications]";
    let key = format!("x-scheme-handler/{SCHEME}=");
    let ours = format!("{key}kinescope.desktop");
    let mut out: Vec<&str> = Vec::new();
    let (mut within, mut done) = (false, false);
    for line in list.lines() {
        if line.trim_start().starts_with('[') {
            within = line.trim() == GROUP;
            out.push(line);
            if within && !done {
                out.push(&ours);
                done = true;
            }
        } else if !(within && line.starts_with(&key)) {
            out.push(line);
        }
    }
    if !done {
        out.extend([GROUP, &ours]);
    }
    out.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn desktop_entry_quotes_any_program_path() {
        let entry = desktop_entry(Path::new("/opt/my $tools/100%/kine\"scope")).unwrap();
        let exec = entry.lines().find(|l| l.starts_with("Exec=")).unwrap();
        assert_eq!(exec, r#"Exec="/opt/my \\$tools/100%%/kine\\"scope" %u"#);
        assert!(desktop_entry(Path::new("/a\nb")).is_err());
    }

    #[test]
    fn default_handler_keeps_other_desktop_defaults() {
        let before = "[Added Associations]\na=b;\n[Default Applications]\ntext/html=x.desktop\nx-scheme-handler/kinescope=old.desktop\n";
        let after = add_default_handler(before);
        assert_eq!(
            after,
            "[Added Associations]\na=b;\n[Default Applications]\nx-scheme-handler/kinescope=kinescope.desktop\n\
             text/html=x.desktop\n"
        );
        assert_eq!(add_default_handler(&after), after);
        assert_eq!(
            add_default_handler(""),
            "[Default Applications]\nx-scheme-handler/kinescope=kinescope.desktop\n"
        );
    }
}
