//! The table `[[tuning]]`: recordings whose launch is tuned, with the options of `tune`.

use super::checker::Checker;
use super::raw_entry::{CommonKeys, DescriptionError, EntryDefaults, EntryOptions, Expand, RawEntry, table_keys};
use crate::campaign_files::CampaignFiles;
use crate::execution::parse_options;
use crate::matrix_error::MatrixError;
use crate::work::{RecordingFile, TuningOptions, TuningWork, WorkItem};
use kinescope_session::tuning::form::FACTORS;
use std::collections::BTreeMap;
use std::path::PathBuf;
use toml::Spanned;

/// Maximum length of a list of values as it is written, bytes.
const MAX_LIST_BYTES: usize = 16 << 10;
/// Allowed limits of one launch, seconds.
const LAUNCH_LIMITS_S: (f64, f64) = (0.001, 3600.0);

/// Recordings whose launch is tuned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TuningEntry {
    /// Files with new contents of buffers, by the name of the buffer.
    pub inputs: BTreeMap<String, PathBuf>,
    /// Files with code to try.
    pub modules: Vec<PathBuf>,
    /// The other options.
    pub options: TuningOptions,
}

table_keys!(RawTuning {
    #[serde(default)]
    inputs: BTreeMap<String, Spanned<String>>,
    launch: Option<Spanned<String>>,
    block: Option<Spanned<String>>,
    block_y: Option<Spanned<String>>,
    block_z: Option<Spanned<String>>,
    grid: Option<Spanned<String>>,
    grid_y: Option<Spanned<String>>,
    grid_z: Option<Spanned<String>>,
    #[serde(default)]
    keep_grid: bool,
    shared: Option<Spanned<String>>,
    #[serde(default)]
    cache: Vec<Spanned<String>>,
    max_registers: Option<Spanned<String>>,
    #[serde(default)]
    launch_bounds: Vec<Spanned<String>>,
    #[serde(default)]
    modules: Vec<Spanned<String>>,
    function: Option<Spanned<String>>,
    #[serde(default)]
    module_options: Vec<Spanned<String>>,
    search: Option<Spanned<String>>,
    seed: Option<Spanned<u64>>,
    factor: Option<Spanned<u32>>,
    repeat: Option<Spanned<u32>>,
    warm_up: Option<Spanned<u32>>,
    #[serde(default)]
    tolerance: Vec<Spanned<String>>,
    launch_limit: Option<Spanned<f64>>,
});

impl RawTuning {
    /// Returns the lists of values with the names of their options.
    fn lists(&self) -> [(&'static str, Option<&Spanned<String>>); 8] {
        [
            ("block", self.block.as_ref()),
            ("block-y", self.block_y.as_ref()),
            ("block-z", self.block_z.as_ref()),
            ("grid", self.grid.as_ref()),
            ("grid-y", self.grid_y.as_ref()),
            ("grid-z", self.grid_z.as_ref()),
            ("shared", self.shared.as_ref()),
            ("max-registers", self.max_registers.as_ref()),
        ]
    }

    /// Returns the value that an option has in the description, to name its line.
    fn find(&self, option: &str) -> &Spanned<String> {
        let list = self.lists().into_iter().find(|(name, _)| *name == option);
        let value = match option {
            "cache" => self.cache.first(),
            "launch-bounds" => self.launch_bounds.first(),
            "search" => self.search.as_ref(),
            "tolerance" => self.tolerance.first(),
            _ => list.and_then(|(_, value)| value),
        };
        value.unwrap_or(&self.path)
    }
}

impl RawEntry for RawTuning {
    type Entry = TuningEntry;

    fn common(&self) -> CommonKeys<'_> {
        self.common_keys()
    }

    fn check(&self, checker: &Checker<'_>, _defaults: &EntryDefaults) -> Result<TuningEntry, DescriptionError> {
        let mut values = BTreeMap::new();
        for (name, value) in self.lists() {
            let Some(value) = value else { continue };
            let text = value.get_ref();
            if text.is_empty() || text.len() > MAX_LIST_BYTES {
                let reason = format!("`{name}` has 1 to {MAX_LIST_BYTES} bytes: numbers with commas between them");
                return Err(checker.error(value, reason));
            }
            values.insert(name.to_owned(), text.clone());
        }
        let plain = |texts: &[Spanned<String>]| checker.texts(texts, |_| Ok(()));
        let text = |value: &Option<Spanned<String>>| value.as_ref().map(|v| v.get_ref().clone());
        let launch_limit = checker.number(self.launch_limit.as_ref(), "launch-limit", LAUNCH_LIMITS_S)?;
        let options = TuningOptions {
            launch: text(&self.launch),
            values,
            keep_grid: self.keep_grid,
            cache: plain(&self.cache)?,
            launch_bounds: plain(&self.launch_bounds)?,
            function: text(&self.function),
            module_options: plain(&self.module_options)?,
            search: text(&self.search),
            seed: self.seed.as_ref().map(|s| *s.get_ref()),
            factor: checker.number(self.factor.as_ref(), "factor", (*FACTORS.start(), *FACTORS.end()))?,
            repeat: checker.number(self.repeat.as_ref(), "repeat", (1, 10_000))?,
            warm_up: checker.number(self.warm_up.as_ref(), "warm-up", (0, 1000))?,
            tolerance: plain(&self.tolerance)?,
            launch_limit_ms: launch_limit.map(|s| (s * 1000.0).round() as u64),
        };
        parse_options(&options, None).map_err(|(option, e)| checker.error(self.find(option), e))?;
        let modules = plain(&self.modules)?.len();
        let modules = self.modules.iter().take(modules).map(|m| checker.file(m, "a module"));
        Ok(TuningEntry {
            inputs: checker.inputs(&self.inputs)?,
            modules: modules.collect::<Result<_, _>>()?,
            options,
        })
    }
}

impl Expand for TuningEntry {
    fn expand(&self, entry: &EntryOptions<'_>, files: &mut CampaignFiles<'_>) -> Result<Vec<WorkItem>, MatrixError> {
        let inputs = files.inputs(&self.inputs)?;
        let mut modules: Vec<RecordingFile> = Vec::new();
        for module in &self.modules {
            modules.push(files.recording(module)?);
        }
        let mut all = Vec::new();
        for path in files.find(entry.line, entry.path, "recording")? {
            all.push(WorkItem::Tuning(TuningWork {
                recording: files.recording(&path)?,
                inputs: inputs.clone(),
                modules: modules.clone(),
                options: self.options.clone(),
                time_limit_s: entry.time_limit_s,
                without_containment: entry.without_containment,
            }));
        }
        Ok(all)
    }
}
