//! Finds out what the window wants to know of a recording. Beside `tables` and `touches`, the only file of the window
//! that asks trace-core's analyses; runs apart from the interface thread.

use super::facts::{
    Chain, ChainJob, Content, Facts, Fold, Interrupt, JobFact, Part, PhaseFact, RegisterFact, Run, SpaceFact, Stage,
    TimelinePart,
};
use super::tables::Marks;
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;
use trace_core::jobs::{self, ChainEnd, GpuMemory, address_spaces};
use trace_core::memory::{ByteState, GpuMemoryView};
use trace_core::mmu::{self, Found, Scan};
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::{PageId, Recording};
use trace_core::registers::{Register, RegisterMap};
use trace_core::timeline::{KeptTimeline, Pyramid, Timeline};
use trace_core::{GpuVa, check, timeline};

/// Most pages and blocks that are compared to find what is mapped twice.
const MOST_LEAVES: usize = 1 << 20;
/// Most runs of pages that are kept, all address spaces together: three million pages that differ from their neighbours
/// are no picture any more, and a file can claim billions.
const MOST_RUNS: usize = 3 << 20;
/// Bits of an address in a gibibyte, the step in which progress through an address space is told.
const GIB_BITS: u32 = 30;
/// Bytes of a kept timeline that are read before the first frame; a longer one is a piece of work of its own.
const AT_ONCE: usize = 1 << 20;
/// Most jobs of a chain that are kept.
const MOST_CHAIN: usize = 256;

/// The register map of a recording's GPU.
#[must_use]
pub fn map_of(recording: &Recording) -> Option<&'static RegisterMap> {
    RegisterMap::for_gpu(recording.facts.identity.gpu_id)
}

/// The register at an offset, when the recording's GPU is known.
#[must_use]
pub fn register_of(recording: &Recording, offset: u32) -> Option<&'static Register> {
    map_of(recording)?.at(offset)
}

/// GPU memory of an address space at an event.
#[must_use]
pub fn memory_at(recording: &Recording, space: u32, event: u64) -> Option<GpuMemoryView<'_>> {
    let s = recording.facts.address_spaces.get(space as usize)?;
    Some(GpuMemoryView::new(recording.memory.at(event), s))
}

/// A line of memory: a byte, or what is known instead.
#[must_use]
pub fn read(recording: &Recording, space: u32, va: u64, event: u64, len: usize) -> Vec<Result<u8, ByteState>> {
    let mut bytes = vec![0; len];
    let Some(view) = memory_at(recording, space, event) else {
        return vec![Err(ByteState::Unmapped); len];
    };
    let states = view.read_partial(GpuVa(va), &mut bytes);
    bytes
        .into_iter()
        .zip(states)
        .map(|(b, s)| if s == ByteState::Content { Ok(b) } else { Err(s) })
        .collect()
}

/// What is known at once: where events lie and how many there are where. `kept` is what the recording's file keeps of
/// earlier analyses; what it does not keep is made, or is still pending.
///
/// # Errors
/// [`Cancelled`] when nobody wants it any more.
pub fn first(
    recording: &Recording,
    kept: (Option<Pyramid>, Option<KeptTimeline>),
    progress: &Progress,
) -> Result<Facts, Cancelled> {
    let map = map_of(recording);
    let pyramid = match kept.0 {
        Some(p) => p,
        None => Pyramid::build(recording, map, progress)?,
    };
    let mut facts = Facts {
        axis: pyramid.axis().clone(),
        lane_totals: pyramid.count(&recording.events, 0..recording.events.len() as u64),
        pyramid,
        map,
        pending: Stage::ALL.to_vec(),
        ..Default::default()
    };
    facts.rank_buffers(recording);
    if map.is_none() && !recording.events.is_empty() {
        facts.gaps_in_knowledge.push(
            "This GPU has no register map: registers have no names, and polls, interrupts and jobs are not found."
                .into(),
        );
    }
    match kept.1 {
        Some(t) if t.bytes() <= AT_ONCE => {
            if let Some(t) = t.read() {
                facts.take(timeline_part(t));
            }
        }
        later => facts.kept_timeline = later,
    }
    Ok(facts)
}

