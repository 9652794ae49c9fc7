//! Replay rules in the map files: writes, reads, roles, reasons.

use super::map_error::{RegisterMapError, SourceLocation};
use super::raw::RawRegister;
use super::{ReadRule, Replay, Role};
use crate::recording::InterruptLine;

/// Parses the `replay`, `values`, `read`, `mask`, `before`, `role` and `reason` of a register.
pub(super) fn replay(at: &SourceLocation<'_>, raw: &RawRegister) -> Result<Replay, RegisterMapError> {
    let writable = raw.access != "ro";
    let write = match (writable, raw.replay) {
        (true, None) => return Err(at.err("a writable register must state whether it may be replayed")),
        (false, Some(true)) => return Err(at.err("a read-only register cannot be replayed")),
        (_, said) => said.unwrap_or(false),
    };
    if raw.values.is_some() && !write {
        return Err(at.err("values are set for a register that may not be replayed"));
    }
    let read = match (raw.read.as_deref(), raw.mask) {
        (None | Some("equal"), None) => ReadRule::Equal,
        (Some("masked"), Some(mask)) => ReadRule::Masked(mask),
        (Some("until"), None) => ReadRule::Until,
        (Some("feeds"), None) => ReadRule::Feeds,
        (Some("any"), None) => ReadRule::Any,
        (Some("masked"), None) => return Err(at.err("read rule masked needs a mask")),
        (_, Some(_)) => return Err(at.err("a mask is set without the read rule masked")),
        (Some(other), None) => {
            return Err(at.err(format!("read rule {other} is not equal, masked, until, feeds or any")));
        }
    };
    let reason_needed = read == ReadRule::Any || writable && !write;
    if reason_needed && raw.reason.is_empty() {
        return Err(at.err("a reason is missing: the register may not be written, or its reads are not compared"));
    }
    if let Some(before) = &raw.before {
        if before.trim().is_empty() {
            return Err(at.err("before is empty: it must explain what the value depends on"));
        }
        if !matches!(read, ReadRule::Equal | ReadRule::Masked(_)) {
            return Err(at.err("before is set for a register whose reads are not compared one by one"));
        }
    }
    let role = raw.role.as_deref().map(|r| role(at, r)).transpose()?;
    let role = role.or((!raw.screen.is_empty()).then_some(Role::Screen));
    if raw.screen.is_empty() == (role == Some(Role::Screen)) {
        return Err(at.err("a register has the role screen if and only if it has a screen list"));
    }
    Ok(Replay {
        write,
        values: raw.values.clone(),
        read,
        before: raw.before.clone(),
        role,
        reason: raw.reason.clone(),
    })
}

fn role(at: &SourceLocation<'_>, name: &str) -> Result<Role, RegisterMapError> {
    let line = |text: &str| {
        Ok(match text {
            "job" => InterruptLine::Job,
            "mmu" => InterruptLine::Mmu,
            "gpu" => InterruptLine::Gpu,
            other => return Err(at.err(format!("interrupt line {other} is not job, mmu or gpu"))),
        })
    };
    if let Some((what, of)) = name.split_once(':') {
        return Ok(match what {
            "irq-status" => Role::IrqStatus(line(of)?),
            "irq-rawstat" => Role::IrqRawstat(line(of)?),
            "irq-clear" => Role::IrqClear(line(of)?),
            "irq-mask" => Role::IrqMask(line(of)?),
            other => return Err(at.err(format!("the role {other} does not exist"))),
        });
    }
    ROLES
        .iter()
        .find(|(n, _)| *n == name)
        .map(|(_, r)| *r)
        .ok_or_else(|| at.err(format!("the role {name} does not exist")))
}

/// Names of roles in the files, except interrupt roles.
const ROLES: &[(&str, Role)] = &[
    ("root", Role::Root),
    ("transcfg", Role::TransCfg),
    ("memattr", Role::MemAttr),
    ("lockaddr", Role::LockAddr),
    ("as-command", Role::AsCommand),
    ("as-status", Role::AsStatus),
    ("fault-status", Role::FaultStatus),
    ("fault-address", Role::FaultAddress),
    ("job-head", Role::JobHead),
    ("job-affinity", Role::JobAffinity),
    ("job-config", Role::JobConfig),
    ("job-command", Role::JobCommand),
    ("flush-id", Role::FlushId),
    ("job-current", Role::JobCurrent),
    ("job-tail", Role::JobTail),
    ("job-stop", Role::JobStop),
    ("job-status", Role::JobStatus),
    ("latest-flush", Role::LatestFlush),
    ("gpu-command", Role::GpuCommand),
    ("gpu-status", Role::GpuStatus),
    ("gpu-fault-status", Role::GpuFaultStatus),
    ("gpu-fault-address", Role::GpuFaultAddress),
    ("power-on", Role::PowerOn),
    ("power-off", Role::PowerOff),
    ("power-ready", Role::PowerReady),
    ("power-transition", Role::PowerTransition),
    ("perf-base", Role::PerfBase),
    ("perf-config", Role::PerfConfig),
    ("bus-address", Role::BusAddress),
    ("doorbell", Role::Doorbell),
    ("interrupt-raw", Role::InterruptRaw),
    ("interrupt-status", Role::InterruptStatus),
    ("interrupt-status-clears", Role::InterruptStatusClears),
    ("interrupt-status-acknowledge", Role::InterruptStatusAcknowledge),
    ("interrupt-clear", Role::InterruptClear),
    ("interrupt-mask", Role::InterruptMask),
    ("interrupt-raise", Role::InterruptRaise),
    ("screen", Role::Screen),
];
