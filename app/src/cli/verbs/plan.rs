//! `plan`: shows what a replay would do and access, without running it.

use crate::cli::failure::FailureKind;
use crate::cli::out::format_count;
use crate::cli::replay_arguments::ReplayArguments;
use crate::cli::{Exit, Failure, Out, Verb, format_hex, plan_file, progress_line};
use clap::{Args, FromArgMatches as _};
use kinescope_files::output;
use kinescope_session::replay::request::ReplayRequest;
use replay_engine::channel::ChannelFootprint;
use replay_engine::plan::{AccessPlan, Plan, Rewrite, RewriteKind, text};
use replay_engine::verify::VerificationReport;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use trace_core::progress::Progress;

pub const VERB: Verb = Verb {
    name: "plan",
    about: "Compile and verify a replay without running it",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    of: ReplayArguments,
    /// Buffer that the replay returns; may be given more than once
    #[arg(long = "output", value_name = "NAME")]
    outputs: Vec<String>,
    /// Write the plan to this file (binary), with the page images that it refers to
    #[arg(short = 'o', value_name = "FILE")]
    to: Option<PathBuf>,
    /// Print the plan as text, one action per line
    #[arg(long, conflicts_with = "json")]
    text: bool,
    /// Read FILE as the text of a plan, and verify it if a target is given
    #[arg(long)]
    assemble: bool,
}

/// A plan in figures: it counts what the plan lists, and adds the target and what was verified.
#[derive(Serialize)]
struct Report<'a> {
    /// Source of the plan.
    title: &'a str,
    /// Target, as `--on` gave it.
    #[serde(rename = "board")]
    target: &'a str,
    /// Number of actions, and their bytes.
    actions: u64,
    body_bytes: u64,
    /// Number of pages with content, and of all pages.
    pages: u64,
    used_pages: u64,
    /// Location of the pages in the target's memory.
    arena: Arena,
    /// Number of reads of each class.
    reads: replay_engine::plan::ReadClasses,
    /// Number of interrupts that the plan waits for, and of submits.
    interrupts: u64,
    jobs: u64,
    /// An object: the number of rewrites of each kind.
    rewrites: BTreeMap<&'static str, u64>,
    /// Each rewrite.
    rewrite_list: &'a [Rewrite],
    /// Names of buffers that are copied out.
    outputs: Vec<&'a str>,
    /// Limits of the run.
    budgets: replay_engine::plan::Budgets,
    /// What was proved.
    verified: VerificationReport,
    /// Ranges of unknown registers that `--allow` gave.
    allowed: Vec<String>,
    /// Whether the device uses bus mastering on the plan's memory.
    masters_bus: bool,
    /// Number of expected effects.
    expectations: u64,
    /// For a plan of submissions to channels: what it maps, writes, submits and reads. Counts of accesses are 0 then.
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<ChannelFootprint>,
}

/// The memory of the plan by its end. The engine has its number of pages.
#[derive(Serialize)]
struct Arena {
    /// First address.
    base: String,
    /// One past the last byte.
    end: String,
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    arguments
        .of
        .input_files()
        .with_output("-o", arguments.to.as_deref())
        .check()?;
    if arguments.assemble && arguments.of.target_name().is_empty() {
        return assemble(arguments, out);
    }
    let mut prepared = arguments
        .of
        .prepare(ReplayRequest {
            outputs: arguments.outputs.clone(),
            ..ReplayRequest::default()
        })?
        .prepared;
    let verified = prepared
        .verify(&Progress::new())
        .map(|v| v.report().clone())
        .map_err(|e| {
            Failure::file(
                arguments.of.file(),
                format!("the plan for {} is {e}", arguments.of.target_name()),
            )
            .with_kind(FailureKind::Plan)
        })?;
    let (compiled, plan) = (&prepared.compiled, &prepared.compiled.plan);
    if let Some(path) = &arguments.to {
        let bytes = compiled.to_bytes().map_err(|e| Failure::file(path, e))?;
        progress_line::run_with_progress("writing", |_, _| Ok(output::write(path, &bytes)?))?;
    }
    if arguments.text {
        out.line(text::print_with_pages(plan, &compiled.pages).trim_end())?;
    } else if out.is_json() {
        out.value(&report(plan, &arguments.of, verified))?;
    } else {
        describe(plan, arguments.of.target_name(), &verified, out)?;
    }
    Ok(Exit::Good)
}

/// Reads the text of a plan, for any target that replays it later.
fn assemble(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let file = arguments.of.file();
    let none = || {
        Failure::file(
            file,
            "not a plan: neither a text that begins with `kinescope plan`, nor a binary plan",
        )
    };
    let compiled = plan_file::read(file)?.ok_or_else(none)?;
    if let Some(path) = &arguments.to {
        let bytes = compiled.to_bytes().map_err(|e| Failure::file(path, e))?;
        progress_line::run_with_progress("writing", |_, _| Ok(output::write(path, &bytes)?))?;
    }
    if arguments.text {
        out.line(text::print_with_pages(&compiled.plan, &compiled.pages).trim_end())?;
    } else if arguments.to.is_none() {
        return Err(Failure::usage(
            "--assemble needs a file for the plan (-o FILE), or --text, or a target (--on TARGET)",
        ));
    }
    Ok(Exit::Good)
}

fn counts(plan: &Plan) -> BTreeMap<RewriteKind, u64> {
    let mut counts = BTreeMap::new();
    for r in &plan.rewrites {
        *counts.entry(r.kind).or_insert(0) += 1;
    }
    counts
}

