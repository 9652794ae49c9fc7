//! The description of a campaign: a TOML file, checked before anything runs. Errors name its line.

mod bisect;
mod checker;
mod fuzz;
mod pipelines;
mod recordings;
mod tuning;
mod wasm;

pub use bisect::BisectEntry;
pub use fuzz::FuzzEntry;
pub use pipelines::PipelinesEntry;
pub use recordings::RecordingsEntry;
pub use tuning::TuningEntry;
pub use wasm::WasmEntry;

use crate::matrix::{CampaignFiles, MatrixError};
use crate::work::{KeptOutcomes, WorkItem};
use bisect::RawBisect;
use checker::{Checker, line_of};
use fuzz::RawFuzz;
use kinescope_session::replay::request::TIME_LIMITS_S;
use kinescope_session::wasm_program::WasmTarget;
use pipelines::RawPipelines;
use recordings::RawRecordings;
use replay_engine::serve::MAX_REPEATS;
use serde::Deserialize;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use toml::Spanned;
use tuning::RawTuning;
use wasm::RawWasm;

/// Maximum size of a description, bytes.
pub const MAX_DESCRIPTION_BYTES: usize = 1 << 20;
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

/// Why a text is no description of a campaign.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    /// The file cannot be read.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// The message of the operating system.
        reason: String,
    },
    /// The text is too long.
    #[error("the description has more than {MAX_DESCRIPTION_BYTES} bytes")]
    TooLong,
    /// A line has a mistake.
    #[error("line {line}: {reason}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong, and what was expected.
        reason: String,
    },
}

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
    /// Targets as `--on` takes them.
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

/// An entry whose files can be found.
trait Expand {
    /// Finds the files of an entry, and returns its work items.
    fn expand(&self, entry: &CampaignEntry, files: &mut CampaignFiles<'_>) -> Result<Vec<WorkItem>, MatrixError>;
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
        self.work.as_expand().expand(self, files)
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
    fn entries(&self) -> Vec<(usize, &dyn RawEntry)> {
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
fn add<'a, T: RawEntry>(all: &mut Vec<(usize, &'a dyn RawEntry)>, table: &'a [Spanned<T>]) {
    all.extend(table.iter().map(|e| (e.span().start, e.get_ref() as &dyn RawEntry)));
}

/// The keys that every table has.
struct CommonKeys<'a> {
    path: &'a Spanned<String>,
    targets: Option<&'a [Spanned<String>]>,
    repeats: Option<&'a Spanned<u32>>,
    time_limit: Option<&'a Spanned<u64>>,
    without_containment: Option<bool>,
}

/// What entries take from the top of the description.
struct EntryDefaults {
    targets: Vec<String>,
    repeats: u32,
    time_limit_s: Option<u64>,
    tolerance: Vec<String>,
    without_containment: bool,
}

/// What the targets of an entry must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TargetKind {
    /// Devices that replay recordings.
    Device,
    /// Targets that run WebAssembly programs.
    Wasm,
}

/// An entry as it is written.
trait RawEntry {
    /// Returns the keys that every table has.
    fn common(&self) -> CommonKeys<'_>;

    /// Returns what its targets must be.
    fn target_kind(&self) -> TargetKind {
        TargetKind::Device
    }

