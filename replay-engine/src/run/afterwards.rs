//! The outcome as a recording: what the device did, and the memory that it left.

use super::recorder::SpaceSeen;
use crate::device::{Board, BoardError, DeviceInfo, Window};
use crate::plan::{PageSource, Plan};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use trace_core::PAGE_SIZE;
use trace_core::recording::{
    AddressSpace, Buffer, BufferRole, Clock, Events, Facts, FrameRole, Identity, Memory, MemoryBuilder, Page, PageId,
    Recording, RunsBuilder, Snapshot, Space, ZERO_PAGE,
};

/// Puts the outcome's recording together. Memory stands at its end, of a device that masters the bus as it began, too; `pages` are those that changes of memory left.
pub(super) fn recording(
    plan: &Plan,
    info: &DeviceInfo,
    events: Events,
    pages: MemoryBuilder,
    source: &dyn PageSource,
    seen: &HashMap<u8, SpaceSeen>,
    board: &mut dyn Board,
) -> Result<Recording, BoardError> {
    let tables: BTreeSet<u64> = plan
        .pages
        .iter()
        .filter(|p| p.role == FrameRole::Table)
        .map(|p| p.frame)
        .collect();
    let (memory, pages, zeros) = memory(plan, &tables, events.len() as u64, pages, source, board)?;
    let facts = Facts {
        identity: Identity {
            gpu_id: info.gpu_id,
            gpu_name: info.gpu_name.clone(),
            driver: "kinescope replay".to_owned(),
            board: info.name.clone(),
            tool: concat!("kinescope ", env!("CARGO_PKG_VERSION")).to_owned(),
            source: "outcome".to_owned(),
            when: String::new(),
            clock: if info.virtual_time {
                Clock::Virtual
            } else {
                Clock::Monotonic
            },
        },
        spaces: spaces(plan, info),
        address_spaces: plan
            .spaces
            .iter()
            .map(|s| {
                let set = seen.get(&s.number).copied().unwrap_or_default();
                AddressSpace {
                    number: s.number,
                    format: s.format,
                    root: s.root,
                    memattr: set.memattr,
                    transcfg: set.transcfg,
                }
            })
            .collect(),
        buffers: plan
            .buffers
            .iter()
            .map(|b| Buffer {
                name: b.name.clone(),
                role: role(plan, &b.name),
                address_space: b.space,
                va: b.va,
                bytes: b.bytes,
                element: b.element,
            })
            .collect(),
        source_pages: pages,
        source_zero_pages: zeros,
        ..Facts::default()
    };
    let mut recording = Recording {
        facts,
        events,
        memory,
        ..Recording::default()
    };
    if let Some(hardware) = &info.hardware {
        recording.set_hardware(hardware);
    }
    Ok(recording)
}

/// The windows that accesses went to, in the order in which the recorder numbers them.
fn spaces(plan: &Plan, info: &DeviceInfo) -> Vec<Space> {
    let windows = if plan.windows.is_empty() {
        Window::registers(info.register_bytes())
    } else {
        plan.windows.clone()
    };
    let space = |w: Window| Space {
        name: w.name,
        kind: w.kind,
        bytes: w.bytes,
    };
    windows.into_iter().map(space).collect()
}

fn role(plan: &Plan, name: &str) -> BufferRole {
    if plan.outputs.iter().any(|o| o.name == name) {
        return BufferRole::Output;
    }
    if name == "input" {
        BufferRole::Input
    } else {
        BufferRole::Shared
    }
}

/// All used frames, how many of them hold data, and how many of these are zero.
fn memory(
    plan: &Plan,
    tables: &BTreeSet<u64>,
    event: u64,
    mut builder: MemoryBuilder,
    source: &dyn PageSource,
    board: &mut dyn Board,
) -> Result<(Memory, u64, u64), BoardError> {
    let first = plan.arena.base.frame();
    let frames = first..first.saturating_add(plan.used_pages);
    let may_differ: Option<BTreeSet<u64>> = board.content_frames().map(|f| f.into_iter().collect());
    let mut runs = RunsBuilder::default();
    let mut page = [0u8; PAGE_SIZE];
    let (mut data, mut zeros) = (0, 0);
    for frame in frames {
        let id = if may_differ.as_ref().is_none_or(|f| f.contains(&frame)) {
            board.load_page(frame, &mut page)?;
            if page == ZERO_PAGE {
                PageId::ZERO
            } else {
                builder.add_page(&page)
            }
        } else {
            PageId::ZERO
        };
        let role = if tables.contains(&frame) {
            FrameRole::Table
        } else {
            FrameRole::Data
        };
        if role == FrameRole::Data {
            data += 1;
            zeros += u64::from(id == PageId::ZERO);
        }
        runs.push(frame, id, role);
    }
    let mut snapshots = Vec::new();
    if plan.masters {
        // What the CPU did is played again from there.
        let listed: BTreeMap<u64, &Page> = plan
            .pages
            .iter()
            .filter_map(|p| Some((p.frame, source.page(&p.digest)?)))
            .collect();
        let mut start = RunsBuilder::default();
        for frame in first..first.saturating_add(plan.used_pages) {
            let id = listed.get(&frame).map_or(PageId::ZERO, |p| builder.add_page(p));
            start.push(frame, id, FrameRole::Data);
        }
        snapshots.push(Snapshot {
            event: 0,
            parent: None,
            runs: start.finish(),
        });
    }
    let mut memory = builder.finish();
    snapshots.push(Snapshot {
        event,
        parent: None,
        runs: runs.finish(),
    });
    memory.snapshots = Arc::new(snapshots);
    Ok((memory, data, zeros))
}
