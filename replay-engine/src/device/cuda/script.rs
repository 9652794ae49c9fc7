//! What a replay of calls does, step by step, as it follows from a recording; nothing of the device yet.

use super::error::CudaReplayError;
use std::collections::{BTreeMap, BTreeSet};
use trace_core::recording::{
    AllocationKind, CALL_ASYNC, CALL_CAPTURED, CallEvent, CallFacts, CopyKind, CopyRow, FillRow, LaunchRow, NO_CONTENT,
    OrderKind, OrderRow, Recording,
};

/// Bytes that memory is mapped in.
pub(super) const GRANULE: u64 = 2 << 20;
/// How inputs are called that a snapshot took down.
const MEMORY: &str = "memory";
/// How outputs are called that a snapshot took down.
const AFTER: &str = "after";

/// What a copy moves between the host and the device.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// The event.
    pub event: u64,
    /// Name for a person: `in3`, `out0`.
    pub name: String,
    /// The copy as it was recorded.
    pub row: CopyRow,
    /// Whether it is what a snapshot took down, and no copy of the program's.
    pub snapshot: bool,
}

/// A step.
#[derive(Clone, Debug)]
pub enum Step {
    /// Bytes go to the device: the transfer of this number among [`Script::inputs`].
    Input(usize),
    /// Bytes come from the device: the transfer of this number among [`Script::outputs`].
    Output(usize),
    /// Memory of the device is copied on it.
    Copy(CopyRow),
    /// Memory is set.
    Fill(FillRow),
    /// A function is launched, with its arguments.
    Launch(LaunchRow, Vec<u8>),
    /// An order.
    Order(OrderRow),
}

impl Step {
    /// Whether a function is launched.
    #[must_use]
    pub fn is_launch(&self) -> bool {
        matches!(self, Self::Launch(..))
    }
}

/// The steps of a recording of calls.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// What the recording tells of its calls.
    pub facts: CallFacts,
    /// The steps, each with its event.
    pub steps: Vec<(u64, Step)>,
    /// How many of the first steps put in place what memory holds at first; as many of the first inputs are theirs.
    pub first: usize,
    /// How many steps there are before those at the end that take memory down alone.
    pub last: usize,
    /// Bytes that go to the device, in the order of their events.
    pub inputs: Vec<Transfer>,
    /// Bytes that come from the device, likewise.
    pub outputs: Vec<Transfer>,
    /// Ranges of addresses that have memory: first byte and bytes, whole granules, apart from each other.
    pub ranges: Vec<(u64, u64)>,
    /// What is left out, in words.
    pub left_out: Vec<String>,
}