    /// Checks the keys of the table's own.
    fn check(&self, checker: &Checker<'_>, defaults: &EntryDefaults) -> Result<EntryWork, DescriptionError>;
}

fn check_entry(
    start: usize,
    raw: &dyn RawEntry,
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
mod tests {
    use super::*;

    const WHOLE: &str = "\
version = 1
name = \"nightly\"
targets = [\"software:mali-g71\", \"agent:lab/mali\"]
repeats = 3
keep-outcomes = \"diverged\"

[[recordings]]
path = \"traces/*.kine\"

[[recordings]]
path = \"digits.kine\"
targets = [\"cuda:0\"]
repeats = 1
time-limit = 20
tolerance = [\"out0=f32:1e-5\"]
inputs = { image = \"digit.npy\" }
without-containment = true
";

    fn error(text: &str) -> (usize, String) {
        match Campaign::parse(text, Path::new("/c")) {
            Err(DescriptionError::Line { line, reason }) => (line, reason),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn entries_take_defaults_and_replace_them() {
        let campaign = Campaign::parse(WHOLE, Path::new("/c")).unwrap();
        assert_eq!((campaign.name.as_str(), campaign.entries.len()), ("nightly", 2));
        assert_eq!(campaign.keep_outcomes, KeptOutcomes::Diverged);
        let [first, second] = &campaign.entries[..] else {
            panic!()
        };
        assert_eq!((first.repeats, first.targets.len(), first.line), (3, 2, 7));
        assert_eq!((second.repeats, second.time_limit_s, second.line), (1, Some(20), 10));
        assert_eq!(second.targets, ["cuda:0"]);
        let EntryWork::Recordings(replay) = &second.work else {
            panic!()
        };
        assert_eq!(replay.inputs["image"], Path::new("/c/digit.npy"));
        assert!(second.without_containment && !first.without_containment);
    }

    #[test]
    fn each_mistake_has_its_line() {
        let with = |line: &str| {
            format!("version = 1\ntargets = [\"software:mali-g71\"]\n[[recordings]]\npath = \"a\"\n{line}\n")
        };
        for (text, line, part) in [
            (
                "version = 2\n[[recordings]]\npath = \"a\"\n".to_owned(),
                1,
                "version 2 is unknown",
            ),
            ("version = 1\n".to_owned(), 1, "no work"),
            ("version = 1\n[[recordings]]\npath = \"a\"\n".to_owned(), 2, "no target"),
            (with("targets = [\"lab\"]"), 5, "`lab` is not a target name"),
            (with("targets = [\"cuda:0\", \"cuda:0\"]"), 5, "listed twice"),
            (with("repeats = 0"), 5, "repeats is 0 (expected 1 to"),
            (with("time-limit = 99999"), 5, "time-limit is 99999"),
            (with("tolerance = [\"f32:x\"]"), 5, "f32:x"),
            (with("inputs = { a = \"\" }"), 5, "has no file"),
            (with("repeat = 3"), 5, "unknown field"),
            (with("path = \"b\""), 5, "duplicate key"),
            ("version = 1\nname = \"a/b\"\n".to_owned(), 2, "a name has"),
            ("version = \n".to_owned(), 1, ""),
        ] {
            let (at, reason) = error(&text);
            assert_eq!(at, line, "{text}: {reason}");
            assert!(reason.contains(part), "{text}: {reason}");
        }
    }

    /// A description with every table but `[[recordings]]`.
    const KINDS: &str = "\
version = 1
targets = [\"software:mali-g71\"]
time-limit = 30

[[bisect]]
path = \"broken.kine\"
producers = \"bytes\"
max-candidates = 20

[[fuzz]]
path = \"digits.kine\"
inputs = [\"image\"]
seeds = \"10..=19\"
step = 5
mutations = [\"special\", \"bits\"]

[[wasm]]
path = \"words.wasm\"
targets = [\"cpu\", \"cuda:0\", \"agent:lab/cpu\"]
inputs = \"texts\"
batch = 10
environment = { LANG = \"C\" }

[[tuning]]
path = \"saxpy.kine\"
targets = [\"cuda:0\"]
block = \"64..=512\"
tolerance = [\"arg0=f32:1e-5\"]
launch-limit = 2

[[pipelines]]
path = \"a.kpipe\"
labels = { second = \"software:mali-g52\" }
";

    #[test]
    fn tables_come_in_the_order_of_the_description() {
        let campaign = Campaign::parse(KINDS, Path::new("/c")).unwrap();
        let lines: Vec<usize> = campaign.entries.iter().map(|e| e.line).collect();
        assert_eq!(lines, [5, 10, 17, 24, 31]);
        let [bisect, fuzz, wasm, tuning, pipelines] = &campaign.entries[..] else {
            panic!()
        };
        assert!(matches!(&bisect.work, EntryWork::Bisect(e) if e.max_candidates == 20 && !e.jobs_only));
        let EntryWork::Fuzz(entry) = &fuzz.work else { panic!() };
        assert_eq!((entry.seeds.clone(), entry.step), (10..20, 5));
        assert_eq!(entry.mutations, [crate::MutationKind::Bits, crate::MutationKind::Special]);
        assert!(matches!(&wasm.work, EntryWork::Wasm(e) if e.batch == 10) && wasm.targets.len() == 3);
        let EntryWork::Tuning(entry) = &tuning.work else { panic!() };
        assert_eq!(entry.options.launch_limit_ms, Some(2000));
        assert!(matches!(&pipelines.work, EntryWork::Pipelines(e) if e.labels.len() == 1));
        assert!(campaign.entries.iter().all(|e| e.time_limit_s == Some(30)));
    }

    #[test]
    fn each_mistake_of_a_table_has_its_line() {
        let with = |table: &str, lines: &str| {
            format!("version = 1\ntargets = [\"cuda:0\"]\n[[{table}]]\npath = \"a\"\n{lines}\n")
        };
        let fuzz = |lines: &str| with("fuzz", &format!("inputs = [\"a\"]\nseeds = \"0..9\"\n{lines}"));
        for (text, line, part) in [
            (with("fuzz", "inputs = [\"a\"]"), 3, "missing field `seeds`"),
            (with("fuzz", "inputs = []\nseeds = \"0..1\""), 5, "`inputs` is empty"),
            (with("fuzz", "inputs = [\"a\", \"a\"]\nseeds = \"0..1\""), 5, "listed twice"),
            (with("fuzz", "inputs = [\"a\"]\nseeds = \"9..1\""), 6, "no seeds"),
            (with("fuzz", "inputs = [\"a\"]\nseeds = \"0..90000000\""), 6, "raise `step`"),
            (fuzz("step = 0"), 7, "step is 0 (expected 1 to 4096)"),
            (fuzz("mutations = [\"melt\"]"), 7, "`melt` is no kind of mutation"),
            (fuzz("mutations = []"), 7, "`mutations` is empty"),
            (fuzz("seed = 3"), 7, "unknown field"),
            (with("wasm", "inputs = \"\""), 5, "`inputs` is empty"),
            (with("wasm", "inputs = \"x\"\nbatch = 5000"), 6, "batch is 5000"),
            (with("wasm", "inputs = \"x\"\nlimit-memory = 3"), 6, "limit-memory is 3"),
            (with("wasm", "inputs = \"x\"\nenvironment = { \"a=b\" = \"c\" }"), 6, "has no `=`"),
            (with("wasm", "inputs = \"x\"\ntargets = [\"nvidia:0\"]"), 3, "run on cpu"),
            (with("wasm", "inputs = \"x\"\nwithout-containment = true"), 6, "unknown field"),
            (with("tuning", "block = \"x\""), 5, "'x' is not a value"),
            (with("tuning", "block = \"1..=2000000+1\""), 5, "more than"),
            (with("tuning", "shared = \"\""), 5, "`shared` has 1 to"),
            (with("tuning", "cache = [\"l3\"]"), 5, "not a cache preference"),
            (with("tuning", "search = \"walk\""), 5, "not a search strategy"),
            (with("tuning", "tolerance = [\"x=1\"]"), 5, "x"),
            (with("tuning", "repeat = 0"), 5, "repeat is 0"),
            (with("tuning", "launch-limit = nan"), 5, "launch-limit is NaN"),
            (with("bisect", "max-candidates = 0"), 5, "max-candidates is 0"),
            (with("bisect", "producers = \"all\""), 5, "unknown variant"),
            (with("bisect", "other = \"b\""), 5, "unknown field"),
            (with("pipelines", "labels = { x = \"cpu\" }"), 5, "only runs WebAssembly"),
            (with("pipelines", "tolerance = [\"exact\"]"), 5, "unknown field"),
            (with("pipelines", "inputs = { a = \"\" }"), 5, "has no file"),
            (with("kernels", ""), 3, "unknown field"),
        ] {
            let (at, reason) = error(&text);
            assert_eq!(at, line, "{text}: {reason}");
            assert!(reason.contains(part), "{text}: {reason}");
        }
    }

    #[test]
    fn long_texts_are_refused_before_they_are_parsed() {
        let text = " ".repeat(MAX_DESCRIPTION_BYTES + 1);
        assert_eq!(Campaign::parse(&text, Path::new("/")), Err(DescriptionError::TooLong));
    }
}
