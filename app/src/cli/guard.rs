//! `replay --guard`: replays in which buffers end at unmapped memory, and the launch that reads or writes past one.

use super::failure::complain;
use super::out::format_count;
use super::{Exit, Failure, Out, format_hex, progress_line};
use replay_engine::client::Lease;
use replay_engine::device::cuda::{GuardReport, Script, ScriptBuffer, Step};
use replay_engine::plan::Compiled;
use replay_engine::run::Outcome;
use replay_engine::run::calls::{ComparisonRules, StopLocation, compare_outputs};
use serde::Serialize;
use trace_core::Recording;
use trace_core::calls::Calls;
use trace_core::recording::LaunchRow;

/// Maximum number of replays: one for each part of the buffers that fits into memory, one for each buffer that the
/// launch which stopped reaches.
const MAX_REPLAYS: u32 = 64;

/// What guarded replays came to. The keys are fixed: scripts read them.
#[derive(Serialize)]
pub(super) struct GuardedSummary {
    board: String,
    replays: u32,
    /// Buffers that were guarded.
    guarded: u64,
    /// Buffers that stayed where they were, because memory holds addresses of them.
    pointed_at: Vec<String>,
    /// Whether outputs differ while buffers lie elsewhere: something reaches them by addresses that are not moved.
    differs: bool,
    /// The launch that reads or writes past a buffer; `null`: none was seen.
    past: Option<OutOfBounds>,
    /// Why a replay failed that no guard explains.
    failure: Option<String>,
}

#[derive(Serialize)]
struct OutOfBounds {
    event: u64,
    /// Whether it is this launch, and not one before it.
    sure: bool,
    kernel: Option<String>,
    why: String,
    /// The buffer; `null`: none of those that the launch is given explains it alone.
    buffer: Option<OutOfBoundsBuffer>,
}

#[derive(Serialize)]
struct OutOfBoundsBuffer {
    name: String,
    va: String,
    bytes: u64,
}

/// What guarded replays are made of.
pub(super) struct GuardedReplay<'a> {
    pub board: &'a str,
    pub recording: &'a Recording,
    pub calls: &'a Calls,
    pub lease: &'a mut Lease,
    pub compiled: &'a mut Compiled,
}

/// Replays with guarded buffers until all were guarded once or a launch stopped, and says what came of it.
pub(super) fn run(asked: &mut GuardedReplay<'_>, out: &mut Out) -> Result<Exit, Failure> {
    let script = Script::new(asked.recording).map_err(|e| Failure::usage(e.to_string()))?;
    let calls = asked.calls;
    let name = |b: &ScriptBuffer| calls.buffers().format_address(b.at, b.from + 1);
    let mut all = GuardedSummary {
        board: asked.board.to_owned(),
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
        let calls_outcome = outcome.calls.as_ref();
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

/// Buffers for another replay, where this one guarded any at all.
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
    let outputs = outcome.calls.iter().flat_map(|c| &c.outputs);
    outputs.into_iter().any(|o| o.differs_at.is_some())
}

/// One replay with these buffers guarded, all if there are none.
fn replay_guarded(asked: &mut GuardedReplay<'_>, list: Vec<u64>, all: &mut GuardedSummary) -> Result<Outcome, Failure> {
    all.replays += 1;
    if let Some(calls) = &mut asked.compiled.plan.calls {
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

/// The buffer that a launch which stopped the device goes past: the one with which alone it stops there.
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
    // Where nothing is guarded it has to go well: otherwise the launch goes wrong by itself.
    if let Some(calls) = &mut asked.compiled.plan.calls {
        calls.guard = None;
    }
    all.replays += 1;
    let plain = replay(asked)?;
    if plain.calls.is_some_and(|c| c.stopped.is_some()) {
        past.why = format!("{} (without guards too)", past.why);
        return Ok(past);
    }
    for buffer in find_argument_buffers(script, event) {
        if all.replays >= MAX_REPLAYS {
            break;
        }
        let outcome = replay_guarded(asked, vec![buffer.from], all)?;
        let here = outcome.calls.and_then(|c| c.stopped).and_then(|s| s.event);
        if here == Some(event) {
            past.buffer = Some(OutOfBoundsBuffer {
                name: name(&buffer),
                va: format_hex(buffer.at),
                bytes: buffer.bytes,
            });
            break;
        }
    }
    Ok(past)
}

/// Buffers whose addresses are among a launch's arguments, as they stand then.
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
        let holds = |b: &&ScriptBuffer| at >= b.at && at - b.at <= b.bytes;
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
        all.board
    ))?;
    for name in &all.pointed_at {
        out.line(format!("{name} was not guarded: memory holds addresses of it"))?;
    }
    if all.differs {
        complain("outputs differ while buffers lie elsewhere: kernels reach them by addresses that were not moved");
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
