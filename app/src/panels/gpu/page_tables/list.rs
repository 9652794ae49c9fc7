//! The mappings of an address space, or the pages with a mark, as a table.

use super::style::{colour, describe_content, describe_run, mark_colour, paint};
use super::view::{ColourBy, View};
use crate::panels::common::actions::UiActions;
use crate::theme::columns::{Column, Table};
use crate::theme::widgets;
use crate::theme::{body, focus, mono, palette, small};
use egui::accesskit::Role;
use egui::{Color32, Mesh, Rect, Shape, Stroke, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::page_runs::{MappedRun, PageContent, format_rights};
use kinescope_session::page_table_marks::Mark;
use kinescope_session::spaces::SpaceFact;
use kinescope_session::{Document, text};
use trace_core::GpuVa;

/// Returns the pixels of a span: one a page up to 220, then compressed.
fn span_pixels(pages: u64, max: f32) -> f32 {
    let linear = 220.0_f32.min(max * 0.6);
    if pages as f32 <= linear {
        return (pages as f32).max(2.0);
    }
    let over = (pages as f32 / linear).log2() / 10.0;
    linear + (max - linear) * over.min(1.0)
}

/// A row: pages of one mapping, and another address of these pages.
struct Row {
    run: MappedRun,
    other: Option<GpuVa>,
}

/// Returns a row of the list. The mapping that holds a marked span describes it.
fn row_at(space: &SpaceFact, mark: Option<Mark>, row: usize) -> Option<Row> {
    match mark {
        None => space.mappings.get(row).map(|m| Row { run: *m, other: None }),
        Some(mark) => {
            let s = space.marks.spans(mark).get(row)?;
            let rights = space.mapping_at(s.va).map_or(0, |m| m.rights);
            Some(Row {
                run: MappedRun {
                    va: s.va,
                    pages: s.pages,
                    rights,
                    content: PageContent::None,
                },
                other: s.other,
            })
        }
    }
}

/// Returns the row that holds an address.
fn row_of(space: &SpaceFact, mark: Option<Mark>, va: GpuVa) -> Option<usize> {
    match mark {
        None => space.mappings.partition_point(|m| m.va <= va).checked_sub(1),
        Some(m) => space.marks.spans(m).partition_point(|s| s.va <= va).checked_sub(1),
    }
}

/// Name of the table in the workspace.
const TABLE: &str = "mappings";

/// Returns the columns.
fn columns(mark: Option<Mark>) -> [Column; 5] {
    let last = if mark == Some(Mark::MappedTwice) {
        "the same memory as"
    } else {
        "holds"
    };
    [
        Column::new("start", "start", 116.0),
        Column::new("pages", "pages", 44.0).number().hide_order(1),
        Column::new("rights", "rights", 34.0).hide_order(2),
        Column::new("span", "span", 60.0).stretch(1.0).hide_order(4),
        Column::new("holds", last, 112.0).stretch(0.6).hide_order(3),
    ]
}

/// Draws the table and the legend under it.
pub fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui, space: &SpaceFact) {
    let p = palette(ui);
    let mark = view.mark;
    let full = ui.available_rect_before_wrap();
    let legend = 26.0;
    let area = Rect::from_min_max(full.min, full.max - vec2(0.0, legend));
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(area));
    let table = Table::head(&mut child, actions.tables.state(TABLE), TABLE, &columns(mark));
    let mut list = view.list;
    let at = view.at;
    let shown = row_of(space, mark, at.unwrap_or(GpuVa::ZERO));
    if std::mem::take(&mut view.reveal)
        && let Some(row) = shown.filter(|_| at.is_some())
    {
        list.reveal(row as u64);
    }
    let count = mark.map_or(space.mappings.len(), |m| space.marks.spans(m).len());
    let mut chosen = None;
    list.show(&mut child, "Mappings", count as u64, |ui, row, rect| {
        let Some(Row { run: m, other }) = row_at(space, mark, row as usize) else {
            return;
        };
        let r = focus::row_response(ui, rect, ui.scope_id().with(("mapping", row)));
        let selected = shown == Some(row as usize) && at.is_some_and(|v| m.va <= v && v < m.end());
        r.widget_info(|| WidgetInfo::selected(Role::Row, true, selected, format!("mapping {:#x}", m.va)));
        if selected {
            widgets::select(ui, rect);
        } else if r.hovered() {
            ui.painter().rect_filled(rect, 0.0, p.raised);
        }
        let y = rect.center().y;
        table.text(ui, "start", rect, &format!("{:#x}", m.va), mono(), p.text);
        table.text(ui, "pages", rect, &text::count(m.pages), mono(), p.quiet);
        let whole = MappedRun {
            content: PageContent::Data,
            ..m
        };
        let ink = colour(p, ColourBy::Rights, &whole);
        table.text(ui, "rights", rect, &format_rights(m.rights), mono(), ink);
        if let Some(cell) = table.cell("span", rect) {
            let max = (cell.width() - 8.0).max(30.0);
            let wide = span_pixels(m.pages, max);
            let bar = Rect::from_min_size(pos2(cell.left(), y - 5.0), vec2(wide, 10.0));
            spans(view.colour_by, ui, space, &m, bar);
            if m.pages as f32 > 220.0_f32.min(max * 0.6) {
                let cut = bar.left() + wide * 0.85;
                let ground = if selected { p.selection } else { p.panel };
                ui.painter().line_segment(
                    [pos2(cut - 2.0, bar.bottom() + 1.0), pos2(cut + 3.0, bar.top() - 1.0)],
                    Stroke::new(3.0, ground),
                );
            }
        }
        let held = match other {
            Some(o) => format!("{o:#x}"),
            None => describe_content(doc, m.va, m.end()),
        };
        let (font, ink) = if other.is_some() {
            (mono(), mark_colour(p, Mark::MappedTwice))
        } else {
            (body(), p.quiet)
        };
        table.text(ui, "holds", rect, &held, font, ink);
        if r.clicked() {
            chosen = Some(m);
        }
        let range = format!("{:#x}..{:#x}", m.va, m.end());
        let r = widgets::add_copy_menu(
            &r,
            &[
                ("start", format!("{:#x}", m.va)),
                ("range", range.clone()),
                ("size in bytes", (m.pages * 4096).to_string()),
                ("row", format!("{range} {} {held}", describe_run(&m))),
            ],
        );
        if !held.is_empty() {
            r.on_hover_text(format!("{range}\n{held}"));
        }
    });
    table.finish(&child, actions.tables.state(TABLE));
    view.list = list;
    if let Some(m) = chosen {
        view.frame(m.va, m.pages);
        view.pick(doc, m.va, 1);
    }
    let rect = Rect::from_min_max(pos2(full.left(), full.bottom() - legend), full.max);
    legend_row(view.colour_by, ui, rect);
}

