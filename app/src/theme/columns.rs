//! Columns of tables: a header with draggable edges, columns that can be hidden, and the position of each in a row.
//!
//! The cost of a layout depends on the columns, never on the rows. Empty columns are hidden automatically; as a table
//! narrows, columns are hidden in the order that their table gives them. Once the user chooses the columns, the table
//! scrolls sideways instead.

use super::focus;
use super::horizontal_scroll::HorizontalScroll;
use super::widgets::{paint_middle, paint_text, paint_truncated};
use super::{mono, palette, small};
use egui::accesskit::Role;
use egui::{
    Align2, Color32, CursorIcon, FontId, PointerButton, Popup, PopupCloseBehavior, Rect, Response, Sense,
    SetOpenCommand, Stroke, Ui, WidgetInfo, vec2,
};
use kinescope_files::workspace::TableColumns;
use kinescope_session::text;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;

mod layout;

use layout::PlacedColumn;

/// Height of the header, points.
pub const HEAD: f32 = 22.0;
/// Gap between columns, points.
pub const GAP: f32 = 12.0;
/// Margin left of the first column, where rows have their marks, points.
pub const LEFT: f32 = 12.0;
/// Margin right of the last column, where the scroll bar is, points.
const RIGHT: f32 = 12.0;
/// Minimum and maximum width of a column, points.
const LIMITS: std::ops::RangeInclusive<f32> = 16.0..=4000.0;
/// Width of a digit of [`mono`], points.
const DIGIT: f32 = 7.3;
/// Distance from an edge in which it can be grabbed, points.
const GRAB: f32 = 4.0;

/// A column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    id: &'static str,
    title: Cow<'static, str>,
    width: f32,
    stretch: f32,
    max: f32,
    right: bool,
    leaves: u8,
    compact: Option<f32>,
    empty: bool,
    sort: Option<Option<bool>>,
}

impl Column {
    /// Creates a text column of this width, points, that is never hidden. `id` names it in the workspace.
    #[must_use]
    pub fn new(id: &'static str, title: impl Into<Cow<'static, str>>, width: f32) -> Self {
        Self {
            id,
            title: title.into(),
            width,
            stretch: 0.0,
            max: f32::INFINITY,
            right: false,
            leaves: 0,
            compact: None,
            empty: false,
            sort: None,
        }
    }

    /// Makes it a column of numbers, which are aligned right.
    #[must_use]
    pub fn number(mut self) -> Self {
        self.right = true;
        self
    }

    /// Makes room for numbers up to `n`, as [`text::count`] formats them.
    #[must_use]
    pub fn fit_count(mut self, n: u64) -> Self {
        self.width = self.width.max(text::count(n).chars().count() as f32 * DIGIT + 2.0);
        self
    }

    /// Gives it a share of the free room; its width becomes the minimum.
    #[must_use]
    pub fn stretch(mut self, share: f32) -> Self {
        self.stretch = share;
        self
    }

    /// Limits the width to which it stretches.
    #[must_use]
    pub fn max_width(mut self, width: f32) -> Self {
        self.max = width;
        self
    }

    /// Lets it be hidden if there is little room: columns with a high order first.
    #[must_use]
    pub fn hide_order(mut self, order: u8) -> Self {
        self.leaves = order;
        self
    }

    /// Lets it shrink to this width instead of being hidden.
    #[must_use]
    pub fn compact(mut self, width: f32) -> Self {
        self.compact = Some(width);
        self
    }

    /// Hides it automatically if it is empty.
    #[must_use]
    pub fn hide_if_empty(mut self, empty: bool) -> Self {
        self.empty = empty;
        self
    }

    /// Lets a click on its header sort the table. `now`: whether the table is sorted by it, in descending order.
    #[must_use]
    pub fn sortable(mut self, now: Option<bool>) -> Self {
        self.sort = Some(now);
        self
    }
}

/// The user's arrangement of the columns of one table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableState {
    chosen: TableColumns,
    sideways: HorizontalScroll,
}

impl TableState {
    fn is_changed(&self) -> bool {
        self.chosen != TableColumns::default()
    }

