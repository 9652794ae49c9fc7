//! Memory of both recordings side by side: A at the current event, B at the matching event, differences marked.

use super::causes;
use super::style::SIDE;
use super::view::{Section, View};
use crate::panels::common::actions::UiActions;
use crate::panels::common::locations::parse_address;
use crate::theme::widgets::{self, paint_text};
use crate::theme::{ROW, field, icons, mono, palette, small};
use egui::accesskit::Role;
use egui::{Align2, EventFilter, Key, Modifiers, Rect, RichText, Sense, Stroke, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::comparison::Comparison;
use kinescope_session::difference::DifferenceRef;
use kinescope_session::{Document, text};
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::diff::{BufferDiff, BytePair, MemoryComparison, byte_differs};
use trace_core::memory::ByteState;
use trace_core::recording::Recording;

/// One past the last address.
const END: GpuVa = GpuVa::new(1 << 48);
/// Width of the addresses, points.
const ADDRESS: f32 = 118.0;
/// Height of the section that explains why the selected byte differs, and the total height from which it is shown,
/// points.
const WHY: f32 = 96.0;
const WITH_WHY: f32 = 260.0;
/// Gap between both sides, points.
const GAP: f32 = 28.0;

/// What is read: an address space of both recordings, each at its event.
#[derive(Clone)]
struct Sides {
    a: Arc<Recording>,
    b: Arc<Comparison>,
    at: (u64, u64),
    space: u32,
}

impl Sides {
    fn new(doc: &Document, c: &Arc<Comparison>, space: u32) -> Self {
        Self {
            a: Arc::clone(&doc.recording),
            b: Arc::clone(c),
            at: (doc.current_event(), doc.other_event().unwrap_or(0)),
            space,
        }
    }

    fn comparison(&self) -> Option<MemoryComparison<'_>> {
        let space = usize::try_from(self.space).ok()?;
        let b = (&*self.b.other.recording, self.at.1);
        MemoryComparison::new((&self.a, self.at.0), b, space, &self.b.diff.mappings)
    }
}

/// Returns where memory differs first: a buffer, else a page, else the first buffer.
fn begin(doc: &Document, c: &Comparison) -> GpuVa {
    let buffer = c.diff.buffers.iter().find(|b| BufferDiff::differs(b));
    let buffer = buffer.and_then(|b| b.a.or(b.b)).map(|x| x.0);
    let page = c.diff.pages.list.first().filter(|_| !c.diff.pages.physical);
    let page = page.map(|p| p.va.saturating_add(u64::from(p.first_byte.unwrap_or(0))));
    let first = doc.recording.metadata.buffers.first().map(|b| b.va);
    buffer.or(page).or(first).unwrap_or_default()
}

/// Searches for the next or previous run of bytes that differ, off the interface thread, and then shows it.
pub fn step(doc: &Document, view: &mut View, actions: &mut UiActions, forward: bool) {
    let Some(c) = doc.comparison.done.clone() else { return };
    view.open(Section::Memory);
    let from = view.byte.unwrap_or_else(|| begin(doc, &c));
    let sides = Sides::new(doc, &c, view.space);
    if let Some(before) = view.searching.take() {
        before.cancel();
    }
    view.byte_message = "looking for bytes that differ…".into();
    view.searching = Some(
        actions.start_work::<View>("looking for bytes that differ", move |progress| {
            let found = sides
                .comparison()
                .map(|b| b.find_next_difference(from, forward, progress));
            Box::new(move |_, view, _| {
                let way = if forward { "after" } else { "before" };
                match found {
                    Some(Ok(Some(va))) => view.show_byte(va),
                    Some(Ok(None)) => view.byte_message = format!("no difference {way} {from:#x}"),
                    // A newer search replaces this one, or the user stopped it.
                    Some(Err(_)) => {
                        let newer = view.searching.as_ref().is_some_and(|p| p.check().is_ok());
                        if !newer {
                            view.byte_message = "the search was stopped".into();
                        }
                    }
                    None => view.byte_message.clear(),
                }
            })
        }),
    );
}

