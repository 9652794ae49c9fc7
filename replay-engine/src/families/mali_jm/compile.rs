//! Compiler from a recording of a job manager to a plan: memory moves to the arena, and events become actions.

use super::events::Translation;
use super::other_model::ModelChange;
use super::table_formats::TableFormats;
use crate::device::DeviceInfo;
use crate::plan::relocate::{Edit, RelocatedMemory, TableTarget};
use crate::plan::{
    AccessPlan, CompileError, CompileOptions, Compiled, Edits, Origin, PlacedPlan, Plan, PlanBody, PlanBuffer,
    PlanSpace, RegisterPlan, Rewrite, RewriteKind, find_buffer, plan_buffer, plan_title,
};
use trace_core::Recording;
use trace_core::progress::Progress;
use trace_core::recording::{Buffer, BufferRole, MmuFormat};
use trace_core::registers::RegisterMap;

/// Compiles a recording and its edits into a plan for `target`.
///
/// # Errors
/// See [`crate::compile::compile`].
pub(super) fn compile(
    recording: &Recording,
    edits: &Edits,
    target: &DeviceInfo,
    map: &RegisterMap,
    options: &CompileOptions,
    progress: &Progress,
) -> Result<PlacedPlan, CompileError> {
    let events = recording.events.len();
    // Checked first: a modified image gets a new valid digest, so damage would go unnoticed later.
    if let Some(block) = recording.find_damage(progress)? {
        return Err(CompileError::Damaged { block: Box::new(block) });
    }
    progress.set_total(events as u64 + 2);

    let models = ModelChange::find(recording, target, map)?;
    let format = choose_table_format(recording, options, models.as_ref())?;
    let formats = TableFormats::new(&recording.metadata.address_spaces, format)?;
    let mut tables = TableTarget {
        format,
        ..TableTarget::default()
    };
    if let Some(models) = &models {
        tables.va_bits = models.target().va_bits();
    }
    let mut memory = RelocatedMemory::new(recording, target.arena, tables, progress)?;
    progress.advance(1)?;
    let mut rewrites = describe_changes(recording, &memory, models.as_ref());
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

    let gpu_id = models
        .as_ref()
        .map_or(recording.metadata.identity.gpu_id, |m| m.target().gpu_id);
    let mut translation = Translation::new(recording, map, &mut memory, &mut placed, &spaces, target.arena, options)
        .with_changes(models, formats);
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
        gpu_id,
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

/// Returns the format that the plan's page tables get, or `None` for the recorded one: the user's, or one that the target
/// walks if it does not walk all recorded ones.
fn choose_table_format(
    recording: &Recording,
    options: &CompileOptions,
    models: Option<&ModelChange>,
) -> Result<Option<MmuFormat>, CompileError> {
    let spaces = &recording.metadata.address_spaces;
    if let Some(format) = options.table_format {
        return match MmuFormat::WRITTEN.contains(&format) {
            true => Ok(Some(format)),
            false => Err(CompileError::TableFormat {
                number: spaces.first().map_or(0, |s| s.number),
                format: format.name(),
            }),
        };
    }
    let walked = models.map(|m| m.target().formats);
    Ok(walked.and_then(|walked| {
        let all = spaces.iter().all(|s| walked.contains(&s.format));
        walked.first().copied().filter(|_| !all)
    }))
}

/// Returns the rewrites that say for which model the plan is, and which tables have another format.
fn describe_changes(recording: &Recording, memory: &RelocatedMemory<'_>, models: Option<&ModelChange>) -> Vec<Rewrite> {
    let rewrite = |kind, detail| Rewrite {
        kind,
        event: None,
        detail,
    };
    let recorded = recording.metadata.address_spaces.iter();
    let formats = recorded.zip(&memory.moved).filter(|(r, m)| r.format != m.space.format);
    let formats = formats.map(|(recorded, m)| {
        let (number, new, old) = (recorded.number, m.space.format.name(), recorded.format.name());
        let detail = format!("address space {number}: page tables have the format {new} instead of {old}");
        rewrite(RewriteKind::TableFormat, detail)
    });
    let model = models.map(|m| rewrite(RewriteKind::Model, m.describe()));
    model.into_iter().chain(formats).collect()
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
