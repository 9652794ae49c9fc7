//! The description of a campaign: a TOML file, checked before anything runs. Errors name its line.

mod bisect;
mod checker;
mod fuzz;
mod pipelines;
mod raw_entry;
mod recordings;
mod tuning;
mod wasm;

pub use bisect::BisectEntry;
pub use fuzz::FuzzEntry;
pub use pipelines::PipelinesEntry;
pub use raw_entry::{DescriptionError, MAX_DESCRIPTION_BYTES};
pub use recordings::RecordingsEntry;
pub use tuning::TuningEntry;
pub use wasm::WasmEntry;

use crate::campaign_files::CampaignFiles;
use crate::matrix_error::MatrixError;
use crate::selector::TargetSelector;
use crate::work::{KeptOutcomes, WorkItem};
use bisect::RawBisect;
use checker::{Checker, line_of};
use fuzz::RawFuzz;
use kinescope_session::replay::request::TIME_LIMITS_S;
use kinescope_session::wasm_program::WasmTarget;
use pipelines::RawPipelines;
use raw_entry::{CommonKeys, EntryDefaults, EntryOptions, Expand, RawEntry, TargetKind};
use recordings::RawRecordings;
use replay_engine::serve::MAX_REPEATS;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use toml::Spanned;
use tuning::RawTuning;
use wasm::RawWasm;

/// Maximum number of entries of a table, for example `[[recordings]]`.
const MAX_ENTRIES: usize = 10_000;
/// Maximum length of a campaign's name, bytes.
const MAX_NAME: usize = 64;
/// The version of descriptions that this code reads.
const VERSION: u32 = 1;
/// Default time that a target may be out of reach, seconds.
const TARGET_WAIT_S: u64 = 60;
/// Maximum time that a target may be out of reach, seconds.
const MAX_TARGET_WAIT_S: u64 = 86_400;

/// A campaign as its description says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Campaign {
    /// Name for people; the stem of the file if the description has none.
    pub name: String,
    /// Folder that relative paths start from.
    pub folder: PathBuf,
    /// Which outcomes are kept as recordings.
    pub keep_outcomes: KeptOutcomes,
    /// Seconds that a target may be out of reach before its runs stay queued.
    pub target_wait_s: u64,
    /// What to do, in the order of the description.
    pub entries: Vec<CampaignEntry>,
}

/// Work of one kind that is done in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CampaignEntry {
    /// Line of the entry in the description.
    pub line: usize,
    /// A path, or a pattern with `*`, `?`, `[…]` and `**`.
    pub path: String,
    /// Targets as `--on` takes them, or selectors of labels.
    pub targets: Vec<String>,
    /// Number of runs on each target, at least 1.
    pub repeats: u32,
    /// Time limit of a run, seconds.
    pub time_limit_s: Option<u64>,
    /// Whether a target without containment is accepted.
    pub without_containment: bool,
    /// The kind of work, with its own keys.
    pub work: EntryWork,
}

/// The work of an entry. Another kind is another variant, and a table in [`RawCampaign`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryWork {
    /// `[[recordings]]`.
    Recordings(RecordingsEntry),
    /// `[[pipelines]]`.
    Pipelines(PipelinesEntry),
    /// `[[tuning]]`.
    Tuning(TuningEntry),
    /// `[[wasm]]`.
    Wasm(WasmEntry),
    /// `[[fuzz]]`.
    Fuzz(FuzzEntry),
    /// `[[bisect]]`.
    Bisect(BisectEntry),
}

impl EntryWork {
    fn as_expand(&self) -> &dyn Expand {
        match self {
            Self::Recordings(entry) => entry,
            Self::Pipelines(entry) => entry,
            Self::Tuning(entry) => entry,
            Self::Wasm(entry) => entry,
            Self::Fuzz(entry) => entry,
            Self::Bisect(entry) => entry,
        }
    }
}

impl From<RecordingsEntry> for EntryWork {
    fn from(entry: RecordingsEntry) -> Self {
        Self::Recordings(entry)
    }
}

impl From<PipelinesEntry> for EntryWork {
    fn from(entry: PipelinesEntry) -> Self {
        Self::Pipelines(entry)
    }
}

impl From<TuningEntry> for EntryWork {
    fn from(entry: TuningEntry) -> Self {
        Self::Tuning(entry)
    }
}

impl From<WasmEntry> for EntryWork {
    fn from(entry: WasmEntry) -> Self {
        Self::Wasm(entry)
    }
}

impl From<FuzzEntry> for EntryWork {
    fn from(entry: FuzzEntry) -> Self {
        Self::Fuzz(entry)
    }
}

impl From<BisectEntry> for EntryWork {
    fn from(entry: BisectEntry) -> Self {
        Self::Bisect(entry)
    }
}

