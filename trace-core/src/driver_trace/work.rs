//! The work of all submissions of a recording.

use super::{DecodedSubmission, DriverTrace, GpuWork, Submission, SubmissionDecoder, SubmittedLaunch};
use crate::progress::{Cancelled, Progress};

/// Number of submissions between two checks for cancellation.
const STEP: usize = 64;

/// The objects of a kernel driver, and the work of all submissions, without their methods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverWork {
    trace: DriverTrace,
    decoded: Vec<DecodedSubmission>,
}

impl DriverWork {
    /// Creates the work of a trace: `decoded` has the submissions of the trace, decoded in order, or is empty.
    #[must_use]
    pub fn new(trace: DriverTrace, decoded: Vec<DecodedSubmission>) -> Self {
        Self { trace, decoded }
    }

    /// Decodes the work of all submissions of a trace. Takes time proportional to the number of words in push buffers.
    ///
    /// # Errors
    /// [`Cancelled`] if the operation was cancelled.
    pub fn decode(
        trace: &DriverTrace,
        decoder: &mut dyn SubmissionDecoder,
        progress: &Progress,
    ) -> Result<Vec<DecodedSubmission>, Cancelled> {
        let mut decoded = Vec::with_capacity(trace.submissions().len());
        progress.set_total(trace.submissions().len() as u64);
        for (n, submission) in trace.submissions().iter().enumerate() {
            decoded.push(decoder.decode_work(submission));
            if n % STEP == STEP - 1 {
                progress.advance(STEP as u64)?;
            }
        }
        Ok(decoded)
    }

    /// Returns the objects, mappings, channels and submissions.
    #[must_use]
    pub fn trace(&self) -> &DriverTrace {
        &self.trace
    }

    /// Returns the objects, mappings, channels and submissions, and drops the work.
    #[must_use]
    pub fn into_trace(self) -> DriverTrace {
        self.trace
    }

    /// Returns the submissions with their work, in event order. The work of a submission that cannot be decoded is empty.
    pub fn submissions(&self) -> impl DoubleEndedIterator<Item = (&Submission, &DecodedSubmission)> {
        self.trace.submissions().iter().zip(&self.decoded)
    }

    /// Returns the launches of all submissions, in order.
    pub fn launches(&self) -> impl Iterator<Item = (&Submission, &SubmittedLaunch)> {
        self.submissions().flat_map(|(s, d)| {
            d.work.iter().filter_map(move |w| match w {
                GpuWork::Launch(launch) => Some((s, &**launch)),
                _ => None,
            })
        })
    }
}