fn spans(by: ColourBy, ui: &Ui, space: &SpaceFact, m: &MappedRun, bar: Rect) {
    let p = palette(ui);
    let from = space.runs.partition_point(|r| r.end() <= m.va);
    let to = space.runs.partition_point(|r| r.va < m.end());
    let list = &space.runs[from.min(to)..to];
    let x = |va: GpuVa| bar.left() + bar.width() * ((va - m.va) as f64 / (m.pages * 4096) as f64) as f32;
    let mut mesh = Mesh::default();
    let mut draw = |want: PageContent, min: f32| {
        let mut last = f32::MIN;
        let mut next = 0;
        // A pixel is painted once for any number of runs: the next run is the first one at the next pixel.
        while let Some(r) = list.get(next) {
            next += 1;
            if r.content != want {
                continue;
            }
            let x0 = x(r.va.max(m.va));
            let x1 = x(r.end().min(m.end())).max(x0 + min);
            if x1 - last >= 0.5 {
                let at = Rect::from_min_max(pos2(x0, bar.top()), pos2(x1, bar.bottom()));
                paint(&mut mesh, at, colour(p, by, r), r.content);
                last = x1;
            } else {
                let pixel = (m.pages * 4096) as f64 / f64::from(bar.width().max(1.0));
                let on = r.end().saturating_add(pixel as u64);
                next = next.max(list.partition_point(|r| r.va < on));
            }
        }
    };
    // The most frequent content is drawn first, so that it does not cover a single page with data.
    draw(PageContent::None, 0.0);
    draw(PageContent::Zero, 1.0);
    draw(PageContent::Data, 2.0);
    ui.painter().add(Shape::mesh(mesh));
}

fn legend_row(by: ColourBy, ui: &Ui, rect: Rect) {
    let p = palette(ui);
    ui.painter().hline(rect.x_range(), rect.top(), Stroke::new(1.0, p.line));
    let run = |rights, content| MappedRun {
        va: GpuVa::ZERO,
        pages: 1,
        rights,
        content,
    };
    let items: Vec<(&str, Color32)> = match by {
        ColourBy::Rights => vec![
            ("rw-", colour(p, by, &run(3, PageContent::Data))),
            ("r--", colour(p, by, &run(1, PageContent::Data))),
            ("r-x", colour(p, by, &run(5, PageContent::Data))),
            ("rwx", colour(p, by, &run(7, PageContent::Data))),
            ("all zero", colour(p, by, &run(3, PageContent::Zero))),
            ("not recorded", colour(p, by, &run(3, PageContent::None))),
        ],
        ColourBy::Content => vec![
            ("data", colour(p, by, &run(3, PageContent::Data))),
            ("all zero", colour(p, by, &run(3, PageContent::Zero))),
            ("not recorded", colour(p, by, &run(3, PageContent::None))),
        ],
    };
    let mut x = rect.left() + 12.0;
    for (word, c) in items {
        let mark = Rect::from_center_size(pos2(x + 5.0, rect.center().y), vec2(10.0, 10.0));
        let mut mesh = Mesh::default();
        let content = if word == "not recorded" {
            PageContent::None
        } else {
            PageContent::Data
        };
        paint(&mut mesh, mark, c, content);
        ui.painter().add(Shape::mesh(mesh));
        let galley = ui.painter().layout_no_wrap(word.to_owned(), small(), p.quiet);
        let w = galley.size().x;
        let at = pos2(x + 16.0, rect.center().y - galley.size().y / 2.0);
        ui.painter().galley(at, galley, p.quiet);
        x += 16.0 + w + 16.0;
    }
}
