//! The drawing of the sheet that trims or bisects the open recording.

use super::{TrimSheet, TrimTask};
use crate::theme::{field, mono, palette, small, widgets};
use crate::window::app::App;
use device_mali::debug::DependencyPolicy;
use egui::accesskit::Role;
use egui::{ComboBox, Context, DragValue, Key, Label, Modifiers, RichText, TextEdit, Ui, WidgetInfo, vec2};
use kinescope_session::text;

/// Width of the sheet, points.
const WIDTH: f32 = 480.0;
/// Width of the names of fields, points.
const NAME: f32 = 104.0;
/// Maximum number of candidates of a bisection.
const MAX_CANDIDATES: u32 = 1_000_000;

enum SheetAction {
    Start,
    Close,
}

/// Draws the sheet if it is open.
pub(in crate::window) fn draw(app: &mut App, ctx: &Context) {
    let Some(mut open) = app.trim_sheet.take() else { return };
    let Some(doc) = &app.doc else { return };
    let mut act = None;
    if app.path_prompt.is_none() && ctx.input_mut(|i| i.consume_key(Modifiers::NONE, Key::Escape)) {
        act = Some(SheetAction::Close);
    }
    let title = match open.task {
        TrimTask::Trim => "Trim recording",
        TrimTask::Bisect => "Bisect recording",
    };
    let target = Target {
        name: doc.replay.target().to_owned(),
        is_hardware: doc.replay.is_hardware(),
        obstacle: doc.replay.obstacle(),
    };
    let width = WIDTH.min(ctx.content_rect().width() - 40.0);
    egui::Window::new(title)
        .id(egui::Id::unique("trimming"))
        .collapsible(false)
        .resizable(false)
        .default_pos(egui::pos2((ctx.content_rect().width() - width) / 2.0, 90.0))
        .fixed_size(vec2(width, 0.0))
        .show(ctx, |ui| body(&mut open, &target, ui, &mut act));
    match act {
        None => app.trim_sheet = Some(open),
        Some(SheetAction::Start) => app.start_trim(ctx, &open),
        Some(SheetAction::Close) => {}
    }
}

/// The target of a bisection.
struct Target {
    name: String,
    is_hardware: bool,
    obstacle: Option<String>,
}

fn body(open: &mut TrimSheet, target: &Target, ui: &mut Ui, act: &mut Option<SheetAction>) {
    let mut wrong = None;
    let mut enter = false;
    match open.task {
        TrimTask::Trim => {
            quiet(
                ui,
                "Writes a recording of the chosen part. The open recording stays as it is.",
            );
            ui.add_space(6.0);
            wrong = part(open, ui, &mut enter);
        }
        TrimTask::Bisect => bisection(open, target, ui),
    }
    if open.by_jobs || open.task == TrimTask::Bisect {
        dependencies(open, ui);
    }
    ui.add_space(8.0);
    let start = match (open.task, target.is_hardware) {
        (TrimTask::Trim, _) => "Trim…",
        (TrimTask::Bisect, false) => "Bisect…",
        (TrimTask::Bisect, true) => "Bisect on hardware…",
    };
    let obstacle = target.obstacle.as_ref().filter(|_| open.task == TrimTask::Bisect);
    let can = wrong.is_none() && obstacle.is_none() && (open.by_jobs || open.task == TrimTask::Trim);
    ui.horizontal(|ui| {
        let go = widgets::primary_button(ui, start, start, can);
        let go = go.on_hover_text("Asks for the file to write, then works in the background.");
        let cancel = ui.button("Cancel");
        // A key must not start work on hardware by accident.
        let first = if target.is_hardware { &cancel } else { &go };
        if !std::mem::replace(&mut open.focused, true) {
            first.request_focus();
        }
        if go.clicked() || (enter && can) {
            *act = Some(SheetAction::Start);
        }
        if cancel.clicked() {
            *act = Some(SheetAction::Close);
        }
    });
}

fn quiet(ui: &mut Ui, words: &str) {
    let words = RichText::new(words).color(palette(ui).quiet);
    ui.add(Label::new(words).wrap());
}

