//! References between the calls of a program and the submissions that they made.

use super::data::XrefData;
use super::reference::{AccessKind, Reference, ReferenceItem};
use crate::driver_trace::{DriverTrace, LaunchKernels, SubmissionCalls};
use crate::families::read_driver_work;
use crate::progress::{Cancelled, Progress};
use crate::recording::Recording;

/// What joins the calls of a recording with its submissions.
#[derive(Clone, Copy, Debug)]
pub struct CallJoin<'a> {
    /// Objects, channels and submissions.
    pub trace: &'a DriverTrace,
    /// The call of each submission.
    pub calls: &'a SubmissionCalls,
    /// The kernels of launches.
    pub kernels: &'a LaunchKernels,
}

/// Finds at most `max` references of an event. A call refers to its submissions; a submission, which is the event of a ring
/// entry or of a doorbell, refers to its call and to the launches of the program in it.
pub(super) fn find_references(
    recording: &Recording,
    data: &impl XrefData,
    event: u64,
    max: usize,
    progress: &Progress,
) -> Result<Vec<Reference>, Cancelled> {
    if let Some(join) = data.call_join() {
        return Ok(list_references(join, event, max));
    }
    let Some(work) = read_driver_work(recording, progress)? else {
        return Ok(Vec::new());
    };
    let Some(calls) = SubmissionCalls::from_recording(recording, work.trace()) else {
        return Ok(Vec::new());
    };
    let join = CallJoin {
        trace: work.trace(),
        kernels: &LaunchKernels::find(recording, &calls, &work),
        calls: &calls,
    };
    Ok(list_references(join, event, max))
}

fn list_references(join: CallJoin<'_>, event: u64, max: usize) -> Vec<Reference> {
    let all = join.trace.submissions();
    let mut out = Vec::new();
    let launched = join.kernels.find_launch(event);
    // Of the submissions of a graph launch, a launch of the graph is in one.
    let only = launched.filter(|_| join.calls.graph_launch_of(event).is_some());
    let submissions = join.calls.submissions_of(event).iter();
    for number in submissions.filter(|n| only.is_none_or(|(s, _)| s == **n)) {
        let Some(submission) = all.get(*number as usize) else {
            continue;
        };
        let word = launched.filter(|(s, _)| s == number).map(|(_, word)| word);
        let item = ReferenceItem::CallSubmission {
            submission: *number,
            word,
        };
        out.push(Reference::new(item, AccessKind::Effect, Some(submission.event)));
    }
    // Several submissions of a doorbell may have one call.
    for submission in all.iter().filter(|s| s.event == event || s.doorbell == Some(event)) {
        let call = join.calls.call_of(submission.index);
        let launches = join.kernels.launches_of(submission.index);
        let launches = launches.into_iter().map(|(word, launch)| (launch, Some(word)));
        let launches = launches.filter(|(launch, _)| Some(*launch) != call);
        for (call, word) in call.map(|c| (c, None)).into_iter().chain(launches) {
            let item = ReferenceItem::SubmissionCall {
                submission: submission.index,
                word,
            };
            out.push(Reference::new(item, AccessKind::Cause, Some(call)));
        }
    }
    out.truncate(max);
    out
}
