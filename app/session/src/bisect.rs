//! Bisection: the shortest part of a recording that still shows a failure. It applies delta debugging first to jobs,
//! then to the remaining events.

pub mod replay_judge;

use crate::trim_recording::{TrimOptions, TrimSource, TrimmedPart};
use device_mali::debug::DependencyPolicy;
use std::collections::{BTreeMap, BTreeSet};
use trace_core::progress::Progress;
use trace_core::recording::EventKind;
use trace_core::trim::TrimError;

/// The result of a test of a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CandidateResult {
    /// The candidate shows the failure.
    Failure,
    /// The candidate does not show the failure.
    NoFailure,
    /// The result is unknown, with the reason.
    Unknown(String),
}

/// A candidate: the jobs to keep and the other events to leave out.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    /// All jobs to keep.
    pub jobs: BTreeSet<u32>,
    /// Events of the full recording to leave out that belong to no job.
    pub without: BTreeSet<u64>,
}

/// Why a search ended.
#[derive(Debug)]
pub enum Stop {
    /// The user stopped the search, or it was cancelled.
    Cancelled,
    /// The maximum number of candidates was tested.
    Limit,
    /// The search cannot continue.
    Failed(String),
}

/// A test that decides whether a candidate shows the failure.
pub trait Judge {
    /// Tests a candidate.
    ///
    /// # Errors
    /// Returns an error if the search cannot continue.
    fn judge(&mut self, made: &TrimmedPart, progress: &Progress) -> Result<CandidateResult, Stop>;
    /// Reports a tested candidate to the user.
    ///
    /// # Errors
    /// Returns an error if the report fails.
    fn report(&mut self, candidate: &Candidate, made: &TrimmedPart, shows: &CandidateResult) -> Result<(), Stop>;
}

/// A search and the smallest candidate so far that shows the failure.
pub struct Search<'a, J> {
    whole: &'a TrimSource<'a>,
    how: TrimOptions,
    judge: J,
    known: BTreeMap<Candidate, bool>,
    /// Best candidate so far; `None` until the full recording was tested.
    pub best: Option<(Candidate, TrimmedPart)>,
    /// Number of tested candidates.
    pub tried: u64,
    max: u64,
}

/// What a search may remove, and when it ends.
#[derive(Clone, Copy, Debug)]
pub struct SearchOptions {
    /// Replacement for the output of removed jobs that the kept ones read.
    pub needs: DependencyPolicy,
    /// Whether the events around the jobs stay.
    pub jobs_only: bool,
    /// Maximum number of candidates to test.
    pub max_candidates: u64,
}

/// The end of a search.
pub struct SearchEnd<J> {
    /// Why the part may not be the shortest; `None` if the search is complete.
    pub stopped: Option<Stop>,
    /// Result of the whole recording; `None` if it was not tested.
    pub whole: Option<CandidateResult>,
    /// The shortest part so far that shows the failure.
    pub best: Option<TrimmedPart>,
    /// Number of tested candidates.
    pub tried: u64,
    /// The judge.
    pub judge: J,
}

/// Searches the shortest part of a recording that still shows a failure: first for fewer jobs, then for fewer events.
pub fn run_search<J: Judge>(
    whole: &TrimSource<'_>,
    options: SearchOptions,
    judge: J,
    progress: &Progress,
) -> SearchEnd<J> {
    let how = TrimOptions {
        needs: options.needs,
        ..TrimOptions::default()
    };
    let mut search = Search::new(whole, how, judge, options.max_candidates);
    let mut first = None;
    let result = search.test_whole(progress).and_then(|shows| {
        first = Some(shows.clone());
        if shows != CandidateResult::Failure {
            return Ok(());
        }
        search.reduce_jobs(progress)?;
        if options.jobs_only {
            Ok(())
        } else {
            search.reduce_setup(progress)
        }
    });
    SearchEnd {
        stopped: result.err(),
        whole: first,
        best: search.best.map(|(_, part)| part),
        tried: search.tried,
        judge: search.judge,
    }
}

impl<'a, J: Judge> Search<'a, J> {
    /// Creates a search that tests at most `max` candidates.
    pub fn new(whole: &'a TrimSource<'a>, how: TrimOptions, judge: J, max: u64) -> Self {
        Self {
            whole,
            how,
            judge,
            known: BTreeMap::new(),
            best: None,
            tried: 0,
            max,
        }
    }

    /// Returns the judge of the search.
    pub fn judge(&self) -> &J {
        &self.judge
    }

    /// Tests whether the full recording shows the failure.
    ///
    /// # Errors
    /// Returns an error if the search cannot continue.
    pub fn test_whole(&mut self, progress: &Progress) -> Result<CandidateResult, Stop> {
        let jobs = (0..u32::try_from(self.whole.producers().parts().len()).unwrap_or(u32::MAX)).collect();
        let all = Candidate {
            jobs,
            without: BTreeSet::new(),
        };
        self.look(&all, progress)
    }