/// Everything that the window knows of a recording.
///
/// # Errors
/// [`Cancelled`] when nobody wants it any more.
pub fn derive(recording: &Recording, progress: &Progress) -> Result<Facts, Cancelled> {
    let mut facts = first(recording, (None, None), progress)?;
    while let Some(stage) = facts.pending.first().copied() {
        let part = find_out(stage, recording, &facts, progress)?;
        facts.take(part);
    }
    Ok(facts)
}

/// Finds out what one stage tells. `facts` holds what those before it told.
///
/// # Errors
/// [`Cancelled`] when nobody wants it any more.
pub fn find_out(stage: Stage, recording: &Recording, facts: &Facts, progress: &Progress) -> Result<Part, Cancelled> {
    progress.check()?;
    Ok(match stage {
        Stage::Timeline => {
            let kept = facts.kept_timeline.as_ref().and_then(KeptTimeline::read);
            match (kept, map_of(recording)) {
                (Some(t), _) => timeline_part(t),
                (None, Some(map)) => timeline_part(timeline::derive(recording, map, progress)?),
                (None, None) => Part::Timeline(Box::default()),
            }
        }
        Stage::Registers => Part::Registers(by_register(recording, progress)?),
        Stage::Chains => Part::Chains(chains(recording, &facts.jobs, progress)?),
        Stage::Spaces => {
            let mut room = MOST_RUNS;
            let n = recording.facts.address_spaces.len();
            let spaces = (0..n).map(|i| Ok(space(recording, i, &mut room, progress)?.counted()));
            Part::Spaces(spaces.collect::<Result<_, Cancelled>>()?)
        }
        Stage::Findings => Part::Findings(check::check_with(recording, progress)?),
    })
}

/// Events that access each register.
fn by_register(recording: &Recording, progress: &Progress) -> Result<BTreeMap<u32, RegisterFact>, Cancelled> {
    /// Registers below this offset are found by their word.
    const NEAR: usize = 0x1_0000;
    const STEP: usize = 1 << 16;
    let map = map_of(recording);
    let fact = |offset: u32| {
        let r = map.and_then(|m| m.at(offset));
        RegisterFact {
            name: r.map_or_else(|| format!("{offset:#06x}"), |r| r.name.clone()),
            block: r.map_or_else(|| "unknown".into(), |r| r.block.clone()),
            events: Vec::new(),
            writes: Vec::new(),
        }
    };
    let mut near: Vec<Option<RegisterFact>> = vec![None; NEAR];
    let mut far: BTreeMap<u32, RegisterFact> = BTreeMap::new();
    let n = recording.events.len().min(u32::MAX as usize);
    progress.set_total(n as u64);
    for from in (0..n).step_by(STEP) {
        for (e, a) in recording.events.accesses(from..(from + STEP).min(n)) {
            let of = match near.get_mut(a.offset as usize) {
                Some(slot) => slot.get_or_insert_with(|| fact(a.offset)),
                None => far.entry(a.offset).or_insert_with(|| fact(a.offset)),
            };
            of.events.push(e as u32);
            if a.write {
                of.writes.push(e as u32);
            }
        }
        progress.advance(STEP as u64)?;
    }
    let near = near
        .into_iter()
        .zip(0u32..)
        .filter_map(|(r, offset)| Some((offset, r?)));
    Ok(near.chain(far).collect())
}

