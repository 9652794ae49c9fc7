//! Reported differences between matching calls.

use super::code::CodeDifference;
use crate::GpuVa;
use crate::diff::elements::{ElementDiff, Tolerance};
use serde::{Deserialize, Serialize};

/// Differences of matching driver calls: copies, memory in snapshots, fills, launches. Calls that only one side has
/// are reported as events. Different addresses are no difference: buffers are matched by their use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallDiff {
    /// Number of pairs that were compared.
    pub compared: u64,
    /// Number of the program's copies with other content or another destination.
    pub copies: u64,
    /// Number of snapshot pieces that differ.
    pub snapshots: u64,
    /// Number of fills with another value or destination.
    pub fills: u64,
    /// Number of launches that differ in an argument, in their dimensions, or in their result.
    pub launches: u64,
    /// Number of copies and snapshot pieces that differ within the tolerance. They count as no difference.
    pub within: u64,
    /// Number of copies and snapshot pieces whose content is missing on at least one side. They are not compared.
    pub unknown: u64,
    /// Functions that both sides launched and whose modules differ.
    pub code: Vec<CodeDifference>,
    /// The first pairs that differ, or differ within the tolerance, at most [`crate::diff::MAX_LISTED_DIFFERENCES`],
    /// in event order.
    pub list: Vec<CallDifference>,
}

/// The kind of calls that differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallPart {
    /// A copy by the program.
    Copy,
    /// A piece of a memory snapshot that the recorder took.
    Snapshot,
    /// A fill of memory.
    Fill,
    /// A kernel launch.
    Launch,
}

/// Two matching calls that differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallDifference {
    /// The kind of the calls.
    pub part: CallPart,
    /// The event of the first recording, and of the second.
    pub events: (u64, u64),
    /// The subject on each side: a function, or memory by its name (`in0`, `out3`, `alloc 7 + 0x40`).
    pub names: (String, String),
    /// The direction of a copy.
    pub way: String,
    /// Device address of the first byte on each side; 0 for launches.
    pub at: (GpuVa, GpuVa),
    /// Differences other than content: name (`argument 2 (float)`, `grid`, `value`, `to`, `from`, `bytes`, `result`),
    /// and the value on each side.
    pub fields: Vec<(String, String, String)>,
    /// The difference in the copied bytes; `None` if they are the same or not known.
    pub content: Option<ContentDiff>,
    /// Whether this is a difference; otherwise it is within the tolerance.
    pub differs: bool,
}

/// The source of an element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TypeFrom {
    /// The signature of a function that received the buffer.
    Signature,
    /// The values of the bytes.
    Guess,
}

/// The difference in the bytes of two copies, up to the shorter size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContentDiff {
    /// Number of bytes compared.
    pub bytes: u64,
    /// Number of bytes that differ.
    pub bytes_differ: u64,
    /// Offset of the first differing byte in the copies.
    pub first_byte: u64,
    /// Bytes of the first side from there on, at most 16.
    pub bytes_a: Vec<u8>,
    /// Bytes of the second side from there on.
    pub bytes_b: Vec<u8>,
    /// The comparison of the elements.
    pub elements: ElementDiff,
    /// The source of the element type.
    pub type_from: TypeFrom,
    /// The tolerance, if there is one.
    pub tolerance: Option<Tolerance>,
}

impl ContentDiff {
    /// Returns whether the difference exceeds the tolerance.
    #[must_use]
    pub fn differs(&self) -> bool {
        self.elements.differ > 0 || (self.tolerance.is_none() && self.bytes_differ > 0)
    }
}

impl CallDifference {
    pub(super) fn new(part: CallPart, events: (u64, u64)) -> Self {
        Self {
            part,
            events,
            names: Default::default(),
            way: String::new(),
            at: (GpuVa::ZERO, GpuVa::ZERO),
            fields: Vec::new(),
            content: None,
            differs: true,
        }
    }

    /// Returns the device address of the first differing byte in the first and in the second recording; `None` for
    /// launches.
    #[must_use]
    pub fn place(&self) -> Option<(GpuVa, GpuVa)> {
        let by = self.content.as_ref().map_or(0, |c| c.first_byte);
        let at = |at: GpuVa| at.saturating_add(by);
        (self.part != CallPart::Launch).then_some((at(self.at.0), at(self.at.1)))
    }

    fn swapped(mut self) -> Self {
        self.events = (self.events.1, self.events.0);
        self.names = (self.names.1, self.names.0);
        self.at = (self.at.1, self.at.0);
        for f in &mut self.fields {
            std::mem::swap(&mut f.1, &mut f.2);
        }
        self.content = self.content.map(|mut c| {
            std::mem::swap(&mut c.bytes_a, &mut c.bytes_b);
            c.elements = c.elements.swapped();
            c
        });
        self
    }
}

impl CallDiff {
    pub(super) fn count(&mut self, part: CallPart) -> &mut u64 {
        match part {
            CallPart::Copy => &mut self.copies,
            CallPart::Snapshot => &mut self.snapshots,
            CallPart::Fill => &mut self.fills,
            CallPart::Launch => &mut self.launches,
        }
    }

    /// Returns the number of calls and functions that differ.
    #[must_use]
    pub fn count_differing(&self) -> u64 {
        let code = self.code.iter().filter(|c| c.differs()).count() as u64;
        self.copies + self.snapshots + self.fills + self.launches + code
    }

    /// Returns the difference of two events, if it is listed.
    #[must_use]
    pub fn find(&self, a: Option<u64>, b: Option<u64>) -> Option<&CallDifference> {
        let events = (a?, b?);
        let found = |d: &&CallDifference| d.events == events;
        // The list is in the event order of the side that was aligned first.
        self.list.iter().find(found)
    }

    /// Returns the same with the sides swapped.
    pub(crate) fn swapped(mut self) -> Self {
        self.list = self.list.into_iter().map(CallDifference::swapped).collect();
        self.code = self.code.into_iter().map(CodeDifference::swapped).collect();
        self
    }
}
