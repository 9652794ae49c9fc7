//! The tables that a recording can be exported as, built one batch of rows at a time.

use crate::batch::{BATCH, BatchSink, batch, column};
use crate::error::TableError;
use crate::registers::build_register_table;
use crate::shaders;
use arrow_array::RecordBatch;
use std::borrow::Cow;
use std::ops::ControlFlow;
use trace_core::api_trace::Annotations;
use trace_core::families::{self, ChainJob, Dispatch};
use trace_core::filter::Selection;
use trace_core::mmu;
use trace_core::progress::Progress;
use trace_core::recording::{Buffer, BufferRole, DmaMapRow, ElementType, EventKind, InterruptLine, Recording};
use trace_core::registers::{RecordedRegisters, RegisterMap};
use trace_core::timeline::Timeline;
use trace_core::{PAGE_SIZE, RegOffset};

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

/// Builds a table and passes it to `take` in batches of rows: at least one, all with the same columns. Returns
/// descriptions of data that could not be followed.
///
/// # Errors
///
/// When a batch cannot be built, `take` fails or the work is cancelled.
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
        Table::Registers => take(build_register_table(recording, progress)?)?,
        Table::Pages => pages(recording, progress, take, &mut problems)?,
        Table::Mappings => take(mappings(recording, &mut problems)?)?,
        Table::Buffers => take(buffers(recording)?)?,
        Table::Shaders => shaders::build_shader_table(recording, timeline, progress, take)?,
    }
    Ok(problems)
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

/// The cells of an event that depend on its kind.
pub(crate) struct EventCells<'a> {
    pub kind: &'a str,
    pub space: Option<&'a str>,
    pub offset: Option<u32>,
    pub register: Option<Cow<'a, str>>,
    pub width: Option<u32>,
    pub value: Option<u64>,
    pub meaning: Option<String>,
}

/// Returns the cells of the event with this index. The description is made if `wants_meaning`.
pub(crate) fn event_cells<'a>(
    recording: &'a Recording,
    device: Option<RecordedRegisters>,
    at: usize,
    wants_meaning: bool,
) -> EventCells<'a> {
    let events = &recording.events;
    let payload = events.payload.get(at).unwrap_or(0) as usize;
    let (mut kind, mut space, mut offset, mut register) = ("unknown", None, None, None);
    let (mut width, mut value, mut meaning) = (None, None, None);
    match events.kind(at) {
        Some(EventKind::Read | EventKind::Write) => {
            if let Some(a) = events.access(at) {
                kind = if a.write { "write" } else { "read" };
                space = recording
                    .metadata
                    .spaces
                    .get(usize::from(a.space))
                    .map(|s| s.name.as_str());
                (offset, width, value) = (Some(a.offset), Some(u32::from(a.width)), Some(a.value));
                let describe = |d: RecordedRegisters| d.describe(&a).filter(|m| !m.is_empty());
                meaning = device.filter(|_| wants_meaning).and_then(describe);
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
                value = Some(row.head_va.get());
                let queue = u8::try_from(row.slot).ok().and_then(|slot| recording.job_queue(slot));
                meaning = Some(match queue {
                    Some(queue) => format!("queue {queue}"),
                    None => format!("slot {}, address space {}", row.slot, row.address_space),
                });
            }
        }
        Some(EventKind::HostWrite) => {
            kind = "host-write";
            if let Some(row) = events.host_writes.get(payload) {
                value = Some(row.at.get());
                meaning = Some(format!("{} bytes", row.bytes));
            }
        }
        Some(EventKind::Undecoded) => {
            kind = "undecoded";
            if let Some(row) = events.undecoded(at) {
                let index = events.space.get(at).map(usize::from);
                let of = index.and_then(|i| recording.metadata.spaces.get(i));
                (space, offset) = (of.map(|s| s.name.as_str()), Some(row.offset));
                width = row.width().map(u32::from);
                meaning = Some(row.describe());
            }
        }
        Some(EventKind::DmaMap) => {
            kind = "dma-map";
            if let Some(row) = events.dma_map(at) {
                value = (row.bus != DmaMapRow::UNKNOWN).then_some(row.bus.get());
                meaning = Some(row.describe());
            }
        }
        Some(called) => {
            kind = called.call_name().or_else(|| called.driver_name()).unwrap_or("call");
            if wants_meaning {
                let text = recording.describe_driver_event(at);
                meaning = text.or_else(|| recording.describe_call(at));
            }
        }
        None => {}
    }
    EventCells {
        kind,
        space,
        offset: offset.map(RegOffset::get),
        register,
        width,
        value,
        meaning,
    }
}