    /// Builds a candidate and tests it.
    fn look(&mut self, candidate: &Candidate, progress: &Progress) -> Result<CandidateResult, Stop> {
        progress.check().map_err(|_| Stop::Cancelled)?;
        if self.tried >= self.max {
            return Err(Stop::Limit);
        }
        self.tried += 1;
        let how = TrimOptions {
            without: candidate.without.clone(),
            ..self.how.clone()
        };
        let made = match self.whole.trim_to_jobs(&candidate.jobs, &how, progress) {
            Ok(made) => made,
            Err(TrimError::Cancelled(_)) => return Err(Stop::Cancelled),
            Err(e) => return Err(Stop::Failed(e.to_string())),
        };
        let shows = self.judge.judge(&made, progress);
        progress.check().map_err(|_| Stop::Cancelled)?;
        let shows = shows?;
        self.judge.report(candidate, &made, &shows)?;
        self.known.insert(candidate.clone(), shows == CandidateResult::Failure);
        if shows == CandidateResult::Failure {
            self.best = Some((candidate.clone(), made));
        }
        Ok(shows)
    }

    /// Returns whether a candidate shows the failure. Each candidate is tested once.
    fn shows(&mut self, candidate: &Candidate, progress: &Progress) -> Result<bool, Stop> {
        if let Some(known) = self.known.get(candidate) {
            return Ok(*known);
        }
        Ok(self.look(candidate, progress)? == CandidateResult::Failure)
    }

    /// Removes jobs while the failure still shows.
    ///
    /// # Errors
    /// Returns an error if the search cannot continue; the best candidate so far stays.
    pub fn reduce_jobs(&mut self, progress: &Progress) -> Result<(), Stop> {
        let needs = self.how.needs;
        let mut now: Vec<Vec<u32>> = self.whole.producers().parts().groups();
        let mut pieces = 2;
        while now.len() > 1 {
            let found = self.smaller(&now, pieces, progress, |search, units| {
                let chosen: BTreeSet<u32> = units.iter().flatten().copied().collect();
                let jobs = search.whole.producers().closure(&chosen, needs).jobs;
                let candidate = Candidate {
                    jobs,
                    without: BTreeSet::new(),
                };
                let smaller = search
                    .best
                    .as_ref()
                    .is_some_and(|(b, _)| candidate.jobs.len() < b.jobs.len());
                Ok((smaller && search.shows(&candidate, progress)?).then_some(candidate))
            })?;
            match found {
                Some((candidate, fewer)) => {
                    now.retain(|g| g.iter().any(|j| candidate.jobs.contains(j)));
                    pieces = fewer.min(now.len().max(2));
                }
                None if pieces >= now.len() => break,
                None => pieces = (pieces * 2).min(now.len()),
            }
        }
        Ok(())
    }

    /// Removes events that belong to no job: accesses and notes. Host writes stay.
    ///
    /// # Errors
    /// Returns an error if the search cannot continue; the best candidate so far stays.
    pub fn reduce_setup(&mut self, progress: &Progress) -> Result<(), Stop> {
        let Some((best, made)) = &self.best else { return Ok(()) };
        let base = best.clone();
        let events = &self.whole.recording().events;
        let own: BTreeSet<u64> = self.whole.producers().parts().list_own_events(&base.jobs);
        let plain = |e: &u64| {
            let kind = usize::try_from(*e).ok().and_then(|e| events.kind(e));
            matches!(kind, Some(EventKind::Read | EventKind::Write | EventKind::Mark)) && !own.contains(e)
        };
        let mut now: Vec<u64> = made.trimmed.events.iter().copied().filter(plain).collect();
        let all: BTreeSet<u64> = now.iter().copied().collect();
        let mut pieces = 2;
        while !now.is_empty() {
            let found = self.smaller(&now, pieces.min(now.len()), progress, |search, units| {
                let kept: BTreeSet<u64> = units.iter().copied().collect();
                let candidate = Candidate {
                    jobs: base.jobs.clone(),
                    without: all.difference(&kept).copied().collect(),
                };
                Ok(search.shows(&candidate, progress)?.then_some(candidate))
            })?;
            match found {
                Some((candidate, fewer)) => {
                    now.retain(|e| !candidate.without.contains(e));
                    pieces = fewer.min(now.len().max(2));
                }
                None if pieces >= now.len() => break,
                None => pieces = (pieces * 2).min(now.len()),
            }
        }
        Ok(())
    }

    /// Tests each of `pieces` pieces alone, then everything except each piece. Returns the first part that shows the
    /// failure, with the number of pieces to continue with.
    fn smaller<T: Clone>(
        &mut self,
        now: &[T],
        pieces: usize,
        progress: &Progress,
        mut shows: impl FnMut(&mut Self, &[T]) -> Result<Option<Candidate>, Stop>,
    ) -> Result<Option<(Candidate, usize)>, Stop> {
        let size = now.len().div_ceil(pieces.max(1)).max(1);
        let count = now.len().div_ceil(size);
        for piece in now.chunks(size).rev() {
            progress.check().map_err(|_| Stop::Cancelled)?;
            if piece.len() < now.len()
                && let Some(found) = shows(self, piece)?
            {
                return Ok(Some((found, 2)));
            }
        }
        // With two pieces, the complement of one is the other.
        for n in (0..count).filter(|_| count > 2 || now.len() == 1) {
            progress.check().map_err(|_| Stop::Cancelled)?;
            let rest: Vec<T> = now
                .chunks(size)
                .enumerate()
                .filter(|(i, _)| *i != n)
                .flat_map(|(_, c)| c.iter().cloned())
                .collect();
            if let Some(found) = shows(self, &rest)? {
                return Ok(Some((found, count.saturating_sub(1).max(2))));
            }
        }
        Ok(None)
    }
}