    fn show(&mut self, id: &str, on: bool) {
        if on {
            self.chosen.hidden.remove(id);
            self.chosen.shown.insert(id.to_owned());
        } else {
            self.chosen.shown.remove(id);
            self.chosen.hidden.insert(id.to_owned());
        }
    }
}

/// The columns of all tables of a window, by the table's id.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tables(BTreeMap<String, TableState>);

impl Tables {
    /// Returns the state of a table.
    pub fn state(&mut self, table: &str) -> &mut TableState {
        if !self.0.contains_key(table) {
            self.0.insert(table.to_owned(), TableState::default());
        }
        self.0.entry(table.to_owned()).or_default()
    }

    /// Returns whether the user arranged any table.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.0.values().any(TableState::is_changed)
    }

    /// Drops every arrangement.
    pub fn reset(&mut self) {
        self.0.clear();
    }

    /// Creates the tables from a workspace file.
    #[must_use]
    pub fn from_workspace(tables: &BTreeMap<String, TableColumns>) -> Self {
        let state = |chosen: &TableColumns| TableState {
            chosen: chosen.clone(),
            sideways: HorizontalScroll::default(),
        };
        Self(tables.iter().map(|(id, t)| (id.clone(), state(t))).collect())
    }

    /// Returns the tables for a workspace file: those that the user arranged.
    #[must_use]
    pub fn to_workspace(&self) -> BTreeMap<String, TableColumns> {
        let changed = self.0.iter().filter(|(_, t)| t.is_changed());
        changed.map(|(id, t)| (id.clone(), t.chosen.clone())).collect()
    }
}

/// A table in this frame: the positions of its columns.
#[derive(Debug)]
pub struct Table {
    id: &'static str,
    columns: Vec<PlacedColumn>,
    /// Total width, points.
    width: f32,
    offset: f32,
    area: Rect,
    /// Columns that fit their width to what is in view, with the width that they need so far.
    fitting: RefCell<BTreeMap<&'static str, f32>>,
    /// The column whose header was clicked to sort by it.
    pub sorted: Option<&'static str>,
}

impl Table {
    /// Draws the header of a table at the top of the rest of `ui` and handles input.
    pub fn head(ui: &mut Ui, state: &mut TableState, id: &'static str, columns: &[Column]) -> Self {
        let area = ui.available_rect_before_wrap();
        let (head, _) = ui.allocate_exact_size(vec2(area.width(), HEAD), Sense::hover());
        let (placed, width) = layout::place_columns(columns, &state.chosen, area.width());
        let offset = state.sideways.scroll(ui, area, width);
        let mut table = Self {
            id,
            columns: placed,
            width,
            offset,
            area,
            fitting: RefCell::default(),
            sorted: None,
        };
        let p = palette(ui);
        let clip = ui.clip_rect();
        ui.set_clip_rect(clip.intersect(head));
        // Below the headers of columns, which are clickable too.
        let whole = ui.interact(head, ui.scope_id().with((id, "head")), Sense::click());
        whole.widget_info(|| WidgetInfo::labeled(Role::Row, true, format!("Columns of {id}")));
        let near = whole.contains_pointer();
        if whole.has_focus() {
            focus::ring(ui.painter(), head, 2.0, p.read);
        }
        // Enter was pressed, not a button of the pointer.
        let by_key = whole.clicked() && !whole.clicked_by(PointerButton::Primary);
        let whole = table.titles(ui, columns, head, whole);
        let whole = table.edges(ui, state, columns, head, (whole, near));
        ui.set_clip_rect(clip);
        ui.painter()
            .hline(head.x_range(), head.bottom(), Stroke::new(1.0, p.line));
        table.menu(state, columns, &whole, by_key);
        table
    }

