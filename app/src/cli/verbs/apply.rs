//! `apply`: writes a copy of a recording with changed inputs. It replays to the edited result without further options.

use crate::cli::outputs::CommandFiles;
use crate::cli::replay_arguments::Inputs;
use crate::cli::source::Source;
use crate::cli::{Exit, Failure, Out, Verb, progress_line, wasm_recordings};
use clap::{Args, FromArgMatches as _};
use kinescope_session::plans::apply;
use kinescope_session::trim_recording::source_name;
use serde::Serialize;
use std::path::PathBuf;
use trace_core::recording::AppliedEdit;
use trace_core::timeline;

pub const VERB: Verb = Verb {
    name: "apply",
    about: "Write a copy of a recording with other inputs",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    inputs: Inputs,
    /// File to write, a .kine
    #[arg(short = 'o', value_name = "OUT.kine")]
    to: PathBuf,
}

/// The written copy: its file, which the engine does not know, and its edits.
#[derive(Serialize)]
struct Report {
    /// The written file, and its size.
    path: String,
    bytes: u64,
    /// The changed inputs.
    edits: Vec<AppliedEdit>,
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    if arguments.inputs.is_empty() {
        return Err(Failure::usage(
            "nothing to apply: give --input NAME=FILE for each input to change",
        ));
    }
    let file = &arguments.source.file;
    let at = arguments
        .inputs
        .add_to_files(CommandFiles::for_recording(file))
        .with_output("-o", Some(&arguments.to))
        .check_kine(&arguments.to)?;
    let opened = arguments.source.open_undamaged()?;
    wasm_recordings::reject_run(
        &opened,
        "its results belong to its inputs; `kinescope replay --on cpu --input NAME=FILE -o OUT.kine` runs it with other \
         inputs",
    )?;
    let edits = arguments.inputs.edits(&opened)?;
    let before = opened.recording.metadata.applied_edits.len();
    let edited = progress_line::run_with_progress("applying edits", |progress, _| {
        apply(&opened.recording, &edits, &source_name(file), progress).map_err(|e| Failure::file(file, e))
    })?;
    progress_line::run_with_progress("writing", |progress, _| {
        timeline::write(&edited, &at, progress).map_err(|e| Failure::file(&arguments.to, e))
    })?;
    let bytes = std::fs::metadata(&arguments.to)
        .map_err(|e| Failure::file(&arguments.to, e))?
        .len();
    let report = Report {
        path: arguments.to.display().to_string(),
        bytes,
        edits: edited.metadata.applied_edits.get(before..).unwrap_or_default().to_vec(),
    };
    if out.is_json() {
        out.value(&report)?;
        return Ok(Exit::Good);
    }
    out.line(format_args!("written  {}, {bytes} bytes", report.path))?;
    for edit in &report.edits {
        out.line(format_args!("edited   {}, {} bytes", edit.buffer, edit.bytes))?;
    }
    out.line("results  as they were recorded: replay the copy to compute new ones")?;
    Ok(Exit::Good)
}
