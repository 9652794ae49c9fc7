//! `check`: reports findings in a recording.

use crate::cli::findings::{FindingRow, json_name};
use crate::cli::out::format_count;
use crate::cli::source::Source;
use crate::cli::{Exit, Failure, Out, Verb};
use clap::{Args, FromArgMatches as _};
use trace_core::check;
use trace_core::finding::Severity;
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

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let opened = arguments.source.open()?;
    let failed = |e: &dyn std::fmt::Display| Failure::file(&arguments.source.file, e);
    let mut findings = check::check_file(&arguments.source.file, &Progress::new()).map_err(|e| failed(&e))?;
    findings.extend(check::check(&opened.recording));
    let run = wasm_recording::check_run(&opened.recording, &Progress::new());
    findings.extend(run.map_err(|e| failed(&e))?);
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
