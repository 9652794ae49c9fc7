//! The thread view next to the code: a thread is chosen, run on the simulator, and stepped by clauses forward and
//! back.

mod pick;
mod state;
mod stops;

pub use super::thread_view::{Run, ThreadView};
pub use stops::StopConditions;

use super::view::View;
use crate::panels::common::actions::UiActions;
use crate::theme::widgets;
use crate::theme::{icons, mono, palette, small};
use device_mali::debug::{DebugError, MAX_STEPS, Thread, ThreadEnd, ThreadQuery};
use egui::accesskit::Role;
use egui::{Align2, Rect, RichText, Sense, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::code::ChainShader;
use kinescope_session::debug::{DebugSession, WriterError};
use kinescope_session::{Document, text};
use std::sync::Arc;
use trace_core::GpuVa;

/// Parses `X,Y,Z`; missing numbers are 0.
pub fn parse_index(text: &str) -> Option<[u32; 3]> {
    let mut out = [0; 3];
    if text.trim().is_empty() {
        return Some(out);
    }
    let parts: Vec<&str> = text.split([',', ' ']).filter(|p| !p.is_empty()).collect();
    if parts.len() > 3 {
        return None;
    }
    for (to, part) in out.iter_mut().zip(parts) {
        *to = part.parse().ok()?;
    }
    Some(out)
}

/// Width of the view next to the code, points.
pub const WIDTH: f32 = 268.0;

/// Returns the number of workgroups of the job, and of threads in a workgroup.
fn sizes(doc: &Document, job: u32, runs: Option<&ChainShader>) -> Option<([u32; 3], [u32; 3])> {
    let chain = &doc.derived.jobs.get(job as usize)?.chain;
    chain.get(runs.map_or(0, |r| r.position))?.dispatch
}

/// Draws the view.
pub fn ui(doc: &Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui, job: u32, runs: Option<&ChainShader>) {
    let p = palette(ui);
    ui.spacing_mut().item_spacing.y = 2.0;
    if let Some(step) = view.thread.begin
        && view.thread.running.is_none()
    {
        view.thread.begin = None;
        start(doc, view, actions, job, runs, step);
    }
    fields(doc, view, actions, ui, job, runs);
    if let Some(w) = &view.thread.wrong {
        let rich_text = RichText::new(format!("▲ {w}")).color(p.error).font(small());
        ui.add(egui::Label::new(rich_text).wrap());
    }
    let run = view.thread.run.clone().filter(|r| r.job == job);
    match &run {
        Some(run) => {
            if run.key != doc.edit_key() {
                let rich_text =
                    RichText::new("● inputs were edited since this run; run the thread again").color(p.edited);
                ui.label(rich_text.font(small()));
            }
            steps(view, run, ui);
            stops(view, run, actions, ui);
        }
        None if view.thread.wrong.is_none() => {
            let message = match &view.thread.running {
                Some((_, progress)) => match progress.fraction() {
                    Some(f) => format!("running up to the thread, {:.0} %", f * 100.0),
                    None => "running up to the thread…".into(),
                },
                None => "Choose a workgroup and a thread below, and run it: its registers and its memory, clause by \
                         clause."
                    .into(),
            };
            ui.add(egui::Label::new(RichText::new(message).color(p.quiet)).wrap());
        }
        None => {}
    }
    if view.thread.running.is_some() {
        ui.ctx().request_repaint_after(std::time::Duration::from_millis(100));
    }
    egui::ScrollArea::vertical()
        .id_salt("thread")
        .auto_shrink(false)
        .show(ui, |ui| {
            if let Some(run) = &run {
                state::ui(doc, view, actions, ui, run);
            }
            maps(doc, view, ui, job, runs);
            ui.add_space(8.0);
        });
}

/// Draws the fields for workgroup and thread, and the run button.
fn fields(doc: &Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui, job: u32, runs: Option<&ChainShader>) {
    let p = palette(ui);
    let mut enter = false;
    ui.horizontal(|ui| {
        ui.set_height(26.0);
        for (label, hint, at) in [("Workgroup", "workgroup", 0), ("Thread", "thread", 1)] {
            let t = &mut view.thread;
            let text = if at == 0 { &mut t.workgroup } else { &mut t.thread };
            let edit = egui::TextEdit::singleline(text)
                .id(egui::Id::unique(("shader-thread", at)))
                .font(mono())
                .desired_width(80.0)
                .hint_text(RichText::new(hint).font(small()).color(p.quiet));
            let r = ui.add(edit);
            if at == 0 && std::mem::take(&mut t.focus) {
                r.request_focus();
            }
            enter |= r.lost_focus() && ui.input(|i| i.key_pressed(egui::Key::Enter));
            r.accessible_name(label)
                .on_hover_text(format!("{hint} as x,y,z; omitted parts are 0"));
        }
        match view.thread.running.clone() {
            Some((_, progress)) => {
                if widgets::icon_button(ui, icons::STOP, "Stop the run").clicked() {
                    progress.cancel();
                }
            }
            None => {
                let run = ui.button("Run");
                run.widget_info(|| WidgetInfo::labeled(Role::Button, true, "Run the thread"));
                let message = "replays up to the job on the simulator (R)";
                if run.on_hover_text(message).clicked() || enter {
                    start(doc, view, actions, job, runs, 0);
                }
            }
        }
    });
}

/// Runs the thread that the fields name, and shows the step with this number.
pub(super) fn start(
    doc: &Document,
    view: &mut View,
    actions: &mut UiActions,
    job: u32,
    runs: Option<&ChainShader>,
    step: u64,
) {
    let t = &mut view.thread;
    let (Some(workgroup), Some(thread)) = (parse_index(&t.workgroup), parse_index(&t.thread)) else {
        t.wrong = Some("enter x,y,z as numbers from 0".into());
        return;
    };
    t.open = true;
    t.wrong = None;
    t.runs += 1;
    let id = t.runs;
    let (recording, given) = (Arc::clone(&doc.recording), doc.edited_inputs());
    let position = runs.map_or(0, |r| u32::try_from(r.position).unwrap_or(0));
    let path = doc.path.clone();
    // If the thread has more steps than are kept, those around the requested step are kept.
    let from = step.saturating_sub(MAX_STEPS as u64 / 2);
    let progress = actions.start_work::<View>(format!("running a thread of job {job}"), move |progress| {
        let query = ThreadQuery {
            chain: job,
            position,
            workgroup,
            thread: Thread::At(thread),
            from: if step < MAX_STEPS as u64 { 0 } else { from },
            max_steps: MAX_STEPS,
            mark: None,
        };
        let done = DebugSession::new(&recording, &given.edits(), progress).and_then(|r| r.follow(query, progress));
        Box::new(move |doc, view, _| {
            if doc.path != path || view.thread.running.as_ref().is_none_or(|r| r.0 != id) {
                return;
            }
            view.thread.running = None;
            match done {
                Ok(followed) => {
                    let at = usize::try_from(step.saturating_sub(followed.from)).unwrap_or(0);
                    view.thread.step = at.min(followed.steps.len().saturating_sub(1));
                    view.thread.stopped = None;
                    view.thread.run = Some(Arc::new(Run {
                        job,
                        workgroup,
                        thread,
                        key: given.key,
                        followed,
                    }));
                    follow(view);
                }
                // A user who stops a run needs no message.
                Err(WriterError::Debug(DebugError::Cancelled(_))) => {}
                Err(e) => view.thread.wrong = Some(e.to_string()),
            }
        })
    });
    view.thread.running = Some((id, progress));
}

/// Brings the clause of the step into view.
pub fn follow(view: &mut View) {
    let at = view.thread.at();
    let found = at.and_then(|a| view.listing.as_ref()?.code.at(a));
    if let Some(clause) = found {
        view.go_to_clause(clause, false);
    }
}

/// Goes forward or back by steps.
pub fn step_by(view: &mut View, by: i64) {
    let Some(run) = &view.thread.run else { return };
    let last = run.followed.steps.len().saturating_sub(1);
    view.thread.step = view.thread.step.saturating_add_signed(by as isize).min(last);
    view.thread.stopped = None;
    follow(view);
}

/// Goes to the next or previous step at a clause.
pub fn step_to_clause(view: &mut View, clause: GpuVa, forward: bool) {
    let only = StopConditions {
        clauses: [clause].into(),
        ..StopConditions::default()
    };
    reach(view, &only, forward);
}

/// Goes to the next or previous stop.
pub fn run_to_stop(view: &mut View, forward: bool) {
    let stops = view.thread.stops.clone();
    reach(view, &stops, forward);
}

fn reach(view: &mut View, stops: &StopConditions, forward: bool) {
    let Some(run) = view.thread.run.clone() else { return };
    match stops.find_stop(&run, view.thread.step, forward) {
        Some(step) => {
            view.thread.step = step;
            view.thread.stopped = stops.describe_stop(&run, step);
            follow(view);
        }
        None => {
            let message = if forward {
                "no breakpoint is reached after this step"
            } else {
                "no breakpoint is reached before this step"
            };
            view.thread.stopped = Some(message.into());
        }
    }
}

fn steps(view: &mut View, run: &Run, ui: &mut Ui) {
    let p = palette(ui);
    let n = run.followed.steps.len();
    ui.horizontal(|ui| {
        ui.set_height(26.0);
        if widgets::icon_button(ui, icons::CARET_LEFT, "Step back").clicked() {
            step_by(view, -1);
        }
        if widgets::icon_button(ui, icons::CARET_RIGHT, "Step forward").clicked() {
            step_by(view, 1);
        }
        let any = !view.thread.stops.is_empty();
        for (forward, icon, label) in [
            (false, icons::ARROW_LEFT, "Back to a breakpoint"),
            (true, icons::ARROW_RIGHT, "Forward to a breakpoint"),
        ] {
            let r = ui.add_enabled_ui(any, |ui| widgets::icon_button(ui, icon, label)).inner;
            if r.clicked() {
                run_to_stop(view, forward);
            }
        }
        let from = run.followed.from;
        let message = format!(
            "{} of {}",
            text::count(from + view.thread.step as u64 + 1),
            text::count(run.followed.executed.max(n as u64))
        );
        let r = ui.label(RichText::new(message).font(mono()));
        if !run.followed.is_complete() {
            let all = text::count_noun(run.followed.executed, "clause", "clauses");
            let kept = text::count(n as u64);
            r.on_hover_text(format!("the thread executed {all}; {kept} are kept, from {from} on"));
        }
    });
    if let Some(why) = &view.thread.stopped {
        ui.label(RichText::new(why).font(small()).color(p.quiet));
    }
    if let ThreadEnd::Stopped(why) = &run.followed.end
        && view.thread.step + 1 >= n
    {
        let rich_text = RichText::new(format!("▲ stopped: {why}")).color(p.error).font(small());
        ui.add(egui::Label::new(rich_text).wrap());
    }
}

/// Draws the stop conditions: an address of memory, a lane. Breakpoints of clauses are marked next to the code.
fn stops(view: &mut View, run: &Run, actions: &UiActions, ui: &mut Ui) {
    let p = palette(ui);
    ui.horizontal(|ui| {
        ui.set_height(24.0);
        let edit = egui::TextEdit::singleline(&mut view.thread.stops.memory)
            .id(egui::Id::unique("shader-break"))
            .font(mono())
            .desired_width(132.0)
            .hint_text(RichText::new("break at an address").font(small()).color(p.quiet));
        let r = ui.add(edit).accessible_name("Break at a memory address");
        if r.lost_focus() && ui.input(|i| i.key_pressed(egui::Key::Enter)) {
            run_to_stop(view, true);
        }
        r.on_hover_text("stops where the thread reads or writes this byte; Enter continues to it");
        let stops = &view.thread.stops;
        let (message, ink) = if !stops.memory.trim().is_empty() && stops.address().is_none() {
            ("not an address".to_owned(), p.error)
        } else {
            let n = stops.clauses.len() as u64;
            let message = match n {
                0 => "or at a clause".into(),
                n => format!("and {}", text::count_noun(n, "clause", "clauses")),
            };
            (message, p.quiet)
        };
        ui.label(RichText::new(message).font(small()).color(ink))
            .on_hover_text(actions.tooltip("toggle-break", "click in the margin of a clause to set a breakpoint"));
    });
    let Some(step) = run.followed.steps.get(view.thread.step) else {
        return;
    };
    lanes(view, run, step.first, step.lanes, ui);
}

/// Draws the threads of the same wave, a cell each; a click sets a stop where a thread diverges and where it joins.
fn lanes(view: &mut View, run: &Run, first: u32, lanes: u32, ui: &mut Ui) {
    let p = palette(ui);
    let threads: u32 = run.followed.size.iter().fold(1, |n, s| n.saturating_mul((*s).max(1)));
    let count = threads.saturating_sub(first).min(32);
    let [x, y, z] = run.thread;
    let [sx, sy, _] = run.followed.size.map(|s| s.max(1));
    let own = z
        .saturating_mul(sy)
        .saturating_add(y)
        .saturating_mul(sx)
        .saturating_add(x);
    let side = (ui.available_width() / 32.0).floor().clamp(6.0, 10.0);
    let message = format!("{} of {count} threads execute it", lanes.count_ones());
    let (head, _) = ui.allocate_exact_size(vec2(ui.available_width(), 18.0), Sense::hover());
    ui.painter()
        .text(head.left_center(), Align2::LEFT_CENTER, message, small(), p.quiet);
    let (rect, r) = ui.allocate_exact_size(vec2(side * count as f32, 16.0), Sense::click());
    r.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, format!("Lanes, {} of {count}", lanes.count_ones())));
    let over = r
        .hover_pos()
        .map(|q| (((q.x - rect.left()) / side).max(0.0) as u32).min(count.saturating_sub(1)));
    for n in 0..count {
        let cell = Rect::from_min_size(pos2(rect.left() + n as f32 * side, rect.top()), vec2(side - 1.0, 12.0));
        let fill = match (first + n == own, lanes >> n & 1 == 1) {
            (true, _) => p.job,
            (false, true) => p.quiet,
            (false, false) => p.line,
        };
        ui.painter().rect_filled(cell, 1.0, fill);
        if view.thread.stops.lane == Some(first + n) {
            let mark = Rect::from_min_size(pos2(cell.left(), cell.bottom() + 1.0), vec2(cell.width(), 2.0));
            ui.painter().rect_filled(mark, 0.0, p.error);
        }
    }
    let Some(n) = over else { return };
    let thread = first + n;
    let clicked = r.clicked();
    let does = if thread == own {
        "the followed thread"
    } else if lanes >> n & 1 == 1 {
        "executes this clause too"
    } else {
        "is elsewhere, or has ended"
    };
    r.on_hover_cursor(egui::CursorIcon::PointingHand).on_hover_text(format!(
        "thread {thread} of the workgroup: {does}\na click stops where it diverges and where it rejoins"
    ));
    if clicked && thread != own {
        let lane = &mut view.thread.stops.lane;
        *lane = (*lane != Some(thread)).then_some(thread);
    }
}