fn report<'a>(plan: &'a Plan, of: &'a ReplayArguments, verified: VerificationReport) -> Report<'a> {
    // A plan of calls or submissions has no accesses: all of its counts are 0.
    let none = AccessPlan::default();
    let accesses = plan.accesses().unwrap_or(&none);
    Report {
        title: &plan.title,
        target: of.target_name(),
        allowed: of.format_allowed(),
        actions: plan.actions,
        body_bytes: plan.body.bytes().len() as u64,
        pages: accesses.pages.len() as u64,
        used_pages: accesses.used_pages,
        arena: Arena {
            base: format_hex(accesses.arena.base.get()),
            end: format_hex(accesses.arena.end().get()),
        },
        reads: accesses.reads,
        interrupts: accesses.interrupts,
        jobs: plan.jobs().len() as u64,
        rewrites: counts(plan).into_iter().map(|(k, n)| (k.name(), n)).collect(),
        rewrite_list: &plan.rewrites,
        outputs: plan.outputs.iter().map(|b| b.name.as_str()).collect(),
        budgets: plan.budgets,
        verified,
        masters_bus: plan.mmio().is_some_and(|m| m.masters),
        expectations: accesses.expectations.len() as u64,
        channel: plan.channel().map(ChannelFootprint::for_plan),
    }
}

/// Returns the table of a plan of submissions.
fn describe_channel(plan: &Plan, c: &ChannelFootprint, target: &str) -> Vec<Vec<String>> {
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let bytes = |n: u64| format_count(n, "byte");
    vec![
        row("Recording", plan.title.clone()),
        row("Target", target.to_owned()),
        row("Compute class", format_hex(u64::from(c.compute_class))),
        row(
            "Memory",
            format!(
                "{}: {} of video memory, {} of host memory",
                format_count(c.ranges, "range"),
                bytes(c.video_bytes),
                bytes(c.system_bytes)
            ),
        ),
        row(
            "Submissions",
            format!(
                "{} for compute, {} for copies, {} of commands",
                c.compute_submissions,
                c.copy_submissions,
                bytes(c.command_bytes)
            ),
        ),
        row("Launches", c.launches.to_string()),
        row("Uploads", format!("{}, {}", c.uploads, bytes(c.upload_bytes))),
        row("Outputs", format!("{}, {}", c.outputs, bytes(c.output_bytes))),
        row(
            "Verified",
            "methods and addresses of all submissions: each address that they name is in the plan's memory".to_owned(),
        ),
    ]
}

fn describe(plan: &Plan, target: &str, verified: &VerificationReport, out: &mut Out) -> Result<(), Failure> {
    match plan.channel().map(ChannelFootprint::for_plan) {
        Some(channel) => out.table(&describe_channel(plan, &channel, target))?,
        None => describe_accesses(plan, target, verified, out)?,
    }
    for u in &verified.unproved {
        out.line(format_args!("Not proved, bounded by time: {u}"))?;
    }
    out.line("")?;
    describe_rewrites(plan, out)
}

/// Prints the table of a plan of accesses.
fn describe_accesses(plan: &Plan, target: &str, verified: &VerificationReport, out: &mut Out) -> Result<(), Failure> {
    let none = AccessPlan::default();
    let accesses = plan.accesses().unwrap_or(&none);
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let r = &accesses.reads;
    let mut rows = vec![row("Recording", plan.title.clone()), row("Target", target.to_owned())];
    rows.extend(plan.describe_model().map(|model| row("Model", model)));
    rows.extend([
        row(
            "Actions",
            format!(
                "{} in {}, {}",
                plan.actions,
                format_count(plan.body.bytes().len() as u64, "byte"),
                format_count(accesses.interrupts, "interrupt")
            ),
        ),
        row("Jobs", plan.jobs().len().to_string()),
        row(
            "Reads",
            format!(
                "{} compared ({} equal, {} masked, {} until), {} fed to a write, {} free-running",
                r.compared(),
                r.equal,
                r.masked,
                r.until,
                r.feeds,
                r.any
            ),
        ),
        row(
            "Memory",
            format!(
                "{} of {} to {}, {} with content",
                format_count(accesses.used_pages, "page"),
                format_hex(accesses.arena.base.get()),
                format_hex(accesses.arena.end().get()),
                accesses.pages.len()
            ),
        ),
        row(
            "Verified",
            format!(
                "{}, {}, {}: all inside the target's memory for this plan",
                format_count(verified.tables, "page table"),
                format_count(verified.leaves, "mapped page"),
                format_count(verified.jobs, "job chain")
            ),
        ),
    ]);
    Ok(out.table(&rows)?)
}

/// Prints how often the plan differs from the recording, by kind.
fn describe_rewrites(plan: &Plan, out: &mut Out) -> Result<(), Failure> {
    let mut rows = vec![["Rewrite", "Times", "First"].map(str::to_owned).to_vec()];
    for (kind, n) in counts(plan) {
        let first = plan.rewrites.iter().find(|r| r.kind == kind);
        rows.push(vec![
            kind.name().to_owned(),
            n.to_string(),
            first.map_or_else(String::new, |r| {
                let event = r.event.map_or_else(String::new, |e| format!("event {e}: "));
                format!("{event}{}", r.detail)
            }),
        ]);
    }
    out.table(&rows)?;
    Ok(())
}
