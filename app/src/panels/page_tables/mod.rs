//! Page tables: the address map of each address space by rights and content, from all 48 bits down to one page, what
//! stands out in it, and the walk of an address level by level.

mod list;
mod map;
mod walk;

use crate::document::facts::{Content, Run, SpaceFact, Stage};
use crate::document::moment::Selection;
use crate::document::tables::Mark;
use crate::document::{Document, facts};
use crate::theme::rows::Rows;
use crate::theme::widgets;
use crate::theme::{Palette, icons, palette, small, text};
use crate::window::Asks;
use egui::accesskit::Role;
use egui::{Color32, Rect, RichText, Stroke, Ui, WidgetInfo, pos2, vec2};

/// Cells of the map across.
const ACROSS: u64 = 64;
/// Fewest and most rows of cells.
const ROWS: std::ops::RangeInclusive<u64> = 16..=64;
/// Pages of the 48 bits, as a logarithm.
const SPACE_LOG: u32 = 36;

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
    /// Only pages with this mark are listed, and the map steps back behind them.
    pub mark: Option<Mark>,
    /// Rows of cells that fitted last.
    rows: u64,
    list: Rows,
    seen_jump: u64,
    reveal: bool,
}

impl View {
    /// Cells of the map.
    fn cells(&self) -> u64 {
        ACROSS * self.rows.clamp(*ROWS.start(), *ROWS.end())
    }

    /// The cell size at which the map holds all 48 bits.
    fn most(&self) -> u32 {
        let mut cell = 0;
        while self.cells() << cell < 1 << SPACE_LOG {
            cell += 1;
        }
        cell
    }

    /// Shows a mapping in the map, as large as it fits.
    pub fn frame(&mut self, va: u64, pages: u64) {
        let first = va >> 12;
        let (mut cell, most) = (0, self.most());
        while cell < most && self.cells() << cell < pages.saturating_add(first & ((1 << cell) - 1)) {
            cell += 1;
        }
        self.cell = Some(cell);
        self.first_page = first >> cell << cell;
        self.at = Some(va);
    }

    /// Shows all 48 bits.
    fn whole(&mut self) {
        self.cell = Some(self.most());
        self.first_page = 0;
    }

    fn zoom(&mut self, closer: bool, about: u64) {
        let now = self.cell.unwrap_or_else(|| self.most());
        let next = if closer {
            now.saturating_sub(1)
        } else {
            (now + 1).min(self.most())
        };
        if next == now {
            return;
        }
        self.cell = Some(next);
        let offset = about.saturating_sub(self.first_page) >> now;
        self.place(about.saturating_sub(offset << next));
    }

    /// Moves the map by cells.
    fn pan(&mut self, cells: i64) {
        let cell = self.cell.unwrap_or(0);
        let by = cells.unsigned_abs() << cell;
        let first = if cells < 0 {
            self.first_page.saturating_sub(by)
        } else {
            self.first_page.saturating_add(by)
        };
        self.place(first);
    }

    fn place(&mut self, first: u64) {
        let cell = self.cell.unwrap_or(0);
        let most = (1u64 << SPACE_LOG).saturating_sub(self.cells() << cell);
        self.first_page = (first >> cell << cell).min(most >> cell << cell);
    }
}

/// Selects pages everywhere, without moving the map.
fn pick(doc: &mut Document, va: u64, bytes: u64) {
    let space = doc.tables.space;
    doc.tables.at = Some(va);
    doc.select(Selection::Memory { space, va, bytes });
    doc.tables.seen_jump = doc.jumps;
}

/// What is selected elsewhere is shown here.
fn follow(doc: &mut Document) {
    if doc.tables.seen_jump == doc.jumps {
        return;
    }
    doc.tables.seen_jump = doc.jumps;
    let place = match doc.selection() {
        Selection::Memory { va, space, .. } => Some((*space, *va)),
        Selection::Buffer(name) => doc.recording.buffer(name).map(|b| (b.address_space, b.va.0)),
        Selection::Job(j) => doc.facts.jobs.get(*j as usize).map(|j| (doc.tables.space, j.head_va)),
        _ => None,
    };
    let Some((space, va)) = place else { return };
    let mapping = doc
        .facts
        .spaces
        .get(space as usize)
        .and_then(|s| s.mapping_at(va))
        .copied();
    if let Some(m) = mapping
        && (doc.tables.at != Some(va) || doc.tables.space != space)
    {
        doc.tables.space = space;
        doc.tables.frame(m.va, m.pages);
        doc.tables.at = Some(va);
        doc.tables.reveal = true;
    }
}

/// Draws the panel.
pub fn ui(doc: &mut Document, asks: &mut Asks, ui: &mut Ui) {
    let facts = std::sync::Arc::clone(&doc.facts);
    follow(doc);
    let Some(space) = facts.spaces.get(doc.tables.space as usize).or(facts.spaces.first()) else {
        if !facts.knows(Stage::Spaces) {
            widgets::empty(ui, icons::HOURGLASS_SIMPLE_MEDIUM, "Walking the page tables …", None);
            return;
        }
        let told = "This recording holds no page tables: no address space was set up in it.";
        if widgets::empty(ui, icons::TREE_STRUCTURE, told, Some("Show events")) {
            asks.command("show-events");
        }
        return;
    };
    bar(doc, ui, space);
    marks(doc, ui, space);
    let full = ui.available_rect_before_wrap();
    ui.painter()
        .hline(full.x_range(), full.top(), Stroke::new(1.0, palette(ui).line));
    let side = (full.width() * 0.38).clamp(280.0, 420.0).min(full.width() * 0.5);
    let left = Rect::from_min_max(full.min, pos2(full.right() - side, full.bottom()));
    let right = Rect::from_min_max(pos2(left.right(), full.top()), full.max);
    ui.painter()
        .vline(right.left(), right.y_range(), Stroke::new(1.0, palette(ui).line));
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(left));
    child.shrink_clip_rect(left);
    list::ui(doc, &mut child, space);
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(right.shrink2(vec2(12.0, 8.0))));
    child.shrink_clip_rect(right);
    map::ui(doc, &mut child, space);
    walk::ui(doc, asks, &mut child);
    ui.advance_cursor_after_rect(full);
}

