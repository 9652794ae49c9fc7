//! `export`: writes a table of a recording as a Parquet, Arrow or CSV file. It also writes the events as a waveform or
//! a trace, or the replay as a standalone program or as a file for one.

mod channel;
mod program;

use crate::cli::failure::complain;
use crate::cli::out::format_count;
use crate::cli::outputs::CommandFiles;
use crate::cli::source::Source;
use crate::cli::{Exit, Failure, Out, Verb, event_filter, progress_line};
use clap::{Args, FromArgMatches as _, ValueEnum};
use kinescope_files::output::{self, OutputError};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use trace_core::progress::Progress;
use trace_query::{ExportSummary, Format, Table};
use trace_waves::{Clock, WavesError};

pub const VERB: Verb = Verb {
    name: "export",
    about: "Export a recording as a table, waveform, trace or program",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    source: Source,
    /// Table to export: events, jobs, registers, pages, mappings or buffers [default: events]
    #[arg(long, value_name = "TABLE", value_parser = table)]
    table: Option<Table>,
    /// Other format: vcd or fst for a waveform of the registers, perfetto for a trace, program for the replay as a Rust
    /// crate without std and as a C library that firmware can link, channel for the replay on an NVIDIA GPU as a file
    /// for the static executable replay-channel. A name that ends in .vcd, .fst, .pftrace or .chan implies it
    #[arg(
        long = "to",
        value_name = "FORMAT",
        value_enum,
        conflicts_with = "table",
        id = "as_what"
    )]
    what: Option<ExportFormat>,
    /// Export only events that pass this filter (docs/query.md); of the tables, only `events` accepts it
    #[arg(long = "where", value_name = "EXPR")]
    filter: Option<String>,
    /// Time axis with --to vcd, fst or perfetto: the recorder's clock or the index of each event
    #[arg(long, value_name = "CLOCK", value_enum, conflicts_with = "table")]
    clock: Option<ClockName>,
    #[command(flatten)]
    program: program::Choices,
    /// File to write; for a table the name selects the format: .parquet, .arrow or .csv. With --to program, the folder
    /// to write
    #[arg(short = 'o', value_name = "OUT")]
    to: PathBuf,
}

/// Export formats other than tables.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ExportFormat {
    /// A waveform as text, for every viewer
    Vcd,
    /// A packed waveform
    Fst,
    /// A trace for ui.perfetto.dev
    Perfetto,
    /// The replay as source code
    Program,
    /// The replay on an NVIDIA GPU as a file for the static executable replay-channel
    Channel,
}

impl ExportFormat {
    /// Returns the format that a file name selects.
    fn from_path(file: &Path) -> Option<Self> {
        match file.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "vcd" => Some(Self::Vcd),
            "fst" => Some(Self::Fst),
            "pftrace" | "perfetto-trace" => Some(Self::Perfetto),
            "chan" => Some(Self::Channel),
            _ => None,
        }
    }
}

/// The time axis of a waveform.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ClockName {
    /// Nanoseconds of the recorder's clock
    Time,
    /// One nanosecond per event, so that no event hides another
    Events,
}

fn table(text: &str) -> Result<Table, String> {
    let names = Table::ALL.map(Table::name);
    let found = Table::ALL.into_iter().find(|t| t.name() == text);
    found.ok_or_else(|| format!("'{text}' is not a table (expected {})", names.join(", ")))
}

/// The written table: its file, which the engine does not know, and its rows.
#[derive(Serialize)]
struct Report {
    /// The written file.
    path: String,
    /// Name of the table.
    table: &'static str,
    /// Number of rows.
    rows: u64,
    /// What the table lacks, in words.
    problems: Vec<String>,
}

/// The reason why nothing was exported, as text.
struct ExportError(String);

impl From<OutputError> for ExportError {
    fn from(e: OutputError) -> Self {
        Self(e.to_string())
    }
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let to = &arguments.to;
    let what = arguments
        .what
        .or_else(|| ExportFormat::from_path(to).filter(|_| arguments.table.is_none()));
    let table = match (what, arguments.table) {
        (None, _) if arguments.clock.is_some() => {
            return Err(Failure::usage(
                "--clock is for waveforms and traces (expected --to vcd, fst or perfetto)",
            ));
        }
        (None, table) => table.unwrap_or(Table::Events),
        (Some(ExportFormat::Vcd), _) => return waves(arguments, trace_waves::vcd, out),
        (Some(ExportFormat::Fst), _) => return waves(arguments, trace_waves::fst, out),
        (Some(ExportFormat::Perfetto), _) => return waves(arguments, trace_waves::perfetto, out),
        _ if arguments.filter.is_some() || arguments.clock.is_some() => {
            return Err(Failure::usage(
                "a program or channel file replays the whole recording: --where and --clock are for waveforms and traces",
            ));
        }
        (Some(ExportFormat::Channel), _) => return channel::run(&arguments.source, &arguments.program, to, out),
        (Some(ExportFormat::Program), _) => return program::run(&arguments.source, &arguments.program, to, out),
    };
    if let Some(option) = arguments.program.given() {
        return Err(Failure::usage(format!("{option} requires --to program or channel")));
    }
    if arguments.filter.is_some() && table != Table::Events {
        return Err(Failure::usage(format!(
            "--where selects events, and the table {} has none (expected --table events)",
            table.name()
        )));
    }
    let format = Format::from_path(to).ok_or_else(|| {
        Failure::file(
            to,
            "the file name does not select a format (expected .parquet, .arrow or .csv; .vcd, .fst, .pftrace or .chan)",
        )
    })?;
    CommandFiles::for_recording(&arguments.source.file)
        .with_output("-o", Some(to))
        .check()?;
    let opened = arguments.source.open()?;
    let timeline = match table {
        Table::Jobs | Table::Shaders => opened.timeline()?,
        _ => Default::default(),
    };
    let among = match &arguments.filter {
        Some(text) => Some(event_filter::select("--where", text, &opened)?),
        None => None,
    };
    let mut exported = ExportSummary::default();
    let mut used = Ok(());
    progress_line::run_with_progress("exporting", |progress, _| {
        let written = output::write_with(to, |file| {
            let done = match &among {
                Some(among) => trace_query::export_events(&opened.recording, among, format, file, progress),
                None => trace_query::export(table, &opened.recording, &timeline, format, file, progress),
            };
            exported = done.map_err(|e| ExportError(e.to_string()))?;
            used = opened.check_used();
            used.as_ref().map_err(|e| ExportError(e.to_string())).copied()
        });
        // Damage is an error of the source, not of the file to write.
        std::mem::replace(&mut used, Ok(()))?;
        written.map_err(|ExportError(why)| Failure::file(to, why))
    })?;
    if out.is_json() {
        out.value(&Report {
            path: to.display().to_string(),
            table: table.name(),
            rows: exported.rows,
            problems: exported.problems,
        })?;
    } else {
        for problem in &exported.problems {
            complain(format_args!("{problem}; its content is not in the table"));
        }
        let rows = format_count(exported.rows, "row");
        out.line(format_args!("{}: {}, {rows}", to.display(), table.name()))?;
    }
    Ok(Exit::Good)
}

