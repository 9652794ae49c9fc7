//! Results of an API-trace replay: its outputs compared with the recorded ones, and its recording.

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
    API_TRACE_METADATA, CallEvent, Clock, CopyKind, EventsBuilder, Identity, MemoryBuilder, Metadata, Recording,
    ZERO_PAGE,
};

/// Maximum number of differences that are kept in full.
const KEPT: usize = 1000;

/// An output compared with the recorded one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OutputResult {
    /// Event of the recording that copied it back.
    pub event: u64,
    /// Its name.
    pub name: String,
    /// Length, bytes.
    pub bytes: u64,
    /// Whether the recording holds the expected contents.
    pub held: bool,
    /// Whether it has to equal the recorded one. It does not if the inputs are edited and it has no rule.
    pub expected: bool,
    /// Offset of the first byte that differs beyond the tolerance.
    pub differs_at: Option<u64>,
    /// Number of elements that differ beyond the tolerance, or of bytes if the comparison is exact.
    pub differing: u64,
    /// Largest distance of two elements, if the rule gives their type.
    pub largest: Option<f64>,
}

/// Where an API-trace replay stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StopLocation {
    /// Event of the recording, if known.
    pub event: Option<u64>,
    /// Whether that event is known to be the cause. Otherwise it was this event or an earlier one.
    pub sure: bool,
    /// The function that was launched there.
    pub function: Option<String>,
    /// What happened, as a message.
    pub why: String,
}

/// The results of an API-trace replay beyond those of every replay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallsOutcome {
    /// Launches per repetition.
    pub launches: u64,
    /// Time to the first step, nanoseconds: driver initialized, memory mapped, code loaded.
    pub ready_ns: u64,
    /// The parts of this time, and of the time to the first run.
    pub parts: PrepareTimes,
    /// Mapped memory, bytes.
    pub mapped: u64,
    /// Whether the range was one graph.
    pub graph: bool,
    /// Number of 4 KiB pages restored before each repetition but the first.
    pub restored: Vec<u64>,
    /// What was left out, as messages.
    pub left_out: Vec<String>,
    /// The event and the shortest device time of each launch, nanoseconds, if requested.
    pub launch_ns: Vec<[u64; 2]>,
    /// What was guarded, if requested.
    pub guard: Option<GuardReport>,
    /// Outputs compared with the recorded ones; empty until the comparison with a recording.
    pub outputs: Vec<OutputResult>,
    /// Where it stopped, if it did.
    pub stopped: Option<StopLocation>,
    /// The result of a tuning, if requested.
    pub tuned: Option<TuneReport>,
    /// The report of a memory trace, if requested. The trace is the only output.
    pub watched: Option<MemoryTraceReport>,
}

impl CallsOutcome {
    /// Returns whether a tuning measured any points, even if it was stopped.
    #[must_use]
    pub fn has_tried(&self) -> bool {
        self.tuned.as_ref().is_some_and(|t| !t.points.is_empty())
    }

    /// Returns the outputs without an expectation, because inputs were edited: the number that differ from the recorded
    /// ones, and their number.
    #[must_use]
    pub fn free_outputs(&self) -> (u64, u64) {
        let free = || self.outputs.iter().filter(|s| s.held && !s.expected);
        let differ = free().filter(|s| s.differs_at.is_some()).count();
        (differ as u64, free().count() as u64)
    }
}

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
    let Some(calls) = &mut outcome.calls else { return };
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
            let phase = (row.device() % PAGE_SIZE as u64) as usize;
            let ids = laid(&mut memory, phase, &output.data);
            row.pages_at = events.call_pages(&ids);
        }
        let thread = was.thread.get(n).unwrap_or(0);
        events.push_call(n as u64, thread, call);
    }
    let mut recording = Recording {
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
            ..Metadata::default()
        },
        events: events.finish(),
        memory: memory.finish(),
        ..Recording::default()
    };
    if let Some(metadata) = plan_recording.recording.extras.get(API_TRACE_METADATA) {
        recording.extras.insert(API_TRACE_METADATA.to_owned(), metadata.clone());
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

/// Serializes the results among fixed-width fields as JSON text, so that fields can be added later.
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
