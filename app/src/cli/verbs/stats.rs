//! `stats`: prints usage statistics of registers, blocks, threads or jobs.

mod guess;

use crate::cli::out::{format_count, format_interval};
use crate::cli::source::{Source, SourceRecording};
use crate::cli::{Exit, Failure, Out, Verb, empty_result, event_filter, format_hex};
use clap::{Args, FromArgMatches as _, ValueEnum};
use serde::Serialize;
use trace_core::RegOffset;
use trace_core::filter::Derived;
use trace_core::progress::Progress;
use trace_core::recording::Clock;
use trace_core::registers::format_location;
use trace_query::{Bin, Count, Gaps, GroupBy, IntervalStatistics, Usage};

pub const VERB: Verb = Verb {
    name: "stats",
    about: "Count the use of registers, blocks, threads or jobs",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

/// The grouping of accesses.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum ByArgument {
    /// Each register
    #[default]
    Register,
    /// Blocks of the register map
    Block,
    /// Threads of the driver
    Thread,
    /// The job that the access prepares, or that is running: `job` in filters
    Job,
}

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    source: Source,
    /// Group accesses by
    #[arg(long, value_enum, default_value_t)]
    by: ByArgument,
    /// Count only accesses that pass this filter: 'write and job in 4..=9' (docs/query.md)
    #[arg(long = "where", value_name = "EXPR")]
    filter: Option<String>,
    /// Also show how often each value occurred, in bins
    #[arg(long)]
    histogram: bool,
    /// Instead, infer the purpose of one register from its accesses: its name, its offset in any space, or SPACE+OFFSET
    #[arg(long, value_name = "NAME", conflicts_with_all = ["by", "filter", "histogram", "between"])]
    register: Option<String>,
    /// Instead, show the times from each event that passes the first filter to the next one that passes the second
    #[arg(long, num_args = 2, value_names = ["EXPR", "EXPR"], conflicts_with_all = ["by", "filter", "histogram"])]
    between: Option<Vec<String>>,
}

/// The use of a group, with the place of a register as text.
#[derive(Serialize)]
struct Row<'a> {
    /// Name of the group; `null`: not in the register map, or of no job.
    name: Option<&'a str>,
    /// With `--by register`: the space.
    #[serde(skip_serializing_if = "Option::is_none")]
    space: Option<String>,
    /// With `--by register`: the offset.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<String>,
    /// Number of accesses, of reads and of writes.
    accesses: u64,
    reads: u64,
    writes: u64,
    /// First and last event.
    first_event: u64,
    last_event: u64,
    /// Number of different values.
    values: u64,
    /// Accesses a second from the first to the last; `null` if no time lies between them.
    rate_per_s: Option<f64>,
    /// Times between neighbours; `null` for a single access, and if the clock counts ticks.
    gap_ns: Option<Gaps>,
    /// Ticks between neighbours; absent if the clock counts nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    gap_ticks: Option<Gaps>,
    /// With `--histogram`: bins by ascending value. Each value has a bin; with more than 16 values, a bin reaches from
    /// one power of two to the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    histogram: Option<&'a [Bin]>,
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let opened = arguments.source.open()?;
    if let Some([from, to]) = arguments.between.as_deref() {
        let select = |text: &str| event_filter::select("--between", text, &opened);
        let (from, to) = (select(from)?, select(to)?);
        let statistics = trace_query::measure_intervals(&opened.recording, &from, &to);
        return print_pairs(&statistics, opened.recording.metadata.identity.clock, out);
    }
    if let Some(register) = &arguments.register {
        return guess::run(&opened, register, out);
    }
    let among = match &arguments.filter {
        Some(text) => Some(event_filter::select("--where", text, &opened)?),
        None => None,
    };
    let derived = match arguments.by {
        ByArgument::Job => Derived::from(&opened.timeline()?),
        _ => Derived::default(),
    };
    let by = match arguments.by {
        ByArgument::Register => GroupBy::Register,
        ByArgument::Block => GroupBy::Block,
        ByArgument::Thread => GroupBy::Thread,
        ByArgument::Job => GroupBy::Job,
    };
    let count = Count {
        by,
        among: among.as_ref(),
        histogram: arguments.histogram,
    };
    // A signal that ends it leaves nothing behind.
    let all = trace_query::usage(&opened.recording, &derived, count, &Progress::new())
        .map_err(|e| Failure::usage(e.to_string()))?;
    let rows = all.iter().map(|u| row(u, &opened, by, arguments.histogram));
    if out.is_json() {
        out.array(rows)?;
        return Ok(Exit::Good);
    }
    let what = match by {
        GroupBy::Register => "Register",
        GroupBy::Block => "Block",
        GroupBy::Thread => "Thread",
        GroupBy::Job => "Job",
    };
    let head = [
        what,
        "Accesses",
        "Reads",
        "Writes",
        "First",
        "Last",
        "Values",
        "Per second",
        "Shortest",
        "Median",
        "Mean",
        "Longest",
    ];
    let clock = opened.recording.metadata.identity.clock;
    let mut table = vec![head.map(str::to_owned).to_vec()];
    for (u, r) in all.iter().zip(rows) {
        let mut line = vec![label(u, &opened, by)];
        line.extend([r.accesses, r.reads, r.writes, r.first_event, r.last_event, r.values].map(|n| n.to_string()));
        line.push(r.rate_per_s.map_or_else(|| "-".to_owned(), format_rate));
        line.extend(match r.gap_ns.or(r.gap_ticks) {
            Some(g) => [g.min as f64, g.median, g.mean, g.max as f64].map(|n| format_time(clock, n)),
            None => ["-"; 4].map(str::to_owned),
        });
        table.push(line);
    }
    out.table(&table)?;
    if all.is_empty() {
        out.line(empty_result::describe_accesses(&opened, among.is_some()))?;
    }
    if arguments.histogram {
        for u in &all {
            out.line(format_args!("\n{}", label(u, &opened, by)))?;
            print_histogram(&u.histogram, out)?;
        }
    }
    Ok(Exit::Good)
}

