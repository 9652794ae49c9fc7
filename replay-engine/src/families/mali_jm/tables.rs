//! Rule 2: every address that the GPU can access is one of the plan's own pages, and not one of its page tables.

use crate::plan::{PlanMemory, PlanSpace, PlannedAccesses};
use crate::rules::{Reason, Refusal, TABLE, VerificationReport, Work, refuse};
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use trace_core::mmu::{
    EntryKind, MAX_TABLES, MmuError, Rights, entry_kind, entry_rights, for_each_leaf, for_each_table, root_register,
    span_bytes,
};
use trace_core::recording::MmuFormat;
use trace_core::{GpuVa, PAGE_SIZE, PhysAddr};

/// Used frames of a plan, one bit each.
pub(super) struct FrameSet {
    first: u64,
    bits: Vec<u64>,
}

impl FrameSet {
    /// Returns an empty set for `count` frames from `first` on.
    fn none(first: u64, count: u64) -> Self {
        let words = usize::try_from(count.div_ceil(64)).unwrap_or(0);
        Self {
            first,
            bits: vec![0; words],
        }
    }

    fn insert(&mut self, frames: Range<u64>) {
        let mut at = frames.start.saturating_sub(self.first);
        let end = frames.end.saturating_sub(self.first);
        while at < end {
            let (word, bit) = ((at / 64) as usize, at % 64);
            let n = (64 - bit).min(end - at);
            if let Some(w) = self.bits.get_mut(word) {
                *w |= (u64::MAX >> (64 - n)) << bit;
            }
            at += n;
        }
    }

    /// Returns whether a frame is in the set.
    pub fn contains(&self, frame: u64) -> bool {
        let Some(at) = frame.checked_sub(self.first) else {
            return false;
        };
        self.bits
            .get((at / 64) as usize)
            .is_some_and(|w| w >> (at % 64) & 1 != 0)
    }
}

/// The frames that the GPU can access through the plan's translations.
///
/// The set covers the whole run, however tables change: stale MMU caches can then lead nowhere else. So a frame is
/// either a table of one kind or data, for the whole plan.
pub(super) struct ReachableFrames {
    /// Frames of page tables, of all translations.
    tables: BTreeMap<u64, Kind>,
    /// Frames that the GPU may reach through some translation.
    mapped: FrameSet,
    /// Frames that the GPU may write through some translation.
    pub writable: FrameSet,
    /// Number of tables and leaves found after the start.
    pub later_tables: u64,
    pub later_leaves: u64,
}

/// The kind of table in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    format: MmuFormat,
    level: u8,
    /// First address that it translates, where it was first found.
    va: GpuVa,
}

impl Kind {
    fn same(&self, other: &Self) -> bool {
        (self.format, self.level) == (other.format, other.level)
    }
}

impl ReachableFrames {
    /// Returns whether a frame is, or was, a page table.
    pub fn is_table(&self, frame: u64) -> bool {
        self.tables.contains_key(&frame)
    }

    /// Processes changed entries of a table: their current targets are proved.
    pub fn changed(
        &mut self,
        plan: PlannedAccesses<'_>,
        memory: &PlanMemory<'_>,
        frame: u64,
        entries: Range<usize>,
        work: &Work<'_>,
    ) -> Result<(), Reason> {
        let Some(kind) = self.tables.get(&frame).copied() else {
            return Ok(());
        };
        let Some(page) = memory.page(frame) else {
            return Err(Reason::TableOutside {
                level: kind.level,
                at: PhysAddr::new(frame << 12),
            });
        };
        let words = page.as_chunks::<8>().0;
        for index in entries {
            work.spend(1)?;
            let Some(raw) = words.get(index).map(|b| u64::from_le_bytes(*b)) else {
                continue;
            };
            let va = GpuVa::new(kind.va.get() | (index as u64) << span_bytes(kind.level).trailing_zeros());
            match entry_kind(kind.format, kind.level, raw) {
                EntryKind::Invalid => {}
                EntryKind::Reserved => {
                    let level = kind.level;
                    return Err(Reason::Tables {
                        message: MmuError::BadEntry { level, va, raw }.to_string(),
                    });
                }
                EntryKind::Table(at) => {
                    let below = Kind {
                        format: kind.format,
                        level: kind.level + 1,
                        va,
                    };
                    self.enter(plan, memory, at, below, work)?;
                }
                EntryKind::Page(pa) | EntryKind::Block(pa) => {
                    self.later_leaves += 1;
                    let (bytes, rights) = (span_bytes(kind.level), entry_rights(kind.format, raw));
                    self.leaf(plan, va, pa, bytes, rights, work)?;
                }
            }
        }
        Ok(())
    }

    /// Processes a reference to a table that may be new. The recursion depth is limited: a table entry exists only
    /// above the last level.
    fn enter(
        &mut self,
        plan: PlannedAccesses<'_>,
        memory: &PlanMemory<'_>,
        at: PhysAddr,
        kind: Kind,
        work: &Work<'_>,
    ) -> Result<(), Reason> {
        let (level, frame) = (kind.level, at.frame());
        if !used(plan).contains(&frame) {
            return Err(Reason::TableOutside { level, at });
        }
        if let Some(known) = self.tables.get(&frame) {
            return if known.same(&kind) {
                Ok(())
            } else {
                Err(Reason::TableKind { at, level })
            };
        }
        if self.mapped.contains(frame) {
            return Err(Reason::TableReached { at });
        }
        if self.tables.len() >= MAX_TABLES {
            return Err(Reason::Tables {
                message: MmuError::TooManyTables.to_string(),
            });
        }
        self.later_tables += 1;
        self.tables.insert(frame, kind);
        self.changed(plan, memory, frame, 0..PAGE_SIZE / 8, work)
    }

