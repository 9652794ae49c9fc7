//! Fault and hang reports: the device's registers, the page walk of the address, the nearest buffer.

use super::FaultReport;
use crate::device::{RegisterTarget, space};
use crate::plan::{PlanMemory, PlannedAccesses};
use trace_core::families::mali_jm::exception_name;
use trace_core::mmu::{EntryKind, walk};
use trace_core::registers::{Half, Register, RegisterMap, Role};
use trace_core::{GpuVa, PAGE_SIZE};

/// The exception code bits of a status register.
const CODE: u64 = 0xff;
/// Codes up to this one are not faults: none yet, done, and the states of a running or stopped job.
const NOT_A_FAULT: u64 = 8;

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
    let mut registers = Vec::new();
    let (mut job_code, mut space_code, mut address, mut number) = (0, 0, None, None);
    for r in map.registers() {
        let wanted = match r.replay.role {
            Some(Role::JobStatus | Role::JobCurrent | Role::JobTail) => slot.is_some() && r.index == slot,
            Some(Role::FaultStatus | Role::FaultAddress) => plan.spaces().iter().any(|s| Some(s.number) == r.index),
            Some(Role::GpuFaultStatus | Role::GpuFaultAddress | Role::IrqRawstat(_)) => true,
            _ => false,
        };
        if !wanted || matches!(r.pair, Some(Half::High { .. })) {
            continue;
        }
        let Some((value, meaning)) = read(r, device) else {
            continue;
        };
        match r.replay.role {
            Some(Role::JobStatus) => job_code = value & CODE,
            Some(Role::FaultStatus) if value & CODE != 0 => {
                space_code = value & CODE;
                number = r.index;
            }
            Some(Role::FaultAddress) if number.is_some() && number == r.index => address = Some(GpuVa(value)),
            _ => {}
        }
        registers.push((name(r).to_owned(), value, meaning));
    }
    let code = if job_code > NOT_A_FAULT { job_code } else { space_code };
    let exception = match code {
        0 => "none".to_owned(),
        c => format!("{c:#04x} {}", exception_name(c as u8)),
    };
    let space = plan
        .spaces()
        .iter()
        .find(|s| number.is_none() || Some(s.number) == number);
    let walk = match (space, address) {
        (Some(s), Some(va)) => walk_lines(s, va, memory),
        _ => Vec::new(),
    };
    let of = job.map_or_else(String::new, |j| format!(" in job {j}"));
    let at = address.map_or_else(String::new, |a| format!(" at {a}"));
    FaultReport {
        job,
        event,
        summary: format!("{what}{of}: exception {exception}{at}"),
        exception,
        address,
        registers,
        walk,
        nearest_buffer: address.and_then(|a| nearest(plan, a)),
    }
}

fn name(r: &Register) -> &str {
    match r.pair {
        Some(_) => r.name.strip_suffix("_LO").unwrap_or(&r.name),
        None => &r.name,
    }
}

/// Reads a register, or the pair that it is the low half of, with its meaning.
fn read(r: &Register, device: &mut dyn RegisterTarget) -> Option<(u64, String)> {
    let low = device.read(space::REGISTERS, u64::from(r.offset), 4).ok()?;
    let Some(Half::Low { high_offset }) = r.pair else {
        return Some((low, r.describe(low)));
    };
    let value = low | device.read(space::REGISTERS, u64::from(high_offset), 4).ok()? << 32;
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
        let last = b.va.0.saturating_add(b.bytes.saturating_sub(1));
        b.va.0.saturating_sub(at.0).max(at.0.saturating_sub(last))
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
