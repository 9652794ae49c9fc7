//! The assignment of stages to targets, before any of them is opened.

use crate::document::{StageDefinition, StageWork};
use crate::pipeline::{CheckedWork, Pipeline};
use kinescope_session::targets::{Targets, describe_open_error};
use replay_engine::client::fitting::{Fit, RecordedDevice, determine_fit, fitting_hint};
use replay_engine::client::{ClientError, targets};
use replay_engine::device::DeviceInfo;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::thread;

/// A target of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTarget {
    /// The label by which stages choose it.
    pub label: Option<String>,
    /// Name of the target.
    pub name: String,
}

impl NamedTarget {
    /// Parses a list of targets: `TARGET[,TARGET...]`, each as `[LABEL=]TARGET`. A property of a QEMU device belongs to
    /// the target before it.
    ///
    /// # Errors
    /// The part that is no target.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, AssignmentError> {
        let mut all: Vec<Self> = Vec::new();
        for part in text.split(',') {
            let (label, name) = match part.split_once('=') {
                Some((label, name)) if is_target(name) && is_label(label) => (Some(label.to_owned()), name),
                _ => (None, part),
            };
            match all.last_mut().filter(|last| last.name.starts_with("qemu:")) {
                Some(last) if !is_target(name) && !part.is_empty() => {
                    last.name.push(',');
                    last.name.push_str(part);
                }
                _ if name.trim().is_empty() => return Err(AssignmentError::NoTarget(text.to_owned())),
                _ => all.push(Self {
                    label,
                    name: name.trim().to_owned(),
                }),
            }
        }
        for target in &all {
            let parsed = targets::parse(&target.name);
            parsed.map_err(|e| AssignmentError::Name(describe_open_error(&target.name, &e)))?;
        }
        Ok(all)
    }
}

/// Formats a target as it is given.
impl fmt::Display for NamedTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.label {
            Some(label) => write!(f, "{label}={}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// Returns whether a text begins like the name of a target.
fn is_target(text: &str) -> bool {
    let scheme = text.split_once(':').map(|(scheme, _)| scheme);
    matches!(
        scheme,
        Some("software" | "qemu" | "pci" | "platform" | "cuda" | "nvidia" | "agent")
    )
}

fn is_label(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// Why stages cannot be assigned to targets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssignmentError {
    /// A list of targets has an empty part.
    #[error("'{0}' is no list of targets (expected TARGET[,TARGET...], each as [LABEL=]TARGET)")]
    NoTarget(String),
    /// A target has no valid name.
    #[error("{0}")]
    Name(String),
    /// A label is given twice, or a target without a label.
    #[error("{0} is given twice; give each label once, and each target without a label once")]
    Twice(String),
    /// A target is for stages with a label, and there are none.
    #[error("no stage has the label '{label}' of {target} ({known})")]
    UnknownLabel {
        /// The label.
        label: String,
        /// The target with its label.
        target: String,
        /// Labels of the pipeline.
        known: String,
    },
    /// A stage replays a recording, and there is no target.
    #[error("stage '{stage}' replays a recording, and no target is given; {hint}")]
    Missing {
        /// The stage.
        stage: String,
        /// Targets that fit.
        hint: String,
    },
    /// No target has the label of a stage.
    #[error("line {line}: stage '{stage}' runs on target '{label}'; give it as --on {label}=TARGET")]
    Label {
        /// Line of the stage.
        line: u32,
        /// The stage.
        stage: String,
        /// Its label.
        label: String,
    },
    /// No target fits a stage.
    #[error("line {line}: no target fits stage '{stage}', which was recorded on {device}; {hint}")]
    Unfit {
        /// Line of the stage.
        line: u32,
        /// The stage.
        stage: String,
        /// The recorded device.
        device: String,
        /// Targets that fit.
        hint: String,
    },
}

/// Checks that no target and no label is given twice, and that stages have the labels.
fn check_named(pipeline: &Pipeline, named: &[NamedTarget]) -> Result<(), AssignmentError> {
    for (number, target) in named.iter().enumerate() {
        let mut before = named.iter().take(number);
        if before.any(|b| b.label == target.label && (b.label.is_some() || b.name == target.name)) {
            return Err(AssignmentError::Twice(target.to_string()));
        }
    }
    let labels: BTreeSet<&str> = pipeline.document.stages.iter().filter_map(label_of).collect();
    for target in named {
        let Some(label) = target.label.as_ref().filter(|label| !labels.contains(label.as_str())) else {
            continue;
        };
        let all = labels.iter().copied().collect::<Vec<_>>().join(", ");
        return Err(AssignmentError::UnknownLabel {
            label: label.clone(),
            target: target.to_string(),
            known: match all.as_str() {
                "" => "the pipeline has no labels".to_owned(),
                all => format!("labels of the pipeline: {all}"),
            },
        });
    }
    Ok(())
}

/// The targets of the stages of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    /// For each stage its target, as its position among the targets of the run; `None` for a module.
    pub targets: Vec<Option<usize>>,
    /// Why targets get no stage, in words with their names: their agents do not describe them now.
    pub unused: Vec<String>,
}

/// What agents answered about their devices, by the names of their targets. Whether a device without a description fits
/// stays unknown.
struct AgentDevices<'a>(BTreeMap<&'a str, Result<DeviceInfo, ClientError>>);

