//! The footprint of a plan: registers that it writes, by block; memory that it uses; register ranges that the user
//! allowed; calls or submissions.

use crate::lookup::find_register_map;
use replay_engine::channel::ChannelFootprint;
use replay_engine::plan::Plan;
use replay_engine::plan::api_body::CallReader;
use std::collections::BTreeMap;
use trace_core::recording::{CallEvent, CopyKind, Recording};
use trace_core::{PhysAddr, RegOffset};

/// The footprint of a plan. It is counted once, when the plan is built: a plan has as many actions as its recording has
/// events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanFootprint {
    /// Register blocks and the number of writes to each, most writes first.
    pub writes: Vec<(String, u64)>,
    /// First byte of the target's memory that the plan uses, and one past the last; `None` if it uses none.
    pub memory: Option<(PhysAddr, PhysAddr)>,
    /// Offsets of unknown registers that the user allowed: start, end (exclusive).
    pub allowed: Vec<(RegOffset, RegOffset)>,
    /// Footprint of an API trace plan; `None` for the other kinds.
    pub calls: Option<ApiFootprint>,
    /// Footprint of a plan of submissions to channels; `None` for the other kinds.
    pub channel: Option<ChannelFootprint>,
}

/// The operations of an API trace plan, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApiFootprint {
    /// Kernel launches.
    pub launches: u64,
    /// Host-to-device copies: count and bytes.
    pub to_device: (u64, u64),
    /// Readbacks: count and bytes.
    pub to_host: (u64, u64),
    /// Copies and fills on the device.
    pub on_device: u64,
    /// Stream dependencies and host waits.
    pub synchronizations: u64,
    /// Code modules: count and bytes.
    pub modules: (u64, u64),
    /// Mapped memory, bytes.
    pub mapped: u64,
}

impl ApiFootprint {
    fn for_plan(plan: &Plan) -> Option<Self> {
        let api = plan.api()?;
        let metadata = &api.metadata;
        let held = metadata.modules.iter().filter(|m| m.bytes > 0);
        let mut reach = Self {
            modules: held.fold((0, 0), |(n, bytes), m| (n + 1, m.bytes.saturating_add(bytes))),
            mapped: plan.budgets.pages.saturating_mul(4096),
            ..Self::default()
        };
        // The check of the plan reports unreadable calls.
        for c in CallReader::new(&api.body, plan.images.len()).map_while(Result::ok) {
            match c.call {
                CallEvent::Launch(_) => reach.launches += 1,
                CallEvent::Copy(row) => {
                    let bytes = row.total().unwrap_or(0);
                    let counted = match CopyKind::from_raw(row.kind) {
                        Some(CopyKind::HostToDevice) => &mut reach.to_device,
                        // Initial memory is recorded as a readback, but a replay copies it to the device.
                        Some(CopyKind::DeviceToHost) if c.pages.is_some() => &mut reach.to_device,
                        Some(CopyKind::DeviceToHost) => &mut reach.to_host,
                        _ => {
                            reach.on_device += 1;
                            continue;
                        }
                    };
                    counted.0 += 1;
                    counted.1 = counted.1.saturating_add(bytes);
                }
                CallEvent::Fill(_) => reach.on_device += 1,
                CallEvent::Order(_) => reach.synchronizations += 1,
                CallEvent::Allocation(_) | CallEvent::Call(_) => {}
            }
        }
        Some(reach)
    }
}

impl PlanFootprint {
    /// Computes the footprint of a plan.
    #[must_use]
    pub fn for_plan(plan: &Plan, recording: &Recording) -> Self {
        let map = find_register_map(recording);
        let mut blocks: BTreeMap<&str, u64> = BTreeMap::new();
        for (offset, n) in plan.writes() {
            let register = u32::try_from(offset).ok().and_then(|o| map?.at(RegOffset::new(o)));
            let block = register.map_or("not in the map", |r| r.block.as_str());
            *blocks.entry(block).or_default() += n;
        }
        let mut writes: Vec<_> = blocks.into_iter().map(|(b, n)| (b.to_owned(), n)).collect();
        writes.sort_by_key(|w| std::cmp::Reverse(w.1));
        let accesses = plan.accesses();
        let base = accesses.map_or(PhysAddr::ZERO, |a| a.arena.base);
        let bytes = accesses.map_or(0, |a| a.used_pages.saturating_mul(4096));
        Self {
            writes,
            memory: (bytes > 0).then(|| (base, base.saturating_add(bytes))),
            allowed: accesses.map_or_else(Vec::new, |a| a.allowed.clone()),
            calls: ApiFootprint::for_plan(plan),
            channel: plan.channel().map(ChannelFootprint::for_plan),
        }
    }
}
