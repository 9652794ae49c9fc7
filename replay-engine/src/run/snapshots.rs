//! Snapshots in a run's recording: memory at the start, after each of the CPU's changes, and at the end.

use super::artifacts::ArtifactsError;
use crate::plan::{PageSource, PlannedAccesses};
use replay_core::{Action, Actions};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use trace_core::recording::{
    Events, FrameRole, HostWriteRow, MemoryBuilder, Page, PageId, PageRun, RunsBuilder, ZERO_PAGE,
};

/// Page counts of a source: data pages, and zero pages among them.
#[derive(Clone, Copy, Default)]
pub(super) struct CountedPages {
    pub data: u64,
    pub zeros: u64,
}

/// Adds memory at the start of the run, after each of the CPU's changes, and at the end. Returns the number of data
/// pages at the start.
pub(super) fn add_snapshots(
    memory: &mut MemoryBuilder,
    plan: PlannedAccesses<'_>,
    source: &dyn PageSource,
    events: &Events,
    end: &BTreeMap<u64, PageId>,
) -> Result<CountedPages, ArtifactsError> {
    let first = plan.accesses.arena.base.frame();
    let used = first..first.saturating_add(plan.accesses.used_pages);
    let mut start = BTreeMap::new();
    let mut tables = BTreeSet::new();
    for p in plan.accesses.pages.iter().filter(|p| used.contains(&p.frame)) {
        let missing = ArtifactsError::Start { frame: p.frame };
        start.insert(p.frame, memory.add_page(source.page(&p.digest).ok_or(missing)?));
        if p.role == FrameRole::Table {
            tables.insert(p.frame);
        }
    }
    let role = |frame: u64| match tables.contains(&frame) {
        true => FrameRole::Table,
        false => FrameRole::Data,
    };
    let runs = |held: &BTreeMap<u64, PageId>| {
        let mut runs = RunsBuilder::default();
        let mut next = used.start;
        let known: BTreeSet<u64> = held.keys().chain(&tables).copied().collect();
        for frame in known.range(used.clone()).copied() {
            push_zeros(&mut runs, next..frame);
            runs.push(frame, held.get(&frame).copied().unwrap_or(PageId::ZERO), role(frame));
            next = frame + 1;
        }
        push_zeros(&mut runs, next..used.end);
        runs.finish()
    };
    memory.add_runs(0, runs(&start));
    let mut event = 0;
    while event < events.len() {
        let mut changed = BTreeMap::new();
        while let Some(row) = events.host_write(event) {
            changed.insert(row.frame(), PageId(row.page));
            event += 1;
        }
        if changed.is_empty() {
            event += 1;
            continue;
        }
        let frames = changed.into_iter().map(|(frame, id)| (frame, id, role(frame)));
        memory.add_changes(event as u64, frames);
    }
    memory.add_runs(events.len() as u64, runs(end));
    let data = plan.accesses.used_pages.saturating_sub(tables.len() as u64);
    let held = start.keys().filter(|frame| !tables.contains(frame)).count() as u64;
    Ok(CountedPages {
        data,
        zeros: data.saturating_sub(held),
    })
}

/// Adds frames of zeros as runs, because a plan may use very many.
fn push_zeros(runs: &mut RunsBuilder, frames: Range<u64>) {
    let mut next = frames.start;
    while next < frames.end {
        let count = u32::try_from(frames.end - next).unwrap_or(u32::MAX);
        runs.push_run(PageRun {
            first_frame: next,
            count,
            first_page: PageId::ZERO,
            repeat: count > 1,
            role: FrameRole::Data,
        });
        next += u64::from(count);
    }
}

/// Fills in the pages of CPU writes that the target did not keep because too many differed. Such a write refers to the
/// page of zeros but did not write zeros. The plan has its bytes; the rest of the page keeps its last known contents.
/// Returns whether any page was filled in.
pub(super) fn fill_lost_pages(
    memory: &mut MemoryBuilder,
    plan: PlannedAccesses<'_>,
    source: &dyn PageSource,
    events: &Events,
    host_pages: &mut [u32],
) -> bool {
    if !host_pages.contains(&0) {
        return false;
    }
    let Ok(images) = plan.envelope.change_images(source) else {
        return false;
    };
    let mut changes = cpu_changes(plan, &images);
    // Known page contents, by frame.
    let mut known: HashMap<u64, Page> = HashMap::new();
    let mut filled = false;
    for (row, number) in events.host_writes.iter().zip(host_pages) {
        let Some(bytes) = bytes_of(&row, &mut changes) else {
            // The events do not belong to the plan.
            return filled;
        };
        let Some(piece) = row.piece() else { return filled };
        if *number != 0 || bytes.iter().all(|b| *b == 0) {
            if let Some(page) = memory
                .image(PageId(*number))
                .filter(|_| known.contains_key(&row.frame()))
            {
                known.insert(row.frame(), *page);
            }
            continue;
        }
        let start = || plan.accesses.pages.iter().find(|p| p.frame == row.frame());
        let page = known.entry(row.frame()).or_insert_with(|| {
            let image = start().and_then(|p| source.page(&p.digest));
            image.copied().unwrap_or(ZERO_PAGE)
        });
        if let Some(to) = page.get_mut(piece) {
            to.copy_from_slice(&bytes);
        }
        *number = memory.add_page(page).0;
        filled = true;
    }
    filled
}

