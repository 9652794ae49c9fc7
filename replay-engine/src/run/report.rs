//! Fault and hang reports: the device's registers, the page walk of the address, the nearest buffer.

use super::FaultReport;
use crate::device::{RegisterTarget, space};
use crate::families::find_family_of_plan;
use crate::plan::{PlanMemory, PlannedAccesses};
use trace_core::mmu::{EntryKind, walk};
use trace_core::registers::{Half, Register, RegisterMap};
use trace_core::{GpuVa, PAGE_SIZE};

/// Reads from the device what happened at `event`, in job `job`.
pub(super) fn report(
    plan: PlannedAccesses<'_>,
    map: &RegisterMap,
    memory: &PlanMemory<'_>,
    device: &mut dyn RegisterTarget,
    event: u64,
    job: Option<u32>,
    what: &str,
) -> FaultReport {
    let slot = job.and_then(|j| plan.jobs().get(j as usize)).map(|j| j.slot);
    let fault = find_family_of_plan(plan).read_fault(plan, map, slot, &mut |r| read(r, device));
    let space = plan
        .spaces()
        .iter()
        .find(|s| fault.space.is_none() || Some(s.number) == fault.space);
    let walk = match (space, fault.address) {
        (Some(s), Some(va)) => walk_lines(s, va, memory),
        _ => Vec::new(),
    };
    let of = job.map_or_else(String::new, |j| format!(" in job {j}"));
    let at = fault.address.map_or_else(String::new, |a| format!(" at {a}"));
    FaultReport {
        job,
        event,
        summary: format!("{what}{of}: exception {}{at}", fault.exception),
        exception: fault.exception,
        address: fault.address,
        registers: fault.registers,
        walk,
        nearest_buffer: fault.address.and_then(|a| nearest(plan, a)),
    }
}

/// Reads a register, or the pair that it is the low half of, with its meaning.
fn read(r: &Register, device: &mut dyn RegisterTarget) -> Option<(u64, String)> {
    let low = device.read(space::REGISTERS, u64::from(r.offset.get()), 4).ok()?;
    let Some(Half::Low { high_offset }) = r.pair else {
        return Some((low, r.describe(low)));
    };
    let value = low | device.read(space::REGISTERS, u64::from(high_offset.get()), 4).ok()? << 32;
    let meaning = r
        .wide
        .as_ref()
        .map_or_else(|| format!("{value:#x}"), |w| w.describe(value));
    Some((value, meaning))
}

fn walk_lines(space: &crate::plan::PlanSpace, va: GpuVa, memory: &PlanMemory<'_>) -> Vec<String> {
    let walked = walk(space.format, space.root, va, memory);
    let mut lines: Vec<String> = walked
        .steps
        .iter()
        .map(|s| {
            let kind = match s.kind {
                EntryKind::Invalid => "invalid".to_owned(),
                EntryKind::Table(at) => format!("table {at}"),
                EntryKind::Page(at) => format!("page {at}"),
                EntryKind::Block(at) => format!("block {at}"),
                EntryKind::Reserved => "reserved".to_owned(),
            };
            format!(
                "level {}, entry {} at {}: {:#x}, {kind}",
                s.level, s.index, s.entry_at, s.raw
            )
        })
        .collect();
    lines.push(match walked.result {
        Ok(leaf) => format!(
            "{va} is mapped to {}, {}",
            leaf.target(va).unwrap_or(leaf.pa),
            leaf.rights
        ),
        Err(e) => format!("{va} does not translate: {e}"),
    });
    lines
}

fn nearest(plan: PlannedAccesses<'_>, at: GpuVa) -> Option<(String, u64)> {
    let distance = |b: &crate::plan::PlanBuffer| {
        let last = b.va.get().saturating_add(b.bytes.saturating_sub(1));
        b.va.get().saturating_sub(at.get()).max(at.get().saturating_sub(last))
    };
    plan.accesses
        .buffers
        .iter()
        .map(|b| (b.name.clone(), distance(b)))
        .min_by_key(|(_, d)| *d)
}

/// Returns the bytes of a GPU memory range after the run. Unmapped bytes stay zero.
pub(super) fn read_back(
    memory: &PlanMemory<'_>,
    space: &crate::plan::PlanSpace,
    va: GpuVa,
    bytes: u64,
    device: &mut dyn RegisterTarget,
) -> Result<Vec<u8>, crate::device::ReplayDeviceError> {
    let gpu = memory.gpu(space);
    let mut out = vec![0u8; usize::try_from(bytes).unwrap_or(0)];
    let mut page = [0u8; PAGE_SIZE];
    let mut done = 0;
    while done < out.len() {
        let Some(at) = va.checked_add(done as u64) else { break };
        let part = (PAGE_SIZE - at.in_page()).min(out.len() - done);
        if let Some(pa) = gpu.physical(at) {
            device.load_page(pa.frame(), &mut page)?;
            if let (Some(to), Some(from)) = (
                out.get_mut(done..done + part),
                page.get(pa.in_page()..pa.in_page() + part),
            ) {
                to.copy_from_slice(from);
            }
        }
        done += part;
    }
    Ok(out)
}
