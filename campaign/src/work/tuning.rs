//! A tuning of a recorded launch, as work of a campaign.

use super::detail_columns::{DetailColumns, Details};
use super::{FieldHasher, InputFile, Locate, RecordingFile, Work};
use kinescope_session::text;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A tuning of a launch: the options of `tune`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TuningWork {
    /// The recording.
    pub recording: RecordingFile,
    /// New contents of buffers, by name.
    #[serde(default)]
    pub inputs: BTreeMap<String, InputFile>,
    /// Code to try instead of the recorded code.
    #[serde(default)]
    pub modules: Vec<RecordingFile>,
    /// The options.
    pub options: TuningOptions,
    /// Time limit of the whole tuning, seconds; `None` for the default one.
    #[serde(default)]
    pub time_limit_s: Option<u64>,
    /// Whether a target without containment is accepted.
    #[serde(default)]
    pub without_containment: bool,
}

/// The options of a tuning, as `tune` takes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TuningOptions {
    /// `--launch`; `None` for the only launch.
    pub launch: Option<String>,
    /// Lists of values by the name of their option: `block`, `grid-y`, `shared`, `max-registers`.
    pub values: BTreeMap<String, String>,
    /// `--keep-grid`.
    pub keep_grid: bool,
    /// `--cache`.
    pub cache: Vec<String>,
    /// `--launch-bounds`.
    pub launch_bounds: Vec<String>,
    /// `--function`.
    pub function: Option<String>,
    /// `--module-option`.
    pub module_options: Vec<String>,
    /// `--search`.
    pub search: Option<String>,
    /// `--seed`.
    pub seed: Option<u64>,
    /// `--factor`.
    pub factor: Option<u32>,
    /// `--repeat`.
    pub repeat: Option<u32>,
    /// `--warm-up`.
    pub warm_up: Option<u32>,
    /// `--tolerance`.
    pub tolerance: Vec<String>,
    /// `--launch-limit`, milliseconds.
    pub launch_limit_ms: Option<u64>,
}

impl Work for TuningWork {
    fn kind(&self) -> &'static str {
        "tuning"
    }

    fn recording(&self) -> &RecordingFile {
        &self.recording
    }

    fn files(&self) -> Vec<(&PathBuf, &str)> {
        let inputs = self.inputs.values().map(|i| (&i.path, i.digest.as_str()));
        std::iter::once(&self.recording)
            .chain(&self.modules)
            .map(|f| (&f.path, f.digest.as_str()))
            .chain(inputs)
            .collect()
    }

    fn relocate(&mut self, locate: &mut Locate<'_>) {
        self.recording.relocate(locate);
        self.inputs.values_mut().for_each(|i| i.relocate(locate));
        self.modules.iter_mut().for_each(|m| m.relocate(locate));
    }

    fn consent_mut(&mut self) -> Option<&mut bool> {
        Some(&mut self.without_containment)
    }

    fn describe_options(&self) -> String {
        let options = &self.options;
        let launch = options.launch.iter().map(|l| format!("launch {l}"));
        let values = options.values.iter().map(|(name, list)| format!("{name} {list}"));
        let modules = self.modules.iter().map(|m| format!("module {}", m.name));
        let rules = options.tolerance.iter().map(|rule| format!("tolerance {rule}"));
        let search = options.search.iter().map(|s| format!("search {s}"));
        let inputs = self.inputs.keys().map(|name| format!("input {name}"));
        let parts = launch
            .chain(values)
            .chain(modules)
            .chain(search)
            .chain(rules)
            .chain(inputs);
        parts.collect::<Vec<_>>().join(", ")
    }

    fn hash_into(&self, hasher: &mut FieldHasher<'_>) {
        let options = &self.options;
        hasher.add("tuning");
        hasher.add(&self.recording.digest);
        hasher.add_files(&self.inputs);
        let modules: Vec<&str> = self.modules.iter().map(|m| m.digest.as_str()).collect();
        hasher.add_list(&modules);
        hasher.add_option(options.launch.as_deref());
        hasher.add_map(&options.values);
        hasher.add(if options.keep_grid { "keep-grid" } else { "" });
        hasher.add_list(&options.cache);
        hasher.add_list(&options.launch_bounds);
        hasher.add_option(options.function.as_deref());
        hasher.add_list(&options.module_options);
        hasher.add_option(options.search.as_deref());
        hasher.add_option(options.seed);
        hasher.add_option(options.factor);
        hasher.add_option(options.repeat);
        hasher.add_option(options.warm_up);
        hasher.add_list(&options.tolerance);
        hasher.add_option(options.launch_limit_ms);
        hasher.add_limits(self.time_limit_s, self.without_containment);
    }
}

/// The result of a tuning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TuningDetails {
    /// Number of measured points.
    pub points: u64,
    /// Number of them that are not valid: another result, refused, too slow.
    pub rejected: u64,
    /// Number of those with another result.
    pub wrong: u64,
    /// The fastest valid point, in words.
    pub best_point: Option<String>,
    /// Median time of the recorded launch, ns.
    pub recorded_ns: Option<u64>,
    /// Median time of the fastest valid point, ns.
    pub best_ns: Option<u64>,
    /// Whether both differ by less than their variation.
    pub within_spread: bool,
}

impl TuningDetails {
    /// Returns the time of the recorded launch divided by that of the fastest valid point.
    #[must_use]
    pub fn speed_up(&self) -> Option<f64> {
        let (recorded, best) = (self.recorded_ns?, self.best_ns.filter(|ns| *ns > 0)?);
        Some(recorded as f64 / best as f64)
    }
}

impl Details for TuningDetails {
    fn columns(&self) -> DetailColumns {
        DetailColumns {
            items: Some(self.points),
            failed_items: Some(self.rejected),
            best_point: self.best_point.clone(),
            launch_ns: self.recorded_ns.zip(self.best_ns),
            ..DetailColumns::default()
        }
    }

    fn describe(&self) -> String {
        let (Some(point), Some(speed_up)) = (&self.best_point, self.speed_up()) else {
            return format!("{} points, none valid", self.points);
        };
        let unclear = if self.within_spread {
            ", within the variation"
        } else {
            ""
        };
        let time = text::duration(self.best_ns.unwrap_or_default());
        format!("{speed_up:.2}× with {point} ({time}{unclear})")
    }
}
