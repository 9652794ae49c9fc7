//! Details of an event of a WebAssembly run: a system call, a stream, the start or the end of a copy, the run itself.

use crate::panels::common::actions::{CopyRequest, UiActions};
use crate::panels::common::copy_state::{state_colour, state_mark};
use crate::theme::widgets::{self, StyledText, paint_truncated};
use crate::theme::{ROW, icons, mono, mono_small, palette, small};
use egui::accesskit::Role;
use egui::{Align2, RichText, Sense, Ui, WidgetInfo, vec2};
use kinescope_session::wasm_run::{
    CallDetails, CopyPart, CopyState, MovedBytes, RunCopies, StreamForm, StreamRows, describe_arguments, describe_end,
    describe_result, function_name, is_wasm_run,
};
use kinescope_session::{Document, text};
use std::sync::Arc;
use trace_core::recording::CallEvent;
use wasm_recording::CopyStream;

/// Maximum number of lines of text, and of rows of hexadecimal bytes.
const TEXT_ROWS: u64 = 8;
const HEX_ROWS: u64 = 12;
/// Width from which a row has eight bytes, points.
const EIGHT_BYTES: f32 = 258.0;

/// The details of a call, read once: recording, event, details.
type CachedDetails = (usize, u64, Option<Arc<CallDetails>>);

/// Draws the details of the current event; returns `false` if the recording has no readable run.
pub(super) fn ui(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui) -> bool {
    let Some(copies) = doc.derived.run_copies().filter(|_| is_wasm_run(&doc.recording)) else {
        return false;
    };
    let copies = Arc::clone(copies);
    let event = doc.current_event();
    let Some(copy) = copies.find_copy_at(event) else {
        match launch_number(&copies, event, doc.len()) {
            Some(number) => launch(doc, ui, &copies, number),
            None => run(ui, actions, &copies),
        }
        return true;
    };
    match details(doc, ui, &copies) {
        Some(call) => system_call(doc, actions, ui, &copies, &call),
        None => part_of_copy(doc, actions, ui, &copies, copy),
    }
    true
}

/// Returns the details of the current event if it is a system call.
fn details(doc: &Document, ui: &Ui, copies: &RunCopies) -> Option<Arc<CallDetails>> {
    let id = egui::Id::unique("details of a system call");
    let (key, event) = (Arc::as_ptr(&doc.recording) as usize, doc.current_event());
    let cached: Option<CachedDetails> = ui.data(|d| d.get_temp(id));
    if let Some((_, _, details)) = cached.filter(|(k, e, _)| (*k, *e) == (key, event)) {
        return details;
    }
    let details = copies.call_details(event).map(Arc::new);
    ui.data_mut(|d| d.insert_temp(id, (key, event, details.clone())));
    details
}

fn system_call(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, copies: &RunCopies, details: &CallDetails) {
    let p = palette(ui);
    let call = &details.call;
    widgets::section(ui, "System call");
    ui.label(RichText::new(function_name(call)).font(mono()));
    ui.add_space(4.0);
    copy_links(actions, ui, copies, details.copy);
    let Some(copy) = copies.copy(details.copy) else { return };
    let logged = copy.call_events.end.saturating_sub(copy.call_events.start);
    let number = format!("{} of {}", text::count(details.index + 1), text::count(logged));
    widgets::key_value(ui, "call", StyledText::mono(number));
    widgets::key_value(ui, "event", StyledText::mono(text::count(doc.current_event())));
    let time = widgets::key_value(ui, "time", StyledText::mono(text::duration(call.time)));
    time.on_hover_text("on the virtual clock of the copy");
    let arguments = describe_arguments(call);
    if !arguments.is_empty() {
        widgets::section(ui, "Arguments");
        for (name, value) in arguments {
            let r = widgets::key_value(ui, name, StyledText::mono(&value));
            widgets::add_copy_menu(&r, &[("value", value)]);
        }
    }
    widgets::section(ui, "Result");
    let (result, failed) = describe_result(call);
    let shown = match failed {
        true => StyledText::mono(format!("▲ {result}")).colour(p.error),
        false => StyledText::mono(&result),
    };
    widgets::add_copy_menu(&widgets::key_value(ui, "result", shown), &[("result", result)]);
    if call.bytes > 0 {
        let bytes = text::count_noun(call.bytes.into(), "byte", "bytes");
        widgets::key_value(ui, "moved", StyledText::mono(bytes));
    }
    if let Some(moved) = &details.moved {
        moved_bytes(actions, ui, details.copy, moved);
    }
    ui.add_space(8.0);
    ui.horizontal_wrapped(|ui| {
        neighbours(doc, ui, copy.call_events.clone());
        if ui.button("Show calls").clicked() {
            actions.show_copy(CopyRequest::Copy(details.copy, Some(CopyPart::Calls)));
        }
    });
}

