//! Guarded replays of an API trace: each buffer ends at unmapped memory, to find the launch that reads or writes past
//! one.

use super::request::{PreparedReplay, ReplayRequest, RequestError};
use replay_cuda::{ComparisonRules, Script, ScriptBuffer, Step, compare_outputs};
use replay_engine::client::{ClientError, Lease};
use replay_engine::plan::Compiled;
use replay_engine::run::{GuardReport, Outcome, StopLocation};
use serde::Serialize;
use trace_core::Recording;
use trace_core::api_trace::ApiTrace;
use trace_core::progress::Progress;
use trace_core::recording::LaunchRow;

/// Maximum number of replays: one for each set of buffers that fits into memory, and one for each buffer that the
/// stopped launch reaches.
const MAX_REPLAYS: u32 = 64;

/// Summary of guarded replays. The keys are fixed: scripts read them.
#[derive(Clone, Debug, Serialize)]
pub struct GuardedSummary {
    /// Target.
    #[serde(rename = "board")]
    pub target: String,
    /// Number of replays.
    pub replays: u32,
    /// Number of buffers that ended at unmapped memory.
    pub guarded: u64,
    /// Names of buffers that were not moved, because memory holds pointers to them.
    pub pointed_at: Vec<String>,
    /// Whether outputs differed while buffers were moved. Then something accesses them by addresses that were not
    /// relocated.
    pub differs: bool,
    /// The launch that accessed memory past a buffer; `null` if there is none.
    pub past: Option<OutOfBounds>,
    /// Why the replay failed, or `null`.
    pub failure: Option<String>,
}

/// The place where a guarded run stopped, with the names of its kernel and buffer.
#[derive(Clone, Debug, Serialize)]
pub struct OutOfBounds {
    /// The event.
    pub event: u64,
    /// Whether it is certainly this launch, and not an earlier one.
    pub sure: bool,
    /// Name of the kernel.
    pub kernel: Option<String>,
    /// What happened, in words.
    pub why: String,
    /// The buffer, or `null`.
    pub buffer: Option<OutOfBoundsBuffer>,
}

/// The buffer whose end a launch passed. The engine has its first event alone.
#[derive(Clone, Debug, Serialize)]
pub struct OutOfBoundsBuffer {
    /// Name of the buffer.
    pub name: String,
    /// Its address.
    pub va: String,
    /// Its size.
    pub bytes: u64,
}

impl GuardedSummary {
    /// Describes how much was guarded.
    #[must_use]
    pub fn describe(&self) -> String {
        let (buffers, replays) = (count(self.guarded, "buffer"), count(u64::from(self.replays), "replay"));
        format!("{buffers} guarded in {replays} on {}", self.target)
    }

    /// Describes each thing that limits the result.
    #[must_use]
    pub fn describe_limits(&self) -> Vec<String> {
        let mut all = Vec::new();
        if self.differs {
            let why = "outputs differ when buffers are moved: kernels use addresses that were not moved with them";
            all.push(why.to_owned());
        }
        if let Some(why) = &self.failure {
            all.push(format!("the guarded replay failed: {why}"));
        }
        all
    }

    /// Describes each buffer that was not guarded.
    pub fn describe_unguarded(&self) -> impl Iterator<Item = String> {
        let all = self.pointed_at.iter();
        all.map(|name| format!("{name} was not guarded: memory holds addresses of it"))
    }
}

impl OutOfBounds {
    /// Describes the launch and the buffer.
    #[must_use]
    pub fn describe(&self) -> String {
        let kernel = self.kernel.as_deref().unwrap_or("a launch");
        let before = if self.sure { "" } else { " or before it" };
        let place = format!("event {}{before}: {kernel}", self.event);
        match &self.buffer {
            Some(b) => format!(
                "{place} reads or writes past the end of {}, {} at {}: {}",
                b.name,
                count(b.bytes, "byte"),
                b.va,
                self.why
            ),
            None => format!("{place} reads or writes past the end of a buffer: {}", self.why),
        }
    }
}

fn count(n: u64, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// A guarded replay under way.
struct GuardedReplay<'a> {
    recording: &'a Recording,
    lease: &'a mut Lease,
    compiled: &'a mut Compiled,
    progress: &'a Progress,
}

/// Replays an API trace with guarded buffers until each was guarded once or a launch stopped. The plan keeps the last
/// guards. Each replay starts its progress anew.
///
/// # Errors
/// If the recording is no API trace of CUDA, the target fails or is lost, or the user cancels.
pub fn run(
    request: &ReplayRequest,
    (recording, calls): (&Recording, &ApiTrace),
    prepared: &mut PreparedReplay,
    lease: &mut Lease,
    progress: &Progress,
) -> Result<GuardedSummary, RequestError> {
    request.set_up(lease)?;
    if prepared.compiled.plan.api().is_none() || recording.api().is_none() {
        return Err(RequestError::GuardRegisterTrace);
    }
    let script = Script::new(recording).map_err(|e| RequestError::Guard(e.to_string()))?;
    let name = |b: &ScriptBuffer| calls.buffers().format_address(b.at, b.from + 1);
    let mut asked = GuardedReplay {
        recording,
        lease,
        compiled: &mut prepared.compiled,
        progress,
    };
    let mut all = GuardedSummary {
        target: request.target.clone(),
        replays: 0,
        guarded: 0,
        pointed_at: Vec::new(),
        differs: false,
        past: None,
        failure: None,
    };
    let mut wanted = Some(Vec::new());
    while let Some(list) = wanted.take() {
        let outcome = replay_guarded(&mut asked, list, &mut all)?;
        let calls_outcome = outcome.api();
        if let Some(stopped) = calls_outcome.and_then(|c| c.stopped.clone()) {
            all.past = Some(find_overrun(&mut asked, &script, &stopped, &mut all, &name)?);
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
    Ok(all)
}

/// Returns the buffers for another replay, if this one guarded any.
fn take_remaining(report: &GuardReport, all: &mut GuardedSummary) -> Option<Vec<u64>> {
    if report.left.is_empty() {
        return None;
    }
    if report.guarded.is_empty() || all.replays >= MAX_REPLAYS {
        all.failure = Some(format!(
            "{} are larger than the memory that the device has left, and were not guarded",
            count(report.left.len() as u64, "buffer")
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
fn replay_guarded(
    asked: &mut GuardedReplay<'_>,
    list: Vec<u64>,
    all: &mut GuardedSummary,
) -> Result<Outcome, ClientError> {
    all.replays += 1;
    if let Some(calls) = asked.compiled.plan.api_mut() {
        (calls.guard, calls.step) = (Some(list), true);
    }
    let mut outcome = replay(asked)?;
    compare_outputs(&mut outcome, asked.recording, &ComparisonRules::default());
    Ok(outcome)
}

fn replay(asked: &mut GuardedReplay<'_>) -> Result<Outcome, ClientError> {
    asked.lease.replay(asked.compiled, 1, asked.progress, false)
}

/// Finds the buffer that a stopped launch overruns: the one that stops the launch when it alone is guarded.
fn find_overrun(
    asked: &mut GuardedReplay<'_>,
    script: &Script,
    stopped: &StopLocation,
    all: &mut GuardedSummary,
    name: &dyn Fn(&ScriptBuffer) -> String,
) -> Result<OutOfBounds, ClientError> {
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
                va: format!("{:#x}", buffer.at.get()),
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