/// Draws maps of the job's workgroups and threads, for choice by the pointer.
fn maps(doc: &Document, view: &mut View, ui: &mut Ui, job: u32, runs: Option<&ChainShader>) {
    let Some((workgroups, size)) = sizes(doc, job, runs) else {
        return;
    };
    widgets::section(ui, "Choose by a click");
    let text = |[x, y, z]: [u32; 3]| format!("{x},{y},{z}");
    let t = &mut view.thread;
    let (group, thread) = (
        parse_index(&t.workgroup).unwrap_or_default(),
        parse_index(&t.thread).unwrap_or_default(),
    );
    let mut chosen = (None, None);
    ui.columns(2, |columns| {
        if let [left, right] = columns {
            chosen = (
                pick::ui(left, "workgroup", workgroups, group),
                pick::ui(right, "thread", size, thread),
            );
        }
    });
    if let Some(chosen) = chosen.0 {
        t.workgroup = text(chosen);
        t.begin = Some(0);
    }
    if let Some(chosen) = chosen.1 {
        t.thread = text(chosen);
        t.begin = Some(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workgroup_index_parses_common_forms() {
        assert_eq!(parse_index("1,2,3"), Some([1, 2, 3]));
        assert_eq!(parse_index(" 4 "), Some([4, 0, 0]));
        assert_eq!(parse_index("1, 2"), Some([1, 2, 0]));
        assert_eq!(parse_index(""), Some([0; 3]));
        assert!(parse_index("x").is_none() && parse_index("1,2,3,4").is_none());
    }
}