    /// Draws the titles. Returns the response of the full header.
    fn titles(&mut self, ui: &Ui, columns: &[Column], head: Rect, mut whole: Response) -> Response {
        let p = palette(ui);
        for placed in &self.columns {
            let Some(c) = columns.iter().find(|c| c.id == placed.id) else {
                continue;
            };
            let cell = placed.rect_in(head, self.offset);
            // A letter and an ellipsis carry no information.
            if cell.width() < 20.0 {
                continue;
            }
            let align = alignment(placed.right_aligned);
            let Some(now) = c.sort else {
                paint_text(ui, cell, align, &c.title, small(), p.quiet);
                continue;
            };
            let r = ui.interact(
                cell.expand2(vec2(2.0, 0.0)),
                ui.scope_id().with((self.id, "sort", c.id)),
                Sense::click(),
            );
            r.widget_info(|| {
                WidgetInfo::selected(Role::ColumnHeader, true, now.is_some(), format!("Sort by {}", c.title))
            });
            let mark = match now {
                None => "",
                Some(true) => " ▾",
                Some(false) => " ▴",
            };
            let bright = now.is_some() || r.hovered() || r.has_focus();
            let ink = if bright { p.text } else { p.quiet };
            paint_text(ui, cell, align, &format!("{}{mark}", c.title), small(), ink);
            let r = r.on_hover_cursor(CursorIcon::PointingHand);
            if r.clicked() {
                self.sorted = Some(c.id);
            }
            whole |= r;
        }
        whole
    }

    /// Draws the edges and handles input. `near`: whether the pointer is over the header. Returns the response of the
    /// full header.
    fn edges(
        &self,
        ui: &Ui,
        state: &mut TableState,
        columns: &[Column],
        head: Rect,
        (mut whole, near): (Response, bool),
    ) -> Response {
        let p = palette(ui);
        for placed in &self.columns {
            let x = head.left() + placed.to - self.offset + GAP / 2.0;
            let edge = Rect::from_x_y_ranges(x - GRAB..=x + GRAB, head.y_range());
            let id = ui.scope_id().with((self.id, "edge", placed.id));
            // For the pointer only: Tab would stop at every edge.
            let r = ui.interact(edge, id, Sense::CLICK | Sense::DRAG);
            let title = columns
                .iter()
                .find(|c| c.id == placed.id)
                .map_or(placed.id, |c| c.title.as_ref());
            r.widget_info(|| WidgetInfo::labeled(Role::Splitter, true, format!("Width of {title}")));
            if r.hovered() || r.dragged() {
                ui.painter().vline(x, head.y_range(), Stroke::new(1.0, p.text));
            } else if near {
                ui.painter()
                    .vline(x, head.top() + 5.0..=head.bottom() - 5.0, Stroke::new(1.0, p.line));
            }
            if r.dragged() {
                let now = placed.to - placed.from + r.drag_delta().x;
                let now = now.clamp(*LIMITS.start(), *LIMITS.end());
                state.chosen.widths.insert(placed.id.to_owned(), now);
            } else if r.double_clicked() {
                let title = title_width(ui, title);
                self.fitting.borrow_mut().insert(placed.id, title);
            }
            whole |= r.on_hover_cursor(CursorIcon::ResizeHorizontal);
        }
        whole
    }

    /// Draws the menu of the header: the choice of columns. `by_key`: the keyboard opens or closes it.
    fn menu(&self, state: &mut TableState, columns: &[Column], whole: &Response, by_key: bool) {
        let id = whole.id.with("asked for by key");
        if by_key || whole.secondary_clicked() {
            whole.ctx.data_mut(|d| d.insert_temp(id, by_key));
        }
        let mut popup = Popup::context_menu(whole);
        if by_key {
            popup = popup.open_memory(SetOpenCommand::Toggle);
            whole.request_focus();
        }
        // There may be no pointer to open it at.
        if whole.ctx.data(|d| d.get_temp(id)).unwrap_or(false) {
            popup = popup.at_position(whole.rect.left_bottom());
        }
        popup
            .close_behavior(PopupCloseBehavior::CloseOnClickOutside)
            .show(|ui| {
                for c in columns {
                    let mut on = self.has(c.id);
                    let last = on && self.columns.len() == 1;
                    if ui
                        .add_enabled(!last, egui::Checkbox::new(&mut on, c.title.as_ref()))
                        .changed()
                    {
                        state.show(c.id, on);
                    }
                }
                ui.separator();
                if ui.button("Fit all columns").clicked() {
                    let mut fitting = self.fitting.borrow_mut();
                    for c in columns.iter().filter(|c| self.has(c.id)) {
                        fitting.insert(c.id, title_width(ui, &c.title));
                    }
                    ui.close();
                }
                if ui
                    .add_enabled(state.is_changed(), egui::Button::new("Reset columns"))
                    .clicked()
                {
                    *state = TableState::default();
                    ui.close();
                }
            });
    }

