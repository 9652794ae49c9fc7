//! `wasm check`: runs a program on the CPU and on another target, and compares the results byte for byte.

use super::arguments::{ProgramArguments, TargetArguments};
use super::inputs;
use super::run::print_call_depth;
use crate::cli::out::format_count;
use crate::cli::wasm_target::{WasmTarget, parse_target, run_all};
use crate::cli::{Exit, Failure, Out, progress_line};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use wasm_run::{Input, ProgramRun, RunDifference};

/// Maximum number of differences in text output; `--json` has all.
const MAX_LISTED_DIFFERENCES: usize = 20;

#[derive(Args)]
pub struct CheckArguments {
    #[command(flatten)]
    program: ProgramArguments,
    /// Inputs: files, folders (each file, in name order), or .jsonl files (each line)
    #[arg(long, value_name = "PATH", num_args = 1.., required = true)]
    inputs: Vec<PathBuf>,
    /// Target that is compared with the CPU: interpreter, cuda:N or a target of an agent, agent:NAME/cuda0
    #[arg(long, value_name = "TARGET", default_value = "interpreter")]
    on: String,
    #[command(flatten)]
    target: TargetArguments,
}

/// The result of a comparison.
#[derive(Serialize)]
struct CheckReport {
    /// Number of inputs.
    inputs: u64,
    /// Maximum number of nested calls of a copy on the target: the limit, or fewer if it has no room for their stack.
    call_depth: u32,
    /// Inputs whose results differ, in the order of the inputs.
    differences: Vec<InputDifference>,
}

/// The first difference of an input's results.
#[derive(Serialize)]
struct InputDifference {
    /// Name of the input.
    input: String,
    /// What differs: the first system call, output or end; the CPU's side comes first.
    difference: String,
}

pub fn run(arguments: &CheckArguments, out: &mut Out) -> Result<Exit, Failure> {
    if parse_target(&arguments.on)? == WasmTarget::Cpu {
        return Err(Failure::usage(
            "--on cpu: give the target that is compared with the CPU",
        ));
    }
    let program = arguments.program.open()?;
    let options = arguments.program.options()?;
    let path = arguments.program.path();
    let open = |on: &str| arguments.target.open(on, path, options.clone(), program.clone(), false);
    let (cpu, other) = (open("cpu")?, open(&arguments.on)?);
    let limit = options.limits.call_depth;
    let report = progress_line::run_with_progress("checking", |progress, step| {
        step.set("reading the inputs");
        let inputs = inputs::read(&arguments.inputs, arguments.program.by_request(), progress)?;
        progress.set_total(2 * inputs.len() as u64);
        step.set("running on the CPU");
        let expected = run_all(&*cpu, &inputs, progress)?;
        step.set("running on the target");
        let found = run_all(&*other, &inputs, progress)?;
        Ok(compare(
            &inputs,
            &expected,
            &found,
            other.lowered_call_depth().unwrap_or(limit),
        ))
    })?;
    if out.is_json() {
        out.value(&report)?;
    } else {
        print(&report, &arguments.on, out)?;
        print_call_depth(&*other, limit, out)?;
    }
    Ok(Exit::differs_if(!report.differences.is_empty()))
}

fn compare(inputs: &[Input], expected: &[ProgramRun], found: &[ProgramRun], call_depth: u32) -> CheckReport {
    let pairs = inputs.iter().zip(expected.iter().zip(found));
    let differences = pairs.filter_map(|(input, (expected, found))| {
        Some(InputDifference {
            input: input.name.clone(),
            difference: RunDifference::find(expected, found)?.to_string(),
        })
    });
    CheckReport {
        inputs: inputs.len() as u64,
        call_depth,
        differences: differences.collect(),
    }
}

fn print(report: &CheckReport, on: &str, out: &mut Out) -> Result<(), Failure> {
    for difference in report.differences.iter().take(MAX_LISTED_DIFFERENCES) {
        out.line(format_args!("{}: {}", difference.input, difference.difference))?;
    }
    let count = report.differences.len();
    if count > MAX_LISTED_DIFFERENCES {
        out.line(format_args!(
            "and {} more; --json has all",
            count - MAX_LISTED_DIFFERENCES
        ))?;
    }
    let inputs = format_count(report.inputs, "input");
    match count {
        0 => out.line(format_args!("{inputs}: cpu and {on} have equal results"))?,
        _ => out.line(format_args!("{inputs}: {count} differ between cpu and {on}"))?,
    }
    Ok(())
}