fn bar(doc: &mut Document, ui: &mut Ui, space: &SpaceFact) {
    let p = palette(ui);
    ui.horizontal(|ui| {
        ui.set_height(28.0);
        ui.add_space(8.0);
        let facts = std::sync::Arc::clone(&doc.facts);
        if facts.spaces.len() > 1 {
            let before = doc.tables.space;
            egui::ComboBox::from_id_salt("space")
                .selected_text(format!("AS {}", space.number))
                .show_ui(ui, |ui| {
                    for (i, s) in facts.spaces.iter().enumerate() {
                        let name = format!("AS {} · root {:#x}", s.number, s.root);
                        ui.selectable_value(&mut doc.tables.space, i as u32, name);
                    }
                });
            if doc.tables.space != before {
                doc.tables.cell = None;
                doc.tables.at = None;
            }
        } else {
            ui.label(RichText::new(format!("AS {}", space.number)).font(crate::theme::strong()));
        }
        let zero = space.pages_with(Content::Zero);
        let dumped = space.pages_with(Content::Data) + zero;
        let told = format!(
            "{} · root {:#x} · {} in {} · {} recorded, {} of it zero",
            space.format,
            space.root,
            text::bytes(space.pages() * 4096),
            match space.mappings.len() {
                1 => "1 run".to_owned(),
                n => format!("{} runs", text::count(n as u64)),
            },
            text::bytes(dumped * 4096),
            text::bytes(zero * 4096),
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

/// What stands out, with how much of it there is; choosing one lists it.
fn marks(doc: &mut Document, ui: &mut Ui, space: &SpaceFact) {
    let p = palette(ui);
    ui.horizontal(|ui| {
        ui.set_height(24.0);
        ui.add_space(8.0);
        ui.spacing_mut().item_spacing.x = 4.0;
        let all = doc.tables.mark.is_none();
        let r = ui.selectable_label(all, RichText::new("all mappings").font(small()));
        r.widget_info(|| WidgetInfo::selected(Role::RadioButton, true, all, "All mappings"));
        if r.clicked() {
            doc.tables.mark = None;
        }
        for mark in Mark::ALL {
            let pages = space.marks.pages(mark);
            let on = doc.tables.mark == Some(mark);
            let told = match pages {
                0 if mark == Mark::Twice && space.marks.not_compared => format!("{} not looked for", mark.title()),
                0 => format!("{} none", mark.title()),
                n => format!("{}{} {}", sign(mark), mark.title(), text::count(n)),
            };
            let ink = match pages {
                0 => p.quiet,
                _ => mark_colour(p, mark),
            };
            let label = RichText::new(told).font(small()).color(ink);
            let r = ui.add_enabled_ui(pages > 0, |ui| ui.selectable_label(on, label)).inner;
            r.widget_info(|| WidgetInfo::selected(Role::RadioButton, pages > 0, on, format!("Pages {}", mark.title())));
            if r.on_hover_text(mark.reason()).clicked() {
                doc.tables.mark = (!on).then_some(mark);
                doc.tables.list = Rows::default();
            }
        }
        if let Some(e) = &space.problem {
            let told = RichText::new(format!("! {e}")).font(small()).color(p.warning);
            ui.add(egui::Label::new(told).truncate());
        }
    });
}

fn sign(mark: Mark) -> &'static str {
    match mark {
        Mark::Twice => "! ",
        Mark::Open => "▲ ",
        Mark::Missing => "",
    }
}

fn mark_colour(p: &Palette, mark: Mark) -> Color32 {
    match mark {
        Mark::Twice => p.warning,
        Mark::Open => p.error,
        Mark::Missing => p.text,
    }
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

/// What a run of pages holds, in words.
fn holds(doc: &Document, va: u64, end: u64) -> String {
    let uses = doc.facts.uses.within(va, end);
    crate::document::uses::line(&doc.recording, &uses)
}

/// `rw-` with what the pages are.
fn run_words(r: &Run) -> String {
    format!("{} {}", text::count(r.pages), facts::rights_text(r.rights))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_zooms_from_all_of_the_space_to_one_page_and_keeps_what_is_under_the_pointer() {
        for rows in [16, 33, 64] {
            let mut v = View {
                rows,
                ..Default::default()
            };
            let page = 0xf_fffb_005c;
            for _ in 0..40 {
                v.zoom(true, page);
            }
            assert_eq!(v.cell, Some(0));
            assert!((v.first_page..v.first_page + v.cells()).contains(&page));
            for _ in 0..40 {
                v.zoom(false, page);
            }
            assert_eq!((v.cell, v.first_page), (Some(v.most()), 0));
            assert!(v.cells() << v.most() >= 1 << SPACE_LOG);
            v.frame(0xffff_b000_f000, 1000);
            assert_eq!((v.cell, v.first_page), (Some(0), 0xf_fffb_000f));
            v.pan(-16);
            assert_eq!(v.first_page, 0xf_fffa_ffff);
            v.pan(i64::MIN);
            assert_eq!(v.first_page, 0);
        }
    }
}
