//! `check`: reports findings in a recording.

use super::out::format_count;
use super::source::Source;
use super::{Exit, Failure, Out, Verb};
use clap::{Args, FromArgMatches as _};
use serde::Serialize;
use trace_core::check::{self, Finding, FindingKind, Severity};
use trace_core::progress::Progress;

pub const VERB: Verb = Verb {
    name: "check",
    about: "List what is suspicious in a recording; exit 1 for errors",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    source: Source,
    /// Exit with 1 for warnings too
    #[arg(long)]
    strict: bool,
}

/// A finding as JSON output.
#[derive(Serialize)]
pub struct FindingRow<'a> {
    kind: FindingKind,
    severity: Severity,
    place: &'a str,
    message: &'a str,
}

impl<'a> From<&'a Finding> for FindingRow<'a> {
    fn from(f: &'a Finding) -> Self {
        Self {
            kind: f.kind,
            severity: f.severity,
            place: &f.place,
            message: &f.message,
        }
    }
}

/// Returns the JSON name of a kind or severity, for text output.
pub fn json_name(value: &impl Serialize) -> String {
    serde_json::to_value(value)
        .ok()
        .and_then(|v| v.as_str().map(str::to_owned))
        .unwrap_or_default()
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let opened = arguments.source.open()?;
    let mut findings = check::check_file(&arguments.source.file, &Progress::new())
        .map_err(|e| Failure::file(&arguments.source.file, e))?;
    findings.extend(check::check(&opened.recording));
    let count = |severity| findings.iter().filter(|f| f.severity == severity).count();
    let (errors, warnings, notes) = (count(Severity::Error), count(Severity::Warning), count(Severity::Note));
    if out.is_json() {
        out.array(findings.iter().map(FindingRow::from))?;
    } else {
        for f in &findings {
            out.line(format_args!(
                "{}: {}: {} ({})",
                json_name(&f.severity),
                f.place,
                f.message,
                json_name(&f.kind)
            ))?;
        }
        let counts = [(errors, "error"), (warnings, "warning"), (notes, "note")];
        out.line(counts.map(|(n, noun)| format_count(n as u64, noun)).join(", "))?;
    }
    Ok(Exit::differs_if(errors > 0 || arguments.strict && warnings > 0))
}
