//! What a replay of calls did: its outputs beside the recorded ones, and the recording of it.

use super::outcome::{Divergence, Outcome, Verdict};
use crate::device::DeviceInfo;
use crate::device::cuda::worker::PrepareTimes;
use crate::device::cuda::{GuardReport, OutputTolerance, Script, Transfer, compare};
use crate::memory_trace::MemoryTraceReport;
use crate::plan::calls::{PlanCallsError, PlanRecording};
use crate::plan::{PageSource, Plan, RewriteKind};
use crate::tune::TuneReport;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use trace_core::PAGE_SIZE;
use trace_core::recording::{
    CALL_FACTS, CallEvent, Clock, CopyKind, EventsBuilder, Facts, Identity, MemoryBuilder, Recording, ZERO_PAGE,
};

/// Differences that are kept in full.
const KEPT: usize = 1000;

/// An output beside the recorded one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OutputResult {
    /// Event of the recording that brought it back.
    pub event: u64,
    /// Its name.
    pub name: String,
    /// Bytes.
    pub bytes: u64,
    /// Whether the recording holds what it has to be.
    pub held: bool,
    /// Whether it has to be as recorded: with inputs of the person's, and no rule for it, it has not.
    pub expected: bool,
    /// First byte that differs beyond the rule.
    pub differs_at: Option<u64>,
    /// Elements, or bytes where the rule is exact, that differ beyond the rule.
    pub differing: u64,
    /// Largest distance of two elements, where the rule tells their type.
    pub largest: Option<f64>,
}

/// Where a replay of calls stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StopLocation {
    /// Event of the recording, as far as it is known.
    pub event: Option<u64>,
    /// Whether that event is known to be the cause; otherwise it was this one or an earlier one.
    pub sure: bool,
    /// The function that was launched there.
    pub function: Option<String>,
    /// What happened, in words.
    pub why: String,
}

/// What is told of a replay of calls beside what is told of every replay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallsOutcome {
    /// Launches of each time.
    pub launches: u64,
    /// Nanoseconds until the first step: the driver begun, memory mapped, code loaded.
    pub ready_ns: u64,
    /// What these, and what was done between them and the first run, went to.
    pub parts: PrepareTimes,
    /// Bytes of memory that were mapped.
    pub mapped: u64,
    /// Whether the range was one graph.
    pub graph: bool,
    /// Pages of 4 KiB that were put back before each time but the first.
    pub restored: Vec<u64>,
    /// What was left out, in words.
    pub left_out: Vec<String>,
    /// Of each launch its event and the shortest time that the device took for it in nanoseconds, where that was asked for.
    pub launch_ns: Vec<[u64; 2]>,
    /// What was guarded, where something was to be.
    pub guard: Option<GuardReport>,
    /// Outputs beside the recorded ones; empty until they were held against a recording.
    pub outputs: Vec<OutputResult>,
    /// Where it stopped, when it did.
    pub stopped: Option<StopLocation>,
    /// What a tuning came to, where one was asked for.
    pub tuned: Option<TuneReport>,
    /// What watching memory came to, where that was asked for; what was seen is the one output.
    pub watched: Option<MemoryTraceReport>,
}

impl CallsOutcome {
    /// Whether a tuning tried any points, also one that was stopped.
    #[must_use]
    pub fn has_tried(&self) -> bool {
        self.tuned.as_ref().is_some_and(|t| !t.points.is_empty())
    }

    /// Outputs of which nothing was expected because inputs were the person's: how many differ from the recorded ones,
    /// and how many there are.
    #[must_use]
    pub fn free_outputs(&self) -> (u64, u64) {
        let free = || self.outputs.iter().filter(|s| s.held && !s.expected);
        let differ = free().filter(|s| s.differs_at.is_some()).count();
        (differ as u64, free().count() as u64)
    }
}

/// What outputs are held against, beside what was recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ComparisonRules {
    /// How alike outputs have to be, by their names.
    pub rules: BTreeMap<String, OutputTolerance>,
    /// How alike all others have to be.
    pub rule: Option<OutputTolerance>,
    /// What outputs have to hold in the place of what was recorded, by their names.
    pub expected: BTreeMap<String, Vec<u8>>,
}

