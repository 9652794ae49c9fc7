//! What is told of calls that differ.

use super::CodeDifference;
use crate::diff::elements::{ElementDiff, Tolerance};
use serde::{Deserialize, Serialize};

/// Calls of a driver that go together, held against each other: copies, memory as snapshots tell it, fills, launches.
/// What one side has alone is told as events. Addresses are no difference: buffers go together by what is done with
/// them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallDiff {
    /// Pairs that were compared.
    pub compared: u64,
    /// Copies of the program that carry other bytes, or go elsewhere.
    pub copies: u64,
    /// Pieces of snapshots of memory that differ.
    pub snapshots: u64,
    /// Fills with another value, or elsewhere.
    pub fills: u64,
    /// Launches that differ in an argument, in their dimensions, or in what came of them.
    pub launches: u64,
    /// Copies and pieces of snapshots that differ by no more than is allowed. They are no difference.
    pub within: u64,
    /// Copies and pieces of snapshots whose content one side at least does not hold. It is not compared.
    pub unknown: u64,
    /// Functions that both launched, whose modules are not the same bytes.
    pub code: Vec<CodeDifference>,
    /// The first that differ, or differ within what is allowed, at most [`crate::diff::MAX_LISTED_DIFFERENCES`], in the
    /// order of the events.
    pub list: Vec<CallDifference>,
}

/// What kind of calls differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallPart {
    /// A copy of the program.
    Copy,
    /// A piece of a snapshot of memory that the recorder took.
    Snapshot,
    /// Memory set to a value.
    Fill,
    /// A launch.
    Launch,
}

/// Two calls that go together and differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallDifference {
    /// What they are.
    pub part: CallPart,
    /// The event of the first recording, and of the second.
    pub events: (u64, u64),
    /// What they are about on either side: a function, or memory by its name (`in0`, `out3`, `alloc 7 + 0x40`).
    pub names: (String, String),
    /// Of a copy, which way it goes.
    pub way: String,
    /// The device's address of the first byte on either side; 0 of launches.
    pub at: (u64, u64),
    /// What differs beside content: its name (`argument 2 (float)`, `grid`, `value`, `to`, `from`, `bytes`, `result`),
    /// and what it is on each side.
    pub fields: Vec<(String, String, String)>,
    /// How the bytes differ that copies carried; `None` where they are the same or not known.
    pub content: Option<ContentDiff>,
    /// Whether it is a difference; otherwise it is within what is allowed.
    pub differs: bool,
}

/// Where it is known from of which type elements are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TypeFrom {
    /// The signature of a function that was given the buffer.
    Signature,
    /// What the bytes look like.
    Guess,
}

/// How the bytes differ that two copies carried, as far as both carried them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContentDiff {
    /// Bytes that were compared.
    pub bytes: u64,
    /// How many of them differ.
    pub bytes_differ: u64,
    /// Offset of the first that differs, in what the copies carried.
    pub first_byte: u64,
    /// What the first has from there on, 16 bytes at most.
    pub bytes_a: Vec<u8>,
    /// What the second has there.
    pub bytes_b: Vec<u8>,
    /// Its elements.
    pub elements: ElementDiff,
    /// Where their type is known from.
    pub type_from: TypeFrom,
    /// By how much they may differ.
    pub tolerance: Option<Tolerance>,
}

impl ContentDiff {
    /// Whether it differs by more than is allowed.
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
            at: (0, 0),
            fields: Vec::new(),
            content: None,
            differs: true,
        }
    }

    /// The device's address of the first byte that differs, in the first recording and in the second; of a launch there
    /// is none.
    #[must_use]
    pub fn place(&self) -> Option<(u64, u64)> {
        let by = self.content.as_ref().map_or(0, |c| c.first_byte);
        let at = |at: u64| at.saturating_add(by);
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

    /// How many calls and functions differ.
    #[must_use]
    pub fn count_differing(&self) -> u64 {
        let code = self.code.iter().filter(|c| c.differs()).count() as u64;
        self.copies + self.snapshots + self.fills + self.launches + code
    }

    /// The difference of two events, where it is among those that are listed.
    #[must_use]
    pub fn find(&self, a: Option<u64>, b: Option<u64>) -> Option<&CallDifference> {
        let events = (a?, b?);
        let found = |d: &&CallDifference| d.events == events;
        // In the order of the events of the side that was aligned first.
        self.list.iter().find(found)
    }

    /// The same with the sides swapped.
    pub(in crate::diff) fn swapped(mut self) -> Self {
        self.list = self.list.into_iter().map(CallDifference::swapped).collect();
        self.code = self.code.into_iter().map(CodeDifference::swapped).collect();
        self
    }
}
