//! A buffer line by line: known bytes as hex and letters or as elements; a line for unknown bytes shows since when.

use super::super::line_width::LineWidth;
use super::super::view::View;
use super::content::{describe_state, event_of};
use super::view::{LinesKey, Side, Stretch};
use crate::theme::widgets::paint_text;
use crate::theme::{mono, palette, small};
use egui::accesskit::Role;
use egui::{Align2, EventFilter, Key, Rect, Sense, Stroke, Ui, WidgetInfo, pos2};
use kinescope_files::scene::Selection;
use kinescope_files::values;
use kinescope_session::{Document, clipboard, text};
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::api_trace::{ApiTrace, DeviceBuffer, DeviceBytes, Piece};
use trace_core::recording::ElementType;

/// Minimum number of unknown bytes that are folded to one line.
const MIN_FOLDED_BYTES: u64 = 64;
/// Maximum number of pieces of a buffer, so that a frame stays short.
const MAX_PIECES: usize = 20_000;
/// Width of the addresses, points.
const ADDRESS: f32 = 132.0;

/// Positions of the bytes in a line.
struct Columns {
    /// Left edges of the sides.
    sides: Vec<f32>,
    /// Bytes of a line.
    bytes: u64,
    digit: f32,
    /// Width of an element, if bytes are shown as elements.
    element: Option<(ElementType, f32)>,
    letters: bool,
}

impl Columns {
    fn new(width: f32, digit: f32, view: &View, both: bool) -> Self {
        let element = view.element;
        let room = width - ADDRESS - 12.0;
        let sides = if both { 2.0 } else { 1.0 };
        let each = room / sides;
        let LineWidth { bytes, letters } = LineWidth::new(each, digit, element, !view.without_ascii);
        let element = element.map(|e| {
            let n = (bytes as usize / e.bytes()).max(1);
            (e, ((each - 8.0) / n as f32).min(132.0))
        });
        let block = match element {
            Some((e, w)) => w * (bytes as usize / e.bytes()).max(1) as f32,
            None if letters => digit * (bytes as f32 * 4.0 + 2.0),
            None => digit * (bytes as f32 * 3.0),
        };
        let second = ADDRESS + (block + digit * 3.0).min(each);
        Self {
            sides: if both { vec![ADDRESS, second] } else { vec![ADDRESS] },
            bytes,
            digit,
            element,
            letters,
        }
    }

    fn step(&self) -> u64 {
        self.element.map_or(1, |(e, _)| e.bytes() as u64)
    }

    /// Returns the byte of a line at a position, counted from the left edge of the list.
    fn byte_at(&self, x: f32) -> u64 {
        let side = self.sides.iter().rev().find(|s| x >= **s - self.digit).copied();
        let x = (x - side.unwrap_or(ADDRESS)).max(0.0);
        let n = match self.element {
            Some((_, wide)) => (x / wide).floor(),
            None if self.letters && x > self.digit * (self.bytes as f32 * 3.0 + 0.5) => {
                x / self.digit - self.bytes as f32 * 3.0 - 1.0
            }
            None => (x / (self.digit * 3.0)).floor(),
        };
        let last = self.bytes / self.step() - 1;
        (n.max(0.0) as u64).min(last) * self.step()
    }
}

