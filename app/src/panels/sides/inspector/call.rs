//! Details of a driver call: a launch with its arguments, a copy, a fill, a stream order, an allocation or a free.

use super::driver_event;
use crate::panels::api_trace::launches;
use crate::panels::common::actions::UiActions;
use crate::theme::palette;
use crate::theme::widgets::{self, StyledText};
use egui::Ui;
use kinescope_files::scene::Selection;
use kinescope_session::{Document, api_trace, text};
use trace_core::GpuVa;
use trace_core::api_trace::ApiTrace;
use trace_core::recording::{
    AllocationKind, CALL_ASYNC, CALL_CAPTURED, CALL_OF_GRAPH, CallEvent, CopyKind, CopyRow, NO_CONTENT, OrderKind,
    OrderRow,
};

/// Draws the details of the current call; returns `false` if the current event is no call.
pub(super) fn ui(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui) -> bool {
    let event = doc.current_event();
    let (Some(api_trace), Ok(at)) = (doc.api_trace(), usize::try_from(event)) else {
        return false;
    };
    let Some(call) = doc.recording.events.call(at) else {
        return false;
    };
    if let Some(n) = api_trace.launch_at(event) {
        launches::details(doc, actions, ui, n);
        driver_event::submission_links(doc, ui);
        return true;
    }
    let p = palette(ui);
    let title = match call {
        CallEvent::Launch(_) => "Launch captured into a graph",
        CallEvent::Copy(c) if c.stream == OrderRow::NONE => "Snapshot of memory",
        CallEvent::Copy(_) => "Copy",
        CallEvent::Fill(_) => "Fill",
        CallEvent::Order(_) => "Synchronization",
        CallEvent::Allocation(_) => "Memory",
        CallEvent::Call(_) => "Call",
    };
    widgets::section(ui, title);
    match &call {
        CallEvent::Launch(l) => {
            widgets::key_value(
                ui,
                "kernel",
                StyledText::mono(api_trace::short_function_name(api_trace.function_name(l.function))),
            );
        }
        CallEvent::Copy(c) => copy(doc, actions, ui, &api_trace, c, event),
        CallEvent::Fill(f) => {
            address_link(actions, ui, &api_trace, "to", f.to.get(), event);
            let bytes = f.row_bytes().and_then(|b| b.checked_mul(f.rows));
            widgets::key_value(
                ui,
                "size",
                StyledText::mono(bytes.map_or_else(|| "too large".into(), text::bytes)),
            );
            let value = text::hex(u64::from(f.value), f.element.clamp(1, 4) as u8);
            widgets::key_value(
                ui,
                "value",
                StyledText::mono(format!("{value}, {} bytes each", f.element)),
            );
            rows(ui, f.rows, f.pitch);
        }
        CallEvent::Order(o) => stream_order(doc, ui, &api_trace, o, event),
        CallEvent::Allocation(a) => {
            let takes = AllocationKind::from_raw(a.kind);
            let there = takes.is_some_and(|k| k.takes_device() || k == AllocationKind::TakeHost);
            address_link(
                actions,
                ui,
                &api_trace,
                "at",
                a.at.get(),
                if there { event + 1 } else { event },
            );
            widgets::key_value(ui, "size", StyledText::mono(text::bytes(a.bytes)));
        }
        CallEvent::Call(_) => {
            widgets::key_value(ui, "what", StyledText::mono(call.describe(Some(api_trace.metadata()))));
        }
    }
    if let Some(s) = call.stream() {
        widgets::key_value(ui, "stream", StyledText::body(api_trace.stream_name(s)));
    }
    let flags = match call {
        CallEvent::Launch(l) => l.flags,
        CallEvent::Copy(c) => c.flags,
        CallEvent::Fill(f) => f.flags,
        CallEvent::Order(o) => o.flags,
        CallEvent::Allocation(_) | CallEvent::Call(_) => 0,
    };
    for (bit, message) in [
        (CALL_CAPTURED, "captured into a graph; the device did not run it then"),
        (CALL_OF_GRAPH, "run by a graph launch"),
        (CALL_ASYNC, "asynchronous: returned before it was complete"),
    ] {
        if flags & bit != 0 {
            widgets::key_wrapped(ui, "how", StyledText::body(message).colour(p.quiet));
        }
    }
    widgets::failed_call(ui, call.result());
    widgets::key_value(
        ui,
        "host time",
        StyledText::mono(text::duration(u64::from(call.host_ns()))),
    );
    widgets::key_value(ui, "event", StyledText::mono(text::count(event)));
    widgets::key_value(ui, "time", StyledText::mono(doc.format_time(event)));
    driver_event::submission_links(doc, ui);
    true
}

