//! `verify`: every digest and commit of a `.kine` file.

use super::out::counted;
use super::{Exit, Failure, Out, Verb, hex};
use clap::{Args, FromArgMatches as _};
use serde::Serialize;
use std::path::PathBuf;
use trace_core::container;

pub const VERB: Verb = Verb {
    name: "verify",
    about: "Check every digest and commit of a .kine file; exit 1 when something is damaged",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

#[derive(Args)]
struct Arguments {
    /// The .kine file
    #[arg(value_name = "F.kine")]
    file: PathBuf,
}

#[derive(Serialize)]
struct Report<'a> {
    sound: bool,
    commits: u64,
    sections: u64,
    bytes: u64,
    bytes_behind: u64,
    problem_count: u64,
    problems: Vec<Problem<'a>>,
}

#[derive(Serialize)]
struct Problem<'a> {
    byte: String,
    message: &'a str,
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let report = container::verify(&arguments.file).map_err(|e| Failure::file(&arguments.file, e))?;
    if out.json() {
        out.value(&Report {
            sound: report.is_sound(),
            commits: report.commits,
            sections: report.sections,
            bytes: report.bytes,
            bytes_behind: report.bytes_behind,
            problem_count: report.problem_count,
            problems: report
                .problems
                .iter()
                .map(|p| Problem {
                    byte: hex(p.byte),
                    message: &p.message,
                })
                .collect(),
        })?;
    } else {
        for p in &report.problems {
            out.line(format_args!("byte {:#x}: {}", p.byte, p.message))?;
        }
        out.line(format_args!(
            "{}: {}, {}, {}{}",
            if report.is_sound() { "sound" } else { "damaged" },
            counted(report.commits, "commit"),
            counted(report.sections, "section"),
            counted(report.bytes, "byte"),
            if report.bytes_behind == 0 {
                String::new()
            } else {
                format!(
                    ", and {} behind the last commit that nothing uses",
                    counted(report.bytes_behind, "byte")
                )
            }
        ))?;
    }
    Ok(Exit::found(!report.is_sound()))
}
