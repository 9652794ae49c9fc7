//! The list of differences, row by row, with the link target of each row.

use super::line::{Line, line, open_line};
use super::sections::{entries, find_first_difference};
use super::style::SIDE;
use super::view::{Section, View};
use super::{detail, walks};
use crate::panels::common::actions::UiActions;
use crate::theme::columns::{Column, Table};
use crate::theme::table_keys::{TableKey, TableKeys};
use crate::theme::{body, icons, mono, palette, widgets};
use egui::accesskit::Role;
use egui::{Rect, Sense, Stroke, Ui, WidgetInfo, vec2};
use kinescope_session::comparison::Comparison;
use kinescope_session::difference::DifferenceRef;
use kinescope_session::{Document, text};
use std::sync::Arc;

/// Width below which the fields of the selected row stand below the list, points.
const BESIDE: f32 = 640.0;
/// Minimum and maximum width of the fields at the right of the list, points.
const FIELDS: std::ops::RangeInclusive<f32> = 300.0..=460.0;

/// Draws the list of a section.
pub(super) fn ui(doc: &mut Document, c: &Arc<Comparison>, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    if entries(c, view.section) == 0 {
        // The user reaches the section that does differ in one step.
        let other = find_first_difference(c);
        let words = other.map(|s| format!("Show differences in {}", s.name()));
        if widgets::empty_state(
            ui,
            icons::CHECK_CIRCLE,
            describe_no_difference(c, view.section),
            words.as_deref(),
        ) && let Some(section) = other
        {
            view.open(section);
        }
        return;
    }
    // Rows with more text than fits a line have the full width until one is selected.
    let always = matches!(view.section, Section::Events | Section::Mappings);
    let Some(meant) = current_difference(doc, c, view).or(always.then_some(DifferenceRef::Events(None, None))) else {
        rows(doc, c, view, actions, ui);
        return;
    };
    let full = ui.available_rect_before_wrap();
    let p = palette(ui);
    let (list, details) = if full.width() >= BESIDE {
        let fields = (full.width() * 0.36).clamp(*FIELDS.start(), *FIELDS.end());
        full.split_left_right_at_x(full.right() - fields)
    } else {
        full.split_top_bottom_at_y(full.bottom() - (full.height() * 0.45).min(180.0))
    };
    let mut child = ui.new_child(egui::UiBuilder::new().id_salt("list").max_rect(list));
    child.shrink_clip_rect(list);
    rows(doc, c, view, actions, &mut child);
    if full.width() >= BESIDE {
        ui.painter()
            .vline(details.left(), details.y_range(), Stroke::new(1.0, p.line));
    } else {
        ui.painter()
            .hline(details.x_range(), details.top(), Stroke::new(1.0, p.line));
    }
    let inner = details.shrink2(vec2(SIDE, 4.0));
    let mut child = ui.new_child(egui::UiBuilder::new().id_salt("fields").max_rect(inner));
    child.shrink_clip_rect(details);
    match view.section {
        Section::Mappings => walks::ui(doc, c, view, actions, &mut child),
        _ => detail::ui(doc, c, &meant, view, actions, &mut child),
    }
    ui.advance_cursor_after_rect(full);
}

/// Returns the difference that the user selected: that of the row, or of the byte.
#[must_use]
pub fn current_difference(doc: &Document, c: &Comparison, view: &View) -> Option<DifferenceRef> {
    let row = || usize::try_from(view.selected?).ok();
    match view.section {
        Section::Events => {
            let step = doc.step()?;
            c.steps.row_at(step)?;
            let s = c.steps.at(step)?;
            Some(DifferenceRef::Events(s.a, s.b))
        }
        Section::Calls => row().map(DifferenceRef::Call),
        Section::Registers => row().map(DifferenceRef::Register),
        Section::Writes => row().map(DifferenceRef::Write),
        Section::Descriptors => row().map(DifferenceRef::Descriptor),
        Section::Mappings => row().map(DifferenceRef::Mapping),
        Section::Buffers => row().map(DifferenceRef::Memory),
        Section::Memory => Some(DifferenceRef::Byte(view.space, view.byte?)),
        Section::Rules => None,
    }
}

fn describe_no_difference(c: &Comparison, section: Section) -> &'static str {
    match section {
        Section::Buffers | Section::Memory if c.diff.not_computed.is_any() => {
            "Memory is equal at the end, except for outputs: they were not computed."
        }
        Section::Events => "No event differs.",
        Section::Calls => "No call differs.",
        Section::Registers => "Every register has the same history on both sides.",
        Section::Writes => "The CPU wrote the same bytes on both sides.",
        Section::Descriptors => "Jobs have the same descriptors on both sides.",
        Section::Mappings => "Both recordings map the same pages at the end.",
        Section::Buffers | Section::Memory | Section::Rules => "Memory is equal at the end.",
    }
}

