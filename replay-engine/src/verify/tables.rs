//! Rule 2: every address that the GPU can reach is one of the plan's own pages, and none of its page tables.

use super::work::{TABLE, Work};
use super::{Reason, Refusal, Verified, refuse};
use crate::plan::{Plan, PlanMemory, PlanSpace};
use std::collections::BTreeSet;
use std::ops::{ControlFlow, Range};
use trace_core::PAGE_SIZE;
use trace_core::mmu::{MmuError, for_each_leaf, for_each_table, root_register};

/// Used frames of a plan, a bit each.
pub(super) struct Frames {
    first: u64,
    bits: Vec<u64>,
}

impl Frames {
    /// None of `count` frames from `first` on.
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

    /// Whether a frame is among them.
    pub fn contains(&self, frame: u64) -> bool {
        let Some(at) = frame.checked_sub(self.first) else {
            return false;
        };
        self.bits
            .get((at / 64) as usize)
            .is_some_and(|w| w >> (at % 64) & 1 != 0)
    }
}

/// What the GPU reaches through the plan's translations.
pub(super) struct Reach {
    /// Frames of page tables, of all translations.
    pub tables: BTreeSet<u64>,
    /// Frames that the GPU may write through some translation.
    pub writable: Frames,
}

fn used(plan: &Plan) -> Range<u64> {
    let first = plan.arena.base.frame();
    first..first.saturating_add(plan.used_pages)
}

/// Walks all translations: first their tables, then what they map.
pub(super) fn walk(
    plan: &Plan,
    memory: &PlanMemory<'_>,
    work: &Work<'_>,
    verified: &mut Verified,
) -> Result<Reach, Refusal> {
    let mut reach = Reach {
        tables: BTreeSet::new(),
        writable: Frames::none(plan.arena.base.frame(), plan.used_pages),
    };
    for (index, space) in plan.spaces.iter().enumerate() {
        tables(plan, space, memory, work, &mut reach, verified).or_else(|e| refuse(2, place(index), e))?;
    }
    for (index, space) in plan.spaces.iter().enumerate() {
        leaves(plan, space, memory, work, &mut reach, verified).or_else(|e| refuse(2, place(index), e))?;
    }
    Ok(reach)
}

fn place(index: usize) -> String {
    format!("translation {index}")
}

fn broken(e: MmuError, used: &Range<u64>) -> Reason {
    match e {
        MmuError::TableMissing { level, at, .. } if !used.contains(&at.frame()) => {
            Reason::TableOutside { level, at: at.0 }
        }
        other => Reason::Tables {
            message: other.to_string(),
        },
    }
}

fn tables(
    plan: &Plan,
    space: &PlanSpace,
    memory: &PlanMemory<'_>,
    work: &Work<'_>,
    reach: &mut Reach,
    verified: &mut Verified,
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
                at: t.at.0,
            });
        } else if bad.is_none() {
            reach.tables.insert(t.at.frame());
        }
    });
    match (bad, walked) {
        (Some(reason), _) => Err(reason),
        (None, Err(e)) => Err(broken(e, &used)),
        (None, Ok(())) => Ok(()),
    }
}

fn leaves(
    plan: &Plan,
    space: &PlanSpace,
    memory: &PlanMemory<'_>,
    work: &Work<'_>,
    reach: &mut Reach,
    verified: &mut Verified,
) -> Result<(), Reason> {
    let used = used(plan);
    let mut bad = Ok(());
    let walked = for_each_leaf(space.format, space.root, memory, &mut |leaf| {
        verified.leaves += 1;
        let (from, count) = (leaf.pa.frame(), leaf.bytes / PAGE_SIZE as u64);
        let to = from.saturating_add(count);
        bad = work.spend(1 + count / 64).and_then(|()| {
            if from < used.start || to > used.end {
                return Err(Reason::LeafOutside {
                    va: leaf.va.0,
                    pa: leaf.pa.0,
                });
            }
            // Not even to read: what the walker of the GPU reads is for it alone.
            if let Some(table) = reach.tables.range(from..to).next() {
                let (va, at) = (leaf.va.0, table << 12);
                return Err(if leaf.rights.write {
                    Reason::TableWritable { va, at }
                } else {
                    Reason::TableMapped { va, at }
                });
            }
            if leaf.rights.write {
                reach.writable.insert(from..to);
            }
            Ok(())
        });
        if bad.is_ok() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    bad?;
    walked.map_err(|e| broken(e, &used))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_frames_are_kept_to_the_bit() {
        for (from, to) in [(0u64, 1u64), (3, 64), (63, 65), (64, 128), (1, 200), (199, 200), (5, 5)] {
            let mut f = Frames::none(1000, 200);
            f.insert(1000 + from..1000 + to);
            for at in 0..210 {
                assert_eq!(f.contains(1000 + at), (from..to).contains(&at), "{from}..{to} at {at}");
            }
            assert!(!f.contains(999));
        }
        let mut f = Frames::none(0, 10);
        f.insert(0..1000);
        assert!(f.contains(9) && !f.contains(u64::MAX));
    }
}