/// The written waveform or trace: what the export returns, whose crate needs no serialization, and the path.
#[derive(Serialize)]
struct WavesReport {
    /// The file and its events.
    path: String,
    events: u64,
    /// Number of signals; for Perfetto, of tracks.
    signals: u64,
    /// Number of events beyond the signals of a file.
    left_out: u64,
    /// Number of events whose time ran backwards.
    held_back: u64,
    /// Number of jobs and threads without a track of their own.
    jobs_left_out: u64,
    threads_joined: u64,
}

/// Writes one of the waveform and trace formats.
type WriteWaves =
    fn(&trace_waves::Source<'_>, &mut dyn Write, &Progress) -> Result<trace_waves::ExportSummary, WavesError>;

fn waves(arguments: &Arguments, write: WriteWaves, out: &mut Out) -> Result<Exit, Failure> {
    if let Some(option) = arguments.program.given() {
        return Err(Failure::usage(format!("{option} requires --to program or channel")));
    }
    let to = &arguments.to;
    CommandFiles::for_recording(&arguments.source.file)
        .with_output("-o", Some(to))
        .check()?;
    let opened = arguments.source.open()?;
    let timeline = opened.timeline()?;
    let among = match &arguments.filter {
        Some(text) => Some(event_filter::select("--where", text, &opened)?),
        None => None,
    };
    let source = trace_waves::Source {
        recording: &opened.recording,
        timeline: &timeline,
        events: among.as_ref(),
        clock: match arguments.clock {
            Some(ClockName::Events) => Clock::Events,
            _ => Clock::Time,
        },
    };
    let mut done = trace_waves::ExportSummary::default();
    let mut used = Ok(());
    progress_line::run_with_progress("exporting", |progress, _| {
        let written = output::write_with(to, |file| {
            done = write(&source, file, progress).map_err(|e| ExportError(e.to_string()))?;
            used = opened.check_used();
            used.as_ref().map_err(|e| ExportError(e.to_string())).copied()
        });
        // Damage is an error of the source, not of the file to write.
        std::mem::replace(&mut used, Ok(()))?;
        written.map_err(|ExportError(why)| Failure::file(to, why))
    })?;
    if source.clock == Clock::Time && opened.recording.counts_ticks() {
        complain("the clock of the recording counts ticks: a nanosecond of the file is one tick");
    }
    if done.left_out > 0 {
        let events = format_count(done.left_out, "event");
        complain(format_args!(
            "{events} access registers beyond the maximum of {} in a file; --where selects fewer events",
            trace_waves::MAX_SIGNALS
        ));
    }
    if done.jobs_left_out > 0 {
        let jobs = format_count(done.jobs_left_out, "job");
        complain(format_args!(
            "{jobs} overlap more than {} others of their slot and have no slice; --where selects fewer events",
            trace_waves::MAX_LANES
        ));
    }
    if done.threads_joined > 0 {
        complain(format_args!(
            "more than {} threads: the others share the track `Other threads`",
            trace_waves::MAX_THREADS
        ));
    }
    if out.is_json() {
        out.value(&WavesReport {
            path: to.display().to_string(),
            events: done.events,
            signals: done.signals,
            left_out: done.left_out,
            held_back: done.held_back,
            jobs_left_out: done.jobs_left_out,
            threads_joined: done.threads_joined,
        })?;
    } else {
        let (events, signals) = (format_count(done.events, "event"), format_count(done.signals, "signal"));
        out.line(format_args!("{}: {events}, {signals}", to.display()))?;
        if done.held_back > 0 {
            let events = format_count(done.held_back, "event");
            out.line(format_args!(
                "{events} had a time before the latest one and are written at the latest time; --clock events keeps their order"
            ))?;
        }
    }
    Ok(Exit::Good)
}
