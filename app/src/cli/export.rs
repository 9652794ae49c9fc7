//! `export`: a table of a recording as a Parquet, Arrow or CSV file, or its replay as a program of its own.

use super::failure::complain;
use super::out::counted;
use super::outputs::Files;
use super::source::Source;
use super::{Exit, Failure, Out, Verb, exported_program, waiting};
use clap::{Args, FromArgMatches as _, ValueEnum};
use kinescope_files::output::{self, OutputError};
use serde::Serialize;
use std::path::PathBuf;
use trace_query::{Exported, Format, Table};

pub const VERB: Verb = Verb {
    name: "export",
    about: "A table of a recording as a Parquet, Arrow or CSV file, or its replay as a program of its own",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    source: Source,
    /// Which table: events, jobs, registers, pages, mappings or buffers
    #[arg(long, value_name = "TABLE", value_parser = table, required_unless_present = "as_what")]
    table: Option<Table>,
    /// What else: program, the replay as a Rust crate without std and as a C library that firmware can link
    #[arg(
        long = "to",
        value_name = "WHAT",
        value_enum,
        conflicts_with = "table",
        id = "as_what"
    )]
    what: Option<What>,
    #[command(flatten)]
    program: exported_program::Choices,
    /// The file to write; its name says the format: .parquet, .arrow or .csv. With --to program the folder
    #[arg(short = 'o', value_name = "OUT")]
    to: PathBuf,
}

/// What a recording becomes beside tables.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    /// Its replay as source code
    Program,
}

fn table(text: &str) -> Result<Table, String> {
    let names = Table::ALL.map(Table::name);
    let found = Table::ALL.into_iter().find(|t| t.name() == text);
    found.ok_or_else(|| format!("'{text}' is not a table (expected {})", names.join(", ")))
}

#[derive(Serialize)]
struct Report {
    path: String,
    table: &'static str,
    rows: u64,
    problems: Vec<String>,
}

/// Why nothing was exported: told in words either way.
struct Untold(String);

impl From<OutputError> for Untold {
    fn from(e: OutputError) -> Self {
        Self(e.to_string())
    }
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let to = &arguments.to;
    let table = match (arguments.what, arguments.table) {
        (None, Some(table)) => table,
        _ => return exported_program::run(&arguments.source, &arguments.program, to, out),
    };
    let format = Format::of(to).ok_or_else(|| {
        Failure::file(
            to,
            "the name does not say the format (expected .parquet, .arrow or .csv)",
        )
    })?;
    Files::of(&arguments.source.file).writes("-o", Some(to)).check()?;
    let opened = arguments.source.open_memory()?;
    let timeline = match table {
        Table::Jobs | Table::Shaders => opened.timeline()?,
        _ => Default::default(),
    };
    let mut exported = Exported::default();
    waiting::show("exporting", |progress, _| {
        let written = output::write_with(to, |file| {
            let done = trace_query::export(table, &opened.recording, &timeline, format, file, progress);
            exported = done.map_err(|e| Untold(e.to_string()))?;
            Ok(())
        });
        written.map_err(|Untold(why)| Failure::file(to, why))
    })?;
    if out.json() {
        out.value(&Report {
            path: to.display().to_string(),
            table: table.name(),
            rows: exported.rows,
            problems: exported.problems,
        })?;
    } else {
        for problem in &exported.problems {
            complain(format_args!("{problem}; what lies there is not in the table"));
        }
        let rows = counted(exported.rows, "row");
        out.line(format_args!("{}: {}, {rows}", to.display(), table.name()))?;
    }
    Ok(Exit::Good)
}
