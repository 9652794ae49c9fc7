//! The steps of an API-trace replay, derived from a recording, independent of the device.

mod read;

use super::error::CudaReplayError;
use std::collections::{BTreeMap, BTreeSet};
use trace_core::GpuVa;
use trace_core::api_trace::Annotations;
use trace_core::progress::Progress;
use trace_core::recording::{
    ApiTraceMetadata, BufferShape, CALL_ASYNC, CopyRow, FillRow, LaunchRow, OrderRow, Recording,
};

/// Granularity of memory mappings, bytes.
pub(super) const GRANULE: u64 = 2 << 20;
/// Name of the call that maps existing memory at a second address. Its values are the second address, the length in
/// bytes and the first address.
pub const MAPPED_TWICE: &str = "cuMemMap";

/// A copy between the host and the device.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// The event.
    pub event: u64,
    /// Display name: `in3`, `out0`, or the name that the program gave to the memory.
    pub name: String,
    /// The recorded copy.
    pub row: CopyRow,
    /// Whether it comes from a snapshot of the recorder and not from the program.
    pub snapshot: bool,
}

/// A step.
#[derive(Clone, Debug)]
pub enum Step {
    /// A host-to-device copy: the index in [`Script::inputs`].
    Input(usize),
    /// A device-to-host copy: the index in [`Script::outputs`].
    Output(usize),
    /// A copy within device memory.
    Copy(CopyRow),
    /// A memory fill.
    Fill(FillRow),
    /// A kernel launch, with its arguments.
    Launch(LaunchRow, Vec<u8>),
    /// A stream or event operation.
    Order(OrderRow),
}

impl Step {
    /// Returns whether the step is a kernel launch.
    #[must_use]
    pub fn is_launch(&self) -> bool {
        matches!(self, Self::Launch(..))
    }
}

/// An address range that aliases the memory of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryAlias {
    /// First address.
    pub at: GpuVa,
    /// Number of bytes.
    pub bytes: u64,
    /// First address of the other range, which is one of [`Script::ranges`].
    pub of: GpuVa,
}

/// Device memory that the program allocated, or that existed when the range started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptBuffer {
    /// First address.
    pub at: GpuVa,
    /// Number of bytes.
    pub bytes: u64,
    /// The first event of its lifetime.
    pub from: u64,
    /// The event that ends its lifetime, or `None` if it exists at the end.
    pub to: Option<u64>,
}

/// Why a recording cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The event that cannot be replayed.
    pub event: u64,
    /// The reason.
    pub why: String,
}

/// The steps of an API trace.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// The metadata of the recorded calls.
    pub metadata: ApiTraceMetadata,
    /// Ranges, and names of memory, that the program gave.
    pub annotations: Annotations,
    /// The steps, each with its event.
    pub steps: Vec<(u64, Step)>,
    /// Number of first steps that write the initial memory contents. The same number of first inputs belong to them.
    pub first: usize,
    /// Number of steps before the final ones that only record memory.
    pub last: usize,
    /// Host-to-device copies, in event order.
    pub inputs: Vec<Transfer>,
    /// Device-to-host copies, in event order.
    pub outputs: Vec<Transfer>,
    /// Address ranges with memory: first byte and length in bytes, whole granules, disjoint.
    pub ranges: Vec<(GpuVa, u64)>,
    /// Ranges that alias the memory of others; disjoint from [`Script::ranges`].
    pub same: Vec<MemoryAlias>,
    /// Ranges of memory shared by host and device, as [`Script::ranges`]. They may have other addresses in a replay.
    pub shared: Vec<(GpuVa, u64)>,
    /// Contents of [`Script::shared`]: first byte and length in bytes of each part.
    pub shared_parts: Vec<(GpuVa, u64)>,
    /// Device memory, ordered by the first event of its lifetime.
    pub buffers: Vec<ScriptBuffer>,
    /// What was left out, as messages.
    pub left_out: Vec<String>,
}

impl Script {
    /// Derives the steps of a recording.
    ///
    /// # Errors
    /// If it is not an API trace, or refers to data that it does not hold.
    pub fn new(recording: &Recording) -> Result<Self, CudaReplayError> {
        Self::read(recording, &Progress::new())
    }

    /// Derives the steps like [`Self::new`], with progress and cancellation.
    ///
    /// # Errors
    /// Same as [`Self::new`], and if it was cancelled.
    pub fn read(recording: &Recording, progress: &Progress) -> Result<Self, CudaReplayError> {
        read::read(recording, progress)
    }

