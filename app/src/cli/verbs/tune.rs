//! `tune`: repeats a recorded launch with other dimensions, bounds or code, and reports the fastest correct one.

mod arguments;
mod report;
mod text;

use crate::cli::outputs::CommandFiles;
use crate::cli::replay_arguments::{Inputs, Keys};
use crate::cli::source::Source;
use crate::cli::{Exit, Failure, Out, Verb, progress_line, signals};
use arguments::TuneArguments;
use clap::{Args, FromArgMatches as _};
use kinescope_session::targets::factories;
use kinescope_session::tuning::launches::Launches;
use kinescope_session::tuning::table::{self, Columns};
use kinescope_session::tuning::tune_on_target;
use std::path::PathBuf;
use trace_query::Format;

pub const VERB: Verb = Verb {
    name: "tune",
    about: "Measure a CUDA launch with other dimensions, bounds or code",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    source: Source,
    /// Target with a CUDA device: cuda:N, agent:NAME/cudaN; the verb `targets` lists the available ones
    #[arg(long, value_name = "TARGET")]
    on: String,
    #[command(flatten)]
    asking: TuneArguments,
    #[command(flatten)]
    inputs: Inputs,
    /// Write the table to this file, as comma-separated text
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the table to this file, with the columns of RecordReplay's tuner
    #[arg(long, value_name = "FILE")]
    csv_recordreplay: Option<PathBuf>,
    /// Write the table to this file, as Parquet
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
    /// Show every point, not only the first ones
    #[arg(long)]
    table: bool,
    #[command(flatten)]
    keys: Keys,
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let files = arguments
        .asking
        .modules()
        .iter()
        .fold(CommandFiles::for_recording(&arguments.source.file), |files, module| {
            files.with_input("--module", module)
        });
    arguments
        .inputs
        .add_to_files(files)
        .with_output("--csv", arguments.csv.as_deref())
        .with_output("--csv-recordreplay", arguments.csv_recordreplay.as_deref())
        .with_output("--parquet", arguments.parquet.as_deref())
        .check()?;
    factories().prestart_worker(&arguments.on);
    let opened = arguments.source.open_undamaged()?;
    let file = &arguments.source.file;
    let launches = Launches::from_recording(&opened.recording)
        .ok_or_else(|| Failure::file(file, "not an API trace of CUDA, which is what `tune` needs"))?;
    let tune = arguments.asking.tune(file, &opened.recording, &launches)?;
    let edits = arguments.inputs.edits(&opened)?;
    let tuned = progress_line::run_with_progress("tuning", |progress, _| {
        let (targets, changed) = (arguments.keys.targets(), (&opened.recording, &edits));
        let tuned = tune_on_target(&targets, &arguments.on, changed, &tune, progress);
        tuned.map_err(|e| Failure::usage(e.to_string()))
    })?;
    for (path, columns, format) in [
        (&arguments.csv, Columns::All, Format::Csv),
        (&arguments.csv_recordreplay, Columns::RecordReplay, Format::Csv),
        (&arguments.parquet, Columns::All, Format::Parquet),
    ] {
        if let Some(path) = path {
            table::write_file(&tuned, columns, format, path).map_err(|e| Failure::file(path, e))?;
        }
    }
    if out.is_json() {
        out.value(&report::report(&tuned, &arguments.on))?;
    } else {
        text::print(&tuned, &arguments.on, arguments.table, out)?;
    }
    // The points that were tested until then are reported anyway.
    if let Some(code) = signals::requested_exit_code() {
        return Ok(Exit::Program(code));
    }
    Ok(Exit::differs_if(
        tuned.baseline.rejected.is_some() || tuned.best.is_none(),
    ))
}