fn timeline_part(t: Timeline) -> Part {
    let mut part = TimelinePart {
        polls: t
            .polls
            .iter()
            .map(|p| Fold {
                first: p.first,
                last: p.last,
                reads: p.reads,
                offset: p.offset,
            })
            .collect(),
        interrupts: t
            .interrupts
            .iter()
            .map(|i| Interrupt {
                event: i.event,
                line: i.line.name(),
                status: i.status,
            })
            .collect(),
        jobs: t
            .jobs
            .iter()
            .map(|j| JobFact {
                index: j.index,
                slot: j.slot,
                submit: j.submit_event,
                done: j.done_event,
                head_va: j.head_va.0,
                duration_ns: j.done_ns.map(|d| d.saturating_sub(j.submit_ns)),
                failed: j.failed,
                chain: Arc::default(),
                end: None,
            })
            .collect(),
        gaps: t.gaps.iter().map(|g| (g.after_event, g.ns)).collect(),
        phases: t
            .phases
            .iter()
            .map(|p| PhaseFact {
                name: p.name.name().to_owned(),
                first: p.first,
                last: p.last,
            })
            .collect(),
    };
    part.interrupts.sort_by_key(|i| i.event);
    Part::Timeline(Box::new(part))
}

/// The chain of each job, read in the address space that it runs in. Jobs that run the same chain while memory is the
/// same share it.
fn chains(recording: &Recording, jobs: &[JobFact], progress: &Progress) -> Result<Vec<Chain>, Cancelled> {
    let snapshots = &recording.memory.snapshots;
    let mut known: HashMap<(u64, usize, Option<u32>), Chain> = HashMap::new();
    let submits: Vec<u64> = jobs.iter().map(|j| j.submit).collect();
    let spaces = map_of(recording).map_or_else(Vec::new, |map| address_spaces(recording, map, &submits));
    let mut out = Vec::with_capacity(jobs.len());
    progress.set_total(jobs.len() as u64);
    for (at, j) in jobs.iter().enumerate() {
        let space = spaces.get(at).copied().flatten();
        let snapshot = snapshots.partition_point(|s| s.event <= j.submit);
        let chain = match known.get(&(j.head_va, snapshot, space)) {
            Some(c) => c.clone(),
            None => {
                let memory = space.and_then(|s| memory_at(recording, s, j.submit));
                let c = memory.map_or_else(Default::default, |m| chain(&m, GpuVa(j.head_va)));
                known.insert((j.head_va, snapshot, space), c.clone());
                c
            }
        };
        out.push(chain);
        progress.advance(1)?;
    }
    Ok(out)
}

fn chain(mem: &impl GpuMemory, head: GpuVa) -> Chain {
    let chain = jobs::chain(mem, head);
    let mut out = Vec::new();
    let end = match chain.end {
        ChainEnd::End => None,
        ChainEnd::Loop(va) => Some(format!("it comes back to {va}")),
        ChainEnd::Unreadable(va) => Some(format!("the recording does not hold {va}")),
        ChainEnd::Undecoded(va) => Some(format!("the header at {va} does not decode")),
        ChainEnd::Limit => Some("it is longer than any that is followed".into()),
    };
    for job in chain.jobs.iter().take(MOST_CHAIN) {
        let mut fields = Vec::new();
        let kind = match &job.header {
            Ok(h) => {
                fields.push(("index".into(), h.index.to_string()));
                fields.push(("status".into(), jobs::exception_name(h.exception_code()).to_owned()));
                fields.push(("barrier".into(), if h.barrier { "yes" } else { "no" }.into()));
                if h.next.0 != 0 {
                    fields.push(("next".into(), h.next.to_string()));
                }
                if h.fault_pointer != 0 {
                    fields.push(("fault at".into(), format!("{:#x}", h.fault_pointer)));
                }
                job.kind()
                    .map_or_else(|| format!("type {}", h.job_type), |k| k.name().to_owned())
            }
            Err(e) => e.to_string(),
        };
        out.push(ChainJob {
            va: job.va.0,
            kind,
            decoded: job.decoded(),
            dispatch: job.dispatch.map(|d| (d.workgroups, d.size)),
            shader: job.shader_va.map(|s| s.0),
            fields,
        });
    }
    (out.into(), end.map(Into::into))
}