/// Draws the lines.
pub(super) fn ui(doc: &mut Document, view: &mut View, ui: &mut Ui, api_trace: &Arc<ApiTrace>) {
    let p = palette(ui);
    let Some((index, b)) = view
        .device
        .buffer
        .and_then(|n| Some((n, api_trace.buffers().get(n)?.clone())))
    else {
        return;
    };
    let digit = ui.painter().layout_no_wrap("0".into(), mono(), p.text).size().x;
    let both = view.device.side == Side::Both;
    let c = Columns::new(ui.available_width(), digit, view, both);
    let events = shown_events(doc, view.device.side, &b);
    let made: LinesKey = (
        Arc::as_ptr(api_trace) as usize,
        api_trace.revision(),
        index,
        events[0],
        c.bytes,
        both,
    );
    if view.device.cached_lines.as_ref().is_none_or(|m| m.0 != made) {
        let (stretches, rows, unknown) = stretches(doc, api_trace, b.at..b.end(), &events, c.bytes);
        view.device.unknown = unknown;
        view.device.cached_lines = Some((made, Arc::new(stretches), rows));
    }
    let Some((_, stretches, count)) = view.device.cached_lines.clone() else {
        return;
    };
    if let Some(va) = view.device.reveal.take() {
        view.device.lines.reveal(row_of(&stretches, GpuVa::new(va), c.bytes));
    }
    let selected = match *doc.selection() {
        Selection::Memory { va, bytes, .. } => Some((va, bytes.max(1))),
        _ => None,
    };
    keyed(doc, view, ui, &c, selected, b.at..b.end());
    let (mut chosen, mut go) = (None, None);
    let mut rows = view.device.lines;
    rows.show(ui, "Device memory", count, |ui, row, rect| {
        let n = stretches.partition_point(|s| s.row <= row);
        let Some(s) = n.checked_sub(1).and_then(|n| stretches.get(n)) else {
            return;
        };
        let at = s.at + (row - s.row) * c.bytes;
        let r = ui.interact(rect, ui.scope_id().with(("line", row)), Sense::CLICK);
        r.widget_info(|| WidgetInfo::labeled(Role::Row, true, format!("device memory {at:#x}")));
        if r.hovered() {
            ui.painter().rect_filled(rect, 0.0, p.raised);
        }
        let address = format!("{at:#014x}");
        ui.painter().text(
            pos2(rect.left() + 16.0, rect.center().y),
            Align2::LEFT_CENTER,
            address,
            mono(),
            p.quiet,
        );
        if let Some(pieces) = &s.folded {
            if selected.is_some_and(|(from, len)| from < s.end && from.saturating_add(len) > s.at) {
                ui.painter().rect_filled(rect, 0.0, p.selection);
            }
            if let Some(event) = folded(ui, api_trace, s, pieces, rect) {
                go = Some(event);
            }
            if r.clicked() {
                chosen = Some((s.at, s.end - s.at));
            }
            return;
        }
        let end = (at + c.bytes).min(s.end);
        let read = |event| api_trace.read(&doc.recording, at..end, event);
        let (before, after) = (read(events[0]), both.then(|| read(events[1])));
        if let Some((from, len)) = selected {
            highlight(ui, &c, at, rect, from, len);
        }
        recorded_line(ui, &c, at, rect, &before, after.as_ref());
        if let Some(q) = r.interact_pointer_pos().filter(|_| r.clicked()) {
            let byte = at + c.byte_at(q.x - rect.left());
            chosen = Some((byte.min(end.saturating_sub(1)), c.step()));
        }
        line_menu(&r, &before, at, view.element);
    });
    view.device.lines = rows;
    if let Some(event) = go {
        doc.go_keeping_target(event);
    } else if let Some((va, bytes)) = chosen {
        let shift = ui.input(|i| i.modifiers.shift);
        let (va, bytes) = match selected {
            Some((from, len)) if shift => {
                let first = from.min(va);
                (first, (va + bytes).max(from.saturating_add(len)) - first)
            }
            _ => (va, bytes),
        };
        doc.select(Selection::Memory { space: 0, va, bytes });
        view.device.seen_jump = doc.jumps;
        ui.memory_mut(|m| m.request_focus(keys_id()));
    }
}

/// Returns the events before which the bytes of a buffer are shown at the left and at the right.
fn shown_events(doc: &Document, side: Side, b: &DeviceBuffer) -> [u64; 2] {
    // For a buffer that does not exist at the current event, its last or first content is shown.
    let clamped = |e: u64| {
        e.clamp(
            b.from.saturating_add(u64::from(b.kind.is_allocated())),
            b.to.unwrap_or(u64::MAX),
        )
    };
    match side {
        Side::Before => [clamped(doc.current_event()); 2],
        Side::After => [clamped(doc.current_event().saturating_add(1)); 2],
        Side::Both => [
            clamped(doc.current_event()),
            clamped(doc.current_event().saturating_add(1)),
        ],
    }
}