    /// Checks that a page or block maps only used frames, and no table.
    fn leaf(
        &mut self,
        plan: PlannedAccesses<'_>,
        va: GpuVa,
        pa: PhysAddr,
        bytes: u64,
        rights: Rights,
        work: &Work<'_>,
    ) -> Result<(), Reason> {
        let used = used(plan);
        let (from, count) = (pa.frame(), bytes / PAGE_SIZE as u64);
        let to = from.saturating_add(count);
        work.spend(1 + count / 64)?;
        if from < used.start || to > used.end {
            return Err(Reason::LeafOutside { va, pa });
        }
        // Not even for reading: only the GPU's page walker may read tables.
        if let Some((table, _)) = self.tables.range(from..to).next() {
            let (va, at) = (va.get(), table << 12);
            return Err(if rights.write {
                Reason::TableWritable {
                    va: GpuVa::new(va),
                    at: PhysAddr::new(at),
                }
            } else {
                Reason::TableMapped {
                    va: GpuVa::new(va),
                    at: PhysAddr::new(at),
                }
            });
        }
        self.mapped.insert(from..to);
        if rights.write {
            self.writable.insert(from..to);
        }
        Ok(())
    }
}

fn used(plan: PlannedAccesses<'_>) -> Range<u64> {
    let first = plan.accesses.arena.base.frame();
    first..first.saturating_add(plan.accesses.used_pages)
}

/// Walks all translations: first their tables, then their mappings.
pub(super) fn walk(
    plan: PlannedAccesses<'_>,
    memory: &PlanMemory<'_>,
    work: &Work<'_>,
    verified: &mut VerificationReport,
) -> Result<ReachableFrames, Refusal> {
    let mut reach = ReachableFrames {
        tables: BTreeMap::new(),
        mapped: FrameSet::none(plan.accesses.arena.base.frame(), plan.accesses.used_pages),
        writable: FrameSet::none(plan.accesses.arena.base.frame(), plan.accesses.used_pages),
        later_tables: 0,
        later_leaves: 0,
    };
    for (index, space) in plan.spaces().iter().enumerate() {
        tables(plan, space, memory, work, &mut reach, verified).or_else(|e| refuse(2, place(index), e))?;
    }
    for (index, space) in plan.spaces().iter().enumerate() {
        leaves(plan, space, memory, work, &mut reach, verified).or_else(|e| refuse(2, place(index), e))?;
    }
    Ok(reach)
}

fn place(index: usize) -> String {
    format!("translation {index}")
}

fn broken(e: MmuError, used: &Range<u64>) -> Reason {
    match e {
        MmuError::TableMissing { level, at, .. } if !used.contains(&at.frame()) => Reason::TableOutside { level, at },
        other => Reason::Tables {
            message: other.to_string(),
        },
    }
}

fn tables(
    plan: PlannedAccesses<'_>,
    space: &PlanSpace,
    memory: &PlanMemory<'_>,
    work: &Work<'_>,
    reach: &mut ReachableFrames,
    verified: &mut VerificationReport,
) -> Result<(), Reason> {
    let used = used(plan);
    let expected = root_register(space.format, space.root);
    if space.root_register != expected || space.root.in_page() != 0 {
        return Err(Reason::RootValue {
            number: space.number,
            value: space.root_register,
            expected,
        });
    }
    let mut bad = None;
    // The walk itself ends after a fixed number of tables.
    let walked = for_each_table(space.format, space.root, memory, &mut |t| {
        verified.tables += 1;
        if let Err(reason) = work.spend(TABLE) {
            bad.get_or_insert(reason);
        }
        if !used.contains(&t.at.frame()) {
            bad.get_or_insert(Reason::TableOutside {
                level: t.level,
                at: t.at,
            });
        } else if bad.is_none() {
            let (format, level, va) = (space.format, t.level, t.va);
            let kind = Kind { format, level, va };
            if reach.tables.insert(t.at.frame(), kind).is_some_and(|k| !k.same(&kind)) {
                bad = Some(Reason::TableKind { at: t.at, level });
            }
        }
    });
    match (bad, walked) {
        (Some(reason), _) => Err(reason),
        (None, Err(e)) => Err(broken(e, &used)),
        (None, Ok(())) => Ok(()),
    }
}

fn leaves(
    plan: PlannedAccesses<'_>,
    space: &PlanSpace,
    memory: &PlanMemory<'_>,
    work: &Work<'_>,
    reach: &mut ReachableFrames,
    verified: &mut VerificationReport,
) -> Result<(), Reason> {
    let mut bad = Ok(());
    let walked = for_each_leaf(space.format, space.root, memory, &mut |leaf| {
        verified.leaves += 1;
        bad = reach.leaf(plan, leaf.va, leaf.pa, leaf.bytes, leaf.rights, work);
        if bad.is_ok() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    bad?;
    walked.map_err(|e| broken(e, &used(plan)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_sets_are_exact_at_bit_boundaries() {
        for (from, to) in [(0u64, 1u64), (3, 64), (63, 65), (64, 128), (1, 200), (199, 200), (5, 5)] {
            let mut f = FrameSet::none(1000, 200);
            f.insert(1000 + from..1000 + to);
            for at in 0..210 {
                assert_eq!(f.contains(1000 + at), (from..to).contains(&at), "{from}..{to} at {at}");
            }
            assert!(!f.contains(999));
        }
        let mut f = FrameSet::none(0, 10);
        f.insert(0..1000);
        assert!(f.contains(9) && !f.contains(u64::MAX));
    }
}