impl CampaignEntry {
    /// Returns an error of the entry.
    pub(crate) fn error(&self, reason: impl Into<String>) -> MatrixError {
        MatrixError::Entry {
            line: self.line,
            reason: reason.into(),
        }
    }

    /// Finds the files of the entry, and returns its work items in order of their names.
    pub(crate) fn expand(&self, files: &mut CampaignFiles<'_>) -> Result<Vec<WorkItem>, MatrixError> {
        let options = EntryOptions {
            line: self.line,
            path: &self.path,
            time_limit_s: self.time_limit_s,
            without_containment: self.without_containment,
        };
        self.work.as_expand().expand(&options, files)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawCampaign {
    version: Spanned<u32>,
    name: Option<Spanned<String>>,
    #[serde(default)]
    targets: Vec<Spanned<String>>,
    repeats: Option<Spanned<u32>>,
    time_limit: Option<Spanned<u64>>,
    #[serde(default)]
    tolerance: Vec<Spanned<String>>,
    #[serde(default)]
    without_containment: bool,
    #[serde(default)]
    keep_outcomes: KeptOutcomes,
    target_wait: Option<Spanned<u64>>,
    #[serde(default)]
    recordings: Vec<Spanned<RawRecordings>>,
    #[serde(default)]
    pipelines: Vec<Spanned<RawPipelines>>,
    #[serde(default)]
    tuning: Vec<Spanned<RawTuning>>,
    #[serde(default)]
    wasm: Vec<Spanned<RawWasm>>,
    #[serde(default)]
    fuzz: Vec<Spanned<RawFuzz>>,
    #[serde(default)]
    bisect: Vec<Spanned<RawBisect>>,
}

impl RawCampaign {
    /// Returns the entries of all tables, in the order of the description.
    fn entries(&self) -> Vec<(usize, &dyn TableEntry)> {
        let mut all = Vec::new();
        add(&mut all, &self.recordings);
        add(&mut all, &self.pipelines);
        add(&mut all, &self.tuning);
        add(&mut all, &self.wasm);
        add(&mut all, &self.fuzz);
        add(&mut all, &self.bisect);
        all.sort_by_key(|(start, _)| *start);
        all
    }
}

/// Adds the entries of a table, each with its first byte in the text.
fn add<'a, T: TableEntry>(all: &mut Vec<(usize, &'a dyn TableEntry)>, table: &'a [Spanned<T>]) {
    all.extend(table.iter().map(|e| (e.span().start, e.get_ref() as &dyn TableEntry)));
}

/// An entry of any table, as it is written.
trait TableEntry {
    /// Returns the keys that every table has.
    fn common(&self) -> CommonKeys<'_>;

    /// Returns what its targets must be.
    fn target_kind(&self) -> TargetKind;

    /// Checks the keys of the table's own.
    fn check(&self, checker: &Checker<'_>, defaults: &EntryDefaults) -> Result<EntryWork, DescriptionError>;
}

impl<T: RawEntry> TableEntry for T
where
    EntryWork: From<T::Entry>,
{
    fn common(&self) -> CommonKeys<'_> {
        RawEntry::common(self)
    }

    fn target_kind(&self) -> TargetKind {
        RawEntry::target_kind(self)
    }

    fn check(&self, checker: &Checker<'_>, defaults: &EntryDefaults) -> Result<EntryWork, DescriptionError> {
        RawEntry::check(self, checker, defaults).map(EntryWork::from)
    }
}

fn check_entry(
    start: usize,
    raw: &dyn TableEntry,
    checker: &Checker<'_>,
    defaults: &EntryDefaults,
) -> Result<CampaignEntry, DescriptionError> {
    let keys = raw.common();
    let line = line_of(checker.text, start);
    if keys.path.get_ref().is_empty() {
        return Err(checker.error(keys.path, "`path` is empty"));
    }
    let targets = match keys.targets {
        Some(targets) => checker.targets(targets)?,
        None => defaults.targets.clone(),
    };
    if targets.is_empty() {
        let reason = "this entry has no target; add `targets = [\"software:mali-g71\"]` here or at the top";
        return Err(DescriptionError::Line {
            line,
            reason: reason.to_owned(),
        });
    }
    for name in &targets {
        let fits = match raw.target_kind() {
            TargetKind::Device => checker.device_target(name),
            // A worker finds out whether its targets run programs.
            TargetKind::Wasm if TargetSelector::is_selector(name) => Ok(()),
            TargetKind::Wasm => WasmTarget::parse(name).map(drop).map_err(|e| e.to_string()),
        };
        fits.map_err(|reason| DescriptionError::Line { line, reason })?;
    }
    let limits = (*TIME_LIMITS_S.start(), *TIME_LIMITS_S.end());
    Ok(CampaignEntry {
        line,
        path: keys.path.get_ref().clone(),
        targets,
        repeats: checker
            .number(keys.repeats, "repeats", (1, MAX_REPEATS))?
            .unwrap_or(defaults.repeats),
        time_limit_s: checker
            .number(keys.time_limit, "time-limit", limits)?
            .or(defaults.time_limit_s),
        without_containment: keys.without_containment.unwrap_or(defaults.without_containment),
        work: raw.check(checker, defaults)?,
    })
}

