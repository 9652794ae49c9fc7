//! `pipeline run`: runs a pipeline on targets, and writes outputs, outcomes and report.

use crate::cli::failure::complain;
use crate::cli::out::{format_count, format_duration};
use crate::cli::replay_arguments::{Keys, assignment};
use crate::cli::{Exit, Failure, Out, progress_line};
use clap::Args;
use kinescope_pipeline::{
    AssignmentError, FolderError, NamedTarget, OutputFolder, Pipeline, RunError, RunReport, RunRequest, RunResult,
    RunVerdict, StageReport, run as run_pipeline,
};
use kinescope_session::replay::request::{TIME_LIMITS_S, limit_time};
use std::path::PathBuf;

#[derive(Args)]
pub struct RunArguments {
    /// Pipeline to run, a .kpipe
    #[arg(value_name = "FILE.kpipe")]
    file: PathBuf,
    /// Targets of the replays, each as TARGET, or LABEL=TARGET for stages with this label; may be given more than once
    #[arg(long, value_name = "[LABEL=]TARGET[,...]", value_parser = NamedTarget::parse_list)]
    on: Vec<Vec<NamedTarget>>,
    /// Folder for outputs, outcomes and the report; it is created if needed
    #[arg(short = 'o', value_name = "FOLDER")]
    to: PathBuf,
    /// Content of an input, raw, .npy, .csv or .png, instead of the one in the pipeline; may be given more than once
    #[arg(long = "input", value_name = "NAME=FILE", value_parser = assignment)]
    inputs: Vec<(String, PathBuf)>,
    /// Stop a replay that takes longer than this, in seconds [default: 600]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(TIME_LIMITS_S))]
    time_limit: Option<u64>,
    /// Replay on a device that can access foreign memory without containment (`targets` shows it); without this option,
    /// such a device is refused
    #[arg(long)]
    without_containment: bool,
    #[command(flatten)]
    keys: Keys,
}

pub fn run(arguments: &RunArguments, out: &mut Out) -> Result<Exit, Failure> {
    let targets = arguments.keys.targets();
    let mut request = RunRequest::new(&targets, arguments.on.iter().flatten().cloned().collect());
    request.budgets = limit_time(arguments.time_limit);
    request.accepts_no_containment = arguments.without_containment;
    for (name, file) in &arguments.inputs {
        if request.inputs.insert(name.clone(), file.clone()).is_some() {
            let message = format!("--input {name} is given twice; give one file for it");
            return Err(Failure::usage(message));
        }
    }
    let pipeline = progress_line::run_with_progress("checking", |progress, _| {
        Pipeline::open(&arguments.file, progress).map_err(|e| Failure::usage(e.to_string()))
    })?;
    for warning in &pipeline.warnings {
        complain(format_args!("{}, {warning}", arguments.file.display()));
    }
    // What is wrong with the targets must not leave a folder behind.
    let assigned = kinescope_pipeline::assign(&pipeline, &targets, &request.on);
    let assigned = assigned.map_err(|e| describe_assignment(arguments, &e))?;
    assigned.unused.iter().for_each(complain);
    let inputs: Vec<PathBuf> = request.inputs.values().cloned().collect();
    let mut folder = OutputFolder::create(&arguments.to, &pipeline, &inputs).map_err(|e| describe_folder(&e))?;
    let result = progress_line::run_with_progress("running", |progress, _| {
        let ended = run_pipeline(&pipeline, &request, &mut folder, &mut |_| {}, progress);
        if ended.is_err() {
            // The error of the run is the one that the user needs.
            let written = folder.write_early_end(format_report);
            written.unwrap_or_else(complain);
        }
        ended.map_err(|e| match e {
            RunError::Assignment(e) => describe_assignment(arguments, &e),
            e => Failure::usage(e.to_string()),
        })
    })?;
    let report = folder
        .write(&pipeline, &result, format_report)
        .map_err(|e| describe_folder(&e))?;
    let unstarted = find_unstarted(&result);
    match (out.is_json(), unstarted) {
        (true, _) => out.value(&report)?,
        // The failure is the message on standard error, and there is no more to print.
        (false, Some(_)) => {}
        (false, None) => print(&report, arguments, out)?,
    }
    match unstarted {
        Some(failure) => Err(Failure::usage(failure)),
        None => Ok(Exit::differs_if(report.verdict != RunVerdict::Match)),
    }
}

