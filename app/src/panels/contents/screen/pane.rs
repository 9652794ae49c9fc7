//! The chosen pixel: its location, its value, and every store to it.

use super::pixel;
use super::view::View;
use crate::panels::common::actions::UiActions;
use crate::theme::columns::{Column, Table};
use crate::theme::widgets::{self, StyledText};
use crate::theme::{focus, icons, mono, palette, small, strong};
use egui::accesskit::Role;
use egui::{Color32, Rect, RichText, Stroke, StrokeKind, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::screen::{Screen, ScreenSettings};
use kinescope_session::{Document, text};
use trace_core::screen::{Store, StoreState};

/// Draws the pane.
pub fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui, screen: &Screen) {
    let Some([x, y]) = view.pixel else {
        let message = "Click a pixel to list every store to it.";
        widgets::empty_state(ui, icons::FILM_STRIP, message, None);
        return;
    };
    let p = palette(ui);
    ui.horizontal(|ui| {
        ui.set_height(28.0);
        ui.add_space(12.0);
        ui.label(RichText::new(format!("Pixel {x}, {y}")).font(strong()));
        ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
            ui.add_space(8.0);
            if widgets::icon_button(ui, icons::X, "Clear the pixel").clicked() {
                pixel::choose(doc, view, actions, None);
            }
            if widgets::icon_button(ui, icons::CARET_DOWN, "Next store to this pixel").clicked() {
                actions.run_command("next-pixel-store");
            }
            if widgets::icon_button(ui, icons::CARET_UP, "Previous store to this pixel").clicked() {
                actions.run_command("previous-pixel-store");
            }
        });
    });
    let Some(Ok(look)) = view.look() else {
        return;
    };
    let (look, drawn) = (look.clone(), view.drawn().cloned());
    let inner = ui.available_rect_before_wrap();
    let mut properties = ui.new_child(egui::UiBuilder::new().max_rect(Rect::from_min_max(
        inner.min + vec2(12.0, 0.0),
        inner.max - vec2(12.0, 0.0),
    )));
    if let Some(at) = look.format.offset(x, y) {
        widgets::key_value(
            &mut properties,
            "offset",
            StyledText::mono(format!("{} + {at:#x}", screen.space)),
        );
    }
    let color = drawn.as_ref().and_then(|d| d.pixel(x, y));
    let known = drawn.as_ref().and_then(|d| d.known_at(x, y));
    let text = match (color, known) {
        (Some([r, g, b]), _) => StyledText::mono(format!("#{r:02x}{g:02x}{b:02x}  {r} {g} {b}")),
        (None, Some(StoreState::Lost)) => StyledText::body("stored without its value").colour(p.warning),
        (None, Some(_)) => StyledText::body("never stored so far").colour(p.quiet),
        (None, None) => StyledText::body("outside the screen").colour(p.quiet),
    };
    let line = widgets::key_value(&mut properties, "colour", text);
    if let Some(c) = color {
        let at = pos2(line.rect.right() - 10.0, line.rect.center().y);
        swatch(ui, Rect::from_center_size(at, vec2(20.0, 12.0)), c);
    }
    ui.advance_cursor_after_rect(properties.min_rect());
    ui.add_space(8.0);
    list(doc, view, actions, ui, &look);
}

/// Name of the table in the workspace.
const TABLE: &str = "stores";

/// Returns the columns of the stores to a pixel.
fn columns(doc: &Document) -> [Column; 4] {
    [
        Column::new("event", "event", 62.0).number().fit_count(doc.len()),
        Column::new("time", "time", 96.0)
            .number()
            .hide_order(1)
            .hide_if_empty(!doc.has_times()),
        Column::new("value", "stored", 74.0)
            .number()
            .stretch(1.0)
            .max_width(96.0),
        Column::new("colour", "colour", 18.0),
    ]
}

fn swatch(ui: &Ui, rect: Rect, [r, g, b]: [u8; 3]) {
    let line = palette(ui).line;
    ui.painter().rect_filled(rect, 2.0, Color32::from_rgb(r, g, b));
    ui.painter()
        .rect_stroke(rect, 2.0, Stroke::new(1.0, line), StrokeKind::Inside);
}

fn list(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui, look: &ScreenSettings) {
    let p = palette(ui);
    let table = Table::head(ui, actions.tables.state(TABLE), TABLE, &columns(doc));
    let Some(found) = view.stores.as_ref().and_then(|s| s.found.clone()) else {
        let rich_text = RichText::new("looking for stores …").font(small()).color(p.quiet);
        ui.horizontal(|ui| {
            ui.add_space(12.0);
            ui.label(rich_text);
        });
        return;
    };
    if found.list.is_empty() {
        ui.horizontal(|ui| {
            ui.add_space(12.0);
            let message = "No recorded store reaches this pixel: it shows the previous content of video memory.";
            ui.add(egui::Label::new(RichText::new(message).color(p.quiet)).wrap());
        });
        return;
    }
    let m = doc.current_event();
    let last = found.list.partition_point(|s| s.event <= m).checked_sub(1);
    if view.seen_event != m {
        view.seen_event = m;
        view.list.reveal(last.unwrap_or(0) as u64);
    }
    let mut go = None;
    let count = found.list.len() as u64;
    let mut rows = view.list;
    rows.show(ui, "Stores to the pixel", count, |ui, row, rect| {
        let Some(s) = found.list.get(row as usize) else { return };
        let response = focus::row_response(ui, rect, ui.scope_id().with(("store", row)));
        let selected = last == Some(row as usize);
        response.widget_info(|| WidgetInfo::selected(Role::Row, true, selected, format!("store at event {}", s.event)));
        if selected {
            widgets::select(ui, rect);
        } else if response.hovered() {
            ui.painter().rect_filled(rect, 0.0, p.raised);
        }
        // Stores after the current event are dimmed.
        let ink = if s.event <= m { p.text } else { p.quiet };
        table.text(ui, "event", rect, &text::count(s.event), mono(), ink);
        table.text(
            ui,
            "time",
            rect,
            &doc.time_unit().time(doc.ns(s.event)),
            mono(),
            p.quiet,
        );
        let summary = s
            .value
            .map_or("not known".to_owned(), |v| doc.numbers.format(v, s.width));
        table.text_middle(ui, "value", rect, &summary, ink);
        if let Some((c, cell)) = color(s, look).zip(table.cell("colour", rect)) {
            swatch(ui, Rect::from_center_size(cell.center(), vec2(18.0, 12.0)), c);
        }
        if response.clicked() {
            go = Some(s.event);
        }
        let summary = format!(
            "a store of {} at {:#x}; a click goes there",
            text::bytes(u64::from(s.width)),
            s.offset
        );
        response.on_hover_text(summary);
    });
    table.finish(ui, actions.tables.state(TABLE));
    view.list = rows;
    if let Some(e) = go {
        doc.go_keeping_target(e);
    }
}

/// Returns the pixel's colour after a store, with the current palette.
fn color(s: &Store, look: &ScreenSettings) -> Option<[u8; 3]> {
    let n = look.format.pixel.bytes() as usize;
    let known = s.known.get(..n)?.iter().all(|k| *k == StoreState::Stored);
    known
        .then(|| look.format.value(s.bytes.get(..n).unwrap_or_default()))
        .and_then(|v| look.format.color(v, &look.palette))
}