impl Script {
    /// The steps of a recording.
    ///
    /// # Errors
    /// When it is no recording of calls, or names what it does not hold.
    pub fn of(recording: &Recording) -> Result<Self, CudaReplayError> {
        let facts = recording.call_facts().filter(|f| f.api == "cuda");
        let mut script = Self {
            facts: facts.ok_or(CudaReplayError::NotCalls)?,
            ..Default::default()
        };
        let mut ranges: BTreeMap<u64, u64> = BTreeMap::new();
        let mut names = Names::default();
        let (mut unheld, mut arrays, mut functions) = (0u64, 0u64, 0u64);
        let mut at_begin = false;
        for at in 0..recording.events.len() {
            let event = at as u64;
            let Some(call) = recording.events.call(at) else {
                continue;
            };
            let damaged = |what: &str| CudaReplayError::Damaged {
                event,
                what: what.to_owned(),
            };
            if call.result() != 0 {
                continue;
            }
            match call {
                CallEvent::Allocation(a) => {
                    if AllocationKind::from_raw(a.kind).is_some_and(AllocationKind::takes_device) && a.bytes > 0 {
                        ranges.insert(a.at, a.bytes.max(ranges.get(&a.at).copied().unwrap_or(0)));
                    }
                }
                CallEvent::Call(c) => {
                    let name = script.facts.names.get(c.name as usize).map_or("", String::as_str);
                    at_begin = matches!(name, "snapshot at the begin" | "snapshot before launch");
                }
                CallEvent::Copy(c) if c.flags & CALL_CAPTURED != 0 => {}
                CallEvent::Copy(c) => {
                    c.total().ok_or_else(|| damaged("a copy of too many bytes"))?;
                    let held = c.pages_at != NO_CONTENT;
                    // A snapshot's copies are of no stream: those at the begin are what memory holds at first.
                    let first = at_begin && c.stream == OrderRow::NONE;
                    // Variables lie where their module is loaded.
                    let mut variables = script.facts.modules.iter().flat_map(|m| &m.globals);
                    if first && !variables.any(|g| c.from.checked_sub(g.at).is_some_and(|n| n < g.bytes)) {
                        ranges.insert(c.from, c.bytes.max(ranges.get(&c.from).copied().unwrap_or(0)));
                    }
                    match CopyKind::from_raw(c.kind) {
                        _ if c.bytes == 0 || c.rows == 0 => {}
                        Some(CopyKind::DeviceToHost) if first => {
                            let row = CopyRow {
                                to: c.from,
                                from: 0,
                                kind: CopyKind::HostToDevice as u32,
                                stream: 0,
                                ..c
                            };
                            script.input(event, MEMORY, row, held, &mut names, &mut unheld);
                        }
                        Some(CopyKind::HostToDevice) => script.input(event, "in", c, held, &mut names, &mut unheld),
                        Some(CopyKind::DeviceToHost) => {
                            let snapshot = c.stream == OrderRow::NONE;
                            let stream = if snapshot { 0 } else { c.stream };
                            let (row, n) = (CopyRow { stream, ..c }, script.outputs.len());
                            script.outputs.push(Transfer {
                                event,
                                name: names.each(if snapshot { AFTER } else { "out" }, c.from, c.total()),
                                row,
                                snapshot,
                            });
                            script.steps.push((event, Step::Output(n)));
                        }
                        Some(CopyKind::DeviceToDevice) => script.steps.push((event, Step::Copy(c))),
                        Some(CopyKind::Other) | None => arrays += 1,
                    }
                }
                CallEvent::Fill(f) if f.flags & CALL_CAPTURED == 0 => script.steps.push((event, Step::Fill(f))),
                CallEvent::Launch(l) if l.flags & CALL_CAPTURED == 0 => {
                    let arguments = recording.events.call_arguments(l.arguments_at, l.arguments);
                    let arguments = arguments.ok_or_else(|| damaged("a launch whose arguments are not in the file"))?;
                    if script.facts.functions.get(l.function as usize).is_none() {
                        return Err(damaged("a launch of a function that the recording does not list"));
                    }
                    script.steps.push((event, Step::Launch(l, arguments)));
                }
                CallEvent::Order(o) if o.flags & CALL_CAPTURED == 0 => {
                    if OrderKind::from_raw(o.kind) == Some(OrderKind::HostFunction) {
                        functions += 1;
                    } else {
                        script.steps.push((event, Step::Order(o)));
                    }
                }
                CallEvent::Fill(_) | CallEvent::Launch(_) | CallEvent::Order(_) => {}
            }
        }
        let mut leave = |n: u64, what: &str| {
            if n > 0 {
                script.left_out.push(format!("{n} {what}"));
            }
        };
        leave(unheld, "copies to the device whose content the recording does not hold");
        leave(arrays, "copies to or from arrays");
        leave(functions, "functions of the host");
        script.ranges = granules(&ranges);
        script.hoist_variables();
        script.first = script.leading();
        script.last = script.steps.len() - script.trailing();
        Ok(script)
    }

    /// Inputs in front of everything else that a snapshot took down.
    pub(super) fn leading(&self) -> usize {
        let is_memory = |n: usize| self.inputs.get(n).is_some_and(|t| t.snapshot);
        let first = |(_, s): &&(u64, Step)| matches!(s, Step::Input(n) if is_memory(*n));
        self.steps.iter().take_while(first).count()
    }

    /// Outputs behind everything else that a snapshot took down.
    fn trailing(&self) -> usize {
        let is_memory = |n: usize| self.outputs.get(n).is_some_and(|t| t.snapshot);
        let last = |(_, s): &&(u64, Step)| matches!(s, Step::Output(n) if is_memory(*n));
        let behind = self.steps.get(self.first..).unwrap_or_default();
        behind.iter().rev().take_while(last).count()
    }

    /// Takes away the steps at the end that take memory down alone, with their outputs.
    pub fn forget_memory_behind(&mut self) {
        let outputs = self.steps.iter().skip(self.last).filter_map(|(_, s)| match s {
            Step::Output(n) => Some(*n),
            _ => None,
        });
        // Outputs are numbered in the order of their steps: those at the end are the last ones.
        if let Some(least) = outputs.min() {
            self.outputs.truncate(least);
        }
        self.steps.truncate(self.last);
    }

    /// Whether the program itself brought something back.
    #[must_use]
    pub fn has_own_outputs(&self) -> bool {
        self.outputs.iter().any(|t| !t.snapshot)
    }

