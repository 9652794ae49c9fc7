//! Details of a launch: its kernel, dimensions, and arguments, each address a link into memory.

use crate::panels::common::actions::{PanelAction, UiActions};
use crate::panels::common::memory_trace_buttons;
use crate::theme::widgets::{self, StyledText};
use crate::theme::{palette, small};
use egui::{RichText, Ui};
use kinescope_session::{Document, api_trace, text};
use replay_engine::memory_trace::MemoryTraceRequest;
use trace_core::GpuVa;
use trace_core::api_trace::{ApiTrace, Argument, Value};
use trace_core::recording::{CALL_OF_GRAPH, LaunchRow};

/// Maximum number of listed arguments, and of addresses of one argument.
const MAX_LISTED_ARGUMENTS: usize = 128;

/// Draws the details, also for the inspector.
pub fn details(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, launch: u32) {
    let p = palette(ui);
    let Some(api_trace) = doc.api_trace() else { return };
    let Some(l) = api_trace.launches().get(launch as usize).copied() else {
        return;
    };
    let Some(row) = api_trace::launch(&doc.recording, l.event) else {
        return;
    };
    ui.spacing_mut().item_spacing.y = 0.0;
    widgets::section(ui, &format!("Launch {}", text::count(u64::from(launch))));
    let name = api_trace.function_name(l.function);
    let link = widgets::key_link(ui, "kernel", api_trace::short_function_name(name));
    if link.on_hover_text(name).clicked() {
        actions.push(PanelAction::Kernel(l.function));
        actions.run_command("show-kernel");
    }
    if widgets::key_link(ui, "event", &text::count(l.event)).clicked() {
        doc.go(l.event);
    }
    dimensions(ui, &api_trace, &row);
    widgets::failed_call(ui, row.result);
    widgets::key_value(ui, "host time", StyledText::mono(text::duration(u64::from(row.took))));
    let arguments = api_trace.arguments(&doc.recording, l.event, &row);
    widgets::section(ui, "Arguments");
    if arguments.is_empty() {
        ui.label(RichText::new("none").font(small()).color(p.quiet));
    }
    for a in arguments.iter().take(MAX_LISTED_ARGUMENTS) {
        argument(actions, ui, &api_trace, a);
    }
    if arguments.len() > MAX_LISTED_ARGUMENTS {
        let more = format!(
            "and {} more",
            text::count((arguments.len() - MAX_LISTED_ARGUMENTS) as u64)
        );
        ui.label(RichText::new(more).font(small()).color(p.quiet));
    }
    widgets::section(ui, "Memory");
    if widgets::link(ui, "memory before and after the launch", "before and after").clicked() {
        if let Some((to, _)) = arguments.iter().rev().find_map(find_writable_buffer) {
            actions.show_memory(Some(0), to, 16);
        }
        actions.push(PanelAction::BeforeAfter);
        actions.run_command("show-memory");
    }
    show_changed_memory(doc, actions, ui, &api_trace, l.event);
}

/// Draws the memory that the launch changed, as a target traced it; or a button that traces it on a target.
fn show_changed_memory(doc: &Document, actions: &mut UiActions, ui: &mut Ui, api_trace: &ApiTrace, event: u64) {
    let p = palette(ui);
    let quiet = |ui: &mut Ui, message: &str| {
        ui.add(egui::Label::new(RichText::new(message).font(small()).color(p.quiet)).wrap());
    };
    if let Some(left) = api_trace.launch_changes(event) {
        for l in left.list.iter().take(MAX_LISTED_ARGUMENTS) {
            let name = api_trace::format_change_location(api_trace, l, event);
            let summary = text::bytes(l.bytes);
            let r = widgets::key_link(ui, "changed", &format!("{name}, {summary}"));
            let hover = format!(
                "{} of {name} between {:#x} and {:#x} differ after the launch, according to {}",
                text::count_noun(l.bytes, "byte", "bytes"),
                l.span.start,
                l.span.end,
                api_trace::describe_targets(api_trace)
            );
            if r.on_hover_text(hover).clicked() {
                actions.show_memory(Some(0), l.span.start, 16);
                actions.push(PanelAction::BeforeAfter);
                actions.run_command("show-memory");
            }
        }
        match left.list.len() {
            0 if left.complete => quiet(ui, "no memory changed"),
            0 => quiet(ui, "no traced memory changed"),
            n if n > MAX_LISTED_ARGUMENTS => quiet(ui, &format!("and {} more buffers", n - MAX_LISTED_ARGUMENTS)),
            _ => {}
        }
        if left.complete {
            return;
        }
    }
    ui.add_space(4.0);
    ui.horizontal(|ui| {
        let message = "the memory that this launch changed";
        memory_trace_buttons::button(doc, actions, ui, "changes", message, || {
            MemoryTraceRequest::for_launch(event, Vec::new())
        });
    });
    memory_trace_buttons::show_last_failure(doc, ui);
}

