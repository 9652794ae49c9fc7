//! Memory line by line: 16 bytes each, or 8 if that is too wide, as hex and ASCII or as elements.

use super::fold::{self, Line};
use super::line_width::LineWidth;
use super::pane;
use super::view::View;
use crate::panels::common::actions::UiActions;
use crate::panels::common::copy_menu;
use crate::theme::widgets::paint_text;
use crate::theme::{ROW, focus, icons, mono, palette, small};
use egui::accesskit::Role;
use egui::{Align2, EventFilter, Key, Pos2, Rect, Response, Sense, Stroke, Ui, WidgetInfo, pos2};
use kinescope_files::scene::Selection;
use kinescope_files::values;
use kinescope_session::{Document, clipboard, lookup, text};
use trace_core::GpuVa;
use trace_core::memory::ByteState;
use trace_core::recording::ElementType;

/// Maximum number of bytes that are copied at once.
const MAX_COPY: u64 = clipboard::MAX_BYTES as u64;
/// One past the last address.
const END: GpuVa = GpuVa::new(1 << 48);

/// Positions in a line.
#[derive(Clone, Copy)]
struct Columns {
    left: f32,
    hex: f32,
    digit: f32,
    /// Left edge of the letters, if they are shown.
    ascii: Option<f32>,
    /// Bytes of a line.
    bytes: u64,
    element: Option<ElementType>,
    /// Width of an element.
    width: f32,
}

impl Columns {
    fn new(area: Rect, digit: f32, view: &View) -> Self {
        let (hex, element) = (132.0, view.element);
        let room = area.width() - hex - 12.0;
        let LineWidth { bytes, letters } = LineWidth::new(room, digit, element, !view.without_ascii);
        let n = element.map_or(bytes, |e| (bytes / e.bytes() as u64).max(1));
        Self {
            left: area.left(),
            hex,
            digit,
            ascii: letters.then_some(hex + digit * (bytes as f32 * 3.0 + 3.0)),
            bytes,
            element,
            width: (room / n as f32).min(132.0),
        }
    }

    /// Returns the number of bytes that belong together.
    fn step(&self) -> u64 {
        self.element.map_or(1, |e| e.bytes() as u64)
    }

    /// Returns the byte of a line at a position.
    fn byte_at(&self, x: f32) -> u64 {
        let x = x - self.left - self.hex;
        let (n, last) = match self.element {
            Some(e) => ((x / self.width).floor(), (self.bytes / e.bytes() as u64).max(1) - 1),
            None => match self.ascii.map(|a| a - self.hex).filter(|a| x > a - self.digit) {
                Some(ascii) => (((x - ascii) / self.digit).floor(), self.bytes - 1),
                None => ((x / (self.digit * 3.0) + 0.16).floor(), self.bytes - 1),
            },
        };
        (n.max(0.0) as u64).min(last) * self.step()
    }

    /// Returns the horizontal range of the bytes `from..to` of a line.
    fn span(&self, from: u64, to: u64) -> (f32, f32) {
        if self.element.is_some() {
            let (a, b) = (from / self.step(), to.div_ceil(self.step()));
            let x = self.left + self.hex;
            return (x + a as f32 * self.width, x + b as f32 * self.width);
        }
        let x = |v: u64| self.left + self.hex + v as f32 * self.digit * 3.0 - self.digit * 0.5;
        (x(from), x(to))
    }
}

/// A byte of a line as the user left it, and whether the user edited it.
type Cell = (Result<u8, ByteState>, bool);

/// Returns the bytes in view, with edits applied.
fn cells(doc: &Document, space: u32, top: GpuVa, len: usize) -> Vec<Cell> {
    let read = lookup::read(&doc.recording, space, top, doc.current_event(), len);
    let mut out: Vec<Cell> = read.into_iter().map(|b| (b, false)).collect();
    let end = top.saturating_add(len as u64);
    for (name, edited) in doc.changes().inputs() {
        let Some(b) = doc.recording.buffer(name).filter(|b| b.address_space == space) else {
            continue;
        };
        let (from, to) = (b.va.max(top), b.va.saturating_add(b.bytes).min(end));
        if from >= to {
            continue;
        }
        let part = &mut out[(from - top) as usize..(to - top) as usize];
        let was: Vec<u8> = part.iter().map(|c| c.0.unwrap_or(0)).collect();
        let mut now = was.clone();
        edited.overlay(from - b.va, &mut now);
        for ((cell, was), now) in part.iter_mut().zip(was).zip(now) {
            if was != now {
                *cell = (Ok(now), true);
            }
        }
    }
    out
}

