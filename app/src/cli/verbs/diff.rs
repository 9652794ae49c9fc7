//! `diff`: compares two recordings.

mod calls;
mod describe;
mod page;
mod raw;
mod report;
mod sides;
mod text;

use crate::cli::outputs::CommandFiles;
use crate::cli::replay_arguments::reject_options_of_runs;
use crate::cli::source::{Source, SourceRecording, number};
use crate::cli::wasm_differences::RunComparison;
use crate::cli::{Exit, Failure, Out, Verb, progress_line, wasm_recordings};
use clap::{Args, FromArgMatches as _};
use kinescope_files::{output, rules};
use kinescope_session::comparison;
use std::path::{Path, PathBuf};
use trace_core::diff::{self, Rules};
use trace_core::recording::ElementType;
use wasm_recording::{WasmDifference, is_wasm_run, is_whole_run};

pub const VERB: Verb = Verb {
    name: "diff",
    about: "Compare two recordings; exit 1 if they differ",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

#[derive(Args)]
struct Arguments {
    /// The first recording
    a: PathBuf,
    /// The second recording
    b: PathBuf,
    /// Maximum number of differences of each kind in text output
    #[arg(long = "max-differences", alias = "most", value_name = "N", default_value_t = 20)]
    most: usize,
    /// Do not compare: register NAME [field NAME], events KIND, buffer NAME, memory FIRST..END (excludes END) or
    /// FIRST..=LAST (includes LAST), or mappings; * in a name is any text; may be given more than once
    #[arg(long, value_name = "WHAT", value_parser = |text: &str| rule("ignore", text))]
    ignore: Vec<Rules>,
    /// Tolerance for elements of a buffer or of API copies (in0, out0): buffer NAME absolute X, relative X or ulp N, or
    /// several of them; may be given more than once
    #[arg(long, value_name = "LIMITS", value_parser = |text: &str| rule("tolerance", text))]
    tolerance: Vec<Rules>,
    /// Read rules from a file, one per line in the form of the options: ignore WHAT, tolerance LIMITS; may be given
    /// more than once
    #[arg(long, value_name = "FILE")]
    rules: Vec<PathBuf>,
    /// Save all rules of this command line to a file
    #[arg(long, value_name = "FILE")]
    save_rules: Option<PathBuf>,
    /// Write the comparison as a self-contained HTML page
    #[arg(long, value_name = "FILE", conflicts_with = "raw")]
    html: Option<PathBuf>,
    /// The files are raw images without any header; rules refer to a whole image as the buffer `image`
    #[arg(long)]
    raw: bool,
    /// Element type of the images: u8, i8, u16, i16, u32, i32, u64, i64, f16, f32 or f64
    #[arg(long, value_name = "TYPE", default_value = "u8", value_parser = element, requires = "raw")]
    element: ElementType,
    /// Address of the first byte of the images
    #[arg(long, value_name = "ADDRESS", default_value = "0", value_parser = number, requires = "raw")]
    base: u64,
}

fn element(text: &str) -> Result<ElementType, String> {
    let found = ElementType::ALL.into_iter().find(|t| t.name() == text);
    found.ok_or_else(|| {
        let names = ElementType::ALL.map(ElementType::name);
        format!("'{text}' is not an element type (expected one of {})", names.join(", "))
    })
}

fn rule(verb: &str, text: &str) -> Result<Rules, String> {
    if text.contains(['\n', '\r']) {
        return Err("a rule is one line".to_owned());
    }
    // The position within the option's own text.
    format!("{verb} {text}").parse().map_err(|e: diff::RuleError| {
        let column = e.column.saturating_sub(verb.len() + 1).max(1);
        format!("character {column}: {}", e.message)
    })
}

impl Arguments {
    /// Returns all rules. Those of files come first, so that options of the command line take precedence.
    fn all_rules(&self) -> Result<Rules, Failure> {
        let mut all = Rules::default();
        for file in &self.rules {
            all.list.extend(read_rules(file)?.list);
        }
        for rules in self.ignore.iter().chain(&self.tolerance) {
            all.list.extend(rules.list.iter().cloned());
        }
        Ok(all)
    }
}

fn read_rules(file: &Path) -> Result<Rules, Failure> {
    let read = rules::read(file).map_err(|e| Failure::file(file, e))?;
    Ok(read.0)
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let rules = arguments.all_rules()?;
    let files = arguments
        .rules
        .iter()
        .fold(CommandFiles::for_recording(&arguments.a), |f, r| {
            f.with_input("--rules", r)
        });
    files
        .with_input("the second recording", &arguments.b)
        .with_output("--save-rules", arguments.save_rules.as_deref())
        .with_output("--html", arguments.html.as_deref())
        .check()?;
    if let Some(file) = &arguments.save_rules {
        output::write(file, rules.to_string().as_bytes())?;
    }
    if arguments.raw {
        let both = (arguments.a.as_path(), arguments.b.as_path());
        return raw::run(both, arguments.base, arguments.element, &rules, arguments.most, out);
    }
    let a = Source {
        file: arguments.a.clone(),
    }
    .open_undamaged()?;
    let b = Source {
        file: arguments.b.clone(),
    }
    .open_undamaged()?;
    if is_whole_run(&a.recording) && is_whole_run(&b.recording) {
        return compare_runs(arguments, (&a, &b), !rules.list.is_empty(), out);
    }
    if is_wasm_run(&a.recording) != is_wasm_run(&b.recording) {
        let run = if is_wasm_run(&a.recording) {
            &arguments.a
        } else {
            &arguments.b
        };
        let message = "this is a run of a WebAssembly program, and the other recording is not";
        return Err(Failure::file(run, message));
    }
    let found = progress_line::run_with_progress("comparing", |progress, _| {
        let found = comparison::find_differences((&a.recording, &b.recording), &rules, progress);
        found.map_err(|e| Failure::file(&arguments.a, e))
    })?;
    let (diff, causes) = ((&found.diff, &found.alignment), (&*found.causes, &found.summary));
    let report = report::report(diff, causes, (&a, &b), &rules);
    if let Some(file) = &arguments.html {
        let name = |p: &Path| p.display().to_string();
        let page = page::page(&report, &name(&arguments.a), &name(&arguments.b));
        output::write(file, page.as_bytes())?;
    }
    if out.is_json() {
        out.value(&report)?;
    } else {
        text::text(&report, arguments.most, out)?;
    }
    Ok(Exit::differs_if(!report.same))
}

/// Compares two WebAssembly runs by the names of their inputs.
fn compare_runs(
    arguments: &Arguments,
    (a, b): (&SourceRecording, &SourceRecording),
    has_rules: bool,
    out: &mut Out,
) -> Result<Exit, Failure> {
    reject_options_of_runs(&[
        ("--ignore, --tolerance and --rules: a rule", has_rules),
        ("--html", arguments.html.is_some()),
    ])?;
    let report = progress_line::run_with_progress("comparing", |progress, _| {
        let (first, second) = (wasm_recordings::read(a, progress)?, wasm_recordings::read(b, progress)?);
        let found = WasmDifference::find(&first, &second, progress);
        let found = found.map_err(|e| Failure::file(&a.file, e))?;
        Ok(RunComparison::new(&found, (&first, &second)))
    })?;
    if out.is_json() {
        out.value(&report)?;
    } else {
        report.print(arguments.most, out)?;
    }
    Ok(Exit::differs_if(!report.same))
}
