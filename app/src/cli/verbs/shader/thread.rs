//! `shader --thread`: traces a thread of a job clause by clause on the simulated GPU.

use crate::cli::memory_access::AccessRow;
use crate::cli::out::format_count;
use crate::cli::replay_arguments::Inputs;
use crate::cli::source::SourceRecording;
use crate::cli::{Exit, Failure, Out, format_hex, progress_line};
use bifrost::Unit;
use clap::Args;
use device_mali::debug::{MAX_STEPS, Thread, ThreadEnd, ThreadQuery, ThreadTrace};
use kinescope_session::debug::{self, DebugSession};
use serde::Serialize;
use std::path::Path;
use trace_core::GpuVa;
use trace_core::families::{ChainEnd, JobChain, JobWork, find_family};
use trace_core::shader_code::Code;

/// Selection of the thread, and of the traced part.
#[derive(Args)]
pub struct ThreadArguments {
    /// Trace this thread of the job's workgroup on the simulated GPU: every clause that it executes, with the registers
    /// that change and the memory that it reads and writes
    #[arg(long, value_name = "X,Y,Z", value_parser = three, requires = "job")]
    pub thread: Option<[u32; 3]>,
    /// Workgroup of the thread
    #[arg(long, value_name = "X,Y,Z", value_parser = three, requires = "thread", default_value = "0,0,0")]
    workgroup: [u32; 3],
    /// Index of the job in its chain, from 0 [default: the first with a compute shader]
    #[arg(long, value_name = "N", requires = "thread")]
    position: Option<u32>,
    /// Print every step, not only the initial state of the thread, its end and its writes
    #[arg(long, requires = "thread")]
    trace: bool,
    /// First clause to keep, counted from the start of the thread
    #[arg(long, value_name = "N", requires = "thread", default_value_t = 0)]
    from: u64,
    /// Maximum number of clauses to keep
    #[arg(long, value_name = "N", requires = "thread", default_value_t = MAX_STEPS as u32,
          value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    steps: u32,
    #[command(flatten)]
    pub inputs: Inputs,
}

/// Parses `X,Y,Z`, `X,Y` or `X`.
fn three(text: &str) -> Result<[u32; 3], String> {
    let mut out = [0; 3];
    let parts: Vec<&str> = text.split(',').collect();
    let wrong = || format!("'{text}' is not a position (expected X,Y,Z, each from 0)");
    if parts.len() > 3 {
        return Err(wrong());
    }
    for (to, part) in out.iter_mut().zip(parts) {
        *to = part.trim().parse().map_err(|_| wrong())?;
    }
    Ok(out)
}

/// A thread that was followed, with its registers as text.
#[derive(Serialize)]
struct Report {
    /// The job: index as in `jobs`, position in its chain, addresses of the job and of its shader.
    job: u32,
    position: u32,
    job_va: String,
    shader_va: String,
    /// The thread, along x, y, z.
    workgroup: [u32; 3],
    thread: [u32; 3],
    /// Number of workgroups of the job, and of threads of a workgroup.
    workgroups: [u32; 3],
    size: [u32; 3],
    /// Pushed uniforms, 64 bits each.
    uniforms: Vec<String>,
    /// Number of clauses that the thread executed.
    executed: u64,
    /// Whether all of them are in `steps`.
    whole: bool,
    /// `ended`, or `stopped`.
    end: &'static str,
    /// Why it was stopped, else `null`.
    stopped: Option<String>,
    /// All 64 registers, before the first kept step and after the last.
    registers_before: Vec<String>,
    registers_after: Vec<String>,
    /// The kept steps.
    steps: Vec<StepRow>,
}

/// A clause that the thread executed, with the text of its operations.
#[derive(Serialize)]
struct StepRow {
    /// Counted from the thread's start.
    step: u64,
    /// The clause.
    clause_va: String,
    label: String,
    /// Threads of its wave that executed the clause with it.
    threads_together: u32,
    /// Registers that changed.
    registers: Vec<ChangeRow>,
    /// Memory accesses of the thread.
    reads: Vec<AccessRow>,
    writes: Vec<AccessRow>,
}

/// A register that changed, by its name.
#[derive(Serialize)]
struct ChangeRow {
    /// Name of the register.
    register: String,
    /// Its value before and after the clause.
    before: String,
    after: String,
}

