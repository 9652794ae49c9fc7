//! Import errors, with the file and the position in it.

use super::file_description::{describe_file, list_names};
use super::unpack_limit::{MAX_RATIO, is_over_ratio, limit_of, size};
use std::fmt;
use std::path::{Path, PathBuf};
use trace_core::container::ContainerError;
use trace_core::progress::Cancelled;

/// A position in a source file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilePosition {
    /// A line, counted from 1.
    Line(u64),
    /// A byte, counted from 0.
    Byte(u64),
    /// The file as a whole.
    Whole,
}

impl fmt::Display for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(n) => write!(f, ", line {n}"),
            Self::Byte(n) => write!(f, ", byte {n:#x}"),
            Self::Whole => Ok(()),
        }
    }
}

/// Message of a read that the end of the file cut off.
const ENDED_EARLY: &str = "the file ended while it was read: it is incomplete, or another program truncated it. Read \
                           it again when no program writes it";

/// The reason why an import failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A file does not follow its format.
    #[error("{}{place}: {message}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The position in it.
        place: FilePosition,
        /// What was expected, and what was found.
        message: String,
    },
    /// A packed file exceeds its unpacked limit.
    #[error(
        "{}: {what} more than {}, the limit for packed files, so it was not imported; `--limit {}` allows twice as \
         much",
        path.display(), size(*limit), size(limit.saturating_mul(2)).replace(' ', "").replace("bytes", "")
    )]
    OverLimit {
        /// The file.
        path: PathBuf,
        /// What exceeds the limit, with its verb.
        what: &'static str,
        /// The limit in bytes.
        limit: u64,
    },
    /// A packed file becomes too many times larger.
    #[error(
        "{}: the file decompresses to more than {MAX_RATIO} times its size, as files made to exhaust a machine do, so it \
         was not imported; if you trust it, unpack it and open the result",
        path.display()
    )]
    OverRatio {
        /// The file.
        path: PathBuf,
    },
    /// No importer knows the path.
    #[error("{}: not a recording: {what}; `kinescope import --help` lists the supported formats", path.display())]
    Unknown {
        /// The path.
        path: PathBuf,
        /// Description of its actual content.
        what: String,
    },
    /// An archive holds several recordings.
    #[error("{}: the archive holds {} recordings; open one of them: {}", path.display(), members.len(), list_names(members))]
    Several {
        /// The archive.
        path: PathBuf,
        /// Its recordings, as they are opened: `FILE.tar.gz:inner/log.txt`.
        members: Vec<PathBuf>,
    },
    /// The options are those of another format.
    #[error("{}: {message}", path.display())]
    OtherFormat {
        /// The path.
        path: PathBuf,
        /// The format that the options need and the path does not have.
        message: &'static str,
    },
    /// The folder holds job chains that no GPU has run.
    #[error("{}: these are job chains that no GPU has run (import runs them on a simulator)", path.display())]
    NotRun {
        /// The folder.
        path: PathBuf,
    },
    /// The recording's container could not be read or written; the message names the file.
    #[error(transparent)]
    Container(ContainerError),
    /// The container of a recording in an archive could not be read; the message names the member.
    #[error("{0}")]
    Renamed(String),
    /// The work was cancelled.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

impl ImportError {
    pub(crate) fn container(path: &Path, source: ContainerError) -> Self {
        match source {
            ContainerError::Cancelled(c) => Self::Cancelled(c),
            ContainerError::Refused(what) => Self::malformed(path, FilePosition::Whole, what),
            other => Self::Container(other),
        }
    }

    /// Returns the error with other paths: `name` gives that of a path, and `text` changes a message with paths in it.
    pub(crate) fn with_paths(self, name: impl Fn(&Path) -> PathBuf, text: impl Fn(&str) -> String) -> Self {
        match self {
            Self::Io { path, source } => Self::Io {
                path: name(&path),
                source,
            },
            Self::Malformed { path, place, message } => Self::Malformed {
                path: name(&path),
                place,
                message: text(&message),
            },
            Self::OverLimit { path, what, limit } => Self::OverLimit {
                path: name(&path),
                what,
                limit,
            },
            Self::OverRatio { path } => Self::OverRatio { path: name(&path) },
            Self::Unknown { path, what } => Self::Unknown {
                path: name(&path),
                what: text(&what),
            },
            Self::Several { path, members } => Self::Several {
                path: name(&path),
                members,
            },
            Self::OtherFormat { path, message } => Self::OtherFormat {
                path: name(&path),
                message,
            },
            Self::NotRun { path } => Self::NotRun { path: name(&path) },
            Self::Container(error) => Self::Renamed(text(&error.to_string())),
            Self::Renamed(message) => Self::Renamed(text(&message)),
            Self::Cancelled(cancelled) => Self::Cancelled(cancelled),
        }
    }

    /// Returns the error for a file that has no known format.
    pub(crate) fn unknown(path: &Path) -> Self {
        Self::Unknown {
            path: path.to_owned(),
            what: describe_file(path),
        }
    }

    /// Returns the error for a file that could not be read. If a packed file exceeds the limit, the error says so; an
    /// early end of the file gets a message that names the cause.
    pub(crate) fn io(path: &Path, source: std::io::Error) -> Self {
        let source = match source.kind() {
            std::io::ErrorKind::UnexpectedEof => std::io::Error::new(source.kind(), ENDED_EARLY),
            _ => source,
        };
        if is_over_ratio(&source) {
            return Self::OverRatio { path: path.to_owned() };
        }
        match limit_of(&source) {
            Some(limit) => Self::over_limit(path, "the file decompresses to", limit),
            None => Self::Io {
                path: path.to_owned(),
                source,
            },
        }
    }

    pub(crate) fn over_limit(path: &Path, what: &'static str, limit: u64) -> Self {
        Self::OverLimit {
            path: path.to_owned(),
            what,
            limit,
        }
    }

    pub(crate) fn other_format(path: &Path, message: &'static str) -> Self {
        Self::OtherFormat {
            path: path.to_owned(),
            message,
        }
    }

    pub(crate) fn malformed(path: &Path, place: FilePosition, message: impl Into<String>) -> Self {
        Self::Malformed {
            path: path.to_owned(),
            place,
            message: message.into(),
        }
    }
}