    /// Returns the first bytes of the ranges that steps access on the device: by copies, fills or addresses in
    /// arguments.
    fn find_reached_ranges(&self, ranges: &BTreeMap<u64, u64>) -> BTreeSet<u64> {
        let mut found = BTreeSet::new();
        let (Some((first, _)), Some((last, bytes))) = (ranges.first_key_value(), ranges.last_key_value()) else {
            return found;
        };
        let all = *first..last.saturating_add(*bytes);
        let mut meet = |at: u64| {
            if all.contains(&at)
                && let Some((from, bytes)) = ranges.range(..=at).next_back()
                && at - from < *bytes
            {
                found.insert(*from);
            }
        };
        for (_, step) in &self.steps {
            match step {
                Step::Launch(_, arguments) => {
                    for word in arguments.as_chunks::<8>().0 {
                        meet(u64::from_le_bytes(*word));
                    }
                }
                Step::Order(_) => {}
                other => self.list_touched_ranges(other).iter().for_each(|(at, _)| meet(*at)),
            }
        }
        found
    }

    /// Returns first byte and length in bytes of the device ranges that a copy or a fill accesses.
    pub(super) fn list_touched_ranges(&self, step: &Step) -> Vec<(u64, u64)> {
        let rows = |at: u64, row: u64, rows: u64, pitch: u64| {
            let bytes = rows.saturating_sub(1).saturating_mul(pitch).saturating_add(row);
            (at, if row == 0 || rows == 0 { 0 } else { bytes })
        };
        let of_fill = |row: &FillRow| {
            rows(
                row.to.get(),
                row.row_bytes().unwrap_or(u64::MAX),
                row.rows.max(1),
                row.pitch,
            )
        };
        let to = |row: &CopyRow| rows(row.to, row.bytes, row.rows, row.to_pitch);
        let from = |row: &CopyRow| rows(row.from, row.bytes, row.rows, row.from_pitch);
        match step {
            Step::Input(n) => self.inputs.get(*n).map(|t| to(&t.row)).into_iter().collect(),
            Step::Output(n) => self.outputs.get(*n).map(|t| from(&t.row)).into_iter().collect(),
            Step::Copy(row) => vec![to(row), from(row)],
            Step::Fill(row) => vec![of_fill(row)],
            Step::Launch(..) | Step::Order(_) => Vec::new(),
        }
    }

    /// Returns the numbers of the modules whose variables are accessed by copies or fills, if their code is available.
    /// They are loaded even if no function of them is launched.
    pub(super) fn touched_modules(&self) -> BTreeSet<usize> {
        let has_code = |n: &usize| self.metadata.modules.get(*n).is_some_and(|m| !m.pages.is_empty());
        let touched = self.touched_variables();
        touched.iter().map(|(module, ..)| *module).filter(has_code).collect()
    }

    /// Returns first byte and length in bytes of variables that copies or fills access, in modules without recorded
    /// code because no function of them is launched. They are treated as ordinary memory.
    fn idle_variables(&self) -> Vec<(u64, u64)> {
        let is_idle = |n: usize| self.metadata.modules.get(n).is_some_and(|m| m.pages.is_empty());
        let touched = self.touched_variables();
        let idle = touched.iter().filter(|(module, ..)| is_idle(*module));
        idle.map(|(_, at, bytes)| (*at, *bytes)).collect()
    }

    /// Returns module, first byte and length in bytes of the variables that copies or fills access.
    fn touched_variables(&self) -> BTreeSet<(usize, u64, u64)> {
        let globals = self.metadata.modules.iter().enumerate();
        let globals = globals.flat_map(|(n, m)| m.globals.iter().map(move |g| (g.at.get(), (g.bytes, n))));
        let by_address: BTreeMap<u64, (u64, usize)> = globals.collect();
        let mut found = BTreeSet::new();
        if by_address.is_empty() {
            return found;
        }
        for (_, step) in &self.steps {
            for (at, _) in self.list_touched_ranges(step) {
                if let Some((from, (bytes, module))) = by_address.range(..=at).next_back()
                    && at - from < *bytes
                {
                    found.insert((*module, *from, *bytes));
                }
            }
        }
        found
    }

    /// Returns the number of bytes that a replay maps.
    #[must_use]
    pub fn mapped_bytes(&self) -> Option<u64> {
        let all = self.ranges.iter().chain(&self.shared);
        all.map(|(_, bytes)| *bytes).try_fold(0u64, u64::checked_add)
    }