/// Builds the rows of these ascending events.
pub(crate) fn events(
    recording: &Recording,
    n: usize,
    range: impl Iterator<Item = usize> + Clone,
) -> Result<RecordBatch, TableError> {
    let device = RecordedRegisters::new(recording);
    let events = &recording.events;
    let mut kinds: Vec<&str> = Vec::with_capacity(n);
    let mut spaces: Vec<Option<&str>> = Vec::with_capacity(n);
    let mut offsets: Vec<Option<u32>> = Vec::with_capacity(n);
    let mut registers: Vec<Option<Cow<'_, str>>> = Vec::with_capacity(n);
    let mut widths: Vec<Option<u32>> = Vec::with_capacity(n);
    let mut values: Vec<Option<u64>> = Vec::with_capacity(n);
    let mut means: Vec<Option<String>> = Vec::with_capacity(n);
    for at in range.clone() {
        let cells = event_cells(recording, device, at, true);
        kinds.push(cells.kind);
        spaces.push(cells.space);
        offsets.push(cells.offset);
        registers.push(cells.register);
        widths.push(cells.width);
        values.push(cells.value);
        means.push(cells.meaning);
    }
    let times: Vec<u64> = range.clone().map(|e| events.time.get(e).unwrap_or(0)).collect();
    let threads: Vec<u32> = range.clone().map(|e| events.thread.get(e).unwrap_or(0)).collect();
    let index: Vec<u64> = range.map(|i| i as u64).collect();
    batch(vec![
        column("event", index),
        column("kind", kinds),
        // A tick is no nanosecond.
        column(
            if recording.counts_ticks() {
                "time_ticks"
            } else {
                "time_ns"
            },
            times,
        ),
        column("thread", threads),
        column("space", spaces),
        column("offset", offsets),
        column("register", registers),
        column("width", widths),
        column("value", values),
        column("means", means),
    ])
}

