//! What every table of a description has: its keys, the check of one entry, and the work items of an entry.

use super::checker::Checker;
use crate::campaign_files::CampaignFiles;
use crate::matrix_error::MatrixError;
use crate::work::WorkItem;
use toml::Spanned;

/// Maximum size of a description, bytes.
pub const MAX_DESCRIPTION_BYTES: usize = 1 << 20;

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

/// The keys that every table has.
pub(super) struct CommonKeys<'a> {
    pub path: &'a Spanned<String>,
    pub targets: Option<&'a [Spanned<String>]>,
    pub repeats: Option<&'a Spanned<u32>>,
    pub time_limit: Option<&'a Spanned<u64>>,
    pub without_containment: Option<bool>,
}

/// Defines the keys of a table of replays: those that all have, then its own. Flattened structs would lose the lines of
/// their values.
macro_rules! table_keys {
    ($name:ident { $($(#[$attribute:meta])* $key:ident: $type:ty,)* }) => {
        /// The keys of the table.
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case")]
        pub(super) struct $name {
            path: toml::Spanned<String>,
            targets: Option<Vec<toml::Spanned<String>>>,
            repeats: Option<toml::Spanned<u32>>,
            time_limit: Option<toml::Spanned<u64>>,
            without_containment: Option<bool>,
            $($(#[$attribute])* $key: $type,)*
        }

        impl $name {
            fn common_keys(&self) -> $crate::description::raw_entry::CommonKeys<'_> {
                $crate::description::raw_entry::CommonKeys {
                    path: &self.path,
                    targets: self.targets.as_deref(),
                    repeats: self.repeats.as_ref(),
                    time_limit: self.time_limit.as_ref(),
                    without_containment: self.without_containment,
                }
            }
        }
    };
}
pub(super) use table_keys;

/// What entries take from the top of the description.
pub(super) struct EntryDefaults {
    pub targets: Vec<String>,
    pub repeats: u32,
    pub time_limit_s: Option<u64>,
    pub tolerance: Vec<String>,
    pub without_containment: bool,
}

/// What the targets of an entry must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TargetKind {
    /// Devices that replay recordings.
    Device,
    /// Targets that run WebAssembly programs.
    Wasm,
}

/// An entry as it is written.
pub(super) trait RawEntry {
    /// The checked entry.
    type Entry;

    /// Returns the keys that every table has.
    fn common(&self) -> CommonKeys<'_>;

    /// Returns what its targets must be.
    fn target_kind(&self) -> TargetKind {
        TargetKind::Device
    }

    /// Checks the keys of the table's own.
    fn check(&self, checker: &Checker<'_>, defaults: &EntryDefaults) -> Result<Self::Entry, DescriptionError>;
}

/// The keys of a checked entry that work items take.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryOptions<'a> {
    /// Line of the entry in the description.
    pub line: usize,
    /// A path, or a pattern.
    pub path: &'a str,
    /// Time limit of a run, seconds.
    pub time_limit_s: Option<u64>,
    /// Whether a target without containment is accepted.
    pub without_containment: bool,
}

impl EntryOptions<'_> {
    /// Returns an error of the entry.
    pub fn error(&self, reason: impl Into<String>) -> MatrixError {
        MatrixError::Entry {
            line: self.line,
            reason: reason.into(),
        }
    }
}

/// An entry whose files can be found.
pub(super) trait Expand {
    /// Finds the files of an entry, and returns its work items.
    fn expand(&self, entry: &EntryOptions<'_>, files: &mut CampaignFiles<'_>) -> Result<Vec<WorkItem>, MatrixError>;
}
