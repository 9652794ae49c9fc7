//! What the window knows of a recording beyond the recording itself, put together once, apart from the interface
//! thread: names, lanes, polls, interrupts, jobs with their chains, mappings with their content, findings.

use super::axis::Axis;
use std::collections::BTreeMap;
use trace_core::check::Finding;
use trace_core::recording::Recording;

/// A lane of the timeline: the events of one block of registers, in order.
#[derive(Clone, Debug, Default)]
pub struct Lane {
    /// Name of the block.
    pub name: String,
    /// Events that read it.
    pub reads: Vec<u32>,
    /// Events that write it.
    pub writes: Vec<u32>,
}

/// Number of members of a sorted list in `from..to`.
#[must_use]
pub fn count_in(sorted: &[u32], from: u64, to: u64) -> usize {
    sorted.partition_point(|e| u64::from(*e) < to) - sorted.partition_point(|e| u64::from(*e) < from)
}

/// Reads that waited for a condition, folded.
#[derive(Clone, Copy, Debug)]
pub struct Fold {
    /// First event.
    pub first: u64,
    /// Last event.
    pub last: u64,
    /// Reads in it.
    pub reads: u64,
    /// Offset of the register that was read.
    pub offset: u32,
}

/// An interrupt, found by its handler's reads or recorded as such.
#[derive(Clone, Copy, Debug)]
pub struct Interrupt {
    /// First event of the handler.
    pub event: u64,
    /// Name of the line.
    pub line: &'static str,
    /// Status bits.
    pub status: u64,
}

/// A job of a chain.
#[derive(Clone, Debug, Default)]
pub struct ChainJob {
    /// GPU address of its header.
    pub va: u64,
    /// Its type in words, or why the header does not decode.
    pub kind: String,
    /// Whether the header decodes.
    pub decoded: bool,
    /// Workgroups and workgroup size.
    pub dispatch: Option<([u32; 3], [u32; 3])>,
    /// Shader address.
    pub shader: Option<u64>,
    /// Fields of the header in words: name and value.
    pub fields: Vec<(String, String)>,
}

/// Work from its submit to its end.
#[derive(Clone, Debug)]
pub struct JobFact {
    /// Index in order of submit.
    pub index: u32,
    /// Job slot.
    pub slot: u8,
    /// Event of the submit write.
    pub submit: u64,
    /// First event of the handler of its interrupt.
    pub done: Option<u64>,
    /// Address of the first job of the chain.
    pub head_va: u64,
    /// Nanoseconds from submit to interrupt.
    pub duration_ns: Option<u64>,
    /// Whether it ended in a fault.
    pub failed: bool,
    /// The chain as memory holds it.
    pub chain: Vec<ChainJob>,
    /// How the chain ends, when not in good order.
    pub end: Option<String>,
}

/// A phase of the recording.
#[derive(Clone, Debug)]
pub struct PhaseFact {
    /// Its name.
    pub name: String,
    /// First event.
    pub first: u64,
    /// Last event.
    pub last: u64,
}

/// What a recording holds of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Mapped, and the recording does not hold it.
    None,
    /// All zero.
    Zero,
    /// Data.
    Data,
}

/// Mapped pages one after another with the same rights and kind of content.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// First byte.
    pub va: u64,
    /// Number of 4 KiB pages.
    pub pages: u64,
    /// Rights: bit 0 read, bit 1 write, bit 2 execute.
    pub rights: u8,
    /// What the recording holds of them.
    pub content: Content,
}

impl Run {
    /// One past the last byte.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.va.saturating_add(self.pages.saturating_mul(4096))
    }
}

/// `rwx` as letters.
#[must_use]
pub fn rights_text(rights: u8) -> String {
    [(1, 'r'), (2, 'w'), (4, 'x')]
        .iter()
        .map(|(b, c)| if rights & b != 0 { *c } else { '-' })
        .collect()
}

/// An address space as the window shows it.
#[derive(Clone, Debug, Default)]
pub struct SpaceFact {
    /// Hardware number.
    pub number: u8,
    /// Format of the tables, in words.
    pub format: String,
    /// Physical address of the top table.
    pub root: u64,
    /// Mappings: ascending, next to each other with the same rights are one.
    pub mappings: Vec<Run>,
    /// The same cut where the content changes.
    pub runs: Vec<Run>,
    /// Why the tables could not be read to their end.
    pub problem: Option<String>,
}

