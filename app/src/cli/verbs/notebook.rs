//! `notebook`: prints the notes of a recording, or exports them with a picture of the window for each entry.

use crate::cli::failure::complain;
use crate::cli::out::format_count;
use crate::cli::outputs::CommandFiles;
use crate::cli::source::Source;
use crate::cli::window_arguments::DEFAULT_SIZE;
use crate::cli::{Exit, Failure, Out, Verb, progress_line};
use crate::commands::COMMANDS;
use crate::theme::ThemeChoice;
use crate::window::{NotebookFormat, Shot, write_notebook};
use clap::{Args, FromArgMatches as _};
use kinescope_files::link;
use kinescope_session::{Document, derive, notebook};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;

pub const VERB: Verb = Verb {
    name: "notebook",
    about: "Print the notes of a recording, or export them with pictures",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    source: Source,
    /// File to write: .md with its pictures in a folder next to it, or .html with embedded pictures
    #[arg(short = 'o', value_name = "OUT")]
    to: Option<PathBuf>,
    /// Leave out the pictures of the window
    #[arg(long, requires = "to")]
    without_pictures: bool,
    /// Colours of the pictures
    #[arg(long, value_parser = ThemeChoice::ALL.map(ThemeChoice::name), default_value = "light", requires = "to")]
    theme: String,
}

/// The notes of a recording, and the written file, which the session does not know.
#[derive(Serialize)]
struct Report {
    /// The notes in the order of their events.
    notes: Vec<NoteReport>,
    /// The written file; `null` without `-o`.
    path: Option<String>,
    /// Number of drawn pictures.
    pictures: u64,
    /// Why requested pictures are missing.
    without_pictures: Option<String>,
}

/// A note, with its event and selection as text.
#[derive(Serialize)]
struct NoteReport {
    /// The event.
    event: u64,
    /// Time from the first event.
    ns: u64,
    /// The last job that started there; `null` before the first.
    job: Option<u32>,
    /// The event in words.
    what: String,
    /// The note.
    text: String,
    /// The selection in words; `null`: only the event.
    selected: Option<String>,
    /// Panels that are shown.
    panels: Vec<String>,
    /// Link to the event.
    link: String,
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let file = &arguments.source.file;
    CommandFiles::for_recording(file)
        .with_output("-o", arguments.to.as_deref())
        .check()?;
    if let Some(to) = arguments.to.as_ref().filter(|t| NotebookFormat::from_path(t).is_none()) {
        let message = "the file name does not select a format (expected .md or .html)";
        return Err(Failure::file(to, message));
    }
    let opened = arguments.source.open_undamaged()?;
    let recording = Arc::new(opened.recording);
    let derived = progress_line::run_with_progress("reading", |progress, _| {
        derive::derive(&recording, progress).map_err(|e| Failure::file(file, e))
    })?;
    let doc = Document::new(file.clone(), recording, Arc::new(derived));
    if let Some(notice) = &doc.notice {
        complain(notice);
    }
    if let Some(left) = &doc.offered {
        let notes = left.changes.notes().len() as u64;
        complain(format_args!(
            "{} of a session that did not end normally {} missing: open the recording in the window and restore the unsaved \
             edits",
            format_count(notes, "note"),
            if notes == 1 { "is" } else { "are" }
        ));
    }
    let entries = notebook::entries(&doc);
    let title = doc.title.clone();
    let about = notebook::describe_recording(&doc);
    let written = match &arguments.to {
        Some(to) => {
            let theme = ThemeChoice::from_name(&arguments.theme).unwrap_or(ThemeChoice::Light);
            let shot = Shot {
                size: DEFAULT_SIZE,
                scale: 1.0,
                theme,
                commands: COMMANDS,
            };
            let shot = (!arguments.without_pictures).then_some(&shot);
            Some(progress_line::run_with_progress("drawing", |progress, _| {
                write_notebook(doc, to, shot, progress).map_err(|e| Failure::usage(e.to_string()))
            })?)
        }
        None => None,
    };
    let path = arguments.to.as_ref().map(|p| p.display().to_string());
    if out.is_json() {
        let notes = entries.into_iter().map(|e| NoteReport {
            event: e.scene.event,
            ns: e.ns,
            job: e.job,
            what: e.line,
            text: e.text,
            selected: Some(e.selected).filter(|s| !s.is_empty()),
            panels: e.scene.panels,
            link: e.link,
        });
        out.value(&Report {
            notes: notes.collect(),
            path,
            pictures: written.as_ref().map_or(0, |w| w.pictures),
            without_pictures: written.and_then(|w| w.no_pictures_reason),
        })?;
        return Ok(Exit::Good);
    }
    match (written, path) {
        (Some(w), Some(path)) => {
            out.line(format!(
                "wrote {path}: {}, {}",
                format_count(w.notes, "note"),
                format_count(w.pictures, "picture")
            ))?;
            if let Some(why) = w.no_pictures_reason {
                complain(format_args!("no pictures: {why}"));
            }
        }
        _ if entries.is_empty() => {
            out.line(format!(
                "{title}: no notes; the key M in the window adds a note to an event, and {}: links open it",
                link::SCHEME
            ))?;
        }
        _ => out.line(notebook::markdown(&title, &about, &entries, &[]).trim_end())?,
    }
    Ok(Exit::Good)
}
