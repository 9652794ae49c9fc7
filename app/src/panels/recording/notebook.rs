//! The Notebook panel: the notes of a recording in event order, each with a link back to the view that it was made in.

use crate::panels::common::actions::UiActions;
use crate::theme::columns::{Column, Table};
use crate::theme::field::{self, FieldOutput};
use crate::theme::rows::Rows;
use crate::theme::widgets;
use crate::theme::{body, focus, icons, mono, palette, small, strong};
use egui::accesskit::Role;
use egui::{Align, Layout, Rect, RichText, Sense, Stroke, Ui, UiBuilder, WidgetInfo, pos2, vec2};
use kinescope_files::scene::Selection;
use kinescope_session::{Document, notebook, text};

/// Part of the panel for the list, and its minimum and maximum width, points.
const LIST: (f32, f32, f32) = (0.42, 260.0, 460.0);
/// Height of the header, points.
const HEAD: f32 = 34.0;

/// State of the panel.
#[derive(Default)]
pub struct View {
    rows: Rows,
    jumps: u64,
    /// Events of the notes in order, and the revision of the changes at which they were listed.
    events: Vec<u64>,
    listed: Option<u64>,
}

/// Returns the current note: at the current event, or the selected one.
#[must_use]
pub fn current_note(doc: &Document) -> Option<u64> {
    let event = match doc.selection() {
        Selection::Note(e) => *e,
        _ => doc.current_event(),
    };
    doc.changes().notes().contains_key(&event).then_some(event)
}

/// Returns the title of the panel with this id, or `None` if there is no such panel.
pub type PanelTitle = fn(&str) -> Option<&'static str>;

/// Draws the panel.
pub fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, title_of: PanelTitle, ui: &mut Ui) {
    if doc.changes().notes().is_empty() {
        let what =
            "There are no notes yet. A note stores an event, the selection and the shown panels; press M to add one.";
        if widgets::empty_state(ui, icons::PENCIL_SIMPLE, what, Some("Add note at this event")) {
            actions.run_command("add-note");
        }
        return;
    }
    if view.listed != Some(doc.changes().revision()) {
        view.listed = Some(doc.changes().revision());
        view.events = doc.changes().notes().keys().copied().collect();
    }
    let full = ui.available_rect_before_wrap();
    let split = full.left() + (full.width() * LIST.0).clamp(LIST.1, LIST.2);
    let left = Rect::from_min_max(full.min, pos2(split, full.bottom()));
    let right = Rect::from_min_max(pos2(split + 1.0, full.top()), full.max);
    ui.painter()
        .vline(split, full.y_range(), Stroke::new(1.0, palette(ui).line));
    let mut list = ui.new_child(UiBuilder::new().id_salt("notes").max_rect(left));
    list.shrink_clip_rect(left);
    head(view.events.len() as u64, actions, &mut list);
    rows(doc, view, actions, &mut list);
    let mut page = ui.new_child(
        UiBuilder::new()
            .id_salt("note")
            .max_rect(right.shrink2(vec2(12.0, 6.0))),
    );
    page.shrink_clip_rect(right);
    match current_note(doc) {
        Some(event) => note(doc, actions, title_of, &mut page, event),
        None => {
            let what = actions.tooltip(
                "add-note",
                "There is no note at this event. Choose one, or add a new one",
            );
            if widgets::empty_state(&mut page, icons::PENCIL_SIMPLE, &what, Some("Add note at this event")) {
                actions.run_command("add-note");
            }
        }
    }
    ui.advance_cursor_after_rect(full);
}

/// Draws the number of notes, and the actions on all of them.
fn head(count: u64, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), HEAD), Sense::hover());
    let mut line = ui.new_child(
        UiBuilder::new()
            .id_salt("head")
            .max_rect(rect.shrink2(vec2(12.0, 3.0)))
            .layout(Layout::left_to_right(Align::Center)),
    );
    line.label(RichText::new(text::count_noun(count, "note", "notes")).color(p.quiet));
    line.with_layout(Layout::right_to_left(Align::Center), |ui| {
        if ui
            .button("Export…")
            .on_hover_text("as a page of HTML, or as Markdown")
            .clicked()
        {
            actions.run_command("export-notebook");
        }
    });
    ui.painter()
        .hline(rect.x_range(), rect.bottom(), Stroke::new(1.0, p.line));
}

/// Name of the table in the workspace.
const TABLE: &str = "notes";

/// Returns the columns of the list of notes.
fn columns(doc: &Document) -> [Column; 2] {
    [
        Column::new("event", "event", 80.0).number().fit_count(doc.len()),
        Column::new("note", "note", 80.0).stretch(1.0),
    ]
}

