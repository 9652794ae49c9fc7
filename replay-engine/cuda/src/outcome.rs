//! Results of an API-trace replay: its outputs compared with the recorded ones, and its recording.

use super::compare::compare;
use super::plan_recording::{PlanCallsError, PlanRecording};
use super::script::{Script, Transfer};
use replay_engine::device::DeviceInfo;
use replay_engine::plan::{PageSource, PlannedCalls, RewriteKind};
use replay_engine::run::{Divergence, Outcome, OutcomeBody, OutputResult, Verdict};
use replay_engine::tune::OutputTolerance;
use std::borrow::Cow;
use std::collections::BTreeMap;
use trace_core::PAGE_SIZE;
use trace_core::recording::{
    CallEvent, Clock, CopyKind, EventsBuilder, Identity, MemoryBuilder, Metadata, Recording, ZERO_PAGE,
};

/// Maximum number of differences that are kept in full.
const KEPT: usize = 1000;

/// Tolerances and expected contents for the outputs, other than the recorded contents.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ComparisonRules {
    /// The tolerance of outputs, by name.
    pub rules: BTreeMap<String, OutputTolerance>,
    /// The tolerance of all other outputs.
    pub rule: Option<OutputTolerance>,
    /// Expected contents of outputs, by name, instead of the recorded ones.
    pub expected: BTreeMap<String, Vec<u8>>,
}

/// Compares the outputs of a replay with its recording, or with the user's expected contents.
///
/// Without a rule an output must equal the recorded one exactly. If the replay had edited inputs, an output without a
/// rule and without expected contents has no expectation. Its differences are reported and are not a divergence. For a
/// plan without its recording, only outputs with given contents are compared.
pub fn compare_outputs(outcome: &mut Outcome, recording: &Recording, against: &ComparisonRules) {
    let given = outcome.rewrites.get(&RewriteKind::Input).is_some_and(|n| *n > 0);
    let OutcomeBody::Api(calls) = &mut outcome.body else {
        return;
    };
    // The plan was made from the script of the same recording, so this does not fail.
    let script = Script::new(recording).unwrap_or_default();
    let known: BTreeMap<&str, &Transfer> = script.outputs.iter().map(|t| (t.name.as_str(), t)).collect();
    calls.outputs.clear();
    outcome.divergences.clear();
    outcome.divergence_count = 0;
    let (mut held, mut alike) = (0, 0);
    for output in &outcome.outputs {
        let wanted = against.expected.get(&output.name);
        let t = known.get(output.name.as_str());
        if t.is_none() && wanted.is_none() {
            continue;
        }
        let recorded = match wanted {
            Some(bytes) => Some(Cow::Borrowed(bytes.as_slice())),
            None => t.and_then(|t| recording.copy_content(&t.row)).map(Cow::Owned),
        };
        let event = t.map_or(0, |t| t.event);
        let asked = against.rules.get(&output.name).copied().or(against.rule);
        let expected = asked.is_some() || wanted.is_some() || !given;
        let rule = asked.unwrap_or_default();
        let mut seen = OutputResult {
            event,
            name: output.name.clone(),
            bytes: output.data.len() as u64,
            held: recorded.is_some(),
            expected,
            ..OutputResult::default()
        };
        if let Some(recorded) = &recorded {
            held += u64::from(expected);
            match compare(recorded, &output.data, rule) {
                None => alike += u64::from(expected),
                Some(d) => {
                    seen.differs_at = Some(d.at);
                    seen.differing = d.count;
                    seen.largest = d.largest;
                    outcome.divergence_count += u64::from(expected);
                    if expected && outcome.divergences.len() < KEPT {
                        outcome.divergences.push(Divergence {
                            event,
                            register: format!("{} at byte {}", output.name, d.at),
                            expected: word(recorded, d.at),
                            got: word(&output.data, d.at),
                            class: "equal".to_owned(),
                            job: None,
                        });
                    }
                }
            }
        }
        calls.outputs.push(seen);
    }
    outcome.reads.compared = held;
    outcome.reads.matched = alike;
    if outcome.verdict != Verdict::Failed {
        outcome.verdict = if outcome.divergence_count == 0 {
            Verdict::Match
        } else {
            Verdict::Diverged
        };
    }
}

