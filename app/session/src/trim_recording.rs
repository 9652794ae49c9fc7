//! Trimming a recording to some of its jobs and their dependencies, which the GPU simulator finds.

use device_mali::debug::{Closure, DependencyPolicy, KeepReason, Producers};
use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::path::Path;
use trace_core::progress::{Cancelled, Progress};
use trace_core::registers::RegisterMap;
use trace_core::trim::{JobParts, Part, TrimError, TrimRequest, TrimResult, check_kind, trim};
use trace_core::{Recording, ranges};

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

/// Why a recording cannot be trimmed to ranges of jobs.
#[derive(Debug, thiserror::Error)]
pub enum TrimRangeError {
    /// A job of a range does not exist.
    #[error(
        "job {job} does not exist (the recording has {jobs} job{}, counted from 0)",
        if *jobs == 1 { "" } else { "s" }
    )]
    NoSuchJob {
        /// The largest chosen number.
        job: u64,
        /// Number of existing jobs.
        jobs: u64,
    },
    /// The recording cannot be trimmed.
    #[error(transparent)]
    Trim(#[from] TrimError),
}

/// Trims a recording, whose name comes with it, to ranges of its jobs. Calls `on_found` when it is known what the jobs
/// need. Returns the part, and why it is unknown what jobs read of each other, if it is.
///
/// # Errors
/// If a job does not exist, the operation was cancelled, or as [`trim`].
pub fn trim_to_job_ranges(
    (recording, source): (&Recording, String),
    ranges: &[RangeInclusive<u64>],
    how: &TrimOptions,
    progress: &Progress,
    on_found: impl FnOnce(),
) -> Result<(TrimmedPart, Option<String>), TrimRangeError> {
    check_kind(recording)?;
    let whole = TrimSource::new(recording, source, progress).map_err(TrimError::from)?;
    let jobs = whole.producers().parts().len() as u64;
    if jobs == 0 {
        let events = recording.events.len() as u64;
        return Err(TrimError::NoJobs { events }.into());
    }
    let last = ranges.iter().map(|r| *r.end()).max().unwrap_or(0);
    if last >= jobs {
        return Err(TrimRangeError::NoSuchJob { job: last, jobs });
    }
    let chosen: BTreeSet<u32> = ranges.iter().cloned().flatten().map(|j| j as u32).collect();
    on_found();
    let blind = whole.producers().unknown_reason().map(str::to_owned);
    Ok((whole.trim_to_jobs(&chosen, how, progress)?, blind))
}

/// A range of job or event numbers with at least one element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberRange {
    /// The first and the last number.
    pub all: RangeInclusive<u64>,
    /// The typed text, if it excludes its end.
    pub leaves_out: Option<String>,
}

/// Parses `4..=9`, `4..9`, which excludes 9, or one number.
///
/// # Errors
/// A message if the text is no range, ends before it begins, or is empty.
pub fn parse_range(text: &str) -> Result<NumberRange, String> {
    let bad = || format!("'{text}' is not a range (expected {}, or one number)", ranges::FORM);
    let number = |t: &str| t.parse::<u64>().map_err(|_| bad());
    let Some(typed) = ranges::split(text) else {
        let one = number(text)?;
        return Ok(NumberRange {
            all: one..=one,
            leaves_out: None,
        });
    };
    if typed.first.is_empty() || typed.end.is_empty() {
        return Err(bad());
    }
    let parsed = ranges::parse(text, number)?;
    let (first, end) = (parsed.numbers.start, parsed.numbers.end);
    match end.checked_sub(1).filter(|last| *last >= first) {
        Some(last) => Ok(NumberRange {
            all: first..=last,
            leaves_out: parsed.leaves_end_out.then(|| text.to_owned()),
        }),
        None => Err(format!(
            "'{text}' is empty: it excludes {end} ({first}..={end} includes it)"
        )),
    }
}

/// Describes why jobs are kept that were not selected: each reason with its jobs. `is_blind`: whether it is unknown what
/// jobs read of each other.
#[must_use]
pub fn describe_added(closure: &Closure, is_blind: bool) -> Vec<(String, Vec<u32>)> {
    let mut reasons: Vec<(String, Vec<u32>)> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for (job, why) in &closure.added {
        let why = match why {
            KeepReason::Reads { reader, bytes } => {
                let noun = if *bytes == 1 { "byte" } else { "bytes" };
                format!("job {reader} reads {bytes} {noun} of what it wrote")
            }
            KeepReason::Together => "runs at the same time as a kept job".to_owned(),
            KeepReason::Unknown { .. } if is_blind => "before a kept job".to_owned(),
            KeepReason::Unknown { job: of } if of == job => {
                "its shaders do not run on the simulator, so its writes are unknown".to_owned()
            }
            KeepReason::Unknown { job: of } => {
                format!("the shaders of job {of} do not run on the simulator, so its reads are unknown")
            }
        };
        match known.get(&why).and_then(|at| reasons.get_mut(*at)) {
            Some((_, jobs)) => jobs.push(*job),
            None => {
                known.insert(why.clone(), reasons.len());
                reasons.push((why, vec![*job]));
            }
        }
    }
    reasons
}

/// Returns the source name that a trimmed recording stores.
#[must_use]
pub fn source_name(file: &Path) -> String {
    file.file_name()
        .map_or_else(String::new, |n| n.to_string_lossy().into_owned())
}

/// Formats numbers as ranges: `0, 4 to 9`.
#[must_use]
pub fn format_ranges(numbers: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for n in numbers {
        match parts.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*n) => *last = *n,
            _ => parts.push((*n, *n)),
        }
    }
    let text = |(a, b): &(u32, u32)| if a == b { a.to_string() } else { format!("{a} to {b}") };
    parts.iter().map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_ranges_exclude_or_include_their_end() {
        let parsed = |text: &str| parse_range(text).map(|n| (n.all, n.leaves_out.is_some()));
        assert_eq!(parsed("4..=9"), Ok((4..=9, false)));
        assert_eq!(parsed("4..9"), Ok((4..=8, true)));
        assert_eq!(parsed("7"), Ok((7..=7, false)));
        for (text, why) in [
            ("9..4", "ends before it begins"),
            ("4..4", "is empty: it excludes 4 (4..=4 includes it)"),
            ("..4", "not a range"),
            ("x", "not a range"),
            ("1..", "not a range"),
        ] {
            assert!(parse_range(text).unwrap_err().contains(why), "{text}");
        }
    }

    #[test]
    fn numbers_are_formatted_as_ranges() {
        assert_eq!(format_ranges(&[0, 4, 5, 6, 9]), "0, 4 to 6, 9");
        assert_eq!(format_ranges(&[]), "");
    }
}
