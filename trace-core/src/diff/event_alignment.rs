//! Two recordings side by side: which event of one goes with which of the other, and where the next difference is.

use super::JobPair;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// What became of a run of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ChangeKind {
    /// Both have it alike, or it differs only in what every run has for itself.
    Equal,
    /// Both have it, with other values.
    Changed,
    /// Only the first has it.
    Deleted,
    /// Only the second has it.
    Inserted,
    /// The first has it here, the second elsewhere.
    MovedFrom,
    /// The second has it here, the first elsewhere.
    MovedTo,
}

impl ChangeKind {
    /// Whether it is a difference.
    #[must_use]
    pub fn differs(self) -> bool {
        self != Self::Equal
    }

    /// The same seen from the other side.
    #[must_use]
    pub fn swapped(self) -> Self {
        match self {
            Self::Deleted => Self::Inserted,
            Self::Inserted => Self::Deleted,
            Self::MovedFrom => Self::MovedTo,
            Self::MovedTo => Self::MovedFrom,
            same => same,
        }
    }
}

/// A run of compared events of which the same became. Indices count the events that are compared, without those that
/// others stand for: [`Aligned::event_a`] and [`Aligned::event_b`] give the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// What became of them.
    pub change: ChangeKind,
    /// The first compared event of the first recording; where it has none of them, the one before which they would be.
    pub a: u32,
    /// The first compared event of the second recording, likewise.
    pub b: u32,
    /// How many.
    pub len: u32,
}

impl Block {
    /// How many compared events of the first recording it has.
    #[must_use]
    pub fn len_a(&self) -> u32 {
        match self.change {
            ChangeKind::Equal | ChangeKind::Changed | ChangeKind::Deleted | ChangeKind::MovedFrom => self.len,
            ChangeKind::Inserted | ChangeKind::MovedTo => 0,
        }
    }

    /// How many compared events of the second recording it has.
    #[must_use]
    pub fn len_b(&self) -> u32 {
        Block {
            change: self.change.swapped(),
            ..*self
        }
        .len_a()
    }
}

/// Jobs that go together, and what comes between their submits and the next ones, as events. The first is what comes
/// before any job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobInterval {
    /// Which jobs.
    pub job: JobPair,
    /// The events of the first recording: behind the submit, up to and with the next one; `None` where it has no such
    /// job. The last one ends at `u64::MAX`.
    pub a: Option<Range<u64>>,
    /// The events of the second recording, likewise.
    pub b: Option<Range<u64>>,
    /// GPU addresses of the chains that the submits name.
    pub heads: (Option<u64>, Option<u64>),
}

impl JobInterval {
    /// The submits that begin it; `None` before any job, and where a side has no such job.
    #[must_use]
    pub fn submits(&self) -> (Option<u64>, Option<u64>) {
        let submit = |range: &Option<Range<u64>>| range.as_ref().and_then(|r| r.start.checked_sub(1));
        (submit(&self.a), submit(&self.b))
    }

    /// The same with the sides swapped.
    pub(super) fn swapped(self) -> Self {
        Self {
            job: self.job.swapped(),
            a: self.b,
            b: self.a,
            heads: (self.heads.1, self.heads.0),
        }
    }
}

/// Two recordings side by side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventAlignment {
    /// The events of the first recording that are compared, rising.
    pub(super) events_a: Vec<u32>,
    /// The events of the second recording that are compared, rising.
    pub(super) events_b: Vec<u32>,
    /// Runs, in order: together they hold every compared event of both sides once.
    pub(super) blocks: Vec<Block>,
    /// Jobs that go together.
    pub(super) courses: Vec<JobInterval>,
}

/// One of two recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DiffSide {
    /// The first.
    A,
    /// The second.
    B,
}

impl EventAlignment {
    /// Jobs that go together, in order.
    #[must_use]
    pub fn job_intervals(&self) -> &[JobInterval] {
        &self.courses
    }

    /// Runs, in order.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The event that a compared event of the first recording is.
    #[must_use]
    pub fn event_a(&self, compared: u32) -> Option<u64> {
        self.events_a.get(compared as usize).map(|e| u64::from(*e))
    }

    /// The event that a compared event of the second recording is.
    #[must_use]
    pub fn event_b(&self, compared: u32) -> Option<u64> {
        self.events_b.get(compared as usize).map(|e| u64::from(*e))
    }

    /// The compared events of a side, rising.
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

    /// The block that an event of one side is in, or, where it is not compared, that of the next one that is.
    pub(super) fn block_at(&self, which: DiffSide, event: u64) -> Option<usize> {
        let events = self.events(which);
        let compared = events.partition_point(|e| u64::from(*e) < event);
        // Blocks that one side does not have begin where the next one of it does: the last that begins there has it.
        let behind = self
            .blocks
            .partition_point(|b| Self::first(b, which) as usize <= compared);
        behind.checked_sub(1)
    }

    /// Where the other recording stands when one stands at an event: the event that goes with it, or, where there is
    /// none, the one before which it would be. `None` behind its last event.
    #[must_use]
    pub fn matching_event(&self, which: DiffSide, event: u64) -> Option<u64> {
        let compared = self.events(which).partition_point(|e| u64::from(*e) < event) as u32;
        let block = self.blocks.get(self.block_at(which, event)?)?;
        let (own, others) = match which {
            DiffSide::A => (block.len_a(), block.len_b()),
            DiffSide::B => (block.len_b(), block.len_a()),
        };
        let by = compared.saturating_sub(Self::first(block, which)).min(own);
        let there = match which {
            DiffSide::A => block.b,
            DiffSide::B => block.a,
        };
        let at = there.saturating_add(by.min(others));
        match which {
            DiffSide::A => self.event_b(at),
            DiffSide::B => self.event_a(at),
        }
    }

    /// What became of an event; `None` where it is not compared.
    #[must_use]
    pub fn change_at(&self, which: DiffSide, event: u64) -> Option<ChangeKind> {
        let found = u32::try_from(event).ok()?;
        self.events(which).binary_search(&found).ok()?;
        self.blocks.get(self.block_at(which, event)?).map(|b| b.change)
    }

    /// The first block behind an event of one side that is a difference.
    #[must_use]
    pub fn next_difference(&self, which: DiffSide, event: u64) -> Option<&Block> {
        let at = self.block_at(which, event).map_or(0, |n| n + 1);
        self.blocks.get(at..)?.iter().find(|b| b.change.differs())
    }

    /// The last block before an event of one side that is a difference.
    #[must_use]
    pub fn previous_difference(&self, which: DiffSide, event: u64) -> Option<&Block> {
        let compared = self.events(which).partition_point(|e| u64::from(*e) < event) as u32;
        let end = self.blocks.partition_point(|b| Self::first(b, which) < compared);
        self.blocks.get(..end)?.iter().rev().find(|b| b.change.differs())
    }

    /// The same with the sides swapped.
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
