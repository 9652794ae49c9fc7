//! The plan of a replay: actions, comparisons, proofs, every rewrite, and the buttons that start it.

use super::text_lines::{COUNT, MARK, count_row, small_line, wrapped_text};
use crate::panels::common::actions::UiActions;
use crate::theme::rows::Rows;
use crate::theme::widgets::{self, paint_text};
use crate::theme::{ROW, body, focus, icons, mono, palette, small};
use egui::accesskit::Role;
use egui::{Align2, Rect, RichText, Sense, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::plan_footprint::ApiFootprint;
use kinescope_session::replay::ReplayErrorKind;
use kinescope_session::targets::summarize_containment;
use kinescope_session::{Document, text};
use replay_engine::channel::ChannelFootprint;
use replay_engine::plan::{Plan, RewriteKind};

fn describe_rewrites(kind: RewriteKind) -> &'static str {
    match kind {
        RewriteKind::Root => "table root → the target's",
        RewriteKind::FlushId => "flush id ← read at run time",
        RewriteKind::JobStatus => "job status cleared",
        RewriteKind::Gap => "idle time skipped",
        RewriteKind::ReadToWait => "status reads → bounded wait",
        RewriteKind::WaitAdded => "wait for an interrupt added",
        RewriteKind::Input => "input ← your edit",
        RewriteKind::Output => "output copied out at the end",
        RewriteKind::Address => "address → the target's",
        RewriteKind::LeftOut => "work left out",
        RewriteKind::Feature => "feature accepted for the IOMMU",
        RewriteKind::Model => "GPU model → the target's",
        RewriteKind::Identity => "identity read → the target's",
        RewriteKind::CoreMask => "cores → the target's",
        RewriteKind::UnitSetup => "unit set-up → the target's",
        RewriteKind::TableFormat => "page-table format → the plan's",
    }
}

pub(super) fn draw(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    widgets::section(ui, "Plan of the replay");
    show_blocker(doc, ui);
    show_error(doc, actions, ui);
    let Some((compiled, _)) = doc.replay.plan.clone() else {
        if doc.replay.error.is_none() {
            let words = if doc.recording.api().is_some() {
                "A plan lists every launch, copy and change before anything is sent to the target."
            } else if doc.recording.driver_trace().is_some() {
                "A plan lists every submission, upload and change before anything is sent to the target."
            } else {
                "A plan lists every write, comparison and change before anything is sent to the target."
            };
            wrapped_text(ui, words, p.quiet);
            ui.add_space(6.0);
            let can = doc.replay.running.is_none() && doc.replay.plan_obstacle().is_none();
            if can && ui.button("Make plan").clicked() {
                actions.run_command("plan");
            }
        }
        return;
    };
    if let Some(d) = &doc.replay.device {
        // A CUDA device has no known name before its first replay: until then the target's name is shown.
        let name = match d.gpu_name.as_str() {
            "" => doc.replay.target(),
            gpu => gpu,
        };
        small_line(ui, format!("on {name} · {}", summarize_containment(d.containment)));
    }
    if !doc.is_plan_current() {
        wrapped_text(
            ui,
            "! your edits are newer than this plan; a replay makes a new one",
            p.warning,
        );
    }
    show_plan(doc, ui, &compiled.plan);
    ui.add_space(6.0);
    let hover = "Saves the plan with its memory. A replay can use the file instead of a new plan.";
    if ui.button("Save plan…").on_hover_text(hover).clicked() {
        actions.run_command("save-plan");
    }
}

