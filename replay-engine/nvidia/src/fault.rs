//! Faults of a replay in words: the submission, the launch, and the buffer nearest to the address.

use crate::worker_protocol::FaultAnswer;
use nvidia_client::robust_channel_name;
use replay_engine::plan::PlannedSubmissions;
use replay_engine::run::{FaultRegister, FaultReport, StopLocation};
use trace_core::GpuVa;

/// The last of the types of MMU faults that say that the page tables have no entry: of a directory, its size, of a page.
const LAST_MISSING_ENTRY: u32 = 2;

/// Returns where the GPU stopped.
pub(crate) fn stop_location(plan: PlannedSubmissions<'_>, fault: &FaultAnswer) -> StopLocation {
    StopLocation {
        event: Some(fault.event),
        sure: true,
        function: launch_at(plan, fault.event),
        why: describe(plan, fault),
    }
}

/// Returns the report of a fault.
pub(crate) fn fault_report(plan: PlannedSubmissions<'_>, fault: &FaultAnswer) -> FaultReport {
    let address = fault_address(fault);
    let launch = launch_at(plan, fault.event);
    let place = launch.map_or_else(
        || format!("event {}", fault.event),
        |name| format!("launch of {name}, event {}", fault.event),
    );
    let register = |name: String, value: u64, means: &str| FaultRegister {
        name,
        value,
        means: means.to_owned(),
    };
    let registers = fault.sm_errors.iter().flat_map(|(sm, global, warp, pc, address)| {
        [
            register(format!("SM {sm} HWW_GLOBAL_ESR"), u64::from(*global), ""),
            register(format!("SM {sm} HWW_WARP_ESR"), u64::from(*warp), warp_error(*warp)),
            register(format!("SM {sm} PC"), *pc, "address of the instruction"),
            register(format!("SM {sm} address"), *address, "address of the access"),
        ]
    });
    FaultReport {
        job: None,
        event: fault.event,
        summary: format!("{place}: {}", describe(plan, fault)),
        exception: match fault.code {
            Some(code) => format!("Xid {code}, {}", robust_channel_name(code)),
            None => "none: the time limit ran out".to_owned(),
        },
        address,
        registers: registers.collect(),
        walk: Vec::new(),
        nearest_buffer: address.and_then(|va| nearest_buffer(plan, va)),
    }
}

/// Returns the name of the launch that a submission makes.
fn launch_at(plan: PlannedSubmissions<'_>, event: u64) -> Option<String> {
    let launches = &plan.channel.launches;
    let found = launches.binary_search_by_key(&event, |l| l.event).ok()?;
    launches.get(found).map(|l| l.name.clone())
}

fn fault_address(fault: &FaultAnswer) -> Option<GpuVa> {
    let mmu = fault.mmu_faults.first().map(|(va, ..)| *va);
    let sm = fault.sm_errors.iter().map(|(.., address)| *address).find(|a| *a != 0);
    mmu.or(sm).map(GpuVa::new)
}

/// Returns the buffer whose range is nearest to an address, and the distance in bytes, 0 inside.
fn nearest_buffer(plan: PlannedSubmissions<'_>, va: GpuVa) -> Option<(String, u64)> {
    let distance = |b: &replay_engine::plan::PlanBuffer| {
        let last = b.va.get().saturating_add(b.bytes.saturating_sub(1));
        b.va.get().saturating_sub(va.get()).max(va.get().saturating_sub(last))
    };
    let nearest = plan.channel.buffers.iter().min_by_key(|b| distance(b))?;
    Some((nearest.name.clone(), distance(nearest)))
}

fn describe(plan: PlannedSubmissions<'_>, fault: &FaultAnswer) -> String {
    let millis = fault.after_ns / 1_000_000;
    let what = match (fault.code, fault.fetched) {
        (Some(code), _) => format!("{} (Xid {code}) after {millis} ms", robust_channel_name(code)),
        (None, true) => format!("it did not complete within {millis} ms"),
        (None, false) => format!("the GPU did not fetch it within {millis} ms"),
    };
    let access = fault.mmu_faults.first().map(|(va, kind, access)| {
        let verb = match access {
            0 => "read of",
            1 => "write to",
            _ => "access to",
        };
        let why = match *kind {
            kind if kind <= LAST_MISSING_ENTRY => "nothing is mapped there",
            _ => "the mapping does not allow it",
        };
        let near = nearest_buffer(plan, GpuVa::new(*va)).map_or_else(String::new, |(name, bytes)| match bytes {
            0 => format!(", inside {name}"),
            bytes => format!(", {bytes} bytes from {name}"),
        });
        format!(": {verb} {va:#x}, {why}{near}")
    });
    let warp = fault
        .sm_errors
        .first()
        .map(|(sm, _, warp, pc, _)| format!("; multiprocessor {sm}: {} at instruction {pc:#x}", warp_error(*warp)));
    let refused = match fault.refused.as_str() {
        "" => String::new(),
        why => format!("; its address is unknown: {why}"),
    };
    format!(
        "{what}{}{}{refused}",
        access.unwrap_or_default(),
        warp.unwrap_or_default()
    )
}

/// Returns the meaning of a warp error register: its low 16 bits, by the driver's messages.
fn warp_error(warp: u32) -> &'static str {
    match warp & 0xffff {
        0 => "no error",
        1 => "API stack error",
        2 => "API stack overflow",
        4 => "misaligned program counter",
        6 => "program counter overflow",
        8 => "misaligned register",
        9 => "illegal instruction encoding",
        11 => "illegal instruction parameter",
        13 => "out of range register",
        14 => "out of range address",
        15 => "misaligned address",
        16 => "invalid address space",
        17 => "invalid constant address",
        19 => "stack error",
        20 => "MMU fault",
        _ => "error",
    }
}
