//! The last writer of the selected byte: a copy or a fill for certain, a launch if a target saw it, or the launches
//! that may have written it.

use super::content::describe_state;
use super::view::Side;
use crate::panels::common::actions::UiActions;
use crate::panels::common::memory_trace_buttons;
use crate::theme::widgets::{self, StyledText};
use crate::theme::{palette, small};
use egui::{RichText, Ui};
use kinescope_files::scene::Selection;
use kinescope_session::{Document, api_trace, memory_trace, text};
use replay_engine::memory_trace::MemoryTraceRequest;
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::api_trace::{ApiTrace, BufferKind, CertainWriter, LastWriter};

/// Maximum number of launches that are listed.
const MAX_LISTED_LAUNCHES: usize = 12;

/// The key of an answer: the calls and the number of target reports, the byte, the event before which it holds.
type Key = (usize, u64, u64, u64);

/// The answer, and the memory trace request if several launches are possible.
type Answer = Arc<(LastWriter, Option<MemoryTraceRequest>)>;

/// Returns the answer, computed once for each byte and event.
fn find_last_writer(doc: &Document, ui: &Ui, api_trace: &Arc<ApiTrace>, va: u64, event: u64) -> Answer {
    let id = egui::Id::unique("who wrote the byte");
    let key: Key = (Arc::as_ptr(api_trace) as usize, api_trace.revision(), va, event);
    let kept: Option<(Key, Answer)> = ui.data(|d| d.get_temp(id));
    if let Some((_, who)) = kept.filter(|k| k.0 == key) {
        return who;
    }
    let who = api_trace.find_last_writer(&doc.recording, GpuVa::new(va), event);
    let request = memory_trace::request_for_byte(api_trace, &who, event);
    let who = Arc::new((who, request));
    ui.data_mut(|d| d.insert_temp(id, (key, Arc::clone(&who))));
    who
}

/// Draws the last writer of the first selected byte, also for the inspector. `side`: the side of the current event
/// that Memory shows; for both sides the state after the event counts.
pub fn last_writer_ui(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, side: Side) {
    let (Some(calls), Selection::Memory { va, bytes, .. }) = (doc.api_trace(), doc.selection().clone()) else {
        return;
    };
    let p = palette(ui);
    ui.spacing_mut().item_spacing.y = 0.0;
    let (event, when) = match side {
        Side::Before => (doc.current_event(), "before"),
        Side::After | Side::Both => (doc.current_event().saturating_add(1), "after"),
    };
    let answer = find_last_writer(doc, ui, &calls, va.get(), event);
    let (who, request) = &*answer;
    widgets::section(ui, "Memory");
    let name = match who.location {
        Some(place) => calls.buffers().format_location(place, event),
        None => "no buffer at the current event".to_owned(),
    };
    let row = widgets::key_value(ui, "location", StyledText::mono(&name));
    widgets::add_copy_menu(&row, &[("name", name.clone()), ("address", format!("{va:#x}"))]);
    widgets::key_value(ui, "address", StyledText::mono(format!("{va:#x}")));
    if bytes > 1 {
        widgets::key_value(
            ui,
            "selected",
            StyledText::mono(text::count_noun(bytes, "byte", "bytes")),
        );
    }
    if let Some(b) = who.location.and_then(|p| calls.buffers().get(p.buffer)) {
        let message = format!("{}, {}", text::bytes(b.bytes), b.kind.name());
        widgets::key_value(ui, "buffer", StyledText::body(message));
        if b.kind != BufferKind::Variable
            && b.kind != BufferKind::Preexisting
            && widgets::key_link(ui, "allocated", &format!("event {}", text::count(b.from))).clicked()
        {
            doc.go_keeping_target(b.from);
        }
    }
    input(doc, actions, ui, va.get());
    widgets::key_value(
        ui,
        "as of",
        StyledText::body(format!("{when} event {}", text::count(doc.current_event()))),
    );
    match who.byte {
        Some(b) => {
            widgets::key_value(ui, "byte", StyledText::mono(format!("{b:#04x}")));
        }
        None => {
            widgets::key_value(ui, "byte", StyledText::body("unknown").colour(p.quiet));
        }
    }
    widgets::key_wrapped(
        ui,
        "known",
        StyledText::body(describe_state(&calls, who.state)).colour(p.quiet),
    );
    writers(doc, actions, ui, &calls, who);
    trace_offer(doc, actions, ui, request.as_ref());
}

/// Draws the input that supplied the byte, which the user may edit.
fn input(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, va: u64) {
    let Some((name, by)) = doc
        .buffers
        .input_at(0, GpuVa::new(va))
        .map(|(b, by)| (b.name.clone(), by))
    else {
        return;
    };
    let edited = doc.changes().inputs().get(&name).is_some_and(|e| e.is_edited_at(by));
    let mark = if edited { "● " } else { "" };
    let r = widgets::key_link(ui, "input", &format!("{mark}{name} + {by:#x}"));
    if r.on_hover_text("show the values of the input to edit them").clicked() {
        doc.select(Selection::Buffer(name));
        actions.run_command("show-inputs");
    }
}