/// Traces a thread and prints what it did.
pub fn run(
    file: &Path,
    opened: &SourceRecording,
    job: u32,
    thread: [u32; 3],
    arguments: &ThreadArguments,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let recording = &opened.recording;
    let timeline = opened.timeline()?;
    let span = timeline.jobs.iter().find(|j| j.index == job);
    let submit = span.map_or(0, |s| s.submit_event);
    let head = span.map_or(GpuVa::ZERO, |s| s.head_va);
    let space = debug::find_job_space(recording, submit).unwrap_or(0);
    let position = match arguments.position {
        Some(p) => {
            let has = chain_length(opened, head, space, submit);
            if let Some(n) = has.filter(|n| u64::from(p) >= *n) {
                let jobs = format_count(n, "job");
                let message =
                    format!("position {p} does not exist in the chain of job {job} (it has {jobs}, counted from 0)");
                return Err(Failure::file(file, message));
            }
            p
        }
        None => find_first_compute(opened, head, space, submit).unwrap_or(0),
    };
    let edits = arguments.inputs.edits(opened)?;
    let query = ThreadQuery {
        chain: job,
        position,
        workgroup: arguments.workgroup,
        thread: Thread::At(thread),
        from: arguments.from,
        max_steps: arguments.steps as usize,
        mark: None,
    };
    let trace = progress_line::run_with_progress("running", |progress, _| {
        let ready = DebugSession::new(recording, &edits, progress).map_err(|e| Failure::file(file, e))?;
        ready.follow(query, progress).map_err(|e| Failure::file(file, e))
    })?;
    let followed = FollowedThread {
        job,
        position,
        workgroup: arguments.workgroup,
        thread,
        code: debug::code_at(recording, space, submit, trace.shader),
        trace,
    };
    if out.is_json() {
        out.value(&followed.report())?;
    } else {
        followed.text(arguments.trace, out)?;
    }
    Ok(Exit::differs_if(followed.stop_reason().is_some()))
}

/// A thread that was followed, with the code of its shader.
struct FollowedThread {
    job: u32,
    position: u32,
    workgroup: [u32; 3],
    thread: [u32; 3],
    trace: ThreadTrace,
    code: Option<Code>,
}

impl FollowedThread {
    /// Returns why the workgroup was stopped; `None` if it ended.
    fn stop_reason(&self) -> Option<&str> {
        match &self.trace.end {
            ThreadEnd::Ended => None,
            ThreadEnd::Stopped(why) => Some(why),
        }
    }

    /// Returns the JSON report.
    fn report(&self) -> Report {
        let trace = &self.trace;
        let words = |r: [u32; 64]| r.iter().map(|w| format_hex(u64::from(*w))).collect();
        let stopped = self.stop_reason().map(str::to_owned);
        Report {
            job: self.job,
            position: self.position,
            job_va: format_hex(trace.job.get()),
            shader_va: format_hex(trace.shader.get()),
            workgroup: self.workgroup,
            thread: self.thread,
            workgroups: trace.workgroups,
            size: trace.size,
            uniforms: trace.uniforms.iter().map(|u| format_hex(*u)).collect(),
            executed: trace.executed,
            whole: trace.is_complete(),
            end: if stopped.is_some() { "stopped" } else { "ended" },
            stopped,
            registers_before: words(trace.registers(0)),
            registers_after: words(trace.registers(trace.steps.len())),
            steps: (0..trace.steps.len()).map(|n| self.step(n)).collect(),
        }
    }

    fn step(&self, n: usize) -> StepRow {
        let trace = &self.trace;
        let clause = clause_address(trace, n);
        let instruction = |tuple: u8| {
            let code = self.code.as_ref();
            code.map_or_else(String::new, |c| debug::format_instruction(c, GpuVa::new(clause), tuple))
        };
        let accesses = |write: bool| {
            let all = trace.accesses(n).iter().filter(|a| a.write == write);
            all.map(|a| AccessRow::new(a, instruction(a.tuple))).collect()
        };
        let changes = trace.changes(n).iter().map(|c| ChangeRow {
            register: format!("r{}", c.register),
            before: format_hex(u64::from(c.before)),
            after: format_hex(u64::from(c.after)),
        });
        StepRow {
            step: trace.from + n as u64,
            clause_va: format_hex(clause),
            label: debug::format_clause_label(trace.shader, GpuVa::new(clause)),
            threads_together: trace.steps.get(n).map_or(0, |s| s.active_threads),
            registers: changes.collect(),
            reads: accesses(false),
            writes: accesses(true),
        }
    }