/// Draws the error, and what to do next.
fn show_error(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    let Some(t) = doc.replay.error.clone() else { return };
    let (words, colour) = match t.kind {
        ReplayErrorKind::Stopped => ("Stopped. The results of this run were discarded.".to_owned(), p.quiet),
        _ => (format!("▲ {}", t.text), p.error),
    };
    wrapped_text(ui, words, colour);
    if let Some(range) = &t.allow {
        ui.add_space(4.0);
        let words = format!("Allow {:#x}..{:#x} and plan again", range.start, range.end);
        let more = "registers outside the register map are replayed only if you allow them; plan and outcome name \
                    the range";
        if ui.button(words).on_hover_text(more).clicked() {
            doc.replay.allowed.push(range.clone());
            actions.run_command("plan");
        }
    }
    if t.unfit && doc.replay.obstacle().is_none() {
        usable_targets(doc, ui);
    }
    if t.kind == ReplayErrorKind::Target && doc.replay.has_simulator() && !doc.replay.target().starts_with("software:")
    {
        ui.add_space(4.0);
        if ui.button("Continue with the simulator").clicked() {
            let software = doc.replay.simulator().to_owned();
            doc.replay.choose(&software);
        }
    }
    ui.add_space(6.0);
}

/// Draws why the chosen target cannot replay anything, before the user tries, and the targets that fit.
fn show_blocker(doc: &mut Document, ui: &mut Ui) {
    let Some(why) = doc.replay.obstacle() else { return };
    let p = palette(ui);
    wrapped_text(ui, format!("▲ {why}"), p.error);
    usable_targets(doc, ui);
    ui.add_space(6.0);
}

/// Draws a button for each target that fits; a target that cannot be used here is named with the reason.
fn usable_targets(doc: &mut Document, ui: &mut Ui) {
    let p = palette(ui);
    for target in doc.replay.fitting().to_vec() {
        if target.name == doc.replay.target() {
            continue;
        }
        ui.add_space(4.0);
        match &target.missing {
            None => {
                let more = "chooses this target; nothing is replayed yet";
                if ui.button(format!("Use {}", target.name)).on_hover_text(more).clicked() {
                    doc.replay.choose(&target.name);
                }
            }
            Some(why) => wrapped_text(ui, format!("{} would fit · {why}", target.name), p.quiet),
        }
    }
}

fn show_plan(doc: &mut Document, ui: &mut Ui, plan: &Plan) {
    let p = palette(ui);
    let footprint = std::sync::Arc::clone(&doc.replay.footprint);
    match (&footprint.calls, &footprint.channel) {
        (Some(calls), _) => calls_planned(ui, calls, plan.budgets.time_ns),
        (_, Some(channel)) => submissions_planned(ui, channel, plan.budgets.interrupt_ns),
        _ => accesses_planned(doc, ui, plan),
    }
    match &doc.replay.verified {
        Some(Err(e)) => {
            wrapped_text(ui, format!("▲ {e}. Nothing is sent."), p.error);
        }
        Some(Ok(v)) if !v.report().unproved.is_empty() => unproved(ui, &v.report().unproved),
        _ => {}
    }
    widgets::section(ui, "Rewrites");
    // The user's edits come first.
    let mine = |k: &RewriteKind| *k == RewriteKind::Input;
    let kinds = RewriteKind::ALL.into_iter().filter(mine);
    for kind in kinds.chain(RewriteKind::ALL.into_iter().filter(|k| !mine(k))) {
        rewrites(doc, ui, plan, kind);
    }
}

/// Draws what a plan of calls does; `limit`: maximum time, nanoseconds.
fn calls_planned(ui: &mut Ui, c: &ApiFootprint, limit: u64) {
    let none = ("", palette(ui).quiet);
    let with = |what: &str, bytes: u64| match bytes {
        0 => what.to_owned(),
        n => format!("{what}, {}", text::bytes(n)),
    };
    for (n, what, hover) in [
        (c.launches, "launches".to_owned(), ""),
        (
            c.to_device.0,
            with("host-to-device copies", c.to_device.1),
            "including the memory content at the start of the recorded range",
        ),
        (
            c.to_host.0,
            with("readbacks", c.to_host.1),
            "compared with the recording",
        ),
        (c.on_device, "copies and fills on the device".to_owned(), ""),
        (
            c.synchronizations,
            "synchronizations".to_owned(),
            "waits between streams, and waits of the host for streams",
        ),
        (c.modules.0, with("modules", c.modules.1), "code that the driver loads"),
    ] {
        if n > 0 || what == "launches" {
            count_row(ui, n, &what, none, None, hover);
        }
    }
    under(ui, "", &format!("{} mapped", text::bytes(c.mapped)));
    under(ui, "", &format!("{} at most", text::duration(limit)));
}