    /// Returns whether a column is shown.
    #[must_use]
    pub fn has(&self, column: &str) -> bool {
        self.columns.iter().any(|c| c.id == column)
    }

    /// Returns the part of a row that a column takes, or `None` if the column is not shown.
    #[must_use]
    pub fn cell(&self, column: &str, row: Rect) -> Option<Rect> {
        let placed = self.columns.iter().find(|c| c.id == column)?;
        Some(placed.rect_in(row, self.offset))
    }

    /// Returns whether a column shrank to its compact width.
    #[must_use]
    pub fn is_compact(&self, column: &str) -> bool {
        self.columns.iter().any(|c| c.id == column && c.compact)
    }

    /// Returns the visible part of a row from one column to the end of another, or to the end of the first.
    #[must_use]
    pub fn cells(&self, from: &str, to: &str, row: Rect) -> Option<Rect> {
        let first = self.cell(from, row)?;
        Some(self.cell(to, row).map_or(first, |last| first.union(last)))
    }

    /// Paints a text into a column; it ends in `…` if it does not fit. Returns whether it was cut.
    pub fn text(&self, ui: &Ui, column: &str, row: Rect, text: &str, font: FontId, ink: Color32) -> bool {
        let Some(placed) = self.columns.iter().find(|c| c.id == column) else {
            return false;
        };
        self.note(ui, column, text, &font, 0.0);
        let cell = placed.rect_in(row, self.offset);
        paint_truncated(ui, cell, alignment(placed.right_aligned), text, font, ink).1
    }

    /// Paints a text into a column; it is cut in the middle if it does not fit. Returns whether it was cut.
    pub fn text_middle(&self, ui: &Ui, column: &str, row: Rect, text: &str, ink: Color32) -> bool {
        let Some(placed) = self.columns.iter().find(|c| c.id == column) else {
            return false;
        };
        self.note(ui, column, text, &mono(), 0.0);
        let cell = placed.rect_in(row, self.offset);
        paint_middle(ui, cell, alignment(placed.right_aligned), text, mono(), ink)
    }

    /// Records the width of a cell that the panel paints itself: a text and this many points at its side.
    pub fn note(&self, ui: &Ui, column: &str, text: &str, font: &FontId, beside: f32) {
        let mut fitting = self.fitting.borrow_mut();
        let Some(width) = fitting.get_mut(column) else {
            return;
        };
        let galley = ui
            .painter()
            .layout_no_wrap(text.to_owned(), font.clone(), Color32::WHITE);
        *width = width.max(galley.size().x + beside);
    }

    /// Ends the table after its rows: columns that fit themselves get their width, and the horizontal scroll bar is
    /// drawn.
    pub fn finish(self, ui: &Ui, state: &mut TableState) {
        for (id, width) in self.fitting.into_inner() {
            let width = (width + 2.0).ceil().clamp(*LIMITS.start(), *LIMITS.end());
            state.chosen.widths.insert(id.to_owned(), width);
        }
        state.sideways.bar(ui, self.id, self.area, self.width);
    }
}

fn alignment(right: bool) -> Align2 {
    if right {
        Align2::RIGHT_CENTER
    } else {
        Align2::LEFT_CENTER
    }
}

fn title_width(ui: &Ui, title: &str) -> f32 {
    let galley = ui.painter().layout_no_wrap(title.to_owned(), small(), Color32::WHITE);
    // Includes the mark of the sort order.
    galley.size().x + 14.0
}
