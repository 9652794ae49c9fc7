//! The description of a campaign: a TOML file, checked before anything runs. Errors name its line.

use crate::work::KeptOutcomes;
use kinescope_session::replay::request::TIME_LIMITS_S;
use kinescope_session::tuning::tolerance::parse_output_rule;
use replay_engine::client::targets;
use replay_engine::serve::MAX_REPEATS;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// Maximum size of a description, bytes.
pub const MAX_DESCRIPTION_BYTES: usize = 1 << 20;
/// Maximum number of entries `[[recordings]]`.
const MAX_ENTRIES: usize = 10_000;
/// Maximum number of targets of an entry.
const MAX_TARGETS: usize = 10_000;
/// Maximum length of a campaign's name, bytes.
const MAX_NAME: usize = 64;
/// The version of descriptions that this code reads.
const VERSION: u32 = 1;

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
    /// What to replay, in the order of the description.
    pub entries: Vec<CampaignEntry>,
}

/// Recordings that are replayed in the same way.
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
    /// Tolerances of outputs, as `--tolerance` takes them.
    pub tolerance: Vec<String>,
    /// Files with new contents of buffers, by the name of the buffer.
    pub inputs: BTreeMap<String, PathBuf>,
    /// Whether a target without containment is accepted.
    pub without_containment: bool,
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
    recordings: Vec<Spanned<RawEntry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawEntry {
    path: Spanned<String>,
    targets: Option<Vec<Spanned<String>>>,
    repeats: Option<Spanned<u32>>,
    time_limit: Option<Spanned<u64>>,
    tolerance: Option<Vec<Spanned<String>>>,
    #[serde(default)]
    inputs: BTreeMap<String, Spanned<String>>,
    without_containment: Option<bool>,
}

/// Returns the number of the line that a byte is in, from 1.
fn line_of(text: &str, byte: usize) -> usize {
    let before = text.as_bytes().get(..byte).unwrap_or(text.as_bytes());
    before.iter().filter(|b| **b == b'\n').count() + 1
}

/// Default time that a target may be out of reach, seconds.
const TARGET_WAIT_S: u64 = 60;
/// Maximum time that a target may be out of reach, seconds.
const MAX_TARGET_WAIT_S: u64 = 86_400;

/// The check of one text.
struct Checker<'a> {
    text: &'a str,
}