/// Draws both sides.
pub(super) fn ui(doc: &mut Document, c: &Arc<Comparison>, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    let sides = Sides::new(doc, c, view.space);
    let Some(comparison) = sides.comparison() else {
        let message = "Both recordings need an address space with the same number to show memory side by side.";
        widgets::empty_state(ui, icons::SQUARES_FOUR, message, None);
        return;
    };
    if view.byte.is_none() {
        view.show_byte(begin(doc, c));
    }
    bar(doc, view, actions, ui, &sides);
    let p = palette(ui);
    let full = ui.available_rect_before_wrap();
    let meant = view.byte.filter(|_| full.height() >= WITH_WHY);
    let differs = meant.is_some_and(|va| comparison.read(va, 1).iter().any(byte_differs));
    let below = if differs { WHY } else { 0.0 };
    let size = vec2(full.width(), full.height() - below);
    let (area, response) = ui.allocate_exact_size(size, Sense::click());
    response.widget_info(|| WidgetInfo::labeled(Role::List, true, "Memory of both recordings"));
    let digit = ui.painter().layout_no_wrap("0".into(), mono(), p.text).size().x;
    let wide = area.width() >= SIDE + ADDRESS + GAP + 2.0 * 16.0 * 3.0 * digit;
    let n: u64 = if wide { 16 } else { 8 };
    let half = n as f32 * 3.0 * digit;
    let starts = [area.left() + SIDE + ADDRESS, area.left() + SIDE + ADDRESS + half + GAP];
    let lines = (area.height() / ROW - 1.0).floor().max(1.0) as u64;
    if response.contains_pointer() {
        let by = (ui.input(|i| i.smooth_scroll_delta().y) / ROW).round() as i64;
        view.top = GpuVa::new(view.top.get().saturating_add_signed(-by * n as i64));
    }
    if std::mem::take(&mut view.reveal)
        && let Some(va) = view.byte
    {
        // Some lines before it stay in view, as far as there is room.
        view.top = va.align_down(n).saturating_sub(n * (lines / 3));
    }
    view.top = view.top.min(END.saturating_sub(n * lines)).align_down(n);
    let head = Rect::from_min_size(area.min, vec2(area.width(), ROW));
    let names = [(&doc.title, p.only_a, "A"), (&c.other.name, p.only_b, "B")];
    for ((name, ink, side), x) in names.into_iter().zip(starts) {
        let cell = Rect::from_min_max(pos2(x, head.top()), pos2(x + half - digit, head.bottom()));
        paint_text(ui, cell, Align2::LEFT_CENTER, &format!("{side}  {name}"), small(), ink);
    }
    let from = area.top() + ROW;
    if response.clicked() {
        response.request_focus();
        let at = response.interact_pointer_pos();
        let hit = at.and_then(|q| hit(q, from, starts, digit, n));
        if let Some(va) = hit.and_then(|h| view.top.checked_add(h)) {
            view.byte = Some(va.min(END.saturating_sub(1)));
            view.byte_message.clear();
        }
    }
    if response.has_focus() {
        keys(view, ui, &response, n, lines);
    }
    let bytes = comparison.read(view.top, (n * lines) as usize);
    for (i, line) in bytes.chunks(n as usize).enumerate() {
        let va = view.top + i as u64 * n;
        let top = from + i as f32 * ROW;
        let row = Rect::from_min_size(pos2(area.left(), top), vec2(area.width(), ROW));
        draw_line(ui, view, &comparison, (va, line), row, starts, digit);
    }
    if let Some(va) = meant.filter(|_| differs) {
        let rect = full.with_min_y(area.bottom());
        ui.painter().hline(rect.x_range(), rect.top(), Stroke::new(1.0, p.line));
        let mut child = ui.new_child(
            egui::UiBuilder::new()
                .id_salt("why")
                .max_rect(rect.shrink2(vec2(SIDE, 2.0))),
        );
        child.shrink_clip_rect(rect);
        egui::ScrollArea::vertical().auto_shrink(false).show(&mut child, |ui| {
            ui.spacing_mut().item_spacing.y = 0.0;
            causes::ui(doc, c, &DifferenceRef::Byte(view.space, va), view, actions, ui);
        });
    }
}

/// Returns the byte under the pointer, counted from the first one shown.
fn hit(q: egui::Pos2, top: f32, starts: [f32; 2], digit: f32, n: u64) -> Option<u64> {
    let line = ((q.y - top) / ROW).floor();
    let mut at = starts.iter().map(|x| ((q.x - x) / (3.0 * digit)).floor());
    let column = at.rfind(|c| (0.0..n as f32).contains(c))?;
    (line >= 0.0).then(|| line as u64 * n + column as u64)
}

/// Draws the address, the buttons that go to differences, and the events of both sides.
fn bar(doc: &Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui, sides: &Sides) {
    let p = palette(ui);
    ui.horizontal(|ui| {
        ui.set_height(28.0);
        ui.add_space(SIDE);
        let spaces = &doc.recording.metadata.address_spaces;
        if spaces.len() > 1 {
            let called = |i: u32| {
                spaces
                    .get(i as usize)
                    .map_or_else(String::new, |s| format!("AS {}", s.number))
            };
            let r = egui::ComboBox::from_id_salt("compare-space").selected_text(called(view.space));
            r.show_ui(ui, |ui| {
                for i in 0..spaces.len() as u32 {
                    ui.selectable_value(&mut view.space, i, called(i));
                }
            });
        }
        let id = egui::Id::unique("compare-address");
        let hint = RichText::new("address or buffer").color(p.quiet);
        let shown = field::value(ui, id, "Address in both", &mut view.go_to, None, |t| {
            let edit = egui::TextEdit::singleline(t).font(mono());
            edit.desired_width(150.0).hint_text(hint)
        });
        if shown.enter {
            match parse_address(doc, view.space, &view.go_to) {
                Ok((space, va)) => {
                    view.space = space;
                    view.show_byte(va);
                }
                Err(e) => view.byte_message = e,
            }
        }
        for (icon, name, forward) in [
            (icons::CARET_LEFT, "Previous bytes that differ", false),
            (icons::CARET_RIGHT, "Next bytes that differ", true),
        ] {
            if widgets::icon_button(ui, icon, name).clicked() {
                step(doc, view, actions, forward);
            }
        }
        if widgets::icon_button(ui, icons::SQUARES_FOUR, "Show A in Memory").clicked()
            && let Some(va) = view.byte
        {
            actions.show_memory_at_top(Some(view.space), va, 1);
            actions.run_command("show-memory");
        }
        let words = if view.byte_message.is_empty() {
            let (a, b) = sides.at;
            format!("A at event {}, B at event {}", text::count(a), text::count(b))
        } else {
            view.byte_message.clone()
        };
        let r = ui.add(egui::Label::new(RichText::new(&words).font(small()).color(p.quiet)).truncate());
        r.widget_info(|| WidgetInfo::labeled(Role::Status, true, words.clone()));
    });
}

