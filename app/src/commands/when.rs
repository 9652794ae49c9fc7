//! Conditions under which commands can run.

use super::{doc, view};
use crate::panels::common::locations::current_job;
use crate::panels::recording::notebook;
use crate::window::{App, SCALES};
use kinescope_session::xref_trail::AccessFilter;
use kinescope_session::{GrowthState, clipboard, sample};

pub fn always(_: &App) -> bool {
    true
}

pub fn can_grow(app: &App) -> bool {
    app.settings.scale() < *SCALES.end()
}

pub fn can_shrink(app: &App) -> bool {
    app.settings.scale() > *SCALES.start()
}

pub fn is_scaled(app: &App) -> bool {
    app.settings.scale() != 100
}

pub fn has_recording(app: &App) -> bool {
    app.doc.is_some()
}

/// Returns whether a file is followed.
pub fn is_following(app: &App) -> bool {
    app.following().is_some()
}

/// Returns whether no program runs.
pub fn can_run_program(app: &App) -> bool {
    !app.is_program_running()
}

/// Returns whether a program runs or has run.
pub fn has_program(app: &App) -> bool {
    app.program().is_some()
}

/// Returns whether a program runs.
pub fn is_program_running(app: &App) -> bool {
    app.is_program_running()
}

/// Returns whether a file is followed and its recording is open.
pub fn is_growing(app: &App) -> bool {
    doc(app).is_some_and(kinescope_session::Document::is_growing)
}

/// Returns whether a part of a recording is open that was not followed to its end.
pub fn is_partial(app: &App) -> bool {
    doc(app).is_some_and(|d| d.growth() == GrowthState::Partial)
}

/// Returns whether the open recording grows, or is a part of one that did.
pub fn is_unfinished(app: &App) -> bool {
    doc(app).is_some_and(|d| d.growth() != GrowthState::Complete)
}

/// Returns whether a recording is open that does not grow.
pub fn has_stable_recording(app: &App) -> bool {
    app.doc.is_some() && !is_growing(app)
}

/// Returns whether a complete recording is open.
pub fn has_complete_recording(app: &App) -> bool {
    app.doc.is_some() && !is_unfinished(app)
}

/// Returns whether there is something to close: a recording, or the wait for one.
pub fn can_close(app: &App) -> bool {
    app.doc.is_some() || is_following(app)
}

/// Returns whether the selected buffer can be edited.
pub fn can_edit(app: &App) -> bool {
    has_buffers(app) && !is_unfinished(app)
}

pub fn has_c(app: &App) -> bool {
    doc(app).is_some_and(|d| clipboard::has_format(d, d.selection(), clipboard::CopyFormat::C))
}

pub fn has_events(app: &App) -> bool {
    doc(app).is_some_and(|d| !d.is_empty())
}

pub fn has_jobs(app: &App) -> bool {
    doc(app).is_some_and(|d| !d.derived.jobs.is_empty())
}

pub fn has_interrupts(app: &App) -> bool {
    doc(app).is_some_and(|d| !d.derived.interrupts.is_empty())
}

pub fn has_findings(app: &App) -> bool {
    doc(app).is_some_and(|d| !d.derived.findings.is_empty())
}

pub fn has_buffers(app: &App) -> bool {
    doc(app).is_some_and(|d| app.views.inputs.current_buffer(d).is_some())
}

pub fn has_spaces(app: &App) -> bool {
    doc(app).is_some_and(|d| !d.derived.spaces.is_empty())
}

pub fn has_launches(app: &App) -> bool {
    doc(app).is_some_and(|d| d.derived.api_trace.as_ref().is_some_and(|c| !c.launches().is_empty()))
}

/// Returns whether the recording is that of a WebAssembly run.
pub fn has_wasm_run(app: &App) -> bool {
    doc(app).is_some_and(|d| kinescope_session::wasm_run::is_wasm_run(&d.recording))
}

/// Returns whether a target can trace what launches changed: there are launches, a target can trace them, and no trace
/// is running.
pub fn can_trace_memory(app: &App) -> bool {
    has_launches(app)
        && doc(app).is_some_and(|d| d.find_memory_trace_target().is_some() && d.memory_trace.running().is_none())
}

/// Returns whether a target can measure the launches, and no measurement is running.
pub fn can_measure(app: &App) -> bool {
    has_launches(app)
        && doc(app).is_some_and(|d| d.find_memory_trace_target().is_some() && d.launch_times.running().is_none())
}