/// Draws a device address as a link to memory.
fn address_link(actions: &mut UiActions, ui: &mut Ui, api_trace: &ApiTrace, key: &str, at: u64, event: u64) {
    let r = widgets::key_link(ui, key, &api_trace.buffers().format_address(GpuVa::new(at), event));
    let r = r.on_hover_text(format!("{at:#x}"));
    widgets::add_copy_menu(&r, &[("address", format!("{at:#x}"))]);
    if r.clicked() {
        actions.show_memory(Some(0), GpuVa::new(at), 16);
        actions.run_command("show-memory");
    }
}

fn copy(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, api_trace: &ApiTrace, c: &CopyRow, event: u64) {
    let p = palette(ui);
    let way = CopyKind::from_raw(c.kind);
    let host = |ui: &mut Ui, key: &str, at: u64| {
        let message = if at == 0 {
            "host".to_owned()
        } else {
            format!("host {at:#x}")
        };
        widgets::key_value(ui, key, StyledText::mono(message).colour(p.quiet));
    };
    match way {
        Some(CopyKind::HostToDevice) => {
            host(ui, "from", c.from);
            address_link(actions, ui, api_trace, "to", c.to, event);
        }
        Some(CopyKind::DeviceToHost) => {
            address_link(actions, ui, api_trace, "from", c.from, event);
            host(ui, "to", c.to);
        }
        Some(CopyKind::DeviceToDevice) => {
            address_link(actions, ui, api_trace, "from", c.from, event);
            address_link(actions, ui, api_trace, "to", c.to, event);
        }
        Some(CopyKind::Other) | None => {
            widgets::key_value(ui, "direction", StyledText::body("to or from an array"));
        }
    }
    widgets::key_value(
        ui,
        "size",
        StyledText::mono(c.total().map_or_else(|| "too large".into(), text::bytes)),
    );
    let carried = doc.buffers.find_by_copy(event, c).map(|b| b.name.clone());
    if let Some(name) = carried {
        let edited = doc.changes().inputs().contains_key(&name);
        let words = if edited { format!("● {name}") } else { name.clone() };
        let r = widgets::key_link(ui, "carries", &words);
        if r.on_hover_text("show its values; values that go to the device can be edited")
            .clicked()
        {
            doc.select(Selection::Buffer(name));
            actions.run_command("show-inputs");
        }
    }
    rows(
        ui,
        c.rows,
        if way == Some(CopyKind::DeviceToHost) {
            c.from_pitch
        } else {
            c.to_pitch
        },
    );
    if way != Some(CopyKind::DeviceToDevice) && c.pages_at == NO_CONTENT {
        widgets::key_value(
            ui,
            "content",
            StyledText::body("! not in the recording").colour(p.warning),
        );
    }
}

fn rows(ui: &mut Ui, rows: u64, pitch: u64) {
    if rows > 1 {
        let message = format!(
            "{}, {} apart",
            text::count_noun(rows, "row", "rows"),
            text::bytes(pitch)
        );
        widgets::key_value(ui, "rows", StyledText::mono(message));
    }
}

/// Draws a stream order, and which stream waits for which.
fn stream_order(doc: &mut Document, ui: &mut Ui, api_trace: &ApiTrace, o: &OrderRow, event: u64) {
    let message = match OrderKind::from_raw(o.kind) {
        Some(OrderKind::Record) => "an event after the work in the stream",
        Some(OrderKind::StreamWaits) => "the stream waits for an event",
        Some(OrderKind::StreamDone) => "the host waits for the stream",
        Some(OrderKind::EventDone) => "the host waits for an event",
        Some(OrderKind::ContextDone) => "the host waits for all streams",
        Some(OrderKind::HostFunction) => "a host function in the stream",
        None => "unknown kind",
    };
    widgets::key_wrapped(ui, "what", StyledText::body(message));
    if o.event != OrderRow::NONE {
        widgets::key_value(ui, "event no.", StyledText::mono(o.event.to_string()));
    }
    let waits = api_trace.order().edges_in(event..event + 1).first().copied();
    if let Some(e) = waits {
        let summary = format!(
            "event {}, {}",
            text::count(e.from),
            api_trace.stream_name(e.from_stream)
        );
        if widgets::key_link(ui, "waits for", &summary).clicked() {
            doc.go(e.from);
        }
    }
}
