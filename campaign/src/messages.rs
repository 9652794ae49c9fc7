//! Messages between the client of a campaign and workers on other machines. Each is JSON with a size limit.

use crate::run::{LeasedRun, Run, RunId};
use crate::run_result::RunResult;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Maximum size of a message, bytes. The broker's own default is 1 MiB.
pub const MAX_MESSAGE_BYTES: usize = 512 << 10;
/// Maximum length of a target's name, bytes.
const MAX_TARGET: usize = 1024;
/// Maximum number of files of a run.
const MAX_FILES: usize = 4096;
/// Maximum number of kept files of a run: those of its failed seeds, and its outcome.
pub const MAX_KEPT_FILES: usize = 1024;
/// Maximum length of the end of a kept file's name, bytes.
const MAX_SUFFIX: usize = 160;
/// Version of the messages.
const VERSION: u32 = 1;

/// Why a message is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// It is too long.
    #[error("the message has {0} bytes (at most {MAX_MESSAGE_BYTES})")]
    TooLong(usize),
    /// It is no such message.
    #[error("the message is damaged: {0}")]
    Damaged(String),
    /// It has another version.
    #[error("the message has version {0} (this program reads version {VERSION})")]
    Version(u32),
    /// Its parts do not fit each other.
    #[error("the message is not sound: {0}")]
    Unsound(&'static str),
}

/// A run for a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunMessage {
    version: u32,
    /// Id of the campaign, 32 hex digits.
    pub campaign: RunId,
    /// How often the client had given the run to the broker before.
    pub publication: u64,
    /// When the run was queued, milliseconds since 1970.
    pub queued_ms: u64,
    /// The run. Its paths are those of the client, and no worker reads them.
    pub run: Run,
}

/// A file of a run that was kept: its outcome, the outcome of a stage, inputs of a failed seed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptFile {
    /// The end of its name, after the run and the attempt: 1 to 160 letters, digits, `-`, `_` and `.`.
    pub suffix: String,
    /// BLAKE3 digest of the file, 64 hex digits.
    pub digest: String,
    /// Size of the file, bytes.
    pub bytes: u64,
}

/// A message of a worker to the client of a campaign.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, tag = "message", rename_all = "lowercase")]
pub enum WorkerMessage {
    /// A run has a result.
    Result {
        /// Version of the message.
        version: u32,
        /// The result.
        result: Box<RunResult>,
        /// Its files that were kept.
        files: Vec<KeptFile>,
    },
    /// A message in the queue of runs was refused. It names no run.
    Refused {
        /// Version of the message.
        version: u32,
        /// Name of the worker.
        worker: String,
        /// Number of the message in the queue.
        sequence: u64,
        /// Why.
        reason: String,
    },
}

/// Returns whether a text is a BLAKE3 digest: 64 lower-case hex digits.
#[must_use]
pub fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns whether a text can be the end of a kept file's name.
#[must_use]
pub fn is_suffix(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=MAX_SUFFIX).contains(&text.len()) && text.starts_with(['-', '.']) && text.chars().all(is_plain)
}

/// Parses JSON. The limit holds before anything is allocated.
fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, MessageError> {
    if bytes.len() > MAX_MESSAGE_BYTES {
        return Err(MessageError::TooLong(bytes.len()));
    }
    serde_json::from_slice(bytes).map_err(|e| MessageError::Damaged(e.to_string()))
}

/// Encodes a message.
///
/// # Errors
/// If it is too long.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, MessageError> {
    let bytes = serde_json::to_vec(message).map_err(|e| MessageError::Damaged(e.to_string()))?;
    match bytes.len() {
        n if n > MAX_MESSAGE_BYTES => Err(MessageError::TooLong(n)),
        _ => Ok(bytes),
    }
}

impl RunMessage {
    /// Creates the message of a run.
    #[must_use]
    pub fn new(campaign: RunId, publication: u64, queued_ms: u64, run: Run) -> Self {
        Self {
            version: VERSION,
            campaign,
            publication,
            queued_ms,
            run,
        }
    }

    /// Parses the message of a run, and checks that its parts fit each other.
    ///
    /// # Errors
    /// If it is no such message, or its id is not that of its work.
    pub fn parse(bytes: &[u8]) -> Result<Self, MessageError> {
        let message: Self = parse(bytes)?;
        if message.version != VERSION {
            return Err(MessageError::Version(message.version));
        }
        if message.run.target.len() > MAX_TARGET {
            return Err(MessageError::Unsound("the name of the target is too long"));
        }
        if !message.run.has_own_id() {
            return Err(MessageError::Unsound("the id is not that of its work"));
        }
        let files = message.run.work.files();
        if files.len() > MAX_FILES || !files.iter().all(|(_, digest)| is_digest(digest)) {
            return Err(MessageError::Unsound(
                "a digest of a file is wrong, or there are too many",
            ));
        }
        Ok(message)
    }

