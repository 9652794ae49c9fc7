//! The tables that a recording can be exported as, built one batch of rows at a time.

use crate::shaders;
use crate::table::{QueryError, register_statistics};
use polars::prelude::{Column, DataFrame};
use std::borrow::Cow;
use std::ops::ControlFlow;
use trace_core::filter::Selection;
use trace_core::jobs::{self, JobType};
use trace_core::mmu;
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::{DmaMapRow, EventKind, InterruptLine, Recording};
use trace_core::registers::{RecordedRegisters, RegisterMap};
use trace_core::timeline::Timeline;
use trace_core::{GpuVa, PAGE_SIZE};

/// Number of rows of a batch: few enough to fit in memory next to the recording.
pub(crate) const BATCH: usize = 1 << 16;

/// A table of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// Every event, as the verb `events` shows it.
    Events,
    /// Every submit with the head of its chain.
    Jobs,
    /// Usage statistics of registers.
    Registers,
    /// Every mapped page with the digest of its content.
    Pages,
    /// Runs of pages with the same rights.
    Mappings,
    /// Named buffers.
    Buffers,
    /// The operations of the shaders that jobs run.
    Shaders,
}

impl Table {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Events,
        Self::Jobs,
        Self::Registers,
        Self::Pages,
        Self::Mappings,
        Self::Buffers,
        Self::Shaders,
    ];

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Jobs => "jobs",
            Self::Registers => "registers",
            Self::Pages => "pages",
            Self::Mappings => "mappings",
            Self::Buffers => "buffers",
            Self::Shaders => "shaders",
        }
    }
}