/// Draws what a plan of submissions does; `limit`: maximum time of a submission, nanoseconds.
fn submissions_planned(ui: &mut Ui, c: &ChannelFootprint, limit: u64) {
    let none = ("", palette(ui).quiet);
    let with = |what: &str, bytes: u64| match bytes {
        0 => what.to_owned(),
        n => format!("{what}, {}", text::bytes(n)),
    };
    for (n, what, hover) in [
        (
            c.submissions(),
            with("submissions", c.command_bytes),
            "push buffers, each after the one before it has completed",
        ),
        (c.compute_submissions, "to the compute engine".to_owned(), ""),
        (c.copy_submissions, "to the copy engine".to_owned(), ""),
        (c.launches, "launches".to_owned(), "kernel launches in the push buffers"),
        (
            c.uploads,
            with("uploads", c.upload_bytes),
            "memory that the CPU writes between submissions: inputs, code",
        ),
        (c.outputs, with("outputs", c.output_bytes), "memory that is read back"),
    ] {
        if n > 0 || what == "launches" {
            count_row(ui, n, &what, none, None, hover);
        }
    }
    let places = format!(
        "{} of video memory, {} of host memory",
        text::bytes(c.video_bytes),
        text::bytes(c.system_bytes)
    );
    under(ui, "", &places);
    under(
        ui,
        "",
        &format!("{} at most for each submission", text::duration(limit)),
    );
}

fn accesses_planned(doc: &Document, ui: &mut Ui, plan: &Plan) {
    let Some(accesses) = plan.accesses() else {
        return;
    };
    let p = palette(ui);
    let none = ("", p.quiet);
    let what = "register accesses, waits and pauses";
    count_row(ui, plan.actions, "actions", none, None, what);
    writes(doc, ui);
    let left = "reads of free-running counters, such as cycle counters, are not compared";
    count_row(ui, accesses.reads.compared(), "reads compared", none, None, left);
    let expected = accesses.expectations.len() as u64;
    if expected > 0 {
        let what = "effects that a run must have besides its reads: outputs, screen, memory";
        count_row(ui, expected, "effects expected", none, None, what);
    }
    let limit = format!("jobs, limit {} each", text::duration(plan.budgets.interrupt_ns));
    count_row(ui, plan.jobs().len() as u64, &limit, none, None, "");
    let word = match &doc.replay.verified {
        Some(Ok(v)) if v.report().unproved.is_empty() => ("proved", p.job),
        Some(Err(_)) => ("▲ refused", p.error),
        _ => none,
    };
    let inside = doc.describe_safety();
    count_row(ui, accesses.used_pages, "pages in use", word, None, &inside);
    memory(doc, ui);
}

/// Draws that a part of the plan cannot be verified beforehand, only bounded by time; details on demand.
fn unproved(ui: &mut Ui, list: &[String]) {
    let p = palette(ui);
    let id = ui.scope_id().with("why it is not proved");
    let mut open: bool = ui.data(|d| d.get_temp(id)).unwrap_or(false);
    let (rect, r) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::click());
    let what = "not fully verified";
    r.widget_info(|| WidgetInfo::selected(Role::Button, true, open, format!("{what}: why")));
    let why = if open { "less" } else { "why" };
    let used = paint_text(ui, rect, Align2::RIGHT_CENTER, why, body(), p.read);
    let left = Rect::from_min_max(
        pos2(rect.left() + MARK, rect.top()),
        pos2(rect.right() - used - 8.0, rect.bottom()),
    );
    ui.painter().text(
        pos2(rect.left() + COUNT, rect.center().y),
        Align2::RIGHT_CENTER,
        "!",
        body(),
        p.warning,
    );
    paint_text(ui, left, Align2::LEFT_CENTER, what, body(), p.warning);
    if r.on_hover_cursor(egui::CursorIcon::PointingHand).clicked() {
        open = !open;
        ui.data_mut(|d| d.insert_temp(id, open));
    }
    for u in list.iter().filter(|_| open) {
        let words = RichText::new(u).font(small()).color(p.warning);
        ui.indent("why", |ui| ui.add(egui::Label::new(words).wrap()));
    }
}