impl Campaign {
    /// Returns the targets, or selectors, of all entries.
    #[must_use]
    pub fn targets(&self) -> BTreeSet<&str> {
        let targets = self.entries.iter().flat_map(|entry| &entry.targets);
        targets.map(String::as_str).collect()
    }

    /// Reads the description in a file. Relative paths in it start from its folder.
    ///
    /// # Errors
    /// If the file cannot be read, or has a mistake.
    pub fn read(path: &Path) -> Result<Self, DescriptionError> {
        let failed = |e: std::io::Error| DescriptionError::File {
            path: path.display().to_string(),
            reason: e.to_string(),
        };
        let mut text = String::new();
        let file = std::fs::File::open(path).map_err(failed)?;
        file.take(MAX_DESCRIPTION_BYTES as u64 + 1)
            .read_to_string(&mut text)
            .map_err(failed)?;
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
        let folder = std::path::absolute(folder.unwrap_or(Path::new("."))).map_err(failed)?;
        let mut campaign = Self::parse(&text, &folder)?;
        if campaign.name.is_empty() {
            campaign.name = path.file_stem().map_or_else(
                || "campaign".to_owned(),
                |stem| stem.to_string_lossy().chars().take(MAX_NAME).collect(),
            );
        }
        Ok(campaign)
    }

    /// Parses a description whose relative paths start from `folder`. Opens no file. The name is empty if the
    /// description has none.
    ///
    /// # Errors
    /// The first mistake, with its line.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, DescriptionError> {
        if text.len() > MAX_DESCRIPTION_BYTES {
            return Err(DescriptionError::TooLong);
        }
        let raw: RawCampaign = toml::from_str(text).map_err(|e| DescriptionError::Line {
            line: e.span().map_or(1, |s| line_of(text, s.start)),
            reason: e.message().trim().replace('\n', "; "),
        })?;
        let checker = Checker { text, folder };
        if *raw.version.get_ref() != VERSION {
            let found = raw.version.get_ref();
            return Err(checker.error(
                &raw.version,
                format!("version {found} is unknown (this program reads version {VERSION})"),
            ));
        }
        if let Some(name) = &raw.name {
            let is_plain = |c: char| c.is_alphanumeric() || " -_.".contains(c);
            if name.get_ref().is_empty() || name.get_ref().len() > MAX_NAME || !name.get_ref().chars().all(is_plain) {
                let reason = format!("a name has 1 to {MAX_NAME} bytes: letters, digits, spaces, `-`, `_` and `.`");
                return Err(checker.error(name, reason));
            }
        }
        let raw_entries = raw.entries();
        if raw_entries.is_empty() {
            return Err(DescriptionError::Line {
                line: 1,
                reason: "the campaign has no work; add `[[recordings]]` with `path`, or another table".to_owned(),
            });
        }
        if let Some((start, _)) = raw_entries.get(MAX_ENTRIES) {
            return Err(DescriptionError::Line {
                line: line_of(text, *start),
                reason: format!("more than {MAX_ENTRIES} entries"),
            });
        }
        let limits = (*TIME_LIMITS_S.start(), *TIME_LIMITS_S.end());
        let defaults = EntryDefaults {
            targets: checker.targets(&raw.targets)?,
            repeats: checker
                .number(raw.repeats.as_ref(), "repeats", (1, MAX_REPEATS))?
                .unwrap_or(1),
            time_limit_s: checker.number(raw.time_limit.as_ref(), "time-limit", limits)?,
            tolerance: checker.tolerance(&raw.tolerance)?,
            without_containment: raw.without_containment,
        };
        let wait = checker.number(raw.target_wait.as_ref(), "target-wait", (0, MAX_TARGET_WAIT_S))?;
        let entries = raw_entries
            .iter()
            .map(|(start, raw)| check_entry(*start, *raw, &checker, &defaults))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            name: raw.name.map(Spanned::into_inner).unwrap_or_default(),
            folder: folder.to_owned(),
            keep_outcomes: raw.keep_outcomes,
            target_wait_s: wait.unwrap_or(TARGET_WAIT_S),
            entries,
        })
    }
}

#[cfg(test)]
mod tests;
