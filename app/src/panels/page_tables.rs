//! Page tables: the address map of each address space by rights and content, from all 48 bits down to one page, and
//! the walk of an address level by level.

use crate::document::facts::{Content, Run, SpaceFact, rights_text};
use crate::document::moment::Selection;
use crate::document::{Document, derive, facts};
use crate::theme::rows::Rows;
use crate::theme::widgets::{self, paint_text};
use crate::theme::{Palette, body, icons, mono, palette, small, text};
use crate::window::Asks;
use egui::accesskit::Role;
use egui::{Align2, Color32, Mesh, Rect, RichText, Sense, Shape, Stroke, StrokeKind, Ui, WidgetInfo, pos2, vec2};
use trace_core::mmu::EntryKind;

/// Cells of the map along each side.
const CELLS: u64 = 64;
/// Largest cell: 2^24 pages, so that the map holds all 48 bits.
const MOST_LOG: u32 = 24;

/// What colours mean in the map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColourBy {
    /// Read, write, execute.
    #[default]
    Rights,
    /// What the recording holds.
    Content,
}

/// What the panel shows.
#[derive(Clone, Default)]
pub struct View {
    /// Index of the address space.
    pub space: u32,
    /// Base-2 logarithm of a cell's pages.
    pub cell: Option<u32>,
    /// First page of the map.
    pub first_page: u64,
    /// What colours mean.
    pub colour_by: ColourBy,
    /// Address whose walk is shown.
    pub at: Option<u64>,
    list: Rows,
    seen_jump: u64,
}

impl View {
    /// Shows a mapping in the map, as large as it fits.
    pub fn frame(&mut self, va: u64, pages: u64) {
        let first = va >> 12;
        let mut cell = 0;
        while cell < MOST_LOG && (CELLS * CELLS) << cell < pages + (first & ((1 << cell) - 1)) {
            cell += 1;
        }
        self.cell = Some(cell);
        self.first_page = first >> cell << cell;
        self.at = Some(va);
    }

    fn zoom(&mut self, closer: bool, about: u64) {
        let now = self.cell.unwrap_or(MOST_LOG);
        let next = if closer {
            now.saturating_sub(1)
        } else {
            (now + 1).min(MOST_LOG)
        };
        if next == now {
            return;
        }
        self.cell = Some(next);
        let offset = about.saturating_sub(self.first_page) >> now;
        let first = about.saturating_sub(offset << next);
        let most = (1u64 << 36).saturating_sub((CELLS * CELLS) << next);
        self.first_page = (first >> next << next).min(most);
    }
}

/// Draws the panel.
pub fn ui(doc: &mut Document, asks: &mut Asks, ui: &mut Ui) {
    let facts = std::sync::Arc::clone(&doc.facts);
    let Some(space) = facts.spaces.get(doc.tables.space as usize).or(facts.spaces.first()) else {
        widgets::empty(ui, icons::TREE_STRUCTURE, "This recording holds no page tables.", None);
        return;
    };
    if doc.tables.seen_jump != doc.jumps {
        doc.tables.seen_jump = doc.jumps;
        if let Selection::Memory { va, space: s, .. } = *doc.selection()
            && let Some(m) = facts.spaces.get(s as usize).and_then(|x| x.mapping_at(va))
        {
            doc.tables.space = s;
            if doc.tables.at != Some(va) {
                doc.tables.frame(m.va, m.pages);
                doc.tables.at = Some(va);
            }
        }
    }
    bar(doc, ui, space);
    let full = ui.available_rect_before_wrap();
    let side = (full.width() * 0.38).clamp(270.0, 400.0);
    let left = Rect::from_min_max(full.min, pos2(full.right() - side, full.bottom()));
    let right = Rect::from_min_max(pos2(left.right(), full.top()), full.max);
    ui.painter()
        .vline(right.left(), right.y_range(), Stroke::new(1.0, palette(ui).line));
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(left));
    mappings(doc, &mut child, space);
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(right.shrink2(vec2(12.0, 8.0))));
    child.shrink_clip_rect(right);
    map(doc, &mut child, space);
    walk(doc, asks, &mut child);
    ui.advance_cursor_after_rect(full);
}