impl<'a> AgentDevices<'a> {
    /// Asks the agents of a run, all at once, if a stage has a choice of targets.
    fn query(pipeline: &Pipeline, targets: &Targets, named: &'a [NamedTarget]) -> Self {
        let names: BTreeSet<&str> = named.iter().map(|t| t.name.as_str()).collect();
        let has_choice = |stage: &StageDefinition| matches!(&stage.work, StageWork::Replay(r) if r.target.is_none());
        if names.len() < 2 || !pipeline.document.stages.iter().any(has_choice) {
            return Self(BTreeMap::new());
        }
        let agents = names.into_iter().filter(|name| name.starts_with("agent:"));
        Self(thread::scope(|scope| {
            let queries: Vec<_> = agents
                .map(|name| (name, scope.spawn(move || targets.query_device(name))))
                .collect();
            let answers = queries
                .into_iter()
                .filter_map(|(name, query)| Some((name, query.join().ok()?)));
            answers.collect()
        }))
    }

    /// Returns whether a target fits: by its device if it is known, otherwise by its name.
    fn fit(&self, targets: &Targets, recorded: &RecordedDevice, name: &str) -> Fit {
        match self.0.get(name) {
            Some(Ok(device)) => determine_fit(recorded, device),
            Some(Err(_)) | None => targets.fit_by_name(recorded, name),
        }
    }

    /// Describes the devices that are unknown and get no stage. A stage on such a device fails with the reason itself.
    fn describe_unused(&self, has_stage: impl Fn(&str) -> bool) -> Vec<String> {
        let unknown = self.0.iter().filter(|(name, _)| !has_stage(name));
        let describe = |(name, answer): (&&str, &Result<DeviceInfo, ClientError>)| {
            let error = answer.as_ref().err()?;
            let reason = describe_open_error(name, error);
            Some(format!("{name} gets no stage, because its device is unknown: {reason}"))
        };
        unknown.filter_map(describe).collect()
    }
}

/// Returns the label of the target of a stage.
fn label_of(stage: &StageDefinition) -> Option<&str> {
    match &stage.work {
        StageWork::Replay(replay) => replay.target.as_deref(),
        StageWork::Module(_) => None,
    }
}

