//! Rule 2: every address that the GPU can reach is one of the plan's own pages.

use super::{Reason, Refusal, Verified, refuse};
use crate::plan::{Plan, PlanMemory, PlanSpace};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use trace_core::PAGE_SIZE;
use trace_core::mmu::{MmuError, for_each_leaf, for_each_table, root_register};

/// Walks one translation's tables, and adds the frames of tables to `table_frames`.
pub fn walk(
    plan: &Plan,
    index: usize,
    space: &PlanSpace,
    memory: &PlanMemory<'_>,
    table_frames: &mut BTreeSet<u64>,
    verified: &mut Verified,
) -> Result<(), Refusal> {
    let place = || format!("translation {index}");
    let first = plan.arena.base.frame();
    let end = first.saturating_add(plan.used_pages);
    let inside = |frame: u64| (first..end).contains(&frame);
    let expected = root_register(space.format, space.root);
    if space.root_register != expected || space.root.in_page() != 0 {
        let value = space.root_register;
        return refuse(
            2,
            place(),
            Reason::RootValue {
                number: space.number,
                value,
                expected,
            },
        );
    }
    let broken = |e: MmuError| match e {
        MmuError::TableMissing { level, at, .. } if !inside(at.frame()) => Reason::TableOutside { level, at: at.0 },
        other => Reason::Tables {
            message: other.to_string(),
        },
    };
    let mut bad = None;
    for_each_table(space.format, space.root, memory, &mut |t| {
        verified.tables += 1;
        table_frames.insert(t.at.frame());
        if !inside(t.at.frame()) {
            bad.get_or_insert(Reason::TableOutside {
                level: t.level,
                at: t.at.0,
            });
        }
    })
    .or_else(|e| refuse(2, place(), broken(e)))?;
    for_each_leaf(space.format, space.root, memory, &mut |leaf| {
        verified.leaves += 1;
        let (from, count) = (leaf.pa.frame(), leaf.bytes / PAGE_SIZE as u64);
        let to = from.saturating_add(count);
        if from < first || to > end {
            bad.get_or_insert(Reason::LeafOutside {
                va: leaf.va.0,
                pa: leaf.pa.0,
            });
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })
    .or_else(|e| refuse(2, place(), broken(e)))?;
    match bad {
        Some(reason) => refuse(2, place(), reason),
        None => Ok(()),
    }
}

/// No table of any translation can be written by the GPU.
pub fn none_writable(space: &PlanSpace, memory: &PlanMemory<'_>, tables: &BTreeSet<u64>) -> Result<(), Refusal> {
    let mut bad = None;
    for_each_leaf(space.format, space.root, memory, &mut |leaf| {
        let to = leaf.pa.frame().saturating_add(leaf.bytes / PAGE_SIZE as u64);
        if leaf.rights.write
            && let Some(frame) = tables.range(leaf.pa.frame()..to).next()
        {
            bad = Some(Reason::TableWritable {
                va: leaf.va.0,
                at: frame << 12,
            });
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })
    .or_else(|e| {
        refuse(
            2,
            format!("address space {}", space.number),
            Reason::Tables { message: e.to_string() },
        )
    })?;
    match bad {
        Some(reason) => refuse(2, format!("address space {}", space.number), reason),
        None => Ok(()),
    }
}