/// Returns up to four bytes at an offset as a number.
fn word(bytes: &[u8], at: u64) -> u64 {
    let from = usize::try_from(at)
        .ok()
        .and_then(|at| bytes.get(at..))
        .unwrap_or_default();
    from.iter().take(4).rev().fold(0, |n, b| n << 8 | u64::from(*b))
}

/// Builds the recording of an API-trace replay: the plan's calls with the returned data.
///
/// # Errors
/// If the plan cannot be decoded.
pub(crate) fn build_recording(
    outcome: &Outcome,
    plan: PlannedCalls<'_>,
    pages: &dyn PageSource,
    info: &DeviceInfo,
) -> Result<Recording, PlanCallsError> {
    let plan_recording = PlanRecording::new(plan, pages)?;
    let script = plan_recording.script()?;
    let names: BTreeMap<u64, &str> = script.outputs.iter().map(|t| (t.event, t.name.as_str())).collect();
    let stopped = outcome.api().and_then(|c| c.stopped.as_ref());
    let last = stopped.and_then(|s| s.event).unwrap_or(u64::MAX);
    let was = &plan_recording.recording.events;
    let mut memory = MemoryBuilder::new();
    for page in plan_recording.recording.memory.pages.iter() {
        memory.add_page(page);
    }
    let mut events = EventsBuilder::new();
    let bytes: Vec<u8> = was.call_bytes.iter().collect();
    let numbers: Vec<u32> = was.call_pages.iter().collect();
    // Copied unchanged, so that the rows' positions stay valid.
    events.call_bytes(&bytes);
    events.call_pages(&numbers);
    for (n, original) in plan_recording
        .events
        .iter()
        .enumerate()
        .take_while(|(_, e)| **e <= last)
    {
        let Some(mut call) = was.call(n) else { continue };
        if let CallEvent::Copy(row) = &mut call
            && let Some(name) = names.get(original)
            && CopyKind::from_raw(row.kind) == Some(CopyKind::DeviceToHost)
            && let Some(output) = outcome.outputs.iter().find(|o| o.name == *name)
        {
            let phase = (row.device().get() % PAGE_SIZE as u64) as usize;
            let ids = laid(&mut memory, phase, &output.data);
            row.pages_at = events.call_pages(&ids);
        }
        let thread = was.thread.get(n).unwrap_or(0);
        events.push_call(n as u64, thread, call);
    }
    let recording = Recording {
        metadata: Metadata {
            identity: Identity {
                gpu_name: outcome.device.clone(),
                driver: "kinescope replay".to_owned(),
                board: info.name.clone(),
                tool: concat!("kinescope ", env!("CARGO_PKG_VERSION")).to_owned(),
                source: "outcome".to_owned(),
                clock: Clock::Virtual,
                ..Identity::default()
            },
            kind: plan_recording.recording.metadata.kind.clone(),
            ..Metadata::default()
        },
        events: events.finish(),
        memory: memory.finish(),
        ..Recording::default()
    };
    Ok(recording)
}

fn laid(memory: &mut MemoryBuilder, phase: usize, bytes: &[u8]) -> Vec<u32> {
    let mut ids = Vec::new();
    let (mut rest, mut skip) = (bytes, phase);
    while !rest.is_empty() {
        let mut page = ZERO_PAGE;
        let (now, behind) = rest.split_at(rest.len().min(PAGE_SIZE - skip));
        for (to, from) in page.iter_mut().skip(skip).zip(now) {
            *to = *from;
        }
        ids.push(memory.add_page(&page).0);
        (rest, skip) = (behind, 0);
    }
    ids
}
