//! Safety and inputs of the next replay of a document.

use crate::replay::request::{ReplayRequest, limit_time};
use crate::replay::task::ReplayTask;
use crate::targets::{self, Targets, describe_containment};
use crate::{Document, text};
use kinescope_files::contents::BufferContents;
use kinescope_files::scene::Selection;
use replay_engine::device::Containment;
use replay_engine::plan::Pace;
use std::path::PathBuf;
use std::sync::Arc;

/// The known safety of a replay on the chosen target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Safety {
    /// The target was not queried for its containment.
    Unqueried,
    /// The target reports its containment; no plan is proved.
    Contained(Containment),
    /// The plan was checked and accesses only the target's own memory.
    Proved(Containment),
    /// The plan is proved, except for this number of unproved statements, which are bounded only by time.
    Bounded(Containment, usize),
    /// The plan is refused.
    Refused,
}

impl Document {
    /// Returns the safety of a replay, as far as known now.
    #[must_use]
    pub fn safety(&self) -> Safety {
        let replay = &self.replay;
        let by = match replay.info() {
            Some(i) => i.containment,
            None if targets::is_simulator(replay.target()) => Containment::Software,
            None => return Safety::Unqueried,
        };
        match &replay.verified {
            Some(Err(_)) => Safety::Refused,
            Some(Ok(v)) if self.is_plan_current() && v.report().unproved.is_empty() => Safety::Proved(by),
            Some(Ok(v)) if self.is_plan_current() => Safety::Bounded(by, v.report().unproved.len()),
            _ => Safety::Contained(by),
        }
    }

    /// Selects the first fault of the last replay, or its first divergence, to explain it.
    pub fn go_to_first_failure(&mut self) {
        let Some(o) = self.replay.outcome.clone() else { return };
        if let Some(f) = o.faults.first() {
            self.go_with(f.event, Selection::Fault(0));
        } else if let Some(d) = o.divergences.first() {
            self.go_with(d.event, Selection::Divergence(0));
        }
    }

    /// Whether there is a plan that was built from the current changes.
    #[must_use]
    pub fn is_plan_current(&self) -> bool {
        let now = self.changes().revision();
        self.replay.plan.as_ref().is_some_and(|(_, r)| *r == now)
    }

    /// Describes the safety of a replay in sentences.
    #[must_use]
    pub fn describe_safety(&self) -> String {
        let replay = &self.replay;
        let by = match (replay.info(), self.safety()) {
            (_, Safety::Unqueried) => {
                return "Not known yet: this target was not queried. Its containment is known once a plan exists. A \
                        replay queries the target first and then asks you to confirm."
                    .into();
            }
            (Some(i), _) => describe_containment(i.containment),
            (None, _) => describe_containment(Containment::Software),
        };
        let name = replay
            .info()
            .map_or_else(|| replay.target().to_owned(), |i| i.description.clone());
        let mut message = format!("{name}: {by}.");
        match &replay.verified {
            Some(Err(why)) => message += &format!(" The plan may not run: {why}."),
            Some(Ok(v)) if self.is_plan_current() && self.recording.api().is_some() => {
                message += " The plan is verified: it contains all its calls, the memory that it maps and the code \
                            that it loads, with the stated lengths.";
                for u in &v.report().unproved {
                    message += &format!("\nNot proved: {u}.");
                }
            }
            Some(Ok(v)) if self.is_plan_current() && replay.footprint.channel.is_some() => {
                message += " The plan is verified: it sends only methods for programs, and every address in its \
                            submissions is in the memory that it maps.";
                for u in &v.report().unproved {
                    message += &format!("\nNot proved: {u}.");
                }
            }
            Some(Ok(v)) if self.is_plan_current() => {
                message += &format!(
                    " The plan is verified after relocation: {} pages of tables, {} leaves, {} job chains. Every \
                     address that the GPU can reach belongs to the target.",
                    text::count(v.report().tables),
                    text::count(v.report().leaves),
                    text::count(v.report().jobs)
                );
                for u in &v.report().unproved {
                    message += &format!("\nNot proved, only bounded by time: {u}.");
                }
            }
            Some(Ok(_)) => message += " Your edits are newer than the plan; a replay compiles and verifies a new one.",
            None => message += " The plan is verified when it is compiled.",
        }
        message
    }

    /// Returns the buffers that the user edited.
    #[must_use]
    pub fn edited_buffers(&self) -> Vec<BufferContents> {
        let changed = self.changes().inputs();
        changed.keys().filter_map(|n| self.contents(n)).collect()
    }

    /// Returns a replay of the recording with the current changes and options.
    #[must_use]
    pub fn replay_task(&self, targets: &Targets) -> ReplayTask {
        let replay = &self.replay;
        let options = &replay.options;
        let file = |path: &str| (!path.is_empty()).then(|| PathBuf::from(path));
        let expected = options.expected.iter();
        ReplayTask {
            request: ReplayRequest {
                target: replay.target().to_owned(),
                pace: match replay.keep_gaps {
                    true => Pace::Recorded,
                    false => Pace::Fast,
                },
                api_options: replay.api_options,
                allowed: replay.allowed.clone(),
                tolerance: replay.parse_tolerance(&self.buffers).unwrap_or_default(),
                repeat: replay.repeat.max(1),
                accepts_no_containment: replay.uncontained.contains(replay.target()),
                budgets: limit_time(options.time_limit),
                learn: (options.learn && replay.checks_effects())
                    .then(|| replay.parse_check_after().unwrap_or_default()),
                bypass_check: options.bypass_check,
                ..ReplayRequest::default()
            },
            recording: Arc::clone(&self.recording),
            edited: self.edited_buffers(),
            targets: targets.clone(),
            is_hardware: replay.is_hardware(),
            revision: self.changes().revision(),
            phase: Arc::clone(&replay.phase),
            expected_outputs: expected.map(|(name, file)| (name.clone(), file.into())).collect(),
            expected_screen: file(&options.expected_screen),
            plan_file: file(&options.plan),
            guarded_calls: self.api_trace().filter(|_| options.guard),
        }
    }
}