fn draw_line(
    ui: &Ui,
    view: &View,
    comparison: &MemoryComparison<'_>,
    (va, line): (GpuVa, &[BytePair]),
    row: Rect,
    starts: [f32; 2],
    digit: f32,
) {
    let p = palette(ui);
    let y = row.center().y;
    let any = line.iter().filter(|b| byte_differs(b)).count();
    let there = comparison.map_to_second(va);
    let r = ui.interact(row, ui.scope_id().with(("both", va)), Sense::hover());
    r.widget_info(|| WidgetInfo::labeled(Role::Row, true, format!("memory {va:#x}: {any} bytes differ")));
    if there != va {
        r.on_hover_text(format!("A has it at {va:#x}, B at {there:#x}"));
    }
    let label = Rect::from_min_max(row.left_top() + vec2(SIDE, 0.0), pos2(starts[0] - 4.0, row.bottom()));
    paint_text(ui, label, Align2::LEFT_CENTER, &format!("{va:#014x}"), mono(), p.quiet);
    let (sign, ink) = match (any, there == va) {
        (0, true) => ("", p.quiet),
        (0, false) => ("↗", p.quiet),
        _ => ("≠", p.error),
    };
    let middle = pos2(starts[1] - GAP / 2.0 - digit, y);
    ui.painter().text(middle, Align2::CENTER_CENTER, sign, mono(), ink);
    for (k, pair) in line.iter().enumerate() {
        let on = view.byte == Some(va + k as u64);
        let other = byte_differs(pair);
        for (byte, start) in [pair.0, pair.1].into_iter().zip(starts) {
            let x = start + k as f32 * 3.0 * digit;
            if on {
                let cell = Rect::from_min_max(
                    pos2(x - digit * 0.5, row.top() + 1.0),
                    pos2(x + digit * 2.5, row.bottom() - 1.0),
                );
                ui.painter().rect_filled(cell, 2.0, p.selection);
            }
            let (t, ink) = match byte {
                Ok(v) if other => (format!("{v:02x}"), p.error),
                Ok(v) => (format!("{v:02x}"), if v == 0 { p.quiet } else { p.text }),
                Err(ByteState::NoContent) => ("··".into(), p.quiet),
                Err(_) => ("  ".into(), p.quiet),
            };
            ui.painter().text(pos2(x, y), Align2::LEFT_CENTER, t, mono(), ink);
            if other {
                // The mark must not depend on colour alone.
                let under = x..=x + 2.0 * digit;
                ui.painter().hline(under, row.bottom() - 2.0, Stroke::new(1.0, p.error));
            }
        }
    }
}

/// Handles keys: arrows move the byte, Page keys move by what fits.
fn keys(view: &mut View, ui: &Ui, response: &egui::Response, n: u64, lines: u64) {
    let filter = EventFilter {
        horizontal_arrows: true,
        vertical_arrows: true,
        ..Default::default()
    };
    ui.memory_mut(|m| m.set_focus_lock_filter(response.id, filter));
    let (line, page) = (n as i64, (n * lines) as i64);
    let moves = [
        (Key::ArrowLeft, -1),
        (Key::ArrowRight, 1),
        (Key::ArrowUp, -line),
        (Key::ArrowDown, line),
        (Key::PageUp, -page),
        (Key::PageDown, page),
    ];
    let pressed = moves
        .into_iter()
        .find(|(k, _)| ui.input_mut(|i| i.consume_key(Modifiers::NONE, *k)));
    let Some(by) = pressed.map(|m| m.1) else { return };
    let at = view.byte.unwrap_or(view.top).get().saturating_add_signed(by);
    let at = GpuVa::new(at).min(END.saturating_sub(1));
    view.byte = Some(at);
    view.byte_message.clear();
    if at < view.top {
        view.top = at.align_down(n);
    } else if at >= view.top + n * lines {
        view.top = at.align_down(n).saturating_sub(n * (lines - 1));
    }
}
