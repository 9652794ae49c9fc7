//! Differences of events and registers, the kinds of differences, and the limit of every list of differences.

use super::rules::kind_name;
use crate::RegOffset;
use crate::recording::EventKind;
use serde::{Deserialize, Serialize, Serializer};

/// Maximum number of differences that are listed; all are counted.
pub const MAX_LISTED_DIFFERENCES: usize = 1000;

/// The result for a run of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ChangeKind {
    /// Both sides have the events, and they are equal except for values that differ between any two runs.
    Equal,
    /// Both sides have the events, with other values.
    Changed,
    /// Only the first recording has the events.
    Deleted,
    /// Only the second recording has the events.
    Inserted,
    /// The first recording has the events here, the second elsewhere.
    MovedFrom,
    /// The second recording has the events here, the first elsewhere.
    MovedTo,
}

impl ChangeKind {
    /// Returns whether this is a difference.
    #[must_use]
    pub fn differs(self) -> bool {
        self != Self::Equal
    }

    /// Returns the kind with the sides swapped.
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

/// Events of two recordings, aligned job by job: accesses, interrupts, submits, undecoded accesses, DMA maps. Marks
/// are notes and not compared; CPU writes are compared by byte, see [`HostWriteDiff`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EventDiff {
    /// Number of events that are the same on both sides.
    pub equal: u64,
    /// Number of accesses that both sides have with different values.
    pub changed: u64,
    /// Number of events that only the second recording has.
    pub inserted: u64,
    /// Number of events that only the first recording has.
    pub deleted: u64,
    /// Number of events in blocks that both sides have at different positions.
    pub moved: u64,
    /// Number of writes whose values differ only by relocation: page-table roots of matching address spaces, or
    /// addresses in matching ranges. They count as neither equal nor changed.
    pub relocated: u64,
    /// Number of accesses whose values differ between any two runs, by the register map's replay class: free-running
    /// counters, masked bits, flush ids, and reads of state from before the recording. They count as neither equal
    /// nor changed.
    pub uncompared: u64,
    /// Number of repeated status reads, in the first and in the second recording, that are represented by the last
    /// read of the wait. Only that read is aligned and counted.
    pub folded: (u64, u64),
    /// Pairs of jobs, of which each side may lack one, with so many differences that the search for the shortest
    /// alignment was cut short. There may be an alignment with fewer differences.
    pub cut_short: Vec<JobPair>,
    /// Kinds of events of which one side has none at all. They are not compared: not every recorder records them, and
    /// a replay makes none of them.
    pub one_sided: Vec<OneSided>,
    /// Number of accesses to foreign spaces, in the first and in the second recording. A foreign space is not the
    /// device's (system memory, configuration space), and the other side does not have it. The accesses are not
    /// compared: a replay omits them.
    pub foreign: (u64, u64),
    /// Number of calls, in the first and in the second recording, that no replay makes: failed calls, calls without
    /// an effect, and snapshots that were not taken again. They are not compared if one side is a replay.
    pub not_played: (u64, u64),
    /// The first differences, at most [`MAX_LISTED_DIFFERENCES`], in event order.
    pub list: Vec<EventDifference>,
}

/// A kind of events of which one side has none at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct OneSided {
    /// The kind.
    #[serde(serialize_with = "serialize_kind")]
    pub kind: EventKind,
    /// Number of events in the first recording.
    pub a: u64,
    /// Number of events in the second recording.
    pub b: u64,
}

/// A pair of compared jobs, each as the number of submits up to it. 0 is everything before the first job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct JobPair {
    /// The job in the first recording; `None` if only the second has it.
    pub a: Option<u32>,
    /// The job in the second recording; `None` if only the first has it.
    pub b: Option<u32>,
}

impl JobPair {
    pub(super) fn swapped(self) -> Self {
        Self { a: self.b, b: self.a }
    }
}

/// A difference between the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct EventDifference {
    /// The jobs in whose interval the events are.
    pub job: JobPair,
    /// The kind of the change; moved events are reported at their position in the first recording.
    pub what: ChangeKind,
    /// The first event in the first recording, `None` if only the second has it.
    pub a: Option<u64>,
    /// The first event in the second recording, `None` if only the first has it.
    pub b: Option<u64>,
    /// Number of consecutive events: more than one if one side has them alone, or elsewhere.
    pub events: u64,
    /// The kind of the first event.
    pub kind: EventKind,
    /// Byte offset of an access in its space; the line of an interrupt; the slot of a submit.
    pub offset: RegOffset,
    /// Value in the first recording; the status of an interrupt; the chain head of a submit.
    pub value_a: Option<u64>,
    /// Value in the second recording.
    pub value_b: Option<u64>,
}

fn serialize_kind<S: Serializer>(kind: &EventKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind_name(*kind))
}

/// A register whose histories differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RegisterDiff {
    /// Name of the register, or its offset if the map has no name.
    pub name: String,
    /// Byte offset.
    pub offset: RegOffset,
    /// Number of its accesses that differ, or that only one side has.
    pub count: u64,
    /// The first of them, where the histories diverge: the event of the first recording, and of the second. `None` if
    /// that side has no such access.
    pub first: (Option<u64>, Option<u64>),
    /// Fields that differ in the first such access: name, then the decoded value on each side, empty if it has none.
    /// Contains the whole value if a side has no such access, or no field is known.
    pub fields: Vec<(String, String, String)>,
}

impl RegisterDiff {
    /// Returns the same with the sides swapped.
    pub(super) fn swapped(mut self) -> Self {
        self.first = (self.first.1, self.first.0);
        for f in &mut self.fields {
            std::mem::swap(&mut f.1, &mut f.2);
        }
        self
    }
}

impl EventDiff {
    /// Returns the number of events that differ.
    #[must_use]
    pub fn count_differing(&self) -> u64 {
        self.changed + self.inserted + self.deleted + self.moved
    }

    /// Returns the same with the sides swapped.
    pub(super) fn swapped(mut self) -> Self {
        std::mem::swap(&mut self.inserted, &mut self.deleted);
        self.folded = (self.folded.1, self.folded.0);
        self.foreign = (self.foreign.1, self.foreign.0);
        self.not_played = (self.not_played.1, self.not_played.0);
        for kind in &mut self.one_sided {
            std::mem::swap(&mut kind.a, &mut kind.b);
        }
        for j in &mut self.cut_short {
            *j = j.swapped();
        }
        for d in &mut self.list {
            d.job = d.job.swapped();
            // Moved events are reported once for both sides.
            if d.what != ChangeKind::MovedFrom {
                d.what = d.what.swapped();
            }
            std::mem::swap(&mut d.a, &mut d.b);
            std::mem::swap(&mut d.value_a, &mut d.value_b);
        }
        self
    }
}
