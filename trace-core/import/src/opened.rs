//! What a path holds: a recording with its derived data, or job chains that no GPU has executed.

use super::chains::Chains;
use super::error::ImportError;
use trace_core::Recording;
use trace_core::timeline::{Pyramid, StoredTimeline};

/// What a path holds.
pub enum Opened {
    /// A recording.
    Recording(Box<OpenedRecording>),
    /// Job chains that no GPU has executed: a GPU must run them to make a recording.
    Submission(Chains),
}

/// A recording, and the derived data stored in its file.
pub struct OpenedRecording {
    /// The recording.
    pub recording: Recording,
    /// Its timeline, if the file holds a valid one.
    pub timeline: Option<StoredTimeline>,
    /// Its event counts, if the file holds valid ones.
    pub pyramid: Option<Pyramid>,
}

impl From<Recording> for OpenedRecording {
    fn from(recording: Recording) -> Self {
        Self {
            recording,
            timeline: None,
            pyramid: None,
        }
    }
}

impl From<Recording> for Opened {
    fn from(recording: Recording) -> Self {
        Self::Recording(Box::new(recording.into()))
    }
}

impl Opened {
    /// Returns the recording, for a caller that executes no job chains.
    ///
    /// # Errors
    ///
    /// [`ImportError::NotRun`] for job chains that no GPU has executed.
    pub fn into_recording(self) -> Result<Recording, ImportError> {
        match self {
            Self::Recording(opened) => Ok(opened.recording),
            Self::Submission(chains) => Err(ImportError::NotRun { path: chains.path }),
        }
    }
}