/// Returns the CPU's changes of a plan in order: physical address and bytes.
fn cpu_changes<'p>(plan: PlannedAccesses<'p>, images: &'p [&'p Page]) -> impl Iterator<Item = (u64, Vec<u8>)> + 'p {
    let base = plan.accesses.arena.base.get();
    Actions::new(&plan.accesses.body)
        .map_while(Result::ok)
        .filter_map(move |a| match a {
            Action::Put {
                offset, width, value, ..
            } => {
                let bytes = value.to_le_bytes();
                Some((base.saturating_add(offset), bytes.get(..usize::from(width))?.to_vec()))
            }
            Action::Copy {
                offset, bytes, image, ..
            } => {
                let from = (offset % ZERO_PAGE.len() as u64) as usize;
                let image = images.get(image as usize)?;
                let part = image.get(from..from.checked_add(bytes as usize)?)?;
                Some((base.saturating_add(offset), part.to_vec()))
            }
            _ => None,
        })
}

/// Returns the bytes of a row, which stands for one change or for several consecutive ones.
fn bytes_of(row: &HostWriteRow, changes: &mut impl Iterator<Item = (u64, Vec<u8>)>) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    while all.len() < row.bytes as usize {
        let (at, bytes) = changes.next()?;
        if at != row.at.checked_add(all.len() as u64)?.get() {
            return None;
        }
        all.extend_from_slice(&bytes);
    }
    (all.len() == row.bytes as usize).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::PageImages;
    use crate::plan::{BodyBuilder, Plan, PlanBody, RegisterPlan};
    use trace_core::PhysAddr;
    use trace_core::recording::{Digest, EventsBuilder};

    #[test]
    fn unsaved_page_is_rebuilt_from_plan_writes() {
        let mut body = BodyBuilder::new();
        let put = |offset, value| Action::Put {
            event: 3,
            offset,
            width: 8,
            value,
        };
        let changes = [put(0x1010, 7), put(0x1018, 8), put(0x2000, 0), put(0x1010, 9)];
        changes.iter().for_each(|a| body.push(a).unwrap());
        let start = [0x11; 4096];
        let digest: Digest = *blake3::hash(&start).as_bytes();
        let mut plan = Plan::new(PlanBody::Registers(RegisterPlan::default()));
        let accesses = plan.accesses_mut().unwrap();
        accesses.arena.base = PhysAddr::new(0x10_0000);
        accesses.used_pages = 3;
        accesses.pages.push(crate::plan::PlanPage {
            frame: 0x101,
            digest,
            role: FrameRole::Data,
        });
        accesses.body = body.finish().0;
        let source: PageImages = [(digest, start.into())].into();
        let mut events = EventsBuilder::new();
        for (at, bytes) in [(0x10_1010, 16), (0x10_2000, 8), (0x10_1010, 8)] {
            events.host_write(
                0,
                0,
                HostWriteRow {
                    at: PhysAddr::new(at),
                    bytes,
                    page: 0,
                },
            );
        }
        let events = events.finish();
        let mut memory = MemoryBuilder::new();
        let mut pages = [0, 0, 0];
        assert!(fill_lost_pages(
            &mut memory,
            plan.planned_accesses().unwrap(),
            &source,
            &events,
            &mut pages
        ));
        let word = |n: u32, at: usize| memory.image(PageId(n)).unwrap()[at];
        assert_eq!(
            (word(pages[0], 0x10), word(pages[0], 0x18), word(pages[0], 0x20)),
            (7, 8, 0x11)
        );
        assert_eq!(pages[1], 0, "the plan writes zeros there");
        assert_eq!((word(pages[2], 0x10), word(pages[2], 0x18)), (9, 8));
        // Events of another plan are not changed.
        let mut pages = [0, 0, 0];
        plan.accesses_mut().unwrap().arena.base = PhysAddr::new(0x20_0000);
        assert!(!fill_lost_pages(
            &mut memory,
            plan.planned_accesses().unwrap(),
            &source,
            &events,
            &mut pages
        ));
    }
}
