//! Content of a recording of a WebAssembly run, counted for `info`.

use super::row;
use crate::cli::Failure;
use crate::cli::failure::complain;
use crate::cli::out::{format_count, format_duration};
use crate::cli::source::SourceRecording;
use kinescope_session::text;
use serde::Serialize;
use std::collections::BTreeMap;
use trace_core::progress::Progress;
use wasm_recording::{CopyEnd, Translation, WasmRun, is_whole_run};
use wasm_run::{PAGE_BYTES, RunEnd, to_nanoseconds};

/// Content of a WebAssembly run, counted for this verb.
#[derive(Serialize)]
pub(super) struct RunCounts {
    /// File name of the program, its size in bytes, and its BLAKE3 digest.
    program: String,
    program_bytes: u64,
    digest: String,
    /// The called function.
    function: String,
    /// The target.
    target: String,
    /// Number of copies at the same time.
    copies_at_once: u32,
    /// Time of translation and compilation, and of the run without it.
    compile_ns: u64,
    run_ns: u64,
    /// Choices of the translator for GPUs; `null` if the program was not translated, or the recording does not say.
    translation: Option<TranslationRow>,
    /// Number of inputs, each with a copy of the program; of system calls, and of calls that the logs did not keep.
    inputs: u64,
    system_calls: u64,
    lost_calls: u64,
    /// Number of copies with exit code 0, with another exit code, and of those that trapped.
    succeeded: u64,
    failed: u64,
    trapped: u64,
    /// Number of copies that did not end, because the run was stopped: all, and those that had started.
    unfinished: u64,
    running: u64,
    /// Kinds of traps, by falling number of copies.
    traps: Vec<TrapCount>,
    /// Limits of a copy.
    limits: LimitRow,
    /// Number of launches of a GPU.
    launches: u64,
}

/// Copies that trapped in the same way.
#[derive(Serialize)]
struct TrapCount {
    /// Name of the kind.
    kind: &'static str,
    /// Number of copies.
    copies: u64,
}

/// Limits of a copy in the units of JSON.
#[derive(Serialize)]
struct LimitRow {
    /// Maximum size of the memory.
    memory_bytes: u64,
    /// Maximum number of nested calls.
    call_depth: u32,
    /// Maximum running time, and maximum fuel; `null` for no limit.
    time_ns: Option<u64>,
    fuel: Option<u64>,
    /// Maximum size of both outputs together.
    output_bytes: u64,
    /// Number of system calls that the log keeps.
    logged_calls: u32,
}

/// Choices of the translator as JSON output. Recordings have the same values in a section of their own.
#[derive(Serialize)]
struct TranslationRow {
    /// Bytes of a copy's memory that stand together; `null` for the translator's choice.
    cell: Option<u32>,
    /// Whether each loop can stop for the host.
    strict: bool,
    /// Whether executions and active lanes are counted.
    profile: bool,
    /// Whether large inputs started first.
    sort: bool,
}

impl From<Translation> for TranslationRow {
    fn from(choices: Translation) -> Self {
        Self {
            cell: choices.cell,
            strict: choices.strict,
            profile: choices.profile,
            sort: choices.sort,
        }
    }
}

/// Counts what a recording of a WebAssembly run holds. A cut or damaged run is complained about, and has no counts.
pub(super) fn count(opened: &SourceRecording) -> Option<RunCounts> {
    if !is_whole_run(&opened.recording) {
        return None;
    }
    let run = match WasmRun::from_recording(&opened.recording, &Progress::new()) {
        Ok(run) => run,
        Err(e) => {
            complain(Failure::file(&opened.file, e));
            return None;
        }
    };
    let count = |is_counted: fn(&CopyEnd) -> bool| run.copies().iter().filter(|c| is_counted(&c.end)).count() as u64;
    let calls = run
        .copies()
        .iter()
        .map(|c| c.call_events.end.saturating_sub(c.call_events.start));
    let (target, limits) = (run.target(), &run.options().limits);
    Some(RunCounts {
        program: run.program_name().to_owned(),
        program_bytes: run.program().len() as u64,
        digest: run.program_digest().to_owned(),
        function: run.options().function.clone(),
        target: target.name.clone(),
        copies_at_once: target.copies,
        compile_ns: target.compile_ns,
        run_ns: target.run_ns,
        translation: target.translation.map(TranslationRow::from),
        inputs: run.copies().len() as u64,
        system_calls: calls.sum(),
        lost_calls: run.copies().iter().fold(0, |sum, c| sum.saturating_add(c.lost_calls)),
        succeeded: count(|end| matches!(end, CopyEnd::Ended(RunEnd::Exit(0)))),
        failed: count(|end| matches!(end, CopyEnd::Ended(RunEnd::Exit(1..)))),
        trapped: count(|end| matches!(end, CopyEnd::Ended(RunEnd::Trap(_)))),
        unfinished: count(|end| end.ended().is_none()),
        running: count(|end| *end == CopyEnd::Running),
        traps: count_traps(&run),
        limits: LimitRow {
            memory_bytes: u64::from(limits.memory_pages) * PAGE_BYTES,
            call_depth: limits.call_depth,
            time_ns: limits.time.map(to_nanoseconds),
            fuel: limits.fuel,
            output_bytes: limits.output_bytes,
            logged_calls: limits.log_entries,
        },
        launches: run.launches().len() as u64,
    })
}

