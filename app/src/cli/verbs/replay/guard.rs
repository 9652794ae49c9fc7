//! `replay --guard`: replays with buffers that end at unmapped memory, to find the launch that reads or writes past
//! one.

use crate::cli::failure::complain;
use crate::cli::out::format_count;
use crate::cli::{Exit, Failure, Out, format_hex, progress_line};
use replay_cuda::{ComparisonRules, Script, ScriptBuffer, Step, compare_outputs};
use replay_engine::client::Lease;
use replay_engine::plan::Compiled;
use replay_engine::run::{GuardReport, Outcome, StopLocation};
use serde::Serialize;
use trace_core::Recording;
use trace_core::api_trace::ApiTrace;
use trace_core::recording::LaunchRow;

/// Maximum number of replays: one for each set of buffers that fits into memory, and one for each buffer that the
/// stopped launch reaches.
const MAX_REPLAYS: u32 = 64;

/// Summary of guarded replays, which this verb adds up. The keys are fixed: scripts read them.
#[derive(Serialize)]
pub(super) struct GuardedSummary {
    /// Target, and number of replays.
    #[serde(rename = "board")]
    target: String,
    replays: u32,
    /// Number of buffers that ended at unmapped memory.
    guarded: u64,
    /// Names of buffers that were not moved, because memory holds pointers to them.
    pointed_at: Vec<String>,
    /// Whether outputs differed while buffers were moved. Then something accesses them by addresses that were not
    /// relocated.
    differs: bool,
    /// The launch that accessed memory past a buffer; `null` if there is none.
    past: Option<OutOfBounds>,
    /// Why the replay failed, or `null`.
    failure: Option<String>,
}

/// The place where a guarded run stopped, with the names of its kernel and buffer.
#[derive(Serialize)]
struct OutOfBounds {
    /// The event.
    event: u64,
    /// Whether it is certainly this launch, and not an earlier one.
    sure: bool,
    /// Name of the kernel.
    kernel: Option<String>,
    /// What happened, in words.
    why: String,
    /// The buffer, or `null`.
    buffer: Option<OutOfBoundsBuffer>,
}

/// The buffer whose end a launch passed. The engine has its first event alone.
#[derive(Serialize)]
struct OutOfBoundsBuffer {
    /// Name of the buffer, its address, and its size.
    name: String,
    va: String,
    bytes: u64,
}

/// Inputs of guarded replays.
pub(super) struct GuardedReplay<'a> {
    pub target: &'a str,
    pub recording: &'a Recording,
    pub calls: &'a ApiTrace,
    pub lease: &'a mut Lease,
    pub compiled: &'a mut Compiled,
}

/// Replays with guarded buffers until each was guarded once or a launch stopped, and prints the result.
pub(super) fn run(asked: &mut GuardedReplay<'_>, out: &mut Out) -> Result<Exit, Failure> {
    let script = Script::new(asked.recording).map_err(|e| Failure::usage(e.to_string()))?;
    let calls = asked.calls;
    let name = |b: &ScriptBuffer| calls.buffers().format_address(b.at, b.from + 1);
    let mut all = GuardedSummary {
        target: asked.target.to_owned(),
        replays: 0,
        guarded: 0,
        pointed_at: Vec::new(),
        differs: false,
        past: None,
        failure: None,
    };
    let mut wanted = Some(Vec::new());
    while let Some(list) = wanted.take() {
        let outcome = replay_guarded(asked, list, &mut all)?;
        let calls_outcome = outcome.api();
        if let Some(stopped) = calls_outcome.and_then(|c| c.stopped.clone()) {
            all.past = Some(find_overrun(asked, &script, &stopped, &mut all, &name)?);
            break;
        }
        if let Some(why) = &outcome.failure {
            all.failure = Some(why.clone());
            break;
        }
        let report = calls_outcome.and_then(|c| c.guard.clone()).unwrap_or_default();
        all.guarded += report.guarded.len() as u64;
        all.differs |= has_differing_outputs(&outcome);
        all.pointed_at.extend(buffer_names(&script, &report.pointed_at, &name));
        if let Some(left) = take_remaining(&report, &mut all) {
            wanted = Some(left);
        }
    }
    print_summary(&all, out)?;
    Ok(Exit::differs_if(all.past.is_some() || all.failure.is_some()))
}

/// Returns the buffers for another replay, if this one guarded any.
fn take_remaining(report: &GuardReport, all: &mut GuardedSummary) -> Option<Vec<u64>> {
    if report.left.is_empty() {
        return None;
    }
    if report.guarded.is_empty() || all.replays >= MAX_REPLAYS {
        all.failure = Some(format!(
            "{} are larger than the memory that the device has left, and were not guarded",
            format_count(report.left.len() as u64, "buffer")
        ));
        return None;
    }
    Some(report.left.clone())
}

fn buffer_names(script: &Script, events: &[u64], name: &dyn Fn(&ScriptBuffer) -> String) -> Vec<String> {
    let found = events
        .iter()
        .filter_map(|e| script.buffers.iter().find(|b| b.from == *e));
    found.map(name).collect()
}

