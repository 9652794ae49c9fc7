//! A listing of code: numbered lines that scroll both ways, a search of its lines, a menu of its functions.

use crate::theme::horizontal_scroll::HorizontalScroll;
use crate::theme::rows::Rows;
use crate::theme::widgets::{self, paint_text};
use crate::theme::{ROW, body, focus, mono, mono_small, palette, small};
use egui::accesskit::Role;
use egui::{
    Align2, Color32, ComboBox, FontId, Id, Key, Modifiers, Rect, Response, RichText, Ui, WidgetInfo, pos2, vec2,
};
use kinescope_session::text;
use std::sync::Arc;

/// Maximum number of characters of a function's name in the menu.
const MAX_NAME: usize = 64;
/// Gap between a line's number and what follows it, points.
const NUMBER_GAP: f32 = 10.0;
/// Room right of the longest line, points.
const RIGHT: f32 = 16.0;

/// Scroll position of a listing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listing {
    /// The rows.
    pub rows: Rows,
    sideways: HorizontalScroll,
    /// Width of the longest line that was in view, points.
    widest: f32,
}

impl Listing {
    /// Scrolls to the left edge.
    pub fn scroll_to_left(&mut self) {
        self.sideways = HorizontalScroll::default();
    }

    /// Shows lines `0..count` in the rest of `ui`. `margin` is the width of what stands left of the code and does not
    /// scroll sideways.
    pub fn show(
        &mut self,
        ui: &mut Ui,
        (name, count): (&str, u64),
        margin: f32,
        mut line: impl FnMut(&mut Ui, &mut LinePainter, u64, Rect),
    ) {
        let area = ui.available_rect_before_wrap();
        let width = self.widest + margin + RIGHT;
        let mut painter = LinePainter {
            offset: self.sideways.scroll(ui, area, width),
            margin,
            clip: area.with_min_x(area.left() + margin),
            widest: self.widest,
        };
        self.rows
            .show(ui, name, count, |ui, row, rect| line(ui, &mut painter, row, rect));
        self.widest = painter.widest;
        self.sideways.bar(ui, name, area, width);
    }
}

/// Paints the lines of a listing.
#[derive(Debug)]
pub struct LinePainter {
    offset: f32,
    margin: f32,
    clip: Rect,
    widest: f32,
}

impl LinePainter {
    /// Makes a line react to clicks and paints its background. `label` is its accessible name.
    pub fn row(&self, ui: &Ui, rect: Rect, id: Id, (label, selected): (String, bool)) -> Response {
        let r = focus::row_response(ui, rect, id);
        r.widget_info(|| WidgetInfo::labeled(Role::Row, true, label.clone()));
        if selected {
            widgets::select(ui, rect);
        } else if r.hovered() {
            ui.painter().rect_filled(rect, 0.0, palette(ui).raised);
        }
        r
    }

    /// Paints the number of a line at the left, in a column of this width.
    pub fn number(&self, ui: &Ui, rect: Rect, width: f32, number: &str) {
        let cell = Rect::from_min_max(rect.min, pos2(rect.left() + width - NUMBER_GAP, rect.bottom()));
        let ink = palette(ui).quiet;
        paint_text(ui, cell, Align2::RIGHT_CENTER, number, mono_small(), ink);
    }

    /// Paints the mark of a line that a search found.
    pub fn hit(&self, ui: &Ui, rect: Rect) {
        let mark = Rect::from_min_size(pos2(rect.left() + 5.0, rect.center().y - 3.0), vec2(4.0, 6.0));
        ui.painter().rect_filled(mark, 1.0, palette(ui).text);
    }

    /// Paints the code of a line, which scrolls sideways.
    pub fn code(&mut self, ui: &Ui, rect: Rect, code: String, font: FontId, ink: Color32) {
        let galley = ui.painter().layout_no_wrap(code, font, ink);
        self.widest = self.widest.max(galley.size().x);
        let left = rect.left() + self.margin - self.offset;
        let at = pos2(left, rect.center().y - galley.size().y / 2.0);
        let inside = ui.painter().with_clip_rect(self.clip.intersect(ui.clip_rect()));
        inside.galley(at, galley, ink);
    }
}

/// A search of the lines of a listing.
#[derive(Clone, Debug, Default)]
pub struct LineSearch {
    /// Text that the user types.
    pub text: String,
    /// Whether the search runs in the background.
    pub is_running: bool,
    /// The text that was searched, in lower case.
    wanted: String,
    /// The lines that contain it.
    hits: Arc<Vec<u32>>,
}