/// Maximum number of rewrites of a kind in view at once; others by scrolling.
const UNFOLDED: usize = 6;

/// Draws the rewrites of a kind: their number, and unfolded each with its event.
fn rewrites(doc: &mut Document, ui: &mut Ui, plan: &Plan, kind: RewriteKind) {
    let n = plan.rewrites.iter().filter(|r| r.kind == kind).count();
    if n == 0 {
        return;
    }
    let p = palette(ui);
    let ink = (kind == RewriteKind::Input).then_some(p.edited);
    let id = ui.scope_id().with(("rewrites", kind.name()));
    let what = describe_rewrites(kind);
    if !fold(ui, id, n as u64, what, ink) {
        return;
    }
    let list: Vec<_> = plan.rewrites.iter().filter(|r| r.kind == kind).collect();
    let height = list.len().min(UNFOLDED) as f32 * ROW;
    let rect = Rect::from_min_size(ui.cursor().min, vec2(ui.available_width(), height));
    let mut child = ui.new_child(egui::UiBuilder::new().id_salt(id).max_rect(rect));
    let mut rows: Rows = ui.data(|d| d.get_temp(id.with("rows"))).unwrap_or_default();
    let mut go = None;
    rows.show(&mut child, what, list.len() as u64, |ui, row, rect| {
        let Some(w) = list.get(row as usize) else { return };
        let r = focus::row_response(ui, rect, ui.scope_id().with((kind.name(), row)));
        let event = w.event.map(text::count).unwrap_or_default();
        r.widget_info(|| WidgetInfo::labeled(Role::Link, true, format!("rewrite at event {event}")));
        if r.hovered() {
            ui.painter().rect_filled(rect, 0.0, p.raised);
        }
        let number = Rect::from_min_max(rect.min, pos2(rect.left() + COUNT, rect.bottom()));
        paint_text(ui, number, Align2::RIGHT_CENTER, &event, mono(), p.read);
        let words = Rect::from_min_max(pos2(rect.left() + MARK, rect.top()), rect.max);
        paint_text(ui, words, Align2::LEFT_CENTER, &w.detail, small(), p.quiet);
        if r.on_hover_text(&w.detail).clicked() {
            go = w.event;
        }
    });
    ui.data_mut(|d| d.insert_temp(id.with("rows"), rows));
    ui.advance_cursor_after_rect(rect);
    if let Some(e) = go {
        doc.go(e);
    }
}

/// Draws a count that unfolds. Returns `true` if it is unfolded.
fn fold(ui: &mut Ui, id: egui::Id, n: u64, what: &str, ink: Option<egui::Color32>) -> bool {
    let p = palette(ui);
    let open: bool = ui.data(|d| d.get_temp(id)).unwrap_or(false);
    let caret = if open { icons::CARET_UP } else { icons::CARET_DOWN };
    let r = count_row(ui, n, what, (caret, p.quiet), ink, "");
    let r = ui.interact(r.rect, id.with("fold"), Sense::click());
    r.widget_info(|| WidgetInfo::selected(Role::Button, true, open, format!("Unfold {what}")));
    if r.on_hover_cursor(egui::CursorIcon::PointingHand).clicked() {
        ui.data_mut(|d| d.insert_temp(id, !open));
    }
    open
}

/// Draws a quiet line under a count.
fn under(ui: &mut Ui, n: &str, what: &str) {
    let p = palette(ui);
    let (rect, r) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::hover());
    r.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("{n} {what}")));
    let words = Rect::from_min_max(pos2(rect.left() + MARK, rect.top()), rect.max);
    if n.is_empty() {
        if widgets::paint_middle(ui, words, Align2::LEFT_CENTER, what, mono(), p.quiet) {
            r.on_hover_text(RichText::new(what).font(mono()));
        }
        return;
    }
    let number = Rect::from_min_max(words.min, pos2(words.left() + COUNT, words.bottom()));
    paint_text(ui, number, Align2::RIGHT_CENTER, n, mono(), p.quiet);
    let words = Rect::from_min_max(pos2(number.right() + 10.0, rect.top()), rect.max);
    paint_text(ui, words, Align2::LEFT_CENTER, what, body(), p.quiet);
}

