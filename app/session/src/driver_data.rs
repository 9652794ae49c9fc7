//! Derived data of a driver trace for the window: its objects as a tree, and which object or submission an event names.

mod address_chart;
mod object_list;
mod program_code;
mod push_listing;
#[cfg(test)]
mod tests;

pub use address_chart::{AddressChart, AddressRow, AddressRowKind, MAX_ROWS, MappedRange, MemoryPlace, RowSegment};
pub use object_list::{ObjectFilter, ObjectText, select_objects};
pub use program_code::{ProgramText, read_program};
pub use push_listing::{CALL, KERNEL, LineDetail, PROGRAM, PointedBuffer, PushItem, PushListing, read_push_buffer};

use std::sync::Arc;
use trace_core::channel_names::{ChannelName, ChannelNames};
use trace_core::driver_trace::{DriverTrace, DriverWork, LaunchKernels, Submission, SubmissionCalls};
use trace_core::families::find_submission_decoder;
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::{EventKind, ObjectAction, Recording};
use trace_core::xref::CallJoin;

/// A row of the tree of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeRow {
    /// Index of the object in [`DriverTrace::objects`].
    pub object: u32,
    /// Number of objects above it.
    pub depth: u16,
    /// Row after its last descendant.
    pub end: u32,
}

/// The derived data of a driver trace.
#[derive(Debug, Default)]
pub struct DriverData {
    /// Objects, mappings, channels and submissions.
    pub trace: Arc<DriverTrace>,
    /// The objects as a tree: each object stands before its children, in the order of their creation.
    pub tree: Vec<TreeRow>,
    /// Maximum depth of a row.
    pub max_depth: u16,
    /// The addresses of buffers over time.
    pub addresses: AddressChart,
    /// Names of channels.
    pub channel_names: ChannelNames,
    /// The calls of submissions, if the recording holds calls too.
    pub calls: Option<SubmissionCalls>,
    /// The kernels of launches, if the recording holds calls too.
    pub kernels: LaunchKernels,
    /// Row of each object in the tree.
    rows: Vec<u32>,
    /// Events that name an object, with the object, ordered by event.
    named: Vec<(u64, u32)>,
    /// Events of doorbells with the first submission that they announce, ordered by event.
    doorbells: Vec<(u64, u32)>,
}

impl DriverData {
    /// Derives the data of a recording, or returns `None` if it has no requests to a kernel driver. Takes time
    /// proportional to the number of events.
    ///
    /// # Errors
    /// [`Cancelled`] if the operation was cancelled.
    pub fn from_recording(recording: &Recording, progress: &Progress) -> Result<Option<Self>, Cancelled> {
        let Some(trace) = DriverTrace::from_recording(recording, progress)? else {
            return Ok(None);
        };
        let (trace, calls, kernels) = join_calls(recording, trace, progress)?;
        let tree = build_tree(&trace);
        let mut rows = vec![0; trace.objects().len()];
        for (n, row) in (0u32..).zip(&tree) {
            if let Some(at) = rows.get_mut(row.object as usize) {
                *at = n;
            }
        }
        let addresses = AddressChart::new(&trace, progress)?;
        Ok(Some(Self {
            named: find_named_objects(recording, &trace),
            doorbells: find_doorbells(&trace),
            channel_names: ChannelNames::from_recording(recording),
            calls,
            kernels,
            trace: Arc::new(trace),
            max_depth: tree.iter().map(|r| r.depth).max().unwrap_or(0),
            tree,
            addresses,
            rows,
        }))
    }

    /// Returns the row of an object in the tree.
    #[must_use]
    pub fn row_of(&self, object: u32) -> Option<u32> {
        self.rows.get(object as usize).copied()
    }

    /// Returns the object that an event creates, frees, maps or unmaps.
    #[must_use]
    pub fn object_at(&self, event: u64) -> Option<u32> {
        let at = self.named.partition_point(|n| n.0 < event);
        self.named.get(at).filter(|n| n.0 == event).map(|n| n.1)
    }

    /// Returns the submission of a ring entry or of a doorbell: of several that a doorbell announces, the first.
    #[must_use]
    pub fn submission_of(&self, event: u64) -> Option<&Submission> {
        let all = self.trace.submissions();
        let own = all.binary_search_by_key(&event, |s| s.event).ok();
        let rung = || {
            let at = self.doorbells.binary_search_by_key(&event, |d| d.0).ok()?;
            self.doorbells.get(at).map(|d| d.1 as usize)
        };
        all.get(own.or_else(rung)?)
    }

    /// Returns the name of the channel of a submission.
    #[must_use]
    pub fn channel_name(&self, submission: &Submission) -> Option<&ChannelName> {
        let channel = self.trace.channels().get(submission.channel)?;
        self.channel_names
            .find_object(self.trace.objects().get(channel.object)?)
    }

    /// Returns the event of the call that made a submission.
    #[must_use]
    pub fn call_of(&self, submission: &Submission) -> Option<u64> {
        self.calls.as_ref()?.call_of(submission.index)
    }

