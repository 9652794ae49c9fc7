//! The reader of a growing file: what its last commit holds, and the complete reading with derived data.

use super::counts::{EventCounts, WaitCounter};
use super::growing_file::{FileStat, GrowingFile};
use crate::derived_data::{DerivedData, Stage};
use crate::source::SourceError;
use crate::{derive, register_map_files, source, transfers};
use kinescope_files::buffer_index::BufferIndex;
use register_maps::UserMaps;
use std::path::Path;
use trace_core::container::{ContainerError, KineFile};
use trace_core::finding::FindingKind;
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::Recording;

/// Size of the header of a container: a shorter file can become one.
const HEADER_BYTES: u64 = 64;

/// Why a growing file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The container cannot be read.
    #[error(transparent)]
    Container(#[from] ContainerError),
    /// The file cannot be opened or imported.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The work was cancelled.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

impl FollowError {
    /// Returns whether more bytes cannot make the file readable.
    pub(super) fn is_final(&self) -> bool {
        matches!(
            self,
            Self::Container(ContainerError::TooNew { .. } | ContainerError::UnknownCodec { .. })
        )
    }

    /// Returns whether the work was cancelled.
    pub(super) fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled(_) | Self::Container(ContainerError::Cancelled(_)))
    }
}

/// What the last commit says about the end of the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum RecordedEnd {
    /// Nothing: the recorder writes more, or was killed.
    #[default]
    Open,
    /// The program ended normally, and the recording is complete.
    Complete,
    /// The recorder stopped for this reason.
    Early(String),
}

/// A complete reading of a growing or finished file.
#[derive(Debug)]
pub struct FollowedRecording {
    /// The recording.
    pub recording: Recording,
    /// Its derived data. Only the check of a finished file is pending.
    pub derived: DerivedData,
    /// Its buffers.
    pub buffers: BufferIndex,
    /// The user's register maps.
    pub maps: UserMaps,
    /// Whether the recorder has finished the file.
    pub is_final: bool,
}

/// The reader of the file that grows. Only the commits that a look has not seen are read.
#[derive(Debug, Default)]
pub(super) struct GrowthReader {
    stat: Option<FileStat>,
    /// Whether the file is a container, once that is known.
    container: Option<bool>,
    /// Number of the last commit that was seen.
    commit: u64,
    waits: WaitCounter,
    pub counts: EventCounts,
    pub end: RecordedEnd,
    /// The recording at the last commit, until it is derived.
    opened: Option<Recording>,
    /// A log may have more than the last reading.
    has_log_news: bool,
    /// The last look failed.
    is_stale: bool,
}

impl GrowthReader {
    /// Returns whether the file is a container, as far as known.
    pub fn is_container(&self) -> bool {
        self.container == Some(true)
    }

    /// Returns whether a commit was seen, or a log was read.
    pub fn has_content(&self) -> bool {
        self.commit > 0 || self.counts.events > 0
    }

    /// Returns whether there is something that no reading holds yet.
    pub fn has_news(&self) -> bool {
        self.opened.is_some() || self.has_log_news
    }

    /// Looks at the file once: its size, and of a container what its new commit holds. Returns whether it has changed.
    ///
    /// # Errors
    /// If the file cannot be read. It may become readable while it grows ([`FollowError::is_final`]).
    pub fn look(&mut self, file: &GrowingFile, progress: &Progress) -> Result<bool, FollowError> {
        // After an error, the next look reads again.
        self.look_once(file, progress).inspect_err(|_| self.is_stale = true)
    }

    fn look_once(&mut self, file: &GrowingFile, progress: &Progress) -> Result<bool, FollowError> {
        let Some(stat) = FileStat::read(&file.path) else {
            return Ok(false);
        };
        if self.stat.is_some_and(|s| s.id != stat.id) {
            *self = Self::default();
        }
        let is_same = self.stat == Some(stat) && !std::mem::take(&mut self.is_stale);
        if is_same && file.shows_growth() {
            return Ok(false);
        }
        self.stat = Some(stat);
        if self.container == Some(false) {
            self.has_log_news = true;
            return Ok(!is_same);
        }
        match KineFile::open_with(&file.path, progress) {
            Ok(kine) => {
                self.container = Some(true);
                if kine.commit() > self.commit {
                    self.take_commit(&kine)?;
                }
                Ok(true)
            }
            Err(ContainerError::NotKine { .. }) => {
                if stat.bytes >= HEADER_BYTES {
                    self.container = Some(false);
                    self.has_log_news = true;
                }
                Ok(!is_same)
            }
            Err(ContainerError::NoCommit { .. }) => {
                self.container = (stat.bytes >= HEADER_BYTES).then_some(true);
                Ok(!is_same)
            }
            Err(e) => Err(e.into()),
        }
    }

    fn take_commit(&mut self, kine: &KineFile) -> Result<(), FollowError> {
        let recording = kine.recording()?;
        self.counts = EventCounts::from_recording(&recording, &mut self.waits);
        let lost = recording.metadata.lost.last().map(|l| l.reason.clone());
        self.end = match (recording.api().is_some_and(|api| api.process.ended), lost) {
            (true, _) => RecordedEnd::Complete,
            (false, Some(reason)) => RecordedEnd::Early(reason),
            (false, None) => RecordedEnd::Open,
        };
        self.commit = kine.commit();
        self.opened = Some(recording);
        Ok(())
    }

    /// Reads what the last look found, with all derived data. Returns `None` if it has no event, or, for a log, no more
    /// events than the last reading.
    ///
    /// # Errors
    /// If the file cannot be imported, or the work was cancelled.
    pub fn read(
        &mut self,
        file: &GrowingFile,
        requested: &Path,
        progress: &Progress,
    ) -> Result<Option<FollowedRecording>, FollowError> {
        let (mut recording, is_log) = match self.opened.take() {
            Some(recording) => (recording, false),
            None => {
                self.has_log_news = false;
                (source::open(&file.path, progress, || {})?.opened.recording, true)
            }
        };
        if is_log {
            let counts = EventCounts::from_recording(&recording, &mut self.waits);
            let is_known = counts.events <= self.counts.events && self.counts.events > 0;
            self.counts = counts;
            if is_known {
                return Ok(None);
            }
        }
        if recording.events.is_empty() {
            return Ok(None);
        }
        // The last record of a growing file may be incomplete.
        recording
            .metadata
            .findings
            .retain(|f| f.kind != FindingKind::TruncatedSection);
        let maps = register_map_files::load_maps(requested, &mut recording);
        derive_all(recording, maps, false, progress).map(Some)
    }
}

/// Reads a file that its recorder has finished.
///
/// # Errors
/// If the file cannot be opened, or the work was cancelled.
pub(super) fn read_finished(path: &Path, progress: &Progress) -> Result<FollowedRecording, FollowError> {
    let read = source::open(path, progress, || {})?;
    derive_all(read.opened.recording, read.maps, true, progress)
}

fn derive_all(
    recording: Recording,
    maps: UserMaps,
    is_final: bool,
    progress: &Progress,
) -> Result<FollowedRecording, FollowError> {
    let mut derived = derive::derive(&recording, progress)?;
    if is_final {
        derived.pending = vec![Stage::File];
    }
    Ok(FollowedRecording {
        buffers: transfers::index_buffers(&recording, progress)?,
        recording,
        derived,
        maps,
        is_final,
    })
}