fn bar(doc: &mut Document, ui: &mut Ui, space: &SpaceFact) {
    let p = palette(ui);
    ui.horizontal(|ui| {
        ui.set_height(28.0);
        ui.add_space(8.0);
        let facts = std::sync::Arc::clone(&doc.facts);
        if facts.spaces.len() > 1 {
            egui::ComboBox::from_id_salt("space")
                .selected_text(format!("AS {}", space.number))
                .show_ui(ui, |ui| {
                    for (i, s) in facts.spaces.iter().enumerate() {
                        ui.selectable_value(&mut doc.tables.space, i as u32, format!("AS {}", s.number));
                    }
                });
        } else {
            ui.label(RichText::new(format!("AS {}", space.number)).font(crate::theme::strong()));
        }
        let dumped = space.pages_with(Content::Data) + space.pages_with(Content::Zero);
        let told = format!(
            "{} · root {:#x} · {} in {} runs · {} recorded, {} of it zero",
            space.format,
            space.root,
            text::bytes(space.pages() * 4096),
            space.mappings.len(),
            text::bytes(dumped * 4096),
            text::bytes(space.pages_with(Content::Zero) * 4096),
        );
        ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
            ui.add_space(8.0);
            for (by, word) in [(ColourBy::Content, "content"), (ColourBy::Rights, "rights")] {
                let on = doc.tables.colour_by == by;
                let r = ui.selectable_label(on, word);
                r.widget_info(|| WidgetInfo::selected(Role::RadioButton, true, on, format!("Colour by {word}")));
                if r.clicked() {
                    doc.tables.colour_by = by;
                }
            }
            ui.label(RichText::new("colour by").color(p.quiet));
            let rest = ui.available_width();
            ui.add_sized(
                vec2(rest, 20.0),
                egui::Label::new(RichText::new(told).color(p.quiet))
                    .truncate()
                    .halign(egui::Align::LEFT),
            );
        });
    });
}

fn colour(p: &Palette, by: ColourBy, r: &Run) -> Color32 {
    match by {
        ColourBy::Rights => {
            let base = match r.rights {
                x if x & 4 != 0 && x & 2 != 0 => p.error,
                x if x & 4 != 0 => p.interrupt,
                x if x & 2 != 0 => p.write,
                _ => p.read,
            };
            match r.content {
                Content::Data => base,
                Content::Zero => mix(base, p.poll, 0.7),
                Content::None => mix(base, p.panel, 0.72),
            }
        }
        ColourBy::Content => match r.content {
            Content::Data => p.job,
            Content::Zero => p.poll,
            Content::None => mix(p.poll, p.panel, 0.7),
        },
    }
}

fn mix(a: Color32, b: Color32, part: f32) -> Color32 {
    let m = |x: u8, y: u8| (f32::from(x) * (1.0 - part) + f32::from(y) * part) as u8;
    Color32::from_rgb(m(a.r(), b.r()), m(a.g(), b.g()), m(a.b(), b.b()))
}

/// Pixels of a span: one a page up to 220, then compressed.
fn span_pixels(pages: u64, most: f32) -> f32 {
    let linear = 220.0_f32.min(most * 0.6);
    if pages as f32 <= linear {
        return (pages as f32).max(2.0);
    }
    let over = (pages as f32 / linear).log2() / 10.0;
    linear + (most - linear) * over.min(1.0)
}

