//! `verify`: checks all digests and commits of a `.kine` file.

use crate::cli::out::format_count;
use crate::cli::{Exit, Failure, Out, Verb};
use clap::{Args, FromArgMatches as _};
use serde::Serialize;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use trace_core::container::{self, ContainerError, VerifyFinding, VerifyReport};

pub const VERB: Verb = Verb {
    name: "verify",
    about: "Check every digest and commit of a .kine; exit 1 if damaged",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

#[derive(Args)]
struct Arguments {
    /// Recording to check, a .kine
    #[arg(value_name = "F.kine")]
    file: PathBuf,
}

/// The result of the checks. The engine's type has no verdict.
#[derive(Serialize)]
struct Report<'a> {
    /// Whether everything matches its digest.
    sound: bool,
    /// Content of the file.
    commits: u64,
    sections: u64,
    bytes: u64,
    /// Number of bytes after the last commit, which nothing uses.
    bytes_behind: u64,
    /// Number of problems.
    problem_count: u64,
    /// Each problem, or the first ones if there are many.
    problems: &'a [VerifyFinding],
}

/// Returns the report on a file without a commit at which it can be opened. The reason is its only problem.
fn unopenable_report(e: &ContainerError) -> VerifyReport {
    let byte = e.byte().unwrap_or(0);
    let mut message = e.to_string();
    let places = [e.place().map(|p| format!("{p}: ")), Some(format!("byte {byte:#x}: "))];
    for place in places.into_iter().flatten() {
        // Each problem has a separate location, and the user gave the file name.
        if let Some(rest) = message.strip_prefix(&place) {
            message = rest.to_owned();
        }
    }
    VerifyReport {
        findings: vec![VerifyFinding { byte, message }],
        finding_count: 1,
        ..VerifyReport::default()
    }
}

/// Signature at the start of a `.kine` file (docs/format.md).
const SIGNATURE: [u8; 8] = *b"\x89KINE\r\n\x1a";

/// Returns whether a file starts like a `.kine` file, allowing some damage, or is truncated before that.
fn is_kine(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|f| f.take(SIGNATURE.len() as u64).read_to_end(&mut start));
    let same = start.iter().zip(SIGNATURE).filter(|(a, b)| **a == *b).count();
    read.is_ok() && 2 * same >= start.len()
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let report = match container::verify(&arguments.file) {
        Ok(report) => report,
        // A file that was never a `.kine` file is not damaged.
        Err(e @ ContainerError::NotKine { .. }) if !is_kine(&arguments.file) => {
            return Err(Failure::file(&arguments.file, e));
        }
        Err(e) if e.is_damage() => unopenable_report(&e),
        Err(e) => return Err(Failure::file(&arguments.file, e)),
    };
    if out.is_json() {
        out.value(&Report {
            sound: report.is_sound(),
            commits: report.commits,
            sections: report.sections,
            bytes: report.bytes,
            bytes_behind: report.trailing_bytes,
            problem_count: report.finding_count,
            problems: &report.findings,
        })?;
    } else {
        for p in &report.findings {
            out.line(format_args!("byte {:#x}: {}", p.byte, p.message))?;
        }
        out.line(format_args!(
            "{}: {}, {}, {}{}",
            if report.is_sound() { "sound" } else { "damaged" },
            format_count(report.commits, "commit"),
            format_count(report.sections, "section"),
            format_count(report.bytes, "byte"),
            if report.trailing_bytes == 0 {
                String::new()
            } else {
                format!(
                    ", and {} after the last commit that nothing uses",
                    format_count(report.trailing_bytes, "byte")
                )
            }
        ))?;
    }
    Ok(Exit::differs_if(!report.is_sound()))
}
