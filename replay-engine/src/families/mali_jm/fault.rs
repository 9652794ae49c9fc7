//! The registers of a fault: job status, fault status and address of the address spaces and of the GPU.

use crate::families::FaultRegister;
use crate::families::replay_family::{FaultState, RegisterReader};
use crate::plan::PlannedAccesses;
use trace_core::GpuVa;
use trace_core::families::mali_jm::exception_name;
use trace_core::registers::{Half, Register, RegisterMap, Role};

/// The exception code bits of a status register.
const CODE: u64 = 0xff;
/// Codes up to this one are not faults: none yet, done, and the states of a running or stopped job.
const NOT_A_FAULT: u64 = 8;

/// Reads what happened, in the job of a slot.
pub(super) fn read_fault(
    plan: PlannedAccesses<'_>,
    map: &RegisterMap,
    slot: Option<u8>,
    read: &mut RegisterReader<'_>,
) -> FaultState {
    let mut state = FaultState::default();
    let (mut job_code, mut space_code) = (0, 0);
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
        let Some((value, meaning)) = read(r) else {
            continue;
        };
        match r.replay.role {
            Some(Role::JobStatus) => job_code = value & CODE,
            Some(Role::FaultStatus) if value & CODE != 0 => {
                space_code = value & CODE;
                state.space = r.index;
            }
            Some(Role::FaultAddress) if state.space.is_some() && state.space == r.index => {
                state.address = Some(GpuVa::new(value));
            }
            _ => {}
        }
        state.registers.push(FaultRegister {
            name: name(r).to_owned(),
            value,
            means: meaning,
        });
    }
    let code = if job_code > NOT_A_FAULT { job_code } else { space_code };
    if code != 0 {
        state.exception = format!("{code:#04x} {}", exception_name(code as u8));
    }
    state
}

fn name(r: &Register) -> &str {
    match r.pair {
        Some(_) => r.name.strip_suffix("_LO").unwrap_or(&r.name),
        None => &r.name,
    }
}