/// Draws the lines that fit.
pub fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    let size = ui.available_size_before_wrap();
    let (area, response) = ui.allocate_exact_size(size, Sense::click());
    response.widget_info(|| WidgetInfo::labeled(Role::List, true, "Memory"));
    if focus::take_pane_entry(ui) {
        response.request_focus();
    }
    wheel(doc, view, ui, &response);
    let n = (area.height() / ROW).ceil().max(1.0) as u64;
    view.shown_rows = (area.height() / ROW).floor().max(1.0) as u64;
    let digit = ui.painter().layout_no_wrap("0".into(), mono(), p.text).size().x;
    let columns = Columns::new(area, digit, view);
    view.narrow = columns.bytes == 8;
    view.top = view.line_of(view.top.min(END.saturating_sub(columns.bytes * n.min(1 << 20))));
    if response.has_focus() {
        keys(doc, view, ui, &response);
    }
    let (space, top) = (view.space, view.top);
    let clip = ui.clip_rect();
    ui.set_clip_rect(clip.intersect(area));
    let mut lines = Vec::new();
    let mut at = top;
    while (lines.len() as u64) < n && at < END {
        let line = fold::line(doc, space, at, columns.bytes);
        lines.push(line);
        at = line.end();
    }
    let byte_at = |q: Pos2| {
        let max = lines.len().saturating_sub(1) as f32;
        let line = ((q.y - area.top()) / ROW).floor().clamp(0.0, max) as usize;
        let none = Line::Bytes {
            va: top,
            bytes: columns.bytes,
        };
        match lines.get(line).copied().unwrap_or(none) {
            Line::Bytes { va, .. } => va.saturating_add(columns.byte_at(q.x)),
            Line::Folded { va, .. } => va,
        }
    };
    let mut input = PointerInput::default();
    let mut behind = None;
    let chosen = view.selected(doc);
    for (i, shown) in lines.iter().copied().enumerate() {
        let va = shown.va();
        let y = area.top() + i as f32 * ROW;
        let row = Rect::from_min_size(pos2(area.left(), y), egui::vec2(area.width(), ROW));
        let r = ui.interact(row, ui.scope_id().with(("mem", i)), Sense::CLICK | Sense::DRAG);
        r.widget_info(|| WidgetInfo::labeled(Role::Row, true, format!("memory {va:#x}")));
        if r.hovered() {
            ui.painter().rect_filled(row, 0.0, p.raised);
        }
        behind = draw_line(doc, view, ui, shown, row, &columns, chosen).or(behind);
        follow_pointer(doc, view, ui, &r, &byte_at, columns.step(), &mut input);
        r.context_menu(|ui| {
            let byte = ui
                .data(|d| d.get_temp::<GpuVa>(egui::Id::unique("memory-menu")))
                .unwrap_or(va);
            menu(doc, view, actions, ui, byte, chosen);
        });
    }
    ui.set_clip_rect(clip);
    if let Some(va) = behind {
        view.top = view.line_of(va);
        return;
    }
    if let Some(q) = input.pressed {
        let at = byte_at(q);
        view.drag = Some((at, at));
    }
    if let Some(va) = input.released {
        response.request_focus();
        let shift = ui.input(|i| i.modifiers.shift);
        let step = columns.step();
        let (from, bytes) = match chosen {
            Some((from, n)) if shift => (
                from.min(va),
                va.saturating_add(step).max(from.saturating_add(n)) - from.min(va),
            ),
            _ => (va, step),
        };
        select(doc, view, from, bytes);
    }
    if let Some(va) = input.asked {
        pane::find_references(doc, view, actions, space, va);
    }
}

/// What the pointer did on the lines of a frame.
#[derive(Default)]
struct PointerInput {
    /// Where a drag started.
    pressed: Option<Pos2>,
    /// The byte that was clicked.
    released: Option<GpuVa>,
    /// The byte that was double-clicked.
    asked: Option<GpuVa>,
}