fn mappings(doc: &mut Document, ui: &mut Ui, space: &SpaceFact) {
    let p = palette(ui);
    let full = ui.available_rect_before_wrap();
    let (head, _) = ui.allocate_exact_size(vec2(full.width(), 22.0), Sense::hover());
    let names_x = (full.width() - 100.0).max(330.0);
    let columns = [("start", 12.0, false), ("pages", 176.0, true), ("rights", 188.0, false)];
    for (name, x, right) in columns {
        let align = if right {
            Align2::RIGHT_CENTER
        } else {
            Align2::LEFT_CENTER
        };
        ui.painter()
            .text(pos2(full.left() + x, head.center().y), align, name, small(), p.quiet);
    }
    let span_x = 236.0;
    let hint = Rect::from_min_max(
        pos2(full.left() + span_x, head.top()),
        pos2(full.left() + names_x - 8.0, head.bottom()),
    );
    paint_text(
        ui,
        hint,
        Align2::LEFT_CENTER,
        "span, compressed beyond 220 pages",
        small(),
        p.quiet,
    );
    ui.painter().text(
        pos2(full.left() + names_x, head.center().y),
        Align2::LEFT_CENTER,
        "holds",
        small(),
        p.quiet,
    );
    ui.painter()
        .hline(head.x_range(), head.bottom(), Stroke::new(1.0, p.line));
    let legend = 28.0;
    let list_rect = Rect::from_min_max(ui.cursor().min, pos2(full.right(), full.bottom() - legend));
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(list_rect));
    let mut list = doc.tables.list;
    let mut pick = None;
    let at = doc.tables.at;
    list.show(&mut child, "Mappings", space.mappings.len() as u64, |ui, row, rect| {
        let Some(m) = space.mappings.get(row as usize) else {
            return;
        };
        let r = ui.interact(rect, ui.scope_id().with(("mapping", m.va)), Sense::click());
        let selected = at.is_some_and(|v| m.va <= v && v < m.end());
        r.widget_info(|| WidgetInfo::selected(Role::Row, true, selected, format!("mapping {:#x}", m.va)));
        if selected {
            ui.painter().rect_filled(rect, 0.0, p.selection);
        } else if r.hovered() {
            ui.painter().rect_filled(rect, 0.0, p.raised);
        }
        let y = rect.center().y;
        let x = rect.left();
        ui.painter().text(
            pos2(x + 12.0, y),
            Align2::LEFT_CENTER,
            format!("{:#x}", m.va),
            mono(),
            p.text,
        );
        ui.painter().text(
            pos2(x + 176.0, y),
            Align2::RIGHT_CENTER,
            text::count(m.pages),
            mono(),
            p.quiet,
        );
        let ink = colour(
            p,
            ColourBy::Rights,
            &Run {
                content: Content::Data,
                ..*m
            },
        );
        ui.painter().text(
            pos2(x + 188.0, y),
            Align2::LEFT_CENTER,
            rights_text(m.rights),
            mono(),
            ink,
        );
        let most = (names_x - span_x - 16.0).max(30.0);
        let wide = span_pixels(m.pages, most);
        let bar = Rect::from_min_size(pos2(x + span_x, y - 5.0), vec2(wide, 10.0));
        spans(doc, ui, space, m, bar);
        if m.pages as f32 > 220.0_f32.min(most * 0.6) {
            let cut = bar.left() + wide * 0.85;
            ui.painter().line_segment(
                [pos2(cut - 2.0, bar.bottom() + 1.0), pos2(cut + 3.0, bar.top() - 1.0)],
                Stroke::new(3.0, p.panel),
            );
        }
        let names = Rect::from_min_max(pos2(x + names_x, rect.top()), pos2(rect.right() - 4.0, rect.bottom()));
        paint_text(ui, names, Align2::LEFT_CENTER, &holds(doc, m), body(), p.quiet);
        if r.clicked() {
            pick = Some(*m);
        }
    });
    doc.tables.list = list;
    if let Some(m) = pick {
        doc.tables.frame(m.va, m.pages);
        let space = doc.tables.space;
        doc.select(Selection::Memory {
            space,
            va: m.va,
            bytes: 1,
        });
        doc.tables.seen_jump = doc.jumps;
    }
    legend_row(
        doc,
        ui,
        Rect::from_min_max(pos2(full.left(), full.bottom() - legend), full.max),
    );
}

fn holds(doc: &Document, m: &Run) -> String {
    let names: Vec<&str> = doc
        .recording
        .facts
        .buffers
        .iter()
        .filter(|b| b.va.0 < m.end() && b.va.0.saturating_add(b.bytes) > m.va)
        .map(|b| b.name.as_str())
        .take(4)
        .collect();
    if !names.is_empty() {
        return names.join(", ");
    }
    let headers = doc.facts.headers_in(m.va..m.end()).len();
    if headers > 0 {
        return format!("{headers} job headers");
    }
    if doc.facts.shader_in(m.va..m.end()) {
        return "shader code".into();
    }
    String::new()
}

