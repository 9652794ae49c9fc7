//! The parts of a run with checkpoints: ranges of jobs that end where no job is running.

use std::num::NonZeroU32;
use std::ops::Range;
use trace_core::Recording;
use trace_core::progress::{Cancelled, Progress};
use trace_core::registers::RegisterMap;
use trace_core::trim::JobParts;

/// Why a run cannot have checkpoints.
#[derive(Debug, thiserror::Error)]
pub enum NoPartsError {
    /// The recording has no jobs in register accesses.
    #[error(
        "checkpoints are for recordings of register accesses with jobs, and this one has none: `kinescope jobs` lists them"
    )]
    NoJobs,
    /// The work was cancelled.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// The jobs of a recording, and where a run of them can be interrupted.
#[derive(Clone, Debug)]
pub struct RunParts {
    jobs: u32,
    /// Numbers of jobs before which no earlier job is running, ascending; the last is the number of jobs.
    boundaries: Vec<u32>,
    /// For each boundary, the event after the last one of the jobs before it.
    ends: Vec<u64>,
}

impl RunParts {
    /// Finds the jobs of a recording. Jobs that run together are in one part.
    ///
    /// # Errors
    /// If the recording has no jobs, or the work was cancelled.
    pub fn new(recording: &Recording, progress: &Progress) -> Result<Self, NoPartsError> {
        let map = RegisterMap::for_jobs_of(recording).ok_or(NoPartsError::NoJobs)?;
        if recording.api().is_some() {
            return Err(NoPartsError::NoJobs);
        }
        let parts = JobParts::new(recording, map, progress)?;
        if parts.is_empty() {
            return Err(NoPartsError::NoJobs);
        }
        Ok(Self::from_groups(&parts.groups(), |job| parts.end_event(job)))
    }

    /// Finds the boundaries between groups of jobs that run together.
    fn from_groups(groups: &[Vec<u32>], end_event: impl Fn(u32) -> u64) -> Self {
        let mut spans: Vec<(u32, u32)> = groups
            .iter()
            .filter_map(|g| Some((*g.iter().min()?, g.iter().max()?.saturating_add(1))))
            .collect();
        spans.sort_unstable();
        let mut boundaries: Vec<u32> = Vec::with_capacity(spans.len());
        let mut end = 0;
        for (first, behind) in spans {
            if first >= end && end > 0 {
                boundaries.push(end);
            }
            end = end.max(behind);
        }
        boundaries.push(end);
        let mut last = 0;
        let mut job = 0;
        let ends = boundaries.iter().map(|boundary| {
            last = (job..*boundary).map(&end_event).fold(last, u64::max);
            job = *boundary;
            last
        });
        Self {
            jobs: end,
            ends: ends.collect(),
            boundaries,
        }
    }

    /// Returns where a run of these jobs can stop before its end, ascending: the number of the next job, and the event
    /// after those of the jobs before it.
    pub fn stops(&self, jobs: &Range<u32>) -> impl Iterator<Item = (u32, u64)> {
        let all = self.boundaries.iter().copied().zip(self.ends.iter().copied());
        all.filter(move |(job, _)| *job > jobs.start && *job < jobs.end)
    }

    /// Returns the number of jobs.
    #[must_use]
    pub fn jobs(&self) -> u32 {
        self.jobs
    }

    /// Whether a run can be interrupted before a job.
    #[must_use]
    pub fn is_boundary(&self, job: u32) -> bool {
        job == 0 || self.boundaries.binary_search(&job).is_ok()
    }

    /// Returns the part that starts with a job and has at least `every` jobs, if there are as many.
    #[must_use]
    pub fn next_part(&self, first: u32, every: NonZeroU32) -> Range<u32> {
        let wanted = first.saturating_add(every.get());
        let at = self.boundaries.partition_point(|b| *b < wanted);
        first..self.boundaries.get(at).copied().unwrap_or(self.jobs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_end_where_no_job_is_running() {
        let parts = RunParts::from_groups(&[vec![0], vec![1, 3], vec![2], vec![4], vec![5]], |job| {
            u64::from(job) * 10 + 5
        });
        assert_eq!(parts.jobs(), 6);
        let ends: Vec<u32> = (0..=6).filter(|job| parts.is_boundary(*job)).collect();
        assert_eq!(ends, [0, 1, 4, 5, 6]);
        let every = |n| NonZeroU32::new(n).unwrap();
        assert_eq!(parts.next_part(0, every(1)), 0..1);
        assert_eq!(parts.next_part(1, every(1)), 1..4);
        assert_eq!(parts.next_part(0, every(5)), 0..5);
        assert_eq!(parts.next_part(4, every(100)), 4..6);
        assert_eq!(parts.stops(&(0..6)).collect::<Vec<_>>(), [(1, 5), (4, 35), (5, 45)]);
        assert_eq!(parts.stops(&(1..5)).collect::<Vec<_>>(), [(4, 35)]);
    }
}