/// Returns the label of a group. A register without a name gets its offset.
fn label(u: &Usage, opened: &SourceRecording, by: GroupBy) -> String {
    let (space, offset) = u.first_at;
    let number = u8::try_from(space).unwrap_or(u8::MAX);
    let place =
        || matches!(by, GroupBy::Register).then(|| format_location(&opened.recording, number, RegOffset::new(offset)));
    u.name
        .clone()
        .or_else(place)
        .unwrap_or_else(|| by.unknown_label().to_owned())
}

/// Prints bins as lines, each with a bar proportional to its count.
fn print_histogram(bins: &[Bin], out: &mut Out) -> Result<(), Failure> {
    const LONGEST: u64 = 40;
    let max = bins.iter().map(|b| b.count).max().unwrap_or(1).max(1);
    let lines = bins.iter().map(|b| {
        let values = match b.from == b.to {
            true => format_hex(b.from),
            false => format!("{} to {}", format_hex(b.from), format_hex(b.to)),
        };
        let long = (u128::from(b.count) * u128::from(LONGEST)).div_ceil(u128::from(max));
        vec![format!("  {values}"), b.count.to_string(), "#".repeat(long as usize)]
    });
    out.table(&lines.collect::<Vec<_>>())?;
    Ok(())
}

/// Formats a rate of accesses per second.
fn format_rate(per_second: f64) -> String {
    if per_second < 100.0 {
        format!("{per_second:.1}")
    } else {
        format!("{per_second:.0}")
    }
}

/// Prints the times between two patterns.
fn print_pairs(b: &IntervalStatistics, clock: Clock, out: &mut Out) -> Result<Exit, Failure> {
    if out.is_json() {
        out.value(b)?;
        return Ok(Exit::Good);
    }
    let head = ["Count", "Shortest", "Median", "Mean", "99 %", "Longest"]
        .map(str::to_owned)
        .to_vec();
    let mut line = vec![b.count.to_string()];
    line.extend(match b.times_or_ticks() {
        Some(t) => [t.min as f64, t.median, t.mean, t.p99, t.max as f64].map(|n| format_time(clock, n)),
        None => ["-"; 5].map(str::to_owned),
    });
    out.table(&[head, line])?;
    if let Some(t) = b.times_or_ticks() {
        out.line(format_args!(
            "the shortest from event {} to {}",
            t.shortest.from, t.shortest.to
        ))?;
        out.line(format_args!(
            "the longest from event {} to {}",
            t.longest.from, t.longest.to
        ))?;
    }
    if b.repeated > 0 {
        out.line(format_args!(
            "{} during an open interval: measured from its first beginning",
            format_count(b.repeated, "beginning")
        ))?;
    }
    if b.strays > 0 {
        out.line(format_args!("{} without a beginning", format_count(b.strays, "end")))?;
    }
    if let Some(e) = b.open {
        out.line(format_args!("the interval that begins at event {e} does not end"))?;
    }
    Ok(Exit::Good)
}

/// Formats a time that may be negative.
fn format_time(clock: Clock, n: f64) -> String {
    let sign = if n < 0.0 { "-" } else { "" };
    format!("{sign}{}", format_interval(clock, n.abs().round() as u64))
}

fn row<'a>(u: &'a Usage, opened: &SourceRecording, by: GroupBy, histogram: bool) -> Row<'a> {
    let ticks = opened.recording.counts_ticks();
    let register = matches!(by, GroupBy::Register);
    let space = opened.recording.metadata.spaces.get(u.first_at.0 as usize);
    Row {
        name: u.name.as_deref(),
        space: space.filter(|_| register).map(|s| s.name.clone()),
        offset: register.then(|| format_hex(u64::from(u.first_at.1))),
        accesses: u.accesses,
        reads: u.reads,
        writes: u.writes,
        first_event: u.first_event,
        last_event: u.last_event,
        values: u.values,
        rate_per_s: u.rate,
        histogram: histogram.then_some(u.histogram.as_slice()),
        gap_ns: u.gaps.filter(|_| !ticks),
        gap_ticks: u.gaps.filter(|_| ticks),
    }
}
