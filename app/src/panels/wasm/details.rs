//! Details of the selected copy: its end, the bytes of its streams, its system calls.

use super::bar::{state_colour, state_mark};
use super::copies::stream_bytes;
use super::view::{DetailsPage, StreamView, View};
use crate::panels::common::actions::UiActions;
use crate::theme::widgets::{self, paint_text};
use crate::theme::{focus, icons, mono, mono_small, palette, small};
use egui::accesskit::Role;
use egui::{Align2, Rect, RichText, Ui, WidgetInfo, pos2};
use kinescope_session::wasm_run::{StreamForm, StreamRows, WasmRunData, call_count};
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
    let selected = view.copy.and_then(|copy| Some((copy, data.copy(copy)?)));
    let Some((number, copy)) = selected else {
        widgets::empty_state(ui, icons::CPU, "Select a copy to see its input and output.", None);
        return;
    };
    heading(view, ui, data, (number, copy));
    let page = view.page.unwrap_or_else(|| best_page(copy));
    pages(view, ui, copy, page);
    match page {
        DetailsPage::Stream(stream) => {
            read(view, actions, data, number, stream);
            stream_ui(&mut view.stream, ui, stream);
        }
        DetailsPage::Calls => calls(doc, view, ui, data, (number, copy)),
    }
}

/// Returns the part that says most: the error output if there is one, else the output, else the input.
fn best_page(copy: &RecordedCopy) -> DetailsPage {
    let streams = [CopyStream::Error, CopyStream::Output];
    let found = streams.into_iter().find(|s| stream_bytes(copy, *s) > 0);
    DetailsPage::Stream(found.unwrap_or(CopyStream::Input))
}

fn heading(view: &mut View, ui: &mut Ui, data: &WasmRunData, (number, copy): (u32, &RecordedCopy)) {
    let p = palette(ui);
    let Some(state) = data.state(number) else { return };
    ui.horizontal(|ui| {
        ui.set_height(28.0);
        ui.add_space(10.0);
        let name = RichText::new(&copy.name).font(mono()).color(p.text);
        ui.add(egui::Label::new(name).truncate());
        let ink = state_colour(p, state);
        let summary = match data.trap(number) {
            Some(trap) => trap.kind.name().to_owned(),
            None => copy.end.to_string(),
        };
        let summary = RichText::new(format!("{} {summary}", state_mark(state))).color(ink);
        ui.add(egui::Label::new(summary).truncate());
    });
    let Some(trap) = data.trap(number) else { return };
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

fn pages(view: &mut View, ui: &mut Ui, copy: &RecordedCopy, page: DetailsPage) {
    let streams = [
        ("input", CopyStream::Input),
        ("output", CopyStream::Output),
        ("error", CopyStream::Error),
    ];
    // A narrow panel has two lines of them.
    ui.horizontal_wrapped(|ui| {
        ui.add_space(8.0);
        for (name, stream) in streams {
            let label = match stream_bytes(copy, stream) {
                0 => name.to_owned(),
                bytes => format!("{name} {}", text::bytes(bytes)),
            };
            let label = RichText::new(label).font(small());
            let of_stream = DetailsPage::Stream(stream);
            if ui.selectable_label(page == of_stream, label).clicked() {
                view.page = Some(of_stream);
            }
        }
        let label = RichText::new(format!("calls {}", text::count(call_count(copy)))).font(small());
        if ui.selectable_label(page == DetailsPage::Calls, label).clicked() {
            view.page = Some(DetailsPage::Calls);
        }
        if let DetailsPage::Stream(_) = page {
            let form = view.stream.form();
            let (name, other) = match form {
                StreamForm::Text => ("hex", StreamForm::Hex),
                StreamForm::Hex => ("text", StreamForm::Text),
            };
            let button = egui::Button::new(RichText::new(name).font(small())).frame_when_inactive(false);
            if ui.add(button).on_hover_text("change the form of the bytes").clicked() {
                view.stream.form = Some(other);
                view.stream.list.top = 0.0;
            }
        }
    });
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
    let bytes = data.copy(copy).map_or(0, |c| stream_bytes(c, stream));
    if bytes <= AT_ONCE {
        view.stream.take(data.run().stream(copy as usize, stream));
        return;
    }
    let data = Arc::clone(data);
    actions.start_work::<View>("reading a stream of a copy", move |_| {
        let bytes = data.run().stream(copy as usize, stream);
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
    let width = view.widest + OFFSETS + 16.0;
    let offset = view.sideways.scroll(ui, area, width);
    let clip = area.with_min_x(area.left() + OFFSETS);
    let mut widest = view.widest;
    let mut list = view.list;
    list.show(ui, "Bytes of the stream", rows.rows(form, bytes), |ui, row, rect| {
        let p = palette(ui);
        let words = rows.row(form, bytes, row);
        let r = focus::row_response(ui, rect, ui.scope_id().with(("stream", row)));
        r.widget_info(|| WidgetInfo::labeled(Role::Row, true, words.clone()));
        if r.hovered() {
            ui.painter().rect_filled(rect, 0.0, p.raised);
        }
        let at = rows.offset(form, bytes, row).unwrap_or(0);
        let label = match form {
            StreamForm::Text => (row + 1).to_string(),
            StreamForm::Hex => format!("{at:06x}"),
        };
        let number = Rect::from_min_max(rect.min, pos2(rect.left() + OFFSETS - 10.0, rect.bottom()));
        paint_text(ui, number, Align2::RIGHT_CENTER, &label, mono_small(), p.quiet);
        let galley = ui.painter().layout_no_wrap(words.clone(), mono_small(), p.text);
        widest = widest.max(galley.size().x);
        let place = pos2(rect.left() + OFFSETS - offset, rect.center().y - galley.size().y / 2.0);
        let inside = ui.painter().with_clip_rect(clip.intersect(ui.clip_rect()));
        inside.galley(place, galley, p.text);
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
    view.widest = widest;
    view.sideways.bar(ui, "Bytes of the stream", area, width);
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
        let Some(call) = data.run().call(number as usize, row) else {
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