    /// Returns the first step that cannot be replayed, with the reason, or `None`. Such a step accesses memory that the
    /// recording does not describe, or launches a function without code or arguments.
    #[must_use]
    pub fn obstacle(&self) -> Option<Obstacle> {
        let mapped = self.ranges.iter().chain(&self.shared);
        let mut known: Vec<(u64, u64)> = mapped.map(|(at, bytes)| (at.get(), *bytes)).collect();
        known.extend(self.same.iter().map(|s| (s.at.get(), s.bytes)));
        known.extend(
            self.metadata
                .modules
                .iter()
                .flat_map(|m| &m.globals)
                .map(|g| (g.at.get(), g.bytes)),
        );
        known.sort_unstable();
        let is_known = |at: u64, bytes: u64| {
            let end = at.saturating_add(bytes);
            let mut reached = at;
            while reached < end {
                let n = known.partition_point(|k| k.0 <= reached);
                match n.checked_sub(1).and_then(|n| known.get(n)) {
                    Some((from, length)) if reached - from < *length => reached = from.saturating_add(*length),
                    _ => return false,
                }
            }
            true
        };
        self.steps.iter().find_map(|(event, step)| {
            let why = match step {
                Step::Launch(row, arguments) => self.cannot_launch(row, arguments)?,
                Step::Order(_) => return None,
                _ => {
                    let all = self.list_touched_ranges(step);
                    let (at, bytes) = all.iter().find(|(at, bytes)| !is_known(*at, *bytes))?;
                    format!("it accesses {bytes} bytes at {at:#x}, in memory that the recording does not contain")
                }
            };
            Some(Obstacle { event: *event, why })
        })
    }

    fn cannot_launch(&self, row: &LaunchRow, arguments: &[u8]) -> Option<String> {
        let function = self.metadata.functions.get(row.function as usize)?;
        let name = function.display_name();
        if arguments.is_empty() && !function.parameters.is_empty() {
            return Some(format!("the arguments of {name} are not in the recording"));
        }
        let module = match function.module {
            Some(n) => self.metadata.modules.get(n as usize),
            None => return Some(format!("the recording does not name the module of {name}")),
        };
        match module {
            Some(module) if !module.missing.is_empty() => Some(format!(
                "the code of {name} is not in the recording: {}",
                module.missing
            )),
            Some(module) if module.pages.is_empty() => {
                Some(format!("the code of {name} is incomplete in the recording"))
            }
            Some(_) => None,
            None => Some(format!("the module of {name} is not in the recording's list")),
        }
    }

    /// Splits off ranges whose memory is mapped twice, and the ranges that are mapped to it.
    fn share(&mut self, same: BTreeMap<u64, MemoryAlias>) -> Result<(), CudaReplayError> {
        for s in same.values() {
            let is_whole = s.bytes > 0
                && [s.at.get(), s.bytes, s.of.get()]
                    .iter()
                    .all(|n| n.is_multiple_of(GRANULE));
            let ends = s.at.checked_add(s.bytes).zip(s.of.checked_add(s.bytes));
            let Some((end, of_end)) = ends.filter(|_| is_whole && !same.contains_key(&s.of.get())) else {
                return Err(CudaReplayError::Damaged {
                    event: 0,
                    what: format!("the memory at {:#x} cannot also be the memory at {:#x}", s.at, s.of),
                });
            };
            cut(&mut self.ranges, s.at, end, false);
            cut(&mut self.ranges, s.of, of_end, true);
            self.same.push(*s);
        }
        Ok(())
    }

    /// Returns the number of snapshot inputs before all other steps.
    pub(super) fn count_leading_inputs(&self) -> usize {
        let is_memory = |n: usize| self.inputs.get(n).is_some_and(|t| t.snapshot);
        let first = |(_, s): &&(u64, Step)| matches!(s, Step::Input(n) if is_memory(*n));
        self.steps.iter().take_while(first).count()
    }

    /// Returns the number of snapshot outputs after all other steps.
    fn trailing(&self) -> usize {
        let is_memory = |n: usize| self.outputs.get(n).is_some_and(|t| t.snapshot);
        let last = |(_, s): &&(u64, Step)| matches!(s, Step::Output(n) if is_memory(*n));
        let behind = self.steps.get(self.first..).unwrap_or_default();
        behind.iter().rev().take_while(last).count()
    }

    /// Removes the final steps that only record memory, with their outputs.
    pub fn forget_memory_behind(&mut self) {
        let outputs = self.steps.iter().skip(self.last).filter_map(|(_, s)| match s {
            Step::Output(n) => Some(*n),
            _ => None,
        });
        // Outputs are numbered in the order of their steps, so those at the end are the last ones.
        if let Some(min) = outputs.min() {
            self.outputs.truncate(min);
        }
        self.steps.truncate(self.last);
    }

    /// Returns whether the program itself copied data to the host.
    #[must_use]
    pub fn has_own_outputs(&self) -> bool {
        self.outputs.iter().any(|t| !t.snapshot)
    }