    /// Returns the submissions that a call made, in order; for a launch of a graph, the one that starts it, if known.
    pub fn submissions_of(&self, call: u64) -> impl Iterator<Item = &Submission> {
        let calls = self.calls.as_ref();
        let of_graph = calls.and_then(|c| c.graph_launch_of(call));
        let only = of_graph.and_then(|_| self.kernels.find_launch(call)).map(|(n, _)| n);
        let all = calls.map_or(&[][..], |c| c.submissions_of(call)).iter();
        let all = all.filter(move |n| only.is_none_or(|only| only == **n));
        all.filter_map(|n| self.trace.submissions().get(*n as usize))
    }

    /// Returns what joins calls with submissions, if the recording holds calls too.
    #[must_use]
    pub fn call_join(&self) -> Option<CallJoin<'_>> {
        Some(CallJoin {
            trace: &self.trace,
            calls: self.calls.as_ref()?,
            kernels: &self.kernels,
        })
    }

    /// Returns the last submission at or before an event.
    #[must_use]
    pub fn last_submission(&self, event: u64) -> Option<&Submission> {
        let all = self.trace.submissions();
        let after = all.partition_point(|s| s.event <= event);
        all.get(after.checked_sub(1)?)
    }
}

/// Joins the submissions of a trace with the calls of its recording, if it holds calls too.
fn join_calls(
    recording: &Recording,
    trace: DriverTrace,
    progress: &Progress,
) -> Result<(DriverTrace, Option<SubmissionCalls>, LaunchKernels), Cancelled> {
    let Some(calls) = SubmissionCalls::from_recording(recording, &trace) else {
        return Ok((trace, None, LaunchKernels::default()));
    };
    let decoded = match find_submission_decoder(recording, &trace) {
        Some(mut decoder) => DriverWork::decode(&trace, &mut *decoder, progress)?,
        None => Vec::new(),
    };
    let work = DriverWork::new(trace, decoded);
    let kernels = LaunchKernels::find(recording, &calls, &work);
    Ok((work.into_trace(), Some(calls), kernels))
}

/// Orders the objects as a tree.
fn build_tree(trace: &DriverTrace) -> Vec<TreeRow> {
    let objects = trace.objects();
    let mut children: Vec<Vec<u32>> = vec![Vec::new(); objects.len()];
    let mut stack = Vec::new();
    for (n, o) in (0u32..).zip(objects) {
        // A parent always stands before its children.
        match o.parent.filter(|p| *p < n as usize).and_then(|p| children.get_mut(p)) {
            Some(list) => list.push(n),
            None => stack.push((n, 0u16)),
        }
    }
    stack.reverse();
    let mut tree: Vec<TreeRow> = Vec::with_capacity(objects.len());
    while let Some((object, depth)) = stack.pop() {
        tree.push(TreeRow { object, depth, end: 0 });
        let below = children.get_mut(object as usize).map(std::mem::take);
        let below = below.unwrap_or_default();
        stack.extend(below.iter().rev().map(|c| (*c, depth.saturating_add(1))));
    }
    // From the last row on, the rows that are still open are those above the current one.
    let mut after: Vec<(u16, u32)> = Vec::new();
    for n in (0..tree.len()).rev() {
        let Some(row) = tree.get_mut(n) else { continue };
        while after.last().is_some_and(|a| a.0 > row.depth) {
            after.pop();
        }
        row.end = after.last().map_or_else(|| u32::MAX, |a| a.1);
        after.push((row.depth, n as u32));
    }
    let count = tree.len() as u32;
    for row in &mut tree {
        row.end = row.end.min(count);
    }
    tree
}

/// Returns the events that create, free, map or unmap an object.
fn find_named_objects(recording: &Recording, trace: &DriverTrace) -> Vec<(u64, u32)> {
    let mut named = Vec::new();
    for (n, o) in (0u32..).zip(trace.objects()) {
        named.extend(o.alloc_event.map(|e| (e, n)));
        // The event of a parent's end names the parent.
        let is_own = |event: &u64| {
            let row = usize::try_from(*event).ok().and_then(|e| {
                let is_object = recording.events.kind(e) == Some(EventKind::Object);
                recording.events.object(e).filter(|_| is_object)
            });
            row.is_some_and(|r| {
                let is_free = r.action == ObjectAction::Free as u32;
                let known = |n: u32| (n != 0).then_some(n);
                is_free && (known(r.handle) == o.handle) && o.kind.is_some_and(|k| r.kind == k as u32 || r.kind == 0)
            })
        };
        named.extend(o.free_event.filter(is_own).map(|e| (e, n)));
    }
    for m in trace.mappings() {
        let Ok(object) = u32::try_from(m.object) else { continue };
        named.push((m.map_event, object));
        named.extend(m.unmap_event.map(|e| (e, object)));
    }
    named.sort_unstable();
    named.dedup_by_key(|n| n.0);
    named
}

/// Returns the events of doorbells with the first submission that they announce.
fn find_doorbells(trace: &DriverTrace) -> Vec<(u64, u32)> {
    let rung = trace.submissions().iter().filter_map(|s| Some((s.doorbell?, s.index)));
    let mut list: Vec<(u64, u32)> = rung.collect();
    list.sort_unstable();
    list.dedup_by_key(|d| d.0);
    list
}