/// Draws the buttons that go to the previous and the next call of the copy.
fn neighbours(doc: &mut Document, ui: &mut Ui, calls: std::ops::Range<u64>) {
    let event = doc.current_event();
    let before = event.checked_sub(1).filter(|e| calls.contains(e));
    let after = event.checked_add(1).filter(|e| calls.contains(e));
    for (to, icon, title, none) in [
        (
            before,
            icons::CARET_LEFT,
            "Previous call",
            "This is the first call of the copy",
        ),
        (
            after,
            icons::CARET_RIGHT,
            "Next call",
            "This is the last call of the copy",
        ),
    ] {
        let number = to.map(|e| text::count(e - calls.start + 1)).unwrap_or_default();
        let label = match icon == icons::CARET_LEFT {
            true => format!("{icon} {number}"),
            false => format!("{number} {icon}"),
        };
        let button = egui::Button::new(RichText::new(label.trim()).font(mono()));
        let r = ui.add_enabled(to.is_some(), button);
        r.widget_info(|| WidgetInfo::labeled(Role::Button, to.is_some(), title));
        let r = r
            .on_hover_text(format!("{title} of the copy"))
            .on_disabled_hover_text(none);
        if let Some(to) = to.filter(|_| r.clicked()) {
            doc.go(to);
        }
    }
}

/// Draws the links to a copy and to its input.
fn copy_links(actions: &mut UiActions, ui: &mut Ui, copies: &RunCopies, number: u32) {
    let Some(copy) = copies.copy(number) else { return };
    let all = text::count(copies.run().copies().len() as u64);
    let words = format!("{} of {all}", text::count(u64::from(number) + 1));
    let link = widgets::key_link(ui, "copy", &words);
    if link.on_hover_text("show the copy in WebAssembly").clicked() {
        actions.show_copy(CopyRequest::Copy(number, None));
    }
    let link = widgets::key_link(ui, "input", &copy.name);
    widgets::add_copy_menu(&link, &[("name of the input", copy.name.clone())]);
    if link.on_hover_text("show the bytes of the input").clicked() {
        let input = CopyPart::Stream(CopyStream::Input);
        actions.show_copy(CopyRequest::Copy(number, Some(input)));
    }
}