    /// Returns the element type and the shape of a transfer's content, if the program named the memory with a type.
    #[must_use]
    pub fn shape_of(&self, transfer: &Transfer) -> Option<&BufferShape> {
        let named = self
            .annotations
            .name_of(transfer.row.device(), transfer.row.total()?, transfer.event)?;
        named.name.form.as_ref()
    }

    /// Returns the names of inputs, each once, in the order of first use, without the initial memory contents.
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

    /// Returns the numbers of the launched functions.
    pub fn list_launched_functions(&self) -> impl Iterator<Item = u32> + '_ {
        self.steps.iter().filter_map(|(_, s)| match s {
            Step::Launch(l, _) => Some(l.function),
            _ => None,
        })
    }

    /// Returns the number of launches among the steps.
    #[must_use]
    pub fn launches(&self) -> u64 {
        self.steps.iter().filter(|(_, s)| matches!(s, Step::Launch(..))).count() as u64
    }

    /// Returns the stream of a copy between host and device that the program's call waited for, or `None` for all other
    /// steps.
    #[must_use]
    pub fn waited_stream(&self, step: &Step) -> Option<u32> {
        let transfer = match step {
            Step::Input(n) => self.inputs.get(*n),
            Step::Output(n) => self.outputs.get(*n),
            _ => None,
        };
        transfer.filter(|t| t.row.flags & CALL_ASYNC == 0).map(|t| t.row.stream)
    }
}

/// Cuts a range out of others. With `stays`, it becomes a range of its own.
fn cut(ranges: &mut Vec<(GpuVa, u64)>, at: GpuVa, end: GpuVa, stays: bool) {
    let mut left = Vec::with_capacity(ranges.len() + 2);
    for (from, bytes) in ranges.drain(..) {
        let to = from + bytes;
        if to <= at || from >= end {
            left.push((from, bytes));
            continue;
        }
        if from < at {
            left.push((from, at - from));
        }
        if to > end {
            left.push((end, to - end));
        }
    }
    if stays {
        left.push((at, end - at));
    }
    left.sort_unstable();
    *ranges = left;
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests fail in this way")]
mod tests {
    use super::*;

    #[test]
    fn doubly_mapped_memory_is_a_separate_range() {
        let g = GRANULE;
        let mut script = Script {
            ranges: vec![(GpuVa::new(g), 4 * g), (GpuVa::new(8 * g), 2 * g)],
            ..Script::default()
        };
        let one = MemoryAlias {
            at: GpuVa::new(8 * g),
            bytes: g,
            of: GpuVa::new(2 * g),
        };
        script.share(BTreeMap::from([(one.at.get(), one)])).unwrap();
        let expected = [(g, g), (2 * g, g), (3 * g, 2 * g), (9 * g, g)].map(|(at, bytes)| (GpuVa::new(at), bytes));
        assert_eq!(script.ranges, expected);
        assert_eq!(script.same, [one]);
        let of_itself = MemoryAlias {
            at: GpuVa::new(2 * g),
            bytes: g,
            of: GpuVa::new(2 * g),
        };
        assert!(script.share(BTreeMap::from([(of_itself.at.get(), of_itself)])).is_err());
    }

    #[test]
    fn first_step_in_unrecorded_memory_is_the_obstacle() {
        let fill = |to: u64, elements: u64| {
            Step::Fill(FillRow {
                to: GpuVa::new(to),
                elements,
                element: 4,
                ..FillRow::default()
            })
        };
        let g = GRANULE;
        let mut script = Script {
            ranges: vec![(GpuVa::new(g), g), (GpuVa::new(2 * g), g)],
            shared: vec![(GpuVa::new(8 * g), g)],
            steps: vec![
                (3, fill(2 * g - 4, 2)),
                (5, fill(8 * g, 1)),
                (7, fill(3 * g - 4, 2)),
                (9, fill(0, 1)),
            ],
            ..Script::default()
        };
        let obstacle = script.obstacle().unwrap();
        assert_eq!(obstacle.event, 7);
        assert!(obstacle.why.contains("8 bytes at 0x5ffffc"), "{}", obstacle.why);
        script.steps.truncate(2);
        assert_eq!(script.obstacle(), None);
        // A launch has a function with arguments, but the recording has no argument values.
        script.metadata.functions = vec![trace_core::recording::CallFunction {
            name: "k".to_owned(),
            parameters: vec![[0, 8]],
            ..Default::default()
        }];
        script.steps.push((11, Step::Launch(LaunchRow::default(), Vec::new())));
        let obstacle = script.obstacle().unwrap();
        assert!(
            obstacle.event == 11 && obstacle.why.contains("arguments of k"),
            "{}",
            obstacle.why
        );
    }
}