/// Draws the registers that the plan writes, by block, and those that only the user's permission allows.
fn writes(doc: &Document, ui: &mut Ui) {
    let p = palette(ui);
    let reach = std::sync::Arc::clone(&doc.replay.footprint);
    let all = reach.writes.iter().map(|w| w.1).sum();
    let id = ui.scope_id().with("what is written");
    let blocks = text::count_noun(reach.writes.len() as u64, "block", "blocks");
    if fold(ui, id, all, &format!("writes to {blocks}"), None) {
        for (block, n) in &reach.writes {
            under(ui, &text::count(*n), &describe_block(block));
        }
    }
    for (from, to) in &reach.allowed {
        let words = format!("! registers {from:#x}..{to:#x} are in no register map; you allowed them");
        wrapped_text(ui, words, p.warning);
    }
}

/// Draws the location of the plan's pages on the target.
fn memory(doc: &Document, ui: &mut Ui) {
    if let Some((from, to)) = doc.replay.footprint.memory {
        under(ui, "", &format!("{from}..{to}"));
    }
}

/// Returns the name of a block of registers for use in a sentence.
fn describe_block(block: &str) -> String {
    match block {
        b if b.len() <= 3 => b.to_owned(),
        b => b.to_lowercase().replace('_', " "),
    }
}

/// Draws the buttons; during a run, its progress and a button to stop it.
pub(super) fn action_buttons(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    if let Some(progress) = doc.replay.running.clone() {
        let phase = doc.replay.phase.lock().map(|t| t.clone()).unwrap_or_default();
        ui.horizontal(|ui| {
            let bar = egui::ProgressBar::new(progress.fraction().unwrap_or(0.0))
                .desired_width((ui.available_width() * 0.4).min(160.0))
                .desired_height(8.0);
            ui.add(bar);
            let stopping = progress.check().is_err();
            let words = if stopping { "stopping".to_owned() } else { phase };
            ui.label(RichText::new(words).color(p.quiet));
            if widgets::icon_button(ui, icons::X, "Cancel replay").clicked() {
                progress.cancel();
            }
        });
        ui.ctx().request_repaint_after(std::time::Duration::from_millis(100));
        return;
    }
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing.y = 6.0;
        let is_of_gpu = doc.recording.api().is_some() || doc.recording.driver_trace().is_some();
        let (word, label) = match (doc.replay.is_hardware(), is_of_gpu) {
            (true, true) => ("Replay on the GPU", "Replay on the GPU"),
            (true, false) => ("Replay on hardware", "Replay on hardware"),
            (false, _) => ("Replay", "Run replay"),
        };
        let words = format!("{} {word}", icons::PLAY);
        let obstacle = doc.replay.obstacle();
        let can = obstacle.is_none();
        let button = widgets::primary_button(ui, &words, label, can);
        let button = button.on_disabled_hover_text(obstacle.unwrap_or_default());
        if button
            .on_hover_text(actions.tooltip("replay", "Run the replay"))
            .clicked()
        {
            actions.run_command("replay");
        }
        // A guarded replay decides how many runs it needs.
        let guards = doc.replay.is_api_trace() && doc.replay.options.guard;
        let times = format!("{} times", text::count(u64::from(doc.replay.repeated_runs())));
        if !guards && ui.add_enabled(can, egui::Button::new(times)).clicked() {
            actions.run_command("replay-ten");
        }
        // If there is no plan yet, the button that makes it takes its place.
        let missing = doc.replay.plan.is_none() && doc.replay.error.is_none();
        let again = if doc.replay.plan.is_some() {
            "Plan again"
        } else {
            "Make plan"
        };
        if !missing && doc.replay.plan_obstacle().is_none() && ui.button(again).clicked() {
            actions.run_command("plan");
        }
    });
}