/// Follows the pointer on a line: drags select bytes, clicks are noted. `byte_at` returns the byte at a position; `step`
/// is the size of an element.
fn follow_pointer(
    doc: &mut Document,
    view: &mut View,
    ui: &Ui,
    r: &Response,
    byte_at: &dyn Fn(Pos2) -> GpuVa,
    step: u64,
    input: &mut PointerInput,
) {
    if let Some(q) = r.interact_pointer_pos() {
        if r.drag_started() {
            input.pressed = Some(ui.input(|i| i.pointer.press_origin()).unwrap_or(q));
        }
        if r.dragged() {
            let to = byte_at(q);
            if let Some(d) = &mut view.drag {
                d.1 = to;
            }
        }
        if r.clicked() {
            input.released = Some(byte_at(q));
        }
        if r.double_clicked() {
            input.asked = Some(byte_at(q));
        }
    }
    if r.drag_stopped()
        && let Some((a, b)) = view.drag.take()
    {
        let (from, to) = (a.min(b), a.max(b).saturating_add(step));
        select(doc, view, from, to - from);
    }
    if r.secondary_clicked()
        && let Some(q) = r.interact_pointer_pos()
    {
        ui.data_mut(|d| d.insert_temp(egui::Id::unique("memory-menu"), byte_at(q)));
    }
}

/// Selects bytes of the shown address space that are in view.
fn select(doc: &mut Document, view: &mut View, va: GpuVa, bytes: u64) {
    let space = view.space;
    doc.select(Selection::Memory { space, va, bytes });
    view.seen_jump = doc.jumps;
}

/// Draws a line; `chosen`: address and size of the selected bytes. Returns the next recorded address, if the user
/// clicks a folded line to go there.
fn draw_line(
    doc: &Document,
    view: &View,
    ui: &mut Ui,
    shown: Line,
    row: Rect,
    columns: &Columns,
    chosen: Option<(GpuVa, u64)>,
) -> Option<GpuVa> {
    let (space, va) = (view.space, shown.va());
    match shown {
        Line::Bytes { bytes, .. } => {
            highlights(doc, view, ui, va, row, columns);
            line_ui(ui, va, &cells(doc, space, va, bytes as usize), row, columns);
            None
        }
        Line::Folded { end, mapped, .. } => {
            if chosen.is_some_and(|(from, len)| from < end && from.saturating_add(len) > va) {
                ui.painter().rect_filled(row, 0.0, palette(ui).selection);
            }
            let next = fold::find_next_recorded(doc, space, end);
            let goes = folded_ui(ui, va, end, (mapped, next), row, columns);
            next.filter(|_| goes)
        }
    }
}

fn menu(
    doc: &mut Document,
    view: &mut View,
    actions: &mut UiActions,
    ui: &mut Ui,
    byte: GpuVa,
    chosen: Option<(GpuVa, u64)>,
) {
    let space = view.space;
    let (from, len) = match chosen {
        Some((a, n)) if n > 1 && a <= byte && byte - a < n => (a, n.min(MAX_COPY)),
        _ => (view.line_of(byte), view.per_line()),
    };
    let known: Vec<Option<u8>> = cells(doc, space, from, len as usize).iter().map(|c| c.0.ok()).collect();
    ui.label(
        egui::RichText::new(format!("{len} bytes from {from:#x}"))
            .font(small())
            .color(palette(ui).quiet),
    );
    for (what, text) in clipboard::format_bytes(from, &known, view.element) {
        if ui.button(format!("Copy {what}")).clicked() {
            ui.ctx().copy_text(text);
            ui.close();
        }
    }
    let these = Selection::Memory {
        space,
        va: from,
        bytes: len,
    };
    // The menu already has the forms of bytes above.
    copy_menu::forms(doc, actions, ui, &[], &these, None);
    ui.separator();
    if ui.button("Show references").clicked() {
        pane::find_references(doc, view, actions, space, byte);
        ui.close();
    }
    if ui.button("Walk the page tables").clicked() {
        doc.select(Selection::Memory {
            space,
            va: byte,
            bytes: 1,
        });
        actions.run_command("show-page-tables");
        ui.close();
    }
}