    /// Names of inputs, each once, in the order of their first use; what memory holds at first is not among them.
    #[must_use]
    pub fn input_names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let mut seen = BTreeSet::new();
        for t in self.inputs.iter().filter(|t| !t.snapshot) {
            if seen.insert(t.name.as_str()) {
                names.push(t.name.clone());
            }
        }
        names
    }

    /// Numbers of the functions that are launched.
    pub fn launched(&self) -> impl Iterator<Item = u32> + '_ {
        self.steps.iter().filter_map(|(_, s)| match s {
            Step::Launch(l, _) => Some(l.function),
            _ => None,
        })
    }

    fn input(&mut self, event: u64, word: &str, row: CopyRow, held: bool, names: &mut Names, unheld: &mut u64) {
        if !held {
            *unheld += 1;
            return;
        }
        let n = self.inputs.len();
        self.inputs.push(Transfer {
            event,
            name: names.of(word, row.to, row.total()),
            snapshot: word == MEMORY,
            row,
        });
        self.steps.push((event, Step::Input(n)));
    }

    /// Launches among the steps.
    #[must_use]
    pub fn launches(&self) -> u64 {
        self.steps.iter().filter(|(_, s)| matches!(s, Step::Launch(..))).count() as u64
    }

    /// The stream of a copy between host and device that the program's call waited for; `None` for all other steps.
    #[must_use]
    pub fn waited(&self, step: &Step) -> Option<u32> {
        let transfer = match step {
            Step::Input(n) => self.inputs.get(*n),
            Step::Output(n) => self.outputs.get(*n),
            _ => None,
        };
        transfer.filter(|t| t.row.flags & CALL_ASYNC == 0).map(|t| t.row.stream)
    }
}

/// Names of transfers: each place on the device is one buffer, numbered in the order of its first use. What goes there
/// again goes into the same input; what comes from there again is another output.
#[derive(Default)]
struct Names {
    known: BTreeMap<(String, u64, Option<u64>), usize>,
    counts: BTreeMap<String, usize>,
    times: BTreeMap<String, usize>,
}

impl Names {
    fn of(&mut self, word: &str, at: u64, bytes: Option<u64>) -> String {
        let key = (word.to_owned(), at, bytes);
        let n = match self.known.get(&key) {
            Some(n) => *n,
            None => {
                let count = self.counts.entry(word.to_owned()).or_default();
                *count += 1;
                self.known.insert(key, *count - 1);
                *count - 1
            }
        };
        format!("{word}{n}")
    }

    /// As [`Names::of`], and told apart from what came from the same place before: `out0`, `out0.1`, `out0.2`.
    fn each(&mut self, word: &str, at: u64, bytes: Option<u64>) -> String {
        let name = self.of(word, at, bytes);
        let times = self.times.entry(name.clone()).or_default();
        *times += 1;
        match *times - 1 {
            0 => name,
            n => format!("{name}.{n}"),
        }
    }
}

/// Whole granules that cover all of the ranges, joined where they meet.
fn granules(ranges: &BTreeMap<u64, u64>) -> Vec<(u64, u64)> {
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (at, bytes) in ranges {
        let first = at - at % GRANULE;
        let Some(end) = at.checked_add(*bytes).and_then(|e| e.checked_next_multiple_of(GRANULE)) else {
            continue;
        };
        match joined.last_mut() {
            Some((from, length)) if first <= *from + *length => *length = (*length).max(end - *from),
            _ => joined.push((first, end - first)),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_become_whole_granules_apart_from_each_other() {
        let g = GRANULE;
        let ranges = BTreeMap::from([(g + 5, 10), (g + 600, g), (5 * g, 1), (9 * g - 1, 2), (u64::MAX - 3, 2)]);
        assert_eq!(granules(&ranges), [(g, 2 * g), (5 * g, g), (8 * g, 2 * g)]);
    }

    #[test]
    fn a_place_keeps_its_name() {
        let mut n = Names::default();
        assert_eq!(n.of("in", 0x1000, Some(4)), "in0");
        assert_eq!(n.of("in", 0x2000, Some(4)), "in1");
        assert_eq!(n.of("out", 0x1000, Some(4)), "out0");
        assert_eq!(n.of("in", 0x1000, Some(4)), "in0");
        assert_eq!(n.of("in", 0x1000, Some(8)), "in2");
        assert_eq!(n.each("out", 0x3000, Some(4)), "out1");
        assert_eq!(n.each("out", 0x3000, Some(4)), "out1.1");
        assert_eq!(n.each("out", 0x3000, Some(4)), "out1.2");
    }
}
