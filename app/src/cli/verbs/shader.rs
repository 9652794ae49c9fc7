//! `shader`: prints the code of all job shaders as clauses, with the unknown operations.

mod thread;

use crate::cli::out::format_count;
use crate::cli::source::{Source, SourceRecording};
use crate::cli::{Exit, Failure, Out, Verb, format_hex};
use bifrost::{Clause, Unit, header_text};
use clap::{Args, FromArgMatches as _};
use serde::Serialize;
use std::collections::BTreeMap;
use trace_core::GpuVa;
use trace_core::families::{self, ShaderStage};
use trace_core::shader_code::{Code, CodeClause, CodeEnd, MAX_CODE, UnknownOperation};

pub const VERB: Verb = Verb {
    name: "shader",
    about: "Disassemble the shaders of jobs",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

/// Arguments of the verb.
#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    source: Source,
    /// Print only the shaders of this job, by its index in `jobs`
    #[arg(long, value_name = "JOB")]
    job: Option<u32>,
    #[command(flatten)]
    thread: thread::ThreadArguments,
}

/// A job that runs a shader.
struct ShaderJob {
    job: u32,
    position: usize,
    va: GpuVa,
    kind: Option<&'static str>,
    stage: ShaderStage,
}

/// A shader and the jobs that run it.
struct ShaderUse {
    /// Number of the address space.
    space: u8,
    code: Code,
    by: Vec<ShaderJob>,
}

/// Returns the distinct shaders of a recording, in the order in which jobs run them.
fn find_shaders(opened: &SourceRecording, only: Option<u32>) -> Result<Vec<ShaderUse>, Failure> {
    let timeline = opened.timeline()?;
    if let Some(n) = only
        && timeline.jobs.iter().all(|j| j.index != n)
    {
        let has = format_count(timeline.jobs.len() as u64, "job");
        return Err(Failure::file(
            &opened.file,
            format!("job {n} does not exist (the recording has {has}, counted from 0)"),
        ));
    }
    let events: Vec<u64> = timeline.jobs.iter().map(|s| s.submit_event).collect();
    let family = families::find_family(&opened.recording);
    let memory = opened
        .map
        .map(|map| families::memory_at_submits(&opened.recording, map, &events))
        .unwrap_or_default();
    let mut found: Vec<ShaderUse> = Vec::new();
    let mut by_entry: BTreeMap<(u64, GpuVa), Vec<usize>> = BTreeMap::new();
    for (span, memory) in timeline.jobs.iter().zip(&memory) {
        let Some(memory) = memory.as_ref().filter(|_| only.is_none_or(|n| n == span.index)) else {
            continue;
        };
        let chain = family.read_chain(memory, span.head_va);
        for (position, job) in chain.iter().flat_map(|c| &c.jobs).enumerate() {
            for (stage, entry) in job.shaders() {
                let Some(code) = family.decode_code(memory, entry, MAX_CODE) else {
                    continue;
                };
                let runs = ShaderJob {
                    job: span.index,
                    position,
                    va: job.va(),
                    kind: job.type_name(),
                    stage,
                };
                let known = by_entry.entry((memory.space().root.get(), entry)).or_default();
                let same = |n: &&usize| found.get(**n).is_some_and(|f| f.code == code);
                match known.iter().find(same).copied().and_then(|n| found.get_mut(n)) {
                    Some(f) => f.by.push(runs),
                    None => {
                        known.push(found.len());
                        found.push(ShaderUse {
                            space: memory.space().number,
                            code,
                            by: vec![runs],
                        });
                    }
                }
            }
        }
    }
    Ok(found)
}

/// The shaders of a recording, counted and as text.
#[derive(Serialize)]
struct Report {
    /// Number of operations, and of unknown ones, of all different shaders together.
    operations: u64,
    unknown_operations: u64,
    /// The unknown operations, the most frequent first.
    unknown: Vec<UnknownRow>,
    /// The different shaders, in the order in which jobs run them.
    shaders: Vec<ShaderRow>,
}

/// An unknown operation as text, and its use.
#[derive(Serialize)]
struct UnknownRow {
    /// `FMA` or `ADD`.
    unit: &'static str,
    /// The encoding.
    bits: String,
    /// Number of occurrences.
    count: u64,
    /// Number of shaders with it.
    shaders: u64,
}

