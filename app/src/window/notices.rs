//! Notices below the top bar: errors, unsaved edits of earlier runs, and hints of the first run.

use super::app::App;
use crate::panels::common::actions::UiAction;
use crate::theme::{Palette, icons, palette, small, strong, widgets};
use egui::{Align2, Context, Frame, LayerId, Margin, Order, Panel, RichText, Stroke, Ui};
use kinescope_session::comparison::ComparisonSource;
use kinescope_session::text;

fn strip(ui: &mut Ui, id: &str, add: impl FnOnce(&mut Ui)) {
    let p = palette(ui);
    let frame = Frame::new().fill(p.raised).inner_margin(Margin::symmetric(12, 5));
    Panel::top(egui::Id::unique(id)).frame(frame).show(ui, |ui| {
        ui.horizontal_wrapped(add);
    });
}

/// `{palette}` and `{help}` stand for the keys of these commands.
const HINTS: [&str; 3] = [
    "The wheel zooms the timeline about the pointer; drag across it to measure.",
    "Names are links: click an event, an address or a job, and every panel follows.",
    "{palette} opens the command palette; {help} shows every key.",
];

/// Draws the notices that apply.
pub(super) fn draw_notices(app: &mut App, ui: &mut Ui) {
    let p = palette(ui);
    app.withdraw_refusal();
    if let Some((what, details)) = app.notice.clone() {
        strip(ui, "notice", |ui| {
            ui.label(RichText::new(format!("▲ {what}")).color(p.error));
            ui.label(RichText::new(text::truncate_middle(&details, 320)).color(p.text))
                .on_hover_text(&details);
            if ui.button("Copy").clicked() {
                ui.ctx().copy_text(format!("{what}: {details}"));
            }
            if ui.button("Dismiss").clicked() {
                app.notice = None;
            }
        });
    }
    draw_saved(app, ui);
    draw_news(app, ui);
    let damage = app.doc.as_ref().map(|d| &d.recording.damage).filter(|d| d.has_damage());
    let damaged = damage.and_then(trace_core::recording::Damage::first);
    if let Some(block) = damaged {
        strip(ui, "damaged", |ui| {
            ui.label(RichText::new("▲ The file is damaged").color(p.error));
            let summary =
                format!("{block}. The lost parts are grey or missing. This recording cannot be replayed or exported.");
            ui.label(RichText::new(text::truncate_middle(&summary, 320)).color(p.text))
                .on_hover_text(&summary);
            if ui.button("Show findings").clicked() {
                app.actions.run_command("show-problems");
            }
        });
    }
    let offered = app.doc.as_ref().and_then(|d| d.offered.as_ref());
    let offered = offered.map(|f| (f.changes.len() as u64, f.other_window));
    if let Some((n, other_window)) = offered {
        strip(ui, "offered", |ui| {
            let message = if other_window {
                let changes = text::count_noun(n, "change was", "changes were");
                format!("{changes} made in another window.")
            } else {
                let edits = text::count_noun(n, "unsaved edit was", "unsaved edits were");
                format!("{edits} recovered from the last session.")
            };
            ui.label(RichText::new(message).color(p.edited));
            if ui.button("Restore").clicked() {
                app.actions.run_command("restore-edits");
            }
            if ui.button("Discard…").clicked() {
                app.actions.run_command("forget-edits");
            }
        });
    }
    draw_dropped_file(app, ui);
    draw_hint(app, ui);
}

/// Draws the message about a success.
fn draw_news(app: &mut App, ui: &mut Ui) {
    let Some(message) = app.news.clone() else {
        return;
    };
    let p = palette(ui);
    strip(ui, "news", |ui| {
        ui.label(RichText::new(icons::CHECK_CIRCLE).color(p.job));
        ui.label(RichText::new(message).color(p.text));
        if ui.button("Dismiss").clicked() {
            app.news = None;
        }
    });
}