/// Returns the first address of an argument that the launch may write through.
fn find_writable_buffer(a: &Argument) -> Option<(GpuVa, trace_core::api_trace::BufferLocation)> {
    match &a.value {
        Value::Pointer { constant: true, .. } => None,
        _ => a.pointers().next(),
    }
}

fn dimensions(ui: &mut Ui, api_trace: &ApiTrace, row: &LaunchRow) {
    let p = palette(ui);
    let threads = text::count(row.threads());
    widgets::key_value(ui, "grid", StyledText::mono(api_trace::format_dims(row.grid)));
    widgets::key_value(ui, "block", StyledText::mono(api_trace::format_dims(row.block)));
    widgets::key_value(ui, "threads", StyledText::mono(threads).colour(p.quiet));
    if row.cluster != [0; 3] {
        widgets::key_value(ui, "cluster", StyledText::mono(api_trace::format_dims(row.cluster)));
    }
    if row.shared > 0 {
        let message = format!("{} dynamic", text::bytes(u64::from(row.shared)));
        widgets::key_value(ui, "shared", StyledText::mono(message));
    }
    if row.flags & LaunchRow::COOPERATIVE != 0 {
        widgets::key_value(ui, "cooperative", StyledText::body("all blocks run at once"));
    }
    widgets::key_value(ui, "stream", StyledText::body(api_trace.stream_name(row.stream)));
    if row.flags & CALL_OF_GRAPH != 0 {
        widgets::key_value(ui, "graph", StyledText::body("run by a graph launch"));
    }
}

/// Draws an argument: number and type, then its value; addresses are links to memory.
fn argument(actions: &mut UiActions, ui: &mut Ui, api_trace: &ApiTrace, a: &Argument) {
    let p = palette(ui);
    let key = a.label();
    let kind = match a.parameter.name.as_str() {
        "" => format!("{} bytes", a.parameter.bytes),
        name => name.to_owned(),
    };
    let hover = format!("argument {} · {kind} · offset {:#x}", a.index, a.parameter.offset);
    match &a.value {
        Value::Pointer {
            to, place, constant, ..
        } if *to != GpuVa::ZERO => {
            let words = match place {
                Some(place) => api_trace.buffers().format_location(*place, a.event),
                None => format!("{to:#x}"),
            };
            let r = widgets::key_link(ui, &key, &words);
            let how = if *constant { "\nread-only by its signature" } else { "" };
            let r = r.on_hover_text(format!("{hover}\n{to:#x}{how}"));
            widgets::add_copy_menu(&r, &[("address", format!("{to:#x}")), ("name", words)]);
            if r.clicked() {
                actions.show_memory(Some(0), *to, 16);
                actions.run_command("show-memory");
            }
        }
        Value::Bytes(list) => {
            let message = text::count_noun(a.raw.len() as u64, "byte", "bytes");
            widgets::key_value(ui, &key, StyledText::mono(message)).on_hover_text(&hover);
            for (at, to, place) in list.iter().take(MAX_LISTED_ARGUMENTS) {
                let words = api_trace.buffers().format_location(*place, a.event);
                let r = widgets::key_link(ui, &format!("  + {at:#x}"), &words);
                let r = r.on_hover_text(format!(
                    "a word of argument {} that may be an address: {to:#x}",
                    a.index
                ));
                widgets::add_copy_menu(&r, &[("address", format!("{to:#x}")), ("name", words)]);
                if r.clicked() {
                    actions.show_memory(Some(0), *to, 16);
                    actions.run_command("show-memory");
                }
            }
        }
        Value::Missing => {
            widgets::key_value(ui, &key, StyledText::body("not recorded").colour(p.warning)).on_hover_text(&hover);
        }
        _ => {
            let words = a.describe(api_trace);
            let r = widgets::key_value(ui, &key, StyledText::mono(&words)).on_hover_text(&hover);
            widgets::add_copy_menu(&r, &[("value", words)]);
        }
    }
}