/// Draws an unknown stretch, and a link to what follows it. Returns `true` if the user goes there.
fn folded_ui(
    ui: &mut Ui,
    va: GpuVa,
    end: GpuVa,
    (mapped, next): (bool, Option<GpuVa>),
    row: Rect,
    c: &Columns,
) -> bool {
    let p = palette(ui);
    let y = row.center().y;
    let at = pos2(row.left() + 16.0, y);
    ui.painter()
        .text(at, Align2::LEFT_CENTER, format!("{va:#014x}"), mono(), p.quiet);
    let what = if mapped { "mapped, not recorded" } else { "not mapped" };
    let message = format!("{} {what}", text::bytes(end - va));
    let at = pos2(row.left() + c.hex, y);
    let used = ui.painter().text(at, Align2::LEFT_CENTER, message, small(), p.quiet);
    let Some(next) = next else { return false };
    let words = "next recorded bytes";
    let galley = ui
        .painter()
        .layout_no_wrap(format!("{words} {}", icons::CARET_RIGHT), small(), p.read);
    let at = pos2(used.right() + 16.0, y - galley.size().y / 2.0);
    let place = Rect::from_min_size(at, galley.size());
    let r = ui.interact(place.expand(3.0), ui.scope_id().with(("behind", va)), Sense::click());
    r.widget_info(|| WidgetInfo::labeled(Role::Link, true, format!("{words} after {va:#x}")));
    ui.painter().galley(at, galley, p.read);
    if r.hovered() || r.has_focus() {
        ui.painter()
            .hline(place.x_range(), place.bottom(), Stroke::new(1.0, p.read));
    }
    let hand = r.on_hover_cursor(egui::CursorIcon::PointingHand);
    hand.on_hover_text(format!("{next:#x}")).clicked()
}

fn wheel(doc: &Document, view: &mut View, ui: &Ui, response: &Response) {
    if !response.contains_pointer() {
        return;
    }
    view.scroll -= ui.input(|i| i.smooth_scroll_delta().y);
    let lines = (view.scroll / ROW).trunc();
    view.scroll -= lines * ROW;
    for _ in 0..(lines.abs() as u64).min(4096) {
        view.top = if lines < 0.0 {
            fold::previous_line_start(doc, view.space, view.top, view.per_line())
        } else {
            fold::line(doc, view.space, view.top, view.per_line()).end()
        };
    }
}

/// Handles keys: arrows move the selected byte, Page Up and Page Down move by what fits.
fn keys(doc: &mut Document, view: &mut View, ui: &Ui, response: &Response) {
    let filter = EventFilter {
        horizontal_arrows: true,
        vertical_arrows: true,
        ..Default::default()
    };
    ui.memory_mut(|m| m.set_focus_lock_filter(response.id, filter));
    let step = view.element.map_or(1, |e| e.bytes() as i64);
    let line = view.per_line() as i64;
    let page = view.shown_rows as i64 * line;
    let pressed = |k: Key| ui.input(|i| i.key_pressed(k) && i.modifiers.is_none());
    let moves = [
        (Key::ArrowLeft, -step),
        (Key::ArrowRight, step),
        (Key::ArrowUp, -line),
        (Key::ArrowDown, line),
        (Key::PageUp, -page),
        (Key::PageDown, page),
    ];
    let Some((_, by)) = moves.into_iter().find(|(k, _)| pressed(*k)) else {
        return;
    };
    let at = view.selected(doc).map_or(view.top, |s| s.0);
    if let Some(to) = at.get().checked_add_signed(by).map(GpuVa::new).filter(|t| *t < END) {
        view.show(doc, view.space, to, step as u64);
        view.seen_jump = doc.jumps;
    }
}