fn spans(doc: &Document, ui: &Ui, space: &SpaceFact, m: &Run, bar: Rect) {
    let p = palette(ui);
    let from = space.runs.partition_point(|r| r.end() <= m.va);
    let to = space.runs.partition_point(|r| r.va < m.end());
    let list = &space.runs[from.min(to)..to];
    let x = |va: u64| bar.left() + bar.width() * ((va - m.va) as f64 / (m.pages * 4096) as f64) as f32;
    let mut mesh = Mesh::default();
    let mut draw = |want: Content, least: f32| {
        let mut last = f32::MIN;
        for r in list.iter().filter(|r| r.content == want) {
            let x0 = x(r.va.max(m.va));
            let x1 = x(r.end().min(m.end())).max(x0 + least);
            if x1 - last >= 0.5 {
                mesh.add_colored_rect(
                    Rect::from_min_max(pos2(x0, bar.top()), pos2(x1, bar.bottom())),
                    colour(p, doc.tables.colour_by, r),
                );
                last = x1;
            }
        }
    };
    // What there is most of first, so that a single page with data is not painted over.
    draw(Content::None, 0.0);
    draw(Content::Zero, 1.0);
    draw(Content::Data, 2.0);
    ui.painter().add(Shape::mesh(mesh));
}

fn legend_row(doc: &Document, ui: &Ui, rect: Rect) {
    let p = palette(ui);
    ui.painter().hline(rect.x_range(), rect.top(), Stroke::new(1.0, p.line));
    let run = |rights, content| Run {
        va: 0,
        pages: 1,
        rights,
        content,
    };
    let by = doc.tables.colour_by;
    let items: Vec<(&str, Color32)> = match by {
        ColourBy::Rights => vec![
            ("rw-", colour(p, by, &run(3, Content::Data))),
            ("r--", colour(p, by, &run(1, Content::Data))),
            ("r-x", colour(p, by, &run(5, Content::Data))),
            ("all zero", colour(p, by, &run(3, Content::Zero))),
            ("no content", colour(p, by, &run(3, Content::None))),
        ],
        ColourBy::Content => vec![
            ("data", colour(p, by, &run(3, Content::Data))),
            ("all zero", colour(p, by, &run(3, Content::Zero))),
            ("no content", colour(p, by, &run(3, Content::None))),
        ],
    };
    let mut x = rect.left() + 12.0;
    for (word, c) in items {
        let mark = Rect::from_center_size(pos2(x + 5.0, rect.center().y), vec2(10.0, 10.0));
        ui.painter().rect_filled(mark, 1.0, c);
        let galley = ui.painter().layout_no_wrap(word.to_owned(), small(), p.quiet);
        let w = galley.size().x;
        ui.painter()
            .galley(pos2(x + 16.0, rect.center().y - galley.size().y / 2.0), galley, p.quiet);
        x += 16.0 + w + 18.0;
    }
}

/// The content that wins where several kinds share a cell.
fn cell_run(space: &SpaceFact, va: u64, end: u64) -> Option<Run> {
    let from = space.runs.partition_point(|r| r.end() <= va);
    let mut best: Option<Run> = None;
    for r in space.runs[from..].iter().take_while(|r| r.va < end).take(64) {
        let rank = |c: Content| match c {
            Content::None => 0,
            Content::Zero => 1,
            Content::Data => 2,
        };
        if best.is_none_or(|b| rank(r.content) > rank(b.content)) {
            best = Some(*r);
        }
    }
    best
}