/// Draws the rows of a section, each a line. A click goes to the row in both recordings; Enter or a second click also
/// shows its bytes.
fn rows(doc: &mut Document, c: &Comparison, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    let section = view.section;
    let n = entries(c, section);
    let here = match section {
        Section::Events => doc.step().and_then(|s| c.steps.row_at(s)),
        _ => view.selected,
    };
    let table = Table::head(ui, actions.tables.state(TABLE), TABLE, &columns(section));
    let id = egui::Id::unique("compare-rows");
    let keys = TableKeys {
        id,
        name: "Difference table",
        has_parts: false,
    };
    let (mut go, enter) = match keys.read(ui, || here, n) {
        Some(TableKey::Row(row)) => (Some(row), false),
        Some(TableKey::Enter) => (None, true),
        Some(TableKey::Part(_)) | None => (None, false),
    };
    let moved = go.is_some();
    if let Some(row) = go {
        view.rows.reveal(row);
        view.selected = Some(row);
    } else if section == Section::Events
        && let Some(row) = here.filter(|_| view.selected != here)
    {
        view.rows.reveal(row);
        view.selected = Some(row);
    }
    let mut deeper = enter;
    if enter && go.is_none() {
        go = here;
    }
    let mut list = view.rows;
    let mut clicked = None;
    list.show(ui, "Differences", n, |ui, row, rect| {
        let Some(line) = line(doc, c, section, row, p) else {
            return;
        };
        let r = ui.interact(rect, ui.scope_id().with(("difference", row)), Sense::CLICK);
        let on = here == Some(row);
        let name = format!("difference {row} {} {}", line.word, line.description);
        r.widget_info(|| WidgetInfo::selected(Role::Row, true, on, name.clone()));
        if on || r.hovered() {
            ui.painter()
                .rect_filled(rect, 0.0, if on { p.selection } else { p.raised });
        }
        draw(ui, &table, &line, rect);
        if r.clicked() {
            clicked = Some(row);
        }
        deeper |= r.double_clicked();
        let all = format!(
            "{}\t{}\t{}\t{}\t{}",
            line.word,
            line.a.map_or_else(String::new, |e| e.to_string()),
            line.b.map_or_else(String::new, |e| e.to_string()),
            line.description,
            line.value
        );
        widgets::add_copy_menu(&r, &[("row", all), ("value", line.value.clone())])
            .on_hover_text(format!("{}\n{}", line.description, line.value));
    });
    table.finish(ui, actions.tables.state(TABLE));
    view.rows = list;
    if let Some(row) = clicked {
        ui.memory_mut(|m| m.request_focus(id));
        view.selected = Some(row);
        go = Some(row);
    }
    let Some(row) = go else { return };
    // In the other lists, arrow keys select and Enter goes to the row.
    if section == Section::Events {
        doc.go_row(row);
    } else if (!moved || clicked.is_some())
        && let Some(line) = line(doc, c, section, row, p)
    {
        open_line(doc, c, view, actions, &line, deeper);
    }
}

/// Name of the table in the workspace.
const TABLE: &str = "differences";

/// Returns the columns of a section. The columns `what` and `value` are the last to be hidden.
fn columns(section: Section) -> [Column; 5] {
    let (what, value) = match section {
        Section::Events => ("access", "A → B"),
        Section::Calls => ("function or memory", "A → B"),
        Section::Registers => ("register", "first field that differs: A → B"),
        Section::Descriptors => ("descriptor", "first field that differs: A → B"),
        Section::Writes | Section::Mappings | Section::Buffers | Section::Memory | Section::Rules => {
            ("location", "A → B")
        }
    };
    [
        Column::new("word", "change", 92.0).hide_order(2).compact(14.0),
        Column::new("a", "event A", 54.0).number().hide_order(3),
        Column::new("b", "event B", 54.0).number().hide_order(3),
        Column::new("what", what, 110.0).stretch(1.0).max_width(340.0),
        Column::new("value", value, 90.0).stretch(1.1).hide_order(1),
    ]
}

fn draw(ui: &Ui, table: &Table, line: &Line, rect: Rect) {
    let p = palette(ui);
    let word = if table.is_compact("word") {
        line.sign.to_owned()
    } else {
        format!("{} {}", line.sign, line.word)
    };
    table.text(ui, "word", rect, &word, body(), line.ink);
    for (id, e) in [("a", line.a), ("b", line.b)] {
        let ink = if e.is_some() { p.read } else { p.quiet };
        table.text(ui, id, rect, &e.map_or_else(|| "–".into(), text::count), mono(), ink);
    }
    table.text(ui, "what", rect, &line.description, mono(), p.text);
    let differs = line.value.contains('→');
    let ink = if differs { p.error } else { p.quiet };
    table.text(ui, "value", rect, &line.value, mono(), ink);
}