/// Draws a line of bytes on one or both sides, with a mark before a line whose sides differ.
fn recorded_line(ui: &Ui, c: &Columns, at: GpuVa, rect: Rect, before: &DeviceBytes, after: Option<&DeviceBytes>) {
    let differs = |n: usize| after.is_some_and(|a| differ(before, a, at, n));
    if (0..before.bytes.len()).any(differs) {
        ui.painter().text(
            pos2(rect.left() + 4.0, rect.center().y),
            Align2::LEFT_CENTER,
            "▲",
            small(),
            palette(ui).error,
        );
    }
    side(ui, c, at, before, 0, rect, &|_| false);
    if let Some(after) = after {
        side(ui, c, at, after, 1, rect, &differs);
    }
}

/// Returns whether a byte differs between both sides, or is known on one side only.
fn differ(before: &DeviceBytes, after: &DeviceBytes, at: GpuVa, n: usize) -> bool {
    let known = |d: &DeviceBytes| is_known(d, at + n as u64);
    let (a, b) = (known(before), known(after));
    a && b && before.bytes.get(n) != after.bytes.get(n)
}

fn is_known(d: &DeviceBytes, at: GpuVa) -> bool {
    let n = d.pieces.partition_point(|p| p.range.end <= at);
    d.pieces.get(n).is_some_and(|p| p.state.is_known())
}

/// Returns the lines of a buffer: stretches that are unknown on both sides are one row each. Also returns the number
/// of rows, and whether a side has unknown bytes.
fn stretches(
    doc: &Document,
    api_trace: &ApiTrace,
    range: std::ops::Range<GpuVa>,
    events: &[u64; 2],
    bytes: u64,
) -> (Vec<Stretch>, u64, bool) {
    let both = [0, 1].map(|n| api_trace.first_pieces(&doc.recording, range.clone(), events[n], MAX_PIECES));
    let unknown = both.iter().flatten().any(|p| !p.state.is_known());
    let (mut out, mut row, mut at) = (Vec::<Stretch>::new(), 0, range.start);
    let find = |list: &Vec<Piece>, at: GpuVa| {
        let n = list.partition_point(|p| p.range.end <= at);
        list.get(n).cloned()
    };
    while at < range.end {
        let (Some(a), Some(b)) = (find(&both[0], at), find(&both[1], at)) else {
            break;
        };
        let end = a.range.end.min(b.range.end);
        let unknown = !a.state.is_known() && !b.state.is_known();
        // Only full lines are folded, so that the lines around them keep their positions.
        let first = range.start + (at - range.start).next_multiple_of(bytes);
        let last = if end == range.end {
            end
        } else {
            end.saturating_sub((end - range.start) % bytes)
        };
        if unknown && first == at && last.offset_from(at).is_some_and(|n| n >= MIN_FOLDED_BYTES) {
            let mut folded = [a, b];
            for p in &mut folded {
                p.range = at..last;
            }
            out.push(Stretch {
                row,
                at,
                end: last,
                folded: Some(folded),
            });
            (row, at) = (row + 1, last);
            continue;
        }
        // A piece that is not folded extends to the next full line after it.
        let to = if unknown && first < last && last - first >= MIN_FOLDED_BYTES {
            first
        } else {
            (range.start + (end - range.start).next_multiple_of(bytes)).min(range.end)
        };
        let to = to.max(at + 1);
        match out.last_mut() {
            Some(s) if s.folded.is_none() && s.end == at => s.end = to,
            _ => out.push(Stretch {
                row,
                at,
                end: to,
                folded: None,
            }),
        }
        let s = out.last().map_or((0, at), |s| (s.row, s.at));
        row = s.0 + (to - s.1).div_ceil(bytes);
        at = to;
    }
    (out, row, unknown)
}

/// Returns the row of an address.
fn row_of(stretches: &[Stretch], va: GpuVa, bytes: u64) -> u64 {
    let n = stretches.partition_point(|s| s.at <= va);
    let Some(s) = n.checked_sub(1).and_then(|n| stretches.get(n)) else {
        return 0;
    };
    match s.folded {
        Some(_) => s.row,
        None => s.row + (va - s.at) / bytes,
    }
}