fn map(doc: &mut Document, ui: &mut Ui, space: &SpaceFact) {
    let p = palette(ui);
    if doc.tables.cell.is_none() {
        let m = space
            .mappings
            .iter()
            .find(|m| holds(doc, m).contains("input"))
            .or(space.mappings.first());
        if let Some(m) = m.copied() {
            doc.tables.frame(m.va, m.pages);
        }
    }
    let cell = doc.tables.cell.unwrap_or(MOST_LOG);
    let per_cell = 1u64 << cell;
    let title = match doc.tables.at.and_then(|v| space.mapping_at(v)) {
        Some(m) if cell < MOST_LOG => format!("{:#x}  {} pages  {}", m.va, text::count(m.pages), rights_text(m.rights)),
        _ => format!("{:#x}", doc.tables.first_page << 12),
    };
    ui.horizontal(|ui| {
        ui.add(egui::Label::new(RichText::new(title).font(mono())).truncate());
    });
    ui.horizontal(|ui| {
        let told = format!("a cell is {}", text::bytes(per_cell * 4096));
        ui.label(RichText::new(told).font(small()).color(p.quiet));
        ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
            let about = doc.tables.at.unwrap_or(0) >> 12;
            if widgets::icon_button(ui, icons::PLUS, "Zoom map in").clicked() {
                doc.tables.zoom(true, about);
            }
            if widgets::icon_button(ui, icons::MINUS, "Zoom map out").clicked() {
                doc.tables.zoom(false, about);
            }
        });
    });
    let room = (ui.available_height() - 152.0).max(96.0);
    let side = ui.available_width().min(room).min(320.0);
    let px = (side / CELLS as f32).max(1.5);
    let (rect, response) = ui.allocate_exact_size(vec2(px * CELLS as f32, px * CELLS as f32), Sense::click());
    response.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, "Address map"));
    ui.painter().rect_filled(rect, 0.0, p.background);
    let mut mesh = Mesh::default();
    let gap = if px >= 4.0 { 1.0 } else { 0.0 };
    for i in 0..CELLS * CELLS {
        let va = (doc.tables.first_page + i * per_cell) << 12;
        let end = va.saturating_add(per_cell << 12);
        if let Some(run) = cell_run(space, va, end) {
            let at = pos2(
                rect.left() + (i % CELLS) as f32 * px,
                rect.top() + (i / CELLS) as f32 * px,
            );
            mesh.add_colored_rect(
                Rect::from_min_size(at, vec2(px - gap, px - gap)),
                colour(p, doc.tables.colour_by, &run),
            );
        }
    }
    ui.painter().add(Shape::mesh(mesh));
    let place = |va: u64| {
        let i = (va >> 12).checked_sub(doc.tables.first_page)? >> cell;
        (i < CELLS * CELLS).then(|| {
            let at = pos2(
                rect.left() + (i % CELLS) as f32 * px,
                rect.top() + (i / CELLS) as f32 * px,
            );
            Rect::from_min_size(at, vec2(px, px)).expand(1.0)
        })
    };
    if let Some(r) = doc.tables.at.and_then(place) {
        ui.painter()
            .rect_stroke(r, 0.0, Stroke::new(1.5, p.text), StrokeKind::Outside);
    }
    let under = response.hover_pos().map(|q| {
        let (cx, cy) = (((q.x - rect.left()) / px) as u64, ((q.y - rect.top()) / px) as u64);
        doc.tables.first_page + (cy.min(CELLS - 1) * CELLS + cx.min(CELLS - 1)) * per_cell
    });
    if let Some(page) = under {
        let scroll = ui.input(|i| i.smooth_scroll_delta().y);
        let id = ui.scope_id().with("map scroll");
        let sum = ui.data(|d| d.get_temp::<f32>(id)).unwrap_or(0.0) + scroll;
        let steps = (sum / 40.0).trunc();
        ui.data_mut(|d| d.insert_temp(id, sum - steps * 40.0));
        for _ in 0..(steps.abs() as u32).min(4) {
            doc.tables.zoom(steps > 0.0, page);
        }
        let hover = doc.tables.at.replace(page << 12);
        let text = walk_text(doc, page << 12);
        doc.tables.at = hover;
        if response.clicked() {
            doc.tables.at = Some(page << 12);
            let space = doc.tables.space;
            doc.select(Selection::Memory {
                space,
                va: page << 12,
                bytes: 4096,
            });
            doc.tables.seen_jump = doc.jumps;
        }
        response.on_hover_text_at_pointer(RichText::new(text).font(mono()));
    }
}