/// Draws the choice of the kept part. Returns why it is wrong.
fn part(open: &mut TrimSheet, ui: &mut Ui, enter: &mut bool) -> Option<String> {
    let p = palette(ui);
    field::named(ui, NAME, "Keep", |ui| {
        let hover = "Keeps jobs with the events and memory that they need.";
        ui.add_enabled_ui(open.job_count > 0, |ui| {
            ui.radio_value(&mut open.by_jobs, true, "jobs")
                .on_hover_text(hover)
                .on_disabled_hover_text("The recording has no jobs.");
        });
        let hover = "Keeps a range of events, for recordings without jobs.";
        ui.radio_value(&mut open.by_jobs, false, "events").on_hover_text(hover);
    });
    let (wrong, hint) = open.message();
    let (name, count, last) = match open.by_jobs {
        true => (
            "Jobs",
            text::count_noun(open.job_count as u64, "job", "jobs"),
            open.job_count as u64,
        ),
        false => (
            "Events",
            text::count_noun(open.event_count, "event", "events"),
            open.event_count,
        ),
    };
    field::named(ui, NAME, name, |ui| {
        let (typed, hover) = match open.by_jobs {
            true => (
                &mut open.jobs,
                "Jobs to keep: 4, 4..=9, or 4..9 without 9, separated by commas.",
            ),
            false => (&mut open.events, "Events to keep: 100..=900, or 100..900 without 900."),
        };
        let edit = TextEdit::singleline(typed).font(mono()).desired_width(200.0);
        let edit = if wrong.is_some() {
            edit.text_color(p.error)
        } else {
            edit
        };
        let r = ui
            .add(edit)
            .accessible_name(format!("{name} to keep"))
            .on_hover_text(hover);
        if !std::mem::replace(&mut open.focused, true) {
            r.request_focus();
        }
        *enter = r.lost_focus() && ui.input(|i| i.key_pressed(Key::Enter));
        let known = format!("of {count}, 0 to {}", text::count(last.saturating_sub(1)));
        ui.label(RichText::new(known).font(small()).color(p.quiet));
    });
    field::error_line(ui, wrong.as_deref());
    if let Some(hint) = hint {
        ui.label(RichText::new(format!("! {hint}")).font(small()).color(p.warning));
    }
    wrong
}

/// Draws what a bisection does, and its options.
fn bisection(open: &mut TrimSheet, target: &Target, ui: &mut Ui) {
    let p = palette(ui);
    quiet(
        ui,
        "Removes jobs and events while a replay still fails in the same way. Writes the shortest part that fails.",
    );
    ui.add_space(6.0);
    field::named(ui, NAME, "Target", |ui| {
        let name = RichText::new(&target.name).font(mono());
        ui.add(Label::new(name).truncate())
            .on_hover_text("The Replay panel chooses the target.");
    });
    if open.job_count == 0 {
        field::error_line(
            ui,
            Some("The recording has no jobs to remove. Trim it to a range of events."),
        );
    }
    field::error_line(ui, target.obstacle.as_deref());
    if target.is_hardware && target.obstacle.is_none() {
        let words = "! Each candidate is replayed on this device: it writes to the device and starts its work.";
        ui.add(Label::new(RichText::new(words).color(p.warning)).wrap());
    }
    field::named(ui, NAME, "Candidates", |ui| {
        ui.label(RichText::new("at most").font(small()).color(p.quiet));
        let value = DragValue::new(&mut open.candidates).range(1..=MAX_CANDIDATES);
        ui.add(value)
            .accessible_name("maximum number of candidates")
            .on_hover_text("The search ends after this many replays.");
    });
    field::named(ui, NAME, "Events", |ui| {
        ui.checkbox(&mut open.jobs_only, "keep all events around the jobs")
            .on_hover_text("The search removes only jobs, which takes fewer replays.");
    });
}

fn policy_name(policy: DependencyPolicy) -> &'static str {
    match policy {
        DependencyPolicy::Jobs => "keep the jobs that write it",
        DependencyPolicy::Bytes => "insert it as the simulator computes it",
        DependencyPolicy::Nothing => "leave it out",
    }
}

/// Draws the replacement for output of removed jobs.
fn dependencies(open: &mut TrimSheet, ui: &mut Ui) {
    field::named(ui, NAME, "Needed output", |ui| {
        let combo = ComboBox::from_id_salt("needs")
            .width(240.0)
            .selected_text(policy_name(open.needs))
            .show_ui(ui, |ui| {
                for policy in [
                    DependencyPolicy::Jobs,
                    DependencyPolicy::Bytes,
                    DependencyPolicy::Nothing,
                ] {
                    ui.selectable_value(&mut open.needs, policy, policy_name(policy));
                }
            });
        let r = combo.response;
        r.widget_info(|| WidgetInfo::labeled(Role::ComboBox, true, "Replacement of needed output"));
        r.on_hover_text("What a kept job reads of a job that is not chosen.");
    });
    if open.task == TrimTask::Trim {
        field::named(ui, NAME, "Memory", |ui| {
            ui.checkbox(&mut open.touched, "only what the kept jobs access")
                .on_hover_text("Leaves out memory that the kept jobs neither read nor write on the simulator.");
        });
    }
}