/// A shader with its jobs and its text.
#[derive(Serialize)]
struct ShaderRow {
    /// Address of the code, and number of the address space.
    shader_va: String,
    address_space: u8,
    /// `compute`, `vertex` or `fragment`.
    stage: &'static str,
    /// Of its clauses: their size, and their operations.
    bytes: u64,
    operations: u64,
    unknown_operations: u64,
    /// Whether the code was read to its end.
    whole: bool,
    /// What follows the last clause, in words.
    end: String,
    /// Jobs that run it.
    jobs: Vec<JobRow>,
    /// Its clauses.
    clauses: Vec<ClauseRow>,
}

/// A job that runs a shader, with the name of its type.
#[derive(Serialize)]
struct JobRow {
    /// Index of the job as in `jobs`.
    job: u32,
    /// Position in its chain.
    position: usize,
    /// Address of the descriptor.
    va: String,
    /// Type of the job.
    #[serde(rename = "type")]
    kind: Option<&'static str>,
}

/// A clause as text.
#[derive(Serialize)]
struct ClauseRow {
    /// Address of the clause.
    va: String,
    /// `clause_N`.
    label: String,
    /// The header as text.
    header: String,
    /// Size.
    bytes: u64,
    /// Whether the entry leads here.
    reached: bool,
    /// Targets of its branches.
    targets: Vec<String>,
    /// Whether a branch leads to an address in a register.
    indirect: bool,
    /// Its tuples.
    tuples: Vec<TupleRow>,
}

/// The two operations of a tuple as text.
#[derive(Serialize)]
struct TupleRow {
    /// The operations of both units.
    fma: OperationRow,
    add: OperationRow,
}

/// An operation as text.
#[derive(Serialize)]
struct OperationRow {
    /// Text of the operation.
    text: String,
    /// Its encoding.
    bits: String,
    /// Whether the operation is known.
    known: bool,
}

fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Fma => "FMA",
        Unit::Add => "ADD",
    }
}

/// Returns the label of a clause in the text of a shader.
fn label(c: &Clause, entry: GpuVa) -> String {
    format!(
        "clause_{}",
        c.address.wrapping_sub(entry.get()) / bifrost::WORD_BYTES as u64
    )
}

fn clause_row(c: &CodeClause, entry: GpuVa) -> ClauseRow {
    let clause = &c.clause;
    let operation = |n: usize, unit: Unit, bits: u32, known: bool| OperationRow {
        text: clause.instruction_text(n, unit, entry.get()),
        bits: format_hex(u64::from(bits)),
        known,
    };
    let tuple = |(n, t): (usize, &bifrost::Tuple)| TupleRow {
        fma: operation(n, Unit::Fma, t.fma_bits, t.fma.is_some()),
        add: operation(n, Unit::Add, t.add_bits, t.add.is_some()),
    };
    ClauseRow {
        va: format_hex(clause.address),
        label: label(clause, entry),
        header: header_text(clause.header),
        bytes: clause.bytes(),
        reached: c.reachable,
        targets: c.targets.iter().map(|t| format_hex(t.get())).collect(),
        indirect: c.indirect,
        tuples: clause.tuples.iter().enumerate().map(tuple).collect(),
    }
}

fn shader_row(f: &ShaderUse) -> ShaderRow {
    let code = &f.code;
    ShaderRow {
        shader_va: format_hex(code.entry.get()),
        address_space: f.space,
        stage: f.by.first().map_or("", |r| r.stage.name()),
        bytes: code.bytes(),
        operations: code.operations(),
        unknown_operations: code.unknown_operations().values().sum(),
        whole: code.end.is_complete(),
        end: code.end.describe(),
        jobs: f.by.iter().map(job_row).collect(),
        clauses: code.clauses.iter().map(|c| clause_row(c, code.entry)).collect(),
    }
}

fn job_row(r: &ShaderJob) -> JobRow {
    JobRow {
        job: r.job,
        position: r.position,
        va: format_hex(r.va.get()),
        kind: r.kind,
    }
}