fn entry_words(kind: EntryKind) -> (&'static str, String) {
    match kind {
        EntryKind::Invalid => ("invalid", String::new()),
        EntryKind::Table(a) => ("table", format!("→ {a}")),
        EntryKind::Page(a) => ("page", format!("→ {a}")),
        EntryKind::Block(a) => ("block", format!("→ {a}")),
        EntryKind::Reserved => ("reserved", String::new()),
    }
}

fn walk_text(doc: &Document, va: u64) -> String {
    let mut out = format!("{va:#x}");
    if let Some(w) = derive::walk(&doc.recording, doc.tables.space, va, doc.moment()) {
        for s in &w.steps {
            let (word, to) = entry_words(s.kind);
            out += &format!("\nL{} [{:>3}] {} {word} {to}", s.level, s.index, s.entry_at);
        }
        if let Err(e) = w.result {
            out += &format!("\n{e}");
        }
    }
    out
}

fn walk(doc: &mut Document, asks: &mut Asks, ui: &mut Ui) {
    let p = palette(ui);
    let Some(va) = doc.tables.at else { return };
    ui.add_space(6.0);
    ui.label(RichText::new(format!("walk of {va:#x}")).font(crate::theme::strong()));
    let Some(w) = derive::walk(&doc.recording, doc.tables.space, va, doc.moment()) else {
        return;
    };
    ui.spacing_mut().item_spacing.y = 0.0;
    for s in &w.steps {
        let (rect, r) = ui.allocate_exact_size(vec2(ui.available_width(), crate::theme::ROW), Sense::hover());
        let (word, to) = entry_words(s.kind);
        r.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("level {} {word}", s.level)));
        let c = match s.kind {
            EntryKind::Table(_) => p.job,
            EntryKind::Page(_) | EntryKind::Block(_) => p.write,
            _ => p.error,
        };
        ui.painter().rect_filled(
            Rect::from_min_size(rect.left_top() + vec2(0.0, 3.0), vec2(3.0, 14.0)),
            0.0,
            c,
        );
        let y = rect.center().y;
        let head = format!("L{} [{:>3}]", s.level, s.index);
        ui.painter()
            .text(pos2(rect.left() + 9.0, y), Align2::LEFT_CENTER, head, mono(), p.quiet);
        let tail = Rect::from_min_max(pos2(rect.left() + 82.0, rect.top()), rect.max);
        let _ = r.on_hover_text(format!("the entry stands at {} and is {:#018x}", s.entry_at, s.raw));
        paint_text(ui, tail, Align2::LEFT_CENTER, &format!("{word} {to}"), mono(), c);
    }
    match &w.result {
        Ok(leaf) => {
            let yes = |on: bool, word: &str| if on { word.to_owned() } else { format!("not {word}") };
            let told = format!(
                "{} · {} · {} · attribute index {}",
                yes(leaf.rights.read, "readable"),
                yes(leaf.rights.write, "writable"),
                yes(leaf.rights.execute, "executable"),
                leaf.attr_index
            );
            ui.add(egui::Label::new(RichText::new(told).font(small()).color(p.quiet)).truncate());
        }
        Err(e) => {
            ui.add(egui::Label::new(RichText::new(format!("▲ {e}")).font(small()).color(p.error)).wrap());
        }
    }
    let space = doc.tables.space;
    if let Some((name, at)) = facts::buffer_at(&doc.recording, space, va) {
        ui.label(RichText::new(format!("{name} + {at:#x}")).font(small()));
    }
    if widgets::link(ui, "Go to memory", "go to memory").clicked() {
        doc.show_memory(space, va, 16);
        doc.memory.top = va & !15;
        asks.command("show-memory");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_zooms_from_all_of_the_space_to_one_page_and_keeps_what_is_under_the_pointer() {
        let mut v = View::default();
        let page = 0xf_fffb_005c;
        for _ in 0..40 {
            v.zoom(true, page);
        }
        assert_eq!(v.cell, Some(0));
        assert!((v.first_page..v.first_page + CELLS * CELLS).contains(&page));
        for _ in 0..40 {
            v.zoom(false, page);
        }
        assert_eq!((v.cell, v.first_page), (Some(MOST_LOG), 0));
        v.frame(0xffff_b000_f000, 1522);
        assert_eq!((v.cell, v.first_page), (Some(0), 0xf_fffb_000f));
    }
}
