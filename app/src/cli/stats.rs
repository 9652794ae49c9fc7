//! `stats`: how registers, blocks, threads or jobs are used, in figures.

use super::out::duration;
use super::source::{Opened, Source};
use super::{Exit, Failure, Out, Verb, hex};
use clap::{Args, FromArgMatches as _, ValueEnum};
use serde::Serialize;
use trace_query::{By, Usage};

pub const VERB: Verb = Verb {
    name: "stats",
    about: "How registers, blocks, threads or jobs are used, in figures",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

/// What accesses are counted by.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum ByArgument {
    /// Each register
    #[default]
    Register,
    /// Blocks of the register map
    Block,
    /// Threads of the driver
    Thread,
    /// The job whose submit came last
    Job,
}

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    source: Source,
    /// What accesses are counted by
    #[arg(long, value_enum, default_value_t)]
    by: ByArgument,
}

#[derive(Serialize)]
struct Row<'a> {
    /// `None`: the map does not know it, or before any job.
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    space: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<String>,
    accesses: u64,
    reads: u64,
    writes: u64,
    first_event: u64,
    last_event: u64,
    values: u64,
    gap_ns: Option<Gap>,
}

/// Times between one access and the next.
#[derive(Serialize)]
struct Gap {
    min: i64,
    median: f64,
    mean: f64,
    max: i64,
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let opened = arguments.source.open()?;
    let timeline = match arguments.by {
        ByArgument::Job => opened.timeline()?,
        _ => Default::default(),
    };
    let by = match arguments.by {
        ByArgument::Register => By::Register,
        ByArgument::Block => By::Block,
        ByArgument::Thread => By::Thread,
        ByArgument::Job => By::Job,
    };
    // It has no steps to be stopped at, and leaves nothing behind when a signal ends it.
    let all = trace_query::usage(&opened.recording, &timeline, by).map_err(|e| Failure::usage(e.to_string()))?;
    let rows = all.iter().map(|u| row(u, &opened, by));
    if out.json() {
        out.array(rows)?;
        return Ok(Exit::Good);
    }
    let what = match by {
        By::Register => "Register",
        By::Block => "Block",
        By::Thread => "Thread",
        By::Job => "Job",
    };
    let head = [
        what, "Accesses", "Reads", "Writes", "First", "Last", "Values", "Shortest", "Median", "Mean", "Longest",
    ];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    for r in rows {
        let none = if matches!(by, By::Job) { "before any" } else { "unknown" };
        let name = r.name.map(str::to_owned).or_else(|| r.offset.clone());
        let mut line = vec![name.unwrap_or_else(|| none.to_owned())];
        line.extend([r.accesses, r.reads, r.writes, r.first_event, r.last_event, r.values].map(|n| n.to_string()));
        line.extend(match &r.gap_ns {
            Some(g) => [g.min as f64, g.median, g.mean, g.max as f64].map(time),
            None => ["-"; 4].map(str::to_owned),
        });
        table.push(line);
    }
    out.table(&table)?;
    Ok(Exit::Good)
}

/// A time that may lie before another.
fn time(ns: f64) -> String {
    let sign = if ns < 0.0 { "-" } else { "" };
    format!("{sign}{}", duration(ns.abs().round() as u64))
}

fn row<'a>(u: &'a Usage, opened: &Opened, by: By) -> Row<'a> {
    let register = matches!(by, By::Register);
    let space = opened.recording.facts.spaces.get(u.first_at.0 as usize);
    Row {
        name: u.name.as_deref(),
        space: space.filter(|_| register).map(|s| s.name.clone()),
        offset: register.then(|| hex(u64::from(u.first_at.1))),
        accesses: u.accesses,
        reads: u.reads,
        writes: u.writes,
        first_event: u.first_event,
        last_event: u.last_event,
        values: u.values,
        gap_ns: u.gaps.map(|g| Gap {
            min: g.min,
            median: g.median,
            mean: g.mean,
            max: g.max,
        }),
    }
}
