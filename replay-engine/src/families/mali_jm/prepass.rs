//! Pre-pass over a whole recording before its events are translated: polls, complete root registers, interrupts whose
//! status reads as 0.

use std::collections::{BTreeMap, HashMap};
use trace_core::families::mali_jm::AS_UPDATE;
use trace_core::recording::InterruptLine;
use trace_core::registers::{Half, ReadRule, Register, RegisterMap, Role};
use trace_core::{Recording, RegOffset};

/// Number of accesses after an interrupt status read in which its acknowledgement is searched.
const HANDLER: usize = 64;

/// The last values written to registers whose meaning spans several writes.
#[derive(Default)]
pub(super) struct WrittenRegisters {
    pub values: HashMap<RegOffset, u64>,
}

impl WrittenRegisters {
    pub fn get(&self, offset: RegOffset) -> u64 {
        self.values.get(&offset).copied().unwrap_or(0)
    }

    /// Returns the 64-bit value of the pair that `r` is a half of.
    pub fn pair(&self, r: &Register) -> u64 {
        match r.pair {
            Some(Half::Low { high_offset }) => self.get(r.offset) | self.get(high_offset) << 32,
            Some(Half::High { low_offset }) => self.get(low_offset) | self.get(r.offset) << 32,
            None => self.get(r.offset),
        }
    }
}

/// A run of consecutive reads of one register.
struct ReadRun {
    last: usize,
    reads: u32,
    value: u64,
    /// Number of writes to the register's block before it was read.
    writes: u32,
}

/// Finds polls, by their last event: a run of reads of a polled register, joined with earlier runs of the same poll
/// that are separated by another thread's accesses. A poll ends when its block is written or its value was reached.
pub(super) fn find_polls(recording: &Recording, map: &RegisterMap) -> BTreeMap<usize, u32> {
    let mut runs: HashMap<RegOffset, Vec<ReadRun>> = HashMap::new();
    let mut writes: HashMap<(&str, Option<u8>), u32> = HashMap::new();
    let mut before: Option<RegOffset> = None;
    for at in 0..recording.events.len() {
        let Some(a) = recording.events.access(at) else { continue };
        let Some(r) = map.at(a.offset).filter(|_| a.space == 0) else {
            before = None;
            continue;
        };
        let block = (r.block.as_str(), r.index);
        if a.write {
            *writes.entry(block).or_default() += 1;
        }
        if a.write || r.replay.read != ReadRule::Until {
            before = None;
            continue;
        }
        let of = runs.entry(a.offset).or_default();
        match of.last_mut().filter(|_| before == Some(a.offset)) {
            Some(run) => {
                run.last = at;
                run.reads = run.reads.saturating_add(1);
                run.value = a.value;
            }
            None => {
                let writes = writes.get(&block).copied().unwrap_or(0);
                of.push(ReadRun {
                    last: at,
                    reads: 1,
                    value: a.value,
                    writes,
                });
            }
        }
        before = Some(a.offset);
    }
    let mut out = BTreeMap::new();
    for of in runs.into_values() {
        let mut later: Option<ReadRun> = None;
        for run in of.into_iter().rev() {
            match &mut later {
                Some(l) if l.writes == run.writes && l.value != run.value => {
                    l.reads = l.reads.saturating_add(run.reads);
                }
                _ => {
                    if let Some(l) = later.replace(run) {
                        out.insert(l.last, l.reads);
                    }
                }
            }
        }
        if let Some(l) = later {
            out.insert(l.last, l.reads);
        }
    }
    out
}

/// Finds the 64-bit value that each write of half a root register belongs to: the contents of the pair when a command
/// of its address space puts it to use, or at the end.
pub(super) fn find_roots(recording: &Recording, map: &RegisterMap) -> HashMap<usize, u64> {
    let mut written = WrittenRegisters::default();
    let mut waiting: HashMap<Option<u8>, Vec<(usize, RegOffset)>> = HashMap::new();
    let mut out = HashMap::new();
    let mut settle = |written: &WrittenRegisters, list: Vec<(usize, RegOffset)>| {
        for (at, offset) in list {
            if let Some(r) = map.at(offset) {
                out.insert(at, written.pair(r));
            }
        }
    };
    for at in 0..recording.events.len() {
        let Some(a) = recording.events.access(at).filter(|a| a.write && a.space == 0) else {
            continue;
        };
        let Some(r) = map.at(a.offset) else { continue };
        match r.replay.role {
            Some(Role::Root) => {
                written.values.insert(a.offset, a.value);
                waiting.entry(r.index).or_default().push((at, a.offset));
            }
            Some(Role::AsCommand) if a.value == AS_UPDATE => {
                settle(&written, waiting.remove(&r.index).unwrap_or_default());
            }
            _ => {}
        }
    }
    for list in waiting.into_values() {
        settle(&written, list);
    }
    out
}

/// Finds the bits that a handler acknowledged although its interrupt status read, event `at`, shows none: its thread's
/// next access to the status of this line must clear them. A read of 0 without a following clear checks a line that was
/// not raised, and belongs to no handler.
pub(super) fn find_acknowledged(
    recording: &Recording,
    map: &RegisterMap,
    at: usize,
    line: InterruptLine,
) -> Option<u64> {
    let thread = recording.events.thread.get(at);
    let same_thread = |event: &usize| recording.events.thread.get(*event) == thread;
    let end = at.saturating_add(HANDLER).min(recording.events.len().saturating_sub(1));
    for event in (at + 1..=end).filter(same_thread) {
        let Some(a) = recording.events.access(event).filter(|a| a.space == 0) else {
            continue;
        };
        match map.at(a.offset).and_then(|r| r.replay.role) {
            Some(Role::IrqClear(of)) if of == line && a.write => return Some(a.value).filter(|v| *v != 0),
            Some(Role::IrqStatus(of)) if of == line => return None,
            _ => {}
        }
    }
    None
}
