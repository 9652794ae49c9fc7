//! Alignment of the events of two recordings: which events match, and where the next difference is.

use super::event_diff::{ChangeKind, JobPair};
use crate::GpuVa;
use std::ops::Range;

/// A run of compared events with the same result. Indices count only the compared events, without those that others
/// represent: [`EventAlignment::event_a`] and [`EventAlignment::event_b`] return the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The result for the events.
    pub change: ChangeKind,
    /// The first compared event of the first recording; if it has none of them, the one before which they would be.
    pub a: u32,
    /// The same for the second recording.
    pub b: u32,
    /// Number of events.
    pub len: u32,
}

impl Block {
    /// Returns the number of compared events of the first recording in the block.
    #[must_use]
    pub fn len_a(&self) -> u32 {
        match self.change {
            ChangeKind::Equal | ChangeKind::Changed | ChangeKind::Deleted | ChangeKind::MovedFrom => self.len,
            ChangeKind::Inserted | ChangeKind::MovedTo => 0,
        }
    }

    /// Returns the number of compared events of the second recording in the block.
    #[must_use]
    pub fn len_b(&self) -> u32 {
        Block {
            change: self.change.swapped(),
            ..*self
        }
        .len_a()
    }
}

/// A pair of matching jobs and the events between their submits and the next ones. The first interval is everything
/// before the first job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobInterval {
    /// The jobs.
    pub job: JobPair,
    /// Events of the first recording: after the submit, up to and including the next one; `None` if it has no such
    /// job. The last interval ends at `u64::MAX`.
    pub a: Option<Range<u64>>,
    /// The same for the second recording.
    pub b: Option<Range<u64>>,
    /// GPU addresses of the chains of the submits.
    pub heads: (Option<GpuVa>, Option<GpuVa>),
}

impl JobInterval {
    /// Returns the submits that start the interval; `None` before the first job, and if a side has no such job.
    #[must_use]
    pub fn submits(&self) -> (Option<u64>, Option<u64>) {
        let submit = |range: &Option<Range<u64>>| range.as_ref().and_then(|r| r.start.checked_sub(1));
        (submit(&self.a), submit(&self.b))
    }

    /// Returns the same with the sides swapped.
    pub(super) fn swapped(self) -> Self {
        Self {
            job: self.job.swapped(),
            a: self.b,
            b: self.a,
            heads: (self.heads.1, self.heads.0),
        }
    }
}

/// The alignment of two recordings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventAlignment {
    /// The compared events of the first recording, ascending.
    pub(super) events_a: Vec<u32>,
    /// The compared events of the second recording, ascending.
    pub(super) events_b: Vec<u32>,
    /// Runs, in order: together they contain every compared event of both sides once.
    pub(super) blocks: Vec<Block>,
    /// Intervals of matching jobs.
    pub(super) courses: Vec<JobInterval>,
}

/// One of two recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DiffSide {
    /// The first recording.
    A,
    /// The second recording.
    B,
}

impl EventAlignment {
    /// Returns the intervals of matching jobs, in order.
    #[must_use]
    pub fn job_intervals(&self) -> &[JobInterval] {
        &self.courses
    }

    /// Returns the runs, in order.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Returns the event for a compared event of the first recording.
    #[must_use]
    pub fn event_a(&self, compared: u32) -> Option<u64> {
        self.events_a.get(compared as usize).map(|e| u64::from(*e))
    }

    /// Returns the event for a compared event of the second recording.
    #[must_use]
    pub fn event_b(&self, compared: u32) -> Option<u64> {
        self.events_b.get(compared as usize).map(|e| u64::from(*e))
    }

    /// Returns the compared events of a side, ascending.
    pub(super) fn events(&self, which: DiffSide) -> &[u32] {
        match which {
            DiffSide::A => &self.events_a,
            DiffSide::B => &self.events_b,
        }
    }

    pub(super) fn first(block: &Block, which: DiffSide) -> u32 {
        match which {
            DiffSide::A => block.a,
            DiffSide::B => block.b,
        }
    }

    /// Returns the block that contains an event of one side, or, if the event is not compared, the next one that is.
    pub(super) fn block_at(&self, which: DiffSide, event: u64) -> Option<usize> {
        let events = self.events(which);
        let compared = events.partition_point(|e| u64::from(*e) < event);
        // A block that one side does not have starts where that side's next block starts: the last block that starts
        // there has the event.
        let behind = self
            .blocks
            .partition_point(|b| Self::first(b, which) as usize <= compared);
        behind.checked_sub(1)
    }

    /// Returns the result for an event; `None` if it is not compared.
    #[must_use]
    pub fn change_at(&self, which: DiffSide, event: u64) -> Option<ChangeKind> {
        let found = u32::try_from(event).ok()?;
        self.events(which).binary_search(&found).ok()?;
        self.blocks.get(self.block_at(which, event)?).map(|b| b.change)
    }

    /// Returns the same with the sides swapped.
    #[must_use]
    pub(super) fn swapped(mut self) -> Self {
        std::mem::swap(&mut self.events_a, &mut self.events_b);
        self.courses = self.courses.into_iter().map(JobInterval::swapped).collect();
        for b in &mut self.blocks {
            std::mem::swap(&mut b.a, &mut b.b);
            b.change = b.change.swapped();
        }
        self
    }
}
