//! Compilation of a recording and its edits to a plan for one device, by the family of the device.

use crate::device::{DeviceInfo, DeviceInterface};
use crate::families::find_family;
use crate::plan::{CompileError, CompileOptions, Compiled, Edits, MAX_ALLOWED, PlacedPlan};
use std::ops::Range;
use trace_core::progress::Progress;
use trace_core::registers::RegisterMap;
use trace_core::{Recording, RegOffset};

/// Compiles a recording and its edits into a plan for `target`.
///
/// Memory starts with the contents of the recording's first snapshot; frames without contents start as zero. Later CPU
/// writes become memory changes at the same point. Outputs are mapped at the end.
///
/// # Errors
/// If the recording cannot be replayed on the target: see [`CompileError`].
pub fn compile(
    recording: &Recording,
    edits: &Edits,
    target: &DeviceInfo,
    options: &CompileOptions,
    progress: &Progress,
) -> Result<Compiled, CompileError> {
    Ok(compile_placed(recording, edits, target, options, progress)?.compiled)
}

/// Compiles like [`compile`], with the caller's register map instead of the embedded one that the target names.
///
/// # Errors
/// Same as [`compile`].
pub fn compile_with(
    recording: &Recording,
    edits: &Edits,
    target: &DeviceInfo,
    map: &RegisterMap,
    options: &CompileOptions,
    progress: &Progress,
) -> Result<Compiled, CompileError> {
    Ok(placed(recording, edits, target, map, options, progress)?.compiled)
}

/// Compiles like [`compile`], and also returns the addresses of the recording's memory.
///
/// # Errors
/// Same as [`compile`].
pub fn compile_placed(
    recording: &Recording,
    edits: &Edits,
    target: &DeviceInfo,
    options: &CompileOptions,
    progress: &Progress,
) -> Result<PlacedPlan, CompileError> {
    let device = target.name.clone();
    if recording.api().is_some() {
        return Err(CompileError::TakesNoCalls { device });
    }
    if target.interface != DeviceInterface::Registers {
        return Err(CompileError::TakesNoAccesses {
            device,
            takes: target.taken_plans(),
        });
    }
    let map = RegisterMap::by_name(&target.register_map).ok_or_else(|| CompileError::UnknownMap {
        name: target.register_map.clone(),
    })?;
    placed(recording, edits, target, map, options, progress)
}

fn placed(
    recording: &Recording,
    edits: &Edits,
    target: &DeviceInfo,
    map: &RegisterMap,
    options: &CompileOptions,
    progress: &Progress,
) -> Result<PlacedPlan, CompileError> {
    let events = recording.events.len();
    if recording.events.value.is_empty() {
        return Err(CompileError::NothingToReplay);
    }
    if u32::try_from(events).is_err() {
        return Err(CompileError::TooManyEvents { events });
    }
    check_allowed(&options.allow_unknown, map)?;
    find_family(recording, target).compile(recording, edits, target, map, options, progress)
}

/// Checks that allowed ranges hold whole registers, are a small part of the window, and hold no register that the map
/// knows as not replayable.
fn check_allowed(ranges: &[Range<RegOffset>], map: &RegisterMap) -> Result<(), CompileError> {
    let max = map.window_bytes() / 4;
    let mut sum = 0u64;
    for r in ranges {
        let (start, end) = (r.start, r.end);
        if start >= end || !start.is_aligned(4) || !end.is_aligned(4) {
            return Err(CompileError::AllowedUneven { start, end });
        }
        sum = sum.saturating_add(u64::from(end - start));
        if sum > max || ranges.len() as u64 > MAX_ALLOWED {
            return Err(CompileError::AllowedTooMuch { start, end });
        }
        let known = map.find_register(|k| r.contains(&k.offset) && !k.replay.write);
        if let Some(known) = known {
            return Err(CompileError::AllowedKnown {
                start,
                end,
                register: known.name.clone(),
                reason: match known.replay.reason.as_str() {
                    "" => "it is only read".to_owned(),
                    reason => reason.to_owned(),
                },
            });
        }
    }
    Ok(())
}