/// Returns whether a target can trace what the current launch changed.
pub fn can_trace_launch(app: &App) -> bool {
    can_trace_memory(app) && doc(app).is_some_and(|d| d.current_launch().is_some())
}

/// Returns whether there is device memory of API calls.
pub fn has_buffers_of_calls(app: &App) -> bool {
    doc(app).is_some_and(|d| {
        d.derived
            .api_trace
            .as_ref()
            .is_some_and(|c| !c.buffers().list().is_empty())
    })
}

/// Returns whether the Kernel panel has PTX.
pub fn has_ptx(app: &App) -> bool {
    app.doc.is_some() && app.views.kernel.code.as_ref().is_some_and(|c| c.ptx.is_some())
}

/// Returns whether there is memory by address.
pub fn has_memory(app: &App) -> bool {
    has_spaces(app) || has_buffers_of_calls(app)
}

pub fn has_register(app: &App) -> bool {
    doc(app).is_some_and(|d| d.current_register().is_some())
}

/// Returns whether the selection can be named: a register, a buffer, or bytes of memory.
pub fn can_name(app: &App) -> bool {
    app.name_sheet.is_none() && app.can_name_selection()
}

/// Returns whether the current event is a call that made a submission.
pub fn has_submission_of_call(app: &App) -> bool {
    doc(app).is_some_and(|d| d.submission_of_event().is_some())
}

/// Returns whether the current event is a submission, or its doorbell, that a call made.
pub fn has_call_of_submission(app: &App) -> bool {
    doc(app).is_some_and(|d| d.call_of_event().is_some())
}

pub fn has_next_xref(app: &App) -> bool {
    doc(app).is_some_and(|d| d.next_xref(true, AccessFilter::All).is_some())
}

pub fn has_previous_xref(app: &App) -> bool {
    doc(app).is_some_and(|d| d.next_xref(false, AccessFilter::All).is_some())
}

pub fn has_last_writer(app: &App) -> bool {
    doc(app).is_some_and(|d| d.next_xref(false, AccessFilter::Writes).is_some())
}

pub fn has_next_reader(app: &App) -> bool {
    doc(app).is_some_and(|d| d.next_xref(true, AccessFilter::Reads).is_some())
}

pub fn has_entry(app: &App) -> bool {
    doc(app).is_some_and(|d| d.next_entry().is_some())
}

pub fn has_next_write(app: &App) -> bool {
    doc(app).is_some_and(|d| d.find_neighbour_access(true, true).is_some())
}

pub fn has_previous_write(app: &App) -> bool {
    doc(app).is_some_and(|d| d.find_neighbour_access(false, true).is_some())
}

/// Returns whether the recording has times.
pub fn has_times(app: &App) -> bool {
    has_events(app) && doc(app).is_some_and(|d| d.has_times())
}

pub fn has_cursor_a(app: &App) -> bool {
    doc(app).is_some_and(|d| d.cursors.a.is_some())
}

pub fn has_cursor_b(app: &App) -> bool {
    doc(app).is_some_and(|d| d.cursors.b.is_some())
}

pub fn has_cursor(app: &App) -> bool {
    has_cursor_a(app) || has_cursor_b(app)
}

pub fn has_cursor_span(app: &App) -> bool {
    doc(app).is_some_and(|d| d.cursor_span().is_some())
}

/// Returns whether the user changed heights of lanes.
pub fn has_heights(app: &App) -> bool {
    app.doc.is_some() && !app.views.timeline.heights.is_empty()
}

/// Returns whether the user changed the columns of a table.
pub fn has_columns(app: &App) -> bool {
    app.doc.is_some() && app.actions.tables.is_changed()
}

pub fn has_filter(app: &App) -> bool {
    doc(app).is_some() && !app.views.events.filter.is_empty()
}

pub fn has_plan(app: &App) -> bool {
    doc(app).is_some_and(|d| d.replay.plan.is_some())
}

pub fn has_outcome(app: &App) -> bool {
    doc(app).is_some_and(|d| d.replay.outcome.is_some())
}

pub fn has_comparison(app: &App) -> bool {
    doc(app).is_some_and(|d| d.comparison.done.is_some())
}

pub fn has_divergences(app: &App) -> bool {
    doc(app).is_some_and(|d| d.replay.outcome.as_ref().is_some_and(|o| !o.divergences.is_empty()))
}

