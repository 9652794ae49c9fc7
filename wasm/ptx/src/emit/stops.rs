//! The places where a function can stop, and what they save together.

use super::text::Source;
use std::collections::HashSet;

/// A place where a resumable function can stop. Its index is the number in the frame.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    /// Label that restores the registers.
    pub resume: u32,
    /// Label that goes on after it.
    pub again: u32,
    /// Labels of the loops that contain the label `again`, from the outermost one inwards.
    pub loops: Vec<u32>,
}

/// The way into a loop for stops inside it: only through its header, so that the loop has one entry.
///
/// The assembler makes threads that leave a loop at different times meet again only if the loop has one entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dispatch {
    /// Label of the branches to the stops.
    pub label: u32,
    /// Number of the first stop inside.
    pub first: usize,
}

/// Locals that all stops of a function save in the same way.
#[derive(Default)]
pub(crate) struct SharedLocals {
    pub registers: Vec<Source>,
    pub set: HashSet<Source>,
    /// Cells of a frame that they take.
    pub cells: u64,
}