    /// Returns the run as leased.
    #[must_use]
    pub fn into_leased(self, attempt: u32, earlier_attempts: Vec<String>, token: u64) -> LeasedRun {
        LeasedRun {
            run: self.run,
            queued_ms: self.queued_ms,
            attempt,
            earlier_attempts,
            token,
        }
    }
}

impl WorkerMessage {
    /// Creates the message of a result.
    #[must_use]
    pub fn of_result(result: &RunResult, files: Vec<KeptFile>) -> Self {
        Self::Result {
            version: VERSION,
            result: Box::new(result.clone()),
            files,
        }
    }

    /// Creates the message of a refused message.
    #[must_use]
    pub fn of_refused(worker: &str, sequence: u64, reason: &MessageError) -> Self {
        Self::Refused {
            version: VERSION,
            worker: worker.to_owned(),
            sequence,
            reason: reason.to_string().chars().take(1024).collect(),
        }
    }

    /// Parses a message of a worker.
    ///
    /// # Errors
    /// If it is no such message.
    pub fn parse(bytes: &[u8]) -> Result<Self, MessageError> {
        let message: Self = parse(bytes)?;
        let (Self::Result { version, .. } | Self::Refused { version, .. }) = &message;
        if *version != VERSION {
            return Err(MessageError::Version(*version));
        }
        if let Self::Result { files, .. } = &message {
            if files.len() > MAX_KEPT_FILES {
                return Err(MessageError::Unsound("too many files were kept"));
            }
            if !files.iter().all(|f| is_digest(&f.digest) && is_suffix(&f.suffix)) {
                return Err(MessageError::Unsound("a kept file has a wrong digest or name"));
            }
        }
        Ok(message)
    }
}

/// Parses a message of either kind. Returns whether it is one. For fuzzing.
#[must_use]
pub fn parse_message(bytes: &[u8]) -> bool {
    let run = RunMessage::parse(bytes);
    if let Ok(message) = &run {
        assert!(message.run.has_own_id() && message.run.work.files().iter().all(|(_, d)| is_digest(d)));
    }
    run.is_ok() || WorkerMessage::parse(bytes).is_ok()
}

/// Returns the name of a file that a path ends with, made safe for a folder of this machine: its ending selects readers.
#[must_use]
pub fn safe_file_name(path: &Path) -> String {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned());
    let is_plain = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    let name: String = name
        .unwrap_or_default()
        .chars()
        .map(|c| if is_plain(c) { c } else { '_' })
        .collect();
    // The end of a long name is kept, because of its ending.
    let skipped = name.chars().count().saturating_sub(64);
    let name: String = name.chars().skip(skipped).collect();
    match name.trim_start_matches('.') {
        "" => "file".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::{RecordingFile, ReplayWork, WorkItem};

    fn run(digest: &str) -> Run {
        let work = WorkItem::Replay(ReplayWork {
            recording: RecordingFile {
                path: "/secret/../a.kine".into(),
                name: "a.kine".into(),
                digest: digest.into(),
            },
            inputs: Default::default(),
            tolerance: Vec::new(),
            time_limit_s: None,
            without_containment: false,
            keep_outcomes: Default::default(),
        });
        Run::new(work, "software:mali-g71", 0)
    }

    fn message(run: Run) -> Vec<u8> {
        encode(&RunMessage::new(RunId::from_bytes([7; 16]), 0, 1, run)).unwrap()
    }

    #[test]
    fn messages_of_runs_are_checked() {
        let sound = message(run(&"ab".repeat(32)));
        assert_eq!(RunMessage::parse(&sound).unwrap().queued_ms, 1);
        let changed = String::from_utf8(sound.clone())
            .unwrap()
            .replace("mali-g71", "mali-g52");
        assert!(matches!(
            RunMessage::parse(changed.as_bytes()),
            Err(MessageError::Unsound(_))
        ));
        let version = String::from_utf8(sound)
            .unwrap()
            .replace("\"version\":1", "\"version\":9");
        assert_eq!(RunMessage::parse(version.as_bytes()), Err(MessageError::Version(9)));
        assert!(matches!(
            RunMessage::parse(&message(run("../../etc/passwd"))),
            Err(MessageError::Unsound(_))
        ));
        assert!(matches!(RunMessage::parse(b"{}"), Err(MessageError::Damaged(_))));
        let long = vec![b' '; MAX_MESSAGE_BYTES + 1];
        assert_eq!(
            RunMessage::parse(&long),
            Err(MessageError::TooLong(MAX_MESSAGE_BYTES + 1))
        );
    }

    #[test]
    fn names_of_files_stay_in_their_folder() {
        let name = |path: &str| safe_file_name(Path::new(path));
        assert_eq!(name("/a/b.kine"), "b.kine");
        assert_eq!(name("/a/.."), "file");
        assert_eq!(name("/a/.hidden x.npy"), "hidden_x.npy");
        assert!(name(&format!("/{}.npy", "x".repeat(300))).ends_with("x.npy"));
    }
}