/// Draws an unknown stretch. Returns the event that the user goes to.
fn folded(ui: &mut Ui, api_trace: &ApiTrace, s: &Stretch, pieces: &[Piece; 2], rect: Rect) -> Option<u64> {
    let p = palette(ui);
    let state = pieces[0].state;
    let mut message = format!("{} · {}", text::bytes(s.end - s.at), describe_state(api_trace, state));
    if pieces[1].state != state {
        message.push_str(&format!(" | {}", describe_state(api_trace, pieces[1].state)));
    }
    let at = Rect::from_min_max(
        pos2(rect.left() + ADDRESS, rect.top()),
        pos2(rect.right() - 8.0, rect.bottom()),
    );
    // A hatch marks unknown content, as in other folded parts.
    let hatch = Rect::from_min_size(pos2(at.left(), at.center().y - 5.0), egui::vec2(14.0, 10.0));
    let painter = ui.painter().with_clip_rect(hatch.intersect(ui.clip_rect()));
    for n in 0..6 {
        let x = hatch.left() - 10.0 + n as f32 * 4.0;
        let line = [pos2(x, hatch.bottom()), pos2(x + 10.0, hatch.top())];
        painter.line_segment(line, Stroke::new(1.0, p.poll));
    }
    let words = Rect::from_min_max(pos2(hatch.right() + 8.0, at.top()), at.max);
    let event = event_of(pieces[1].state);
    let link = event.map(|e| {
        let word = format!("go to event {}", text::count(e));
        ui.painter().layout_no_wrap(word, small(), p.read)
    });
    // The link comes first: the text is cut if there is no room for both.
    let kept = link.as_ref().map_or(0.0, |g| g.size().x + 12.0);
    let room = Rect::from_min_max(
        words.min,
        pos2((words.right() - kept).max(words.left()), words.bottom()),
    );
    let used = paint_text(ui, room, Align2::LEFT_CENTER, &message, small(), p.quiet);
    let (event, galley) = event.zip(link)?;
    let left = pos2(room.left() + used + 12.0, room.center().y - galley.size().y / 2.0);
    let place = Rect::from_min_size(left, galley.size());
    let r = ui.interact(place.expand(3.0), ui.scope_id().with(("since", s.at)), Sense::click());
    r.widget_info(|| WidgetInfo::labeled(Role::Link, true, format!("unknown since event {event}")));
    ui.painter().galley(place.min, galley, p.read);
    if r.hovered() || r.has_focus() {
        ui.painter()
            .hline(place.x_range(), place.bottom(), Stroke::new(1.0, p.read));
    }
    r.on_hover_cursor(egui::CursorIcon::PointingHand)
        .clicked()
        .then_some(event)
}

/// Draws the background of the selection.
fn highlight(ui: &Ui, c: &Columns, at: GpuVa, rect: Rect, from: GpuVa, len: u64) {
    let p = palette(ui);
    let (a, b) = (from.max(at), from.saturating_add(len).min(at + c.bytes));
    if a >= b {
        return;
    }
    for left in &c.sides {
        let x = |n: u64| {
            let n = n as f32;
            let by = match c.element {
                Some((e, wide)) => (n / e.bytes() as f32).floor() * wide,
                None => n * c.digit * 3.0 - c.digit * 0.5,
            };
            rect.left() + left + by
        };
        let last = if c.element.is_some() {
            b.get().next_multiple_of(c.step()) - at.get()
        } else {
            b - at
        };
        let r = Rect::from_min_max(
            pos2(x(a - at), rect.top() + 1.0),
            pos2(x(last.min(c.bytes)), rect.bottom() - 1.0),
        );
        ui.painter().rect_filled(r, 2.0, p.selection);
    }
}