/// The field of a search.
#[derive(Clone, Copy, Debug)]
pub struct SearchField<'a> {
    /// Id of the widget.
    pub id: &'a str,
    /// Hint in the empty field.
    pub hint: &'a str,
    /// Accessible name.
    pub label: &'a str,
    /// Width, points.
    pub width: f32,
}

/// What the user did in the field of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchInput {
    /// Typed a text that was not searched yet, in lower case.
    Search(String),
    /// Goes to a line.
    Go(u32),
}

impl LineSearch {
    /// Draws the field and the number of lines that were found. `here` is the current line: Enter goes to the next line
    /// after it, Shift-Enter to the previous one.
    pub fn field(&mut self, ui: &mut Ui, field: SearchField<'_>, here: u32) -> Option<SearchInput> {
        let p = palette(ui);
        let edit = egui::TextEdit::singleline(&mut self.text)
            .id(Id::unique(field.id))
            .font(mono())
            .desired_width(field.width)
            .hint_text(RichText::new(field.hint).font(body()).color(p.quiet));
        let r = ui.add(edit).accessible_name(field.label);
        let wanted = self.text.trim().to_lowercase();
        if self.wanted != wanted {
            self.wanted.clone_from(&wanted);
            self.hits = Arc::default();
            return Some(SearchInput::Search(wanted));
        }
        let mut go = None;
        if r.lost_focus() && ui.input(|i| i.key_pressed(Key::Enter)) {
            let back = ui.input(|i| i.modifiers.matches_exact(Modifiers::SHIFT));
            go = self.next_hit(here, back).map(SearchInput::Go);
            r.request_focus();
        }
        if !wanted.is_empty() {
            let found = match self.hits.len() {
                _ if self.is_running => RichText::new("searching…").color(p.quiet),
                0 => RichText::new("not found").color(p.warning),
                n => RichText::new(format!("{} found", text::count(n as u64))).color(p.quiet),
            };
            ui.label(found.font(small()));
        }
        go
    }

    fn next_hit(&self, here: u32, back: bool) -> Option<u32> {
        let lines = &self.hits;
        let next = match back {
            false => lines.iter().find(|l| **l > here).or(lines.first()),
            true => lines.iter().rev().find(|l| **l < here).or(lines.last()),
        };
        next.copied()
    }

    /// Takes the lines that a search for a text found, unless another text is wanted now. Returns the first one from
    /// line `from` on, or the first of all.
    pub fn set_hits(&mut self, wanted: &str, lines: Vec<u32>, from: u32) -> Option<u32> {
        if self.wanted != wanted {
            return None;
        }
        let first = lines.iter().find(|l| **l >= from).or(lines.first()).copied();
        self.is_running = false;
        self.hits = Arc::new(lines);
        first
    }

    /// Forgets what was found: the lines are others now.
    pub fn clear_hits(&mut self) {
        self.wanted.clear();
        self.hits = Arc::default();
    }

    /// Returns whether a line was found.
    #[must_use]
    pub fn is_hit(&self, line: u32) -> bool {
        self.hits.binary_search(&line).is_ok()
    }
}

/// The menu of a listing's functions.
#[derive(Clone, Copy, Debug)]
pub struct FunctionMenu<'a> {
    /// Id of the widget.
    pub id: &'a str,
    /// Accessible name.
    pub label: &'a str,
    /// Name of the current function.
    pub name: &'a str,
    /// Tooltip.
    pub hover: &'a str,
    /// Width, points.
    pub width: f32,
}

impl FunctionMenu<'_> {
    /// Draws the menu of `count` functions. Returns the one that the user chose.
    pub fn show(
        &self,
        ui: &mut Ui,
        (current, count): (Option<usize>, usize),
        name_of: impl Fn(usize) -> String,
    ) -> Option<usize> {
        let mut chosen = None;
        let shown = widgets::truncate_middle(ui, self.width - 34.0, self.name, &mono());
        let combo = ComboBox::from_id_salt(self.id)
            .selected_text(RichText::new(shown).font(mono()))
            .width(self.width)
            .height(360.0)
            .show_ui(ui, |ui| {
                let area = egui::ScrollArea::vertical().max_height(320.0);
                area.show_rows(ui, ROW, count, |ui, rows| {
                    for function in rows {
                        let name = text::truncate_middle(&name_of(function), MAX_NAME);
                        let label = RichText::new(name).font(mono());
                        if ui.selectable_label(current == Some(function), label).clicked() {
                            chosen = Some(function);
                            ui.close();
                        }
                    }
                });
            });
        let r = combo.response;
        r.widget_info(|| WidgetInfo::labeled(Role::ComboBox, true, self.label));
        r.on_hover_text(self.hover);
        chosen
    }
}
