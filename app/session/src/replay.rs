//! Replays of an open document: target, plan, run and outcome.

pub mod error;
pub mod expected;
pub mod guard;
pub mod request;
pub mod task;

pub use error::{ReplayError, ReplayErrorKind};

use self::guard::GuardedSummary;
use self::task::PlannedReplay;
use crate::output_diff::OutputDiff;
use crate::plan_footprint::PlanFootprint;
use crate::targets::{self, Targets};
use crate::text;
use crate::tuning::tolerance::parse_output_rules;
use kinescope_files::buffer_index::Buffers;
use kinescope_files::workspace::{How, ReplayOptions};
use replay_cuda::ComparisonRules;
use replay_engine::client::fitting::{Fit, FittingTarget, RecordedDevice, determine_fit};
use replay_engine::client::targets::ReplayTarget;
use replay_engine::device::qemu::PACKAGE;
use replay_engine::device::{Containment, DeviceInfo};
use replay_engine::plan::Compiled;
use replay_engine::run::{Outcome, Verdict};
use replay_engine::verify::{Refusal, Verified};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use trace_core::RegOffset;
use trace_core::progress::Progress;
use trace_core::recording::{Api, Recording};

/// The target that needs no hardware.
pub const DEFAULT_SIMULATOR: &str = "software:mali-g71";

/// Number of runs of a repeated replay, if the user chooses none.
pub const DEFAULT_REPEATED_RUNS: u32 = 10;

/// The replay state of a document.
#[derive(Default)]
pub struct State {
    /// Chosen target; empty for [`State::simulator`].
    target: String,
    /// Properties of the recording that decide which targets fit.
    recorded: RecordedDevice,
    /// Reachable targets, to find which of them fit.
    reachable: Option<Targets>,
    /// Fitting targets, the preferred one first.
    fitting: Vec<FittingTarget>,
    /// What this machine lacks for the chosen target, in a few words.
    missing: Option<String>,
    /// Whether this machine lacks QEMU.
    lacks_qemu: bool,
    /// Text of the field for another target name.
    pub target_field: String,
    /// Known targets, once they were queried.
    pub known_targets: Option<Vec<ReplayTarget>>,
    /// Names of the paired agents.
    agents: Vec<String>,
    /// Whether a replay keeps recorded idle time.
    pub keep_gaps: bool,
    /// Replay options of API traces.
    pub api_options: How,
    /// Tolerance for API trace outputs, as the user wrote it; empty for bit-exact.
    pub tolerance: String,
    /// Further options.
    pub options: ReplayOptions,
    /// Unknown registers that the user allows, as byte offsets.
    pub allowed: Vec<Range<RegOffset>>,
    /// Number of runs of a replay.
    pub repeat: u32,
    /// The plan, and the revision of the changes that it was built from.
    pub plan: Option<(Arc<Compiled>, u64)>,
    /// The device that the plan was built for.
    pub device: Option<DeviceInfo>,
    /// Device information of the chosen target, queried before a plan was built for it.
    pub queried_device: Option<DeviceInfo>,
    /// The proof of the checks before upload, or why the plan is refused.
    pub verified: Option<Result<Verified, Refusal>>,
    /// Footprint of the plan.
    pub footprint: Arc<PlanFootprint>,
    /// Progress of the running replay.
    pub running: Option<Progress>,
    /// Current phase of the running replay.
    pub phase: Arc<Mutex<String>>,
    /// Outcome of the last replay.
    pub outcome: Option<Arc<Outcome>>,
    /// Summary of the last replay with guarded buffers, until another replay has an outcome.
    pub guarded: Option<Arc<GuardedSummary>>,
    /// Target of the outcome.
    pub outcome_target: String,
    /// Revision of the changes that the outcome used.
    pub outcome_revision: u64,
    /// Why the last attempt to replay left no outcome.
    pub last_failure: Option<&'static str>,
    /// A target that did not answer the last query.
    pub unresponsive_target: Option<String>,
    /// Targets without containment that the user accepted since this recording was opened.
    pub uncontained: BTreeSet<String>,
    /// Targets with driver containment on which the user allowed replays since this recording was opened.
    pub confirmed_drivers: BTreeSet<String>,
    /// Comparison of outputs with the recorded ones.
    pub output_diffs: Vec<OutputDiff>,
    /// Why the last plan or replay failed.
    pub error: Option<ReplayError>,
    /// Whether a recorder still writes the recording.
    pub is_growing: bool,
}

impl State {
    /// Creates the state of a newly opened recording, with a fitting target.
    #[must_use]
    pub fn new(recording: &Recording) -> Self {
        let mut this = Self {
            recorded: RecordedDevice::new(recording),
            ..Self::default()
        };
        this.set_reachable(&Targets::new(None));
        this
    }