/// Draws the bytes that a call moved: lines if they are text, and hexadecimal bytes.
fn moved_bytes(actions: &mut UiActions, ui: &mut Ui, copy: u32, moved: &MovedBytes) {
    let p = palette(ui);
    let (verb, place) = match moved.stream {
        CopyStream::Input => ("Read from", "input"),
        CopyStream::Output | CopyStream::Error => ("Written to", "output"),
    };
    widgets::section(ui, &format!("{verb} {}", moved.stream.name()));
    let part = CopyPart::Stream(moved.stream);
    let range = format!("{:#x}..{:#x}", moved.range.start, moved.range.end);
    let link = widgets::key_link(ui, "bytes", &range);
    widgets::add_copy_menu(&link, &[("range", range)]);
    if link.on_hover_text(format!("show the whole {place}")).clicked() {
        actions.show_copy(CopyRequest::Copy(copy, Some(part)));
    }
    let Some(bytes) = moved.bytes.clone() else {
        let message = "The bytes are damaged. `kinescope check` says where.";
        ui.add(egui::Label::new(RichText::new(message).color(p.warning)).wrap());
        return;
    };
    let rows = StreamRows::new(bytes);
    if rows.natural_form() == StreamForm::Text {
        let count = rows.rows(StreamForm::Text, 0);
        for row in 0..count.min(TEXT_ROWS) {
            line(ui, "", &rows.row(StreamForm::Text, 0, row));
        }
        if count > TEXT_ROWS {
            quiet(ui, &format!("and {} more lines", text::count(count - TEXT_ROWS)));
        }
        ui.add_space(4.0);
    }
    let width = if ui.available_width() >= EIGHT_BYTES { 8 } else { 4 };
    let count = rows.rows(StreamForm::Hex, width).min(HEX_ROWS);
    for row in 0..count {
        let offset = moved.range.start.saturating_add(row * width as u64);
        line(ui, &format!("{offset:04x} "), &rows.row(StreamForm::Hex, width, row));
    }
    let shown = count.saturating_mul(width as u64);
    let all = moved.range.end.saturating_sub(moved.range.start);
    if let Some(more) = all.checked_sub(shown).filter(|n| *n > 0) {
        quiet(
            ui,
            &format!("and {}", text::count_noun(more, "more byte", "more bytes")),
        );
    }
}

/// Draws a line of bytes after its offset; the tooltip has all of it.
fn line(ui: &mut Ui, offset: &str, words: &str) {
    let p = palette(ui);
    let (rect, r) = ui.allocate_exact_size(vec2(ui.available_width(), ROW - 3.0), Sense::hover());
    let label = format!("{offset}{words}");
    r.widget_info(|| WidgetInfo::labeled(Role::Label, true, &label));
    let (left, _) = paint_truncated(ui, rect, Align2::LEFT_CENTER, offset, mono_small(), p.quiet);
    let rest = rect.with_min_x(rect.left() + left);
    let (_, cut) = paint_truncated(ui, rest, Align2::LEFT_CENTER, words, mono_small(), p.text);
    if cut {
        r.on_hover_text(RichText::new(words).font(mono_small()));
    }
}

fn quiet(ui: &mut Ui, words: &str) {
    ui.label(RichText::new(words).font(small()).color(palette(ui).quiet));
}

/// Draws an event of a copy that is no system call: its start, a stream, calls that the log did not keep, its end.
fn part_of_copy(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, copies: &RunCopies, number: u32) {
    let event = doc.current_event();
    let Some(copy) = copies.copy(number) else { return };
    let row = usize::try_from(event).ok().and_then(|at| doc.recording.events.call(at));
    let stream = match row {
        Some(CallEvent::Copy(row)) => CopyStream::ALL.into_iter().find(|s| *s as u32 == row.stream),
        _ => None,
    };
    let title = match stream {
        Some(CopyStream::Input) => "Standard input of a copy",
        Some(CopyStream::Output) => "Standard output of a copy",
        Some(CopyStream::Error) => "Standard error of a copy",
        None if event == copy.events.start => "Start of a copy",
        None if event + 1 == copy.events.end => "End of a copy",
        None => "System calls that were not recorded",
    };
    widgets::section(ui, title);
    copy_links(actions, ui, copies, number);
    if let Some(stream) = stream {
        let bytes = copy.stream_bytes.get(stream as usize).copied().unwrap_or(0);
        let link = widgets::key_link(ui, "bytes", &text::bytes(bytes));
        if link.on_hover_text("show the bytes").clicked() {
            actions.show_copy(CopyRequest::Copy(number, Some(CopyPart::Stream(stream))));
        }
    }
    let state = CopyState::new(copy);
    let end = StyledText::body(format!("{} {}", state_mark(state), describe_end(copy)));
    widgets::key_value(ui, "end", end.colour(state_colour(palette(ui), state)));
    if let Some(place) = copies.trap(number).and_then(|trap| trap.place.as_ref()) {
        let link = widgets::key_link(ui, "trapped in", &place.function);
        let hover = format!("byte {:#x} of the program\nshow the line", place.offset);
        if link.on_hover_text(hover).clicked() {
            actions.show_copy(CopyRequest::Trap(number));
        }
    }
    let logged = copy.call_events.end.saturating_sub(copy.call_events.start);
    let link = widgets::key_link(ui, "system calls", &text::count(logged));
    if link.on_hover_text("show the system calls").clicked() {
        actions.show_copy(CopyRequest::Copy(number, Some(CopyPart::Calls)));
    }
    if copy.lost_calls > 0 {
        let lost = format!("! {}", text::count(copy.lost_calls));
        let r = widgets::key_value(ui, "not recorded", StyledText::mono(lost).colour(palette(ui).warning));
        r.on_hover_text("the log of a copy is limited: `--limit-calls`");
    }
    widgets::key_value(ui, "event", StyledText::mono(text::count(event)));
}

