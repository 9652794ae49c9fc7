//! Quiescing of a bus-mastering device through its own registers. Not every machine can reset a function, and a
//! function that keeps its state would continue in the next plan's memory.

use super::POLL_STEP_NS;
use crate::device::{RegisterTarget, space};
use replay_core::DeviceError;
use trace_core::progress::Progress;
use trace_core::registers::{BusEngine, RegisterMap};

/// Maximum wait for a device to become idle, nanoseconds of its time.
const LIMIT_NS: u64 = 2_000_000_000;
/// Maximum pause between two polls, nanoseconds.
const LONGEST_PAUSE_NS: u64 = 1_000_000;

/// The state in which a device was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuiesceResult {
    /// It was idle.
    Idle,
    /// It had work, or rings to follow, and has been stopped.
    Busy,
}

/// Resets a device that follows rings, and waits for the end of a copy engine's transfer.
///
/// # Errors
/// Why it does not become idle, for the user.
pub(super) fn quiesce(
    device: &mut dyn RegisterTarget,
    map: Option<&RegisterMap>,
    progress: &Progress,
) -> Result<QuiesceResult, String> {
    let engine = map.and_then(RegisterMap::bus_master).map(|m| &m.engine);
    let engine = engine.ok_or("the register map does not say where the device reads addresses from")?;
    let (offset, mask) = match engine {
        BusEngine::Copy(c) => (c.command, c.start),
        BusEngine::Virtqueue(q) => (q.status, u64::MAX),
    };
    let width = map.and_then(|m| m.at(offset)).map_or(4, |r| r.width);
    let offset = u64::from(offset.get());
    let failed = |e: DeviceError| format!("the register at {offset:#x} cannot be reached: {e:?}");
    let first = device.read(space::REGISTERS, offset, width).map_err(failed)? & mask;
    if matches!(engine, BusEngine::Virtqueue(_)) {
        device.write(space::REGISTERS, offset, width, 0).map_err(failed)?;
    }
    let (mut waited, mut pause) = (0u64, POLL_STEP_NS);
    loop {
        let now = device.read(space::REGISTERS, offset, width).map_err(failed)? & mask;
        if now == 0 {
            return Ok(if first == 0 {
                QuiesceResult::Idle
            } else {
                QuiesceResult::Busy
            });
        }
        if waited >= LIMIT_NS || progress.check().is_err() {
            return Err(format!(
                "the device does not become idle: its register at {offset:#x} has {now:#x} after {waited} ns"
            ));
        }
        device.pause(pause).map_err(failed)?;
        waited = waited.saturating_add(pause);
        pause = pause.saturating_mul(2).min(LONGEST_PAUSE_NS);
    }
}