/// An address space, its runs kept as long as there is `room` for them.
fn space(recording: &Recording, index: usize, room: &mut usize, progress: &Progress) -> Result<SpaceFact, Cancelled> {
    let Some(s) = recording.facts.address_spaces.get(index) else {
        return Ok(SpaceFact::default());
    };
    let view = recording.memory.last();
    let contents = view.runs();
    let mut out = SpaceFact {
        number: s.number,
        format: match s.format {
            trace_core::recording::MmuFormat::Aarch64_4k => "AArch64 4 KiB".into(),
            trace_core::recording::MmuFormat::MaliLpae => "Mali LPAE".into(),
        },
        root: s.root.0,
        ..Default::default()
    };
    progress.set_total(1 << (mmu::VA_BITS - GIB_BITS));
    let (mut steps, mut gib, mut problems) = (0u64, 0, 0);
    let (mut tables, mut leaves, mut too_many) = (Vec::new(), Vec::new(), false);
    // Leaves are kept up to a bound: a small file can map millions of blocks, each with its content in pieces.
    let _ = mmu::visit_all(s.format, s.root, &view, &mut |found| {
        let leaf = match found {
            Found::Table(t) => {
                tables.push(t);
                return ControlFlow::Continue(());
            }
            Found::Leaf(leaf) => leaf,
            Found::Problem(e) => {
                out.problem.get_or_insert_with(|| e.to_string());
                problems += 1;
                return if problems < Scan::MAX_PROBLEMS {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                };
            }
        };
        let done = leaf.va.0 >> GIB_BITS;
        if progress.advance(done.saturating_sub(gib)).is_err() {
            return ControlFlow::Break(());
        }
        gib = done;
        if leaves.len() < MOST_LEAVES {
            leaves.push(leaf);
        } else {
            too_many = true;
        }
        let rights = rights_bits(leaf.rights);
        let whole = Run {
            va: leaf.va.0,
            pages: leaf.bytes / 4096,
            rights,
            content: Content::None,
        };
        let mut fits = join(&mut out.mappings, whole, room);
        let (first, end) = (leaf.pa.frame(), leaf.pa.frame().saturating_add(whole.pages));
        let mut next = contents.partition_point(|r| r.end_frame() <= first);
        let mut at = first;
        while fits && at < end {
            let (content, to) = match contents.get(next).filter(|r| r.first_frame <= at) {
                Some(r) if r.page(at) != Some(PageId::ZERO) => (Content::Data, r.end_frame()),
                Some(r) if r.repeat => (Content::Zero, r.end_frame()),
                Some(_) => (Content::Zero, at + 1),
                None => (Content::None, contents.get(next).map_or(end, |r| r.first_frame)),
            };
            next += usize::from(contents.get(next).is_some_and(|r| r.end_frame() <= to));
            let to = to.min(end);
            let run = Run {
                va: leaf.va.0.saturating_add((at - first) * 4096),
                pages: to - at,
                rights,
                content,
            };
            fits = join(&mut out.runs, run, room);
            at = to;
            steps += 1;
            fits &= steps % 4096 != 0 || progress.check().is_ok();
        }
        if !fits {
            out.problem.get_or_insert_with(|| {
                format!(
                    "there are more than {MOST_RUNS} runs of pages; those from {} on are not shown",
                    leaf.va
                )
            });
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    progress.check()?;
    out.marks = Marks::of(
        &out.mappings,
        &out.runs,
        (!too_many).then_some(leaves.as_slice()),
        &tables,
    );
    Ok(out)
}

/// Adds a run, to the last one where it continues it; `false` when there is no room for another.
fn join(runs: &mut Vec<Run>, add: Run, room: &mut usize) -> bool {
    match runs.last_mut() {
        Some(last) if last.end() == add.va && last.rights == add.rights && last.content == add.content => {
            last.pages += add.pages;
        }
        _ if *room == 0 => return false,
        _ => {
            *room -= 1;
            runs.push(add);
        }
    }
    true
}

fn rights_bits(r: mmu::Rights) -> u8 {
    u8::from(r.read) | u8::from(r.write) << 1 | u8::from(r.execute) << 2
}

/// The walk of an address level by level, for people: level, index, where the entry stands, what it is.
#[must_use]
pub fn walk(recording: &Recording, space: u32, va: u64, event: u64) -> Option<mmu::Walk> {
    let s = recording.facts.address_spaces.get(space as usize)?;
    Some(mmu::walk(s.format, s.root, GpuVa(va), &recording.memory.at(event)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_core::PhysAddr;
    use trace_core::mmu::{Rights, encode_leaf, encode_table};
    use trace_core::recording::{AddressSpace, FrameRole, MemoryBuilder, MmuFormat};

    const F: MmuFormat = MmuFormat::Aarch64_4k;

    /// A table at frame 1 that points at `tables` tables of one image, whose entries are all `leaf`, and zero pages in
    /// the frames given.
    fn recording(tables: u64, leaf: u64, frames: impl Iterator<Item = u64>) -> Recording {
        let mut m = MemoryBuilder::new();
        let page = |entry: &dyn Fn(u64) -> u64| {
            let mut p = [0u8; 4096];
            for (i, e) in p.chunks_exact_mut(8).enumerate() {
                e.copy_from_slice(&entry(i as u64).to_le_bytes());
            }
            p
        };
        let entry = |i| {
            if i < tables {
                encode_table(F, PhysAddr((0x1000 + i) << 12))
            } else {
                mmu::INVALID
            }
        };
        let (top, leaves) = (m.add_page(&page(&entry)), m.add_page(&page(&|_| leaf)));
        let mut all = vec![(1, top, FrameRole::Table)];
        all.extend((0..tables).map(|i| (0x1000 + i, leaves, FrameRole::Table)));
        all.extend(frames.map(|f| (f, PageId::ZERO, FrameRole::Data)));
        m.add_snapshot(0, all);
        let mut r = Recording {
            memory: m.finish(),
            ..Recording::default()
        };
        let space = AddressSpace {
            number: 0,
            format: F,
            root: PhysAddr(0x1000),
            memattr: 0,
            transcfg: 6,
        };
        r.facts.address_spaces = vec![space];
        r
    }

    /// One GiB block, at the place where content is scattered.
    fn block() -> u64 {
        encode_leaf(F, PhysAddr(0x4000_0000), Rights::RW, 0) & !2
    }

    #[test]
    fn content_inside_large_blocks_is_told_page_by_page() {
        let r = recording(1, block(), [0x4_0003, 0x4_0004, 0x4_0100].into_iter());
        let space = &derive(&r, &Progress::new()).unwrap().spaces[0];
        assert_eq!(
            (space.mappings.len(), space.pages(), &space.problem),
            (1, 512 << 18, &None)
        );
        assert_eq!(space.pages_with(Content::Zero), 512 * 3);
        let first: Vec<_> = space
            .runs
            .iter()
            .take(4)
            .map(|r| (r.va >> 12, r.pages, r.content))
            .collect();
        assert_eq!(
            first,
            [
                (0, 3, Content::None),
                (3, 2, Content::Zero),
                (5, 0xfb, Content::None),
                (0x100, 1, Content::Zero)
            ]
        );
    }

    #[test]
    fn a_small_file_that_maps_scattered_content_by_the_billion_is_shown_up_to_a_bound() {
        let r = recording(512, block(), (0..131_072).map(|i| 0x4_0000 + 2 * i));
        let facts = derive(&r, &Progress::new()).unwrap();
        let space = &facts.spaces[0];
        assert!(space.runs.len() + space.mappings.len() <= MOST_RUNS);
        assert!(
            space.problem.as_ref().is_some_and(|p| p.contains("are not shown")),
            "{:?}",
            space.problem
        );
        let progress = Progress::new();
        progress.cancel();
        assert!(derive(&r, &progress).is_err());
    }
}
