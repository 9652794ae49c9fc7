//! Compiler from a recording and its edits to a plan for one device.

use super::compile_input::{CompileOptions, Edits, find_buffer, plan_buffer, plan_title};
use super::events::Translation;
use super::relocate::{Edit, RelocatedMemory};
use super::{
    AccessPlan, CompileError, Compiled, MAX_ALLOWED, Origin, Plan, PlanBody, PlanBuffer, PlanSpace, RegisterPlan,
    Rewrite, RewriteKind,
};
use crate::device::DeviceInfo;
use std::collections::HashMap;
use std::ops::Range;
use trace_core::Recording;
use trace_core::progress::Progress;
use trace_core::recording::{Buffer, BufferRole};
use trace_core::registers::RegisterMap;

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

/// A plan with the addresses of the recording's memory in it.
#[derive(Clone, Debug)]
pub struct PlacedPlan {
    /// The plan.
    pub compiled: Compiled,
    /// Data frames: arena frame and recorded frame. Empty for a plan of a device's windows.
    pub frames: HashMap<u64, u64>,
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
    if target.takes_api_traces() {
        return Err(CompileError::TakesNoAccesses { device });
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
    if super::windows::is_bus_device(target) || recording.hardware().is_some() {
        return Ok(PlacedPlan {
            compiled: super::windows::compile(recording, edits, target, map, options, progress)?,
            frames: HashMap::new(),
        });
    }
    // Checked first: a modified image gets a new valid digest, so damage would go unnoticed later.
    if let Some(block) = recording.find_damage(progress)? {
        return Err(CompileError::Damaged { block: Box::new(block) });
    }
    progress.set_total(events as u64 + 2);

    let mut memory = RelocatedMemory::new(recording, target.arena, progress)?;
    progress.advance(1)?;
    let mut rewrites = Vec::new();
    for m in &memory.moved {
        rewrites.push(Rewrite {
            kind: RewriteKind::Address,
            event: None,
            detail: format!(
                "address space {}: {} tables and {} pages or blocks lie in the agent's memory, root at {}",
                m.space.number, m.tables, m.leaves, m.space.root
            ),
        });
    }
    let mut placed = put_edits(recording, edits, &mut memory, &mut rewrites)?;
    let spaces: Vec<PlanSpace> = memory.moved.iter().map(|m| m.space).collect();
    progress.advance(1)?;

    let mut translation = Translation::new(recording, map, &mut memory, &mut placed, &spaces, target.arena, options);
    translation.run(progress)?;
    let done = translation.finish();
    rewrites.extend(done.rewrites);
    what_became_of(&placed, &mut rewrites)?;
    let outputs = outputs(recording, options, &memory, &mut rewrites)?;
    let used_pages = memory.used_pages();
    let frames = memory.frames();
    let moved = memory.into_pages();
    rewrites.sort_by_key(|r| (r.event.is_some(), r.event, r.kind));
    let (body, actions) = done.body.finish();
    let accesses = AccessPlan {
        gpu_id: recording.metadata.identity.gpu_id,
        register_map: map.name().to_owned(),
        arena: target.arena,
        pages: moved.pages,
        used_pages,
        reads: done.reads,
        interrupts: done.interrupts,
        body,
        allowed: options.allow_unknown.iter().map(|r| (r.start, r.end)).collect(),
        buffers: recording.metadata.buffers.iter().map(plan_buffer).collect(),
        expectations: Vec::new(),
        origin: Some(Origin::from_recording(recording)),
    };
    let jobs = done.jobs;
    let compiled = Compiled {
        plan: Plan {
            title: plan_title(&recording.metadata.identity),
            outputs,
            rewrites,
            actions,
            budgets: options.budgets,
            images: moved.images,
            ..Plan::new(PlanBody::Registers(RegisterPlan { accesses, spaces, jobs }))
        },
        pages: moved.by_digest,
    };
    Ok(PlacedPlan { compiled, frames })
}

/// Checks that allowed ranges hold whole registers, are a small part of the window, and hold no register that the map
/// knows as not replayable.
fn check_allowed(ranges: &[Range<u32>], map: &RegisterMap) -> Result<(), CompileError> {
    let max = map.window_bytes() / 4;
    let mut sum = 0u64;
    for r in ranges {
        let (start, end) = (r.start, r.end);
        if start >= end || start % 4 != 0 || end % 4 != 0 {
            return Err(CompileError::AllowedUneven { start, end });
        }
        sum = sum.saturating_add(u64::from(end - start));
        if sum > max || ranges.len() as u64 > MAX_ALLOWED {
            return Err(CompileError::AllowedTooMuch { start, end });
        }
        let known = map.registers().find(|k| r.contains(&k.offset) && !k.replay.write);
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

fn put_edits(
    recording: &Recording,
    edits: &Edits,
    memory: &mut RelocatedMemory<'_>,
    rewrites: &mut Vec<Rewrite>,
) -> Result<Vec<Edit>, CompileError> {
    let mut placed = Vec::new();
    let mut named = |detail| {
        rewrites.push(Rewrite {
            kind: RewriteKind::Input,
            event: None,
            detail,
        })
    };
    for (name, bytes) in &edits.inputs {
        let b = find_buffer(recording, name)?;
        if b.bytes != bytes.len() as u64 {
            return Err(CompileError::InputSize {
                name: name.clone(),
                bytes: bytes.len() as u64,
                expected: b.bytes,
            });
        }
        let (edit, changed) = Edit::place(format!("input `{name}`"), b.address_space, b.va, bytes, memory)?;
        placed.push(edit);
        named(format!(
            "`{name}` at {}: {} bytes, {changed} pages differ from the recording",
            b.va,
            bytes.len()
        ));
    }
    for p in &edits.patches {
        let (edit, changed) = Edit::place("an edit".to_owned(), p.address_space, p.va, &p.bytes, memory)?;
        placed.push(edit);
        named(format!(
            "{} bytes at {}: {changed} pages differ from the recording",
            p.bytes.len(),
            p.va
        ));
    }
    Ok(placed)
}

/// Adds the effects of later CPU writes on edits to the rewrites.
fn what_became_of(edits: &[Edit], rewrites: &mut Vec<Rewrite>) -> Result<(), CompileError> {
    for edit in edits {
        if let Some(va) = edit.find_unmapped_page() {
            let what = edit.what.clone();
            return Err(CompileError::NotMapped { what, va });
        }
        rewrites.extend(edit.later.iter().map(|(event, how)| Rewrite {
            kind: RewriteKind::Input,
            event: Some(*event),
            detail: format!("{}: {how}", edit.what),
        }));
    }
    Ok(())
}

fn outputs(
    recording: &Recording,
    options: &CompileOptions,
    memory: &RelocatedMemory<'_>,
    rewrites: &mut Vec<Rewrite>,
) -> Result<Vec<PlanBuffer>, CompileError> {
    let wanted: Vec<&Buffer> = if options.outputs.is_empty() {
        recording
            .metadata
            .buffers
            .iter()
            .filter(|b| b.role == BufferRole::Output)
            .collect()
    } else {
        options
            .outputs
            .iter()
            .map(|name| find_buffer(recording, name))
            .collect::<Result<_, _>>()?
    };
    wanted
        .into_iter()
        .map(|b| {
            memory.check(&format!("output `{}`", b.name), b.address_space, b.va, b.bytes)?;
            rewrites.push(Rewrite {
                kind: RewriteKind::Output,
                event: None,
                detail: format!("`{}` at {}: {} bytes are copied out at the end", b.name, b.va, b.bytes),
            });
            Ok(plan_buffer(b))
        })
        .collect()
}