/// Returns why the run could not start, which is exit code 2. A stage that cannot start after others is a failed stage.
fn find_unstarted(result: &RunResult) -> Option<&str> {
    let has_started = result.has_executed || result.report.stages.iter().any(|s| s.verdict == RunVerdict::Match);
    let failure = result.report.failure.as_deref();
    failure.filter(|_| result.is_unstarted && !has_started)
}

fn describe_assignment(arguments: &RunArguments, error: &AssignmentError) -> Failure {
    match error {
        AssignmentError::Label { .. } | AssignmentError::Unfit { .. } => {
            Failure::usage(format!("{}, {error}", arguments.file.display()))
        }
        e => Failure::usage(e.to_string()),
    }
}

fn describe_folder(error: &FolderError) -> Failure {
    Failure::usage(error.to_string())
}

fn format_report(report: &RunReport) -> Vec<u8> {
    // A report has only texts, numbers and lists, which JSON can hold.
    let mut bytes = serde_json::to_vec_pretty(report).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

fn print(report: &RunReport, arguments: &RunArguments, out: &mut Out) -> Result<(), Failure> {
    out.line(match &report.failure {
        Some(failure) => format!("{}: {failure}", report.verdict.name()),
        None => format!(
            "{}: {}",
            report.verdict.name(),
            format_count(report.stages.len() as u64, "stage")
        ),
    })?;
    let head = [
        "Stage", "Target", "Verdict", "Time", "Device", "Uploaded", "Not sent", "Reset", "Outcome",
    ];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    table.extend(report.stages.iter().map(row));
    out.table(&table)?;
    let mut reasons: Vec<&str> = Vec::new();
    for stage in &report.stages {
        // Rounds of a loop have the same reason.
        if let Some(reason) = stage.reset_reason.as_deref().filter(|r| !reasons.contains(r)) {
            reasons.push(reason);
            let word = if stage.reset == Some(true) { "reset" } else { "no reset" };
            out.line(format_args!("Reset     {}: {word}: {reason}", stage.stage))?;
        }
    }
    for one in &report.loops {
        let rounds = format_count(u64::from(one.rounds), "round");
        out.line(format_args!(
            "Loop      {}: {rounds}, ended by its {} at {}",
            one.name, one.ended_by, one.value
        ))?;
    }
    out.line(format_args!(
        "Uploaded  {}; {} of pages that targets had were not sent",
        format_count(report.uploaded_bytes, "byte"),
        format_count(report.saved_bytes, "byte")
    ))?;
    out.line(format_args!("Time      {}", format_duration(report.wall_ns)))?;
    for output in &report.outputs {
        let shape = output.shape.iter().map(u64::to_string).collect::<Vec<_>>().join("x");
        let file = arguments.to.join(&output.file);
        out.line(format_args!(
            "Output    {}: {} {shape}, {}",
            output.name,
            output.element,
            file.display()
        ))?;
    }
    Ok(())
}

fn row(stage: &StageReport) -> Vec<String> {
    let none = || "-".to_owned();
    let is_replay = stage.target.is_some();
    let bytes = |n: u64| if is_replay { n.to_string() } else { none() };
    let name = match stage.round {
        Some(round) => format!("{} (round {round})", stage.stage),
        None => stage.stage.clone(),
    };
    vec![
        name,
        stage.target.clone().unwrap_or_else(none),
        stage.verdict.name().to_owned(),
        format_duration(stage.wall_ns),
        stage.device_ns.map_or_else(none, format_duration),
        bytes(stage.uploaded_bytes),
        bytes(stage.saved_bytes),
        stage
            .reset
            .map_or_else(none, |reset| if reset { "yes" } else { "no" }.to_owned()),
        stage.outcome.clone().unwrap_or_else(none),
    ]
}