fn submits(recording: &Recording, timeline: &Timeline) -> Result<RecordBatch, TableError> {
    let spans = &timeline.jobs;
    let at: Vec<u64> = spans.iter().map(|s| s.submit_event).collect();
    let family = families::find_family(recording);
    let memory = RegisterMap::built_in_for(recording)
        .map(|map| families::memory_at_submits(recording, map, &at))
        .unwrap_or_default();
    let chains: Vec<_> = spans
        .iter()
        .enumerate()
        .map(|(i, s)| Some(family.read_chain(memory.get(i)?.as_ref()?, s.head_va)?.jobs))
        .collect();
    let heads: Vec<Option<&dyn ChainJob>> = chains.iter().map(|c| Some(&**c.as_ref()?.first()?)).collect();
    let part = |name: &'static str, of: &dyn Fn(Dispatch) -> u32| {
        let values: Vec<Option<u32>> = heads.iter().map(|j| (*j)?.dispatch().map(of)).collect();
        column(name, values)
    };
    let all = |of: &dyn Fn(usize) -> Option<u64>| (0..spans.len()).map(of).collect::<Vec<Option<u64>>>();
    let span = |i: usize| spans.get(i);
    batch(vec![
        column("index", spans.iter().map(|s| s.index).collect::<Vec<_>>()),
        column("submit_event", at),
        column("done_event", all(&|i| span(i)?.done_event)),
        column("head_va", all(&|i| Some(span(i)?.head_va.get()))),
        column("type", heads.iter().map(|j| (*j)?.type_name()).collect::<Vec<_>>()),
        column(
            "decoded",
            heads
                .iter()
                .map(|j| j.is_some_and(|j| j.is_decoded()))
                .collect::<Vec<_>>(),
        ),
        part("workgroups_x", &|d| d.workgroups[0]),
        part("workgroups_y", &|d| d.workgroups[1]),
        part("workgroups_z", &|d| d.workgroups[2]),
        part("size_x", &|d| d.size[0]),
        part("size_y", &|d| d.size[1]),
        part("size_z", &|d| d.size[2]),
        column(
            "shader_va",
            heads
                .iter()
                .map(|j| (*j)?.shader_va().map(|v| v.get()))
                .collect::<Vec<_>>(),
        ),
        column(
            "duration_ns",
            all(&|i| span(i).and_then(|s| Some(s.done_ns?.saturating_sub(s.submit_ns)))),
        ),
        column(
            "chain_length",
            chains
                .iter()
                .map(|c| c.as_ref().map_or(0, |c| c.len() as u64))
                .collect::<Vec<_>>(),
        ),
    ])
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
    fn frame(self) -> Result<RecordBatch, TableError> {
        let content: Vec<bool> = self.blake3.iter().map(Option::is_some).collect();
        batch(vec![
            column("address_space", self.space),
            column("va", self.va),
            column("pa", self.pa),
            column("rights", self.rights),
            column("attribute", self.attribute),
            column("content", content),
            column("blake3", self.blake3),
        ])
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
    for space in &recording.metadata.address_spaces {
        let mut leaf = |leaf: mmu::Leaf| -> Result<(), TableError> {
            let rights = leaf.rights.to_string();
            for page in 0..leaf.bytes / PAGE_SIZE as u64 {
                let va = leaf.va.saturating_add(page * PAGE_SIZE as u64);
                let pa = leaf.target(va);
                rows.space.push(u32::from(space.number));
                rows.va.push(va.get());
                rows.pa.push(pa.map(|p| p.get()));
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

fn mappings(recording: &Recording, problems: &mut Vec<String>) -> Result<RecordBatch, TableError> {
    let view = recording.memory.last();
    let mut rows = Vec::new();
    for space in &recording.metadata.address_spaces {
        let scan = mmu::scan(space.format, space.root, &view);
        problems.extend(
            scan.problems
                .iter()
                .map(|e| format!("address space {}: {e}", space.number)),
        );
        rows.extend(scan.mappings.into_iter().map(|m| (u32::from(space.number), m)));
    }
    batch(vec![
        column("address_space", rows.iter().map(|r| r.0).collect::<Vec<_>>()),
        column("va", rows.iter().map(|r| r.1.va.get()).collect::<Vec<_>>()),
        column("end", rows.iter().map(|r| r.1.end().get()).collect::<Vec<_>>()),
        column("pages", rows.iter().map(|r| r.1.pages).collect::<Vec<_>>()),
        column(
            "rights",
            rows.iter().map(|r| r.1.rights.to_string()).collect::<Vec<_>>(),
        ),
        column(
            "attribute",
            rows.iter().map(|r| u32::from(r.1.attr_index)).collect::<Vec<_>>(),
        ),
        column(
            "pa",
            rows.iter()
                .map(|r| r.1.contiguous_pa.map(|p| p.get()))
                .collect::<Vec<_>>(),
        ),
    ])
}

fn buffers(recording: &Recording) -> Result<RecordBatch, TableError> {
    let named = Annotations::from_recording(recording);
    let named = named.buffers().iter().map(|b| Buffer {
        name: b.name.name.clone(),
        role: BufferRole::Shared,
        address_space: 0,
        va: b.name.at,
        bytes: b.name.bytes,
        element: b.name.form.as_ref().map_or(ElementType::U8, |f| f.element),
    });
    let all: Vec<Buffer> = recording.metadata.buffers.iter().cloned().chain(named).collect();
    batch(vec![
        column("name", all.iter().map(|b| b.name.as_str()).collect::<Vec<_>>()),
        column("role", all.iter().map(|b| b.role.name()).collect::<Vec<_>>()),
        column("address_space", all.iter().map(|b| b.address_space).collect::<Vec<_>>()),
        column("va", all.iter().map(|b| b.va.get()).collect::<Vec<_>>()),
        column("bytes", all.iter().map(|b| b.bytes).collect::<Vec<_>>()),
        column("type", all.iter().map(|b| b.element.name()).collect::<Vec<_>>()),
    ])
}
