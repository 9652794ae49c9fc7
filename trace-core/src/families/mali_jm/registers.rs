//! Registers of the job manager and their values: classes for the scan, lanes of the timeline, commands.

use super::header::HEADER_LAYOUT;
use crate::families::family::TableCommand;
use crate::families::work::RegisterClass;
use crate::recording::InterruptLine;
use crate::registers::{Half, Register, RegisterMap, Role};

/// The job command that starts a chain.
pub const COMMAND_START: u64 = 1;
/// Bits of a slot's configuration that hold the address-space number.
pub const CONFIG_AS: u64 = 0xf;
/// The address-space command that makes root and mode take effect.
pub const AS_UPDATE: u64 = 1;
/// Values of the GPU command that reset everything: soft and hard reset.
pub const RESETS: [u64; 2] = [1, 2];
/// Bits of the translation configuration that hold the mode.
pub const MODE: u64 = 0xf;
/// The mode if the root register selects the translation.
pub const MODE_LEGACY: u64 = 0;
/// The mode if nothing is translated or mapped.
pub const MODE_UNMAPPED: u64 = 1;
/// The mode of Armv8 tables with a 4 KiB granule.
pub const MODE_AARCH64_4K: u64 = 6;

/// The block of the registers that all slots share.
pub(super) const JOB_CONTROL: &str = "JOB_CONTROL";

/// Returns whether a map describes a job manager.
pub(super) fn has_job_manager(map: &RegisterMap) -> bool {
    let is_own = |r: &Register| {
        matches!(
            r.replay.role,
            Some(Role::JobCommand | Role::AsCommand | Role::IrqStatus(_))
        )
    };
    map.layout(HEADER_LAYOUT).is_some() || map.first_members().any(is_own)
}

/// Returns the class of a register for the scan of the timeline.
pub(super) fn class_of(r: &Register) -> RegisterClass {
    let low = !matches!(r.pair, Some(Half::High { .. }));
    let slot = r.index.unwrap_or(0);
    match r.replay.role {
        Some(Role::JobHead) if low => RegisterClass::HeadLow(slot),
        Some(Role::JobHead) => RegisterClass::HeadHigh(slot),
        Some(Role::JobCommand) => RegisterClass::Command(slot),
        Some(Role::IrqStatus(line)) => RegisterClass::Status(line),
        Some(Role::IrqClear(line) | Role::IrqRawstat(line)) => RegisterClass::Handler(line),
        Some(Role::FaultStatus | Role::FaultAddress) => RegisterClass::Handler(InterruptLine::Mmu),
        Some(Role::GpuFaultStatus | Role::GpuFaultAddress) => RegisterClass::Handler(InterruptLine::Gpu),
        Some(Role::AsCommand) => RegisterClass::AsCommand,
        Some(Role::TransCfg) if low => RegisterClass::TransCfg,
        Some(Role::Root) if low => RegisterClass::RootLow,
        Some(Role::PowerOn) => RegisterClass::PowerOn,
        Some(Role::PowerReady | Role::PowerTransition) => RegisterClass::Group,
        None if r.block == JOB_CONTROL => RegisterClass::Handler(InterruptLine::Job),
        _ => RegisterClass::Plain,
    }
}

/// Returns the lane of a register: registers that start work come first, slots and address spaces by number, power
/// separate from the rest of the GPU.
pub(super) fn lane_of(r: &Register) -> Option<(u8, String)> {
    let is_power = matches!(
        r.replay.role,
        Some(Role::PowerOn | Role::PowerOff | Role::PowerReady | Role::PowerTransition)
    ) || ["PWR", "READY", "PRESENT", "ACTIVE"].iter().any(|k| r.name.contains(k));
    Some(match (r.block.as_str(), r.index) {
        ("JOB_SLOT" | "JS", Some(i)) => (0, format!("JS{i}")),
        ("AS", Some(i)) => (1, format!("AS{i}")),
        ("GPU_CONTROL", _) if is_power => (2, "power".to_owned()),
        ("GPU_CONTROL", _) => (4, "GPU".to_owned()),
        (JOB_CONTROL, None) => (3, "job control".to_owned()),
        _ => return None,
    })
}

/// Returns the meaning of an address-space command for page tables.
pub(super) fn table_command(value: u64) -> Option<TableCommand> {
    Some(match value & 0xff {
        AS_UPDATE => TableCommand::Update,
        2 => TableCommand::Lock,
        3 => TableCommand::Unlock,
        4 => TableCommand::FlushTables,
        5 => TableCommand::FlushMemory,
        _ => return None,
    })
}