/// Draws the name and location of the last saved file.
fn draw_saved(app: &mut App, ui: &mut Ui) {
    // Once the file is open, the notice is no longer useful.
    if app
        .doc
        .as_ref()
        .zip(app.saved.as_ref())
        .is_some_and(|(d, (_, path))| d.path == *path)
    {
        app.saved = None;
    }
    let Some((message, path)) = app.saved.clone() else {
        return;
    };
    let p = palette(ui);
    strip(ui, "saved", |ui| {
        let mark = RichText::new(icons::CHECK_CIRCLE).color(p.job);
        ui.label(mark);
        ui.label(RichText::new(message).color(p.text))
            .on_hover_text(path.display().to_string());
        let folder = path.parent().map(|f| f.display().to_string()).unwrap_or_default();
        ui.label(RichText::new(format!("in {}", text::truncate_middle(&folder, 60))).color(p.quiet))
            .on_hover_text(&folder);
        let open = ui.button("Open it").clicked();
        if open {
            app.actions.push(UiAction::Open(path));
        }
        if ui.button("Dismiss").clicked() || open {
            app.saved = None;
        }
    });
}

/// Draws the question what a file is for that was dropped over the open recording.
fn draw_dropped_file(app: &mut App, ui: &mut Ui) {
    let (Some(path), Some(doc)) = (app.dropped_file.clone(), &app.doc) else {
        return;
    };
    let p = palette(ui);
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let compare = format!("Compare with {}", text::truncate_middle(&doc.title, 32));
    strip(ui, "brought", |ui| {
        ui.label(
            RichText::new(text::truncate_middle(&name, 48))
                .font(strong())
                .color(p.text),
        )
        .on_hover_text(path.display().to_string());
        ui.label(RichText::new("was dropped here:").color(p.quiet));
        let open = ui.button("Open it");
        let compare_button = ui.button(compare);
        let leave = ui.button("Neither");
        if open.clicked() {
            app.actions.push(UiAction::Open(path.clone()));
        }
        if compare_button.clicked() {
            app.actions
                .push(UiAction::Compare(ComparisonSource::File(path.clone())));
        }
        if open.clicked() || compare_button.clicked() || leave.clicked() {
            app.dropped_file = None;
        }
        widgets::focus_first(&[&open, &compare_button, &leave]);
    });
}

/// Draws the hints of the first run, one at a time. A dismissed hint never returns.
fn draw_hint(app: &mut App, ui: &mut Ui) {
    let p = palette(ui);
    let at = app.settings.hints_read as usize;
    let Some(words) = HINTS.get(at) else { return };
    let key = |id: &str, without: &str| match app.keys.text(id) {
        keys if keys.is_empty() => without.to_owned(),
        keys => keys,
    };
    let words = words.replace("{palette}", &key("palette", "The field at the top"));
    let words = words.replace("{help}", &key("help", "All keys, in the menu Help,"));
    // The tour explains more, one step at a time.
    if app.doc.is_none() || app.settings.folder().is_none() || app.tour.is_some() {
        return;
    }
    strip(ui, "hint", |ui| {
        ui.label(RichText::new(format!("{} {words}", icons::INFO)).color(p.text));
        let last = at + 1 == HINTS.len();
        if ui.button(if last { "Got it" } else { "Next hint" }).clicked() {
            app.settings.hints_read += 1;
            app.settings.save();
        }
        if !last && ui.button("No hints").clicked() {
            app.settings.hints_read = HINTS.len() as u32;
            app.settings.save();
        }
        ui.label(
            RichText::new(format!("{} of {}", at + 1, HINTS.len()))
                .font(small())
                .color(p.quiet),
        );
    });
}

/// Shows that a file held over the window opens when it is dropped.
pub(super) fn draw_drop_hint(app: &App, ctx: &Context) {
    let held = ctx.input(|i| i.raw.hovered_files.len());
    if held == 0 {
        return;
    }
    let p = Palette::for_theme(app.theme());
    let painter = ctx.layer_painter(LayerId::new(Order::Foreground, egui::Id::unique("hovering")));
    let rect = ctx.content_rect();
    painter.rect_filled(rect, 0.0, p.background.gamma_multiply(0.85));
    painter.rect_stroke(
        rect.shrink(12.0),
        4.0,
        Stroke::new(2.0, p.read),
        egui::StrokeKind::Inside,
    );
    let words = match (held, app.doc.is_some()) {
        (1, false) => "Drop to open it",
        (_, false) => "Drop to open the first and compare it with the second",
        (1, true) => "Drop to open it, or to compare with it",
        (_, true) => "Drop to open the first of them, or to compare with it",
    };
    egui::Area::new(egui::Id::unique("hovering words"))
        .order(Order::Tooltip)
        .interactable(false)
        .pivot(Align2::CENTER_CENTER)
        .fixed_pos(rect.center())
        .show(ctx, |ui| {
            ui.label(RichText::new(words).font(strong()).size(16.0).color(p.text))
        });
}