impl Checker<'_> {
    fn error<T>(&self, at: &Spanned<T>, reason: impl Into<String>) -> DescriptionError {
        DescriptionError::Line {
            line: line_of(self.text, at.span().start),
            reason: reason.into(),
        }
    }

    fn number<T: Copy + PartialOrd + std::fmt::Display>(
        &self,
        value: Option<&Spanned<T>>,
        name: &str,
        (min, max): (T, T),
    ) -> Result<Option<T>, DescriptionError> {
        let Some(spanned) = value else { return Ok(None) };
        let n = *spanned.get_ref();
        if n < min || n > max {
            return Err(self.error(spanned, format!("{name} is {n} (expected {min} to {max})")));
        }
        Ok(Some(n))
    }

    fn targets(&self, targets: &[Spanned<String>]) -> Result<Vec<String>, DescriptionError> {
        if let Some(extra) = targets.get(MAX_TARGETS) {
            return Err(self.error(extra, format!("more than {MAX_TARGETS} targets")));
        }
        let mut known = BTreeSet::new();
        let mut names = Vec::with_capacity(targets.len());
        for spanned in targets {
            let name = spanned.get_ref();
            targets::parse(name).map_err(|e| self.error(spanned, e.to_string()))?;
            if !known.insert(name.clone()) {
                return Err(self.error(spanned, format!("the target `{name}` is listed twice; use `repeats`")));
            }
            names.push(name.clone());
        }
        Ok(names)
    }

    fn tolerance(&self, rules: &[Spanned<String>]) -> Result<Vec<String>, DescriptionError> {
        for rule in rules {
            parse_output_rule(rule.get_ref()).map_err(|e| self.error(rule, e))?;
        }
        Ok(rules.iter().map(|r| r.get_ref().clone()).collect())
    }

    fn entry(
        &self,
        spanned: &Spanned<RawEntry>,
        defaults: &CampaignEntry,
        folder: &Path,
    ) -> Result<CampaignEntry, DescriptionError> {
        let raw = spanned.get_ref();
        if raw.path.get_ref().is_empty() {
            return Err(self.error(&raw.path, "`path` is empty"));
        }
        let targets = match &raw.targets {
            Some(targets) => self.targets(targets)?,
            None => defaults.targets.clone(),
        };
        if targets.is_empty() {
            return Err(self.error(
                spanned,
                "this entry has no target; add `targets = [\"software:mali-g71\"]` here or at the top",
            ));
        }
        let mut inputs = BTreeMap::new();
        for (name, file) in &raw.inputs {
            if file.get_ref().is_empty() {
                return Err(self.error(file, format!("the input `{name}` has no file")));
            }
            inputs.insert(name.clone(), folder.join(file.get_ref()));
        }
        let limits = (*TIME_LIMITS_S.start(), *TIME_LIMITS_S.end());
        Ok(CampaignEntry {
            line: line_of(self.text, spanned.span().start),
            path: raw.path.get_ref().clone(),
            targets,
            repeats: self
                .number(raw.repeats.as_ref(), "repeats", (1, MAX_REPEATS))?
                .unwrap_or(defaults.repeats),
            time_limit_s: self
                .number(raw.time_limit.as_ref(), "time-limit", limits)?
                .or(defaults.time_limit_s),
            tolerance: match &raw.tolerance {
                Some(rules) => self.tolerance(rules)?,
                None => defaults.tolerance.clone(),
            },
            inputs,
            without_containment: raw.without_containment.unwrap_or(defaults.without_containment),
        })
    }
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
        let checker = Checker { text };
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
        if raw.recordings.is_empty() {
            return Err(DescriptionError::Line {
                line: 1,
                reason: "the campaign has no work; add `[[recordings]]` with `path`".to_owned(),
            });
        }
        if let Some(extra) = raw.recordings.get(MAX_ENTRIES) {
            return Err(checker.error(extra, format!("more than {MAX_ENTRIES} entries `[[recordings]]`")));
        }
        let limits = (*TIME_LIMITS_S.start(), *TIME_LIMITS_S.end());
        let defaults = CampaignEntry {
            line: 1,
            path: String::new(),
            targets: checker.targets(&raw.targets)?,
            repeats: checker
                .number(raw.repeats.as_ref(), "repeats", (1, MAX_REPEATS))?
                .unwrap_or(1),
            time_limit_s: checker.number(raw.time_limit.as_ref(), "time-limit", limits)?,
            tolerance: checker.tolerance(&raw.tolerance)?,
            inputs: BTreeMap::new(),
            without_containment: raw.without_containment,
        };
        let wait = checker.number(raw.target_wait.as_ref(), "target-wait", (0, MAX_TARGET_WAIT_S))?;
        let entries = raw.recordings.iter().map(|e| checker.entry(e, &defaults, folder));
        Ok(Self {
            name: raw.name.map(Spanned::into_inner).unwrap_or_default(),
            folder: folder.to_owned(),
            keep_outcomes: raw.keep_outcomes,
            target_wait_s: wait.unwrap_or(TARGET_WAIT_S),
            entries: entries.collect::<Result<_, _>>()?,
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
        assert_eq!(second.inputs["image"], Path::new("/c/digit.npy"));
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

    #[test]
    fn long_texts_are_refused_before_they_are_parsed() {
        let text = " ".repeat(MAX_DESCRIPTION_BYTES + 1);
        assert_eq!(Campaign::parse(&text, Path::new("/")), Err(DescriptionError::TooLong));
    }
}
