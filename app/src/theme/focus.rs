//! Keyboard focus: panes that a key cycles through, lists that are one stop for Tab, and the focus ring.

use super::palette;
use egui::accesskit::Role;
use egui::{
    Context, EventFilter, Id, Key, LayerId, Modifiers, Order, Painter, Rect, Response, Sense, Stroke, Ui, WidgetInfo,
};

/// Gap between a pane's content and its ring, points.
const RING_MARGIN: f32 = 8.0;
/// Width of the ring, points.
const RING: f32 = 1.5;

/// The panes of the window in drawing order.
#[derive(Clone, Debug, Default)]
struct Panes {
    /// Number of the pass of the panes.
    pass: u64,
    /// The panes of this pass and of the one before.
    drawn: Vec<(&'static str, Rect)>,
    before: Vec<(&'static str, Rect)>,
    /// The pane that gets the keyboard when it is next drawn.
    wanted: Option<&'static str>,
    /// The pane that has the keyboard as a whole.
    now: Option<&'static str>,
    /// The pane that is being drawn.
    drawing: Option<&'static str>,
    /// The pane whose first list takes the keyboard, because an arrow was pressed in the pane.
    entered: Option<&'static str>,
}

fn panes_id() -> Id {
    Id::unique("panes of the window")
}

fn marker(pane: &'static str) -> Id {
    Id::unique(("pane", pane))
}

/// Registers a pane before its content is drawn, so that [`next_pane`] finds it and Tab goes from it to its content.
pub fn pane(ui: &mut Ui, name: &'static str, title: &str) {
    // The ring is outside of the text.
    let rect = ui.max_rect().expand(RING_MARGIN).intersect(ui.clip_rect());
    let pass = ui.ctx().cumulative_pass_nr();
    let (takes, holds) = ui.data_mut(|d| {
        let all = d.get_temp_mut_or_default::<Panes>(panes_id());
        if all.pass != pass {
            all.before = std::mem::take(&mut all.drawn);
            all.pass = pass;
            all.entered = None;
        }
        all.drawing = Some(name);
        all.drawn.push((name, rect));
        let takes = all.wanted == Some(name);
        if takes {
            (all.wanted, all.now) = (None, Some(name));
        }
        (takes, all.now == Some(name))
    });
    if !holds {
        return;
    }
    let r = ui.interact(rect, marker(name), Sense::focusable_noninteractive());
    r.widget_info(|| WidgetInfo::labeled(Role::Pane, true, format!("Pane {title}")));
    if takes {
        r.request_focus();
        ui.ctx().request_repaint();
    } else if r.has_focus() {
        let layer = LayerId::new(Order::Middle, Id::unique("ring of a pane"));
        let painter = ui.ctx().layer_painter(layer).with_clip_rect(rect);
        let colour = palette(ui).read;
        ring(&painter, rect, 0.0, colour);
        // Arrows go into the pane, and never to a widget that lies in their direction.
        let filter = EventFilter {
            horizontal_arrows: true,
            vertical_arrows: true,
            ..EventFilter::default()
        };
        ui.memory_mut(|m| m.set_focus_lock_filter(r.id, filter));
        if ui.input(|i| i.key_pressed(Key::ArrowUp) || i.key_pressed(Key::ArrowDown)) {
            ui.data_mut(|d| d.get_temp_mut_or_default::<Panes>(panes_id()).entered = Some(name));
        }
    } else {
        ui.data_mut(|d| d.get_temp_mut_or_default::<Panes>(panes_id()).now = None);
    }
}

/// Returns whether the list that is drawn now takes the keyboard: the first list of a pane in which an arrow was
/// pressed.
#[must_use]
pub fn take_pane_entry(ui: &Ui) -> bool {
    ui.data_mut(|d| {
        let all = d.get_temp_mut_or_default::<Panes>(panes_id());
        let takes = all.entered.is_some() && all.entered == all.drawing;
        if takes {
            all.entered = None;
        }
        takes
    })
}

/// Returns `Some(true)` for a right arrow and `Some(false)` for a left arrow, if the pane that is drawn now has the
/// keyboard as a whole.
#[must_use]
pub fn horizontal_arrow(ui: &Ui) -> Option<bool> {
    let now = ui.data(|d| {
        let all = d.get_temp::<Panes>(panes_id())?;
        all.now.filter(|_| all.now == all.drawing)
    })?;
    if !ui.memory(|m| m.has_focus(marker(now))) {
        return None;
    }
    let pressed = |key| ui.input_mut(|i| i.consume_key(Modifiers::NONE, key));
    match (pressed(Key::ArrowLeft), pressed(Key::ArrowRight)) {
        (true, _) => Some(false),
        (_, true) => Some(true),
        _ => None,
    }
}

/// Registers the area of a list that handles its rows itself: it takes the keyboard like the rows of other lists.
pub fn area(ui: &Ui, rect: Rect, id: Id) -> Response {
    let response = ui.interact(rect, id, Sense::focusable_noninteractive());
    if take_pane_entry(ui) {
        response.request_focus();
    }
    response
}

/// Gives the keyboard to the next or previous pane: from left to right, and from top to bottom. After the last one
/// comes the first.
pub fn next_pane(ctx: &Context, forward: bool) {
    let focused = ctx.memory(|m| m.focused()).and_then(|id| ctx.read_response(id));
    let focused = focused.map(|r| r.rect.center());
    ctx.data_mut(|d| {
        let all = d.get_temp_mut_or_default::<Panes>(panes_id());
        // Between two passes, the last drawn pass is complete.
        let mut panes = if all.drawn.is_empty() {
            all.before.clone()
        } else {
            all.drawn.clone()
        };
        panes.sort_by(|a, b| {
            (a.1.left(), a.1.top())
                .partial_cmp(&(b.1.left(), b.1.top()))
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        let within = |at: &egui::Pos2| panes.iter().position(|p| p.1.contains(*at));
        let now = all.now.and_then(|name| panes.iter().position(|p| p.0 == name));
        let now = now.or_else(|| focused.as_ref().and_then(within));
        let n = panes.len();
        let next = match (now, forward) {
            (None, true) => 0,
            (None, false) => n.saturating_sub(1),
            (Some(at), true) => (at + 1) % n.max(1),
            (Some(at), false) => (at + n.saturating_sub(1)) % n.max(1),
        };
        all.wanted = panes.get(next).map(|p| p.0);
    });
    ctx.request_repaint();
}

/// Draws the focus ring.
pub fn ring(painter: &Painter, rect: Rect, radius: f32, colour: egui::Color32) {
    painter.rect_stroke(
        rect.shrink(0.5),
        radius,
        Stroke::new(RING, colour),
        egui::StrokeKind::Inside,
    );
}

/// A list while it is drawn: its rows are one stop for Tab, and arrows move along them.
#[derive(Clone, Debug, Default)]
struct List {
    /// Rows of the previous pass, in order.
    rows: Vec<Id>,
    /// Rows of this pass so far.
    drawn: Vec<Id>,
    /// The row at which Tab stops.
    stop: Option<Id>,
    /// The row that the keyboard went to, which must be brought into view.
    reveal: Option<Id>,
}

fn scope_id() -> Id {
    Id::unique("list that is being drawn")
}

/// Draws a list whose rows ([`row`]) are one stop for Tab.
pub fn list<R>(ui: &mut Ui, name: &str, add: impl FnOnce(&mut Ui) -> R) -> R {
    let id = Id::unique(("list", name));
    let mut state = ui.data(|d| d.get_temp::<List>(id)).unwrap_or_default();
    state.drawn.clear();
    if let Some(stop) = state.stop.filter(|_| take_pane_entry(ui)) {
        ui.memory_mut(|m| m.request_focus(stop));
        state.reveal = Some(stop);
    } else if let Some(stop) = state.stop.filter(|stop| ui.memory(|m| m.has_focus(*stop))) {
        let filter = EventFilter {
            vertical_arrows: true,
            ..EventFilter::default()
        };
        ui.memory_mut(|m| m.set_focus_lock_filter(stop, filter));
        let pressed = |key| ui.input_mut(|i| i.consume_key(Modifiers::NONE, key));
        let (up, down) = (pressed(Key::ArrowUp), pressed(Key::ArrowDown));
        let at = state.rows.iter().position(|r| *r == stop);
        let to = at.map(|at| match (up, down) {
            (true, _) => at.saturating_sub(1),
            (_, true) => at + 1,
            _ => at,
        });
        let to = to.and_then(|to| state.rows.get(to).copied());
        if let Some(to) = to.filter(|to| *to != stop) {
            (state.stop, state.reveal) = (Some(to), Some(to));
            ui.memory_mut(|m| m.request_focus(to));
        }
    }
    ui.data_mut(|d| {
        d.insert_temp(id, state);
        d.insert_temp(scope_id(), id);
    });
    let out = add(ui);
    ui.data_mut(|d| {
        d.remove::<Id>(scope_id());
        let state = d.get_temp_mut_or_default::<List>(id);
        state.rows = std::mem::take(&mut state.drawn);
        state.reveal = None;
        if state.stop.is_none_or(|stop| !state.rows.contains(&stop)) {
            state.stop = state.rows.first().copied();
        }
    });
    out
}

/// The row of a long list ([`super::rows::Rows`]) that is being drawn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LongRow {
    /// Whether Tab stops at this row; it skips the others.
    pub stop: bool,
    /// Whether this row takes the keyboard now.
    pub take: bool,
    /// Set by [`row_response`]: the widget of the row, if it has the keyboard.
    pub focused: Option<Id>,
    /// Set by [`row_response`]: whether the row was clicked.
    pub clicked: bool,
}

fn long_row_id() -> Id {
    Id::unique("row of a long list that is being drawn")
}

/// Draws a row of a long list with `add`, and returns its new state.
pub(super) fn long_row(ui: &mut Ui, row: LongRow, add: impl FnOnce(&mut Ui)) -> LongRow {
    ui.data_mut(|d| d.insert_temp(long_row_id(), row));
    add(ui);
    ui.data_mut(|d| d.remove_temp::<LongRow>(long_row_id())).unwrap_or(row)
}

/// Makes a row of a long list react to clicks. One of all rows is a stop for Tab; the arrow keys move from there.
pub fn row_response(ui: &Ui, rect: Rect, id: Id) -> Response {
    let row = ui.data(|d| d.get_temp::<LongRow>(long_row_id()));
    let response = ui.interact(rect, id, row_sense(row));
    if let Some(mut row) = row {
        if row.take {
            response.request_focus();
        }
        row.focused = (row.take || response.has_focus()).then_some(id);
        row.clicked = response.clicked();
        ui.data_mut(|d| d.insert_temp(long_row_id(), row));
    }
    response
}

/// Returns what a link in a row of a long list senses: Tab goes through the links of the row at which it stops.
#[must_use]
pub fn part_sense(ui: &Ui) -> Sense {
    row_sense(ui.data(|d| d.get_temp::<LongRow>(long_row_id())))
}

fn row_sense(row: Option<LongRow>) -> Sense {
    match row {
        Some(row) if !row.stop => Sense::CLICK,
        _ => Sense::click(),
    }
}

/// Returns what a row of a list senses: only one of them is a stop for Tab. Outside of a list each is.
#[must_use]
pub fn row(ui: &Ui, id: Id) -> Sense {
    ui.data_mut(|d| {
        let Some(list) = d.get_temp::<Id>(scope_id()) else {
            return Sense::click();
        };
        let state = d.get_temp_mut_or_default::<List>(list);
        state.drawn.push(id);
        match state.stop {
            Some(stop) if stop != id => Sense::CLICK,
            _ => Sense::click(),
        }
    })
}

/// Updates the focus of a row: Tab stops at a clicked row, and a row that the keyboard went to is brought into view.
pub fn update_row_focus(ui: &Ui, response: &Response) {
    // Called first: it reads the input, which is locked while data is.
    let clicked = response.clicked();
    let reveal = ui.data_mut(|d| {
        let list = d.get_temp::<Id>(scope_id())?;
        let state = d.get_temp_mut_or_default::<List>(list);
        if clicked {
            state.stop = Some(response.id);
        }
        state.reveal.filter(|id| *id == response.id)
    });
    if reveal.is_some() {
        ui.scroll_to_rect(response.rect, None);
    }
}
