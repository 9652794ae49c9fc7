//! A recording cut down to some of its jobs with what they need, which the software GPU finds out.

use device_mali::debug::{Closure, DependencyPolicy, Producers};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use trace_core::Recording;
use trace_core::progress::{Cancelled, Progress};
use trace_core::registers::RegisterMap;
use trace_core::trim::{JobParts, Part, TrimError, TrimRequest, TrimResult, trim};

/// How a part is made.
#[derive(Clone, Debug, Default)]
pub struct TrimOptions {
    /// What stands in for the output of other jobs that the kept ones read.
    pub needs: DependencyPolicy,
    /// Only memory that the kept jobs read or write keeps its contents.
    pub touched: bool,
    /// Events that are left out besides.
    pub without: BTreeSet<u64>,
}

/// A recording that parts are cut from; what its jobs hand to each other is found out once.
pub struct TrimSource<'a> {
    recording: &'a Recording,
    /// Name of its file.
    source: String,
    producers: Producers,
}

/// A part, and which jobs it has.
pub struct TrimmedPart {
    /// The part.
    pub trimmed: TrimResult,
    /// The jobs of the whole that it has.
    pub closure: Closure,
}

impl<'a> TrimSource<'a> {
    /// Finds jobs, and what they hand to each other.
    ///
    /// # Errors
    /// When nobody wants it any more.
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

    /// What jobs hand to each other.
    #[must_use]
    pub fn producers(&self) -> &Producers {
        &self.producers
    }

    /// The recording.
    #[must_use]
    pub fn recording(&self) -> &'a Recording {
        self.recording
    }

    /// Cuts it to jobs.
    ///
    /// # Errors
    /// As [`trim`].
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
        let mut wanted = TrimRequest::new(Part::Jobs(closure.jobs.clone()), self.source.clone());
        wanted.without.clone_from(&how.without);
        if how.needs == DependencyPolicy::Bytes {
            wanted.supplied = self.producers.compute_supplied(&closure.jobs, progress)?;
        }
        if how.touched {
            wanted.frames = self.producers.used_frames(&closure.jobs);
        }
        let trimmed = trim(self.recording, &wanted, progress)?;
        Ok(TrimmedPart { trimmed, closure })
    }
}

/// Cuts a recording to a range of its events.
///
/// # Errors
/// As [`trim`].
pub fn trim_to_events(
    recording: &Recording,
    source: String,
    range: RangeInclusive<u64>,
    progress: &Progress,
) -> Result<TrimResult, TrimError> {
    trim(recording, &TrimRequest::new(Part::Events(range), source), progress)
}