    /// Prints the start of the thread, and its steps: all, or only those that write memory.
    fn text(&self, all: bool, out: &mut Out) -> Result<(), Failure> {
        let trace = &self.trace;
        let ([x, y, z], [gx, gy, gz]) = (self.thread, self.workgroup);
        out.line(format_args!(
            "thread {x},{y},{z} of workgroup {gx},{gy},{gz} of job {}: shader {:#x}, {} executed{}",
            self.job,
            trace.shader,
            format_count(trace.executed, "clause"),
            if trace.is_complete() {
                String::new()
            } else {
                format!(", {} kept from {}", trace.steps.len(), trace.from)
            }
        ))?;
        for (n, u) in trace.uniforms.iter().enumerate() {
            out.line(format_args!("u{n}  {u:#018x}"))?;
        }
        let first = trace.registers(0);
        for (n, word) in first.iter().enumerate().filter(|(_, w)| **w != 0) {
            out.line(format_args!("r{n:<3} {word:#010x}"))?;
        }
        for n in 0..trace.steps.len() {
            if all || trace.accesses(n).iter().any(|a| a.write) {
                self.print_step(n, all, out)?;
            }
        }
        if let Some(why) = self.stop_reason() {
            out.line("")?;
            out.line(format_args!("its workgroup was stopped: {why}"))?;
        }
        Ok(())
    }

    fn print_step(&self, n: usize, with_code: bool, out: &mut Out) -> Result<(), Failure> {
        let trace = &self.trace;
        let clause = clause_address(trace, n);
        let label = debug::format_clause_label(trace.shader, GpuVa::new(clause));
        out.line("")?;
        out.line(format_args!("step {}  {label}:  {clause:#x}", trace.from + n as u64))?;
        let found = self
            .code
            .as_ref()
            .and_then(|c| c.clauses.get(c.at(GpuVa::new(clause))?));
        if let Some(c) = found.filter(|_| with_code) {
            for tuple in 0..c.clause.tuples.len() {
                for unit in [Unit::Fma, Unit::Add] {
                    let text = c.clause.instruction_text(tuple, unit, trace.shader.get());
                    if !text.contains("NOP") {
                        out.line(format_args!("    {text}"))?;
                    }
                }
            }
        }
        for a in trace.accesses(n) {
            let verb = if a.write { "writes" } else { "reads" };
            let bytes = format_count(u64::from(a.bytes), "byte");
            out.line(format_args!("  {verb} {:#x}, {bytes}: {}", a.va, debug::value(a)))?;
        }
        for c in trace.changes(n) {
            out.line(format_args!(
                "  r{} {:#010x} -> {:#010x}",
                c.register, c.before, c.after
            ))?;
        }
        Ok(())
    }
}

fn clause_address(f: &ThreadTrace, step: usize) -> u64 {
    f.steps.get(step).map_or(0, |s| s.clause.get())
}

/// Returns a chain at its submission; `None` if its memory is unknown.
fn read_chain(opened: &SourceRecording, head: GpuVa, space: u32, submit: u64) -> Option<JobChain> {
    let memory = kinescope_session::lookup::memory_at(&opened.recording, space, submit)?;
    find_family(&opened.recording).read_chain(&memory, head)
}

/// Returns the number of jobs of a chain at its submission; `None` if it is unknown, or the chain has no valid end.
fn chain_length(opened: &SourceRecording, head: GpuVa, space: u32, submit: u64) -> Option<u64> {
    let chain = read_chain(opened, head, space, submit)?;
    (chain.end == ChainEnd::End).then_some(chain.jobs.len() as u64)
}

/// Returns the index of the first compute job of a chain.
fn find_first_compute(opened: &SourceRecording, head: GpuVa, space: u32, submit: u64) -> Option<u32> {
    let chain = read_chain(opened, head, space, submit)?;
    let first = chain.jobs.iter().position(|j| j.work() == JobWork::Compute);
    first.and_then(|n| u32::try_from(n).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workgroup_index_has_up_to_three_parts() {
        assert_eq!(three("1,2,3"), Ok([1, 2, 3]));
        assert_eq!(three("7"), Ok([7, 0, 0]));
        assert!(three("1,2,3,4").is_err() && three("x").is_err() && three("").is_err());
    }
}
