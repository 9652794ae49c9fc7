//! Trimming a recording to some of its jobs and their dependencies, which the GPU simulator finds.

use device_mali::debug::{Closure, DependencyPolicy, Producers};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use trace_core::Recording;
use trace_core::progress::{Cancelled, Progress};
use trace_core::registers::RegisterMap;
use trace_core::trim::{JobParts, Part, TrimError, TrimRequest, TrimResult, trim};

/// The options of a trim.
#[derive(Clone, Debug, Default)]
pub struct TrimOptions {
    /// Replacement for the output of removed jobs that the kept ones read.
    pub needs: DependencyPolicy,
    /// Whether only memory that the kept jobs read or write keeps its contents.
    pub touched: bool,
    /// Additional events to leave out.
    pub without: BTreeSet<u64>,
}

/// A recording to trim. The data flow between its jobs is computed once.
pub struct TrimSource<'a> {
    recording: &'a Recording,
    /// Name of the file.
    source: String,
    producers: Producers,
}

/// A trimmed recording and its jobs.
pub struct TrimmedPart {
    /// The trimmed recording.
    pub trimmed: TrimResult,
    /// The jobs of the full recording that it contains.
    pub closure: Closure,
}

impl<'a> TrimSource<'a> {
    /// Finds the jobs and the data flow between them.
    ///
    /// # Errors
    /// Returns an error if the operation was cancelled.
    pub fn new(recording: &'a Recording, source: String, progress: &Progress) -> Result<Self, Cancelled> {
        let parts = match RegisterMap::for_jobs_of(recording) {
            Some(map) => JobParts::new(recording, map, progress)?,
            None => JobParts::default(),
        };
        Ok(Self {
            producers: Producers::from_recording(recording, parts, progress)?,
            recording,
            source,
        })
    }

    /// Returns the data flow between the jobs.
    #[must_use]
    pub fn producers(&self) -> &Producers {
        &self.producers
    }

    /// Returns the recording.
    #[must_use]
    pub fn recording(&self) -> &'a Recording {
        self.recording
    }

    /// Trims the recording to jobs.
    ///
    /// # Errors
    /// The same as [`trim`].
    pub fn trim_to_jobs(
        &self,
        chosen: &BTreeSet<u32>,
        how: &TrimOptions,
        progress: &Progress,
    ) -> Result<TrimmedPart, TrimError> {
        let jobs = self.producers.parts().len();
        if let Some(job) = chosen.iter().find(|j| **j as usize >= jobs).filter(|_| jobs > 0) {
            return Err(TrimError::NoSuchJob {
                job: *job,
                jobs: jobs as u64,
            });
        }
        let closure = self.producers.closure(chosen, how.needs);
        let mut request = TrimRequest::new(Part::Jobs(closure.jobs.clone()), self.source.clone());
        request.without.clone_from(&how.without);
        if how.needs == DependencyPolicy::Bytes {
            request.supplied = self.producers.compute_supplied(&closure.jobs, progress)?;
        }
        if how.touched {
            request.frames = self.producers.used_frames(&closure.jobs);
        }
        let trimmed = trim(self.recording, &request, progress)?;
        Ok(TrimmedPart { trimmed, closure })
    }
}

/// Trims a recording to a range of its events.
///
/// # Errors
/// The same as [`trim`].
pub fn trim_to_events(
    recording: &Recording,
    source: String,
    range: RangeInclusive<u64>,
    progress: &Progress,
) -> Result<TrimResult, TrimError> {
    trim(recording, &TrimRequest::new(Part::Events(range), source), progress)
}