/// Returns whether the Screen panel has a picture from the stores.
pub fn has_screen(app: &App) -> bool {
    app.doc.is_some() && app.views.screen.drawn().is_some()
}

pub fn has_next_store(app: &App) -> bool {
    doc(app).is_some_and(|d| app.views.screen.find_next_store(d, true).is_some())
}

pub fn has_previous_store(app: &App) -> bool {
    doc(app).is_some_and(|d| app.views.screen.find_next_store(d, false).is_some())
}

pub fn has_left_edits(app: &App) -> bool {
    doc(app).is_some_and(|d| d.offered.is_some())
}

pub fn has_floating_panel(app: &App) -> bool {
    !app.floating.is_empty()
}

pub fn has_address(app: &App) -> bool {
    doc(app).is_some_and(|d| !d.replay.target_field.trim().is_empty())
}

pub fn can_undo(app: &App) -> bool {
    doc(app).is_some_and(|d| d.changes().last().is_some())
}

pub fn can_redo(app: &App) -> bool {
    doc(app).is_some_and(|d| d.changes().next().is_some())
}

pub fn can_back(app: &App) -> bool {
    doc(app).is_some_and(|d| d.history().can_back())
}

pub fn can_forward(app: &App) -> bool {
    doc(app).is_some_and(|d| d.history().can_forward())
}

pub fn can_replay(app: &App) -> bool {
    doc(app).is_some_and(|d| !d.is_empty() && d.replay.running.is_none() && d.replay.obstacle().is_none())
}

/// Returns whether the recording can be trimmed: it has events, is no WebAssembly run, and the sheet is not open.
pub fn can_trim(app: &App) -> bool {
    has_events(app) && !has_wasm_run(app) && app.trim_sheet.is_none() && !is_growing(app)
}

/// Returns whether the recording can be bisected: it has jobs, and the sheet is not open.
pub fn can_bisect(app: &App) -> bool {
    has_jobs(app) && app.trim_sheet.is_none() && !is_growing(app)
}

pub fn can_plan(app: &App) -> bool {
    doc(app).is_some_and(|d| !d.is_empty() && d.replay.running.is_none() && d.replay.plan_obstacle().is_none())
}

pub fn can_float(app: &App) -> bool {
    view::find_floatable_panel(app).is_some()
}

pub fn is_running(app: &App) -> bool {
    !app.tasks.running().is_empty()
}

pub fn is_input_edited(app: &App) -> bool {
    doc(app).is_some_and(|d| {
        app.views
            .inputs
            .current_buffer(d)
            .is_some_and(|b| d.changes().inputs().contains_key(&b.name))
    })
}

pub fn has_note_here(app: &App) -> bool {
    doc(app).is_some_and(|d| d.changes().notes().contains_key(&d.current_event()))
}

pub fn is_timeline_shown(app: &App) -> bool {
    app.doc.is_some() && crate::window::layout::active_panels(&app.dock).contains(&"timeline")
}

pub fn has_notes(app: &App) -> bool {
    doc(app).is_some_and(|d| !d.changes().notes().is_empty())
}

/// Returns whether a note is selected or is at the current event.
pub fn has_selected_note(app: &App) -> bool {
    doc(app).is_some_and(|d| notebook::current_note(d).is_some())
}

pub fn has_sample(_: &App) -> bool {
    sample::path().is_some()
}

/// Returns whether the selected job runs a shader.
pub fn has_shader(app: &App) -> bool {
    let job = doc(app).and_then(|d| d.derived.jobs.get(current_job(d)? as usize));
    // A job chain of a damaged recording can be long.
    job.is_some_and(|j| j.chain.iter().take(64).any(|c| !c.shaders.is_empty()))
}

/// Returns whether the Shader panel has code.
pub fn has_code(app: &App) -> bool {
    app.doc.is_some() && app.views.shader.listing.as_ref().is_some_and(|l| !l.lines.is_empty())
}

pub fn has_unknown(app: &App) -> bool {
    has_code(app) && app.views.shader.listing.as_ref().is_some_and(|l| !l.unknown.is_empty())
}

/// Returns whether a thread was traced through the visible code.
pub fn has_thread(app: &App) -> bool {
    has_code(app) && app.views.shader.is_stepping()
}

pub fn has_breaks(app: &App) -> bool {
    has_thread(app) && !app.views.shader.thread.stops.is_empty()
}
