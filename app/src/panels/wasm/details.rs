//! Details of the selected copy: its end, the bytes of its streams, its system calls.

use super::copies::stream_bytes;
use super::view::{StreamView, View};
use crate::panels::common::actions::UiActions;
use crate::panels::common::copy_state::{state_colour, state_mark};
use crate::theme::widgets::{self, paint_text};
use crate::theme::{focus, icons, mono, mono_small, palette, small};
use egui::accesskit::Role;
use egui::{Align2, Rect, RichText, Ui, WidgetInfo, pos2};
use kinescope_session::wasm_run::{CopyPart, StreamForm, StreamRows, WasmRunData, call_count};
use kinescope_session::{Document, text};
use std::sync::Arc;
use wasm_recording::{CopyStream, RecordedCopy};

/// Maximum number of bytes that are read at once; more are read in a background job.
const AT_ONCE: u64 = 256 << 10;
/// Width of an offset, and of a digit of the small font, points.
const OFFSETS: f32 = 62.0;
const DIGIT: f32 = 6.7;

/// Draws the details.
pub(super) fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui, data: &Arc<WasmRunData>) {
    let selected = view.copy.and_then(|copy| Some((copy, data.copies().copy(copy)?)));
    let Some((number, copy)) = selected else {
        widgets::empty_state(ui, icons::CPU, "Select a copy to see its input and output.", None);
        return;
    };
    heading(view, ui, data, (number, copy));
    let part = view.part.unwrap_or_else(|| best_part(copy));
    parts(view, ui, copy, part);
    match part {
        CopyPart::Stream(stream) => {
            read(view, actions, data, number, stream);
            stream_ui(&mut view.stream, ui, stream);
        }
        CopyPart::Calls => calls(doc, view, ui, data, (number, copy)),
    }
}

/// Returns the part that says most: the error output if there is one, else the output, else the input.
fn best_part(copy: &RecordedCopy) -> CopyPart {
    let streams = [CopyStream::Error, CopyStream::Output];
    let found = streams.into_iter().find(|s| stream_bytes(copy, *s) > 0);
    CopyPart::Stream(found.unwrap_or(CopyStream::Input))
}

fn heading(view: &mut View, ui: &mut Ui, data: &WasmRunData, (number, copy): (u32, &RecordedCopy)) {
    let p = palette(ui);
    let Some(state) = data.copies().state(number) else {
        return;
    };
    ui.horizontal(|ui| {
        ui.set_height(28.0);
        ui.add_space(10.0);
        let name = RichText::new(&copy.name).font(mono()).color(p.text);
        ui.add(egui::Label::new(name).truncate());
        let ink = state_colour(p, state);
        let summary = match data.copies().trap(number) {
            Some(trap) => trap.kind.name().to_owned(),
            None => copy.end.to_string(),
        };
        let summary = RichText::new(format!("{} {summary}", state_mark(state))).color(ink);
        ui.add(egui::Label::new(summary).truncate());
    });
    let Some(trap) = data.copies().trap(number) else { return };
    ui.horizontal(|ui| {
        ui.add_space(10.0);
        match (&trap.place, data.trap_line(number)) {
            (Some(place), Some(line)) => {
                let words = format!("{} · line {}", place.function, text::count(u64::from(line) + 1));
                let wide = (ui.available_width() - 12.0).max(40.0);
                let shown = widgets::truncate_middle(ui, wide, &words, &mono());
                let r = widgets::link(ui, "Go to the trap", &shown);
                if r.on_hover_text(trap.to_string()).clicked() {
                    view.go_trap(data, number);
                }
            }
            (Some(place), None) => {
                let words = format!("{} at byte {:#x}", place.function, place.offset);
                ui.label(RichText::new(words).font(small()).color(p.quiet));
            }
            (None, _) => {
                let words = "the place in the program is unknown";
                ui.label(RichText::new(words).font(small()).color(p.quiet));
            }
        }
    });
}

