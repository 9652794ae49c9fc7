//! The plotted lines, with the value of each at the current event.

use super::line_names;
use super::view::{View, WorkState};
use crate::theme::widgets::{paint_middle, paint_text};
use crate::theme::{ROW, icons, mono, palette, small};
use egui::accesskit::Role;
use egui::{Align2, Rect, RichText, Sense, Stroke, Ui, WidgetInfo, pos2, vec2};
use kinescope_files::changes::PlotLine;
use kinescope_files::scene::Selection;
use kinescope_session::{Document, text};

/// Height of the header, points.
pub(super) const HEAD: f32 = 22.0;

/// Draws a row for each line; a click goes to the access that gave the value.
pub(super) fn ui(doc: &mut Document, view: &mut View, ui: &mut Ui) {
    let p = palette(ui);
    let (head, _) = ui.allocate_exact_size(vec2(ui.available_width(), HEAD), Sense::hover());
    let cell = head.with_max_x(head.right() - 28.0);
    paint_text(ui, cell, Align2::LEFT_CENTER, "register", small(), p.quiet);
    let at = format!("at event {}", text::count(doc.current_event()));
    paint_text(ui, cell, Align2::RIGHT_CENTER, &at, small(), p.quiet);
    ui.painter()
        .hline(head.x_range(), head.bottom(), Stroke::new(1.0, p.line));
    let plots = doc.changes().plots().to_vec();
    egui::ScrollArea::vertical().auto_shrink([false, false]).show(ui, |ui| {
        ui.spacing_mut().item_spacing.y = 0.0;
        for (slot, line) in plots {
            row(doc, view, ui, slot, &line);
        }
    });
}

fn row(doc: &mut Document, view: &mut View, ui: &mut Ui, slot: u8, line: &PlotLine) {
    let p = palette(ui);
    let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::hover());
    let body = rect.with_max_x(rect.right() - 24.0);
    let r = ui.interact(body, ui.scope_id().with(("line", slot)), Sense::click());
    let values = view.values_of(line).cloned();
    let held = values.as_ref().and_then(|v| v.at(doc.current_event()));
    let known = view.values.get(line);
    let message = match (&held, &values) {
        (Some((_, v)), _) => line_names::format_value(doc, line, *v, view.decimal),
        (None, Some(v)) if v.is_empty() => "none".to_owned(),
        (None, Some(_)) => "not yet".to_owned(),
        (None, None) => match known.and_then(|s| s.0.as_ref()) {
            Some(WorkState::Failed(_, why)) => why.clone(),
            _ => "…".to_owned(),
        },
    };
    let name = line_names::line_name(doc, line);
    let selected = *doc.selection() == Selection::Register(line.register);
    r.widget_info(|| WidgetInfo::selected(Role::Row, true, selected, format!("Line {name} {message}")));
    if selected {
        crate::theme::widgets::select(ui, rect);
    } else if r.hovered() || r.has_focus() {
        ui.painter().rect_filled(rect, 0.0, p.raised);
    }
    let mark = [
        pos2(body.left() + 2.0, body.center().y),
        pos2(body.left() + 18.0, body.center().y),
    ];
    let stroke = Stroke::new(2.5, line_names::line_colour(p, slot));
    if !line_names::is_dashed(p, slot) {
        ui.painter().line_segment(mark, stroke);
    } else {
        ui.painter().extend(egui::Shape::dashed_line(&mark, stroke, 4.0, 2.0));
    }
    let inner = body.with_min_x(body.left() + 26.0).with_max_x(body.right() - 4.0);
    let ink = if held.is_some() { p.text } else { p.quiet };
    let max = inner.with_min_x(inner.left() + inner.width() * 0.42);
    let used = paint_text(ui, max, Align2::RIGHT_CENTER, &message, mono(), ink);
    let rest = Rect::from_min_max(inner.min, pos2(inner.right() - used - 8.0, inner.bottom()));
    paint_middle(ui, rest, Align2::LEFT_CENTER, &name, mono(), p.text);
    let gone = rect.with_min_x(rect.right() - 22.0);
    let x = ui.interact(gone, ui.scope_id().with(("remove", slot)), Sense::click());
    x.widget_info(|| WidgetInfo::labeled(Role::Button, true, format!("Remove {name} from the plot")));
    let ink = if x.hovered() || x.has_focus() { p.text } else { p.quiet };
    ui.painter().text(
        gone.center(),
        Align2::CENTER_CENTER,
        icons::X,
        egui::FontId::proportional(12.0),
        ink,
    );
    if x.clone().on_hover_text("Remove from the plot").clicked() {
        doc.plot(line);
    }
    let mut more = name.clone();
    if let Some((event, v)) = held {
        let meaning = line_names::meaning(doc, line, v);
        more += &format!("\n{}", line_names::value(doc, line, v, false));
        if !meaning.is_empty() {
            more += &format!("  {meaning}");
        }
        more += &format!("\nfrom event {}", text::count(event));
    }
    if let Some((v, (lo, hi))) = values.as_ref().and_then(|v| Some((v, v.range()?))) {
        let (lo, hi) = (
            line_names::value(doc, line, lo, view.decimal),
            line_names::value(doc, line, hi, view.decimal),
        );
        more += &format!(
            "\n{}, {lo} to {hi}",
            text::count_noun(v.len() as u64, "value", "values")
        );
    }
    let stopped = matches!(known.and_then(|s| s.0.as_ref()), Some(WorkState::Failed(..)));
    let r = r.on_hover_text(RichText::new(more).font(mono()));
    if r.clicked() {
        if stopped {
            view.values.remove(line);
        }
        match held {
            Some((event, _)) => doc.go_with(event, Selection::Register(line.register)),
            None => doc.select(Selection::Register(line.register)),
        }
    }
}
