//! The Log panel: what the program did and its errors, newest last.

use crate::log::{self, Level};
use crate::panels::common::actions::UiActions;
use crate::theme::rows::Rows;
use crate::theme::widgets::{self, paint_text};
use crate::theme::{ROW, body, focus, icons, mono, palette, small};
use egui::accesskit::Role;
use egui::{Align2, Id, Rect, RichText, Sense, Stroke, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::text;

/// The lines that are shown, and the scroll position.
#[derive(Clone, Default)]
struct View {
    rows: Rows,
    /// The minimum level that is shown.
    min_level: MinLevel,
    /// Number of lines when it was last drawn.
    seen: u64,
    /// Indices of the lines that pass.
    passing: Vec<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum MinLevel {
    #[default]
    All,
    Warnings,
    Errors,
}

impl MinLevel {
    fn passes(self, level: Level) -> bool {
        match self {
            Self::All => true,
            Self::Warnings => level != Level::Info,
            Self::Errors => level == Level::Error,
        }
    }
}

/// Draws the panel.
pub fn ui(actions: &mut UiActions, ui: &mut Ui) {
    let added = log::total_lines();
    if added == 0 {
        widgets::empty_state(
            ui,
            icons::TERMINAL_WINDOW,
            "There are no messages yet. Messages of the program appear here.",
            None,
        );
        return;
    }
    let id = ui.scope_id().with("log");
    let mut view: View = ui.data_mut(|d| d.remove_temp(id)).unwrap_or_default();
    let min = view.min_level;
    head(ui, actions, &mut view, id);
    if view.seen != added || view.min_level != min || view.passing.is_empty() {
        let fitted = f64::from(ui.available_height() / ROW);
        // The list does not scroll while the user reads further up.
        let at_end = view.rows.top + fitted + 1.0 >= view.passing.len() as f64;
        view.passing = log::with_lines(|lines| {
            let passes = |l: &(usize, &log::Line)| view.min_level.passes(l.1.level);
            lines.iter().enumerate().filter(passes).map(|l| l.0).collect()
        });
        if at_end {
            view.rows.top = f64::MAX;
        }
        view.seen = added;
    }
    if view.passing.is_empty() {
        let p = palette(ui);
        ui.add_space(12.0);
        ui.vertical_centered(|ui| ui.label(RichText::new("No message has this severity.").color(p.quiet)));
    } else {
        let View { rows, passing, .. } = &mut view;
        rows.show(ui, "Log", passing.len() as u64, |ui, row, rect| {
            let at = usize::try_from(row).ok().and_then(|r| passing.get(r));
            if let Some(line) = at.and_then(|i| log::with_lines(|l| l.get(*i).cloned())) {
                draw(ui, actions, row, rect, &line);
            }
        });
    }
    ui.data_mut(|d| d.insert_temp(id, view));
}

fn head(ui: &mut Ui, actions: &mut UiActions, view: &mut View, id: Id) {
    let p = palette(ui);
    let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), 30.0), Sense::hover());
    ui.painter()
        .hline(rect.x_range(), rect.bottom() - 0.5, Stroke::new(1.0, p.line));
    let mut child = ui.new_child(
        egui::UiBuilder::new()
            .id_salt(id.with("head"))
            .max_rect(rect.shrink2(vec2(12.0, 3.0)))
            .layout(egui::Layout::left_to_right(egui::Align::Center)),
    );
    for (min, word) in [
        (MinLevel::All, "Everything"),
        (MinLevel::Warnings, "! Warnings"),
        (MinLevel::Errors, "▲ Errors"),
    ] {
        let r = child.selectable_label(view.min_level == min, word);
        if r.clicked() {
            view.min_level = min;
        }
    }
    child.add_space(12.0);
    if child.button("Copy log").clicked() {
        actions.run_command("copy-log");
    }
    let message = text::count_noun(log::with_lines(|l| l.len() as u64), "line", "lines");
    child.label(RichText::new(message).font(small()).color(p.quiet));
}

fn draw(ui: &mut Ui, actions: &mut UiActions, row: u64, rect: Rect, l: &log::Line) {
    let p = palette(ui);
    let r = focus::row_response(ui, rect, ui.scope_id().with(("log", row)));
    r.widget_info(|| WidgetInfo::labeled(Role::Row, true, format!("log {}", l.text)));
    if r.hovered() {
        ui.painter().rect_filled(rect, 0.0, p.raised);
    }
    let (word, colour) = match l.level {
        Level::Info => ("", p.text),
        Level::Warning => ("! ", p.warning),
        Level::Error => ("▲ ", p.error),
    };
    let time = pos2(rect.left() + 92.0, rect.center().y);
    ui.painter()
        .text(time, Align2::RIGHT_CENTER, l.time.trim(), mono(), p.quiet);
    let rest = Rect::from_min_max(
        pos2(rect.left() + 106.0, rect.top()),
        pos2(rect.right() - 12.0, rect.bottom()),
    );
    paint_text(
        ui,
        rest,
        Align2::LEFT_CENTER,
        &format!("{word}{}", l.text),
        body(),
        colour,
    );
    r.context_menu(|ui| {
        if ui.button("Copy line").clicked() {
            ui.ctx().copy_text(format!("{} {}", l.time.trim(), l.text));
            ui.close();
        }
        actions.menu_item(ui, "copy-log");
    });
    r.on_hover_text(&l.text);
}
