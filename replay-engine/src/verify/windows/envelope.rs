//! Rules for window plans outside the body: the device, its windows, memory, expected effects.

use crate::device::{DeviceInfo, Window, space};
use crate::plan::{Effect, MAX_WINDOW_BYTES, Plan};
use crate::verify::limits::budget_exceeded;
use crate::verify::reason::{Reason, Refusal, refuse};
use trace_core::recording::{Hardware, SpaceKind};

/// Maximum number of windows of a device.
const MAX_WINDOWS: usize = 16;
/// Maximum number of expected effects of a plan.
const MAX_EXPECTATIONS: u64 = 1024;

/// Checks all of these rules.
pub(super) fn check(plan: &Plan, target: &DeviceInfo) -> Result<(), Refusal> {
    device(plan, target)?;
    memory(plan)?;
    expectations(plan)
}

/// Checks that the plan is for this device, and that its windows are the device's.
fn device(plan: &Plan, target: &DeviceInfo) -> Result<(), Refusal> {
    let same = match (&plan.hardware, &target.hardware) {
        (Some(a), Some(b)) => a.is_same_device(b),
        _ => false,
    };
    if !same {
        let id = |h: &Option<Hardware>| h.as_ref().map(|h| h.id()).unwrap_or_default();
        return refuse(
            0,
            "envelope",
            Reason::OtherHardware {
                plan: id(&plan.hardware),
                device: id(&target.hardware),
            },
        );
    }
    let registers = |w: &&Window| w.number == space::REGISTERS;
    let sound = plan.windows.len() <= MAX_WINDOWS
        && plan.windows.iter().filter(registers).count() == 1
        && plan
            .windows
            .iter()
            .all(|w| w.number != space::ARENA && target.windows.contains(w));
    if !sound {
        return refuse(0, "envelope", Reason::OtherWindows);
    }
    Ok(())
}

/// Checks that a window plan has no memory for the device, unless it uses bus mastering.
fn memory(plan: &Plan) -> Result<(), Refusal> {
    let lists = [
        ("translations", plan.spaces.len() as u64, true),
        ("jobs", plan.jobs.len() as u64, true),
        ("pages", plan.pages.len() as u64 + plan.used_pages, !plan.masters),
        ("images", plan.images.len() as u64, !plan.masters),
        ("outputs", plan.outputs.len() as u64, !plan.masters),
    ];
    match lists.into_iter().find(|(_, n, never)| *never && *n > 0) {
        Some((what, count, _)) => refuse(
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

fn expectations(plan: &Plan) -> Result<(), Refusal> {
    let mut bytes_read = 0u64;
    for (i, e) in plan.expectations.iter().enumerate() {
        if let Effect::Window {
            number, offset, bytes, ..
        } = e.effect
        {
            let window = plan.windows.iter().find(|w| w.number == number);
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
            Effect::Memory { bytes, .. } if plan.masters => bytes_read = bytes_read.saturating_add(*bytes),
            Effect::Memory { offset, bytes, .. } => {
                let reason = Reason::MemoryOutside {
                    offset: *offset,
                    bytes: *bytes,
                };
                return refuse(6, format!("expectation {i}"), reason);
            }
            Effect::Output { name, .. } if !plan.outputs.iter().any(|o| o.name == *name) => {
                let reason = Reason::NoEffect {
                    kind: format!("output {name}"),
                };
                return refuse(6, format!("expectation {i}"), reason);
            }
            _ => {}
        }
    }
    let count = plan.expectations.len() as u64;
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