fn rows(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    let here = current_note(doc);
    if view.jumps != doc.jumps
        && let Some(row) = here.and_then(|e| view.events.binary_search(&e).ok())
    {
        view.rows.reveal(row as u64);
    }
    view.jumps = doc.jumps;
    let mut go = None;
    let table = Table::head(ui, actions.tables.state(TABLE), TABLE, &columns(doc));
    let View { rows, events, .. } = view;
    rows.show(ui, "Notes", events.len() as u64, |ui, row, rect| {
        let Some(event) = usize::try_from(row).ok().and_then(|r| events.get(r)).copied() else {
            return;
        };
        let Some(note) = doc.changes().notes().get(&event) else {
            return;
        };
        let r = focus::row_response(ui, rect, ui.scope_id().with(("note", event)));
        let selected = here == Some(event);
        let title = notebook::title(note);
        r.widget_info(|| WidgetInfo::selected(Role::Row, true, selected, format!("note {event} {title}")));
        if selected || r.hovered() {
            let fill = if selected { p.selection } else { p.raised };
            ui.painter().rect_filled(rect, 0.0, fill);
        }
        table.text(ui, "event", rect, &text::count(event), mono(), p.quiet);
        table.text(ui, "note", rect, title, body(), p.text);
        if r.double_clicked() {
            go = Some((event, true));
        } else if r.clicked() {
            go = Some((event, false));
        }
        r.context_menu(|ui| {
            if ui.button("Restore its view").clicked() {
                go = Some((event, true));
                ui.close();
            }
            if ui.button("Copy note").clicked() {
                ui.ctx().copy_text(note.text.clone());
                ui.close();
            }
        });
    });
    table.finish(ui, actions.tables.state(TABLE));
    if let Some((event, whole)) = go {
        doc.go_with(event, Selection::Note(event));
        if whole {
            actions.run_command("open-note");
        }
    }
}

/// Draws the note at an event: its text, and what it keeps.
fn note(doc: &mut Document, actions: &mut UiActions, title_of: PanelTitle, ui: &mut Ui, event: u64) {
    let p = palette(ui);
    let Some(entry) = notebook::entry(doc, event) else {
        return;
    };
    ui.label(RichText::new(format!("Event {}", text::count(event))).font(strong()));
    ui.add(egui::Label::new(RichText::new(&entry.line).font(mono())).truncate());
    let mut messages = vec![doc.format_time(event)];
    messages.extend(entry.job.map(|j| format!("job {j}")));
    messages.extend(Some(entry.selected.clone()).filter(|s| !s.is_empty()));
    let titles = entry.scene.panels.iter().filter_map(|id| title_of(id));
    let panels: Vec<&str> = titles.collect();
    messages.extend(Some(panels.join(", ")).filter(|s| !s.is_empty()));
    ui.add(egui::Label::new(RichText::new(messages.join(" · ")).font(small()).color(p.quiet)).truncate());
    ui.add_space(6.0);
    let buttons = 30.0;
    let room = vec2(ui.available_width(), (ui.available_height() - buttons - 8.0).max(48.0));
    let rect = Rect::from_min_size(ui.cursor().min, room);
    let mut area = ui.new_child(UiBuilder::new().id_salt("text").max_rect(rect));
    egui::ScrollArea::vertical()
        .id_salt("of the note")
        .show(&mut area, |ui| {
            let lines = (room.y / ui.text_style_height(&egui::TextStyle::Body)).floor().max(3.0);
            note_field(doc, ui, "Notebook text", event, lines as usize - 1);
        });
    ui.advance_cursor_after_rect(rect);
    ui.add_space(6.0);
    ui.horizontal(|ui| {
        let open = ui
            .button("Go there")
            .on_hover_text("restore the event, the selection and the panels of the note");
        if open.clicked() {
            actions.run_command("open-note");
        }
        let keep = ui
            .button("Keep this view")
            .on_hover_text("store the current selection and panels in the note");
        if keep.clicked() {
            actions.run_command("keep-view");
        }
        if ui.button("Copy link").clicked() {
            ui.ctx().copy_text(entry.link.clone());
        }
        if ui.button("Remove").clicked() {
            doc.note(event, None);
        }
    });
}

/// Draws the field with the text of a note; `label` distinguishes it from other fields.
pub fn note_field(doc: &mut Document, ui: &mut Ui, label: &str, event: u64, lines: usize) -> FieldOutput {
    let now = doc
        .changes()
        .notes()
        .get(&event)
        .map(|n| n.text.clone())
        .unwrap_or_default();
    let id = ui.scope_id().with(("note", event));
    let mut text: String = ui.data(|d| d.get_temp(id)).unwrap_or_else(|| now.clone());
    let shown = field::value(ui, egui::Id::unique(label), label, &mut text, Some(&now), |t| {
        egui::TextEdit::multiline(t)
            .desired_rows(lines)
            .desired_width(f32::INFINITY)
    });
    let r = &shown.response;
    if r.lost_focus() {
        doc.note(event, Some(text));
        ui.data_mut(|d| d.remove::<String>(id));
    } else if r.has_focus() {
        ui.data_mut(|d| d.insert_temp(id, text));
    } else {
        ui.data_mut(|d| d.remove::<String>(id));
    }
    shown
}
