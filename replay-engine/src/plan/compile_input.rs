//! The input of the plan compiler: the user's edits, its options, and what it takes over from a recording.

use super::{Budgets, CompileError, PlanBuffer};
use std::collections::BTreeMap;
use std::ops::Range;
use trace_core::recording::{Buffer, Identity, MmuFormat};
use trace_core::screen::Picture;
use trace_core::{GpuVa, Recording, RegOffset};

/// Bytes that the user writes over recorded memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Address space, an index into the recording's list.
    pub address_space: u32,
    /// First byte.
    pub va: GpuVa,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// The user's changes to a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edits {
    /// Complete new contents of named buffers.
    pub inputs: BTreeMap<String, Vec<u8>>,
    /// Bytes written over memory, after the inputs, in order.
    pub patches: Vec<Patch>,
}

/// The treatment of recorded idle time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// Skip it.
    #[default]
    Fast,
    /// Keep it.
    Recorded,
}

/// The options of the compiler.
#[derive(Clone, Debug, Default)]
pub struct CompileOptions {
    /// The treatment of recorded idle time.
    pub pace: Pace,
    /// Names of the buffers to copy out. If empty, all output buffers.
    pub outputs: Vec<String>,
    /// Limits that the plan must keep.
    pub budgets: Budgets,
    /// Offsets of registers that the map does not know and that the user allows nevertheless.
    pub allow_unknown: Vec<Range<RegOffset>>,
    /// The format that the page tables of a job-manager GPU get: [`MmuFormat::WRITTEN`]. `None`: the recorded one, or
    /// one that the target has.
    pub table_format: Option<MmuFormat>,
    /// The expected picture at the end.
    pub expect_screen: Option<Picture>,
    /// The source of that picture, for the user.
    pub screen_source: String,
}

/// Returns the title of a plan: the source of its recording, for the user.
#[must_use]
pub fn plan_title(identity: &Identity) -> String {
    let parts = [&identity.gpu_name, &identity.driver, &identity.board, &identity.source];
    let known: Vec<&str> = parts
        .into_iter()
        .map(String::as_str)
        .filter(|s| !s.is_empty())
        .collect();
    known.join(", ")
}

pub(crate) fn plan_buffer(b: &Buffer) -> PlanBuffer {
    PlanBuffer {
        name: b.name.clone(),
        va: b.va,
        bytes: b.bytes,
        element: b.element,
        space: b.address_space,
    }
}

pub(crate) fn find_buffer<'r>(recording: &'r Recording, name: &str) -> Result<&'r Buffer, CompileError> {
    recording.buffer(name).ok_or_else(|| {
        let known: Vec<&str> = recording.metadata.buffers.iter().map(|b| b.name.as_str()).collect();
        CompileError::UnknownBuffer {
            name: name.to_owned(),
            known: known.join(", "),
        }
    })
}