impl SpaceFact {
    /// Number of mapped pages.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.mappings.iter().map(|m| m.pages).sum()
    }

    /// Pages of this content.
    #[must_use]
    pub fn pages_with(&self, content: Content) -> u64 {
        self.runs.iter().filter(|r| r.content == content).map(|r| r.pages).sum()
    }

    /// The mapping that holds an address.
    #[must_use]
    pub fn mapping_at(&self, va: u64) -> Option<&Run> {
        let n = self.mappings.partition_point(|m| m.va <= va);
        self.mappings.get(n.checked_sub(1)?).filter(|m| va < m.end())
    }
}

/// A register as the recording uses it.
#[derive(Clone, Debug)]
pub struct RegisterFact {
    /// Its name, or its offset in hex.
    pub name: String,
    /// Its block.
    pub block: String,
    /// Events that access it, in order.
    pub events: Vec<u32>,
}

/// What is known.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Where events lie in time.
    pub axis: Axis,
    /// Lanes by block of registers.
    pub lanes: Vec<Lane>,
    /// Registers by offset.
    pub registers: BTreeMap<u32, RegisterFact>,
    /// Polls, by first event.
    pub polls: Vec<Fold>,
    /// Interrupts, by event.
    pub interrupts: Vec<Interrupt>,
    /// Jobs, by submit.
    pub jobs: Vec<JobFact>,
    /// Phases, in order.
    pub phases: Vec<PhaseFact>,
    /// Idle gaps: event after which, nanoseconds.
    pub gaps: Vec<(u64, u64)>,
    /// Address spaces.
    pub spaces: Vec<SpaceFact>,
    /// Findings.
    pub findings: Vec<Finding>,
    /// What could not be found out, and why.
    pub gaps_in_knowledge: Vec<String>,
}

impl Facts {
    /// The poll that an event is part of.
    #[must_use]
    pub fn poll_at(&self, event: u64) -> Option<&Fold> {
        let n = self.polls.partition_point(|p| p.first <= event);
        self.polls.get(n.checked_sub(1)?).filter(|p| event <= p.last)
    }

    /// The job that runs at an event: submitted at or before it, not yet done before it.
    #[must_use]
    pub fn job_at(&self, event: u64) -> Option<&JobFact> {
        let n = self.jobs.partition_point(|j| j.submit <= event);
        self.jobs[..n]
            .iter()
            .rev()
            .take(8)
            .find(|j| j.done.is_none_or(|d| event <= d))
    }

    /// The phase of an event.
    #[must_use]
    pub fn phase_at(&self, event: u64) -> Option<&PhaseFact> {
        self.phases.iter().find(|p| p.first <= event && event <= p.last)
    }

    /// The interrupt whose handler starts at an event.
    #[must_use]
    pub fn interrupt_at(&self, event: u64) -> Option<&Interrupt> {
        let at = self.interrupts.binary_search_by_key(&event, |i| i.event).ok()?;
        self.interrupts.get(at)
    }

    /// Name of the register at an offset.
    #[must_use]
    pub fn register_name(&self, offset: u32) -> String {
        self.registers
            .get(&offset)
            .map_or_else(|| format!("{offset:#06x}"), |r| r.name.clone())
    }

    /// The offset of the register of this name.
    #[must_use]
    pub fn register_named(&self, name: &str) -> Option<u32> {
        self.registers
            .iter()
            .find(|(_, r)| r.name.eq_ignore_ascii_case(name))
            .map(|(o, _)| *o)
    }
}

/// The name that a buffer covers an address with, and the distance into it.
#[must_use]
pub fn buffer_at(recording: &Recording, space: u32, va: u64) -> Option<(&str, u64)> {
    recording
        .facts
        .buffers
        .iter()
        .filter(|b| b.address_space == space && b.va.0 <= va && va - b.va.0 < b.bytes)
        .min_by_key(|b| b.bytes)
        .map(|b| (b.name.as_str(), va - b.va.0))
}
