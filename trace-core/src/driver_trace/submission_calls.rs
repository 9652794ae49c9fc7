//! The calls of a program that made submissions, in a recording of both levels.

use super::{DriverTrace, Submission};
use crate::recording::{CALL_OF_GRAPH, CallEvent, CallRow, CopyRow, FillRow, LaunchRow, Recording};
use std::collections::{BTreeMap, HashMap};

/// Maximum number of calls before a submission that may surround it.
const MAX_NESTED_CALLS: usize = 64;

/// The call of each submission, and the submissions of each call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubmissionCalls {
    /// Event of the call of each submission.
    calls: Vec<Option<u64>>,
    /// Numbers of the submissions of each call, in order.
    submissions: BTreeMap<u64, Vec<u32>>,
    /// Graph launch of each event that a graph launch executed.
    graph_launches: BTreeMap<u64, u64>,
    /// Launches that each graph launch executed, in order.
    graph_kernels: BTreeMap<u64, Vec<u64>>,
}

impl SubmissionCalls {
    /// Finds the calls of submissions, or returns `None` if the recording does not hold both calls and requests. `trace`
    /// is the driver trace of the recording. Takes time proportional to the number of events.
    #[must_use]
    pub fn from_recording(recording: &Recording, trace: &DriverTrace) -> Option<Self> {
        recording.api()?;
        recording.driver_trace()?;
        let mut out = Self {
            calls: find_calls(recording, trace.submissions()),
            ..Self::default()
        };
        for (submission, call) in trace.submissions().iter().zip(&out.calls) {
            if let Some(call) = call {
                out.submissions.entry(*call).or_default().push(submission.index);
            }
        }
        out.find_graph_launches(recording);
        Some(out)
    }

    /// Finds the graph launch of each event of a graph: the last call of its thread that is not of a graph.
    fn find_graph_launches(&mut self, recording: &Recording) {
        let events = &recording.events;
        let mut last_calls: HashMap<u32, u64> = HashMap::new();
        for event in 0..events.len() {
            let Some(call) = events.call(event).filter(|call| !is_request(call)) else {
                continue;
            };
            let thread = events.thread.get(event).unwrap_or(0);
            if !is_of_graph(&call) {
                last_calls.insert(thread, event as u64);
            } else if let Some(launch) = last_calls.get(&thread) {
                self.graph_launches.insert(event as u64, *launch);
                if matches!(call, CallEvent::Launch(_)) {
                    self.graph_kernels.entry(*launch).or_default().push(event as u64);
                }
            }
        }
    }

    /// Returns the event of the call that made a submission. `None` for submissions outside of all calls, such as those
    /// of the driver's own threads.
    #[must_use]
    pub fn call_of(&self, submission: u32) -> Option<u64> {
        self.calls.get(submission as usize).copied().flatten()
    }

    /// Returns the numbers of the submissions that a call made, in order. Work of a graph has those of its graph launch.
    #[must_use]
    pub fn submissions_of(&self, call: u64) -> &[u32] {
        let call = self.graph_launches.get(&call).copied().unwrap_or(call);
        self.submissions.get(&call).map_or(&[], Vec::as_slice)
    }

    /// Returns the graph launch that executed a launch, a copy or a fill; `None` for calls of their own.
    #[must_use]
    pub fn graph_launch_of(&self, event: u64) -> Option<u64> {
        self.graph_launches.get(&event).copied()
    }

    /// Returns the calls that made submissions, in event order.
    pub(super) fn calls(&self) -> impl Iterator<Item = (u64, &[u32])> {
        self.submissions.iter().map(|(call, list)| (*call, list.as_slice()))
    }

    /// Returns the launches that a graph launch executed, in order; empty for other calls.
    #[must_use]
    pub fn graph_kernels_of(&self, call: u64) -> &[u64] {
        self.graph_kernels.get(&call).map_or(&[], Vec::as_slice)
    }
}

fn is_request(call: &CallEvent) -> bool {
    matches!(call, CallEvent::Call(row) if row.is_request())
}

fn is_of_graph(call: &CallEvent) -> bool {
    let flags = match call {
        CallEvent::Launch(LaunchRow { flags, .. })
        | CallEvent::Copy(CopyRow { flags, .. })
        | CallEvent::Fill(FillRow { flags, .. }) => *flags,
        CallEvent::Order(row) => row.flags,
        CallEvent::Allocation(_) | CallEvent::Call(CallRow { .. }) => 0,
    };
    flags & CALL_OF_GRAPH != 0
}

/// Returns the call of the program during which each submission was made, by the number of the submission: the shortest
/// call of the same thread that had begun and not yet returned at that time.
fn find_calls(recording: &Recording, submissions: &[Submission]) -> Vec<Option<u64>> {
    let events = &recording.events;
    let thread_of = |event: usize| events.thread.get(event).unwrap_or(0);
    let mut calls: Vec<(u32, u64, u64, u64)> = Vec::new();
    for event in 0..events.len() {
        let is_own = |call: &CallEvent| !is_request(call) && !is_of_graph(call);
        if let Some(call) = events.call(event).filter(is_own) {
            let begin = events.time.get(event).unwrap_or(0);
            let end = match call.host_ns() {
                // The row cannot hold a longer duration.
                u32::MAX => u64::MAX,
                ns => begin.saturating_add(u64::from(ns)),
            };
            calls.push((thread_of(event), begin, end, event as u64));
        }
    }
    calls.sort_unstable();
    let find = |submission: &Submission| {
        let event = usize::try_from(submission.event).ok()?;
        let (thread, time) = (thread_of(event), events.time.get(event)?);
        let after = calls.partition_point(|(t, begin, ..)| (*t, *begin) <= (thread, time));
        // Calls of a thread are one after the other or one in the other, so few of them surround a time.
        let candidates = calls.get(..after)?.iter().rev().take(MAX_NESTED_CALLS);
        // A call is where it returned, so a submission after it is not its own.
        let around = candidates.filter(|(t, begin, end, call)| {
            let has_returned = *end == u64::MAX && *call < submission.event;
            *t == thread && *begin <= time && time <= *end && !has_returned
        });
        around
            .min_by_key(|(_, begin, end, _)| end - begin)
            .map(|(.., event)| *event)
    };
    submissions.iter().map(find).collect()
}

#[cfg(test)]
mod tests;
