//! What a plan may touch: registers that it writes, by block; memory that it lays out; ranges that a person allowed.

use super::lookup::map_of;
use replay_engine::plan::Plan;
use std::collections::BTreeMap;
use trace_core::PhysAddr;
use trace_core::recording::Recording;

/// What a plan may touch. Counted once, when the plan is made: a plan has as many actions as its recording has events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Blocks of registers and how often each is written, the most written first.
    pub writes: Vec<(String, u64)>,
    /// First byte of the board's memory that it uses, and the byte after the last; `None`: none.
    pub memory: Option<(PhysAddr, PhysAddr)>,
    /// Offsets of registers that the map does not know and that a person allowed: start, end (not included).
    pub allowed: Vec<(u32, u32)>,
}

impl Reach {
    /// What a plan may touch.
    #[must_use]
    pub fn of(plan: &Plan, recording: &Recording) -> Self {
        let map = map_of(recording);
        let mut blocks: BTreeMap<&str, u64> = BTreeMap::new();
        for (offset, n) in plan.writes() {
            let register = u32::try_from(offset).ok().and_then(|o| map?.at(o));
            let block = register.map_or("not in the map", |r| r.block.as_str());
            *blocks.entry(block).or_default() += n;
        }
        let mut writes: Vec<_> = blocks.into_iter().map(|(b, n)| (b.to_owned(), n)).collect();
        writes.sort_by_key(|w| std::cmp::Reverse(w.1));
        let base = plan.arena.base;
        let bytes = plan.used_pages.saturating_mul(4096);
        Self {
            writes,
            memory: (bytes > 0).then(|| (base, PhysAddr(base.0.saturating_add(bytes)))),
            allowed: plan.allowed.clone(),
        }
    }
}