/// Returns the number of the launch at an event. Launches are the last events.
fn launch_number(copies: &RunCopies, event: u64, events: u64) -> Option<usize> {
    let first = events.checked_sub(copies.run().launches().len() as u64)?;
    usize::try_from(event.checked_sub(first)?).ok()
}

/// Draws a launch of a GPU or the interpreter: it runs copies until each ends or waits for the host.
fn launch(doc: &Document, ui: &mut Ui, copies: &RunCopies, number: usize) {
    let run = copies.run();
    let Some(launch) = run.launches().get(number) else {
        return;
    };
    widgets::section(ui, "Launch");
    let all = text::count(run.launches().len() as u64);
    let words = format!("{} of {all}", text::count(number as u64 + 1));
    widgets::key_value(ui, "launch", StyledText::mono(words));
    widgets::key_value(ui, "target", StyledText::mono(&run.target().name));
    widgets::key_value(ui, "copies", StyledText::mono(text::count(launch.copies.into())));
    let start = widgets::key_value(ui, "started at", StyledText::mono(text::duration(launch.start)));
    start.on_hover_text("since the start of the run, on the clock of the target");
    widgets::key_value(ui, "ran for", StyledText::mono(text::duration(launch.duration)));
    widgets::key_value(ui, "event", StyledText::mono(text::count(doc.current_event())));
}

/// Draws the run: program, target, inputs, and the copies by state.
fn run(ui: &mut Ui, actions: &mut UiActions, copies: &RunCopies) {
    let run = copies.run();
    let target = run.target();
    widgets::section(ui, "WebAssembly run");
    ui.add(egui::Label::new(RichText::new(run.program_name()).font(mono())).truncate());
    ui.add_space(4.0);
    widgets::key_value(ui, "program", StyledText::mono(text::bytes(run.program().len() as u64)));
    if !target.name.is_empty() {
        widgets::key_value(ui, "target", StyledText::mono(&target.name));
    }
    let at_once = text::count_noun(target.copies.into(), "copy", "copies");
    widgets::key_value(ui, "at once", StyledText::mono(at_once));
    for (name, time) in [("compiled in", target.compile_ns), ("ran in", target.run_ns)] {
        if time > 0 {
            widgets::key_value(ui, name, StyledText::mono(text::duration(time)));
        }
    }
    widgets::key_value(ui, "function", StyledText::mono(&run.options().function));
    widgets::section(ui, "Copies");
    let all = run.copies().len() as u64;
    if widgets::key_link(ui, "all", &text::count(all)).clicked() {
        actions.show_copy(CopyRequest::State(None));
    }
    for state in CopyState::ALL {
        let count = copies.count(state);
        if count > 0 && widgets::key_link(ui, state.name(), &text::count(count)).clicked() {
            actions.show_copy(CopyRequest::State(Some(state)));
        }
    }
}