    /// Updates the reachable targets: which of them fit, and what this machine lacks for them. Checks for files, but
    /// does not contact agents.
    pub fn set_reachable(&mut self, reachable: &Targets) {
        self.fitting = reachable.fitting_targets(&self.recorded, self.known_targets.as_deref().unwrap_or_default());
        self.lacks_qemu = reachable.describe_missing("qemu:").is_some();
        self.missing = reachable.describe_missing(self.target());
        self.agents = reachable.paired_agents();
        self.reachable = Some(reachable.clone());
    }

    /// Takes over the properties of a longer reading of the recording. The chosen target stays.
    pub fn set_recording(&mut self, recording: &Recording) {
        let recorded = RecordedDevice::new(recording);
        if recorded == self.recorded {
            return;
        }
        self.recorded = recorded;
        if let Some(reachable) = self.reachable.take() {
            self.set_reachable(&reachable);
        }
    }

    /// Returns a sentence that says why nothing runs on a target while the recording grows.
    #[must_use]
    pub fn growth_obstacle(&self) -> Option<String> {
        self.is_growing.then(|| {
            "The recording still grows. Replays are possible when its recorder has finished it, or after Stop following."
                .to_owned()
        })
    }

    /// Returns the names of the paired agents whose devices were not queried yet.
    pub fn unqueried_agents(&self) -> impl Iterator<Item = &str> {
        let of = |target: &str, agent: &str| {
            let rest = target.strip_prefix("agent:").and_then(|b| b.strip_prefix(agent));
            rest.is_some_and(|r| r.is_empty() || r.starts_with('/'))
        };
        let asked = move |agent: &str| self.known_targets.iter().flatten().any(|b| of(&b.name, agent));
        self.agents.iter().map(String::as_str).filter(move |a| !asked(a))
    }

    /// Returns the names of the paired agents.
    #[must_use]
    pub fn agents(&self) -> &[String] {
        &self.agents
    }

    /// Returns what this machine lacks for a target of any name, in a few words.
    #[must_use]
    pub fn missing_on_this_machine(&self, target: &str) -> Option<String> {
        self.reachable.as_ref().and_then(|all| all.describe_missing(target))
    }

    /// Whether the recording is an API trace.
    #[must_use]
    pub fn is_api_trace(&self) -> bool {
        self.recorded.api.is_some()
    }

    /// Whether the channels of an NVIDIA GPU can take the recording.
    #[must_use]
    pub fn fits_channels(&self) -> bool {
        self.recorded.fits_channels()
    }

    /// Whether a replay can check effects besides reads: outputs, screen and memory of a device with MMIO regions. An
    /// API trace is compared with its outputs, and the program of a GPU checks none of them.
    #[must_use]
    pub fn checks_effects(&self) -> bool {
        self.recorded.hardware.is_some() || self.info().is_some_and(|i| i.hardware.is_some())
    }

    /// Returns the targets that fit the recording, the preferred one first.
    #[must_use]
    pub fn fitting(&self) -> &[FittingTarget] {
        &self.fitting
    }

    /// Returns the default target: the first that fits, or else a simulator.
    #[must_use]
    pub fn simulator(&self) -> &str {
        self.fitting.first().map_or(DEFAULT_SIMULATOR, |t| t.name.as_str())
    }

    /// Whether a simulator is known that can replay the recording.
    #[must_use]
    pub fn has_simulator(&self) -> bool {
        self.simulator().starts_with("software:") && self.fit(self.simulator()) != Fit::Unfit
    }

    /// Whether no target is chosen and no fitting target is known.
    #[must_use]
    pub fn has_no_target(&self) -> bool {
        self.target.is_empty() && self.fitting.is_empty() && self.fit(DEFAULT_SIMULATOR) == Fit::Unfit
    }

    /// Returns whether a target fits the recording, based on its name and its device information.
    #[must_use]
    pub fn fit(&self, target: &str) -> Fit {
        let chosen = self
            .device
            .as_ref()
            .or(self.queried_device.as_ref())
            .filter(|_| target == self.target());
        match chosen.or_else(|| self.listed(target)) {
            Some(info) => determine_fit(&self.recorded, info),
            None => self
                .reachable
                .as_ref()
                .map_or(Fit::Unknown, |all| all.fit_by_name(&self.recorded, target)),
        }
    }

    /// Returns what this machine lacks for a target, in a few words: `QEMU not installed`.
    #[must_use]
    pub fn lacks(&self, target: &str) -> Option<&str> {
        if target == self.target() {
            return self.missing.as_deref();
        }
        let fitting = self.fitting.iter().find(|t| t.name == target);
        match fitting {
            Some(t) => t.missing.as_deref(),
            None if self.lacks_qemu && target.starts_with("qemu:") => Some("QEMU not installed"),
            None => None,
        }
    }