/// Draws what wrote the byte last: candidates among launches, a change that a target saw, a copy or a fill.
fn writers(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, api_trace: &ApiTrace, who: &LastWriter) {
    widgets::section(ui, "Last writer");
    candidates(doc, ui, api_trace, who);
    if let Some(c) = who.change {
        let r = widgets::key_link(ui, "changed by", &describe_launch(api_trace, c.launch));
        let message = format!(
            "event {} · from {:#04x} to {:#04x}, according to {}",
            text::count(c.event),
            c.before,
            c.after,
            api_trace::describe_targets(api_trace)
        );
        if r.on_hover_text(message).clicked() {
            doc.go_keeping_target(c.event);
        }
        widgets::key_value(
            ui,
            "from, to",
            StyledText::mono(format!("{:#04x}, {:#04x}", c.before, c.after)),
        );
    }
    if who.unrecorded {
        quiet_line(ui, api_trace::UNRECORDED.to_owned());
    }
    if let Some((event, writer)) = who.certain {
        certain_writer(doc, actions, ui, api_trace, event, writer);
    } else if who.launches.is_empty() && who.change.is_none() {
        let message = match who.allocated_at {
            Some(e) => format!("no writer since the allocation at event {}", text::count(e)),
            None if who.location.is_some() => "no writer in this recording".to_owned(),
            None => "no known buffer".to_owned(),
        };
        quiet_line(ui, message);
    }
    excluded_launches(ui, api_trace, who);
}

fn quiet_line(ui: &mut Ui, message: String) {
    let ink = palette(ui).quiet;
    ui.add(egui::Label::new(RichText::new(message).font(small()).color(ink)).wrap());
}

/// Returns the number of a launch and the short name of its kernel.
fn describe_launch(api_trace: &ApiTrace, launch: u32) -> String {
    let l = api_trace.launches().get(launch as usize);
    let name = l.map_or("", |l| api_trace.function_name(l.function));
    format!(
        "launch {} {}",
        text::count(u64::from(launch)),
        api_trace::short_function_name(name)
    )
}

/// Draws the launches that may have written the byte, each as a link.
fn candidates(doc: &mut Document, ui: &mut Ui, api_trace: &ApiTrace, who: &LastWriter) {
    for t in who.launches.iter().take(MAX_LISTED_LAUNCHES) {
        let Some(l) = api_trace.launches().get(t.launch as usize) else {
            continue;
        };
        let key = if t.reference.is_certain() {
            "candidate"
        } else {
            "possibly"
        };
        let r = widgets::key_link(ui, key, &describe_launch(api_trace, t.launch));
        let message = format!(
            "event {} · {}\n{}",
            text::count(t.event),
            t.reference.describe(),
            api_trace.function_name(l.function)
        );
        if r.on_hover_text(message).clicked() {
            doc.go_keeping_target(t.event);
        }
    }
    if who.launches.len() > MAX_LISTED_LAUNCHES {
        quiet_line(
            ui,
            format!(
                "and {} earlier launches",
                text::count((who.launches.len() - MAX_LISTED_LAUNCHES) as u64)
            ),
        );
    }
}

/// Draws the copy or fill that wrote the byte for certain.
fn certain_writer(
    doc: &mut Document,
    actions: &mut UiActions,
    ui: &mut Ui,
    api_trace: &ApiTrace,
    event: u64,
    writer: CertainWriter,
) {
    let what = match writer {
        CertainWriter::Copy => "copy from the host".to_owned(),
        CertainWriter::Fill => "fill".to_owned(),
        CertainWriter::CopyFrom(at) => format!("copy of {}", api_trace.buffers().format_address(at, event)),
    };
    let r = widgets::key_link(ui, "written by", &format!("event {}, {what}", text::count(event)));
    if r.on_hover_text(api_trace::describe_call(api_trace, &doc.recording, event))
        .clicked()
    {
        doc.go_keeping_target(event);
    }
    if let CertainWriter::CopyFrom(at) = writer {
        let r = widgets::key_link(ui, "copied from", &api_trace.buffers().format_address(at, event));
        if r.on_hover_text("go to the copy and select the source byte").clicked() {
            doc.go_with(
                event,
                Selection::Memory {
                    space: 0,
                    va: at,
                    bytes: 1,
                },
            );
            actions.run_command("show-memory");
        }
    }
}

/// Draws how many launches since then did not write the byte, or may have without a trace.
fn excluded_launches(ui: &mut Ui, api_trace: &ApiTrace, who: &LastWriter) {
    if who.excluded > 0 {
        let message = text::count_noun(who.excluded, "launch has", "launches have");
        let targets = api_trace::describe_targets(api_trace);
        quiet_line(
            ui,
            format!("{message} received its address since then and did not change it, according to {targets}"),
        );
    }
    if who.readers > 0 {
        let message = text::count_noun(who.readers, "launch has", "launches have");
        quiet_line(
            ui,
            format!("{message} received its address since then as a read-only parameter"),
        );
    }
    if who.others > 0 {
        let message = text::count_noun(who.others, "other launch", "other launches");
        quiet_line(
            ui,
            format!(
                "{message} since then without an address of this buffer in the arguments; addresses loaded from \
                 memory are not tracked"
            ),
        );
    }
}

/// Draws a button that traces memory on a target, if several launches are possible.
fn trace_offer(doc: &Document, actions: &mut UiActions, ui: &mut Ui, request: Option<&MemoryTraceRequest>) {
    if let Some(request) = request {
        ui.add_space(4.0);
        ui.horizontal(|ui| {
            let message = "the launch that changed this byte";
            memory_trace_buttons::button(doc, actions, ui, "last writer", message, || request.clone());
        });
    }
    memory_trace_buttons::show_last_failure(doc, ui);
}