/// Holds the outputs of a replay against the recording that it is of, or against what a person expects of them.
///
/// Without a rule an output has to be exactly as recorded. Where the replay ran with inputs of the person's nothing is
/// expected of an output that no rule is for and that the person does not give: what differs is told, and is no divergence.
/// A plan without its recording holds nothing but what is given.
pub fn compare_outputs(outcome: &mut Outcome, recording: &Recording, against: &ComparisonRules) {
    let given = outcome.rewrites.get(&RewriteKind::Input).is_some_and(|n| *n > 0);
    let Some(calls) = &mut outcome.calls else { return };
    // Whoever made the plan has made the script of the same recording before.
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

/// Up to four bytes from a place on, as a number.
fn word(bytes: &[u8], at: u64) -> u64 {
    let from = usize::try_from(at)
        .ok()
        .and_then(|at| bytes.get(at..))
        .unwrap_or_default();
    from.iter().take(4).rev().fold(0, |n, b| n << 8 | u64::from(*b))
}

/// The recording of a replay of calls: what the plan says, with what came back.
///
/// # Errors
/// When the plan cannot be read.
pub(crate) fn build_recording(
    outcome: &Outcome,
    plan: &Plan,
    pages: &dyn PageSource,
    info: &DeviceInfo,
) -> Result<Recording, PlanCallsError> {
    let plan_recording = PlanRecording::new(plan, pages)?;
    let script = plan_recording.script()?;
    let names: BTreeMap<u64, &str> = script.outputs.iter().map(|t| (t.event, t.name.as_str())).collect();
    let stopped = outcome.calls.as_ref().and_then(|c| c.stopped.as_ref());
    let last = stopped.and_then(|s| s.event).unwrap_or(u64::MAX);
    let was = &plan_recording.recording.events;
    let mut memory = MemoryBuilder::new();
    for page in plan_recording.recording.memory.pages.iter() {
        memory.add_page(page);
    }
    let mut events = EventsBuilder::new();
    let bytes: Vec<u8> = was.call_bytes.iter().collect();
    let numbers: Vec<u32> = was.call_pages.iter().collect();
    // Copied as they are, so that rows go on pointing where they did.
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
            let phase = (row.device() % PAGE_SIZE as u64) as usize;
            let ids = laid(&mut memory, phase, &output.data);
            row.pages_at = events.call_pages(&ids);
        }
        let thread = was.thread.get(n).unwrap_or(0);
        events.push_call(n as u64, thread, call);
    }
    let mut recording = Recording {
        facts: Facts {
            identity: Identity {
                gpu_name: outcome.device.clone(),
                driver: "kinescope replay".to_owned(),
                board: info.name.clone(),
                tool: concat!("kinescope ", env!("CARGO_PKG_VERSION")).to_owned(),
                source: "outcome".to_owned(),
                clock: Clock::Virtual,
                ..Identity::default()
            },
            ..Facts::default()
        },
        events: events.finish(),
        memory: memory.finish(),
        ..Recording::default()
    };
    if let Some(facts) = plan_recording.recording.extras.get(CALL_FACTS) {
        recording.extras.insert(CALL_FACTS.to_owned(), facts.clone());
    }
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

/// What is told of calls among fixed-width fields: its JSON text, which takes fields that come later.
pub(super) mod calls_json {
    use super::CallsOutcome;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de, ser};

    pub fn serialize<S: Serializer>(calls: &Option<CallsOutcome>, to: S) -> Result<S::Ok, S::Error> {
        let json = calls.as_ref().map(serde_json::to_string).transpose();
        json.map_err(ser::Error::custom)?.serialize(to)
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Option<CallsOutcome>, D::Error> {
        let json = Option::<String>::deserialize(from)?;
        let read = json.map(|text| serde_json::from_str(&text)).transpose();
        read.map_err(de::Error::custom)
    }
}