fn highlights(doc: &Document, view: &View, ui: &Ui, va: GpuVa, row: Rect, c: &Columns) {
    let p = palette(ui);
    let fill = |from: GpuVa, len: u64, ink: egui::Color32, frame: bool| {
        let (a, b) = (from.max(va), from.saturating_add(len).min(va.saturating_add(c.bytes)));
        if a >= b {
            return;
        }
        let (x0, x1) = c.span(a - va, b - va);
        let r = Rect::from_min_max(pos2(x0, row.top() + 1.0), pos2(x1, row.bottom() - 1.0));
        if frame {
            ui.painter()
                .rect_stroke(r, 2.0, Stroke::new(1.0, ink), egui::StrokeKind::Inside);
        } else {
            ui.painter().rect_filled(r, 2.0, ink);
        }
        if let Some(ascii) = c.ascii {
            let x = |v: GpuVa| c.left + ascii + (v - va) as f32 * c.digit;
            let r = Rect::from_min_max(pos2(x(a), row.top() + 1.0), pos2(x(b), row.bottom() - 1.0));
            ui.painter().rect_filled(r, 2.0, if frame { p.raised } else { ink });
        }
    };
    match view.drag {
        Some((a, b)) => fill(a.min(b), a.max(b) - a.min(b) + c.step(), p.selection, false),
        None => {
            if let Some((from, len)) = view.selected(doc) {
                fill(from, len, p.selection, false);
            }
        }
    }
    if let Some(hits) = &view.hits {
        let first = hits.partition_point(|h| h.va.saturating_add(h.bytes) <= va);
        for h in hits[first..].iter().take_while(|h| h.va < va.saturating_add(c.bytes)) {
            fill(h.va, h.bytes, p.read, true);
        }
    }
    if let Some(t) = view.references.as_ref().filter(|t| t.space == view.space) {
        fill(t.va, 1, p.text, true);
    }
}

fn line_ui(ui: &Ui, va: GpuVa, line: &[Cell], row: Rect, c: &Columns) {
    let p = palette(ui);
    let y = row.center().y;
    let at = pos2(row.left() + 16.0, y);
    ui.painter()
        .text(at, Align2::LEFT_CENTER, format!("{va:#014x}"), mono(), p.quiet);
    if line.iter().any(|c| c.1) {
        ui.painter().circle_filled(pos2(row.left() + 8.0, y), 2.5, p.edited);
    }
    if line.iter().all(|c| c.0.is_err()) {
        let none = line.iter().any(|c| c.0 == Err(ByteState::NoContent));
        let what = if none { "mapped, not recorded" } else { "not mapped" };
        let at = pos2(row.left() + c.hex, y);
        ui.painter().text(at, Align2::LEFT_CENTER, what, small(), p.quiet);
        return;
    }
    if let Some(e) = c.element {
        for (i, part) in line.chunks(e.bytes()).enumerate() {
            let left = row.left() + c.hex + i as f32 * c.width;
            let cell = Rect::from_min_max(pos2(left + 6.0, row.top()), pos2(left + c.width - 6.0, row.bottom()));
            let known: Option<Vec<u8>> = part.iter().map(|b| b.0.ok()).collect();
            let (t, ink) = match known {
                Some(b) if part.iter().any(|c| c.1) => (values::format_element(e, &b), p.edited),
                Some(b) if b.iter().all(|x| *x == 0) => (values::format_element(e, &b), p.quiet),
                Some(b) => (values::format_element(e, &b), p.text),
                None => ("·".into(), p.quiet),
            };
            paint_text(ui, cell, Align2::RIGHT_CENTER, &t, mono(), ink);
        }
        return;
    }
    for (i, (b, edited)) in line.iter().enumerate() {
        let x = row.left() + c.hex + i as f32 * c.digit * 3.0;
        let (t, ink) = match b {
            Ok(v) if *edited => (format!("{v:02x}"), p.edited),
            Ok(0) => ("00".into(), p.quiet),
            Ok(v) => (format!("{v:02x}"), p.text),
            Err(ByteState::NoContent) => ("··".into(), p.quiet),
            Err(_) => ("  ".into(), p.quiet),
        };
        ui.painter().text(pos2(x, y), Align2::LEFT_CENTER, t, mono(), ink);
    }
    let Some(left) = c.ascii else { return };
    let ascii: String = line
        .iter()
        .map(|(b, _)| match b {
            Ok(c) if (0x20..0x7f).contains(c) => *c as char,
            Ok(_) => '.',
            Err(_) => ' ',
        })
        .collect();
    let at = pos2(row.left() + left, y);
    ui.painter().text(at, Align2::LEFT_CENTER, ascii, mono(), p.quiet);
}