/// Returns the unknown encodings of all shaders: their number of uses, and in how many shaders.
fn unknown(found: &[ShaderUse]) -> Vec<(UnknownOperation, u64, u64)> {
    let mut all: BTreeMap<UnknownOperation, (u64, u64)> = BTreeMap::new();
    for (bits, n) in found.iter().flat_map(|f| f.code.unknown_operations()) {
        let (count, shaders) = all.entry(bits).or_default();
        *count += n;
        *shaders += 1;
    }
    let mut list: Vec<_> = all.into_iter().map(|(u, (n, s))| (u, n, s)).collect();
    list.sort_by_key(|(u, n, _)| (std::cmp::Reverse(*n), *u));
    list
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    if arguments.thread.thread.is_none() && !arguments.thread.inputs.is_empty() {
        return Err(Failure::usage(
            "--input changes the data of a thread, not the code: give --thread X,Y,Z, too",
        ));
    }
    let opened = arguments.source.open()?;
    let found = find_shaders(&opened, arguments.job)?;
    if let Some((job, thread)) = arguments.job.zip(arguments.thread.thread) {
        return thread::run(&arguments.source.file, &opened, job, thread, &arguments.thread, out);
    }
    let unknown = unknown(&found);
    let operations: u64 = found.iter().map(|f| f.code.operations()).sum();
    let unknown_operations: u64 = unknown.iter().map(|(_, n, _)| n).sum();
    if out.is_json() {
        let row = |(u, count, shaders): &(UnknownOperation, u64, u64)| UnknownRow {
            unit: unit_name(u.unit()),
            bits: format_hex(u64::from(u.bits)),
            count: *count,
            shaders: *shaders,
        };
        out.value(&Report {
            operations,
            unknown_operations,
            unknown: unknown.iter().map(row).collect(),
            shaders: found.iter().map(shader_row).collect(),
        })?;
        return Ok(Exit::Good);
    }
    if found.is_empty() {
        out.line("no job has a shader")?;
        return Ok(Exit::Good);
    }
    for f in &found {
        text(f, out)?;
    }
    let shaders = format_count(found.len() as u64, "shader");
    out.line(format_args!(
        "{shaders}, {}, {unknown_operations} of them unknown",
        format_count(operations, "operation")
    ))?;
    if !unknown.is_empty() {
        let mut rows = vec![["Unit", "Bits", "Count", "Shaders"].map(str::to_owned).to_vec()];
        for (u, n, s) in unknown {
            let width = 2 + u.unit().bits().div_ceil(4) as usize;
            let bits = format!("{:#0width$x}", u.bits);
            rows.push(vec![unit_name(u.unit()).to_owned(), bits, n.to_string(), s.to_string()]);
        }
        out.table(&rows)?;
    }
    Ok(Exit::Good)
}

/// Maximum number of jobs of a shader that its text lists.
const MAX_LISTED_JOBS: usize = 8;

fn text(f: &ShaderUse, out: &mut Out) -> Result<(), Failure> {
    let code = &f.code;
    let stage = f.by.first().map_or("", |r| r.stage.name());
    let named = |r: &ShaderJob| match r.position {
        0 => r.job.to_string(),
        n => format!("{} (chain {n})", r.job),
    };
    let mut jobs: Vec<String> = f.by.iter().take(MAX_LISTED_JOBS).map(named).collect();
    if f.by.len() > MAX_LISTED_JOBS {
        jobs.push(format!("{} more", f.by.len() - MAX_LISTED_JOBS));
    }
    let word = if f.by.len() == 1 { "job" } else { "jobs" };
    let unknown: u64 = code.unknown_operations().values().sum();
    let message = if unknown == 0 {
        String::new()
    } else {
        format!(", {unknown} of them unknown")
    };
    out.line(format_args!(
        "{stage} shader {:#x}: {word} {}; {}, {} bytes, {}{message}",
        code.entry.get(),
        jobs.join(", "),
        format_count(code.clauses.len() as u64, "clause"),
        code.bytes(),
        format_count(code.operations(), "operation"),
    ))?;
    for c in &code.clauses {
        let clause = &c.clause;
        let reached = if c.reachable { "" } else { "  (unreachable)" };
        out.line("")?;
        out.line(format_args!(
            "{}:  {:#x}{reached}",
            label(clause, code.entry),
            clause.address
        ))?;
        out.line(header_text(clause.header))?;
        for n in 0..clause.tuples.len() {
            for unit in [Unit::Fma, Unit::Add] {
                out.line(format_args!(
                    "    {}",
                    clause.instruction_text(n, unit, code.entry.get())
                ))?;
            }
        }
    }
    if !matches!(code.end, CodeEnd::Padding | CodeEnd::Last) {
        out.line("")?;
        out.line(format_args!("the code ends early: {}", code.end.describe()))?;
    }
    out.line("")?;
    Ok(())
}