fn has_differing_outputs(outcome: &Outcome) -> bool {
    let outputs = outcome.api().into_iter().flat_map(|c| &c.outputs);
    outputs.into_iter().any(|o| o.differs_at.is_some())
}

/// Replays once with these buffers guarded, or with all if the list is empty.
fn replay_guarded(asked: &mut GuardedReplay<'_>, list: Vec<u64>, all: &mut GuardedSummary) -> Result<Outcome, Failure> {
    all.replays += 1;
    if let Some(calls) = asked.compiled.plan.api_mut() {
        (calls.guard, calls.step) = (Some(list), true);
    }
    let mut outcome = replay(asked)?;
    compare_outputs(&mut outcome, asked.recording, &ComparisonRules::default());
    Ok(outcome)
}

fn replay(asked: &mut GuardedReplay<'_>) -> Result<Outcome, Failure> {
    let (lease, compiled) = (&mut *asked.lease, &*asked.compiled);
    progress_line::run_with_progress("replaying with guards", |progress, _| {
        let done = lease.replay(compiled, 1, progress, false);
        done.map_err(|e| Failure::usage(e.to_string()))
    })
}

/// Finds the buffer that a stopped launch overruns: the one that stops the launch when it alone is guarded.
fn find_overrun(
    asked: &mut GuardedReplay<'_>,
    script: &Script,
    stopped: &StopLocation,
    all: &mut GuardedSummary,
    name: &dyn Fn(&ScriptBuffer) -> String,
) -> Result<OutOfBounds, Failure> {
    let event = stopped.event.unwrap_or(0);
    let mut past = OutOfBounds {
        event,
        sure: stopped.sure && stopped.event.is_some(),
        kernel: stopped.function.clone(),
        why: stopped.why.clone(),
        buffer: None,
    };
    // Without guards the launch must succeed. Otherwise it fails by itself.
    if let Some(calls) = asked.compiled.plan.api_mut() {
        calls.guard = None;
    }
    all.replays += 1;
    let plain = replay(asked)?;
    if plain.api().is_some_and(|c| c.stopped.is_some()) {
        past.why = format!("{} (without guards too)", past.why);
        return Ok(past);
    }
    for buffer in find_argument_buffers(script, event) {
        if all.replays >= MAX_REPLAYS {
            break;
        }
        let outcome = replay_guarded(asked, vec![buffer.from], all)?;
        let here = outcome.api().and_then(|c| c.stopped.as_ref()).and_then(|s| s.event);
        if here == Some(event) {
            past.buffer = Some(OutOfBoundsBuffer {
                name: name(&buffer),
                va: format_hex(buffer.at.get()),
                bytes: buffer.bytes,
            });
            break;
        }
    }
    Ok(past)
}

/// Returns the buffers whose addresses are among the arguments of a launch at that time.
fn find_argument_buffers(script: &Script, event: u64) -> Vec<ScriptBuffer> {
    let launch = script.steps.iter().find_map(|(at, step)| match step {
        Step::Launch(row, arguments) if *at == event => Some((row, arguments)),
        _ => None,
    });
    let Some((_, arguments)): Option<(&LaunchRow, &Vec<u8>)> = launch else {
        return Vec::new();
    };
    let live = |b: &&ScriptBuffer| b.from <= event && b.to.is_none_or(|to| event < to);
    let mut found: Vec<ScriptBuffer> = Vec::new();
    for word in arguments.as_chunks::<8>().0 {
        let at = u64::from_le_bytes(*word);
        let holds = |b: &&ScriptBuffer| at >= b.at.get() && at - b.at.get() <= b.bytes;
        found.extend(script.buffers.iter().filter(live).filter(holds));
    }
    found.sort_by_key(|b| b.from);
    found.dedup();
    found
}

fn print_summary(all: &GuardedSummary, out: &mut Out) -> Result<(), Failure> {
    if out.is_json() {
        return Ok(out.value(all)?);
    }
    out.line(format!(
        "{} guarded in {} on {}",
        format_count(all.guarded, "buffer"),
        format_count(u64::from(all.replays), "replay"),
        all.target
    ))?;
    for name in &all.pointed_at {
        out.line(format!("{name} was not guarded: memory holds addresses of it"))?;
    }
    if all.differs {
        complain("outputs differ when buffers are moved: kernels use addresses that were not moved with them");
    }
    if let Some(why) = &all.failure {
        complain(format_args!("the guarded replay failed: {why}"));
    }
    let Some(past) = &all.past else {
        return Ok(());
    };
    let kernel = past.kernel.as_deref().unwrap_or("a launch");
    let before = if past.sure { "" } else { " or before it" };
    let place = format!("event {}{before}: {kernel}", past.event);
    out.line(match &past.buffer {
        Some(b) => format!(
            "{place} reads or writes past the end of {}, {} at {}: {}",
            b.name,
            format_count(b.bytes, "byte"),
            b.va,
            past.why
        ),
        None => format!("{place} reads or writes past the end of a buffer: {}", past.why),
    })?;
    Ok(())
}
