//! What is known of a launch: its kernel, dimensions, and arguments, each address a link into memory.

use crate::document::Document;
use crate::document::called;
use crate::panels::ask_board;
use crate::panels::desk::{Ask, Asks};
use crate::theme::widgets::{self, Part};
use crate::theme::{palette, small, text};
use egui::{RichText, Ui};
use replay_engine::watch::Watch;
use trace_core::calls::{Argument, Calls, Value};
use trace_core::recording::{CALL_OF_GRAPH, LaunchRow};

/// Most arguments that are listed, and most addresses of one.
const MOST: usize = 128;

/// Draws it, as the inspector shows it too.
pub fn details(doc: &mut Document, asks: &mut Asks, ui: &mut Ui, launch: u32) {
    let p = palette(ui);
    let Some(calls) = doc.called() else { return };
    let Some(l) = calls.launches().get(launch as usize).copied() else {
        return;
    };
    let Some(row) = called::launch(&doc.recording, l.event) else {
        return;
    };
    ui.spacing_mut().item_spacing.y = 0.0;
    widgets::section(ui, &format!("Launch {}", text::count(u64::from(launch))));
    let name = calls.function_name(l.function);
    let link = widgets::key_link(ui, "kernel", called::short(name));
    if link.on_hover_text(name).clicked() {
        asks.push(Ask::Kernel(l.function));
        asks.command("show-kernel");
    }
    if widgets::key_link(ui, "event", &text::count(l.event)).clicked() {
        doc.go(l.event);
    }
    dimensions(ui, &calls, &row);
    widgets::failed_call(ui, row.result);
    widgets::key_value(ui, "on the host", Part::mono(text::duration(u64::from(row.took))));
    let arguments = calls.arguments(&doc.recording, l.event, &row);
    widgets::section(ui, "Arguments");
    if arguments.is_empty() {
        ui.label(RichText::new("none").font(small()).color(p.quiet));
    }
    for a in arguments.iter().take(MOST) {
        argument(asks, ui, &calls, a);
    }
    if arguments.len() > MOST {
        let more = format!("and {} more", text::count((arguments.len() - MOST) as u64));
        ui.label(RichText::new(more).font(small()).color(p.quiet));
    }
    widgets::section(ui, "Memory");
    if widgets::link(ui, "memory before and after the launch", "before and after").clicked() {
        if let Some((to, _)) = arguments.iter().rev().find_map(writable) {
            asks.memory(Some(0), to, 16);
        }
        asks.push(Ask::BeforeAfter);
        asks.command("show-memory");
    }
    changed(doc, asks, ui, &calls, l.event);
}

/// What the launch changed, as a board saw it; or the offer to ask one.
fn changed(doc: &Document, asks: &mut Asks, ui: &mut Ui, calls: &Calls, event: u64) {
    let p = palette(ui);
    let quiet = |ui: &mut Ui, told: &str| {
        ui.add(egui::Label::new(RichText::new(told).font(small()).color(p.quiet)).wrap());
    };
    if let Some(left) = calls.left_by(event) {
        for l in left.list.iter().take(MOST) {
            let name = called::left_place(calls, l);
            let told = text::bytes(l.bytes);
            let r = widgets::key_link(ui, "changed", &format!("{name}, {told}"));
            let hover = format!(
                "{} of {name} between {:#x} and {:#x} are others behind it, as {} saw",
                text::counted(l.bytes, "byte", "bytes"),
                l.span.start,
                l.span.end,
                called::boards(calls)
            );
            if r.on_hover_text(hover).clicked() {
                asks.memory(Some(0), l.span.start, 16);
                asks.push(Ask::BeforeAfter);
                asks.command("show-memory");
            }
        }
        match left.list.len() {
            0 if left.whole => quiet(ui, "it changed nothing"),
            0 => quiet(ui, "it changed nothing of the memory that was watched"),
            n if n > MOST => quiet(ui, &format!("and {} more buffers", n - MOST)),
            _ => {}
        }
        if left.whole {
            return;
        }
    }
    ui.add_space(4.0);
    ui.horizontal(|ui| {
        let told = "what memory this launch changed";
        ask_board::button(doc, asks, ui, "what it changed", told, || {
            Watch::launch(event, Vec::new())
        });
    });
    ask_board::missed(doc, ui);
}

/// The first address of an argument that may be written through.
fn writable(a: &Argument) -> Option<(u64, trace_core::calls::Place)> {
    match &a.value {
        Value::Pointer { constant: true, .. } => None,
        _ => a.pointers().next(),
    }
}

fn dimensions(ui: &mut Ui, calls: &Calls, row: &LaunchRow) {
    let p = palette(ui);
    let threads = text::count(row.threads());
    widgets::key_value(ui, "grid", Part::mono(called::dims(row.grid)));
    widgets::key_value(ui, "block", Part::mono(called::dims(row.block)));
    widgets::key_value(ui, "threads", Part::mono(threads).colour(p.quiet));
    if row.cluster != [0; 3] {
        widgets::key_value(ui, "cluster", Part::mono(called::dims(row.cluster)));
    }
    if row.shared > 0 {
        let told = format!("{} asked for", text::bytes(u64::from(row.shared)));
        widgets::key_value(ui, "shared", Part::mono(told));
    }
    if row.flags & LaunchRow::COOPERATIVE != 0 {
        widgets::key_value(ui, "cooperative", Part::words("all blocks run at once"));
    }
    widgets::key_value(ui, "stream", Part::words(calls.stream_name(row.stream)));
    if row.flags & CALL_OF_GRAPH != 0 {
        widgets::key_value(ui, "graph", Part::words("a launch of a graph did this"));
    }
}

/// An argument: number and type, then what it says; addresses lead to memory.
fn argument(asks: &mut Asks, ui: &mut Ui, calls: &Calls, a: &Argument) {
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
        } if *to != 0 => {
            let words = match place {
                Some(place) => calls.buffers().place_words(*place),
                None => format!("{to:#x}"),
            };
            let r = widgets::key_link(ui, &key, &words);
            let how = if *constant { "\nread by its signature" } else { "" };
            let r = r.on_hover_text(format!("{hover}\n{to:#x}{how}"));
            widgets::copies(&r, &[("address", format!("{to:#x}")), ("name", words)]);
            if r.clicked() {
                asks.memory(Some(0), *to, 16);
                asks.command("show-memory");
            }
        }
        Value::Bytes(list) => {
            let told = text::counted(a.raw.len() as u64, "byte", "bytes");
            widgets::key_value(ui, &key, Part::mono(told)).on_hover_text(&hover);
            for (at, to, place) in list.iter().take(MOST) {
                let words = calls.buffers().place_words(*place);
                let r = widgets::key_link(ui, &format!("  + {at:#x}"), &words);
                let r = r.on_hover_text(format!(
                    "a word of argument {} that may be an address: {to:#x}",
                    a.index
                ));
                widgets::copies(&r, &[("address", format!("{to:#x}")), ("name", words)]);
                if r.clicked() {
                    asks.memory(Some(0), *to, 16);
                    asks.command("show-memory");
                }
            }
        }
        Value::Missing => {
            widgets::key_value(ui, &key, Part::words("not recorded").colour(p.warning)).on_hover_text(&hover);
        }
        _ => {
            let words = a.words(calls);
            let r = widgets::key_value(ui, &key, Part::mono(&words)).on_hover_text(&hover);
            widgets::copies(&r, &[("value", words)]);
        }
    }
}