/// Assigns each stage that replays a recording to one of the targets: the one with its label, otherwise the one with
/// the fewest stages among those that fit. Agents are asked for their devices if a stage has a choice. Modules have no
/// target. A target that is given for more than one label is always its first position in `named`: it has one lease.
///
/// # Errors
/// If a label or a target is given twice, no stage has a label, or a stage has no target.
pub fn assign(pipeline: &Pipeline, targets: &Targets, named: &[NamedTarget]) -> Result<Assignment, AssignmentError> {
    check_named(pipeline, named)?;
    let first_of = |at: usize| {
        let target = named.get(at)?;
        named.iter().position(|t| t.name == target.name)
    };
    let agents = AgentDevices::query(pipeline, targets, named);
    let mut counts = vec![0usize; named.len()];
    let mut assigned = vec![None; pipeline.stages.len()];
    for stage in &pipeline.graph.order {
        let (Some(definition), Some(checked)) = (pipeline.document.stages.get(*stage), pipeline.stages.get(*stage))
        else {
            continue;
        };
        let (StageWork::Replay(replay), CheckedWork::Replay(work)) = (&definition.work, &checked.work) else {
            continue;
        };
        let hint = || fitting_hint(&targets.fitting_targets(&work.device, &[]));
        if named.is_empty() {
            return Err(AssignmentError::Missing {
                stage: definition.name.clone(),
                hint: hint(),
            });
        }
        let fits = |target: &NamedTarget| match agents.fit(targets, &work.device, &target.name) {
            Fit::Fits => Some(0),
            Fit::FitsRewritten => Some(1),
            Fit::Unknown => Some(2),
            Fit::Unfit => None,
        };
        let candidates: Vec<usize> = match &replay.target {
            Some(label) => {
                let labelled = named.iter().position(|t| t.label.as_ref() == Some(label));
                // One target without a label serves every label.
                let only = (named.len() == 1 && named.iter().all(|t| t.label.is_none())).then_some(0);
                let found = labelled
                    .and_then(first_of)
                    .or(only)
                    .ok_or_else(|| AssignmentError::Label {
                        line: definition.line,
                        stage: definition.name.clone(),
                        label: label.clone(),
                    })?;
                vec![found]
            }
            None => (0..named.len()).filter(|at| first_of(*at) == Some(*at)).collect(),
        };
        let rated = candidates
            .into_iter()
            .filter_map(|at| Some((named.get(at).and_then(fits)?, at)));
        let best = rated.min_by_key(|(fit, at)| (*fit, counts.get(*at).copied(), *at));
        let chosen = best.map(|(_, at)| at).ok_or_else(|| AssignmentError::Unfit {
            line: definition.line,
            stage: definition.name.clone(),
            device: work.device.describe(),
            hint: hint(),
        })?;
        if let Some(count) = counts.get_mut(chosen) {
            *count = count.saturating_add(1);
        }
        if let Some(slot) = assigned.get_mut(*stage) {
            *slot = Some(chosen);
        }
    }
    let has_stage = |name: &str| {
        let used = assigned.iter().flatten().filter_map(|at| named.get(*at));
        used.into_iter().any(|target| target.name == name)
    };
    Ok(Assignment {
        unused: agents.describe_unused(has_stage),
        targets: assigned,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_targets_have_labels_and_properties() {
        let parse = |text: &str| {
            let all = NamedTarget::parse_list(text).unwrap();
            all.iter().map(NamedTarget::to_string).collect::<Vec<_>>()
        };
        assert_eq!(parse("software:mali-g71"), ["software:mali-g71"]);
        assert_eq!(parse("a=software:mali-g71,cuda:0"), ["a=software:mali-g71", "cuda:0"]);
        assert_eq!(
            parse("qemu:ati-vga,model=rv100,b=qemu:edu,agent:lab/mali"),
            ["qemu:ati-vga,model=rv100", "b=qemu:edu", "agent:lab/mali"]
        );
        assert_eq!(parse("agent://h:1/x=y"), ["agent://h:1/x=y"]);
        for empty in ["", "cuda:0,", ",cuda:0"] {
            assert!(NamedTarget::parse_list(empty).is_err(), "{empty}");
        }
        let misspelt = NamedTarget::parse_list("cuda:0,sofware:mali-g71").unwrap_err();
        assert!(misspelt.to_string().contains("is not a target's name"), "{misspelt}");
    }
}