fn count_traps(run: &WasmRun) -> Vec<TrapCount> {
    let mut kinds: BTreeMap<u32, TrapCount> = BTreeMap::new();
    for copy in run.copies() {
        if let CopyEnd::Ended(RunEnd::Trap(trap)) = &copy.end {
            let count = kinds.entry(trap.kind.number()).or_insert_with(|| TrapCount {
                kind: trap.kind.name(),
                copies: 0,
            });
            count.copies += 1;
        }
    }
    let mut traps: Vec<TrapCount> = kinds.into_values().collect();
    traps.sort_by_key(|t| std::cmp::Reverse(t.copies));
    traps
}

/// Returns the rows of text.
pub(super) fn rows(run: &RunCounts) -> Vec<Vec<String>> {
    let lost = match run.lost_calls {
        0 => String::new(),
        n => format!(", and {n} after the logs"),
    };
    let unfinished = match run.unfinished {
        0 => String::new(),
        n => format!(", {} running, {} not run", run.running, n.saturating_sub(run.running)),
    };
    let copies = match run.copies_at_once {
        1 => "1 copy at a time".to_owned(),
        n => format!("{n} copies at a time"),
    };
    let target = [
        run.target.clone(),
        copies,
        format!("compiled in {}", format_duration(run.compile_ns)),
        format!("ran in {}", format_duration(run.run_ns)),
    ];
    let mut rows = vec![
        row(
            "Program",
            format!(
                "{} ({}), {}",
                run.program,
                format_count(run.program_bytes, "byte"),
                run.function
            ),
        ),
        row("Digest", run.digest.clone()),
        row("Target", target.join(", ")),
    ];
    rows.extend(
        run.translation
            .iter()
            .map(|t| row("Translation", describe_translation(t))),
    );
    rows.push(row(
        "Inputs",
        format!(
            "{}: {} with exit code 0, {} with another exit code, {} trapped{unfinished}",
            run.inputs, run.succeeded, run.failed, run.trapped
        ),
    ));
    if !run.traps.is_empty() {
        let kinds = run.traps.iter().map(|t| format!("{} {}", t.copies, t.kind));
        rows.push(row("Traps", kinds.collect::<Vec<_>>().join(", ")));
    }
    rows.push(row("System calls", format!("{}{lost}", run.system_calls)));
    if run.launches > 0 {
        rows.push(row("Launches", run.launches.to_string()));
    }
    rows.push(row("Limits", describe_limits(&run.limits)));
    rows
}

fn describe_translation(translation: &TranslationRow) -> String {
    let cell = match translation.cell {
        Some(bytes) => format!("cells of {bytes} bytes"),
        None => "cells of the translator's choice".to_owned(),
    };
    let choices = [
        (translation.strict, "strict"),
        (translation.profile, "with profile"),
        (translation.sort, "large inputs first"),
    ];
    let chosen = choices.into_iter().filter(|(is_chosen, _)| *is_chosen);
    let parts: Vec<&str> = std::iter::once(cell.as_str())
        .chain(chosen.map(|(_, name)| name))
        .collect();
    parts.join(", ")
}

fn describe_limits(limits: &LimitRow) -> String {
    let mut parts = vec![
        format!("{} of memory", text::bytes(limits.memory_bytes)),
        format_count(limits.call_depth.into(), "nested call"),
    ];
    parts.extend(limits.time_ns.map(format_duration));
    parts.extend(limits.fuel.map(|fuel| format!("{fuel} fuel")));
    parts.push(format!("{} of output", text::bytes(limits.output_bytes)));
    parts.push(format!(
        "{} in the log",
        format_count(limits.logged_calls.into(), "system call")
    ));
    parts.join(", ")
}