/// The reason why a table was not built or not written.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// It could not be made.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// It could not be written.
    #[error(transparent)]
    Write(#[from] std::io::Error),
    /// The work was cancelled.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

impl From<polars::prelude::PolarsError> for TableError {
    fn from(e: polars::prelude::PolarsError) -> Self {
        Self::Query(e.into())
    }
}

/// Receives a batch of rows.
pub(crate) type BatchSink<'a> = dyn FnMut(DataFrame) -> Result<(), TableError> + 'a;

/// Builds a table and passes it to `take` in batches of rows: at least one, all with the same columns. Returns
/// descriptions of data that could not be followed.
///
/// # Errors
///
/// When polars returns an error, `take` fails or the work is cancelled.
pub fn build_table(
    table: Table,
    recording: &Recording,
    timeline: &Timeline,
    progress: &Progress,
    take: &mut BatchSink<'_>,
) -> Result<Vec<String>, TableError> {
    let mut problems = Vec::new();
    match table {
        Table::Events => {
            let rows = recording.events.len();
            progress.set_total(rows as u64);
            let mut from = 0;
            loop {
                let range = from..rows.min(from + BATCH);
                progress.advance(range.len() as u64)?;
                from = range.end;
                take(events(recording, range.len(), range)?)?;
                if from >= rows {
                    break;
                }
            }
        }
        Table::Jobs => take(submits(recording, timeline)?)?,
        Table::Registers => take(register_statistics(recording)?)?,
        Table::Pages => pages(recording, progress, take, &mut problems)?,
        Table::Mappings => take(mappings(recording, &mut problems)?)?,
        Table::Buffers => take(buffers(recording)?)?,
        Table::Shaders => shaders::build_shader_table(recording, timeline, progress, take)?,
    }
    Ok(problems)
}

pub(crate) fn frame(height: usize, columns: Vec<Column>) -> Result<DataFrame, QueryError> {
    Ok(DataFrame::new(height, columns)?)
}

/// Builds the selected rows of [`Table::Events`] in the form of [`build_table`].
///
/// # Errors
///
/// Same as [`build_table`].
pub fn build_selected_events(
    recording: &Recording,
    chosen: &Selection,
    progress: &Progress,
    take: &mut BatchSink<'_>,
) -> Result<(), TableError> {
    progress.set_total(chosen.len());
    let mut rest = chosen.iter().filter_map(|e| usize::try_from(e).ok());
    loop {
        let batch: Vec<usize> = rest.by_ref().take(BATCH).collect();
        progress.advance(batch.len() as u64)?;
        let last = batch.len() < BATCH;
        take(events(recording, batch.len(), batch.into_iter())?)?;
        if last {
            return Ok(());
        }
    }
}

/// Builds the rows of these ascending events.
fn events(
    recording: &Recording,
    n: usize,
    range: impl Iterator<Item = usize> + Clone,
) -> Result<DataFrame, QueryError> {
    let device = RecordedRegisters::new(recording);
    let calls = recording.call_facts();
    let events = &recording.events;
    let mut kinds: Vec<&str> = Vec::with_capacity(n);
    let mut spaces: Vec<Option<&str>> = Vec::with_capacity(n);
    let mut offsets: Vec<Option<u32>> = Vec::with_capacity(n);
    let mut registers: Vec<Option<Cow<'_, str>>> = Vec::with_capacity(n);
    let mut widths: Vec<Option<u32>> = Vec::with_capacity(n);
    let mut values: Vec<Option<u64>> = Vec::with_capacity(n);
    let mut means: Vec<Option<String>> = Vec::with_capacity(n);
    for at in range.clone() {
        let payload = events.payload.get(at).unwrap_or(0) as usize;
        let (mut kind, mut space, mut offset, mut register) = ("unknown", None, None, None);
        let (mut width, mut value, mut meaning) = (None, None, None);
        match events.kind(at) {
            Some(EventKind::Read | EventKind::Write) => {
                if let Some(a) = events.access(at) {
                    kind = if a.write { "write" } else { "read" };
                    space = recording
                        .facts
                        .spaces
                        .get(usize::from(a.space))
                        .map(|s| s.name.as_str());
                    (offset, width, value) = (Some(a.offset), Some(u32::from(a.width)), Some(a.value));
                    meaning = device.and_then(|d| d.describe(&a)).filter(|m| !m.is_empty());
                    register = device.and_then(|d| d.name_of(&a));
                }
            }
            Some(EventKind::Interrupt) => {
                kind = "interrupt";
                if let Some(row) = events.interrupts.get(payload) {
                    register = InterruptLine::from_raw(row.line).map(|l| Cow::Borrowed(l.name()));
                    value = Some(u64::from(row.status));
                }
            }
            Some(EventKind::Mark) => (kind, meaning) = ("mark", events.marks.get(payload).cloned()),
            Some(EventKind::Submit) => {
                kind = "submit";
                if let Some(row) = events.submits.get(payload) {
                    value = Some(row.head_va);
                    meaning = Some(format!("slot {}, address space {}", row.slot, row.address_space));
                }
            }
            Some(EventKind::HostWrite) => {
                kind = "host-write";
                if let Some(row) = events.host_writes.get(payload) {
                    value = Some(row.at);
                    meaning = Some(format!("{} bytes", row.bytes));
                }
            }
            Some(EventKind::Undecoded) => {
                kind = "undecoded";
                if let Some(row) = events.undecoded(at) {
                    let index = events.space.get(at).map(usize::from);
                    let of = index.and_then(|i| recording.facts.spaces.get(i));
                    (space, offset) = (of.map(|s| s.name.as_str()), Some(row.offset));
                    width = row.width().map(u32::from);
                    meaning = Some(row.describe());
                }
            }
            Some(EventKind::DmaMap) => {
                kind = "dma-map";
                if let Some(row) = events.dma_map(at) {
                    value = (row.bus != DmaMapRow::UNKNOWN).then_some(row.bus);
                    meaning = Some(row.describe());
                }
            }
            Some(called) => {
                kind = called.call_name().unwrap_or("call");
                meaning = events.call(at).map(|c| c.describe(calls.as_ref()));
            }
            None => {}
        }
        kinds.push(kind);
        spaces.push(space);
        offsets.push(offset);
        registers.push(register);
        widths.push(width);
        values.push(value);
        means.push(meaning);
    }
    let times: Vec<u64> = range.clone().map(|e| events.time.get(e).unwrap_or(0)).collect();
    let threads: Vec<u32> = range.clone().map(|e| events.thread.get(e).unwrap_or(0)).collect();
    let index: Vec<u64> = range.map(|i| i as u64).collect();
    frame(
        n,
        vec![
            Column::new("event".into(), index),
            Column::new("kind".into(), kinds),
            Column::new("time_ns".into(), times),
            Column::new("thread".into(), threads),
            Column::new("space".into(), spaces),
            Column::new("offset".into(), offsets),
            Column::new("register".into(), registers),
            Column::new("width".into(), widths),
            Column::new("value".into(), values),
            Column::new("means".into(), means),
        ],
    )
}

fn submits(recording: &Recording, timeline: &Timeline) -> Result<DataFrame, QueryError> {
    let spans = &timeline.jobs;
    let at: Vec<u64> = spans.iter().map(|s| s.submit_event).collect();
    let memory = RegisterMap::built_in_for(recording)
        .map(|map| jobs::memory_at_submits(recording, map, &at))
        .unwrap_or_default();
    let chains: Vec<_> = spans
        .iter()
        .enumerate()
        .map(|(i, s)| memory.get(i)?.as_ref().map(|m| jobs::read_chain(m, s.head_va).jobs))
        .collect();
    let heads: Vec<Option<&jobs::Job>> = chains.iter().map(|c| c.as_ref()?.first()).collect();
    let kind = |j: &jobs::Job| j.kind().map(JobType::name);
    let part = |name: &str, of: &dyn Fn(&jobs::Dispatch) -> u32| {
        let values: Vec<Option<u32>> = heads.iter().map(|j| (*j)?.dispatch.as_ref().map(of)).collect();
        Column::new(name.into(), values)
    };
    let all = |of: &dyn Fn(usize) -> Option<u64>| (0..spans.len()).map(of).collect::<Vec<Option<u64>>>();
    let span = |i: usize| spans.get(i);
    frame(
        spans.len(),
        vec![
            Column::new("index".into(), spans.iter().map(|s| s.index).collect::<Vec<_>>()),
            Column::new("submit_event".into(), at),
            Column::new("done_event".into(), all(&|i| span(i)?.done_event)),
            Column::new("head_va".into(), all(&|i| Some(span(i)?.head_va.0))),
            Column::new(
                "type".into(),
                heads.iter().map(|j| (*j).and_then(kind)).collect::<Vec<_>>(),
            ),
            Column::new(
                "decoded".into(),
                heads
                    .iter()
                    .map(|j| j.is_some_and(jobs::Job::is_decoded))
                    .collect::<Vec<_>>(),
            ),
            part("workgroups_x", &|d| d.workgroups[0]),
            part("workgroups_y", &|d| d.workgroups[1]),
            part("workgroups_z", &|d| d.workgroups[2]),
            part("size_x", &|d| d.size[0]),
            part("size_y", &|d| d.size[1]),
            part("size_z", &|d| d.size[2]),
            Column::new(
                "shader_va".into(),
                heads.iter().map(|j| (*j)?.shader_va.map(|v| v.0)).collect::<Vec<_>>(),
            ),
            Column::new(
                "duration_ns".into(),
                all(&|i| span(i).and_then(|s| Some(s.done_ns?.saturating_sub(s.submit_ns)))),
            ),
            Column::new(
                "chain_length".into(),
                chains
                    .iter()
                    .map(|c| c.as_ref().map_or(0, |c| c.len() as u64))
                    .collect::<Vec<_>>(),
            ),
        ],
    )
}

/// Rows of [`Table::Pages`] collected so far.
#[derive(Default)]
struct PageRows {
    space: Vec<u32>,
    va: Vec<u64>,
    pa: Vec<Option<u64>>,
    rights: Vec<String>,
    attribute: Vec<u32>,
    blake3: Vec<Option<String>>,
}

impl PageRows {
    fn frame(self) -> Result<DataFrame, QueryError> {
        let content: Vec<bool> = self.blake3.iter().map(Option::is_some).collect();
        frame(
            self.va.len(),
            vec![
                Column::new("address_space".into(), self.space),
                Column::new("va".into(), self.va),
                Column::new("pa".into(), self.pa),
                Column::new("rights".into(), self.rights),
                Column::new("attribute".into(), self.attribute),
                Column::new("content".into(), content),
                Column::new("blake3".into(), self.blake3),
            ],
        )
    }
}

fn pages(
    recording: &Recording,
    progress: &Progress,
    take: &mut BatchSink<'_>,
    problems: &mut Vec<String>,
) -> Result<(), TableError> {
    let view = recording.memory.last();
    let digest = |frame: u64| {
        let digest = recording.memory.pages.digest(view.page_id(frame)?)?;
        Some(digest.iter().map(|b| format!("{b:02x}")).collect::<String>())
    };
    let mut rows = PageRows::default();
    let mut failed = None;
    for space in &recording.facts.address_spaces {
        let mut leaf = |leaf: mmu::Leaf| -> Result<(), TableError> {
            let rights = leaf.rights.to_string();
            for page in 0..leaf.bytes / PAGE_SIZE as u64 {
                let va = GpuVa(leaf.va.0.saturating_add(page * PAGE_SIZE as u64));
                let pa = leaf.target(va);
                rows.space.push(u32::from(space.number));
                rows.va.push(va.0);
                rows.pa.push(pa.map(|p| p.0));
                rows.rights.push(rights.clone());
                rows.attribute.push(u32::from(leaf.attr_index));
                rows.blake3.push(pa.and_then(|p| digest(p.frame())));
                if rows.va.len() >= BATCH {
                    progress.check()?;
                    take(std::mem::take(&mut rows).frame()?)?;
                }
            }
            Ok(())
        };
        let walked = mmu::for_each_leaf(space.format, space.root, &view, &mut |l| match leaf(l) {
            Ok(()) => ControlFlow::Continue(()),
            Err(e) => {
                failed = Some(e);
                ControlFlow::Break(())
            }
        });
        if let Some(e) = failed.take() {
            return Err(e);
        }
        if let Err(e) = walked {
            problems.push(format!("address space {}: {e}", space.number));
        }
    }
    take(rows.frame()?)
}

fn mappings(recording: &Recording, problems: &mut Vec<String>) -> Result<DataFrame, QueryError> {
    let view = recording.memory.last();
    let mut rows = Vec::new();
    for space in &recording.facts.address_spaces {
        let scan = mmu::scan(space.format, space.root, &view);
        problems.extend(
            scan.problems
                .iter()
                .map(|e| format!("address space {}: {e}", space.number)),
        );
        rows.extend(scan.mappings.into_iter().map(|m| (u32::from(space.number), m)));
    }
    frame(
        rows.len(),
        vec![
            Column::new("address_space".into(), rows.iter().map(|r| r.0).collect::<Vec<_>>()),
            Column::new("va".into(), rows.iter().map(|r| r.1.va.0).collect::<Vec<_>>()),
            Column::new("end".into(), rows.iter().map(|r| r.1.end().0).collect::<Vec<_>>()),
            Column::new("pages".into(), rows.iter().map(|r| r.1.pages).collect::<Vec<_>>()),
            Column::new(
                "rights".into(),
                rows.iter().map(|r| r.1.rights.to_string()).collect::<Vec<_>>(),
            ),
            Column::new(
                "attribute".into(),
                rows.iter().map(|r| u32::from(r.1.attr_index)).collect::<Vec<_>>(),
            ),
            Column::new(
                "pa".into(),
                rows.iter().map(|r| r.1.contiguous_pa.map(|p| p.0)).collect::<Vec<_>>(),
            ),
        ],
    )
}

fn buffers(recording: &Recording) -> Result<DataFrame, QueryError> {
    let all = &recording.facts.buffers;
    frame(
        all.len(),
        vec![
            Column::new("name".into(), all.iter().map(|b| b.name.as_str()).collect::<Vec<_>>()),
            Column::new("role".into(), all.iter().map(|b| b.role.name()).collect::<Vec<_>>()),
            Column::new(
                "address_space".into(),
                all.iter().map(|b| b.address_space).collect::<Vec<_>>(),
            ),
            Column::new("va".into(), all.iter().map(|b| b.va.0).collect::<Vec<_>>()),
            Column::new("bytes".into(), all.iter().map(|b| b.bytes).collect::<Vec<_>>()),
            Column::new("type".into(), all.iter().map(|b| b.element.name()).collect::<Vec<_>>()),
        ],
    )
}