    /// Returns what prevents a plan, which needs only the device description. A CUDA device needs no driver for that.
    #[must_use]
    pub fn plan_obstacle(&self) -> Option<String> {
        let driver = self.target().starts_with("cuda:") && self.fit(self.target()) != Fit::Unfit && !self.is_growing;
        self.obstacle().filter(|_| !driver)
    }

    /// Returns a sentence that says why the chosen target cannot replay, or `None` if no reason is known.
    #[must_use]
    pub fn obstacle(&self) -> Option<String> {
        if let Some(growing) = self.growth_obstacle() {
            return Some(growing);
        }
        let target = self.target();
        if self.recorded.api == Some(Api::Wasm) {
            return Some(
                "The command line replays WebAssembly runs: kinescope replay FILE --on cpu, cuda:N or interpreter. Replay \
                 has the commands."
                    .to_owned(),
            );
        }
        if self.fit(target) == Fit::Unfit {
            let recorded = self.recorded.describe();
            if self.has_no_target() {
                return Some(format!(
                    "The recording is of {recorded}; no target of this program fits."
                ));
            }
            let name = self
                .reachable
                .as_ref()
                .map_or_else(|| target.to_owned(), |all| all.describe(target));
            return Some(format!("The recording is of {recorded}; the target is {name}."));
        }
        let missing = self.missing.as_deref()?;
        Some(match target.starts_with("qemu:") {
            true => format!("{target}: {missing}. Install the package {PACKAGE}, then look for targets again."),
            false if target.starts_with("cuda:") => format!(
                "{target}: {missing}. On a machine with an NVIDIA driver run kinescope-agent serve --pair, and pair with it here."
            ),
            false if target.starts_with("nvidia:") => format!(
                "{target}: {missing}. On a machine with NVIDIA's kernel driver 570, 580 or 595 run kinescope-agent serve --pair, \
                 and pair with it here."
            ),
            false => format!("{target}: {missing}."),
        })
    }

    /// Parses the tolerances for API trace outputs.
    ///
    /// # Errors
    /// A description of the error in the tolerance text.
    pub fn parse_tolerance(&self, known: &Buffers) -> Result<ComparisonRules, String> {
        let (rules, rule) = parse_output_rules(&self.tolerance)?;
        let back = |name: &String| known.origin(name).is_some_and(|c| !c.kind.is_replaceable());
        match rules.keys().find(|name| !back(name)) {
            Some(odd) => Err(format!("the recording has no output '{odd}'")),
            None => Ok(ComparisonRules {
                rules,
                rule,
                ..ComparisonRules::default()
            }),
        }
    }

    /// Parses the events after which a run also learns effects.
    ///
    /// # Errors
    /// A description of the first word that is not an event.
    pub fn parse_check_after(&self) -> Result<Vec<u64>, String> {
        let words = self
            .options
            .check_after
            .split([',', ' ', ';'])
            .filter(|w| !w.is_empty());
        let event = |w: &str| {
            w.parse()
                .map_err(|_| format!("'{w}' is not an event (expected numbers, separated by commas)"))
        };
        words.map(event).collect()
    }

    /// Sets the further options, and discards a plan that was made with others.
    pub fn set_options(&mut self, options: ReplayOptions) {
        // The number of runs is not a part of the plan.
        let of_plan = |o: &ReplayOptions| ReplayOptions {
            runs: None,
            ..o.clone()
        };
        if of_plan(&options) != of_plan(&self.options) {
            self.plan = None;
            self.verified = None;
            self.error = None;
        }
        self.options = options;
    }

    /// Returns the number of runs of a repeated replay.
    #[must_use]
    pub fn repeated_runs(&self) -> u32 {
        self.options.runs.unwrap_or(DEFAULT_REPEATED_RUNS)
    }

    /// Returns the chosen target.
    #[must_use]
    pub fn target(&self) -> &str {
        if self.target.is_empty() {
            self.simulator()
        } else {
            &self.target
        }
    }

    /// Chooses a target and discards a plan for another one.
    pub fn choose(&mut self, target: &str) {
        if self.target() != target {
            target.clone_into(&mut self.target);
            self.plan = None;
            self.device = None;
            self.queried_device = None;
            self.verified = None;
            self.error = None;
            let missing = |all: &Targets| all.describe_missing(target);
            self.missing = self.reachable.as_ref().and_then(missing);
        }
    }

    /// Returns the device information of a known target.
    fn listed(&self, target: &str) -> Option<&DeviceInfo> {
        let known = self.known_targets.iter().flatten().find(|b| b.name == target);
        known?.info.as_ref()
    }