fn parts(view: &mut View, ui: &mut Ui, copy: &RecordedCopy, shown: CopyPart) {
    let margin = egui::Margin {
        left: 8,
        ..egui::Margin::ZERO
    };
    // A narrow panel has two lines of them.
    let wrapped = |ui: &mut Ui| {
        for part in CopyPart::ALL {
            let label = match part {
                CopyPart::Calls => format!("calls {}", text::count(call_count(copy))),
                CopyPart::Stream(stream) => match stream_bytes(copy, stream) {
                    0 => short_name(stream).to_owned(),
                    bytes => format!("{} {}", short_name(stream), text::bytes(bytes)),
                },
            };
            let label = RichText::new(label).font(small());
            if ui.selectable_label(shown == part, label).clicked() {
                view.part = Some(part);
            }
        }
        if let CopyPart::Stream(_) = shown {
            let form = view.stream.form();
            let (name, other) = match form {
                StreamForm::Text => ("hex", StreamForm::Hex),
                StreamForm::Hex => ("text", StreamForm::Text),
            };
            let button = egui::Button::new(RichText::new(name).font(small())).frame_when_inactive(false);
            if ui.add(button).on_hover_text("change the form of the bytes").clicked() {
                view.stream.form = Some(other);
                view.stream.list.rows.top = 0.0;
            }
        }
    };
    let frame = egui::Frame::NONE.inner_margin(margin);
    frame.show(ui, |ui| ui.horizontal_wrapped(wrapped));
}

fn short_name(stream: CopyStream) -> &'static str {
    match stream {
        CopyStream::Input => "input",
        CopyStream::Output => "output",
        CopyStream::Error => "error",
    }
}

impl View {
    /// Shows the next or the previous part of a copy; after the last comes the first.
    pub(super) fn step_part(&mut self, data: &WasmRunData, copy: u32, forward: bool) {
        let Some(copy) = data.copies().copy(copy) else { return };
        let shown = self.part.unwrap_or_else(|| best_part(copy));
        let all = CopyPart::ALL;
        let here = all.iter().position(|part| *part == shown).unwrap_or(0);
        let by = if forward { 1 } else { all.len() - 1 };
        self.part = all.get((here + by) % all.len()).copied();
    }
}

impl StreamView {
    /// Returns the form of the bytes.
    fn form(&self) -> StreamForm {
        let natural = || self.rows.as_ref().map(|rows| rows.natural_form());
        self.form.or_else(natural).unwrap_or(StreamForm::Text)
    }

    fn take(&mut self, bytes: Option<Vec<u8>>) {
        self.damaged = bytes.is_none();
        self.rows = bytes.map(|bytes| Arc::new(StreamRows::new(bytes)));
    }
}

/// Reads the bytes of a stream if another one is shown.
fn read(view: &mut View, actions: &mut UiActions, data: &Arc<WasmRunData>, copy: u32, stream: CopyStream) {
    let key = Some((copy, stream));
    if view.stream.key == key {
        return;
    }
    view.stream = StreamView {
        key,
        ..StreamView::default()
    };
    let bytes = data.copies().copy(copy).map_or(0, |c| stream_bytes(c, stream));
    if bytes <= AT_ONCE {
        view.stream.take(data.copies().run().stream(copy as usize, stream));
        return;
    }
    let data = Arc::clone(data);
    actions.start_work::<View>("reading a stream of a copy", move |_| {
        let bytes = data.copies().run().stream(copy as usize, stream);
        Box::new(move |_, view, _| {
            if view.stream.key == key {
                view.stream.take(bytes);
            }
        })
    });
}