/// Draws one side of a line.
fn side(ui: &Ui, c: &Columns, at: GpuVa, read: &DeviceBytes, n: usize, rect: Rect, differs: &dyn Fn(usize) -> bool) {
    let p = palette(ui);
    let left = rect.left() + c.sides.get(n).copied().unwrap_or(ADDRESS);
    let y = rect.center().y;
    if let Some((e, wide)) = c.element {
        for (i, part) in read.bytes.chunks(e.bytes()).enumerate() {
            let first = i * e.bytes();
            let cell = Rect::from_min_max(
                pos2(left + i as f32 * wide, rect.top()),
                pos2(left + (i + 1) as f32 * wide - 8.0, rect.bottom()),
            );
            let known = (first..first + part.len()).all(|n| is_known(read, at + n as u64));
            let (message, ink) = match known && part.len() == e.bytes() {
                true if (first..first + part.len()).any(differs) => (values::format_element(e, part), p.error),
                true if part.iter().all(|b| *b == 0) => (values::format_element(e, part), p.quiet),
                true => (values::format_element(e, part), p.text),
                false => ("·".to_owned(), p.quiet),
            };
            paint_text(ui, cell, Align2::RIGHT_CENTER, &message, mono(), ink);
        }
        return;
    }
    for (i, b) in read.bytes.iter().enumerate() {
        let known = is_known(read, at + i as u64);
        let (message, ink) = match known {
            true if differs(i) => (format!("{b:02x}"), p.error),
            true if *b == 0 => ("00".to_owned(), p.quiet),
            true => (format!("{b:02x}"), p.text),
            false => ("··".to_owned(), p.quiet),
        };
        let x = left + i as f32 * c.digit * 3.0;
        ui.painter().text(pos2(x, y), Align2::LEFT_CENTER, message, mono(), ink);
        if c.letters && known {
            let letter = if b.is_ascii_graphic() { char::from(*b) } else { '.' };
            let ink = if b.is_ascii_graphic() { p.text } else { p.quiet };
            let x = left + (c.bytes as f32 * 3.0 + 1.0 + i as f32) * c.digit;
            ui.painter().text(pos2(x, y), Align2::LEFT_CENTER, letter, mono(), ink);
        }
    }
}

/// Draws the copy menu of a line.
fn line_menu(r: &egui::Response, read: &DeviceBytes, at: GpuVa, element: Option<ElementType>) {
    r.context_menu(|ui| {
        let known: Vec<Option<u8>> = (0u64..)
            .zip(&read.bytes)
            .map(|(n, b)| is_known(read, at + n).then_some(*b))
            .collect();
        for (what, text) in clipboard::format_bytes(at, &known, element) {
            if ui.button(format!("Copy {what}")).clicked() {
                ui.ctx().copy_text(text);
                ui.close();
            }
        }
    });
}

fn keys_id() -> egui::Id {
    egui::Id::unique("device-memory-keys")
}

/// Handles keys: arrows move the selected byte, Page Up and Page Down move by what fits.
fn keyed(
    doc: &mut Document,
    view: &mut View,
    ui: &Ui,
    c: &Columns,
    selected: Option<(GpuVa, u64)>,
    range: std::ops::Range<GpuVa>,
) {
    let id = keys_id();
    let area = ui.available_rect_before_wrap();
    let r = ui.interact(area, id, Sense::focusable_noninteractive());
    r.widget_info(|| WidgetInfo::labeled(Role::Table, true, "Device memory table"));
    if !ui.memory(|m| m.focused() == Some(id)) {
        return;
    }
    let filter = EventFilter {
        horizontal_arrows: true,
        vertical_arrows: true,
        ..Default::default()
    };
    ui.memory_mut(|m| m.set_focus_lock_filter(id, filter));
    let pressed = |k: Key| ui.input(|i| i.key_pressed(k) && i.modifiers.is_none());
    let page = ((area.height() / crate::theme::ROW) as i64).max(1) * c.bytes as i64;
    let moves = [
        (Key::ArrowLeft, -(c.step() as i64)),
        (Key::ArrowRight, c.step() as i64),
        (Key::ArrowUp, -(c.bytes as i64)),
        (Key::ArrowDown, c.bytes as i64),
        (Key::PageUp, -page),
        (Key::PageDown, page),
    ];
    let Some((_, by)) = moves.into_iter().find(|(k, _)| pressed(*k)) else {
        return;
    };
    let from = selected.map_or(range.start, |s| s.0);
    let to = GpuVa::new(from.get().saturating_add_signed(by)).clamp(range.start, range.end.saturating_sub(1));
    doc.select(Selection::Memory {
        space: 0,
        va: to,
        bytes: c.step(),
    });
    view.device.seen_jump = doc.jumps;
    view.device.reveal = Some(to.get());
}
