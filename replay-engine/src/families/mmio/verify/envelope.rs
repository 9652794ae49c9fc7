//! Rules for window plans outside the body: the device, its windows, memory, expected effects.

use crate::device::{DeviceInfo, Window, space};
use crate::plan::{Effect, MAX_WINDOW_BYTES, MmioPlan, PlannedAccesses};
use crate::rules::{Reason, Refusal, budget_exceeded, refuse};
use trace_core::recording::SpaceKind;

/// Maximum number of windows of a device.
const MAX_WINDOWS: usize = 16;
/// Maximum number of expected effects of a plan.
const MAX_EXPECTATIONS: u64 = 1024;

/// Checks all of these rules.
pub(super) fn check(plan: PlannedAccesses<'_>, mmio: &MmioPlan, target: &DeviceInfo) -> Result<(), Refusal> {
    device(mmio, target)?;
    memory(plan, mmio)?;
    expectations(plan, mmio)
}

/// Checks that the plan is for this device, and that its windows are the device's.
fn device(mmio: &MmioPlan, target: &DeviceInfo) -> Result<(), Refusal> {
    let device = target.hardware.as_ref();
    if !device.is_some_and(|d| mmio.hardware.is_same_device(d)) {
        return refuse(
            0,
            "envelope",
            Reason::OtherHardware {
                plan: mmio.hardware.id(),
                device: device.map(|d| d.id()).unwrap_or_default(),
            },
        );
    }
    let registers = |w: &&Window| w.number == space::REGISTERS;
    let sound = mmio.windows.len() <= MAX_WINDOWS
        && mmio.windows.iter().filter(registers).count() == 1
        && mmio
            .windows
            .iter()
            .all(|w| w.number != space::ARENA && target.windows.contains(w));
    if !sound {
        return refuse(0, "envelope", Reason::OtherWindows);
    }
    Ok(())
}

/// Checks that a window plan has no memory for the device, unless it uses bus mastering.
fn memory(plan: PlannedAccesses<'_>, mmio: &MmioPlan) -> Result<(), Refusal> {
    if mmio.masters {
        return Ok(());
    }
    let lists = [
        ("pages", plan.accesses.pages.len() as u64 + plan.accesses.used_pages),
        ("images", plan.envelope.images.len() as u64),
        ("outputs", plan.envelope.outputs.len() as u64),
    ];
    match lists.into_iter().find(|(_, count)| *count > 0) {
        Some((what, count)) => refuse(
            2,
            "envelope",
            Reason::MemoryOfWindows {
                what: what.to_owned(),
                count,
            },
        ),
        None => Ok(()),
    }
}

fn expectations(plan: PlannedAccesses<'_>, mmio: &MmioPlan) -> Result<(), Refusal> {
    let mut bytes_read = 0u64;
    for (i, e) in plan.accesses.expectations.iter().enumerate() {
        if let Effect::Window {
            number, offset, bytes, ..
        } = e.effect
        {
            let window = mmio.windows.iter().find(|w| w.number == number);
            let inside = offset
                .checked_add(bytes)
                .zip(window)
                .is_some_and(|(end, w)| end <= w.bytes && w.kind == SpaceKind::Framebuffer);
            if !inside || bytes == 0 {
                return refuse(
                    6,
                    format!("expectation {i}"),
                    Reason::EffectOutside { number, offset, bytes },
                );
            }
            bytes_read = bytes_read.saturating_add(bytes);
        }
        match &e.effect {
            Effect::Memory { bytes, .. } if mmio.masters => bytes_read = bytes_read.saturating_add(*bytes),
            Effect::Memory { offset, bytes, .. } => {
                let reason = Reason::MemoryOutside {
                    offset: *offset,
                    bytes: *bytes,
                };
                return refuse(6, format!("expectation {i}"), reason);
            }
            Effect::Output { name, .. } if !plan.envelope.outputs.iter().any(|o| o.name == *name) => {
                let reason = Reason::NoEffect {
                    kind: format!("output {name}"),
                };
                return refuse(6, format!("expectation {i}"), reason);
            }
            _ => {}
        }
    }
    let count = plan.accesses.expectations.len() as u64;
    if count > MAX_EXPECTATIONS {
        return refuse(
            4,
            "envelope",
            budget_exceeded("expected effects", count, MAX_EXPECTATIONS),
        );
    }
    if bytes_read > MAX_WINDOW_BYTES {
        let what = "bytes of MMIO regions that are read back";
        return refuse(4, "envelope", budget_exceeded(what, bytes_read, MAX_WINDOW_BYTES));
    }
    Ok(())
}