fn stream_ui(view: &mut StreamView, ui: &mut Ui, stream: CopyStream) {
    let Some(rows) = view.rows.clone() else {
        let message = match view.damaged {
            true => "The bytes are damaged. `kinescope check` says where.",
            false => "Reading…",
        };
        widgets::empty_state(ui, icons::HOURGLASS_SIMPLE_MEDIUM, message, None);
        return;
    };
    if rows.bytes().is_empty() {
        let message = format!("The {} is empty.", stream.name());
        widgets::empty_state(ui, icons::LIST, &message, None);
        return;
    }
    let form = view.form();
    let area = ui.available_rect_before_wrap();
    let room = area.width() - OFFSETS - 20.0;
    let bytes = if room >= 16.0 * 4.0 * DIGIT { 16 } else { 8 };
    let mut list = view.list;
    let count = rows.rows(form, bytes);
    list.show(ui, ("Bytes of the stream", count), OFFSETS, |ui, lines, row, rect| {
        let words = rows.row(form, bytes, row);
        let id = ui.scope_id().with(("stream", row));
        let r = lines.row(ui, rect, id, (words.clone(), false));
        let at = rows.offset(form, bytes, row).unwrap_or(0);
        let label = match form {
            StreamForm::Text => (row + 1).to_string(),
            StreamForm::Hex => format!("{at:06x}"),
        };
        lines.number(ui, rect, OFFSETS, &label);
        lines.code(ui, rect, words.clone(), mono_small(), palette(ui).text);
        r.context_menu(|ui| {
            if ui.button("Copy row").clicked() {
                ui.ctx().copy_text(words.clone());
                ui.close();
            }
            if form == StreamForm::Text && ui.button("Copy all").clicked() {
                ui.ctx().copy_text(String::from_utf8_lossy(rows.bytes()).into_owned());
                ui.close();
            }
        });
    });
    view.list = list;
}

/// Draws the system calls. A click goes to the event of a call.
fn calls(doc: &mut Document, view: &mut View, ui: &mut Ui, data: &WasmRunData, (number, copy): (u32, &RecordedCopy)) {
    let logged = copy.call_events.end.saturating_sub(copy.call_events.start);
    if logged == 0 {
        let message = match copy.lost_calls {
            0 => "The copy made no system call.".to_owned(),
            n => format!("{} were not recorded.", text::count_noun(n, "call", "calls")),
        };
        widgets::empty_state(ui, icons::LIST, &message, None);
        return;
    }
    // A last row says how many calls the log did not keep.
    let more = u64::from(copy.lost_calls > 0);
    let mut go = None;
    let mut list = view.calls;
    list.show(ui, "System calls", logged + more, |ui, row, rect| {
        let p = palette(ui);
        let inner = Rect::from_min_max(pos2(rect.left() + 12.0, rect.top()), rect.max);
        let Some(call) = data.copies().run().call(number as usize, row) else {
            let words = match row == logged {
                true => format!("and {}", text::count_noun(copy.lost_calls, "later call", "later calls")),
                false => "damaged".to_owned(),
            };
            paint_text(ui, inner, Align2::LEFT_CENTER, &words, small(), p.quiet);
            return;
        };
        let r = focus::row_response(ui, rect, ui.scope_id().with(("call", row)));
        let words = call.call.to_string();
        let selected = doc.current_event() == call.event;
        r.widget_info(|| WidgetInfo::selected(Role::Row, true, selected, format!("call {row} {words}")));
        if selected {
            widgets::select(ui, rect);
        } else if r.hovered() {
            ui.painter().rect_filled(rect, 0.0, p.raised);
        }
        let (_, cut) = widgets::paint_truncated(ui, inner, Align2::LEFT_CENTER, &words, mono_small(), p.text);
        let time = format!("at {} of virtual time", text::duration(call.call.time));
        let hover = if cut { format!("{words}\n{time}") } else { time };
        if r.on_hover_text(hover).clicked() {
            go = Some(call.event);
        }
    });
    view.calls = list;
    if let Some(event) = go {
        doc.go(event);
        view.seen_jump = doc.jumps;
    }
}