    /// Returns the device information of the chosen target, once it was queried.
    #[must_use]
    pub fn info(&self) -> Option<&DeviceInfo> {
        let listed = || self.listed(self.target());
        self.device.as_ref().or(self.queried_device.as_ref()).or_else(listed)
    }

    /// Whether a replay may access real hardware. That is every target except local simulators by name and devices that
    /// report to be software.
    #[must_use]
    pub fn is_hardware(&self) -> bool {
        let software = |i: &DeviceInfo| i.containment == Containment::Software;
        !targets::is_simulator(self.target()) && !self.info().is_some_and(software)
    }

    /// Whether the chosen target may be hardware and was not queried yet. It is queried before the user is asked.
    #[must_use]
    pub fn is_unqueried(&self) -> bool {
        self.info().is_none() && self.is_hardware()
    }

    /// Whether the driver of the chosen target contains the replay, as far as known.
    #[must_use]
    pub fn is_driven(&self) -> bool {
        self.info().is_some_and(|i| i.containment == Containment::Driver)
    }

    /// Whether the user must confirm a replay: every time for hardware, once if its driver contains replays like every
    /// other program.
    #[must_use]
    pub fn needs_confirmation(&self) -> bool {
        self.is_hardware() && !(self.is_driven() && self.confirmed_drivers.contains(self.target()))
    }

    /// Stores that the user confirmed the replay.
    pub fn confirm(&mut self) {
        let target = self.target().to_owned();
        if self.needs_containment_consent() {
            self.uncontained.insert(target);
        } else if self.is_driven() {
            self.confirmed_drivers.insert(target);
        }
    }

    /// Whether the chosen target has no containment, as far as known, and the user has not accepted that yet.
    #[must_use]
    pub fn needs_containment_consent(&self) -> bool {
        let nothing = |i: &DeviceInfo| i.containment == Containment::None;
        self.info().is_some_and(nothing) && !self.uncontained.contains(self.target())
    }

    /// Clears the messages of the last run. Its outcome stays until there is a newer one.
    pub fn begin(&mut self) {
        self.error = None;
        // A cancelled run may still write to its own phase, so the new run gets another one.
        self.phase = Arc::default();
    }

    /// Stores a plan.
    pub fn set_plan(&mut self, planned: PlannedReplay) {
        let prepared = planned.prepared;
        self.plan = Some((Arc::new(prepared.compiled), planned.revision));
        self.device = Some(prepared.device);
        self.verified = prepared.verified;
        self.footprint = Arc::new(planned.footprint);
    }
}

/// Formats the verdict of a replay: one word, or one line if not everything was computed.
#[must_use]
pub fn format_verdict(outcome: &Outcome) -> String {
    match outcome.verdict {
        Verdict::Match if outcome.computed => "Matched".to_owned(),
        Verdict::Match => outcome.verdict_line(),
        Verdict::Diverged => "Diverged".to_owned(),
        Verdict::Failed => "Failed".to_owned(),
    }
}

/// Formats a replay on one line: reads, interrupts, time.
#[must_use]
pub fn format_summary(outcome: &Outcome) -> String {
    let run = outcome.timing.runs_ns.first().copied().unwrap_or(0);
    format!("in {} · {}", text::duration(run), format_compared(outcome))
}

/// Returns why a replay of calls or submissions compared nothing, or `None` if it compared outputs.
#[must_use]
pub fn describe_uncompared(outcome: &Outcome) -> Option<String> {
    let calls = outcome.api()?;
    let is_compared = outcome.reads.compared > 0 || calls.free_outputs().1 > 0;
    if is_compared {
        return None;
    }
    if outcome.verdict == Verdict::Failed {
        return Some("no output was compared".to_owned());
    }
    let none = "the recording holds no outputs to compare";
    Some(match outcome.outputs.len() as u64 {
        0 => none.to_owned(),
        read => format!("{none}, {} read back", text::count_noun(read, "output", "outputs")),
    })
}

/// Formats what a replay compared: reads, interrupts.
#[must_use]
pub fn format_compared(outcome: &Outcome) -> String {
    if let Some(calls) = outcome.api() {
        let launches = text::count_noun(calls.launches, "launch", "launches");
        let outputs = match calls.free_outputs() {
            (differ, all) if all > 0 => format!(
                "with your inputs {} of {} differ",
                text::count(differ),
                text::count_noun(all, "output", "outputs")
            ),
            _ => describe_uncompared(outcome).unwrap_or_else(|| {
                format!(
                    "{} of {} outputs",
                    text::count(outcome.reads.matched),
                    text::count(outcome.reads.compared)
                )
            }),
        };
        return format!("{outputs} · {launches}");
    }
    format!(
        "{} of {} reads · {} interrupts",
        text::count(outcome.reads.matched),
        text::count(outcome.reads.compared),
        text::count(outcome.interrupts()),
    )
}
